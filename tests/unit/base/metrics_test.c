/* metrics_test.c - the text of a scrape: names, labels, pages, what does not fit. */
#include "base/check.h"
#include "base/mem.h"
#include "base/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct histogram *h;
    int ended;
    size_t many;
};

static void *begin(void *ctx)
{
    return ctx;
}

static void end(void *ctx)
{
    struct fixture *f = ctx;
    f->ended++;
}

static bool read_plain(struct metrics_scrape *s, const struct metric *m, size_t step)
{
    (void)step;
    metrics_put(s, NULL, 0, m->what);
    return false;
}

static bool read_none(struct metrics_scrape *s, const struct metric *m, size_t step)
{
    (void)s;
    (void)m;
    return step < 3;
}

static bool read_labels(struct metrics_scrape *s, const struct metric *m, size_t step)
{
    (void)m;
    const struct metric_label labels[] = {{"dir", "a\\b\"c\nd"}, {"n", step ? "1" : "0"}};
    metrics_put_real(s, labels, COUNT_OF(labels), 0.25);
    return step == 0;
}

static bool read_summary(struct metrics_scrape *s, const struct metric *m, size_t step)
{
    (void)m;
    (void)step;
    const struct fixture *f = s->ctx;
    const struct metric_label label = {"request", "Fetch"};
    metrics_put_summary(s, &label, 1, f->h, 0.001);
    return false;
}

static bool read_many(struct metrics_scrape *s, const struct metric *m, size_t step)
{
    (void)m;
    const struct fixture *f = s->ctx;
    char number[24];
    snprintf(number, sizeof number, "%zu", step);
    const struct metric_label label = {"partition", number};
    metrics_put(s, &label, 1, (int64_t)step);
    return step + 1 < f->many;
}

static bool read_huge(struct metrics_scrape *s, const struct metric *m, size_t step)
{
    (void)m;
    char *text = mem_alloc(METRICS_PAGE_SIZE + 1);
    assert_non_null(text);
    memset(text, 'x', METRICS_PAGE_SIZE);
    text[METRICS_PAGE_SIZE] = '\0';
    const struct metric_label label = {"name", step ? "short" : text};
    metrics_put(s, &label, 1, 7);
    mem_free(text);
    return step == 0;
}

/* The whole text, taken in pieces of 'piece' bytes. */
static char *scrape(const struct metric *rows, size_t count, struct fixture *f, size_t piece)
{
    struct metrics all = {.rows = rows, .rows_count = count, .ctx = f, .begin = begin, .end = end};
    struct metrics_scrape *s = metrics_scrape_create(&all);
    assert_non_null(s);
    size_t cap = 1 << 20, size = 0, got;
    char *text = mem_alloc(cap);
    assert_non_null(text);
    while ((got = metrics_scrape_next(s, text + size, piece)) > 0) {
        size += got;
        assert_true(size + piece < cap);
    }
    text[size] = '\0';
    metrics_scrape_destroy(s);
    return text;
}

static void test_samples_follow_their_help_and_type(void **state)
{
    (void)state;
    const struct metric rows[] = {
        {"a_total", "Of a.", METRIC_COUNTER, 3, read_plain},
        {"b", "Of b.", METRIC_GAUGE, -1, read_plain},
        {"nothing", "Shows nothing.", METRIC_GAUGE, 0, read_none},
        {"c", "Of c.", METRIC_GAUGE, 0, read_labels},
    };
    struct fixture f = {0};
    for (size_t piece = 1; piece < 4096; piece *= 7) {
        char *text = scrape(rows, COUNT_OF(rows), &f, piece);
        assert_string_equal(text, "# HELP a_total Of a.\n# TYPE a_total counter\na_total 3\n"
                                  "# HELP b Of b.\n# TYPE b gauge\nb -1\n"
                                  "# HELP c Of c.\n# TYPE c gauge\n"
                                  "c{dir=\"a\\\\b\\\"c\\nd\",n=\"0\"} 0.25\n"
                                  "c{dir=\"a\\\\b\\\"c\\nd\",n=\"1\"} 0.25\n");
        mem_free(text);
    }
    assert_int_equal(f.ended, 5);
}

static void test_a_summary_shows_quantiles_sum_and_count(void **state)
{
    (void)state;
    const struct metric rows[] = {{"t", "Times.", METRIC_SUMMARY, 0, read_summary}};
    struct histogram *parts = mem_array(3, sizeof *parts);
    assert_non_null(parts);
    for (unsigned i = 0; i < 10; i++) {
        histogram_record(&parts[i % 2], i < 9 ? 1000 : 8000);
    }
    histogram_add(&parts[2], &parts[0]);
    histogram_add(&parts[2], &parts[1]);
    struct fixture f = {.h = &parts[2]};
    char *text = scrape(rows, 1, &f, 4096);
    assert_non_null(strstr(text, "# TYPE t summary\nt{request=\"Fetch\",quantile=\"0.50\"} 1.0"));
    assert_non_null(strstr(text, "t{request=\"Fetch\",quantile=\"0.999\"} 8\n"));
    assert_non_null(strstr(text, "t_sum{request=\"Fetch\"} 17\nt_count{request=\"Fetch\"} 10\n"));
    mem_free(text);
    mem_free(parts);
}

static void test_a_long_text_needs_one_page(void **state)
{
    (void)state;
    const struct metric rows[] = {{"p", "Of each.", METRIC_GAUGE, 0, read_many}};
    struct fixture f = {.many = 20000};
    char *text = scrape(rows, 1, &f, METRICS_PAGE_SIZE);
    assert_true(strlen(text) > 10 * METRICS_PAGE_SIZE);
    assert_ptr_equal(strstr(text, "# HELP"), text);
    assert_null(strstr(text + 1, "# HELP"));
    size_t lines = 0;
    for (const char *p = strchr(text, '\n'); p; p = strchr(p + 1, '\n')) {
        lines++;
    }
    assert_int_equal(lines, 20002);
    assert_non_null(strstr(text, "\np{partition=\"19999\"} 19999\n"));
    mem_free(text);
}

static void test_a_line_that_does_not_fit_is_left_out(void **state)
{
    (void)state;
    const struct metric rows[] = {{"h", "Huge.", METRIC_GAUGE, 0, read_huge}};
    struct fixture f = {0};
    char *text = scrape(rows, 1, &f, 4096);
    assert_string_equal(text, "# HELP h Huge.\n# TYPE h gauge\nh{name=\"short\"} 7\n");
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_follow_their_help_and_type),
        cmocka_unit_test(test_a_summary_shows_quantiles_sum_and_count),
        cmocka_unit_test(test_a_long_text_needs_one_page),
        cmocka_unit_test(test_a_line_that_does_not_fit_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
