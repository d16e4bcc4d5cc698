/* recover.c - what a log does when its last stop was not clean.
 *
 * Place:      log/, private.
 * Thread:     start-up, or whoever warms a log up whose files disagree with the manifest; under
 *             the log's lock. BLOCKS.
 * Rules:      [REC-1] bytes below 'from' were synced and looked at before: they are trusted.
 *             [REC-2] from there on every batch is read and its CRC checked. [REC-3] what is
 *             invalid behind the synced mark is a torn tail and is cut. [REC-4] what is invalid
 *             before it is rot: kept, noted, stepped over. [REC-5] side files are never a reason
 *             to touch a data file. [REC-6] offsets that are missing between two segments behind
 *             the mark are a torn tail as well. [REC-7] broken off, it has written nothing but cuts
 *             of torn tails and indexes: begun again it ends the same. [REC-8] index entries into
 *             bytes that were read again, and snapshots of records that are gone, are dropped.
 *
 *      trusted          checked: rot            checked: torn tail
 *   |---------------|-----------------------|------------------------|
 *   0             from                     mark                     size */
#include "log/log_int.h"

#define SCAN_BLOCK (1u << 20)

/* ---- which files are there ---- */

struct listing {
    struct log *log;
    bool has_segment;
    int64_t snapshot_max; /* -1: no snapshot is there */
};

static enum err list_visit(void *ctx, const char *name, bool is_dir) NO_THREAD_SAFETY
{
    struct listing *l = ctx;
    struct log *log = l->log;
    char path[LOG_PATH_SIZE];
    int64_t base = 0;
    if (is_dir) { return ERR_OK; }
    bool leftover = name_has_suffix(name, ".deleted") || name_has_suffix(name, ".tmp") ||
                    name_has_suffix(name, ".cleaned");
    if (leftover) {
        log_path_file(log, name, path);
        err_ignore(sys_path_unlink(log->env->sys, path), "tried again at the next start");
        return ERR_OK;
    }
    if (log_parse_segment_name(name, ".snapshot", &base)) {
        if (base > l->snapshot_max) { l->snapshot_max = base; }
        return ERR_OK;
    }
    if (!log_parse_segment_name(name, ".log", &base)) { return ERR_OK; }
    struct sys_stat st;
    log_path_file(log, name, path);
    enum err e = sys_path_stat(log->env->sys, path, &st);
    if (e) { return e; }
    struct segment s = {.base = base,
                        .end = base,
                        .size = st.size,
                        .time_max = LOG_TIME_UNKNOWN,
                        .time_max_offset = base,
                        .time_first = -1,
                        .exists = true};
    if (!l->has_segment) {
        log->segments_count = 0;
        l->has_segment = true;
    }
    return log_add_segment(log, &s);
}

/* There is no file: the next record gets this offset. */
static void begin_anew(struct log *log, int64_t base) HOLDS(log->lock);
static void begin_anew(struct log *log, int64_t base)
{
    log->segments[0] = (struct segment){
        .base = base, .end = base, .time_max = -1, .time_max_offset = base, .time_first = -1};
    log->segments_count = 1;
}

/* Names come in sorted order, and twenty digits sort as numbers. */
static enum err recover_list(struct log *log, const struct log_recovery *r, int64_t *snapshot_max)
    HOLDS(log->lock);
static enum err recover_list(struct log *log, const struct log_recovery *r, int64_t *snapshot_max)
{
    char path[LOG_PATH_SIZE];
    struct listing l = {.log = log, .snapshot_max = -1};
    log_path_dir(log, path);
    for (uint32_t i = 0; i < log->segments_count; i++) {
        log_close_segment_files(&log->segments[i]);
    }
    enum err e = sys_dir_list(log->env->sys, path, list_visit, &l);
    if (e) { return log_device_error(log, e, "listing a partition"); }
    *snapshot_max = l.snapshot_max;
    if (!l.has_segment) { begin_anew(log, r->start); }
    for (uint32_t i = 0; i + 1 < log->segments_count; i++) {
        log->segments[i].end = log->segments[i + 1].base;
    }
    return ERR_OK;
}

/* ---- the scan ---- */

struct scan {
    struct log *log;
    const struct log_recovery *r;
    struct sys_file *file;
    uint8_t *buf;
    size_t cap;
    uint64_t buf_pos;
    size_t buf_size;
    uint64_t pos;
    int64_t next; /* the least offset that may come */
    int64_t end; /* offsets of this segment are below it: where it is known */
    int64_t time_max, time_max_offset;
};

