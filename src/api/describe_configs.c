/* describe_configs.c - DescribeConfigs (32): every key of a topic or of this broker, with value,
 * source and synonyms. */
#include "api/api_int.h"

#include "base/check.h"
#include "wire/gen/describe_configs_request.h"
#include "wire/gen/describe_configs_response.h"

#include <inttypes.h>
#include <stdio.h>

#define SYNONYMS_MAX 16
#define DESCRIBE_BYTES_MAX ((size_t)512 << 20) /* of one answer, however many resources */

struct describing {
    struct api_call *call;
    struct config_scope scope;
    struct slice topic; /* null for a broker */
    bool with_synonyms;
    bool with_documentation;
    bool only_dynamic_default; /* the cluster-wide default resource: what is set there, nothing else
                                */
};

/* What is set for the whole cluster; NULL: nothing. */
static const char *dynamic_default(const struct describing *d, const struct config_def *def)
{
    return meta_config(d->call->image, META_RESOURCE_BROKER, slice_str(""), slice_str(def->name));
}

static bool add_synonyms(const struct describing *d, const struct config_def *def,
                         struct describe_configs_response_describe_configs_resource_result *out)
{
    struct describe_configs_response_describe_configs_synonym found[SYNONYMS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < SYNONYMS_MAX; i++) {
        struct config_synonym_value v;
        if (!config_synonym_at(&d->scope, d->topic, def, i, &v)) { break; }
        if (d->only_dynamic_default && v.source != CONFIG_SOURCE_DYNAMIC_DEFAULT) { continue; }
        bool is_hidden = def->type == CONFIG_PASSWORD;
        found[count++] = (struct describe_configs_response_describe_configs_synonym){
            slice_str(v.name), is_hidden ? SLICE_NULL : slice_str(v.raw), (int8_t)v.source};
    }
    out->synonyms = arena_array(d->call->req->arena, count, sizeof *out->synonyms);
    if (!out->synonyms) { return false; }
    memcpy(out->synonyms, found, count * sizeof *found);
    out->synonyms_count = count;
    return true;
}

static bool describe_one(const struct describing *d, const struct config_def *def,
                         struct describe_configs_response_describe_configs_resource_result *out)
{
    struct arena *a = d->call->req->arena;
    struct config_value v;
    describe_configs_response_describe_configs_resource_result_init(out);
    if (d->only_dynamic_default) {
        v.text = dynamic_default(d, def);
        v.source = CONFIG_SOURCE_DYNAMIC_DEFAULT;
    } else if (def->is_topic) {
        config_topic_value(&d->scope, d->topic, def, &v);
    } else {
        config_broker_value(&d->scope, def, &v);
    }
    if (v.text == v.scaled) { v.text = arena_strndup(a, v.text, strlen(v.text)); }
    out->name = slice_str(def->name);
    out->is_sensitive = def->type == CONFIG_PASSWORD;
    out->value = out->is_sensitive ? SLICE_NULL : slice_str(v.text);
    out->read_only = !def->is_topic && def->update == CONFIG_READ_ONLY;
    out->config_source = (int8_t)v.source;
    out->config_type = (int8_t)def->type;
    out->documentation = d->with_documentation ? slice_str(def->doc) : SLICE_NULL;
    return !d->with_synonyms || add_synonyms(d, def, out);
}

static bool is_asked(const struct describe_configs_request_describe_configs_resource *q,
                     const struct config_def *def)
{
    if (q->configuration_keys_count == 0) { return true; } /* null or empty: all */
    for (size_t i = 0; i < q->configuration_keys_count; i++) {
        if (slice_eq_str(q->configuration_keys[i], def->name)) { return true; }
    }
    return false;
}

static bool is_shown(const struct describing *d, const struct config_def *def)
{
    return !d->only_dynamic_default || dynamic_default(d, def) != NULL;
}

static bool describe_keys(const struct describing *d,
                          const struct describe_configs_request_describe_configs_resource *q,
                          struct describe_configs_response_describe_configs_result *out)
{
    size_t count;
    struct arena *a = d->call->req->arena;
    const struct config_def *defs =
        slice_is_null(d->topic) ? config_broker_defs(&count) : config_topic_defs(&count);
    /* The answer is as large as the table, however small the request. */
    a->limit +=
        count * (sizeof *out->configs + 512 +
                 SYNONYMS_MAX * sizeof(struct describe_configs_response_describe_configs_synonym));
    if (a->limit > DESCRIBE_BYTES_MAX) { a->limit = DESCRIBE_BYTES_MAX; }
    out->configs = arena_array(a, count, sizeof *out->configs);
    if (!out->configs) { return false; }
    for (size_t i = 0; i < count; i++) {
        if (!is_asked(q, &defs[i]) || !is_shown(d, &defs[i])) { continue; }
        if (!describe_one(d, &defs[i], &out->configs[out->configs_count++])) { return false; }
    }
    return true;
}

/* "": the cluster-wide default; otherwise this broker's id. */
static bool parse_broker(const struct api_call *call, struct slice name, bool *is_default)
{
    char text[16];
    *is_default = name.size == 0;
    snprintf(text, sizeof text, "%" PRId32, call->api->options.node_id);
    return *is_default || slice_eq_str(name, text);
}

static bool describe_resource(struct api_call *call, const struct describe_configs_request *q,
                              const struct describe_configs_request_describe_configs_resource *r,
                              struct describe_configs_response_describe_configs_result *out)
{
    struct describing d = {.call = call,
                           .scope = api_scope(call->api, call->image),
                           .topic = SLICE_NULL,
                           .with_synonyms = q->include_synonyms,
                           .with_documentation = q->include_documentation};
    describe_configs_response_describe_configs_result_init(out);
    out->resource_type = r->resource_type;
    out->resource_name = r->resource_name;
    if (r->resource_type == META_RESOURCE_TOPIC) {
        if (!meta_topic(call->image, r->resource_name)) {
            out->error_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
            return true;
        }
        d.topic = r->resource_name;
    } else if (r->resource_type == META_RESOURCE_BROKER) {
        if (!parse_broker(call, r->resource_name, &d.only_dynamic_default)) {
            out->error_code = KAFKA_INVALID_REQUEST;
            out->error_message = slice_str(arena_printf(
                call->req->arena, "Unexpected broker id, expected %" PRId32 " or empty string.",
                call->api->options.node_id));
            return true;
        }
    } else {
        out->error_code = KAFKA_INVALID_REQUEST;
        out->error_message = slice_str("Expected a resource of type TOPIC (2) or BROKER (4).");
        return true;
    }
    return describe_keys(&d, r, out);
}

enum net_verdict api_describe_configs(struct api_call *call)
{
    struct describe_configs_request q;
    struct describe_configs_response m;
    struct arena *a = call->req->arena;
    if (!API_DECODE(call, describe_configs_request, &q)) { return NET_CLOSE; }
    describe_configs_response_init(&m);
    a->limit += q.resources_count * sizeof *m.results;
    m.results = arena_array(a, q.resources_count, sizeof *m.results);
    if (!m.results) { return NET_CLOSE; }
    m.results_count = q.resources_count;
    for (size_t i = 0; i < q.resources_count; i++) {
        if (!describe_resource(call, &q, &q.resources[i], &m.results[i])) { return NET_CLOSE; }
    }
    return API_ANSWER(call, describe_configs_response, &m);
}
