/* input.c - bytes from the peer, split into frames.
 *
 * Place:      a connection has a receive buffer only while it holds bytes that are not split yet.
 *             Requests borrow their frames from the buffer, so bytes are copied only when a frame
 *             does not fit into what is left of it.
 * Thread:     the processor's.
 * Invariants: [NET-5] the size of a frame is reserved before more than a buffer's rest of it is
 *             read, and the buffer grows by a factor of four at most with what has arrived.
 *             in_pos <= in_end <= in->cap.
 * Failure:    a size that cannot be closes the connection with one rate-limited line. */
#include "net/net_int.h"

#define NET_IN_ROOM_MIN                                                                            \
    512 /* less room than this behind the received bytes is not worth a call                       \
         */
#define NET_GROW_FIRST ((size_t)68 << 10)

/* What the buffer must hold from in_pos on: the rest of the frame, as far as growth allows. */
static size_t net_in_target(const struct net_conn *c)
{
    size_t have = net_conn_input_size(c);
    size_t need = c->partial_known ? 4 + c->frame_size : have + net_buf_class_size(c->in_class);
    size_t grown = have * 4 > NET_GROW_FIRST ? have * 4 : NET_GROW_FIRST;
    return need < grown ? need : grown;
}

static enum err net_in_replace(struct net_conn *c, size_t target)
{
    struct net_processor *p = c->processor;
    size_t have = net_conn_input_size(c);
    if (c->in->class_index >= NET_BUF_CLASSES - 1 && c->in->refs == 1 && c->in_pos == 0) {
        /* Large and nobody else's: the heap can move pages instead of bytes. */
        struct net_buf *b = mem_realloc(c->in, sizeof *b + target);
        net_tally_add(&p->tally, NET_COUNT_ALLOCATIONS, 1);
        if (!b) { return ERR_NOMEM; }
        b->cap = target;
        b->class_index = NET_BUF_CLASSES;
        c->in = b;
        return ERR_OK;
    }
    struct net_buf *b = net_buf_get(p, target);
    if (!b) { return ERR_NOMEM; }
    memcpy(b->at, c->in->at + c->in_pos, have);
    net_buf_unref(p, c->in);
    c->in = b;
    c->in_pos = 0;
    c->in_end = have;
    return ERR_OK;
}

/* Makes room for bytes behind in_end. */
static enum err net_in_make_room(struct net_conn *c)
{
    if (!c->in) {
        c->in = net_buf_get(c->processor, net_buf_class_size(c->in_class));
        c->in_pos = c->in_end = 0;
        return c->in ? ERR_OK : ERR_NOMEM;
    }
    size_t have = net_conn_input_size(c);
    size_t target = net_in_target(c);
    size_t room = c->in->cap - c->in_end;
    bool fits = c->in->cap - c->in_pos >= target;
    if (room > 0 && (fits || (c->in_pos == 0 && room >= NET_IN_ROOM_MIN))) { return ERR_OK; }
    if (c->in->refs == 1 && c->in->cap >= target && c->in->cap > have) {
        memmove(c->in->at, c->in->at + c->in_pos, have);
        c->in_pos = 0;
        c->in_end = have;
        return ERR_OK;
    }
    return net_in_replace(c, target > have ? target : have + NET_IN_ROOM_MIN);
}

static void net_in_release(struct net_conn *c)
{
    if (!c->in || net_conn_input_size(c) > 0) { return; }
    net_buf_unref(c->processor, c->in);
    c->in = NULL;
    c->in_pos = c->in_end = 0;
}

/* Requests in front of it are run first; it is seen again then. */
static void net_conn_bad_frame(struct net_conn *c)
{
    struct net_processor *p = c->processor;
    if (c->run) { return; }
    const uint8_t *at = c->in->at + c->in_pos;
    const char *what = net_frame_foreign(at, net_conn_input_size(c));
    uint32_t be;
    memcpy(&be, at, sizeof be);
    uint64_t suppressed;
    if (logger_rate(&p->log_rate, (int64_t)(p->now_ns / SYS_MS), &suppressed)) {
        log_warn(p->net->config.logger, "kafka.network.Processor",
                 "Closing connection from %s on listener %s: %s%s%s(size field %d, %llu such lines "
                 "left out)",
                 c->peer, c->listener->name, what ? "this looks like " : "not a Kafka request ",
                 what ? what : "", what ? ", not like a Kafka request " : "",
                 (int)__builtin_bswap32(be), (unsigned long long)suppressed);
    }
    net_conn_close_soon(c, NET_CLOSED_FRAME);
}

