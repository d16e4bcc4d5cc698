/* run.c - requests are run, their verdicts taken, their answers put in order.
 *
 * Place:      net_job_run() is the only caller of the table's handle(). It runs on the processor
 *             (the normal case) or on a handler, and touches nothing but the job and its requests.
 *             On a processor requests may be staged, of several connections one after another;
 *             net_turn_flush() does them together. net_job_apply() then does for the connection
 *             what the verdicts say.
 * Thread:     net_job_run() who has the job; all else the processor's.
 * Invariants: [NET-2] a parked request ends in net_answer_later(), which may come before the
 *             verdict: then the verdict finds 'later' set.  [NET-3].
 * Failure:    without memory for an answer the connection is closed. */
#include "net/net_int.h"

/* Nothing after this request may run now. A parked request is its owner's: only the verdict may be
 * looked at. */
static bool net_run_stops(const struct net_req *r)
{
    switch (r->pub.verdict) {
    case NET_ANSWERED:
        return r->pub.answer.throttle_ms > 0 || r->pub.answer.close_after;
    case NET_NONE:
    case NET_PARKED_PASS:
    case NET_STAGED:
        return false;
    case NET_CLOSE:
    case NET_PARKED_HOLD:
    case NET_SLOW:
    case NET_FLUSH_FIRST:
        return true;
    }
    return true;
}

static void net_run_one(struct net *net, struct net_req *r, struct purg_owner *self,
                        const struct net_turn *turn, uint64_t now_ns)
{
    struct net_processor *p = r->pub.conn->processor;
    if (!r->scratch) {
        enum err e = ERR_NOMEM;
        if (self) {
            e = net_req_attach(p, r, r->pub.frame.size);
        } else {
            struct net_scratch *s = net_scratch_create();
            if (s) {
                net_req_give_scratch(r, s, r->pub.frame.size);
                e = ERR_OK;
            }
        }
        if (e) {
            r->pub.verdict = NET_CLOSE;
            return;
        }
    }
    r->pub.self = self;
    r->pub.on_handler = self == NULL;
    r->pub.behind_staged = turn && turn->first;
    r->pub.verdict = net->api.handle(net->api.ctx, &r->pub, now_ns);
}

/* One look at the clock a request, or a flush: where one ends the next begins [NET-11]. */
static void net_run_timed(struct net *net, struct net_req *r, struct purg_owner *self,
                          const struct net_turn *turn, uint64_t *clock_ns)
{
    r->started_ns = *clock_ns;
    net_run_one(net, r, self, turn, r->started_ns);
    if (r->pub.verdict == NET_STAGED) { return; }
    *clock_ns = r->handled_ns = sys_mono_ns(net->sys);
}

static void net_turn_add(struct net_turn *turn, struct net_req *r)
{
    r->pub.turn_next = NULL;
    if (turn->last) {
        turn->last->turn_next = &r->pub;
    } else {
        turn->first = &r->pub;
    }
    turn->last = &r->pub;
    turn->count++;
    turn->bytes += r->pub.frame.size;
}

void net_turn_flush(struct net_processor *p, struct net_turn *turn)
{
    if (!turn->first) { return; }
    p->net->api.flush(p->net->api.ctx, turn, p->clock_ns);
    p->clock_ns = sys_mono_ns(p->net->sys);
    for (struct net_request *req = turn->first; req; req = req->turn_next) {
        CONTAINER_OF(req, struct net_req, pub)->handled_ns = p->clock_ns;
    }
    *turn = (struct net_turn){0};
}

/* Now that everything before 'end' has its verdict: may it run? */
static bool net_job_may_go_on(const struct net_job *job, const struct net_req *end)
{
    for (const struct net_req *r = job->first; r != end; r = r->run_next) {
        if (net_run_stops(r)) { return false; }
    }
    return true;
}

void net_job_run(struct net *net, struct net_conn *c, struct purg_owner *self,
                 struct net_turn *turn, uint64_t *clock_ns)
{
    struct net_job *job = &c->job;
    struct net_processor *p = c->processor;
    uint64_t out_bytes = 0;
    struct net_req *r = job->first;
    while (r) {
        net_run_timed(net, r, self, turn, clock_ns);
        if (r->pub.verdict == NET_FLUSH_FIRST) {
            CHECK(r->pub.behind_staged);
            net_turn_flush(p, turn);
            if (!net_job_may_go_on(job, r)) { break; }
            continue;
        }
        if (r->pub.verdict == NET_STAGED) {
            CHECK(self != NULL);
            net_turn_add(turn, r);
        }
        if (r->pub.verdict == NET_ANSWERED) {
            out_bytes += r->pub.answer.buf.size + r->pub.answer.file_bytes;
        }
        if (r->pub.verdict == NET_SLOW) {
            CHECK(self != NULL); /* a handler is as slow as it may be */
            break;
        }
        bool stops = net_run_stops(r) || out_bytes > net->config.output_bytes_max;
        r = r->run_next;
        if (stops) { break; }
    }
    job->end = r;
}

