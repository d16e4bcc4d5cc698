/* main.c - a broker's start and one request of each kind, again and again: in each run another one
 * of its allocations, or of its calls to a disk, fails, or the disk is full a little later. The
 * start is the first one, or comes after a stop or a power cut.
 *
 *   sim_fault [--kind K] [--from 1]   K: allocation, read, write, sync, space
 *   --every 7                         of the allocations only each seventh
 *   --trace                           print events as they happen
 *
 * Invariants: [FLT-1] a start that fails says so and leaves no memory; the next one succeeds.
 *             [FLT-2] each request is answered or its connection closed; it succeeds when it is
 *             sent again (after a new start, where a directory went offline). [FLT-3] a refused
 *             change has not happened; what was acknowledged is there once, also after a stop and a
 *             start. [FLT-4] an orderly stop leaves no memory. */
#include "base/check.h"
#include "base/mem.h"
#include "sim/broker/conn.h"
#include "sim/broker/process.h"

#include <inttypes.h>
#include <stdlib.h>

#define WAIT_MAX_NS (30000 * SYS_MS)
#define RECORDS 3
#define TRIES_BEFORE_RESTART 3
#define TRIES_MAX 8

enum kind { KIND_ALLOCATION, KIND_READ, KIND_WRITE, KIND_SYNC, KIND_SPACE, KINDS_COUNT };

static const char *const kind_names[] = {"allocation", "read", "write", "sync", "space"};

/* What the start with the fault finds on its disks. */
enum before { BEFORE_NOTHING, BEFORE_STOP, BEFORE_CRASH, BEFORES_COUNT };

static const char *const before_names[] = {"a first start", "a stop", "a power cut"};

enum {
    CODE_NONE = 0,
    CODE_UNKNOWN_TOPIC = 3,
    CODE_EXISTS = 36,
    CODE_INVALID_PARTITIONS = 37,
};

struct request;

struct run {
    struct sim *sim;
    struct sim_host *host;
    struct conn conn;
    enum kind kind;
    uint64_t nth; /* of the process that is booted next; 0: none */
    /* Written by fibers of the process. */
    struct process process;
    _Atomic int is_stopped;
    /* The request under way. */
    bool is_answered;
    int16_t code;
    const struct request *request;
    int64_t producer_id;
    int64_t value; /* of the last answer */
    uint64_t failed_starts, closed, refused, restarts;
};

/* ---- on fibers ---- */

static const struct process_setting settings[] = {
    {"node.id", "1"},
    {"log.dirs", "d1/logs"},
    {"metadata.log.dir", "d0"},
    {"listeners", "PLAINTEXT://b1:9092"},
    {"num.network.threads", "1"},
    {"num.io.threads", "1"},
};

static void broker_main(struct sys *sys, void *ctx)
{
    struct run *r = ctx;
    struct config_set *set = process_settings(settings, COUNT_OF(settings));
    if (r->kind == KIND_ALLOCATION) { sim_fail_allocation(r->host, r->nth); }
    process_start(&r->process, sys, set);
}

static void broker_end(struct sys *sys, void *ctx)
{
    (void)sys;
    struct run *r = ctx;
    process_stop(&r->process);
}

/* ---- the process from outside ---- */

static void arm(struct run *r)
{
    static const char *const disks[] = {"d0", "d1"};
    /* Odd numbers on one disk, even ones on the other. */
    struct sim_disk_faults *f = sim_disk_faults(r->host, disks[r->nth % 2]);
    unsigned in = (unsigned)(r->nth + 1) / 2;
    f->read_error_in = r->kind == KIND_READ ? in : 0;
    f->write_error_in = r->kind == KIND_WRITE ? in : 0;
    f->sync_error_in = r->kind == KIND_SYNC ? in : 0;
    if (r->kind == KIND_SPACE) {
        f->space_bytes = sim_disk_used(r->host, disks[r->nth % 2]) + (uint64_t)in * 50;
    }
}

