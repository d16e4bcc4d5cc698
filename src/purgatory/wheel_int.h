/* wheel_int.h - where a deadline's timer goes, and fetching that memory early.
 *
 * Place:      private to src/purgatory; wheel.c says what level and slot mean.
 * Thread:     the wheel's.
 * Failure:    none: a prefetch has no effect but on time. */
#ifndef PURGATORY_WHEEL_INT_H
#define PURGATORY_WHEEL_INT_H

#include "purgatory/wheel.h"

/* Up to here a product takes the place of a division. It is 292 years of uptime. */
#define PURG_WHEEL_NEAR_NS ((uint64_t)INT64_MAX)

/* time_ns / tick_ns, for times below 2^63. With inverse = ceil(2^(63+s) / tick_ns) and
 * s = ceil(log2(tick_ns)) the product is exact: it is too great by time_ns / 2^63 * e / tick_ns for
 * an e < 2^s at most, which is less than what is missing to the next whole tick, 1 / tick_ns. */
static inline uint64_t purg_wheel_near_tick(const struct purg_wheel *wheel, uint64_t time_ns)
{
#ifdef __SIZEOF_INT128__
    unsigned __int128 product = (unsigned __int128)(time_ns << 1) * wheel->inverse;
    return (uint64_t)(product >> 64) >> wheel->inverse_shift;
#else
    return time_ns / wheel->tick_ns;
#endif
}

/* The slot of a tick that the clock has not reached. */
static inline struct purg_link *purg_wheel_slot(const struct purg_wheel *wheel, uint64_t tick)
{
    uint32_t highest = 63u - (uint32_t)__builtin_clzll(tick ^ wheel->tick);
    struct purg_wheel_level level = wheel->level_of[highest];
    return &wheel->slots[((uint32_t)level.index << wheel->bits) +
                         ((tick >> level.shift) & wheel->slot_mask)];
}

/* The list for a deadline. Beyond PURG_WHEEL_NEAR_NS: NULL, purg_timer_add() looks closer. */
static inline struct purg_link *purg_wheel_near_list(struct purg_wheel *wheel, uint64_t deadline_ns)
{
    if (deadline_ns <= wheel->clock_ns) { return &wheel->due; }
    if (__builtin_expect(deadline_ns > wheel->near_ns, 0)) { return NULL; }
    /* [WHL-1] rounded up; it is above the clock, so at least 1 */
    return purg_wheel_slot(wheel, purg_wheel_near_tick(wheel, deadline_ns - 1) + 1);
}

/* Fetches for writing what purg_timer_add() with this deadline will touch: the last of its list. */
static inline void purg_wheel_prefetch(const struct purg_wheel *wheel, uint64_t deadline_ns)
{
    if (deadline_ns <= wheel->clock_ns || deadline_ns > wheel->near_ns) { return; }
    uint64_t tick = purg_wheel_near_tick(wheel, deadline_ns - 1) + 1;
    __builtin_prefetch(purg_wheel_slot(wheel, tick)->prev, 1, 3);
}

/* Fetches for writing what purg_timer_remove() will touch: the neighbours. The timer itself must
 * be at hand already, else this waits for it. */
static inline void purg_timer_prefetch(const struct purg_timer *timer)
{
    __builtin_prefetch(timer->link.next, 1, 3);
    __builtin_prefetch(timer->link.prev, 1, 3);
}

#endif
