/* shard.c - see shard_int.h: slots, groups, rings. */
#include <errno.h>

#include "purgatory/shard_int.h"

#define BYTES_LOW UINT64_C(0x7f7f7f7f7f7f7f7f)
#define SLOTS_HIGH UINT64_C(0x0080808080808080) /* the top bit of each slot's tag */
#define FIRST_HIGH UINT64_C(0x0000000000808080) /* of each slot beside the lock */
#define TAG_EACH UINT64_C(0x0001010101010101)
#define PASSED_SHIFT 56u
#define PASSED_ONE ((uint64_t)1 << PASSED_SHIFT)
#define PASSED_MAX 255u
#define GROUPS_MIN 2u

static uint8_t tag_of(uint64_t hash)
{
    uint8_t tag = (uint8_t)(hash >> 56);
    return tag ? tag : 1;
}

/* The top bit of each slot whose tag is 'tag', and of no other. */
static uint64_t tags_match(uint64_t tags, uint8_t tag)
{
    uint64_t x = tags ^ (TAG_EACH * tag);
    return ~(((x & BYTES_LOW) + BYTES_LOW) | x) & SLOTS_HIGH;
}

static uint32_t slot_of_bit(uint64_t bits)
{
    return (uint32_t)__builtin_ctzll(bits) / 8;
}

static uint32_t passed(const struct shard_group *group)
{
    return (uint32_t)(group->tags >> PASSED_SHIFT);
}

static struct shard_group *groups_of(const struct shard *shard)
{
    return atomic_load_explicit(&shard->groups, memory_order_relaxed);
}

static uint32_t mask_of(const struct shard *shard)
{
    return atomic_load_explicit(&shard->groups_mask, memory_order_relaxed);
}

static uint32_t table_keys_count(const struct shard *shard)
{
    return atomic_load_explicit(&shard->table_keys_count, memory_order_relaxed);
}

static void counter_add(_Atomic(uint32_t) *counter, uint32_t delta)
{
    uint32_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + delta, memory_order_relaxed);
}

static inline struct purg_watch_node **slots_find(struct purg_watch_node **slots, uint64_t tags,
                                                  uint64_t hash, const struct purg_key *key)
{
    for (uint64_t bits = tags_match(tags, tag_of(hash)); bits; bits &= bits - 1) {
        struct purg_watch_node **slot = &slots[slot_of_bit(bits)];
        if (key_equal(&(*slot)->key, key)) { return slot; }
    }
    return NULL;
}

struct purg_watch_node **purg_shard_find(struct shard *shard, uint64_t hash,
                                         const struct purg_key *key)
{
    struct purg_watch_node **first = slots_find(shard->last, shard->tags, hash, key);
    if (first || table_keys_count(shard) == 0) { return first; }
    struct shard_group *groups = groups_of(shard);
    uint32_t mask = mask_of(shard);
    for (uint32_t n = 0; n <= mask; n++) {
        struct shard_group *group = &groups[((uint32_t)hash + n) & mask];
        struct purg_watch_node **slot = slots_find(group->last, group->tags, hash, key);
        if (slot) { return slot; }
        if (passed(group) == 0) { break; }
    }
    return NULL;
}

/* Finds room for a key that has no slot. */
static struct purg_watch_node **group_slot_take(struct shard_group *groups, uint32_t mask,
                                                uint64_t hash)
{
    for (uint32_t n = 0; n <= mask; n++) {
        struct shard_group *group = &groups[((uint32_t)hash + n) & mask];
        uint64_t bits = tags_match(group->tags, 0);
        if (bits) {
            uint32_t i = slot_of_bit(bits);
            group->tags |= (uint64_t)tag_of(hash) << (8 * i);
            return &group->last[i];
        }
        if (passed(group) < PASSED_MAX) { group->tags += PASSED_ONE; } /* [SHD-2] */
    }
    return NULL;
}

static void group_slot_give(struct shard_group *groups, uint32_t mask, uint64_t hash,
                            const struct purg_watch_node *last)
{
    for (uint32_t n = 0; n <= mask; n++) {
        struct shard_group *group = &groups[((uint32_t)hash + n) & mask];
        for (uint64_t bits = tags_match(group->tags, tag_of(hash)); bits; bits &= bits - 1) {
            uint32_t i = slot_of_bit(bits);
            if (group->last[i] == last) {
                group->tags &= ~((uint64_t)0xff << (8 * i));
                return;
            }
        }
        if (passed(group) < PASSED_MAX) { group->tags -= PASSED_ONE; } /* [SHD-2] */
    }
    abort(); /* [SHD-1] */
}

