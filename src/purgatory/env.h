/* env.h - what libpurgatory needs from its surroundings: sleep, clock, memory, a last word.
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

struct purg_env {
    void *ctx; /* first argument of every function below */

    /* The library's locks are words of its own, each held for some tens of nanoseconds (but while a
     * table grows, for as long as that takes), and it never holds two at once. Only a thread that
     * finds one taken, after a short spin, comes here: word_wait sleeps while *word is 'value' and
     * may return early; word_wake wakes one who sleeps on the word, if there is one. A futex, or a
     * parking place of the simulator's. */
    void (*word_wait)(void *ctx, _Atomic(uint32_t) *word, uint32_t value);
    void (*word_wake)(void *ctx, _Atomic(uint32_t) *word);

    /* May be NULL. Told before a lock is taken, and before it is given back, for checks of order.
     * Under a lock the library calls nothing of the user but these, alloc and free (to grow a
     * table); they must not call the library. */
    void (*lock_taking)(void *ctx);
    void (*lock_giving)(void *ctx);

    /* Monotonic time. Only the reaper (reaper.h) reads it; all else takes 'now' as an argument. */
    uint64_t (*now_ns)(void *ctx);

    /* Zeroed memory, aligned to 'align' (a power of two, at most 64). free gets the same size. */
    void *(*alloc)(void *ctx, size_t size, size_t align);
    void (*free)(void *ctx, void *memory, size_t size);

    /* A broken contract, in words. May be NULL. When it returns the library aborts; a test leaves
     * it by longjmp. Nothing was changed yet. */
    void (*misuse)(void *ctx, const char *what);
};

/* The table for programs with POSIX threads: futexes (where there are none, yielding),
 * CLOCK_MONOTONIC, malloc, stderr. */
PURG_API struct purg_env purg_env_pthread(void);

#endif
