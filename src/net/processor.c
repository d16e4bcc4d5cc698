/* processor.c - the event loop that owns connections.
 *
 * Place:      a task per data listener and thread (num.network.threads), one for the control plane.
 *             A turn: messages, events (read and split), the ready queue (run to completion), due
 *             delayed operations and timers, what is left to send.
 * Thread:     the task's own; post, queue and pop are for any thread where the header says so.
 * Invariants: [NET-6] a connection is in the ready queue at most once; whoever pops it has its job.
 *             [NET-7] no call to the system for a connection that had nothing to do; one clock a
 *             turn.  run_seq is odd exactly while a request runs on this thread.
 * Failure:    none of its own; a connection that fails is closed. */
#include "net/net_int.h"

#include <stdio.h>

/* ---- messages ---- */

void net_processor_post(struct net_processor *p, struct net_msg *msg)
{
    if (sys_mailbox_post(&p->box, &msg->link)) { sys_task_wake(p->task); }
}

static void net_processor_stop_reading(struct net_processor *p)
{
    p->reading = false;
    for (uint32_t i = 0; i < p->slots_count; i++) {
        if (p->slots[i].conn) { net_conn_stall(p->slots[i].conn, NET_STALL_STOPPED); }
    }
}

static void net_processor_close_all(struct net_processor *p)
{
    p->closing = true;
    net_processor_stop_reading(p);
    purg_owner_shutdown(p->owner);
    for (uint32_t i = 0; i < p->slots_count; i++) {
        if (p->slots[i].conn) { net_conn_close(p->slots[i].conn, NET_CLOSED_STOP); }
    }
}

static void net_processor_on_job(struct net_conn *c)
{
    net_conn_pin(c);
    net_job_apply(c);
    net_conn_flush(c);
    net_conn_unpin(c);
}

static void net_processor_on_msg(struct net_processor *p, struct net_msg *msg)
{
    switch (msg->kind) {
    case NET_MSG_OPEN:
        net_conn_open(CONTAINER_OF(msg, struct net_conn, job.msg));
        return;
    case NET_MSG_JOB:
        net_processor_on_job(CONTAINER_OF(msg, struct net_conn, job.msg));
        return;
    case NET_MSG_MEMORY:
        net_conn_on_memory(CONTAINER_OF(msg, struct net_conn, memory.msg));
        return;
    case NET_MSG_WARM:
        net_conn_on_warm(CONTAINER_OF(msg, struct net_conn, warm.msg));
        return;
    case NET_MSG_STOP_READING:
        net_processor_stop_reading(p);
        sys_signal_flag(p->net->sys, &p->stop_reading_flag, 1);
        return;
    case NET_MSG_DRAIN:
        net_processor_stop_reading(p);
        purg_owner_shutdown(p->owner);
        p->draining = true;
        return;
    case NET_MSG_CLOSE:
        net_processor_close_all(p);
        return;
    case NET_MSG_PING:
        atomic_store_explicit(&p->pinged_ns, 0, memory_order_release);
        return;
    }
}

static void net_processor_take_messages(struct net_processor *p)
{
    struct sys_msg *m = sys_mailbox_take(&p->box);
    while (m) {
        struct sys_msg *next = m->next;
        net_processor_on_msg(p, CONTAINER_OF(m, struct net_msg, link));
        m = next;
    }
}

/* ---- the ready queue ---- */

void net_processor_queue(struct net_processor *p, struct net_conn *c)
{
    struct net_job *job = &c->job;
    CHECK(c->job_place == NET_JOB_NONE && c->run); /* [NET-6] */
    c->job_place = NET_JOB_READY;
    net_conn_stall(c, NET_STALL_JOB);
    job->first = c->run;
    job->end = NULL;
    job->count = c->unrun;
    job->queued_ns = p->now_ns;
    p->queued += job->count;
    sys_mutex_lock(&p->ready_lock);
    job->in_ready = true;
    list_add_tail(&p->ready, &job->link);
    atomic_fetch_add_explicit(&p->ready_count, 1, memory_order_relaxed);
    sys_mutex_unlock(&p->ready_lock);
}

