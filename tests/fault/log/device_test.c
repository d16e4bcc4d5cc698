/* device_test.c - a disk that is full, and one that fails. The full disk is a limit on file sizes;
 * the failing one is a descriptor that refuses the call. */
#include "unit/log/fixture.h"

#include "sys/sys_int.h"

#include <signal.h>
#include <sys/resource.h>

static void limit_files(rlim_t size)
{
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static void test_a_full_disk_refuses_and_recovers_without_a_restart(void **state)
{
    struct fixture *f = *state;
    struct log *log = fixture_create(f, "t");
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 20; i++) {
        fixture_append(f, log, (struct fixture_batch){.producer_id = 3, .sequence = i});
    }
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    uint64_t size = log->segments[0].size;
    limit_files(size + 100);
    struct fixture_batch b = {
        .producer_id = 3, .sequence = 20, .value_size = 2000, .expect_error = true};
    for (int i = 0; i < 3; i++) {
        struct log_append_result r = fixture_append(f, log, b);
        assert_int_equal(r.err, ERR_NOSPACE);
        assert_int_equal(r.reject, LOG_REJECT_STORAGE);
        assert_int_equal(log_leo(log), 20);
        assert_int_equal(log->segments[0].size, size);
        assert_int_equal(fixture_read_all(log, 1000), 20); /* reads go on */
    }
    uint64_t on_disk = 0;
    assert_int_equal(sys_file_size(log->segments[0].file, &on_disk), ERR_OK);
    assert_int_equal(on_disk, size); /* cut back [APP-2] */
    assert_false(logdir_is_offline(f->dir));
    limit_files(RLIM_INFINITY);
    b.expect_error = false;
    struct log_append_result r = fixture_append(f, log, b);
    assert_false(r.is_duplicate); /* the failed ones left no trace in the producer's state */
    assert_int_equal(r.first_offset, 20);
    b.sequence = 19;
    b.value_size = 0;
    assert_true(fixture_append(f, log, b).is_duplicate);
    log_unref(log);
    fixture_close(f, false);
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(fixture_read_all(log, 1000), 21);
    log_unref(log);
}

/* An epoch of records that never came must not be found by a later start. */
static void test_epochs_of_a_failed_append_leave_their_file(void **state)
{
    struct fixture *f = *state;
    struct log *log = fixture_create(f, "t");
    signal(SIGXFSZ, SIG_IGN);
    fixture_append(f, log, (struct fixture_batch){0});
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    f->batch.size = 0;
    for (int32_t i = 0; i < 2; i++) {
        struct mslice b = fixture_build(f, &(struct fixture_batch){.value_size = 2000});
        batch_set_base_offset(b.at, 1 + i);
        batch_set_leader_epoch(b.at, 1 + i);
    }
    struct log_append_args a = {.records = {f->batch.at, f->batch.size},
                                .now_ms = NOW_MS,
                                .origin = LOG_FROM_LEADER,
                                .may_block = true};
    struct log_append_result r;
    limit_files(log->segments[0].size + 100);
    assert_int_equal(fixture_append_one(log, &a, &r), ERR_NOSPACE);
    limit_files(RLIM_INFINITY);
    char path[600];
    uint8_t *at = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/t-0/leader-epoch-checkpoint", f->path);
    assert_int_equal(smallfile_read(f->sys, path, &at, &size), ERR_OK);
    assert_string_equal((const char *)at, "0\n2\n0 0\n1 1\n"); /* 2 was to begin at 2 */
    mem_free(at);
    log_unref(log);
}

/* Puts a file in place of the active segment's that refuses writes or syncs. */
static void break_file(struct fixture *f, struct log *log, const char *path, unsigned flags)
{
    struct sys_file *bad = NULL;
    assert_int_equal(sys_file_open(f->sys, path, flags, &bad), ERR_OK);
    log_lock(log);
    sys_file_unref(log->segments[log->segments_count - 1].file);
    log->segments[log->segments_count - 1].file = bad;
    log_unlock(log);
}

