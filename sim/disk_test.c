/* disk_test.c - what a simulated disk keeps, loses and refuses. */
#include "sim/machine.h"

#include "base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Bodies run on a fiber, where cmocka cannot jump out: they CHECK. */
static void idle(struct sys *sys, void *ctx)
{
    (void)sys;
    (void)ctx;
}

static void run(struct sim_host *host, void (*body)(struct sys *sys, void *ctx), void *ctx)
{
    _Atomic int done = 0;
    if (!sim_is_up(host)) { sim_boot(host, idle, NULL); }
    sim_call(host, body, ctx, &done);
    sim_run_until(sim_of(host), sim_now_ns(sim_of(host)) + 1000 * SYS_MS);
    assert_int_equal(done, 1);
}

static void put(struct sys *sys, const char *path, const char *text, uint64_t pos, bool sync)
{
    struct sys_file *f;
    enum err e = sys_file_open(sys, path, SYS_WRITE | SYS_CREATE, &f);
    CHECK(!e);
    struct sys_iov iov = {.at = text, .size = strlen(text)};
    size_t written;
    e = sys_file_write(f, &iov, 1, pos, &written);
    CHECK(!e && written == iov.size);
    if (sync) {
        e = sys_file_sync(f);
        CHECK(!e);
    }
    sys_file_unref(f);
}

static struct sim *world(uint64_t seed)
{
    return sim_create(&(struct sim_options){.seed = seed, .preempt_permille = 100});
}

static bool holds(struct sim_host *host, const char *path, const char *text)
{
    char buf[256];
    size_t got;
    bool found = sim_disk_peek(host, path, false, buf, sizeof buf, &got);
    return found && got == strlen(text) && memcmp(buf, text, got) == 0;
}

static bool exists(struct sim_host *host, const char *path)
{
    char buf[1];
    size_t got;
    return sim_disk_peek(host, path, false, buf, sizeof buf, &got);
}

static void write_three_ways(struct sys *sys, void *ctx)
{
    (void)ctx;
    put(sys, "d/synced", "kept", 0, true);
    put(sys, "d/content", "nameless", 0, true);
    enum err e = sys_dir_sync(sys, "d"); /* covers both names */
    CHECK(!e);
    put(sys, "d/lost-name", "synced content", 0, true);
    put(sys, "d/synced", "LATE", 4, false);
}

static void test_a_crash_keeps_what_was_synced_and_no_more(void **state)
{
    (void)state;
    struct sim *sim = world(1);
    struct sim_host *host = sim_host_create(sim, "b1");
    run(host, write_three_ways, NULL);
    assert_true(holds(host, "d/synced", "keptLATE"));
    assert_true(holds(host, "d/lost-name", "synced content"));
    sim_crash(host, SIM_KEEP_NOTHING);
    assert_true(holds(host, "d/synced", "kept"));
    assert_true(holds(host, "d/content", "nameless"));
    assert_false(exists(host, "d/lost-name"));
    sim_destroy(sim);
}

static void test_a_killed_process_leaves_the_page_cache(void **state)
{
    (void)state;
    struct sim *sim = world(2);
    struct sim_host *host = sim_host_create(sim, "b1");
    run(host, write_three_ways, NULL);
    sim_kill(host);
    assert_true(holds(host, "d/synced", "keptLATE"));
    assert_true(holds(host, "d/lost-name", "synced content"));
    sim_crash(host, SIM_KEEP_ALL);
    assert_true(holds(host, "d/synced", "keptLATE"));
    assert_true(exists(host, "d/lost-name"));
    sim_destroy(sim);
}

static void make_deep(struct sys *sys, void *ctx)
{
    (void)ctx;
    enum err e = sys_dir_create(sys, "d/a");
    CHECK(!e);
    e = sys_dir_create(sys, "d/a/b");
    CHECK(!e);
    e = sys_dir_create(sys, "d/x/b");
    CHECK(e == ERR_NOTFOUND);
    e = sys_dir_create(sys, "d/a");
    CHECK(e == ERR_EXISTS);
    put(sys, "d/a/b/f", "deep", 0, true);
    e = sys_dir_sync(sys, "d/a/b");
    CHECK(!e);
    e = sys_dir_sync(sys, "d/a");
    CHECK(!e);
}

static void sync_top(struct sys *sys, void *ctx)
{
    (void)ctx;
    enum err e = sys_parent_sync(sys, "d/a");
    CHECK(!e);
}

