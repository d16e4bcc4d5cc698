/* heap.c - base/mem.h for simulated processes: a heap each, dropped whole at a crash.
 *
 * Failure: sim_fail_allocation() makes the n-th allocation of a process fail. A block that is given
 *          back by another process than the one that took it is a bug of ours. */
#include "base/mem.h"
#include "sim/machine_int.h"

#include <stdlib.h>

_Static_assert(sizeof(struct sim_block) % 16 == 0, "what follows is aligned for anything");

static void *sim_block_take(size_t size, const void *taker)
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
    *b = (struct sim_block){.process = p, .size = size, .taker = taker};
    if (p) {
        b->number = p->allocations;
        b->next = &p->blocks;
        b->prev = p->blocks.prev;
        b->prev->next = b;
        p->blocks.prev = b;
        p->heap_bytes += size;
    }
    return b + 1;
}

static void *sim_block_filled(size_t size, int byte, const void *taker)
{
    void *p = sim_block_take(size, taker);
    if (p) { memset(p, byte, size); }
    return p;
}

#define SIM_DIRT 0xa5 /* nobody may count on zeros */

void *mem_alloc(size_t size)
{
    return sim_block_filled(size, SIM_DIRT, __builtin_return_address(0));
}

void *mem_zalloc(size_t size)
{
    return sim_block_filled(size, 0, __builtin_return_address(0));
}

void *mem_array(size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) { return NULL; }
    return sim_block_filled(count * size, 0, __builtin_return_address(0));
}

void *mem_realloc(void *p, size_t size)
{
    void *fresh = sim_block_filled(size, SIM_DIRT, __builtin_return_address(0));
    if (!p || !fresh) { return fresh; }
    const struct sim_block *old = (struct sim_block *)p - 1;
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

void sim_print_heap(const struct sim_host *host, FILE *out)
{
    if (!host->process) { return; }
    const struct sim_block *ring = &host->process->blocks;
    for (const struct sim_block *b = ring->next; b != ring; b = b->next) {
        (void)fprintf(out, "allocation %llu: %zu bytes, taken at %p\n",
                      (unsigned long long)b->number, b->size, b->taker);
    }
}
