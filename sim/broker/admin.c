/* admin.c - a client that deletes records, and a topic that it creates again. */
#include "actor_int.h"

static void set_state(struct actor_world *w, enum topic_state state)
{
    w->volatile_state = state;
    w->volatile_generation++;
}

/* Also again, when an answer was lost or said no. */
static void send_create(struct actor *a)
{
    struct bytes b = {0};
    bytes_int(&b, 1, 4);
    bytes_text(&b, ACTOR_VOLATILE);
    bytes_int(&b, 1, 4);
    bytes_int(&b, 1, 2);
    bytes_int(&b, 0, 4);
    bytes_int(&b, 1, 4);
    bytes_text(&b, "segment.index.bytes");
    bytes_text(&b, "96");
    bytes_int(&b, 30000, 4);
    bytes_int(&b, 0, 1);
    conn_send(&a->conn, API_CREATE_TOPICS, 4, &b, &(struct pending){0});
    bytes_free(&b);
}

static void send_delete(struct actor *a)
{
    struct bytes b = {0};
    bytes_int(&b, 1, 4);
    bytes_text(&b, ACTOR_VOLATILE);
    bytes_int(&b, 30000, 4);
    conn_send(&a->conn, API_DELETE_TOPICS, 1, &b, &(struct pending){0});
    bytes_free(&b);
}

static void send_delete_records(struct actor *a)
{
    struct actor_world *w = a->world;
    uint32_t partition = (uint32_t)sim_below(w->sim, w->partitions_count);
    int64_t hw = ghost_hw(w->ghost, partition), asked = ghost_asked(w->ghost, partition);
    int64_t offset = asked + (int64_t)sim_below(w->sim, (uint64_t)(hw - asked) + 1);
    ghost_ask_start(w->ghost, partition, offset);
    struct bytes b = {0};
    bytes_int(&b, 1, 4);
    bytes_text(&b, ACTOR_TOPIC);
    bytes_int(&b, 1, 4);
    bytes_int(&b, partition, 4);
    bytes_int(&b, offset, 8);
    bytes_int(&b, 30000, 4);
    struct pending note = {.partition = partition, .offset = offset, .is_first = true};
    conn_send(&a->conn, API_DELETE_RECORDS, 1, &b, &note);
    bytes_free(&b);
}

void admin_turn(struct actor *a)
{
    struct actor_world *w = a->world;
    if (a->conn.count > 0 || !conn_has_room(&a->conn)) { return; }
    if (w->volatile_state == TOPIC_CREATING) {
        send_create(a);
    } else if (w->volatile_state == TOPIC_DELETING) {
        send_delete(a);
    } else if (!w->is_draining && sim_chance(w->sim, 300)) {
        send_delete_records(a);
    } else if (!w->is_draining) {
        bool is_gone = w->volatile_state == TOPIC_GONE;
        if (is_gone) { w->volatile_back_ns = sim_now_ns(w->sim); }
        set_state(w, is_gone ? TOPIC_CREATING : TOPIC_DELETING);
        return;
    }
    actor_sleep(a, 10 * w->pace_ms);
}

bool admin_is_quiet(const struct actor *a)
{
    enum topic_state state = a->world->volatile_state;
    return state == TOPIC_GONE || state == TOPIC_STABLE;
}

static void on_records_deleted(struct actor *a, const struct pending *p, struct look *l)
{
    (void)look_int(l, 4);
    (void)look_int(l, 4);
    struct slice name = look_text(l);
    (void)look_int(l, 4);
    int64_t index = look_int(l, 4), start = look_int(l, 8);
    int16_t code = (int16_t)look_int(l, 2);
    CHECK(slice_eq_str(name, ACTOR_TOPIC) && index == p->partition);
    CHECKF(code == CODE_NONE || actor_is_retriable(code), "DeleteRecords is refused with %d", code);
    if (code == CODE_NONE) {
        sim_note(a->world->sim, "partition %u starts at %" PRId64, p->partition, start);
        CHECK(start >= p->offset);
        ghost_answered_start(a->world->ghost, p->partition, start);
        actor_check_prompt(a, p, p->sent_ns);
    }
}

void admin_answer(struct actor *a, const struct pending *p, struct look *l)
{
    struct actor_world *w = a->world;
    if (p->api == API_DELETE_RECORDS) {
        on_records_deleted(a, p, l);
        return;
    }
    (void)look_int(l, 4);
    (void)look_int(l, 4);
    struct slice name = look_text(l);
    int16_t code = (int16_t)look_int(l, 2);
    if (p->api == API_CREATE_TOPICS) { (void)look_text(l); }
    CHECK(slice_eq_str(name, ACTOR_VOLATILE));
    sim_note(w->sim, "%s of the volatile topic: %d",
             p->api == API_CREATE_TOPICS ? "creation" : "deletion", code);
    if (p->api == API_CREATE_TOPICS && (code == CODE_NONE || code == CODE_EXISTS)) {
        set_state(w, TOPIC_STABLE);
    } else if (p->api == API_DELETE_TOPICS && (code == CODE_NONE || code == CODE_UNKNOWN_TOPIC)) {
        ghost_forget(w->ghost, w->partitions_count);
        w->volatile_gone_ns = sim_now_ns(w->sim);
        set_state(w, TOPIC_GONE);
    }
}
