/* list_config_resources.c - ListConfigResources (74): which resources have configurations. Version
 * 0 asks for client metrics alone. */
#include "api/api_int.h"

#include "wire/gen/list_config_resources_request.h"
#include "wire/gen/list_config_resources_response.h"

#define RESOURCE_BROKER_LOGGER 8
#define RESOURCE_CLIENT_METRICS 16
#define RESOURCE_GROUP 32

struct resources_walk {
    struct list_config_resources_response *m;
};

static bool add_topic(void *ctx, const struct meta_topic *topic)
{
    struct resources_walk *w = ctx;
    w->m->config_resources[w->m->config_resources_count++] =
        (struct list_config_resources_response_config_resource){slice_str(topic->name),
                                                                META_RESOURCE_TOPIC};
    return true;
}

static bool is_supported(int8_t type)
{
    return type == META_RESOURCE_TOPIC || type == META_RESOURCE_BROKER ||
           type == RESOURCE_BROKER_LOGGER || type == RESOURCE_CLIENT_METRICS ||
           type == RESOURCE_GROUP;
}

/* Whether the type is asked for: an empty list asks for all. */
static bool is_wanted(const struct list_config_resources_request *q, int8_t type)
{
    for (size_t i = 0; i < q->resource_types_count; i++) {
        if (q->resource_types[i] == type) { return true; }
    }
    return q->resource_types_count == 0;
}

enum net_verdict api_list_config_resources(struct api_call *call)
{
    struct list_config_resources_request q;
    struct list_config_resources_response m;
    struct arena *a = call->req->arena;
    if (!API_DECODE(call, list_config_resources_request, &q)) { return NET_CLOSE; }
    list_config_resources_response_init(&m);
    if (call->version == 0) { return API_ANSWER(call, list_config_resources_response, &m); }
    for (size_t i = 0; i < q.resource_types_count; i++) {
        if (!is_supported(q.resource_types[i])) {
            m.error_code = KAFKA_UNSUPPORTED_VERSION;
            return API_ANSWER(call, list_config_resources_response, &m);
        }
    }
    size_t max = tree_count(call->image->topics) + 1;
    a->limit += max * sizeof *m.config_resources;
    m.config_resources = arena_array(a, max, sizeof *m.config_resources);
    char *id = arena_printf(a, "%d", call->api->options.node_id);
    if (!m.config_resources || !id) { return NET_CLOSE; }
    if (is_wanted(&q, META_RESOURCE_BROKER)) {
        m.config_resources[m.config_resources_count++] =
            (struct list_config_resources_response_config_resource){slice_str(id),
                                                                    META_RESOURCE_BROKER};
    }
    if (is_wanted(&q, META_RESOURCE_TOPIC)) {
        meta_each_topic(call->image, SLICE_NULL, add_topic, &(struct resources_walk){&m});
    }
    return API_ANSWER(call, list_config_resources_response, &m);
}
