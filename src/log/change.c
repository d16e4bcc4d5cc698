/* change.c - changes of a log's shape: truncation, a new start, retention, removal of segments.
 *
 * Place:      log/.
 * Thread:     keeper, handlers, fetchers; under the log's lock. BLOCKS.
 * Rules:      [CHG-1] before bytes below the synced mark are cut, the mark is lowered durably.
 *             [CHG-2] retention removes whole segments from the front, never one that reaches
 *             above the high watermark. [CHG-3] readers that hold a removed file go on reading
 *             it. [CHG-4] the start is durable before the segments below it go: a power cut may
 *             keep the removal of any of them, and an older start would have holes behind it. */
#include "log/log_int.h"

#include <stdio.h>

/* ---- removing segments from the front ---- */

/* With or without the lock: nobody else knows of these files any more. */
static void delete_files(struct log *log, int64_t base, int64_t delay_ms)
{
    static const char *const suffixes[] = {".log", ".index", ".timeindex", ".snapshot"};
    char from[LOG_PATH_SIZE], to[LOG_PATH_SIZE + 16];
    for (size_t k = 0; k < COUNT_OF(suffixes); k++) {
        log_path_segment(log, base, suffixes[k], from);
        int n = snprintf(to, sizeof to, "%s.deleted", from);
        CHECK(n > 0 && (size_t)n < sizeof to);
        enum err e = sys_path_rename(log->env->sys, from, to);
        if (e == ERR_NOTFOUND) { continue; }
        if (e) {
            err_ignore(log_device_error(log, e, "renaming a deleted segment"), "logged");
            continue;
        }
        if (log->env->remove_later) { log->env->remove_later(log->env->ctx, to, delay_ms); }
    }
}

static void forget_segments(struct log *log, uint32_t count) HOLDS(log->lock);
static void forget_segments(struct log *log, uint32_t count)
{
    CHECK(count < log->segments_count); /* [SEG-1] */
    for (uint32_t i = 0; i < count; i++) {
        struct segment *s = &log->segments[i];
        log_close_segment_files(s);
        atomic_fetch_sub_explicit(&log->size_total, s->size, memory_order_relaxed);
    }
    log->segments_count -= count;
    memmove(log->segments, log->segments + count, log->segments_count * sizeof *log->segments);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < log->rot_count; i++) {
        if (log->rot[i].base >= log->segments[0].base) { log->rot[kept++] = log->rot[i]; }
    }
    log->rot_count = kept;
}

/* The start never moves back. True when it moved. */
static bool raise_start(struct log *log, int64_t start) HOLDS(log->lock);
static bool raise_start(struct log *log, int64_t start)
{
    if (start <= log_start_offset(log)) { return false; }
    atomic_store_explicit(&log->start, start, memory_order_release);
    if (log_synced(log) < start) {
        atomic_store_explicit(&log->synced, start, memory_order_release);
    }
    return true;
}

/* Another may be syncing the marks: that is waited for as for a file. */
static enum err note_start(struct log *log, int64_t start) HOLDS(log->lock);
static enum err note_start(struct log *log, int64_t start)
{
    if (!log->env->note_start) { return ERR_OK; }
    log_files_begin(log);
    enum err e = log->env->note_start(log->env->ctx, log, start);
    log_files_end(log);
    return e;
}

/* ---- retention ---- */

/* The time of a segment's youngest record; without record times that of its file. */
static int64_t segment_age_from(struct log *log, uint32_t i) HOLDS(log->lock);
static int64_t segment_age_from(struct log *log, uint32_t i)
{
    const struct segment *s = &log->segments[i];
    if (s->time_max >= 0) { return s->time_max; }
    char path[LOG_PATH_SIZE];
    struct sys_stat st;
    log_path_segment(log, s->base, ".log", path);
    log_files_begin(log);
    enum err e = sys_path_stat(log->env->sys, path, &st);
    log_files_end(log);
    return e == ERR_OK ? st.modified_ms : -1;
}

/* How many segments from the front may go; the active one counts when it has to be rolled first. */
static enum err retention_count(struct log *log, int64_t now_ms, uint32_t *count) HOLDS(log->lock);
static enum err retention_count(struct log *log, int64_t now_ms, uint32_t *count)
{
    const struct log_config *c = &log->config;
    uint64_t size = log_size_bytes(log);
    bool deletes = (c->cleanup & LOG_CLEANUP_DELETE) != 0;
    *count = 0;
    for (uint32_t i = 0; i < log->segments_count; i++) {
        struct segment *s = &log->segments[i];
        bool active = i + 1 == log->segments_count;
        if (s->size == 0 || s->end > log_hw(log)) { break; } /* [CHG-2] */
        bool go = s->end <= log_start_offset(log) && !active;
        if (!go && deletes && c->retention_bytes >= 0 && !active) {
            go = size > (uint64_t)c->retention_bytes &&
                 size - s->size >= (uint64_t)c->retention_bytes;
        }
        if (!go && deletes && c->retention_ms >= 0) {
            enum err e = log_segment_time(log, i);
            if (e) { return e; }
            int64_t time = segment_age_from(log, i);
            go = time >= 0 && now_ms - time > c->retention_ms;
        }
        if (!go) { break; }
        size -= s->size;
        *count = i + 1;
    }
    return ERR_OK;
}