static void disarm(struct run *r)
{
    r->nth = 0;
    if (r->kind == KIND_ALLOCATION && sim_is_up(r->host)) { sim_fail_allocation(r->host, 0); }
    for (int i = 0; i < 2; i++) {
        struct sim_disk_faults *f = sim_disk_faults(r->host, i ? "d0" : "d1");
        f->read_error_in = f->write_error_in = f->sync_error_in = 0;
        f->space_bytes = UINT64_MAX;
    }
}

static void leaves_nothing(struct run *r, const char *after)
{
    sim_run_until(r->sim, sim_now_ns(r->sim) + 10 * SYS_MS);
    sim_print_heap(r->host, stderr);
    CHECKF(sim_heap_bytes(r->host) == 0, "%" PRIu64 " bytes are left after %s",
           sim_heap_bytes(r->host), after);
}

static void start(struct run *r)
{
    for (;;) {
        r->process.broker = NULL;
        r->process.has_failed_start = false;
        if (r->nth) { arm(r); }
        sim_boot(r->host, broker_main, r);
        uint64_t limit = sim_now_ns(r->sim) + WAIT_MAX_NS;
        while (!r->process.broker && !r->process.has_failed_start) {
            CHECKF(sim_now_ns(r->sim) < limit, "[FLT-1] the start does not end");
            (void)sim_step(r->sim, limit);
        }
        if (r->process.broker) { return; }
        CHECKF(r->nth, "[FLT-1] a start fails without a fault");
        leaves_nothing(r, "a start that failed"); /* [FLT-1] */
        r->failed_starts++;
        disarm(r);
        sim_crash(r->host, SIM_KEEP_BY_CHANCE);
    }
}

static void stop(struct run *r)
{
    conn_close(&r->conn);
    atomic_store(&r->is_stopped, 0);
    sim_call(r->host, broker_end, r, &r->is_stopped);
    bool is_stopped =
        sys_wait_flag(sim_sys(r->host), &r->is_stopped, sim_now_ns(r->sim) + WAIT_MAX_NS);
    CHECKF(is_stopped, "the broker does not stop");
    leaves_nothing(r, "a stop"); /* [FLT-4] */
    sim_kill(r->host);
}

/* ---- requests ---- */

static void put_nothing(struct run *r, struct bytes *b)
{
    (void)r;
    (void)b;
}

static void put_topics(struct run *r, struct bytes *b) /* Metadata: all of them */
{
    (void)r;
    bytes_int(b, -1, 4);
}

static void put_create(struct bytes *b, const char *name)
{
    bytes_int(b, 1, 4);
    bytes_text(b, name);
    bytes_int(b, 2, 4);
    bytes_int(b, 1, 2);
    bytes_int(b, 0, 4);
    bytes_int(b, 1, 4);
    bytes_text(b, "index.interval.bytes");
    bytes_text(b, "200");
    bytes_int(b, 20000, 4);
    bytes_int(b, 0, 1);
}

static void put_create_t(struct run *r, struct bytes *b)
{
    (void)r;
    put_create(b, "t");
}

static void put_create_u(struct run *r, struct bytes *b)
{
    (void)r;
    put_create(b, "u");
}

static void put_delete_u(struct run *r, struct bytes *b)
{
    (void)r;
    bytes_int(b, 1, 4);
    bytes_text(b, "u");
    bytes_int(b, 20000, 4);
}

static void put_producer(struct run *r, struct bytes *b)
{
    (void)r;
    bytes_text(b, NULL);
    bytes_int(b, 60000, 4);
}

