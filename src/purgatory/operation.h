/* operation.h - one delayed operation: something that is answered later, exactly once.
 *
 * Place:      the caller embeds struct purg_op in its own structure and parks it with
 *             purg_try_complete_else_watch() (purgatory.h).
 * Source:     the idea is Apache Kafka's purgatory and its 2015 redesign; different are eager
 *             unlinking, an owner that completes, and a wheel per owner.
 * Thread:     try_complete on any thread, one call at a time. on_complete on the owner's thread.
 * Locks:      none of the library's is held while either runs; a caller of the library holds none
 *             that they take.
 * Ownership:  the library borrows the operation and its watch nodes from the moment it is parked
 *             until on_complete is called; on_complete gets them back and may free or reuse them.
 * Invariants: [OP-1] on_complete runs exactly once for each operation that was parked.
 *             [OP-2] when it runs, the operation is linked under no key, has no timer, and no
 *             thread is inside its try_complete or still refers to it.
 *             [OP-3] an event that is published before purg_check() of a watched key is seen by a
 *             try_complete that begins after it (no lost wake-up).
 * Failure:    none: parking, ending and cancelling cannot fail. Misuse: see purgatory.h. */
#ifndef PURGATORY_OPERATION_H
#define PURGATORY_OPERATION_H

#include "purgatory/wheel.h"

struct purg_op;
struct purg_owner;
struct purgatory;

/* Why an operation ended. Whoever is first decides; the others have no effect. */
enum purg_reason {
    PURG_EVENT, /* try_complete answered true */
    PURG_EXPIRED, /* its deadline came */
    PURG_CANCELLED, /* purg_cancel_key() or purg_op_cancel() */
    PURG_SHUTDOWN, /* purg_owner_shutdown() */
};

struct purg_op_type {
    const char *name; /* for traces */

    /* Whether the operation can be answered now. Runs on any thread, without any lock of the
     * library, never twice at the same time for one operation, never after or during
     * on_complete. It reads the operation's immutable part and published state, and it has no
     * effect outside the operation: even after 'true' another reason may be first. It treats a
     * state that will never satisfy it (deleted, leadership lost) as complete. It may call the
     * library, but whenever it checks a key of its own operation it is tried once more. */
    bool (*try_complete)(struct purg_op *op);

    /* The end, on the owner's thread, inside purg_owner_step(). There is no separate on_expire:
     * reason PURG_EXPIRED is it. May free the operation, park others or this one again (after
     * purg_op_init), check keys and cancel; must not call purg_owner_step(). */
    void (*on_complete)(struct purg_op *op, enum purg_reason reason);
};

struct purg_key {
    uint64_t hi, lo, sub; /* such as a 128-bit topic id, and partition with kind */
};

/* Memory for one (operation, key) pair, given by the caller, best right behind the operation: 56
 * bytes. Fields are the purgatory's, guarded by the lock of the key's shard. */
struct purg_watch_node {
    uintptr_t next; /* of the key's ring, with flags (shard_int.h); 0 when not linked */
    struct purg_watch_node *prev;
    struct purg_op *op; /* NULL: a walker's marker */
    uint64_t hash; /* of the key, constant while parked */
    struct purg_key key;
};

/* At most two cache lines. Fields are the library's. */
struct purg_op {
    /* Set by init and park, then constant while parked. */
    const struct purg_op_type *type;
    struct purg_owner *owner;
    struct purgatory *purgatory;
    struct purg_watch_node *nodes;
    uint32_t nodes_count;
    /* Any thread, atomically: flags and references, see operation.c. */
    _Atomic(uint32_t) state;
    /* Whoever posts, then the owner. */
    struct purg_op *queue_next;
    /* The owner's thread alone. */
    struct purg_timer timer;
    bool is_counted;
};

/* Prepares an operation that 'owner' will complete. Needed before each parking (parking one that
 * was parked before is misuse), and never while it is parked, which cannot be seen. */
PURG_API void purg_op_init(struct purg_op *op, const struct purg_op_type *type,
                           struct purg_owner *owner);

/* Ends a parked operation for 'reason' (any but PURG_EXPIRED). True: this call was first, and
 * on_complete will run on the owner's thread at its next step. False: it is not parked, or
 * something else was first.
 * 'self' is the owner whose thread this is, or NULL. Any thread may call, but the caller must know
 * that the memory lives until the call returns: on the owner's thread that holds as long as
 * on_complete has not run; elsewhere for example a lock that on_complete takes before it frees.
 * After the end it answers false and does nothing, as long as the memory is there and not parked
 * again. Misuse: any other reason; called under a shard's lock (purgatory.h). O(keys). */
PURG_API bool purg_op_cancel(struct purg_op *op, struct purg_owner *self, enum purg_reason reason);

/* Whether it is parked and nothing has ended it yet. A snapshot; same rule about memory. False does
 * not mean that the memory is back: on_complete may be still to come. */
PURG_API bool purg_op_is_parked(const struct purg_op *op);

#endif
