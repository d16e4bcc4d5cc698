/* actor.c - what simulated clients send, and what they make of the answers. */
#include "actor.h"

#include "base/check.h"

#include <inttypes.h>

enum {
    CODE_NONE = 0,
    CODE_OUT_OF_RANGE = 1,
    CODE_CORRUPT = 2,
    CODE_UNKNOWN_TOPIC = 3,
    CODE_NOT_LEADER = 6,
    CODE_TIMED_OUT = 7,
    CODE_SEQUENCE = 45,
    CODE_STORAGE = 56,
};

void actor_init(struct actor *a, struct actor_world *w, enum actor_kind kind, uint32_t number)
{
    *a = (struct actor){.world = w, .kind = kind, .number = number, .producer_id = -1};
    a->partition = (uint32_t)sim_below(w->sim, w->partitions_count);
    CHECK(kind == ACTOR_FETCHER || number < GHOST_PRODUCERS_MAX);
}

void actor_fini(struct actor *a)
{
    conn_fini(&a->conn);
}

static void actor_sleep(struct actor *a, uint64_t max_ms)
{
    struct sim *sim = a->world->sim;
    a->next_ns = sim_now_ns(sim) + 1 + sim_below(sim, max_ms * SYS_MS);
}

static bool is_retriable(int16_t code)
{
    return code == CODE_UNKNOWN_TOPIC || code == CODE_NOT_LEADER || code == CODE_TIMED_OUT ||
           code == CODE_STORAGE;
}

/* Nothing made this answer late: no fault since the request, none before it on its connection. */
static void check_prompt(const struct actor *a, const struct pending *p, uint64_t since_ns)
{
    uint64_t late = sim_now_ns(a->world->sim) - since_ns;
    CHECKF(a->world->troubled_ns >= p->sent_ns || late <= a->world->patience_ns,
           "[ACT-4] the answer to api %d on %u/%" PRId64 " is %" PRIu64 " ns late", p->api,
           p->partition, p->offset, late);
}

/* ---- produce ---- */

static void put_produce(struct bytes *body, const struct actor *a, const struct actor_batch *b,
                        int16_t acks)
{
    struct bytes records = {0};
    struct sim_batch batch = {.producer_id = a->producer_id,
                              .producer_epoch = a->producer_id < 0 ? -1 : a->producer_epoch,
                              .base_sequence = a->producer_id < 0 ? -1 : b->base_sequence,
                              .count = b->count,
                              .first = b->first};
    batch_put(&records, &batch, sys_wall_ms(sim_sys(a->world->host)));
    bytes_text(body, NULL);
    bytes_int(body, acks, 2);
    bytes_int(body, 10000, 4);
    bytes_int(body, 1, 4);
    bytes_text(body, ACTOR_TOPIC);
    bytes_int(body, 1, 4);
    bytes_int(body, a->partition, 4);
    bytes_int(body, (int64_t)records.size, 4);
    bytes_put(body, records.at, records.size);
    bytes_free(&records);
}

static void actor_send_batch(struct actor *a, const struct actor_batch *b, int16_t acks,
                             bool was_head)
{
    struct bytes body = {0};
    put_produce(&body, a, b, acks);
    struct pending note = {.partition = a->partition,
                           .first = b->first,
                           .count = b->count,
                           .was_head = was_head,
                           .is_first = a->conn.count == 0};
    conn_send(&a->conn, API_PRODUCE, 8, &body, acks == 0 ? NULL : &note);
    bytes_free(&body);
}

static struct actor_batch actor_new_batch(struct actor *a)
{
    struct actor_batch b = {.first = {a->number, a->number_next},
                            .count = 1 + (uint32_t)sim_below(a->world->sim, 5),
                            .base_sequence = a->sequence_next};
    a->number_next += b.count;
    a->sequence_next += (int32_t)b.count;
    return b;
}

static void actor_acked(struct actor *a, const struct pending *p, int64_t base_offset)
{
    sim_note(a->world->sim, "producer %u: %u-%" PRIu64 " +%u acknowledged at %u/%" PRId64,
             a->number, p->first.producer, p->first.number, p->count, p->partition, base_offset);
    ghost_acked(a->world->ghost, p->partition, base_offset, p->first, p->count);
}

static void window_answer(struct actor *a, const struct pending *p, int16_t code,
                          int64_t base_offset)
{
    struct actor_batch *b = NULL;
    for (size_t i = 0; i < a->window_count; i++) {
        if (a->window[i].first.number == p->first.number) { b = &a->window[i]; }
    }
    CHECK(b);
    if (code == CODE_NONE) {
        actor_acked(a, p, base_offset);
        b->is_acked = true;
        while (a->window_count > 0 && a->window[0].is_acked) {
            memmove(&a->window[0], &a->window[1], --a->window_count * sizeof a->window[0]);
        }
        return;
    }
    CHECKF(is_retriable(code) || (code == CODE_SEQUENCE && !p->was_head),
           "[ACT-1] producer %u: batch %" PRIu64 " is refused with %d", a->number, p->first.number,
           code);
    a->has_failed = true;
}

