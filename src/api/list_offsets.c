/* list_offsets.c - ListOffsets (2): the ends of a log, and offsets by time.
 *
 * Thread: what may read the disk (times, the start's epoch) runs on a handler; the end is answered
 * where the request arrives. A ReplicaId >= 0 is a follower's: it sees the log's end, whatever the
 * isolation, as in Kafka. */
#include "api/api_int.h"

#include "wire/gen/list_offsets_request.h"
#include "wire/gen/list_offsets_response.h"

#include <stdlib.h>

enum list_special {
    LIST_LATEST = -1,
    LIST_EARLIEST = -2,
    LIST_MAX_TIMESTAMP = -3, /* from version 7 */
    LIST_EARLIEST_LOCAL = -4, /* from version 8 */
    LIST_LATEST_TIERED = -5, /* from version 9 */
    LIST_EARLIEST_PENDING = -6, /* from version 11 */
};

static bool is_known_special(int64_t timestamp, int16_t version)
{
    switch (timestamp) {
    case LIST_LATEST:
    case LIST_EARLIEST:
        return true;
    case LIST_MAX_TIMESTAMP:
        return version >= 7;
    case LIST_EARLIEST_LOCAL:
        return version >= 8;
    case LIST_LATEST_TIERED:
        return version >= 9;
    case LIST_EARLIEST_PENDING:
        return version >= 11;
    default:
        return timestamp >= 0;
    }
}

static bool is_search(int64_t timestamp)
{
    return timestamp >= 0 || timestamp == LIST_MAX_TIMESTAMP;
}

/* The start's epoch is in a file as long as the log is idle. */
static bool needs_disk(int64_t timestamp)
{
    return is_search(timestamp) || timestamp == LIST_EARLIEST || timestamp == LIST_EARLIEST_LOCAL;
}

static enum kafka_error lookup_error(enum err e)
{
    switch (e) {
    case ERR_OK:
        return KAFKA_NONE;
    case ERR_CLOSED:
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    case ERR_CORRUPT:
        return KAFKA_CORRUPT_MESSAGE;
    default:
        return KAFKA_KAFKA_STORAGE_ERROR; /* the disk or memory */
    }
}

/* The end that this reader may know of. */
static int64_t visible_end(const struct list_offsets_request *q, const struct partition *p)
{
    if (q->replica_id >= 0) { return log_leo(p->log); }
    return q->isolation_level == 1 ? partition_lso(p) : partition_hw(p);
}

static void part_by_time(const struct list_offsets_request *q, struct partition *p,
                         int64_t timestamp,
                         struct list_offsets_response_list_offsets_partition_response *out)
{
    struct log_time_offset found = {-1, -1, -1};
    int64_t end = visible_end(q, p);
    enum err e = timestamp == LIST_MAX_TIMESTAMP
                     ? log_offset_of_max_time(p->log, &found)
                     : log_offset_by_time(p->log, timestamp, end, &found);
    out->error_code = (int16_t)lookup_error(e);
    /* A match at or beyond what the reader may see is none: -3 does not fall back to an older one.
     */
    if (e || found.offset < 0 || found.offset >= end) { return; }
    out->timestamp = found.timestamp;
    out->offset = found.offset;
    out->leader_epoch = found.leader_epoch;
}

static void part_answer(struct api_call *call, const struct list_offsets_request *q,
                        struct partition *p,
                        const struct list_offsets_request_list_offsets_partition *asked,
                        struct list_offsets_response_list_offsets_partition_response *out)
{
    int32_t epoch = partition_leader_epoch(p);
    if (asked->current_leader_epoch >= 0 && asked->current_leader_epoch != epoch) {
        out->error_code = asked->current_leader_epoch < epoch ? KAFKA_FENCED_LEADER_EPOCH
                                                              : KAFKA_UNKNOWN_LEADER_EPOCH;
        return;
    }
    if (!is_known_special(asked->timestamp, call->version)) {
        out->error_code = KAFKA_UNSUPPORTED_VERSION;
        return;
    }
    if (is_search(asked->timestamp)) {
        part_by_time(q, p, asked->timestamp, out);
        return;
    }
    bool is_start = asked->timestamp == LIST_EARLIEST || asked->timestamp == LIST_EARLIEST_LOCAL;
    if (asked->timestamp == LIST_LATEST_TIERED || asked->timestamp == LIST_EARLIEST_PENDING) {
        return; /* nothing is tiered: -1 */
    }
    out->offset = is_start ? log_start_offset(p->log) : visible_end(q, p);
    if (asked->timestamp == LIST_LATEST) {
        out->leader_epoch = epoch;
    } else if (log_epoch_of(p->log, out->offset, &out->leader_epoch) != ERR_OK) {
        out->leader_epoch = -1;
    }
}

