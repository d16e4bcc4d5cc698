/* fetch_session.c - the cache of incremental fetch sessions. */
#include "api/fetch_session.h"

#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"

#define FETCH_SESSION_EVICT_NS (120000 * SYS_MS)
#define FETCH_KEY_SIZE_MAX 300

struct session_partition {
    struct list node; /* in the session's order */
    struct fetch_want want; /* topic points behind the struct */
    int64_t sent_hw, sent_start; /* -1: nothing sent yet, or an error */
    char name[];
};

struct fetch_session {
    struct list node; /* by last use, oldest first */
    int32_t id;
    int32_t epoch; /* the next request's */
    bool by_id;
    uint64_t used_ns;
    struct map partitions; /* key -> struct session_partition */
    struct list order;
};

struct fetch_sessions {
    struct sys *sys;
    struct sys_mutex lock; /* guards all below */
    struct map by_number;
    struct list by_use;
    size_t sessions_max;
};

static struct slice want_key(const struct fetch_want *w, uint8_t buf[FETCH_KEY_SIZE_MAX])
{
    struct slice topic = uuid_is_zero(w->id) ? w->topic : slice_of(w->id.b, sizeof w->id.b);
    size_t n = topic.size > FETCH_KEY_SIZE_MAX - 4 ? FETCH_KEY_SIZE_MAX - 4 : topic.size;
    if (n) { memcpy(buf, topic.at, n); }
    memcpy(buf + n, &w->index, 4);
    return slice_of(buf, n + 4);
}

static struct slice session_key(const int32_t *id)
{
    return slice_of(id, sizeof *id);
}

static void session_destroy(struct fetch_session *s)
{
    if (!s) { return; }
    while (!list_is_empty(&s->order)) {
        mem_free(LIST_ENTRY(list_pop_head(&s->order), struct session_partition, node));
    }
    map_fini(&s->partitions);
    mem_free(s);
}

static void session_remove(struct fetch_sessions *all, struct fetch_session *s)
{
    map_remove(&all->by_number, session_key(&s->id));
    list_remove(&s->node);
    session_destroy(s);
}

struct fetch_sessions *fetch_sessions_create(struct sys *sys, size_t sessions_max)
{
    struct fetch_sessions *s = mem_new(struct fetch_sessions);
    if (!s) { return NULL; }
    s->sys = sys;
    s->sessions_max = sessions_max;
    sys_mutex_init(&s->lock, SYS_RANK_LEAF);
    map_init(&s->by_number);
    list_init(&s->by_use);
    return s;
}

void fetch_sessions_destroy(struct fetch_sessions *s)
{
    if (!s) { return; }
    while (!list_is_empty(&s->by_use)) {
        session_remove(s, LIST_ENTRY(s->by_use.next, struct fetch_session, node));
    }
    map_fini(&s->by_number);
    sys_mutex_fini(&s->lock);
    mem_free(s);
}

size_t fetch_sessions_count(struct fetch_sessions *s)
{
    sys_mutex_lock(&s->lock);
    size_t count = s->by_number.count;
    sys_mutex_unlock(&s->lock);
    return count;
}

/* ---- changing a session ---- */

static bool session_put(struct fetch_session *s, const struct fetch_want *want)
{
    uint8_t buf[FETCH_KEY_SIZE_MAX];
    struct slice key = want_key(want, buf);
    struct session_partition *p = map_get(&s->partitions, key);
    if (p) {
        struct slice topic = p->want.topic;
        p->want = *want;
        p->want.topic = topic;
        return true;
    }
    if (s->partitions.count >= FETCH_SESSION_PARTITIONS_MAX) { return false; }
    p = mem_alloc(sizeof *p + want->topic.size);
    if (!p) { return false; }
    p->want = *want;
    if (want->topic.size) { memcpy(p->name, want->topic.at, want->topic.size); }
    p->want.topic = want->topic.at ? slice_of(p->name, want->topic.size) : SLICE_NULL;
    p->sent_hw = p->sent_start = -1;
    if (map_put(&s->partitions, key, p, NULL)) {
        mem_free(p);
        return false;
    }
    list_add_tail(&s->order, &p->node);
    return true;
}

