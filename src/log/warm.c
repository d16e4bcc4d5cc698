/* warm.c - brings a log into use: opens files, loads or rebuilds index, epochs and producers.
 *
 * Place:      log/, private.
 * Thread:     under the log's lock; BLOCKS on cold disks, so callers on a processor look at
 *             is_warm first and go to a handler instead.
 * Rule:       side files (index, epochs, snapshots) are never more than a shortcut: what is
 *             missing, stale or damaged is rebuilt from batch headers, and no data file suffers
 *             for it. */
#include "log/log_int.h"

#define PRODUCER_WINDOW_BYTES (256u << 10) /* read again before a snapshot */

/* ---- headers of the whole log ---- */

uint64_t log_scan_begin(struct log *log, uint32_t i, int64_t from)
{
    struct segment *s = &log->segments[i];
    struct index_entry n = {0, 0};
    bool found = false;
    if (from <= s->base) { return 0; }
    uint64_t rel64 = (uint64_t)(from - s->base);
    uint32_t rel = rel64 > UINT32_MAX ? UINT32_MAX : (uint32_t)rel64;
    if (i + 1 == log->segments_count) {
        found = log->warm && index_find_offset(&log->warm->index, rel, &n);
    } else {
        char path[LOG_PATH_SIZE];
        log_path_segment(log, s->base, ".index", path);
        struct sys_file *f = NULL;
        if (sys_file_open(log->env->sys, path, SYS_READ, &f) == ERR_OK) {
            if (index_file_find_offset(f, rel, &found, &n) != ERR_OK) { found = false; }
        }
        sys_file_unref(f);
    }
    if (!found || n.pos >= s->size) { return 0; }
    struct walk w;
    struct batch_header h;
    struct walk_span span = log_span(s);
    walk_init(&w, &span, n.pos);
    bool agrees = walk_peek(&w, &h) == ERR_OK && batch_last_offset(&h) == s->base + n.offset;
    return agrees ? n.pos : 0; /* [SEG-3] */
}

enum err log_scan_headers(struct log *log, int64_t from,
                          enum err (*visit)(struct log *log, const struct batch_header *h),
                          bool may_use_index)
{
    for (uint32_t i = log_find_segment(log, from); i < log->segments_count; i++) {
        if (log->segments[i].size == 0) { continue; }
        enum err e = log_open_segment(log, i);
        if (e) { return e; }
        struct segment *s = &log->segments[i];
        struct walk w;
        struct batch_header h;
        struct walk_span span = log_span(s);
        walk_init(&w, &span, may_use_index ? log_scan_begin(log, i, from) : 0);
        while ((e = walk_peek(&w, &h)) != ERR_RANGE) {
            if (e == ERR_CORRUPT) {
                struct log_rot rot;
                e = log_skip_rot(log, &w, &rot);
                if (e) { return e; }
                continue;
            }
            if (e) { return log_device_error(log, e, "reading a segment"); }
            if (batch_last_offset(&h) >= from) {
                e = visit(log, &h);
                if (e) { return e; }
            }
            walk_advance(&w, &h);
        }
    }
    return ERR_OK;
}

/* ---- index of the active segment ---- */

/* What index files say beyond what was read of them would be true of other records one day. */
static enum err drop_index_tail(struct log *log, const char *index, const char *time)
    HOLDS(log->lock);
static enum err drop_index_tail(struct log *log, const char *index, const char *time)
{
    const struct index *x = &log->warm->index;
    struct sys_stat st = {0}, time_st = {0};
    enum err e = sys_path_stat(log->env->sys, index, &st);
    if (!e) { e = sys_path_stat(log->env->sys, time, &time_st); }
    if (e && e != ERR_NOTFOUND) { return e; }
    bool is_whole = st.size == (uint64_t)x->count * INDEX_ENTRY_SIZE &&
                    (x->count == 0 || time_st.size == (uint64_t)x->times_count * TIME_ENTRY_SIZE);
    return is_whole ? ERR_OK : log_remove_index(log, log_active(log)->base);
}