static void put_produce(struct run *r, struct bytes *b, int16_t acks, int32_t partition)
{
    struct bytes records = {0};
    bool has_id = partition == 0;
    struct sim_batch batch = {.producer_id = has_id ? r->producer_id : -1,
                              .producer_epoch = has_id ? 0 : -1,
                              .base_sequence = has_id ? 0 : -1,
                              .count = RECORDS,
                              .first = {.producer = (uint32_t)partition, .number = 0}};
    batch_put(&records, &batch, sys_wall_ms(sim_sys(r->host)));
    bytes_text(b, NULL);
    bytes_int(b, acks, 2);
    bytes_int(b, 10000, 4);
    bytes_int(b, 1, 4);
    bytes_text(b, "t");
    bytes_int(b, 1, 4);
    bytes_int(b, partition, 4);
    bytes_int(b, (int64_t)records.size, 4);
    bytes_put(b, records.at, records.size);
    bytes_free(&records);
}

static void put_idempotent(struct run *r, struct bytes *b)
{
    put_produce(r, b, -1, 0);
}

static void put_plain(struct run *r, struct bytes *b)
{
    put_produce(r, b, 1, 1);
}

static void put_fetch(struct bytes *b, int64_t offset, int32_t wait_ms, int32_t session_epoch)
{
    bytes_int(b, -1, 4);
    bytes_int(b, wait_ms, 4);
    bytes_int(b, 1, 4);
    bytes_int(b, 1 << 20, 4);
    bytes_int(b, 0, 1);
    bytes_int(b, 0, 4);
    bytes_int(b, session_epoch, 4);
    bytes_int(b, 1, 4);
    bytes_text(b, "t");
    bytes_int(b, 1, 4);
    bytes_int(b, 0, 4);
    bytes_int(b, -1, 4);
    bytes_int(b, offset, 8);
    bytes_int(b, -1, 8);
    bytes_int(b, 1 << 20, 4);
    bytes_int(b, 0, 4);
    bytes_text(b, "");
}

static void put_fetch_data(struct run *r, struct bytes *b)
{
    (void)r;
    put_fetch(b, 0, 0, 0);
}

static void put_fetch_last(struct run *r, struct bytes *b)
{
    (void)r;
    put_fetch(b, RECORDS - 1, 0, -1);
}

static void put_fetch_end(struct run *r, struct bytes *b)
{
    (void)r;
    put_fetch(b, RECORDS, 50, -1);
}

static void put_one_partition(struct bytes *b, int64_t value)
{
    bytes_int(b, 1, 4);
    bytes_text(b, "t");
    bytes_int(b, 1, 4);
    bytes_int(b, 0, 4);
    bytes_int(b, value, 8);
}

static void put_latest(struct run *r, struct bytes *b)
{
    (void)r;
    bytes_int(b, -1, 4);
    put_one_partition(b, -1);
}

static void put_delete_records(struct run *r, struct bytes *b)
{
    (void)r;
    put_one_partition(b, 1);
    bytes_int(b, 20000, 4);
}

static void put_resource(struct bytes *b)
{
    bytes_int(b, 1, 4);
    bytes_int(b, 2, 1); /* a topic */
    bytes_text(b, "t");
}

static void put_describe(struct run *r, struct bytes *b)
{
    (void)r;
    put_resource(b);
    bytes_int(b, -1, 4);
    bytes_int(b, 1, 1);
}

static void put_alter(struct run *r, struct bytes *b)
{
    (void)r;
    put_resource(b);
    bytes_int(b, 1, 4);
    bytes_text(b, "retention.ms");
    bytes_int(b, 0, 1);
    bytes_text(b, "1234567");
    bytes_int(b, 0, 1);
}

static void put_more_partitions(struct run *r, struct bytes *b)
{
    (void)r;
    bytes_int(b, 1, 4);
    bytes_text(b, "t");
    bytes_int(b, 3, 4);
    bytes_int(b, -1, 4);
    bytes_int(b, 20000, 4);
    bytes_int(b, 0, 1);
}

/* ---- answers: where the code is, and a value ---- */

static int16_t look_versions(struct run *r, struct look *l)
{
    (void)r;
    return (int16_t)look_int(l, 2);
}

