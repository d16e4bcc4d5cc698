/* conn.c - life, deadlines and back-pressure of one connection.
 *
 *      open ---> serving <---> stalled (a mask of reasons) ---> closed ---> freed
 *                                                               ghost while a request is parked, a
 *                                                               job or a message is on its way
 *
 * Thread:     the processor's.
 * Invariants: [NET-4] on_close once, last.  A stalled connection is still watched until bytes come:
 *             only then the interest is dropped, so that a client with one request at a time costs
 *             no call to the poller.  The timer is due at the earliest deadline or before it.
 * Failure:    a connection that cannot be opened is closed. */
#include "net/net_int.h"

#define NET_PARTIAL_STEP_BYTES ((size_t)64 << 10) /* that came give a frame one second more */
#define NET_PARTIAL_HURRY_MS 2000 /* a frame's time while others wait for memory */
#define NET_PARTIAL_LOOK_MS 500

/* ---- facts for api ---- */

const char *net_conn_listener(const struct net_conn *conn)
{
    return conn->listener->name;
}

/* ---- deadlines ---- */

static uint64_t net_after_ms(uint64_t since_ns, uint64_t ms)
{
    return ms > (SYS_NEVER - since_ns) / SYS_MS ? SYS_NEVER : since_ns + ms * SYS_MS;
}

static uint64_t net_idle_deadline(const struct net_conn *c)
{
    const struct net_config *cfg = &c->processor->net->config;
    /* Who waits for an answer is not idle. */
    if (!cfg->idle_max_ms || c->in_flight || c->memory.state != NET_WAITER_NONE) {
        return SYS_NEVER;
    }
    return net_after_ms(c->active_ns, cfg->idle_max_ms);
}

/* What was declared gives no time, what came does: memory is not held for who sends nothing. */
static uint64_t net_partial_deadline(const struct net_conn *c)
{
    if (!c->partial_ns || c->stalls) { return SYS_NEVER; }
    uint64_t ms = c->processor->net->config.partial_max_ms;
    bool is_wanted = c->partial_known && atomic_load(&c->processor->plane->budget.waiters_count);
    if (is_wanted && ms > NET_PARTIAL_HURRY_MS) { ms = NET_PARTIAL_HURRY_MS; }
    ms += net_conn_input_size(c) / NET_PARTIAL_STEP_BYTES * 1000;
    return net_after_ms(c->partial_ns, ms);
}

/* When to look next: others may begin to wait for this frame's memory at any time. */
static uint64_t net_partial_look(const struct net_conn *c)
{
    uint64_t deadline = net_partial_deadline(c);
    if (deadline == SYS_NEVER || !c->partial_known) { return deadline; }
    uint64_t look = net_after_ms(c->processor->now_ns, NET_PARTIAL_LOOK_MS);
    return look < deadline ? look : deadline;
}

static uint64_t net_stalled_deadline(const struct net_conn *c)
{
    if (!c->wants_write) { return SYS_NEVER; }
    return net_after_ms(c->stalled_ns, c->processor->net->config.stalled_max_ms);
}

static uint64_t net_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void net_conn_arm(struct net_conn *c)
{
    uint64_t at = net_min(net_partial_look(c), net_stalled_deadline(c));
    if (c->stalls & NET_STALL_THROTTLED) { at = net_min(at, c->throttled_until_ns); }
    uint64_t idle = net_idle_deadline(c);
    /* A busy connection may become idle without another look: wake at the earliest possible time.
     */
    if (idle == SYS_NEVER && c->processor->net->config.idle_max_ms) {
        idle = net_after_ms(c->processor->now_ns, c->processor->net->config.idle_max_ms);
    }
    at = net_min(at, idle);
    if (purg_timer_is_added(&c->timer)) {
        if (c->timer.deadline_ns <= at) { return; }
        (void)purg_timer_remove(c->processor->wheel, &c->timer);
    }
    if (at != SYS_NEVER) { purg_timer_add(c->processor->wheel, &c->timer, at); }
}

