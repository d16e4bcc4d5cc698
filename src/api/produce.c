/* produce.c - Produce (0): appends batches and answers when acks asks for it.
 *
 * Place:      on a processor a request is only prepared and staged; produce_flush() then appends
 *             what all staged requests have for one partition in one go: one lock, one write, one
 *             look at who waits. A handler, which may recompress, appends batch by batch.
 * Thread:     api_produce() on a processor or handler; produce_flush() on the processor; done() on
 *             the owner's thread.
 * Order:      batches of one partition are appended in the order of their requests; when one must
 *             go on from a handler, so must what comes behind it on its connection. Every append of
 *             a request is done before its answer is decided, so a parked Produce lets later
 *             requests pass.
 * Failure:    per partition, Kafka's codes. acks=0 with any error closes the connection, so that
 *             the client asks for metadata. */
#include "api/api_int.h"
#include "api/stats.h"

#include "base/check.h"
#include "replica/delayed.h"
#include "wire/gen/produce_request.h"
#include "wire/gen/produce_response.h"

#define PRODUCE_RECOMPRESSED_MAX ((size_t)128 << 20)
#define PRODUCE_GATHER_PARTITIONS 64 /* more are done in rounds of so many */

/* One partition of the request: what was asked, and what became of it. In the park arena. */
struct produce_part {
    struct partition *partition; /* a reference while it is appended or waits to be acknowledged */
    int32_t index;
    bool is_done; /* appended or refused */
    enum kafka_error error;
    int64_t base_offset, append_time_ms, log_start_offset;
    int64_t required; /* the high watermark that acknowledges it */
    int32_t record_index; /* -1: no record is to blame */
    const char *message; /* static text or NULL */
};

struct produce_topic {
    struct slice name;
    struct uuid id;
    struct produce_part *parts;
    size_t parts_count;
};

/* One append that is due. In the request's arena. */
struct produce_append {
    struct produce_append *next; /* of the same partition */
    struct produce_state *state;
    struct produce_part *part;
    struct log_append_args args;
    struct log_append_result result;
};

/* The state of one request from its first append to its answer. */
struct produce_state {
    struct api_parked parked; /* first: req->op */
    struct api *api;
    struct api_reply reply;
    struct produce_topic *topics;
    size_t topics_count;
    size_t parts_count;
    size_t parts_done;
    struct produce_append *appends; /* of this call */
    size_t appends_count;
    int32_t timeout_ms;
    int16_t acks;
    struct delayed_produce delayed;
};

/* Kafka's code for a batch that is not as it should be. */
static enum kafka_error batch_error(enum batch_reject reject)
{
    switch (reject) {
    case BATCH_OK:
        return KAFKA_NONE;
    case BATCH_BAD_CRC:
        return KAFKA_CORRUPT_MESSAGE;
    case BATCH_TOO_LARGE:
    case BATCH_BOMB:
        return KAFKA_MESSAGE_TOO_LARGE;
    case BATCH_IS_TRANSACTIONAL:
        return KAFKA_INVALID_TXN_STATE;
    case BATCH_TIME:
    case BATCH_TIME_TYPE:
        return KAFKA_INVALID_TIMESTAMP;
    case BATCH_CODEC:
    case BATCH_CODEC_VERSION:
        return KAFKA_UNSUPPORTED_COMPRESSION_TYPE;
    case BATCH_NOMEM:
        return KAFKA_KAFKA_STORAGE_ERROR;
    case BATCH_EMPTY:
    case BATCH_CUT:
    case BATCH_SEVERAL:
    case BATCH_LENGTH:
    case BATCH_OLD_MAGIC:
    case BATCH_BASE_OFFSET:
    case BATCH_COUNTS:
    case BATCH_RECORD:
    case BATCH_OFFSETS:
    case BATCH_NO_KEY:
    case BATCH_IS_CONTROL:
    case BATCH_SEQUENCE:
    case BATCH_COMPRESSED:
        return KAFKA_INVALID_RECORD;
    }
    return KAFKA_UNKNOWN_SERVER_ERROR;
}