/* Of partitions in all, to the value; topics must be whole. */
static int16_t look_metadata(struct run *r, struct look *l)
{
    for (int64_t i = look_int(l, 4); i > 0 && !l->bad; i--) {
        (void)look_int(l, 4);
        (void)look_text(l);
        (void)look_int(l, 4);
        (void)look_text(l);
    }
    (void)look_int(l, 4);
    int16_t code = 0;
    r->value = 0;
    for (int64_t i = look_int(l, 4); i > 0 && !l->bad; i--) {
        int16_t topic_code = (int16_t)look_int(l, 2);
        if (topic_code) { code = topic_code; }
        (void)look_text(l);
        (void)look_int(l, 1);
        for (int64_t k = look_int(l, 4); k > 0 && !l->bad; k--, r->value++) {
            int16_t partition_code = (int16_t)look_int(l, 2);
            if (partition_code) { code = partition_code; }
            (void)look_int(l, 8);
            (void)look_bytes(l, look_int(l, 4) * 4);
            (void)look_bytes(l, look_int(l, 4) * 4);
        }
    }
    return code;
}

static int16_t look_named(struct run *r, struct look *l) /* throttle, [name, code, ...] */
{
    (void)r;
    (void)look_int(l, 4);
    (void)look_int(l, 4);
    (void)look_text(l);
    return (int16_t)look_int(l, 2);
}

static int16_t look_producer(struct run *r, struct look *l)
{
    (void)look_int(l, 4);
    int16_t code = (int16_t)look_int(l, 2);
    if (!code) { r->producer_id = look_int(l, 8); }
    return code;
}

static int16_t look_produced(struct run *r, struct look *l)
{
    (void)look_int(l, 4);
    (void)look_text(l);
    (void)look_int(l, 8);
    int16_t code = (int16_t)look_int(l, 2);
    r->value = look_int(l, 8);
    return code;
}

static int16_t look_fetched(struct run *r, struct look *l)
{
    (void)r;
    (void)look_int(l, 4);
    int16_t code = (int16_t)look_int(l, 2);
    (void)look_int(l, 4);
    if (look_int(l, 4) == 0) { return code ? code : -1; }
    (void)look_text(l);
    (void)look_int(l, 8);
    int16_t partition_code = (int16_t)look_int(l, 2);
    (void)look_bytes(l, 24);
    return code ? code : partition_code;
}

static int16_t look_offset(struct run *r, struct look *l)
{
    (void)look_int(l, 4);
    (void)look_text(l);
    (void)look_int(l, 8);
    int16_t code = (int16_t)look_int(l, 2);
    (void)look_int(l, 8);
    r->value = look_int(l, 8);
    return code;
}

static int16_t look_low_watermark(struct run *r, struct look *l)
{
    (void)look_int(l, 8);
    (void)look_text(l);
    (void)look_int(l, 8);
    r->value = look_int(l, 8);
    return (int16_t)look_int(l, 2);
}

static int16_t look_resource(struct run *r, struct look *l)
{
    (void)r;
    (void)look_int(l, 8);
    return (int16_t)look_int(l, 2);
}

struct request {
    const char *name;
    int16_t api, version;
    void (*put)(struct run *r, struct bytes *b);
    int16_t (*look)(struct run *r, struct look *l);
    int16_t again; /* a further code that means success when an earlier try may have happened */
    int64_t value; /* expected; -1: any */
};

