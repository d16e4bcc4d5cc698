/* append.c - the way of a produce into a segment.
 *
 * Place:      log/.
 * Thread:     validation without the lock; sequence check, offsets, one write and publication
 *             under it. Gathering: several batches that arrived together are staged and leave in
 *             one positional write; a roll between them ends one write and begins the next.
 * Invariants: [APP-1] nothing is published before its write succeeded. [APP-2] after a failed
 *             write the file is cut back to the published end, producer state is rebuilt and the
 *             epochs' file says what it did. Cost: no allocation but the growth of the sparse
 *             index. */
#include "log/log_int.h"

struct staged {
    struct slice bytes;
    struct batch_header header;
    int64_t time_max;
    struct log_append_result *out;
};

/* Batches on their way into the active segment. */
struct run {
    int64_t next; /* offset of the next batch */
    int64_t now_ms;
    uint64_t bytes;
    int64_t records;
    bool may_block; /* false: what needs file work is ERR_AGAIN */
    enum err failed; /* a write of this run failed: the rest fails with it */
    size_t count;
    struct staged at[LOG_APPEND_COUNT_MAX];
};

static void refuse(struct log_append_result *out, enum err e, enum log_reject why)
{
    out->err = e;
    out->reject = why;
    out->first_offset = out->last_offset = out->append_time_ms = -1;
}

static void fail_storage(struct log_append_result *out, enum err e)
{
    refuse(out, e, e == ERR_CLOSED ? LOG_REJECT_CLOSED : LOG_REJECT_STORAGE);
}

static void result_init(struct log_append_result *out)
{
    *out = (struct log_append_result){.first_offset = -1,
                                      .last_offset = -1,
                                      .append_time_ms = -1,
                                      .log_start_offset = -1,
                                      .record_index = -1};
}

/* ---- under the lock: space, write, publication ---- */

/* Reserves ahead of the write position, more each time, so that small appends extend nothing. */
static void reserve(struct log *log, struct segment *s, uint64_t bytes) HOLDS(log->lock);
static void reserve(struct log *log, struct segment *s, uint64_t bytes)
{
    struct log_warm *w = log->warm;
    if (w->reserved_end == LOG_RESERVE_OFF || s->size + bytes <= w->reserved_end) { return; }
    uint64_t from = w->reserved_end > s->size ? w->reserved_end : s->size;
    uint64_t size = w->reserve_step;
    while (from + size < s->size + bytes) {
        size *= 2;
    }
    uint64_t most = (uint64_t)log->config.segment_bytes;
    if (from + size > most) { size = from < most ? most - from : 0; }
    enum err e = size ? sys_file_reserve(s->file, from, size) : ERR_OK;
    if (e == ERR_UNSUPPORTED) {
        w->reserved_end = LOG_RESERVE_OFF;
        return;
    }
    /* Without room the write itself will say so; nothing is reserved then. */
    w->reserved_end = e ? s->size + bytes : from + size;
    if (w->reserve_step < LOG_RESERVE_BYTES_MAX) { w->reserve_step *= 2; }
}

/* [APP-2] */
static enum err take_back(struct log *log, enum err cause) HOLDS(log->lock);
static enum err take_back(struct log *log, enum err cause)
{
    struct segment *s = log_active(log);
    if (log->warm->producers.count > 0) { log->warm->producers_stale = true; }
    bool had_epochs = epochs_truncate_end(&log->epochs, log_leo(log) + 1);
    cause = log_device_error(log, cause, "appending");
    if (cause == ERR_OFFLINE) { return cause; }
    enum err e = sys_file_truncate(s->file, s->size);
    if (log->warm->reserved_end != LOG_RESERVE_OFF) { log->warm->reserved_end = s->size; }
    if (e) { return log_device_error(log, e, "cutting back a failed append"); }
    /* Else a later start would take them, when the log has grown past them. */
    if (had_epochs) { err_ignore(log_write_epochs(log), "logged; the next epoch writes the file"); }
    return cause;
}

/* New leader epochs stand in their file before the first batch of theirs is in the log. */
static enum err run_assign_epochs(struct log *log, struct run *r) HOLDS(log->lock);
static enum err run_assign_epochs(struct log *log, struct run *r)
{
    bool changed = false;
    for (size_t i = 0; i < r->count; i++) {
        const struct batch_header *h = &r->at[i].header;
        if (h->leader_epoch <= epochs_latest(&log->epochs)) { continue; }
        enum err e = epochs_assign(&log->epochs, h->leader_epoch, h->base_offset, &changed);
        if (e) { return e; }
    }
    return changed ? log_write_epochs(log) : ERR_OK;
}

