/* dir.c - one data directory: opening, the table of logs, creation, deletion, checkpoints, closing.
 *
 * Place:   log/. Thread and invariants: dir.h, dir_int.h. */
#include "log/dir_int.h"

#include <stdio.h>

#define RETENTION_CHECK_MS 300000
#define CHECKPOINT_MS 60000
#define IDLE_CLOSE_MS 60000

void logdir_path_of(const struct logdir *dir, const char *name, char *buf)
{
    int n = snprintf(buf, LOG_PATH_SIZE, "%s/%s", dir->path, name);
    CHECKF(n > 0 && n < LOG_PATH_SIZE, "n=%d", n);
}

/* ---- the surroundings of a log ---- */

static void env_dirty(void *ctx, struct log *log)
{
    struct logdir *dir = ctx;
    flusher_post(dir->flusher, log);
}

void logdir_fail(struct logdir *dir, enum err e)
{
    int none = ERR_OK;
    atomic_compare_exchange_strong(&dir->offline_cause, &none, (int)e);
    bool was = atomic_exchange_explicit(&dir->offline, true, memory_order_acq_rel);
    if (was) { return; }
    log_error(dir->options.logger, LOGGER_DIR,
              "log directory %s failed (%s) and is offline until the next start", dir->path,
              err_name(e));
    keeper_wake(&dir->keeper);
}

static void env_failed(void *ctx, enum err e)
{
    logdir_fail(ctx, e);
}

static struct mark_entry entry_of(const struct log *log, enum mark_kind kind,
                                  const struct log_mark *mark)
{
    return (struct mark_entry){.topic_id = log->topic_id,
                               .partition = log->partition,
                               .kind = kind,
                               .mark = *mark,
                               .hw = log_hw(log)};
}

static enum err env_lower_mark(void *ctx, struct log *log, const struct log_mark *mark)
{
    struct logdir *dir = ctx;
    struct mark_entry e = entry_of(log, MARK_LOWERED, mark);
    enum err err = marks_put(&dir->marks, &e, true);
    return log_device_error(log, err, "lowering the synced mark");
}

static enum err env_note_start(void *ctx, struct log *log, int64_t start)
{
    struct logdir *dir = ctx;
    struct log_mark mark = {.offset = start};
    struct mark_entry e = entry_of(log, MARK_START, &mark);
    enum err err = marks_put(&dir->marks, &e, false);
    if (dir->flusher) { flusher_post(dir->flusher, NULL); } /* syncs it in a while */
    return log_device_error(log, err, "writing the log start");
}

static enum err env_sync_start(void *ctx, struct log *log)
{
    struct logdir *dir = ctx;
    return log_device_error(log, marks_sync(&dir->marks), "writing the log start");
}

static void env_remove_later(void *ctx, const char *path, int64_t delay_ms)
{
    struct logdir *dir = ctx;
    keeper_remove_later(&dir->keeper, path, delay_ms, false);
}

static void env_start_moved(void *ctx, struct log *log, int64_t start)
{
    struct logdir *dir = ctx;
    const struct logdir_callbacks *cb = &dir->options.callbacks;
    if (cb->on_start_moved) { cb->on_start_moved(cb->ctx, log, start); }
}

static void env_init(struct logdir *dir, uint64_t device)
{
    dir->env = (struct log_env){
        .sys = dir->sys,
        .logger = dir->options.logger,
        .dir_path = dir->path,
        .device = device,
        .policy = dir->options.flush_policy,
        .offline = &dir->offline,
        .ctx = dir,
        .dirty = env_dirty,
        .failed = env_failed,
        .lower_mark = env_lower_mark,
        .note_start = env_note_start,
        .sync_start = env_sync_start,
        .remove_later = env_remove_later,
        .start_moved = env_start_moved,
    };
}

/* ---- the table ---- */

static size_t name_of(const struct log *log, char buf[LOG_NAME_SIZE])
{
    return (size_t)snprintf(buf, LOG_NAME_SIZE, "%s-%d", log->topic, log->partition);
}

