/* recover_test.c - what a log is after a stop that was not clean: torn tails, rot, lost and damaged
 * side files (cases C70, C71, C73, C74). A crash is a close that writes nothing; damage is done to
 * copies of the files. */
#include "fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

static void save(struct fixture *f)
{
    fixture_shell("rm -rf '%s/saved' && cp -r '%s' '%s/saved'", f->root, f->path, f->root);
}

static void restore(struct fixture *f)
{
    fixture_shell("rm -rf '%s' && cp -r '%s/saved' '%s'", f->path, f->root, f->path);
}

static off_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void cut_bytes(const char *path, off_t n)
{
    assert_int_equal(truncate(path, size_of(path) - n), 0);
}

static void add_bytes(const char *path, size_t n, bool zeros)
{
    uint8_t buf[128] = {0};
    for (size_t i = 0; i < n && !zeros; i++) {
        buf[i] = (uint8_t)(i * 37 + n);
    }
    int fd = open(path, O_WRONLY | O_APPEND);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, buf, n), n);
    close(fd);
}

static void flip_bit(const char *path, off_t at)
{
    uint8_t b = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &b, 1, at), 1);
    b ^= 4;
    assert_int_equal(pwrite(fd, &b, 1, at), 1);
    close(fd);
}

static char *file_of(struct fixture *f, const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/t-0/%s", f->path, name);
    return path;
}

#define FIRST_SEGMENT "00000000000000000000.log"

/* What lies in the directory, as a checksum; the lock file and the identity do not change. */
static unsigned long content_of(struct fixture *f)
{
    char command[700], text[64] = "";
    snprintf(command, sizeof command,
             "cd '%s' && find . -type f | sort | xargs md5sum | md5sum | cut -c1-8", f->path);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_non_null(fgets(text, sizeof text, out));
    assert_int_equal(pclose(out), 0);
    return strtoul(text, NULL, 16);
}

/* Tells this process to stop; the signal stays pending until take_stop(). */
static void tell_to_stop(void)
{
    assert_int_equal(kill(getpid(), SIGTERM), 0);
}

static sigset_t hold_stop(void)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &stop, NULL), 0);
    return stop;
}

static void take_stop(const sigset_t *stop)
{
    assert_int_equal(sigtimedwait(stop, NULL, &(struct timespec){0}), SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_UNBLOCK, stop, NULL), 0);
}

static int recovered;

/* The stop comes when the first partition has been recovered. */
static void stop_after_first(void *ctx, enum logger_level level, const char *line)
{
    (void)ctx;
    (void)level;
    if (strstr(line, "recovered: offsets") && recovered++ == 0) { tell_to_stop(); }
}

static int64_t wall_ms(void *ctx)
{
    (void)ctx;
    return NOW_MS;
}

static void test_a_start_that_is_told_to_stop_leaves_all_to_the_next(void **state)
{
    struct fixture *f = *state;
    struct logger logger = {.write = stop_after_first, .wall_ms = wall_ms};
    struct logdir *dir = NULL;
    f->options.recovery_threads = 1;
    fixture_open(f);
    for (int t = 0; t < 3; t++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", t);
        f->topic_id.b[0] = (uint8_t)t;
        struct log *log = fixture_create(f, name);
        fixture_fill(f, log, 40 + t);
        log_unref(log);
    }
    fixture_close(f, false);
    fixture_shell("rm '%s/synced-marks'", f->path); /* all must be scanned */
    unsigned long before = content_of(f);
    sigset_t stop = hold_stop();
    for (int early = 0; early < 2; early++) {
        recovered = 0;
        f->options.path = f->path;
        f->options.logger = early ? NULL : &logger;
        if (early) { tell_to_stop(); }
        assert_int_equal(logdir_open(f->sys, &f->options, &dir), ERR_STOPPED);
        assert_null(dir);
        assert_int_equal(recovered, early ? 0 : 1);
        assert_true(content_of(f) == before);
        if (!early) { assert_int_equal(sigtimedwait(&stop, NULL, &(struct timespec){0}), SIGTERM); }
    }
    take_stop(&stop);
    fixture_open(f);
    assert_int_equal(f->dir->stats.logs_scanned_count, 3);
    for (int t = 0; t < 3; t++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", t);
        struct log *log = fixture_find(f, name);
        assert_int_equal(fixture_read_all(log, 1000), 40 + t);
        log_unref(log);
    }
}

