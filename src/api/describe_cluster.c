/* describe_cluster.c - DescribeCluster (60): the cluster's id, controller and brokers. */
#include "api/api_int.h"

#include "wire/gen/describe_cluster_request.h"
#include "wire/gen/describe_cluster_response.h"

#define CLUSTER_OPERATIONS 8096
#define ENDPOINT_BROKERS 1

struct brokers_walk {
    struct describe_cluster_response *m;
    struct slice listener;
    bool with_fenced;
};

static bool add_broker(void *ctx, const struct meta_broker *b)
{
    struct brokers_walk *w = ctx;
    const struct meta_endpoint *e = meta_broker_endpoint(b, w->listener);
    if (!e || (b->is_fenced && !w->with_fenced)) { return true; }
    w->m->brokers[w->m->brokers_count++] =
        (struct describe_cluster_response_describe_cluster_broker){
            b->id, slice_str(e->host), e->port, slice_str(b->rack), b->is_fenced};
    return true;
}

enum net_verdict api_describe_cluster(struct api_call *call)
{
    struct describe_cluster_request q;
    struct describe_cluster_response m;
    if (!API_DECODE(call, describe_cluster_request, &q)) { return NET_CLOSE; }
    describe_cluster_response_init(&m);
    m.endpoint_type = q.endpoint_type;
    m.cluster_id = slice_str(call->api->options.cluster_id);
    if (q.endpoint_type != ENDPOINT_BROKERS) {
        /* Controllers as such have no listener of their own that clients could ask. */
        bool is_known = q.endpoint_type == 2;
        m.error_code = is_known ? KAFKA_MISMATCHED_ENDPOINT_TYPE : KAFKA_UNSUPPORTED_ENDPOINT_TYPE;
        m.error_message = slice_str("This listener answers for brokers (endpoint type 1).");
        return API_ANSWER(call, describe_cluster_response, &m);
    }
    m.controller_id = call->api->options.node_id;
    m.brokers = arena_array(call->req->arena, tree_count(call->image->brokers), sizeof *m.brokers);
    if (!m.brokers) { return NET_CLOSE; }
    struct brokers_walk w = {&m, slice_str(net_conn_listener(call->req->conn)),
                             q.include_fenced_brokers};
    meta_each_broker(call->image, add_broker, &w);
    if (q.include_cluster_authorized_operations) {
        m.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    return API_ANSWER(call, describe_cluster_response, &m);
}