static enum err warm_index(struct log *log) HOLDS(log->lock);
static enum err warm_index(struct log *log)
{
    struct segment *s = log_active(log);
    struct log_warm *w = log->warm;
    char index[LOG_PATH_SIZE], time[LOG_PATH_SIZE];
    log_path_segment(log, s->base, ".index", index);
    log_path_segment(log, s->base, ".timeindex", time);
    enum err e = index_read(&w->index, log->env->sys, index, time, s->size);
    if (e) { return log_device_error(log, e, "reading an index"); }
    struct walk k;
    struct batch_header h;
    struct walk_span span = log_span(s);
    walk_init(&k, &span, 0);
    s->time_first = -1;
    if (walk_peek(&k, &h) == ERR_OK) { s->time_first = h.max_timestamp; }
    /* The last entry must point at its batch, else nothing of it is believed [SEG-3]. */
    if (w->index.count > 0) {
        const struct index_entry *last = &w->index.at[w->index.count - 1];
        bool ok = false;
        e = walk_check_batch(&span, last->pos, s->base, &ok, &h);
        if (e) { return log_device_error(log, e, "reading a segment"); }
        walk_init(&k, &span, last->pos);
        if (!ok || batch_last_offset(&h) != s->base + last->offset) {
            index_fini(&w->index);
            walk_init(&k, &span, 0);
        }
    }
    s->time_max = -1;
    s->time_max_offset = s->base;
    index_truncate(&w->index, (uint32_t)(s->end - s->base));
    if (w->index.count == 0) {
        w->index.times_count = 0;
    } else if (w->index.times_count > 0) {
        const struct index_time *last = &w->index.times[w->index.times_count - 1];
        s->time_max = last->time;
        s->time_max_offset = s->base + last->offset;
    }
    e = drop_index_tail(log, index, time);
    if (e) { return log_device_error(log, e, "removing an index"); }
    w->bytes_since_index = 0;
    while ((e = walk_peek(&k, &h)) != ERR_RANGE) {
        if (e == ERR_CORRUPT) {
            struct log_rot rot;
            e = log_skip_rot(log, &k, &rot);
            if (e) { return log_device_error(log, e, "reading a segment"); }
            continue;
        }
        if (e) { return log_device_error(log, e, "reading a segment"); }
        log_note_batch(log, &h, h.max_timestamp, k.pos);
        w->last_epoch = h.leader_epoch;
        walk_advance(&k, &h);
    }
    return ERR_OK;
}

/* ---- epochs ---- */

static enum err epoch_visit(struct log *log, const struct batch_header *h) HOLDS(log->lock);
static enum err epoch_visit(struct log *log, const struct batch_header *h)
{
    bool changed = false;
    if (h->leader_epoch < 0 || h->leader_epoch <= epochs_latest(&log->epochs)) { return ERR_OK; }
    return epochs_assign(&log->epochs, h->leader_epoch, h->base_offset, &changed);
}

enum err log_write_epochs(struct log *log)
{
    char path[LOG_PATH_SIZE];
    log_path_file(log, "leader-epoch-checkpoint", path);
    struct wire_buf buf;
    wire_buf_init(&buf, SMALLFILE_BYTES_MAX);
    log_files_begin(log);
    enum err e = epochs_encode(&log->epochs, &buf);
    if (!e) { e = smallfile_write(log->env->sys, path, wire_buf_slice(&buf), SMALLFILE_PLAIN); }
    log_files_end(log);
    wire_buf_fini(&buf);
    return log_device_error(log, e, "writing leader-epoch-checkpoint");
}

