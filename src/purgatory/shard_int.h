/* shard_int.h - one shard of the watch lists: from a key to the ring of nodes that watch it.
 *
 * Place:      private to src/purgatory; purgatory.c parks and walks, shard.c keeps the lists.
 * Thread:     under the shard's lock, except where said.
 * Ownership:  nodes are the callers'; the table is the shard's.
 * Invariants: [SHD-1] a key has one slot, beside the lock or in the table; it holds the last node
 *             of the key's ring.
 *             [SHD-2] a group's count of passers is the number of keys that belong to it or before
 *             it and lie behind it, or PASSED_MAX for good.
 *             [SHD-3] the first node of a ring has no 'prev'; the last one, and no other, has
 *             PURG_LAST, and its 'next' is the first.
 *
 * A ring holds the nodes of one key in the order they came. The slot holds the last one, which is
 * the one most likely in the cache, and linking touches no other.
 *
 * A shard has three slots beside its lock, in one cache line: enough for few keys. More keys go to
 * a table of groups, a cache line each: seven slots, a byte of the hash for each of them, and how
 * many keys went past because the group was full. So a key that is there costs one line and its
 * node, a key that is not there costs one line. While the table has many keys all new ones go
 * there, so that it alone is looked into; when its last key has gone the shard's line is enough
 * again. The table doubles with the number of keys and never shrinks. If it cannot grow and is
 * full, a node goes into the shard's one ring of spilled nodes, where all keys are mixed: slow, but
 * parking does not fail. */
#ifndef PURGATORY_SHARD_INT_H
#define PURGATORY_SHARD_INT_H

#include "purgatory/lock_int.h"
#include "purgatory/purg_int.h"

#define SHARD_SLOTS_FIRST 3u
#define GROUP_SLOTS 7u
#define GROUP_KEYS_MAX 4u /* on average; then the table doubles */

/* Beside the address in a node's 'next'. */
#define PURG_LAST ((uintptr_t)1)
#define PURG_SPILLED ((uintptr_t)2)
#define PURG_NEXT_FLAGS (PURG_LAST | PURG_SPILLED)

struct shard_group {
    uint64_t tags; /* byte i for slot i, 0: free; the highest byte counts passers */
    struct purg_watch_node *last[GROUP_SLOTS];
};

struct shard {
    _Alignas(PURG_CACHE_LINE) _Atomic(uint32_t) lock;
    /* Written under the lock, read by the metrics without it. */
    _Atomic(uint32_t) nodes_count;
    _Atomic(uint32_t) ops_count; /* counted at an operation's first node */
    /* Written under the lock; read without it only to prefetch: a stale value does no harm. */
    _Atomic(uint32_t) table_keys_count; /* that have their slots in the table */
    _Atomic(uint32_t) groups_mask; /* set after the table */
    uint32_t tags; /* byte i for slot i of those below, 0: free */
    _Atomic(struct shard_group *) groups;
    struct purg_watch_node *spilled; /* the last one */
    struct purg_watch_node *last[SHARD_SLOTS_FIRST];
};
_Static_assert(sizeof(struct shard) == PURG_CACHE_LINE, "one key costs one line");

struct purgatory {
    struct purg_env env;
    uint64_t (*hash)(struct purg_key key); /* NULL: the mix in hash_of() */
    struct shard *shards;
    uint32_t shards_mask;
    _Atomic(uintptr_t) grower; /* a thread that grows a table; others then grow theirs later */
    _Alignas(PURG_CACHE_LINE) _Atomic(uint64_t) expirations;
};

static inline bool key_equal(const struct purg_key *a, const struct purg_key *b)
{
    return a->lo == b->lo && a->sub == b->sub && a->hi == b->hi;
}

/* Bits 0 to 31 choose the group, 32 to 47 the shard, 56 to 63 are the tag. */
static inline uint64_t hash_of(const struct purgatory *purgatory, const struct purg_key *key)
{
    if (purgatory->hash) { return purgatory->hash(*key); }
    uint64_t h = key->hi * 0x9e3779b97f4a7c15u;
    h = (h ^ (h >> 32) ^ key->lo) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 29) ^ key->sub) * 0x94d049bb133111ebu;
    return h ^ (h >> 32);
}

static inline struct shard *shard_of(const struct purgatory *purgatory, uint64_t hash)
{
    return &purgatory->shards[(uint32_t)(hash >> 32) & purgatory->shards_mask];
}

/* Without the lock: fetches the group early, so that its latency passes beside other work. */
static inline void shard_prefetch(const struct shard *shard, uint64_t hash)
{
    uint32_t mask = atomic_load_explicit(&shard->groups_mask, memory_order_acquire);
    uintptr_t groups = (uintptr_t)atomic_load_explicit(&shard->groups, memory_order_relaxed);
    if (atomic_load_explicit(&shard->table_keys_count, memory_order_relaxed) != 0) {
        uintptr_t at = groups + ((uint32_t)hash & mask) * sizeof(struct shard_group);
        purg_prefetch_write((const void *)at);
    }
}

/* Links are written under the lock and read under it; relaxed, because node_prefetch_neighbours()
 * looks at them without. */
static inline uintptr_t next_word(const struct purg_watch_node *node)
{
    return __atomic_load_n(&node->next, __ATOMIC_RELAXED);
}

static inline struct purg_watch_node *node_next(const struct purg_watch_node *node)
{
    return (struct purg_watch_node *)(next_word(node) & ~PURG_NEXT_FLAGS);
}

static inline bool node_is_last(const struct purg_watch_node *node)
{
    return next_word(node) & PURG_LAST;
}

/* Without the lock, for a linked node of an operation that this thread holds: what unlinking it
 * will write to. Otherwise the unlock would wait for it. */
static inline void node_prefetch_neighbours(const struct purg_watch_node *node)
{
    const struct purg_watch_node *prev = __atomic_load_n(&node->prev, __ATOMIC_RELAXED);
    purg_prefetch_write(node_next(node));
    if (prev) { purg_prefetch_write(prev); } /* no address costs a search of the page tables */
}

/* Somebody grows a table: misuse if it is this thread. */
void purg_refuse_grower(const struct purgatory *purgatory, const char *what);

/* The slot of a key, or NULL. */
struct purg_watch_node **purg_shard_find(struct shard *shard, uint64_t hash,
                                         const struct purg_key *key);

/* Links a node as its key's last. */
void purg_shard_link(struct purgatory *purgatory, struct shard *shard,
                     struct purg_watch_node *node);

/* Takes a node out, if it is in. */
void purg_shard_unlink(struct shard *shard, struct purg_watch_node *node);

/* For a walk's markers: links 'node' as the last of the ring of 'slot'; before 'at', which is not
 * the first of its ring. */
void purg_ring_add_last(struct purg_watch_node **slot, struct purg_watch_node *node,
                        uintptr_t flags);
void purg_ring_add_before(struct purg_watch_node *at, struct purg_watch_node *node);

/* No lock: the shard is empty and nobody uses it. */
void purg_shard_fini(const struct purgatory *purgatory, struct shard *shard);

#endif
