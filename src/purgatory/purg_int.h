/* purg_int.h - what the library's files share and users do not see.
 *
 * Place:      private to src/purgatory.
 * Thread:     noted at each function; 'self' is the owner whose thread the caller is on, or NULL.
 * Invariants: those of the public headers. */
#ifndef PURGATORY_PURG_INT_H
#define PURGATORY_PURG_INT_H

#include <stdatomic.h>
#include <stdlib.h>

#include "purgatory/purgatory.h"

#define PURG_CACHE_LINE 64

/* The structure that holds 'member' at 'pointer'. */
#define PURG_CONTAINER(pointer, type, member)                                                      \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Fetches a cache line and takes it from other processors. Any address is good. */
static inline void purg_prefetch_write(const void *memory)
{
#ifdef __x86_64__ /* where the built-in fetches for reading unless newer processors are asked for */
    __asm__ volatile("prefetchw %0" ::"m"(*(const char *)memory));
#else
    __builtin_prefetch(memory, 1, 3);
#endif
}

/* A bug of the caller: tells the environment, then ends the program. */
static inline _Noreturn void purg_misuse(const struct purg_env *env, const char *what)
{
    if (env->misuse) { env->misuse(env->ctx, what); }
    abort();
}

/* Whether 'reason' may be a cancel's: time alone expires an operation. */
static inline bool purg_is_cancel_reason(enum purg_reason reason)
{
    return reason != PURG_EXPIRED && (uint32_t)reason <= (uint32_t)PURG_SHUTDOWN;
}

/* operation.c */

/* Under the shard's lock, for a linked operation. True: the caller now holds CHECKING and a
 * reference and must call purg_op_check(). False: ended, or told its checker to try again. */
bool purg_op_begin_check(struct purg_op *op);
/* Fetches what ending it will touch first: the operation and what lies right behind it. */
void purg_op_prefetch(const struct purg_op *op);
/* Tries and gives CHECKING and the reference back. True: this call ended it. */
bool purg_op_check(struct purg_op *op, struct purg_owner *self);
/* First to end it? Then the caller holds a reference and must call purg_op_finish_end() with
 * *is_parking, outside any lock. Allowed under the shard's lock for a linked operation. */
bool purg_op_begin_end(struct purg_op *op, enum purg_reason reason, bool *is_parking);
void purg_op_finish_end(struct purg_op *op, struct purg_owner *self, bool is_parking);
/* Start and rest of parking, by the thread that parks. */
void purg_op_begin_park(struct purg_op *op);
enum purg_outcome purg_op_settle(struct purg_op *op, struct purg_owner *self);
/* Tried successfully before it was linked: ended without ever having been parked. */
void purg_op_end_unparked(struct purg_op *op);
bool purg_op_is_fresh(const struct purg_op *op);
/* Whether a timer of an owner's wheel is an operation's. */
bool purg_op_is_timer(const struct purg_timer *timer);
void purg_op_unref(struct purg_op *op, struct purg_owner *self);
/* Ended and no reference left: what came through the inbox is to be completed. */
bool purg_op_is_over(const struct purg_op *op);
enum purg_reason purg_op_reason(const struct purg_op *op);

/* owner.c */

const struct purg_env *purg_owner_env(const struct purg_owner *owner);
/* Any thread but the owner's: hands the operation over and wakes the owner if it sleeps. */
void purg_owner_post(struct purg_owner *owner, struct purg_op *op);
/* Owner's thread: it has ended and nobody refers to it; on_complete follows in a step. */
void purg_owner_ready(struct purg_owner *owner, struct purg_op *op);
/* Owner's thread: its timer starts. */
void purg_owner_arm(struct purg_owner *owner, struct purg_op *op);
/* Owner's thread: forget an armed operation that will not be completed by the owner. */
void purg_owner_disarm(struct purg_owner *owner, struct purg_op *op);

/* purgatory.c */

/* Misuse if this thread holds a shard's lock: it came here from the user's memory. */
void purg_refuse_locked(const struct purgatory *purgatory, const char *what);
/* Any thread, no lock held: takes the operation from all its keys. */
void purg_unlink_all(struct purg_op *op);
void purg_count_expiration(struct purgatory *purgatory);

#endif
