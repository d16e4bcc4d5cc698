/* purg_test.h - what the library's tests share: an environment that counts and can fail. */
#ifndef TESTS_PURG_TEST_H
#define TESTS_PURG_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "purgatory/purgatory.h"

struct test_env {
    size_t bytes_used;
    size_t allocs_left; /* SIZE_MAX: no limit */
    size_t locks_held; /* at most one at a time */
    size_t locks_count; /* ever taken */
};

static inline void test_env_lock_taking(void *ctx)
{
    struct test_env *env = ctx;
    assert_int_equal(env->locks_held, 0);
    env->locks_held++;
    env->locks_count++;
}

static inline void test_env_lock_giving(void *ctx)
{
    struct test_env *env = ctx;
    assert_int_equal(env->locks_held, 1);
    env->locks_held--;
}

static inline void *test_env_alloc(void *ctx, size_t size, size_t align)
{
    struct test_env *env = ctx;
    void *memory = NULL;
    if (env->allocs_left == 0) { return NULL; }
    if (env->allocs_left != SIZE_MAX) { env->allocs_left--; }
    if (posix_memalign(&memory, align, size) != 0) { return NULL; }
    env->bytes_used += size;
    return memset(memory, 0, size);
}

static inline void test_env_free(void *ctx, void *memory, size_t size)
{
    struct test_env *env = ctx;
    assert_non_null(memory);
    assert_true(env->bytes_used >= size);
    env->bytes_used -= size;
    free(memory);
}

/* Lands in expect_assert_failure(), or fails the test. */
static inline void test_env_misuse(void *ctx, const char *what)
{
    (void)ctx;
    mock_assert(0, what, __FILE__, __LINE__);
}

static inline struct purg_env test_env_table(struct test_env *env)
{
    *env = (struct test_env){.allocs_left = SIZE_MAX};
    return (struct purg_env){
        .ctx = env,
        .lock_taking = test_env_lock_taking,
        .lock_giving = test_env_lock_giving,
        .alloc = test_env_alloc,
        .free = test_env_free,
        .misuse = test_env_misuse,
    };
}

/* A small seeded generator (splitmix64): a failing seed is a failing test again. */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
