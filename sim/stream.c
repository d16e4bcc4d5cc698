/* stream.c - simulated connections and listeners.
 *
 * Bytes:   each direction is a row of segments that arrive in order after a drawn latency, bounded
 *          by stream_bytes_max; a call may move less than it could. A close is seen after the bytes
 *          before it; a reset loses what is in flight and is seen by both sides at once.
 * Failure: a side that closes with bytes unread may reset the other, as TCP does. */
#include "sim/machine_int.h"

#include <stdlib.h>

static uint64_t sim_latency_ns(void)
{
    const struct sim_options *o = &sim_world->options;
    return o->latency_min_ns + sim_below(sim_world, o->latency_max_ns - o->latency_min_ns + 1);
}

/* ---- pipes ---- */

static void sim_pipe_clear(struct sim_pipe *p)
{
    while (p->first) {
        struct sim_segment *s = p->first;
        p->first = s->next;
        free(s);
    }
    p->last = NULL;
    p->bytes = 0;
}

static uint64_t sim_pipe_arrival(struct sim_pipe *p)
{
    uint64_t at = sim_world->now_ns + sim_latency_ns();
    if (at < p->last_arrive_ns) { at = p->last_arrive_ns; }
    p->last_arrive_ns = at;
    return at;
}

static bool sim_pipe_has_bytes(const struct sim_pipe *p)
{
    return p->first && p->first->arrive_ns <= sim_world->now_ns;
}

static bool sim_pipe_is_at_end(const struct sim_pipe *p)
{
    return !p->first && p->is_finished && p->finish_ns <= sim_world->now_ns;
}

/* What may move now of what could. */
static size_t sim_part(size_t size)
{
    bool is_short = size > 1 && sim_chance(sim_world, sim_world->options.short_permille);
    return is_short ? 1 + (size_t)sim_below(sim_world, size - 1) : size;
}

static void sim_pipe_put(struct sim_pipe *p, const void *data, size_t size)
{
    struct sim_segment *s = sim_alloc(sizeof *s + size);
    s->arrive_ns = sim_pipe_arrival(p);
    s->size = size;
    memcpy(s->data, data, size);
    if (p->last) {
        p->last->next = s;
    } else {
        p->first = s;
    }
    p->last = s;
    p->bytes += size;
}

static size_t sim_pipe_get(struct sim_pipe *p, void *buf, size_t size)
{
    uint8_t *to = buf;
    size_t moved = 0;
    while (moved < size && sim_pipe_has_bytes(p)) {
        struct sim_segment *s = p->first;
        size_t n = s->size - s->used < size - moved ? s->size - s->used : size - moved;
        memcpy(to + moved, s->data + s->used, n);
        s->used += n;
        moved += n;
        if (s->used < s->size) { break; }
        p->first = s->next;
        if (!p->first) { p->last = NULL; }
        free(s);
    }
    p->bytes -= moved;
    return moved;
}

/* ---- streams ---- */

struct sim_stream *sim_stream_of(const struct sys_stream *s)
{
    union {
        const struct sys_stream *in;
        struct sim_stream *out;
    } u = {.in = s};
    CHECK(u.out->process == sim_current()); /* nobody touches another's end */
    return u.out;
}

static void sim_link_reset(struct sim_link *l)
{
    if (l->is_reset) { return; }
    l->is_reset = true;
    sim_world->counts.resets++;
    for (int i = 0; i < 2; i++) {
        sim_world->counts.bytes_lost += l->pipes[i].bytes;
        sim_pipe_clear(&l->pipes[i]);
    }
}

static enum err sim_stream_recv(struct sys_stream *stream, void *buf, size_t size, size_t *moved)
{
    *moved = 0;
    CHECK(size > 0);
    struct sim_stream *s = sim_stream_of(stream);
    struct sim_pipe *in = &s->link->pipes[1 - s->side];
    if (s->link->is_reset) { return ERR_CLOSED; }
    if (!sim_pipe_has_bytes(in)) { return sim_pipe_is_at_end(in) ? ERR_CLOSED : ERR_AGAIN; }
    *moved = sim_pipe_get(in, buf, sim_part(size));
    return ERR_OK;
}