/* One large partition must not hold up a stop until its end. */
static void test_the_scan_of_one_log_is_broken_off(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 40);
    struct log_recovery r = {.from = {.base = -1, .epoch = -1}, .is_ours = true};
    r.mark = r.from;
    sigset_t stop = hold_stop();
    tell_to_stop();
    log_lock(log);
    log_files_begin(log);
    r.may_stop = true;
    assert_int_equal(log_recover(log, &r), ERR_STOPPED);
    assert_false(logdir_is_offline(f->dir));
    r.may_stop = false; /* while running nothing is broken off */
    assert_int_equal(log_recover(log, &r), ERR_OK);
    log_files_end(log);
    log_unlock(log);
    take_stop(&stop);
    log_unref(log);
}

/* C71: bytes cut off the end. */
static void test_a_cut_tail_ends_at_the_last_whole_batch(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    int64_t ends[41] = {0};
    for (int i = 0; i < 40; i++) {
        fixture_append(f, log, (struct fixture_batch){.value_size = (size_t)(i % 9)});
        ends[i + 1] = (int64_t)log->segments[0].size;
    }
    log_unref(log);
    fixture_close(f, false);
    save(f);
    for (off_t n = 1; n <= 80; n++) {
        restore(f);
        cut_bytes(file_of(f, FIRST_SEGMENT), n);
        int64_t left = (int64_t)size_of(file_of(f, FIRST_SEGMENT)), want = 40;
        while (ends[want] > left) {
            want--;
        }
        fixture_open(f);
        log = fixture_find(f, "t");
        assert_int_equal(log_leo(log), want);
        assert_int_equal(fixture_read_all(log, 200), want);
        assert_int_equal(log_rot_count(log), 0);
        assert_int_equal(fixture_append(f, log, (struct fixture_batch){0}).first_offset, want);
        log_unref(log);
        fixture_close(f, n % 2);
        fixture_open(f);
        log = fixture_find(f, "t");
        assert_int_equal(fixture_read_all(log, 200), want + 1);
        log_unref(log);
        fixture_close(f, false);
    }
}

/* C71: garbage behind the end. */
static void test_bytes_behind_the_last_batch_are_cut(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 30);
    log_unref(log);
    fixture_close(f, false);
    save(f);
    for (size_t n = 1; n <= 80; n++) {
        for (int zeros = 0; zeros < 2; zeros++) {
            restore(f);
            off_t before = size_of(file_of(f, FIRST_SEGMENT));
            add_bytes(file_of(f, FIRST_SEGMENT), n, zeros);
            fixture_open(f);
            log = fixture_find(f, "t");
            assert_int_equal(log_leo(log), 30);
            assert_int_equal(fixture_read_all(log, 200), 30);
            assert_int_equal(size_of(file_of(f, FIRST_SEGMENT)), before);
            struct log_time_offset t;
            assert_int_equal(log_offset_of_max_time(log, &t), ERR_OK);
            assert_int_equal(t.offset, 0);
            log_unref(log);
            fixture_close(f, false);
        }
    }
}

