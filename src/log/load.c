/* load.c - finds the logs of a directory at start: from the manifest, or from what lies there.
 *
 * Place:      log/, private.
 * Thread:     start-up, with recovery_threads - 1 tasks beside it that recover partitions too:
 *             each takes the next directory of the list; start-up adds the logs in its order.
 *             BLOCKS.
 * Order:      marker and manifest are read, then removed durably [DIR-2]; without them every
 *             partition directory is listed and recovered from its synced marks, or, in a
 *             directory that Kafka wrote, from its recovery point; then marks are folded, so that
 *             the next crash scans only what comes now.
 * Failure:    ERR_STOPPED when the process is told to stop meanwhile, and another error when a
 *             partition cannot be loaded: nothing was folded, so the next start does the same
 *             again. */
#include "log/dir_int.h"

#include <stdio.h>
#include <stdlib.h>

#define LOAD_TASKS_MAX 63

/* One partition's directory; its taker's until all tasks have ended. */
struct load_entry {
    char *name;
    struct log *log; /* NULL with err */
    enum err err;
    uint64_t scanned_bytes;
    bool was_scanned;
};

struct load {
    /* Constant while tasks run. */
    struct logdir *dir;
    struct map marks; /* struct mark_state */
    struct map recovery_points, starts, hws; /* int64_t */
    bool had_marks;
    struct load_entry *entries;
    size_t count, capacity;
    _Atomic size_t next; /* the first that nobody has taken; relaxed: stopping a task orders */
};

/* ---- one partition directory ---- */

static void recovery_of(const struct load *l, const struct log *log, const char *name,
                        struct log_recovery *r)
{
    int64_t at = 0;
    /* Logs without a topic id have no marks: they would share them. */
    bool is_marked = l->had_marks && !uuid_is_zero(log->topic_id);
    *r = (struct log_recovery){.from = {.base = -1, .epoch = -1}};
    r->mark = r->from;
    r->is_ours = is_marked;
    r->may_stop = true;
    const struct mark_state *s =
        is_marked ? marks_state(&l->marks, log->topic_id, log->partition) : NULL;
    /* [REC-9] Checkpoints are written with each fold. Who was not in one yet has a name that may
     * have been another's; what its start is, the marks say. */
    bool is_checked = !is_marked || (s && s->was_folded);
    if (checkpoint_get(&l->starts, name, &r->start_max) && is_checked) { r->start = r->start_max; }
    if (is_checked && checkpoint_get(&l->hws, name, &at)) { r->hw = at; }
    if (s) {
        r->from = s->from;
        r->mark = s->mark;
        r->has_mark = s->has_mark;
        if (s->start >= 0) { r->start = s->start; } /* later than the checkpoint */
        if (s->hw > r->hw) { r->hw = s->hw; }
        if (!s->has_mark) { r->from.base = r->mark.base = -1; }
    } else if (!is_marked && checkpoint_get(&l->recovery_points, name, &at)) {
        r->from.offset = r->mark.offset = at;
        r->has_mark = true;
    }
}

static enum err load_log(const struct load *l, struct load_entry *entry)
{
    struct logdir *dir = l->dir;
    struct log *log = NULL;
    char topic[LOG_TOPIC_NAME_LEN_MAX + 1];
    int32_t partition = 0;
    if (!log_parse_dir_name(entry->name, topic, &partition)) { return ERR_INVALID; }
    struct log_seed seed = {.topic = topic, .partition = partition, .config = &dir->options.config};
    enum err e = log_new(&dir->env, &seed, 0, &log);
    if (e) { return e; }
    e = partition_metadata_read(log, &log->topic_id);
    if (e == ERR_NOTFOUND) {
        log_warn(dir->options.logger, LOGGER_DIR, "%s/%s has no usable partition.metadata",
                 dir->path, entry->name);
        e = ERR_OK; /* a zero topic id: the owner decides */
    } else if (e == ERR_MALFORMED) {
        log_error(
            dir->options.logger, LOGGER_DIR,
            "%s/%s/partition.metadata is damaged: it must hold \"version: 0\" and, on the next "
            "line, \"topic_id: \" and the topic's id. Restore it, or move %s away",
            dir->path, entry->name, entry->name);
    }
    struct log_recovery r;
    recovery_of(l, log, entry->name, &r);
    log_lock(log);
    log_files_begin(log);
    if (!e) { e = log_recover(log, &r); } /* nothing is cut of a log with a damaged id */
    log_files_end(log);
    log_unlock(log);
    if (e) {
        log_unref(log);
        return e;
    }
    entry->was_scanned = r.was_scanned;
    entry->scanned_bytes = r.scanned_bytes;
    entry->log = log;
    return ERR_OK;
}

/* False when nothing is left to take. */
static bool load_next(struct load *l)
{
    size_t i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed);
    if (i >= l->count) { return false; }
    bool is_over = sys_stop_is_wanted(l->dir->sys);
    l->entries[i].err = is_over ? ERR_STOPPED : load_log(l, &l->entries[i]);
    if (l->entries[i].err) { atomic_store_explicit(&l->next, l->count, memory_order_relaxed); }
    return true;
}

