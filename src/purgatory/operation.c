/* operation.c - the state word of a delayed operation: who is first, and who is last.
 *
 * Place:      the core of the library; purgatory.c finds operations, owner.c completes them.
 * Thread:     any; all moves of the state word are single atomic exchanges.
 *
 * The word holds flags, the reason, and in its upper bits the number of references:
 *
 *   PARKED    from purg_op_begin_park() on. Without it nothing can end the operation.
 *   PARKING   the parking thread still links or has its second try ahead; only it unlinks.
 *   CHECKING  a thread is, or will be, inside try_complete.
 *   RECHECK   an event came meanwhile; the checking thread tries again before it leaves.
 *   DONE      ended, for the reason beside it; set once [OP-1].
 *
 *      fresh --begin_park--> PARKED|PARKING|CHECKING --settle--> PARKED <--> PARKED|CHECKING
 *                                    |                             |               |
 *                                    +----------- DONE + reason <--+---------------+
 *                                                   | unlinked from all keys, then
 *                                                   | the last reference goes
 *                                                   v
 *                                            owner: ready, on_complete
 *
 * Exactly once [OP-1]: DONE is set by compare-and-exchange from a word without it, so one caller
 * succeeds. References are taken only while DONE is absent, or by the exchange that sets it [OP-4];
 * so after it their number falls to zero once, and whoever takes it there posts the operation. The
 * winner holds one until it has unlinked [OP-5].
 *
 * Nobody inside [OP-2]: who runs try_complete holds a reference; on_complete waits for the last.
 * A walker reads the word without reference only under the shard's lock, while the node is linked;
 * the winner needs that lock to unlink and keeps its reference until then. While PARKING is set
 * only the parking thread links and unlinks [OP-6].
 *
 * No lost wake-up [OP-3]: a walker that meets CHECKING sets RECHECK. The checker leaves only by an
 * exchange from a word without RECHECK, which reads the walker's write or precedes it [OP-7]:
 * either it tries again after the event, or the walker finds CHECKING clear and tries itself.
 * PARKING comes with CHECKING, so the window from the first node linked to the end of the second
 * try is the same case; an event before the first link is seen by the second try, by way of the
 * shard's lock [OP-8]. One thread at a time holds CHECKING, and it alone tries [OP-9].
 *
 * Ordering: every exchange is acquire-release; what a thread published before it walked is
 * visible to the try_complete it causes, and all tries are visible to on_complete. */
#include "purgatory/purg_int.h"

#define PARKED 1u
#define PARKING 2u
#define CHECKING 4u
#define RECHECK 8u
#define DONE 16u
#define REASON_SHIFT 5u
#define REASON_MASK (3u << REASON_SHIFT)
#define REF 256u

#define LINES_AHEAD 4u /* of an operation and what lies behind it: its nodes, if they are few */
#define NODES_AHEAD 4u /* fetched before a try */

_Static_assert(sizeof(struct purg_op) <= 96 && sizeof(struct purg_watch_node) <= 56,
               "an operation with one key lies in two cache lines and a little");
_Static_assert(PURG_SHUTDOWN <= REASON_MASK >> REASON_SHIFT, "a reason fits its bits");

static uint32_t state_load(const struct purg_op *op)
{
    return atomic_load_explicit(&op->state, memory_order_acquire);
}

static bool state_move(struct purg_op *op, uint32_t *from, uint32_t to)
{
    return atomic_compare_exchange_weak_explicit(&op->state, from, to, memory_order_acq_rel,
                                                 memory_order_acquire);
}

static uint32_t ended(uint32_t state, enum purg_reason reason)
{
    return state | DONE | ((uint32_t)reason << REASON_SHIFT);
}

/* Drops a reference; true if it was the last of an ended operation [OP-4]. After DONE references
 * only go: if there is one, it is ours, and nobody else can move the word any more. */
