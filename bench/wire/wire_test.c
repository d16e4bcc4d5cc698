/* wire_test.c - checks of the generator's own small pieces, run by ctest. */
#include "frame.h"
#include "hist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_crc32c_of_the_check_string_is_e3069283(void **state)
{
    (void)state;
    assert_int_equal(crc32c((const uint8_t *)"123456789", 9), 0xe3069283U);
    assert_int_equal(crc32c(NULL, 0), 0);
}

static void test_a_quantile_is_at_most_1_6_percent_above_the_true_value(void **state)
{
    (void)state;
    struct hist *h = calloc(1, sizeof *h);
    assert_non_null(h);
    for (uint64_t v = 1; v <= 1000000; v++) {
        hist_add(h, v);
    }
    const double shares[] = {0.001, 0.5, 0.9, 0.99, 0.999, 1.0};
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        double truth = shares[i] * 1000000;
        double got = (double)hist_quantile(h, shares[i]);
        assert_true(got >= truth && got <= truth * 1.016 + 1);
    }
    assert_int_equal(h->max, 1000000);
    free(h);
}

static void test_an_hour_and_more_is_kept_in_max(void **state)
{
    (void)state;
    struct hist *h = calloc(1, sizeof *h);
    assert_non_null(h);
    hist_add(h, UINT64_MAX);
    assert_int_equal(h->total, 1);
    assert_true(h->max == UINT64_MAX);
    assert_int_equal(hist_quantile(h, 0.5) > (1ULL << 41), 1);
    free(h);
}

static void test_a_batch_holds_what_fits_and_its_sum_is_right(void **state)
{
    (void)state;
    struct batch b = batch_build(16384, 100, 1700000000000);
    assert_true(b.size <= 16384 && b.size > 16384 - 120);
    assert_int_equal(b.records, 148);
    uint32_t sum = ((uint32_t)b.at[17] << 24) | ((uint32_t)b.at[18] << 16) |
                   ((uint32_t)b.at[19] << 8) | b.at[20];
    assert_int_equal(sum, crc32c(b.at + 21, b.size - 21));
    assert_int_equal(b.at[16], 2);
    free(b.at);
    struct batch tiny = batch_build(1, 100, 1700000000000);
    assert_int_equal(tiny.records, 1);
    assert_int_equal(tiny.size, 61 + 109);
    free(tiny.at);
}

static void test_a_run_of_batches_is_compared_byte_for_byte(void **state)
{
    (void)state;
    struct batch b = batch_build(1, 20, 1700000000000);
    uint8_t *run = malloc(2 * (size_t)b.size + 5);
    assert_non_null(run);
    memset(run, 0, 2 * (size_t)b.size + 5);
    memcpy(run, b.at, b.size);
    memcpy(run + b.size, b.at, b.size);
    run[7] = 7;
    run[b.size + 7] = 8;
    assert_int_equal(batch_check_run(&b, run, 2 * (size_t)b.size + 5, 7), 2);
    assert_int_equal(batch_check_run(&b, run, 2 * (size_t)b.size, 6), -1);
    run[2 * b.size - 3] ^= 1;
    assert_int_equal(batch_check_run(&b, run, 2 * (size_t)b.size, 7), -1);
    free(run);
    free(b.at);
}

static void test_a_cut_answer_is_refused(void **state)
{
    (void)state;
    static const uint8_t answer[] = {
        0, 0, 0, 9, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 3, 0, 6, 0, 0, 0, 0,
        0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    };
    struct produce_answer p;
    assert_true(answer_produce(answer, sizeof answer, &p));
    assert_int_equal(p.correlation, 9);
    assert_int_equal(p.error, 6);
    assert_int_equal(p.base_offset, 5);
    for (size_t size = 0; size < sizeof answer; size++) {
        assert_false(answer_produce(answer, size, &p));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_of_the_check_string_is_e3069283),
        cmocka_unit_test(test_a_quantile_is_at_most_1_6_percent_above_the_true_value),
        cmocka_unit_test(test_an_hour_and_more_is_kept_in_max),
        cmocka_unit_test(test_a_batch_holds_what_fits_and_its_sum_is_right),
        cmocka_unit_test(test_a_run_of_batches_is_compared_byte_for_byte),
        cmocka_unit_test(test_a_cut_answer_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
