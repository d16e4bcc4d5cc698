/* lock_int.h - a shard's lock: a word in the cache line that it guards.
 *
 * Place:      private to src/purgatory.
 * Source:     Drepper, "Futexes Are Tricky" (2011), the third mutex, with a short spin before. The
 *             broker's own locks (src/sys/mutex.c) are of the same kind; the library stands alone.
 * Thread:     any; not recursive. The environment is asked only by who must wait, and by who gives
 *             back a lock that somebody may wait for. */
#ifndef PURGATORY_LOCK_INT_H
#define PURGATORY_LOCK_INT_H

#include <stdatomic.h>

#include "purgatory/env.h"

#define PURG_LOCK_FREE 0u
#define PURG_LOCK_HELD 1u
#define PURG_LOCK_AWAITED 2u /* held, and somebody may sleep: giving it back wakes one */

/* It was taken: spins, then sleeps. */
void purg_lock_wait(const struct purg_env *env, _Atomic(uint32_t) *word);

/* In a loop that waits for another processor. */
static inline void purg_lock_pause(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static inline bool purg_lock_try(_Atomic(uint32_t) *word)
{
    uint32_t expected = PURG_LOCK_FREE;
    /* Acquire; pairs with the release in purg_unlock(). */
    return atomic_compare_exchange_strong_explicit(word, &expected, PURG_LOCK_HELD,
                                                   memory_order_acquire, memory_order_relaxed);
}

static inline void purg_lock(const struct purg_env *env, _Atomic(uint32_t) *word)
{
    if (env->lock_taking) { env->lock_taking(env->ctx); }
    if (!purg_lock_try(word)) { purg_lock_wait(env, word); }
}

static inline void purg_unlock(const struct purg_env *env, _Atomic(uint32_t) *word)
{
    if (env->lock_giving) { env->lock_giving(env->ctx); }
    if (atomic_exchange_explicit(word, PURG_LOCK_FREE, memory_order_release) == PURG_LOCK_AWAITED) {
        env->word_wake(env->ctx, word);
    }
}

#endif