static enum kafka_error reject_error(const struct log_append_result *r)
{
    switch (r->reject) {
    case LOG_REJECT_NONE:
        return KAFKA_UNKNOWN_SERVER_ERROR;
    case LOG_REJECT_BATCH:
        return batch_error(r->batch_reject);
    case LOG_REJECT_SEGMENT_TOO_SMALL:
        return KAFKA_RECORD_LIST_TOO_LARGE;
    case LOG_REJECT_OUT_OF_ORDER:
        return KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER;
    case LOG_REJECT_FENCED:
        return KAFKA_INVALID_PRODUCER_EPOCH;
    case LOG_REJECT_PRODUCERS_LIMIT:
    case LOG_REJECT_STORAGE:
        return KAFKA_KAFKA_STORAGE_ERROR;
    case LOG_REJECT_CLOSED:
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    }
    return KAFKA_UNKNOWN_SERVER_ERROR;
}

static void part_refuse(struct produce_part *part, enum kafka_error error, const char *message)
{
    part->error = error;
    part->message = message;
}

static void part_done(struct produce_state *s, struct produce_part *part)
{
    part->is_done = true;
    s->parts_done++;
}

static void part_take_result(struct produce_part *part, const struct log_append_result *r)
{
    part->log_start_offset = r->log_start_offset;
    part->record_index = r->record_index;
    if (r->err == ERR_OK) {
        part->base_offset = r->first_offset;
        part->append_time_ms = r->append_time_ms;
        part->required = r->last_offset + 1;
        return;
    }
    part_refuse(part, reject_error(r), r->message);
}

static void count_refused(struct api_stats *stats, const struct log_append_result *r, size_t size)
{
    if (r->reject == LOG_REJECT_OUT_OF_ORDER) {
        api_stats_refused(stats, API_REFUSED_SEQUENCE, 1);
    } else if (r->reject == LOG_REJECT_SEGMENT_TOO_SMALL) {
        api_stats_refused(stats, API_REFUSED_BYTES, size);
    }
    if (r->reject != LOG_REJECT_BATCH) { return; }
    if (r->batch_reject == BATCH_OLD_MAGIC) { api_stats_refused(stats, API_REFUSED_MAGIC, 1); }
    if (r->batch_reject == BATCH_BAD_CRC) { api_stats_refused(stats, API_REFUSED_CRC, 1); }
    if (r->batch_reject == BATCH_OFFSETS) { api_stats_refused(stats, API_REFUSED_SEQUENCE, 1); }
    if (r->batch_reject == BATCH_NO_KEY) { api_stats_refused(stats, API_REFUSED_NO_KEY, 1); }
    if (r->batch_reject == BATCH_TOO_LARGE) { api_stats_refused(stats, API_REFUSED_BYTES, size); }
}

/* size: of the records as they came. */
static void count_append(struct api *api, struct partition *p, const struct log_append_result *r,
                         size_t size)
{
    partition_count(&p->counters.produces, 1);
    if (r->err) {
        count_refused(api->stats, r, size);
    } else if (!r->is_duplicate) {
        partition_count(&p->counters.bytes_in, size);
        partition_count(&p->counters.messages_in, (uint64_t)(r->last_offset - r->first_offset + 1));
    }
}

/* ---- appending ---- */

/* What became of it. ERR_AGAIN: it would wait here, and nothing was done; a handler goes on. */
static void append_take(struct produce_append *a)
{
    struct produce_part *part = a->part;
    if (a->result.err != ERR_AGAIN) {
        count_append(a->state->api, part->partition, &a->result, a->args.records.size);
        part_take_result(part, &a->result);
        part_done(a->state, part);
    }
    if (a->result.err) {
        partition_unref(part->partition);
        part->partition = NULL;
    }
}