static void session_forget(struct fetch_session *s, const struct fetch_request *m)
{
    uint8_t buf[FETCH_KEY_SIZE_MAX];
    for (size_t i = 0; i < m->forgotten_topics_data_count; i++) {
        const struct fetch_request_forgotten_topic *t = &m->forgotten_topics_data[i];
        for (size_t k = 0; k < t->partitions_count; k++) {
            struct fetch_want want = {.topic = t->topic, .id = t->topic_id};
            want.index = t->partitions[k];
            struct session_partition *p = map_remove(&s->partitions, want_key(&want, buf));
            if (!p) { continue; }
            list_remove(&p->node);
            mem_free(p);
        }
    }
}

static struct fetch_want want_of(const struct fetch_request_fetch_topic *t,
                                 const struct fetch_request_fetch_partition *p)
{
    return (struct fetch_want){.topic = t->topic,
                               .id = t->topic_id,
                               .offset = p->fetch_offset,
                               .index = p->partition,
                               .bytes_max = p->partition_max_bytes,
                               .current_leader_epoch = p->current_leader_epoch,
                               .last_fetched_epoch = p->last_fetched_epoch};
}

static bool session_take_topics(struct fetch_session *s, const struct fetch_request *m)
{
    for (size_t i = 0; i < m->topics_count; i++) {
        for (size_t k = 0; k < m->topics[i].partitions_count; k++) {
            struct fetch_want want = want_of(&m->topics[i], &m->topics[i].partitions[k]);
            if (!session_put(s, &want)) { return false; }
        }
    }
    return true;
}

/* ---- listing what is wanted ---- */

/* Copies a want; its name is shared with the one before when it is the same. */
static bool context_add(struct fetch_context *out, const struct fetch_want *want,
                        struct arena *arena)
{
    struct fetch_want *w = &out->wants[out->wants_count];
    *w = *want;
    if (want->topic.at) {
        const struct fetch_want *before = out->wants_count ? w - 1 : NULL;
        if (before && slice_eq(before->topic, want->topic)) {
            w->topic = before->topic;
        } else {
            char *copy = arena_strndup(arena, want->topic.at, want->topic.size);
            if (!copy) { return false; }
            w->topic = slice_of(copy, want->topic.size);
        }
    }
    out->wants_count++;
    return true;
}

static bool context_from_request(struct fetch_context *out, const struct fetch_request *m,
                                 struct arena *arena)
{
    size_t count = 0;
    for (size_t i = 0; i < m->topics_count; i++) {
        count += m->topics[i].partitions_count;
    }
    out->wants = arena_array(arena, count, sizeof *out->wants);
    if (!out->wants) { return false; }
    for (size_t i = 0; i < m->topics_count; i++) {
        for (size_t k = 0; k < m->topics[i].partitions_count; k++) {
            struct fetch_want want = want_of(&m->topics[i], &m->topics[i].partitions[k]);
            if (!context_add(out, &want, arena)) { return false; }
        }
    }
    return true;
}

static bool context_from_session(struct fetch_context *out, struct fetch_session *s,
                                 struct arena *arena)
{
    out->wants = arena_array(arena, s->partitions.count, sizeof *out->wants);
    if (!out->wants) { return false; }
    for (struct list *n = s->order.next; n != &s->order; n = n->next) {
        const struct session_partition *p = CONTAINER_OF(n, struct session_partition, node);
        if (!context_add(out, &p->want, arena)) { return false; }
    }
    return true;
}

/* ---- begin ---- */

/* Room for one more: a session that nobody used for long makes it. */
static bool sessions_make_room(struct fetch_sessions *all, uint64_t now_ns)
{
    if (all->by_number.count < all->sessions_max) { return true; }
    if (list_is_empty(&all->by_use)) { return false; }
    struct fetch_session *oldest = LIST_ENTRY(all->by_use.next, struct fetch_session, node);
    if (now_ns - oldest->used_ns < FETCH_SESSION_EVICT_NS) { return false; }
    session_remove(all, oldest);
    return true;
}

/* A new session with the request's partitions; NULL when there is no room or memory: the fetch goes
 * on without. */
