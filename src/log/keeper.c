/* keeper.c - the task that looks after a directory: retention, idle logs, checkpoints, removal of
 * deleted files, and the word that the directory failed.
 *
 * Place:      log/, private.
 * Thread:     its own task, which may wait for the disk; others only hand in removals.
 * Bound:      at most KEEPER_LOGS_MAX logs or removals in one step, so that a stop is never far. */
#include "log/dir_int.h"

#include <stdio.h>

/* ---- removals ---- */

void keeper_remove_later(struct keeper *k, const char *path, int64_t delay_ms, bool is_tree)
{
    size_t size = strlen(path) + 1;
    struct removal *r = mem_alloc(sizeof *r + size);
    if (!r) { return; } /* its name says that it is deleted: the next start removes it */
    memcpy(r->path, path, size);
    list_init(&r->node);
    r->is_tree = is_tree;
    uint64_t now_ns = sys_mono_ns(k->dir->sys);
    r->due_ns = now_ns + (delay_ms > 0 ? (uint64_t)delay_ms * SYS_MS : 0);
    sys_mutex_lock(&k->lock);
    list_add_tail(&k->removals, &r->node);
    if (k->task) { sys_task_wake(k->task); }
    sys_mutex_unlock(&k->lock);
}

void keeper_wake(struct keeper *k)
{
    sys_mutex_lock(&k->lock);
    if (k->task) { sys_task_wake(k->task); }
    sys_mutex_unlock(&k->lock);
}

struct tree {
    struct sys *sys;
    const char *path;
};

