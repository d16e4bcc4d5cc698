/* purgatory.c - watch lists: from a key to the operations that watch it.
 *
 * Place:      see purgatory.h.
 * Thread:     any. A shard's lock guards its table and every linked node whose key hashes to it.
 *
 * A shard is a hash table of keys, made of the callers' nodes alone: all nodes of one key form a
 * ring in the order they came; the oldest is the ring's head and hangs in the bucket's chain, and
 * when it goes the next takes its place. Only the array of buckets is allocated; it starts as one
 * word inside the shard, doubles with the number of keys, and never shrinks. If it cannot grow the
 * chains get longer, nothing else.
 *
 * A walk takes operations from the ring in batches under the lock and treats them outside it. When
 * the ring is longer than a batch the walker links two markers (nodes without operation) into it:
 * one where it stopped, one at the end of what it found [PRG-2].
 *
 * Functions of the user run under a shard's lock only while its table grows: 'grower' names the
 * thread that does it, so that it is caught if it calls back [PRG-4]. */
#include <errno.h>

#include "purgatory/purg_int.h"

#define WALK_BATCH 32
#define KEYS_AHEAD 8 /* whose buckets are fetched at a time */
#define BUCKETS_MIN 8u

struct shard {
    _Alignas(PURG_CACHE_LINE) struct purg_mutex mutex;
    /* Written under the lock; read without it only to prefetch: a stale value does no harm. */
    union {
        struct purg_watch_node *one; /* buckets_mask == 0 */
        _Atomic(struct purg_watch_node **) table; /* otherwise */
    } buckets;
    _Atomic(uint32_t) buckets_mask; /* set after the table */
    uint32_t keys_count;
    /* Written under the lock, read by the metrics without it. */
    _Atomic(uint32_t) nodes_count;
    _Atomic(uint32_t) ops_count; /* counted at an operation's first node */
};

struct purgatory {
    struct purg_env env;
    uint64_t (*hash)(struct purg_key key); /* NULL: hash_default */
    struct shard *shards;
    uint32_t shards_mask;
    _Atomic(uintptr_t) grower; /* 0: none; another shard then grows later */
    _Alignas(PURG_CACHE_LINE) _Atomic(uint64_t) expirations;
};

static inline uint64_t hash_default(const struct purg_key *key)
{
    uint64_t h = key->hi * 0x9e3779b97f4a7c15u;
    h = (h ^ (h >> 32) ^ key->lo) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 29) ^ key->sub) * 0x94d049bb133111ebu;
    return h ^ (h >> 32);
}

static inline uint64_t hash_of(const struct purgatory *purgatory, const struct purg_key *key)
{
    return purgatory->hash ? purgatory->hash(*key) : hash_default(key);
}

/* The low half of the hash chooses the bucket, the high half the shard. */
static struct shard *shard_of(const struct purgatory *purgatory, uint64_t hash)
{
    return &purgatory->shards[(uint32_t)(hash >> 32) & purgatory->shards_mask];
}

static uint32_t mask_of(const struct shard *shard)
{
    return atomic_load_explicit(&shard->buckets_mask, memory_order_relaxed);
}

static struct purg_watch_node **table_of(const struct shard *shard)
{
    return atomic_load_explicit(&shard->buckets.table, memory_order_relaxed);
}

static struct purg_watch_node **bucket_of(struct shard *shard, uint64_t hash)
{
    uint32_t mask = mask_of(shard);
    return mask == 0 ? &shard->buckets.one : &table_of(shard)[(uint32_t)hash & mask];
}

/* Without the lock: fetches the bucket early, so that its latency passes beside other work. */
static void bucket_prefetch(const struct shard *shard, uint64_t hash)
{
    uint32_t mask = atomic_load_explicit(&shard->buckets_mask, memory_order_acquire);
    if (mask != 0) {
        uintptr_t at = (uintptr_t)table_of(shard);
        __builtin_prefetch((void *)(at + ((uint32_t)hash & mask) * sizeof(void *)), 1);
    }
}

static void shard_lock(const struct purgatory *purgatory, struct shard *shard)
{
    purgatory->env.mutex_lock(purgatory->env.ctx, &shard->mutex);
}

static void shard_unlock(const struct purgatory *purgatory, struct shard *shard)
{
    purgatory->env.mutex_unlock(purgatory->env.ctx, &shard->mutex);
}

