/* ghost.c - the model of the log that a client may rely on. */
#include "ghost.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>

struct ghost_slot { /* one offset */
    struct sim_record record;
    uint64_t known_ns;
    bool is_known; /* acknowledged or returned once */
    bool is_acked;
    bool is_audited;
    bool is_lost; /* to rot */
};

struct ghost_partition {
    struct ghost_slot *slots;
    size_t capacity;
    int64_t end; /* of the slots in use */
    int64_t hw;
    int64_t start, asked; /* by DeleteRecords */
};

struct ghost_producer {
    int64_t *offsets; /* by number; -1: not known */
    uint32_t *partitions;
    bool *is_break; /* the record before it need not be before it in the log */
    size_t capacity;
};

struct ghost {
    struct sim *sim;
    uint32_t partitions_count;
    struct ghost_partition *partitions;
    struct ghost_producer producers[GHOST_PRODUCERS_MAX];
    uint64_t acked_count, seen_count;
};

struct ghost *ghost_create(struct sim *sim, uint32_t partitions_count)
{
    struct ghost *g = calloc(1, sizeof *g);
    CHECK(g);
    g->sim = sim;
    g->partitions_count = partitions_count;
    g->partitions = calloc(partitions_count, sizeof *g->partitions);
    CHECK(g->partitions);
    return g;
}

void ghost_destroy(struct ghost *g)
{
    for (uint32_t i = 0; i < g->partitions_count; i++) {
        free(g->partitions[i].slots);
    }
    for (size_t i = 0; i < GHOST_PRODUCERS_MAX; i++) {
        free(g->producers[i].offsets);
        free(g->producers[i].partitions);
        free(g->producers[i].is_break);
    }
    free(g->partitions);
    free(g);
}

static struct ghost_partition *ghost_partition(const struct ghost *g, uint32_t partition)
{
    CHECK(partition < g->partitions_count);
    return &g->partitions[partition];
}

static struct ghost_slot *ghost_slot(struct ghost *g, uint32_t partition, int64_t offset)
{
    struct ghost_partition *p = ghost_partition(g, partition);
    CHECK(offset >= 0);
    if ((size_t)offset >= p->capacity) {
        size_t capacity = ((size_t)offset + 64) * 2;
        p->slots = realloc(p->slots, capacity * sizeof *p->slots);
        CHECK(p->slots);
        memset(p->slots + p->capacity, 0, (capacity - p->capacity) * sizeof *p->slots);
        p->capacity = capacity;
    }
    if (offset >= p->end) { p->end = offset + 1; }
    return &p->slots[offset];
}

static struct ghost_producer *ghost_producer(struct ghost *g, struct sim_record r)
{
    CHECK(r.producer < GHOST_PRODUCERS_MAX && r.number < (uint64_t)1 << 32);
    struct ghost_producer *p = &g->producers[r.producer];
    if (r.number < p->capacity) { return p; }
    size_t capacity = ((size_t)r.number + 64) * 2;
    p->offsets = realloc(p->offsets, capacity * sizeof *p->offsets);
    p->partitions = realloc(p->partitions, capacity * sizeof *p->partitions);
    p->is_break = realloc(p->is_break, capacity * sizeof *p->is_break);
    CHECK(p->offsets && p->partitions && p->is_break);
    for (size_t i = p->capacity; i < capacity; i++) {
        p->offsets[i] = -1;
        p->is_break[i] = false;
    }
    p->capacity = capacity;
    return p;
}

void ghost_break_order(struct ghost *g, struct sim_record next)
{
    ghost_producer(g, next)->is_break[next.number] = true;
}

/* [GHO-3], [GHO-5] */
static void ghost_place(struct ghost *g, uint32_t partition, int64_t offset, struct sim_record r)
{
    struct ghost_producer *p = ghost_producer(g, r);
    CHECKF(p->offsets[r.number] == -1,
           "[GHO-3] record %u-%" PRIu64 " is at %" PRId64 " and at %" PRId64, r.producer, r.number,
           p->offsets[r.number], offset);
    p->offsets[r.number] = offset;
    p->partitions[r.number] = partition;
    for (uint64_t n = r.number; n > 0 && !p->is_break[n]; n--) {
        if (p->offsets[n - 1] == -1) { continue; }
        CHECKF(p->partitions[n - 1] != partition || p->offsets[n - 1] < offset,
               "[GHO-5] record %u-%" PRIu64 " is behind its successor", r.producer, n - 1);
        break;
    }
    for (size_t n = (size_t)r.number + 1; n < p->capacity && !p->is_break[n]; n++) {
        if (p->offsets[n] == -1) { continue; }
        CHECKF(p->partitions[n] != partition || p->offsets[n] > offset,
               "[GHO-5] record %u-%zu is before its predecessor", r.producer, n);
        break;
    }
}

/* [GHO-1], [GHO-2] */
static struct ghost_slot *ghost_know(struct ghost *g, uint32_t partition, int64_t offset,
                                     struct sim_record r)
{
    struct ghost_slot *s = ghost_slot(g, partition, offset);
    if (!s->is_known) {
        ghost_place(g, partition, offset, r);
        s->record = r;
        s->is_known = true;
        s->known_ns = sim_now_ns(g->sim);
    }
    CHECKF(s->record.producer == r.producer && s->record.number == r.number,
           "[GHO-2] partition %u offset %" PRId64 " was %u-%" PRIu64 " and is %u-%" PRIu64,
           partition, offset, s->record.producer, s->record.number, r.producer, r.number);
    return s;
}