static bool ref_drop(struct purg_op *op)
{
    uint32_t state = state_load(op);
    if ((state & DONE) && state < 2 * REF) {
        atomic_store_explicit(&op->state, state - REF, memory_order_relaxed);
        return true;
    }
    state = atomic_fetch_sub_explicit(&op->state, REF, memory_order_acq_rel) - REF;
    return (state & DONE) && state < REF;
}

/* The owner's timer came: one of the ways to end. */
static void op_on_due(struct purg_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct purg_op *op = PURG_CONTAINER(timer, struct purg_op, timer);
    bool is_parking;
    if (!purg_op_begin_end(op, PURG_EXPIRED, &is_parking)) {
#ifdef PURG_MUTANT_TWICE /* planted bug: the timeout does not look who was first */
        op->type->on_complete(op, PURG_EXPIRED);
#endif
        return;
    }
    purg_count_expiration(op->purgatory);
    purg_op_finish_end(op, op->owner, is_parking);
}

void purg_op_init(struct purg_op *op, const struct purg_op_type *type, struct purg_owner *owner)
{
    /* One by one: clearing all of it first costs more than the rest of parking's own work. */
    op->type = type;
    op->owner = owner;
    op->purgatory = NULL;
    op->nodes = NULL;
    op->nodes_count = 0;
    atomic_store_explicit(&op->state, 0, memory_order_relaxed);
    op->queue_next = NULL;
    op->timer.link.next = NULL;
    op->timer.on_due = op_on_due;
    op->is_counted = false;
}

bool purg_op_is_timer(const struct purg_timer *timer)
{
    return timer->on_due == op_on_due;
}

bool purg_op_is_fresh(const struct purg_op *op)
{
    return op->type && op->owner && state_load(op) == 0;
}

void purg_op_begin_park(struct purg_op *op)
{
    /* Release: who cancels by way of the operation itself sees its keys and purgatory; who comes by
     * a key has them from the shard's lock. */
    atomic_store_explicit(&op->state, PARKED | PARKING | CHECKING | REF, memory_order_release);
}

void purg_op_end_unparked(struct purg_op *op)
{
    atomic_store_explicit(&op->state, DONE, memory_order_relaxed);
}

bool purg_op_is_over(const struct purg_op *op)
{
    uint32_t state = state_load(op);
    return (state & DONE) && state < REF;
}

enum purg_reason purg_op_reason(const struct purg_op *op)
{
    return (enum purg_reason)((state_load(op) & REASON_MASK) >> REASON_SHIFT);
}

bool purg_op_is_parked(const struct purg_op *op)
{
    return (state_load(op) & (PARKED | DONE)) == PARKED;
}

void purg_op_unref(struct purg_op *op, struct purg_owner *self)
{
    struct purg_owner *owner = op->owner;
    if (!ref_drop(op)) { return; /* the operation may be gone by now */ }
    if (owner == self) {
        purg_owner_ready(owner, op);
    } else {
        purg_owner_post(owner, op);
    }
}

bool purg_op_begin_check(struct purg_op *op)
{
    uint32_t state = state_load(op);
    for (;;) {
        if (state & DONE) { return false; }
        /* Also when RECHECK is there already: this write is what carries our event [OP-7]. */
        bool is_mine = !(state & CHECKING); /* [OP-9] */
        uint32_t to = is_mine ? (state | CHECKING) + REF : state | RECHECK;
        if (state_move(op, &state, to)) { return is_mine; }
    }
}

enum verdict {
    VERDICT_WON, /* this thread ended it; reference still held */
    VERDICT_LOST, /* another thread ended it; reference still held */
    VERDICT_WAITS, /* not complete; CHECKING, PARKING and 'drop' given up */
};

