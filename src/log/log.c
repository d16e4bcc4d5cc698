/* log.c - a log's life: made, warmed up at first use, cooled down when idle, closed.
 *
 * Place:   log/. Thread and invariants: log.h, log_int.h.
 * States:  cold (facts only) -> warm (files, index, producers) -> cold; closed at any time, for
 * good.
 */
#include "log/log_int.h"

#include <stdio.h>

void log_config_defaults(struct log_config *c)
{
    *c = (struct log_config){
        .segment_ms = 604800000,
        .retention_ms = 604800000,
        .retention_bytes = -1,
        .message_timestamp_before_max_ms = INT64_MAX,
        .message_timestamp_after_max_ms = 3600000,
        .flush_messages = INT64_MAX,
        .flush_ms = INT64_MAX,
        .delete_retention_ms = 86400000,
        .file_delete_delay_ms = 60000,
        .producer_expiration_ms = 86400000,
        .segment_bytes = 1 << 30,
        .segment_index_bytes = 10 << 20,
        .index_interval_bytes = 4096,
        .max_message_bytes = 1048588,
        .compression_gzip_level = -1,
        .compression_lz4_level = 9,
        .compression_zstd_level = 3,
        .compression_codec = LOG_CODEC_PRODUCER,
        .cleanup = LOG_CLEANUP_DELETE,
    };
}

/* ---- errors ---- */

enum err log_usable(const struct log *log)
{
    if (atomic_load_explicit(&log->is_closed, memory_order_acquire)) { return ERR_CLOSED; }
    if (log->env->offline && atomic_load_explicit(log->env->offline, memory_order_acquire)) {
        return ERR_OFFLINE;
    }
    return ERR_OK;
}

/* One line a second is enough: a full disk fails every produce. */
static bool may_write_line(struct log *log)
{
    uint64_t now_ns = sys_mono_ns(log->env->sys);
    uint64_t last_ns = atomic_load_explicit(&log->error_line_ns, memory_order_relaxed);
    if (last_ns && now_ns < last_ns + 1000 * SYS_MS) { return false; }
    return atomic_compare_exchange_strong(&log->error_line_ns, &last_ns, now_ns);
}

enum err log_device_error(struct log *log, enum err e, const char *what)
{
    if (e == ERR_OK || e == ERR_AGAIN || e == ERR_NOMEM) { return e; }
    if (may_write_line(log)) {
        log_error(log->env->logger, LOGGER_LOG, "%s-%d: %s failed: %s", log->topic, log->partition,
                  what, err_name(e));
    }
    if (e == ERR_IO) {
        if (log->env->failed) { log->env->failed(log->env->ctx, e); }
#ifndef MUTANT_RETRY_AFTER_EIO
        return ERR_OFFLINE;
#endif
    }
    return e;
}

/* ---- making and freeing ---- */

enum err log_add_segment(struct log *log, const struct segment *s)
{
    if (log->segments_count == log->segments_capacity) {
        uint32_t n = log->segments_capacity ? log->segments_capacity * 2 : 1;
        struct segment *at = mem_realloc(log->segments, n * sizeof *at);
        if (!at) { return ERR_NOMEM; }
        log->segments = at;
        log->segments_capacity = n;
    }
    CHECK(log->segments_count == 0 || log_active(log)->base < s->base); /* [SEG-1] */
    log->segments[log->segments_count++] = *s;
    return ERR_OK;
}

static struct segment segment_empty(int64_t base)
{
    return (struct segment){
        .base = base, .end = base, .time_max = -1, .time_max_offset = base, .time_first = -1};
}

