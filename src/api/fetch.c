/* fetch.c - Fetch (1): slices of the log now, or when enough is there, or when the time is over.
 *
 * Thread:     handle() on a processor or handler; done() on the owner's thread.
 * Steps:      begin (session, what is wanted) -> read -> answer, or park and, once, read ->
 *             answer. Reading takes references to files, never bytes: records leave the broker by
 *             way of net's file parts.
 * Waiting:    unknown topics neither enter the waiting operation nor complete it; any other error
 *             ends it at once, as in Kafka.
 * Failure:    a read that would wait for the disk runs again on a handler; in done() such a
 *             partition answers empty, and the consumer's next request fetches it from there. */
#include "api/api_int.h"
#include "api/fetch_session.h"

#include "base/check.h"
#include "replica/delayed.h"
#include "wire/gen/fetch_response.h"

/* One partition of the answer. In the park arena. */
struct fetch_part {
    struct fetch_want *want;
    struct partition *partition; /* a reference; NULL when it is not known */
    struct log_slice slice;
    enum kafka_error error;
    bool is_unknown; /* the error is of the kind that waits with the rest */
    int64_t hw, lso, log_start;
    int32_t diverging_epoch; /* -1: none */
    int64_t diverging_offset;
};

/* What a partition takes from begin to answer, counted in queued.max.request.bytes: a session has
 * up to 100,000 of them, however small the request. */
#define FETCH_PART_SIZE                                                                            \
    (sizeof(struct fetch_want) + sizeof(struct fetch_part) + sizeof(struct delayed_fetch_item) +   \
     sizeof(struct purg_watch_node) + sizeof(struct purg_key) +                                    \
     sizeof(struct fetch_response_fetchable_topic_response) +                                      \
     sizeof(struct fetch_response_partition_data) + sizeof(struct wire_hole))
#define FETCH_PARTS_UNCOUNTED 100u /* as little as any request takes */
#define FETCH_THROTTLE_MS 100 /* when there is no room */
#define HINTS_COUNT_MAX 16u /* as many as the purgatory fetches side by side */

struct fetch_state {
    struct api_parked parked; /* first: req->op */
    struct api *api;
    struct api_reply reply;
    struct fetch_context context;
    struct fetch_part *parts;
    size_t parts_count;
    int64_t bytes; /* found by the last read */
    int32_t bytes_max, bytes_min, wait_ms;
    bool read_committed;
    bool has_waited; /* reading again after the wait: nothing may block any more */
    bool is_done; /* no reason to wait: an error, a divergence */
    struct delayed_fetch delayed;
};

/* ---- reading ---- */

static void part_reset(struct fetch_part *part)
{
    log_slice_release(&part->slice);
    part->error = KAFKA_NONE;
    part->is_unknown = false;
    part->hw = part->lso = part->log_start = -1;
    part->diverging_epoch = -1;
    part->diverging_offset = -1;
}

static void fetch_drop(struct fetch_state *s, bool with_slices)
{
    for (size_t i = 0; i < s->parts_count; i++) {
        partition_unref(s->parts[i].partition);
        s->parts[i].partition = NULL;
        if (with_slices) { log_slice_release(&s->parts[i].slice); }
    }
}

static enum kafka_error read_error(enum err e)
{
    switch (e) {
    case ERR_RANGE:
        return KAFKA_OFFSET_OUT_OF_RANGE;
    case ERR_CORRUPT:
        return KAFKA_CORRUPT_MESSAGE;
    case ERR_CLOSED:
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    case ERR_IO:
    case ERR_OFFLINE:
    case ERR_NOMEM:
        return KAFKA_KAFKA_STORAGE_ERROR;
    default:
        return KAFKA_UNKNOWN_SERVER_ERROR; /* no other comes out of a read */
    }
}

/* Checks the leader epochs that the consumer believes in. False: the part is answered already, or
 * *is_cold. */