enum err logdir_add(struct logdir *dir, struct log *log)
{
    char name[LOG_NAME_SIZE];
    struct slice key = slice_of(name, name_of(log, name));
    enum err e = ERR_OK;
    if (map_get(&dir->by_name, key)) { e = ERR_EXISTS; }
    if (!e && dir->logs_count == dir->logs_capacity) {
        size_t n = dir->logs_capacity ? dir->logs_capacity * 2 : 64;
        struct log **at = mem_realloc(dir->logs, n * sizeof(struct log *));
        if (at) {
            dir->logs = at;
            dir->logs_capacity = n;
        } else {
            e = ERR_NOMEM;
        }
    }
    if (!e) { e = map_put(&dir->by_name, key, log, NULL); }
    if (e) {
        log_unref(log);
        return e;
    }
    log->dir_slot = dir->logs_count;
    dir->logs[dir->logs_count++] = log;
    return ERR_OK;
}

/* The directory's reference goes to the caller. NULL: it is not in the table. */
static struct log *table_remove(struct logdir *dir, struct log *log)
{
    char name[LOG_NAME_SIZE];
    struct slice key = slice_of(name, name_of(log, name));
    if (map_get(&dir->by_name, key) != log) { return NULL; }
    map_remove(&dir->by_name, key);
    struct log *last = dir->logs[--dir->logs_count];
    dir->logs[log->dir_slot] = last;
    last->dir_slot = log->dir_slot;
    return log;
}

struct log *logdir_find(struct logdir *dir, const char *topic, int32_t partition)
{
    char name[LOG_NAME_SIZE + 16];
    int n = snprintf(name, sizeof name, "%s-%d", topic, partition);
    if (n < 0 || (size_t)n >= sizeof name) { return NULL; }
    sys_mutex_lock(&dir->lock);
    struct log *log = map_get(&dir->by_name, slice_of(name, (size_t)n));
    if (log) { log_ref(log); }
    sys_mutex_unlock(&dir->lock);
    return log;
}

enum err logdir_snapshot(struct logdir *dir, struct log ***out, size_t *count)
{
    sys_mutex_lock(&dir->lock);
    struct log **at = mem_array(dir->logs_count + 1, sizeof(struct log *));
    *count = at ? dir->logs_count : 0;
    for (size_t i = 0; i < *count; i++) {
        at[i] = log_ref(dir->logs[i]);
    }
    sys_mutex_unlock(&dir->lock);
    *out = at;
    return at ? ERR_OK : ERR_NOMEM;
}

void logdir_each(struct logdir *dir, void (*visit)(void *ctx, struct log *log), void *ctx)
{
    struct log **logs = NULL;
    size_t count = 0;
    if (logdir_snapshot(dir, &logs, &count) != ERR_OK) { return; }
    for (size_t i = 0; i < count; i++) {
        visit(ctx, logs[i]);
        log_unref(logs[i]);
    }
    mem_free(logs);
}

size_t logdir_logs_count(struct logdir *dir)
{
    sys_mutex_lock(&dir->lock);
    size_t n = dir->logs_count;
    sys_mutex_unlock(&dir->lock);
    return n;
}

/* ---- creation and deletion ---- */

enum err logdir_create_log(struct logdir *dir, const struct logdir_create_options *o,
                           struct log **out)
{
    *out = NULL;
    if (!log_topic_name_is_valid(slice_str(o->topic)) || o->partition < 0) { return ERR_INVALID; }
    if (logdir_is_offline(dir)) { return ERR_OFFLINE; }
    struct log_seed seed = {.topic = o->topic,
                            .topic_id = o->topic_id,
                            .partition = o->partition,
                            .config = &o->config};
    struct log *log = NULL;
    enum err e = log_new(&dir->env, &seed, 0, &log);
    if (e) { return e; }
    char name[LOG_NAME_SIZE];
    struct slice key = slice_of(name, name_of(log, name));
    sys_mutex_lock(&dir->lock);
    e = map_get(&dir->by_name, key) ? ERR_EXISTS : log_create_files(log);
    if (e) {
        log_unref(log);
    } else {
        *out = log_ref(log);
        e = logdir_add(dir, log);
        if (e) {
            log_uncreate_files(*out);
            log_unref(*out);
            *out = NULL;
        }
    }
    sys_mutex_unlock(&dir->lock);
    if (e == ERR_IO) { logdir_fail(dir, e); }
    return e;
}