static bool any_needs_disk(const struct list_offsets_request *q)
{
    for (size_t i = 0; i < q->topics_count; i++) {
        for (size_t k = 0; k < q->topics[i].partitions_count; k++) {
            if (needs_disk(q->topics[i].partitions[k].timestamp)) { return true; }
        }
    }
    return false;
}

static int index_order(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The topic's partitions in ascending order, to find those that are asked for twice. NULL without
 * memory. */
static int32_t *sort_indexes(const struct list_offsets_request_list_offsets_topic *t,
                             struct arena *a)
{
    int32_t *sorted = arena_array(a, t->partitions_count, sizeof *sorted);
    for (size_t i = 0; sorted && i < t->partitions_count; i++) {
        sorted[i] = t->partitions[i].partition_index;
    }
    if (sorted) { qsort(sorted, t->partitions_count, sizeof *sorted, index_order); }
    return sorted;
}

static bool is_twice(const int32_t *sorted, size_t count, int32_t index)
{
    const int32_t *at = bsearch(&index, sorted, count, sizeof *sorted, index_order);
    return at && ((at > sorted && at[-1] == index) || (at + 1 < sorted + count && at[1] == index));
}

static bool topic_answer(struct api_call *call, const struct list_offsets_request *q,
                         const struct list_offsets_request_list_offsets_topic *t,
                         struct list_offsets_response_list_offsets_topic_response *out)
{
    out->name = t->name;
    int32_t *sorted = sort_indexes(t, call->req->arena);
    out->partitions = arena_array(call->req->arena, t->partitions_count, sizeof *out->partitions);
    if (!sorted || !out->partitions) { return false; }
    out->partitions_count = t->partitions_count;
    for (size_t k = 0; k < t->partitions_count; k++) {
        struct list_offsets_response_list_offsets_partition_response *part = &out->partitions[k];
        struct partition *p = NULL;
        list_offsets_response_list_offsets_partition_response_init(part);
        part->partition_index = t->partitions[k].partition_index;
        enum kafka_error error =
            is_twice(sorted, t->partitions_count, part->partition_index)
                ? KAFKA_INVALID_REQUEST
                : api_find_partition(call, t->name, (struct uuid){0}, part->partition_index, &p);
        part->error_code = (int16_t)error;
        if (p) { part_answer(call, q, p, &t->partitions[k], part); }
        if (call->version < 4) { part->leader_epoch = -1; } /* there is no such field */
        partition_unref(p);
    }
    return true;
}

enum net_verdict api_list_offsets(struct api_call *call)
{
    struct list_offsets_request q;
    struct list_offsets_response m;
    if (!API_DECODE(call, list_offsets_request, &q)) { return NET_CLOSE; }
    if (!call->req->on_handler && any_needs_disk(&q)) { return NET_SLOW; }
    list_offsets_response_init(&m);
    m.topics = arena_array(call->req->arena, q.topics_count, sizeof *m.topics);
    if (!m.topics) { return NET_CLOSE; }
    m.topics_count = q.topics_count;
    for (size_t i = 0; i < q.topics_count; i++) {
        if (!topic_answer(call, &q, &q.topics[i], &m.topics[i])) { return NET_CLOSE; }
    }
    return API_ANSWER(call, list_offsets_response, &m);
}