enum err log_new(const struct log_env *env, const struct log_seed *seed, int64_t base,
                 struct log **out) NO_THREAD_SAFETY
{
    *out = NULL;
    size_t topic_size = strlen(seed->topic) + 1;
    struct log *log = mem_zalloc(sizeof *log + topic_size);
    if (!log) { return ERR_NOMEM; }
    log->env = env;
    log->topic_id = seed->topic_id;
    log->partition = seed->partition;
    log->topic = (char *)(log + 1);
    memcpy(log->topic, seed->topic, topic_size);
    log->config = *seed->config;
    log->snapshot_loose = -1;
    log->synced_mark = (struct log_mark){.offset = base, .base = base, .epoch = -1};
    log->active_since_ms = -1;
    atomic_init(&log->refs, 1);
    atomic_init(&log->leo, base);
    atomic_init(&log->synced, base);
    atomic_init(&log->start, base);
    atomic_init(&log->hw, base);
    sys_mutex_init(&log->files_lock, SYS_RANK_LOG_FILES);
    sys_mutex_init(&log->lock, SYS_RANK_LOG);
    epochs_init(&log->epochs);
    struct segment s = segment_empty(base);
    enum err e = log_add_segment(log, &s);
    if (e) {
        log_unref(log);
        return e;
    }
    *out = log;
    return ERR_OK;
}

struct log *log_ref(struct log *log)
{
    atomic_fetch_add_explicit(&log->refs, 1, memory_order_relaxed);
    return log;
}

void log_close_segment_files(struct segment *s)
{
    sys_file_unref(s->file);
    sys_file_unref(s->index_file);
    s->file = NULL;
    s->index_file = NULL;
}

void log_drop(struct log *log)
{
    for (uint32_t i = 0; i < log->segments_count; i++) {
        log_close_segment_files(&log->segments[i]);
    }
    if (log->warm) {
        index_fini(&log->warm->index);
        producers_fini(&log->warm->producers);
        mem_free(log->warm);
        log->warm = NULL;
    }
    atomic_store_explicit(&log->is_warm, false, memory_order_release);
}

void log_unref(struct log *log) NO_THREAD_SAFETY
{
    if (!log || atomic_fetch_sub_explicit(&log->refs, 1, memory_order_acq_rel) != 1) { return; }
    log_drop(log);
    epochs_fini(&log->epochs);
    mem_free(log->segments);
    mem_free(log->rot);
    sys_mutex_fini(&log->lock);
    sys_mutex_fini(&log->files_lock);
    mem_free(log);
}

void log_set_closed(struct log *log)
{
    atomic_store_explicit(&log->is_closed, true, memory_order_release);
}

void log_uncreate_files(struct log *log)
{
    char path[LOG_PATH_SIZE];
    log_path_file(log, "partition.metadata", path);
    err_ignore(sys_path_unlink(log->env->sys, path), "undoing");
    log_path_dir(log, path);
    err_ignore(sys_dir_remove(log->env->sys, path), "undoing");
}

enum err log_create_files(struct log *log) NO_THREAD_SAFETY
{
    char path[LOG_PATH_SIZE], id[UUID_TEXT_SIZE], text[64];
    log_path_dir(log, path);
    enum err e = sys_dir_create(log->env->sys, path);
    if (e) { return e; }
    int n = snprintf(text, sizeof text, "version: 0\ntopic_id: %s", uuid_format(log->topic_id, id));
    log_path_file(log, "partition.metadata", path);
    e = smallfile_write(log->env->sys, path, slice_of(text, (size_t)n), SMALLFILE_PLAIN);
    log->dir_dirty = true;
    log_active(log)->names_dirty = true;
    log->epochs_loaded = true;
    log->is_verified = true;
    log->has_no_producers = true;
    if (e) { log_uncreate_files(log); }
    return e;
}

/* ---- accessors ---- */

const char *log_topic(const struct log *log)
{
    return log->topic;
}

int32_t log_partition(const struct log *log)
{
    return log->partition;
}

struct uuid log_topic_id(const struct log *log)
{
    return log->topic_id;
}

int64_t log_leo(const struct log *log)
{
    return atomic_load_explicit(&log->leo, memory_order_acquire);
}

int64_t log_synced(const struct log *log)
{
    return atomic_load_explicit(&log->synced, memory_order_acquire);
}

int64_t log_start_offset(const struct log *log)
{
    return atomic_load_explicit(&log->start, memory_order_acquire);
}

uint64_t log_size_bytes(const struct log *log)
{
    return atomic_load_explicit(&log->size_total, memory_order_relaxed);
}

size_t log_segments_count(struct log *log)
{
    log_lock(log);
    size_t count = log->segments_count;
    log_unlock(log);
    return count;
}

uint64_t log_rot_count(const struct log *log)
{
    return atomic_load_explicit(&log->rot_total, memory_order_relaxed);
}

