/* lookup.c - offsets by time and by leader epoch.
 *
 * Place:      log/.
 * Thread:     any that may wait (BLOCKS); batches are read and decompressed outside the lock.
 * Rule:       times in headers and indexes lead to a batch; its records decide. */
#include "log/log_int.h"

/* A batch copied out of its segment. */
struct copied {
    uint8_t *at;
    size_t size;
    struct batch_header header;
};

/* What a search of one segment needs, taken under the lock. */
struct view {
    struct walk_span span; /* with a reference to the file */
    uint64_t pos; /* where to start */
};

static void copied_free(struct copied *c)
{
    mem_free(c->at);
    c->at = NULL;
}

static enum err copy_batch(const struct view *v, uint64_t pos, const struct batch_header *h,
                           struct copied *out)
{
    out->header = *h;
    out->size = batch_size(h);
    out->at = mem_alloc(out->size);
    if (!out->at) { return ERR_NOMEM; }
    size_t got = 0;
    enum err e = sys_file_read(v->span.file, out->at, out->size, pos, &got);
    if (!e && got < out->size) { e = ERR_CORRUPT; }
    if (e) { copied_free(out); }
    return e;
}

static enum err view_files(struct log *log, uint32_t i, int64_t time_ms, struct view *v)
    HOLDS(log->lock);
static enum err view_files(struct log *log, uint32_t i, int64_t time_ms, struct view *v)
{
    enum err e = log_open_segment(log, i);
    if (e) { return e; }
    struct segment *s = &log->segments[i];
    struct index_time t;
    struct index_entry n = {0, 0};
    bool found = false;
    if (i + 1 == log->segments_count) {
        found = index_find_time(&log->warm->index, time_ms - 1, &t) &&
                index_find_offset(&log->warm->index, t.offset, &n);
    } else {
        char path[LOG_PATH_SIZE];
        struct sys_file *f = NULL, *g = NULL;
        log_path_segment(log, s->base, ".timeindex", path);
        e = sys_file_open(log->env->sys, path, SYS_READ, &f);
        if (!e) { e = index_file_find_time(f, time_ms - 1, &found, &t); }
        log_path_segment(log, s->base, ".index", path);
        if (!e && found) { e = sys_file_open(log->env->sys, path, SYS_READ, &g); }
        if (!e && found) { e = index_file_find_offset(g, t.offset, &found, &n); }
        sys_file_unref(f);
        sys_file_unref(g);
        if (e && e != ERR_NOTFOUND) { return log_device_error(log, e, "reading an index"); }
        if (e) { found = false; }
    }
    *v = (struct view){.span = log_span(s)};
    v->span.generation = log->cut_generation;
    sys_file_ref(s->file);
    if (!found || n.pos >= s->size) { return ERR_OK; }
    struct walk w;
    struct batch_header h;
    walk_init(&w, &v->span, n.pos);
    if (walk_peek(&w, &h) == ERR_OK && batch_last_offset(&h) == s->base + n.offset) {
        v->pos = n.pos; /* [SEG-3] */
    }
    return ERR_OK;
}

/* The position to start at when a batch with a time of at least time_ms is wanted. */
static enum err view_make(struct log *log, uint32_t i, int64_t time_ms, struct view *v)
    HOLDS(log->lock);
static enum err view_make(struct log *log, uint32_t i, int64_t time_ms, struct view *v)
{
    log_files_begin(log);
    enum err e = view_files(log, i, time_ms, v);
    log_files_end(log);
    return e;
}

/* The first batch at or behind v->pos with a max time of at least time_ms. ERR_NOTFOUND: none. */
static enum err next_batch(struct log *log, struct view *v, int64_t time_ms, struct copied *out)
{
    struct walk w;
    struct batch_header h;
    enum err e;
    walk_init(&w, &v->span, v->pos);
    while ((e = walk_peek(&w, &h)) != ERR_RANGE) {
        if (e == ERR_CORRUPT) {
            struct log_rot rot;
            e = log_skip_rot_unlocked(log, &w, &rot);
            if (e) { return e; }
            continue;
        }
        if (e) { return e; }
        if (h.max_timestamp >= time_ms) {
            v->pos = w.pos + batch_size(&h);
            return copy_batch(v, w.pos, &h, out);
        }
        walk_advance(&w, &h);
    }
    return ERR_NOTFOUND;
}

/* One record within one batch. */
static enum err find_record(const struct copied *c, int64_t time_ms, int64_t offset_min, bool max,
                            struct batch_found *out)
{
    struct codec_scratch *scratch = codec_scratch_create();
    if (!scratch) { return ERR_NOMEM; }
    struct slice batch = slice_of(c->at, c->size);
    enum err e = max ? batch_find_max_time(scratch, batch, out)
                     : batch_find_time(scratch, batch, time_ms, offset_min, out);
    codec_scratch_destroy(scratch);
    return e;
}

/* The first segment from 'i' on whose greatest time is at least time_ms. */
static enum err segment_by_time(struct log *log, int64_t time_ms, int64_t base_min, struct view *v)
    HOLDS(log->lock);
