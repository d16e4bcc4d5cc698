/* memory_test.c - the heap's edges, arenas and their limits, rings. */
#include "base/arena.h"
#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_mem_refuses_overflow_and_serves_nothing(void **state)
{
    (void)state;
    volatile size_t half = SIZE_MAX / 2; /* hidden from the compiler's own warning */
    assert_null(mem_array(half, 3));
    void *p = mem_alloc(0);
    assert_non_null(p);
    mem_free(p);
    mem_free(NULL);
    char *s = mem_strndup("hello", 3);
    assert_string_equal(s, "hel");
    mem_free(s);
}

static void test_arena_hands_out_zeroed_aligned_memory(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 256, 65536);
    for (int round = 0; round < 3; round++) {
        for (size_t size = 0; size < 700; size += 33) {
            uint8_t *p = arena_alloc(&a, size);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 16, 0);
            for (size_t i = 0; i < size; i++) {
                assert_int_equal(p[i], 0);
            }
            memset(p, 0xaa, size);
        }
        arena_reset(&a);
    }
    arena_fini(&a);
}

static void test_arena_goes_bad_at_its_limit_and_stays_so_until_reset(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 64, 160);
    assert_non_null(arena_alloc(&a, 100));
    assert_false(a.bad);
    assert_null(arena_alloc(&a, 100));
    assert_true(a.bad);
    assert_null(arena_alloc(&a, 1)); /* would fit, but the arena is bad */
    arena_reset(&a);
    assert_non_null(arena_alloc(&a, 160));
    assert_null(arena_alloc(&a, 1));
    arena_reset(&a);
    assert_null(arena_alloc(&a, SIZE_MAX));
    arena_reset(&a);
    volatile size_t huge = SIZE_MAX / 4;
    assert_null(arena_array(&a, huge, 8));
    assert_true(a.bad);
    arena_fini(&a);
}

static void test_arena_reset_keeps_the_first_chunk(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1024, 65536);
    void *first = arena_alloc(&a, 16);
    assert_non_null(arena_alloc(&a, 2000));
    arena_reset(&a);
    assert_ptr_equal(arena_alloc(&a, 16), first);
    arena_fini(&a);
}

static void test_arena_text(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 64, 4096);
    assert_string_equal(arena_strndup(&a, "abcdef", 3), "abc");
    assert_string_equal(arena_printf(&a, "%s-%d", "topic", 7), "topic-7");
    arena_fini(&a);
}

struct thing {
    int number;
    struct list node;
};

static void test_list_keeps_order_and_survives_removal_while_walking(void **state)
{
    (void)state;
    struct list head;
    struct thing things[5];
    list_init(&head);
    assert_null(list_pop_head(&head));
    for (int i = 0; i < 5; i++) {
        things[i].number = i;
        list_init(&things[i].node);
        list_add_tail(&head, &things[i].node);
    }
    LIST_EACH(at, next, &head)
    {
        struct thing *t = LIST_ENTRY(at, struct thing, node);
        if (t->number % 2 == 1) { list_remove(at); }
    }
    list_remove(&things[1].node); /* again: harmless */
    list_add_head(&head, &things[3].node);
    const int want[] = {3, 0, 2, 4};
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        struct list *n = list_pop_head(&head);
        CHECK(n);
        assert_int_equal(LIST_ENTRY(n, struct thing, node)->number, want[i]);
    }
    assert_true(list_is_empty(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mem_refuses_overflow_and_serves_nothing),
        cmocka_unit_test(test_arena_hands_out_zeroed_aligned_memory),
        cmocka_unit_test(test_arena_goes_bad_at_its_limit_and_stays_so_until_reset),
        cmocka_unit_test(test_arena_reset_keeps_the_first_chunk),
        cmocka_unit_test(test_arena_text),
        cmocka_unit_test(test_list_keeps_order_and_survives_removal_while_walking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