static size_t groups_size(uint32_t mask)
{
    return ((size_t)mask + 1) * sizeof(struct shard_group);
}

static void groups_free(const struct purgatory *purgatory, struct shard_group *groups,
                        uint32_t mask)
{
    if (groups) { purgatory->env.free(purgatory->env.ctx, groups, groups_size(mask)); }
}

void purg_shard_fini(const struct purgatory *purgatory, struct shard *shard)
{
    groups_free(purgatory, groups_of(shard), mask_of(shard));
}

static void groups_move(struct shard_group *to, uint32_t mask, struct purg_watch_node *last)
{
    struct purg_watch_node **slot = group_slot_take(to, mask, last->hash);
    if (!slot) { abort(); /* twice the room, so there is one */ }
    *slot = last;
}

/* Makes or doubles the table, if there is memory. */
static void groups_double(const struct purgatory *purgatory, struct shard *shard)
{
    struct shard_group *old = groups_of(shard);
    uint32_t old_mask = mask_of(shard);
    uint32_t mask = old ? old_mask * 2 + 1 : GROUPS_MIN - 1;
    struct shard_group *groups =
        purgatory->env.alloc(purgatory->env.ctx, groups_size(mask), PURG_CACHE_LINE);
    if (!groups) { return; }
    for (uint32_t g = 0; old && g <= old_mask; g++) {
        for (uint32_t i = 0; i < GROUP_SLOTS; i++) {
            if ((uint8_t)(old[g].tags >> (8 * i))) { groups_move(groups, mask, old[g].last[i]); }
        }
    }
    groups_free(purgatory, old, old_mask);
    atomic_store_explicit(&shard->groups, groups, memory_order_relaxed);
    atomic_store_explicit(&shard->groups_mask, mask, memory_order_release);
}

/* A number that no other running thread has, without a call: where its errno lies. */
static uintptr_t thread_number(void)
{
    return (uintptr_t)&errno;
}

/* Functions of the user run under a shard's lock only here: 'grower' names the thread, so that it
 * is caught if it calls back [PRG-4]. Another thread's growth is waited for only if there is no
 * room left; that thread waits for no shard. */
static __attribute__((noinline)) void groups_grow(struct purgatory *purgatory, struct shard *shard,
                                                  bool has_room)
{
    uintptr_t none = 0;
    while (!atomic_compare_exchange_strong_explicit(&purgatory->grower, &none, thread_number(),
                                                    memory_order_relaxed, memory_order_relaxed)) {
        if (has_room) { return; }
        purg_lock_pause();
        none = 0;
    }
    groups_double(purgatory, shard);
    atomic_store_explicit(&purgatory->grower, 0, memory_order_relaxed);
}

void purg_refuse_grower(const struct purgatory *purgatory, const char *what)
{
    uintptr_t grower = atomic_load_explicit(&purgatory->grower, memory_order_relaxed);
    if (grower == thread_number()) { purg_misuse(&purgatory->env, what); }
}

/* Keys that the table takes, at so many a group. */
static uint64_t table_room(const struct shard *shard, uint32_t group_keys)
{
    return groups_of(shard) ? group_keys * ((uint64_t)mask_of(shard) + 1) : 0;
}

/* A slot of the table for a new key; NULL: no room. */
static struct purg_watch_node **table_slot_take(struct purgatory *purgatory, struct shard *shard,
                                                uint64_t hash)
{
    uint32_t count = table_keys_count(shard);
    if (count >= table_room(shard, GROUP_KEYS_MAX)) {
        groups_grow(purgatory, shard, count < table_room(shard, GROUP_SLOTS));
        if (count == table_room(shard, GROUP_SLOTS)) { return NULL; }
    }
    counter_add(&shard->table_keys_count, 1);
    return group_slot_take(groups_of(shard), mask_of(shard), hash);
}