void ghost_acked(struct ghost *g, uint32_t partition, int64_t base_offset, struct sim_record first,
                 uint32_t count)
{
    CHECKF(base_offset >= 0, "an acknowledgement at offset %" PRId64, base_offset);
    for (uint32_t i = 0; i < count; i++) {
        struct sim_record r = {first.producer, first.number + i};
        struct ghost_slot *s = ghost_know(g, partition, base_offset + i, r);
        g->acked_count += !s->is_acked;
        s->is_acked = true;
    }
    struct ghost_partition *p = ghost_partition(g, partition);
    if (base_offset + count > p->hw) { p->hw = base_offset + count; }
}

void ghost_seen(struct ghost *g, uint32_t partition, const struct sim_batch *b)
{
    if (b->is_rotten) {
        CHECKF(ghost_is_lost(g, partition, b->base_offset),
               "partition %u: the batch at %" PRId64 " is rotten", partition, b->base_offset);
        return;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        struct sim_record r = {b->first.producer, b->first.number + i};
        struct ghost_slot *s = ghost_know(g, partition, b->base_offset + i, r);
        CHECKF(!s->is_lost, "rotten offset %" PRId64 " was served", b->base_offset + i);
        s->is_audited = true;
        g->seen_count++;
    }
    struct ghost_partition *p = ghost_partition(g, partition);
    if (b->base_offset + b->count > p->hw) { p->hw = b->base_offset + b->count; }
}

int64_t ghost_hw(const struct ghost *g, uint32_t partition)
{
    return ghost_partition(g, partition)->hw;
}

uint64_t ghost_known_ns(const struct ghost *g, uint32_t partition, int64_t offset, size_t bytes)
{
    const struct ghost_partition *p = ghost_partition(g, partition);
    uint64_t since = 0;
    size_t sum = 0;
    for (int64_t o = offset; o < p->end && p->slots[o].is_known; o++) {
        const struct ghost_slot *s = &p->slots[o];
        if (s->known_ns > since) { since = s->known_ns; }
        sum += record_size_min(s->record);
        if (sum >= bytes) { return since; }
    }
    return SYS_NEVER;
}

void ghost_answered_hw(struct ghost *g, uint32_t partition, int64_t hw, int64_t at_least)
{
    struct ghost_partition *p = ghost_partition(g, partition);
    CHECKF(hw >= at_least, "[GHO-6] partition %u: high watermark %" PRId64 ", it was %" PRId64,
           partition, hw, at_least);
    if (hw > p->hw) { p->hw = hw; }
}

void ghost_ask_start(struct ghost *g, uint32_t partition, int64_t offset)
{
    struct ghost_partition *p = ghost_partition(g, partition);
    if (offset > p->asked) { p->asked = offset; }
}

void ghost_answered_start(struct ghost *g, uint32_t partition, int64_t start)
{
    struct ghost_partition *p = ghost_partition(g, partition);
    CHECKF(start >= p->start && start <= p->asked,
           "[GHO-7] partition %u starts at %" PRId64 "; told %" PRId64 ", asked %" PRId64,
           partition, start, p->start, p->asked);
    p->start = start;
}

void ghost_power_cut(struct ghost *g)
{
    for (uint32_t i = 0; i < g->partitions_count; i++) {
        g->partitions[i].start = 0;
    }
}

int64_t ghost_start(const struct ghost *g, uint32_t partition)
{
    return ghost_partition(g, partition)->start;
}

int64_t ghost_asked(const struct ghost *g, uint32_t partition)
{
    return ghost_partition(g, partition)->asked;
}

void ghost_forget(struct ghost *g, uint32_t partition)
{
    struct ghost_partition *p = ghost_partition(g, partition);
    for (int64_t o = 0; o < p->end; o++) { /* they are somewhere, so nowhere else [GHO-3] */
        struct sim_record r = p->slots[o].record;
        if (p->slots[o].is_known) { g->producers[r.producer].partitions[r.number] = UINT32_MAX; }
    }
    if (p->capacity > 0) { memset(p->slots, 0, p->capacity * sizeof *p->slots); }
    p->end = p->hw = p->start = p->asked = 0;
}

void ghost_allow_loss(struct ghost *g, uint32_t partition, int64_t from, int64_t to)
{
    for (int64_t o = from; o < to; o++) {
        ghost_slot(g, partition, o)->is_lost = true;
    }
}

bool ghost_is_lost(const struct ghost *g, uint32_t partition, int64_t offset)
{
    const struct ghost_partition *p = ghost_partition(g, partition);
    return offset < p->end && p->slots[offset].is_lost;
}

void ghost_begin_audit(struct ghost *g)
{
    for (uint32_t i = 0; i < g->partitions_count; i++) {
        for (int64_t o = 0; o < g->partitions[i].end; o++) {
            g->partitions[i].slots[o].is_audited = false;
        }
    }
}

void ghost_end_audit(const struct ghost *g)
{
    for (uint32_t i = 0; i < g->partitions_count; i++) {
        for (int64_t o = 0; o < g->partitions[i].end; o++) {
            const struct ghost_slot *s = &g->partitions[i].slots[o];
            CHECKF(!s->is_known || s->is_audited || s->is_lost || o < g->partitions[i].asked,
                   "[GHO-1] partition %u offset %" PRId64 " (%u-%" PRIu64 ", %s) is gone", i, o,
                   s->record.producer, s->record.number, s->is_acked ? "acknowledged" : "read");
        }
    }
}

uint64_t ghost_acked_count(const struct ghost *g)
{
    return g->acked_count;
}

uint64_t ghost_seen_count(const struct ghost *g)
{
    return g->seen_count;
}