static void net_conn_on_due(struct purg_timer *timer, uint64_t now_ns)
{
    struct net_conn *c = CONTAINER_OF(timer, struct net_conn, timer);
    net_conn_pin(c);
    if ((c->stalls & NET_STALL_THROTTLED) && now_ns >= c->throttled_until_ns) {
        net_conn_resume(c, NET_STALL_THROTTLED);
    }
    if (net_conn_is_closed(c)) {
        /* The buffered bytes made no sense. */
    } else if (now_ns >= net_partial_deadline(c)) {
        net_conn_close(c, NET_CLOSED_PARTIAL);
    } else if (now_ns >= net_stalled_deadline(c)) {
        net_conn_close(c, NET_CLOSED_STALLED);
    } else if (now_ns >= net_idle_deadline(c)) {
        net_conn_close(c, NET_CLOSED_IDLE);
    } else {
        net_conn_arm(c);
    }
    net_conn_unpin(c);
}

/* ---- open ---- */

static bool net_slot_grow(struct net_processor *p)
{
    uint32_t count = p->slots_count ? p->slots_count * 2 : 64;
    struct net_slot *slots = mem_realloc(p->slots, count * sizeof *slots);
    if (!slots) { return false; }
    for (uint32_t i = p->slots_count; i < count; i++) {
        slots[i] = (struct net_slot){.next_free = i + 1};
    }
    p->slot_free = p->slots_count;
    p->slots = slots;
    p->slots_count = count;
    return true;
}

static bool net_slot_take(struct net_processor *p, struct net_conn *c)
{
    if (p->slot_free == p->slots_count && !net_slot_grow(p)) { return false; }
    struct net_slot *s = &p->slots[p->slot_free];
    c->slot = p->slot_free;
    c->generation = s->generation;
    p->slot_free = s->next_free;
    s->conn = c;
    return true;
}

static void net_slot_give(struct net_processor *p, struct net_conn *c)
{
    struct net_slot *s = &p->slots[c->slot];
    s->conn = NULL;
    s->generation = (s->generation + 1) & 0x7fffffff;
    s->next_free = p->slot_free;
    p->slot_free = c->slot;
}

static void net_conn_prepare(struct net_conn *c)
{
    struct net_processor *p = c->processor;
    list_init(&c->order);
    list_init(&c->flush_link);
    list_init(&c->queue_link);
    list_init(&c->job.link);
    list_init(&c->memory.link);
    c->job.msg.kind = NET_MSG_JOB;
    c->memory.msg.kind = NET_MSG_MEMORY;
    c->memory.processor = p;
    c->warm.msg.kind = NET_MSG_WARM;
    c->warm.processor = p;
    c->active_ns = p->now_ns;
    purg_timer_init(&c->timer, net_conn_on_due);
}

void net_conn_open(struct net_conn *c)
{
    struct net_processor *p = c->processor;
    net_conn_prepare(c);
    net_tally_add(&p->tally, NET_COUNT_OPENED, 1);
    p->conns_count++;
    if (!net_slot_take(p, c)) { goto fail; }
    if (sys_poller_add(p->poller, c->stream, (uint64_t)c->generation << 32 | c->slot,
                       SYS_READABLE)) {
        net_slot_give(p, c);
        goto fail;
    }
    c->interest = SYS_READABLE;
    net_conn_pin(c);
    if (p->reading && !p->closing) {
        net_conn_arm(c);
    } else {
        net_conn_close(c, NET_CLOSED_STOP);
    }
    net_conn_unpin(c);
    return;
fail:
    net_tally_add(&p->tally, NET_COUNT_GONE, 1);
    net_tally_add(&p->tally, (enum net_count)(NET_COUNT_CLOSED + NET_CLOSED_MEMORY), 1);
    sys_stream_close(c->stream);
    net_limits_leave(&p->net->limits, c->peer, c->listener->is_control);
    p->conns_count--;
    mem_free(c);
}