/* Makes [pos, pos + size) present in the buffer, as far as the file goes. */
static enum err scan_fill(struct scan *s, size_t size)
{
    if (s->pos >= s->buf_pos && s->pos + size <= s->buf_pos + s->buf_size) { return ERR_OK; }
    if (size > s->cap) {
        uint8_t *at = mem_realloc(s->buf, size);
        if (!at) { return ERR_NOMEM; }
        s->buf = at;
        s->cap = size;
    }
    if (s->r->may_stop && sys_stop_is_wanted(s->log->env->sys)) { return ERR_STOPPED; }
    s->buf_pos = s->pos;
    s->buf_size = 0;
    return sys_file_read(s->file, s->buf, s->cap, s->pos, &s->buf_size);
}

/* Reads and checks the batch at s->pos. ERR_RANGE: the end. ERR_CORRUPT: no whole valid batch. */
static enum err scan_batch(struct scan *s, uint64_t size, struct batch_header *h)
{
    if (s->pos == size) { return ERR_RANGE; }
    if (size - s->pos < BATCH_HEADER_SIZE) { return ERR_CORRUPT; }
    enum err e = scan_fill(s, BATCH_HEADER_SIZE);
    if (e) { return e; }
    size_t at = (size_t)(s->pos - s->buf_pos);
    if (s->buf_size - at < BATCH_HEADER_SIZE) { return ERR_CORRUPT; }
    e = batch_peek(slice_of(s->buf + at, s->buf_size - at), h);
    if (e || batch_size(h) > size - s->pos || h->base_offset < s->next ||
        h->last_offset_delta < 0 || h->base_offset > INT64_MAX - INT32_MAX - 1 ||
        batch_last_offset(h) >= s->end) {
        return ERR_CORRUPT;
    }
    e = scan_fill(s, batch_size(h));
    if (e) { return e; }
    at = (size_t)(s->pos - s->buf_pos);
    if (s->buf_size - at < batch_size(h)) { return ERR_CORRUPT; }
    if (batch_check_crc(slice_of(s->buf + at, batch_size(h))) != ERR_OK) { return ERR_CORRUPT; }
    return ERR_OK;
}

/* How far into a segment the synced mark reaches. With positions unknown (a checkpoint that Kafka
 * wrote) all of it may be synced, but nothing must be. */
struct synced {
    uint64_t pos;
    bool is_sure;
};

static struct synced synced_in(const struct log_recovery *r, const struct segment *g)
{
#ifdef MUTANT_ROT_IS_TORN
    return (struct synced){0, false};
#endif
    if (!r->has_mark) { return (struct synced){0, false}; }
    if (r->mark.base < 0) { return (struct synced){g->size, false}; }
    if (g->base < r->mark.base) { return (struct synced){g->size, true}; }
    if (g->base > r->mark.base) { return (struct synced){0, false}; }
    /* A file shorter than its mark lost its end: what is left of it may end in half a batch. */
    return (struct synced){r->mark.pos, g->size >= r->mark.pos};
}

/* Bytes at s->pos are no batch though they may have been synced [REC-4]. ERR_CORRUPT: a torn tail
 * after all. */
static enum err scan_rot(struct scan *s, uint32_t i, struct synced synced) NO_THREAD_SAFETY
{
    struct segment *g = &s->log->segments[i];
    struct log_rot rot = {.base = g->base, .pos = s->pos, .offset = s->next};
    uint64_t limit = synced.pos < g->size ? synced.pos : g->size;
    struct walk_span span = log_span(g);
    span.end = s->end;
    enum err e = walk_resync(&span, s->pos + 1, s->next, &rot.pos_end, &rot.offset_end);
    if (e) { return e; }
    bool found = rot.pos_end < g->size;
    if (!found && !synced.is_sure) { return ERR_CORRUPT; }
    if (!found || (synced.is_sure && rot.pos_end > limit)) {
        /* No batch again before the mark: everything up to it is rotten, behind it go on. */
        rot.pos_end = limit;
        rot.offset_end = s->r->mark.base == g->base ? s->r->mark.offset : g->end;
        if (rot.offset_end < s->next) { rot.offset_end = s->next; }
    }
    log_rot_add(s->log, &rot);
    s->pos = rot.pos_end;
    s->next = rot.offset_end;
    return ERR_OK;
}

