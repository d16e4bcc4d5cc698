/* describe_topic_partitions.c - DescribeTopicPartitions (75): topics page by page, with a cursor
 * where the limit cut. */
#include "api/api_int.h"

#include "base/check.h"
#include "log/log.h"
#include "wire/gen/describe_topic_partitions_request.h"
#include "wire/gen/describe_topic_partitions_response.h"

#include <stdlib.h>

struct page {
    struct api_call *call;
    struct describe_topic_partitions_response m;
    struct describe_topic_partitions_response_describe_topic_partitions_response_topic *topic;
    struct slice from_topic; /* the cursor's; null: the beginning */
    int32_t from_partition;
    int32_t left; /* partitions that the answer may still hold */
    bool has_failed;
};

static void cut_here(struct page *p, struct slice topic, int32_t partition)
{
    p->m.next_cursor = arena_alloc(p->call->req->arena, sizeof *p->m.next_cursor);
    p->has_failed = !p->m.next_cursor;
    if (p->has_failed) { return; }
    p->m.next_cursor->topic_name = topic;
    p->m.next_cursor->partition_index = partition;
}

static bool add_partition(void *ctx, const struct meta_partition *mp)
{
    struct page *p = ctx;
    if (p->left == 0) {
        cut_here(p, p->topic->name, mp->index);
        return false;
    }
    p->left--;
    struct describe_topic_partitions_response_describe_topic_partitions_response_partition *out =
        &p->topic->partitions[p->topic->partitions_count++];
    describe_topic_partitions_response_describe_topic_partitions_response_partition_init(out);
    out->partition_index = mp->index;
    out->leader_id = mp->leader;
    out->leader_epoch = mp->leader_epoch;
    out->replica_nodes = mp->replicas;
    out->replica_nodes_count = mp->replicas_count;
    out->isr_nodes = mp->isr;
    out->isr_nodes_count = mp->isr_count;
    /* Empty, not null: the Java client reads them without a look. */
    out->eligible_leader_replicas = WIRE_EMPTY;
    out->last_known_elr = WIRE_EMPTY;
    if (api_is_offline(p->call->api, p->topic->topic_id, mp->index)) {
        out->error_code = KAFKA_KAFKA_STORAGE_ERROR;
        out->leader_id = -1;
        out->offline_replicas = mp->replicas;
        out->offline_replicas_count = mp->replicas_count;
    }
    return true;
}

static bool add_topic(struct page *p, const struct meta_topic *topic)
{
    struct arena *a = p->call->req->arena;
    struct slice name = slice_str(topic->name);
    bool is_first = slice_eq(name, p->from_topic);
    int32_t from = is_first ? p->from_partition : 0;
    int32_t count = meta_topic_partitions_count(topic) - from;
    if (count < 0) { count = 0; }
    if (count > p->left) { count = p->left; }
    if (p->left == 0) {
        cut_here(p, name, from);
        return false;
    }
    p->topic = &p->m.topics[p->m.topics_count++];
    describe_topic_partitions_response_describe_topic_partitions_response_topic_init(p->topic);
    p->topic->name = name;
    p->topic->topic_id = topic->id;
    p->topic->is_internal = api_is_internal(name);
    p->topic->topic_authorized_operations = API_TOPIC_OPERATIONS;
    a->limit += (size_t)count * sizeof *p->topic->partitions + 64;
    p->topic->partitions = arena_array(a, (size_t)count, sizeof *p->topic->partitions);
    p->has_failed = !p->topic->partitions;
    if (p->has_failed) { return false; }
    meta_each_partition(topic, from, add_partition, p);
    return p->m.next_cursor == NULL && !p->has_failed;
}

static bool add_each_topic(void *ctx, const struct meta_topic *topic)
{
    return add_topic(ctx, topic);
}

static int name_order(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* The topics that are asked for by name, in order, from the cursor on. */
static void add_named(struct page *p, struct slice *names, size_t count)
{
    qsort(names, count, sizeof *names, name_order);
    for (size_t i = 0; i < count && !p->m.next_cursor && !p->has_failed; i++) {
        bool is_before = p->from_topic.at && slice_cmp(names[i], p->from_topic) < 0;
        if (is_before || (i > 0 && slice_eq(names[i], names[i - 1]))) { continue; }
        const struct meta_topic *topic = meta_topic(p->call->image, names[i]);
        if (topic) {
            add_topic(p, topic);
            continue;
        }
        p->topic = &p->m.topics[p->m.topics_count++];
        describe_topic_partitions_response_describe_topic_partitions_response_topic_init(p->topic);
        p->topic->name = names[i];
        p->topic->error_code = log_topic_name_is_valid(names[i]) ? KAFKA_UNKNOWN_TOPIC_OR_PARTITION
                                                                 : KAFKA_INVALID_TOPIC;
    }
}

enum net_verdict api_describe_topic_partitions(struct api_call *call)
{
    struct describe_topic_partitions_request q;
    struct arena *a = call->req->arena;
    if (!API_DECODE(call, describe_topic_partitions_request, &q)) { return NET_CLOSE; }
    struct config_scope scope = api_scope(call->api, call->image);
    int64_t limit = config_broker_i64(&scope, "max.request.partition.size.limit");
    struct page p = {.call = call};
    p.left = q.response_partition_limit < limit ? q.response_partition_limit : (int32_t)limit;
    if (p.left < 1) { p.left = 1; }
    if (q.cursor) {
        if (q.cursor->partition_index < 0) { return NET_CLOSE; }
        p.from_topic = q.cursor->topic_name;
        p.from_partition = q.cursor->partition_index;
    }
    describe_topic_partitions_response_init(&p.m);
    size_t max = q.topics_count ? q.topics_count : (size_t)p.left + 1;
    a->limit += max * sizeof *p.m.topics + q.topics_count * sizeof(struct slice) + 256;
    p.m.topics = arena_array(a, max, sizeof *p.m.topics);
    struct slice *names = arena_array(a, q.topics_count, sizeof *names);
    if (!p.m.topics || !names) { return NET_CLOSE; }
    for (size_t i = 0; i < q.topics_count; i++) {
        names[i] = q.topics[i].name;
    }
    if (q.topics_count) {
        add_named(&p, names, q.topics_count);
    } else {
        meta_each_topic(call->image, p.from_topic, add_each_topic, &p);
    }
    if (p.has_failed) { return NET_CLOSE; }
    return API_ANSWER(call, describe_topic_partitions_response, &p.m);
}