/* On a handler: each on its own, since each may need room for recompressed bytes. */
static void produce_append_each(struct produce_state *s)
{
    struct codec_scratch *scratch = api_scratch_take(s->api);
    for (size_t i = 0; i < s->appends_count; i++) {
        struct produce_append *a = &s->appends[i];
        struct log_append_args *args = &a->args;
        struct log_append_result *result = &a->result;
        struct partition *p = a->part->partition;
        struct wire_buf recompressed;
        wire_buf_init(&recompressed, PRODUCE_RECOMPRESSED_MAX);
        args->may_block = true;
        args->recompressed = &recompressed;
        args->scratch = scratch;
        partition_append(p, &args, &result, 1);
        wire_buf_fini(&recompressed);
        partition_advance(p, s->reply.req->self);
        append_take(a);
    }
    api_scratch_give(s->api, scratch);
}

/* What staged requests have for one partition, in order. */
struct gather_slot {
    struct partition *partition;
    struct produce_append *first, *last;
};

struct gather {
    struct replica_manager *replicas;
    struct codec_scratch *scratch;
    struct purg_owner *self;
    bool is_slow; /* an append must go on from a handler: so must all that are not done */
    size_t count;
    struct gather_slot slots[PRODUCE_GATHER_PARTITIONS];
};

/* True: all of them are done. */
static bool gather_append_slot(const struct gather *g, const struct gather_slot *slot)
{
    struct log_append_args *args[LOG_APPEND_COUNT_MAX];
    struct log_append_result *results[LOG_APPEND_COUNT_MAX];
    struct produce_append *a = slot->first;
    bool is_slow = g->is_slow;
    while (a) {
        struct produce_append *first = a;
        size_t n = 0;
        for (; a && n < LOG_APPEND_COUNT_MAX; a = a->next, n++) {
            a->args.scratch = g->scratch;
            a->result.err = ERR_AGAIN;
            args[n] = &a->args;
            results[n] = &a->result;
        }
        if (!is_slow) { partition_append(slot->partition, args, results, n); }
        is_slow = results[n - 1]->err == ERR_AGAIN; /* what comes behind it waits too */
        for (; first != a; first = first->next) {
            append_take(first);
        }
    }
    return !is_slow;
}

/* Appends what is gathered; then, with no lock held, wakes who waits for what has moved. */
static void gather_append(struct gather *g)
{
    struct purg_key moved[PRODUCE_GATHER_PARTITIONS];
    size_t moved_count = 0;
    bool is_slow = false;
    for (size_t i = 0; i < g->count; i++) {
        struct partition *p = partition_ref(g->slots[i].partition);
        if (!gather_append_slot(g, &g->slots[i])) { is_slow = true; }
        if (partition_raise(p)) { moved[moved_count++] = partition_key(p); }
        partition_unref(p);
    }
    replica_wake(g->replicas, g->self, moved, moved_count);
    g->count = 0;
    g->is_slow = g->is_slow || is_slow;
}

static void gather_add(struct gather *g, struct produce_append *a)
{
    struct partition *p = a->part->partition;
    a->next = NULL;
    for (size_t i = 0; i < g->count; i++) {
        if (g->slots[i].partition == p) {
            g->slots[i].last->next = a;
            g->slots[i].last = a;
            return;
        }
    }
    if (g->count == COUNT_OF(g->slots)) { gather_append(g); }
    g->slots[g->count++] = (struct gather_slot){p, a, a};
}

/* ---- the answer ---- */

static void part_encode(const struct produce_part *part, int16_t version, struct arena *arena,
                        struct produce_response_partition_produce_response *out)
{
    produce_response_partition_produce_response_init(out);
    out->index = part->index;
    out->error_code = (int16_t)part->error;
    out->base_offset = part->error ? -1 : part->base_offset;
    out->log_append_time_ms = part->error ? -1 : part->append_time_ms;
    out->log_start_offset = part->log_start_offset;
    if (version < 8 || !part->error) { return; }
    out->error_message = slice_str(part->message);
    if (part->record_index < 0) { return; }
    out->record_errors = arena_array(arena, 1, sizeof *out->record_errors);
    if (!out->record_errors) { return; }
    out->record_errors_count = 1;
    out->record_errors[0].batch_index = part->record_index;
    out->record_errors[0].batch_index_error_message = slice_str(part->message);
}

