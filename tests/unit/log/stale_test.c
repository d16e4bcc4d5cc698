/* stale_test.c - what is on the disk and speaks of something that is gone: of a deleted topic of
 * the same name, of a write that was taken back, of a segment that was cut. None of it is believed
 * later. */
#include "fixture.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define FIRST_SEGMENT "00000000000000000000"

static void limit_files(rlim_t size)
{
    struct rlimit l;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* Checkpoints know names only. */
static void test_a_new_log_does_not_begin_where_a_deleted_one_of_its_name_did(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 20);
    log_set_hw(log, 20);
    assert_int_equal(log_set_start(log, 10), ERR_OK);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    assert_int_equal(logdir_checkpoint(f->dir, true), ERR_OK);
    assert_int_equal(logdir_delete_log(f->dir, log), ERR_OK);
    log_unref(log);
    f->topic_id.b[0] ^= 1;
    log = fixture_create(f, "t");
    fixture_fill(f, log, 15);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    log_unref(log);
    fixture_close(f, false);
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(log_start_offset(log), 0);
    assert_int_equal(log_hw(log), 0);
    assert_int_equal(fixture_read_all(log, 1000), 15);
    /* A start of its own it keeps, though marks were folded since. */
    log_set_hw(log, 15);
    assert_int_equal(log_set_start(log, 5), ERR_OK);
    for (int folds = 0; folds < 2; folds++) {
        log_unref(log);
        fixture_close(f, false);
        fixture_open(f);
        log = fixture_find(f, "t");
        assert_int_equal(log_start_offset(log), 5);
    }
    log_unref(log);
}

/* A log of 50 records whose first segments retention took. */
static struct log *create_trimmed(struct fixture *f)
{
    f->options.config.segment_bytes = 1500;
    f->options.config.retention_bytes = 3000;
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 50);
    log_set_hw(log, 50);
    size_t deleted = 0;
    assert_int_equal(log_retention_step(log, NOW_MS, &deleted), ERR_OK);
    assert_true(log_start_offset(log) > 0);
    return log;
}

/* Its mark is damaged, and so is taken for never written. */
static void test_a_log_without_a_mark_may_begin_where_its_checkpoint_says(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = create_trimmed(f);
    int64_t start = log_start_offset(log);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    assert_int_equal(logdir_checkpoint(f->dir, true), ERR_OK);
    log_unref(log);
    fixture_close(f, false);
    fixture_shell("head -c 64 '%s/synced-marks' >'%s/m' && mv '%s/m' '%s/synced-marks'", f->path,
                  f->root, f->root, f->path);
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(log_start_offset(log), start);
    assert_int_equal(fixture_read_all(log, 1000), 50 - start);
    log_unref(log);
}

static void test_a_roll_after_a_failed_append_writes_no_word_of_it(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    for (int i = 0; i < 20; i++) {
        fixture_append(f, log, (struct fixture_batch){.producer_id = 3, .sequence = i});
    }
    for (int i = 0; i < 30; i++) { /* more than is read again before a snapshot */
        fixture_append(f, log, (struct fixture_batch){.value_size = 30000});
    }
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    limit_files(log->segments[0].size + 100);
    struct fixture_batch b = {
        .producer_id = 3, .sequence = 20, .value_size = 2000, .expect_error = true};
    assert_int_equal(fixture_append(f, log, b).err, ERR_NOSPACE);
    limit_files(RLIM_INFINITY);
    assert_int_equal(log_roll(log, NOW_MS), ERR_OK);
    log_unref(log);
    fixture_close(f, false);
    fixture_open(f);
    log = fixture_find(f, "t");
    b.expect_error = false;
    struct log_append_result r = fixture_append(f, log, b);
    assert_false(r.is_duplicate);
    assert_int_equal(r.first_offset, 50);
    log_unref(log);
}

