/* create_topics.c - CreateTopics (19): checks everything a client can get wrong, then lets the
 * controller decide. */
#include "api/api_int.h"

#include "base/check.h"
#include "log/log.h"
#include "wire/gen/create_topics_request.h"
#include "wire/gen/create_topics_response.h"

#include <inttypes.h>

/* One topic of the request. */
struct create_topic {
    const struct create_topics_request_creatable_topic *asked;
    enum kafka_error error;
    const char *message;
    size_t mutation; /* its index, when there is no error yet */
    int32_t partitions_count;
};

struct create_topics {
    struct create_topics_request request;
    struct create_topic *topics;
    size_t count;
    struct controller_mutation *mutations;
    size_t mutations_count;
};

static void refuse(struct create_topic *t, enum kafka_error error, const char *message)
{
    t->error = error;
    t->message = message;
}

/* ---- checks ---- */

static void check_name(struct create_topic *t, bool is_repeated, struct arena *a)
{
    char text[64];
    if (is_repeated) {
        refuse(t, KAFKA_INVALID_REQUEST, "Duplicate topic name.");
    } else if (!log_topic_name_is_valid(t->asked->name)) {
        refuse(t, KAFKA_INVALID_TOPIC,
               arena_printf(a,
                            "Topic name is invalid: '%s' must be 1 to 249 of the characters a-z, "
                            "A-Z, 0-9, '.', '_' and '-', and not '.' or '..'",
                            slice_print(t->asked->name, text, sizeof text)));
    } else if (slice_eq_str(t->asked->name, "__cluster_metadata")) {
        refuse(t, KAFKA_INVALID_TOPIC, "This name is the metadata log's.");
    }
}

/* Manual assignment: partitions 0..n-1, each on this one broker. */
static void check_assignment(struct api_call *call, struct create_topic *t, struct arena *a)
{
    const struct create_topics_request_creatable_topic *q = t->asked;
    if (q->num_partitions != -1 || q->replication_factor != -1) {
        refuse(t, KAFKA_INVALID_REQUEST,
               q->num_partitions != -1
                   ? "A manual partition assignment was specified, but numPartitions was not set "
                     "to -1."
                   : "A manual partition assignment was specified, but replication factor was not "
                     "set to -1.");
        return;
    }
    bool *seen = arena_array(a, q->assignments_count, sizeof *seen);
    for (size_t i = 0; i < q->assignments_count; i++) {
        const struct create_topics_request_creatable_replica_assignment *r = &q->assignments[i];
        bool is_in = r->partition_index >= 0 && (size_t)r->partition_index < q->assignments_count;
        if (!seen || !is_in || seen[r->partition_index]) {
            refuse(t, KAFKA_INVALID_REPLICA_ASSIGNMENT,
                   "The manual partition assignment must name each partition from 0 on once.");
            return;
        }
        seen[r->partition_index] = true;
        if (r->broker_ids_count != 1 || r->broker_ids[0] != call->api->options.node_id) {
            refuse(t, KAFKA_INVALID_REPLICA_ASSIGNMENT,
                   arena_printf(a,
                                "The manual partition assignment of partition %" PRId32
                                " must be the one broker of this cluster, %" PRId32 ".",
                                r->partition_index, call->api->options.node_id));
            return;
        }
    }
    t->partitions_count = (int32_t)q->assignments_count;
}

static void check_counts(struct api_call *call, struct create_topic *t)
{
    const struct create_topics_request_creatable_topic *q = t->asked;
    struct config_scope scope = api_scope(call->api, call->image);
    bool may_default = call->version >= 4;
    int64_t factor = q->replication_factor;
    t->partitions_count = q->num_partitions;
    if (q->num_partitions == -1 && may_default) {
        t->partitions_count = (int32_t)config_broker_i64(&scope, "num.partitions");
    }
    if (factor == -1 && may_default) {
        factor = config_broker_i64(&scope, "default.replication.factor");
    }
    if (t->partitions_count <= 0) {
        refuse(t, KAFKA_INVALID_PARTITIONS,
               "Number of partitions was set to an invalid non-positive value.");
    } else if (t->partitions_count > META_PARTITIONS_PER_TOPIC_MAX) {
        refuse(t, KAFKA_INVALID_PARTITIONS, "Number of partitions was above 100000.");
    } else if (factor <= 0) {
        refuse(t, KAFKA_INVALID_REPLICATION_FACTOR,
               "Replication factor must be larger than 0, or -1 to use the default value.");
    } else if (factor > 1) {
        refuse(t, KAFKA_INVALID_REPLICATION_FACTOR,
               "Unable to replicate the partition: the replication factor is larger than the "
               "number of brokers, which is 1.");
    }
}