int64_t log_hw(const struct log *log)
{
    return atomic_load_explicit(&log->hw, memory_order_acquire);
}

void log_set_hw(struct log *log, int64_t hw)
{
    int64_t old = atomic_load_explicit(&log->hw, memory_order_relaxed);
    while (old < hw && !atomic_compare_exchange_weak_explicit(
                           &log->hw, &old, hw, memory_order_release, memory_order_relaxed)) {}
}

void log_set_config(struct log *log, const struct log_config *c)
{
    log_lock(log);
    log->config = *c;
    log_unlock(log);
}

/* Release: what was written before is seen by who acquires the end. */
void log_publish_end(struct log *log, int64_t leo)
{
    log_active(log)->end = leo;
    atomic_store_explicit(&log->leo, leo, memory_order_release);
}

void log_mark_dirty(struct log *log, bool urgent)
{
    if (!log->env->dirty) { return; }
    if (log->env->policy == LOG_FLUSH_OS && !urgent) { return; }
    if (urgent) { atomic_store_explicit(&log->is_urgent, true, memory_order_release); }
    bool posted = atomic_exchange_explicit(&log->is_posted, true, memory_order_acq_rel);
    if (!posted || urgent) { log->env->dirty(log->env->ctx, posted ? NULL : log); }
}

/* ---- segments ---- */

uint32_t log_find_segment(const struct log *log, int64_t offset)
{
    uint32_t low = 0, high = log->segments_count;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (log->segments[mid].base <= offset) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return low;
}

/* Side files of a new segment are left over from one that had its offsets before. */
static enum err open_segment(struct log *log, struct segment *s, unsigned flags) HOLDS(log->lock);
static enum err open_segment(struct log *log, struct segment *s, unsigned flags)
{
    char path[LOG_PATH_SIZE];
    enum err e = s->exists ? ERR_OK : log_remove_index(log, s->base);
    log_path_segment(log, s->base, ".log", path);
    return e ? e : sys_file_open(log->env->sys, path, flags, &s->file);
}

enum err log_open_segment(struct log *log, uint32_t i)
{
    struct segment *s = &log->segments[i];
    atomic_store_explicit(&s->used, true, memory_order_relaxed);
    if (s->file) { return ERR_OK; }
    bool active = i + 1 == log->segments_count;
    unsigned flags = active ? SYS_WRITE | (s->exists ? 0u : (unsigned)SYS_CREATE) : SYS_READ;
    log_files_begin(log);
    enum err e = open_segment(log, s, flags);
    log_files_end(log);
    if (e) { return log_device_error(log, e, "opening a segment"); }
    if (!s->exists) {
        s->exists = true;
        s->names_dirty = true;
    }
    return ERR_OK;
}

/* The greatest time from pos on. With an entry of the index: *is_true when its batch is there, and
 * so what comes before it is no greater. */
static enum err walk_segment_time(struct log *log, uint32_t i, uint64_t pos,
                                  const struct index_time *entry, bool *is_true) HOLDS(log->lock);
static enum err walk_segment_time(struct log *log, uint32_t i, uint64_t pos,
                                  const struct index_time *entry, bool *is_true)
{
    struct segment *s = &log->segments[i];
    struct walk w;
    struct batch_header h;
    struct walk_span span = log_span(s);
    enum err e;
    walk_init(&w, &span, pos);
    s->time_max = -1;
    while ((e = walk_peek(&w, &h)) != ERR_RANGE) {
        if (e == ERR_CORRUPT) {
            struct log_rot rot;
            e = log_skip_rot(log, &w, &rot);
            if (e) { break; }
            continue;
        }
        if (e) { break; }
        int64_t at = entry ? s->base + entry->offset : -1;
        bool is_it = h.base_offset <= at && batch_last_offset(&h) >= at;
        if (is_it && h.max_timestamp == entry->time) { *is_true = true; }
        if (h.max_timestamp > s->time_max) {
            s->time_max = h.max_timestamp;
            s->time_max_offset = batch_last_offset(&h);
        }
        walk_advance(&w, &h);
    }
    if (e == ERR_RANGE) { return ERR_OK; }
    s->time_max = LOG_TIME_UNKNOWN;
    return log_device_error(log, e, "reading a segment");
}