/* Moves the start over what may go; *count: segments. */
static enum err retention_begin(struct log *log, int64_t now_ms, uint32_t *count, bool *moved)
{
    *moved = false;
    log_lock(log);
    enum err e = log_usable(log);
    bool rolled = false;
    if (!e) { e = retention_count(log, now_ms, count); }
    if (!e && *count == log->segments_count) {
        e = log_warm_up(log);
        if (!e) { e = log_roll_locked(log, log_leo(log), now_ms); }
        rolled = !e;
    }
    int64_t start = !e && *count > 0 ? log->segments[*count].base : 0;
    if (start > log_start_offset(log)) {
        e = note_start(log, start);
        *moved = !e && raise_start(log, start);
    }
    log_unlock(log);
    if (rolled) { log_mark_dirty(log, true); }
    return e;
}

#define RETENTION_SEGMENTS_MAX 32u

/* Deletes some segments below the start. The renames are made without the lock: there may be many,
 * and appends would wait for them. */
static enum err retention_delete(struct log *log, uint32_t *count)
{
    int64_t bases[RETENTION_SEGMENTS_MAX];
    *count = 0;
    log_lock(log);
    enum err e = log_usable(log);
    int64_t delay_ms = log->config.file_delete_delay_ms;
    while (!e && *count < RETENTION_SEGMENTS_MAX && *count + 1 < log->segments_count &&
           log->segments[*count].end <= log_start_offset(log)) {
        bases[*count] = log->segments[*count].base;
        ++*count;
    }
    if (*count > 0) { forget_segments(log, *count); }
    if (*count > 0 && log->epochs_loaded &&
        epochs_truncate_start(&log->epochs, log_start_offset(log))) {
        e = log_write_epochs(log);
    }
    log_unlock(log);
    for (uint32_t i = 0; i < *count; i++) {
        delete_files(log, bases[i], delay_ms);
    }
    return e;
}

enum err log_retention_step(struct log *log, int64_t now_ms, size_t *deleted)
{
    uint32_t count = 0;
    bool moved;
    *deleted = 0;
    enum err e = retention_begin(log, now_ms, &count, &moved);
    if (!e && count > 0 && log->env->sync_start) { /* [CHG-4] */
        e = log->env->sync_start(log->env->ctx, log);
    }
    while (!e && count > 0) {
        e = retention_delete(log, &count);
        *deleted += count;
    }
    int64_t start = log_start_offset(log);
    if (*deleted > 0) {
        log_info(log->env->logger, LOGGER_LOG,
                 "%s-%d: deleted %zu segments; the log starts at %lld", log->topic, log->partition,
                 *deleted, (long long)start);
    }
    if (moved && log->env->start_moved) { log->env->start_moved(log->env->ctx, log, start); }
    return e;
}

enum err log_set_start(struct log *log, int64_t offset)
{
    log_lock(log);
    enum err e = log_usable(log);
    bool moved = false;
    if (!e && offset > log_hw(log)) { e = ERR_RANGE; }
    if (!e && offset > log_start_offset(log)) {
        e = note_start(log, offset);
        if (!e) { moved = raise_start(log, offset); }
    }
    log_unlock(log);
    if (moved && log->env->start_moved) { log->env->start_moved(log->env->ctx, log, offset); }
    return e;
}

/* ---- truncation ---- */

/* Position and base of the first batch that holds offset or more, in segment i. */
static enum err find_cut(struct log *log, uint32_t i, int64_t offset, uint64_t *pos)
    HOLDS(log->lock);
static enum err find_cut(struct log *log, uint32_t i, int64_t offset, uint64_t *pos)
{
    enum err e = log_open_segment(log, i);
    if (e) { return e; }
    struct segment *s = &log->segments[i];
    struct walk w;
    struct batch_header h;
    struct walk_span span = log_span(s);
    walk_init(&w, &span, 0);
    while ((e = walk_peek(&w, &h)) != ERR_RANGE) {
        struct log_rot rot;
        if (e == ERR_CORRUPT) {
            if (!log_rot_find_pos(log, s->base, w.pos, &rot) || rot.offset_end > offset) { break; }
            walk_leave_rot(&w, &rot);
            continue;
        }
        if (e) { return log_device_error(log, e, "reading a segment"); }
        if (batch_last_offset(&h) >= offset) { break; }
        walk_advance(&w, &h);
    }
    *pos = w.pos;
    return ERR_OK;
}