/* Writes the response into the request's answer. */
static enum err produce_encode(struct produce_state *s, struct wire_writer *w)
{
    struct arena *arena = s->reply.req->arena;
    struct produce_response m;
    produce_response_init(&m);
    m.responses = arena_array(arena, s->topics_count, sizeof *m.responses);
    if (!m.responses) { return ERR_NOMEM; }
    m.responses_count = s->topics_count;
    for (size_t i = 0; i < s->topics_count; i++) {
        struct produce_topic *topic = &s->topics[i];
        struct produce_response_topic_produce_response *t = &m.responses[i];
        produce_response_topic_produce_response_init(t);
        t->name = topic->name;
        t->topic_id = topic->id;
        t->partition_responses =
            arena_array(arena, topic->parts_count, sizeof *t->partition_responses);
        if (!t->partition_responses) { return ERR_NOMEM; }
        t->partition_responses_count = topic->parts_count;
        for (size_t k = 0; k < topic->parts_count; k++) {
            part_encode(&topic->parts[k], s->reply.version, arena, &t->partition_responses[k]);
        }
    }
    return produce_response_encode(w, s->reply.version, &m);
}

static void produce_drop_partitions(struct produce_state *s)
{
    for (size_t i = 0; i < s->topics_count; i++) {
        for (size_t k = 0; k < s->topics[i].parts_count; k++) {
            partition_unref(s->topics[i].parts[k].partition);
            s->topics[i].parts[k].partition = NULL;
        }
    }
}

static bool produce_has_error(const struct produce_state *s)
{
    for (size_t i = 0; i < s->topics_count; i++) {
        for (size_t k = 0; k < s->topics[i].parts_count; k++) {
            if (s->topics[i].parts[k].error) { return true; }
        }
    }
    return false;
}

static enum net_verdict produce_answer(struct produce_state *s)
{
    produce_drop_partitions(s);
    if (s->acks == 0) { return produce_has_error(s) ? NET_CLOSE : NET_NONE; }
    struct wire_writer w;
    api_answer_begin(&s->reply, &w);
    enum err e = produce_encode(s, &w);
    return api_answer_end(&s->reply, &w, e);
}

/* ---- waiting for acknowledgement ---- */

/* What an append is told that will not be acknowledged here. */
static enum kafka_error unacked_error(const struct partition *p, enum purg_reason reason)
{
    enum kafka_error error = api_partition_error(p);
    if (error) { return error; }
    return reason == PURG_EXPIRED ? KAFKA_REQUEST_TIMED_OUT : KAFKA_NOT_LEADER_OR_FOLLOWER;
}

/* However the wait ended: what the watermark has not passed is refused. */
static void produce_judge(struct produce_state *s, enum purg_reason reason)
{
    for (size_t i = 0; i < s->topics_count; i++) {
        for (size_t k = 0; k < s->topics[i].parts_count; k++) {
            struct produce_part *part = &s->topics[i].parts[k];
            if (part->partition && partition_hw(part->partition) < part->required) {
                part_refuse(part, unacked_error(part->partition, reason), NULL);
                if (reason == PURG_EXPIRED) {
                    partition_count(&part->partition->counters.produces_expired, 1);
                }
            }
        }
    }
}

static void produce_done(struct delayed_produce *d, enum purg_reason reason)
{
    struct produce_state *s = d->ctx;
    s->parked.op = NULL;
    produce_judge(s, reason);
    produce_drop_partitions(s);
    struct net_request *req = s->reply.req;
    if (net_request_resume(req)) {
        net_answer_later(req);
        return;
    }
    struct wire_writer w;
    api_answer_begin(&s->reply, &w);
    enum err e = produce_encode(s, &w);
    api_answer_later(&s->reply, &w, e);
}

/* Names lie in the frame, which goes before the request parks. */
static bool produce_keep_names(struct produce_state *s)
{
    for (size_t i = 0; i < s->topics_count; i++) {
        struct slice name = s->topics[i].name;
        if (name.size == 0) { continue; }
        char *copy = arena_strndup(s->reply.req->park_arena, name.at, name.size);
        if (!copy) { return false; }
        s->topics[i].name = slice_of(copy, name.size);
    }
    return true;
}

