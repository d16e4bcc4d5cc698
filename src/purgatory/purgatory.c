/* purgatory.c - watch lists: from a key to the operations that watch it.
 *
 * Place:      see purgatory.h; the lists themselves are in shard.c.
 * Thread:     any. A shard's lock guards its lists and every linked node whose key hashes to it.
 *
 * A walk takes operations from a key's ring in batches under the lock and treats them outside it.
 * When the ring is longer than a batch the walker links two markers (nodes without operation) into
 * it: one where it stopped, one at the end of what it found [PRG-2]. */
#include "purgatory/shard_int.h"

#define WALK_BATCH 32
#define KEYS_AHEAD 16 /* whose lines are fetched at a time; at most 32 */

void purg_refuse_locked(const struct purgatory *purgatory, const char *what)
{
    if (__builtin_expect(atomic_load_explicit(&purgatory->grower, memory_order_relaxed) != 0, 0)) {
        purg_refuse_grower(purgatory, what);
    }
}

/* Hashes at most KEYS_AHEAD keys and fetches their lines. Returns how many. */
static size_t keys_hash(const struct purgatory *purgatory, const struct purg_key *keys,
                        size_t count, uint64_t *hashes)
{
    if (count > KEYS_AHEAD) { count = KEYS_AHEAD; }
    for (size_t i = 0; i < count; i++) {
        hashes[i] = hash_of(purgatory, &keys[i]);
        purg_prefetch_write(shard_of(purgatory, hashes[i]));
    }
    for (size_t i = 0; i < count; i++) {
        shard_prefetch(shard_of(purgatory, hashes[i]), hashes[i]);
    }
    return count;
}

/* Links a node of an operation that is being parked. */
static inline void node_watch(struct purgatory *purgatory, struct purg_op *op,
                              struct purg_watch_node *node, const struct purg_key *key,
                              uint64_t hash)
{
    node->op = op;
    node->hash = hash;
    node->key = *key;
    struct shard *shard = shard_of(purgatory, hash);
    purg_lock(&purgatory->env, &shard->lock);
    purg_shard_link(purgatory, shard, node);
    purg_unlock(&purgatory->env, &shard->lock);
}

static inline void node_unwatch(struct purgatory *purgatory, struct purg_watch_node *node)
{
    struct shard *shard = shard_of(purgatory, node->hash);
    purg_lock(&purgatory->env, &shard->lock);
    purg_shard_unlink(shard, node);
    purg_unlock(&purgatory->env, &shard->lock);
}

/* For linked nodes of an operation that this thread holds, at most KEYS_AHEAD of them: fetches what
 * unlinking touches. First shards and neighbours, then, when the shards are there, their groups.
 * Returns of how many. */
static size_t nodes_prefetch(const struct purgatory *purgatory, const struct purg_watch_node *nodes,
                             size_t count)
{
    if (count > KEYS_AHEAD) { count = KEYS_AHEAD; }
    for (size_t i = 0; i < count; i++) {
        purg_prefetch_write(shard_of(purgatory, nodes[i].hash));
        node_prefetch_neighbours(&nodes[i]);
    }
    return count;
}

static void nodes_prefetch_groups(const struct purgatory *purgatory,
                                  const struct purg_watch_node *nodes, size_t count)
{
    for (size_t i = 0; i < count && i < KEYS_AHEAD; i++) {
        shard_prefetch(shard_of(purgatory, nodes[i].hash), nodes[i].hash);
    }
}

static __attribute__((noinline)) void unlink_many(struct purg_op *op)
{
    size_t ahead;
    for (size_t at = 0; at < op->nodes_count; at += ahead) {
        struct purg_watch_node *nodes = &op->nodes[at];
        ahead = nodes_prefetch(op->purgatory, nodes, op->nodes_count - at);
        nodes_prefetch_groups(op->purgatory, nodes, ahead);
        for (size_t i = 0; i < ahead; i++) {
            node_unwatch(op->purgatory, &nodes[i]);
        }
    }
}

void purg_unlink_all(struct purg_op *op)
{
    if (op->nodes_count == 1) {
        node_unwatch(op->purgatory, op->nodes);
    } else {
        unlink_many(op);
    }
}

