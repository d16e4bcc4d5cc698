/* produce.c - the produce load: the same prebuilt batch again and again, in a closed or open loop.
 *
 * Open loop: the k-th request of all belongs to connection k modulo the number of connections and
 * is meant for start + k / rate. A connection at its depth sends late, its clock runs [LOAD-2]. */
#include "load.h"

#include <time.h>

static uint32_t next_target(const struct load *l, const struct conn *c)
{
    uint64_t walk = l->options->spread ? c->issued : 0;
    return (uint32_t)((c->index + walk) % l->targets_count);
}

static int64_t intended_ns(const struct load *l, const struct conn *c)
{
    double place = (double)c->issued * l->conns_count + c->index;
    return l->start_ns + (int64_t)(place * 1e9 / l->options->rate);
}

/* Issues what may be issued now; the caller flushes. */
static void produce_issue(struct load *l, struct conn *c, int64_t now)
{
    const struct options *o = l->options;
    while (c->count < c->depth) {
        int64_t since = load_is_open_loop(l) ? intended_ns(l, c) : now;
        if (since > now) { return; }
        if (l->phase == PHASE_DRAIN && since >= l->after.at_ns) { return; }
        if (o->bytes_max > 0 && l->bytes_issued >= o->bytes_max) { return; }
        struct request *q = conn_request(c);
        const struct target *target = &l->targets[next_target(l, c)];
        q->since_ns = since;
        q->head_size = (uint32_t)frame_produce_head(q->head, sizeof q->head, q->correlation,
                                                    o->acks, target, l->batch.size);
        q->body = l->batch.at;
        q->body_size = l->batch.size;
        c->issued++;
        l->bytes_issued += l->batch.size;
    }
}

static void produce_prepare(struct load *l)
{
    if (l->batch.at) { return; }
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t now_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    l->batch = batch_build(l->options->batch_bytes, l->options->record_bytes, now_ms);
}

static void produce_start(struct load *l, int64_t now)
{
    for (uint32_t i = 0; i < l->conns_count; i++) {
        produce_issue(l, &l->conns[i], now);
        conn_flush(&l->conns[i]);
    }
}

static void produce_answer(struct load *l, struct conn *c, const struct answer *a)
{
    struct produce_answer p;
    if (!answer_produce(a->head, a->head_size, &p) || a->head_size != a->frame_size) {
        die("a Produce answer of unknown form");
    }
    if (p.error != 0) {
        load_count_error(l, p.error);
    } else {
        load_count(l, a, l->batch.size, l->batch.records);
    }
    produce_issue(l, c, a->now_ns);
}

static int64_t produce_tick(struct load *l, int64_t now)
{
    if (!load_is_open_loop(l)) { return TIME_NEVER; }
    int64_t next = TIME_NEVER;
    for (uint32_t i = 0; i < l->conns_count; i++) {
        struct conn *c = &l->conns[i];
        int64_t due = intended_ns(l, c);
        if (due <= now && c->count < c->depth) {
            produce_issue(l, c, now);
            conn_flush(c);
            due = intended_ns(l, c);
        }
        if (c->count < c->depth && due < next) { next = due; }
    }
    return next;
}

const struct mode mode_produce = {
    .name = "produce",
    .prepare = produce_prepare,
    .start = produce_start,
    .answer = produce_answer,
    .tick = produce_tick,
};
