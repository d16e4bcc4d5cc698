/* frame_test.c - the size in front of a frame, strangers, names of protocols. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_int.h"

static enum net_frame_verdict size_of(const char *bytes, size_t have, size_t *size)
{
    return net_frame_size((const uint8_t *)bytes, have, 1000, size);
}

static void test_a_size_is_believed_only_within_its_bounds(void **state)
{
    (void)state;
    size_t size;
    assert_int_equal(size_of("\0\0\0", 3, &size), NET_FRAME_SHORT);
    assert_int_equal(size_of("\0\0\0\x08", 4, &size), NET_FRAME_OK);
    assert_int_equal(size, 8);
    assert_int_equal(size_of("\0\0\3\xe8", 4, &size), NET_FRAME_OK);
    assert_int_equal(size, 1000);
    assert_int_equal(size_of("\0\0\3\xe9", 4, &size), NET_FRAME_BAD);
    assert_int_equal(size_of("\0\0\0\x07", 4, &size), NET_FRAME_BAD);
    assert_int_equal(size_of("\0\0\0\0", 4, &size), NET_FRAME_BAD);
    assert_int_equal(size_of("\xff\xff\xff\xff", 4, &size), NET_FRAME_BAD);
    assert_int_equal(size_of("\x80\0\0\0", 4, &size), NET_FRAME_BAD);
    assert_int_equal(net_frame_size((const uint8_t *)"\xff\0\0\0", 4, SIZE_MAX, &size),
                     NET_FRAME_BAD);
}

static void test_strangers_are_recognised(void **state)
{
    (void)state;
    assert_string_equal(net_frame_foreign((const uint8_t *)"\x16\x03\x01\x02", 4), "TLS");
    assert_string_equal(net_frame_foreign((const uint8_t *)"GET /", 5), "HTTP");
    assert_string_equal(net_frame_foreign((const uint8_t *)"PRI * HTTP/2.0", 14), "HTTP");
    assert_null(net_frame_foreign((const uint8_t *)"\xff\xff\xff\xff", 4));
    assert_null(net_frame_foreign((const uint8_t *)"GET", 3));
}

static void test_security_protocols_are_parsed_in_any_case(void **state)
{
    (void)state;
    enum net_security s;
    assert_true(net_security_parse("plaintext", &s));
    assert_int_equal(s, NET_PLAINTEXT);
    assert_true(net_security_parse("SASL_SSL", &s));
    assert_int_equal(s, NET_SASL_SSL);
    assert_false(net_security_parse("PLAIN", &s));
    assert_false(net_security_parse("", &s));
}

static void test_every_reason_has_a_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NET_CLOSED_REASONS; i++) {
        assert_string_not_equal(net_close_reason_name((enum net_close_reason)i), "unknown");
    }
}

static void test_buffer_classes_hold_what_they_say(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NET_BUF_CLASSES; i++) {
        size_t size = net_buf_class_size(i);
        assert_int_equal(net_buf_class(size), i);
        assert_int_equal(net_buf_class(size + 1), i + 1);
    }
    assert_true(net_buf_class_size(1) > 65536 + 2048); /* a batch of 64 KiB with its request */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_size_is_believed_only_within_its_bounds),
        cmocka_unit_test(test_strangers_are_recognised),
        cmocka_unit_test(test_security_protocols_are_parsed_in_any_case),
        cmocka_unit_test(test_every_reason_has_a_name),
        cmocka_unit_test(test_buffer_classes_hold_what_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