/* ---- close ---- */

void net_conn_drop_requests(struct net_conn *c)
{
    if (c->job_place == NET_JOB_NONE) {
        while (c->run) {
            struct net_req *r = c->run;
            c->run = r->run_next;
            c->unrun--;
            net_req_end(c, r);
        }
    }
    struct list *l = c->order.next;
    while (l != &c->order) {
        struct net_req *r = LIST_ENTRY(l, struct net_req, order);
        l = l->next;
        if (r->state == NET_REQ_DONE) { net_req_end(c, r); }
    }
}

static struct net_req *net_conn_first_parked(struct net_conn *c)
{
    LIST_EACH(l, next, &c->order)
    {
        struct net_req *r = LIST_ENTRY(l, struct net_req, order);
        if (r->state == NET_REQ_PARKED && !r->cancelled) { return r; }
    }
    return NULL;
}

void net_conn_cancel_parked(struct net_conn *c)
{
    /* on_cancel may end this request and others: the list is looked at afresh each time. */
    const struct net_api *api = &c->processor->net->api;
    for (struct net_req *r = net_conn_first_parked(c); r; r = net_conn_first_parked(c)) {
        r->cancelled = true;
        if (api->on_cancel) { api->on_cancel(api->ctx, &r->pub); }
    }
}

static void net_conn_release_input(struct net_conn *c)
{
    struct net_processor *p = c->processor;
    if (c->memory.state == NET_WAITER_IN_LINE) {
        /* False: the grant's message is on its way and gives the bytes back. */
        (void)net_budget_leave(&p->plane->budget, &c->memory);
    }
    if (c->partial_known) {
        net_budget_give(&p->plane->budget, c->frame_size);
        c->partial_known = false;
    }
    net_buf_unref(p, c->in);
    c->in = NULL;
    c->in_pos = c->in_end = 0;
}

void net_conn_close(struct net_conn *c, enum net_close_reason reason)
{
    struct net_processor *p = c->processor;
    if (net_conn_is_closed(c)) { return; }
    net_conn_pin(c);
    /* Counted before the peer can see it, its place given back before that. */
    net_limits_leave(&p->net->limits, c->peer, c->listener->is_control);
    net_tally_add(&p->tally, (enum net_count)(NET_COUNT_CLOSED + (unsigned)reason), 1);
    net_tally_add(&p->tally, NET_COUNT_GONE, 1);
    c->stalls |= NET_STALL_CLOSING;
    c->wants_write = false;
    sys_poller_remove(p->poller, c->stream);
    sys_stream_close(c->stream);
    c->stream = NULL;
    net_slot_give(p, c);
    (void)purg_timer_remove(p->wheel, &c->timer);
    list_remove(&c->flush_link);
    list_remove(&c->queue_link);
    net_conn_release_input(c);
    if (c->job_place == NET_JOB_READY && net_processor_unqueue(p, c)) {
        c->job_place = NET_JOB_NONE;
    }
    net_conn_drop_requests(c);
    net_conn_cancel_parked(c);
    net_conn_unpin(c);
}

void net_conn_close_soon(struct net_conn *c, enum net_close_reason reason)
{
    if (net_conn_is_closed(c) || c->has_close_reason) { return; }
    c->has_close_reason = true;
    c->close_reason = reason;
    net_conn_stall(c, NET_STALL_CLOSING);
    net_conn_flush_later(c);
}

void net_conn_unpin(struct net_conn *c)
{
    CHECK(c->pins > 0);
    if (--c->pins > 0 || !net_conn_is_closed(c)) { return; }
    if (!list_is_empty(&c->order) || c->job_place != NET_JOB_NONE || c->warm.is_out ||
        c->memory.state != NET_WAITER_NONE) {
        return;
    }
    struct net_processor *p = c->processor;
    const struct net_api *api = &p->net->api;
    if (api->on_close) { api->on_close(api->ctx, c); }
    CHECK(p->conns_count > 0);
    p->conns_count--;
    mem_free(c);
}