/* Lays the segments of log s from base on into the directory of log t, behind a clean stop. */
static void lay_in(struct fixture *f, int64_t from)
{
    f->options.config.segment_bytes = 3000;
    fixture_open(f);
    log_unref(fixture_create(f, "t"));
    f->topic_id.b[0] ^= 1;
    struct log *log = fixture_create(f, "s");
    fixture_fill(f, log, 60);
    log_unref(log);
    fixture_close(f, true);
    for (uint32_t i = 0; i < 60; i++) {
        fixture_shell("cd '%s' && if [ %u -ge %lld ] && [ -e s-0/%020u.log ]; "
                      "then cp s-0/%020u.log t-0; fi",
                      f->path, i, (long long)from, i, i);
    }
}

static void test_files_that_were_laid_in_are_not_written_over(void **state)
{
    struct fixture *f = *state;
    for (int64_t from = 0; from < 2; from++) {
        lay_in(f, from);
        for (int round = 0; round < 2; round++) {
            fixture_open(f);
            struct log *log = fixture_find(f, "t");
            struct log_append_result r = fixture_append(f, log, (struct fixture_batch){0});
            assert_int_equal(r.first_offset, 60 + round);
            assert_int_equal(fixture_read_all(log, 1000) + log_start_offset(log), 61 + round);
            assert_true(from ? log_start_offset(log) > 0 : log_start_offset(log) == 0);
            log_unref(log);
            fixture_close(f, false);
        }
        fixture_shell("rm -r '%s'", f->path);
    }
}

static void cut_bytes(struct fixture *f, uint64_t size)
{
    fixture_shell("truncate -s %llu '%s/t-0/" FIRST_SEGMENT ".log'", (unsigned long long)size,
                  f->path);
}

static void flip_byte(struct fixture *f, uint64_t at)
{
    char path[600];
    snprintf(path, sizeof path, "%s/t-0/" FIRST_SEGMENT ".log", f->path);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 0x55, file), byte ^ 0x55);
    fclose(file);
}

/* The mark of the clean stop would lead the next recovery into the middle of a batch. */
static void test_a_log_that_lost_its_end_behind_a_clean_stop_lowers_its_mark(void **state)
{
    struct fixture *f = *state;
    f->options.flush_policy = LOG_FLUSH_OS;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 20);
    uint64_t size = log->segments[0].size / 20;
    log_unref(log);
    fixture_close(f, true);
    cut_bytes(f, 18 * size);
    fixture_open(f);
    log = fixture_find(f, "t");
    fixture_append(f, log, (struct fixture_batch){.value_size = 1000});
    assert_int_equal(log_leo(log), 19);
    fixture_fill(f, log, 30);
    log_unref(log);
    fixture_close(f, false);
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(log_leo(log), 30);
    assert_int_equal(fixture_read_all(log, 1000), 30);
    log_unref(log);
}

static void test_rot_of_bytes_that_are_gone_is_forgotten(void **state)
{
    struct fixture *f = *state;
    struct log_slice s;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 20);
    uint64_t size = log->segments[0].size / 20;
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    log_unref(log);
    fixture_close(f, true);
    flip_byte(f, 15 * size + 6);
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(fixture_read_at(log, 15, 1000, true, &s), ERR_CORRUPT);
    log_unref(log);
    fixture_close(f, true);
    cut_bytes(f, 10 * size);
    fixture_open(f);
    log = fixture_find(f, "t");
    fixture_append(f, log, (struct fixture_batch){0});
    assert_int_equal(log_leo(log), 11);
    fixture_fill(f, log, 30);
    assert_int_equal(fixture_read_all(log, 1000), 30);
    log_unref(log);
}

static void test_a_log_without_files_goes_on_at_its_start(void **state)
{
    struct fixture *f = *state;
    for (int clean = 0; clean < 2; clean++) {
        fixture_open(f);
        struct log *log = fixture_create(f, "t");
        fixture_fill(f, log, 20);
        log_set_hw(log, 20);
        assert_int_equal(log_set_start(log, 12), ERR_OK);
        assert_int_equal(logdir_flush(f->dir), ERR_OK);
        log_unref(log);
        fixture_close(f, clean);
        fixture_shell("rm '%s/t-0/" FIRST_SEGMENT "'*", f->path);
        fixture_open(f);
        log = fixture_find(f, "t");
        assert_int_equal(fixture_append(f, log, (struct fixture_batch){0}).first_offset, 12);
        assert_int_equal(fixture_read_all(log, 1000), 1);
        log_unref(log);
        fixture_close(f, false);
        fixture_shell("rm -r '%s'", f->path);
    }
}