static uint64_t load_step(void *ctx, uint64_t now_ns)
{
    return load_next(ctx) ? now_ns : SYS_NEVER;
}

/* Adds what was loaded, in the order of names. A log that cannot be loaded ends the start: without
 * it an empty one would take its place, and the fold would forget its marks. */
static enum err load_take(struct load *l)
{
    struct logdir *dir = l->dir;
    for (size_t i = 0; i < l->count; i++) {
        struct load_entry *entry = &l->entries[i];
        if (entry->err && entry->err != ERR_STOPPED) {
            log_error(dir->options.logger, LOGGER_DIR, "cannot load %s/%s: %s", dir->path,
                      entry->name, err_name(entry->err));
        }
        if (entry->err) { return entry->err; }
        if (!entry->log) { continue; }
        dir->stats.logs_scanned_count += entry->was_scanned;
        dir->stats.scanned_bytes += entry->scanned_bytes;
        struct log *log = entry->log;
        entry->log = NULL;
        enum err e = logdir_add(dir, log);
        if (e) { return e; }
    }
    return ERR_OK;
}

static enum err load_all(struct load *l)
{
    struct sys_task *tasks[LOAD_TASKS_MAX];
    struct sys_task_options o = {.name = "recovery", .step = load_step, .ctx = l};
    size_t wanted =
        l->dir->options.recovery_threads > 1 ? (size_t)l->dir->options.recovery_threads - 1 : 0;
    size_t count = 0;
    if (wanted > LOAD_TASKS_MAX) { wanted = LOAD_TASKS_MAX; }
    /* One that cannot be started is done without. */
    while (count < wanted && count + 1 < l->count &&
           sys_task_start(l->dir->sys, &o, &tasks[count]) == ERR_OK) {
        count++;
    }
    while (load_next(l)) {}
    for (size_t i = 0; i < count; i++) {
        sys_task_stop(tasks[i]);
    }
    return load_take(l);
}

static void load_fini(struct load *l)
{
    for (size_t i = 0; i < l->count; i++) {
        log_unref(l->entries[i].log);
        mem_free(l->entries[i].name);
    }
    mem_free(l->entries);
    marks_states_fini(&l->marks);
    checkpoint_fini(&l->recovery_points);
    checkpoint_fini(&l->starts);
    checkpoint_fini(&l->hws);
}

static enum err list_add(struct load *l, const char *name)
{
    if (l->count == l->capacity) {
        size_t n = l->capacity ? l->capacity * 2 : 64;
        struct load_entry *at = mem_realloc(l->entries, n * sizeof *at);
        if (!at) { return ERR_NOMEM; }
        l->entries = at;
        l->capacity = n;
    }
    char *copy = mem_strdup(name);
    if (!copy) { return ERR_NOMEM; }
    l->entries[l->count++] = (struct load_entry){.name = copy};
    return ERR_OK;
}

/* A name in the data directory: a partition, something deleted, or not ours. */
static enum err list_entry(void *ctx, const char *name, bool is_dir)
{
    struct load *l = ctx;
    struct logdir *dir = l->dir;
    char path[LOG_PATH_SIZE], topic[LOG_TOPIC_NAME_LEN_MAX + 1];
    int32_t partition = 0;
    if (!is_dir) { return ERR_OK; }
    if (name_has_suffix(name, "-delete")) {
        logdir_path_of(dir, name, path);
        keeper_remove_later(&dir->keeper, path, 0, true);
        return ERR_OK;
    }
    /* Kafka's own metadata log lies beside the partitions; it is not one of them. */
    if (strcmp(name, "__cluster_metadata-0") == 0) { return ERR_OK; }
    if (name_has_suffix(name, "-stray") || name_has_suffix(name, "-future") ||
        !log_parse_dir_name(name, topic, &partition)) {
        return ERR_OK;
    }
    if (dir->stats.was_clean && map_get(&dir->by_name, slice_str(name))) { return ERR_OK; }
    return list_add(l, name);
}

/* ---- the whole directory ---- */

/* Kafka's JSON, one field of interest. Ours ends with a newline, which tells whose stop it was. */
static enum err read_marker(struct logdir *dir, bool *is_ours)
{
    char path[LOG_PATH_SIZE];
    uint8_t *at = NULL;
    size_t size = 0;
    *is_ours = false;
    dir->stats.broker_epoch = -1;
    logdir_path_of(dir, LOGDIR_MARKER, path);
    enum err e = smallfile_read(dir->sys, path, &at, &size);
    if (e) { return e; }
    static const char key[] = "\"brokerEpoch\":";
    const char *p = strstr((const char *)at, key);
    if (p) { dir->stats.broker_epoch = strtoll(p + sizeof key - 1, NULL, 10); }
    *is_ours = size > 0 && at[size - 1] == '\n';
    mem_free(at);
    return ERR_OK;
}