static enum err run_write(struct log *log, struct run *r) HOLDS(log->lock);
static enum err run_write(struct log *log, struct run *r)
{
    struct segment *s = log_active(log);
    struct sys_iov iov[LOG_APPEND_COUNT_MAX];
    for (size_t i = 0; i < r->count; i++) {
        iov[i] = (struct sys_iov){r->at[i].bytes.at, r->at[i].bytes.size};
    }
    enum err e = run_assign_epochs(log, r);
    if (e) { return take_back(log, e); }
    reserve(log, s, r->bytes);
    size_t written = 0;
    e = sys_file_write(s->file, iov, r->count, s->size, &written);
    if (e) { return take_back(log, e); }
    for (size_t i = 0; i < r->count; i++) {
        log_note_batch(log, &r->at[i].header, r->at[i].time_max, s->size);
        s->size += r->at[i].bytes.size;
    }
    return ERR_OK;
}

/* Writes what is staged; its results were filled in advance and are overwritten on failure. */
static enum err run_flush(struct log *log, struct run *r) HOLDS(log->lock);
static enum err run_flush(struct log *log, struct run *r)
{
    if (r->count == 0) { return ERR_OK; }
    enum err e = run_write(log, r);
    if (e) {
        for (size_t i = 0; i < r->count; i++) {
            fail_storage(r->at[i].out, e);
        }
        r->next = log_leo(log);
        r->failed = e;
    } else {
        struct segment *s = log_active(log);
        s->data_dirty = true;
        log->unflushed_records += r->records;
        atomic_fetch_add_explicit(&log->size_total, r->bytes, memory_order_relaxed);
        log_publish_end(log, r->next);
    }
    r->count = 0;
    r->bytes = 0;
    r->records = 0;
    return e;
}

/* ---- rolling ---- */

static bool must_roll(const struct log *log, const struct segment *s, const struct run *r,
                      size_t bytes, int64_t time_max, int64_t last_offset) HOLDS(log->lock);
static bool must_roll(const struct log *log, const struct segment *s, const struct run *r,
                      size_t bytes, int64_t time_max, int64_t last_offset)
{
    const struct log_config *c = &log->config;
    uint64_t size = s->size + r->bytes;
    if (size == 0) { return false; }
    if (size + bytes > (uint64_t)c->segment_bytes) { return true; }
    if (last_offset - s->base > INT32_MAX) { return true; }
    /* Kafka's clock for this: record time against record time where there is one. */
    int64_t waited = s->time_first >= 0 && time_max >= 0 ? time_max - s->time_first
                                                         : r->now_ms - log->active_since_ms;
    if (log->active_since_ms < 0 && s->time_first < 0) { waited = 0; }
    if (c->segment_ms > 0 && waited > c->segment_ms - log->roll_jitter_ms) { return true; }
    const struct index *x = &log->warm->index;
    return x->count + r->count + 1 >= (uint32_t)c->segment_index_bytes / 8 ||
           x->times_count + r->count + 1 >= (uint32_t)c->segment_index_bytes / 12;
}

/* Room for one more batch in the run, rolling or writing first where needed. ERR_AGAIN: it would
 * have to roll here. */
static enum err run_make_room(struct log *log, struct run *r, size_t bytes, int64_t time_max,
                              int64_t last_offset) HOLDS(log->lock);
static enum err run_make_room(struct log *log, struct run *r, size_t bytes, int64_t time_max,
                              int64_t last_offset)
{
    if (r->count == LOG_APPEND_COUNT_MAX) {
        enum err e = run_flush(log, r);
        if (e) { return e; }
    }
    if (!must_roll(log, log_active(log), r, bytes, time_max, last_offset)) { return ERR_OK; }
    if (!r->may_block) { return ERR_AGAIN; }
    enum err e = run_flush(log, r);
    if (e) { return e; }
    return log_roll_locked(log, r->next, r->now_ms);
}

static void run_stage(struct run *r, struct mslice bytes, const struct batch_header *h,
                      int64_t time_max, struct log_append_result *out)
{
    r->at[r->count++] = (struct staged){
        .bytes = slice_of(bytes.at, bytes.size), .header = *h, .time_max = time_max, .out = out};
    r->bytes += bytes.size;
    r->records += h->last_offset_delta + 1;
    r->next = batch_last_offset(h) + 1;
}

/* ---- validation, without the lock ---- */

struct prepared {
    struct mslice bytes; /* as it will be stored */
    struct batch_facts facts;
    uint8_t head[BATCH_HEADER_SIZE]; /* as it came, before validation stamped it */
};

