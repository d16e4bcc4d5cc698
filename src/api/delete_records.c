/* delete_records.c - DeleteRecords (21): moves the start of logs. Runs on a handler, since the new
 * start is made durable. */
#include "api/api_int.h"

#include "wire/gen/delete_records_request.h"
#include "wire/gen/delete_records_response.h"

#define DELETE_TO_HIGH_WATERMARK (-1)

/* Kafka deletes records only where deletion is the topic's policy. */
static bool is_deletable(struct api_call *call, struct slice topic)
{
    struct config_scope scope = api_scope(call->api, call->image);
    return config_list_has(config_topic_text(&scope, topic, "cleanup.policy"), "delete");
}

static enum kafka_error delete_before(struct partition *p, int64_t offset, int64_t *low)
{
    int64_t hw = partition_hw(p);
    if (offset == DELETE_TO_HIGH_WATERMARK) { offset = hw; }
    if (offset < 0 || offset > hw) { return KAFKA_OFFSET_OUT_OF_RANGE; }
    switch (log_set_start(p->log, offset)) {
    case ERR_OK:
        break;
    case ERR_RANGE:
        return KAFKA_OFFSET_OUT_OF_RANGE;
    case ERR_CLOSED:
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    default:
        return KAFKA_KAFKA_STORAGE_ERROR; /* the disk */
    }
    *low = log_start_offset(p->log);
    partition_check(p, NULL);
    return KAFKA_NONE;
}

static void part_answer(struct api_call *call, struct slice topic,
                        const struct delete_records_request_delete_records_partition *q,
                        struct delete_records_response_delete_records_partition_result *out)
{
    struct partition *p;
    out->partition_index = q->partition_index;
    out->low_watermark = -1;
    enum kafka_error error =
        api_find_partition(call, topic, (struct uuid){0}, q->partition_index, &p);
    if (!error && !is_deletable(call, topic)) { error = KAFKA_POLICY_VIOLATION; }
    if (!error) { error = delete_before(p, q->offset, &out->low_watermark); }
    out->error_code = (int16_t)error;
    partition_unref(p);
}

enum net_verdict api_delete_records(struct api_call *call)
{
    struct delete_records_request q;
    struct delete_records_response m;
    struct arena *a = call->req->arena;
    if (!call->req->on_handler) { return NET_SLOW; }
    if (!API_DECODE(call, delete_records_request, &q)) { return NET_CLOSE; }
    delete_records_response_init(&m);
    m.topics = arena_array(a, q.topics_count, sizeof *m.topics);
    if (!m.topics) { return NET_CLOSE; }
    m.topics_count = q.topics_count;
    for (size_t i = 0; i < q.topics_count; i++) {
        const struct delete_records_request_delete_records_topic *t = &q.topics[i];
        m.topics[i].name = t->name;
        m.topics[i].partitions =
            arena_array(a, t->partitions_count, sizeof *m.topics[i].partitions);
        if (!m.topics[i].partitions) { return NET_CLOSE; }
        m.topics[i].partitions_count = t->partitions_count;
        for (size_t k = 0; k < t->partitions_count; k++) {
            part_answer(call, t->name, &t->partitions[k], &m.topics[i].partitions[k]);
        }
    }
    return API_ANSWER(call, delete_records_response, &m);
}