static enum err remove_entry(void *ctx, const char *name, bool is_dir)
{
    struct tree *t = ctx;
    char path[LOG_PATH_SIZE + 256];
    int n = snprintf(path, sizeof path, "%s/%s", t->path, name);
    if (is_dir || n < 0 || (size_t)n >= sizeof path) { return ERR_OK; }
    enum err e = sys_path_unlink(t->sys, path);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

static void remove_now(struct keeper *k, struct removal *r)
{
    struct sys *sys = k->dir->sys;
    struct tree t = {sys, r->path};
    enum err e = ERR_OK;
    if (r->is_tree) {
        e = sys_dir_list(sys, r->path, remove_entry, &t);
        if (!e) { e = sys_dir_remove(sys, r->path); }
    } else {
        e = sys_path_unlink(sys, r->path);
    }
    if (e && e != ERR_NOTFOUND) {
        log_warn(k->dir->options.logger, LOGGER_DIR, "cannot remove %s: %s", r->path, err_name(e));
    }
    mem_free(r);
}

static struct removal *take_removal(struct keeper *k, uint64_t now_ns, uint64_t *due_ns)
{
    struct removal *found = NULL;
    sys_mutex_lock(&k->lock);
    LIST_EACH(node, next, &k->removals)
    {
        struct removal *r = LIST_ENTRY(node, struct removal, node);
        if (r->due_ns <= now_ns) {
            list_remove(&r->node);
            found = r;
            break;
        }
        if (r->due_ns < *due_ns) { *due_ns = r->due_ns; }
    }
    sys_mutex_unlock(&k->lock);
    return found;
}

/* When the next removal is due. */
static uint64_t run_removals(struct keeper *k, uint64_t now_ns)
{
    uint64_t due_ns = SYS_NEVER;
    if (logdir_is_offline(k->dir)) { return SYS_NEVER; }
    for (uint32_t i = 0; i < KEEPER_LOGS_MAX; i++) {
        due_ns = SYS_NEVER;
        struct removal *r = take_removal(k, now_ns, &due_ns);
        if (!r) { return due_ns; }
        remove_now(k, r);
    }
    return now_ns;
}

/* ---- passes over all logs ---- */

static uint64_t job_period_ns(const struct keeper *k, enum keeper_job job)
{
    const struct logdir_options *o = &k->dir->options;
    int64_t ms = 0;
    switch (job) {
    case KEEPER_RETENTION:
        ms = o->retention_check_ms;
        break;
    case KEEPER_IDLE:
        ms = o->idle_close_ms;
        break;
    case KEEPER_CHECKPOINT:
        ms = o->checkpoint_ms;
        break;
    case KEEPER_JOBS:
        CHECK(false);
    }
    return (uint64_t)ms * SYS_MS;
}

static void visit_log(struct keeper *k, struct log *log)
{
    int64_t now_ms = sys_wall_ms(k->dir->sys);
    size_t deleted = 0;
    if (k->pass_job == KEEPER_RETENTION) {
        enum err e = log_retention_step(log, now_ms, &deleted);
        if (e && e != ERR_OFFLINE && e != ERR_CLOSED) {
            log_warn(k->dir->options.logger, LOGGER_DIR, "retention of %s-%d: %s", log->topic,
                     log->partition, err_name(e));
        }
    } else if (k->pass_job == KEEPER_IDLE) {
        log_expire_producers(log, now_ms);
        (void)log_idle_step(log);
    }
}

static void pass_end(struct keeper *k)
{
    for (size_t i = k->pass_at; i < k->pass_count; i++) {
        log_unref(k->pass[i]);
    }
    mem_free(k->pass);
    k->pass = NULL;
    k->pass_count = k->pass_at = 0;
    k->in_pass = false;
}

static void run_pass(struct keeper *k)
{
    for (uint32_t i = 0; i < KEEPER_LOGS_MAX && k->pass_at < k->pass_count; i++) {
        struct log *log = k->pass[k->pass_at++];
        visit_log(k, log);
        log_unref(log);
    }
    if (k->pass_at == k->pass_count) { pass_end(k); }
}

static void begin_job(struct keeper *k, enum keeper_job job)
{
    if (job == KEEPER_CHECKPOINT) {
        enum err e = logdir_checkpoint(k->dir, false);
        if (e && e != ERR_AGAIN) {
            log_warn(k->dir->options.logger, LOGGER_DIR, "writing checkpoints: %s", err_name(e));
        }
        return;
    }
    k->pass_job = job;
    if (logdir_snapshot(k->dir, &k->pass, &k->pass_count) != ERR_OK) { return; }
    k->pass_at = 0;
    k->in_pass = true;
}

static uint64_t keeper_step(void *ctx, uint64_t now_ns)
{
    struct keeper *k = ctx;
    if (logdir_is_offline(k->dir)) {
        if (k->in_pass) { pass_end(k); }
        const struct logdir_callbacks *cb = &k->dir->options.callbacks;
        if (!k->told_offline) {
            k->told_offline = true;
            enum err cause =
                (enum err)atomic_load_explicit(&k->dir->offline_cause, memory_order_acquire);
            if (cb->on_offline) { cb->on_offline(cb->ctx, k->dir, cause); }
        }
        return SYS_NEVER;
    }
    uint64_t due = run_removals(k, now_ns);
    if (k->in_pass) { run_pass(k); }
    for (unsigned j = 0; j < KEEPER_JOBS && !k->in_pass; j++) {
        if (k->due_ns[j] > now_ns) { continue; }
        k->due_ns[j] = now_ns + job_period_ns(k, (enum keeper_job)j);
        begin_job(k, (enum keeper_job)j);
    }
    if (k->in_pass) { return now_ns; }
    for (unsigned j = 0; j < KEEPER_JOBS; j++) {
        if (k->due_ns[j] < due) { due = k->due_ns[j]; }
    }
    return due;
}

void keeper_init(struct keeper *k, struct logdir *dir)
{
    k->dir = dir;
    sys_mutex_init(&k->lock, SYS_RANK_LEAF);
    list_init(&k->removals);
}

enum err keeper_start(struct keeper *k)
{
    uint64_t now_ns = sys_mono_ns(k->dir->sys);
    for (unsigned j = 0; j < KEEPER_JOBS; j++) {
        k->due_ns[j] = now_ns + job_period_ns(k, (enum keeper_job)j);
    }
    struct sys_task_options o = {.name = "keeper", .step = keeper_step, .ctx = k};
    sys_mutex_lock(&k->lock); /* the flusher runs already and may wake it */
    enum err e = sys_task_start(k->dir->sys, &o, &k->task);
    sys_mutex_unlock(&k->lock);
    return e;
}

void keeper_stop(struct keeper *k)
{
    sys_mutex_lock(&k->lock);
    struct sys_task *task = k->task;
    k->task = NULL; /* from here on nobody wakes it */
    sys_mutex_unlock(&k->lock);
    sys_task_stop(task);
    if (k->in_pass) { pass_end(k); }
}

void keeper_fini(struct keeper *k, bool remove_waiting)
{
    struct list *node;
    while ((node = list_pop_head(&k->removals)) != NULL) {
        struct removal *r = LIST_ENTRY(node, struct removal, node);
        if (remove_waiting) {
            remove_now(k, r);
        } else {
            mem_free(r);
        }
    }
    sys_mutex_fini(&k->lock);
}