/* A number that no other running thread has, without a call: where its errno lies. */
static uintptr_t thread_number(void)
{
    return (uintptr_t)&errno;
}

void purg_refuse_locked(const struct purgatory *purgatory, const char *what)
{
    uintptr_t grower = atomic_load_explicit(&purgatory->grower, memory_order_relaxed);
    if (grower != 0 && grower == thread_number()) { purg_misuse(&purgatory->env, what); }
}

static void counter_add(_Atomic(uint32_t) *counter, uint32_t delta)
{
    uint32_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + delta, memory_order_relaxed);
}

/* Under the lock: how the metrics see a node come (1) or go (-1). */
static void count_node(struct shard *shard, const struct purg_watch_node *node, uint32_t delta)
{
    if (node->op) {
        counter_add(&shard->nodes_count, delta);
        if (node == node->op->nodes) { counter_add(&shard->ops_count, delta); }
    }
}

static bool key_equal(const struct purg_key *a, const struct purg_key *b)
{
    return a->lo == b->lo && a->sub == b->sub && a->hi == b->hi;
}

static struct purg_watch_node *ring_find(struct shard *shard, uint64_t hash,
                                         const struct purg_key *key)
{
    struct purg_watch_node *head = *bucket_of(shard, hash);
    while (head && !key_equal(&head->key, key)) {
        head = head->chain_next;
    }
    return head;
}

static void chain_add(struct purg_watch_node **at, struct purg_watch_node *head)
{
    head->chain_next = *at;
    head->chain_at = at;
    if (head->chain_next) { head->chain_next->chain_at = &head->chain_next; }
    *at = head;
}

static size_t table_size(uint32_t mask)
{
    return ((size_t)mask + 1) * sizeof(struct purg_watch_node *);
}

static void table_free(const struct purgatory *purgatory, struct shard *shard)
{
    if (mask_of(shard) != 0) {
        purgatory->env.free(purgatory->env.ctx, table_of(shard), table_size(mask_of(shard)));
    }
}

/* Doubles the buckets, if there is memory. */
static void table_double(const struct purgatory *purgatory, struct shard *shard)
{
    uint32_t old = mask_of(shard);
    uint32_t mask = old ? old * 2 + 1 : BUCKETS_MIN - 1;
    struct purg_watch_node **table =
        purgatory->env.alloc(purgatory->env.ctx, table_size(mask), PURG_CACHE_LINE);
    if (!table) { return; }
    for (uint32_t i = 0; i <= old; i++) {
        struct purg_watch_node *head = old ? table_of(shard)[i] : shard->buckets.one;
        while (head) {
            struct purg_watch_node *next = head->chain_next;
            chain_add(&table[(uint32_t)hash_of(purgatory, &head->key) & mask], head);
            head = next;
        }
    }
    table_free(purgatory, shard);
    atomic_store_explicit(&shard->buckets.table, table, memory_order_relaxed);
    atomic_store_explicit(&shard->buckets_mask, mask, memory_order_release);
}

static void table_grow(struct purgatory *purgatory, struct shard *shard)
{
    uintptr_t none = 0;
    if (atomic_compare_exchange_strong_explicit(&purgatory->grower, &none, thread_number(),
                                                memory_order_relaxed, memory_order_relaxed)) {
        table_double(purgatory, shard);
        atomic_store_explicit(&purgatory->grower, 0, memory_order_relaxed);
    }
}

/* Neighbours are written under the lock and read under it; relaxed, because neighbours_prefetch()
 * looks at them without. */
static void next_set(struct purg_watch_node *node, struct purg_watch_node *next)
{
    __atomic_store_n(&node->next, next, __ATOMIC_RELAXED);
}

static void prev_set(struct purg_watch_node *node, struct purg_watch_node *prev)
{
    __atomic_store_n(&node->prev, prev, __ATOMIC_RELAXED);
}

/* Without locks, for linked nodes of an operation that this thread holds: what unlinking them will
 * write to. Otherwise each unlock would wait for it. */
static void neighbours_prefetch(const struct purg_watch_node *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        __builtin_prefetch(__atomic_load_n(&nodes[i].next, __ATOMIC_RELAXED), 1);
        __builtin_prefetch(__atomic_load_n(&nodes[i].prev, __ATOMIC_RELAXED), 1);
    }
}