static enum err unlink_file(struct log *log, int64_t base, const char *suffix)
{
    char path[LOG_PATH_SIZE];
    log_path_segment(log, base, suffix, path);
    enum err e = sys_path_unlink(log->env->sys, path);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

enum err log_remove_index(struct log *log, int64_t base)
{
    enum err e = unlink_file(log, base, ".index");
    return e ? e : unlink_file(log, base, ".timeindex");
}

enum err log_unlink_segment(struct log *log, struct segment *s)
{
    /* Broken off, it leaves none that speaks of what is gone. */
    enum err e = log_remove_index(log, s->base);
    if (!e) { e = unlink_file(log, s->base, ".snapshot"); }
    if (!e) { e = unlink_file(log, s->base, ".log"); }
    if (!e) { log_close_segment_files(s); }
    return e;
}

enum err log_unlink_behind(struct log *log, uint32_t i)
{
    while (log->segments_count > i + 1) {
        enum err e = log_unlink_segment(log, log_active(log));
        if (e) { return e; }
        log->segments_count--;
    }
    return ERR_OK;
}

struct snapshot_cut {
    struct log *log;
    int64_t offset;
};

static enum err drop_snapshot(void *ctx, const char *name, bool is_dir)
{
    struct snapshot_cut *c = ctx;
    int64_t at = 0;
    char path[LOG_PATH_SIZE];
    if (is_dir || !log_parse_segment_name(name, ".snapshot", &at) || at <= c->offset) {
        return ERR_OK;
    }
    log_path_file(c->log, name, path);
    return sys_path_unlink(c->log->env->sys, path);
}

enum err log_drop_snapshots(struct log *log, int64_t offset)
{
    char path[LOG_PATH_SIZE];
    struct snapshot_cut c = {.log = log, .offset = offset};
    log_path_dir(log, path);
    if (log->snapshot_loose > offset) { log->snapshot_loose = -1; }
    return sys_dir_list(log->env->sys, path, drop_snapshot, &c);
}

/* Cuts files: what is behind (segment i, pos) is gone, and side files that speak of it. */
static enum err cut_files(struct log *log, uint32_t i, uint64_t pos, int64_t offset)
    HOLDS(log->lock);
static enum err cut_files(struct log *log, uint32_t i, uint64_t pos, int64_t offset)
{
    char path[LOG_PATH_SIZE];
    enum err e = log_unlink_behind(log, i);
    if (e) { return e; }
    struct segment *s = &log->segments[i];
    sys_file_unref(s->file);
    s->file = NULL;
    log_path_segment(log, s->base, ".log", path);
    e = sys_file_open(log->env->sys, path, SYS_WRITE | SYS_CREATE, &s->file);
    if (!e) { e = sys_file_truncate(s->file, pos); }
    if (!e) { e = log_remove_index(log, s->base); }
    if (e) { return e; }
    e = log_drop_snapshots(log, offset);
    s->size = pos;
    s->end = offset;
    s->time_max = LOG_TIME_UNKNOWN;
    s->data_dirty = s->names_dirty = s->exists = true;
    return e;
}

static void publish_cut(struct log *log, int64_t offset) HOLDS(log->lock);
static void publish_cut(struct log *log, int64_t offset)
{
    const struct segment *active = log_active(log);
    uint64_t total = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < log->segments_count; i++) {
        total += log->segments[i].size;
    }
    for (uint32_t i = 0; i < log->rot_count; i++) {
        const struct log_rot *rot = &log->rot[i];
        bool is_there =
            rot->base < active->base || (rot->base == active->base && rot->pos < active->size);
        if (is_there) { log->rot[kept++] = *rot; }
    }
    log->rot_count = kept;
    log->cut_generation++;
    atomic_store_explicit(&log->size_total, total, memory_order_relaxed);
    if (log_start_offset(log) > offset) {
        atomic_store_explicit(&log->start, offset, memory_order_release);
    }
    if (log_hw(log) > offset) { atomic_store_explicit(&log->hw, offset, memory_order_release); }
    if (log_synced(log) > offset) {
        atomic_store_explicit(&log->synced, offset, memory_order_release);
    }
    if (log->synced_mark.offset > offset) {
        log->synced_mark = (struct log_mark){.offset = offset,
                                             .base = active->base,
                                             .pos = active->size,
                                             .epoch = log->synced_mark.epoch};
    }
    log_publish_end(log, offset);
}