static void rules_of(const struct log *log, struct batch_rules *rules, int32_t *segment_bytes)
    HOLDS(log->lock);
static void rules_of(const struct log *log, struct batch_rules *rules, int32_t *segment_bytes)
{
    const struct log_config *c = &log->config;
    *rules = (struct batch_rules){
        .time_before_max_ms = c->message_timestamp_before_max_ms,
        .time_after_max_ms = c->message_timestamp_after_max_ms,
        .decompressed_bytes_max = c->decompressed_bytes_max,
        .max_message_bytes = c->max_message_bytes,
        .log_append_time = c->timestamp_is_append_time,
        .keys_required = (c->cleanup & LOG_CLEANUP_COMPACT) != 0,
        .level = CODEC_LEVEL_DEFAULT,
    };
    if (c->compression_codec != LOG_CODEC_PRODUCER) {
        rules->codec_forced = true;
        rules->codec = (enum codec)c->compression_codec;
        if (rules->codec == CODEC_GZIP) { rules->level = c->compression_gzip_level; }
        if (rules->codec == CODEC_LZ4) { rules->level = c->compression_lz4_level; }
        if (rules->codec == CODEC_ZSTD) { rules->level = c->compression_zstd_level; }
    }
    *segment_bytes = c->segment_bytes;
}

static void refuse_batch(struct log_append_result *out, enum batch_reject why,
                         const struct batch_facts *facts)
{
    refuse(out, why == BATCH_NOMEM ? ERR_NOMEM : ERR_INVALID,
           why == BATCH_NOMEM ? LOG_REJECT_STORAGE : LOG_REJECT_BATCH);
    out->batch_reject = why;
    out->record_index = facts->record_index;
    out->message = facts->message;
}

/* Not here and not now: as if it had never been looked at. */
static void put_back(const struct log_append_args *a, const struct prepared *p,
                     struct log_append_result *out)
{
    result_init(out);
    out->err = ERR_AGAIN;
    if (a->records.size >= sizeof p->head) { memcpy(a->records.at, p->head, sizeof p->head); }
}

/* out->err tells: ERR_OK goes on to the lock. */
static void prepare_client(const struct log_append_args *a, struct batch_rules *rules,
                           int32_t segment_bytes, struct prepared *p, struct log_append_result *out)
{
    if (a->records.size >= sizeof p->head) { memcpy(p->head, a->records.at, sizeof p->head); }
    rules->now_ms = a->now_ms;
    rules->zstd_allowed = a->zstd_allowed;
    enum batch_reject why = batch_validate(rules, a->scratch, a->records, &p->facts);
    if (why) {
        refuse_batch(out, why, &p->facts);
        return;
    }
    p->bytes = a->records;
    if (p->facts.recompress) {
        if (!a->may_block || !a->recompressed) {
            out->err = ERR_AGAIN;
            return;
        }
        why = batch_recompress(rules, a->scratch, slice_of(a->records.at, a->records.size),
                               &p->facts, a->recompressed);
        if (why) {
            refuse_batch(out, why, &p->facts);
            return;
        }
        p->bytes = (struct mslice){a->recompressed->at, a->recompressed->size};
    }
    if (p->bytes.size > (size_t)segment_bytes) {
        refuse(out, ERR_LIMIT, LOG_REJECT_SEGMENT_TOO_SMALL);
        return;
    }
    out->append_time_ms = rules->log_append_time ? a->now_ms : -1;
}

/* A leader's batches keep offsets and epochs; their framing and CRC are checked. */
static void prepare_leader(const struct log_append_args *a, struct prepared *p,
                           struct log_append_result *out)
{
    p->bytes = a->records;
    size_t at = 0;
    int64_t next = INT64_MIN;
    while (at < a->records.size) {
        struct slice left = slice_of(a->records.at + at, a->records.size - at);
        struct batch_header h;
        enum err e = batch_peek(left, &h);
        if (!e && (batch_size(&h) > left.size || h.base_offset < 0 || h.last_offset_delta < 0 ||
                   h.base_offset > INT64_MAX - INT32_MAX - 1)) {
            e = ERR_MALFORMED;
        }
        if (!e) { e = batch_check_crc(left); }
        if (e) {
            refuse(out, ERR_CORRUPT, LOG_REJECT_BATCH);
            out->batch_reject = e == ERR_CORRUPT ? BATCH_BAD_CRC : BATCH_LENGTH;
            return;
        }
        if (h.base_offset < next) {
            refuse(out, ERR_OUT_OF_ORDER, LOG_REJECT_OUT_OF_ORDER);
            return;
        }
        next = batch_last_offset(&h) + 1;
        at += batch_size(&h);
    }
}