static enum net_verdict produce_park(struct produce_state *s, uint64_t now_ns)
{
    struct net_request *req = s->reply.req;
    struct delayed_produce *d = &s->delayed;
    d->items = arena_array(req->park_arena, s->parts_count, sizeof *d->items);
    struct purg_key *keys = arena_array(req->arena, s->parts_count, sizeof *keys);
    struct purg_watch_node *nodes = arena_array(req->park_arena, s->parts_count, sizeof *nodes);
    if (!d->items || !keys || !nodes || !produce_keep_names(s)) { return NET_CLOSE; }
    for (size_t i = 0; i < s->topics_count; i++) {
        for (size_t k = 0; k < s->topics[i].parts_count; k++) {
            const struct produce_part *part = &s->topics[i].parts[k];
            if (!part->partition) { continue; }
            keys[d->items_count] = partition_key(part->partition);
            d->items[d->items_count++] =
                (struct delayed_produce_item){part->partition, part->required};
        }
    }
    d->done = produce_done;
    d->ctx = s;
    uint64_t wait_ns = s->timeout_ms > 0 ? (uint64_t)s->timeout_ms * SYS_MS : 0;
    purg_op_init(&d->op, &delayed_produce_type, req->owner);
    s->parked.op = &d->op;
    struct purg_key few[16];
    size_t count = d->items_count;
    if (count <= COUNT_OF(few)) {
        memcpy(few, keys, count * sizeof *keys);
        net_request_release(req); /* keys go with the arena: few has them */
        keys = few;
    }
    enum purg_outcome outcome =
        purg_try_complete_else_watch(replica_produce_purgatory(s->api->options.replicas), req->self,
                                     &d->op, nodes, keys, count, now_ns + wait_ns);
    if (outcome == PURG_PARKED) { return NET_PARKED_PASS; }
    s->parked.op = NULL;
    /* It is over at once: acknowledged meanwhile, or the directory went offline. */
    produce_judge(s, PURG_EVENT);
    return net_request_resume(req) ? NET_CLOSE : produce_answer(s);
}

/* The connection closed between two of its partitions: what is appended stays. */
static void produce_dropped(struct api_parked *parked)
{
    produce_drop_partitions(CONTAINER_OF(parked, struct produce_state, parked));
}

/* ---- the request ---- */

static struct produce_state *produce_state_make(struct api_call *call,
                                                const struct produce_request *m)
{
    struct arena *arena = call->req->park_arena;
    struct produce_state *s = arena_alloc(arena, sizeof *s);
    if (!s) { return NULL; }
    s->parked.drop = produce_dropped;
    s->api = call->api;
    s->reply = api_reply_of(call);
    s->acks = m->acks;
    s->timeout_ms = m->timeout_ms;
    s->topics_count = m->topic_data_count;
    s->topics = arena_array(arena, s->topics_count, sizeof *s->topics);
    for (size_t i = 0; s->topics && i < s->topics_count; i++) {
        const struct produce_request_topic_produce_data *t = &m->topic_data[i];
        struct produce_topic *topic = &s->topics[i];
        topic->name = t->name;
        topic->id = t->topic_id;
        topic->parts = arena_array(arena, t->partition_data_count, sizeof *topic->parts);
        if (!topic->parts) { return NULL; }
        topic->parts_count = t->partition_data_count;
        s->parts_count += topic->parts_count;
        for (size_t k = 0; k < topic->parts_count; k++) {
            topic->parts[k] = (struct produce_part){.index = t->partition_data[k].index,
                                                    .base_offset = -1,
                                                    .append_time_ms = -1,
                                                    .log_start_offset = -1,
                                                    .record_index = -1};
        }
    }
    if (!s->topics) { return NULL; }
    call->req->op = s;
    return s;
}

