/* map.h - hash map from a byte string (copied) or a 64/160-bit key to a pointer.
 *
 * Thread: callers serialise. Iteration order is the order of insertion (with the last moved into
 * holes on removal), never the order of addresses, so that simulated runs repeat. Open addressing,
 * load at most 0.75. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/err.h"
#include "base/slice.h"

struct map_entry {
    uint64_t hash;
    uint8_t *key; /* owned copy */
    size_t key_size;
    void *value;
};

struct map {
    struct map_entry *entries; /* dense */
    size_t count;
    size_t capacity;
    uint32_t *slots; /* index + 1, 0 is empty */
    size_t slots_count; /* power of two */
};

void map_init(struct map *m);
void map_fini(struct map *m); /* frees keys, not values */

void *map_get(const struct map *m, struct slice key); /* NULL when absent */
/* Sets or replaces; *old (may be NULL) receives the replaced value. ERR_NOMEM leaves the map as it
 * was. */
NODISCARD enum err map_put(struct map *m, struct slice key, void *value, void **old);
/* The removed value, NULL when absent. */
void *map_remove(struct map *m, struct slice key);

/* for (size_t i = 0; i < m->count; i++) m->entries[i].value */

uint64_t hash_bytes(const void *at, size_t size, uint64_t seed);
static inline uint64_t hash_u64(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    return x;
}

#endif
