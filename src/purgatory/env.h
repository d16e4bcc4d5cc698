/* env.h - what libpurgatory needs from its surroundings: a lock, a clock, memory, a last word.
 *
 * Place:      lowest header of the library; libc only. purg_env_pthread() is a ready table for
 *             programs with POSIX threads; a simulator hands in its own.
 * Thread:     every function of the table may be called from any thread that calls the library.
 * Ownership:  the table is copied by each object made from it; 'ctx' must outlive those objects.
 * Failure:    alloc may answer NULL: creation then fails, everything else goes on without.
 *             misuse() tells of a bug of the caller; the library aborts when it returns. */
#ifndef PURGATORY_ENV_H
#define PURGATORY_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PURG_API __attribute__((visibility("default")))
#define PURG_NODISCARD __attribute__((warn_unused_result))

/* A deadline that never comes. */
#define PURG_NEVER UINT64_MAX

/* Room for one lock, inside the library's own structures. A bigger lock stores a pointer here. */
#ifdef __aarch64__
#define PURG_MUTEX_SIZE 48
#else
#define PURG_MUTEX_SIZE 40
#endif
struct purg_mutex {
    _Alignas(8) unsigned char storage[PURG_MUTEX_SIZE];
};

struct purg_env {
    void *ctx; /* first argument of every function below */

    /* A short, non-recursive lock. init answers false when there is no room. The library never
     * holds two locks at once, and under one it calls nothing of the user but alloc and free (to
     * grow a table) and the hash of keys; these must not call the library. */
    bool (*mutex_init)(void *ctx, struct purg_mutex *mutex);
    void (*mutex_fini)(void *ctx, struct purg_mutex *mutex);
    void (*mutex_lock)(void *ctx, struct purg_mutex *mutex);
    void (*mutex_unlock)(void *ctx, struct purg_mutex *mutex);

    /* Monotonic time. Only the reaper (reaper.h) reads it; all else takes 'now' as an argument. */
    uint64_t (*now_ns)(void *ctx);

    /* Zeroed memory, aligned to 'align' (a power of two, at most 64). free gets the same size. */
    void *(*alloc)(void *ctx, size_t size, size_t align);
    void (*free)(void *ctx, void *memory, size_t size);

    /* A broken contract, in words. May be NULL. When it returns the library aborts; a test leaves
     * it by longjmp. Nothing was changed yet. */
    void (*misuse)(void *ctx, const char *what);
};

/* The table for programs with POSIX threads: adaptive mutexes, CLOCK_MONOTONIC, malloc, stderr. */
PURG_API struct purg_env purg_env_pthread(void);

#endif