/* C71: a checkpoint beyond the end, an empty segment, no marks at all. */
static void test_odd_checkpoints_and_segments_do_not_stop_the_start(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 3000;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 60);
    log_unref(log);
    fixture_close(f, false);
    save(f);
    static const char *const damage[] = {
        "rm -f '%s/synced-marks'; printf '0\\n1\\nt 0 9999\\n' > '%s/" LOGDIR_RECOVERY_POINTS "'",
        "rm -f '%s/synced-marks'; printf '0\\n1\\nt 0 -5\\n' > '%s/" LOGDIR_RECOVERY_POINTS "'",
        "rm -f '%s/synced-marks' '%s/" LOGDIR_RECOVERY_POINTS "'",
        "head -c 100 /dev/urandom > '%s/synced-marks'; : > '%s/" LOGDIR_RECOVERY_POINTS "'",
        ": > '%s/synced-marks'; : > '%s/t-0/00000000000000000060.log'",
        "rm -f '%s/t-0/'*.index '%s/t-0/'*.timeindex",
        "for x in '%s/t-0/'*index; do head -c 50 /dev/urandom > $x; done; : '%s'",
    };
    for (size_t i = 0; i < COUNT_OF(damage); i++) {
        restore(f);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        fixture_shell(damage[i], f->path, f->path);
#pragma GCC diagnostic pop
        fixture_open(f);
        log = fixture_find(f, "t");
        assert_int_equal(log_leo(log), 60);
        assert_int_equal(fixture_read_all(log, 500), 60);
        assert_int_equal(fixture_append(f, log, (struct fixture_batch){0}).first_offset, 60);
        log_unref(log);
        fixture_close(f, false);
    }
}

/* A batch lost in the middle: everything else stays readable, nothing is cut. */
static void expect_one_lost_batch(struct fixture *f, int64_t lost, int64_t end)
{
    struct log *log = fixture_find(f, "t");
    assert_int_equal(log_leo(log), end);
    int64_t good = 0;
    for (int64_t at = 0; at < end; at++) {
        struct log_slice s;
        enum err e = fixture_read_at(log, at, 1, true, &s);
        if (at == lost && e == ERR_CORRUPT) { continue; }
        assert_int_equal(e, ERR_OK);
        assert_int_equal(s.offset_first, at);
        uint8_t *bytes = fixture_slice_bytes(&s);
        e = batch_check_crc(slice_of(bytes, s.size));
        assert_true(e == ERR_OK || at == lost);
        good += e == ERR_OK;
        free(bytes);
        log_slice_release(&s);
    }
    assert_int_equal(good, end - 1);
    assert_int_equal(fixture_append(f, log, (struct fixture_batch){0}).first_offset, end);
    log_unref(log);
}

/* C70 (a) and (b): one bit, anywhere in one batch, in a closed or in the active segment. */
static void test_one_flipped_bit_costs_one_batch(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 3000;
    for (int clean = 0; clean < 2; clean++) {
        fixture_open(f);
        struct log *log = fixture_create(f, "t");
        fixture_fill(f, log, 40);
        assert_true(log->segments_count == 3);
        int64_t active = log->segments[2].base;
        uint64_t size = log->segments[0].size / (uint64_t)(log->segments[0].end);
        assert_int_equal(logdir_flush(f->dir), ERR_OK);
        assert_int_equal(marks_write(&f->dir->marks), ERR_OK);
        log_unref(log);
        fixture_close(f, clean);
        save(f);
        for (uint64_t at = 0; at < size; at += 3) {
            if (at >= 12 && at < 16) { continue; } /* the epoch: not covered by anything */
            restore(f);
            flip_bit(file_of(f, FIRST_SEGMENT), (off_t)(5 * size + at));
            fixture_open(f);
            expect_one_lost_batch(f, 5, 40);
            fixture_close(f, false);
            restore(f);
            char name[64];
            snprintf(name, sizeof name, "%020lld.log", (long long)active);
            off_t last = (off_t)((uint64_t)(39 - active) * size);
            flip_bit(file_of(f, name), last + (off_t)at);
            fixture_open(f);
            expect_one_lost_batch(f, 39, 40);
            fixture_close(f, false);
        }
        fixture_shell("rm -rf '%s'", f->path);
    }
}

/* Rot between the recovery point and the synced mark is found by the scan, kept and stepped over.
 */