static bool part_check_epochs(struct fetch_part *part, bool may_block, bool *is_cold)
{
    int32_t epoch = partition_leader_epoch(part->partition);
    const struct fetch_want *want = part->want;
    if (want->current_leader_epoch >= 0 && want->current_leader_epoch != epoch) {
        part->error = want->current_leader_epoch < epoch ? KAFKA_FENCED_LEADER_EPOCH
                                                         : KAFKA_UNKNOWN_LEADER_EPOCH;
        return false;
    }
    if (want->last_fetched_epoch < 0) { return true; }
    int32_t found;
    int64_t end;
    struct log_epoch_args args = {.epoch = want->last_fetched_epoch, .may_block = may_block};
    enum err e = log_epoch_end_offset(part->partition->log, &args, &found, &end);
    *is_cold = e == ERR_AGAIN;
    if (*is_cold) { return false; }
    if (e || found < 0 || end < 0) {
        part->error = e ? read_error(e) : KAFKA_OFFSET_OUT_OF_RANGE;
        return false;
    }
    if (found < want->last_fetched_epoch || end < want->offset) {
        part->diverging_epoch = found;
        part->diverging_offset = end;
        return false;
    }
    return true;
}

/* Reads one part. False: it would wait for the disk here. */
static bool part_read(struct fetch_state *s, struct fetch_part *part, bool may_block)
{
    struct partition *p = part->partition;
    bool is_cold = false;
    if (!part_check_epochs(part, may_block, &is_cold)) {
        part->hw = part->error ? -1 : partition_hw(p);
        part->lso = part->hw;
        part->log_start = part->error ? -1 : log_start_offset(p->log);
        return !is_cold;
    }
    int64_t room = s->bytes_max - s->bytes;
    int64_t limit = part->want->bytes_max < room ? part->want->bytes_max : room;
    struct log_read_args args = {
        .offset = part->want->offset,
        .bytes_max = limit > 0 ? (size_t)limit : 0,
        .min_one = s->bytes == 0,
        .may_block = may_block,
    };
    part->hw = partition_hw(p);
    part->lso = partition_lso(p);
    part->log_start = log_start_offset(p->log);
    args.offset_max = s->read_committed ? part->lso : part->hw;
    enum err e = log_read(p->log, &args, &part->slice);
    if (e == ERR_AGAIN) { return false; }
    partition_count(&p->counters.fetches, 1);
    if (e) {
        part->error = read_error(e);
        part->hw = part->lso = part->log_start = -1;
    }
    s->bytes += (int64_t)part->slice.size;
    return true;
}

/* Finds the partition that a part wants. */
static void part_find(struct api_call *call, struct fetch_part *part, bool has_waited)
{
    if (!part->partition) {
        part->error = api_find_partition(call, part->want->topic, part->want->id, part->want->index,
                                         &part->partition);
    } else {
        part->error = api_partition_error(part->partition);
    }
    part->is_unknown =
        part->error == KAFKA_UNKNOWN_TOPIC_OR_PARTITION || part->error == KAFKA_UNKNOWN_TOPIC_ID;
    if (has_waited && part->error == KAFKA_UNKNOWN_TOPIC_ID) {
        /* Known when it arrived: deleted meanwhile. */
        part->error = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    }
}

/* Finds all partitions. A fetch that may have to wait names its keys meanwhile. */
static void fetch_find(struct api_call *call, struct fetch_state *s)
{
    struct purg_key keys[HINTS_COUNT_MAX];
    size_t count = 0;
    for (size_t i = 0; i < s->parts_count; i++) {
        struct fetch_part *part = &s->parts[i];
        part_reset(part);
        part_find(call, part, s->has_waited);
        if (!part->error) { keys[count++] = partition_key(part->partition); }
        if (count < COUNT_OF(keys) && i + 1 < s->parts_count) { continue; }
        if (s->wait_ms > 0 && !s->has_waited) {
            purg_prefetch(replica_fetch_purgatory(s->api->options.replicas), keys, count);
        }
        count = 0;
    }
}

/* Reads all parts in order. False: the disk would have to be waited for (then nothing is kept but
 * partitions). */
static bool fetch_read(struct api_call *call, struct fetch_state *s, bool may_block)
{
    s->bytes = 0;
    s->is_done = false;
    bool is_cold = false;
    fetch_find(call, s);
    for (size_t i = 0; i < s->parts_count && !is_cold; i++) {
        struct fetch_part *part = &s->parts[i];
        if (part->error) {
            s->is_done = s->is_done || !part->is_unknown;
            continue;
        }
        is_cold = !part_read(s, part, may_block);
        if (is_cold && s->has_waited) { is_cold = false; }
        s->is_done = s->is_done || part->error || part->diverging_epoch >= 0;
    }
    if (!is_cold) { return true; }
    for (size_t i = 0; i < s->parts_count; i++) {
        log_slice_release(&s->parts[i].slice);
    }
    return false;
}