/* Checks segment i from s->pos; s->pos and s->next stand behind the last good batch. */
static enum err scan_segment(struct scan *s, uint32_t i) NO_THREAD_SAFETY
{
    struct log *log = s->log;
    struct segment *g = &log->segments[i];
    struct synced synced = synced_in(s->r, g);
    bool last = i + 1 == log->segments_count;
    s->buf_size = 0;
    s->time_max = -1;
    s->time_max_offset = g->base;
    for (;;) {
        struct batch_header h;
        /* Offsets are under no CRC; a bound on them is the next segment, or the mark. */
        bool below = last && s->r->has_mark && s->r->mark.base == g->base && s->pos < synced.pos;
        s->end = !last ? g->end : below ? s->r->mark.offset : INT64_MAX;
        enum err e = scan_batch(s, g->size, &h);
        if (e == ERR_RANGE) { return ERR_OK; }
        if (e == ERR_CORRUPT && s->pos < synced.pos) {
            e = scan_rot(s, i, synced);
            if (e) { return e; }
            continue;
        }
        if (e) { return e; }
        if (h.max_timestamp > s->time_max) {
            s->time_max = h.max_timestamp;
            s->time_max_offset = batch_last_offset(&h);
        }
        s->pos += batch_size(&h);
        s->next = batch_last_offset(&h) + 1;
    }
}

/* ---- what to do with what was found ---- */

/* What is gone must not come back beside what is written in its place. */
static enum err sync_unlinked(struct log *log) HOLDS(log->lock);
static enum err sync_unlinked(struct log *log)
{
    char path[LOG_PATH_SIZE];
    log_path_dir(log, path);
    return sys_dir_sync(log->env->sys, path);
}

/* Drops segments behind i and cuts i at pos: nothing of them is a whole batch of this log. */
static enum err cut_tail(struct log *log, uint32_t i, uint64_t pos, struct log_recovery *r)
    HOLDS(log->lock);
static enum err cut_tail(struct log *log, uint32_t i, uint64_t pos, struct log_recovery *r)
{
    struct segment *g = &log->segments[i];
    uint64_t bytes = g->size - pos;
    for (uint32_t k = i + 1; k < log->segments_count; k++) {
        bytes += log->segments[k].size;
    }
    r->cut_bytes += bytes;
    if (bytes > 0) {
        log_warn(log->env->logger, LOGGER_LOG,
                 "%s-%d: cut a torn tail of %llu bytes behind offset %lld (segment %lld, position "
                 "%llu); it was never acknowledged as synced",
                 log->topic, log->partition, (unsigned long long)bytes, (long long)g->end,
                 (long long)g->base, (unsigned long long)pos);
    }
    bool has_behind = log->segments_count > i + 1;
    enum err e = log_unlink_behind(log, i);
    if (!e && has_behind) { e = sync_unlinked(log); }
    if (e) { return e; }
    if (g->size == pos) { return ERR_OK; }
    sys_file_unref(g->file);
    g->file = NULL;
    char path[LOG_PATH_SIZE];
    log_path_segment(log, g->base, ".log", path);
    e = sys_file_open(log->env->sys, path, SYS_WRITE, &g->file);
    if (!e) { e = sys_file_truncate(g->file, pos); }
    if (!e) { e = sys_file_sync(g->file); }
    g->size = pos;
    return e;
}

/* The index of a closed segment that was scanned is written anew; it may be torn or missing. */
static enum err rebuild_index(struct log *log, uint32_t i) HOLDS(log->lock);
static enum err rebuild_index(struct log *log, uint32_t i)
{
    struct segment *g = &log->segments[i];
    struct index x = {0};
    struct walk w;
    struct batch_header h;
    uint64_t since = 0;
    int64_t time = -1, time_offset = g->base;
    enum err e = ERR_OK;
    struct walk_span span = log_span(g);
    walk_init(&w, &span, 0);
    while (!e && (e = walk_peek(&w, &h)) != ERR_RANGE) {
        struct log_rot rot;
        if (e == ERR_CORRUPT && log_rot_find_pos(log, g->base, w.pos, &rot)) {
            walk_leave_rot(&w, &rot);
            e = ERR_OK;
            continue;
        }
        if (e) { break; }
        int64_t last = batch_last_offset(&h);
        if (h.max_timestamp > time) {
            time = h.max_timestamp;
            time_offset = last;
        }
        if (since > (uint64_t)log->config.index_interval_bytes) {
            e = index_add(&x, (uint32_t)(last - g->base), (uint32_t)w.pos);
            if (!e && time >= 0) {
                e = index_add_time(&x, time, (uint32_t)(time_offset - g->base));
            }
            since = 0;
        }
        since += batch_size(&h);
        walk_advance(&w, &h);
    }
    if (e == ERR_RANGE || e == ERR_CORRUPT) { e = ERR_OK; }
    if (!e && time >= 0) { e = index_add_time(&x, time, (uint32_t)(time_offset - g->base)); }
    if (!e) {
        char index[LOG_PATH_SIZE], times[LOG_PATH_SIZE];
        log_path_segment(log, g->base, ".index", index);
        log_path_segment(log, g->base, ".timeindex", times);
        e = index_write(&x, log->env->sys, index, times);
    }
    index_fini(&x);
    return e;
}

