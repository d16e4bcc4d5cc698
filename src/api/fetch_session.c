/* fetch_session.c - the cache of incremental fetch sessions.
 *
 * Ownership: the cache has one reference of each session in it, and each call that works on one
 *            has another; the last one frees it. */
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
    int32_t id;
    bool by_id;
    _Atomic int refs;
    _Atomic size_t *total; /* the cache's, of all partitions */
    /* Guarded by the cache's lock. */
    struct list node; /* by last use, oldest first; alone once it left the cache */
    uint64_t used_ns;
    /* Guarded by lock. */
    struct sys_mutex lock;
    int32_t epoch; /* the next request's */
    struct map partitions; /* key -> struct session_partition */
    struct list order;
};

struct fetch_sessions {
    struct sys *sys;
    size_t sessions_max;
    _Atomic size_t total; /* partitions of all sessions; no more than a bound: relaxed */
    struct sys_mutex lock; /* guards all below */
    struct map by_number;
    struct list by_use;
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

static void session_drop(struct fetch_session *s, struct session_partition *p)
{
    list_remove(&p->node);
    mem_free(p);
    atomic_fetch_sub_explicit(s->total, 1, memory_order_relaxed);
}

static void session_unref(struct fetch_session *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) { return; }
    while (!list_is_empty(&s->order)) {
        session_drop(s, LIST_ENTRY(s->order.next, struct session_partition, node));
    }
    map_fini(&s->partitions);
    sys_mutex_fini(&s->lock);
    mem_free(s);
}

/* Takes it out of the cache, unless somebody did already. */
static void session_remove(struct fetch_sessions *all, struct fetch_session *s) HOLDS(all->lock)
{
    if (map_get(&all->by_number, session_key(&s->id)) != s) { return; }
    map_remove(&all->by_number, session_key(&s->id));
    list_remove(&s->node);
    session_unref(s);
}

/* A reference, or NULL. */
static struct fetch_session *session_find(struct fetch_sessions *all, int32_t id)
{
    sys_mutex_lock(&all->lock);
    struct fetch_session *s = map_get(&all->by_number, session_key(&id));
    if (s) { atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed); }
    sys_mutex_unlock(&all->lock);
    return s;
}

static void session_close(struct fetch_sessions *all, struct fetch_session *s)
{
    sys_mutex_lock(&all->lock);
    session_remove(all, s);
    sys_mutex_unlock(&all->lock);
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
    sys_mutex_lock(&s->lock);
    while (!list_is_empty(&s->by_use)) {
        session_remove(s, LIST_ENTRY(s->by_use.next, struct fetch_session, node));
    }
    sys_mutex_unlock(&s->lock);
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

size_t fetch_sessions_partitions(struct fetch_sessions *s)
{
    return atomic_load_explicit(&s->total, memory_order_relaxed);
}

/* ---- changing a session ---- */

/* False without memory or above a bound. */
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
    size_t total = atomic_load_explicit(s->total, memory_order_relaxed);
    if (s->partitions.count >= FETCH_SESSION_PARTITIONS_MAX ||
        total >= FETCH_SESSIONS_PARTITIONS_MAX) {
        return false;
    }
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
    atomic_fetch_add_explicit(s->total, 1, memory_order_relaxed);
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
            if (p) { session_drop(s, p); }
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
            arena->limit += want->topic.size + 32;
            char *copy = arena_strndup(arena, want->topic.at, want->topic.size);
            if (!copy) { return false; }
            w->topic = slice_of(copy, want->topic.size);
        }
    }
    out->wants_count++;
    return true;
}

static size_t wants_count(const struct fetch_request *m)
{
    size_t count = 0;
    for (size_t i = 0; i < m->topics_count; i++) {
        count += m->topics[i].partitions_count;
    }
    return count;
}

size_t fetch_session_wants(struct fetch_sessions *all, const struct fetch_request *m)
{
    size_t count = wants_count(m);
    struct fetch_session *s = m->session_epoch > 0 ? session_find(all, m->session_id) : NULL;
    if (!s) { return count; }
    sys_mutex_lock(&s->lock);
    count += s->partitions.count;
    sys_mutex_unlock(&s->lock);
    session_unref(s);
    return count;
}

static bool context_make_room(struct fetch_context *out, size_t count, struct arena *arena)
{
    arena->limit += count * sizeof *out->wants + 64;
    out->wants = arena_array(arena, count, sizeof *out->wants);
    return out->wants != NULL;
}

static bool context_from_request(struct fetch_context *out, const struct fetch_request *m,
                                 struct arena *arena)
{
    if (!arena) { return true; }
    if (!context_make_room(out, wants_count(m), arena)) { return false; }
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
    if (!arena) { return true; }
    if (!context_make_room(out, s->partitions.count, arena)) { return false; }
    for (struct list *n = s->order.next; n != &s->order; n = n->next) {
        const struct session_partition *p = CONTAINER_OF(n, struct session_partition, node);
        if (!context_add(out, &p->want, arena)) { return false; }
    }
    return true;
}

/* ---- begin ---- */