static void test_rot_below_the_mark_is_kept_and_noted(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 20);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    assert_int_equal(marks_write(&f->dir->marks), ERR_OK);
    uint64_t size = log->segments[0].size / 20;
    fixture_append(f, log, (struct fixture_batch){.value_size = 100});
    log_unref(log);
    fixture_close(f, false);
    off_t whole = size_of(file_of(f, FIRST_SEGMENT));
    flip_bit(file_of(f, FIRST_SEGMENT), (off_t)(7 * size + 90));
    flip_bit(file_of(f, FIRST_SEGMENT), (off_t)(19 * size + 90));
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(log_leo(log), 21);
    assert_int_equal(log_rot_count(log), 2);
    assert_true(size_of(file_of(f, FIRST_SEGMENT)) >= whole);
    struct log_slice s;
    assert_int_equal(fixture_read_at(log, 7, 1000, true, &s), ERR_CORRUPT);
    assert_int_equal(fixture_read_at(log, 19, 1000, true, &s), ERR_CORRUPT);
    assert_int_equal(fixture_read_at(log, 0, 1 << 20, true, &s), ERR_OK);
    assert_int_equal(s.offset_next, 7);
    log_slice_release(&s);
    assert_int_equal(fixture_read_at(log, 8, 1 << 20, true, &s), ERR_OK);
    assert_int_equal(s.offset_next, 19);
    log_slice_release(&s);
    assert_int_equal(fixture_read_at(log, 20, 1 << 20, true, &s), ERR_OK);
    assert_int_equal(s.offset_next, 21);
    log_slice_release(&s);
    /* The word of it survives a clean stop. */
    log_unref(log);
    fixture_close(f, true);
    fixture_open(f);
    assert_true(f->dir->stats.was_clean);
    log = fixture_find(f, "t");
    assert_int_equal(fixture_read_at(log, 7, 1000, true, &s), ERR_CORRUPT);
    assert_int_equal(log_leo(log), 21);
    log_unref(log);
}

/* Behind the mark the same damage is a torn tail. */
static void test_damage_behind_the_mark_is_cut(void **state)
{
    struct fixture *f = *state;
    f->options.flush_policy = LOG_FLUSH_OS;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 20);
    uint64_t size = log->segments[0].size / 20;
    log_unref(log);
    fixture_close(f, false);
    flip_bit(file_of(f, FIRST_SEGMENT), (off_t)(15 * size + 90));
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(log_leo(log), 15);
    assert_int_equal(fixture_read_all(log, 1000), 15);
    log_unref(log);
}

/* C73 */
static void test_producer_state_survives_whatever_befalls_its_snapshots(void **state)
{
    struct fixture *f = *state;
    static const char *const damage[] = {
        ": '%s'",
        "for x in '%s'/t-0/*.snapshot; do : > $x; done",
        "for x in '%s'/t-0/*.snapshot; do head -c 200 /dev/urandom > $x; done",
        "rm -f '%s'/t-0/*.snapshot",
    };
    f->options.config.segment_bytes = 4000;
    for (int clean = 0; clean < 2; clean++) {
        fixture_open(f);
        struct log *log = fixture_create(f, "t");
        for (int i = 0; i < 100; i++) {
            fixture_append(
                f, log, (struct fixture_batch){.producer_id = 77, .sequence = i, .value_size = 50});
        }
        assert_true(log->segments_count > 2);
        log_unref(log);
        fixture_close(f, clean);
        save(f);
        for (size_t i = 0; i < COUNT_OF(damage); i++) {
            restore(f);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            fixture_shell(damage[i], f->path);
#pragma GCC diagnostic pop
            fixture_open(f);
            log = fixture_find(f, "t");
            struct fixture_batch b = {.producer_id = 77, .sequence = 99, .value_size = 50};
            struct log_append_result r = fixture_append(f, log, b);
            assert_true(r.is_duplicate);
            assert_int_equal(r.first_offset, 99);
            b.sequence = 100;
            r = fixture_append(f, log, b);
            assert_false(r.is_duplicate);
            assert_int_equal(r.first_offset, 100);
            log_unref(log);
            fixture_close(f, false);
        }
        fixture_shell("rm -rf '%s'", f->path);
    }
}

