/* scenario.c - one run of a simulated broker under load and faults. */
#include "scenario.h"

#include "actor.h"
#include "base/check.h"
#include "process.h"

#include <inttypes.h>
#include <stdlib.h>

#define ACTORS_MAX 16
#define PARTITIONS 2
#define LOG_DIR "d1/logs"
#define PATIENCE_NS (120000 * SYS_MS)

/* What a flush policy promises decides which faults a run may have. */
enum policy { POLICY_GROUP, POLICY_WINDOW, POLICY_OS, POLICIES_COUNT };

static const char *const policy_names[] = {"group", "window", "os"};

enum fault {
    FAULT_CRASH,
    FAULT_KILL,
    FAULT_STOP,
    FAULT_FULL,
    FAULT_SYNC_ERROR,
    FAULT_WRITE_ERROR,
    FAULT_READ_ERROR,
    FAULT_SLOW,
    FAULT_RESET,
    FAULT_ROT,
    FAULT_CLOCK,
    FAULTS_COUNT,
};

struct scenario {
    struct sim *sim;
    struct sim_host *host;
    struct actor_world world;
    struct actor actors[ACTORS_MAX];
    size_t actors_count;
    struct conn admin;
    bool has_topic;
    bool is_fault_on[FAULTS_COUNT];
    uint64_t next_fault_ns;
    uint64_t heal_ns; /* when a window of trouble ends; SYS_NEVER: none */
    enum policy policy;
    const char *dirs; /* of logs: one; two of one device; two of two */
    const char *trouble_disk; /* where a window of trouble is */
    bool must_restart; /* the directory is offline: only a power cut brings it back */
    struct scenario_result *out;
    /* Written by fibers of the process. */
    struct process process;
    uint16_t port;
    _Atomic int is_stopped;
};

/* ---- the broker's side: runs on fibers ---- */

static const struct process_setting settings[] = {
    {"node.id", "1"},
    {"metadata.log.dir", "d0/meta"},
    {"listeners", "PLAINTEXT://b1:9092"},
    {"num.network.threads", "2"},
    {"num.io.threads", "2"},
    {"log.retention.check.interval.ms", "300"},
    {"log.flush.offset.checkpoint.interval.ms", "500"},
};

static void broker_main(struct sys *sys, void *ctx)
{
    struct scenario *s = ctx;
    struct config_set *set = process_settings(settings, COUNT_OF(settings));
    enum err e =
        config_set_put(set, slice_str("log.flush.policy"), slice_str(policy_names[s->policy]));
    if (!e) { e = config_set_put(set, slice_str("log.dirs"), slice_str(s->dirs)); }
    CHECK(!e);
    process_start(&s->process, sys, set);
    if (s->process.broker) { s->port = broker_port(s->process.broker); }
}

static void broker_end(struct sys *sys, void *ctx)
{
    (void)sys;
    struct scenario *s = ctx;
    process_stop(&s->process);
}

/* ---- running ---- */

static void boot(struct scenario *s)
{
    s->process = (struct process){0};
    s->port = s->world.port = 0;
    sim_boot(s->host, broker_main, s);
}

static void went_down(struct scenario *s)
{
    s->world.port = 0;
    s->process.broker = NULL;
    s->port = 0;
}

/* One step of the world, then everybody's turn. Never beyond limit_ns. */
static void turn(struct scenario *s, uint64_t limit_ns)
{
    uint64_t now = sim_now_ns(s->sim);
    for (size_t i = 0; i < s->actors_count; i++) {
        uint64_t at = s->actors[i].next_ns;
        if (at > now && at < limit_ns) { limit_ns = at; }
    }
    (void)sim_step(s->sim, limit_ns);
    s->world.port = s->port;
    if (s->heal_ns != SYS_NEVER || s->port == 0) { s->world.troubled_ns = sim_now_ns(s->sim); }
    for (size_t i = 0; i < s->actors_count; i++) {
        actor_turn(&s->actors[i]);
    }
}

static void run_for(struct scenario *s, uint64_t ms)
{
    uint64_t limit = sim_now_ns(s->sim) + ms * SYS_MS;
    while (sim_now_ns(s->sim) < limit) {
        turn(s, limit);
    }
}

