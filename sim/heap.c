/* heap.c - base/mem.h for simulated processes: a heap each, dropped whole at a crash.
 *
 * Failure: sim_fail_allocation() makes the n-th allocation of a process fail. A block that is given
 *          back by another process than the one that took it is a bug of ours. */
#include "base/mem.h"
#include "sim/machine_int.h"

#include <stdlib.h>

_Static_assert(sizeof(struct sim_block) % 16 == 0, "what follows is aligned for anything");

static void *sim_block_take(size_t size)
{
    struct sim_process *p = sim_current();
    if (p) {
        p->allocations++;
        if (p->fail_allocation_in > 0 && --p->fail_allocation_in == 0) {
            sim_event(p, "allocation of %zu bytes fails", size);
            return NULL;
        }
    }
    if (size > SIZE_MAX / 2) { return NULL; }
    struct sim_block *b = malloc(sizeof *b + (size ? size : 1));
    if (!b) { return NULL; }
    *b = (struct sim_block){.process = p, .size = size};
    if (p) {
        b->next = &p->blocks;
        b->prev = p->blocks.prev;
        b->prev->next = b;
        p->blocks.prev = b;
        p->heap_bytes += size;
    }
    return b + 1;
}

void *mem_alloc(size_t size)
{
    unsigned char *p = sim_block_take(size);
    if (p) { memset(p, 0xa5, size); } /* nobody may count on zeros */
    return p;
}

void *mem_zalloc(size_t size)
{
    void *p = sim_block_take(size);
    if (p) { memset(p, 0, size); }
    return p;
}

void *mem_array(size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) { return NULL; }
    return mem_zalloc(count * size);
}

void *mem_realloc(void *p, size_t size)
{
    if (!p) { return mem_alloc(size); }
    const struct sim_block *old = (struct sim_block *)p - 1;
    void *fresh = mem_alloc(size);
    if (!fresh) { return NULL; }
    memcpy(fresh, p, old->size < size ? old->size : size);
    mem_free(p);
    return fresh;
}

void mem_free(void *p)
{
    if (!p) { return; }
    struct sim_block *b = (struct sim_block *)p - 1;
    CHECK(b->process == sim_current());
    if (b->process) {
        b->prev->next = b->next;
        b->next->prev = b->prev;
        b->process->heap_bytes -= b->size;
    }
    memset(p, 0x5a, b->size);
    free(b);
}

void sim_heap_drop(struct sim_block *ring)
{
    struct sim_block *b = ring->next;
    while (b != ring) {
        struct sim_block *next = b->next;
        free(b);
        b = next;
    }
    ring->next = ring->prev = ring;
}