static enum err load_epochs(struct log *log) HOLDS(log->lock);
static enum err load_epochs(struct log *log)
{
    char path[LOG_PATH_SIZE];
    log_path_file(log, "leader-epoch-checkpoint", path);
    uint8_t *at = NULL;
    size_t size = 0;
    enum err e = smallfile_read(log->env->sys, path, &at, &size);
    if (!e) {
        e = epochs_decode(&log->epochs, slice_of(at, size));
        if (e == ERR_MALFORMED) {
            log_warn(log->env->logger, LOGGER_LOG,
                     "%s-%d: leader-epoch-checkpoint is damaged; rebuilt from the batches",
                     log->topic, log->partition);
            epochs_clear(&log->epochs);
            e = ERR_NOTFOUND;
        }
    }
    mem_free(at);
    if (e && e != ERR_NOTFOUND) { return log_device_error(log, e, "reading an epoch checkpoint"); }
    epochs_truncate_end(&log->epochs, log_leo(log) + 1);
    /* Written without a sync, it may be older than the log: what it lacks stands in the batches. */
    int32_t known = epochs_latest(&log->epochs);
    int64_t from = log->epochs.count ? epochs_at(&log->epochs, log->epochs.count - 1)->start
                                     : log->segments[0].base;
    bool is_current = log->warm && log->warm->last_epoch >= 0 && known >= log->warm->last_epoch;
    bool is_behind = e == ERR_NOTFOUND || !is_current;
    if (is_behind && log_leo(log) > log->segments[0].base) {
        e = log_scan_headers(log, from, epoch_visit, true);
        if (e) { return e; }
    }
    log->epochs_loaded = true;
    if (epochs_latest(&log->epochs) != known) { return log_write_epochs(log); }
    return ERR_OK;
}

enum err log_load_epochs(struct log *log)
{
    if (log->epochs_loaded) { return ERR_OK; }
    log_files_begin(log);
    enum err e = load_epochs(log);
    log_files_end(log);
    return e;
}

/* ---- producers ---- */

struct snapshots {
    int64_t below; /* only those at or below it */
    int64_t newest; /* -1: none */
};

static enum err snapshot_visit(void *ctx, const char *name, bool is_dir)
{
    struct snapshots *s = ctx;
    int64_t offset = 0;
    if (!is_dir && log_parse_segment_name(name, ".snapshot", &offset) && offset <= s->below &&
        offset > s->newest) {
        s->newest = offset;
    }
    return ERR_OK;
}

static enum err producer_visit(struct log *log, const struct batch_header *h) HOLDS(log->lock);
static enum err producer_visit(struct log *log, const struct batch_header *h)
{
    if (!batch_has_producer(h)) { return ERR_OK; }
    return producers_add(&log->warm->producers, h);
}

/* The newest snapshot that can be read; *offset is where to go on from. */
static enum err load_snapshot(struct log *log, int64_t *offset) HOLDS(log->lock);
static enum err load_snapshot(struct log *log, int64_t *offset)
{
    char path[LOG_PATH_SIZE];
    struct snapshots s = {.below = log_leo(log)};
    *offset = log->segments[0].base;
    for (;;) {
        s.newest = -1;
        log_path_dir(log, path);
        enum err e = sys_dir_list(log->env->sys, path, snapshot_visit, &s);
        if (e) { return e; }
        if (s.newest < 0) { return ERR_OK; }
        log_path_segment(log, s.newest, ".snapshot", path);
        uint8_t *at = NULL;
        size_t size = 0;
        e = smallfile_read(log->env->sys, path, &at, &size);
        if (!e) {
            e = producers_snapshot_decode(&log->warm->producers, slice_of(at, size),
                                          sys_wall_ms(log->env->sys),
                                          log->config.producer_expiration_ms);
        }
        mem_free(at);
        if (!e) {
            *offset = s.newest;
            if (log->segments[log_find_segment(log, s.newest)].base != s.newest) {
                log->snapshot_loose = s.newest;
            }
            return ERR_OK;
        }
        if (e == ERR_IO || e == ERR_NOMEM) { return e; }
        log_warn(log->env->logger, LOGGER_LOG,
                 "%s-%d: producer snapshot %lld is damaged (%s); an older one is used", log->topic,
                 log->partition, (long long)s.newest, err_name(e));
        s.below = s.newest - 1;
    }
}

/* The offset of the index entry at or before pos; 'none' when there is no such entry. */
static enum err offset_near(struct log *log, uint32_t i, uint64_t pos, int64_t none, int64_t *out)
    HOLDS(log->lock);