/* Only under group it may take what was not synced: the others promise nothing then. */
static void power_cut(struct scenario *s, enum sim_keep keep)
{
    sim_crash(s->host, s->policy == POLICY_GROUP ? keep : SIM_KEEP_ALL);
    ghost_power_cut(s->world.ghost);
    went_down(s);
    s->must_restart = false;
    s->out->crashes++;
}

static struct sim_disk_faults *disk(struct scenario *s)
{
    return sim_disk_faults(s->host, s->trouble_disk);
}

static void heal(struct scenario *s)
{
    struct sim_disk_faults *f = disk(s);
    f->space_bytes = UINT64_MAX;
    f->call_ns = 0;
    f->write_error_in = f->read_error_in = f->sync_error_in = 0;
    s->heal_ns = SYS_NEVER;
}

/* Until it answers; a start that fails for a fault is tried again without it. */
static void start(struct scenario *s)
{
    uint64_t limit = sim_now_ns(s->sim) + PATIENCE_NS;
    boot(s);
    while (!s->process.broker) {
        CHECKF(sim_now_ns(s->sim) < limit, "the broker does not start");
        turn(s, limit);
        if (s->process.has_failed_start) {
            CHECKF(s->must_restart || s->heal_ns != SYS_NEVER, "a start fails without a fault");
            heal(s);
            power_cut(s, SIM_KEEP_BY_CHANCE);
            boot(s);
        }
    }
}

static void stop(struct scenario *s)
{
    sim_note(s->sim, "controlled stop");
    s->world.is_stopping = true;
    atomic_store(&s->is_stopped, 0);
    sim_call(s->host, broker_end, s, &s->is_stopped);
    s->port = 0;
    uint64_t limit = sim_now_ns(s->sim) + PATIENCE_NS;
    while (!s->is_stopped) {
        CHECKF(sim_now_ns(s->sim) < limit, "the broker does not stop");
        turn(s, limit);
    }
    sim_print_heap(s->host, stderr);
    CHECKF(sim_heap_bytes(s->host) == 0, "%" PRIu64 " bytes are left after a stop",
           sim_heap_bytes(s->host));
    sim_kill(s->host);
    went_down(s);
    s->world.is_stopping = false;
    s->out->stops++;
}

/* ---- the topic ---- */

static void on_created(void *ctx, const struct pending *p, struct look *l)
{
    (void)p;
    struct scenario *s = ctx;
    (void)look_int(l, 4);
    (void)look_int(l, 4);
    (void)look_text(l);
    int64_t code = look_int(l, 2);
    (void)look_text(l);
    s->has_topic |= code == 0 || code == 36;
    sim_note(s->sim, "topic: %" PRId64, code);
}

static void send_create(struct scenario *s)
{
    static const char *const configs[][2] = {{"segment.index.bytes", "96"},
                                             {"index.interval.bytes", "200"}};
    struct bytes b = {0};
    bytes_int(&b, 1, 4);
    bytes_text(&b, ACTOR_TOPIC);
    bytes_int(&b, PARTITIONS, 4);
    bytes_int(&b, 1, 2);
    bytes_int(&b, 0, 4);
    bytes_int(&b, COUNT_OF(configs), 4);
    for (size_t i = 0; i < COUNT_OF(configs); i++) {
        bytes_text(&b, configs[i][0]);
        bytes_text(&b, configs[i][1]);
    }
    bytes_int(&b, 30000, 4);
    bytes_int(&b, 0, 1);
    conn_send(&s->admin, API_CREATE_TOPICS, 4, &b, &(struct pending){0});
    bytes_free(&b);
}

static void create_topic(struct scenario *s)
{
    uint64_t limit = sim_now_ns(s->sim) + PATIENCE_NS;
    while (!s->has_topic) {
        CHECKF(sim_now_ns(s->sim) < limit, "the topic is not created");
        if (!s->admin.stream) { conn_open(&s->admin, s->sim, s->host, s->port); }
        if (s->admin.count == 0) { send_create(s); }
        (void)conn_pump(&s->admin, on_created, s);
        turn(s, sim_now_ns(s->sim) + SYS_MS);
    }
    conn_close(&s->admin);
}

/* ---- rot ---- */

