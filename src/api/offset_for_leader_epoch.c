/* offset_for_leader_epoch.c - OffsetForLeaderEpoch (23): where an epoch ended, for clients and
 * followers that look for divergence. */
#include "api/api_int.h"

#include "wire/gen/offset_for_leader_epoch_request.h"
#include "wire/gen/offset_for_leader_epoch_response.h"

static void part_answer(struct partition *p,
                        const struct offset_for_leader_epoch_request_offset_for_leader_partition *q,
                        struct offset_for_leader_epoch_response_epoch_end_offset *out)
{
    int32_t epoch = partition_leader_epoch(p);
    if (q->current_leader_epoch >= 0 && q->current_leader_epoch != epoch) {
        out->error_code = q->current_leader_epoch < epoch ? KAFKA_FENCED_LEADER_EPOCH
                                                          : KAFKA_UNKNOWN_LEADER_EPOCH;
        return;
    }
    /* An epoch that is not begun yet has no end: -1 and -1. */
    if (q->leader_epoch > epoch || q->leader_epoch < 0) { return; }
    if (q->leader_epoch == epoch) {
        out->leader_epoch = epoch;
        out->end_offset = log_leo(p->log);
        return;
    }
    struct log_epoch_args args = {.epoch = q->leader_epoch, .may_block = true};
    enum err e = log_epoch_end_offset(p->log, &args, &out->leader_epoch, &out->end_offset);
    if (e) {
        out->error_code =
            e == ERR_CLOSED ? KAFKA_UNKNOWN_TOPIC_OR_PARTITION : KAFKA_KAFKA_STORAGE_ERROR;
        out->leader_epoch = -1;
        out->end_offset = -1;
    }
}

enum net_verdict api_offset_for_leader_epoch(struct api_call *call)
{
    struct offset_for_leader_epoch_request q;
    struct offset_for_leader_epoch_response m;
    struct arena *a = call->req->arena;
    if (!call->req->on_handler) { return NET_SLOW; } /* an idle log's epochs are in a file */
    if (!API_DECODE(call, offset_for_leader_epoch_request, &q)) { return NET_CLOSE; }
    offset_for_leader_epoch_response_init(&m);
    m.topics = arena_array(a, q.topics_count, sizeof *m.topics);
    if (!m.topics) { return NET_CLOSE; }
    m.topics_count = q.topics_count;
    for (size_t i = 0; i < q.topics_count; i++) {
        const struct offset_for_leader_epoch_request_offset_for_leader_topic *t = &q.topics[i];
        m.topics[i].topic = t->topic;
        m.topics[i].partitions =
            arena_array(a, t->partitions_count, sizeof *m.topics[i].partitions);
        if (!m.topics[i].partitions) { return NET_CLOSE; }
        m.topics[i].partitions_count = t->partitions_count;
        for (size_t k = 0; k < t->partitions_count; k++) {
            struct offset_for_leader_epoch_response_epoch_end_offset *out =
                &m.topics[i].partitions[k];
            struct partition *p;
            offset_for_leader_epoch_response_epoch_end_offset_init(out);
            out->partition = t->partitions[k].partition;
            out->error_code =
                (int16_t)api_find_partition(call, t->topic, (struct uuid){0}, out->partition, &p);
            if (p) { part_answer(p, &t->partitions[k], out); }
            partition_unref(p);
        }
    }
    return API_ANSWER(call, offset_for_leader_epoch_response, &m);
}