/* A recovery point has no position. What is synced stays so in the marks that are made of it. */
static void test_an_adopted_log_is_not_taken_for_unsynced_after_its_first_start(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 3000;
    for (int point = 30; point <= 40; point += 10) {
        fixture_open(f);
        struct log *log = fixture_create(f, "t");
        fixture_fill(f, log, 40);
        uint64_t size = log->segments[0].size / (uint64_t)log->segments[0].end;
        assert_true(log->segments[0].end > 5 && log->segments[0].end < 30);
        log_unref(log);
        fixture_close(f, false);
        fixture_shell("rm '%s/synced-marks' && printf '0\n1\nt 0 %d\n' "
                      ">'%s/" LOGDIR_RECOVERY_POINTS "'",
                      f->path, point, f->path);
        fixture_open(f);
        fixture_close(f, false);
        /* No flush came after the first fold. */
        fixture_shell("truncate -s %u '%s/synced-marks'", 2 * MARKS_ENTRY_SIZE, f->path);
        flip_byte(f, 5 * size + 90);
        fixture_open(f);
        assert_int_equal(f->dir->stats.logs_scanned_count, point < 40); /* the end is known */
        log = fixture_find(f, "t");
        assert_int_equal(log_leo(log), 40);
        struct log_slice s;
        assert_int_equal(fixture_read_at(log, 6, 1 << 20, true, &s), ERR_OK);
        log_slice_release(&s);
        log_unref(log);
        fixture_close(f, false);
        fixture_shell("rm -r '%s'", f->path);
    }
}

/* Whether a side file of segment 40 is there. */
static bool has_file(struct fixture *f, const char *suffix)
{
    char path[600];
    struct stat st;
    snprintf(path, sizeof path, "%s/t-0/00000000000000000040%s", f->path, suffix);
    return stat(path, &st) == 0;
}

static void test_a_new_segment_has_no_index_of_one_before(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 40);
    fixture_shell("cd '%s/t-0' && echo 12345678 >00000000000000000040.index && "
                  "echo 123456789012 >00000000000000000040.timeindex",
                  f->path);
    assert_int_equal(log_roll(log, NOW_MS), ERR_OK);
    assert_true(has_file(f, ".log"));
    assert_false(has_file(f, ".index"));
    assert_false(has_file(f, ".timeindex"));
    /* Removal that is broken off leaves no index without its segment. */
    fixture_append(f, log, (struct fixture_batch){0});
    fixture_shell("mkdir -p '%s/t-0/00000000000000000040.timeindex/x'", f->path);
    assert_int_not_equal(log_truncate_to(log, 20), ERR_OK);
    assert_true(has_file(f, ".log"));
    log_unref(log);
}

static void fill_times(struct fixture *f, struct log *log, int64_t end, int64_t time)
{
    while (log_leo(log) < end) {
        fixture_append(f, log,
                       (struct fixture_batch){.value_size = 100, .time = time + log_leo(log)});
    }
}

static int64_t max_time(struct log *log)
{
    struct log_time_offset t;
    assert_int_equal(log_offset_of_max_time(log, &t), ERR_OK);
    return t.timestamp;
}

