/* alter_configs.c - AlterConfigs (33), which replaces all overrides of a resource, and
 * IncrementalAlterConfigs (44), which touches only the keys it names. Both become one list of
 * alterations and one path. */
#include "api/api_int.h"

#include "base/check.h"
#include "wire/gen/alter_configs_request.h"
#include "wire/gen/alter_configs_response.h"
#include "wire/gen/apis.h"
#include "wire/gen/incremental_alter_configs_request.h"
#include "wire/gen/incremental_alter_configs_response.h"

#include <inttypes.h>
#include <stdio.h>

struct alteration {
    int8_t type;
    struct slice name;
    enum kafka_error error;
    const char *message;
    size_t mutation;
};

struct alterations {
    struct alteration *resources;
    size_t count;
};

/* ---- the answer ---- */

static enum kafka_error result_error(const struct controller_mutation *m, bool is_late)
{
    if (is_late) { return KAFKA_REQUEST_TIMED_OUT; }
    switch (m->result) {
    case ERR_OK:
        return KAFKA_NONE;
    case ERR_NOTFOUND:
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    case ERR_INVALID:
    case ERR_LIMIT:
        return KAFKA_INVALID_CONFIG;
    default:
        return KAFKA_KAFKA_STORAGE_ERROR; /* the disk or memory */
    }
}

static enum err encode_replacing(const struct alterations *c, const struct api_reply *reply,
                                 const int16_t *errors, const char *const *messages,
                                 struct wire_writer *w)
{
    struct alter_configs_response m;
    alter_configs_response_init(&m);
    m.responses = arena_array(reply->req->arena, c->count, sizeof *m.responses);
    if (!m.responses) { return ERR_NOMEM; }
    m.responses_count = c->count;
    for (size_t i = 0; i < c->count; i++) {
        m.responses[i] = (struct alter_configs_response_alter_configs_resource_response){
            errors[i], slice_str(messages[i]), c->resources[i].type, c->resources[i].name};
    }
    return alter_configs_response_encode(w, reply->version, &m);
}

static enum err encode_incremental(const struct alterations *c, const struct api_reply *reply,
                                   const int16_t *errors, const char *const *messages,
                                   struct wire_writer *w)
{
    struct incremental_alter_configs_response m;
    incremental_alter_configs_response_init(&m);
    m.responses = arena_array(reply->req->arena, c->count, sizeof *m.responses);
    if (!m.responses) { return ERR_NOMEM; }
    m.responses_count = c->count;
    for (size_t i = 0; i < c->count; i++) {
        m.responses[i] =
            (struct incremental_alter_configs_response_alter_configs_resource_response){
                errors[i], slice_str(messages[i]), c->resources[i].type, c->resources[i].name};
    }
    return incremental_alter_configs_response_encode(w, reply->version, &m);
}

static enum net_verdict alter_answer(struct api *api, const struct api_reply *reply, void *ctx,
                                     const struct controller_mutation *mutations, size_t count,
                                     bool is_late)
{
    (void)api;
    (void)count;
    struct alterations *c = ctx;
    struct arena *a = reply->req->arena;
    int16_t *errors = arena_array(a, c->count, sizeof *errors);
    const char **messages = arena_array(a, c->count, sizeof *messages);
    if (!errors || !messages) { return NET_CLOSE; }
    for (size_t i = 0; i < c->count; i++) {
        const struct alteration *r = &c->resources[i];
        errors[i] = (int16_t)r->error;
        messages[i] = r->message;
        if (r->error) { continue; }
        const struct controller_mutation *m = &mutations[r->mutation];
        errors[i] = (int16_t)result_error(m, is_late);
        messages[i] = !is_late && m->message[0] ? m->message : NULL;
    }
    struct wire_writer w;
    api_answer_begin(reply, &w);
    enum err e = reply->key == WIRE_API_ALTER_CONFIGS
                     ? encode_replacing(c, reply, errors, messages, &w)
                     : encode_incremental(c, reply, errors, messages, &w);
    return api_answer_end(reply, &w, e);
}

/* ---- checks ---- */

static void refuse(struct alteration *r, enum kafka_error error, const char *message)
{
    r->error = error;
    r->message = message;
}