/* Takes a log out and gives its directory a name of 255 characters at most. */
static enum err set_aside(struct logdir *dir, struct log *log, const char *suffix, char *to)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t random[16];
    char tag[33], name[LOG_NAME_SIZE], from[LOG_PATH_SIZE];
    sys_random(dir->sys, random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++) {
        tag[2 * i] = hex[random[i] >> 4];
        tag[2 * i + 1] = hex[random[i] & 15];
    }
    tag[32] = '\0';
    int room = 255 - 1 - 32 - (int)strlen(suffix);
    name_of(log, name);
    int n = snprintf(to, LOG_PATH_SIZE, "%s/%.*s.%s%s", dir->path, room, name, tag, suffix);
    CHECKF(n > 0 && n < LOG_PATH_SIZE, "n=%d", n);
    sys_mutex_lock(&dir->lock);
    struct log *mine = table_remove(dir, log);
    if (!mine) {
        sys_mutex_unlock(&dir->lock);
        return ERR_NOTFOUND;
    }
    log_set_closed(log);
    sys_mutex_unlock(&dir->lock);
    log_lock(log);
    log_path_dir(log, from);
    log_files_begin(log);
    enum err e = sys_path_rename(dir->sys, from, to);
    log_files_end(log);
    log_drop(log);
    log_unlock(log);
    log_unref(mine);
    if (e == ERR_IO) { logdir_fail(dir, e); }
    return e;
}

enum err logdir_delete_log(struct logdir *dir, struct log *log)
{
    char to[LOG_PATH_SIZE];
    log_lock(log);
    int64_t delay_ms = log->config.file_delete_delay_ms;
    log_unlock(log);
    enum err e = set_aside(dir, log, "-delete", to);
    if (!e) { keeper_remove_later(&dir->keeper, to, delay_ms, true); }
    return e;
}

enum err logdir_stray_log(struct logdir *dir, struct log *log)
{
    char to[LOG_PATH_SIZE];
    enum err e = set_aside(dir, log, "-stray", to);
    if (!e) {
        log_warn(dir->options.logger, LOGGER_DIR,
                 "the metadata does not know %s-%d; its files are kept in %s", log_topic(log),
                 log_partition(log), to);
    }
    return e;
}

/* ---- checkpoints ---- */

static enum err write_lines(struct logdir *dir, const char *name, struct log **logs, size_t count,
                            int64_t (*offset)(const struct log *), bool skip_zero)
{
    char path[LOG_PATH_SIZE];
    logdir_path_of(dir, name, path);
    struct checkpoint_line *lines = mem_array(count + 1, sizeof *lines);
    if (!lines) { return ERR_NOMEM; }
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t at = offset(logs[i]);
        if (skip_zero && at == 0) { continue; }
        lines[n++] = (struct checkpoint_line){logs[i]->topic, logs[i]->partition, at};
    }
    enum err e = checkpoint_write(dir->sys, path, lines, n, SMALLFILE_DURABLE);
    mem_free(lines);
    return e;
}

static enum err fold_marks(struct logdir *dir, struct log **logs, size_t count, uint32_t generation)
{
    struct mark_entry *entries = mem_array(count + 1, sizeof *entries);
    if (!entries) { return ERR_NOMEM; }
    uint32_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct log *log = logs[i];
        if (uuid_is_zero(log->topic_id)) { continue; } /* others without one would share it */
        log_lock(log);
        entries[kept++] = entry_of(log, MARK_FOLD, &log->synced_mark);
        log_unlock(log);
    }
    enum err e = marks_fold(&dir->marks, entries, kept, generation);
    mem_free(entries);
    return e;
}

enum err logdir_checkpoint(struct logdir *dir, bool fold)
{
    struct log **logs = NULL;
    size_t count = 0;
    uint32_t generation = marks_generation(&dir->marks);
    enum err e = logdir_snapshot(dir, &logs, &count);
    if (e) { return e; }
    uint64_t many = count * 4 > MARKS_FOLD_ENTRIES_MIN ? count * 4 : MARKS_FOLD_ENTRIES_MIN;
    fold = fold || marks_entries(&dir->marks) > many;
    e = write_lines(dir, LOGDIR_HIGH_WATERMARKS, logs, count, log_hw, false);
    if (!e) { e = write_lines(dir, LOGDIR_STARTS, logs, count, log_start_offset, true); }
    if (!e) { e = write_lines(dir, LOGDIR_RECOVERY_POINTS, logs, count, log_synced, false); }
    if (!e) { e = sys_dir_sync(dir->sys, dir->path); }
    if (!e && fold) {
        e = fold_marks(dir, logs, count, generation);
        if (e == ERR_AGAIN) { e = ERR_OK; } /* next time */
    }
    for (size_t i = 0; i < count; i++) {
        log_unref(logs[i]);
    }
    mem_free(logs);
    if (e == ERR_IO) { logdir_fail(dir, e); }
    return e;
}

/* ---- opening ---- */