/* ---- the answer ---- */

static void part_encode(const struct fetch_state *s, const struct fetch_part *part,
                        struct fetch_response_partition_data *out)
{
    fetch_response_partition_data_init(out);
    out->partition_index = part->want->index;
    out->error_code = (int16_t)part->error;
    out->high_watermark = part->hw;
    out->last_stable_offset = part->lso;
    out->log_start_offset = part->log_start;
    out->diverging_epoch.epoch = part->diverging_epoch;
    out->diverging_epoch.end_offset = part->diverging_offset;
    out->aborted_transactions = NULL;
    if (s->read_committed && !part->error) {
        out->aborted_transactions = WIRE_EMPTY; /* not null: nothing was aborted */
    }
    /* Never null: clients look at the length first. {NULL, size} leaves a hole that net fills from
     * the file. */
    out->records = part->slice.size ? (struct slice){NULL, part->slice.size} : slice_str("");
}

static bool want_is_same_topic(const struct fetch_want *a, const struct fetch_want *b)
{
    return uuid_eq(a->id, b->id) && slice_eq(a->topic, b->topic);
}

/* Marks what is shown, groups neighbours of one topic. */
static enum err fetch_build(struct fetch_state *s, struct fetch_response *m, size_t *holes_count)
{
    struct arena *arena = s->reply.req->arena;
    arena->limit +=
        s->parts_count * (sizeof *m->responses + sizeof(struct fetch_response_partition_data) +
                          sizeof(struct wire_hole));
    struct fetch_response_partition_data *all = arena_array(arena, s->parts_count, sizeof *all);
    m->responses = arena_array(arena, s->parts_count, sizeof *m->responses);
    if (!all || !m->responses) { return ERR_NOMEM; }
    const struct fetch_want *last = NULL;
    *holes_count = 0;
    for (size_t i = 0; i < s->parts_count; i++) {
        struct fetch_part *part = &s->parts[i];
        struct fetch_sent sent = {part->error, part->hw, part->log_start, part->slice.size > 0,
                                  part->diverging_epoch >= 0};
        if (!fetch_session_sent(s->api->sessions, &s->context, part->want, &sent)) { continue; }
        if (!last || !want_is_same_topic(last, part->want)) {
            struct fetch_response_fetchable_topic_response *t = &m->responses[m->responses_count++];
            fetch_response_fetchable_topic_response_init(t);
            t->topic = part->want->topic;
            t->topic_id = part->want->id;
            t->partitions = all;
            last = part->want;
        }
        part_encode(s, part, all++);
        m->responses[m->responses_count - 1].partitions_count++;
        *holes_count += part->slice.size > 0;
    }
    return ERR_OK;
}

static void slice_sent(void *ctx)
{
    log_slice_release(ctx);
}

/* Hands the slices to net, in the order of the holes. */
static enum err fetch_add_slices(struct fetch_state *s, const struct wire_hole *holes,
                                 size_t holes_count)
{
    size_t h = 0;
    for (size_t i = 0; i < s->parts_count; i++) {
        struct log_slice *slice = &s->parts[i].slice;
        if (slice->size == 0) { continue; }
        CHECK(h < holes_count && holes[h].size == slice->size);
        enum err e = net_answer_add_file(s->reply.req, holes[h].pos, slice->file, slice->pos,
                                         slice->size, slice_sent, slice);
        if (e) { return e; }
        partition_count(&s->parts[i].partition->counters.bytes_out, slice->size);
        h++;
    }
    CHECK(h == holes_count);
    return ERR_OK;
}

/* Writes the answer and gives the slices to net; slices that net did not take are released by the
 * caller. */