bool net_processor_unqueue(struct net_processor *p, struct net_conn *c)
{
    struct net_job *job = &c->job;
    sys_mutex_lock(&p->ready_lock);
    bool there = job->in_ready;
    if (there) {
        job->in_ready = false;
        list_remove(&job->link);
        atomic_fetch_sub_explicit(&p->ready_count, 1, memory_order_relaxed);
    }
    sys_mutex_unlock(&p->ready_lock);
    if (there) { p->queued -= job->count; }
    return there;
}

struct net_conn *net_processor_pop(struct net_processor *p)
{
    struct net_conn *c = NULL;
    sys_mutex_lock(&p->ready_lock);
    struct list *l = list_pop_head(&p->ready);
    if (l) {
        struct net_job *job = LIST_ENTRY(l, struct net_job, link);
        job->in_ready = false;
        atomic_fetch_sub_explicit(&p->ready_count, 1, memory_order_relaxed);
        c = CONTAINER_OF(job, struct net_conn, job);
    }
    sys_mutex_unlock(&p->ready_lock);
    return c;
}

/* ---- a turn ---- */

/* True: there may be more events. */
static bool net_processor_read(struct net_processor *p)
{
    struct sys_poll_event events[NET_EVENTS_MAX];
    size_t count = sys_poller_events(p->poller, events, NET_EVENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        uint32_t slot = (uint32_t)events[i].token;
        CHECK(slot < p->slots_count);
        struct net_conn *c = p->slots[slot].conn;
        /* A connection that was closed in this turn may have left its place to another. */
        if (!c || c->generation != events[i].token >> 32) { continue; }
        net_conn_on_event(c, events[i].ready);
    }
    return count == NET_EVENTS_MAX;
}

static void net_processor_seq(struct net_processor *p)
{
    uint64_t seq = atomic_load_explicit(&p->run_seq, memory_order_relaxed);
    atomic_store_explicit(&p->run_seq, seq + 1, memory_order_relaxed);
}

static void net_processor_unstick(struct net_processor *p)
{
    if (atomic_load_explicit(&p->stuck, memory_order_relaxed)) {
        atomic_store_explicit(&p->stuck, false, memory_order_relaxed);
    }
}

/* Connections whose jobs have run, but for what of them is staged. */
struct net_gathered {
    struct net_turn turn;
    size_t count;
    struct net_conn *at[NET_TURN_REQUESTS_MAX]; /* pinned */
};

static void net_processor_finish(struct net_processor *p, struct net_gathered *g)
{
    net_processor_seq(p);
    net_turn_flush(p, &g->turn);
    net_processor_seq(p);
    net_processor_unstick(p);
    for (size_t i = 0; i < g->count; i++) {
        struct net_conn *c = g->at[i];
        net_job_apply(c);
        net_conn_flush(c);
        net_conn_unpin(c);
    }
    g->count = 0;
}

/* Runs what was queued when it began: what the runs queue waits for the next turn, after new
 * events. */
static void net_processor_run(struct net_processor *p)
{
    uint32_t count = atomic_load_explicit(&p->ready_count, memory_order_relaxed);
    struct net_gathered g;
    g.turn = (struct net_turn){0};
    g.count = 0;
    if (count) { p->clock_ns = sys_mono_ns(p->net->sys); }
    for (uint32_t i = 0; i < count; i++) {
        struct net_conn *c = net_processor_pop(p);
        if (!c) { break; } /* thieves were here */
        if (atomic_load_explicit(&p->ready_count, memory_order_relaxed)) { net_watch_arm(p->net); }
        c->job_place = NET_JOB_AWAY;
        net_conn_pin(c);
        net_processor_seq(p);
        net_job_run(p->net, c, p->owner, &g.turn, &p->clock_ns);
        net_processor_seq(p);
        net_processor_unstick(p);
        g.at[g.count++] = c;
        if (!g.turn.first || g.count == COUNT_OF(g.at) || g.turn.count >= NET_TURN_REQUESTS_MAX ||
            g.turn.bytes >= NET_TURN_BYTES_MAX) {
            net_processor_finish(p, &g);
        }
    }
    if (g.count) { net_processor_finish(p, &g); }
}