struct rot {
    struct scenario *s;
    uint32_t partition;
    uint64_t skip; /* files to pass over */
    char path[256];
    bool is_found;
};

static void pick_log(void *ctx, const char *name, bool is_dir)
{
    struct rot *r = ctx;
    size_t size = strlen(name);
    if (is_dir || size < 4 || strcmp(name + size - 4, ".log") != 0 || r->skip-- != 0) { return; }
    (void)snprintf(r->path, sizeof r->path, LOG_DIR "/" ACTOR_TOPIC "-%u/%s", r->partition, name);
    r->is_found = true;
}

static void count_log(void *ctx, const char *name, bool is_dir)
{
    size_t size = strlen(name);
    if (!is_dir && size >= 4 && strcmp(name + size - 4, ".log") == 0) { ++*(uint64_t *)ctx; }
}

/* A torn write may have left anything: batch_look() would call it served. */
static bool has_batch_head(const struct look *l)
{
    struct look head = *l;
    (void)look_int(&head, 8);
    int64_t length = look_int(&head, 4);
    (void)look_int(&head, 4);
    return look_int(&head, 1) == 2 && !head.bad && length >= 49;
}

/* Flips a bit in the records (not the head) of a batch that clients know of. */
static void rot_in(struct scenario *s, const struct rot *r)
{
    static uint8_t content[1 << 20];
    size_t size;
    if (!sim_disk_peek(s->host, r->path, true, content, sizeof content, &size)) { return; }
    struct look l = {.at = content, .left = size};
    struct sim_batch b;
    uint64_t left = sim_below(s->sim, 8);
    while (has_batch_head(&l) && batch_look(&l, &b)) {
        bool is_known =
            !b.is_rotten && b.base_offset + b.count + 100 <= ghost_hw(s->world.ghost, r->partition);
        if (!is_known || left-- != 0) { continue; }
        uint64_t pos = (uint64_t)(l.at - content) - 1 - sim_below(s->sim, 20);
        if (!sim_disk_rot(s->host, r->path, pos, (uint8_t)(1U << sim_below(s->sim, 8)))) { return; }
        ghost_allow_loss(s->world.ghost, r->partition, b.base_offset, b.base_offset + b.count);
        s->out->rots++;
        return;
    }
}

/* While the process is down, so that a recovery meets it. */
static void rot(struct scenario *s)
{
    struct rot r = {.s = s, .partition = (uint32_t)sim_below(s->sim, PARTITIONS)};
    char dir[128];
    (void)snprintf(dir, sizeof dir, LOG_DIR "/" ACTOR_TOPIC "-%u", r.partition);
    uint64_t count = 0;
    sim_disk_list(s->host, dir, count_log, &count);
    if (count == 0) { return; }
    r.skip = sim_below(s->sim, count);
    sim_disk_list(s->host, dir, pick_log, &r);
    if (r.is_found) { rot_in(s, &r); }
}

/* ---- faults ---- */

static void next_fault(struct scenario *s)
{
    s->next_fault_ns = sim_now_ns(s->sim) + (50 + sim_below(s->sim, 600)) * SYS_MS;
}

static void fail_directory(struct scenario *s, unsigned *in)
{
    *in = 1 + (unsigned)sim_below(s->sim, 20);
    s->must_restart = true;
    s->heal_ns = sim_now_ns(s->sim) + (100 + sim_below(s->sim, 300)) * SYS_MS;
}

static void window(struct scenario *s, uint64_t max_ms)
{
    s->heal_ns = sim_now_ns(s->sim) + (20 + sim_below(s->sim, max_ms)) * SYS_MS;
}

static void reset_some(struct scenario *s)
{
    for (size_t i = 0; i < s->actors_count; i++) {
        struct conn *c = &s->actors[i].conn;
        if (c->stream && sim_chance(s->sim, 400)) {
            sim_stream_reset(c->stream);
            s->out->resets++;
        }
    }
}

