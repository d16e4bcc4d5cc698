/* owner.h - the task that completes delayed operations: a wheel, an inbox, a way to be woken.
 *
 * Place:      one per event loop (or other thread with a loop); see reaper.h where there is none.
 * Thread:     all functions here are for the owner's thread, except where said. Other threads
 *             reach it through the inbox, a lock-free stack of operations: those parked
 *             elsewhere, which need a timer, and those completed elsewhere.
 * Locks:      holds none while it calls wake, a timer or on_complete; the caller of a step holds
 *             none that these take.
 * Ownership:  an operation keeps its owner for life. The owner outlives its operations.
 * Invariants: [OWN-1] an operation is in at most one of inbox and ready queue, at most once.
 *             [OWN-2] wake is called at most once between two steps, and only after the last step
 *             found nothing more to do.
 *             [OWN-3] callbacks run only inside purg_owner_step(), never nested.
 * Failure:    only creation can fail.
 * Misuse:     reported through purg_env.misuse before anything changed: a step from one of its own
 *             callbacks, destroying an owner there or one that still has operations. */
#ifndef PURGATORY_OWNER_H
#define PURGATORY_OWNER_H

#include "purgatory/operation.h"

#define PURG_STEP_MAX_DEFAULT 1024u

struct purg_owner_options {
    uint64_t tick_ns; /* of its wheel, see wheel.h; 0: default */
    uint32_t slots; /* of its wheel; 0: default */
    uint64_t start_ns; /* the clock at birth */
    size_t step_max; /* callbacks of one step; 0: PURG_STEP_MAX_DEFAULT */
    /* Called from other threads when the owner may sleep and something was posted. Must make the
     * owner call purg_owner_step() soon. NULL: the owner polls. Runs without any lock. */
    void (*wake)(void *wake_ctx);
    void *wake_ctx;
};

/* NULL: no memory. */
PURG_API PURG_NODISCARD struct purg_owner *
purg_owner_create(const struct purg_env *env, const struct purg_owner_options *options);

/* Accepts NULL. Misuse: operations or timers are left (see purg_owner_shutdown); called from one of
 * its own callbacks. */
PURG_API void purg_owner_destroy(struct purg_owner *owner);

/* One turn: fires due timers, takes the inbox, runs on_complete of what has ended, until nothing
 * is left or 'step_max' callbacks ran. Returns when to call again at the latest: 0 at once (the
 * budget is spent), PURG_NEVER if nothing waits. The value holds until the loop parks, cancels,
 * checks or adds a timer on this thread: so call it last, right before sleeping. From its return
 * on a post of another thread calls wake, once. O(what it does). */
PURG_API uint64_t purg_owner_step(struct purg_owner *owner, uint64_t now_ns);

/* What step would answer now, without doing anything: 0 if there is work. O(1). */
PURG_API uint64_t purg_owner_next_ns(const struct purg_owner *owner);

/* Ends all operations with PURG_SHUTDOWN, and from now on whatever is parked with this owner. Their
 * on_complete runs in the following steps: step until purg_owner_is_idle(). O(operations). */
PURG_API void purg_owner_shutdown(struct purg_owner *owner);

/* Nothing waits, is queued or is still referred to. A thread that is inside a call for an
 * operation of this owner counts only once the operation was posted: stop such threads first.
 * O(1). */
PURG_API bool purg_owner_is_idle(const struct purg_owner *owner);

/* Operations of this owner that are armed or not yet answered (seen by the owner so far). O(1). */
PURG_API size_t purg_owner_count(const struct purg_owner *owner);

/* The wheel that step drives, for plain timers of the same task (idle, throttle, sessions). They
 * must be removed before the owner is destroyed; shutdown leaves them alone. */
PURG_API struct purg_wheel *purg_owner_wheel(struct purg_owner *owner);

/* The time that the current (or last) step was given: one clock read per turn is enough. */
PURG_API uint64_t purg_owner_now_ns(const struct purg_owner *owner);

#endif
