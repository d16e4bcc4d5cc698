/* wheel_int.h - where a deadline's timer goes, and fetching its memory early.
 *
 * Place:      private to src/purgatory; wheel.c says what level and slot mean.
 * Thread:     the wheel's.
 * Failure:    none: a prefetch has no effect but on time. */
#ifndef PURGATORY_WHEEL_INT_H
#define PURGATORY_WHEEL_INT_H

#include "purgatory/purg_int.h"

/* Up to here a product takes the place of a division. It is 292 years of uptime. */
#define PURG_WHEEL_NEAR_NS ((uint64_t)INT64_MAX)

/* The tick of a deadline, rounded up [WHL-1]; for 0 < deadline_ns <= near_ns. It is the quotient of
 * n = deadline_ns - 1 and tick_ns, plus 1. With s = ceil(log2(tick_ns)) and
 * inverse = ceil(2^(63+s) / tick_ns) the product is exact: it is too great by less than
 * n / 2^63 / tick_ns, and to the next whole number 1 / tick_ns at least is missing. */
static inline uint64_t purg_wheel_near_tick(const struct purg_wheel *wheel, uint64_t deadline_ns)
{
    uint64_t n = deadline_ns - 1;
#ifdef __SIZEOF_INT128__
    return ((uint64_t)(((unsigned __int128)(n << 1) * wheel->inverse) >> 64) >>
            wheel->inverse_shift) +
           1;
#else
    return n / wheel->tick_ns + 1;
#endif
}

/* The slot for a deadline whose tick the clock has not reached [WHL-4]. A loop, for a timer's kind
 * mostly determines its level: what the processor foresees it does not wait for. */
static inline struct purg_link *purg_wheel_slot(const struct purg_wheel *wheel,
                                                uint64_t deadline_ns, uint64_t tick)
{
    const struct purg_wheel_level *level = wheel->levels;
    while (deadline_ns > level->reach_ns) {
        level++;
    }
    return &level->slots[(tick >> level->shift) & wheel->level_mask];
}

/* The list for a deadline, at most near_ns. */
static inline struct purg_link *purg_wheel_near_list(struct purg_wheel *wheel, uint64_t deadline_ns)
{
    if (deadline_ns <= wheel->clock_ns) { return &wheel->due; }
    return purg_wheel_slot(wheel, deadline_ns, purg_wheel_near_tick(wheel, deadline_ns));
}

/* Fetches for writing what purg_timer_remove() will touch: the neighbours. The timer itself must
 * be at hand already, else this waits for it. */
static inline void purg_timer_prefetch(const struct purg_timer *timer)
{
    purg_prefetch_write(timer->link.next);
    purg_prefetch_write(timer->link.prev);
}

#endif