/* One whole frame becomes a request. */
static enum err net_conn_take_frame(struct net_conn *c)
{
    struct net_processor *p = c->processor;
    struct net_req *r = net_req_get(p);
    if (!r) { return ERR_NOMEM; }
    r->pub.conn = c;
    r->pub.owner = p->owner;
    r->pub.processor = p->index;
    r->pub.received_ns = p->now_ns;
    r->pub.frame = (struct mslice){c->in->at + c->in_pos + 4, c->frame_size};
    r->buf = c->in;
    r->buf->refs++;
    r->charged = c->frame_size;
    c->partial_known = false;
    c->partial_ns = 0;
    c->in_pos += 4 + c->frame_size;
    if (c->run) {
        LIST_ENTRY(c->order.prev, struct net_req, order)->run_next = r;
    } else {
        c->run = r;
    }
    list_add_tail(&c->order, &r->order);
    c->in_flight++;
    c->unrun++;
    p->in_flight++;
    net_tally_add(&p->tally, NET_COUNT_REQUESTS, 1);
    return ERR_OK;
}

/* True: the next frame is whole and reserved. Otherwise more bytes or memory must come first, or
 * the connection is closed. */
static bool net_conn_next_frame(struct net_conn *c)
{
    size_t have = net_conn_input_size(c);
    if (!c->partial_known) {
        if (!c->in || have == 0) { return false; }
        struct net_budget *budget = &c->processor->plane->budget;
        struct net_processor *p = c->processor;
        switch (net_frame_size(c->in->at + c->in_pos, have, p->net->config.frame_bytes_max,
                               &c->frame_size)) {
        case NET_FRAME_SHORT:
            return false;
        case NET_FRAME_BAD:
            net_conn_bad_frame(c);
            return false;
        case NET_FRAME_OK:
            break;
        }
        bool is_whole = have - 4 >= c->frame_size;
        if (!(is_whole && net_budget_take_whole(budget, c->frame_size)) &&
            !net_budget_take(budget, &c->memory, c->frame_size)) {
            net_tally_add(&p->tally, NET_COUNT_MEMORY_WAITS, 1);
            net_conn_stall(c, NET_STALL_MEMORY);
            return false;
        }
        c->partial_known = true;
    }
    return have - 4 >= c->frame_size;
}

/* A frame that has begun must be whole in time, counted while the connection is read. */
static void net_conn_watch_partial(struct net_conn *c)
{
    if (!c->in || c->stalls) {
        c->partial_ns = 0;
    } else if (!c->partial_ns) {
        c->partial_ns = c->processor->now_ns;
        net_conn_arm(c);
    }
}

void net_conn_split(struct net_conn *c)
{
    if (net_conn_is_closed(c) || (c->stalls & ~(NET_STALL_EOF | NET_STALL_STOPPED))) { return; }
    size_t count = 0, bytes = 0;
    while (count < NET_TURN_REQUESTS_MAX && bytes < NET_TURN_BYTES_MAX) {
        if (c->in_flight >= c->processor->net->config.in_flight_max) {
            net_conn_stall(c, NET_STALL_IN_FLIGHT);
            break;
        }
        if (!net_conn_next_frame(c)) { break; }
        size_t size = c->frame_size;
        if (net_conn_take_frame(c)) {
            net_conn_close(c, NET_CLOSED_MEMORY);
            return;
        }
        count++;
        bytes += size;
    }
    if (net_conn_is_closed(c)) { return; }
    net_in_release(c);
    if (c->run && !c->hold) { net_processor_queue(c->processor, c); }
    net_conn_watch_partial(c);
}

/* The next buffer follows what the last one got: full ones grow, nearly empty ones shrink. */
static void net_conn_learn(struct net_conn *c, size_t moved, size_t room)
{
    if (moved == room && c->in_class < NET_BUF_CLASSES - 2) {
        c->in_class++;
    } else if (c->in_class > 0 && moved < net_buf_class_size(c->in_class - 1U) / 2 &&
               !c->partial_known) {
        c->in_class--;
    }
}

void net_conn_read(struct net_conn *c)
{
    struct net_processor *p = c->processor;
    size_t total = 0;
    bool more = true;
    while (more && !c->stalls && total < NET_TURN_BYTES_MAX) {
        if (net_in_make_room(c)) {
            net_conn_close(c, NET_CLOSED_MEMORY);
            return;
        }
        size_t room = c->in->cap - c->in_end;
        size_t moved;
        enum err e = sys_stream_recv(c->stream, c->in->at + c->in_end, room, &moved);
        net_tally_add(&p->tally, NET_COUNT_RECV_CALLS, 1);
        if (e == ERR_AGAIN) { break; }
        if (e) {
            net_conn_stall(c, NET_STALL_EOF);
            break;
        }
        net_tally_add(&p->tally, NET_COUNT_BYTES_IN, moved);
        c->in_end += moved;
        c->active_ns = p->now_ns;
        total += moved;
        more = moved == room;
        net_conn_learn(c, moved, room);
        net_conn_split(c);
        if (net_conn_is_closed(c)) { return; }
    }
    net_in_release(c);
    if (c->stalls & NET_STALL_EOF) { net_conn_check_eof(c); }
}
