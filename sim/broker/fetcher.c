/* fetcher.c - what simulated clients fetch, and what they make of it. */
#include "actor_int.h"

/* ---- asking ---- */

static void put_part(struct bytes *body, const struct actor_world *w,
                     const struct pending_part *part, int64_t max_bytes)
{
    bytes_int(body, actor_index(w, part->partition), 4);
    bytes_int(body, -1, 4);
    bytes_int(body, part->offset, 8);
    bytes_int(body, -1, 8);
    bytes_int(body, max_bytes, 4);
}

/* In a session only what is new is named. */
static bool is_named(const struct actor *a, const struct pending_part *part, int64_t max_bytes)
{
    return a->session_id == 0 || a->session_sent[part->partition] != part->offset ||
           a->session_max[part->partition] != max_bytes;
}

static void put_parts(struct bytes *body, const struct actor *a, const struct pending *p,
                      int64_t max_bytes)
{
    uint32_t count = 0;
    for (size_t i = 0; i < p->parts_count; i++) {
        count += is_named(a, &p->parts[i], max_bytes);
    }
    bytes_int(body, count > 0, 4);
    if (count == 0) { return; }
    bytes_text(body, actor_topic(a->world, p->parts[0].partition));
    bytes_int(body, count, 4);
    for (size_t i = 0; i < p->parts_count; i++) {
        if (is_named(a, &p->parts[i], max_bytes)) {
            put_part(body, a->world, &p->parts[i], max_bytes);
        }
    }
}

static void note_part(const struct actor *a, struct pending *p, uint32_t partition, int64_t offset)
{
    const struct ghost *g = a->world->ghost;
    p->parts[p->parts_count++] = (struct pending_part){.partition = partition,
                                                       .offset = offset,
                                                       .hw_known = ghost_hw(g, partition),
                                                       .start_known = ghost_start(g, partition)};
}

static void note_parts(struct actor *a, struct pending *p)
{
    struct actor_world *w = a->world;
    if (a->kind != ACTOR_SESSION) {
        note_part(a, p, a->partition, a->offset);
        return;
    }
    for (uint32_t i = 0; i < w->partitions_count; i++) {
        note_part(a, p, i, a->session_offsets[i]);
    }
}

void fetcher_send(struct actor *a)
{
    static const uint32_t waits[] = {0, 50, 500};
    static const int64_t mins[] = {0, 1, 500, 5000};
    static const int64_t maxs[] = {200, 5000, 1 << 20};
    struct actor_world *w = a->world;
    struct sim *sim = w->sim;
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
    struct pending note = {.generation = w->volatile_generation,
                           .is_first = is_first,
                           .wait_ms = wait_ms,
                           .wants_bytes = is_first ? (size_t)wanted : 0,
                           .is_waiting = min_bytes > 0 && wait_ms > 0};
    note_parts(a, &note);
    struct bytes body = {0};
    bytes_int(&body, -1, 4);
    bytes_int(&body, wait_ms, 4);
    bytes_int(&body, min_bytes, 4);
    bytes_int(&body, max_bytes, 4);
    bytes_int(&body, 0, 1);
    bytes_int(&body, a->session_id, 4);
    bytes_int(&body, a->kind == ACTOR_SESSION ? a->session_epoch : -1, 4);
    put_parts(&body, a, &note, max_bytes);
    bytes_int(&body, 0, 4);
    bytes_text(&body, "");
    conn_send(&a->conn, API_FETCH, 11, &body, &note);
    bytes_free(&body);
    for (size_t i = 0; i < note.parts_count && a->kind == ACTOR_SESSION; i++) {
        a->session_sent[i] = note.parts[i].offset;
        a->session_max[i] = max_bytes;
    }
}

/* The next offset that can be read, behind what rot has taken. */
static int64_t after_rot(const struct actor *a, uint32_t partition, int64_t offset)
{
    while (ghost_is_lost(a->world->ghost, partition, offset)) {
        offset++;
    }
    return offset;
}

/* Elsewhere now and then: another partition, an older offset. */
static void wander(struct actor *a)
{
    struct actor_world *w = a->world;
    if (a->kind == ACTOR_SESSION) {
        uint32_t i = (uint32_t)sim_below(w->sim, w->partitions_count);
        int64_t hw = ghost_hw(w->ghost, i);
        a->session_offsets[i] = after_rot(a, i, (int64_t)sim_below(w->sim, (uint64_t)hw + 1));
        return;
    }
    a->partition = (uint32_t)sim_below(w->sim, w->partitions_count + 1);
    int64_t hw = ghost_hw(w->ghost, a->partition);
    a->offset = after_rot(a, a->partition, (int64_t)sim_below(w->sim, (uint64_t)hw + 1));
    a->offset_generation = w->volatile_generation;
}

void fetcher_turn(struct actor *a)
{
    struct actor_world *w = a->world;
    bool may_send = a->is_auditing ? !a->is_done : !w->is_draining;
    if (a->conn.count > 0 || !may_send || !conn_has_room(&a->conn)) { return; }
    if (!a->is_auditing && sim_chance(w->sim, 50)) { wander(a); }
    if (a->partition == w->partitions_count && a->offset_generation != w->volatile_generation) {
        a->offset_generation = w->volatile_generation;
        a->offset = 0;
    }
    fetcher_send(a);
}

/* ---- answers ---- */

