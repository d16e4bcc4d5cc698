/* epochs_test.c - which epoch begins where, what it answers, and the checkpoint's text. */
#include "log/epochs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int setup(void **state)
{
    struct epochs *e = malloc(sizeof *e);
    epochs_init(e);
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    epochs_fini(*state);
    free(*state);
    return 0;
}

static bool assign(struct epochs *e, int32_t epoch, int64_t start)
{
    bool changed = false;
    assert_int_equal(epochs_assign(e, epoch, start, &changed), ERR_OK);
    return changed;
}

static void assert_text(const struct epochs *e, const char *expected)
{
    struct wire_buf b;
    wire_buf_init(&b, 1u << 20);
    assert_int_equal(epochs_encode(e, &b), ERR_OK);
    assert_int_equal(b.size, strlen(expected));
    assert_memory_equal(b.at, expected, b.size);
    wire_buf_fini(&b);
}

static void assert_end(const struct epochs *e, int32_t asked, int32_t epoch, int64_t end)
{
    struct epoch_end x = epochs_end_of(e, asked, 100);
    assert_int_equal(x.epoch, epoch);
    assert_int_equal(x.end, end);
}

/* C35 */
static void test_c35_end_of_an_epoch_is_the_start_of_the_next(void **state)
{
    struct epochs *e = *state;
    assert_end(e, 0, -1, -1);
    assign(e, 2, 10);
    assign(e, 4, 30);
    assign(e, 5, 60);
    assert_end(e, 5, 5, 100); /* current: log end */
    assert_end(e, 4, 4, 60);
    assert_end(e, 3, 2, 30); /* the nearest below */
    assert_end(e, 2, 2, 30);
    assert_end(e, 1, 1, 10); /* older than kept: asked epoch, first kept start */
    assert_end(e, 6, -1, -1); /* future */
    assert_end(e, -1, -1, -1);
    assert_int_equal(epochs_latest(e), 5);
    assert_int_equal(epochs_of_offset(e, 9), -1);
    assert_int_equal(epochs_of_offset(e, 10), 2);
    assert_int_equal(epochs_of_offset(e, 59), 4);
    assert_int_equal(epochs_of_offset(e, 1000), 5);
}

static void test_known_epoch_changes_nothing(void **state)
{
    struct epochs *e = *state;
    assert_true(assign(e, 1, 10));
    assert_false(assign(e, 1, 10));
    assert_false(assign(e, 1, 55));
    assert_text(e, "0\n1\n1 10\n");
    bool changed = true;
    assert_int_equal(epochs_assign(e, -1, 5, &changed), ERR_INVALID);
    assert_int_equal(epochs_assign(e, 5, -1, &changed), ERR_INVALID);
    assert_text(e, "0\n1\n1 10\n");
}

static void test_contradicted_entries_go(void **state)
{
    struct epochs *e = *state;
    assign(e, 1, 0);
    assign(e, 2, 20);
    assign(e, 3, 40);
    assert_true(assign(e, 4, 30)); /* starts before 3 did */
    assert_text(e, "0\n3\n1 0\n2 20\n4 30\n");
    assert_true(assign(e, 2, 25)); /* an earlier epoch again */
    assert_text(e, "0\n2\n1 0\n2 25\n");
    assert_true(assign(e, 1, 0));
    assert_text(e, "0\n1\n1 0\n");
}

static void test_truncation_at_both_ends(void **state)
{
    struct epochs *e = *state;
    for (int32_t i = 0; i < 10; i++) {
        assign(e, i, i * 10);
    }
    assert_false(epochs_truncate_end(e, 91));
    assert_true(epochs_truncate_end(e, 70)); /* 7 starts at 70 */
    assert_int_equal(epochs_latest(e), 6);
    assert_true(epochs_truncate_start(e, 35));
    assert_text(e, "0\n4\n3 35\n4 40\n5 50\n6 60\n");
    assert_false(epochs_truncate_start(e, 35));
    assert_false(epochs_truncate_start(e, 20));
    assert_true(epochs_truncate_start(e, 40));
    assert_text(e, "0\n3\n4 40\n5 50\n6 60\n");
    assert_true(epochs_truncate_start(e, 500)); /* everything was deleted: the epoch stays known */
    assert_text(e, "0\n1\n6 500\n");
    assert_true(epochs_truncate_end(e, 0));
    assert_text(e, "0\n0\n");
    assert_false(epochs_truncate_start(e, 1));
}

static void test_text_is_read_back(void **state)
{
    struct epochs *e = *state;
    const char *texts[] = {"0\n0\n", "0\n1\n0 0\n",
                           "0\n3\n0 0\n7 1234567890123\n2147483647 9223372036854775807\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(epochs_decode(e, slice_str(texts[i])), ERR_OK);
        assert_text(e, texts[i]);
    }
}

static void test_damaged_text_is_refused_and_leaves_nothing(void **state)
{
    struct epochs *e = *state;
    const char *texts[] = {
        "",
        "\n",
        "1\n0\n",
        "0\n",
        "0\n1\n",
        "0\n2\n0 0\n",
        "0\n1\n0 0\n1 1\n",
        "0\n-1\n",
        "0\n1\n-1 0\n",
        "0\n1\n0 -1\n",
        "0\n1\n0  0\n",
        "0\n1\nx 0\n",
        "0\n1\n2147483648 0\n",
        "0\n1\n0 9223372036854775808\n",
        "0\n99999999999\n",
        "0\n2\n1 10\n1 20\n",
        "0\n2\n1 10\n2 10\n",
        "0\n2\n2 10\n1 20\n",
        "0\n1\n0 0\n\n",
        "0\n1\n0 0 0\n",
        "0\n1\n3 4", /* it may have been 45 */
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assign(e, 3, 3);
        assert_int_equal(epochs_decode(e, slice_str(texts[i])), ERR_MALFORMED);
        assert_int_equal(e->count, 0);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_c35_end_of_an_epoch_is_the_start_of_the_next),
        T(test_known_epoch_changes_nothing),
        T(test_contradicted_entries_go),
        T(test_truncation_at_both_ends),
        T(test_text_is_read_back),
        T(test_damaged_text_is_refused_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