static void ring_insert_before(struct purg_watch_node *at, struct purg_watch_node *node)
{
    next_set(node, at);
    prev_set(node, at->prev);
    next_set(at->prev, node);
    prev_set(at, node);
    node->chain_at = NULL; /* not the head */
}

/* Under the lock. */
static void node_link(struct purgatory *purgatory, struct shard *shard, uint64_t hash,
                      struct purg_watch_node *node)
{
    struct purg_watch_node *head = ring_find(shard, hash, &node->key);
    count_node(shard, node, 1);
    if (head) {
        ring_insert_before(head, node); /* the ring's end */
        return;
    }
    next_set(node, node);
    prev_set(node, node);
    shard->keys_count++;
    /* A quarter full at most: each other key in the chain is a cache miss. */
    if (4 * (uint64_t)shard->keys_count > (uint64_t)mask_of(shard) + 2) {
        table_grow(purgatory, shard);
    }
    chain_add(bucket_of(shard, hash), node);
}

/* Under the lock. */
static void node_unlink(struct shard *shard, struct purg_watch_node *node)
{
    struct purg_watch_node *next = node->next;
    if (!next) { return; }
    if (node->chain_at) { /* the head */
        struct purg_watch_node *heir = next == node ? node->chain_next : next;
        *node->chain_at = heir;
        if (heir) { heir->chain_at = node->chain_at; }
        if (next == node) {
            shard->keys_count--;
        } else {
            heir->chain_next = node->chain_next;
            if (heir->chain_next) { heir->chain_next->chain_at = &heir->chain_next; }
        }
    }
    next_set(node->prev, next);
    prev_set(next, node->prev);
    next_set(node, NULL);
    count_node(shard, node, UINT32_MAX);
}

/* Hashes at most KEYS_AHEAD nodes' keys and fetches their buckets. Returns how many. */
static size_t nodes_hash(const struct purgatory *purgatory, const struct purg_watch_node *nodes,
                         size_t count, uint64_t *hashes)
{
    if (count > KEYS_AHEAD) { count = KEYS_AHEAD; }
    for (size_t i = 0; i < count; i++) {
        hashes[i] = hash_of(purgatory, &nodes[i].key);
        bucket_prefetch(shard_of(purgatory, hashes[i]), hashes[i]);
    }
    return count;
}

void purg_unlink_all(struct purg_op *op)
{
    struct purgatory *purgatory = op->purgatory;
    uint64_t hashes[KEYS_AHEAD];
    size_t ahead;
    for (size_t at = 0; at < op->nodes_count; at += ahead) {
        struct purg_watch_node *nodes = &op->nodes[at];
        ahead = nodes_hash(purgatory, nodes, op->nodes_count - at, hashes);
        neighbours_prefetch(nodes, ahead);
        for (size_t i = 0; i < ahead; i++) {
            struct shard *shard = shard_of(purgatory, hashes[i]);
            shard_lock(purgatory, shard);
            node_unlink(shard, &nodes[i]);
            shard_unlock(purgatory, shard);
        }
    }
}

/* Links all nodes of an operation that is being parked. */
static void link_all(struct purgatory *purgatory, struct purg_watch_node *nodes, size_t count)
{
    uint64_t hashes[KEYS_AHEAD];
    size_t ahead;
    for (size_t at = 0; at < count; at += ahead) {
        ahead = nodes_hash(purgatory, &nodes[at], count - at, hashes);
        for (size_t i = 0; i < ahead; i++) {
            struct shard *shard = shard_of(purgatory, hashes[i]);
            shard_lock(purgatory, shard);
            node_link(purgatory, shard, hashes[i], &nodes[at + i]);
            shard_unlock(purgatory, shard);
        }
    }
}

void purg_count_expiration(struct purgatory *purgatory)
{
    atomic_fetch_add_explicit(&purgatory->expirations, 1, memory_order_relaxed);
}

