/* delete_topics.c - DeleteTopics (20): by name, from version 6 also by id. */
#include "api/api_int.h"

#include "wire/gen/delete_topics_request.h"
#include "wire/gen/delete_topics_response.h"

struct delete_topic {
    struct slice name;
    struct uuid id;
    enum kafka_error error;
    const char *message;
    size_t mutation;
    bool is_repeated; /* answered where it stands first */
};

struct delete_topics {
    struct delete_topic *topics;
    size_t count;
};

static enum net_verdict delete_answer(struct api *api, const struct api_reply *reply, void *ctx,
                                      const struct controller_mutation *mutations, size_t count,
                                      bool is_late)
{
    (void)api;
    (void)count;
    struct delete_topics *d = ctx;
    struct delete_topics_response m;
    delete_topics_response_init(&m);
    m.responses = arena_array(reply->req->arena, d->count, sizeof *m.responses);
    if (!m.responses) { return NET_CLOSE; }
    for (size_t i = 0; i < d->count; i++) {
        const struct delete_topic *t = &d->topics[i];
        if (t->is_repeated) { continue; }
        struct delete_topics_response_deletable_topic_result *out =
            &m.responses[m.responses_count++];
        delete_topics_response_deletable_topic_result_init(out);
        enum kafka_error error = t->error;
        if (!error && is_late) {
            error = KAFKA_REQUEST_TIMED_OUT;
        } else if (!error && mutations[t->mutation].result) {
            error = mutations[t->mutation].result == ERR_NOTFOUND ? KAFKA_UNKNOWN_TOPIC_OR_PARTITION
                                                                  : KAFKA_KAFKA_STORAGE_ERROR;
        }
        out->name = t->name;
        out->topic_id = t->id;
        out->error_code = (int16_t)error;
        out->error_message = slice_str(t->message);
    }
    struct wire_writer w;
    api_answer_begin(reply, &w);
    enum err e = delete_topics_response_encode(&w, reply->version, &m);
    return api_answer_end(reply, &w, e);
}

/* Finds the topic and what is wrong with asking for it. */
static void check_topic(struct api_call *call, struct delete_topic *t)
{
    bool by_id = !uuid_is_zero(t->id);
    if (by_id == !slice_is_null(t->name)) {
        t->error = KAFKA_INVALID_REQUEST;
        t->message = "Expected a topic name or a topic id, not both and not neither.";
        return;
    }
    const struct meta_topic *topic =
        by_id ? meta_topic_by_id(call->image, t->id) : meta_topic(call->image, t->name);
    if (!topic) {
        t->error = by_id ? KAFKA_UNKNOWN_TOPIC_ID : KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
        return;
    }
    t->name = slice_str(topic->name);
    t->id = topic->id;
}

/* A topic that stands twice, by name or id, is answered once. False without memory. */
static bool refuse_repeated(struct delete_topics *d, struct arena *a)
{
    struct api_key *ids = api_keys(a, d->count);
    for (size_t i = 0; ids && i < d->count; i++) {
        struct delete_topic *t = &d->topics[i];
        if (!t->error) { ids[i] = (struct api_key){slice_of(t->id.b, sizeof t->id.b), 1}; }
    }
    const struct api_place *places = ids ? api_places(a, ids, d->count) : NULL;
    for (size_t i = 0; places && i < d->count; i++) {
        if (!places[i].is_repeated) { continue; }
        d->topics[i].is_repeated = places[i].first != i;
        d->topics[i].error = KAFKA_INVALID_REQUEST;
        d->topics[i].message = "Duplicate topic.";
    }
    return places != NULL;
}

/* False without memory. */
static bool take_topics(struct api_call *call, const struct delete_topics_request *q,
                        struct delete_topics *d, struct controller_mutation *mutations,
                        size_t *count)
{
    struct config_scope scope = api_scope(call->api, call->image);
    bool is_enabled = config_broker_bool(&scope, "delete.topic.enable");
    for (size_t i = 0; i < d->count; i++) {
        struct delete_topic *t = &d->topics[i];
        t->name = call->version >= 6 ? q->topics[i].name : q->topic_names[i];
        if (call->version >= 6) { t->id = q->topics[i].topic_id; }
        if (is_enabled) {
            check_topic(call, t);
        } else {
            t->error = call->version >= 3 ? KAFKA_TOPIC_DELETION_DISABLED : KAFKA_INVALID_REQUEST;
            t->message = "Topic deletion is disabled.";
        }
    }
    if (!refuse_repeated(d, call->req->arena)) { return false; }
    *count = 0;
    for (size_t i = 0; i < d->count; i++) {
        struct delete_topic *t = &d->topics[i];
        if (t->error) { continue; }
        t->mutation = *count;
        mutations[(*count)++] =
            (struct controller_mutation){.kind = CONTROLLER_DELETE_TOPIC, .id = t->id};
    }
    return true;
}

enum net_verdict api_delete_topics(struct api_call *call)
{
    struct arena *a = call->req->arena;
    struct delete_topics_request q;
    struct delete_topics *d = arena_alloc(a, sizeof *d);
    if (!d || !API_DECODE(call, delete_topics_request, &q)) { return NET_CLOSE; }
    d->count = call->version >= 6 ? q.topics_count : q.topic_names_count;
    a->limit += d->count * (sizeof *d->topics + sizeof(struct controller_mutation) + 400);
    d->topics = arena_array(a, d->count, sizeof *d->topics);
    struct controller_mutation *mutations = arena_array(a, d->count, sizeof *mutations);
    if (!d->topics || !mutations || d->count > CONTROLLER_MUTATIONS_MAX) { return NET_CLOSE; }
    size_t count;
    if (!take_topics(call, &q, d, mutations, &count)) { return NET_CLOSE; }
    /* Names of the image are borrowed while it lives; the answer may come later. */
    for (size_t i = 0; i < d->count; i++) {
        if (slice_is_null(d->topics[i].name)) { continue; }
        char *copy = arena_strndup(a, d->topics[i].name.at, d->topics[i].name.size);
        if (!copy) { return NET_CLOSE; }
        d->topics[i].name = slice_of(copy, d->topics[i].name.size);
    }
    struct api_reply reply = api_reply_of(call);
    if (count == 0) { return delete_answer(call->api, &reply, d, mutations, 0, false); }
    return api_submit(call, &(struct api_submit){.mutations = mutations,
                                                 .count = count,
                                                 .timeout_ms = q.timeout_ms,
                                                 .done = delete_answer,
                                                 .ctx = d});
}
