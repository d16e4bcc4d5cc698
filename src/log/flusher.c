/* flusher.c - the task that makes appended bytes survive: one for each data directory.
 *
 * Place:      log/, private.
 * Thread:     its own task; flusher_post() from anywhere. Rounds: whatever is dirty when a round
 *             begins is synced together: by one fdatasync a file while they are few, else by one
 *             syncfs. While a round runs the next one gathers: no timer, and the more producers
 *             wait the more of them share one sync.
 * Rules:      [FSH-1] a name counts: a new file's directory, and a new directory's parent, are
 *             synced in the round that first covers it. [FSH-2] any failed sync takes the
 *             directory offline; it is never tried again, since the kernel has dropped the pages'
 *             error. [FSH-3] marks of a round are added after its syncs returned. */
#include "log/dir_int.h"

void flusher_post(struct flusher *f, struct log *log)
{
    /* NULL: one that is posted already became urgent. */
    if (log) {
        log_ref(log);
        sys_mailbox_post(&f->dirty, &log->flush_msg);
    }
    if (f->task) { sys_task_wake(f->task); }
}

static struct log *log_of_msg(struct sys_msg *msg)
{
    return CONTAINER_OF(msg, struct log, flush_msg);
}

/* Moves what was posted to the pending list and gives it a time. */
static void take_posted(struct flusher *f, uint64_t now_ns) NO_THREAD_SAFETY
{
    struct sys_msg *next;
    for (struct sys_msg *m = sys_mailbox_take(&f->dirty); m; m = next) {
        next = m->next;
        struct log *log = log_of_msg(m);
        log->flush_due_ns = now_ns;
        if (f->dir->env.policy == LOG_FLUSH_WINDOW) {
            sys_mutex_lock(&log->lock);
            int64_t ms = log->config.flush_ms;
            sys_mutex_unlock(&log->lock);
            bool never = ms < 0 || (uint64_t)ms > (SYS_NEVER - now_ns) / SYS_MS;
            log->flush_due_ns = never ? SYS_NEVER : now_ns + (uint64_t)ms * SYS_MS;
        }
        log->flush_next = f->pending;
        f->pending = log;
    }
}

static enum err round_grow(struct flusher *f)
{
    if (f->round_count < f->round_capacity) { return ERR_OK; }
    size_t n = f->round_capacity ? f->round_capacity * 2 : 64;
    struct log_flush *at = mem_realloc(f->round, n * sizeof *at);
    if (!at) { return ERR_NOMEM; }
    f->round = at;
    f->round_capacity = n;
    return ERR_OK;
}

/* Takes due logs into the round; the others stay pending. The earliest of their times. */
static uint64_t round_collect(struct flusher *f, uint64_t now_ns, bool all)
{
    struct log *log = f->pending, *next;
    uint64_t due = SYS_NEVER;
    f->pending = NULL;
    f->round_count = 0;
    for (; log; log = next) {
        next = log->flush_next;
        bool urgent = atomic_load_explicit(&log->is_urgent, memory_order_acquire);
        if ((all || urgent || log->flush_due_ns <= now_ns) && round_grow(f) == ERR_OK) {
            if (log_flush_begin(log, &f->round[f->round_count])) {
                f->round_count++; /* with the reference of the posting */
            } else {
                log_unref(log);
            }
            continue;
        }
        if (log->flush_due_ns < due) { due = log->flush_due_ns; }
        log->flush_next = f->pending;
        f->pending = log;
    }
    return due;
}

static void count(_Atomic uint64_t *c)
{
    atomic_fetch_add_explicit(c, 1, memory_order_relaxed);
}

/* The name of a partition's directory goes while a deletion renames it: then it does not matter. */
static enum err sync_names(struct flusher *f, const struct log_flush *r)
{
#ifdef MUTANT_NAME_NOT_SYNCED
    return ERR_OK;
#endif
    char path[LOG_PATH_SIZE];
    log_path_dir(r->log, path);
    count(&f->dir_syncs);
    enum err e = sys_dir_sync(f->dir->sys, path);
    if (e == ERR_NOTFOUND && log_usable(r->log) == ERR_CLOSED) { return ERR_OK; }
    return e;
}