/* A new key's slot; NULL: no room. */
static struct purg_watch_node **slot_take(struct purgatory *purgatory, struct shard *shard,
                                          uint64_t hash)
{
    uint64_t bits = tags_match(shard->tags, 0) & FIRST_HIGH;
    if (bits == 0 || table_keys_count(shard) > GROUP_KEYS_MAX) {
        struct purg_watch_node **slot = table_slot_take(purgatory, shard, hash);
        if (slot || bits == 0) { return slot; }
    }
    uint32_t i = slot_of_bit(bits);
    shard->tags |= (uint32_t)tag_of(hash) << (8 * i);
    return &shard->last[i];
}

static void slot_give(struct shard *shard, uint64_t hash, const struct purg_watch_node *last)
{
    for (uint64_t bits = tags_match(shard->tags, tag_of(hash)); bits; bits &= bits - 1) {
        uint32_t i = slot_of_bit(bits);
        if (shard->last[i] == last) {
            shard->tags &= ~((uint32_t)0xff << (8 * i));
            return;
        }
    }
    counter_add(&shard->table_keys_count, UINT32_MAX);
    group_slot_give(groups_of(shard), mask_of(shard), hash, last);
}

/* How the metrics see a node come (1) or go (-1). */
static void count_node(struct shard *shard, const struct purg_watch_node *node, uint32_t delta)
{
    if (node->op) {
        counter_add(&shard->nodes_count, delta);
        if (node == node->op->nodes) { counter_add(&shard->ops_count, delta); }
    }
}

static void next_set(struct purg_watch_node *node, const struct purg_watch_node *next,
                     uintptr_t flags)
{
    __atomic_store_n(&node->next, (uintptr_t)next | flags, __ATOMIC_RELAXED);
}

static void prev_set(struct purg_watch_node *node, struct purg_watch_node *prev)
{
    __atomic_store_n(&node->prev, prev, __ATOMIC_RELAXED);
}

static uintptr_t spilled_flag(const struct purg_watch_node *node)
{
    return next_word(node) & PURG_SPILLED;
}

void purg_ring_add_last(struct purg_watch_node **slot, struct purg_watch_node *node,
                        uintptr_t flags)
{
    struct purg_watch_node *last = *slot;
    next_set(node, node_next(last), PURG_LAST | flags);
    prev_set(node, last);
    next_set(last, node, flags);
    *slot = node;
}

void purg_ring_add_before(struct purg_watch_node *at, struct purg_watch_node *node)
{
    struct purg_watch_node *prev = at->prev;
    next_set(node, at, spilled_flag(at));
    prev_set(node, prev);
    next_set(prev, node, spilled_flag(at));
    prev_set(at, node);
}

void purg_shard_link(struct purgatory *purgatory, struct shard *shard, struct purg_watch_node *node)
{
    struct purg_watch_node **slot = purg_shard_find(shard, node->hash, &node->key);
    count_node(shard, node, 1);
    uintptr_t flags = 0;
    if (!slot) {
        slot = slot_take(purgatory, shard, node->hash);
        if (slot) {
            *slot = NULL;
        } else {
            slot = &shard->spilled;
            flags = PURG_SPILLED;
        }
        if (!*slot) { /* the ring's only one */
            next_set(node, node, PURG_LAST | flags);
            prev_set(node, NULL);
            *slot = node;
            return;
        }
    }
    purg_ring_add_last(slot, node, flags);
}

/* The slot of a linked node's ring, found by its last node or, for the first one, by its key. */
static struct purg_watch_node **slot_of(struct shard *shard, const struct purg_watch_node *node)
{
    return spilled_flag(node) ? &shard->spilled : purg_shard_find(shard, node->hash, &node->key);
}

void purg_shard_unlink(struct shard *shard, struct purg_watch_node *node)
{
    uintptr_t flags = next_word(node) & PURG_NEXT_FLAGS;
    struct purg_watch_node *next = node_next(node);
    struct purg_watch_node *prev = node->prev;
    if (!next) { return; }
    if (flags & PURG_LAST && !prev) { /* the only one */
        if (flags & PURG_SPILLED) {
            shard->spilled = NULL;
        } else {
            slot_give(shard, node->hash, node);
        }
    } else if (flags & PURG_LAST) {
        *slot_of(shard, node) = prev;
        next_set(prev, next, flags);
    } else if (!prev) { /* the first one: the last one leads to its heir */
        next_set(*slot_of(shard, node), next, flags | PURG_LAST);
        prev_set(next, NULL);
    } else {
        next_set(prev, next, flags);
        prev_set(next, prev);
    }
    next_set(node, NULL, 0);
    count_node(shard, node, UINT32_MAX);
}
