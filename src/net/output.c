/* output.c - answers leave in order, as many as are ready in one call, files by sendfile.
 *
 * Place:      a flush gathers size, bytes and small file slices of all answers that are ready at
 *             the head of the order into one sendv. A slice of NET_FILE_COPY_BYTES or more stops
 *             the gathering: what is gathered leaves with MSG_MORE, then the slice in pieces. A
 *             piece whose pages are not in memory goes to a reader first.
 * Thread:     the processor's.
 * Invariants: [NET-1]. How far an answer has left stands in its request, so a partial send simply
 *             goes on there. A copied slice that did not leave is read again.
 * Failure:    a slice that comes up short or cannot be read closes the connection: the size of the
 *             answer is already with the peer. */
#include "net/net_int.h"

struct net_gather {
    struct sys_iov iov[NET_IOV_MAX];
    size_t count;
    size_t bytes;
    size_t copied;
    bool at_file; /* the next thing is a piece of a file */
    bool full; /* there is more, but no room in iov or copy buffer */
    bool bad; /* a slice could not be read whole */
};

void net_req_release_parts(struct net_req *r)
{
    struct net_answer *a = &r->pub.answer;
    /* Parts in front of r->part have been released when they had left. */
    struct net_part *part = r->state == NET_REQ_DONE && !r->silent ? r->part : a->first;
    while (part) {
        struct net_part *next = part->next;
        if (part->release) { part->release(part->release_ctx); }
        part = next;
    }
    r->part = NULL;
    a->first = a->last = NULL;
    a->file_bytes = 0;
}

static struct net_req *net_conn_head(const struct net_conn *c)
{
    if (list_is_empty(&c->order)) { return NULL; }
    struct net_req *r = LIST_ENTRY(c->order.next, struct net_req, order);
    return r->state == NET_REQ_DONE ? r : NULL;
}

/* Bytes of buf that leave before r->part. */
static size_t net_req_buf_limit(const struct net_req *r, const struct net_part *part)
{
    return part ? part->at : r->pub.answer.buf.size;
}

static bool net_gather_add(struct net_gather *g, const void *at, size_t size)
{
    if (g->count == NET_IOV_MAX) {
        g->full = true;
        return false;
    }
    g->iov[g->count++] = (struct sys_iov){at, size};
    g->bytes += size;
    return true;
}

/* A small slice is read into the copy buffer. False: gathering ends here. */
static bool net_gather_copy(struct net_processor *p, struct net_gather *g,
                            const struct net_part *part, size_t sent, size_t warm_left)
{
    size_t left = part->size - sent;
    if (g->count == NET_IOV_MAX || left > NET_COPY_BUFFER_BYTES - g->copied) {
        g->full = true;
        return false;
    }
    if (warm_left < left && !sys_file_is_warm(part->file, part->pos + sent, left)) {
        g->at_file = true;
        return false;
    }
    size_t got = 0;
    enum err e = sys_file_read(part->file, p->copy + g->copied, left, part->pos + sent, &got);
    if (e || got < left) {
        g->bad = true;
        return false;
    }
    bool added = net_gather_add(g, p->copy + g->copied, left);
    CHECK(added);
    g->copied += left;
    return true;
}

/* False: gathering ends within this answer. */
static bool net_gather_req(struct net_processor *p, struct net_gather *g, const struct net_req *r)
{
    if (r->silent) { return true; }
    if (r->size_sent < sizeof r->size_be &&
        !net_gather_add(g, r->size_be + r->size_sent, sizeof r->size_be - r->size_sent)) {
        return false;
    }
    size_t buf_sent = r->buf_sent;
    size_t part_sent = r->part_sent;
    size_t warm_left = r->warm_left;
    const struct net_part *part = r->part;
    for (;;) {
        size_t limit = net_req_buf_limit(r, part);
        if (buf_sent < limit &&
            !net_gather_add(g, r->pub.answer.buf.at + buf_sent, limit - buf_sent)) {
            return false;
        }
        buf_sent = limit;
        if (!part) { return true; }
        if (part->size - part_sent >= NET_FILE_COPY_BYTES) {
            g->at_file = true;
            return false;
        }
        if (part->size > part_sent && !net_gather_copy(p, g, part, part_sent, warm_left)) {
            return false;
        }
        part = part->next;
        part_sent = warm_left = 0;
    }
}

static void net_gather(struct net_conn *c, struct net_gather *g)
{
    g->count = g->bytes = g->copied = 0;
    g->at_file = g->full = g->bad = false;
    LIST_EACH(l, next, &c->order)
    {
        struct net_req *r = LIST_ENTRY(l, struct net_req, order);
        if (r->state != NET_REQ_DONE || !net_gather_req(c->processor, g, r)) { return; }
        if (r->pub.answer.close_after) { return; }
    }
}

