/* report_test.c - log lines, histograms, error names. */
#include "base/err.h"
#include "base/histogram.h"
#include "base/logger.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct sink {
    int lines_count;
    char last[2000];
};

static void sink_write(void *ctx, enum logger_level level, const char *line)
{
    (void)level;
    struct sink *s = ctx;
    s->lines_count++;
    size_t size = strlen(line);
    assert_true(size < sizeof s->last);
    memcpy(s->last, line, size + 1);
}

static int64_t sink_wall_ms(void *ctx)
{
    (void)ctx;
    return 1796011200123;
}

static struct logger sink_logger(struct sink *s)
{
    return (struct logger){
        .level_min = LOG_INFO, .write = sink_write, .wall_ms = sink_wall_ms, .ctx = s};
}

static void test_a_log_line_has_kafkas_pattern(void **state)
{
    (void)state;
    struct sink s = {0};
    struct logger l = sink_logger(&s);
    log_info(&l, "kafka.server.KafkaServer", "started (%s)", "x");
    assert_string_equal(s.last,
                        "[2026-11-30 04:00:00,123] INFO started (x) (kafka.server.KafkaServer)");
    log_debug(&l, "kafka.server.KafkaServer", "hidden");
    assert_int_equal(s.lines_count, 1);
    log_error(NULL, "nobody", "listens");
}

static void test_a_long_log_line_is_cut(void **state)
{
    (void)state;
    struct sink s = {0};
    struct logger l = sink_logger(&s);
    char text[1500];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_warn(&l, "kafka.log.LogManager", "%s", text);
    assert_true(strlen(s.last) <= 1000);
    assert_non_null(strstr(s.last, "] WARN xxxx"));
}

static void test_a_rate_limited_site_says_how_much_it_kept_back(void **state)
{
    (void)state;
    struct logger_rate rate = {0};
    uint64_t suppressed;
    assert_true(logger_rate(&rate, 5000, &suppressed));
    assert_int_equal(suppressed, 0);
    assert_false(logger_rate(&rate, 5001, &suppressed));
    assert_false(logger_rate(&rate, 5999, &suppressed));
    assert_true(logger_rate(&rate, 6000, &suppressed));
    assert_int_equal(suppressed, 2);
}

static void test_times_of_leap_years_and_before_1970(void **state)
{
    (void)state;
    char buf[32];
    assert_string_equal(logger_time(0, buf), "1970-01-01 00:00:00,000");
    assert_string_equal(logger_time(951782400000, buf), "2000-02-29 00:00:00,000");
    assert_string_equal(logger_time(-1, buf), "1969-12-31 23:59:59,999");
}

static void test_a_histograms_quantile_is_at_most_one_sixteenth_too_high(void **state)
{
    (void)state;
    for (unsigned shift = 0; shift < 32; shift++) {
        for (uint64_t extra = 0; extra < 3; extra++) {
            struct histogram *h = mem_new(struct histogram);
            assert_non_null(h);
            uint64_t value = ((uint64_t)1 << shift) + extra * (((uint64_t)1 << shift) / 5);
            histogram_record(h, value);
            histogram_record(h, UINT64_MAX); /* so that the maximum does not help */
            uint64_t got = histogram_quantile(h, 0.5);
            assert_true(got >= value);
            assert_true((got - value) * 16 <= value);
            assert_true(histogram_quantile(h, 1.0) == UINT64_MAX);
            mem_free(h);
        }
    }
}

static void test_a_histograms_quantiles_split_the_values(void **state)
{
    (void)state;
    struct histogram *h = mem_new(struct histogram);
    assert_non_null(h);
    assert_int_equal(histogram_quantile(h, 0.99), 0);
    for (uint64_t i = 1; i <= 1000; i++) {
        histogram_record(h, i);
    }
    assert_in_range(histogram_quantile(h, 0.5), 500, 532);
    assert_in_range(histogram_quantile(h, 0.99), 990, 1000);
    assert_int_equal(h->count, 1000);
    assert_int_equal(h->sum, 500500);
    mem_free(h);
}

static void test_every_error_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(err_name(ERR_IO), "IO");
    for (int e = ERR_OK; e <= ERR_ACCESS; e++) {
        assert_string_not_equal(err_name((enum err)e), "UNKNOWN");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_log_line_has_kafkas_pattern),
        cmocka_unit_test(test_a_long_log_line_is_cut),
        cmocka_unit_test(test_a_rate_limited_site_says_how_much_it_kept_back),
        cmocka_unit_test(test_times_of_leap_years_and_before_1970),
        cmocka_unit_test(test_a_histograms_quantile_is_at_most_one_sixteenth_too_high),
        cmocka_unit_test(test_a_histograms_quantiles_split_the_values),
        cmocka_unit_test(test_every_error_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