/* Tries until no event came during the try [OP-7]. The caller holds CHECKING and a reference. */
static enum verdict try_until_settled(struct purg_op *op, uint32_t drop)
{
    for (;;) {
        bool is_complete = op->type->try_complete(op);
        uint32_t state = state_load(op);
        uint32_t to;
        do {
            if (state & DONE) { return VERDICT_LOST; }
            if (is_complete) {
                to = ended(state, PURG_EVENT);
#ifndef PURG_MUTANT_RECHECK /* planted bug: leaves in spite of RECHECK */
            } else if (state & RECHECK) {
                to = state & ~RECHECK;
#endif
            } else {
                to = (state & ~(CHECKING | PARKING | RECHECK)) - drop;
            }
        } while (!state_move(op, &state, to));
        if (is_complete) { return VERDICT_WON; }
        if (!(to & CHECKING)) { return VERDICT_WAITS; }
    }
}

void purg_op_prefetch(const struct purg_op *op)
{
    uintptr_t at = (uintptr_t)op;
    for (uint32_t i = 0; i < LINES_AHEAD; i++) {
        purg_prefetch_write((const void *)(at + i * PURG_CACHE_LINE));
    }
}

/* The operation is at hand: its first nodes. */
static void op_nodes_prefetch(const struct purg_op *op)
{
    uintptr_t at = (uintptr_t)op->nodes;
    for (uint32_t i = 0; i < op->nodes_count && i < NODES_AHEAD; i++) {
        purg_prefetch_write((const void *)(at + i * sizeof *op->nodes));
    }
}

bool purg_op_check(struct purg_op *op, struct purg_owner *self)
{
    op_nodes_prefetch(op);
    purg_prefetch_write(&op->timer);
    enum verdict verdict = try_until_settled(op, REF);
    if (verdict == VERDICT_WAITS) { return false; /* no reference any more */ }
    if (verdict == VERDICT_WON) { purg_unlink_all(op); } /* [OP-5] */
    purg_op_unref(op, self);
    return verdict == VERDICT_WON;
}

enum purg_outcome purg_op_settle(struct purg_op *op, struct purg_owner *self)
{
    bool is_own = self == op->owner;
    /* For a foreign owner the reference travels with the inbox message. */
    switch (try_until_settled(op, is_own ? REF : 0)) {
    case VERDICT_WAITS:
        if (!is_own) { purg_owner_post(op->owner, op); }
        return PURG_PARKED;
    case VERDICT_LOST: /* who ended it saw PARKING and left the unlinking to us [OP-6] */
        purg_unlink_all(op);
        purg_op_unref(op, self);
        return PURG_PARKED;
    case VERDICT_WON: /* nobody else refers to it: with CHECKING set no walker took a reference */
        purg_unlink_all(op);
        if (is_own) { purg_owner_disarm(self, op); }
        return PURG_DONE;
    }
    abort();
}

bool purg_op_begin_end(struct purg_op *op, enum purg_reason reason, bool *is_parking)
{
    uint32_t state = state_load(op);
    do {
        if ((state & (PARKED | DONE)) != PARKED) { return false; }
        *is_parking = state & PARKING;
    } while (!state_move(op, &state, ended(state, reason) + REF));
    return true;
}

void purg_op_finish_end(struct purg_op *op, struct purg_owner *self, bool is_parking)
{
    if (!is_parking) { purg_unlink_all(op); } /* [OP-5] [OP-6] */
    purg_op_unref(op, self);
}

bool purg_op_cancel(struct purg_op *op, struct purg_owner *self, enum purg_reason reason)
{
    if (!purg_is_cancel_reason(reason)) {
        purg_misuse(purg_owner_env(op->owner), "purg_op_cancel: not a reason for a cancel");
    }
    purg_op_prefetch(op);
    if (!purg_op_is_parked(op)) { return false; }
    op_nodes_prefetch(op);
    purg_refuse_locked(op->purgatory, "purg_op_cancel: called under a shard's lock");
    bool is_parking;
    if (!purg_op_begin_end(op, reason, &is_parking)) { return false; }
    purg_op_finish_end(op, self, is_parking);
    return true;
}