static void on_produced(struct actor *a, const struct pending *p, struct look *l)
{
    int64_t topics = look_int(l, 4);
    struct slice name = look_text(l);
    int64_t partitions = look_int(l, 4);
    int64_t index = look_int(l, 4);
    int16_t code = (int16_t)look_int(l, 2);
    int64_t base_offset = look_int(l, 8);
    (void)look_int(l, 8);
    (void)look_int(l, 8);
    int64_t errors = look_int(l, 4);
    for (int64_t i = 0; i < errors; i++) {
        (void)look_int(l, 4);
        (void)look_text(l);
    }
    (void)look_text(l);
    (void)look_int(l, 4);
    CHECK(topics == 1 && partitions == 1 && index == p->partition);
    CHECK(slice_eq_str(name, ACTOR_TOPIC));
    if (p->is_first) { check_prompt(a, p, p->sent_ns); }
    if (a->kind == ACTOR_IDEMPOTENT) {
        window_answer(a, p, code, base_offset);
        return;
    }
    CHECKF(code == CODE_NONE || is_retriable(code), "produce is refused with %d", code);
    if (code == CODE_NONE && a->kind != ACTOR_ONE) { actor_acked(a, p, base_offset); }
}

/* ---- InitProducerId ---- */

static void ask_id(struct actor *a)
{
    struct bytes body = {0};
    bytes_text(&body, NULL);
    bytes_int(&body, 60000, 4);
    conn_send(&a->conn, API_INIT_PID, 1, &body, &(struct pending){0});
    bytes_free(&body);
    a->is_asking_id = true;
}

static void on_id(struct actor *a, struct look *l)
{
    (void)look_int(l, 4);
    int16_t code = (int16_t)look_int(l, 2);
    int64_t id = look_int(l, 8);
    int16_t epoch = (int16_t)look_int(l, 2);
    a->is_asking_id = false;
    if (code != CODE_NONE) {
        actor_sleep(a, 100);
        return;
    }
    CHECK(id >= 0 && epoch >= 0);
    a->producer_id = id;
    a->producer_epoch = epoch;
}

/* ---- fetch ---- */

static void put_fetch(struct bytes *body, uint32_t partition, int64_t offset, uint32_t wait_ms,
                      int64_t min_bytes, int64_t max_bytes)
{
    bytes_int(body, -1, 4);
    bytes_int(body, wait_ms, 4);
    bytes_int(body, min_bytes, 4);
    bytes_int(body, max_bytes, 4);
    bytes_int(body, 0, 1);
    bytes_int(body, 0, 4);
    bytes_int(body, -1, 4);
    bytes_int(body, 1, 4);
    bytes_text(body, ACTOR_TOPIC);
    bytes_int(body, 1, 4);
    bytes_int(body, partition, 4);
    bytes_int(body, -1, 4);
    bytes_int(body, offset, 8);
    bytes_int(body, -1, 8);
    bytes_int(body, max_bytes, 4);
    bytes_int(body, 0, 4);
    bytes_text(body, "");
}

static void send_fetch(struct actor *a)
{
    static const uint32_t waits[] = {0, 50, 500};
    static const int64_t mins[] = {0, 1, 500, 5000};
    static const int64_t maxs[] = {200, 5000, 1 << 20};
    struct sim *sim = a->world->sim;
    uint32_t wait_ms = waits[sim_below(sim, COUNT_OF(waits))];
    int64_t min_bytes = mins[sim_below(sim, COUNT_OF(mins))];
    int64_t max_bytes = maxs[sim_below(sim, COUNT_OF(maxs))];
    if (a->is_auditing) {
        wait_ms = 0;
        max_bytes = 1 << 20;
    }
    int64_t wanted = min_bytes < max_bytes ? min_bytes : max_bytes;
    /* Behind another one its answer waits for that one's. */
    bool is_first = a->conn.count == 0;
    struct bytes body = {0};
    put_fetch(&body, a->partition, a->offset, wait_ms, min_bytes, max_bytes);
    struct pending note = {.partition = a->partition,
                           .offset = a->offset,
                           .hw_known = ghost_hw(a->world->ghost, a->partition),
                           .wait_ms = wait_ms,
                           .wants_bytes = is_first ? (size_t)wanted : 0,
                           .is_waiting = min_bytes > 0 && wait_ms > 0};
    conn_send(&a->conn, API_FETCH, 11, &body, &note);
    bytes_free(&body);
}

