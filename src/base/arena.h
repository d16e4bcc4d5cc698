/* arena.h - memory of one request: taken in pieces, given back all at once.
 *
 * Thread:     one at a time.
 * Ownership:  arena_init/arena_fini; what arena_alloc() returns lives until arena_reset().
 * Bound:      limit bytes in all; beyond it, or without memory, the arena goes bad once
 *             (arena->bad) and returns NULL from then on: callers may check once at the end, like
 *             the wire reader. arena_reset() clears it.
 * Reuse:      reset keeps the first chunk, so a steady request needs no call to the heap. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *first; /* kept over reset */
    struct arena_chunk *now;
    size_t used; /* in the current chunk */
    size_t total; /* bytes handed out since reset */
    size_t limit;
    size_t chunk_size;
    bool bad;
};

void arena_init(struct arena *a, size_t chunk_size, size_t limit);
void arena_fini(struct arena *a);
void arena_reset(struct arena *a);
/* Frees everything, the first chunk too: for a connection that goes idle. */
void arena_trim(struct arena *a);

/* 16-byte aligned, zeroed. */
void *arena_alloc(struct arena *a, size_t size);
void *arena_array(struct arena *a, size_t count, size_t size);
/* A terminated copy of size bytes. */
char *arena_strndup(struct arena *a, const void *s, size_t size);
__attribute__((format(printf, 2, 3))) char *arena_printf(struct arena *a, const char *fmt, ...);

#endif