/* ---- appending what is prepared, under the lock ---- */

/* The producer's word on a batch; true: append it. */
static bool check_producer(struct log *log, struct run *r, const struct batch_header *h,
                           struct log_append_result *out) HOLDS(log->lock);
static bool check_producer(struct log *log, struct run *r, const struct batch_header *h,
                           struct log_append_result *out)
{
    struct producer_duplicate dup;
    enum err e = producers_check(&log->warm->producers, h, &dup);
    switch ((int)e) {
    case ERR_OK:
        return true;
    case ERR_DUPLICATE:
        /* Of a batch in this very run: that one must be written before it is answered for. */
        if (dup.last_offset >= log_leo(log)) { e = run_flush(log, r); }
        if (r->failed) {
            fail_storage(out, e);
            return false;
        }
        out->is_duplicate = true;
        out->first_offset = dup.first_offset;
        out->last_offset = dup.last_offset;
        return false;
    case ERR_FENCED:
        refuse(out, e, LOG_REJECT_FENCED);
        return false;
    case ERR_OUT_OF_ORDER:
        refuse(out, e, LOG_REJECT_OUT_OF_ORDER);
        return false;
    default:
        refuse(out, e, LOG_REJECT_PRODUCERS_LIMIT);
        return false;
    }
}

static void append_client(struct log *log, struct run *r, const struct log_append_args *a,
                          struct prepared *p, struct log_append_result *out) HOLDS(log->lock);
static void append_client(struct log *log, struct run *r, const struct log_append_args *a,
                          struct prepared *p, struct log_append_result *out)
{
    struct batch_header *h = &p->facts.header;
    if (batch_has_producer(h)) {
        if (!check_producer(log, r, h, out)) { return; }
    }
    bool is_new_epoch = a->leader_epoch > epochs_latest(&log->epochs); /* their file is written */
    enum err e = is_new_epoch && !r->may_block
                     ? ERR_AGAIN
                     : run_make_room(log, r, p->bytes.size, p->facts.max_timestamp,
                                     r->next + h->last_offset_delta);
    if (e == ERR_AGAIN) {
        out->err = e;
        return;
    }
    if (e) {
        fail_storage(out, e);
        return;
    }
    h->base_offset = r->next;
    h->leader_epoch = a->leader_epoch;
    batch_set_base_offset(p->bytes.at, r->next);
    batch_set_leader_epoch(p->bytes.at, a->leader_epoch);
    if (batch_has_producer(h)) {
        /* Before the write, so that the next one of this run sees it; a failure makes it stale. */
        e = producers_add(&log->warm->producers, h);
        CHECKF(e == ERR_OK, "e=%d", (int)e); /* producers_check() made room */
    }
    out->first_offset = r->next;
    out->last_offset = r->next + h->last_offset_delta;
    run_stage(r, p->bytes, h, p->facts.max_timestamp, out);
}

static void append_leader(struct log *log, struct run *r, struct prepared *p,
                          struct log_append_result *out) HOLDS(log->lock);
static void append_leader(struct log *log, struct run *r, struct prepared *p,
                          struct log_append_result *out)
{
    size_t at = 0;
    while (at < p->bytes.size) {
        struct mslice left = {p->bytes.at + at, p->bytes.size - at};
        struct batch_header h;
        enum err e = batch_peek(slice_of(left.at, left.size), &h);
        CHECKF(e == ERR_OK, "e=%d", (int)e); /* prepare_leader() looked */
        if (h.base_offset < r->next) {
            refuse(out, ERR_OUT_OF_ORDER, LOG_REJECT_OUT_OF_ORDER);
            return;
        }
        left.size = batch_size(&h);
        e = run_make_room(log, r, left.size, h.max_timestamp, batch_last_offset(&h));
        if (!e && batch_has_producer(&h)) { e = producers_add(&log->warm->producers, &h); }
        if (e) {
            fail_storage(out, e);
            return;
        }
        if (out->first_offset < 0) { out->first_offset = h.base_offset; }
        out->last_offset = batch_last_offset(&h);
        run_stage(r, left, &h, h.max_timestamp, out);
        at += left.size;
    }
}

/* ---- both together ---- */

static enum err run_begin(struct log *log, struct run *r) HOLDS(log->lock);
static enum err run_begin(struct log *log, struct run *r)
{
    enum err e = log_usable(log);
    if (e) { return e; }
    if (!r->may_block && (!log->warm || log->warm->producers_stale)) { return ERR_AGAIN; }
    e = log_warm_up(log);
    if (!e && log->warm->producers_stale) { e = log_rebuild_producers(log); }
    r->next = log_leo(log);
    if (log->active_since_ms < 0) { log->active_since_ms = r->now_ms; }
    return e;
}

