/* parked.c - publish until the parked fetch has it.
 *
 * Connections 2i and 2i+1 are a pair with a partition of its own: the odd one fetches at the end of
 * the log and is parked by the broker; a gap later the even one produces one batch. The latency
 * runs from that send to the arrival of the fetch's answer. Then the next round of the pair.
 *
 *   fetch sent --gap--> produce sent --> fetch answered and produce answered --> fetch sent ... */
#include "load.h"

static struct conn *pair_other(struct load *l, const struct conn *c)
{
    return &l->conns[c->index ^ 1U];
}

static void pair_fetch(struct load *l, struct conn *reader, int64_t now)
{
    struct conn *writer = pair_other(l, reader);
    struct request *q = conn_request(reader);
    struct fetch_args args = {
        .correlation = q->correlation,
        .target = &l->targets[reader->index / 2],
        .offset = reader->offset,
        .wait_ms = 30000,
        .bytes_min = 1,
        .bytes_max = 1024 * 1024,
    };
    q->since_ns = now;
    q->head_size = (uint32_t)frame_fetch(q->head, sizeof q->head, &args);
    conn_flush(reader);
    writer->at_ns = now + (int64_t)l->options->gap_us * 1000;
}

static void pair_produce(struct load *l, struct conn *writer)
{
    struct request *q = conn_request(writer);
    const struct target *target = &l->targets[writer->index / 2];
    q->head_size = (uint32_t)frame_produce_head(q->head, sizeof q->head, q->correlation,
                                                l->options->acks, target, l->batch.size);
    q->body = l->batch.at;
    q->body_size = l->batch.size;
    q->since_ns = now_ns();
    pair_other(l, writer)->at_ns = q->since_ns;
    writer->at_ns = TIME_NEVER;
    l->bytes_issued += l->batch.size;
    conn_flush(writer);
}

static void parked_prepare(struct load *l)
{
    mode_produce.prepare(l);
    if (l->conns_count % 2 != 0 || l->conns_count / 2 != l->targets_count ||
        l->conns[0].depth != 1) {
        die("parked: an even number of connections, a partition for each pair, depth 1");
    }
}

static void parked_start(struct load *l, int64_t now)
{
    for (uint32_t i = 0; i < l->conns_count; i += 2) {
        struct conn *reader = &l->conns[i + 1];
        reader->offset = load_end_offset(l, i / 2);
        pair_fetch(l, reader, now);
    }
}

static void parked_answer(struct load *l, struct conn *c, const struct answer *a)
{
    struct conn *reader = &l->conns[c->index | 1U];
    if (c == reader) {
        struct fetch_answer f;
        if (!answer_fetch(a->head, a->head_size, &f)) { die("a Fetch answer of unknown form"); }
        if (f.error != 0) {
            load_count_error(l, f.error);
        } else if (f.records_size != l->batch.size) {
            die("a parked fetch got %u bytes of %u", f.records_size, l->batch.size);
        } else {
            struct request published = *a->request;
            published.since_ns = c->at_ns;
            struct answer delivered = *a;
            delivered.request = &published;
            load_count(l, &delivered, l->batch.size, l->batch.records);
        }
        c->offset += l->batch.records;
    } else {
        struct produce_answer p;
        if (!answer_produce(a->head, a->head_size, &p)) { die("a Produce answer of unknown form"); }
        if (p.error != 0) { load_count_error(l, p.error); }
    }
    bool round_done = reader->count == 0 && pair_other(l, reader)->count == 0;
    if (round_done && l->phase != PHASE_DRAIN) { pair_fetch(l, reader, a->now_ns); }
}

/* Also in the drain: a fetch that is parked ends only by its produce. */
static int64_t parked_tick(struct load *l, int64_t now)
{
    int64_t next = TIME_NEVER;
    for (uint32_t i = 0; i < l->conns_count; i += 2) {
        struct conn *writer = &l->conns[i];
        if (writer->at_ns <= now) { pair_produce(l, writer); }
        if (writer->at_ns < next) { next = writer->at_ns; }
    }
    return next;
}

const struct mode mode_parked = {
    .name = "parked",
    .prepare = parked_prepare,
    .start = parked_start,
    .answer = parked_answer,
    .tick = parked_tick,
};
