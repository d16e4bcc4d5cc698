/* conn.c - frames of a simulated client. */
#include "conn.h"

#include "base/check.h"

#define CONN_FRAME_MAX ((int64_t)64 << 20)

void conn_open(struct conn *c, struct sim *sim, struct sim_host *host, uint16_t port)
{
    CHECK(!c->stream);
    c->sim = sim;
    c->stream = sim_connect(host, port);
    c->out.size = c->in.size = 0;
    c->first = c->count = 0;
}

void conn_close(struct conn *c)
{
    sys_stream_close(c->stream);
    c->stream = NULL;
    c->count = 0;
}

void conn_fini(struct conn *c)
{
    conn_close(c);
    bytes_free(&c->out);
    bytes_free(&c->in);
}

bool conn_has_room(const struct conn *c)
{
    return c->stream && c->count < CONN_PENDING_MAX && c->out.size < 65536;
}

void conn_send(struct conn *c, int16_t api, int16_t version, const struct bytes *body,
               const struct pending *note)
{
    CHECK(conn_has_room(c));
    int32_t correlation = ++c->correlation;
    size_t head = 2 + 2 + 4 + 2 + 3;
    bytes_int(&c->out, (int64_t)(head + body->size), 4);
    bytes_int(&c->out, api, 2);
    bytes_int(&c->out, version, 2);
    bytes_int(&c->out, correlation, 4);
    bytes_text(&c->out, "sim");
    bytes_put(&c->out, body->at, body->size);
    if (!note) { return; }
    struct pending *p = &c->pending[(c->first + c->count++) % CONN_PENDING_MAX];
    *p = *note;
    p->correlation = correlation;
    p->api = api;
    p->sent_ns = sim_now_ns(c->sim);
}

static bool conn_move(struct conn *c)
{
    size_t moved;
    enum err e = ERR_OK;
    while (c->out.size > 0 && !e) {
        struct sys_iov iov = {.at = c->out.at, .size = c->out.size};
        e = sys_stream_sendv(c->stream, &iov, 1, false, &moved);
        bytes_drop(&c->out, moved);
    }
    if (e == ERR_CLOSED) { return false; }
    uint8_t buf[4096];
    do {
        e = sys_stream_recv(c->stream, buf, sizeof buf, &moved);
        bytes_put(&c->in, buf, moved);
    } while (!e);
    return e != ERR_CLOSED;
}

bool conn_pump(struct conn *c,
               void (*on_answer)(void *ctx, const struct pending *p, struct look *l), void *ctx)
{
    if (!c->stream) { return false; }
    bool is_open = conn_move(c);
    /* What arrived before the end counts. */
    while (c->stream && c->in.size >= 4) {
        struct look l = {.at = c->in.at, .left = c->in.size};
        int64_t size = look_int(&l, 4);
        CHECKF(size >= 4 && size <= CONN_FRAME_MAX, "an answer of %lld bytes", (long long)size);
        if (l.left < (uint64_t)size) { break; }
        l.left = (size_t)size;
        int32_t correlation = (int32_t)look_int(&l, 4);
        CHECKF(c->count > 0, "[CON-1] answer %d to no request", correlation);
        struct pending p = c->pending[c->first];
        CHECKF(p.correlation == correlation, "[CON-1] answer %d, expected %d", correlation,
               p.correlation);
        c->first = (c->first + 1) % CONN_PENDING_MAX;
        c->count--;
        on_answer(ctx, &p, &l);
        CHECKF(!l.bad && l.left == 0, "the answer to api %d is short or long by %zu", p.api,
               l.left);
        bytes_drop(&c->in, (size_t)size + 4);
    }
    if (!is_open) {
        conn_close(c);
        return false;
    }
    if (c->count > 0) {
        const struct pending *p = &c->pending[c->first];
        CHECKF(sim_now_ns(c->sim) - p->sent_ns < CONN_ANSWER_MAX_NS,
               "[CON-2] request %d of api %d is never answered", p->correlation, p->api);
    }
    return true;
}
