/* world.c - the world's clock, chance, trace and scheduler. */
#include "base/crc32c.h"
#include "base/map.h"
#include "sim/machine_int.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

struct sim *sim_world;

#define SIM_START_NS (1000000000ULL) /* a monotonic clock never begins at nothing */
#define SIM_STEP_NS_MAX 20000

void *sim_alloc(size_t size)
{
    void *p = calloc(1, size);
    CHECK(p);
    return p;
}

char *sim_strdup(const char *s)
{
    size_t size = strlen(s) + 1;
    char *copy = sim_alloc(size);
    memcpy(copy, s, size);
    return copy;
}

struct sim *sim_create(const struct sim_options *options)
{
    CHECK(!sim_world);
    struct sim *sim = sim_alloc(sizeof *sim);
    sim->options = *options;
    if (sim->options.latency_max_ns == 0) {
        sim->options.latency_min_ns = 20000;
        sim->options.latency_max_ns = 500000;
    }
    if (sim->options.stream_bytes_max == 0) { sim->options.stream_bytes_max = 65536; }
    sim->random = options->seed;
    sim->entropy = ~options->seed;
    sim->now_ns = SIM_START_NS;
    sim_world = sim;
    return sim;
}

static void sim_host_free(struct sim_host *host)
{
    if (host->process) { sim_kill(host); }
    while (host->disks) {
        struct sim_disk *d = host->disks;
        host->disks = d->next;
        sim_disk_free(d);
    }
    free(host);
}

void sim_destroy(struct sim *sim)
{
    if (!sim) { return; }
    CHECK(sim == sim_world && !sim->fiber);
    while (sim->streams) {
        sys_stream_close(&sim->streams->stream);
    }
    while (sim->hosts) {
        struct sim_host *host = sim->hosts;
        sim->hosts = host->next;
        sim_host_free(host);
    }
    sim_links_collect(sim);
    CHECK(!sim->links);
    free(sim);
    sim_world = NULL;
}

/* ---- chance ---- */

static uint64_t sim_draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ULL;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

uint64_t sim_random(struct sim *sim)
{
    return sim_draw(&sim->random);
}

uint64_t sim_below(struct sim *sim, uint64_t bound)
{
    CHECK(bound > 0);
    return sim_random(sim) % bound;
}

bool sim_chance(struct sim *sim, unsigned permille)
{
    return permille > 0 && sim_below(sim, 1000) < permille;
}

/* What a process sees as entropy: a sequence of its own, so that a process that asks once more
 * does not change every later fault. */
void sys_random(struct sys *sys, void *buf, size_t size)
{
    (void)sys;
    uint8_t *p = buf;
    while (size > 0) {
        uint64_t word = sim_draw(&sim_world->entropy);
        size_t n = size < sizeof word ? size : sizeof word;
        memcpy(p, &word, n);
        p += n;
        size -= n;
    }
}

uint64_t sys_random_u64(struct sys *sys)
{
    uint64_t word;
    sys_random(sys, &word, sizeof word);
    return word;
}

/* ---- trace ---- */

void sim_mix(uint64_t word)
{
    sim_world->hash = hash_u64(sim_world->hash ^ word);
}

__attribute__((format(printf, 2, 0))) static void sim_line(const char *who, const char *fmt,
                                                           va_list args)
{
    struct sim *sim = sim_world;
    char *line = sim->lines[sim->lines_count++ % SIM_TRACE_LINES];
    int head = snprintf(line, SIM_TRACE_WIDTH, "[%12.6f] %s ",
                        (double)(sim->now_ns - SIM_START_NS) / 1e9, who);
    CHECK(head > 0 && head < SIM_TRACE_WIDTH);
    (void)vsnprintf(line + head, SIM_TRACE_WIDTH - (size_t)head, fmt, args);
    sim_mix(crc32c(0, line, strlen(line)));
    if (sim->options.trace) { (void)fprintf(sim->options.trace, "%s\n", line); }
}

void sim_event(const struct sim_process *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    sim_line(p ? p->host->name : "-", fmt, args);
    va_end(args);
}

void sim_note(struct sim *sim, const char *fmt, ...)
{
    CHECK(sim == sim_world);
    va_list args;
    va_start(args, fmt);
    sim_line("*", fmt, args);
    va_end(args);
}

uint64_t sim_hash(const struct sim *sim)
{
    return sim->hash;
}

void sim_print_trace(const struct sim *sim, FILE *out)
{
    uint64_t from = sim->lines_count > SIM_TRACE_LINES ? sim->lines_count - SIM_TRACE_LINES : 0;
    for (uint64_t i = from; i < sim->lines_count; i++) {
        (void)fprintf(out, "%s\n", sim->lines[i % SIM_TRACE_LINES]);
    }
}