static bool would_block(const struct log *log)
{
    if (log_usable(log) != ERR_OK) { return false; }
    return !atomic_load_explicit(&log->is_warm, memory_order_acquire) ||
           sys_device_is_slow(log->env->sys, log->env->device);
}

static bool take_rules(struct log *log, bool may_block, struct batch_rules *rules,
                       int32_t *segment_bytes)
{
    if (!log_lock_if(log, may_block)) { return false; }
    rules_of(log, rules, segment_bytes);
    log_unlock(log);
    return true;
}

/* Everything that was accepted, in order, under the lock. From the first that would wait here on
 * all of them are put back. */
static void append_all(struct log *log, struct run *run, struct log_append_args *const args[],
                       struct prepared prepared[], struct log_append_result *const out[],
                       size_t count) HOLDS(log->lock);
static void append_all(struct log *log, struct run *run, struct log_append_args *const args[],
                       struct prepared prepared[], struct log_append_result *const out[],
                       size_t count)
{
    enum err begun = run_begin(log, run);
    bool again = begun == ERR_AGAIN;
    for (size_t i = 0; i < count; i++) {
        out[i]->log_start_offset = log_start_offset(log);
        if (again) {
            put_back(args[i], &prepared[i], out[i]);
        } else if (out[i]->err) {
            continue;
        } else if (begun) {
            fail_storage(out[i], begun);
        } else if (run->failed) {
            fail_storage(out[i], run->failed);
        } else if (args[i]->origin == LOG_FROM_CLIENT) {
            append_client(log, run, args[i], &prepared[i], out[i]);
        } else {
            append_leader(log, run, &prepared[i], out[i]);
        }
        if (out[i]->err == ERR_AGAIN && !again) {
            again = true;
            put_back(args[i], &prepared[i], out[i]);
        }
    }
    err_ignore(begun ? ERR_OK : run_flush(log, run), "the results carry it");
}
/* Validates without the lock. Returns how many got their verdict: the next one would wait here, and
 * what comes behind it waits too, in the order of its connection. */
static size_t prepare_all(struct log *log, struct log_append_args *const args[],
                          struct prepared prepared[], struct log_append_result *const out[],
                          size_t count)
{
    struct batch_rules rules = {0};
    int32_t segment_bytes = 0;
    bool may_block = args[0]->may_block;
    if (!may_block && would_block(log)) { return 0; }
    if (!take_rules(log, may_block, &rules, &segment_bytes)) { return 0; }
    for (size_t i = 0; i < count; i++) {
        result_init(out[i]);
        if (args[i]->origin == LOG_FROM_CLIENT) {
            prepare_client(args[i], &rules, segment_bytes, &prepared[i], out[i]);
        } else {
            CHECK(may_block); /* several batches, which go together */
            prepare_leader(args[i], &prepared[i], out[i]);
        }
        if (out[i]->err == ERR_AGAIN) { return i; }
    }
    return count;
}

void log_append(struct log *log, struct log_append_args *const args[],
                struct log_append_result *const out[], size_t count)
{
    CHECKF(count > 0 && count <= LOG_APPEND_COUNT_MAX, "count=%zu", count);
    struct prepared prepared[LOG_APPEND_COUNT_MAX]; /* large: only what is counted is set */
    size_t prepared_count = prepare_all(log, args, prepared, out, count);
    for (size_t i = prepared_count; i < count; i++) {
        result_init(out[i]);
        out[i]->err = ERR_AGAIN;
    }
    if (prepared_count == 0) { return; }
    if (!log_lock_if(log, args[0]->may_block)) {
        for (size_t i = 0; i < prepared_count; i++) {
            put_back(args[i], &prepared[i], out[i]);
        }
        return;
    }
    struct run run; /* large, as above */
    run.now_ms = args[0]->now_ms;
    run.may_block = args[0]->may_block;
    run.bytes = 0;
    run.records = 0;
    run.count = 0;
    run.failed = ERR_OK;
    uint32_t segments = log->segments_count;
    append_all(log, &run, args, prepared, out, prepared_count);
    bool rolled = log->segments_count != segments;
    bool dirty = log_active(log)->data_dirty || rolled;
    bool full = log->unflushed_records >= log->config.flush_messages;
    log_unlock(log);
    if (dirty) { log_mark_dirty(log, rolled || full); }
}