/* A new log's partition.metadata, without which its bytes belong to no topic after a crash. It was
 * written without a sync, so that many partitions are created fast. */
static enum err sync_identity(struct flusher *f, const struct log_flush *r)
{
    char path[LOG_PATH_SIZE];
    struct sys_file *file = NULL;
    log_path_file(r->log, "partition.metadata", path);
    enum err e = sys_file_open(f->dir->sys, path, SYS_READ, &file);
    if (e == ERR_NOTFOUND) { return ERR_OK; } /* renamed for deletion, or a log without one */
    if (e) { return e; }
    count(&f->file_syncs);
    e = sys_file_sync(file);
    sys_file_unref(file);
    return e;
}

static enum err sync_few(struct flusher *f)
{
    bool parent = false;
    for (size_t i = 0; i < f->round_count; i++) {
        const struct log_flush *r = &f->round[i];
        for (uint32_t k = 0; k < r->files_count; k++) {
            count(&f->file_syncs);
            enum err e = sys_file_sync(r->files[k]);
            if (e) { return e; }
        }
        if (r->dir_name) {
            enum err e = sync_identity(f, r);
            if (e) { return e; }
        }
        if (r->names) {
            enum err e = sync_names(f, r);
            if (e) { return e; }
        }
        parent = parent || r->dir_name;
    }
    if (!parent) { return ERR_OK; }
    count(&f->dir_syncs);
    return sys_dir_sync(f->dir->sys, f->dir->path);
}

static enum err sync_round(struct flusher *f)
{
    size_t files = 0, names = 0;
    bool fs = false;
    for (size_t i = 0; i < f->round_count; i++) {
        files += f->round[i].files_count;
        names += f->round[i].names;
        fs = fs || f->round[i].needs_fs;
    }
    if (!fs && files + names <= FLUSH_FILES_FEW) { return sync_few(f); }
    count(&f->fs_syncs);
    enum err e = sys_fs_sync(f->dir->sys, f->dir->path);
    if (!e) { marks_note_synced(&f->dir->marks); }
    return e;
}

/* Under the log's lock, as truncation lowers the mark: a mark from before a cut must not come after
 * it. */
static void note_mark(struct flusher *f, const struct log_flush *r)
{
    struct log *log = r->log;
    struct mark_entry mark = {.topic_id = log->topic_id,
                              .partition = log->partition,
                              .kind = MARK_SYNCED,
                              .mark = r->mark,
                              .hw = log_hw(log)};
    sys_mutex_lock(&log->lock);
    if (r->generation == log->cut_generation) { marks_add(&f->dir->marks, &mark); }
    sys_mutex_unlock(&log->lock);
}

static void round_publish(struct flusher *f)
{
    const struct logdir_callbacks *cb = &f->dir->options.callbacks;
    for (size_t i = 0; i < f->round_count; i++) {
        struct log_flush *r = &f->round[i];
        struct log *log = r->log;
        if (log_flush_end(r, true)) {
            count(&f->logs_flushed);
            note_mark(f, r);
            if (cb->on_synced) { cb->on_synced(cb->ctx, log, r->mark.offset); }
        }
        log_unref(log);
    }
    f->round_count = 0;
}

static void round_fail(struct flusher *f, enum err e)
{
    /* ERR_NOSPACE and others from a sync mean lost pages just as ERR_IO does. */
    if (e) { logdir_fail(f->dir, e); }
    for (size_t i = 0; i < f->round_count; i++) {
        err_ignore(log_flush_end(&f->round[i], false) ? ERR_OK : ERR_IO, "nothing is published");
        log_unref(f->round[i].log);
    }
    f->round_count = 0;
}

