/* bytes_test.c - slices, CRC-32C, ids. */
#include "base/crc32c.h"
#include "base/slice.h"
#include "base/uuid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The same sum, bit by bit: the definition. */
static uint32_t crc32c_slow(const uint8_t *p, size_t size)
{
    uint32_t crc = ~0U;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78U : crc >> 1;
        }
    }
    return ~crc;
}

static void test_crc32c_has_the_published_check_value(void **state)
{
    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283U);
    assert_int_equal(crc32c(0, "", 0), 0);
}

static void test_crc32c_chains_and_equals_its_definition(void **state)
{
    (void)state;
    uint8_t bytes[600];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 131 + i / 7);
    }
    for (size_t size = 0; size <= sizeof bytes; size += 13) {
        uint32_t whole = crc32c(0, bytes, size);
        assert_int_equal(whole, crc32c_slow(bytes, size));
        size_t cut = size / 3;
        assert_int_equal(crc32c(crc32c(0, bytes, cut), bytes + cut, size - cut), whole);
    }
}

static void test_uuid_text_is_kafkas_and_comes_back(void **state)
{
    (void)state;
    char text[UUID_TEXT_SIZE];
    struct uuid one = {.b = {[15] = 1}}, back;
    assert_string_equal(uuid_format(one, text), "AAAAAAAAAAAAAAAAAAAAAQ");
    struct uuid full = {{0}};
    memset(full.b, 0xff, sizeof full.b);
    assert_string_equal(uuid_format(full, text), "_____________________w");
    for (unsigned seed = 0; seed < 500; seed++) {
        struct uuid u = {{0}};
        for (size_t i = 0; i < sizeof u.b; i++) {
            u.b[i] = (uint8_t)(seed * 37 + i * (seed | 1) * 11);
        }
        assert_true(uuid_parse(slice_str(uuid_format(u, text)), &back));
        assert_true(uuid_eq(u, back));
    }
}

static void test_uuid_refuses_other_text(void **state)
{
    (void)state;
    struct uuid u = {{0}};
    assert_false(uuid_parse(slice_str(""), &u));
    assert_false(uuid_parse(slice_str("AAAAAAAAAAAAAAAAAAAAA"), &u));
    assert_false(uuid_parse(slice_str("AAAAAAAAAAAAAAAAAAAAAQ="), &u));
    assert_false(uuid_parse(slice_str("AAAAAAAAAA+AAAAAAAAAAQ"), &u));
    assert_false(uuid_parse(slice_of("AAAAAAAAAA\0AAAAAAAAAAQ", 22), &u));
    assert_true(uuid_is_zero(u));
}

static void test_slice_order_parts_and_null(void **state)
{
    (void)state;
    assert_true(slice_cmp(SLICE_LIT("a"), SLICE_LIT("b")) < 0);
    assert_true(slice_cmp(SLICE_LIT("ab"), SLICE_LIT("a")) > 0);
    assert_int_equal(slice_cmp(SLICE_NULL, SLICE_LIT("")), 0);
    assert_true(slice_is_null(SLICE_NULL));
    assert_false(slice_is_null(SLICE_LIT("")));
    assert_true(slice_eq_str(slice_sub(SLICE_LIT("hello"), 1, 3), "ell"));
    assert_true(slice_eq_str(slice_sub(SLICE_LIT("hello"), 3, SIZE_MAX), "lo"));
    assert_int_equal(slice_sub(SLICE_LIT("hello"), 9, 1).size, 0);
}

static void test_slice_print_makes_remote_bytes_harmless(void **state)
{
    (void)state;
    char buf[8];
    assert_string_equal(slice_print(SLICE_LIT("a\nb\x1b\xff"), buf, sizeof buf), "a?b??");
    assert_string_equal(slice_print(SLICE_LIT("123456789"), buf, sizeof buf), "1234567");
    assert_string_equal(slice_print(SLICE_NULL, buf, sizeof buf), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_has_the_published_check_value),
        cmocka_unit_test(test_crc32c_chains_and_equals_its_definition),
        cmocka_unit_test(test_uuid_text_is_kafkas_and_comes_back),
        cmocka_unit_test(test_uuid_refuses_other_text),
        cmocka_unit_test(test_slice_order_parts_and_null),
        cmocka_unit_test(test_slice_print_makes_remote_bytes_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