static size_t net_take(size_t *n, size_t most)
{
    size_t take = *n < most ? *n : most;
    *n -= take;
    return take;
}

/* Moves the request's mark by up to *n bytes. True: it has left whole. */
static bool net_req_advance(struct net_req *r, size_t *n)
{
    r->size_sent = (uint8_t)(r->size_sent + net_take(n, sizeof r->size_be - r->size_sent));
    while (r->size_sent == sizeof r->size_be) {
        size_t limit = net_req_buf_limit(r, r->part);
        r->buf_sent += net_take(n, limit - r->buf_sent);
        if (r->buf_sent < limit) { return false; }
        if (!r->part) { return true; }
        size_t take = net_take(n, r->part->size - r->part_sent);
        r->part_sent += take;
        r->warm_left -= take < r->warm_left ? take : r->warm_left;
        if (r->part_sent < r->part->size) { return false; }
        struct net_part *gone = r->part;
        r->part = gone->next;
        r->part_sent = 0;
        r->warm_left = 0;
        if (gone->release) { gone->release(gone->release_ctx); }
    }
    return false;
}

static void net_req_sent(const struct net_processor *p, const struct net_req *r)
{
    const struct net_api *api = &p->net->api;
    if (!api->on_sent) { return; }
    struct net_times times = {.received_ns = r->pub.received_ns,
                              .started_ns = r->started_ns,
                              .handled_ns = r->handled_ns,
                              .done_ns = r->done_ns,
                              .sent_ns = r->silent ? r->done_ns : p->clock_ns};
    api->on_sent(api->ctx, &r->pub, &times);
}

/* n bytes have left; ends the requests that are through. */
static void net_conn_advance(struct net_conn *c, size_t n)
{
    struct net_processor *p = c->processor;
    if (n > 0) {
        net_tally_add(&p->tally, NET_COUNT_BYTES_OUT, n);
        CHECK(c->out_bytes >= n);
        c->out_bytes -= n;
        c->active_ns = c->stalled_ns = p->now_ns;
        p->clock_ns = sys_mono_ns(p->net->sys);
    }
    for (struct net_req *r = net_conn_head(c); r; r = net_conn_head(c)) {
        if (!net_req_advance(r, &n)) { break; }
        bool close_after = r->pub.answer.close_after && !r->silent;
        net_req_sent(p, r);
        net_req_end(c, r);
        if (close_after) {
            net_conn_close_soon(c, NET_CLOSED_API);
            break;
        }
    }
    CHECK(n == 0);
}

enum net_flush { NET_FLUSH_GO_ON, NET_FLUSH_DONE, NET_FLUSH_FULL, NET_FLUSH_CLOSED };

static enum net_flush net_flush_failed(struct net_conn *c, enum err e)
{
    if (e == ERR_AGAIN) { return NET_FLUSH_FULL; }
    net_conn_close(c, e == ERR_CLOSED ? NET_CLOSED_PEER : NET_CLOSED_FILE);
    return NET_FLUSH_CLOSED;
}

/* One piece costs the system less than several. */
static void net_gather_join(struct net_gather *g, uint8_t joined[NET_SMALL_BYTES])
{
    size_t size = 0;
    if (g->count < 2 || g->bytes > NET_SMALL_BYTES) { return; }
    for (size_t i = 0; i < g->count; i++) {
        memcpy(joined + size, g->iov[i].at, g->iov[i].size);
        size += g->iov[i].size;
    }
    g->iov[0] = (struct sys_iov){joined, size};
    g->count = 1;
}

static enum net_flush net_flush_bytes(struct net_conn *c, struct net_gather *g)
{
    uint8_t joined[NET_SMALL_BYTES];
    size_t moved;
    net_gather_join(g, joined);
    net_tally_add(&c->processor->tally, NET_COUNT_SEND_CALLS, 1);
    enum err e = sys_stream_sendv(c->stream, g->iov, g->count, g->at_file || g->full, &moved);
    if (e) { return net_flush_failed(c, e == ERR_AGAIN ? e : ERR_CLOSED); }
    if (g->copied) { net_tally_add(&c->processor->tally, NET_COUNT_COPIED_BYTES, g->copied); }
    size_t bytes = g->bytes;
    net_conn_advance(c, moved);
    if (moved < bytes) { return NET_FLUSH_FULL; }
    return g->at_file || g->full ? NET_FLUSH_GO_ON : NET_FLUSH_DONE;
}