static void append_sequences(struct fixture *f, int from, int to)
{
    struct log *log = fixture_find(f, "t");
    for (int i = from; i < to; i++) {
        fixture_append(f, log,
                       (struct fixture_batch){.producer_id = 77, .sequence = i, .value_size = 50});
    }
    log_unref(log);
}

/* A stop leaves a snapshot in the middle of what is a closed segment later. A power cut may have
 * taken the names of those that came after it, so that it is the newest. */
static void test_a_snapshot_in_the_middle_of_a_closed_segment_is_of_use(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 4000;
    f->options.config.index_interval_bytes = 200; /* there is an entry before the snapshot */
    fixture_open(f);
    log_unref(fixture_create(f, "t"));
    append_sequences(f, 0, 20);
    fixture_close(f, true);
    fixture_shell("cp '%s'/t-0/*20.snapshot '%s/kept'", f->path, f->root);
    fixture_open(f);
    append_sequences(f, 20, 100);
    fixture_close(f, true);
    fixture_shell("rm '%s'/t-0/*.snapshot && cp '%s/kept' '%s/t-0/00000000000000000020.snapshot'",
                  f->path, f->root, f->path);
    fixture_open(f);
    struct log *log = fixture_find(f, "t");
    assert_true(log->segments_count > 2 && log->segments[0].end > 20);
    struct fixture_batch b = {.producer_id = 77, .sequence = 99, .value_size = 50};
    struct log_append_result r = fixture_append(f, log, b);
    assert_true(r.is_duplicate);
    assert_int_equal(r.first_offset, 99);
    b.sequence = 100;
    assert_int_equal(fixture_append(f, log, b).first_offset, 100);
    log_unref(log);
}

/* The bytes a snapshot speaks of are lost: what is written in their place has other producers. */
static void test_a_snapshot_of_lost_records_is_dropped(void **state)
{
    struct fixture *f = *state;
    f->options.flush_policy = LOG_FLUSH_OS;
    for (int whole = 0; whole < 2; whole++) { /* the tail ends in half a batch, or it does not */
        fixture_open(f);
        log_unref(fixture_create(f, "t"));
        append_sequences(f, 0, 100);
        fixture_close(f, true);
        fixture_shell("cp '%s'/t-0/*100.snapshot '%s/kept'", f->path, f->root);
        fixture_shell("rm -r '%s'", f->path);
        fixture_open(f);
        log_unref(fixture_create(f, "t"));
        append_sequences(f, 0, 100);
        fixture_close(f, false);
        fixture_shell("cp '%s/kept' '%s/t-0/00000000000000000100.snapshot'", f->root, f->path);
        off_t size = size_of(file_of(f, FIRST_SEGMENT)) / 100;
        assert_int_equal(truncate(file_of(f, FIRST_SEGMENT), 80 * size + (whole ? 0 : size / 2)),
                         0);
        fixture_open(f);
        struct log *log = fixture_find(f, "t");
        assert_int_equal(log_leo(log), 80);
        /* Of somebody else, and more than is read again before a snapshot. */
        for (int i = 0; i < 30; i++) {
            fixture_append(f, log, (struct fixture_batch){.value_size = 30000});
        }
        log_unref(log);
        fixture_close(f, false);
        fixture_open(f);
        log = fixture_find(f, "t");
        struct fixture_batch b = {.producer_id = 77, .sequence = 80, .value_size = 50};
        struct log_append_result r = fixture_append(f, log, b);
        assert_false(r.is_duplicate);
        assert_int_equal(r.first_offset, 110);
        log_unref(log);
        fixture_close(f, false);
        fixture_shell("rm -r '%s'", f->path);
    }
}

