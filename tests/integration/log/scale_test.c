/* scale_test.c - many partitions: how long a start takes after a clean stop and after a crash, and
 * what an idle partition costs. LOG_SCALE_COUNT sets how many (default 2,000); with 10,000 the
 * limits are checked when LOG_SCALE_STRICT is set. LOG_SCALE_THREADS sets the recovery threads. */
#include "unit/log/fixture.h"

static size_t scale_count(void)
{
    const char *n = getenv("LOG_SCALE_COUNT");
    return n ? (size_t)atol(n) : 2000;
}

static struct log *open_log(struct fixture *f, size_t i)
{
    struct log *log = logdir_find(f->dir, "many", (int32_t)i);
    assert_non_null(log);
    return log;
}

static void fill(struct fixture *f, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct log *log = NULL;
        struct logdir_create_options o = {.topic = "many",
                                          .topic_id = f->topic_id,
                                          .partition = (int32_t)i,
                                          .config = f->options.config};
        assert_int_equal(logdir_create_log(f->dir, &o, &log), ERR_OK);
        for (int k = 0; k < 2; k++) {
            fixture_append(f, log,
                           (struct fixture_batch){.count = 5,
                                                  .producer_id = 1 + (int64_t)i % 7,
                                                  .sequence = k * 5,
                                                  .value_size = 100});
            if (k == 0) { assert_int_equal(log_roll(log, NOW_MS), ERR_OK); }
        }
        log_unref(log);
        if (i % 2000 == 1999) {
            assert_int_equal(logdir_flush(f->dir), ERR_OK);
            for (size_t j = i - 1999; j <= i; j++) { /* descriptors are bounded */
                log = open_log(f, j);
                log_idle_step(log);
                assert_true(log_idle_step(log));
                log_unref(log);
            }
        }
    }
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
}

static void check(struct fixture *f, size_t count, const char *what, double limit_ms)
{
    const struct logdir_load_stats *s = &f->dir->stats;
    assert_int_equal(s->logs_count, count);
    double ms = (double)s->load_ns / 1e6;
    print_message("%s: %zu partitions of 2 segments in %.1f ms, %zu scanned\n", what, count, ms,
                  s->logs_scanned_count);
    if (getenv("LOG_SCALE_STRICT")) { assert_true(ms < limit_ms); }
    for (size_t i = 0; i < count; i += count / 50 + 1) {
        struct log *log = open_log(f, i);
        assert_int_equal(log_leo(log) >= 10, 1);
        struct fixture_batch b = {
            .count = 5, .producer_id = 1 + (int64_t)i % 7, .sequence = 5, .value_size = 100};
        if (log_leo(log) == 10) { assert_true(fixture_append(f, log, b).is_duplicate); }
        assert_int_equal(fixture_read_all(log, 1 << 20), log_leo(log));
        log_unref(log);
    }
}

static void test_a_start_is_quick_with_many_partitions(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    size_t count = scale_count();
    fixture_init(f);
    f->options.idle_close_ms =
        3600000; /* the test closes idle logs itself, however long it takes */
    const char *threads = getenv("LOG_SCALE_THREADS");
    if (threads) { f->options.recovery_threads = atoi(threads); }
    sys_descriptors_max(f->sys);
    fixture_open(f);
    fill(f, count);
    fixture_close(f, true);
    uint64_t before = sys_resident_bytes(f->sys);
    fixture_open(f);
    uint64_t after = sys_resident_bytes(f->sys);
    assert_true(f->dir->stats.was_clean);
    print_message("resident: %.1f KiB a partition\n",
                  after > before ? (double)(after - before) / 1024 / (double)count : 0.0);
    check(f, count, "clean start", 250);
    for (size_t i = 0; i < 100 && i < count; i++) { /* a hundred dirty ones */
        struct log *log = open_log(f, i);
        fixture_append(f, log, (struct fixture_batch){.count = 5});
        log_unref(log);
    }
    fixture_close(f, false);
    fixture_open(f);
    assert_false(f->dir->stats.was_clean);
    check(f, count, "start after a crash", 1000);
    fixture_close(f, false);
    fixture_fini(f);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_start_is_quick_with_many_partitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