const struct sim_counts *sim_counts(const struct sim *sim)
{
    return &sim->counts;
}

/* Takes the place of base/check.c: a failure is worth its seed and its story. */
void check_failed(const char *expr, const char *file, int line, const char *fmt, ...)
{
    const struct sim *sim = sim_world;
    if (sim) {
        sim_print_trace(sim, stderr);
        (void)fprintf(stderr, "seed %" PRIu64 ", fiber %s\n", sim->options.seed,
                      sim->fiber ? sim->fiber->name : "none");
    }
    va_list args;
    va_start(args, fmt);
    (void)fprintf(stderr, "%s:%d: CHECK(%s) failed: ", file, line, expr);
    (void)vfprintf(stderr, fmt, args);
    (void)fputc('\n', stderr);
    va_end(args);
    abort();
}

/* ---- clocks ---- */

uint64_t sim_now_ns(const struct sim *sim)
{
    return sim->now_ns;
}

uint64_t sys_mono_ns(struct sys *sys)
{
    (void)sys;
    return sim_world->now_ns;
}

int64_t sys_wall_ms(struct sys *sys)
{
    return (int64_t)1790000000000 + (int64_t)(sim_world->now_ns / SYS_MS) +
           sys->process->host->wall_skew_ms;
}

void sim_jump_wall_clock(struct sim_host *host, int64_t by_ms)
{
    host->wall_skew_ms += by_ms;
    sim_event(NULL, "%s: wall clock jumps by %" PRId64 " ms", host->name, by_ms);
}

/* ---- scheduler ---- */

static bool sim_fiber_is_ready(const struct sim_fiber *f)
{
    bool is_due = f->until_ns <= sim_world->now_ns;
    switch (f->wait) {
    case SIM_READY:
        return true;
    case SIM_ASLEEP:
        return f->task->is_notified || is_due ||
               (f->task->poller && sim_poller_has_events(f->task->poller));
    case SIM_TIMED:
        return is_due;
    case SIM_LOCKED:
        return !sim_mutex_is_held(f->lock);
    case SIM_AWAITING:
        return atomic_load(f->word) != f->word_value;
    case SIM_FLAGGED:
        return is_due || atomic_load(f->flag) != 0;
    case SIM_JOINING:
        return f->other->wait == SIM_ENDED;
    case SIM_ENDED:
        return false;
    }
    return false;
}

/* The skip-th fiber that can run; without one, *count is how many there are. */
static struct sim_fiber *sim_find_ready(const struct sim *sim, uint64_t skip, uint64_t *count)
{
    *count = 0;
    for (const struct sim_host *host = sim->hosts; host; host = host->next) {
        struct sim_fiber *f = host->process ? host->process->fibers : NULL;
        for (; f; f = f->next) {
            if (!sim_fiber_is_ready(f)) { continue; }
            if ((*count)++ == skip) { return f; }
        }
    }
    return NULL;
}

static uint64_t sim_next_due_ns(const struct sim *sim)
{
    uint64_t due = sim_streams_next_ns(sim);
    for (const struct sim_host *host = sim->hosts; host; host = host->next) {
        const struct sim_fiber *f = host->process ? host->process->fibers : NULL;
        for (; f; f = f->next) {
            bool is_timed = f->wait == SIM_ASLEEP || f->wait == SIM_TIMED || f->wait == SIM_FLAGGED;
            if (is_timed && f->until_ns < due) { due = f->until_ns; }
        }
    }
    return due;
}

bool sim_step(struct sim *sim, uint64_t limit_ns)
{
    CHECK(sim == sim_world && !sim->fiber);
    uint64_t count = 0;
    (void)sim_find_ready(sim, UINT64_MAX, &count);
    if (count > 0 && sim->now_ns < limit_ns) {
        struct sim_fiber *f = sim_find_ready(sim, sim_below(sim, count), &count);
        CHECK(f);
        sim->counts.steps++;
        sim->now_ns += 1 + sim_below(sim, SIM_STEP_NS_MAX);
        sim_mix(f->id);
        sim_fiber_resume(f);
        return true;
    }
    uint64_t due = count > 0 ? limit_ns : sim_next_due_ns(sim);
    if (due < limit_ns) {
        sim->now_ns = due > sim->now_ns ? due : sim->now_ns;
        return true;
    }
    if (limit_ns != SYS_NEVER && limit_ns > sim->now_ns) { sim->now_ns = limit_ns; }
    return false;
}

void sim_run_until(struct sim *sim, uint64_t limit_ns)
{
    CHECK(limit_ns != SYS_NEVER);
    while (sim_step(sim, limit_ns)) {}
}