/* It was written when the segment had more bytes, and those are lost. Nothing was scanned since. */
static void test_an_index_of_lost_bytes_is_not_believed_of_others(void **state)
{
    struct fixture *f = *state;
    f->options.config.index_interval_bytes = 200;
    for (int second = 0; second < 2; second++) {
        fixture_open(f);
        struct log *log = fixture_create(f, "t");
        fill_times(f, log, 30, NOW_MS);
        if (!second) { fill_times(f, log, 60, NOW_MS + 1000); }
        assert_int_equal(logdir_flush(f->dir), ERR_OK);
        assert_int_equal(logdir_checkpoint(f->dir, true), ERR_OK);
        log_unref(log);
        fixture_close(f, !second);
        if (second) { break; }
        fixture_shell("cp '%s/t-0/'*index '%s' && rm -r '%s'", f->path, f->root, f->path);
    }
    fixture_shell("cp '%s/'*index '%s/t-0'", f->root, f->path);
    for (int64_t end = 60; end <= 70; end += 10) {
        fixture_open(f);
        assert_int_equal(f->dir->stats.logs_scanned_count, 0);
        struct log *log = fixture_find(f, "t");
        fill_times(f, log, end, NOW_MS);
        assert_int_equal(max_time(log), NOW_MS + end - 1);
        assert_int_equal(logdir_flush(f->dir), ERR_OK);
        assert_int_equal(logdir_checkpoint(f->dir, true), ERR_OK);
        log_unref(log);
        fixture_close(f, false);
    }
}

static void test_a_full_disk_does_not_stop_a_start_that_rebuilds_indexes(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 3000;
    f->options.config.index_interval_bytes = 200;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 60);
    log_unref(log);
    fixture_close(f, false);
    fixture_shell("head -c 64 '%s/synced-marks' >'%s/m' && mv '%s/m' '%s/synced-marks'", f->path,
                  f->root, f->root, f->path);
    limit_files(16);
    fixture_open(f);
    limit_files(RLIM_INFINITY);
    log = fixture_find(f, "t");
    fixture_shell("test ! -e '%s/t-0/" FIRST_SEGMENT ".index'", f->path);
    assert_int_equal(fixture_read_all(log, 1000), 60);
    log_unref(log);
}

static void flip_batch(struct fixture *f, uint64_t size, uint64_t i)
{
    flip_byte(f, i * size + 90);
    flip_byte(f, i * size + 6); /* in its offset: its header is no use either */
}

/* Rot that reaches over the place of the cut goes with it. */
static void test_a_truncation_forgets_rot_that_it_cuts(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 20);
    uint64_t size = log->segments[0].size / 20;
    flip_batch(f, size, 15);
    flip_batch(f, size, 16);
    struct log_slice s;
    struct log_rot rot = {.pos = 15 * size, .pos_end = 17 * size, .offset = 15, .offset_end = 17};
    log_lock(log);
    log_rot_add(log, &rot);
    log_unlock(log);
    assert_int_equal(log_truncate_to(log, 16), ERR_OK);
    assert_int_equal(log->rot_count, 0);
    fixture_fill(f, log, 20);
    assert_int_equal(fixture_read_at(log, 16, 1 << 20, true, &s), ERR_OK);
    assert_int_equal(s.offset_next, 20);
    log_slice_release(&s);
    log_unref(log);
}

/* A reader that took its view before a cut finds bytes missing that nobody has any more. */
static void test_rot_that_an_old_view_finds_is_not_noted(void **state)
{
    struct fixture *f = *state;
    for (int cut = 0; cut < 2; cut++) {
        fixture_open(f);
        struct log *log = fixture_create(f, "t");
        fixture_fill(f, log, 20);
        struct walk_span span = log_span(&log->segments[0]);
        span.generation = log->cut_generation;
        sys_file_ref(span.file);
        struct walk w;
        struct batch_header h;
        struct log_rot rot;
        if (cut) { assert_int_equal(log_truncate_to(log, 10), ERR_OK); }
        if (!cut) { flip_batch(f, span.size / 20, 15); }
        walk_init(&w, &span, 15 * (span.size / 20));
        assert_int_equal(walk_peek(&w, &h), ERR_CORRUPT);
        assert_int_equal(log_skip_rot_unlocked(log, &w, &rot), ERR_OK);
        assert_int_equal(log->rot_count, !cut);
        sys_file_unref(span.file);
        log_unref(log);
        fixture_close(f, false);
        fixture_shell("rm -r '%s'", f->path);
    }
}