/* How many bytes a send may take now. */
static enum err sim_stream_room(struct sim_stream *s, size_t *room)
{
    *room = 0;
    struct sim_link *l = s->link;
    if (l->is_reset) { return ERR_CLOSED; }
    if (l->open_ns > sim_world->now_ns) { return ERR_AGAIN; }
    if (!l->sides[1 - s->side]) { /* the first bytes after the peer's close bring the reset */
        sim_link_reset(l);
        return ERR_CLOSED;
    }
    size_t used = l->pipes[s->side].bytes;
    size_t max = sim_world->options.stream_bytes_max;
    if (used >= max) { return ERR_AGAIN; }
    *room = max - used;
    return ERR_OK;
}

static enum err sim_stream_sendv(struct sys_stream *stream, const struct sys_iov *iov,
                                 size_t iov_count, bool more, size_t *moved)
{
    (void)more;
    *moved = 0;
    struct sim_stream *s = sim_stream_of(stream);
    size_t room;
    enum err e = sim_stream_room(s, &room);
    if (e) { return e; }
    room = sim_part(room);
    for (size_t i = 0; i < iov_count && *moved < room; i++) {
        size_t n = iov[i].size < room - *moved ? iov[i].size : room - *moved;
        if (n) { sim_pipe_put(&s->link->pipes[s->side], iov[i].at, n); }
        *moved += n;
    }
    return ERR_OK;
}

static enum err sim_stream_send_file(struct sys_stream *stream, struct sys_file *f, uint64_t pos,
                                     size_t size, size_t *moved)
{
    *moved = 0;
    struct sim_stream *s = sim_stream_of(stream);
    size_t room;
    enum err e = sim_stream_room(s, &room);
    if (e) { return e; }
    sim_file_note_read(f);
    const struct sim_bytes *b = &f->inode->now;
    if (pos >= b->size) { return ERR_OK; }
    size_t n = size < room ? size : room;
    if (n > b->size - (size_t)pos) { n = b->size - (size_t)pos; }
    n = sim_part(n);
    sim_pipe_put(&s->link->pipes[s->side], b->at + pos, n);
    *moved = n;
    return ERR_OK;
}

static unsigned sim_stream_wants(const struct sys_stream *s)
{
    (void)s;
    return 0;
}

static struct sim_stream **sim_stream_list(struct sim_process *p)
{
    return p ? &p->streams : &sim_world->streams;
}

/* The end itself; the link stays until both are gone. */
static void sim_stream_free(struct sim_stream *s)
{
    struct sim_stream **at = sim_stream_list(s->process);
    while (*at && *at != s) {
        at = &(*at)->next;
    }
    if (*at) { *at = s->next; } /* one in a backlog is in no list yet */
    s->link->sides[s->side] = NULL;
    free(s);
}

static void sim_stream_close(struct sys_stream *stream)
{
    struct sim_stream *s = sim_stream_of(stream);
    CHECK(!s->poller); /* removed from its poller first */
    struct sim_link *l = s->link;
    struct sim_pipe *out = &l->pipes[s->side];
    if (l->pipes[1 - s->side].bytes > 0 && sim_chance(sim_world, 500)) {
        sim_link_reset(l);
    } else {
        out->is_finished = true;
        out->finish_ns = sim_pipe_arrival(out);
        sim_pipe_clear(&l->pipes[1 - s->side]);
    }
    sim_stream_free(s);
}

static const struct sys_stream_ops sim_stream_ops = {
    .recv = sim_stream_recv,
    .sendv = sim_stream_sendv,
    .send_file = sim_stream_send_file,
    .wants = sim_stream_wants,
    .close = sim_stream_close,
};

