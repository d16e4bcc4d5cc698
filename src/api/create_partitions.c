/* create_partitions.c - CreatePartitions (37): more partitions for a topic. */
#include "api/api_int.h"

#include "wire/gen/create_partitions_request.h"
#include "wire/gen/create_partitions_response.h"

#include <inttypes.h>

struct more_partitions {
    struct slice name;
    enum kafka_error error;
    const char *message;
    size_t mutation;
};

struct create_partitions {
    struct more_partitions *topics;
    size_t count;
};

static enum net_verdict partitions_answer(struct api *api, const struct api_reply *reply, void *ctx,
                                          const struct controller_mutation *mutations, size_t count,
                                          bool is_late)
{
    (void)api;
    (void)count;
    struct create_partitions *c = ctx;
    struct create_partitions_response m;
    create_partitions_response_init(&m);
    m.results = arena_array(reply->req->arena, c->count, sizeof *m.results);
    if (!m.results) { return NET_CLOSE; }
    m.results_count = c->count;
    for (size_t i = 0; i < c->count; i++) {
        const struct more_partitions *t = &c->topics[i];
        enum kafka_error error = t->error;
        enum err result = error || is_late ? ERR_OK : mutations[t->mutation].result;
        if (!error && is_late) {
            error = KAFKA_REQUEST_TIMED_OUT;
        } else if (result == ERR_NOTFOUND) {
            error = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
        } else if (result == ERR_RANGE) {
            error = KAFKA_INVALID_PARTITIONS;
        } else if (result) {
            error = KAFKA_KAFKA_STORAGE_ERROR;
        }
        m.results[i].name = t->name;
        m.results[i].error_code = (int16_t)error;
        m.results[i].error_message = slice_str(t->message);
    }
    struct wire_writer w;
    api_answer_begin(reply, &w);
    enum err e = create_partitions_response_encode(&w, reply->version, &m);
    return api_answer_end(reply, &w, e);
}

static void refuse(struct more_partitions *t, enum kafka_error error, const char *message)
{
    t->error = error;
    t->message = message;
}

static void check_assignments(struct api_call *call, struct more_partitions *t,
                              const struct create_partitions_request_create_partitions_topic *q,
                              int32_t added)
{
    if (q->assignments == NULL) { return; }
    if (q->assignments_count != (size_t)added) {
        refuse(t, KAFKA_INVALID_REPLICA_ASSIGNMENT,
               "The assignment must name the replicas of each added partition.");
        return;
    }
    for (size_t i = 0; i < q->assignments_count; i++) {
        if (q->assignments[i].broker_ids_count != 1 ||
            q->assignments[i].broker_ids[0] != call->api->options.node_id) {
            refuse(t, KAFKA_INVALID_REPLICA_ASSIGNMENT,
                   "Each added partition must be on the one broker of this cluster.");
            return;
        }
    }
}

static void check_topic(struct api_call *call,
                        const struct create_partitions_request_create_partitions_topic *asked,
                        bool is_repeated, struct more_partitions *t, struct controller_mutation *m)
{
    t->name = asked->name;
    if (is_repeated) {
        refuse(t, KAFKA_INVALID_REQUEST, "Duplicate topic name.");
        return;
    }
    const struct meta_topic *topic = meta_topic(call->image, asked->name);
    if (!topic) {
        refuse(t, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, NULL);
        return;
    }
    int32_t now = meta_topic_partitions_count(topic);
    if (asked->count <= now) {
        refuse(t, KAFKA_INVALID_PARTITIONS,
               arena_printf(call->req->arena,
                            asked->count == now ? "Topic already has %" PRId32 " partition(s)."
                                                : "The topic currently has %" PRId32
                                                  " partition(s); fewer would not be an increase.",
                            now));
        return;
    }
    if (asked->count > META_PARTITIONS_PER_TOPIC_MAX) {
        refuse(t, KAFKA_INVALID_PARTITIONS, "Number of partitions was above 100000.");
        return;
    }
    check_assignments(call, t, asked, asked->count - now);
    *m = (struct controller_mutation){.kind = CONTROLLER_CREATE_PARTITIONS,
                                      .id = topic->id,
                                      .name = asked->name,
                                      .partitions_count = asked->count};
}

enum net_verdict api_create_partitions(struct api_call *call)
{
    struct arena *a = call->req->arena;
    struct create_partitions_request q;
    struct create_partitions *c = arena_alloc(a, sizeof *c);
    if (!c || !API_DECODE(call, create_partitions_request, &q)) { return NET_CLOSE; }
    c->count = q.topics_count;
    a->limit += c->count * (sizeof *c->topics + sizeof(struct controller_mutation) + 128);
    c->topics = arena_array(a, c->count, sizeof *c->topics);
    struct controller_mutation *mutations = arena_array(a, c->count, sizeof *mutations);
    struct api_key *names = api_keys(a, c->count);
    if (!c->topics || !mutations || !names || c->count > CONTROLLER_MUTATIONS_MAX) {
        return NET_CLOSE;
    }
    for (size_t i = 0; i < c->count; i++) {
        names[i] = (struct api_key){q.topics[i].name, 1};
    }
    const struct api_place *places = api_places(a, names, c->count);
    if (!places) { return NET_CLOSE; }
    size_t count = 0;
    for (size_t i = 0; i < c->count; i++) {
        check_topic(call, &q.topics[i], places[i].is_repeated, &c->topics[i], &mutations[count]);
        c->topics[i].mutation = count;
        count += !c->topics[i].error;
    }
    struct api_reply reply = api_reply_of(call);
    if (count == 0) { return partitions_answer(call->api, &reply, c, mutations, 0, false); }
    return api_submit(call, &(struct api_submit){.mutations = mutations,
                                                 .count = count,
                                                 .is_dry_run = q.validate_only,
                                                 .timeout_ms = q.timeout_ms,
                                                 .done = partitions_answer,
                                                 .ctx = c});
}