/* The queue is shorter again: who waited is watched again, first come, first served. */
static void net_processor_admit(struct net_processor *p)
{
    while (p->queued < p->queue_max) {
        struct list *l = list_pop_head(&p->queue_waiters);
        if (!l) { return; }
        struct net_conn *c = LIST_ENTRY(l, struct net_conn, queue_link);
        net_conn_pin(c);
        net_conn_resume(c, NET_STALL_QUEUE);
        net_conn_unpin(c);
    }
}

static void net_processor_flush(struct net_processor *p)
{
    struct list now;
    list_init(&now);
    while (!list_is_empty(&p->flush)) {
        list_add_tail(&now, list_pop_head(&p->flush));
    }
    while (!list_is_empty(&now)) {
        struct net_conn *c = LIST_ENTRY(now.next, struct net_conn, flush_link);
        net_conn_pin(c);
        net_conn_flush(c); /* takes it out of the list */
        net_conn_unpin(c);
    }
}

static void net_processor_report(struct net_processor *p)
{
    if (p->draining && p->in_flight == 0) {
        p->draining = false;
        sys_signal_flag(p->net->sys, &p->drained_flag, 1);
    }
    if (p->closing && p->conns_count == 0 && purg_owner_is_idle(p->owner)) {
        p->closing = false;
        sys_signal_flag(p->net->sys, &p->closed_flag, 1);
    }
}

static uint64_t net_processor_step(void *ctx, uint64_t now_ns)
{
    struct net_processor *p = ctx;
    p->now_ns = p->clock_ns = now_ns;
    net_processor_take_messages(p);
    /* What one sleep brought, in parts, so that buffers are used again while the cache has them. */
    for (bool has_more = true; has_more;) {
        has_more = net_processor_read(p);
        net_processor_run(p);
    }
    net_processor_admit(p);
    (void)purg_owner_step(p->owner, now_ns);
    net_processor_flush(p);
    if (p->draining || p->closing) { net_processor_report(p); }
    if (!list_is_empty(&p->flush) ||
        atomic_load_explicit(&p->ready_count, memory_order_relaxed) > 0) {
        return now_ns;
    }
    return purg_owner_next_ns(p->owner); /* 0, at once, if the flush ended an operation */
}

/* ---- life ---- */

static void net_processor_wake(void *ctx)
{
    struct net_processor *p = ctx;
    sys_task_wake(p->task);
}

enum err net_processor_init(struct net_processor *p, struct net *net, struct net_plane *plane,
                            unsigned index)
{
    *p = (struct net_processor){.net = net, .plane = plane, .index = index, .reading = true};
    sys_mutex_init(&p->ready_lock, SYS_RANK_NET);
    sys_mailbox_init(&p->box);
    list_init(&p->ready);
    list_init(&p->flush);
    list_init(&p->queue_waiters);
    p->stop_reading_msg.kind = NET_MSG_STOP_READING;
    p->drain_msg.kind = NET_MSG_DRAIN;
    p->close_msg.kind = NET_MSG_CLOSE;
    p->ping_msg.kind = NET_MSG_PING;
    struct purg_owner_options options = {
        .start_ns = sys_mono_ns(net->sys),
        .step_max = NET_ENDS_MAX,
        .wake = net_processor_wake,
        .wake_ctx = p,
    };
    p->owner = purg_owner_create(&net->config.purg_env, &options);
    p->copy = mem_alloc(NET_COPY_BUFFER_BYTES);
    if (!p->owner || !p->copy) { return ERR_NOMEM; }
    p->wheel = purg_owner_wheel(p->owner);
    return sys_poller_create(net->sys, &p->poller);
}

enum err net_processor_start(struct net_processor *p)
{
    char name[32] = "net-control";
    if (p->plane != &p->net->control) { (void)snprintf(name, sizeof name, "net-%u", p->index); }
    struct sys_task_options options = {
        .name = name, .step = net_processor_step, .ctx = p, .poller = p->poller};
    return sys_task_start(p->net->sys, &options, &p->task);
}

void net_processor_fini(struct net_processor *p)
{
    if (!p->net) { return; } /* never begun */
    sys_task_stop(p->task);
    CHECK(p->conns_count == 0);
    sys_poller_destroy(p->poller);
    purg_owner_destroy(p->owner);
    net_pool_fini(p);
    mem_free(p->slots);
    mem_free(p->copy);
    sys_mutex_fini(&p->ready_lock);
}