static struct sim_stream *sim_stream_new(struct sim_link *l, unsigned side, struct sim_process *p)
{
    struct sim_stream *s = sim_alloc(sizeof *s);
    s->stream.ops = &sim_stream_ops;
    s->process = p;
    s->link = l;
    s->side = side;
    l->sides[side] = s;
    return s;
}

static void sim_stream_add(struct sim_stream *s)
{
    struct sim_stream **end = sim_stream_list(s->process);
    while (*end) {
        end = &(*end)->next;
    }
    *end = s;
}

unsigned sim_ready(const struct sim_stream *s)
{
    const struct sim_link *l = s->link;
    if (l->is_reset) { return SYS_READABLE | SYS_WRITABLE; }
    const struct sim_pipe *in = &l->pipes[1 - s->side];
    bool is_readable = sim_pipe_has_bytes(in) || sim_pipe_is_at_end(in);
    bool is_writable = l->open_ns <= sim_world->now_ns &&
                       l->pipes[s->side].bytes < sim_world->options.stream_bytes_max;
    return (is_readable ? (unsigned)SYS_READABLE : 0U) |
           (is_writable ? (unsigned)SYS_WRITABLE : 0U);
}

unsigned sim_stream_ready(const struct sys_stream *s)
{
    return sim_ready(sim_stream_of(s));
}

void sim_stream_reset(struct sys_stream *s)
{
    sim_event(NULL, "reset of a connection");
    sim_link_reset(sim_stream_of(s)->link);
}

void sim_links_collect(struct sim *sim)
{
    struct sim_link **at = &sim->links;
    while (*at) {
        struct sim_link *l = *at;
        if (l->sides[0] || l->sides[1]) {
            at = &l->next;
            continue;
        }
        sim_pipe_clear(&l->pipes[0]);
        sim_pipe_clear(&l->pipes[1]);
        *at = l->next;
        free(l);
    }
}

/* ---- listeners ---- */

static struct sys_listener *sim_listener_at(const struct sim_host *host, uint16_t port)
{
    struct sys_listener *l = host && host->process ? host->process->listeners : NULL;
    while (l && l->port != port) {
        l = l->next;
    }
    return l;
}

/* Side 0 is the caller's; side 1 waits in the listener's backlog. */
static struct sim_stream *sim_link_new(struct sim_process *caller, struct sim_host *host,
                                       uint16_t port)
{
    sim_links_collect(sim_world);
    struct sim_link *link = sim_alloc(sizeof *link);
    struct sim_link **end = &sim_world->links;
    while (*end) {
        end = &(*end)->next;
    }
    *end = link;
    link->open_ns = sim_world->now_ns + sim_latency_ns();
    struct sim_stream *mine = sim_stream_new(link, 0, caller);
    sim_stream_add(mine);
    struct sys_listener *l = sim_listener_at(host, port);
    if (!l || l->waiting_count > l->backlog) {
        sim_link_reset(link);
        return mine;
    }
    struct sim_waiting *w = sim_alloc(sizeof *w);
    w->stream = sim_stream_new(link, 1, l->process);
    w->arrive_ns = link->open_ns;
    if (l->last) {
        l->last->next = w;
    } else {
        l->first = w;
    }
    l->last = w;
    l->waiting_count++;
    return mine;
}

struct sys_stream *sim_connect(struct sim_host *host, uint16_t port)
{
    CHECK(!sim_world->fiber);
    return &sim_link_new(NULL, host, port)->stream;
}

enum err sys_connect(struct sys *sys, const char *host, uint16_t port, struct sys_stream **out)
{
    *out = NULL;
    struct sim_host *to = sys->process->host;
    if (strcmp(host, "localhost") != 0 && strcmp(host, "127.0.0.1") != 0) {
        to = sim_world->hosts;
        while (to && strcmp(to->name, host) != 0) {
            to = to->next;
        }
        if (!to) { return ERR_NOTFOUND; }
    }
    *out = &sim_link_new(sys->process, to, port)->stream;
    return ERR_OK;
}