/* [CHG-1] */
static enum err lower_mark(struct log *log, int64_t offset, int64_t base, uint64_t pos)
    HOLDS(log->lock);
static enum err lower_mark(struct log *log, int64_t offset, int64_t base, uint64_t pos)
{
#ifdef MUTANT_MARK_NOT_LOWERED
    return ERR_OK;
#endif
    /* Above the mark there is nothing to lower: a mark here would speak of bytes not yet synced. */
    if (!log->env->lower_mark || offset >= log_synced(log)) { return ERR_OK; }
    struct log_mark mark = {
        .offset = offset, .base = base, .pos = pos, .epoch = epochs_latest(&log->epochs)};
    return log->env->lower_mark(log->env->ctx, log, &mark);
}

static enum err truncate_locked(struct log *log, int64_t offset) HOLDS(log->lock);
static enum err truncate_locked(struct log *log, int64_t offset)
{
    if (offset >= log_leo(log)) { return ERR_OK; }
    if (offset < log->segments[0].base) { return ERR_RANGE; }
    enum err e = log_warm_up(log);
    if (e) { return e; }
    uint32_t i = log_find_segment(log, offset);
    uint64_t pos = 0;
    e = find_cut(log, i, offset, &pos);
    if (!e) { e = lower_mark(log, offset, log->segments[i].base, pos); }
    if (e) { return e; }
    log_drop(log); /* index, ring, hints and producers speak of what goes */
    log->has_no_producers = false;
    e = cut_files(log, i, pos, offset);
    if (e) { return log_device_error(log, e, "truncating"); }
    publish_cut(log, offset);
    if (epochs_truncate_end(&log->epochs, offset)) { e = log_write_epochs(log); }
    if (!e) { e = log_warm_up(log); }
    log_info(log->env->logger, LOGGER_LOG, "%s-%d: truncated to offset %lld", log->topic,
             log->partition, (long long)offset);
    return e;
}

enum err log_truncate_to(struct log *log, int64_t offset)
{
    log_lock(log);
    enum err e = log_usable(log);
    log_files_begin(log);
    if (!e) { e = truncate_locked(log, offset); }
    log_files_end(log);
    log_unlock(log);
    if (!e) { log_mark_dirty(log, true); }
    return e;
}

static enum err reset_locked(struct log *log, int64_t offset) HOLDS(log->lock);
static enum err reset_locked(struct log *log, int64_t offset)
{
    struct segment fresh = {.base = offset,
                            .end = offset,
                            .time_max = -1,
                            .time_max_offset = offset,
                            .time_first = -1,
                            .names_dirty = true};
    enum err e = log_load_epochs(log);
    if (!e) { e = lower_mark(log, offset, offset, 0); }
    if (e) { return e; }
    log_drop(log);
    e = log_unlink_behind(log, 0);
    if (e) { return log_device_error(log, e, "removing segments"); }
    delete_files(log, log->segments[0].base, log->config.file_delete_delay_ms);
    log_close_segment_files(&log->segments[0]);
    log->segments[0] = fresh;
    log->rot_count = 0;
    e = log_drop_snapshots(log, -1);
    log->has_no_producers = true;
    epochs_clear(&log->epochs);
    if (!e) { e = log_write_epochs(log); }
    publish_cut(log, offset);
    atomic_store_explicit(&log->start, offset, memory_order_release);
    atomic_store_explicit(&log->synced, offset, memory_order_release);
    atomic_store_explicit(&log->hw, offset, memory_order_release);
    log->synced_mark = (struct log_mark){.offset = offset, .base = offset, .epoch = -1};
    if (!e) { e = note_start(log, offset); }
    if (!e) { e = log_warm_up(log); }
    return e;
}

enum err log_reset(struct log *log, int64_t offset)
{
    log_lock(log);
    enum err e = log_usable(log);
    log_files_begin(log);
    if (!e) { e = reset_locked(log, offset); }
    log_files_end(log);
    log_unlock(log);
    if (!e) { log_mark_dirty(log, true); }
    return e;
}

/* ---- epochs ---- */

enum err log_assign_epoch(struct log *log, int32_t epoch)
{
    log_lock(log);
    enum err e = log_usable(log);
    bool changed = false;
    if (!e) { e = log_load_epochs(log); }
    if (!e && epoch > epochs_latest(&log->epochs)) {
        e = epochs_assign(&log->epochs, epoch, log_leo(log), &changed);
        if (!e && changed) { e = log_write_epochs(log); }
    }
    log_unlock(log);
    return e;
}