static enum err read_segment_time(struct log *log, uint32_t i) HOLDS(log->lock);
static enum err read_segment_time(struct log *log, uint32_t i)
{
    struct segment *s = &log->segments[i];
    char path[LOG_PATH_SIZE];
    log_path_segment(log, s->base, ".timeindex", path);
    struct sys_file *f = NULL;
    struct index_time last = {-1, 0};
    bool found = false;
    enum err e = sys_file_open(log->env->sys, path, SYS_READ, &f);
    if (e == ERR_OK) { e = index_file_last_time(f, &found, &last); }
    sys_file_unref(f);
    if (e && e != ERR_NOTFOUND) { return log_device_error(log, e, "reading a time index"); }
    found = found && last.offset <= s->end - s->base;
    bool was_open = s->file != NULL;
    e = log_open_segment(log, i);
    uint64_t pos = found && !e ? log_scan_begin(log, i, s->base + last.offset) : 0;
    bool is_true = false;
    if (!e && found) { e = walk_segment_time(log, i, pos, &last, &is_true); }
    /* No usable index: the headers say it. */
    if (!e && !is_true) { e = walk_segment_time(log, i, 0, NULL, &is_true); }
    if (!was_open) { /* retention asks all logs: they would all keep a descriptor */
        sys_file_unref(s->file);
        s->file = NULL;
    }
    return e;
}

/* The greatest time of a closed segment. The last entry of its time index says where it is, or, of
 * a file that lost its end in a crash, where at least to look on. */
enum err log_segment_time(struct log *log, uint32_t i)
{
    if (log->segments[i].time_max != LOG_TIME_UNKNOWN) { return ERR_OK; }
    log_files_begin(log);
    enum err e = read_segment_time(log, i);
    log_files_end(log);
    return e;
}

/* ---- rolling ---- */

/* Writes the index of the active segment and takes its reservation back. */
static enum err log_seal_active(struct log *log) HOLDS(log->lock);
static enum err log_seal_active(struct log *log)
{
    struct segment *s = log_active(log);
    if (!log->warm || !s->exists || !s->file) { return ERR_OK; }
    char index[LOG_PATH_SIZE], time[LOG_PATH_SIZE];
    log_path_segment(log, s->base, ".index", index);
    log_path_segment(log, s->base, ".timeindex", time);
    struct index *x = &log->warm->index;
    if (s->time_max >= 0) {
        enum err e = index_add_time(x, s->time_max, (uint32_t)(s->time_max_offset - s->base));
        if (e) { return e; }
    }
    enum err e = index_write(x, log->env->sys, index, time);
    if (e) { return e; }
    if (log->warm->reserved_end != LOG_RESERVE_OFF && log->warm->reserved_end > s->size) {
        e = sys_file_truncate(s->file, s->size);
        log->warm->reserved_end = s->size;
    }
    return e;
}

static enum err roll_now(struct log *log, int64_t base, int64_t now_ms) HOLDS(log->lock);
static enum err roll_now(struct log *log, int64_t base, int64_t now_ms)
{
    enum err e = log_seal_active(log);
    if (e) { return log_device_error(log, e, "closing a segment"); }
    /* They know of a write that was taken back: a snapshot would make it true [APP-2]. */
    if (log->warm->producers_stale) { e = log_rebuild_producers(log); }
    if (e) { return e; }
    e = log_write_snapshot(log, base);
    if (e) { return log_device_error(log, e, "writing a producer snapshot"); }
    struct segment n = segment_empty(base);
    n.names_dirty = true;
    e = log_add_segment(log, &n);
    if (e) { return e; }
    e = log_open_segment(log, log->segments_count - 1);
    if (e) {
        log->segments_count--;
        return e;
    }
    struct log_warm *w = log->warm;
    w->index.count = 0;
    w->index.times_count = 0;
    w->bytes_since_index = 0;
    w->ring_count = 0;
    if (w->reserved_end != LOG_RESERVE_OFF) { w->reserved_end = 0; }
    w->reserve_step = LOG_RESERVE_BYTES_MIN;
    log->active_since_ms = now_ms;
    if (log->config.segment_jitter_ms > 0) {
        log->roll_jitter_ms =
            (int64_t)(sys_random_u64(log->env->sys) % (uint64_t)log->config.segment_jitter_ms);
    }
    log_info(log->env->logger, LOGGER_LOG, "%s-%d: rolled a new segment at offset %lld", log->topic,
             log->partition, (long long)base);
    return ERR_OK;
}

