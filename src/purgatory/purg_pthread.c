/* purg_pthread.c - the environment of programs with POSIX threads.
 *
 * Place:      the library's edge: with reaper.c the only file that needs more than libc and C11.
 * Thread:     any.
 * Failure:    allocation answers NULL. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <sched.h>
#endif

#include "purgatory/purg_int.h"

static void pthread_env_word_wait(void *ctx, _Atomic(uint32_t) *word, uint32_t value)
{
    (void)ctx;
#ifdef __linux__
    /* However it returns, the caller looks at the word again. */
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
#else
    (void)word;
    (void)value;
    (void)sched_yield();
#endif
}

static void pthread_env_word_wake(void *ctx, _Atomic(uint32_t) *word)
{
    (void)ctx;
#ifdef __linux__
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
#else
    (void)word;
#endif
}

static uint64_t pthread_env_now_ns(void *ctx)
{
    (void)ctx;
    struct timespec time;
    if (clock_gettime(CLOCK_MONOTONIC, &time) != 0) { abort(); }
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *pthread_env_alloc(void *ctx, size_t size, size_t align)
{
    (void)ctx;
    void *memory = NULL;
    if (posix_memalign(&memory, align < sizeof memory ? sizeof memory : align, size) != 0) {
        return NULL;
    }
    return memset(memory, 0, size);
}

static void pthread_env_free(void *ctx, void *memory, size_t size)
{
    (void)ctx;
    (void)size;
    free(memory);
}

static void pthread_env_misuse(void *ctx, const char *what)
{
    (void)ctx;
    fprintf(stderr, "libpurgatory: %s\n", what);
}

struct purg_env purg_env_pthread(void)
{
    return (struct purg_env){
        .word_wait = pthread_env_word_wait,
        .word_wake = pthread_env_word_wake,
        .now_ns = pthread_env_now_ns,
        .alloc = pthread_env_alloc,
        .free = pthread_env_free,
        .misuse = pthread_env_misuse,
    };
}