struct purgatory *purg_create(const struct purg_env *env, const struct purg_options *options)
{
    uint32_t count = options->shards ? options->shards : PURG_SHARDS_DEFAULT;
    if (count > PURG_SHARDS_MAX || (count & (count - 1)) != 0) {
        purg_misuse(env, "purg_create: shards is no power of two up to PURG_SHARDS_MAX");
    }
    struct purgatory *purgatory = env->alloc(env->ctx, sizeof *purgatory, PURG_CACHE_LINE);
    if (!purgatory) { return NULL; }
    purgatory->env = *env;
    purgatory->hash = options->hash;
    purgatory->shards_mask = count - 1;
    purgatory->shards = env->alloc(env->ctx, count * sizeof *purgatory->shards, PURG_CACHE_LINE);
    uint32_t made = 0;
    if (!purgatory->shards) { goto fail; }
    while (made < count) {
        if (!env->mutex_init(env->ctx, &purgatory->shards[made].mutex)) { goto fail; }
        made++;
    }
    return purgatory;
fail:
    while (made > 0) {
        env->mutex_fini(env->ctx, &purgatory->shards[--made].mutex);
    }
    if (purgatory->shards) {
        env->free(env->ctx, purgatory->shards, count * sizeof *purgatory->shards);
    }
    env->free(env->ctx, purgatory, sizeof *purgatory);
    return NULL;
}

void purg_destroy(struct purgatory *purgatory)
{
    if (!purgatory) { return; }
    struct purg_env env = purgatory->env;
    if (purg_size(purgatory) > 0) {
        purg_misuse(&env, "purg_destroy: operations are still linked");
    }
    uint32_t count = purgatory->shards_mask + 1;
    for (uint32_t i = 0; i < count; i++) {
        table_free(purgatory, &purgatory->shards[i]);
        env.mutex_fini(env.ctx, &purgatory->shards[i].mutex);
    }
    env.free(env.ctx, purgatory->shards, count * sizeof *purgatory->shards);
    env.free(env.ctx, purgatory, sizeof *purgatory);
}

enum purg_outcome purg_try_complete_else_watch(struct purgatory *purgatory, struct purg_owner *self,
                                               struct purg_op *op, struct purg_watch_node *nodes,
                                               const struct purg_key *keys, size_t keys_count,
                                               uint64_t deadline_ns)
{
    purg_refuse_locked(purgatory, "purg_try_complete_else_watch: called under a shard's lock");
    if (keys_count == 0 || keys_count > PURG_KEYS_MAX || !keys || !nodes) {
        purg_misuse(&purgatory->env,
                    "purg_try_complete_else_watch: no key or no node, or too many");
    }
    if (!purg_op_is_fresh(op)) {
        purg_misuse(&purgatory->env, "purg_try_complete_else_watch: the operation is in use or "
                                     "was not initialised again");
    }
    if (op->type->try_complete(op)) {
        purg_op_end_unparked(op);
        return PURG_DONE;
    }
    op->purgatory = purgatory;
    op->nodes = nodes;
    op->nodes_count = (uint32_t)keys_count;
    op->timer.deadline_ns = deadline_ns;
    purg_op_begin_park(op);
    for (size_t i = 0; i < keys_count; i++) {
        nodes[i] = (struct purg_watch_node){.key = keys[i], .op = op};
    }
    link_all(purgatory, nodes, keys_count);
    if (self == op->owner) { purg_owner_arm(self, op); }
    return purg_op_settle(op, self);
}

/* What a walk does, and where it is. */
struct walk {
    struct purgatory *purgatory;
    struct purg_owner *self;
    struct shard *shard;
    bool is_cancel; /* else a check */
    enum purg_reason reason;
    bool has_markers;
    struct purg_watch_node cursor; /* the walk goes on behind it */
    struct purg_watch_node end; /* and ends here */
    size_t count;
    struct purg_op *ops[WALK_BATCH];
    bool is_parking[WALK_BATCH];
};

/* Under the lock: whether the walk has to treat the operation, which then is held. */
static bool walk_take(struct walk *walk, struct purg_op *op)
{
    if (walk->is_cancel) {
        return purg_op_begin_end(op, walk->reason, &walk->is_parking[walk->count]);
    }
    return purg_op_begin_check(op);
}

/* Under the lock: fills a batch from 'node' on, up to 'end'. Returns where it stopped. 'end' is
 * the ring's head again (then the first node is one step inside) or the end marker. */
static struct purg_watch_node *walk_collect(struct walk *walk, struct purg_watch_node *node,
                                            const struct purg_watch_node *end)
{
    walk->count = 0;
    do {
        __builtin_prefetch(node->next->op);
        if (node->op && walk_take(walk, node->op)) { walk->ops[walk->count++] = node->op; }
        node = node->next;
    } while (node != end && walk->count < WALK_BATCH);
    return node;
}

