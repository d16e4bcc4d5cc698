/* map.c - dense entries plus an open-addressed table of indexes. */
#include "base/map.h"

#include "base/check.h"
#include "base/mem.h"

#define MAP_SLOTS_MIN 8

uint64_t hash_bytes(const void *at, size_t size, uint64_t seed)
{
    const uint8_t *p = at;
    uint64_t h = seed ^ (0x9e3779b97f4a7c15ULL + size);
    while (size >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = hash_u64(h ^ w);
        p += 8;
        size -= 8;
    }
    uint64_t w = 0;
    for (size_t i = 0; i < size; i++) {
        w |= (uint64_t)p[i] << (8 * i);
    }
    return hash_u64(h ^ w ^ ((uint64_t)size << 56));
}

void map_init(struct map *m)
{
    *m = (struct map){0};
}

void map_fini(struct map *m)
{
    for (size_t i = 0; i < m->count; i++) {
        mem_free(m->entries[i].key);
    }
    mem_free(m->entries);
    mem_free(m->slots);
    *m = (struct map){0};
}

/* The slot that holds the key, or the empty slot where it would go. */
static size_t map_find(const struct map *m, uint64_t hash, struct slice key)
{
    size_t mask = m->slots_count - 1;
    size_t s = hash & mask;
    while (m->slots[s] != 0) {
        const struct map_entry *e = &m->entries[m->slots[s] - 1];
        if (e->hash == hash && slice_eq(slice_of(e->key, e->key_size), key)) { return s; }
        s = (s + 1) & mask;
    }
    return s;
}

void *map_get(const struct map *m, struct slice key)
{
    if (m->count == 0) { return NULL; }
    uint32_t i = m->slots[map_find(m, hash_bytes(key.at, key.size, 0), key)];
    return i ? m->entries[i - 1].value : NULL;
}

static enum err map_grow(struct map *m)
{
    size_t slots_count = m->slots_count ? m->slots_count * 2 : MAP_SLOTS_MIN;
    size_t capacity = slots_count / 4 * 3;
    uint32_t *slots = mem_array(slots_count, sizeof *slots);
    struct map_entry *entries = mem_realloc(m->entries, capacity * sizeof *entries);
    if (entries) { m->entries = entries; }
    if (!slots || !entries) {
        mem_free(slots);
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < m->count; i++) {
        size_t s = m->entries[i].hash & (slots_count - 1);
        while (slots[s] != 0) {
            s = (s + 1) & (slots_count - 1);
        }
        slots[s] = (uint32_t)i + 1;
    }
    mem_free(m->slots);
    m->slots = slots;
    m->slots_count = slots_count;
    m->capacity = capacity;
    return ERR_OK;
}

enum err map_put(struct map *m, struct slice key, void *value, void **old)
{
    if (old) { *old = NULL; }
    uint64_t hash = hash_bytes(key.at, key.size, 0);
    if (m->count) {
        uint32_t i = m->slots[map_find(m, hash, key)];
        if (i) {
            if (old) { *old = m->entries[i - 1].value; }
            m->entries[i - 1].value = value;
            return ERR_OK;
        }
    }
    if (m->count >= UINT32_MAX - 1) { return ERR_LIMIT; }
    if (m->count == m->capacity) {
        enum err e = map_grow(m);
        if (e) { return e; }
    }
    uint8_t *copy = mem_alloc(key.size);
    if (!copy) { return ERR_NOMEM; }
    if (key.size) { memcpy(copy, key.at, key.size); }
    size_t s = map_find(m, hash, key);
    CHECK(m->slots[s] == 0);
    m->entries[m->count] =
        (struct map_entry){.hash = hash, .key = copy, .key_size = key.size, .value = value};
    m->slots[s] = (uint32_t)++m->count;
    return ERR_OK;
}

/* Closes the hole at slot s so that every probe chain stays unbroken. */
static void map_unprobe(struct map *m, size_t hole)
{
    size_t mask = m->slots_count - 1;
    size_t s = hole;
    for (;;) {
        m->slots[hole] = 0;
        for (;;) {
            s = (s + 1) & mask;
            if (m->slots[s] == 0) { return; }
            size_t home = m->entries[m->slots[s] - 1].hash & mask;
            /* It may move when its home does not lie after the hole on the way to s. */
            if (((s - home) & mask) >= ((s - hole) & mask)) { break; }
        }
        m->slots[hole] = m->slots[s];
        hole = s;
    }
}

void *map_remove(struct map *m, struct slice key)
{
    if (m->count == 0) { return NULL; }
    size_t s = map_find(m, hash_bytes(key.at, key.size, 0), key);
    if (m->slots[s] == 0) { return NULL; }
    size_t i = m->slots[s] - 1;
    void *value = m->entries[i].value;
    map_unprobe(m, s);
    mem_free(m->entries[i].key);
    size_t last = m->count - 1;
    if (i != last) {
        struct map_entry *e = &m->entries[last];
        size_t moved = map_find(m, e->hash, slice_of(e->key, e->key_size));
        CHECK(m->slots[moved] == last + 1);
        m->slots[moved] = (uint32_t)i + 1;
        m->entries[i] = *e;
    }
    m->count = last;
    return value;
}
