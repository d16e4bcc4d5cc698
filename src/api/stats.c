/* stats.c - counts and times of requests, a part for each processor. */
#include "api/stats.h"

#include "base/check.h"
#include "base/mem.h"
#include "wire/gen/apis.h"

struct api_times {
    struct histogram at[API_TIMES];
};

struct processor_stats {
    _Atomic uint64_t requests[API_STATS_APIS_MAX][API_STATS_VERSIONS_MAX];
    _Atomic(struct api_times *) times[API_STATS_APIS_MAX];
};

struct api_stats {
    /* Set once by the processor, with release; readers load with acquire. */
    _Atomic(struct processor_stats *) processors[NET_PROCESSORS_MAX];
    _Atomic uint64_t refused[API_REFUSALS];
};

struct api_stats *api_stats_create(void)
{
    CHECK(api_handlers_count() <= API_STATS_APIS_MAX);
    for (size_t i = 0; i < api_handlers_count(); i++) {
        CHECK(api_handler_at(i)->advertise_max < API_STATS_VERSIONS_MAX);
    }
    return mem_new(struct api_stats);
}

void api_stats_destroy(struct api_stats *s)
{
    for (size_t i = 0; s && i < COUNT_OF(s->processors); i++) {
        struct processor_stats *p = atomic_load_explicit(&s->processors[i], memory_order_acquire);
        for (size_t k = 0; p && k < API_STATS_APIS_MAX; k++) {
            mem_free(atomic_load_explicit(&p->times[k], memory_order_acquire));
        }
        mem_free(p);
    }
    mem_free(s);
}

/* ---- recording: the processor's thread ---- */

static struct processor_stats *stats_of(struct api_stats *s, unsigned processor)
{
    struct processor_stats *p =
        atomic_load_explicit(&s->processors[processor], memory_order_relaxed);
    if (!p) {
        p = mem_new(struct processor_stats);
        atomic_store_explicit(&s->processors[processor], p, memory_order_release);
    }
    return p;
}

static struct api_times *times_of(struct processor_stats *p, size_t index)
{
    struct api_times *t = atomic_load_explicit(&p->times[index], memory_order_relaxed);
    if (!t) {
        t = mem_new(struct api_times);
        atomic_store_explicit(&p->times[index], t, memory_order_release);
    }
    return t;
}

static uint64_t micros(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
}

void api_stats_sent(struct api_stats *s, const struct net_request *req, const struct net_times *at)
{
    if (!req->tag) { return; } /* not an API of ours: the connection is being closed */
    size_t index = (req->tag >> 16) - 1, version = req->tag & 0xffff;
    CHECK(index < API_STATS_APIS_MAX && version < API_STATS_VERSIONS_MAX);
    struct processor_stats *p = stats_of(s, req->processor);
    struct api_times *t = p ? times_of(p, index) : NULL;
    if (!t) { return; }
    _Atomic uint64_t *requests = &p->requests[index][version];
    atomic_store_explicit(requests, atomic_load_explicit(requests, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    histogram_record(&t->at[API_TIME_TOTAL], micros(at->received_ns, at->sent_ns));
    histogram_record(&t->at[API_TIME_QUEUE], micros(at->received_ns, at->started_ns));
    histogram_record(&t->at[API_TIME_LOCAL], micros(at->started_ns, at->handled_ns));
    histogram_record(&t->at[API_TIME_REMOTE], micros(at->handled_ns, at->done_ns));
    histogram_record(&t->at[API_TIME_SEND], micros(at->done_ns, at->sent_ns));
}

void api_stats_refused(struct api_stats *s, enum api_refusal what, uint64_t count)
{
    atomic_fetch_add_explicit(&s->refused[what], count, memory_order_relaxed);
}

/* ---- reading: any thread ---- */

const char *api_name_at(size_t index)
{
    return index < api_handlers_count() ? api_handler_at(index)->name : NULL;
}

bool api_requests_at(const struct api *api, size_t index, int16_t version, uint64_t *count)
{
    *count = 0;
    const struct wire_api *known = api_handler_at(index);
    if (version > known->advertise_max) { return false; }
    for (size_t i = 0; i < NET_PROCESSORS_MAX; i++) {
        const struct processor_stats *p =
            atomic_load_explicit(&api->stats->processors[i], memory_order_acquire);
        if (!p) { continue; }
        *count += atomic_load_explicit(&p->requests[index][version], memory_order_relaxed);
    }
    return true;
}

void api_times_at(const struct api *api, size_t index, enum api_time time, struct histogram *out)
{
    for (size_t i = 0; i < NET_PROCESSORS_MAX; i++) {
        const struct processor_stats *p =
            atomic_load_explicit(&api->stats->processors[i], memory_order_acquire);
        const struct api_times *t =
            p ? atomic_load_explicit(&p->times[index], memory_order_acquire) : NULL;
        if (t) { histogram_add(out, &t->at[time]); }
    }
}

uint64_t api_refused(const struct api *api, enum api_refusal what)
{
    return atomic_load_explicit(&api->stats->refused[what], memory_order_relaxed);
}

const struct purgatory *api_waits(const struct api *api)
{
    return api->waits;
}
