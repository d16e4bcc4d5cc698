/* handler.c - threads that may wait, and the watch that lets them help a stuck processor.
 *
 *      slow request ----> slow queue of the plane ----> a handler ----> back by mailbox
 *      processor stuck in a call for NET_STUCK_NS ----> heads of its ready queue, the same way
 *
 * Thread:     each handler its own; the watch its own; post from processors.
 * Invariants: a handler that sleeps has its bit in idle_mask: it sets the bit, then looks at the
 *             queues once more; who posts a job adds it, then looks at the mask (both sequentially
 *             consistent), so no job waits for a sleeper. The watch sleeps while no processor has
 *             two connections ready, so an unpipelined client wakes nobody.
 * Failure:    none. */
#include "net/net_int.h"

#include <stdio.h>

/* ---- the slow queue ---- */

bool net_plane_wake_one(struct net_plane *plane)
{
    uint64_t mask = atomic_load(&plane->idle_mask);
    while (mask) {
        uint64_t bit = mask & (~mask + 1);
        if (atomic_fetch_and(&plane->idle_mask, ~bit) & bit) {
            sys_task_wake(plane->handlers[__builtin_ctzll(bit)].task);
            return true;
        }
        mask = atomic_load(&plane->idle_mask);
    }
    return false;
}

void net_plane_post_slow(struct net_plane *plane, struct net_conn *c)
{
    sys_mutex_lock(&plane->slow_lock);
    list_add_tail(&plane->slow, &c->job.link);
    sys_mutex_unlock(&plane->slow_lock);
    atomic_fetch_add(&plane->slow_count, 1);
    (void)net_plane_wake_one(plane); /* none sleeps: whoever is done first takes it */
}

static struct net_conn *net_plane_pop_slow(struct net_plane *plane)
{
    if (atomic_load(&plane->slow_count) == 0) { return NULL; }
    sys_mutex_lock(&plane->slow_lock);
    struct list *l = list_pop_head(&plane->slow);
    sys_mutex_unlock(&plane->slow_lock);
    if (!l) { return NULL; }
    atomic_fetch_sub(&plane->slow_count, 1);
    return CONTAINER_OF(LIST_ENTRY(l, struct net_job, link), struct net_conn, job);
}

static struct net_conn *net_plane_steal(struct net_plane *plane)
{
    struct net *net = plane->net;
    for (size_t i = 0; i < net->processors_count; i++) {
        struct net_processor *p = &net->processors[i];
        if (p->plane != plane || !atomic_load_explicit(&p->stuck, memory_order_relaxed)) {
            continue;
        }
        struct net_conn *c = net_processor_pop(p);
        if (c) {
            atomic_fetch_add_explicit(&net->steals, 1, memory_order_relaxed);
            return c;
        }
    }
    return NULL;
}

static struct net_conn *net_handler_next(struct net_plane *plane)
{
    struct net_conn *c = net_plane_pop_slow(plane);
    return c ? c : net_plane_steal(plane);
}

static uint64_t net_handler_step(void *ctx, uint64_t now_ns)
{
    (void)now_ns; /* older than what is found here [NET-11] */
    struct net_handler *h = ctx;
    struct net_plane *plane = h->plane;
    struct net *net = plane->net;
    uint64_t bit = (uint64_t)1 << h->index;
    for (unsigned i = 0; i < NET_HANDLER_BATCH; i++) {
        struct net_conn *c = net_handler_next(plane);
        if (!c) {
            atomic_fetch_or(&plane->idle_mask, bit);
            c = net_handler_next(plane);
            if (!c) { return SYS_NEVER; }
            /* Who took the bit meanwhile also wakes: an empty step more, no harm. */
            atomic_fetch_and(&plane->idle_mask, ~bit);
        }
        uint64_t clock_ns = sys_mono_ns(net->sys);
        net_job_run(net, c, NULL, NULL, &clock_ns);
        net_processor_post(c->processor, &c->job.msg);
    }
    return now_ns;
}

/* ---- the watch ---- */