static enum err fetch_encode(struct fetch_state *s)
{
    struct fetch_response m;
    struct wire_writer w;
    size_t holes_count;
    fetch_response_init(&m);
    m.session_id = s->context.session_id;
    enum err e = fetch_build(s, &m, &holes_count);
    if (e) { return e; }
    struct wire_hole *holes = arena_array(s->reply.req->arena, holes_count, sizeof *holes);
    if (!holes) { return ERR_NOMEM; }
    api_answer_begin(&s->reply, &w);
    wire_writer_set_holes(&w, holes, holes_count);
    e = fetch_response_encode(&w, s->reply.version, &m);
    if (api_answer_end(&s->reply, &w, e) != NET_ANSWERED) { return e ? e : ERR_LIMIT; }
    return fetch_add_slices(s, holes, holes_count);
}

static enum net_verdict fetch_answer(struct fetch_state *s)
{
    enum err e = fetch_encode(s);
    if (e) { s->reply.req->answer.buf.size = 0; }
    fetch_drop(s, e != ERR_OK); /* net may have some already: releasing twice is harmless */
    return e ? NET_CLOSE : NET_ANSWERED;
}

/* ---- waiting ---- */

static void fetch_done(struct delayed_fetch *d, enum purg_reason reason)
{
    struct fetch_state *s = d->ctx;
    struct net_request *req = s->reply.req;
    s->parked.op = NULL;
    s->has_waited = true;
    if (net_request_resume(req)) {
        fetch_drop(s, true);
        net_answer_later(req);
        return;
    }
    struct api_call call = {.api = s->api, .req = req, .version = s->reply.version};
    call.image = meta_latest(s->api->options.publisher);
    bool is_read = fetch_read(&call, s, false);
    CHECK(is_read);
    meta_unref(call.image);
    /* Whatever ended the wait, what is there now is the answer. */
    if (fetch_answer(s) != NET_ANSWERED) { req->answer.buf.size = 0; }
    req->answer.in_vain =
        reason == PURG_EXPIRED && s->bytes == 0 && !s->is_done && s->wait_ms >= NET_VAIN_MS;
    net_answer_later(req);
}

static enum net_verdict fetch_park(struct api_call *call, struct fetch_state *s)
{
    struct net_request *req = call->req;
    struct delayed_fetch *d = &s->delayed;
    req->park_arena->limit += s->parts_count * (sizeof *d->items + sizeof(struct purg_watch_node) +
                                                sizeof(struct purg_key));
    d->items = arena_array(req->park_arena, s->parts_count, sizeof *d->items);
    struct purg_watch_node *nodes = arena_array(req->park_arena, s->parts_count, sizeof *nodes);
    struct purg_key *keys = arena_array(req->park_arena, s->parts_count, sizeof *keys);
    if (!d->items || !nodes || !keys) {
        fetch_drop(s, true);
        return NET_CLOSE;
    }
    for (size_t i = 0; i < s->parts_count; i++) {
        struct fetch_part *part = &s->parts[i];
        log_slice_release(&part->slice);
        if (part->error) { continue; }
        keys[d->items_count] = partition_key(part->partition);
        d->items[d->items_count++] =
            (struct delayed_fetch_item){part->partition, part->want->offset, part->want->bytes_max,
                                        part->want->current_leader_epoch, s->read_committed};
    }
    d->bytes_min = s->bytes_min;
    d->done = fetch_done;
    d->ctx = s;
    purg_op_init(&d->op, &delayed_fetch_type, req->owner);
    s->parked.op = &d->op;
    /* A session's next request must find this one answered; others may pass. */
    enum net_verdict verdict = s->context.session_id ? NET_PARKED_HOLD : NET_PARKED_PASS;
    size_t count = d->items_count;
    uint64_t deadline_ns = call->now_ns + (uint64_t)s->wait_ms * SYS_MS;
    net_request_release(req);
    if (purg_try_complete_else_watch(replica_fetch_purgatory(call->api->options.replicas),
                                     req->self, &d->op, nodes, keys, count,
                                     deadline_ns) == PURG_PARKED) {
        return verdict;
    }
    /* Something came between the read and the watch. */
    s->parked.op = NULL;
    s->has_waited = true;
    if (net_request_resume(req)) {
        fetch_drop(s, true);
        return NET_CLOSE;
    }
    (void)fetch_read(call, s, false);
    return fetch_answer(s);
}

static void fetch_dropped(struct api_parked *parked)
{
    fetch_drop(CONTAINER_OF(parked, struct fetch_state, parked), true);
}

/* ---- the request ---- */

