/* writer_test.c - wire/writer.h: bytes, limits, holes, frames. */
#include "wire/writer.h"

#include "wire/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void assert_written(const struct wire_writer *w, const void *bytes, size_t size)
{
    assert_int_equal(w->err, ERR_OK);
    assert_int_equal(w->pos, size);
    assert_memory_equal(w->at, bytes, size);
}

static void test_values_come_back_from_the_reader(void **state)
{
    (void)state;
    uint8_t memory[256];
    struct wire_writer w;
    wire_writer_init_fixed(&w, (struct mslice){memory, sizeof memory});
    static const int64_t values[] = {0,   1,         -1,        63,        64,
                                     -65, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        wire_put_varlong(&w, values[i]);
        wire_put_varint(&w, (int32_t)values[i]);
    }
    wire_put_f64(&w, -2.25);
    wire_put_u16(&w, 65535);
    wire_put_bool(&w, true);
    struct wire_reader r;
    wire_reader_init(&r, slice_of(memory, w.pos));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_true(wire_varlong(&r) == values[i]);
        assert_int_equal(wire_varint(&r), (int32_t)values[i]);
    }
    assert_true(wire_f64(&r) == -2.25);
    assert_int_equal(wire_u16(&r), 65535);
    assert_true(wire_bool(&r));
    assert_false(r.bad);
    assert_int_equal(wire_left(&r), 0);
}

static void test_null_is_written_as_empty_where_the_version_has_no_null(void **state)
{
    (void)state;
    uint8_t memory[64];
    struct wire_writer w;
    wire_writer_init_fixed(&w, (struct mslice){memory, sizeof memory});
    wire_put_string(&w, SLICE_NULL, false, true);
    wire_put_string(&w, SLICE_NULL, false, false);
    wire_put_string(&w, SLICE_NULL, true, true);
    wire_put_string(&w, SLICE_NULL, true, false);
    wire_put_bytes(&w, SLICE_NULL, false, true);
    wire_put_array(&w, 0, true, false, false);
    wire_put_array(&w, 0, true, true, true);
    wire_put_array(&w, 0, false, true, true);
    assert_written(&w, "\xff\xff\x00\x00\x00\x01\xff\xff\xff\xff\x00\x00\x00\x00\x00\x01", 16);
}

static void test_fixed_memory_is_never_exceeded(void **state)
{
    (void)state;
    uint8_t memory[8] = {0};
    struct wire_writer w;
    wire_writer_init_fixed(&w, (struct mslice){memory, 5});
    wire_put_i32(&w, 1);
    wire_put_i32(&w, -1);
    assert_int_equal(w.err, ERR_LIMIT);
    /* [WR-2] nothing is written any more, though one byte would fit */
    wire_put_u8(&w, 0xff);
    assert_int_equal(w.pos, 4);
    assert_int_equal(memory[4], 0);
    assert_int_equal(wire_writer_finish(&w), ERR_LIMIT);
}

static void test_a_buffer_grows_to_its_limit_and_keeps_its_size_on_error(void **state)
{
    (void)state;
    struct wire_buf b;
    wire_buf_init(&b, 1000);
    struct wire_writer w;
    wire_writer_init_buf(&w, &b);
    for (int32_t i = 0; i < 100; i++) {
        wire_put_i32(&w, i);
    }
    assert_int_equal(wire_writer_finish(&w), ERR_OK);
    assert_int_equal(b.size, 400);
    wire_writer_init_buf(&w, &b);
    for (int32_t i = 0; i < 150; i++) {
        wire_put_i32(&w, i);
    }
    assert_int_equal(wire_writer_finish(&w), ERR_OK);
    assert_int_equal(b.size, 1000);
    wire_writer_init_buf(&w, &b);
    wire_put_u8(&w, 1);
    assert_int_equal(wire_writer_finish(&w), ERR_LIMIT);
    assert_int_equal(b.size, 1000);
    struct wire_reader r;
    wire_reader_init(&r, wire_buf_slice(&b));
    for (int32_t i = 0; i < 100; i++) {
        assert_int_equal(wire_i32(&r), i);
    }
    wire_buf_fini(&b);
}

