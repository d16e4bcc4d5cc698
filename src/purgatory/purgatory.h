/* purgatory.h - the waiting room: which delayed operations watch which keys. Umbrella header.
 *
 * Place:      one purgatory per kind of operation (fetch, produce, join, ...), shared by all
 *             threads. Includes the library's other headers, except reaper.h.
 * Thread:     any. 'self' in the calls below is the owner whose thread the caller is on, or NULL:
 *             operations of that owner then need no inbox and no wake.
 * Locks:      watch lists lie in shards, each with a short lock; one is held at a time, and never
 *             while a function of the user runs. A caller must hold no lock that a try_complete
 *             takes: collect the keys, drop the locks, then check.
 * Ownership:  operations and nodes are the caller's memory, lent while parked (operation.h). The
 *             purgatory outlives its operations.
 * Invariants: [PRG-1] an operation is unlinked from every key before its on_complete runs; nothing
 *             lingers and there is no purge.
 *             [PRG-2] a walk visits what was linked when it began, oldest first, and unlinks only
 *             what has completed.
 *             [PRG-3] size is the number of linked nodes, delayed the number of operations that
 *             have any.
 *             [PRG-4] a thread that calls in while it holds a shard's lock is caught.
 * Failure:    parking cannot fail: there is no allocation it depends on (a hash table that cannot
 *             grow becomes slower).
 * Misuse:     reported through purg_env.misuse before anything changed: no key, no nodes, more
 *             than PURG_KEYS_MAX; parking an operation that is parked, has ended, or was not
 *             initialised again; calling in from the environment's memory functions, which run
 *             under a shard's lock while a table grows; a cancel for PURG_EXPIRED or for no reason
 *             there is; destroying what is in use. Not seen: nodes or memory used otherwise while
 *             lent, a wrong 'self'. */
#ifndef PURGATORY_PURGATORY_H
#define PURGATORY_PURGATORY_H

#include "purgatory/env.h"
#include "purgatory/operation.h"
#include "purgatory/owner.h"
#include "purgatory/wheel.h"

#define PURG_SHARDS_DEFAULT 512u
#define PURG_SHARDS_MAX 65536u
#define PURG_KEYS_MAX 65536u /* of one operation */

struct purg_options {
    uint32_t shards; /* a power of two; 0: PURG_SHARDS_DEFAULT */
    /* A pure function; it runs without a lock, once each time a key is named. Bits 0 to 31 choose a
     * key's place in its shard, 32 to 47 the shard, 56 to 63 tell keys of one place apart.
     * NULL: a multiplicative mix, good for keys that no foe can choose. */
    uint64_t (*hash)(struct purg_key);
};

/* NULL: no memory. */
PURG_API PURG_NODISCARD struct purgatory *purg_create(const struct purg_env *env,
                                                      const struct purg_options *options);

/* Accepts NULL. Misuse: operations are still linked. */
PURG_API void purg_destroy(struct purgatory *purgatory);

enum purg_outcome {
    PURG_DONE, /* complete: the caller keeps the operation and answers; on_complete never runs */
    PURG_PARKED, /* lent: on_complete will run, or has run already if 'self' is not its owner */
};

/* Tries; if that fails links the operation under all keys, tries again (an event between the
 * first try and the link is not lost), and arms its timer.
 *
 * 'nodes' is room for keys_count nodes and stays lent; 'keys' is only read during the call (the
 * same key twice is allowed). deadline_ns may be PURG_NEVER, or past: then it expires at the
 * owner's next step. When 'self' is the operation's owner the timer is armed directly, else by
 * way of its inbox.
 *
 * PURG_DONE comes from either try; then nothing is linked, and nobody else knows the operation. If
 * another thread ended it meanwhile (a cancel) the answer is PURG_PARKED and the owner runs
 * on_complete. After PURG_PARKED the caller must not touch the operation, unless it is on the
 * owner's thread.
 * O(keys), of which each takes one shard lock. */
PURG_API PURG_NODISCARD enum purg_outcome
purg_try_complete_else_watch(struct purgatory *purgatory, struct purg_owner *self,
                             struct purg_op *op, struct purg_watch_node *nodes,
                             const struct purg_key *keys, size_t keys_count, uint64_t deadline_ns);

/* Something happened to 'key' and has been published: runs try_complete of every operation that
 * watches it and ends those that answer true. Returns how many this call ended. An operation that
 * another thread is checking just now is checked again by that thread. O(watchers of the key). */
PURG_API size_t purg_check(struct purgatory *purgatory, struct purg_owner *self,
                           struct purg_key key);

/* The same for several keys, in any order, and faster than one after the other: what one key needs
 * from memory is fetched while another one is treated. For a loop's turn, or an event that
 * concerns many. An operation that another reason ends meanwhile may be answered as late as 15
 * others have been tried. O(watchers of the keys). */
PURG_API size_t purg_check_many(struct purgatory *purgatory, struct purg_owner *self,
                                const struct purg_key *keys, size_t keys_count);

/* A hint, without effect but on time: these keys will soon be checked or watched. Fetches what that
 * will need while the caller still decodes, reads or appends. Several at once are faster than one
 * after the other, above all when other threads use the purgatory too: the waits for their shards
 * pass side by side. O(keys), no lock. */
PURG_API void purg_prefetch(const struct purgatory *purgatory, const struct purg_key *keys,
                            size_t keys_count);

/* Ends every operation that watches 'key', whatever try_complete would say. Publish the state that
 * makes try_complete answer true first: then an operation that is being parked at this moment and
 * misses the walk is caught by its second try. 'reason' is any but PURG_EXPIRED. Returns how many
 * this call ended. O(watchers of the key). */
PURG_API size_t purg_cancel_key(struct purgatory *purgatory, struct purg_owner *self,
                                struct purg_key key, enum purg_reason reason);

/* Counters for metrics, from any thread; exact when nothing moves. O(shards), O(shards), O(1). */
PURG_API size_t purg_size(const struct purgatory *purgatory); /* (operation, key) pairs */
PURG_API size_t purg_delayed(const struct purgatory *purgatory); /* operations */
PURG_API uint64_t purg_expirations(const struct purgatory *purgatory);

#endif