static void net_req_release(struct net_req *r)
{
    struct net_processor *p = r->pub.conn->processor;
    net_req_detach(p, r);
    net_req_drop_frame(p, r);
    r->release_wanted = false;
}

static void net_apply_parked(struct net_conn *c, struct net_req *r)
{
    struct net_processor *p = c->processor;
    net_tally_add(&p->tally, NET_COUNT_PARKED, 1);
    if (r->release_wanted) { net_req_release(r); }
    r->state = NET_REQ_PARKED;
    if (r->pub.verdict == NET_PARKED_HOLD && !r->later) {
        c->hold = r;
        net_conn_stall(c, NET_STALL_HOLD);
    }
    if (r->later) {
        if (net_conn_is_closed(c)) {
            net_req_end(c, r);
        } else {
            net_req_done(c, r);
        }
    }
}

static void net_apply_one(struct net_conn *c, struct net_req *r)
{
    bool closed = net_conn_is_closed(c);
    switch (r->pub.verdict) {
    case NET_PARKED_PASS:
    case NET_PARKED_HOLD:
        net_apply_parked(c, r);
        return;
    case NET_SLOW:
    case NET_STAGED:
    case NET_FLUSH_FIRST:
        CHECK(false); /* never applied: end, flushed, called again */
        return;
    case NET_ANSWERED:
    case NET_NONE:
        /* No answer passes the one that is missing. */
        r->silent = r->pub.verdict == NET_NONE || c->has_close_reason;
        if (closed) {
            net_req_end(c, r);
        } else {
            net_req_done(c, r);
        }
        return;
    case NET_CLOSE: {
        enum net_close_reason reason = r->scratch ? NET_CLOSED_API : NET_CLOSED_MEMORY;
        net_req_end(c, r);
        net_conn_close_soon(c, reason);
        return;
    }
    }
}

/* The first request that was not run asked for a handler. Those behind it that were staged with it
 * did too. */
static void net_apply_slow(struct net_conn *c)
{
    struct net_processor *p = c->processor;
    struct net_job *job = &c->job;
    net_tally_add(&p->tally, NET_COUNT_SLOW, 1);
    for (struct net_req *r = c->run; r && r->pub.verdict == NET_SLOW; r = r->run_next) {
        /* It is called again with an empty arena; what it has done is in its op. */
        net_req_release_parts(r);
        arena_reset(&r->scratch->arena);
        r->pub.answer.buf.size = 0;
        r->pub.on_handler = true;
    }
    job->first = c->run;
    job->count = c->unrun;
    p->queued += job->count;
    c->job_place = NET_JOB_AWAY;
    net_plane_post_slow(p->plane, c);
}

void net_job_apply(struct net_conn *c)
{
    struct net_processor *p = c->processor;
    struct net_job *job = &c->job;
    p->queued -= job->count;
    c->job_place = NET_JOB_NONE;
    /* net_req_done() may look at run: it must be right before the first verdict is taken. */
    struct net_req *r = job->first, *end = r;
    while (end != job->end && end->pub.verdict != NET_SLOW) {
        end = end->run_next; /* one that was staged may have turned out slow */
    }
    c->run = end;
    while (r != end) {
        struct net_req *next = r->run_next;
        c->unrun--;
        net_apply_one(c, r);
        r = next;
    }
    if (net_conn_is_closed(c)) {
        net_conn_drop_requests(c);
        net_conn_cancel_parked(c);
        return;
    }
    if (end && end->pub.verdict == NET_SLOW && !end->pub.on_handler && !c->has_close_reason) {
        net_apply_slow(c);
        return;
    }
    net_conn_resume(c, NET_STALL_JOB);
    net_conn_check_eof(c);
}

static void net_throttle(struct net_conn *c, int32_t ms)
{
    uint64_t until = c->processor->now_ns + (uint64_t)ms * SYS_MS;
    if (!(c->stalls & NET_STALL_THROTTLED) || until > c->throttled_until_ns) {
        c->throttled_until_ns = until;
    }
    net_conn_stall(c, NET_STALL_THROTTLED);
    net_conn_arm(c);
}

