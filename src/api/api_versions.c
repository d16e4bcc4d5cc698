/* api_versions.c - ApiVersions (18): what this broker answers, no more.
 *
 * The response header is version 0 in every version, so that any client can read it. A request in a
 * version that is not known comes here with call->body.bad set and version 0: the answer is error
 * 35 with the list (KIP-511). */
#include "api/api_int.h"

#include "wire/gen/api_versions_request.h"
#include "wire/gen/api_versions_response.h"

/* KIP-511: letters, digits, '-' and '.', beginning and ending with a letter or digit. */
static bool is_software_name(struct slice s)
{
    for (size_t i = 0; i < s.size; i++) {
        uint8_t c = s.at[i];
        bool is_alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        bool is_inner = i > 0 && i + 1 < s.size && (c == '-' || c == '.');
        if (!is_alnum && !is_inner) { return false; }
    }
    return s.size > 0;
}

static enum kafka_error check_request(struct api_call *call)
{
    struct api_versions_request m;
    if (call->body.bad) { return KAFKA_UNSUPPORTED_VERSION; }
    if (!API_DECODE(call, api_versions_request, &m)) { return KAFKA_INVALID_REQUEST; }
    if (call->version < 3) { return KAFKA_NONE; }
    if (!is_software_name(m.client_software_name) || !is_software_name(m.client_software_version)) {
        return KAFKA_INVALID_REQUEST;
    }
    /* KIP-1242: a client that remembers another cluster or node is told that it is at the wrong
     * place. */
    bool is_elsewhere =
        !slice_is_null(m.cluster_id) && !slice_eq_str(m.cluster_id, call->api->options.cluster_id);
    bool is_other_node = m.node_id >= 0 && m.node_id != call->api->options.node_id;
    return is_elsewhere || is_other_node ? KAFKA_REBOOTSTRAP_REQUIRED : KAFKA_NONE;
}

enum net_verdict api_api_versions(struct api_call *call)
{
    struct api_versions_response m;
    api_versions_response_init(&m);
    enum kafka_error error = check_request(call);
    m.error_code = (int16_t)error;
    bool has_list = !error || error == KAFKA_UNSUPPORTED_VERSION;
    size_t count = has_list ? api_handlers_count() : 0;
    m.api_keys = arena_array(call->req->arena, count, sizeof *m.api_keys);
    if (!m.api_keys) { return NET_CLOSE; }
    m.api_keys_count = count;
    for (size_t i = 0; i < count; i++) {
        const struct wire_api *api = api_handler_at(i);
        m.api_keys[i] = (struct api_versions_response_api_version){api->key, api->advertise_min,
                                                                   api->advertise_max};
    }
    return API_ANSWER(call, api_versions_response, &m);
}
