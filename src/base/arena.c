/* arena.c - chunks of one request's memory. */
#include "base/arena.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* of bytes */
    _Alignas(16) unsigned char bytes[];
};

void arena_init(struct arena *a, size_t chunk_size, size_t limit)
{
    *a = (struct arena){.chunk_size = chunk_size, .limit = limit};
}

static void arena_free_chain(struct arena_chunk *c)
{
    while (c) {
        struct arena_chunk *next = c->next;
        mem_free(c);
        c = next;
    }
}

void arena_fini(struct arena *a)
{
    arena_trim(a);
}

void arena_trim(struct arena *a)
{
    arena_free_chain(a->first);
    a->first = a->now = NULL;
    a->used = a->total = 0;
    a->bad = false;
}

void arena_reset(struct arena *a)
{
    if (a->first &&
        a->first->size > a->chunk_size) { /* An oversized first chunk is not worth keeping. */
        arena_trim(a);
        return;
    }
    if (a->first) {
        arena_free_chain(a->first->next);
        a->first->next = NULL;
    }
    a->now = a->first;
    a->used = a->total = 0;
    a->bad = false;
}

static bool arena_grow(struct arena *a, size_t size)
{
    size_t chunk = size > a->chunk_size ? size : a->chunk_size;
    struct arena_chunk *c = mem_alloc(sizeof *c + chunk);
    if (!c) { return false; }
    c->next = NULL;
    c->size = chunk;
    if (a->now) {
        a->now->next = c;
    } else {
        a->first = c;
    }
    a->now = c;
    a->used = 0;
    return true;
}

void *arena_alloc(struct arena *a, size_t size)
{
    if (a->bad) { return NULL; }
    if (size > SIZE_MAX - 15) {
        a->bad = true;
        return NULL;
    }
    size = size ? (size + 15) & ~(size_t)15 : 16;
    if (size > a->limit - a->total) {
        a->bad = true;
        return NULL;
    }
    if (!a->now || size > a->now->size - a->used) {
        if (!arena_grow(a, size)) {
            a->bad = true;
            return NULL;
        }
    }
    void *p = a->now->bytes + a->used;
    a->used += size;
    a->total += size;
    CHECK(a->total <= a->limit);
    memset(p, 0, size);
    return p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) {
        a->bad = true;
        return NULL;
    }
    return arena_alloc(a, count * size);
}

char *arena_strndup(struct arena *a, const void *s, size_t size)
{
    if (size == SIZE_MAX) { return NULL; }
    char *copy = arena_alloc(a, size + 1);
    if (copy && size) { memcpy(copy, s, size); }
    return copy;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (text) { vsnprintf(text, (size_t)n + 1, fmt, again); }
    va_end(again);
    return text;
}