static enum err unlink_if(struct logdir *dir, const char *name)
{
    char path[LOG_PATH_SIZE];
    logdir_path_of(dir, name, path);
    enum err e = sys_path_unlink(dir->sys, path);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

/* Side files of the directory are shortcuts: a damaged one is as good as none. */
static void read_checkpoint(struct logdir *dir, const char *name, struct map *out)
{
    char path[LOG_PATH_SIZE];
    logdir_path_of(dir, name, path);
    enum err e = checkpoint_read(dir->sys, path, out);
    if (e && e != ERR_NOTFOUND) {
        log_warn(dir->options.logger, LOGGER_DIR, "%s is not usable (%s); going on without it",
                 path, err_name(e));
    }
}

static void forget_logs(struct logdir *dir)
{
    for (size_t i = 0; i < dir->logs_count; i++) {
        log_unref(dir->logs[i]);
    }
    dir->logs_count = 0;
    map_fini(&dir->by_name);
    map_init(&dir->by_name);
}

static enum err load_clean(struct logdir *dir, bool is_ours)
{
    if (!is_ours) { return ERR_NOTFOUND; }
    enum err e = manifest_load(dir);
    if (e) {
        log_warn(dir->options.logger, LOGGER_DIR,
                 "%s/" LOGDIR_MANIFEST " is not usable (%s); reading every partition instead",
                 dir->path, err_name(e));
        forget_logs(dir);
    }
    return e;
}

/* Side files of the directory, when there was no clean stop. */
static enum err read_side_files(struct load *l)
{
    struct logdir *dir = l->dir;
    enum err e = marks_read(dir->sys, dir->path, &l->marks);
    l->had_marks = e == ERR_OK;
    if (e == ERR_CORRUPT) {
        log_warn(dir->options.logger, LOGGER_DIR,
                 "%s/" LOGDIR_MARKS " is damaged; recovering from the checkpoint", dir->path);
        e = unlink_if(dir, LOGDIR_MARKS);
    }
    if (e && e != ERR_NOTFOUND) { return e; }
    read_checkpoint(dir, LOGDIR_RECOVERY_POINTS, &l->recovery_points);
    read_checkpoint(dir, LOGDIR_STARTS, &l->starts);
    read_checkpoint(dir, LOGDIR_HIGH_WATERMARKS, &l->hws);
    return ERR_OK;
}

/* True when checkpoints would say what their absence says. */
static bool is_bare(const struct load *l)
{
    return l->dir->logs_count == 0 && l->marks.count == 0 && l->recovery_points.count == 0 &&
           l->starts.count == 0 && l->hws.count == 0;
}

/* Marks that say that this directory is ours, and nothing of any log. */
static enum err found_marks(struct logdir *dir)
{
    return marks_fold(&dir->marks, NULL, 0, marks_generation(&dir->marks));
}

/* On a full disk the next start finds the old ones and recovers the same again: reading and
 * deleting, which makes room, need no checkpoint. */
static enum err checkpoint_after_recovery(struct logdir *dir, bool is_new)
{
    enum err e = is_new ? found_marks(dir) : logdir_checkpoint(dir, true);
    if (e != ERR_NOSPACE) { return e; }
    log_warn(dir->options.logger, LOGGER_DIR, "%s is full: no checkpoints were written", dir->path);
    return ERR_OK;
}

enum err logdir_load(struct logdir *dir)
{
    struct load l = {.dir = dir};
    bool is_ours = false;
    enum err e = read_marker(dir, &is_ours);
    if (e && e != ERR_NOTFOUND) { return e; }
    dir->stats.was_clean = e == ERR_OK && load_clean(dir, is_ours) == ERR_OK;
    /* Kafka ran here since: our marks speak of files that it may have compacted. */
    bool is_foreign = e == ERR_OK && !is_ours;
    e = is_foreign ? unlink_if(dir, LOGDIR_MARKS) : ERR_OK;
    if (!e && is_foreign) { e = sys_dir_sync(dir->sys, dir->path); }
    if (!e) { e = unlink_if(dir, LOGDIR_MARKER); }
    if (!e) { e = unlink_if(dir, LOGDIR_MANIFEST); }
    if (!e) { e = sys_dir_sync(dir->sys, dir->path); } /* [DIR-2]; meta.properties' name as well */
    if (e) { return e; }
    map_init(&l.marks);
    map_init(&l.recovery_points);
    map_init(&l.starts);
    map_init(&l.hws);
    if (!dir->stats.was_clean) { e = read_side_files(&l); }
    if (!e) { e = sys_dir_list(dir->sys, dir->path, list_entry, &l); }
    if (!e) { e = load_all(&l); }
    bool is_new = is_bare(&l);
    /* Behind a clean stop: what was laid in gets its marks before it is written. */
    bool is_fold_due = !dir->stats.was_clean || l.count > 0;
    load_fini(&l);
    if (!e) { e = marks_open(&dir->marks); }
    if (!e && is_fold_due) { e = checkpoint_after_recovery(dir, is_new); }
    dir->stats.logs_count = dir->logs_count;
    return e;
}