/* C74 */
static void test_epochs_are_rebuilt_from_the_batches(void **state)
{
    struct fixture *f = *state;
    static const char *const damage[] = {
        ": '%s'",
        ": > '%s/t-0/leader-epoch-checkpoint'",
        "truncate -s 9 '%s/t-0/leader-epoch-checkpoint'",
        "head -c 90 /dev/urandom > '%s/t-0/leader-epoch-checkpoint'",
        "rm '%s/t-0/leader-epoch-checkpoint'",
        "printf '0\\n1\\n0 0\\n' > '%s/t-0/leader-epoch-checkpoint'", /* an old one */
    };
    f->options.config.segment_bytes = 3000;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    for (int i = 0; i < 90; i++) {
        fixture_append(f, log,
                       (struct fixture_batch){.leader_epoch = i / 20 * 3, .value_size = 60});
    }
    log_unref(log);
    fixture_close(f, false);
    save(f);
    for (size_t i = 0; i < COUNT_OF(damage); i++) {
        restore(f);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        fixture_shell(damage[i], f->path, f->path);
#pragma GCC diagnostic pop
        fixture_open(f);
        log = fixture_find(f, "t");
        for (int e = 0; e <= 12; e++) {
            int32_t epoch = -2;
            int64_t end = -2;
            struct log_epoch_args args = {.epoch = e, .may_block = true};
            assert_int_equal(log_epoch_end_offset(log, &args, &epoch, &end), ERR_OK);
            assert_int_equal(epoch, e / 3 * 3);
            assert_int_equal(end, e / 3 * 20 + 20 > 90 ? 90 : e / 3 * 20 + 20);
        }
        log_unref(log);
        fixture_close(f, false);
    }
}

/* C70 (c): side files of the directory. */
static void test_a_damaged_side_file_never_costs_data(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 3000;
    static const char *const files[] = {LOGDIR_MARKS,           LOGDIR_MANIFEST,
                                        LOGDIR_STARTS,          LOGDIR_HIGH_WATERMARKS,
                                        LOGDIR_RECOVERY_POINTS, LOGDIR_MARKER};
    for (int clean = 0; clean < 2; clean++) {
        fixture_open(f);
        struct log *log = fixture_create(f, "t");
        fixture_fill(f, log, 60);
        log_set_hw(log, 60);
        assert_int_equal(logdir_checkpoint(f->dir, false), ERR_OK);
        log_unref(log);
        fixture_close(f, clean);
        save(f);
        for (size_t i = 0; i < COUNT_OF(files); i++) {
            char path[600];
            snprintf(path, sizeof path, "%s/%s", f->path, files[i]);
            if (access(path, F_OK) != 0) { continue; }
            off_t size = size_of(path), step = size > 400 ? size / 400 : 1;
            for (off_t at = 0; at < size; at += step * 7) {
                restore(f);
                flip_bit(path, at);
                fixture_open(f);
                log = fixture_find(f, "t");
                assert_int_equal(log_leo(log), 60);
                assert_int_equal(fixture_read_all(log, 10000) + log_start_offset(log), 60);
                log_unref(log);
                fixture_close(f, false);
            }
        }
        fixture_shell("rm -rf '%s'", f->path);
    }
}

static void put_u32(uint8_t *at, uint64_t v)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(v >> (24 - 8 * i));
    }
}

/* A batch at offset 1 whose only value is a whole batch, also said to be of offset 1. */
static void append_nested(struct fixture *f, struct log *log)
{
    struct batch_build_record r = {.timestamp = NOW_MS, .value = SLICE_LIT("inner")};
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    f->recompressed.size = f->batch.size = 0;
    assert_int_equal(batch_build(&o, &r, 1, NULL, &f->recompressed), ERR_OK);
    f->recompressed.at[7] = 1;
    r.value = wire_buf_slice(&f->recompressed);
    assert_int_equal(batch_build(&o, &r, 1, NULL, &f->batch), ERR_OK);
    struct log_append_args a = {.records = {f->batch.at, f->batch.size},
                                .now_ms = NOW_MS,
                                .zstd_allowed = true,
                                .may_block = true,
                                .scratch = f->scratch,
                                .recompressed = &f->recompressed};
    struct log_append_result result;
    assert_int_equal(fixture_append_one(log, &a, &result), ERR_OK);
    assert_int_equal(result.first_offset, 1);
}