/* Room for one more of so many partitions: sessions that nobody used for long make it. */
static bool sessions_make_room(struct fetch_sessions *all, size_t count, uint64_t now_ns)
    HOLDS(all->lock)
{
    while (all->by_number.count >= all->sessions_max ||
           fetch_sessions_partitions(all) + count > FETCH_SESSIONS_PARTITIONS_MAX) {
        if (list_is_empty(&all->by_use)) { return false; }
        struct fetch_session *oldest = LIST_ENTRY(all->by_use.next, struct fetch_session, node);
        /* Another thread's clock may be a little ahead. */
        if (now_ns < oldest->used_ns + FETCH_SESSION_EVICT_NS) { return false; }
        session_remove(all, oldest);
    }
    return true;
}

/* Puts a new session into the cache under a free number. False: no room or memory. */
static bool session_publish(struct fetch_sessions *all, struct fetch_session *s, uint64_t now_ns)
{
    sys_mutex_lock(&all->lock);
    bool is_in = sessions_make_room(all, 0, now_ns);
    while (is_in && (s->id == 0 || map_get(&all->by_number, session_key(&s->id)))) {
        s->id = (int32_t)(sys_random_u64(all->sys) & INT32_MAX);
    }
    is_in = is_in && map_put(&all->by_number, session_key(&s->id), s, NULL) == ERR_OK;
    if (is_in) { list_add_tail(&all->by_use, &s->node); }
    sys_mutex_unlock(&all->lock);
    return is_in;
}

/* The number of a new session with the request's partitions; 0 when there is no room or memory: the
 * fetch goes on without. */
static int32_t session_create(struct fetch_sessions *all, const struct fetch_request *m,
                              int16_t version, uint64_t now_ns)
{
    sys_mutex_lock(&all->lock);
    bool has_room = sessions_make_room(all, wants_count(m), now_ns);
    sys_mutex_unlock(&all->lock);
    struct fetch_session *s = has_room ? mem_new(struct fetch_session) : NULL;
    if (!s) { return 0; }
    map_init(&s->partitions);
    list_init(&s->order);
    list_init(&s->node);
    sys_mutex_init(&s->lock, SYS_RANK_LEAF);
    atomic_init(&s->refs, 1);
    s->total = &all->total;
    s->by_id = version >= 13;
    s->epoch = 1;
    s->used_ns = now_ns;
    int32_t id = 0;
    if (session_take_topics(s, m) && session_publish(all, s, now_ns)) {
        id = s->id;
    } else {
        session_unref(s);
    }
    return id;
}

static enum kafka_error begin_full(struct fetch_sessions *all, const struct fetch_request *m,
                                   int16_t version, uint64_t now_ns, struct arena *arena,
                                   struct fetch_context *out, bool *out_of_memory)
{
    struct fetch_session *old = session_find(all, m->session_id);
    if (old) { session_close(all, old); }
    session_unref(old);
    if (m->session_epoch == 0 && arena) {
        out->session_id = session_create(all, m, version, now_ns);
    }
    *out_of_memory = !context_from_request(out, m, arena);
    return KAFKA_NONE;
}

static enum kafka_error session_step(struct fetch_session *s, const struct fetch_request *m,
                                     int16_t version, struct arena *arena,
                                     struct fetch_context *out, bool *out_of_memory) HOLDS(s->lock)
{
    if (m->session_epoch != s->epoch) { return KAFKA_INVALID_FETCH_SESSION_EPOCH; }
    if (s->by_id != (version >= 13)) { return KAFKA_FETCH_SESSION_TOPIC_ID_ERROR; }
    s->epoch = fetch_session_next_epoch(s->epoch);
    session_forget(s, m);
    out->is_incremental = true;
    out->session_id = s->id;
    *out_of_memory = !session_take_topics(s, m) || !context_from_session(out, s, arena);
    return KAFKA_NONE;
}

static enum kafka_error begin_incremental(struct fetch_sessions *all, const struct fetch_request *m,
                                          int16_t version, uint64_t now_ns, struct arena *arena,
                                          struct fetch_context *out, bool *out_of_memory)
{
    struct fetch_session *s = session_find(all, m->session_id);
    if (!s) { return KAFKA_FETCH_SESSION_ID_NOT_FOUND; }
    sys_mutex_lock(&s->lock);
    enum kafka_error error = session_step(s, m, version, arena, out, out_of_memory);
    sys_mutex_unlock(&s->lock);
    sys_mutex_lock(&all->lock);
    if (*out_of_memory) {
        session_remove(all, s);
    } else if (!error && !list_is_empty(&s->node)) { /* still in the cache */
        s->used_ns = now_ns;
        list_remove(&s->node);
        list_add_tail(&all->by_use, &s->node);
    }
    sys_mutex_unlock(&all->lock);
    session_unref(s);
    return error;
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
    return m->session_epoch <= 0
               ? begin_full(s, m, version, now_ns, arena, out, out_of_memory)
               : begin_incremental(s, m, version, now_ns, arena, out, out_of_memory);
}

/* ---- sent ---- */

bool fetch_session_sent(struct fetch_sessions *all, const struct fetch_context *context,
                        const struct fetch_want *want, const struct fetch_sent *sent)
{
    if (context->session_id == 0) { return true; }
    struct fetch_session *s = session_find(all, context->session_id);
    if (!s) { return true; } /* it went meanwhile */
    uint8_t buf[FETCH_KEY_SIZE_MAX];
    sys_mutex_lock(&s->lock);
    struct session_partition *p = map_get(&s->partitions, want_key(want, buf));
    bool is_shown = !context->is_incremental || !p;
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
    sys_mutex_unlock(&s->lock);
    session_unref(s);
    return is_shown;
}