static __attribute__((noinline)) void link_many(struct purgatory *purgatory, struct purg_op *op,
                                                const struct purg_key *keys)
{
    uint64_t hashes[KEYS_AHEAD];
    size_t ahead;
    for (size_t at = 0; at < op->nodes_count; at += ahead) {
        ahead = keys_hash(purgatory, &keys[at], op->nodes_count - at, hashes);
        for (size_t i = 0; i < ahead; i++) {
            node_watch(purgatory, op, &op->nodes[at + i], &keys[at + i], hashes[i]);
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
    if (!purgatory->shards) {
        env->free(env->ctx, purgatory, sizeof *purgatory);
        return NULL;
    }
    return purgatory;
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
        purg_shard_fini(purgatory, &purgatory->shards[i]);
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
    uint64_t hash = hash_of(purgatory, keys);
    shard_prefetch(shard_of(purgatory, hash), hash);
    if (op->type->try_complete(op)) {
        purg_op_end_unparked(op);
        return PURG_DONE;
    }
    op->purgatory = purgatory;
    op->nodes = nodes;
    op->nodes_count = (uint32_t)keys_count;
    op->timer.deadline_ns = deadline_ns;
    purg_op_begin_park(op);
    if (keys_count == 1) {
        node_watch(purgatory, op, nodes, keys, hash);
    } else {
        link_many(purgatory, op, keys);
    }
    if (self == op->owner) { purg_owner_arm(self, op); }
    return purg_op_settle(op, self);
}

/* What a walk does, and where it is. */
struct walk {
    struct purgatory *purgatory;
    struct purg_owner *self;
    const struct purg_key *key;
    uint64_t hash;
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

/* Under the lock: takes what the walk has to treat; that then is held. In a ring of spilled nodes
 * other keys are passed over. */
static void walk_take(struct walk *walk, const struct purg_watch_node *node)
{
    struct purg_op *op = node->op;
    if (!op || !key_equal(&node->key, walk->key)) { return; }
    if (walk->is_cancel ? purg_op_begin_end(op, walk->reason, &walk->is_parking[walk->count])
                        : purg_op_begin_check(op)) {
        walk->ops[walk->count++] = op;
    }
}

/* Under the lock: fills a batch from 'node' on, up to 'end' or the last of the ring. Returns where
 * it stopped, NULL at the end. */
static struct purg_watch_node *walk_collect(struct walk *walk, struct purg_watch_node *node,
                                            const struct purg_watch_node *end)
{
    walk->count = 0;
    for (; node != end; node = node_next(node)) {
        if (walk->count == WALK_BATCH) { return node; }
        walk_take(walk, node);
        if (node_is_last(node)) { break; }
        __builtin_prefetch(node_next(node)->op);
    }
    return NULL;
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
static void walk_begin(struct walk *walk, struct purg_watch_node **slot)
{
    uintptr_t flags = slot == &walk->shard->spilled ? PURG_SPILLED : 0;
    struct purg_watch_node *stop = walk_collect(walk, node_next(*slot), NULL);
    walk->has_markers = stop != NULL;
    if (!stop) { return; }
    walk->cursor = (struct purg_watch_node){.hash = walk->hash, .key = *walk->key};
    walk->end = (struct purg_watch_node){.hash = walk->hash, .key = *walk->key};
    purg_ring_add_last(slot, &walk->end, flags);
    purg_ring_add_before(stop, &walk->cursor);
}

/* Under the lock: the next batch. What was collected lies before where it stopped, so that is never
 * the first of the ring. */
static void walk_continue(struct walk *walk)
{
    struct purg_watch_node *stop = walk_collect(walk, node_next(&walk->cursor), &walk->end);
    purg_shard_unlink(walk->shard, &walk->cursor);
    if (stop) {
        purg_ring_add_before(stop, &walk->cursor);
    } else {
        purg_shard_unlink(walk->shard, &walk->end);
        walk->has_markers = false;
    }
}

/* With the lock, which it gives back: all of one ring. */
static size_t walk_ring(struct walk *walk, struct purg_watch_node **slot)
{
    const struct purg_env *env = &walk->purgatory->env;
    walk_begin(walk, slot);
    purg_unlock(env, &walk->shard->lock);
    size_t ended = walk_treat(walk);
    while (walk->has_markers) {
        purg_lock(env, &walk->shard->lock);
        walk_continue(walk);
        purg_unlock(env, &walk->shard->lock);
        ended += walk_treat(walk);
    }
    return ended;
}

/* All that watch the key of a walk. While a key has a slot none of its nodes spill, so what spilled
 * is older. */
static size_t walk_all(struct walk *walk)
{
    const struct purg_env *env = &walk->purgatory->env;
    size_t ended = 0;
    purg_lock(env, &walk->shard->lock); /* [OP-8] also when nobody watches */
    if (walk->shard->spilled) {
        ended = walk_ring(walk, &walk->shard->spilled);
        purg_lock(env, &walk->shard->lock);
    }
    struct purg_watch_node **slot = purg_shard_find(walk->shard, walk->hash, walk->key);
    if (slot) { return ended + walk_ring(walk, slot); }
    purg_unlock(env, &walk->shard->lock);
    return ended;
}

static __attribute__((noinline)) size_t check_walk(struct purgatory *purgatory,
                                                   struct purg_owner *self,
                                                   const struct purg_key *key, uint64_t hash)
{
    struct walk walk;
    walk.purgatory = purgatory;
    walk.self = self;
    walk.key = key;
    walk.hash = hash;
    walk.shard = shard_of(purgatory, hash);
    walk.is_cancel = false;
    walk.reason = PURG_EVENT;
    return walk_all(&walk);
}

enum watchers {
    WATCHERS_NONE, /* or none that this thread has to try */
    WATCHERS_ONE, /* held for this thread: purg_op_check() is to follow */
    WATCHERS_MANY, /* check_walk() is to follow */
};

static inline enum watchers check_begin(const struct purgatory *purgatory,
                                        const struct purg_key *key, uint64_t hash,
                                        struct purg_op **op_out)
{
    struct shard *shard = shard_of(purgatory, hash);
    enum watchers watchers = WATCHERS_NONE;
    purg_lock(&purgatory->env, &shard->lock); /* [OP-8] orders us and a link, also for nobody */
    struct purg_watch_node **slot = purg_shard_find(shard, hash, key);
    if (shard->spilled || (slot && node_next(*slot) != *slot)) {
        watchers = WATCHERS_MANY;
    } else if (slot && (*slot)->op && purg_op_begin_check((*slot)->op)) {
        *op_out = (*slot)->op;
        watchers = WATCHERS_ONE;
    }
    purg_unlock(&purgatory->env, &shard->lock);
    return watchers;
}

size_t purg_check(struct purgatory *purgatory, struct purg_owner *self, struct purg_key key)
{
    purg_refuse_locked(purgatory, "purg_check: called under a shard's lock");
    uint64_t hash = hash_of(purgatory, &key);
    shard_prefetch(shard_of(purgatory, hash), hash);
    struct purg_op *op = NULL;
    switch (check_begin(purgatory, &key, hash, &op)) {
    case WATCHERS_NONE:
        return 0;
    case WATCHERS_ONE:
        return purg_op_check(op, self);
    case WATCHERS_MANY:
        return check_walk(purgatory, self, &key, hash);
    }
    abort();
}

/* At most KEYS_AHEAD keys. Operations with several keys are held until the lines of those keys are
 * on their way, but not longer than the tries of the others take: walks come last. */
static size_t check_ahead(struct purgatory *purgatory, struct purg_owner *self,
                          const struct purg_key *keys, const uint64_t *hashes, size_t count)
{
    struct purg_op *held[KEYS_AHEAD];
    size_t held_count = 0;
    uint32_t walks = 0; /* a bit for each key */
    size_t ended = 0;
    for (size_t i = 0; i < count; i++) {
        struct purg_op *op = NULL;
        enum watchers watchers = check_begin(purgatory, &keys[i], hashes[i], &op);
        if (watchers == WATCHERS_MANY) { walks |= 1u << i; }
        if (watchers != WATCHERS_ONE) { continue; }
        if (op->nodes_count == 1) {
            ended += purg_op_check(op, self);
        } else {
            purg_op_prefetch(op);
            held[held_count++] = op;
        }
    }
    for (size_t i = 0; i < held_count; i++) {
        nodes_prefetch(purgatory, held[i]->nodes, held[i]->nodes_count);
    }
    for (size_t i = 0; i < held_count; i++) {
        nodes_prefetch_groups(purgatory, held[i]->nodes, held[i]->nodes_count);
    }
    for (size_t i = 0; i < held_count; i++) {
        ended += purg_op_check(held[i], self);
    }
    for (size_t i = 0; walks >> i; i++) {
        if (walks >> i & 1u) { ended += check_walk(purgatory, self, &keys[i], hashes[i]); }
    }
    return ended;
}

size_t purg_check_many(struct purgatory *purgatory, struct purg_owner *self,
                       const struct purg_key *keys, size_t keys_count)
{
    purg_refuse_locked(purgatory, "purg_check_many: called under a shard's lock");
    uint64_t hashes[KEYS_AHEAD];
    size_t ended = 0;
    size_t ahead;
    for (size_t at = 0; at < keys_count; at += ahead) {
        ahead = keys_hash(purgatory, &keys[at], keys_count - at, hashes);
        ended += check_ahead(purgatory, self, &keys[at], hashes, ahead);
    }
    return ended;
}

void purg_prefetch(const struct purgatory *purgatory, const struct purg_key *keys,
                   size_t keys_count)
{
    uint64_t hashes[KEYS_AHEAD];
    for (size_t at = 0; at < keys_count; at += KEYS_AHEAD) {
        keys_hash(purgatory, &keys[at], keys_count - at, hashes);
    }
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
    walk.key = &key;
    walk.hash = hash_of(purgatory, &key);
    walk.shard = shard_of(purgatory, walk.hash);
    walk.is_cancel = true;
    walk.reason = reason;
    return walk_all(&walk);
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
