/* longpoll.c - many fetches that wait for bytes that never come, each its full max.wait.
 *
 * The histogram holds the lateness: what a poll took beyond max.wait. An answer before its time is
 * a fault of the broker and is counted as early. Starts are spread evenly over one max.wait. */
#include "load.h"

#include <stdio.h>

static void longpoll_issue(struct load *l, struct conn *c, int64_t now)
{
    struct request *q = conn_request(c);
    if (!q) { return; }
    struct fetch_args args = {
        .correlation = q->correlation,
        .target = &l->targets[c->index % l->targets_count],
        .wait_ms = (int32_t)l->options->wait_ms,
        .bytes_min = 1,
        .bytes_max = 1024 * 1024,
    };
    q->since_ns = now + (int64_t)l->options->wait_ms * 1000000;
    q->head_size = (uint32_t)frame_fetch(q->head, sizeof q->head, &args);
    c->issued++;
    conn_flush(c);
}

static void longpoll_start(struct load *l, int64_t now)
{
    int64_t wait_ns = (int64_t)l->options->wait_ms * 1000000;
    for (uint32_t i = 0; i < l->conns_count; i++) {
        l->conns[i].at_ns = now + wait_ns * i / l->conns_count;
    }
}

static void longpoll_answer(struct load *l, struct conn *c, const struct answer *a)
{
    struct fetch_answer f;
    if (!answer_fetch(a->head, a->head_size, &f)) { die("a Fetch answer of unknown form"); }
    if (f.error != 0) {
        load_count_error(l, f.error);
    } else if (f.records_size != 0) {
        die("a long poll on an empty partition got records");
    } else {
        int64_t early_ns = a->request->since_ns - a->now_ns;
        if (early_ns > 0) { l->early++; }
        if (early_ns > l->early_ns_max) { l->early_ns_max = early_ns; }
        load_count(l, a, 0, 0);
    }
    if (l->phase != PHASE_DRAIN) { longpoll_issue(l, c, a->now_ns); }
}

static int64_t longpoll_tick(struct load *l, int64_t now)
{
    /* Only the first rounds are started here; the others follow their answers. */
    while (l->phase != PHASE_DRAIN && l->conns_started < l->conns_count) {
        struct conn *c = &l->conns[l->conns_started];
        if (c->at_ns > now) { return c->at_ns; }
        longpoll_issue(l, c, now);
        l->conns_started++;
    }
    return TIME_NEVER;
}

static void longpoll_report(const struct load *l)
{
    printf(", \"wait_ms\": %u, \"early\": %llu, \"early_us_max\": %.1f", l->options->wait_ms,
           (unsigned long long)l->early, (double)l->early_ns_max / 1e3);
}

const struct mode mode_longpoll = {
    .name = "longpoll",
    .start = longpoll_start,
    .answer = longpoll_answer,
    .tick = longpoll_tick,
    .report = longpoll_report,
};
