/* api_int.h - what the files of api/ share: the call, answering, parking. */
#ifndef API_API_INT_H
#define API_API_INT_H

#include "api/api.h"
#include "api/errors.h"
#include "wire/message.h"
#include "wire/reader.h"
#include "wire/writer.h"

struct codec_scratch;
struct api_stats;
struct fetch_sessions;
struct producer_ids;

#define API_SCRATCHES 8

struct api {
    struct api_options options;
    struct net_api table;
    _Atomic bool is_open; /* release in api_open(), acquire in dispatch */
    struct fetch_sessions *sessions;
    struct producer_ids *producer_ids;
    struct api_stats *stats;
    int32_t fetch_bytes_max; /* fetch.max.bytes, which is not dynamic */
    _Atomic(struct codec_scratch *) scratches[API_SCRATCHES]; /* idle ones; NULL: taken or none */
    struct purgatory *waits; /* admin requests that wait for the controller or a watermark */
    _Atomic uint64_t waits_begun; /* those for the controller; any thread */
};

/* One request as its handler sees it. Lives on the stack of api_handle(). */
struct api_call {
    struct api *api;
    struct net_request *req;
    struct meta_image *image; /* the newest at the start of the call; borrowed */
    struct wire_reader body;
    uint64_t now_ns;
    int64_t now_ms;
    int16_t key, version;
    int32_t correlation_id;
    struct slice client_id;
};

/* Function types, not structs. */
typedef enum net_verdict api_handler(struct api_call *call);

/* What answering needs later, for requests that park. */
struct api_reply {
    struct net_request *req;
    int16_t key, version;
    int32_t correlation_id;
};

static inline struct api_reply api_reply_of(const struct api_call *call)
{
    return (struct api_reply){call->req, call->key, call->version, call->correlation_id};
}

/* Begins the answer: writes the response header. */
void api_answer_begin(const struct api_reply *reply, struct wire_writer *w);
/* Ends it. encoded: what the message's encoder returned. NET_ANSWERED, or NET_CLOSE when it cannot
 * be written. */
enum net_verdict api_answer_end(const struct api_reply *reply, struct wire_writer *w,
                                enum err encoded);
/* For parked requests: ends the answer and gives the request back to net. */
void api_answer_later(const struct api_reply *reply, struct wire_writer *w, enum err encoded);

/* A response in one expression: API_ANSWER(call, metadata_response, &out). */
#define API_ANSWER(call, message, m)                                                               \
    __extension__({                                                                                \
        struct api_reply api_reply_ = api_reply_of(call);                                          \
        struct wire_writer api_w_;                                                                 \
        api_answer_begin(&api_reply_, &api_w_);                                                    \
        enum err api_e_ = message##_encode(&api_w_, (call)->version, (m));                         \
        api_answer_end(&api_reply_, &api_w_, api_e_);                                              \
    })

/* Decodes the body; on failure the handler returns NET_CLOSE, as Kafka does with bytes it cannot
 * read: struct x_request m; if (!API_DECODE(call, x_request, &m)) { return NET_CLOSE; } */
#define API_DECODE(call, message, m)                                                               \
    (message##_decode(&(call)->body, (call)->version, (call)->req->arena, (m)) == ERR_OK)

/* A request that waits. req->op points to one of these; it lies in the park arena. */
struct api_parked {
    struct purg_op *op; /* for on_cancel; NULL while nothing is parked */
    void (*drop)(struct api_parked *parked); /* for on_drop, of a request that said NET_SLOW */
};

static inline struct config_scope api_scope(const struct api *api, const struct meta_image *image)
{
    return (struct config_scope){api->options.statics, image, api->options.node_id};
}

/* ---- handlers, one file each ---- */

api_handler api_produce, api_fetch, api_list_offsets, api_metadata, api_find_coordinator,
    api_api_versions, api_create_topics, api_delete_topics, api_delete_records,
    api_init_producer_id, api_offset_for_leader_epoch, api_describe_configs, api_alter_configs,
    api_incremental_alter_configs, api_create_partitions, api_describe_cluster,
    api_describe_log_dirs, api_list_partition_reassignments, api_list_config_resources,
    api_describe_topic_partitions;

/* What api_produce() has staged; net_api's flush(). */
void produce_flush(struct api *api, const struct net_turn *turn, uint64_t now_ns);

/* The APIs that are answered, ascending by key: what ApiVersions lists. */
size_t api_handlers_count(void);
const struct wire_api *api_handler_at(size_t index);

/* ---- shared by several files ---- */

/* Compression contexts; any thread. NULL without memory; give accepts NULL. */
struct codec_scratch *api_scratch_take(struct api *api);
void api_scratch_give(struct api *api, struct codec_scratch *s);
void api_scratches_destroy(struct api *api);

/* What a request names, to find what it names twice. kind tells apart what may have equal texts. */
#define API_KEY_NONE 0 /* like no other */
struct api_key {
    struct slice text;
    int32_t kind; /* the caller's, above 0 */
};
struct api_place {
    uint32_t first; /* where an equal key stands first, perhaps here */
    bool is_repeated; /* an equal one stands somewhere else */
};
/* A place for each key; NULL without memory. Raises the arena's limit by what it takes. */
const struct api_place *api_places(struct arena *a, struct api_key *keys, size_t count);
/* The arena's room for count keys, zeroed; NULL without memory. */
static inline struct api_key *api_keys(struct arena *a, size_t count)
{
    a->limit += count * sizeof(struct api_key) + 64;
    return arena_array(a, count, sizeof(struct api_key));
}

/* What everybody may do with a topic: Kafka's bits of all its operations, without ACLs. */
#define API_TOPIC_OPERATIONS 3576
bool api_is_internal(struct slice topic);
bool api_is_offline(struct api *api, struct uuid topic, int32_t index);

/* Kafka's code for a partition that cannot be used; KAFKA_NONE when it is online. */
enum kafka_error api_partition_error(const struct partition *p);

/* Looks a partition up by name (id zero) or id: *out is a reference, or NULL with the error. */
enum kafka_error api_find_partition(struct api_call *call, struct slice topic, struct uuid id,
                                    int32_t index, struct partition **out);

/* What to do when the controller has carried out a request's mutations, or the time is over
 * (is_late: then the results must not be read, and the answer is KAFKA_REQUEST_TIMED_OUT). Owner's
 * thread or the caller's; frame and arena of the request are still there. Writes the answer
 * (api_answer_begin, ..., api_answer_end) and returns that verdict. */
typedef enum net_verdict api_mutations_done(struct api *api, const struct api_reply *reply,
                                            void *ctx, const struct controller_mutation *mutations,
                                            size_t count, bool is_late);

/* Submits mutations to the controller and parks the request until they are carried out or
 * timeout_ms has passed; with timeout_ms
 * <= 0 nothing is submitted and the answer is late at once, as in Kafka. The mutations are copied.
 */
struct api_submit {
    const struct controller_mutation *mutations;
    size_t count;
    bool is_dry_run;
    int32_t timeout_ms;
    api_mutations_done *done;
    void *ctx; /* in one of the request's arenas */
};
enum net_verdict api_submit(struct api_call *call, const struct api_submit *submit);

#endif