/* One partition: refused, or the next of the appends. */
static void produce_prepare_part(struct api_call *call, struct produce_state *s,
                                 const struct produce_topic *topic, struct produce_part *part,
                                 struct slice records)
{
    enum kafka_error error = KAFKA_NONE;
    if (s->acks < -1 || s->acks > 1) {
        part_refuse(part, KAFKA_INVALID_REQUIRED_ACKS, NULL);
    } else if (slice_is_null(records)) {
        part_refuse(part, KAFKA_INVALID_RECORD, "Records are null");
    } else {
        error = api_find_partition(call, topic->name, topic->id, part->index, &part->partition);
        if (error) { part_refuse(part, error, NULL); }
    }
    if (!part->partition) {
        part_done(s, part);
        return;
    }
    struct produce_append *a = &s->appends[s->appends_count++];
    a->state = s;
    a->part = part;
    /* The records lie in the frame, which is ours to change. */
    a->args = (struct log_append_args){
        .records = {call->req->frame.at + (records.at - call->req->frame.at), records.size},
        .now_ms = call->now_ms,
        .origin = LOG_FROM_CLIENT,
        .zstd_allowed = call->version >= 7,
    };
}

/* Finds what is left to append. Arena and message are new on a handler. */
static bool produce_prepare(struct api_call *call, struct produce_state *s,
                            const struct produce_request *m)
{
    s->appends_count = 0;
    s->appends = arena_array(call->req->arena, s->parts_count - s->parts_done, sizeof *s->appends);
    if (!s->appends) {
        produce_drop_partitions(s);
        return false;
    }
    for (size_t i = 0; i < s->topics_count; i++) {
        struct produce_topic *topic = &s->topics[i];
        for (size_t k = 0; k < topic->parts_count; k++) {
            if (topic->parts[k].is_done) { continue; }
            produce_prepare_part(call, s, topic, &topic->parts[k],
                                 m->topic_data[i].partition_data[k].records);
        }
    }
    return true;
}

static bool produce_is_acked(const struct produce_state *s)
{
    for (size_t i = 0; i < s->topics_count; i++) {
        for (size_t k = 0; k < s->topics[i].parts_count; k++) {
            const struct produce_part *part = &s->topics[i].parts[k];
            if (part->partition && partition_hw(part->partition) < part->required) { return false; }
        }
    }
    return true;
}

/* Every append is done and no lock is held. */
static enum net_verdict produce_finish(struct produce_state *s, uint64_t now_ns)
{
    if (s->acks == -1 && !produce_is_acked(s)) { return produce_park(s, now_ns); }
    return produce_answer(s);
}

enum net_verdict api_produce(struct api_call *call)
{
    struct produce_request m;
    if (!API_DECODE(call, produce_request, &m)) { return NET_CLOSE; }
    struct produce_state *s = call->req->op;
    if (!s) { s = produce_state_make(call, &m); }
    if (!s || !produce_prepare(call, s, &m)) { return NET_CLOSE; }
    if (!call->req->on_handler) { return NET_STAGED; }
    produce_append_each(s);
    return produce_finish(s, call->now_ns);
}

void produce_flush(struct api *api, const struct net_turn *turn, uint64_t now_ns)
{
    struct gather g; /* only what is counted is initialised */
    g.replicas = api->options.replicas;
    g.scratch = api_scratch_take(api);
    g.self = turn->first->self;
    g.is_slow = false;
    g.count = 0;
    for (struct net_request *req = turn->first; req; req = req->turn_next) {
        struct produce_state *s = req->op;
        for (size_t i = 0; i < s->appends_count; i++) {
            gather_add(&g, &s->appends[i]);
        }
    }
    gather_append(&g);
    api_scratch_give(api, g.scratch);
    const struct net_conn *slow = NULL;
    for (struct net_request *req = turn->first; req; req = req->turn_next) {
        struct produce_state *s = req->op;
        if (req->conn == slow || s->parts_done < s->parts_count) {
            slow = req->conn;
            req->verdict = NET_SLOW;
        } else {
            req->verdict = produce_finish(s, now_ns);
        }
    }
}
