/* delayed.h - the delayed operations of produce and fetch: what they wait for, nothing of how they
 * are answered.
 *
 * Place:      replica/; api/ allocates them in a request's park arena, parks them and answers in
 *             done().
 * Thread:     try_complete on any thread reads only the immutable items and published partition
 *             state; done() on the owner's.
 * Ownership:  the items' partition references are the caller's, held until done() has run. */
#ifndef REPLICA_DELAYED_H
#define REPLICA_DELAYED_H

#include "replica/replica.h"

struct delayed_produce_item {
    struct partition *partition;
    int64_t required; /* the high watermark that acknowledges the append */
};

/* acks=all: complete when every partition's high watermark covers its append, or it left the online
 * state. */
struct delayed_produce {
    struct purg_op op;
    struct delayed_produce_item *items;
    size_t items_count;
    void (*done)(struct delayed_produce *d, enum purg_reason reason);
    void *ctx;
};

extern const struct purg_op_type delayed_produce_type;

/* True when the item's append is acknowledged. */
static inline bool delayed_produce_is_acked(const struct delayed_produce_item *i)
{
    return partition_hw(i->partition) >= i->required;
}

struct delayed_fetch_item {
    struct partition *partition;
    int64_t offset;
    int32_t bytes_max;
    int32_t current_leader_epoch; /* -1: not checked */
    bool read_committed;
};

/* A consumer's fetch: complete when bytes_min are there over all partitions, or a partition has
 * something to tell (an error). */
struct delayed_fetch {
    struct purg_op op;
    struct delayed_fetch_item *items;
    size_t items_count;
    int64_t bytes_min;
    void (*done)(struct delayed_fetch *d, enum purg_reason reason);
    void *ctx;
};

extern const struct purg_op_type delayed_fetch_type;

/* The exclusive bound of what a consumer may read. */
static inline int64_t partition_read_bound(const struct partition *p, bool read_committed)
{
    return read_committed ? partition_lso(p) : partition_hw(p);
}

#endif
