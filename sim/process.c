/* process.c - hosts, their processes, the tasks in them. */
#include "sim/machine_int.h"

#include <stdlib.h>

struct sim_host *sim_host_create(struct sim *sim, const char *name)
{
    struct sim_host *host = sim_alloc(sizeof *host);
    host->sim = sim;
    host->port_next = 30000;
    (void)snprintf(host->name, sizeof host->name, "%s", name);
    struct sim_host **end = &sim->hosts;
    while (*end) {
        end = &(*end)->next;
    }
    *end = host;
    return host;
}

static void sim_logger_write(void *ctx, enum logger_level level, const char *line)
{
    (void)level;
    const struct sim_process *p = ctx;
    sim_event(p, "%s", line);
}

static int64_t sim_logger_wall_ms(void *ctx)
{
    struct sim_process *p = ctx;
    return sys_wall_ms(&p->sys);
}

static void sim_call_entry(struct sim_fiber *f)
{
    f->call(&f->process->sys, f->call_ctx);
    if (f->done) { atomic_store(f->done, 1); }
}

void sim_call(struct sim_host *host, void (*call)(struct sys *sys, void *ctx), void *ctx,
              _Atomic int *done)
{
    CHECK(host->process);
    struct sim_fiber *f = sim_fiber_start(host->process, "call", sim_call_entry);
    f->call = call;
    f->call_ctx = ctx;
    f->done = done;
}

void sim_boot(struct sim_host *host, void (*main)(struct sys *sys, void *ctx), void *ctx)
{
    CHECK(!host->process && !sim_world->fiber);
    struct sim_process *p = sim_alloc(sizeof *p);
    p->host = host;
    p->sys.process = p;
    p->sys.logger = (struct logger){
        .level_min = LOG_INFO, .write = sim_logger_write, .wall_ms = sim_logger_wall_ms, .ctx = p};
    p->blocks.next = p->blocks.prev = &p->blocks;
    host->process = p;
    sim_event(p, "boot");
    struct sim_fiber *f = sim_fiber_start(p, "main", sim_call_entry);
    f->call = main;
    f->call_ctx = ctx;
}

bool sim_is_up(const struct sim_host *host)
{
    return host->process != NULL;
}

struct sim *sim_of(const struct sim_host *host)
{
    return host->sim;
}

struct sys *sim_sys(const struct sim_host *host)
{
    CHECK(host->process);
    return &host->process->sys;
}

/* The process as a whole: nothing of it runs or is told again. */
static void sim_process_drop(struct sim_host *host)
{
    struct sim_process *p = host->process;
    CHECK(p && !sim_world->fiber);
    while (p->fibers) {
        sim_fiber_free(p->fibers);
    }
    sim_streams_drop(p);
    while (p->files) {
        sim_file_drop(p->files);
    }
    sim_heap_drop(&p->blocks);
    for (struct sim_disk *d = host->disks; d; d = d->next) {
        memset(d->started_ns, 0, sizeof d->started_ns);
        d->slow_left = 0;
    }
    free(p);
    host->process = NULL;
}

void sim_kill(struct sim_host *host)
{
    sim_event(host->process, "killed");
    sim_process_drop(host);
}

void sim_crash(struct sim_host *host, enum sim_keep keep)
{
    sim_event(host->process, "power cut");
    if (host->process) { sim_process_drop(host); }
    for (struct sim_disk *d = host->disks; d; d = d->next) {
        sim_disk_crash(d, keep);
    }
}

void sim_signal(struct sim_host *host, int number)
{
    CHECK(host->process && number != 0);
    atomic_store(&host->process->signal, number);
}

void sim_fail_allocation(struct sim_host *host, uint64_t nth)
{
    CHECK(host->process);
    host->process->fail_allocation_in = nth;
}

uint64_t sim_heap_bytes(const struct sim_host *host)
{
    return host->process ? host->process->heap_bytes : 0;
}

uint64_t sim_allocations(const struct sim_host *host)
{
    return host->process ? host->process->allocations : 0;
}

/* ---- tasks ---- */

static void sim_task_entry(struct sim_fiber *f)
{
    struct sys_task *task = f->task;
    while (!task->is_stopping) {
        task->is_notified = false;
        uint64_t now = sim_world->now_ns;
        uint64_t next = task->step(task->ctx, now);
        CHECKF(f->held_count == 0, "task %s holds a lock after its step", f->name);
        if (task->poller) { task->poller->is_polled = false; }
        f->until_ns = next;
        sim_fiber_wait(next <= now ? SIM_READY : SIM_ASLEEP);
    }
}

enum err sys_task_start(struct sys *sys, const struct sys_task_options *options,
                        struct sys_task **out)
{
    struct sys_task *task = sim_alloc(sizeof *task);
    task->step = options->step;
    task->ctx = options->ctx;
    task->poller = options->poller;
    if (task->poller) {
        CHECK(!task->poller->is_owned);
        task->poller->is_owned = true;
    }
    task->fiber = sim_fiber_start(sys->process, options->name, sim_task_entry);
    task->fiber->task = task;
    *out = task;
    sim_preempt();
    return ERR_OK;
}

void sys_task_wake(struct sys_task *task)
{
    if (!task->is_notified && task->fiber->wait == SIM_ASLEEP) { task->wakes++; }
    task->is_notified = true;
    sim_preempt();
}

void sys_task_stop(struct sys_task *task)
{
    if (!task) { return; }
    struct sim_fiber *me = sim_world->fiber;
    CHECK(me && me != task->fiber);
    task->is_stopping = true;
    task->is_notified = true;
    while (task->fiber->wait != SIM_ENDED) {
        me->other = task->fiber;
        sim_fiber_wait(SIM_JOINING);
    }
    if (task->poller) { task->poller->is_owned = false; }
    sim_fiber_free(task->fiber); /* and the task */
}

bool sys_task_is_current(const struct sys_task *task)
{
    return sim_world->fiber && sim_world->fiber == task->fiber;
}

uint64_t sys_task_wakes(const struct sys_task *task)
{
    return task->wakes;
}

/* ---- the process as it sees itself ---- */

struct sys *sys_create(void)
{
    struct sim_process *p = sim_current();
    return p ? &p->sys : NULL;
}

void sys_destroy(struct sys *sys)
{
    (void)sys; /* goes with the process */
}

struct logger *sys_logger(struct sys *sys)
{
    return &sys->logger;
}

uint64_t sys_descriptors_max(struct sys *sys)
{
    (void)sys;
    return 1048576;
}

uint64_t sys_resident_bytes(struct sys *sys)
{
    return sys->process->heap_bytes;
}

unsigned sys_cpu_count(struct sys *sys)
{
    (void)sys;
    return 2;
}

bool sys_stop_is_wanted(struct sys *sys)
{
    return atomic_load(&sys->process->signal) != 0;
}

int sys_wait_signal(struct sys *sys)
{
    (void)sys_wait_flag(sys, &sys->process->signal, SYS_NEVER);
    return atomic_load(&sys->process->signal);
}

void sys_hostname(struct sys *sys, char *buf, size_t size)
{
    (void)snprintf(buf, size, "%s", sys->process->host->name);
}
