/* submit.c - requests that wait for the controller.
 *
 * Ownership:  a wait has two holders, the parked request and the controller; the last one frees
 *             it. The controller's part (mutations, names, values) is a copy in the wait's own
 *             arena, since a request may end, by time or close, before the controller gives it
 *             back.
 * Thread:     controller_done() on the controller's task; the rest on the request's threads. */
#include "api/api_int.h"

#include "base/check.h"
#include "base/mem.h"

#define SUBMIT_ARENA_MAX ((size_t)64 << 20)

struct submit_wait {
    struct purg_op op;
    struct purg_watch_node node;
    struct controller_request request;
    struct arena arena;
    _Atomic int refs;
    _Atomic int is_done; /* release in controller_done(), acquire in wait_try_complete() */
    uint64_t number; /* its key: an address would make a simulated run depend on chance */
    struct api *api;
    struct api_reply reply;
    struct api_parked parked; /* req->op points here */
    api_mutations_done *done;
    void *ctx;
};

static void wait_unref(struct submit_wait *w)
{
    if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1) { return; }
    arena_fini(&w->arena);
    mem_free(w);
}

static struct purg_key wait_key(const struct submit_wait *w)
{
    return (struct purg_key){.hi = w->number};
}

static bool wait_is_done(const struct submit_wait *w)
{
    return atomic_load_explicit(&w->is_done, memory_order_acquire) != 0;
}

static enum net_verdict wait_answer(struct submit_wait *w)
{
    return w->done(w->api, &w->reply, w->ctx, w->request.mutations, w->request.mutations_count,
                   !wait_is_done(w));
}

static bool wait_try_complete(struct purg_op *op)
{
    return wait_is_done(CONTAINER_OF(op, struct submit_wait, op));
}

static void wait_on_complete(struct purg_op *op, enum purg_reason reason)
{
    (void)reason; /* done or not is what counts */
    struct submit_wait *w = CONTAINER_OF(op, struct submit_wait, op);
    struct net_request *req = w->reply.req;
    w->parked.op = NULL;
    if (wait_answer(w) != NET_ANSWERED) { req->answer.buf.size = 0; }
    req->op = NULL;
    net_answer_later(req);
    wait_unref(w);
}

static const struct purg_op_type wait_type = {
    .name = "Controller", .try_complete = wait_try_complete, .on_complete = wait_on_complete};

static void controller_done(struct controller_request *request)
{
    struct submit_wait *w = request->ctx;
    struct purgatory *waits = w->api->waits;
    struct purg_key key = wait_key(w);
    atomic_store_explicit(&w->is_done, 1, memory_order_release);
    purg_check(waits, NULL, key);
    wait_unref(w);
}

static bool copy_slice(struct arena *a, struct slice *s)
{
    if (slice_is_null(*s)) { return true; }
    char *copy = arena_strndup(a, s->at, s->size);
    *s = slice_of(copy, s->size);
    return copy != NULL;
}

/* Copies the mutations with all that they point to. */
static bool wait_copy(struct submit_wait *w, const struct api_submit *submit)
{
    struct controller_mutation *all = arena_array(&w->arena, submit->count, sizeof *all);
    for (size_t i = 0; all && i < submit->count; i++) {
        struct controller_mutation *m = &all[i];
        *m = submit->mutations[i];
        struct controller_config *configs =
            arena_array(&w->arena, m->configs_count, sizeof *configs);
        if (!configs || !copy_slice(&w->arena, &m->name)) { return false; }
        for (size_t k = 0; k < m->configs_count; k++) {
            configs[k] = m->configs[k];
            if (!copy_slice(&w->arena, &configs[k].key) ||
                !copy_slice(&w->arena, &configs[k].value)) {
                return false;
            }
        }
        m->configs = configs;
    }
    w->request = (struct controller_request){.mutations = all,
                                             .mutations_count = submit->count,
                                             .is_dry_run = submit->is_dry_run,
                                             .done = controller_done,
                                             .ctx = w};
    return all != NULL;
}

enum net_verdict api_submit(struct api_call *call, const struct api_submit *submit)
{
    struct net_request *req = call->req;
    struct submit_wait *w = mem_new(struct submit_wait);
    if (!w) { return NET_CLOSE; }
    arena_init(&w->arena, 1024, SUBMIT_ARENA_MAX);
    atomic_init(&w->refs, 1);
    w->api = call->api;
    w->number = atomic_fetch_add_explicit(&w->api->waits_begun, 1, memory_order_relaxed);
    w->reply = api_reply_of(call);
    w->done = submit->done;
    w->ctx = submit->ctx;
    if (!wait_copy(w, submit)) {
        wait_unref(w);
        return NET_CLOSE;
    }
    purg_op_init(&w->op, &wait_type, req->owner);
    w->parked.op = &w->op;
    req->op = &w->parked;
    struct purg_key key = wait_key(w);
    uint64_t deadline_ns = call->now_ns;
    if (submit->timeout_ms > 0) {
        deadline_ns += (uint64_t)submit->timeout_ms * SYS_MS;
        atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
        controller_submit(call->api->options.controller, &w->request);
    }
    if (purg_try_complete_else_watch(call->api->waits, req->self, &w->op, &w->node, &key, 1,
                                     deadline_ns) == PURG_PARKED) {
        return NET_PARKED_HOLD;
    }
    req->op = NULL;
    enum net_verdict verdict = wait_answer(w);
    wait_unref(w);
    return verdict;
}