/* Each resource that stands twice is refused wherever it stands. False without memory. */
static bool refuse_repeated(struct alterations *c, struct arena *a)
{
    struct api_key *keys = api_keys(a, c->count);
    for (size_t i = 0; keys && i < c->count; i++) {
        keys[i] = (struct api_key){c->resources[i].name, 256 + c->resources[i].type};
    }
    const struct api_place *places = keys ? api_places(a, keys, c->count) : NULL;
    for (size_t i = 0; places && i < c->count; i++) {
        if (!places[i].is_repeated) { continue; }
        refuse(&c->resources[i], KAFKA_INVALID_REQUEST, "Each resource must appear at most once.");
    }
    return places != NULL;
}

static void check_resource(struct api_call *call, struct alteration *r)
{
    char id[16];
    if (r->error) { return; }
    snprintf(id, sizeof id, "%" PRId32, call->api->options.node_id);
    if (r->type == META_RESOURCE_TOPIC) {
        if (!meta_topic(call->image, r->name)) {
            refuse(r, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, "The topic does not exist.");
        }
    } else if (r->type == META_RESOURCE_BROKER) {
        if (r->name.size && !slice_eq_str(r->name, id)) {
            refuse(r, KAFKA_INVALID_REQUEST,
                   arena_printf(call->req->arena,
                                "Unexpected broker id, expected %s or empty "
                                "string for the cluster-wide default.",
                                id));
        }
    } else {
        refuse(r, KAFKA_INVALID_REQUEST, "Expected a resource of type TOPIC (2) or BROKER (4).");
    }
}

/* One key: known, changeable, named once, with an operation that its type has. */
static void check_key(struct alteration *r, const struct controller_config *configs, size_t index,
                      struct arena *a)
{
    const struct controller_config *c = &configs[index];
    char text[64];
    const struct config_def *def =
        r->type == META_RESOURCE_TOPIC ? config_topic_def(c->key) : config_broker_def(c->key);
    for (size_t i = 0; i < index; i++) {
        if (slice_eq(configs[i].key, c->key)) {
            refuse(r, KAFKA_INVALID_REQUEST, "Error due to duplicate config keys");
            return;
        }
    }
    slice_print(c->key, text, sizeof text);
    bool is_list_op = c->op == CONTROLLER_CONFIG_APPEND || c->op == CONTROLLER_CONFIG_SUBTRACT;
    if (!def) {
        refuse(r, KAFKA_INVALID_CONFIG,
               arena_printf(a, "Unknown %s config name: %s",
                            r->type == META_RESOURCE_TOPIC ? "topic" : "broker", text));
    } else if (!def->is_topic && def->update != CONFIG_CLUSTER_WIDE) {
        refuse(r, KAFKA_INVALID_REQUEST,
               arena_printf(a, "Cannot update these configs dynamically: [%s]", text));
    } else if (c->op != CONTROLLER_CONFIG_DELETE && slice_is_null(c->value)) {
        refuse(r, KAFKA_INVALID_REQUEST,
               arena_printf(a, "Null value not supported for : %s", text));
    } else if (is_list_op && def->type != CONFIG_LIST) {
        refuse(r, KAFKA_INVALID_CONFIG,
               arena_printf(a, "Can't %s to key %s because its type is not LIST.",
                            c->op == CONTROLLER_CONFIG_APPEND ? "APPEND" : "SUBTRACT", text));
    }
}

static void check_keys(struct alteration *r, const struct controller_config *configs, size_t count,
                       struct arena *a)
{
    for (size_t i = 0; i < count && !r->error; i++) {
        check_key(r, configs, i, a);
    }
}

/* ---- the two requests ---- */

#define ALTER_TIMEOUT_MS 30000

/* Both as one: what each asks of a resource. In the arena. */
struct asked {
    int8_t type;
    struct slice name;
    struct controller_config *configs;
    size_t configs_count;
    bool has_unknown_op;
};

/* Room for count resources; NULL without memory. */
static struct asked *asked_make(struct arena *a, size_t count)
{
    if (count > CONTROLLER_MUTATIONS_MAX) { return NULL; }
    a->limit += count * (sizeof(struct asked) + sizeof(struct alteration) +
                         sizeof(struct controller_mutation) + 256);
    return arena_array(a, count, sizeof(struct asked));
}

static bool asked_make_room(struct asked *r, struct arena *a, size_t configs_count)
{
    a->limit += configs_count * sizeof *r->configs;
    r->configs = arena_array(a, configs_count, sizeof *r->configs);
    r->configs_count = configs_count;
    return r->configs != NULL;
}