static enum err take_identity(struct logdir *dir)
{
    const struct logdir_options *o = &dir->options;
    enum err e = logdir_identity(dir->sys, dir->path, &dir->identity);
    if (e == ERR_NOTFOUND) {
        dir->identity = (struct logdir_identity){.node_id = o->node_id};
        int n = snprintf(dir->identity.cluster_id, sizeof dir->identity.cluster_id, "%s",
                         o->cluster_id ? o->cluster_id : "");
        if (n <= 0 || (size_t)n >= sizeof dir->identity.cluster_id) { return ERR_INVALID; }
        sys_random(dir->sys, dir->identity.directory_id.b, sizeof dir->identity.directory_id.b);
        return identity_write(dir->sys, dir->path, &dir->identity);
    }
    if (e == ERR_MALFORMED) {
        log_error(o->logger, LOGGER_DIR,
                  "%s/meta.properties is damaged: it must name version, cluster.id and node.id. "
                  "Restore it; the data beside it is untouched",
                  dir->path);
        return ERR_INVALID;
    }
    if (e) { return e; }
    if (o->cluster_id && strcmp(o->cluster_id, dir->identity.cluster_id) != 0) {
        log_error(o->logger, LOGGER_DIR, "%s belongs to cluster %s, not to %s", dir->path,
                  dir->identity.cluster_id, o->cluster_id);
        return ERR_INVALID;
    }
    if (dir->identity.node_id != o->node_id) {
        log_error(o->logger, LOGGER_DIR, "%s belongs to node %d, not to %d", dir->path,
                  dir->identity.node_id, o->node_id);
        return ERR_INVALID;
    }
    if (uuid_is_zero(dir->identity.directory_id)) {
        sys_random(dir->sys, dir->identity.directory_id.b, sizeof dir->identity.directory_id.b);
        return identity_write(dir->sys, dir->path, &dir->identity);
    }
    return ERR_OK;
}

static enum err take_lock(struct logdir *dir)
{
    char path[LOG_PATH_SIZE];
    enum err e = sys_dir_create(dir->sys, dir->path);
    if (e && e != ERR_EXISTS) { return e; }
    /* A name that was made shortly before a crash may be there and still not be durable. */
    e = sys_parent_sync(dir->sys, dir->path);
    if (e) { return e; }
    logdir_path_of(dir, ".lock", path);
    e = sys_lock_take(dir->sys, path, &dir->lock_file);
    if (e == ERR_BUSY) {
        log_error(dir->options.logger, LOGGER_DIR, "another process uses %s", dir->path);
    }
    if (e) { return e; }
    struct sys_stat st;
    e = sys_path_stat(dir->sys, dir->path, &st);
    if (!e) { env_init(dir, st.device); }
    return e;
}

/* What recovery found beyond the marks is synced with the first round. */
static void post_unsynced(void *ctx, struct log *log)
{
    (void)ctx;
    if (log_synced(log) < log_leo(log)) { log_mark_dirty(log, true); }
}

static void logdir_free(struct logdir *dir)
{
    for (size_t i = 0; i < dir->logs_count; i++) {
        log_unref(dir->logs[i]);
    }
    mem_free(dir->logs);
    map_fini(&dir->by_name);
    marks_fini(&dir->marks);
    sys_mutex_fini(&dir->lock);
    sys_file_unref(dir->lock_file);
    mem_free(dir->path);
    mem_free(dir);
}