/* True when it has been in the same call since the last poll and connections wait behind it. */
static bool net_watch_one(struct net *net, size_t i, uint64_t now_ns, bool *busy)
{
    struct net_processor *p = &net->processors[i];
    uint64_t seq = atomic_load_explicit(&p->run_seq, memory_order_relaxed);
    bool same = seq == net->watch_seq[i] && (seq & 1);
    net->watch_seq[i] = seq;
    if (!atomic_load_explicit(&p->ready_count, memory_order_relaxed)) { return false; }
    *busy = true;
    if (!same) { return false; }
    sys_mutex_lock(&p->ready_lock);
    bool waited =
        !list_is_empty(&p->ready) &&
        now_ns - LIST_ENTRY(p->ready.next, struct net_job, link)->queued_ns >= NET_STUCK_NS;
    sys_mutex_unlock(&p->ready_lock);
    return waited;
}

static void net_watch_help(struct net_processor *p)
{
    atomic_store_explicit(&p->stuck, true, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&p->ready_count, memory_order_relaxed);
    while (count > 0 && net_plane_wake_one(p->plane)) {
        count--;
    }
}

static uint64_t net_watch_step(void *ctx, uint64_t now_ns)
{
    struct net *net = ctx;
    if (!atomic_load(&net->watch_armed)) { return SYS_NEVER; }
    bool busy = false;
    for (size_t i = 0; i < net->processors_count; i++) {
        if (net_watch_one(net, i, now_ns, &busy)) { net_watch_help(&net->processors[i]); }
    }
    net->watch_idle_polls = busy ? 0 : net->watch_idle_polls + 1;
    if (net->watch_idle_polls >= NET_WATCH_IDLE_POLLS) {
        /* A processor that becomes busy from here on arms it again. */
        net->watch_idle_polls = 0;
        atomic_store(&net->watch_armed, false);
        return SYS_NEVER;
    }
    return now_ns + NET_STUCK_NS;
}

void net_watch_arm(struct net *net)
{
    if (atomic_load_explicit(&net->watch_armed, memory_order_relaxed)) { return; }
    if (!atomic_exchange(&net->watch_armed, true)) { sys_task_wake(net->watch); }
}

enum err net_watch_start(struct net *net)
{
    net->watch_seq = mem_array(net->processors_count, sizeof *net->watch_seq);
    if (!net->watch_seq) { return ERR_NOMEM; }
    struct sys_task_options options = {.name = "net-watch", .step = net_watch_step, .ctx = net};
    return sys_task_start(net->sys, &options, &net->watch);
}

/* ---- life of a plane ---- */

void net_plane_init(struct net_plane *plane, struct net *net, uint64_t budget_bytes)
{
    plane->net = net;
    net_budget_init(&plane->budget, budget_bytes);
    sys_mutex_init(&plane->slow_lock, SYS_RANK_NET);
    list_init(&plane->slow);
}

enum err net_plane_start(struct net_plane *plane, unsigned handlers_count)
{
    for (unsigned i = 0; i < handlers_count; i++) {
        struct net_handler *h = &plane->handlers[i];
        *h = (struct net_handler){.plane = plane, .index = i};
        char name[32];
        (void)snprintf(name, sizeof name, "%s-%u", plane == &plane->net->control ? "io-ctl" : "io",
                       i);
        struct sys_task_options options = {.name = name, .step = net_handler_step, .ctx = h};
        enum err e = sys_task_start(plane->net->sys, &options, &h->task);
        if (e) { return e; }
        plane->handlers_count++;
    }
    return ERR_OK;
}

void net_plane_stop(struct net_plane *plane)
{
    for (unsigned i = 0; i < plane->handlers_count; i++) {
        sys_task_stop(plane->handlers[i].task);
        plane->handlers[i].task = NULL;
    }
    plane->handlers_count = 0;
}

void net_plane_fini(struct net_plane *plane)
{
    if (!plane->net) { return; }
    CHECK(list_is_empty(&plane->slow));
    net_budget_fini(&plane->budget);
    sys_mutex_fini(&plane->slow_lock);
}