/* The index of the active segment may be older than bytes that were written again, or torn. Its
 * entries into what was checked from pos on are dropped; warming up makes them anew [REC-8]. */
static enum err trim_index(struct log *log, const struct segment *g, uint64_t pos) HOLDS(log->lock);
static enum err trim_index(struct log *log, const struct segment *g, uint64_t pos)
{
    struct index x = {0};
    char index[LOG_PATH_SIZE], times[LOG_PATH_SIZE];
    log_path_segment(log, g->base, ".index", index);
    log_path_segment(log, g->base, ".timeindex", times);
    enum err e = index_read(&x, log->env->sys, index, times, pos);
    if (x.count > 0) { index_truncate(&x, x.at[x.count - 1].offset + 1); }
    if (!e && x.count > 0) {
        e = index_write(&x, log->env->sys, index, times);
    } else if (!e) {
        e = log_remove_index(log, g->base);
    }
    index_fini(&x);
    return e;
}

/* From which segment and position on batches must be checked. */
static void scan_start(const struct log *log, const struct log_recovery *r, uint32_t *i,
                       uint64_t *pos, int64_t *next) HOLDS(log->lock);
static void scan_start(const struct log *log, const struct log_recovery *r, uint32_t *i,
                       uint64_t *pos, int64_t *next)
{
    int64_t base = r->from.base >= 0 ? r->from.base : r->from.offset;
    *i = log_find_segment(log, base);
    const struct segment *g = &log->segments[*i];
    *pos = 0;
    *next = g->base;
    if (r->from.base == g->base && r->from.pos <= g->size) {
        *pos = r->from.pos;
        *next = r->from.offset;
    }
}

/* The end of a segment can be lost without a trace (a size older than its content) while the next
 * one survived. Behind the mark such a gap is a torn tail too: what follows it was written later
 * and never acknowledged. Gaps before it were there when it was synced. */
static bool tail_is_missing(const struct log *log, uint32_t i, int64_t next,
                            const struct log_recovery *r) HOLDS(log->lock);
static bool tail_is_missing(const struct log *log, uint32_t i, int64_t next,
                            const struct log_recovery *r)
{
    if (!r->is_ours || i + 1 == log->segments_count) { return false; }
    bool is_behind = !r->has_mark || (r->mark.base >= 0 && next >= r->mark.offset);
    return is_behind && next < log->segments[i + 1].base;
}

/* A log that was never synced may come back without its first segment. What is left of it follows
 * something that never was: the log begins anew where it should. */
static enum err drop_headless(struct log *log, struct log_recovery *r) HOLDS(log->lock);
static enum err drop_headless(struct log *log, struct log_recovery *r)
{
    struct segment *g = &log->segments[0];
    bool has_synced = r->has_mark && (r->mark.base < 0 || r->mark.offset > r->start);
    if (!r->is_ours || has_synced || g->base <= r->start || g->base <= r->start_max) {
        return ERR_OK;
    }
    enum err e = cut_tail(log, 0, 0, r);
    if (!e) { e = log_unlink_segment(log, g); }
    if (!e) { e = sync_unlinked(log); }
    if (!e) { begin_anew(log, r->start); }
    return e;
}

static enum err recover_scan(struct log *log, struct log_recovery *r) HOLDS(log->lock);
static enum err recover_scan(struct log *log, struct log_recovery *r)
{
    struct scan s = {.log = log, .r = r, .cap = SCAN_BLOCK};
    uint32_t i = 0;
    scan_start(log, r, &i, &s.pos, &s.next);
    struct segment *last = log_active(log);
    bool trusted = i + 1 == log->segments_count && s.pos == last->size;
    if (trusted) {
        last->end = s.next > last->base ? s.next : last->base;
        return ERR_OK;
    }
    s.buf = mem_alloc(s.cap);
    if (!s.buf) { return ERR_NOMEM; }
    r->was_scanned = true;
    enum err e = ERR_OK;
    for (; i < log->segments_count && !e; i++) {
        e = log_open_segment(log, i);
        if (e) { break; }
        struct segment *g = &log->segments[i];
        uint64_t from = s.pos;
        if (s.next < g->base) { s.next = g->base; }
        s.file = g->file;
        e = scan_segment(&s, i);
        r->scanned_bytes += s.pos - from;
        if (from == 0) {
            g->time_max = s.time_max;
            g->time_max_offset = s.time_max_offset;
        }
        bool torn = e == ERR_CORRUPT || (!e && tail_is_missing(log, i, s.next, r));
        if (torn) {
            g->end = s.next;
            e = cut_tail(log, i, s.pos, r);
        } else if (!e && i + 1 == log->segments_count) {
            g->end = s.next;
        }
        if (e) { break; }
        e = i + 1 < log->segments_count ? rebuild_index(log, i) : trim_index(log, g, from);
        if (e == ERR_NOSPACE) { e = log_remove_index(log, g->base); } /* reading goes on without */
        s.pos = 0;
    }
    mem_free(s.buf);
    return e;
}