static const struct request requests[] = {
    {"ApiVersions", 18, 0, put_nothing, look_versions, 0, -1},
    {"Metadata", 3, 1, put_topics, look_metadata, 0, 0},
    {"CreateTopics t", 19, 4, put_create_t, look_named, CODE_EXISTS, -1},
    {"InitProducerId", 22, 1, put_producer, look_producer, 0, -1},
    {"Produce t-0", 0, 8, put_idempotent, look_produced, 0, 0},
    {"Produce t-1", 0, 8, put_plain, look_produced, 0, -1},
    {"Fetch", 1, 11, put_fetch_data, look_fetched, 0, -1},
    {"Fetch that waits", 1, 11, put_fetch_end, look_fetched, 0, -1},
    {"ListOffsets", 2, 1, put_latest, look_offset, 0, RECORDS},
    {"DescribeConfigs", 32, 1, put_describe, look_resource, 0, -1},
    {"IncrementalAlterConfigs", 44, 0, put_alter, look_resource, 0, -1},
    {"CreatePartitions", 37, 0, put_more_partitions, look_named, CODE_INVALID_PARTITIONS, -1},
    {"DeleteRecords", 21, 0, put_delete_records, look_low_watermark, 0, 1},
    {"CreateTopics u", 19, 4, put_create_u, look_named, CODE_EXISTS, -1},
    {"DeleteTopics u", 20, 1, put_delete_u, look_named, CODE_UNKNOWN_TOPIC, -1},
};

static const struct request final_requests[] = {
    {"Metadata", 3, 1, put_topics, look_metadata, 0, 3},
    {"ListOffsets", 2, 1, put_latest, look_offset, 0, RECORDS},
    {"Produce t-0 again", 0, 8, put_idempotent, look_produced, 0, 0},
    {"Fetch", 1, 11, put_fetch_last, look_fetched, 0, -1},
    {"ListOffsets again", 2, 1, put_latest, look_offset, 0, RECORDS},
};

static void on_answer(void *ctx, const struct pending *p, struct look *l)
{
    struct run *r = ctx;
    (void)p;
    r->code = r->request->look(r, l);
    CHECKF(!l->bad, "%s: a short answer", r->request->name);
    l->left = 0;
    r->is_answered = true;
}

/* One try: answered or closed [FLT-2]. */
static void send_once(struct run *r, const struct request *q)
{
    r->request = q;
    r->is_answered = false;
    if (!r->conn.stream) { conn_open(&r->conn, r->sim, r->host, broker_port(r->process.broker)); }
    struct bytes body = {0};
    q->put(r, &body);
    conn_send(&r->conn, q->api, q->version, &body, &(struct pending){0});
    bytes_free(&body);
    uint64_t limit = sim_now_ns(r->sim) + WAIT_MAX_NS;
    while (conn_pump(&r->conn, on_answer, r) && !r->is_answered) {
        CHECKF(sim_now_ns(r->sim) < limit, "[FLT-2] %s is never answered", q->name);
        (void)sim_step(r->sim, sim_now_ns(r->sim) + SYS_MS);
    }
}

static void restart(struct run *r)
{
    conn_close(&r->conn);
    disarm(r);
    sim_crash(r->host, SIM_KEEP_BY_CHANCE);
    r->restarts++;
    start(r);
}

static void perform(struct run *r, const struct request *q)
{
    bool may_have_happened = false;
    for (int try = 1;; try++) {
        send_once(r, q);
        if (r->is_answered && r->code == CODE_NONE) { break; }
        if (r->is_answered && may_have_happened && q->again && r->code == q->again) { return; }
        if (r->is_answered) {
            sim_note(r->sim, "%s is refused with %d", q->name, r->code);
            r->refused++;
            CHECKF(!q->again || r->code != q->again, "[FLT-3] %s was refused and has happened",
                   q->name);
        } else {
            sim_note(r->sim, "%s: connection closed", q->name);
            r->closed++;
            may_have_happened = true;
        }
        CHECKF(try < TRIES_MAX, "[FLT-2] %s is refused for ever, the last time with %d", q->name,
               r->code);
        if (try == TRIES_BEFORE_RESTART) {
            CHECKF(r->kind != KIND_ALLOCATION, "[FLT-2] %s is refused after one failed allocation",
                   q->name);
            disarm(r);
            if (r->kind != KIND_SPACE) { restart(r); }
        } else if (try > TRIES_BEFORE_RESTART) {
            restart(r);
            may_have_happened = true;
        }
        sim_run_until(r->sim, sim_now_ns(r->sim) + 100 * SYS_MS);
    }
    CHECKF(q->value == -1 || r->value == q->value, "[FLT-3] %s answers %" PRId64, q->name,
           r->value);
}

