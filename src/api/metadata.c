/* metadata.c - Metadata (3): brokers, topics, partitions; creates a topic that is asked for by name
 * where that is allowed. */
#include "api/api_int.h"

#include "log/log.h"
#include "wire/gen/metadata_request.h"
#include "wire/gen/metadata_response.h"

#define METADATA_CLUSTER_OPERATIONS 8096

/* ---- brokers ---- */

struct brokers_walk {
    struct metadata_response *m;
    struct slice listener;
};

static bool add_broker(void *ctx, const struct meta_broker *b)
{
    struct brokers_walk *w = ctx;
    const struct meta_endpoint *e = meta_broker_endpoint(b, w->listener);
    if (!e || b->is_fenced) { return true; }
    w->m->brokers[w->m->brokers_count++] = (struct metadata_response_metadata_response_broker){
        b->id, slice_str(e->host), e->port, slice_str(b->rack)};
    return true;
}

/* ---- topics ---- */

struct partitions_walk {
    struct metadata_response_metadata_response_topic *t;
    struct api *api;
};

static bool add_partition(void *ctx, const struct meta_partition *mp)
{
    struct partitions_walk *w = ctx;
    struct metadata_response_metadata_response_partition *p =
        &w->t->partitions[w->t->partitions_count++];
    metadata_response_metadata_response_partition_init(p);
    p->partition_index = mp->index;
    p->leader_id = mp->leader;
    p->leader_epoch = mp->leader_epoch;
    p->replica_nodes = mp->replicas;
    p->replica_nodes_count = mp->replicas_count;
    p->isr_nodes = mp->isr;
    p->isr_nodes_count = mp->isr_count;
    if (api_is_offline(w->api, w->t->topic_id, mp->index)) {
        p->error_code = KAFKA_KAFKA_STORAGE_ERROR;
        p->leader_id = -1;
        p->offline_replicas = mp->replicas;
        p->offline_replicas_count = mp->replicas_count;
    }
    return true;
}

static bool add_topic(struct api *api, struct arena *arena, const struct meta_topic *topic,
                      bool with_operations, struct metadata_response_metadata_response_topic *t)
{
    metadata_response_metadata_response_topic_init(t);
    t->name = slice_str(topic->name);
    t->topic_id = topic->id;
    t->is_internal = api_is_internal(t->name);
    if (with_operations) { t->topic_authorized_operations = API_TOPIC_OPERATIONS; }
    size_t count = (size_t)meta_topic_partitions_count(topic);
    t->partitions = arena_array(arena, count, sizeof *t->partitions);
    if (!t->partitions) { return false; }
    struct partitions_walk w = {t, api};
    meta_each_partition(topic, 0, add_partition, &w);
    return true;
}

struct topics_walk {
    struct api *api;
    struct arena *arena;
    struct metadata_response *m;
    bool with_operations;
    bool has_failed;
};

static bool add_each_topic(void *ctx, const struct meta_topic *topic)
{
    struct topics_walk *w = ctx;
    w->has_failed = !add_topic(w->api, w->arena, topic, w->with_operations,
                               &w->m->topics[w->m->topics_count++]);
    return !w->has_failed;
}

/* The request, and where each of its topics stands first: later ones are not answered again. */
struct asked_topics {
    struct metadata_request request;
    const struct api_place *places;
};

static bool find_places(struct asked_topics *asked, struct arena *a)
{
    const struct metadata_request *q = &asked->request;
    struct api_key *keys = api_keys(a, q->topics_count);
    if (!keys) { return false; }
    for (size_t i = 0; i < q->topics_count; i++) {
        const struct metadata_request_metadata_request_topic *t = &q->topics[i];
        bool by_id = !uuid_is_zero(t->topic_id);
        keys[i].text = by_id ? slice_of(t->topic_id.b, sizeof t->topic_id.b) : t->name;
        keys[i].kind = by_id ? 1 : 2;
    }
    asked->places = api_places(a, keys, q->topics_count);
    return asked->places != NULL;
}

static void add_unknown(struct metadata_response *m,
                        const struct metadata_request_metadata_request_topic *asked,
                        enum kafka_error error)
{
    struct metadata_response_metadata_response_topic *t = &m->topics[m->topics_count++];
    metadata_response_metadata_response_topic_init(t);
    t->error_code = (int16_t)error;
    t->name = asked->name;
    t->topic_id = asked->topic_id;
}

static bool add_asked_topics(struct topics_walk *w, const struct asked_topics *all,
                             const struct meta_image *image, int16_t version)
{
    for (size_t i = 0; i < all->request.topics_count; i++) {
        const struct metadata_request_metadata_request_topic *asked = &all->request.topics[i];
        bool by_id = !uuid_is_zero(asked->topic_id);
        if (all->places[i].first != i) { continue; }
        const struct meta_topic *topic =
            by_id ? meta_topic_by_id(image, asked->topic_id) : meta_topic(image, asked->name);
        if (topic) {
            if (!add_each_topic(w, topic)) { return false; }
        } else if (by_id) {
            struct metadata_request_metadata_request_topic shown = *asked;
            shown.name = version >= 12 ? SLICE_NULL : slice_str("");
            add_unknown(w->m, &shown, KAFKA_UNKNOWN_TOPIC_ID);
        } else {
            add_unknown(w->m, asked,
                        log_topic_name_is_valid(asked->name) ? KAFKA_UNKNOWN_TOPIC_OR_PARTITION
                                                             : KAFKA_INVALID_TOPIC);
        }
    }
    return true;
}