enum err sys_listen(struct sys *sys, const char *host, uint16_t port, unsigned backlog,
                    struct sys_listener **out)
{
    (void)host; /* a simulated host has one interface */
    *out = NULL;
    struct sim_process *p = sys->process;
    if (port != 0 && sim_listener_at(p->host, port)) { return ERR_BUSY; }
    struct sys_listener *l = sim_alloc(sizeof *l);
    l->process = p;
    l->port = port ? port : p->host->port_next++;
    l->backlog = backlog;
    l->next = p->listeners;
    p->listeners = l;
    sim_event(p, "listens on %u", l->port);
    *out = l;
    return ERR_OK;
}

enum err sys_listener_buffers(struct sys_listener *l, int send_bytes, int receive_bytes)
{
    (void)l; /* stream_bytes_max of the world */
    (void)send_bytes;
    (void)receive_bytes;
    return ERR_OK;
}

uint16_t sys_listener_port(const struct sys_listener *l)
{
    return l->port;
}

static void sim_listener_free(struct sys_listener *l)
{
    struct sys_listener **at = &l->process->listeners;
    while (*at != l) {
        at = &(*at)->next;
    }
    *at = l->next;
    while (l->first) {
        struct sim_waiting *w = l->first;
        l->first = w->next;
        sim_link_reset(w->stream->link);
        sim_stream_free(w->stream);
        free(w);
    }
    free(l);
}

void sys_listener_close(struct sys_listener *l)
{
    if (!l) { return; }
    CHECK(!l->poller);
    sim_listener_free(l);
}

bool sim_listener_is_ready(const struct sys_listener *l)
{
    return l->first && l->first->arrive_ns <= sim_world->now_ns;
}

enum err sys_accept(struct sys_listener *l, struct sys_stream **out, char peer[SYS_ADDRESS_SIZE])
{
    *out = NULL;
    peer[0] = '\0';
    if (!sim_listener_is_ready(l)) { return ERR_AGAIN; }
    struct sim_waiting *w = l->first;
    l->first = w->next;
    if (!l->first) { l->last = NULL; }
    l->waiting_count--;
    sim_stream_add(w->stream);
    const struct sim_stream *other = w->stream->link->sides[0];
    const struct sim_process *p = other ? other->process : NULL;
    (void)snprintf(peer, SYS_ADDRESS_SIZE, "%s", p ? p->host->name : "10.0.0.1");
    *out = &w->stream->stream;
    free(w);
    return ERR_OK;
}

void sim_streams_drop(struct sim_process *p)
{
    while (p->listeners) {
        sim_listener_free(p->listeners);
    }
    while (p->streams) {
        sim_link_reset(p->streams->link);
        sim_stream_free(p->streams);
    }
    while (p->pollers) {
        struct sys_poller *next = p->pollers->next;
        free(p->pollers);
        p->pollers = next;
    }
}

/* ---- time ---- */

static uint64_t sim_later(uint64_t at, uint64_t best)
{
    return at > sim_world->now_ns && at < best ? at : best;
}

uint64_t sim_streams_next_ns(const struct sim *sim)
{
    uint64_t due = SYS_NEVER;
    for (const struct sim_link *l = sim->links; l; l = l->next) {
        if (l->is_reset) { continue; }
        due = sim_later(l->open_ns, due);
        for (int i = 0; i < 2; i++) {
            const struct sim_pipe *p = &l->pipes[i];
            for (const struct sim_segment *s = p->first; s; s = s->next) {
                if (s->arrive_ns <= sim->now_ns) { continue; }
                due = sim_later(s->arrive_ns, due);
                break;
            }
            if (p->is_finished) { due = sim_later(p->finish_ns, due); }
        }
    }
    return due;
}