/* Publishes what was found. */
static void recover_publish(struct log *log, const struct log_recovery *r) HOLDS(log->lock);
static void recover_publish(struct log *log, const struct log_recovery *r)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < log->segments_count; i++) {
        total += log->segments[i].size;
    }
    int64_t leo = log_active(log)->end;
    int64_t start = r->start > log->segments[0].base ? r->start : log->segments[0].base;
    if (start > leo) { start = leo; }
    int64_t synced = r->has_mark ? r->mark.offset : r->from.offset;
    if (synced > leo) {
        log_error(log->env->logger, LOGGER_LOG,
                  "%s-%d: the log ends at offset %lld but was synced up to %lld: the disk lost "
                  "bytes that were acknowledged",
                  log->topic, log->partition, (long long)leo, (long long)synced);
        synced = leo;
    }
    int64_t hw = r->hw > leo ? leo : r->hw;
    atomic_store_explicit(&log->size_total, total, memory_order_relaxed);
    atomic_store_explicit(&log->start, start, memory_order_release);
    atomic_store_explicit(&log->synced, synced > start ? synced : start, memory_order_release);
    atomic_store_explicit(&log->hw, hw > start ? hw : start, memory_order_release);
    atomic_store_explicit(&log->leo, leo, memory_order_release);
    const struct segment *last = log_active(log);
    log->synced_mark = r->has_mark ? r->mark
                                   : (struct log_mark){.offset = log->segments[0].base,
                                                       .base = log->segments[0].base,
                                                       .epoch = -1};
    /* A position that is not known stays so, but for that of the end: the fold must not say that
     * nothing is synced. */
    bool is_at_end = r->mark.offset > leo || (r->mark.base < 0 && r->mark.offset == leo);
    if (r->has_mark && is_at_end) {
        log->synced_mark = (struct log_mark){
            .offset = leo, .base = last->base, .pos = last->size, .epoch = r->mark.epoch};
    }
    /* What is there but not known to be synced goes with the next flush. */
    for (uint32_t i = 0; i < log->segments_count; i++) {
        struct segment *g = &log->segments[i];
        g->data_dirty = g->exists && g->end > synced;
        /* A segment without a synced byte may have a name that is not durable either. */
        g->names_dirty = g->exists && (g->end > synced || g->base >= synced);
    }
    log->dir_dirty = leo > synced || !r->has_mark;
}

enum err log_recover(struct log *log, struct log_recovery *r)
{
    r->scanned_bytes = r->cut_bytes = 0;
    r->was_scanned = false;
    log->rot_count = 0; /* what is there yet is found again */
    int64_t snapshot_max = -1;
    enum err e = recover_list(log, r, &snapshot_max);
    if (e) { return e; }
    e = drop_headless(log, r);
    if (!e) { e = recover_scan(log, r); }
    /* Snapshots of records that are lost would speak of others one day [REC-8]. */
    if (!e && snapshot_max > log_active(log)->end) {
        e = log_drop_snapshots(log, log_active(log)->end);
        if (!e) { e = sync_unlinked(log); }
    }
    for (uint32_t i = 0; i < log->segments_count; i++) {
        log_close_segment_files(&log->segments[i]);
    }
    if (e == ERR_STOPPED) { return e; }
    if (e) { return log_device_error(log, e, "recovering"); }
    recover_publish(log, r);
    if (r->was_scanned) {
        log_info(log->env->logger, LOGGER_LOG,
                 "%s-%d: recovered: offsets %lld to %lld, %llu bytes checked, %llu cut, %u rotten "
                 "ranges",
                 log->topic, log->partition, (long long)log_start_offset(log),
                 (long long)log_leo(log) - 1, (unsigned long long)r->scanned_bytes,
                 (unsigned long long)r->cut_bytes, log->rot_count);
    }
    return ERR_OK;
}