void net_conn_check_eof(struct net_conn *c)
{
    if (net_conn_is_closed(c) || !(c->stalls & NET_STALL_EOF)) { return; }
    if (c->job_place != NET_JOB_NONE || c->has_close_reason) { return; }
    /* What is ready may still leave: the peer may have closed only its sending half. */
    if (c->out_bytes == 0) { net_conn_close(c, NET_CLOSED_PEER); }
}

/* ---- back-pressure ---- */

void net_conn_stall(struct net_conn *c, enum net_stall why)
{
    c->stalls |= (uint16_t)why;
}

void net_conn_set_interest(struct net_conn *c, unsigned mask)
{
    mask |= c->stream->ops->wants(c->stream);
    /* Nobody waits for what a patient connection says next [NET-12]. */
    if (mask == SYS_READABLE && c->vain_count == NET_VAIN_MIN) { mask |= SYS_PATIENT; }
    if (mask == c->interest) { return; }
    struct net_processor *p = c->processor;
    if (sys_poller_set(p->poller, c->stream, (uint64_t)c->generation << 32 | c->slot, mask)) {
        net_conn_close_soon(c, NET_CLOSED_MEMORY);
        return;
    }
    c->interest = (uint8_t)mask;
}

void net_conn_count_vain(struct net_conn *c, bool in_vain)
{
    unsigned before = c->vain_count;
    if (!in_vain) {
        c->vain_count = 0;
    } else if (before < NET_VAIN_MIN) {
        c->vain_count++;
    }
    bool is_patient = c->vain_count == NET_VAIN_MIN;
    if (is_patient == (before == NET_VAIN_MIN)) { return; }
    if (is_patient) { net_tally_add(&c->processor->tally, NET_COUNT_PATIENT, 1); }
    net_conn_set_interest(c, c->interest & (unsigned)(SYS_READABLE | SYS_WRITABLE));
}

void net_conn_resume(struct net_conn *c, enum net_stall why)
{
    if (!(c->stalls & why)) { return; }
    c->stalls &= (uint16_t) ~(unsigned)why;
    if (net_conn_is_closed(c)) { return; }
    net_conn_split(c);
    if (net_conn_is_closed(c)) { return; }
    if (!c->stalls && !(c->interest & SYS_READABLE)) {
        net_conn_set_interest(c, (c->interest & (unsigned)SYS_WRITABLE) | SYS_READABLE);
    }
}

void net_conn_on_event(struct net_conn *c, unsigned ready)
{
    struct net_processor *p = c->processor;
    net_conn_pin(c);
    if (ready & SYS_WRITABLE) {
        if (c->interest & SYS_WRITABLE) {
            net_conn_flush(c);
        } else if (c->stalls && c->job_place != NET_JOB_READY) {
            /* Not asked for: an error or both halves closed, and no read would find it. */
            net_conn_close(c, NET_CLOSED_PEER);
        }
    }
    if ((ready & SYS_READABLE) && !net_conn_is_closed(c)) {
        if (!c->stalls && p->queued >= p->queue_max) {
            net_conn_stall(c, NET_STALL_QUEUE);
            list_add_tail(&p->queue_waiters, &c->queue_link);
        }
        if (c->stalls) {
            net_conn_set_interest(c, c->interest & (unsigned)SYS_WRITABLE);
        } else {
            net_conn_read(c);
        }
    }
    net_conn_unpin(c);
}

void net_conn_on_memory(struct net_conn *c)
{
    net_conn_pin(c);
    CHECK(c->memory.state == NET_WAITER_GRANTED);
    c->memory.state = NET_WAITER_NONE;
    if (net_conn_is_closed(c)) {
        net_budget_give(&c->processor->plane->budget, c->memory.size);
    } else {
        c->partial_known = true;
        net_conn_resume(c, NET_STALL_MEMORY);
        net_conn_check_eof(c);
    }
    net_conn_unpin(c);
}