/* One resource: checked, and a mutation unless it is refused. */
static void alter_one(struct api_call *call, struct alteration *r, const struct asked *q,
                      bool replaces_all, struct controller_mutation *mutations, size_t *count)
{
    check_resource(call, r);
    if (q->has_unknown_op) { refuse(r, KAFKA_INVALID_REQUEST, "Unknown config operation."); }
    check_keys(r, q->configs, q->configs_count, call->req->arena);
    if (r->error) { return; }
    r->mutation = *count;
    mutations[(*count)++] = (struct controller_mutation){.kind = CONTROLLER_ALTER_CONFIG,
                                                         .resource = (enum meta_resource)r->type,
                                                         .name = r->name,
                                                         .configs = q->configs,
                                                         .configs_count = q->configs_count,
                                                         .replaces_all = replaces_all};
}

static enum net_verdict alter(struct api_call *call, const struct asked *asked, size_t asked_count,
                              bool replaces_all, bool is_dry_run)
{
    struct arena *a = call->req->arena;
    struct alterations *c = arena_alloc(a, sizeof *c);
    struct controller_mutation *mutations = arena_array(a, asked_count, sizeof *mutations);
    if (!c || !mutations) { return NET_CLOSE; }
    c->resources = arena_array(a, asked_count, sizeof *c->resources);
    c->count = asked_count;
    for (size_t i = 0; c->resources && i < asked_count; i++) {
        c->resources[i].type = asked[i].type;
        c->resources[i].name = asked[i].name;
    }
    if (!c->resources || !refuse_repeated(c, a)) { return NET_CLOSE; }
    size_t count = 0;
    for (size_t i = 0; i < asked_count; i++) {
        alter_one(call, &c->resources[i], &asked[i], replaces_all, mutations, &count);
    }
    struct api_reply reply = api_reply_of(call);
    if (count == 0) { return alter_answer(call->api, &reply, c, mutations, 0, false); }
    return api_submit(call, &(struct api_submit){.mutations = mutations,
                                                 .count = count,
                                                 .is_dry_run = is_dry_run,
                                                 .timeout_ms = ALTER_TIMEOUT_MS,
                                                 .done = alter_answer,
                                                 .ctx = c});
}

enum net_verdict api_alter_configs(struct api_call *call)
{
    struct arena *a = call->req->arena;
    struct alter_configs_request q;
    if (!API_DECODE(call, alter_configs_request, &q)) { return NET_CLOSE; }
    struct asked *asked = asked_make(a, q.resources_count);
    for (size_t i = 0; asked && i < q.resources_count; i++) {
        const struct alter_configs_request_alter_configs_resource *r = &q.resources[i];
        asked[i] = (struct asked){.type = r->resource_type, .name = r->resource_name};
        if (!asked_make_room(&asked[i], a, r->configs_count)) { return NET_CLOSE; }
        for (size_t k = 0; k < r->configs_count; k++) {
            asked[i].configs[k] = (struct controller_config){
                r->configs[k].name, r->configs[k].value, CONTROLLER_CONFIG_SET};
        }
    }
    return asked ? alter(call, asked, q.resources_count, true, q.validate_only) : NET_CLOSE;
}

enum net_verdict api_incremental_alter_configs(struct api_call *call)
{
    struct arena *a = call->req->arena;
    struct incremental_alter_configs_request q;
    if (!API_DECODE(call, incremental_alter_configs_request, &q)) { return NET_CLOSE; }
    struct asked *asked = asked_make(a, q.resources_count);
    for (size_t i = 0; asked && i < q.resources_count; i++) {
        const struct incremental_alter_configs_request_alter_configs_resource *r = &q.resources[i];
        asked[i] = (struct asked){.type = r->resource_type, .name = r->resource_name};
        if (!asked_make_room(&asked[i], a, r->configs_count)) { return NET_CLOSE; }
        for (size_t k = 0; k < r->configs_count; k++) {
            int8_t op = r->configs[k].config_operation;
            bool is_known = op >= CONTROLLER_CONFIG_SET && op <= CONTROLLER_CONFIG_SUBTRACT;
            asked[i].has_unknown_op = asked[i].has_unknown_op || !is_known;
            asked[i].configs[k] = (struct controller_config){
                r->configs[k].name, r->configs[k].value, (enum controller_config_op)op};
        }
    }
    return asked ? alter(call, asked, q.resources_count, false, q.validate_only) : NET_CLOSE;
}