static void test_a_lost_directory_takes_along_what_is_below(void **state)
{
    (void)state;
    for (int synced = 0; synced < 2; synced++) {
        struct sim *sim = world(3);
        struct sim_host *host = sim_host_create(sim, "b1");
        run(host, make_deep, NULL);
        if (synced) { run(host, sync_top, NULL); }
        sim_crash(host, SIM_KEEP_NOTHING);
        assert_int_equal(exists(host, "d/a/b/f"), synced);
        sim_destroy(sim);
    }
}

static void rename_over(struct sys *sys, void *ctx)
{
    (void)ctx;
    put(sys, "d/old", "old", 0, true);
    enum err e = sys_dir_sync(sys, "d");
    CHECK(!e);
    put(sys, "d/tmp", "new", 0, true);
    e = sys_path_rename(sys, "d/tmp", "d/old");
    CHECK(!e);
}

static void test_a_rename_is_whole_or_lost(void **state)
{
    (void)state;
    bool seen[2] = {false, false};
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct sim *sim = world(seed);
        struct sim_host *host = sim_host_create(sim, "b1");
        run(host, rename_over, NULL);
        sim_crash(host, SIM_KEEP_BY_CHANCE);
        bool is_new = holds(host, "d/old", "new");
        assert_true(is_new || holds(host, "d/old", "old"));
        seen[is_new] = true;
        sim_destroy(sim);
    }
    assert_true(seen[0] && seen[1]);
}

static void unlink_late(struct sys *sys, void *ctx)
{
    (void)ctx;
    put(sys, "d/f", "there", 0, true);
    enum err e = sys_dir_sync(sys, "d");
    CHECK(!e);
    e = sys_path_unlink(sys, "d/f");
    CHECK(!e);
    e = sys_path_unlink(sys, "d/f");
    CHECK(e == ERR_NOTFOUND);
}

static void test_a_deleted_file_may_come_back(void **state)
{
    (void)state;
    struct sim *sim = world(4);
    struct sim_host *host = sim_host_create(sim, "b1");
    run(host, unlink_late, NULL);
    assert_false(exists(host, "d/f"));
    sim_crash(host, SIM_KEEP_NOTHING);
    assert_true(holds(host, "d/f", "there"));
    sim_destroy(sim);
}

#define BIG 4096

static void write_big(struct sys *sys, void *ctx)
{
    (void)ctx;
    char text[BIG + 1];
    memset(text, 'a', BIG);
    text[BIG] = '\0';
    put(sys, "d/big", "", 0, true);
    enum err e = sys_dir_sync(sys, "d");
    CHECK(!e);
    put(sys, "d/big", text, 100, false);
}

/* Sectors are kept or lost for themselves; sizes are newer (zeros), older, or fit. */
static void test_a_torn_write_is_torn_at_sectors(void **state)
{
    (void)state;
    bool torn = false, zeros_at_end = false, whole = false, nothing = false;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct sim *sim = world(seed);
        struct sim_host *host = sim_host_create(sim, "b1");
        run(host, write_big, NULL);
        sim_crash(host, SIM_KEEP_BY_CHANCE);
        char buf[BIG + 200];
        size_t got, kept = 0;
        assert_true(sim_disk_peek(host, "d/big", false, buf, sizeof buf, &got));
        assert_true(got <= BIG + 100);
        for (size_t i = 100; i < got; i++) {
            bool is_start = i == 100 || i % 512 == 0;
            assert_true(buf[i] == 'a' || buf[i] == 0);
            assert_true(is_start || buf[i] == buf[i - 1]);
            kept += buf[i] == 'a';
        }
        torn |= kept > 0 && kept < BIG;
        whole |= kept == BIG;
        nothing |= kept == 0;
        zeros_at_end |= got == BIG + 100 && buf[got - 1] == 0;
        sim_destroy(sim);
    }
    assert_true(torn && whole && nothing && zeros_at_end);
}

