/* fetch.c - the fetch load: connections that read a prepared log round and round from the cache.
 *
 * Connection i reads partition i modulo their number, one answer of at most fetch_bytes after the
 * other, and begins again at its end. The log is written first with the produce load and its first
 * answer is compared byte for byte; in the window records are counted and dropped unread. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fetch_fill_log(struct load *l)
{
    struct options fill = *l->options;
    fill.connections = l->targets_count < 8 ? l->targets_count : 8;
    fill.depth = 4;
    fill.acks = 1;
    fill.spread = true;
    fill.rate = 0;
    fill.seconds = 600;
    fill.bytes_max = l->options->load_bytes;
    struct load *writer = calloc(1, sizeof *writer);
    if (!writer) { die("no memory"); }
    writer->options = &fill;
    writer->mode = &mode_produce;
    writer->targets = l->targets;
    writer->targets_count = l->targets_count;
    load_run(writer);
    load_close(writer);
    if (writer->errors > 0) { die("filling the log: error %d", writer->first_error); }
    l->batch = writer->batch;
    free(writer);
}

static void fetch_check_first(struct load *l, uint32_t target)
{
    uint8_t frame[CONN_REQUEST_HEAD_MAX];
    struct fetch_args args = {
        .correlation = 3,
        .target = &l->targets[target],
        .wait_ms = 1000,
        .bytes_min = 1,
        .bytes_max = (int32_t)l->options->fetch_bytes,
    };
    size_t size = frame_fetch(frame, sizeof frame, &args);
    size_t answer_size = 0;
    uint8_t *answer = conn_ask(l->admin_fd, frame, size, &answer_size);
    struct fetch_answer f;
    if (!answer_fetch(answer, answer_size, &f)) { die("a Fetch answer of unknown form"); }
    if (f.error != 0) { die("the first fetch: error %d", f.error); }
    if (answer_size - f.records_pos < f.records_size) { die("a Fetch answer cut short"); }
    if (batch_check_run(&l->batch, answer + f.records_pos, f.records_size, 0) < 1) {
        die("a fetch returned other records than were written");
    }
    free(answer);
}

static void fetch_prepare(struct load *l)
{
    fetch_fill_log(l);
    l->ends = calloc(l->targets_count, sizeof *l->ends);
    if (!l->ends) { die("no memory"); }
    for (uint32_t i = 0; i < l->targets_count; i++) {
        fetch_check_first(l, i);
        l->ends[i] = load_end_offset(l, i);
    }
}

static void fetch_issue(struct load *l, struct conn *c, int64_t now)
{
    while (l->phase != PHASE_DRAIN && c->count < c->depth) {
        struct request *q = conn_request(c);
        struct fetch_args args = {
            .correlation = q->correlation,
            .target = &l->targets[c->index % l->targets_count],
            .offset = c->offset,
            .wait_ms = 500,
            .bytes_min = 1,
            .bytes_max = (int32_t)l->options->fetch_bytes,
        };
        q->since_ns = now;
        q->head_size = (uint32_t)frame_fetch(q->head, sizeof q->head, &args);
        c->issued++;
    }
}

static void fetch_start(struct load *l, int64_t now)
{
    for (uint32_t i = 0; i < l->conns_count; i++) {
        struct conn *c = &l->conns[i];
        /* Spread the readers over the log, so that they do not share each step's cache lines. */
        int64_t batches = l->ends[i % l->targets_count] / l->batch.records;
        c->offset = batches * i / l->conns_count * l->batch.records;
        fetch_issue(l, c, now);
        conn_flush(c);
    }
}

static void fetch_answer_step(struct load *l, struct conn *c, const struct answer *a)
{
    struct fetch_answer f;
    if (!answer_fetch(a->head, a->head_size, &f)) { die("a Fetch answer of unknown form"); }
    uint64_t batches = f.records_size / l->batch.size;
    if (f.error != 0) {
        load_count_error(l, f.error);
    } else if (f.records_pos + f.records_size != a->frame_size) {
        die("a Fetch answer whose records do not end it");
    } else if (batches == 0) {
        die("a fetch before the end of the log came back empty");
    } else {
        load_count(l, a, f.records_size, batches * l->batch.records);
    }
    c->offset += (int64_t)(batches * l->batch.records);
    if (c->offset >= l->ends[c->index % l->targets_count]) {
        c->offset = 0;
        l->wraps++;
    }
    fetch_issue(l, c, a->now_ns);
}

static int64_t fetch_tick(struct load *l, int64_t now)
{
    (void)l;
    (void)now;
    return TIME_NEVER;
}

static void fetch_report(const struct load *l)
{
    printf(", \"fetch_bytes\": %u, \"wraps\": %llu", l->options->fetch_bytes,
           (unsigned long long)l->wraps);
}

const struct mode mode_fetch = {
    .name = "fetch",
    .prepare = fetch_prepare,
    .start = fetch_start,
    .answer = fetch_answer_step,
    .tick = fetch_tick,
    .report = fetch_report,
};