static void inject(struct scenario *s, enum fault fault)
{
    struct sim *sim = s->sim;
    s->trouble_disk = sim_chance(sim, 200) ? "d0" : sim_chance(sim, 250) ? "d2" : "d1";
    switch (fault) {
    case FAULT_CRASH:
    case FAULT_ROT:
        power_cut(s, SIM_KEEP_BY_CHANCE);
        if (fault == FAULT_ROT) { rot(s); }
        start(s);
        break;
    case FAULT_KILL:
        sim_kill(s->host);
        went_down(s);
        s->out->kills++;
        start(s);
        break;
    case FAULT_STOP:
        stop(s);
        start(s);
        break;
    case FAULT_FULL:
        disk(s)->space_bytes = sim_disk_used(s->host, s->trouble_disk) + sim_below(sim, 3000);
        s->out->full_disks++;
        window(s, 500);
        break;
    case FAULT_SYNC_ERROR:
        s->out->sync_errors++;
        fail_directory(s, &disk(s)->sync_error_in);
        break;
    case FAULT_WRITE_ERROR:
        fail_directory(s, &disk(s)->write_error_in);
        break;
    case FAULT_READ_ERROR:
        fail_directory(s, &disk(s)->read_error_in);
        break;
    case FAULT_SLOW:
        disk(s)->call_ns = (1 + sim_below(sim, 20)) * SYS_MS;
        s->out->slow_disks++;
        window(s, 300);
        break;
    case FAULT_RESET:
        reset_some(s);
        break;
    case FAULT_CLOCK:
        sim_jump_wall_clock(s->host, (int64_t)sim_below(sim, 20000) - 10000);
        break;
    case FAULTS_COUNT:
        break;
    }
}

/* The end of a window of trouble. A directory that an error took offline comes back only with a new
 * process; the power goes too, since the page cache may show what the disk never got. */
static void end_trouble(struct scenario *s)
{
    bool must_restart = s->must_restart;
    heal(s);
    if (must_restart) {
        power_cut(s, SIM_KEEP_BY_CHANCE);
        start(s);
    }
}

static void load(struct scenario *s, uint64_t ms)
{
    uint64_t end = sim_now_ns(s->sim) + ms * SYS_MS;
    next_fault(s);
    while (sim_now_ns(s->sim) < end) {
        uint64_t now = sim_now_ns(s->sim);
        if (now >= s->heal_ns) { end_trouble(s); }
        if (now >= s->next_fault_ns && s->heal_ns == SYS_NEVER) {
            enum fault fault = (enum fault)sim_below(s->sim, FAULTS_COUNT);
            if (s->is_fault_on[fault]) {
                sim_note(s->sim, "fault %d", fault);
                inject(s, fault);
            }
            next_fault(s);
        }
        uint64_t next = s->heal_ns == SYS_NEVER ? s->next_fault_ns : s->heal_ns;
        turn(s, next < end ? next : end);
    }
    end_trouble(s);
}

/* ---- the end ---- */

static void drain(struct scenario *s)
{
    s->world.is_draining = true;
    uint64_t limit = sim_now_ns(s->sim) + PATIENCE_NS;
    for (bool is_quiet = false; !is_quiet;) {
        turn(s, limit);
        is_quiet = true;
        for (size_t i = 0; i < s->actors_count; i++) {
            const struct actor *a = &s->actors[i];
            CHECKF(actor_is_quiet(a) || sim_now_ns(s->sim) < limit,
                   "client %zu of kind %d never comes to rest: %zu requests, %zu batches, port %u",
                   i, a->kind, a->conn.count, a->window_count, s->port);
            is_quiet &= actor_is_quiet(a);
        }
    }
}

static void audit(struct scenario *s)
{
    sim_note(s->sim, "audit");
    ghost_begin_audit(s->world.ghost);
    uint32_t count = PARTITIONS + (s->world.volatile_state == TOPIC_STABLE);
    for (uint32_t p = 0; p < count; p++) {
        struct actor a;
        actor_init(&a, &s->world, ACTOR_FETCHER, 0);
        a.partition = p;
        a.offset_generation = s->world.volatile_generation;
        a.is_auditing = true;
        uint64_t limit = sim_now_ns(s->sim) + PATIENCE_NS;
        while (!a.is_done) {
            CHECKF(sim_now_ns(s->sim) < limit,
                   "partition %u cannot be read to its end: at %" PRId64 " of %" PRId64 ", %" PRIu64
                   " answers, the last with code %d",
                   p, a.offset, ghost_hw(s->world.ghost, p), a.answers, a.last_code);
            turn(s, sim_now_ns(s->sim) + SYS_MS);
            actor_turn(&a);
        }
        actor_fini(&a);
    }
    ghost_end_audit(s->world.ghost);
}