/* What is not noted would be forgotten at a crash, though readers were told. */
static void test_a_start_that_cannot_be_noted_does_not_move(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 1500;
    f->options.config.retention_bytes = 3000;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 50);
    log_set_hw(log, 50);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    size_t deleted = 0;
    limit_files(1);
    assert_int_equal(log_retention_step(log, NOW_MS, &deleted), ERR_NOSPACE);
    limit_files(RLIM_INFINITY);
    assert_int_equal(log_start_offset(log), 0);
    assert_int_equal(log_retention_step(log, NOW_MS, &deleted), ERR_OK);
    assert_true(log_start_offset(log) > 0 && deleted > 0);
    log_unref(log);
}

/* No index is ever synced: of a closed segment's the last entries may be missing. */
static void test_a_time_index_that_lost_its_end_hides_nothing(void **state)
{
    struct fixture *f = *state;
    static const char *const damage[] = {
        "truncate -s 12 '%s/t-0/" FIRST_SEGMENT ".timeindex'",
        "truncate -s 0 '%s/t-0/" FIRST_SEGMENT ".timeindex'",
        "truncate -s 8 '%s/t-0/" FIRST_SEGMENT ".index'",
        "cp '%s/t-0/00000000000000000040.timeindex' '%s/t-0/" FIRST_SEGMENT ".timeindex'",
    };
    f->options.config.index_interval_bytes = 200;
    for (size_t i = 0; i < COUNT_OF(damage); i++) {
        fixture_open(f);
        struct log *log = fixture_create(f, "t");
        fill_times(f, log, 40, NOW_MS);
        assert_int_equal(log_roll(log, NOW_MS), ERR_OK);
        fill_times(f, log, 60, NOW_MS);
        assert_int_equal(log_roll(log, NOW_MS), ERR_OK);
        fill_times(f, log, 61, NOW_MS);
        assert_int_equal(logdir_flush(f->dir), ERR_OK);
        assert_int_equal(logdir_checkpoint(f->dir, true), ERR_OK);
        log_unref(log);
        fixture_close(f, false);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        fixture_shell(damage[i], f->path, f->path);
#pragma GCC diagnostic pop
        fixture_open(f);
        assert_int_equal(f->dir->stats.logs_scanned_count, 0);
        log = fixture_find(f, "t");
        assert_int_equal(max_time(log), NOW_MS + 60);
        assert_null(log->segments[0].file); /* opened for the time it took */
        for (int64_t at = 0; at < 61; at++) {
            struct log_time_offset t;
            assert_int_equal(log_offset_by_time(log, NOW_MS + at, 61, &t), ERR_OK);
            assert_int_equal(t.offset, at);
        }
        assert_int_equal(log->segments[0].time_max, NOW_MS + 39);
        log_unref(log);
        fixture_close(f, false);
        fixture_shell("rm -r '%s'", f->path);
    }
}

/* Kafka took a batch out of the middle, as compaction does, wrote on and stopped cleanly. Our mark
 * of before points into the middle of one of its batches. */
static void test_marks_from_before_another_broker_ran_are_not_believed(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 20);
    long batch = (long)(log->segments[0].size / 20);
    log_unref(log);
    fixture_close(f, true);
    fixture_shell("cp '%s/" LOGDIR_MARKS "' '%s/kept'", f->path, f->root);
    fixture_open(f);
    log = fixture_find(f, "t");
    while (log_leo(log) < 60) {
        fixture_append(f, log, (struct fixture_batch){.value_size = 37});
    }
    log_unref(log);
    fixture_close(f, true);
    fixture_shell("cd '%s' && cp '%s/kept' " LOGDIR_MARKS " && rm " LOGDIR_MANIFEST
                  " && printf '{\"version\":0,\"brokerEpoch\":5}' >" LOGDIR_MARKER
                  " && cd t-0 && cp " FIRST_SEGMENT ".log ../../whole && rm *.index *.timeindex"
                  " && { head -c %ld ../../whole; tail -c +%ld ../../whole; } >" FIRST_SEGMENT
                  ".log",
                  f->path, f->root, 5 * batch, 6 * batch + 1);
    for (int starts = 0; starts < 2; starts++) {
        fixture_open(f);
        log = fixture_find(f, "t");
        assert_int_equal(log_leo(log), 60);
        assert_int_equal(log_rot_count(log), 0);
        struct log_slice s;
        assert_int_equal(fixture_read_at(log, 59, 1000, true, &s), ERR_OK);
        assert_int_equal(s.offset_next, 60);
        log_slice_release(&s);
        log_unref(log);
        fixture_close(f, false);
    }
}