static void run_round(struct flusher *f)
{
    if (f->round_count == 0) { return; }
    count(&f->flushes);
    /* The marks of the round before go with this one [MRK-2]. */
    enum err e = marks_write(&f->dir->marks);
    if (e) { log_warn(f->dir->options.logger, LOGGER_DIR, "writing marks: %s", err_name(e)); }
#ifdef MUTANT_SYNCED_BEFORE_SYNC
    const struct logdir_callbacks *cb = &f->dir->options.callbacks;
    for (size_t i = 0; i < f->round_count && cb->on_synced; i++) {
        cb->on_synced(cb->ctx, f->round[i].log, f->round[i].mark.offset);
    }
#endif
    if (e == ERR_OK || e == ERR_NOSPACE) { e = sync_round(f); }
#ifdef MUTANT_RETRY_AFTER_EIO
    if (e) { e = sync_round(f); }
#endif
    if (e || logdir_is_offline(f->dir)) {
        round_fail(f, e);
    } else {
        round_publish(f);
    }
}

/* Marks that no further round carries are written and synced after a while. */
static uint64_t settle_marks(struct flusher *f, uint64_t now_ns)
{
    struct marks *m = &f->dir->marks;
    if (logdir_is_offline(f->dir)) { return SYS_NEVER; }
    if (!marks_has_pending(m) && !marks_is_unsynced(m)) {
        f->marks_due_ns = SYS_NEVER;
        return SYS_NEVER;
    }
    if (f->marks_due_ns == SYS_NEVER) { f->marks_due_ns = now_ns + MARKS_SYNC_DELAY_NS; }
    if (now_ns < f->marks_due_ns) { return f->marks_due_ns; }
    f->marks_due_ns = SYS_NEVER;
    enum err e = marks_write(m);
    if (!e) { e = marks_sync(m); }
    if (e) { logdir_fail(f->dir, e); }
    return SYS_NEVER;
}

static uint64_t flusher_step(void *ctx, uint64_t now_ns)
{
    struct flusher *f = ctx;
    /* Waiters first: what was dirty before they came is posted already. */
    struct flush_waiter *waiters = NULL;
    struct sys_msg *next;
    for (struct sys_msg *m = sys_mailbox_take(&f->waiters); m; m = next) {
        next = m->next;
        struct flush_waiter *w = CONTAINER_OF(m, struct flush_waiter, msg);
        w->next = waiters;
        waiters = w;
    }
    take_posted(f, now_ns);
    uint64_t due = round_collect(f, now_ns, waiters != NULL);
    bool worked = f->round_count > 0;
    run_round(f);
    while (waiters) {
        struct flush_waiter *w = waiters;
        waiters = w->next;
        sys_signal_flag(f->dir->sys, &w->done, 1);
    }
    uint64_t settle = settle_marks(f, now_ns);
    if (worked) { return now_ns; } /* what came meanwhile */
    return settle < due ? settle : due;
}

enum err flusher_start(struct flusher *f, struct logdir *dir)
{
    f->dir = dir;
    f->marks_due_ns = SYS_NEVER;
    struct sys_task_options o = {.name = "flusher", .step = flusher_step, .ctx = f};
    return sys_task_start(dir->sys, &o, &f->task);
}

void flusher_stop(struct flusher *f)
{
    sys_task_stop(f->task);
    f->task = NULL;
    struct sys_msg *next;
    for (struct sys_msg *m = sys_mailbox_take(&f->dirty); m; m = next) {
        next = m->next;
        log_unref(log_of_msg(m));
    }
    while (f->pending) {
        struct log *log = f->pending;
        f->pending = log->flush_next;
        log_unref(log);
    }
    mem_free(f->round);
    f->round = NULL;
    f->round_capacity = 0;
}

void flusher_wait(struct flusher *f)
{
    struct flush_waiter w = {0};
    sys_mailbox_post(&f->waiters, &w.msg);
    sys_task_wake(f->task);
    while (!sys_wait_flag(f->dir->sys, &w.done, SYS_NEVER)) {}
}
