/* actor.c - what simulated clients send, and what they make of the answers. */
#include "actor_int.h"

void actor_init(struct actor *a, struct actor_world *w, enum actor_kind kind, uint32_t number)
{
    *a = (struct actor){.world = w, .kind = kind, .number = number, .producer_id = -1};
    a->partition = (uint32_t)sim_below(w->sim, w->partitions_count);
    CHECK(number < GHOST_PRODUCERS_MAX);
}

void actor_fini(struct actor *a)
{
    conn_fini(&a->conn);
}

void actor_sleep(struct actor *a, uint64_t max_ms)
{
    struct sim *sim = a->world->sim;
    a->next_ns = sim_now_ns(sim) + 1 + sim_below(sim, max_ms * SYS_MS);
}

bool actor_is_retriable(int16_t code)
{
    return code == CODE_UNKNOWN_TOPIC || code == CODE_NOT_LEADER || code == CODE_TIMED_OUT ||
           code == CODE_STORAGE;
}

/* Nothing made this answer late: no fault since the request, none before it on its connection. */
void actor_check_prompt(const struct actor *a, const struct pending *p, uint64_t since_ns)
{
    uint64_t late = sim_now_ns(a->world->sim) - since_ns;
    CHECKF(a->world->troubled_ns >= p->sent_ns || late <= a->world->patience_ns,
           "[ACT-4] the answer to request %d of api %d is %" PRIu64 " ns late", p->correlation,
           p->api, late);
}

const char *actor_topic(const struct actor_world *w, uint32_t partition)
{
    return partition < w->partitions_count ? ACTOR_TOPIC : ACTOR_VOLATILE;
}

uint32_t actor_index(const struct actor_world *w, uint32_t partition)
{
    return partition < w->partitions_count ? partition : 0;
}

bool actor_is_stale(const struct actor_world *w, uint32_t partition, uint32_t generation)
{
    return partition == w->partitions_count &&
           (generation != w->volatile_generation || w->volatile_state != TOPIC_STABLE);
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
    bytes_text(body, actor_topic(a->world, b->partition));
    bytes_int(body, 1, 4);
    bytes_int(body, actor_index(a->world, b->partition), 4);
    bytes_int(body, (int64_t)records.size, 4);
    bytes_put(body, records.at, records.size);
    bytes_free(&records);
}

static void actor_send_batch(struct actor *a, const struct actor_batch *b, int16_t acks,
                             bool was_head)
{
    struct bytes body = {0};
    put_produce(&body, a, b, acks);
    struct pending note = {.partition = b->partition,
                           .generation = a->world->volatile_generation,
                           .first = b->first,
                           .count = b->count,
                           .was_head = was_head,
                           .is_first = a->conn.count == 0};
    conn_send(&a->conn, API_PRODUCE, 8, &body, acks == 0 ? NULL : &note);
    bytes_free(&body);
}

static struct actor_batch actor_new_batch(struct actor *a)
{
    struct actor_world *w = a->world;
    bool is_volatile = a->kind != ACTOR_IDEMPOTENT && sim_chance(w->sim, 250);
    struct actor_batch b = {.partition = is_volatile ? w->partitions_count : a->partition,
                            .first = {a->number, a->number_next},
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
    CHECKF(actor_is_retriable(code) || (code == CODE_SEQUENCE && !p->was_head),
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
    CHECK(topics == 1 && partitions == 1 && index == actor_index(a->world, p->partition));
    CHECK(slice_eq_str(name, actor_topic(a->world, p->partition)));
    if (p->is_first) { actor_check_prompt(a, p, p->sent_ns); }
    if (actor_is_stale(a->world, p->partition, p->generation)) { return; }
    if (a->kind == ACTOR_IDEMPOTENT) {
        window_answer(a, p, code, base_offset);
        return;
    }
    CHECKF(code == CODE_NONE || actor_is_retriable(code), "produce is refused with %d", code);
    bool is_promise = a->kind != ACTOR_ONE || a->world->keeps_acks_one;
    if (code == CODE_NONE && is_promise) { actor_acked(a, p, base_offset); }
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
        fetcher_answer(a, p, l);
        break;
    case API_INIT_PID:
        on_id(a, l);
        break;
    case API_CREATE_TOPICS:
    case API_DELETE_TOPICS:
    case API_DELETE_RECORDS:
        admin_answer(a, p, l);
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
            fetcher_send(a);
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
    a->session_id = a->session_epoch = 0;
    for (size_t i = 0; i < a->window_count; i++) {
        a->window[i].is_sent = false;
    }
    if (a->kind != ACTOR_IDEMPOTENT) {
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
    case ACTOR_SESSION:
        fetcher_turn(a);
        break;
    case ACTOR_ADMIN:
        admin_turn(a);
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
    if (a->kind == ACTOR_ADMIN && !admin_is_quiet(a)) { return false; }
    return a->conn.count == 0 && a->window_count == 0 && !a->is_asking_id;
}
