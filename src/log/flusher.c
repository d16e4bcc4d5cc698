/* flusher.c - the task that makes appended bytes survive: one for each device, shared by the data
 * directories that lie on it.
 *
 * Place:      log/, private.
 * Thread:     its own task; flusher_post() from anywhere; directories join and leave by a request
 *             that it answers, so the list of them is its own. Rounds: whatever is dirty when a
 *             round begins is synced together: by one fdatasync a file while they are few, else by
 *             one syncfs for all directories. While a round runs the next one gathers: no timer,
 *             and the more producers wait the more of them share one sync.
 * Rules:      [FSH-1] a name counts: a new file's directory, and a new directory's parent, are
 *             synced in the round that first covers it. [FSH-2] any failed sync takes the
 *             directory offline; it is never tried again, since the kernel has dropped the pages'
 *             error. [FSH-3] marks of a round are added after its syncs returned. [FSH-4] a failed
 *             fdatasync names its file: only that directory goes. A failed syncfs says that
 *             something on the file system is lost, and says it once: every directory of the
 *             device goes, also one that seems clean, since an append may have come meanwhile. */
#include "log/dir_int.h"

static struct logdir *dir_of(const struct log *log)
{
    return log->env->ctx;
}

void flusher_post(struct flusher *f, struct log *log)
{
    /* NULL: one that is posted already became urgent. */
    if (log) {
        log_ref(log);
        sys_mailbox_post(&f->dirty, &log->flush_msg);
    }
    sys_task_wake(f->task);
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
        if (log->env->policy == LOG_FLUSH_WINDOW) {
            log_lock(log);
            int64_t ms = log->config.flush_ms;
            log_unlock(log);
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
    enum err e = sys_dir_sync(f->sys, path);
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
    enum err e = sys_file_open(f->sys, path, SYS_READ, &file);
    if (e == ERR_NOTFOUND) { return ERR_OK; } /* renamed for deletion, or a log without one */
    if (e) { return e; }
    count(&f->file_syncs);
    e = sys_file_sync(file);
    sys_file_unref(file);
    return e;
}

static enum err sync_log(struct flusher *f, const struct log_flush *r)
{
    enum err e = ERR_OK;
    for (uint32_t k = 0; k < r->files_count && !e; k++) {
        count(&f->file_syncs);
        e = sys_file_sync(r->files[k]);
    }
    if (!e && r->dir_name) { e = sync_identity(f, r); }
    if (!e && r->names) { e = sync_names(f, r); }
    return e;
}

/* The names of new partitions' directories, once for all of a round. */
static enum err sync_parent(struct flusher *f, const struct logdir *dir)
{
    bool any = false;
    for (size_t i = 0; i < f->round_count; i++) {
        any = any || (f->round[i].dir_name && dir_of(f->round[i].log) == dir);
    }
    if (!any) { return ERR_OK; }
    count(&f->dir_syncs);
    return sys_dir_sync(f->sys, dir->path);
}

static void sync_few(struct flusher *f)
{
    for (size_t i = 0; i < f->round_count; i++) {
        struct logdir *dir = dir_of(f->round[i].log);
        enum err e = logdir_is_offline(dir) ? ERR_OK : sync_log(f, &f->round[i]);
#ifdef MUTANT_RETRY_AFTER_EIO
        if (e) { e = sync_log(f, &f->round[i]); }
#endif
        if (e) { logdir_fail(dir, e); }
    }
    for (struct logdir *dir = f->dirs; dir; dir = dir->flush_next) {
        enum err e = logdir_is_offline(dir) ? ERR_OK : sync_parent(f, dir);
        if (e) { logdir_fail(dir, e); }
    }
}

/* [FSH-4] */
static void sync_device(struct flusher *f)
{
    const char *path = NULL;
    for (struct logdir *dir = f->dirs; dir; dir = dir->flush_next) {
        if (logdir_is_offline(dir)) { continue; }
        path = dir->path;
        dir->marks_written = marks_written(&dir->marks);
    }
    if (!path) { return; }
    count(&f->fs_syncs);
    enum err e = sys_fs_sync(f->sys, path);
#ifdef MUTANT_RETRY_AFTER_EIO
    if (e) { e = sys_fs_sync(f->sys, path); }
#endif
    for (struct logdir *dir = f->dirs; dir; dir = dir->flush_next) {
        if (e) {
            logdir_fail(dir, e);
        } else if (!logdir_is_offline(dir)) {
            marks_note_synced(&dir->marks, dir->marks_written);
        }
    }
}

static void sync_round(struct flusher *f)
{
    size_t files = 0, names = 0;
    bool fs = false;
    for (size_t i = 0; i < f->round_count; i++) {
        files += f->round[i].files_count;
        names += f->round[i].names;
        fs = fs || f->round[i].needs_fs;
    }
    if (fs || files + names > FLUSH_FILES_FEW) {
        sync_device(f);
    } else {
        sync_few(f);
    }
}

/* Under files_lock, as truncation lowers the mark: a mark from before a cut must not come after it.
 * Without the log's lock: the marks may be under a sync of another. */
static void note_mark(const struct log_flush *r)
{
    struct log *log = r->log;
    struct mark_entry mark = {.topic_id = log->topic_id,
                              .partition = log->partition,
                              .kind = MARK_SYNCED,
                              .mark = r->mark,
                              .hw = log_hw(log)};
    sys_mutex_lock(&log->files_lock);
    if (r->generation == log->cut_generation) { marks_add(&dir_of(log)->marks, &mark); }
    sys_mutex_unlock(&log->files_lock);
}

/* Logs of a directory that failed meanwhile publish nothing. */
static void round_publish(struct flusher *f)
{
    for (size_t i = 0; i < f->round_count; i++) {
        struct log_flush *r = &f->round[i];
        struct log *log = r->log;
        const struct logdir *dir = dir_of(log);
        if (log_flush_end(r, !logdir_is_offline(dir))) {
            const struct logdir_callbacks *cb = &dir->options.callbacks;
            count(&f->logs_flushed);
            note_mark(r);
            if (cb->on_synced) { cb->on_synced(cb->ctx, log, r->mark.offset); }
        }
        log_unref(log);
    }
    f->round_count = 0;
}

static void run_round(struct flusher *f)
{
    if (f->round_count == 0) { return; }
    uint64_t began_ns = sys_mono_ns(f->sys);
    count(&f->flushes);
    /* The marks of the round before go with this one [MRK-2]. */
    for (struct logdir *dir = f->dirs; dir; dir = dir->flush_next) {
        enum err e = logdir_is_offline(dir) ? ERR_OK : marks_write(&dir->marks);
        if (e) { logdir_fail(dir, e); }
    }
#ifdef MUTANT_SYNCED_BEFORE_SYNC
    for (size_t i = 0; i < f->round_count; i++) {
        const struct logdir_callbacks *cb = &dir_of(f->round[i].log)->options.callbacks;
        if (cb->on_synced) { cb->on_synced(cb->ctx, f->round[i].log, f->round[i].mark.offset); }
    }
#endif
    sync_round(f);
    histogram_record(&f->times, (sys_mono_ns(f->sys) - began_ns) / 1000);
    round_publish(f);
}

/* Marks that no further round carries are written and synced after a while. */
static uint64_t settle_marks(struct logdir *dir, uint64_t now_ns)
{
    struct marks *m = &dir->marks;
    if (logdir_is_offline(dir)) { return SYS_NEVER; }
    if (!marks_has_pending(m) && !marks_is_unsynced(m)) {
        dir->marks_due_ns = SYS_NEVER;
        return SYS_NEVER;
    }
    if (dir->marks_due_ns == SYS_NEVER) { dir->marks_due_ns = now_ns + MARKS_SYNC_DELAY_NS; }
    if (now_ns < dir->marks_due_ns) { return dir->marks_due_ns; }
    dir->marks_due_ns = SYS_NEVER;
    enum err e = marks_write(m);
    if (!e) { e = marks_sync(m); }
    if (e == ERR_LIMIT) { /* no descriptor to sync a name with: again later */
        dir->marks_due_ns = now_ns + MARKS_SYNC_DELAY_NS;
        return dir->marks_due_ns;
    }
    if (e) { logdir_fail(dir, e); }
    return SYS_NEVER;
}

/* ---- what others ask for ---- */

struct flush_request {
    struct sys_msg msg;
    struct flush_request *next;
    enum flush_what { FLUSH_ALL, FLUSH_JOIN, FLUSH_LEAVE, FLUSH_SYNC_LEAVE } what;
    struct logdir *dir;
    _Atomic int done; /* released by sys_signal_flag() */
};

static void dir_join(struct flusher *f, struct logdir *dir)
{
    dir->marks_due_ns = SYS_NEVER;
    dir->flush_next = f->dirs;
    f->dirs = dir;
}

/* What is dirty of this directory is forgotten: it is closed as it is, or nothing is. */
static void dir_leave(struct flusher *f, struct logdir *dir)
{
    struct log *log = f->pending, *next;
    f->pending = NULL;
    for (; log; log = next) {
        next = log->flush_next;
        if (dir_of(log) == dir) {
            log_unref(log);
            continue;
        }
        log->flush_next = f->pending;
        f->pending = log;
    }
    struct logdir **at = &f->dirs;
    while (*at != dir) {
        at = &(*at)->flush_next;
    }
    *at = dir->flush_next;
}

static struct flush_request *take_requests(struct flusher *f)
{
    struct flush_request *taken = NULL;
    struct sys_msg *next;
    for (struct sys_msg *m = sys_mailbox_take(&f->requests); m; m = next) {
        next = m->next;
        struct flush_request *r = CONTAINER_OF(m, struct flush_request, msg);
        r->next = taken;
        taken = r;
    }
    return taken;
}

/* True when all that is dirty has to be synced now. */
static bool run_requests(struct flusher *f, struct flush_request *r)
{
    bool all = false;
    for (; r; r = r->next) {
        switch (r->what) {
        case FLUSH_ALL:
            all = true;
            break;
        case FLUSH_JOIN:
            dir_join(f, r->dir);
            break;
        case FLUSH_SYNC_LEAVE:
            sync_device(f);
            dir_leave(f, r->dir);
            break;
        case FLUSH_LEAVE:
            dir_leave(f, r->dir);
            break;
        }
    }
    return all;
}

static uint64_t flusher_step(void *ctx, uint64_t now_ns)
{
    struct flusher *f = ctx;
    /* Requests first: what was dirty before they came is posted already. */
    struct flush_request *requests = take_requests(f);
    take_posted(f, now_ns);
    bool all = run_requests(f, requests);
    uint64_t due = round_collect(f, now_ns, all);
    bool worked = f->round_count > 0;
    run_round(f);
    while (requests) {
        struct flush_request *r = requests;
        requests = r->next; /* its memory goes with the flag */
        sys_signal_flag(f->sys, &r->done, 1);
    }
    for (struct logdir *dir = f->dirs; dir; dir = dir->flush_next) {
        uint64_t settle = settle_marks(dir, now_ns);
        if (settle < due) { due = settle; }
    }
    return worked ? now_ns : due; /* now: what came meanwhile */
}

static void request(struct flusher *f, struct logdir *dir, enum flush_what what)
{
    struct flush_request r = {.what = what, .dir = dir};
    sys_mailbox_post(&f->requests, &r.msg);
    sys_task_wake(f->task);
    while (!sys_wait_flag(f->sys, &r.done, SYS_NEVER)) {}
}

void flusher_wait(struct flusher *f)
{
    request(f, NULL, FLUSH_ALL);
}

/* ---- life ---- */

static enum err flusher_create(struct sys *sys, struct flusher **out)
{
    struct flusher *f = mem_new(struct flusher);
    if (!f) { return ERR_NOMEM; }
    f->sys = sys;
    struct sys_task_options o = {.name = "flusher", .step = flusher_step, .ctx = f};
    enum err e = sys_task_start(sys, &o, &f->task);
    if (e) {
        mem_free(f);
        return e;
    }
    *out = f;
    return ERR_OK;
}

enum err flusher_join(struct logdir *dir)
{
    const struct logdir_options *o = &dir->options;
    struct flusher *f = NULL;
    for (size_t i = 0; i < o->peers_count && !f; i++) {
        if (o->peers[i]->env.device == dir->env.device) { f = o->peers[i]->flusher; }
    }
    if (!f) {
        enum err e = flusher_create(dir->sys, &f);
        if (e) { return e; }
    }
    f->dirs_count++;
    request(f, dir, FLUSH_JOIN);
    dir->flusher = f;
    return ERR_OK;
}

void flusher_leave(struct logdir *dir, bool sync)
{
    struct flusher *f = dir->flusher;
    if (!f) { return; }
    request(f, dir, sync ? FLUSH_SYNC_LEAVE : FLUSH_LEAVE);
    dir->flusher = NULL;
    if (--f->dirs_count > 0) { return; }
    sys_task_stop(f->task);
    CHECK(!f->dirs && !f->pending);
    mem_free(f->round);
    mem_free(f);
}
