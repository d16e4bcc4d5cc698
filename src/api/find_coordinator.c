/* find_coordinator.c - FindCoordinator (10): in a cluster of one broker every coordinator is here.
 */
#include "api/api_int.h"

#include "wire/gen/find_coordinator_request.h"
#include "wire/gen/find_coordinator_response.h"

#define KEY_TYPE_GROUP 0
#define KEY_TYPE_TRANSACTION 1
#define KEY_TYPE_SHARE 2

static const struct meta_endpoint *own_endpoint(const struct api_call *call)
{
    const struct meta_broker *b = meta_broker(call->image, call->api->options.node_id);
    return b ? meta_broker_endpoint(b, slice_str(net_conn_listener(call->req->conn))) : NULL;
}

static enum kafka_error check_type(const struct api_call *call, int8_t type)
{
    bool is_known = type == KEY_TYPE_GROUP || type == KEY_TYPE_TRANSACTION ||
                    (type == KEY_TYPE_SHARE && call->version >= 6);
    if (!is_known) { return KAFKA_INVALID_REQUEST; }
    return own_endpoint(call) ? KAFKA_NONE : KAFKA_COORDINATOR_NOT_AVAILABLE;
}

enum net_verdict api_find_coordinator(struct api_call *call)
{
    struct find_coordinator_request q;
    struct find_coordinator_response m;
    if (!API_DECODE(call, find_coordinator_request, &q)) { return NET_CLOSE; }
    find_coordinator_response_init(&m);
    enum kafka_error error = check_type(call, q.key_type);
    const struct meta_endpoint *here = error ? NULL : own_endpoint(call);
    int32_t node = here ? call->api->options.node_id : -1;
    struct slice host = slice_str(here ? here->host : "");
    int32_t port = here ? here->port : -1;
    if (call->version < 4) {
        m.error_code = (int16_t)error;
        m.node_id = node;
        m.host = host;
        m.port = port;
        return API_ANSWER(call, find_coordinator_response, &m);
    }
    call->req->arena->limit += q.coordinator_keys_count * sizeof *m.coordinators;
    m.coordinators =
        arena_array(call->req->arena, q.coordinator_keys_count, sizeof *m.coordinators);
    if (!m.coordinators) { return NET_CLOSE; }
    m.coordinators_count = q.coordinator_keys_count;
    for (size_t i = 0; i < q.coordinator_keys_count; i++) {
        m.coordinators[i] =
            (struct find_coordinator_response_coordinator){.key = q.coordinator_keys[i],
                                                           .node_id = node,
                                                           .host = host,
                                                           .port = port,
                                                           .error_code = (int16_t)error};
    }
    return API_ANSWER(call, find_coordinator_response, &m);
}