/* ---- the answer ---- */

static enum net_verdict metadata_answer(struct api *api, const struct api_reply *reply,
                                        const struct asked_topics *asked,
                                        const struct meta_image *image)
{
    const struct metadata_request *q = &asked->request;
    struct arena *arena = reply->req->arena;
    struct metadata_response m;
    metadata_response_init(&m);
    bool all = q->topics == NULL || (reply->version == 0 && q->topics_count == 0);
    size_t topics_max = all ? tree_count(image->topics) : q->topics_count;
    /* The answer grows with the cluster, not with the request. */
    arena->limit += topics_max * 128 + (all ? image->partitions_count * 128 : 0) +
                    tree_count(image->brokers) * 64 + 65536;
    if (!all) { arena->limit += image->partitions_count * 128; }
    m.brokers = arena_array(arena, tree_count(image->brokers), sizeof *m.brokers);
    m.topics = arena_array(arena, topics_max, sizeof *m.topics);
    if (!m.brokers || !m.topics) { return NET_CLOSE; }
    struct brokers_walk brokers = {&m, slice_str(net_conn_listener(reply->req->conn))};
    meta_each_broker(image, add_broker, &brokers);
    m.cluster_id = slice_str(api->options.cluster_id);
    m.controller_id = api->options.node_id;
    if (q->include_cluster_authorized_operations) {
        m.cluster_authorized_operations = METADATA_CLUSTER_OPERATIONS;
    }
    struct topics_walk w = {.api = api,
                            .arena = arena,
                            .m = &m,
                            .with_operations = q->include_topic_authorized_operations};
    if (all) {
        meta_each_topic(image, SLICE_NULL, add_each_topic, &w);
    } else {
        w.has_failed = !add_asked_topics(&w, asked, image, reply->version);
    }
    if (w.has_failed) { return NET_CLOSE; }
    struct wire_writer writer;
    api_answer_begin(reply, &writer);
    enum err e = metadata_response_encode(&writer, reply->version, &m);
    return api_answer_end(reply, &writer, e);
}

/* ---- auto creation ---- */

static enum net_verdict metadata_created(struct api *api, const struct api_reply *reply, void *ctx,
                                         const struct controller_mutation *mutations, size_t count,
                                         bool is_late)
{
    (void)mutations; /* made now, or by somebody else meanwhile, or not: the image tells */
    (void)count;
    (void)is_late;
    struct meta_image *image = meta_latest(api->options.publisher);
    enum net_verdict verdict = metadata_answer(api, reply, ctx, image);
    meta_unref(image);
    return verdict;
}

#define METADATA_CREATE_TIMEOUT_MS 30000

/* The mutations for topics that are asked for, do not exist and may be made. */
static size_t metadata_missing(struct api_call *call, const struct asked_topics *asked,
                               struct controller_mutation *out)
{
    const struct metadata_request *q = &asked->request;
    struct config_scope scope = api_scope(call->api, call->image);
    int32_t partitions = (int32_t)config_broker_i64(&scope, "num.partitions");
    size_t count = 0;
    for (size_t i = 0; i < q->topics_count && count < CONTROLLER_MUTATIONS_MAX; i++) {
        struct slice name = q->topics[i].name;
        if (!uuid_is_zero(q->topics[i].topic_id) || asked->places[i].first != i ||
            !log_topic_name_is_valid(name) || meta_topic(call->image, name)) {
            continue;
        }
        out[count++] = (struct controller_mutation){
            .kind = CONTROLLER_CREATE_TOPIC, .name = name, .partitions_count = partitions};
    }
    return count;
}

enum net_verdict api_metadata(struct api_call *call)
{
    struct arena *arena = call->req->arena;
    struct asked_topics *asked = arena_alloc(arena, sizeof *asked);
    struct metadata_request *q = asked ? &asked->request : NULL;
    if (!q || !API_DECODE(call, metadata_request, q)) { return NET_CLOSE; }
    for (size_t i = 0; i < q->topics_count; i++) {
        /* A topic is named or identified; versions 10 and 11 know ids but no null names, as in
         * Kafka. */
        if (slice_is_null(q->topics[i].name) && uuid_is_zero(q->topics[i].topic_id)) {
            return NET_CLOSE;
        }
    }
    if (!find_places(asked, arena)) { return NET_CLOSE; }
    struct config_scope scope = api_scope(call->api, call->image);
    bool may_create = call->version < 4 || q->allow_auto_topic_creation;
    if (may_create && q->topics_count && config_broker_bool(&scope, "auto.create.topics.enable")) {
        arena->limit += q->topics_count * sizeof(struct controller_mutation);
        struct controller_mutation *missing = arena_array(arena, q->topics_count, sizeof *missing);
        if (!missing) { return NET_CLOSE; }
        size_t count = metadata_missing(call, asked, missing);
        if (count) {
            return api_submit(call, &(struct api_submit){.mutations = missing,
                                                         .count = count,
                                                         .timeout_ms = METADATA_CREATE_TIMEOUT_MS,
                                                         .done = metadata_created,
                                                         .ctx = asked});
        }
    }
    struct api_reply reply = api_reply_of(call);
    return metadata_answer(call->api, &reply, asked, call->image);
}