enum err logdir_open(struct sys *sys, const struct logdir_options *options, struct logdir **out)
{
    *out = NULL;
    if (strlen(options->path) > LOG_DIR_PATH_LEN_MAX) { return ERR_LIMIT; }
    struct logdir *dir = mem_new(struct logdir);
    if (!dir) { return ERR_NOMEM; }
    uint64_t begun_ns = sys_mono_ns(sys);
    dir->sys = sys;
    dir->options = *options;
    struct logdir_options *o = &dir->options;
    if (o->retention_check_ms <= 0) { o->retention_check_ms = RETENTION_CHECK_MS; }
    if (o->checkpoint_ms <= 0) { o->checkpoint_ms = CHECKPOINT_MS; }
    if (o->idle_close_ms <= 0) { o->idle_close_ms = IDLE_CLOSE_MS; }
    sys_mutex_init(&dir->lock, SYS_RANK_LOGDIR);
    map_init(&dir->by_name);
    marks_init(&dir->marks, sys, options->path);
    keeper_init(&dir->keeper, dir);
    dir->path = mem_strdup(options->path);
    enum err e = dir->path ? take_lock(dir) : ERR_NOMEM;
    if (!e) { e = take_identity(dir); }
    if (!e) { e = logdir_load(dir); }
    if (!e) { e = flusher_join(dir); }
    if (!e) { e = keeper_start(&dir->keeper); }
    o->path = o->cluster_id = NULL; /* not ours to keep */
    o->peers = NULL;
    o->peers_count = 0;
    if (e) {
        keeper_stop(&dir->keeper);
        flusher_leave(dir, false);
        keeper_fini(&dir->keeper, false);
        logdir_free(dir);
        return e;
    }
    logdir_each(dir, post_unsynced, NULL);
    dir->stats.load_ns = sys_mono_ns(sys) - begun_ns;
    log_info(o->logger, LOGGER_DIR,
             "Loaded %zu logs of %s in %.1f ms after %s stop; %zu were scanned (%llu bytes)",
             dir->stats.logs_count, dir->path, (double)dir->stats.load_ns / 1e6,
             dir->stats.was_clean ? "a clean" : "no clean", dir->stats.logs_scanned_count,
             (unsigned long long)dir->stats.scanned_bytes);
    *out = dir;
    return ERR_OK;
}

/* ---- closing ---- */

enum err logdir_flush(struct logdir *dir)
{
    struct log **logs = NULL;
    size_t count = 0;
    enum err e = logdir_snapshot(dir, &logs, &count);
    if (e) { return e; }
    for (size_t i = 0; i < count; i++) {
        if (log_synced(logs[i]) < log_leo(logs[i])) { log_mark_dirty(logs[i], true); }
        log_unref(logs[i]);
    }
    mem_free(logs);
    flusher_wait(dir->flusher);
    return logdir_is_offline(dir) ? ERR_OFFLINE : ERR_OK;
}

static enum err write_marker(struct logdir *dir, int64_t broker_epoch)
{
    char path[LOG_PATH_SIZE], text[80];
    logdir_path_of(dir, LOGDIR_MARKER, path);
    int n = snprintf(text, sizeof text, "{\"version\":0,\"brokerEpoch\":%lld}\n",
                     (long long)broker_epoch);
    enum err e = smallfile_write(dir->sys, path, slice_of(text, (size_t)n), SMALLFILE_DURABLE);
    return e ? e : sys_dir_sync(dir->sys, dir->path);
}

static enum err cool_down_all(struct logdir *dir)
{
    enum err e = ERR_OK;
    for (size_t i = 0; i < dir->logs_count && !e; i++) {
        struct log *log = dir->logs[i];
        log_lock(log);
        log_files_begin(log);
        e = log_cool_down(log);
        log_files_end(log);
        log_unlock(log);
    }
    return e;
}

/* Everything is synced, side files too; then the marker [DIR-2]. */
static enum err close_clean(struct logdir *dir, int64_t broker_epoch)
{
    enum err e = logdir_checkpoint(dir, true);
    if (!e) { e = manifest_write(dir); }
    if (!e) { e = sys_dir_sync(dir->sys, dir->path); }
    return e ? e : write_marker(dir, broker_epoch);
}

void logdir_close(struct logdir *dir, const struct logdir_close_options *options)
{
    if (!dir) { return; }
    bool clean = options->clean && !logdir_is_offline(dir);
    /* The keeper first: it deletes, which the flusher has to sync, and wakes it. */
    keeper_stop(&dir->keeper);
    enum err e = clean ? logdir_flush(dir) : ERR_OK;
    if (clean && !e) { e = cool_down_all(dir); }
    flusher_leave(dir, clean && !e);
    if (clean) {
        if (!e && logdir_is_offline(dir)) { e = ERR_OFFLINE; }
        if (!e) { e = close_clean(dir, options->broker_epoch); }
        if (e) {
            log_error(dir->options.logger, LOGGER_DIR,
                      "%s could not be closed cleanly (%s); the next start will check it",
                      dir->path, err_name(e));
        }
    }
    keeper_fini(&dir->keeper, clean && !e);
    logdir_free(dir);
}

/* ---- accessors ---- */

const char *logdir_path(const struct logdir *dir)
{
    return dir->path;
}

bool logdir_is_offline(const struct logdir *dir)
{
    return atomic_load_explicit(&dir->offline, memory_order_acquire);
}

const struct histogram *logdir_flush_times(const struct logdir *dir)
{
    return &dir->flusher->times;
}