/* Entries of an index that was there before the crash point into a value and, the last one, at a
 * batch. Only what recovery did not read again may be believed. */
static void test_recovery_drops_index_entries_of_what_it_checks(void **state)
{
    struct fixture *f = *state;
    f->options.flush_policy = LOG_FLUSH_OS;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 1);
    uint64_t plain = log->segments[0].size;
    append_nested(f, log);
    uint64_t nested = log->segments[0].size - plain;
    fixture_fill(f, log, LOG_RING_COUNT * 3);
    log_unref(log);
    fixture_close(f, false);

    uint8_t entries[16];
    put_u32(entries, 1);
    put_u32(entries + 8, 2);
    put_u32(entries + 12, plain + nested);
    uint64_t inner = 0;
    FILE *data = fopen(file_of(f, FIRST_SEGMENT), "rb");
    assert_non_null(data);
    for (uint64_t pos = plain + BATCH_HEADER_SIZE; !inner && pos < plain + nested; pos++) {
        uint8_t head[BATCH_HEADER_SIZE];
        struct batch_header h;
        assert_int_equal(fseek(data, (long)pos, SEEK_SET), 0);
        assert_int_equal(fread(head, sizeof head, 1, data), 1);
        if (batch_peek(slice_of(head, sizeof head), &h) == ERR_OK && h.base_offset == 1) {
            inner = pos;
        }
    }
    fclose(data);
    assert_true(inner > 0);
    put_u32(entries + 4, inner);
    FILE *index = fopen(file_of(f, "00000000000000000000.index"), "wb");
    assert_non_null(index);
    assert_int_equal(fwrite(entries, sizeof entries, 1, index), 1);
    fclose(index);

    fixture_open(f);
    log = fixture_find(f, "t");
    struct log_slice s;
    assert_int_equal(fixture_read_at(log, 1, nested, true, &s), ERR_OK);
    assert_int_equal(s.pos, plain);
    assert_int_equal(s.size, nested);
    log_slice_release(&s);
    assert_int_equal(fixture_read_all(log, 1000), LOG_RING_COUNT * 3);
    log_unref(log);
}

/* What was truncated does not come back as "synced". */
static void test_a_truncation_lowers_the_mark(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 50);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    assert_int_equal(log_truncate_to(log, 20), ERR_OK);
    uint64_t size = log->segments[0].size;
    log_unref(log);
    fixture_close(f, false);
    struct map marks;
    assert_int_equal(marks_read(f->sys, f->path, &marks), ERR_OK);
    const struct mark_state *s = marks_state(&marks, f->topic_id, 0);
    assert_non_null(s);
    assert_int_equal(s->mark.offset, 20);
    assert_int_equal(s->mark.pos, size);
    marks_states_fini(&marks);
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(log_leo(log), 20);
    assert_int_equal(log_rot_count(log), 0);
    fixture_fill(f, log, 25);
    assert_int_equal(fixture_read_all(log, 1000), 25);
    log_unref(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        T(test_a_start_that_is_told_to_stop_leaves_all_to_the_next),
        T(test_the_scan_of_one_log_is_broken_off),
        T(test_a_cut_tail_ends_at_the_last_whole_batch),
        T(test_bytes_behind_the_last_batch_are_cut),
        T(test_odd_checkpoints_and_segments_do_not_stop_the_start),
        T(test_one_flipped_bit_costs_one_batch),
        T(test_rot_below_the_mark_is_kept_and_noted),
        T(test_damage_behind_the_mark_is_cut),
        T(test_producer_state_survives_whatever_befalls_its_snapshots),
        T(test_a_snapshot_in_the_middle_of_a_closed_segment_is_of_use),
        T(test_a_snapshot_of_lost_records_is_dropped),
        T(test_epochs_are_rebuilt_from_the_batches),
        T(test_a_damaged_side_file_never_costs_data),
        T(test_recovery_drops_index_entries_of_what_it_checks),
        T(test_a_truncation_lowers_the_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
