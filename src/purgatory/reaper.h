/* reaper.h - a thread that owns operations, for programs without event loops.
 *
 * Place:      optional, on POSIX threads; beside purg_env_pthread().
 * Thread:     start and stop from one thread; on_complete of its operations runs on the reaper's.
 * Locks:      none is held while a callback runs.
 * Failure:    only starting can fail. Misuse: stopping it from its own thread.
 * Ownership:  the reaper owns its purg_owner; operations name that one in purg_op_init(). Callers
 *             on other threads pass self = NULL. */
#ifndef PURGATORY_REAPER_H
#define PURGATORY_REAPER_H

#include "purgatory/owner.h"

struct purg_reaper;

/* Starts the thread. 'options' gives tick, slots and step_max; its wake is ignored. NULL: no
 * memory or no thread. 'env' must have a monotonic clock comparable to CLOCK_MONOTONIC. */
PURG_API PURG_NODISCARD struct purg_reaper *
purg_reaper_start(const struct purg_env *env, const struct purg_owner_options *options);

PURG_API struct purg_owner *purg_reaper_owner(struct purg_reaper *reaper);

/* Ends all its operations with PURG_SHUTDOWN, waits until each on_complete has run, ends the thread
 * and frees. No other thread may park or check operations of it any more. Accepts NULL. Misuse:
 * called on the reaper's own thread, from a callback. */
PURG_API void purg_reaper_stop(struct purg_reaper *reaper);

#endif
