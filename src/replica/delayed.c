/* delayed.c - the completion rules of delayed produce and fetch. */
#include "replica/delayed.h"

#include "base/check.h"

static bool produce_try_complete(struct purg_op *op)
{
    struct delayed_produce *d = CONTAINER_OF(op, struct delayed_produce, op);
    for (size_t i = 0; i < d->items_count; i++) {
        const struct delayed_produce_item *item = &d->items[i];
        if (!delayed_produce_is_acked(item) &&
            partition_state(item->partition) == PARTITION_ONLINE) {
            return false;
        }
    }
    return true;
}

static void produce_on_complete(struct purg_op *op, enum purg_reason reason)
{
    struct delayed_produce *d = CONTAINER_OF(op, struct delayed_produce, op);
    d->done(d, reason);
}

const struct purg_op_type delayed_produce_type = {
    .name = "Produce", .try_complete = produce_try_complete, .on_complete = produce_on_complete};

/* Whether the partition has something to tell other than data. */
static bool fetch_item_is_over(const struct delayed_fetch_item *item)
{
    const struct partition *p = item->partition;
    if (partition_state(p) != PARTITION_ONLINE) { return true; }
    if (item->current_leader_epoch >= 0 &&
        item->current_leader_epoch != partition_leader_epoch(p)) {
        return true;
    }
    return item->offset < log_start_offset(p->log) || item->offset > log_leo(p->log);
}

static bool fetch_try_complete(struct purg_op *op)
{
    struct delayed_fetch *d = CONTAINER_OF(op, struct delayed_fetch, op);
    int64_t bytes = 0;
    for (size_t i = 0; i < d->items_count; i++) {
        const struct delayed_fetch_item *item = &d->items[i];
        if (fetch_item_is_over(item)) { return true; }
        int64_t bound = partition_read_bound(item->partition, item->read_committed);
        if (bound <= item->offset) { continue; }
        /* At least one byte is there, whatever the log says about where; a limit below one batch
         * yields that batch. */
        size_t room = item->bytes_max > 0 ? (size_t)item->bytes_max : 1;
        size_t found = log_bytes_between(item->partition->log, item->offset, bound, room);
        bytes += found ? (int64_t)found : 1;
        if (bytes >= d->bytes_min) { return true; }
    }
    return false;
}

static void fetch_on_complete(struct purg_op *op, enum purg_reason reason)
{
    struct delayed_fetch *d = CONTAINER_OF(op, struct delayed_fetch, op);
    d->done(d, reason);
}

const struct purg_op_type delayed_fetch_type = {
    .name = "Fetch", .try_complete = fetch_try_complete, .on_complete = fetch_on_complete};