/* Outside the lock. Returns how many operations were ended. */
static size_t walk_treat(struct walk *walk)
{
    size_t ended = 0;
    for (size_t i = 0; i < walk->count; i++) {
        if (walk->is_cancel) {
            purg_op_finish_end(walk->ops[i], walk->self, walk->is_parking[i]);
            ended++;
        } else {
            ended += purg_op_check(walk->ops[i], walk->self);
        }
    }
    return ended;
}

/* Under the lock: the first batch. The whole ring if it is short. */
static void walk_begin(struct walk *walk, struct purg_watch_node *head)
{
    struct purg_watch_node *stop = walk_collect(walk, head, head);
    walk->has_markers = stop != head;
    if (!walk->has_markers) { return; }
    walk->cursor = (struct purg_watch_node){.key = head->key};
    walk->end = (struct purg_watch_node){.key = head->key};
    ring_insert_before(head, &walk->end);
    ring_insert_before(stop, &walk->cursor);
}

/* Under the lock: the next batch. */
static void walk_continue(struct walk *walk)
{
    struct purg_watch_node *stop = walk->cursor.next;
    walk->count = 0;
    if (stop != &walk->end) { stop = walk_collect(walk, stop, &walk->end); }
    node_unlink(walk->shard, &walk->cursor);
    if (stop == &walk->end) {
        node_unlink(walk->shard, &walk->end);
        walk->has_markers = false;
    } else {
        ring_insert_before(stop, &walk->cursor);
    }
}

static size_t walk_run(struct walk *walk, const struct purg_key *key)
{
    struct purgatory *purgatory = walk->purgatory;
    uint64_t hash = hash_of(purgatory, key);
    walk->shard = shard_of(purgatory, hash);
    bucket_prefetch(walk->shard, hash);
    shard_lock(purgatory, walk->shard); /* [OP-8] also when nobody watches: orders us and a link */
    struct purg_watch_node *head = ring_find(walk->shard, hash, key);
    if (!head) {
        shard_unlock(purgatory, walk->shard);
        return 0;
    }
    walk_begin(walk, head);
    shard_unlock(purgatory, walk->shard);
    size_t ended = walk_treat(walk);
    while (walk->has_markers) {
        shard_lock(purgatory, walk->shard);
        walk_continue(walk);
        shard_unlock(purgatory, walk->shard);
        ended += walk_treat(walk);
    }
    return ended;
}

size_t purg_check(struct purgatory *purgatory, struct purg_owner *self, struct purg_key key)
{
    purg_refuse_locked(purgatory, "purg_check: called under a shard's lock");
    struct walk walk;
    walk.purgatory = purgatory;
    walk.self = self;
    walk.is_cancel = false;
    walk.reason = PURG_EVENT;
    return walk_run(&walk, &key);
}

size_t purg_cancel_key(struct purgatory *purgatory, struct purg_owner *self, struct purg_key key,
                       enum purg_reason reason)
{
    purg_refuse_locked(purgatory, "purg_cancel_key: called under a shard's lock");
    if (!purg_is_cancel_reason(reason)) {
        purg_misuse(&purgatory->env, "purg_cancel_key: not a reason for a cancel");
    }
    struct walk walk;
    walk.purgatory = purgatory;
    walk.self = self;
    walk.is_cancel = true;
    walk.reason = reason;
    return walk_run(&walk, &key);
}

size_t purg_size(const struct purgatory *purgatory)
{
    size_t sum = 0;
    for (uint32_t i = 0; i <= purgatory->shards_mask; i++) {
        sum += atomic_load_explicit(&purgatory->shards[i].nodes_count, memory_order_relaxed);
    }
    return sum;
}

size_t purg_delayed(const struct purgatory *purgatory)
{
    size_t sum = 0;
    for (uint32_t i = 0; i <= purgatory->shards_mask; i++) {
        sum += atomic_load_explicit(&purgatory->shards[i].ops_count, memory_order_relaxed);
    }
    return sum;
}

uint64_t purg_expirations(const struct purgatory *purgatory)
{
    return atomic_load_explicit(&purgatory->expirations, memory_order_relaxed);
}