static void test_a_failed_write_takes_the_directory_offline_for_good(void **state)
{
    struct fixture *f = *state;
    struct log *log = fixture_create(f, "t"), *other = fixture_create(f, "u");
    fixture_fill(f, log, 5);
    fixture_fill(f, other, 5);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    char path[600];
    snprintf(path, sizeof path, "%s/t-0/00000000000000000000.log", f->path);
    break_file(f, log, path, SYS_READ);
    struct fixture_batch b = {.expect_error = true};
    assert_int_equal(fixture_append(f, log, b).err, ERR_OFFLINE);
    assert_true(sys_wait_flag(f->sys, &f->offline, sys_mono_ns(f->sys) + 5000 * SYS_MS));
    assert_int_equal(fixture_append(f, log, b).err, ERR_OFFLINE);
    assert_int_equal(fixture_append(f, other, b).err, ERR_OFFLINE);
    struct log_slice s;
    assert_int_equal(fixture_read_at(other, 0, 100, true, &s), ERR_OFFLINE);
    log_unref(log);
    log_unref(other);
    /* The next start finds everything that was acknowledged. */
    fixture_close(f, true);
    fixture_open(f);
    assert_false(f->dir->stats.was_clean);
    log = fixture_find(f, "t");
    assert_int_equal(fixture_read_all(log, 1000), 5);
    log_unref(log);
}

static void test_a_failed_sync_publishes_nothing_and_is_never_tried_again(void **state)
{
    struct fixture *f = *state;
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 5);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    /* A device that takes writes and cannot be synced. */
    break_file(f, log, "/dev/null", SYS_WRITE);
    fixture_append(f, log, (struct fixture_batch){0});
    assert_true(sys_wait_flag(f->sys, &f->offline, sys_mono_ns(f->sys) + 5000 * SYS_MS));
    assert_int_equal(log_synced(log), 5);
    uint64_t before = f->dir->flusher->file_syncs;
    assert_int_equal(logdir_flush(f->dir), ERR_OFFLINE);
    assert_int_equal(f->dir->flusher->file_syncs, before);
    assert_int_equal(log_synced(log), 5);
    assert_int_equal(atomic_load(&f->synced), 5);
    log_unref(log);
}

/* The kernel says which file: the other directory of the device goes on. */
static void test_a_failed_fdatasync_takes_its_own_directory_alone(void **state)
{
    struct fixture *f = *state, g;
    fixture_open_peer(f, &g);
    struct log *log = fixture_create(f, "t"), *other = fixture_create(&g, "u");
    fixture_fill(f, log, 5);
    fixture_fill(f, other, 5);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    break_file(f, log, "/dev/null", SYS_WRITE);
    fixture_append(f, log, (struct fixture_batch){0});
    assert_true(sys_wait_flag(f->sys, &f->offline, sys_mono_ns(f->sys) + 5000 * SYS_MS));
    assert_int_equal(log_synced(log), 5);
    assert_false(logdir_is_offline(g.dir));
    fixture_append(f, other, (struct fixture_batch){0});
    assert_int_equal(logdir_flush(g.dir), ERR_OK);
    assert_int_equal(log_synced(other), 6);
    log_unref(log);
    log_unref(other);
    fixture_close(&g, true);
}

/* Of a failed syncfs it does not: bytes of either directory may be lost, and nobody hears of it
 * again. */
static void test_a_failed_syncfs_takes_every_directory_of_the_device(void **state)
{
    struct fixture *f = *state, g;
    fixture_close(f, false);
    f->options.flush_policy = LOG_FLUSH_WINDOW; /* nothing is flushed before it is asked for */
    fixture_open(f);
    fixture_open_peer(f, &g);
    struct log *other = fixture_create(&g, "u"), *logs[8];
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        logs[i] = fixture_create(f, name);
        fixture_fill(f, logs[i], 5);
    }
    flusher_wait(f->dir->flusher);
    assert_int_equal(f->dir->flusher->fs_syncs, 1);
    sys_device_of(f->sys, f->dir->env.device)->sync_fd = 1 << 20; /* no such descriptor */
    for (int i = 0; i < 8; i++) {
        fixture_append(f, logs[i], (struct fixture_batch){0});
    }
    flusher_wait(f->dir->flusher);
    assert_true(logdir_is_offline(f->dir) && logdir_is_offline(g.dir));
    assert_int_equal(atomic_load(&f->synced), 5);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(log_synced(logs[i]), 5);
        log_unref(logs[i]);
    }
    uint64_t end_ns = sys_mono_ns(f->sys) + 5000 * SYS_MS;
    assert_true(sys_wait_flag(f->sys, &f->offline, end_ns)); /* both are told of */
    assert_true(sys_wait_flag(f->sys, &g.offline, end_ns));
    log_unref(other);
    fixture_close(&g, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup_open, fixture_teardown)
        T(test_a_full_disk_refuses_and_recovers_without_a_restart),
        T(test_epochs_of_a_failed_append_leave_their_file),
        T(test_a_failed_write_takes_the_directory_offline_for_good),
        T(test_a_failed_sync_publishes_nothing_and_is_never_tried_again),
        T(test_a_failed_fdatasync_takes_its_own_directory_alone),
        T(test_a_failed_syncfs_takes_every_directory_of_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
