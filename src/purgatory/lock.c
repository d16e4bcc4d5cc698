/* lock.c - see lock_int.h: the way of who finds a lock taken. */
#include "purgatory/lock_int.h"

#define SPINS_MAX 100 /* locks are short: a few spins are cheaper than a sleep */

void purg_lock_wait(const struct purg_env *env, _Atomic(uint32_t) *word)
{
    for (int i = 0; i < SPINS_MAX; i++) {
        purg_lock_pause();
        if (atomic_load_explicit(word, memory_order_relaxed) == PURG_LOCK_FREE &&
            purg_lock_try(word)) {
            return;
        }
    }
    /* Taken as awaited, since others may still sleep. Acquire as in purg_lock_try(). */
    while (atomic_exchange_explicit(word, PURG_LOCK_AWAITED, memory_order_acquire) !=
           PURG_LOCK_FREE) {
        env->word_wait(env->ctx, word, PURG_LOCK_AWAITED);
    }
}