static void add_actors(struct scenario *s)
{
    static const enum actor_kind kinds[] = {ACTOR_IDEMPOTENT, ACTOR_IDEMPOTENT, ACTOR_ALL,
                                            ACTOR_ONE,        ACTOR_FETCHER,    ACTOR_FETCHER,
                                            ACTOR_MIXED};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        actor_init(&s->actors[s->actors_count++], &s->world, kinds[i], (uint32_t)i);
    }
    actor_init(&s->actors[s->actors_count++], &s->world, ACTOR_SESSION, 0);
    actor_init(&s->actors[s->actors_count++], &s->world, ACTOR_ADMIN, 0);
    if (sim_chance(s->sim, 300)) {
        actor_init(&s->actors[s->actors_count++], &s->world, ACTOR_ZERO, COUNT_OF(kinds));
    }
}

static unsigned preempt_of(uint64_t seed)
{
    static const unsigned preempt[] = {0, 20, 100, 300};
    return preempt[(seed * 0x9e3779b97f4a7c15ULL >> 32) % COUNT_OF(preempt)];
}

static struct sim *world_of(const struct scenario_options *o)
{
    return sim_create(&(struct sim_options){.seed = o->seed,
                                            .preempt_permille = preempt_of(o->seed),
                                            .short_permille = o->seed % 2 ? 200 : 0,
                                            .trace = o->trace});
}

void scenario_run(const struct scenario_options *options, struct scenario_result *out)
{
    static const uint64_t paces[] = {20, 200, 1000};
    static const char *const dirs[] = {LOG_DIR, LOG_DIR, LOG_DIR ",d1/more", LOG_DIR ",d2/logs"};
    *out = (struct scenario_result){0};
    struct scenario *s = calloc(1, sizeof *s);
    CHECK(s);
    s->out = out;
    s->sim = world_of(options);
    s->host = sim_host_create(s->sim, "b1");
    s->heal_ns = SYS_NEVER;
    s->trouble_disk = "d1";
    s->dirs = dirs[sim_below(s->sim, COUNT_OF(dirs))];
    s->policy =
        sim_chance(s->sim, 600) ? POLICY_GROUP : (enum policy)sim_below(s->sim, POLICIES_COUNT);
    s->world = (struct actor_world){.sim = s->sim,
                                    .host = s->host,
                                    .partitions_count = PARTITIONS,
                                    .keeps_acks_one = s->policy != POLICY_GROUP,
                                    .patience_ns = (30 + preempt_of(options->seed) / 3) * SYS_MS,
                                    .pace_ms = paces[sim_below(s->sim, COUNT_OF(paces))]};
    s->world.ghost = ghost_create(s->sim, PARTITIONS + 1);
    disk(s)->cold_permille = sim_chance(s->sim, 500) ? 300 : 0;
    for (int i = 0; i < FAULTS_COUNT; i++) {
        s->is_fault_on[i] = sim_chance(s->sim, 600);
    }
    if (s->policy != POLICY_GROUP) {
        /* What was written is kept, or nothing would be promised. */
        s->is_fault_on[FAULT_SYNC_ERROR] = s->is_fault_on[FAULT_ROT] = false;
    }
    start(s);
    create_topic(s);
    add_actors(s);
    load(s, options->load_ms ? options->load_ms : 3000);
    drain(s);
    audit(s);
    stop(s);
    sim_crash(s->host, SIM_KEEP_NOTHING); /* after a stop under each policy */
    went_down(s);
    start(s);
    run_for(s, 10);
    audit(s);
    stop(s);
    out->hash = sim_hash(s->sim);
    out->counts = *sim_counts(s->sim);
    out->acked = ghost_acked_count(s->world.ghost);
    out->seen = ghost_seen_count(s->world.ghost);
    out->virtual_ms = sim_now_ns(s->sim) / SYS_MS;
    for (size_t i = 0; i < s->actors_count; i++) {
        actor_fini(&s->actors[i]);
    }
    conn_fini(&s->admin);
    ghost_destroy(s->world.ghost);
    sim_destroy(s->sim);
    free(s);
}