static void perform_all(struct run *r, const struct request *at, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        perform(r, &at[i]);
    }
}

/* A process without a fault, from the first start on. */
static void prepare(struct run *r, enum before before)
{
    start(r);
    perform_all(r, requests, COUNT_OF(requests));
    if (before == BEFORE_STOP) {
        stop(r);
    } else {
        conn_close(&r->conn);
        sim_crash(r->host, SIM_KEEP_BY_CHANCE);
    }
}

/* False: nothing failed any more, there are not so many calls. */
static bool run(enum kind kind, enum before before, uint64_t nth, FILE *trace, struct run *sum)
{
    struct run *r = calloc(1, sizeof *r);
    CHECK(r);
    r->sim = sim_create(&(struct sim_options){.seed = nth, .trace = trace});
    r->host = sim_host_create(r->sim, "b1");
    r->kind = kind;
    disarm(r);
    if (before != BEFORE_NOTHING) { prepare(r, before); }
    sim_note(r->sim, "after %s %s %" PRIu64 " fails", before_names[before], kind_names[kind], nth);
    r->nth = nth;
    start(r);
    if (before == BEFORE_NOTHING) { perform_all(r, requests, COUNT_OF(requests)); }
    perform_all(r, final_requests, COUNT_OF(final_requests));
    bool was_hit = r->nth == 0 || r->closed + r->refused > 0 ||
                   (kind == KIND_ALLOCATION && sim_allocations(r->host) >= nth);
    disarm(r);
    stop(r);
    start(r);
    perform_all(r, final_requests, COUNT_OF(final_requests));
    stop(r);
    conn_fini(&r->conn);
    sim_destroy(r->sim);
    sum->failed_starts += r->failed_starts;
    sum->closed += r->closed;
    sum->refused += r->refused;
    sum->restarts += r->restarts;
    free(r);
    return was_hit;
}

static void run_kind(enum kind kind, enum before before, uint64_t from, uint64_t every, FILE *trace)
{
    /* Calls on the two disks differ in number, and not every failure is seen from outside. */
    const uint64_t quiet_max = kind == KIND_ALLOCATION ? 1 : 60;
    struct run sum = {0};
    uint64_t runs = 0, quiet = 0;
    for (uint64_t nth = from; quiet < quiet_max; nth += every, runs++) {
        quiet = run(kind, before, nth, trace, &sum) ? 0 : quiet + 1;
    }
    (void)printf("after %s %s: %" PRIu64 " runs, %" PRIu64 " failed starts, %" PRIu64
                 " requests refused, %" PRIu64 " connections closed, %" PRIu64 " restarts\n",
                 before_names[before], kind_names[kind], runs, sum.failed_starts, sum.refused,
                 sum.closed, sum.restarts);
    CHECK(runs > quiet_max);
}

int main(int argc, char **argv)
{
    uint64_t from = 1, every = 1;
    int only = -1;
    FILE *trace = NULL;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--trace") == 0) {
            trace = stdout;
            continue;
        }
        if (strcmp(argv[i], "--from") == 0) { from = strtoull(value, NULL, 10); }
        if (strcmp(argv[i], "--every") == 0) { every = strtoull(value, NULL, 10); }
        for (int k = 0; k < KINDS_COUNT; k++) {
            if (strcmp(value, kind_names[k]) == 0) { only = k; }
        }
        i++;
    }
    for (int k = 0; k < KINDS_COUNT; k++) {
        for (int b = 0; b < BEFORES_COUNT; b++) {
            if (only >= 0 && only != k) { continue; }
            run_kind((enum kind)k, (enum before)b, from, k == KIND_ALLOCATION ? every : 1, trace);
        }
    }
    return 0;
}
