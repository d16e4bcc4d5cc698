/* dispatch.c - from a frame to its handler: header, version, table. */
#include "api/api_int.h"
#include "api/fetch_session.h"
#include "api/producer_ids.h"
#include "api/stats.h"

#include "base/check.h"
#include "base/mem.h"
#include "wire/gen/api_versions_response.h"
#include "wire/gen/apis.h"
#include "wire/gen/request_header.h"
#include "wire/gen/response_header.h"

#define API_LOGGER "kafka.server.KafkaApis"
#define API_ANSWER_SIZE_MAX ((size_t)256 << 20)

/* Versions are those of Kafka 4.4 (the generated table), which every handler covers whole.
 * Ascending by key. */
static const struct {
    int16_t key;
    api_handler *handler;
} handlers[] = {
    {WIRE_API_PRODUCE, api_produce},
    {WIRE_API_FETCH, api_fetch},
    {WIRE_API_LIST_OFFSETS, api_list_offsets},
    {WIRE_API_METADATA, api_metadata},
    {WIRE_API_FIND_COORDINATOR, api_find_coordinator},
    {WIRE_API_API_VERSIONS, api_api_versions},
    {WIRE_API_CREATE_TOPICS, api_create_topics},
    {WIRE_API_DELETE_TOPICS, api_delete_topics},
    {WIRE_API_DELETE_RECORDS, api_delete_records},
    {WIRE_API_INIT_PRODUCER_ID, api_init_producer_id},
    {WIRE_API_OFFSET_FOR_LEADER_EPOCH, api_offset_for_leader_epoch},
    {WIRE_API_DESCRIBE_CONFIGS, api_describe_configs},
    {WIRE_API_ALTER_CONFIGS, api_alter_configs},
    {WIRE_API_DESCRIBE_LOG_DIRS, api_describe_log_dirs},
    {WIRE_API_CREATE_PARTITIONS, api_create_partitions},
    {WIRE_API_INCREMENTAL_ALTER_CONFIGS, api_incremental_alter_configs},
    {WIRE_API_LIST_PARTITION_REASSIGNMENTS, api_list_partition_reassignments},
    {WIRE_API_DESCRIBE_CLUSTER, api_describe_cluster},
    {WIRE_API_LIST_CONFIG_RESOURCES, api_list_config_resources},
    {WIRE_API_DESCRIBE_TOPIC_PARTITIONS, api_describe_topic_partitions},
};

size_t api_handlers_count(void)
{
    return COUNT_OF(handlers);
}

const struct wire_api *api_handler_at(size_t index)
{
    CHECK(index < COUNT_OF(handlers));
    return wire_api_find(handlers[index].key);
}

/* Its place in the table; the table's size: not served. */
static size_t handler_find(int16_t key)
{
    size_t i = 0;
    while (i < COUNT_OF(handlers) && handlers[i].key != key) {
        i++;
    }
    return i;
}

/* ---- answering ---- */

void api_answer_begin(const struct api_reply *reply, struct wire_writer *w)
{
    const struct wire_api *api = wire_api_find(reply->key);
    struct response_header h;
    response_header_init(&h);
    h.correlation_id = reply->correlation_id;
    if (reply->req->answer.buf.limit == 0) { reply->req->answer.buf.limit = API_ANSWER_SIZE_MAX; }
    wire_writer_init_buf(w, &reply->req->answer.buf);
    enum err e =
        response_header_encode(w, wire_api_response_header_version(api, reply->version), &h);
    if (e) { wire_writer_fail(w, e); }
}

enum net_verdict api_answer_end(const struct api_reply *reply, struct wire_writer *w,
                                enum err encoded)
{
    enum err e = wire_writer_finish(w);
    if (!encoded && !e) { return NET_ANSWERED; }
    reply->req->answer.buf.size = 0;
    return NET_CLOSE;
}

void api_answer_later(const struct api_reply *reply, struct wire_writer *w, enum err encoded)
{
    /* An answer that cannot be written leaves empty; net closes the connection then. */
    (void)api_answer_end(reply, w, encoded);
    net_answer_later(reply->req);
}

/* ---- dispatch ---- */

/* A version of ApiVersions that we do not know is answered in version 0 with the ranges that we do,
 * KIP-511. */
static enum net_verdict answer_fallback(struct api_call *call)
{
    call->version = 0;
    call->req->tag = api_stats_tag(handler_find(WIRE_API_API_VERSIONS), 0);
    call->body.bad = true; /* tells api_api_versions() that there is no body to read */
    return api_api_versions(call);
}

