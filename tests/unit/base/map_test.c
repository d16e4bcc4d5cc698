/* map_test.c - the hash map against a plain array that does the same. */
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define KEYS_COUNT 300
#define STEPS_COUNT 60000

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ULL;
    return hash_u64(*state);
}

/* Keys of many lengths, also empty ones and ones with zero bytes inside. */
static struct slice key_of(size_t i, char buf[32])
{
    if (i == 0) { return SLICE_LIT(""); }
    int n = snprintf(buf, 32, "%zu", i);
    memset(buf + n, 0, (size_t)(i % 9));
    return slice_of(buf, (size_t)n + i % 9);
}

static void check_equal(const struct map *m, void *const model[KEYS_COUNT])
{
    size_t count = 0;
    char buf[32];
    for (size_t i = 0; i < KEYS_COUNT; i++) {
        assert_ptr_equal(map_get(m, key_of(i, buf)), model[i]);
        count += model[i] != NULL;
    }
    assert_int_equal(m->count, count);
}

static void test_map_does_what_an_array_does(void **state)
{
    (void)state;
    static char values[KEYS_COUNT];
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct map m;
        void *model[KEYS_COUNT] = {0};
        uint64_t random = seed;
        char buf[32];
        map_init(&m);
        for (int step = 0; step < STEPS_COUNT; step++) {
            size_t i = next_random(&random) % KEYS_COUNT;
            if (next_random(&random) % 3 != 0) {
                void *old = &random, *value = &values[next_random(&random) % KEYS_COUNT];
                assert_int_equal(map_put(&m, key_of(i, buf), value, &old), ERR_OK);
                assert_ptr_equal(old, model[i]);
                model[i] = value;
            } else {
                assert_ptr_equal(map_remove(&m, key_of(i, buf)), model[i]);
                model[i] = NULL;
            }
            if (step % 997 == 0) { check_equal(&m, model); }
        }
        check_equal(&m, model);
        map_fini(&m);
    }
}

static void test_map_walks_in_order_of_insertion(void **state)
{
    (void)state;
    struct map m;
    char buf[32], value;
    map_init(&m);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(map_put(&m, key_of(i, buf), &value, NULL), ERR_OK);
    }
    assert_ptr_equal(map_remove(&m, key_of(3, buf)), &value); /* the last moves into the hole */
    for (size_t i = 0; i < m.count; i++) {
        struct slice key = slice_of(m.entries[i].key, m.entries[i].key_size);
        assert_true(slice_eq(key, key_of(i == 3 ? 99 : i, buf)));
    }
    map_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_does_what_an_array_does),
        cmocka_unit_test(test_map_walks_in_order_of_insertion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