/* Checks and normalises the overrides into configs of the mutation. */
static void check_configs(struct create_topic *t, struct controller_mutation *m, struct arena *a)
{
    char text[CONFIG_MESSAGE_SIZE], name[64];
    size_t count = t->asked->configs_count;
    struct controller_config *configs = arena_array(a, count, sizeof *configs);
    for (size_t i = 0; i < count; i++) {
        const struct create_topics_request_creatable_topic_config *q = &t->asked->configs[i];
        const struct config_def *def = config_topic_def(q->name);
        if (!def) {
            refuse(t, KAFKA_INVALID_CONFIG,
                   arena_printf(a, "Unknown topic config name: %s",
                                slice_print(q->name, name, sizeof name)));
            return;
        }
        if (slice_is_null(q->value)) {
            refuse(t, KAFKA_INVALID_CONFIG,
                   arena_printf(a, "Null value not supported for topic configs: %s", def->name));
            return;
        }
        if (config_check(def, q->value, text)) {
            refuse(t, KAFKA_INVALID_CONFIG, arena_printf(a, "%s", text));
            return;
        }
        char *normal = arena_alloc(a, q->value.size + 1);
        if (!configs || !normal || config_normalize(def, q->value, normal)) {
            refuse(t, KAFKA_KAFKA_STORAGE_ERROR, NULL);
            return;
        }
        configs[i] = (struct controller_config){q->name, slice_str(normal), CONTROLLER_CONFIG_SET};
    }
    m->configs = configs;
    m->configs_count = count;
}

static void check_topic(struct api_call *call, struct create_topics *c, struct create_topic *t,
                        bool is_repeated)
{
    struct arena *a = call->req->arena;
    struct controller_mutation *m = &c->mutations[c->mutations_count];
    *m = (struct controller_mutation){.kind = CONTROLLER_CREATE_TOPIC, .name = t->asked->name};
    check_name(t, is_repeated, a);
    if (!t->error && meta_topic(call->image, t->asked->name)) {
        char name[300];
        refuse(t, KAFKA_TOPIC_ALREADY_EXISTS,
               arena_printf(a, "Topic '%s' already exists.",
                            slice_print(t->asked->name, name, sizeof name)));
    }
    if (!t->error && t->asked->assignments_count) {
        check_assignment(call, t, a);
    } else if (!t->error) {
        check_counts(call, t);
    }
    if (!t->error) { check_configs(t, m, a); }
    if (!t->error && c->mutations_count == CONTROLLER_MUTATIONS_MAX) {
        refuse(t, KAFKA_POLICY_VIOLATION, "Too many topics in one request.");
    }
    m->partitions_count = t->partitions_count;
    if (!t->error) { t->mutation = c->mutations_count++; }
}

/* ---- the answer ---- */

static enum kafka_error mutation_error(const struct controller_mutation *m, bool is_late)
{
    if (is_late) { return KAFKA_REQUEST_TIMED_OUT; }
    switch (m->result) {
    case ERR_OK:
        return KAFKA_NONE;
    case ERR_EXISTS:
        return KAFKA_TOPIC_ALREADY_EXISTS;
    case ERR_INVALID:
        return KAFKA_INVALID_CONFIG;
    case ERR_LIMIT: /* out of descriptors: counts were checked before */
    case ERR_IO:
    case ERR_NOSPACE:
    case ERR_NOMEM:
    case ERR_OFFLINE:
        return KAFKA_KAFKA_STORAGE_ERROR;
    default:
        return KAFKA_UNKNOWN_SERVER_ERROR; /* nothing else comes from a creation */
    }
}