static void fill_disk(struct sys *sys, void *ctx)
{
    (void)ctx;
    struct sys_file *f;
    enum err e = sys_file_open(sys, "d/full", SYS_WRITE | SYS_CREATE, &f);
    CHECK(!e);
    char block[600] = {0};
    struct sys_iov iov = {.at = block, .size = sizeof block};
    size_t written;
    e = sys_file_write(f, &iov, 1, 0, &written);
    CHECK(!e && written == 600);
    e = sys_file_write(f, &iov, 1, 600, &written);
    CHECK(e == ERR_NOSPACE && written == 400);
    e = sys_file_reserve(f, 0, 1001);
    CHECK(e == ERR_NOSPACE);
    e = sys_file_write(f, &iov, 1, 0, &written); /* in place: takes no room */
    CHECK(!e);
    e = sys_file_truncate(f, 100);
    CHECK(!e);
    e = sys_file_reserve(f, 0, 1000);
    CHECK(!e);
    struct sys_file *g;
    e = sys_file_open(sys, "d/other", SYS_WRITE | SYS_CREATE, &g);
    CHECK(e == ERR_NOSPACE);
    e = sys_file_write(f, &iov, 1, 100, &written); /* into its reservation */
    CHECK(!e);
    uint64_t size;
    e = sys_file_size(f, &size);
    CHECK(!e && size == 700);
    e = sys_file_truncate(f, 700); /* gives the rest back */
    CHECK(!e);
    e = sys_fs_free(sys, "d", &size);
    CHECK(!e && size == 300);
    sys_file_unref(f);
}

static void test_a_full_disk_writes_short_and_keeps_reservations(void **state)
{
    (void)state;
    struct sim *sim = world(5);
    struct sim_host *host = sim_host_create(sim, "b1");
    sim_disk_faults(host, "d")->space_bytes = 1000;
    run(host, fill_disk, NULL);
    assert_int_equal(sim_disk_used(host, "d"), 700);
    assert_true(sim_counts(sim)->no_space >= 3);
    sim_destroy(sim);
}

static void sync_fails_once(struct sys *sys, void *ctx)
{
    struct sim_host *host = ctx;
    put(sys, "d/f", "first ", 0, true);
    enum err e = sys_dir_sync(sys, "d");
    CHECK(!e);
    sim_disk_faults(host, "d")->sync_error_in = 1;
    struct sys_file *f;
    e = sys_file_open(sys, "d/f", SYS_WRITE, &f);
    CHECK(!e);
    struct sys_iov iov = {.at = "second", .size = 6};
    size_t written;
    e = sys_file_write(f, &iov, 1, 6, &written);
    CHECK(!e);
    e = sys_file_sync(f);
    CHECK(e == ERR_IO);
    e = sys_file_sync(f); /* the trap: all is clean now */
    CHECK(!e);
    sys_file_unref(f);
}

static void test_after_a_failed_sync_the_next_one_lies(void **state)
{
    (void)state;
    bool cached = false, evicted = false;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct sim *sim = world(seed);
        struct sim_host *host = sim_host_create(sim, "b1");
        run(host, sync_fails_once, host);
        bool is_cached = holds(host, "d/f", "first second");
        cached |= is_cached;
        evicted |= !is_cached;
        sim_crash(host, SIM_KEEP_ALL);
        assert_true(holds(host, "d/f", "first "));
        sim_destroy(sim);
    }
    assert_true(cached && evicted);
}

static void errors_on_demand(struct sys *sys, void *ctx)
{
    struct sim_disk_faults *faults = ctx;
    put(sys, "d/f", "text", 0, false);
    struct sys_file *f;
    enum err e = sys_file_open(sys, "d/f", SYS_WRITE, &f);
    CHECK(!e);
    char buf[4];
    size_t moved;
    struct sys_iov iov = {.at = "TEXT", .size = 4};
    faults->write_error_in = 2;
    faults->read_error_in = 1;
    e = sys_file_write(f, &iov, 1, 0, &moved);
    CHECK(!e);
    e = sys_file_write(f, &iov, 1, 0, &moved);
    CHECK(e == ERR_IO && moved == 0);
    e = sys_file_read(f, buf, sizeof buf, 0, &moved);
    CHECK(e == ERR_IO && moved == 0);
    e = sys_file_read(f, buf, sizeof buf, 0, &moved);
    CHECK(!e && moved == 4);
    faults->is_dead = true;
    e = sys_file_read(f, buf, sizeof buf, 0, &moved);
    CHECK(e == ERR_IO);
    e = sys_dir_sync(sys, "d");
    CHECK(e == ERR_IO);
    sys_file_unref(f);
}

static void test_calls_fail_when_told_to(void **state)
{
    (void)state;
    struct sim *sim = world(6);
    struct sim_host *host = sim_host_create(sim, "b1");
    run(host, errors_on_demand, sim_disk_faults(host, "d"));
    sim_destroy(sim);
}

static void slow_write(struct sys *sys, void *ctx)
{
    (void)ctx;
    put(sys, "d/f", "x", 0, false);
}

