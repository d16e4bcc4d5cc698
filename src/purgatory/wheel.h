/* wheel.h - hierarchical timing wheel with occupancy bitmaps.
 *
 * Place:      the timer of one task. Standalone: needs only env.h.
 * Source:     Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987), scheme 7, with
 *             two turns of slots at each level: the next is filled while this one runs.
 * Thread:     one thread (the owner) only. Callbacks run on it, inside purg_wheel_advance().
 * Locks:      takes none; the caller may hold any that its callbacks do not take.
 * Ownership:  timers are the caller's memory, untouched by the wheel once removed or due. A timer
 *             must not be freed while it is in a wheel. Lifetime: the wheel from purg_wheel_init()
 *             to purg_wheel_fini(), at one address.
 * Invariants: [WHL-1] never early: a timer fires when now >= deadline, not before. [WHL-2] late by
 *             less than one tick, if the wheel is advanced when next_ns says. [WHL-3] fires
 *             exactly once per add, unless removed. [WHL-4] a timer's slot at a level
 *             begins after the clock, in the turn that the clock is in there or in the next one. It
 *             enters the lowest such level. [WHL-5] a turn's bitmap has a bit exactly for its
 *             non-empty slots.
 * Complexity: add, remove, next_ns: O(levels), of which there are 8 with ticks of 1 ms. advance:
 *             O(fired + cascaded), each timer cascades at most once per level, mostly a few at a
 *             time before its slot begins; empty time costs nothing, however long.
 * Failure:    only making a wheel can fail. It has all levels that its clock can need from then on
 *             (16 KiB with ticks of 1 ms): adding allocates nothing.
 * Misuse:     reported through purg_env.misuse before anything changed: adding a timer that is in
 *             a wheel, advancing from a callback or without budget, bad slots, ending a wheel that
 *             has timers. */
#ifndef PURGATORY_WHEEL_H
#define PURGATORY_WHEEL_H

#include "purgatory/env.h"

#define PURG_TICK_NS_DEFAULT 1000000u /* 1 ms */
#define PURG_SLOTS_DEFAULT 64u
#define PURG_SLOTS_MAX 64u /* one bitmap word a turn */
#define PURG_SLOTS_MIN 8u /* so at most 22 levels */
#define PURG_LEVELS_MAX 22u

struct purg_link {
    struct purg_link *next, *prev; /* next is NULL when in no list */
};

/* One timer, 32 bytes, embedded in the structure it serves. Fields are the wheel's. */
struct purg_timer {
    struct purg_link link; /* must be first */
    uint64_t deadline_ns;
    void (*on_due)(struct purg_timer *timer, uint64_t now_ns);
};

struct purg_wheel_options {
    uint64_t tick_ns; /* 0: PURG_TICK_NS_DEFAULT */
    uint32_t slots; /* per turn, a power of two in [PURG_SLOTS_MIN, PURG_SLOTS_MAX]; 0: default */
    uint64_t start_ns; /* the clock at birth */
};

struct purg_wheel_level {
    uint64_t reach_ns; /* the last deadline in the clock's turn and the next one */
    struct purg_link *slots; /* heads, of even turns and then of odd ones */
    uint64_t occupied[2]; /* bit per non-empty slot, of even turns and of odd ones */
    uint32_t shift; /* of a tick, to the digit that chooses the slot */
};

/* Fields are the wheel's; the structure is public only so that it can be embedded. */
struct purg_wheel {
    uint64_t tick; /* the clock: every earlier tick has been fired */
    uint64_t clock_ns; /* where that tick begins */
    uint64_t inverse; /* 2^(63 + inverse_shift) / tick_ns, rounded up */
    uint64_t near_ns; /* deadlines up to here are divided by means of it */
    uint64_t level_mask; /* slots of both turns of a level - 1 */
    uint16_t bits; /* log2 of the slots of a turn */
    uint16_t inverse_shift;
    uint32_t levels_count;
    uint32_t levels_mask; /* bit per level that has a non-empty slot */
    struct purg_wheel_level levels[PURG_LEVELS_MAX];
    struct purg_link due; /* time has come, not yet fired (budget) */
    struct purg_link never; /* PURG_NEVER: kept for purg_wheel_take_any() alone */
    uint64_t tick_ns;
    uint64_t tick_max; /* the last tick that a 64-bit nanosecond clock can reach */
    bool is_advancing;
    struct purg_env env;
};

/* Makes an empty wheel in the caller's memory. False: no memory. Misuse: bad slots. */
PURG_API PURG_NODISCARD bool purg_wheel_init(struct purg_wheel *wheel, const struct purg_env *env,
                                             const struct purg_wheel_options *options);

/* Gives the slots back. Misuse: timers are still in it, for which it walks all lists. Accepts a
 * zeroed wheel. */
PURG_API void purg_wheel_fini(struct purg_wheel *wheel);

/* Prepares a timer, in no wheel. 'on_due' runs on the owner's thread with the timer already out
 * of the wheel; it may add or remove any timer, free this one, but not advance the wheel. */
PURG_API void purg_timer_init(struct purg_timer *timer,
                              void (*on_due)(struct purg_timer *timer, uint64_t now_ns));

/* Enters a timer. A deadline that has passed fires at the next advance. PURG_NEVER (and any
 * deadline beyond the clock's last whole tick) never fires. Misuse: already in a wheel. */
PURG_API void purg_timer_add(struct purg_wheel *wheel, struct purg_timer *timer,
                             uint64_t deadline_ns);

/* Takes a timer out. False when it was in no wheel (idempotent). */
PURG_API bool purg_timer_remove(struct purg_wheel *wheel, struct purg_timer *timer);

/* Whether the timer is in a wheel. */
PURG_API bool purg_timer_is_added(const struct purg_timer *timer);

/* Moves the clock to 'now_ns' (a clock that went back stands still) and fires what is due, in
 * order of ticks, at most 'budget' timers (> 0). Returns how many fired; when it is 'budget', more
 * may be due: call again. A timer that is added during the call and already due fires in it.
 * Misuse: no budget; called from an on_due of this wheel. */
PURG_API size_t purg_wheel_advance(struct purg_wheel *wheel, uint64_t now_ns, size_t budget);

/* When advance has something to do next: 0 if something is due now, PURG_NEVER if nothing waits.
 * It is the start of the next non-empty slot: at level 0 the exact tick, at a higher level at or
 * before the first timer's tick (there advance only cascades). */
PURG_API uint64_t purg_wheel_next_ns(const struct purg_wheel *wheel);

/* Removes and returns some timer, NULL when the wheel is empty: for shutdown. */
PURG_API struct purg_timer *purg_wheel_take_any(struct purg_wheel *wheel);

/* Timers in the wheel, walked one by one: adding and removing do not pay for a count. */
PURG_API size_t purg_wheel_count(const struct purg_wheel *wheel);

#endif