void net_req_done(struct net_conn *c, struct net_req *r)
{
    struct net_processor *p = c->processor;
    struct net_answer *a = &r->pub.answer;
    net_req_drop_frame(p, r);
    r->done_ns = r->state == NET_REQ_PARKED ? p->clock_ns : r->handled_ns;
    if (c->vain_count || a->in_vain) { net_conn_count_vain(c, a->in_vain); }
    r->part = a->first;
    r->state = NET_REQ_DONE;
    uint64_t total = a->buf.size + a->file_bytes;
    if (r->silent) {
        r->size_sent = sizeof r->size_be;
        a->buf.size = 0;
        net_req_release_parts(r);
    } else if (total == 0 || total > INT32_MAX) {
        net_conn_close(c, total ? NET_CLOSED_API : NET_CLOSED_MEMORY);
        return;
    } else {
        CHECK(!a->last || a->last->at <= a->buf.size);
        uint32_t be = __builtin_bswap32((uint32_t)total);
        memcpy(r->size_be, &be, sizeof be);
        c->out_bytes += total + sizeof r->size_be;
        if (a->throttle_ms > 0) { net_throttle(c, a->throttle_ms); }
        if (c->out_bytes > p->net->config.output_bytes_max) { net_conn_stall(c, NET_STALL_OUTPUT); }
    }
    net_conn_flush_later(c);
    if (c->hold == r) {
        c->hold = NULL;
        net_conn_resume(c, NET_STALL_HOLD);
    }
}

void net_req_end(struct net_conn *c, struct net_req *r)
{
    struct net_processor *p = c->processor;
    CHECK(c->pins > 0);
    const struct net_api *api = &p->net->api;
    if (r->pub.verdict == NET_SLOW && r->pub.op && api->on_drop) {
        api->on_drop(api->ctx, &r->pub);
    }
    net_req_detach(p, r);
    net_req_drop_frame(p, r);
    if (c->hold == r) { c->hold = NULL; }
    list_remove(&r->order);
    CHECK(c->in_flight > 0 && p->in_flight > 0);
    c->in_flight--;
    p->in_flight--;
    net_req_put(p, r);
}

/* ---- calls of api ---- */

enum err net_answer_add_file(struct net_request *req, size_t at, struct sys_file *file,
                             uint64_t pos, size_t size, void (*release)(void *release_ctx),
                             void *release_ctx)
{
    struct net_answer *a = &req->answer;
    CHECK(!a->last || a->last->at <= at);
    struct net_part *part = arena_alloc(req->arena, sizeof *part);
    if (!part) { return ERR_NOMEM; }
    *part = (struct net_part){.at = at,
                              .file = file,
                              .pos = pos,
                              .size = size,
                              .release = release,
                              .release_ctx = release_ctx};
    if (a->last) {
        a->last->next = part;
    } else {
        a->first = part;
    }
    a->last = part;
    a->file_bytes += size;
    return ERR_OK;
}

void net_request_release(struct net_request *req)
{
    struct net_req *r = CONTAINER_OF(req, struct net_req, pub);
    if (req->self) {
        net_req_release(r);
        return;
    }
    r->release_wanted = true;
    req->arena = NULL;
    req->frame = (struct mslice){NULL, 0};
}

bool net_request_reserve(struct net_request *req, size_t bytes)
{
    struct net_req *r = CONTAINER_OF(req, struct net_req, pub);
    struct net_budget *b = &req->conn->processor->plane->budget;
    if (!net_budget_take_more(b, r->charged + r->reserved, bytes)) { return false; }
    r->reserved += bytes;
    return true;
}

enum err net_request_resume(struct net_request *req)
{
    struct net_req *r = CONTAINER_OF(req, struct net_req, pub);
    if (r->release_wanted) { net_req_release(r); }
    return r->scratch ? ERR_OK : net_req_attach(req->conn->processor, r, 0);
}

void net_answer_later(struct net_request *req)
{
    struct net_req *r = CONTAINER_OF(req, struct net_req, pub);
    struct net_conn *c = req->conn;
    CHECK(!r->later && r->state != NET_REQ_DONE); /* [NET-2] */
    r->later = true;
    if (r->state == NET_REQ_WAITING) { return; } /* its verdict is on the way */
    net_conn_pin(c);
    if (net_conn_is_closed(c)) {
        net_req_end(c, r);
    } else {
        net_req_done(c, r);
    }
    net_conn_unpin(c);
}