/* An error of the session: no partitions. */
static enum net_verdict answer_session_error(struct api_call *call, enum kafka_error error)
{
    struct fetch_response m;
    fetch_response_init(&m);
    m.error_code = (int16_t)error;
    return API_ANSWER(call, fetch_response, &m);
}

/* No room: an empty answer that bids the client wait, which changes nothing of what it asked for. A
 * session goes on; one that was to begin does not, and the client asks for all again. */
static enum net_verdict answer_throttled(struct api_call *call, int32_t session_id)
{
    struct fetch_response m;
    fetch_response_init(&m);
    m.session_id = session_id;
    m.throttle_time_ms = FETCH_THROTTLE_MS;
    call->req->answer.throttle_ms = FETCH_THROTTLE_MS;
    return API_ANSWER(call, fetch_response, &m);
}

/* A session's partitions take much more than its request's frame. */
static bool fetch_has_room(struct api_call *call, const struct fetch_request *m)
{
    size_t count = fetch_session_wants(call->api->sessions, m);
    return count <= FETCH_PARTS_UNCOUNTED ||
           net_request_reserve(call->req, count * FETCH_PART_SIZE);
}

static struct fetch_state *fetch_state_make(struct api_call *call, const struct fetch_request *m)
{
    struct arena *arena = call->req->park_arena;
    struct fetch_state *s = arena_alloc(arena, sizeof *s);
    if (!s) { return NULL; }
    int32_t bytes_max = call->api->fetch_bytes_max;
    s->parked.drop = fetch_dropped;
    s->api = call->api;
    s->reply = api_reply_of(call);
    s->bytes_max = m->max_bytes < bytes_max ? m->max_bytes : bytes_max;
    s->bytes_min = m->min_bytes < s->bytes_max ? m->min_bytes : s->bytes_max;
    s->wait_ms = m->max_wait_ms;
    s->read_committed = m->isolation_level == 1;
    return s;
}

static bool fetch_state_take_wants(struct fetch_state *s)
{
    struct arena *arena = s->reply.req->park_arena;
    /* As many as its session has, however small the request. */
    arena->limit += s->context.wants_count * sizeof *s->parts;
    s->parts = arena_array(arena, s->context.wants_count, sizeof *s->parts);
    if (!s->parts) { return false; }
    s->parts_count = s->context.wants_count;
    for (size_t i = 0; i < s->parts_count; i++) {
        s->parts[i].want = &s->context.wants[i];
    }
    return true;
}

/* Decodes and begins the session; *verdict is set when the request is over already. */
static struct fetch_state *fetch_begin(struct api_call *call, enum net_verdict *verdict)
{
    struct fetch_request m;
    *verdict = NET_CLOSE;
    if (!API_DECODE(call, fetch_request, &m)) { return NULL; }
    struct fetch_state *s = fetch_state_make(call, &m);
    if (!s) { return NULL; }
    bool out_of_memory;
    struct arena *arena = fetch_has_room(call, &m) ? call->req->park_arena : NULL;
    enum kafka_error error = fetch_session_begin(call->api->sessions, &m, call->version,
                                                 call->now_ns, arena, &s->context, &out_of_memory);
    if (error) {
        *verdict = answer_session_error(call, error);
        return NULL;
    }
    if (!arena && !out_of_memory) {
        *verdict = answer_throttled(call, s->context.session_id);
        return NULL;
    }
    if (out_of_memory || !fetch_state_take_wants(s)) { return NULL; }
    call->req->op = s;
    return s;
}

static bool fetch_has_watchable(const struct fetch_state *s)
{
    for (size_t i = 0; i < s->parts_count; i++) {
        if (!s->parts[i].error) { return true; }
    }
    return false;
}

enum net_verdict api_fetch(struct api_call *call)
{
    enum net_verdict verdict = NET_CLOSE; /* fetch_begin() sets it when it gives nothing */
    struct fetch_state *s = call->req->op;
    if (!s) { s = fetch_begin(call, &verdict); }
    if (!s) { return verdict; }
    if (!fetch_read(call, s, call->req->on_handler)) { return NET_SLOW; }
    bool waits = s->wait_ms > 0 && s->bytes < s->bytes_min && !s->is_done && fetch_has_watchable(s);
    return waits ? fetch_park(call, s) : fetch_answer(s);
}