/* The next offset that can be read, behind what rot has taken. */
static int64_t after_rot(const struct actor *a, int64_t offset)
{
    while (ghost_is_lost(a->world->ghost, a->partition, offset)) {
        offset++;
    }
    return offset;
}

/* [ACT-3]; the offset to go on with. */
static int64_t take_records(struct actor *a, const struct pending *p, struct slice records,
                            int64_t hw)
{
    struct look l = {.at = records.at, .left = records.size};
    struct sim_batch b;
    int64_t next = p->offset;
    for (bool is_first = true; batch_look(&l, &b); is_first = false) {
        bool fits = is_first ? b.base_offset <= next && next < b.base_offset + b.count
                             : b.base_offset == next;
        CHECKF(fits, "[ACT-3] partition %u: batch %" PRId64 "+%u where %" PRId64 " is due",
               p->partition, b.base_offset, b.count, next);
        next = b.base_offset + b.count;
        CHECKF(next <= hw, "[ACT-3] offset %" PRId64 " is above the high watermark %" PRId64, next,
               hw);
        ghost_seen(a->world->ghost, p->partition, &b);
    }
    CHECKF(l.left == 0, "[ACT-3] %zu bytes of a batch", l.left);
    return next;
}

static void on_fetch_code(struct actor *a, const struct pending *p, int16_t code)
{
    if (ghost_is_lost(a->world->ghost, p->partition, p->offset)) {
        a->offset = after_rot(a, p->offset);
        return;
    }
    CHECKF(is_retriable(code), "fetch of %u/%" PRId64 " is refused with %d (known to %" PRId64 ")",
           p->partition, p->offset, code, p->hw_known);
    actor_sleep(a, 100);
}

static void on_fetched(struct actor *a, const struct pending *p, struct look *l)
{
    (void)look_int(l, 4);
    int16_t code = (int16_t)look_int(l, 2);
    int64_t session = look_int(l, 4);
    int64_t topics = look_int(l, 4);
    struct slice name = look_text(l);
    int64_t partitions = look_int(l, 4);
    int64_t index = look_int(l, 4);
    int16_t partition_code = (int16_t)look_int(l, 2);
    int64_t hw = look_int(l, 8);
    (void)look_int(l, 8);
    (void)look_int(l, 8);
    int64_t aborted = look_int(l, 4);
    for (int64_t i = 0; i < aborted; i++) {
        (void)look_int(l, 8);
        (void)look_int(l, 8);
    }
    (void)look_int(l, 4);
    struct slice records = look_bytes(l, look_int(l, 4));
    CHECK(code == CODE_NONE && session == 0 && topics == 1 && partitions == 1);
    CHECK(index == p->partition && slice_eq_str(name, ACTOR_TOPIC));
    a->last_code = partition_code;
    if (partition_code != CODE_NONE) {
        on_fetch_code(a, p, partition_code);
        return;
    }
    ghost_answered_hw(a->world->ghost, p->partition, hw, p->hw_known);
    uint64_t known = ghost_known_ns(a->world->ghost, p->partition, p->offset, p->wants_bytes);
    if (p->wants_bytes > 0 && known != SYS_NEVER) {
        check_prompt(a, p, known > p->sent_ns ? known : p->sent_ns);
    }
    /* With something to read an empty answer is due early too: its page went cold meanwhile. */
    if (records.size == 0 && hw <= p->offset && p->is_waiting && !a->world->is_stopping) {
        uint64_t due_ns = p->sent_ns + p->wait_ms * SYS_MS;
        CHECKF(sim_now_ns(a->world->sim) >= due_ns,
               "[ACT-2] an empty fetch of %u/%" PRId64 " (high watermark %" PRId64 ") is %" PRIu64
               " ns early",
               p->partition, p->offset, hw, due_ns - sim_now_ns(a->world->sim));
    }
    int64_t next = take_records(a, p, records, hw);
    a->offset = after_rot(a, next);
    if (a->is_auditing && a->offset >= hw) { a->is_done = true; }
}

/* ---- turns ---- */

static void on_answer(void *ctx, const struct pending *p, struct look *l)
{
    struct actor *a = ctx;
    a->answers++;
    switch (p->api) {
    case API_PRODUCE:
        on_produced(a, p, l);
        break;
    case API_FETCH:
        on_fetched(a, p, l);
        break;
    case API_INIT_PID:
        on_id(a, l);
        break;
    default: { /* ApiVersions */
        int16_t code = (int16_t)look_int(l, 2);
        int64_t count = look_int(l, 4);
        CHECK(code == CODE_NONE && count > 0);
        (void)look_bytes(l, count * 6);
        break;
    }
    }
}