/* [ACT-3]; the offset to go on with. */
static int64_t take_records(struct actor *a, const struct pending_part *p, struct slice records,
                            int64_t hw)
{
    struct look l = {.at = records.at, .left = records.size};
    struct sim_batch b;
    int64_t next = p->offset;
    CHECKF(records.size == 0 || p->offset >= p->start_known,
           "[GHO-7] partition %u: offset %" PRId64 " is served, it starts at %" PRId64,
           p->partition, p->offset, p->start_known);
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

static void go_on(struct actor *a, const struct pending_part *p, int64_t offset)
{
    offset = after_rot(a, p->partition, offset);
    if (a->kind == ACTOR_SESSION) {
        a->session_offsets[p->partition] = offset;
    } else {
        a->offset = offset;
    }
}

static void take_code(struct actor *a, const struct pending_part *p, int16_t code)
{
    const struct ghost *g = a->world->ghost;
    if (ghost_is_lost(g, p->partition, p->offset)) {
        go_on(a, p, p->offset);
        return;
    }
    if (code == CODE_OUT_OF_RANGE && p->offset < ghost_asked(g, p->partition)) {
        go_on(a, p, ghost_asked(g, p->partition));
        return;
    }
    CHECKF(actor_is_retriable(code),
           "fetch of %u/%" PRId64 " is refused with %d (known to %" PRId64 ")", p->partition,
           p->offset, code, p->hw_known);
    actor_sleep(a, 100);
}

/* What one partition of an answer says. True: it has something to tell. */
static bool take_part(struct actor *a, const struct pending_part *p, bool is_stale, struct look *l)
{
    int16_t code = (int16_t)look_int(l, 2);
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
    if (is_stale) { return true; }
    a->last_code = code;
    if (code != CODE_NONE) {
        take_code(a, p, code);
        return true;
    }
    ghost_answered_hw(a->world->ghost, p->partition, hw, p->hw_known);
    go_on(a, p, take_records(a, p, records, hw));
    if (a->is_auditing && a->offset >= hw) { a->is_done = true; }
    /* With something to read an empty answer is due early too: its page went cold meanwhile. */
    return records.size > 0 || hw > p->offset;
}

static const struct pending_part *find_part(const struct actor *a, const struct pending *p,
                                            struct slice topic, int64_t index)
{
    for (size_t i = 0; i < p->parts_count; i++) {
        uint32_t partition = p->parts[i].partition;
        if (index == actor_index(a->world, partition) &&
            slice_eq_str(topic, actor_topic(a->world, partition))) {
            return &p->parts[i];
        }
    }
    CHECKF(false, "an answer for partition %" PRId64 ", which was not asked for", index);
    return NULL;
}

/* The deletion ends it. One that comes in only when the next topic of the name is there waits for
 * that one instead: it was on its way for as long as an answer may be late. */
static bool is_of_the_deleted(const struct actor_world *w, const struct pending *p)
{
    return p->is_first && w->volatile_gone_ns > p->sent_ns &&
           (w->volatile_back_ns < w->volatile_gone_ns ||
            w->volatile_back_ns > p->sent_ns + w->patience_ns);
}

/* Since when the answer could have been there: enough bytes in one partition, or a deletion. */
static uint64_t due_since(const struct actor *a, const struct pending *p, bool is_stale)
{
    const struct actor_world *w = a->world;
    if (is_stale) { return is_of_the_deleted(w, p) ? w->volatile_gone_ns : SYS_NEVER; }
    uint64_t since = SYS_NEVER;
    for (size_t i = 0; i < p->parts_count && p->wants_bytes > 0; i++) {
        const struct pending_part *part = &p->parts[i];
        uint64_t known = ghost_known_ns(w->ghost, part->partition, part->offset, p->wants_bytes);
        if (known < since) { since = known; }
    }
    return since;
}

static void take_session(struct actor *a, int16_t code, int32_t id)
{
    if (a->kind != ACTOR_SESSION) {
        CHECK(code == CODE_NONE && id == 0);
        return;
    }
    CHECKF(code == CODE_NONE || (code == CODE_NO_SESSION && a->session_id != 0),
           "a fetch in a session is refused with %d", code);
    CHECKF(code != CODE_NONE || a->session_id == 0 || id == a->session_id,
           "the answer is of session %d instead of %d", id, a->session_id);
    a->session_id = code == CODE_NONE ? id : 0;
    a->session_epoch = a->session_id ? a->session_epoch + 1 : 0;
}

void fetcher_answer(struct actor *a, const struct pending *p, struct look *l)
{
    (void)look_int(l, 4);
    int16_t code = (int16_t)look_int(l, 2);
    int32_t session_id = (int32_t)look_int(l, 4);
    take_session(a, code, session_id);
    bool is_stale = actor_is_stale(a->world, p->parts[0].partition, p->generation);
    uint64_t since = due_since(a, p, is_stale);
    bool is_empty = code == CODE_NONE;
    for (int64_t t = look_int(l, 4); t > 0 && !l->bad; t--) {
        struct slice topic = look_text(l);
        for (int64_t k = look_int(l, 4); k > 0 && !l->bad; k--) {
            const struct pending_part *part = find_part(a, p, topic, look_int(l, 4));
            is_empty &= !take_part(a, part, is_stale, l);
        }
    }
    for (size_t i = 0; i < p->parts_count; i++) { /* not named, since nothing is new: cold */
        is_empty &= p->parts[i].offset >= ghost_hw(a->world->ghost, p->parts[i].partition);
    }
    if (since != SYS_NEVER) { actor_check_prompt(a, p, since > p->sent_ns ? since : p->sent_ns); }
    if (is_empty && p->is_waiting && !a->world->is_stopping) {
        uint64_t due_ns = p->sent_ns + p->wait_ms * SYS_MS;
        CHECKF(sim_now_ns(a->world->sim) >= due_ns,
               "[ACT-2] an empty fetch of %u/%" PRId64 " is %" PRIu64 " ns early",
               p->parts[0].partition, p->parts[0].offset, due_ns - sim_now_ns(a->world->sim));
    }
}