/* The marks know a log by its topic's id. Two that have lost theirs are not taken for one. */
static void test_logs_without_a_topic_id_share_no_mark(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"a", "b"};
    static const size_t value_sizes[] = {100, 37};
    static const int64_t ends[] = {40, 20};
    fixture_open(f);
    for (int i = 0; i < 2; i++) {
        struct log *log = fixture_create(f, names[i]);
        while (log_leo(log) < ends[i]) {
            fixture_append(f, log, (struct fixture_batch){.value_size = value_sizes[i]});
        }
        log_unref(log);
        f->topic_id.b[0] ^= 1;
    }
    fixture_close(f, true);
    fixture_shell("cd '%s' && rm a-0/partition.metadata b-0/partition.metadata " LOGDIR_MARKS
                  " " LOGDIR_MANIFEST " " LOGDIR_MARKER,
                  f->path);
    for (int starts = 0; starts < 3; starts++) {
        fixture_open(f);
        for (int i = 0; i < 2; i++) {
            struct log *log = fixture_find(f, names[i]);
            assert_int_equal(log_leo(log), ends[i]);
            assert_int_equal(fixture_read_all(log, 1000), ends[i]);
            log_unref(log);
        }
        fixture_close(f, false);
    }
}

/* It begins above 0, and nothing was written to it before the crash. */
static void test_a_log_laid_in_behind_a_clean_stop_outlives_a_crash(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = create_trimmed(f);
    int64_t start = log_start_offset(log);
    log_unref(log);
    fixture_close(f, true);
    fixture_shell("mv '%s/t-0' '%s' && rm -r '%s'", f->path, f->root, f->path);
    fixture_open(f);
    fixture_close(f, true);
    fixture_shell("mv '%s/t-0' '%s'", f->root, f->path);
    for (int starts = 0; starts < 3; starts++) {
        fixture_open(f);
        log = fixture_find(f, "t");
        assert_int_equal(log_start_offset(log), start);
        assert_int_equal(fixture_read_all(log, 1000), 50 - start);
        log_unref(log);
        fixture_close(f, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        T(test_a_new_log_does_not_begin_where_a_deleted_one_of_its_name_did),
        T(test_a_log_without_a_mark_may_begin_where_its_checkpoint_says),
        T(test_a_roll_after_a_failed_append_writes_no_word_of_it),
        T(test_files_that_were_laid_in_are_not_written_over),
        T(test_a_log_that_lost_its_end_behind_a_clean_stop_lowers_its_mark),
        T(test_rot_of_bytes_that_are_gone_is_forgotten),
        T(test_a_log_without_files_goes_on_at_its_start),
        T(test_an_adopted_log_is_not_taken_for_unsynced_after_its_first_start),
        T(test_marks_from_before_another_broker_ran_are_not_believed),
        T(test_logs_without_a_topic_id_share_no_mark),
        T(test_a_log_laid_in_behind_a_clean_stop_outlives_a_crash),
        T(test_a_new_segment_has_no_index_of_one_before),
        T(test_an_index_of_lost_bytes_is_not_believed_of_others),
        T(test_a_full_disk_does_not_stop_a_start_that_rebuilds_indexes),
        T(test_a_truncation_forgets_rot_that_it_cuts),
        T(test_rot_that_an_old_view_finds_is_not_noted),
        T(test_a_start_that_cannot_be_noted_does_not_move),
        T(test_a_time_index_that_lost_its_end_hides_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