static enum err offset_near(struct log *log, uint32_t i, uint64_t pos, int64_t none, int64_t *out)
{
    const struct segment *s = &log->segments[i];
    struct index_entry n = {0, 0};
    bool found = false;
    enum err e = ERR_OK;
    if (i + 1 == log->segments_count) {
        found = index_find_pos(&log->warm->index, (uint32_t)pos, &n);
    } else {
        char path[LOG_PATH_SIZE];
        struct sys_file *f = NULL;
        log_path_segment(log, s->base, ".index", path);
        e = sys_file_open(log->env->sys, path, SYS_READ, &f);
        if (!e) { e = index_file_find_pos(f, (uint32_t)pos, &found, &n); }
        sys_file_unref(f);
    }
    *out = found ? s->base + n.offset : none;
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

/* From where on batches before 'from' are read again for the windows of their producers. */
static enum err window_begin(struct log *log, int64_t from, int64_t *out) HOLDS(log->lock);
static enum err window_begin(struct log *log, int64_t from, int64_t *out)
{
    *out = log->segments[0].base;
    if (from <= *out) { return ERR_OK; }
    uint64_t left = PRODUCER_WINDOW_BYTES;
    uint32_t i = log_find_segment(log, from - 1);
    uint64_t end = log->segments[i].size;
    if (from < log->segments[i].end) { /* a snapshot of an idle log: in the middle of a segment */
        enum err e = log_open_segment(log, i);
        if (e) { return e; }
        end = log_scan_begin(log, i, from);
    }
    for (;; i--) {
        bool is_last = i + 1 == log->segments_count;
        int64_t next = is_last ? from : log->segments[i + 1].base;
        if (next > from) { next = from; }
        if (end > left) { return offset_near(log, i, end - left, next, out); }
        if (i == 0) { return ERR_OK; }
        left -= end;
        end = log->segments[i - 1].size;
    }
}

/* A snapshot knows the last batch of a producer only. Its sender may have five in flight and repeat
 * the first, so the batches just before the snapshot are read again too. */
static enum err rebuild_producers(struct log *log) HOLDS(log->lock);
static enum err rebuild_producers(struct log *log)
{
    struct log_warm *w = log->warm;
    struct producers snapshot;
    producers_clear(&w->producers);
    w->producers_stale = true;
    int64_t from = 0;
    enum err e = load_snapshot(log, &from);
    if (e) { return log_device_error(log, e, "reading a producer snapshot"); }
    snapshot = w->producers;
    producers_init(&w->producers, snapshot.count_max);
    if (snapshot.count > 0) { e = window_begin(log, from, &from); }
#ifdef MUTANT_PRODUCERS_LOST
    from = log_leo(log);
#endif
    if (!e && from < log_leo(log)) { e = log_scan_headers(log, from, producer_visit, true); }
    if (!e) { e = producers_merge_older(&w->producers, &snapshot); }
    producers_fini(&snapshot);
    if (e) { return log_device_error(log, e, "reading producers"); }
    w->producers_stale = false;
    return ERR_OK;
}

enum err log_rebuild_producers(struct log *log)
{
    log_files_begin(log);
    enum err e = rebuild_producers(log);
    log_files_end(log);
    return e;
}

enum err log_write_snapshot(struct log *log, int64_t offset)
{
    struct wire_buf buf;
    wire_buf_init(&buf, SMALLFILE_BYTES_MAX);
    char path[LOG_PATH_SIZE];
    enum err e = producers_snapshot_encode(&log->warm->producers, &buf);
    if (!e) {
        log_path_segment(log, offset, ".snapshot", path);
        e = smallfile_write(log->env->sys, path, wire_buf_slice(&buf), SMALLFILE_PLAIN);
    }
    wire_buf_fini(&buf);
    if (e) { return e; }
    int64_t loose = log->snapshot_loose;
    if (loose >= 0 && loose != offset) {
        log_path_segment(log, loose, ".snapshot", path);
        err_ignore(sys_path_unlink(log->env->sys, path), "an old snapshot does no harm");
        log->snapshot_loose = -1;
    }
    return ERR_OK;
}

/* ---- all of it ---- */

static enum err segment_visit(void *ctx, const char *name, bool is_dir)
{
    int64_t base = 0;
    if (!is_dir && log_parse_segment_name(name, ".log", &base)) { *(bool *)ctx = true; }
    return ERR_OK;
}

/* Also of a log that has no file yet: somebody may have laid one in, under any name. */
static enum err files_agree(struct log *log, bool *agree) HOLDS(log->lock);
static enum err files_agree(struct log *log, bool *agree)
{
    struct segment *s = log_active(log);
    char path[LOG_PATH_SIZE];
    struct sys_stat st = {0};
    bool found = false;
    log_path_segment(log, s->base, ".log", path);
    enum err e = sys_path_stat(log->env->sys, path, &st);
    if (e == ERR_NOTFOUND) { s->exists = false; }
    if (e == ERR_NOTFOUND && log->segments_count == 1) {
        log_path_dir(log, path);
        e = sys_dir_list(log->env->sys, path, segment_visit, &found);
    }
    if (e == ERR_NOTFOUND) { e = ERR_OK; }
    *agree = !e && st.size == s->size && !found;
    return log_device_error(log, e, "looking at a segment");
}

/* A log known from the manifest only: do its files agree? Else it is recovered like after a crash.
 */
static enum err warm_verify(struct log *log) HOLDS(log->lock);
static enum err warm_verify(struct log *log)
{
    if (log->is_verified) { return ERR_OK; }
    enum err e = files_agree(log, &log->is_verified);
    if (e || log->is_verified) { return e; }
    const struct segment *s = log_active(log);
    log_warn(log->env->logger, LOGGER_LOG,
             "%s-%d: the files are not as the clean stop left them; recovering", log->topic,
             log->partition);
    struct log_mark end = {.offset = log_leo(log), .base = s->base, .pos = s->size, .epoch = -1};
    struct log_recovery r = {.from = end,
                             .mark = end,
                             .has_mark = true,
                             .start = log_start_offset(log),
                             .hw = log_hw(log)};
    struct log_mark was = log->synced_mark;
    log->has_no_producers = log->epochs_loaded = false;
    epochs_clear(&log->epochs);
    log->cut_generation++;
    e = log_recover(log, &r);
    /* What is written in the place of what is gone will not end where that did. */
    if (!e && log->synced_mark.offset < was.offset && log->env->lower_mark) {
        e = log->env->lower_mark(log->env->ctx, log, &log->synced_mark);
        if (e) { log->synced_mark = was; }
    }
    int64_t start = log_start_offset(log);
    if (!e && start != r.start && log->env->note_start) {
        e = log->env->note_start(log->env->ctx, log, start);
    }
    log->is_verified = !e;
    return e;
}

static enum err warm_up(struct log *log) HOLDS(log->lock);
static enum err warm_up(struct log *log)
{
    enum err e = warm_verify(log);
    if (e) { return e; }
    e = log_open_segment(log, log->segments_count - 1);
    if (e) { return e; }
    log->warm = mem_new(struct log_warm);
    if (!log->warm) { return ERR_NOMEM; }
    producers_init(&log->warm->producers, PRODUCERS_COUNT_MAX);
    log->warm->last_epoch = -1;
    log->warm->reserve_step = LOG_RESERVE_BYTES_MIN;
    log->warm->reserved_end = log_active(log)->size;
    if (log_active(log)->size > 0) { e = warm_index(log); }
    if (!e) { e = log_load_epochs(log); }
    if (!e && !log->has_no_producers) { e = log_rebuild_producers(log); }
    if (e) {
        log_drop(log);
        return e;
    }
    atomic_store_explicit(&log->is_warm, true, memory_order_release);
    return ERR_OK;
}

enum err log_warm_up(struct log *log)
{
    atomic_store_explicit(&log->is_used, true, memory_order_relaxed);
    if (log->warm) { return ERR_OK; }
    log_files_begin(log);
    enum err e = warm_up(log);
    log_files_end(log);
    return e;
}