/* Every key with its effective value, as DescribeConfigs would show it. */
static bool add_configs(struct api *api, const struct meta_image *image, struct arena *a,
                        const struct controller_mutation *m,
                        struct create_topics_response_creatable_topic_result *out)
{
    size_t count;
    const struct config_def *defs = config_topic_defs(&count);
    struct config_scope scope = api_scope(api, image);
    a->limit += count * sizeof *out->configs + 4096;
    out->configs = arena_array(a, count, sizeof *out->configs);
    if (!out->configs) { return false; }
    out->configs_count = count;
    for (size_t i = 0; i < count; i++) {
        struct config_value v;
        config_topic_value(&scope, SLICE_NULL, &defs[i], &v);
        for (size_t k = 0; k < m->configs_count; k++) {
            if (slice_eq_str(m->configs[k].key, defs[i].name)) {
                v.text = (const char *)m->configs[k].value.at;
                v.source = CONFIG_SOURCE_TOPIC;
            }
        }
        if (v.text == v.scaled) { v.text = arena_strndup(a, v.text, strlen(v.text)); }
        out->configs[i] = (struct create_topics_response_creatable_topic_configs){
            .name = slice_str(defs[i].name),
            .value = slice_str(v.text),
            .config_source = (int8_t)v.source};
    }
    return true;
}

static enum net_verdict create_answer(struct api *api, const struct api_reply *reply, void *ctx,
                                      const struct controller_mutation *mutations, size_t count,
                                      bool is_late)
{
    (void)count;
    struct create_topics *c = ctx;
    struct arena *a = reply->req->arena;
    struct create_topics_response m;
    create_topics_response_init(&m);
    a->limit += c->count * sizeof *m.topics;
    m.topics = arena_array(a, c->count, sizeof *m.topics);
    if (!m.topics) { return NET_CLOSE; }
    m.topics_count = c->count;
    struct meta_image *image = meta_latest(api->options.publisher);
    bool has_room = true;
    for (size_t i = 0; i < c->count; i++) {
        struct create_topic *t = &c->topics[i];
        struct create_topics_response_creatable_topic_result *out = &m.topics[i];
        create_topics_response_creatable_topic_result_init(out);
        out->name = t->asked->name;
        const struct controller_mutation *done = t->error ? NULL : &mutations[t->mutation];
        enum kafka_error error = done ? mutation_error(done, is_late) : t->error;
        out->error_code = (int16_t)error;
        if (error || !done) {
            out->error_message = slice_str(t->message);
            continue;
        }
        out->topic_id = done->id;
        out->num_partitions = t->partitions_count;
        out->replication_factor = 1;
        if (reply->version >= 5) { has_room = has_room && add_configs(api, image, a, done, out); }
    }
    meta_unref(image);
    if (!has_room) { return NET_CLOSE; }
    struct wire_writer w;
    api_answer_begin(reply, &w);
    enum err e = create_topics_response_encode(&w, reply->version, &m);
    return api_answer_end(reply, &w, e);
}

enum net_verdict api_create_topics(struct api_call *call)
{
    struct arena *a = call->req->arena;
    struct create_topics *c = arena_alloc(a, sizeof *c);
    if (!c || !API_DECODE(call, create_topics_request, &c->request)) { return NET_CLOSE; }
    size_t asked = c->request.topics_count;
    a->limit += asked * (sizeof *c->topics + sizeof *c->mutations + CONFIG_MESSAGE_SIZE) + 65536;
    c->topics = arena_array(a, asked, sizeof *c->topics);
    c->mutations = arena_array(a, asked + 1, sizeof *c->mutations);
    struct api_key *names = api_keys(a, asked);
    if (!c->topics || !c->mutations || !names) { return NET_CLOSE; }
    for (size_t i = 0; i < asked; i++) {
        names[i] = (struct api_key){c->request.topics[i].name, 1};
    }
    const struct api_place *places = api_places(a, names, asked);
    if (!places) { return NET_CLOSE; }
    for (size_t i = 0; i < asked; i++) {
        if (places[i].first != i) { continue; } /* a name that stands twice is answered once */
        struct create_topic *t = &c->topics[c->count++];
        t->asked = &c->request.topics[i];
        check_topic(call, c, t, places[i].is_repeated);
    }
    struct api_reply reply = api_reply_of(call);
    if (c->mutations_count == 0) {
        return create_answer(call->api, &reply, c, c->mutations, 0, false);
    }
    return api_submit(call, &(struct api_submit){.mutations = c->mutations,
                                                 .count = c->mutations_count,
                                                 .is_dry_run = c->request.validate_only,
                                                 .timeout_ms = c->request.timeout_ms,
                                                 .done = create_answer,
                                                 .ctx = c});
}