static struct fetch_session *session_create(struct fetch_sessions *all,
                                            const struct fetch_request *m, int16_t version,
                                            uint64_t now_ns)
{
    if (!sessions_make_room(all, now_ns)) { return NULL; }
    struct fetch_session *s = mem_new(struct fetch_session);
    if (!s) { return NULL; }
    map_init(&s->partitions);
    list_init(&s->order);
    list_init(&s->node);
    s->by_id = version >= 13;
    s->epoch = 1;
    s->used_ns = now_ns;
    do {
        s->id = (int32_t)(sys_random_u64(all->sys) & INT32_MAX);
    } while (s->id == 0 || map_get(&all->by_number, session_key(&s->id)));
    if (!session_take_topics(s, m) ||
        map_put(&all->by_number, session_key(&s->id), s, NULL) != ERR_OK) {
        session_destroy(s);
        return NULL;
    }
    list_add_tail(&all->by_use, &s->node);
    return s;
}

static enum kafka_error begin_full(struct fetch_sessions *all, const struct fetch_request *m,
                                   int16_t version, uint64_t now_ns, struct arena *arena,
                                   struct fetch_context *out, bool *out_of_memory)
{
    struct fetch_session *old = map_get(&all->by_number, session_key(&m->session_id));
    if (old) { session_remove(all, old); }
    if (m->session_epoch == 0) {
        struct fetch_session *s = session_create(all, m, version, now_ns);
        out->session_id = s ? s->id : 0;
    }
    *out_of_memory = !context_from_request(out, m, arena);
    return KAFKA_NONE;
}

static enum kafka_error begin_incremental(struct fetch_sessions *all, const struct fetch_request *m,
                                          int16_t version, uint64_t now_ns, struct arena *arena,
                                          struct fetch_context *out, bool *out_of_memory)
{
    struct fetch_session *s = map_get(&all->by_number, session_key(&m->session_id));
    if (!s) { return KAFKA_FETCH_SESSION_ID_NOT_FOUND; }
    if (m->session_epoch != s->epoch) { return KAFKA_INVALID_FETCH_SESSION_EPOCH; }
    if (s->by_id != (version >= 13)) { return KAFKA_FETCH_SESSION_TOPIC_ID_ERROR; }
    s->epoch = fetch_session_next_epoch(s->epoch);
    s->used_ns = now_ns;
    list_remove(&s->node);
    list_add_tail(&all->by_use, &s->node);
    session_forget(s, m);
    out->is_incremental = true;
    out->session_id = s->id;
    if (!session_take_topics(s, m) || !context_from_session(out, s, arena)) {
        session_remove(all, s);
        *out_of_memory = true;
    }
    return KAFKA_NONE;
}

enum kafka_error fetch_session_begin(struct fetch_sessions *s, const struct fetch_request *m,
                                     int16_t version, uint64_t now_ns, struct arena *arena,
                                     struct fetch_context *out, bool *out_of_memory)
{
    *out = (struct fetch_context){0};
    *out_of_memory = false;
    if (version < 7 || (m->session_epoch == -1 && m->session_id == 0)) {
        *out_of_memory = !context_from_request(out, m, arena);
        return KAFKA_NONE;
    }
    sys_mutex_lock(&s->lock);
    enum kafka_error error =
        m->session_epoch <= 0 ? begin_full(s, m, version, now_ns, arena, out, out_of_memory)
                              : begin_incremental(s, m, version, now_ns, arena, out, out_of_memory);
    sys_mutex_unlock(&s->lock);
    return error;
}

/* ---- sent ---- */

bool fetch_session_sent(struct fetch_sessions *all, const struct fetch_context *context,
                        const struct fetch_want *want, const struct fetch_sent *sent)
{
    if (context->session_id == 0) { return true; }
    uint8_t buf[FETCH_KEY_SIZE_MAX];
    bool is_shown = !context->is_incremental;
    sys_mutex_lock(&all->lock);
    struct fetch_session *s = map_get(&all->by_number, session_key(&context->session_id));
    struct session_partition *p = s ? map_get(&s->partitions, want_key(want, buf)) : NULL;
    if (!p) { is_shown = true; } /* the session went meanwhile */
    if (p) {
        is_shown = is_shown || sent->error || sent->has_records || sent->has_divergence ||
                   sent->hw != p->sent_hw || sent->log_start != p->sent_start;
        /* After an error the next answer without one is shown, whatever the watermark is. */
        p->sent_hw = sent->error ? -1 : sent->hw;
        p->sent_start = sent->error ? -1 : sent->log_start;
        if (sent->has_records) { /* others come first next time, so that none starves */
            list_remove(&p->node);
            list_add_tail(&s->order, &p->node);
        }
    }
    sys_mutex_unlock(&all->lock);
    return is_shown;
}