static void test_a_slow_device_takes_its_time_and_is_known_for_it(void **state)
{
    (void)state;
    struct sim *sim = world(7);
    struct sim_host *host = sim_host_create(sim, "b1");
    sim_disk_faults(host, "d")->call_ns = 50 * SYS_MS;
    sim_boot(host, slow_write, NULL);
    struct sys *sys = sim_sys(host);
    uint64_t device = sim_disk_device(host, "d");
    sim_run_until(sim, sim_now_ns(sim) + 10 * SYS_MS); /* in its first call */
    assert_true(sys_device_is_slow(sys, device));
    assert_false(sys_device_is_slow(sys, device + 1));
    sim_run_until(sim, sim_now_ns(sim) + 1000 * SYS_MS);
    assert_true(sys_device_is_slow(sys, device));
    sim_disk_faults(host, "d")->call_ns = 0;
    for (int i = 0; i < 5; i++) { /* two calls each: open and write */
        assert_true(sys_device_is_slow(sys, device));
        run(host, slow_write, NULL);
    }
    assert_false(sys_device_is_slow(sys, device));
    sim_destroy(sim);
}

static void write_during_sync(struct sys *sys, void *ctx)
{
    (void)ctx;
    put(sys, "d/f", "LATE", 4, false);
}

static void sync_slowly(struct sys *sys, void *ctx)
{
    (void)ctx;
    put(sys, "d/f", "base", 0, false);
    enum err e = sys_fs_sync(sys, "d");
    CHECK(!e);
}

static void test_a_sync_covers_only_what_came_before_it(void **state)
{
    (void)state;
    struct sim *sim = world(8);
    struct sim_host *host = sim_host_create(sim, "b1");
    struct sim_disk_faults *faults = sim_disk_faults(host, "d");
    faults->sync_min_ns = faults->sync_max_ns = 100 * SYS_MS;
    sim_boot(host, sync_slowly, NULL);
    sim_run_until(sim, sim_now_ns(sim) + 50 * SYS_MS); /* in the middle of the sync */
    sim_call(host, write_during_sync, NULL, NULL);
    sim_run_until(sim, sim_now_ns(sim) + 500 * SYS_MS);
    assert_true(holds(host, "d/f", "baseLATE"));
    sim_crash(host, SIM_KEEP_NOTHING);
    assert_true(holds(host, "d/f", "base"));
    sim_destroy(sim);
}

static void test_a_crash_in_the_middle_of_a_sync_may_lose_all(void **state)
{
    (void)state;
    struct sim *sim = world(9);
    struct sim_host *host = sim_host_create(sim, "b1");
    struct sim_disk_faults *faults = sim_disk_faults(host, "d");
    faults->sync_min_ns = faults->sync_max_ns = 100 * SYS_MS;
    sim_boot(host, sync_slowly, NULL);
    sim_run_until(sim, sim_now_ns(sim) + 50 * SYS_MS);
    sim_crash(host, SIM_KEEP_NOTHING);
    assert_false(exists(host, "d/f"));
    sim_destroy(sim);
}

static void test_rot_changes_what_is_stored(void **state)
{
    (void)state;
    struct sim *sim = world(10);
    struct sim_host *host = sim_host_create(sim, "b1");
    run(host, write_three_ways, NULL);
    assert_true(sim_disk_rot(host, "d/synced", 0, 1));
    assert_true(holds(host, "d/synced", "jeptLATE"));
    assert_false(sim_disk_rot(host, "d/synced", 8, 1));
    sim_crash(host, SIM_KEEP_NOTHING);
    assert_true(holds(host, "d/synced", "jept"));
    sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_crash_keeps_what_was_synced_and_no_more),
        cmocka_unit_test(test_a_killed_process_leaves_the_page_cache),
        cmocka_unit_test(test_a_lost_directory_takes_along_what_is_below),
        cmocka_unit_test(test_a_rename_is_whole_or_lost),
        cmocka_unit_test(test_a_deleted_file_may_come_back),
        cmocka_unit_test(test_a_torn_write_is_torn_at_sectors),
        cmocka_unit_test(test_a_full_disk_writes_short_and_keeps_reservations),
        cmocka_unit_test(test_after_a_failed_sync_the_next_one_lies),
        cmocka_unit_test(test_calls_fail_when_told_to),
        cmocka_unit_test(test_a_slow_device_takes_its_time_and_is_known_for_it),
        cmocka_unit_test(test_a_sync_covers_only_what_came_before_it),
        cmocka_unit_test(test_a_crash_in_the_middle_of_a_sync_may_lose_all),
        cmocka_unit_test(test_rot_changes_what_is_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
