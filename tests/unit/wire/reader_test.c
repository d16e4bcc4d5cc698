/* reader_test.c - wire/reader.h: values, limits, and what hostile bytes do. */
#include "wire/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define READER(r, ...)                                                                             \
    static const uint8_t r##_bytes[] = {__VA_ARGS__};                                              \
    struct wire_reader r;                                                                          \
    wire_reader_init(&r, slice_of(r##_bytes, sizeof r##_bytes))

static void test_integers_are_big_endian(void **state)
{
    (void)state;
    READER(r, 0xff, 0x01, 0x80, 0x00, 0xff, 0xfe, 0x80, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4,
           5, 6, 7, 8, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0);
    assert_int_equal(wire_i8(&r), -1);
    assert_true(wire_bool(&r));
    assert_int_equal(wire_i16(&r), INT16_MIN);
    assert_int_equal(wire_u16(&r), 65534);
    assert_int_equal(wire_i32(&r), INT32_MIN + 1);
    assert_int_equal(wire_u32(&r), 4294967294u);
    assert_true(wire_i64(&r) == INT64_C(0x0102030405060708));
    assert_true(wire_f64(&r) == 1.5);
    assert_false(r.bad);
    assert_int_equal(wire_left(&r), 0);
}

static void test_a_short_read_goes_bad_once_and_yields_zeros(void **state)
{
    (void)state;
    READER(r, 1, 2, 3);
    assert_int_equal(wire_i32(&r), 0);
    assert_true(r.bad);
    /* The three bytes are not to be had any more. */
    assert_int_equal(wire_i8(&r), 0);
    assert_int_equal(wire_i64(&r), 0);
    assert_int_equal(wire_uvarint(&r), 0);
    assert_int_equal(wire_varlong(&r), 0);
    assert_true(uuid_is_zero(wire_uuid(&r)));
    assert_null(wire_string(&r, false).at);
    assert_null(wire_bytes(&r, true).at);
    assert_int_equal(wire_array_nonnull(&r, true, 1), 0);
    assert_int_equal(wire_array(&r, false, 1), 0);
    assert_int_equal(wire_tags(&r), 0);
    assert_int_equal(wire_left(&r), 0);
}

static void test_nothing_can_be_read_from_null(void **state)
{
    (void)state;
    struct wire_reader r;
    wire_reader_init(&r, SLICE_NULL);
    assert_int_equal(wire_left(&r), 0);
    assert_int_equal(wire_u8(&r), 0);
    assert_true(r.bad);
}

static void test_varints_read_their_whole_range(void **state)
{
    (void)state;
    READER(r, 0x00, 0x7f, 0x80, 0x01, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x01, 0xfe, 0xff, 0xff, 0xff,
           0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
    assert_int_equal(wire_uvarint(&r), 0);
    assert_int_equal(wire_uvarint(&r), 127);
    assert_int_equal(wire_uvarint(&r), 128);
    assert_int_equal(wire_uvarint(&r), UINT32_MAX);
    assert_int_equal(wire_varint(&r), -1);
    assert_int_equal(wire_varint(&r), INT32_MAX);
    assert_true(wire_varlong(&r) == INT64_MIN);
    assert_false(r.bad);
}

static void test_varints_that_are_too_long_are_bad(void **state)
{
    (void)state;
    READER(six, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01);
    assert_int_equal(wire_uvarint(&six), 0);
    assert_true(six.bad);
    READER(beyond, 0xff, 0xff, 0xff, 0xff, 0x1f);
    assert_int_equal(wire_uvarint(&beyond), 0);
    assert_true(beyond.bad);
    READER(eleven, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01);
    assert_true(wire_uvarlong(&eleven) == 0 && eleven.bad);
    READER(wide, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02);
    assert_true(wire_uvarlong(&wide) == 0 && wide.bad);
    READER(cut, 0x80, 0x80);
    assert_int_equal(wire_uvarint(&cut), 0);
    assert_true(cut.bad);
}

static void test_strings_tell_null_from_empty(void **state)
{
    (void)state;
    READER(r, 0xff, 0xff, 0, 0, 0, 2, 'h', 'i', 0, 1, 3, 'y', 'o');
    assert_null(wire_string(&r, false).at);
    struct slice empty = wire_string(&r, false);
    assert_non_null(empty.at);
    assert_int_equal(empty.size, 0);
    assert_true(slice_eq_str(wire_string(&r, false), "hi"));
    assert_null(wire_string(&r, true).at);
    assert_non_null(wire_string(&r, true).at);
    assert_true(slice_eq_str(wire_string(&r, true), "yo"));
    assert_false(r.bad);
}

static void test_null_where_the_version_has_none_is_bad(void **state)
{
    (void)state;
    READER(s, 0xff, 0xff, 1);
    wire_string_nonnull(&s, false);
    assert_true(s.bad);
    READER(b, 0, 1);
    wire_bytes_nonnull(&b, true);
    assert_true(b.bad);
    READER(a, 0xff, 0xff, 0xff, 0xff, 1);
    assert_int_equal(wire_array_nonnull(&a, false, 1), 0);
    assert_true(a.bad);
}

static void test_lengths_below_minus_one_are_bad(void **state)
{
    (void)state;
    READER(s, 0xff, 0xfe, 0, 0);
    wire_string(&s, false);
    assert_true(s.bad);
    READER(b, 0xff, 0xff, 0xff, 0xfe);
    wire_bytes(&b, false);
    assert_true(b.bad);
    READER(a, 0x80, 0, 0, 0);
    wire_array(&a, false, 1);
    assert_true(a.bad);
}

static void test_lengths_beyond_the_bytes_left_are_bad(void **state)
{
    (void)state;
    READER(s, 0, 3, 'a', 'b');
    assert_null(wire_string(&s, false).at);
    assert_true(s.bad);
    READER(b, 0x7f, 0xff, 0xff, 0xff, 1, 2);
    assert_null(wire_bytes(&b, false).at);
    assert_true(b.bad);
    READER(c, 0xff, 0xff, 0xff, 0xff, 0x0f, 1);
    assert_null(wire_bytes(&c, true).at);
    assert_true(c.bad);
}

static void test_a_compact_string_longer_than_int16_is_bad(void **state)
{
    (void)state;
    size_t size = 3 + 32768;
    uint8_t *bytes = calloc(1, size);
    assert_non_null(bytes);
    bytes[0] = 0x80; /* 32768 is written as 32769 */
    bytes[1] = 0x80;
    bytes[2] = 0x02;
    bytes[0] |= 1;
    struct wire_reader r;
    wire_reader_init(&r, slice_of(bytes, size));
    assert_null(wire_string(&r, true).at);
    assert_true(r.bad);
    bytes[0] = 0x80;
    wire_reader_init(&r, slice_of(bytes, size));
    assert_int_equal(wire_string(&r, true).size, 32767);
    free(bytes);
}

static void test_a_count_is_believed_only_if_the_bytes_left_could_hold_it(void **state)
{
    (void)state;
    READER(ok, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8);
    assert_int_equal(wire_array(&ok, false, 4), 2);
    READER(bad, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7);
    assert_int_equal(wire_array(&bad, false, 4), 0);
    assert_true(bad.bad);
    READER(huge, 0x7f, 0xff, 0xff, 0xff, 0, 0);
    assert_int_equal(wire_array(&huge, false, 1), 0);
    assert_true(huge.bad);
    READER(compact, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0);
    assert_int_equal(wire_array(&compact, true, 1), 0);
    assert_true(compact.bad);
}

/* Tag 1 of two bytes is known, tag 7 of three is not. */
static uint32_t sum_tags(struct wire_reader *r)
{
    uint32_t sum = 0;
    for (uint32_t n = wire_tags(r); n > 0 && !r->bad; n--) {
        struct wire_tag t = wire_tag_open(r);
        if (t.tag == 1) {
            sum += wire_u16(r);
        } else {
            wire_tag_skip(r);
        }
        wire_tag_close(r, t);
    }
    return sum;
}

static void test_unknown_tags_are_skipped(void **state)
{
    (void)state;
    READER(r, 2, 1, 2, 0, 9, 7, 3, 'x', 'y', 'z', 0x55);
    assert_int_equal(sum_tags(&r), 9);
    assert_int_equal(wire_u8(&r), 0x55);
    assert_false(r.bad);
    READER(s, 2, 1, 2, 0, 9, 7, 3, 'x', 'y', 'z', 0x55);
    wire_tags_skip(&s);
    assert_int_equal(wire_u8(&s), 0x55);
}

static void test_a_known_tag_must_fill_its_size_exactly(void **state)
{
    (void)state;
    READER(longer, 1, 1, 3, 0, 9, 9);
    sum_tags(&longer);
    assert_true(longer.bad);
    READER(shorter, 1, 1, 1, 0, 9);
    sum_tags(&shorter);
    assert_true(shorter.bad);
    assert_int_equal(wire_u8(&shorter), 0);
    READER(beyond, 1, 7, 9, 0, 9);
    sum_tags(&beyond);
    assert_true(beyond.bad);
}

static void test_a_million_tagged_fields_are_refused(void **state)
{
    (void)state;
    size_t size = 3 + 2000000;
    uint8_t *bytes = calloc(1, size);
    assert_non_null(bytes);
    bytes[0] = 0xc0; /* 1,000,000 */
    bytes[1] = 0x84;
    bytes[2] = 0x3d;
    struct wire_reader r;
    wire_reader_init(&r, slice_of(bytes, size));
    assert_int_equal(wire_tags(&r), 0);
    assert_true(r.bad);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_are_big_endian),
        cmocka_unit_test(test_a_short_read_goes_bad_once_and_yields_zeros),
        cmocka_unit_test(test_nothing_can_be_read_from_null),
        cmocka_unit_test(test_varints_read_their_whole_range),
        cmocka_unit_test(test_varints_that_are_too_long_are_bad),
        cmocka_unit_test(test_strings_tell_null_from_empty),
        cmocka_unit_test(test_null_where_the_version_has_none_is_bad),
        cmocka_unit_test(test_lengths_below_minus_one_are_bad),
        cmocka_unit_test(test_lengths_beyond_the_bytes_left_are_bad),
        cmocka_unit_test(test_a_compact_string_longer_than_int16_is_bad),
        cmocka_unit_test(test_a_count_is_believed_only_if_the_bytes_left_could_hold_it),
        cmocka_unit_test(test_unknown_tags_are_skipped),
        cmocka_unit_test(test_a_known_tag_must_fill_its_size_exactly),
        cmocka_unit_test(test_a_million_tagged_fields_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