static enum err segment_by_time(struct log *log, int64_t time_ms, int64_t base_min, struct view *v)
{
    for (uint32_t i = 0; i < log->segments_count; i++) {
        if (log->segments[i].base < base_min || log->segments[i].size == 0) { continue; }
        if (log->segments[i].end <= log_start_offset(log)) { continue; }
        enum err e = log_segment_time(log, i);
        if (e) { return e; }
        if (log->segments[i].time_max >= time_ms) { return view_make(log, i, time_ms, v); }
    }
    return ERR_NOTFOUND;
}

static enum err search_segment(struct log *log, struct view *v, int64_t time_ms, int64_t bound,
                               struct log_time_offset *out)
{
    for (;;) {
        struct copied c = {0};
        enum err e = next_batch(log, v, time_ms, &c);
        if (e) { return e; }
        struct batch_found found;
        bool beyond = c.header.base_offset >= bound;
        e = beyond ? ERR_RANGE : find_record(&c, time_ms, log_start_offset(log), false, &found);
        int32_t epoch = c.header.leader_epoch;
        copied_free(&c);
        if (e == ERR_NOTFOUND) { continue; } /* the time was of a record below the log start */
        if (!e && found.offset >= bound) { e = ERR_RANGE; }
        if (e) { return e; }
        *out = (struct log_time_offset){
            .timestamp = found.timestamp, .offset = found.offset, .leader_epoch = epoch};
        return ERR_OK;
    }
}

enum err log_offset_by_time(struct log *log, int64_t time_ms, int64_t offset_max,
                            struct log_time_offset *out)
{
    *out = (struct log_time_offset){-1, -1, -1};
    int64_t base_min = INT64_MIN;
    for (;;) {
        struct view v = {0};
        log_lock(log);
        enum err e = log_usable(log);
        if (!e) { e = log_warm_up(log); }
        if (!e) { e = segment_by_time(log, time_ms, base_min, &v); }
        log_unlock(log);
        if (e == ERR_NOTFOUND) { return ERR_OK; }
        if (e) { return e; }
        e = search_segment(log, &v, time_ms, offset_max, out);
        sys_file_unref(v.span.file);
        if (e == ERR_RANGE) { return ERR_OK; }
        if (e != ERR_NOTFOUND) { return e == ERR_IO ? log_device_error(log, e, "reading") : e; }
        base_min = v.span.base + 1; /* the index promised too much */
    }
}

/* The segment that has the greatest time, and that time. */
static enum err segment_of_max(struct log *log, struct view *v, int64_t *time_ms) HOLDS(log->lock);
static enum err segment_of_max(struct log *log, struct view *v, int64_t *time_ms)
{
    uint32_t best = UINT32_MAX;
    *time_ms = -1;
    for (uint32_t i = 0; i < log->segments_count; i++) {
        if (log->segments[i].size == 0) { continue; }
        enum err e = log_segment_time(log, i);
        if (e) { return e; }
        if (log->segments[i].time_max > *time_ms) {
            best = i;
            *time_ms = log->segments[i].time_max;
        }
    }
    return best == UINT32_MAX ? ERR_NOTFOUND : view_make(log, best, *time_ms, v);
}

enum err log_offset_of_max_time(struct log *log, struct log_time_offset *out)
{
    *out = (struct log_time_offset){-1, -1, -1};
    struct view v = {0};
    int64_t time_ms = -1;
    log_lock(log);
    enum err e = log_usable(log);
    if (!e) { e = log_warm_up(log); }
    if (!e) { e = segment_of_max(log, &v, &time_ms); }
    log_unlock(log);
    struct copied c = {0};
    struct batch_found found = {-1, -1};
    if (!e) { e = next_batch(log, &v, time_ms, &c); }
    if (!e) { e = find_record(&c, time_ms, 0, true, &found); }
    if (!e) {
        *out = (struct log_time_offset){.timestamp = found.timestamp,
                                        .offset = found.offset,
                                        .leader_epoch = c.header.leader_epoch};
    }
    copied_free(&c);
    sys_file_unref(v.span.file);
    if (e == ERR_NOTFOUND) { return ERR_OK; }
    return e == ERR_IO ? log_device_error(log, e, "reading") : e;
}

enum err log_epoch_end_offset(struct log *log, const struct log_epoch_args *args,
                              int32_t *epoch_out, int64_t *offset_out)
{
    *epoch_out = -1;
    *offset_out = -1;
    if (!log_lock_if(log, args->may_block)) { return ERR_AGAIN; }
    enum err e = log_usable(log);
    if (!e && !log->warm && !args->may_block) { e = ERR_AGAIN; }
    if (!e) { e = log_warm_up(log); }
    if (!e) {
        struct epoch_end end = epochs_end_of(&log->epochs, args->epoch, log_leo(log));
        *epoch_out = end.epoch;
        *offset_out = end.end;
    }
    log_unlock(log);
    return e;
}

enum err log_epoch_of(struct log *log, int64_t offset, int32_t *epoch_out)
{
    *epoch_out = -1;
    log_lock(log);
    enum err e = log_usable(log);
    if (!e) { e = log_warm_up(log); }
    if (!e) { *epoch_out = epochs_of_offset(&log->epochs, offset); }
    log_unlock(log);
    return e;
}
