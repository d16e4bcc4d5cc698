/* purg_pthread.c - the environment of programs with POSIX threads.
 *
 * Place:      the library's edge: with reaper.c the only file that needs more than libc and C11.
 * Thread:     any.
 * Failure:    allocation answers NULL; a lock that fails is a broken program and ends it. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "purgatory/purg_int.h"

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(struct purg_mutex), "a mutex fits its room");

static pthread_mutex_t *mutex_of(struct purg_mutex *mutex)
{
    return (pthread_mutex_t *)(void *)mutex->storage;
}

/* The kinds of a lock's failure here are all bugs: unlock by a stranger, use after fini. */
static void must(int error)
{
    if (error != 0) {
        fputs("libpurgatory: a mutex failed\n", stderr);
        abort();
    }
}

static bool pthread_env_mutex_init(void *ctx, struct purg_mutex *mutex)
{
    (void)ctx;
    pthread_mutexattr_t attr;
    if (pthread_mutexattr_init(&attr) != 0) { return false; }
#ifdef __GLIBC__ /* short critical sections: spin a little before sleeping */
    must(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP));
#endif
    int error = pthread_mutex_init(mutex_of(mutex), &attr);
    must(pthread_mutexattr_destroy(&attr));
    return error == 0;
}

static void pthread_env_mutex_fini(void *ctx, struct purg_mutex *mutex)
{
    (void)ctx;
    must(pthread_mutex_destroy(mutex_of(mutex)));
}

static void pthread_env_mutex_lock(void *ctx, struct purg_mutex *mutex)
{
    (void)ctx;
    must(pthread_mutex_lock(mutex_of(mutex)));
}

static void pthread_env_mutex_unlock(void *ctx, struct purg_mutex *mutex)
{
    (void)ctx;
    must(pthread_mutex_unlock(mutex_of(mutex)));
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
        .mutex_init = pthread_env_mutex_init,
        .mutex_fini = pthread_env_mutex_fini,
        .mutex_lock = pthread_env_mutex_lock,
        .mutex_unlock = pthread_env_mutex_unlock,
        .now_ns = pthread_env_now_ns,
        .alloc = pthread_env_alloc,
        .free = pthread_env_free,
        .misuse = pthread_env_misuse,
    };
}