static void turn_idempotent(struct actor *a)
{
    struct sim *sim = a->world->sim;
    if (a->producer_id < 0) {
        if (!a->is_asking_id) { ask_id(a); }
        return;
    }
    if (a->has_failed) {
        if (a->conn.count > 0) { return; } /* the others' answers first */
        a->has_failed = false;
        for (size_t i = 0; i < a->window_count; i++) {
            a->window[i].is_sent = false;
        }
        actor_sleep(a, 50);
        return;
    }
    for (size_t i = 0; i < a->window_count; i++) {
        if (a->window[i].is_sent || a->window[i].is_acked || !conn_has_room(&a->conn)) { continue; }
        a->window[i].is_sent = true;
        actor_send_batch(a, &a->window[i], -1, i == 0);
    }
    while (!a->world->is_draining && a->window_count < ACTOR_WINDOW && conn_has_room(&a->conn) &&
           sim_chance(sim, 500)) {
        struct actor_batch *b = &a->window[a->window_count++];
        *b = actor_new_batch(a);
        b->is_sent = true;
        actor_send_batch(a, b, -1, a->window_count == 1);
    }
    actor_sleep(a, a->world->pace_ms);
}

static void turn_plain(struct actor *a)
{
    bool is_busy = a->kind != ACTOR_ZERO && a->conn.count > 0;
    if (is_busy || a->world->is_draining || !conn_has_room(&a->conn)) { return; }
    struct actor_batch b = actor_new_batch(a);
    int16_t acks = a->kind == ACTOR_ZERO ? 0 : a->kind == ACTOR_ONE ? 1 : -1;
    actor_send_batch(a, &b, acks, true);
    actor_sleep(a, a->world->pace_ms);
}

static void turn_fetcher(struct actor *a)
{
    struct actor_world *w = a->world;
    bool may_send = a->is_auditing ? !a->is_done : !w->is_draining;
    if (a->conn.count > 0 || !may_send || !conn_has_room(&a->conn)) { return; }
    if (!a->is_auditing && sim_chance(w->sim, 50)) {
        a->partition = (uint32_t)sim_below(w->sim, w->partitions_count);
        int64_t hw = ghost_hw(w->ghost, a->partition);
        a->offset = after_rot(a, (int64_t)sim_below(w->sim, (uint64_t)hw + 1));
    }
    send_fetch(a);
}

static void turn_mixed(struct actor *a)
{
    if (a->world->is_draining) { return; }
    struct sim *sim = a->world->sim;
    for (uint64_t i = sim_below(sim, 4); i > 0 && conn_has_room(&a->conn); i--) {
        uint64_t what = sim_below(sim, 5);
        if (what < 2) {
            struct actor_batch b = actor_new_batch(a);
            actor_send_batch(a, &b, -1, true);
        } else if (what < 4) {
            send_fetch(a);
        } else {
            struct bytes none = {0};
            conn_send(&a->conn, API_VERSIONS, 0, &none, &(struct pending){0});
        }
    }
    actor_sleep(a, 50);
}

static void actor_lost_connection(struct actor *a)
{
    a->is_asking_id = a->has_failed = false;
    for (size_t i = 0; i < a->window_count; i++) {
        a->window[i].is_sent = false;
    }
    if (a->kind != ACTOR_IDEMPOTENT && a->kind != ACTOR_FETCHER) {
        ghost_break_order(a->world->ghost, (struct sim_record){a->number, a->number_next});
    }
}

void actor_turn(struct actor *a)
{
    struct actor_world *w = a->world;
    if (a->conn.stream && !conn_pump(&a->conn, on_answer, a)) {
        actor_lost_connection(a);
        actor_sleep(a, 100);
    }
    if (sim_now_ns(w->sim) < a->next_ns) { return; }
    if (!a->conn.stream) {
        if (w->port == 0 || !sim_is_up(w->host)) {
            actor_sleep(a, 20);
            return;
        }
        conn_open(&a->conn, w->sim, w->host, w->port);
        return;
    }
    switch (a->kind) {
    case ACTOR_IDEMPOTENT:
        turn_idempotent(a);
        break;
    case ACTOR_ALL:
    case ACTOR_ONE:
    case ACTOR_ZERO:
        turn_plain(a);
        break;
    case ACTOR_FETCHER:
        turn_fetcher(a);
        break;
    case ACTOR_MIXED:
        turn_mixed(a);
        break;
    }
    if (a->conn.stream && a->conn.out.size > 0 && !conn_pump(&a->conn, on_answer, a)) {
        actor_lost_connection(a);
        actor_sleep(a, 100);
    }
}

bool actor_is_quiet(const struct actor *a)
{
    if (a->is_auditing) { return a->is_done; }
    return a->conn.count == 0 && a->window_count == 0 && !a->is_asking_id;
}
