/* mutex.c - locks, with their rank verified in debug builds.
 *
 * Place:      a word and the kernel's futex instead of a pthread mutex: so small that a lock lies
 *             in the cache line of what it guards.
 * Source:     Drepper, "Futexes Are Tricky" (2011), the third mutex, with a short spin before.
 * Thread:     any. The list of held locks is thread-local.
 * Invariants: [SYS-1] a thread takes locks in rising rank only. [SYS-2] no lock survives a step. */
#include "base/check.h"
#include "sys/sys_int.h"

#include <stdatomic.h>
#include <string.h>

#define SYS_MUTEX_FREE 0
#define SYS_MUTEX_HELD 1
#define SYS_MUTEX_AWAITED 2 /* held, and somebody may sleep: giving it back wakes one */
#define SYS_MUTEX_SPINS 100 /* locks are short: a few spins are cheaper than a sleep */

static _Atomic(int) *sys_mutex_inner(struct sys_mutex *m)
{
    return (_Atomic(int) *)(void *)m->opaque;
}

static bool sys_mutex_take(_Atomic(int) *word)
{
    int expected = SYS_MUTEX_FREE;
    /* Acquire; pairs with the release that gave it back. */
    return atomic_compare_exchange_strong_explicit(word, &expected, SYS_MUTEX_HELD,
                                                   memory_order_acquire, memory_order_relaxed);
}

static void sys_mutex_pause(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static void sys_mutex_wait(_Atomic(int) *word)
{
    for (int i = 0; i < SYS_MUTEX_SPINS; i++) {
        sys_mutex_pause();
        if (atomic_load_explicit(word, memory_order_relaxed) == SYS_MUTEX_FREE &&
            sys_mutex_take(word)) {
            return;
        }
    }
    /* Taken as awaited, since others may still sleep. Acquire as above. */
    while (atomic_exchange_explicit(word, SYS_MUTEX_AWAITED, memory_order_acquire) !=
           SYS_MUTEX_FREE) {
        sys_futex_wait(word, SYS_MUTEX_AWAITED, SYS_NEVER);
    }
}

#ifdef BARNABAS_DEBUG
#define SYS_HELD_MAX 16
/* Since ranks rise, a rank names the lock. */
static _Thread_local unsigned sys_held[SYS_HELD_MAX];
static _Thread_local unsigned sys_held_count;

static void sys_rank_take(unsigned rank)
{
    for (unsigned i = 0; i < sys_held_count; i++) {
        CHECKF(sys_held[i] < rank, "[SYS-1] rank %u is held, %u is taken", sys_held[i], rank);
    }
    CHECK(sys_held_count < SYS_HELD_MAX);
    sys_held[sys_held_count++] = rank;
}

static void sys_rank_give(unsigned rank)
{
    unsigned i = 0;
    while (i < sys_held_count && sys_held[i] != rank) {
        i++;
    }
    CHECKF(i < sys_held_count, "a lock of rank %u is given back that is not held", rank);
    sys_held[i] = sys_held[--sys_held_count];
}

void sys_mutex_check_none_held(void)
{
    CHECKF(sys_held_count == 0, "[SYS-2] a lock of rank %u is held after a step", sys_held[0]);
}
#else
static void sys_rank_take(unsigned rank)
{
    (void)rank;
}

static void sys_rank_give(unsigned rank)
{
    (void)rank;
}

void sys_mutex_check_none_held(void)
{
}
#endif

void sys_mutex_init(struct sys_mutex *m, unsigned rank)
{
    memset(m, 0, sizeof *m);
    m->rank = rank;
    atomic_init(sys_mutex_inner(m), SYS_MUTEX_FREE);
}

void sys_mutex_fini(struct sys_mutex *m)
{
    int word = atomic_load_explicit(sys_mutex_inner(m), memory_order_relaxed);
    CHECK(word == SYS_MUTEX_FREE); /* otherwise it is still held */
}

NO_THREAD_SAFETY void sys_mutex_lock(struct sys_mutex *m)
{
    sys_rank_take(m->rank);
    _Atomic(int) *word = sys_mutex_inner(m);
    if (!sys_mutex_take(word)) { sys_mutex_wait(word); }
}

NO_THREAD_SAFETY void sys_mutex_unlock(struct sys_mutex *m)
{
    sys_rank_give(m->rank);
    _Atomic(int) *word = sys_mutex_inner(m);
    /* Release; pairs with the next acquire. */
    int was = atomic_exchange_explicit(word, SYS_MUTEX_FREE, memory_order_release);
    CHECK(was != SYS_MUTEX_FREE);
    if (was == SYS_MUTEX_AWAITED) { sys_futex_wake_one(word); }
}

void sys_word_wait(_Atomic(uint32_t) *word, uint32_t value)
{
    sys_futex_wait((_Atomic(int) *)(uintptr_t)word, (int)value, SYS_NEVER);
}

void sys_word_wake(_Atomic(uint32_t) *word)
{
    sys_futex_wake_one((_Atomic(int) *)(uintptr_t)word);
}

void sys_word_taking(enum sys_lock_rank rank)
{
    sys_rank_take(rank);
}

void sys_word_giving(enum sys_lock_rank rank)
{
    sys_rank_give(rank);
}