static enum net_verdict api_handle(void *ctx, struct net_request *req, uint64_t now_ns)
{
    struct api *api = ctx;
    struct api_call call = {.api = api, .req = req, .now_ns = now_ns};
    struct wire_reader peek;
    struct request_header header;
    struct slice frame = slice_of(req->frame.at, req->frame.size);
    if (!atomic_load_explicit(&api->is_open, memory_order_acquire)) { return NET_CLOSE; }
    wire_reader_init(&peek, frame);
    call.key = wire_i16(&peek);
    call.version = wire_i16(&peek);
    call.correlation_id = wire_i32(&peek);
    const struct wire_api *known = peek.bad ? NULL : wire_api_find(call.key);
    size_t at = known ? handler_find(call.key) : COUNT_OF(handlers);
    if (at == COUNT_OF(handlers)) { return NET_CLOSE; }
    /* Everything else sees what came before it. */
    if (req->behind_staged && call.key != WIRE_API_PRODUCE) { return NET_FLUSH_FIRST; }
    /* Above what is listed lies at most a version that Kafka calls unstable. */
    if (call.version < known->version_min || call.version > known->advertise_max) {
        return call.key == WIRE_API_API_VERSIONS ? answer_fallback(&call) : NET_CLOSE;
    }
    req->tag = api_stats_tag(at, call.version);
    wire_reader_init(&call.body, frame);
    if (request_header_decode(&call.body, wire_api_request_header_version(known, call.version),
                              req->arena, &header)) {
        return NET_CLOSE;
    }
    call.client_id = header.client_id;
    call.now_ms = sys_wall_ms(api->options.sys);
    call.image = meta_latest(api->options.publisher);
    enum net_verdict verdict = handlers[at].handler(&call);
    meta_unref(call.image);
    return verdict;
}

static void api_flush(void *ctx, const struct net_turn *turn, uint64_t now_ns)
{
    produce_flush(ctx, turn, now_ns);
}

static void api_on_cancel(void *ctx, struct net_request *req)
{
    (void)ctx;
    struct api_parked *parked = req->op;
    if (parked && parked->op) { purg_op_cancel(parked->op, req->owner, PURG_CANCELLED); }
}

static void api_on_drop(void *ctx, struct net_request *req)
{
    (void)ctx;
    struct api_parked *parked = req->op;
    if (parked->drop) { parked->drop(parked); }
}

static void api_on_sent(void *ctx, const struct net_request *req, const struct net_times *times)
{
    struct api *api = ctx;
    api_stats_sent(api->stats, req, times);
}

/* ---- life ---- */

enum err api_create(const struct api_options *options, struct api **out)
{
    *out = NULL;
    struct api *api = mem_new(struct api);
    if (!api) { return ERR_NOMEM; }
    api->options = *options;
    api->table = (struct net_api){
        .ctx = api,
        .handle = api_handle,
        .flush = api_flush,
        .on_cancel = api_on_cancel,
        .on_drop = api_on_drop,
        .on_sent = api_on_sent,
    };
    struct config_scope scope = api_scope(api, NULL);
    api->fetch_bytes_max = (int32_t)config_broker_i64(&scope, "fetch.max.bytes");
    api->waits = purg_create(options->purg_env, &(struct purg_options){.shards = 16});
    api->sessions = fetch_sessions_create(
        options->sys,
        (size_t)config_broker_i64(&scope, "max.incremental.fetch.session.cache.slots"));
    api->producer_ids = producer_ids_create();
    api->stats = api_stats_create();
    if (!api->stats || !api->waits || !api->sessions || !api->producer_ids) {
        api_destroy(api);
        return ERR_NOMEM;
    }
    *out = api;
    return ERR_OK;
}

void api_destroy(struct api *api)
{
    if (!api) { return; }
    fetch_sessions_destroy(api->sessions);
    producer_ids_destroy(api->producer_ids);
    api_scratches_destroy(api);
    purg_destroy(api->waits);
    api_stats_destroy(api->stats);
    mem_free(api);
}

void api_open(struct api *api)
{
    atomic_store_explicit(&api->is_open, true, memory_order_release);
}

const struct net_api *api_table(struct api *api)
{
    return &api->table;
}

size_t api_fetch_sessions_count(const struct api *api)
{
    return fetch_sessions_count(api->sessions);
}

/* ---- shared look-ups ---- */

enum kafka_error api_partition_error(const struct partition *p)
{
    switch (partition_state(p)) {
    case PARTITION_ONLINE:
        return KAFKA_NONE;
    case PARTITION_OFFLINE:
        return KAFKA_KAFKA_STORAGE_ERROR;
    case PARTITION_DELETED:
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    case PARTITION_STOPPING:
        return KAFKA_NOT_LEADER_OR_FOLLOWER;
    }
    return KAFKA_UNKNOWN_SERVER_ERROR;
}

bool api_is_internal(struct slice topic)
{
    return slice_eq_str(topic, "__consumer_offsets") || slice_eq_str(topic, "__transaction_state");
}

bool api_is_offline(struct api *api, struct uuid topic, int32_t index)
{
    struct partition *p = replica_find(api->options.replicas, topic, index);
    bool is_offline = p && partition_state(p) == PARTITION_OFFLINE;
    partition_unref(p);
    return is_offline;
}

enum kafka_error api_find_partition(struct api_call *call, struct slice topic, struct uuid id,
                                    int32_t index, struct partition **out)
{
    *out = NULL;
    bool by_id = !uuid_is_zero(id);
    if (!by_id && slice_is_null(topic)) { return KAFKA_UNKNOWN_TOPIC_ID; }
    const struct meta_topic *t =
        by_id ? meta_topic_by_id(call->image, id) : meta_topic(call->image, topic);
    if (!t) { return by_id ? KAFKA_UNKNOWN_TOPIC_ID : KAFKA_UNKNOWN_TOPIC_OR_PARTITION; }
    struct partition *p =
        index < 0 ? NULL : replica_find(call->api->options.replicas, t->id, index);
    if (!p) { return KAFKA_UNKNOWN_TOPIC_OR_PARTITION; }
    enum kafka_error error = api_partition_error(p);
    if (error) {
        partition_unref(p);
        return error;
    }
    *out = p;
    return KAFKA_NONE;
}