/* The head's next piece is not in memory: a reader fetches it. */
static void net_flush_warm(struct net_conn *c, const struct net_req *r, size_t size)
{
    struct net_warm *w = &c->warm;
    net_tally_add(&c->processor->tally, NET_COUNT_COLD_PIECES, 1);
    w->file = sys_file_ref(r->part->file);
    w->pos = r->part->pos + r->part_sent;
    w->size = size;
    w->is_out = true;
    net_reader_post(c->processor->net, w);
}

static enum net_flush net_flush_piece(struct net_conn *c, size_t *budget)
{
    struct net_processor *p = c->processor;
    struct net_req *r = net_conn_head(c);
    CHECK(r && r->part && r->buf_sent == r->part->at);
    size_t left = r->part->size - r->part_sent;
    size_t size = left < NET_FILE_PIECE_BYTES ? left : NET_FILE_PIECE_BYTES;
    uint64_t pos = r->part->pos + r->part_sent;
    if (r->warm_left) {
        size = size < r->warm_left ? size : r->warm_left;
    } else if (!sys_file_is_warm(r->part->file, pos, size)) {
        net_flush_warm(c, r, size);
        return NET_FLUSH_DONE;
    }
    size_t moved;
    enum err e = sys_stream_send_file(c->stream, r->part->file, pos, size, &moved);
    if (e) { return net_flush_failed(c, e); }
    if (moved == 0) {
        net_conn_close(c, NET_CLOSED_FILE);
        return NET_FLUSH_CLOSED;
    }
    net_tally_add(&p->tally, NET_COUNT_FILE_PIECES, 1);
    net_tally_add(&p->tally, NET_COUNT_FILE_BYTES, moved);
    *budget -= moved < *budget ? moved : *budget;
    net_conn_advance(c, moved);
    return NET_FLUSH_GO_ON;
}

static enum net_flush net_flush_step(struct net_conn *c, size_t *budget)
{
    struct net_gather g;
    net_gather(c, &g);
    if (g.bad) {
        net_conn_close(c, NET_CLOSED_FILE);
        return NET_FLUSH_CLOSED;
    }
    if (g.count > 0) { return net_flush_bytes(c, &g); }
    if (!g.at_file) { return NET_FLUSH_DONE; }
    if (*budget == 0) {
        net_conn_flush_later(c);
        return NET_FLUSH_DONE;
    }
    return net_flush_piece(c, budget);
}

/* The peer took its answers, or at least enough of them. */
static void net_flush_resume(struct net_conn *c)
{
    const struct net_config *cfg = &c->processor->net->config;
    if (c->out_bytes <= cfg->output_bytes_max) { net_conn_resume(c, NET_STALL_OUTPUT); }
    if (!net_conn_is_closed(c) && c->in_flight < cfg->in_flight_max) {
        net_conn_resume(c, NET_STALL_IN_FLIGHT);
    }
    net_conn_check_eof(c);
}

static void net_flush_wait(struct net_conn *c, bool full)
{
    if (full == c->wants_write) { return; }
    c->wants_write = full;
    unsigned read = c->interest & (unsigned)SYS_READABLE;
    net_conn_set_interest(c, read | (full ? (unsigned)SYS_WRITABLE : 0U));
    if (full) {
        c->stalled_ns = c->processor->now_ns;
        net_conn_arm(c);
    }
}

void net_conn_flush(struct net_conn *c)
{
    CHECK(c->pins > 0);
    list_remove(&c->flush_link);
    if (net_conn_is_closed(c)) { return; }
    enum net_flush state = NET_FLUSH_DONE;
    if (!c->warm.is_out) {
        size_t budget = NET_TURN_BYTES_MAX;
        net_conn_advance(c, 0); /* requests without an answer */
        do {
            state = net_flush_step(c, &budget);
        } while (state == NET_FLUSH_GO_ON);
    }
    if (state == NET_FLUSH_CLOSED) { return; }
    net_flush_wait(c, state == NET_FLUSH_FULL);
    if (c->has_close_reason) {
        net_conn_close(c, c->close_reason);
        return;
    }
    net_flush_resume(c);
}

void net_conn_flush_later(struct net_conn *c)
{
    if (net_conn_is_closed(c) || !list_is_empty(&c->flush_link)) { return; }
    list_add_tail(&c->processor->flush, &c->flush_link);
}

void net_conn_on_warm(struct net_conn *c)
{
    net_conn_pin(c);
    struct net_warm *w = &c->warm;
    w->is_out = false;
    sys_file_unref(w->file);
    w->file = NULL;
    if (!net_conn_is_closed(c)) {
        if (w->err) {
            net_conn_close(c, NET_CLOSED_FILE);
        } else {
            struct net_req *r = net_conn_head(c);
            CHECK(r && r->part); /* nothing leaves while a piece is being warmed */
            r->warm_left = w->size;
            net_conn_flush(c);
        }
    }
    net_conn_unpin(c);
}