static void test_counting_agrees_with_writing(void **state)
{
    (void)state;
    uint8_t memory[700];
    uint8_t text[300] = {0};
    struct wire_writer w[2];
    wire_writer_init_fixed(&w[0], (struct mslice){memory, sizeof memory});
    wire_writer_init_count(&w[1]);
    for (size_t i = 0; i < 2; i++) {
        wire_put_i64(&w[i], 1);
        size_t mark = w[i].pos;
        wire_put_string(&w[i], slice_of(text, sizeof text), true, false);
        wire_put_tag(&w[i], 3, mark);
        wire_put_uvarint(&w[i], 1u << 20);
    }
    assert_int_equal(w[0].err, ERR_OK);
    assert_int_equal(w[0].pos, w[1].pos);
}

static void test_values_too_long_for_their_type_are_invalid(void **state)
{
    (void)state;
    static const uint8_t text[40000];
    struct wire_writer w;
    wire_writer_init_count(&w);
    wire_put_string(&w, slice_of(text, 32767), false, false);
    assert_int_equal(w.err, ERR_OK);
    wire_put_string(&w, slice_of(text, 32768), true, false);
    assert_int_equal(w.err, ERR_INVALID);
    wire_writer_init_count(&w);
    wire_put_array(&w, (size_t)1 << 31, false, false, false);
    assert_int_equal(w.err, ERR_INVALID);
}

static void test_a_tag_gets_its_size_in_front(void **state)
{
    (void)state;
    uint8_t memory[64];
    struct wire_writer w;
    wire_writer_init_fixed(&w, (struct mslice){memory, sizeof memory});
    wire_put_u8(&w, 0x11);
    size_t mark = w.pos;
    wire_put_i32(&w, 5);
    wire_put_tag(&w, 2, mark);
    wire_put_u8(&w, 0x22);
    assert_written(&w, "\x11\x02\x04\x00\x00\x00\x05\x22", 8);
}

static void test_holes_count_in_the_frame_but_are_not_written(void **state)
{
    (void)state;
    uint8_t memory[64];
    struct wire_hole holes[2];
    struct wire_writer w;
    wire_writer_init_fixed(&w, (struct mslice){memory, sizeof memory});
    wire_writer_set_holes(&w, holes, 2);
    for (size_t i = 0; i < 2; i++) {
        struct wire_frame f = wire_frame_begin(&w);
        wire_put_records(&w, (struct slice){NULL, 1000}, false, true);
        wire_put_u8(&w, 9);
        wire_frame_end(&w, f);
    }
    assert_written(&w, "\x00\x00\x03\xed\x00\x00\x03\xe8\x09\x00\x00\x03\xed\x00\x00\x03\xe8\x09",
                   18);
    assert_int_equal(w.holes_count, 2);
    assert_int_equal(w.holes_bytes, 2000);
    assert_int_equal(holes[0].pos, 8);
    assert_int_equal(holes[1].pos, 17);
    wire_put_records(&w, (struct slice){NULL, 1}, true, true);
    assert_int_equal(w.err, ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_come_back_from_the_reader),
        cmocka_unit_test(test_null_is_written_as_empty_where_the_version_has_no_null),
        cmocka_unit_test(test_fixed_memory_is_never_exceeded),
        cmocka_unit_test(test_a_buffer_grows_to_its_limit_and_keeps_its_size_on_error),
        cmocka_unit_test(test_counting_agrees_with_writing),
        cmocka_unit_test(test_values_too_long_for_their_type_are_invalid),
        cmocka_unit_test(test_a_tag_gets_its_size_in_front),
        cmocka_unit_test(test_holes_count_in_the_frame_but_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