enum err log_roll_locked(struct log *log, int64_t base, int64_t now_ms)
{
    if (log_active(log)->size == 0) { return ERR_OK; }
    log_files_begin(log);
    enum err e = roll_now(log, base, now_ms);
    log_files_end(log);
    return e;
}

enum err log_roll(struct log *log, int64_t now_ms)
{
    log_lock(log);
    enum err e = log_usable(log);
    if (!e) { e = log_warm_up(log); }
    if (!e) { e = log_roll_locked(log, log_leo(log), now_ms); }
    log_unlock(log);
    if (!e) { log_mark_dirty(log, true); }
    return e;
}

void log_note_batch(struct log *log, const struct batch_header *h, int64_t time_max, uint64_t pos)
{
    struct segment *s = log_active(log);
    struct log_warm *w = log->warm;
    int64_t last = batch_last_offset(h);
    if (s->time_first < 0 && pos == 0) { s->time_first = time_max; }
    if (time_max > s->time_max) {
        s->time_max = time_max;
        s->time_max_offset = last;
    }
    if (w->bytes_since_index > (uint64_t)log->config.index_interval_bytes) {
        enum err e = index_add(&w->index, (uint32_t)(last - s->base), (uint32_t)pos);
        if (!e && s->time_max >= 0) {
            e = index_add_time(&w->index, s->time_max, (uint32_t)(s->time_max_offset - s->base));
        }
        err_ignore(e, "an entry less");
        w->bytes_since_index = 0;
    }
    w->bytes_since_index += batch_size(h);
    w->ring[w->ring_count++ % LOG_RING_COUNT] = (struct log_ring){h->base_offset, last, pos};
}

/* ---- idle ---- */

enum err log_cool_down(struct log *log)
{
    if (!log->warm) { return ERR_OK; }
    enum err e = log_seal_active(log);
    log->has_no_producers = log->warm->producers.count == 0 && !log->warm->producers_stale;
    if (!e && !log->has_no_producers && !log->warm->producers_stale) {
        int64_t at = log_leo(log);
        e = log_write_snapshot(log, at);
        if (at != log_active(log)->base) { log->snapshot_loose = at; }
    }
    if (e) { return log_device_error(log, e, "closing an idle log"); }
    log_drop(log);
    return ERR_OK;
}

bool log_idle_step(struct log *log)
{
    bool used = atomic_exchange_explicit(&log->is_used, false, memory_order_relaxed);
    bool cooled = false;
    log_lock(log);
    bool dirty = atomic_load_explicit(&log->is_posted, memory_order_acquire);
    for (uint32_t i = 0; i < log->segments_count; i++) {
        dirty = dirty || log->segments[i].data_dirty;
    }
    bool idle = !used && log_usable(log) == ERR_OK;
    if (idle && !dirty) {
        bool had = log->warm != NULL;
        log_files_begin(log);
        cooled = log_cool_down(log) == ERR_OK && had;
        log_files_end(log);
        if (!log->warm) { log_drop(log); }
    }
    for (uint32_t i = 0; i + 1 < log->segments_count; i++) {
        struct segment *s = &log->segments[i];
        bool s_used = atomic_exchange_explicit(&s->used, false, memory_order_relaxed);
        if (!s_used && !s->data_dirty) { log_close_segment_files(s); }
    }
    log_unlock(log);
    /* Under the lazy policies nothing else would ever sync the last bytes of an idle log. */
    if (idle && dirty) { log_mark_dirty(log, true); }
    return cooled;
}

void log_expire_producers(struct log *log, int64_t now_ms)
{
    if (!atomic_load_explicit(&log->is_warm, memory_order_acquire)) { return; }
    log_lock(log);
    if (log->warm) {
        producers_expire(&log->warm->producers, now_ms, log->config.producer_expiration_ms,
                         LOG_EXPIRE_SCAN_MAX);
    }
    log_unlock(log);
}
