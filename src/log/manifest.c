/* manifest.c - one file that says all about the logs of a directory that was stopped cleanly.
 *
 * Place:      log/, private.
 * Thread:     start-up and shutdown, when nobody else is there.
 * Format:     docs/STORAGE.md. A CRC-32C over everything ends it.
 * Rules:      [MAN-1] it is believed only together with a clean-shutdown marker that Barnabas
 *             wrote, and removed with it before the first write. [MAN-2] it names facts; each log
 *             is compared with its files at first use.
 * Failure:    anything unexpected is ERR_CORRUPT or ERR_MALFORMED, and the directory is read the
 *             long way. */
#include "log/dir_int.h"

#include "base/crc32c.h"
#include "wire/reader.h"
#include "wire/writer.h"

#define MANIFEST_MAGIC 0x42424d414e494631ULL /* "BBMANIF1" */
#define MANIFEST_SEGMENT_SIZE 49u
#define MANIFEST_EPOCH_SIZE 12u
#define MANIFEST_ROT_SIZE 40u
#define MANIFEST_HEAD_SIZE 16u

enum manifest_flag {
    MANIFEST_NO_PRODUCERS = 1,
    MANIFEST_EPOCHS_UNREAD = 2,
    MANIFEST_SEGMENT_EXISTS = 1
};

static void put_log(struct wire_writer *w, struct log *log) HOLDS(log->lock);
static void put_log(struct wire_writer *w, struct log *log)
{
    wire_put_string(w, slice_str(log->topic), false, false);
    wire_put_i32(w, log->partition);
    wire_put_uuid(w, log->topic_id);
    wire_put_i64(w, log_start_offset(log));
    wire_put_i64(w, log_hw(log));
    wire_put_i64(w, log_leo(log));
    wire_put_i64(w, log->snapshot_loose);
    unsigned flags = log->has_no_producers ? MANIFEST_NO_PRODUCERS : 0;
    if (!log->epochs_loaded) { flags |= MANIFEST_EPOCHS_UNREAD; }
    wire_put_u8(w, (uint8_t)flags);
    wire_put_u32(w, log->segments_count);
    for (uint32_t i = 0; i < log->segments_count; i++) {
        const struct segment *s = &log->segments[i];
        wire_put_i64(w, s->base);
        wire_put_i64(w, s->end);
        wire_put_u64(w, s->size);
        wire_put_i64(w, s->time_max);
        wire_put_i64(w, s->time_max_offset);
        wire_put_i64(w, s->time_first);
        wire_put_u8(w, s->exists ? MANIFEST_SEGMENT_EXISTS : 0);
    }
    wire_put_u32(w, log->epochs.count);
    for (uint32_t i = 0; i < log->epochs.count; i++) {
        wire_put_i32(w, epochs_at(&log->epochs, i)->epoch);
        wire_put_i64(w, epochs_at(&log->epochs, i)->start);
    }
    wire_put_u32(w, log->rot_count);
    for (uint32_t i = 0; i < log->rot_count; i++) {
        wire_put_i64(w, log->rot[i].base);
        wire_put_u64(w, log->rot[i].pos);
        wire_put_u64(w, log->rot[i].pos_end);
        wire_put_i64(w, log->rot[i].offset);
        wire_put_i64(w, log->rot[i].offset_end);
    }
}

enum err manifest_write(struct logdir *dir)
{
    struct wire_buf buf;
    struct wire_writer w;
    char path[LOG_PATH_SIZE];
    logdir_path_of(dir, LOGDIR_MANIFEST, path);
    wire_buf_init(&buf, SMALLFILE_BYTES_MAX);
    wire_writer_init_buf(&w, &buf);
    wire_put_u64(&w, MANIFEST_MAGIC);
    wire_put_u32(&w, 1);
    wire_put_u32(&w, (uint32_t)dir->logs_count);
    for (size_t i = 0; i < dir->logs_count; i++) {
        struct log *log = dir->logs[i];
        log_lock(log);
        put_log(&w, log);
        log_unlock(log);
    }
    enum err e = wire_writer_finish(&w);
    if (!e) {
        uint32_t crc = crc32c(0, buf.at, buf.size);
        wire_writer_init_buf(&w, &buf);
        wire_put_u32(&w, crc);
        e = wire_writer_finish(&w);
    }
    if (!e) { e = smallfile_write(dir->sys, path, wire_buf_slice(&buf), SMALLFILE_DURABLE); }
    wire_buf_fini(&buf);
    return e;
}

/* ---- loading ---- */

static enum err take_segments(struct wire_reader *r, struct log *log) NO_THREAD_SAFETY
{
    uint32_t count = wire_u32(r);
    if (count == 0 || count > wire_left(r) / MANIFEST_SEGMENT_SIZE) { return ERR_MALFORMED; }
    struct segment *at = mem_realloc(log->segments, count * sizeof *at);
    if (!at) { return ERR_NOMEM; }
    log->segments = at;
    log->segments_capacity = count;
    log->segments_count = 0; /* what is not read yet must not be closed on the way out */
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct segment s = {.base = wire_i64(r)};
        s.end = wire_i64(r);
        s.size = wire_u64(r);
        s.time_max = wire_i64(r);
        s.time_max_offset = wire_i64(r);
        s.time_first = wire_i64(r);
        s.exists = (wire_u8(r) & MANIFEST_SEGMENT_EXISTS) != 0;
        bool follows = i == 0 || (s.base > at[i - 1].base && s.base >= at[i - 1].end);
        if (s.base < 0 || s.end < s.base || s.size > INT64_MAX - total || !follows) {
            return ERR_MALFORMED;
        }
        /* Behind a cut it is of no use, and read again when it is asked for. */
        if (s.time_max_offset < s.base || s.time_max_offset > s.end) {
            s.time_max = LOG_TIME_UNKNOWN;
            s.time_max_offset = s.base;
        }
        at[log->segments_count++] = s;
        total += s.size;
    }
    atomic_store_explicit(&log->size_total, total, memory_order_relaxed);
    return ERR_OK;
}

static enum err take_epochs(struct wire_reader *r, struct log *log) NO_THREAD_SAFETY
{
    uint32_t count = wire_u32(r);
    if (count > wire_left(r) / MANIFEST_EPOCH_SIZE) { return ERR_MALFORMED; }
    for (uint32_t i = 0; i < count; i++) {
        int32_t epoch = wire_i32(r);
        int64_t start = wire_i64(r);
        bool changed = false;
        enum err e = epochs_assign(&log->epochs, epoch, start, &changed);
        if (e) { return e == ERR_NOMEM ? e : ERR_MALFORMED; }
    }
    return ERR_OK;
}

static enum err take_rot(struct wire_reader *r, struct log *log) NO_THREAD_SAFETY
{
    uint32_t count = wire_u32(r);
    if (count > LOG_ROT_COUNT_MAX || count > wire_left(r) / MANIFEST_ROT_SIZE) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct log_rot rot = {.base = wire_i64(r)};
        rot.pos = wire_u64(r);
        rot.pos_end = wire_u64(r);
        rot.offset = wire_i64(r);
        rot.offset_end = wire_i64(r);
        bool sound = rot.base >= 0 && rot.pos < rot.pos_end && rot.offset >= rot.base &&
                     rot.offset_end >= rot.offset;
        if (!sound) { return ERR_MALFORMED; }
        log_rot_add(log, &rot);
    }
    return ERR_OK;
}

static enum err take_log(struct wire_reader *r, struct logdir *dir,
                         struct log **out) NO_THREAD_SAFETY
{
    char topic[LOG_TOPIC_NAME_LEN_MAX + 1];
    size_t size = wire_u16(r);
    const uint8_t *name = wire_take(r, size);
    *out = NULL;
    if (!name || !log_topic_name_is_valid(slice_of(name, size))) { return ERR_MALFORMED; }
    memcpy(topic, name, size);
    topic[size] = '\0';
    struct log_seed seed = {
        .topic = topic, .partition = wire_i32(r), .config = &dir->options.config};
    if (seed.partition < 0) { return ERR_MALFORMED; }
    seed.topic_id = wire_uuid(r);
    int64_t start = wire_i64(r), hw = wire_i64(r), leo = wire_i64(r), loose = wire_i64(r);
    uint8_t flags = wire_u8(r);
    struct log *log = NULL;
    enum err e = log_new(&dir->env, &seed, 0, &log);
    if (e) { return e; }
    log->snapshot_loose = loose;
    log->has_no_producers = (flags & MANIFEST_NO_PRODUCERS) != 0;
    log->epochs_loaded = (flags & MANIFEST_EPOCHS_UNREAD) == 0;
    atomic_store_explicit(&log->start, start, memory_order_relaxed);
    atomic_store_explicit(&log->hw, hw, memory_order_relaxed);
    atomic_store_explicit(&log->synced, leo, memory_order_relaxed);
    atomic_store_explicit(&log->leo, leo, memory_order_relaxed);
    e = take_segments(r, log);
    if (!e) { e = take_epochs(r, log); }
    if (!e) { e = take_rot(r, log); }
    bool sound = !e && !r->bad && start >= 0 && start <= leo && hw >= 0 && hw <= leo &&
                 log_active(log)->end == leo;
    if (!e && !sound) { e = ERR_MALFORMED; }
    if (e) {
        log_unref(log);
        return e;
    }
    struct segment *last = log_active(log);
    /* A flush covers names together with bytes: without bytes nobody has synced the names. */
    last->names_dirty = last->exists && last->size == 0;
    log->dir_dirty = leo == 0;
    log->synced_mark = (struct log_mark){
        .offset = leo, .base = last->base, .pos = last->size, .epoch = epochs_latest(&log->epochs)};
    *out = log;
    return ERR_OK;
}

enum err manifest_load(struct logdir *dir)
{
    char path[LOG_PATH_SIZE];
    uint8_t *at = NULL;
    size_t size = 0;
    logdir_path_of(dir, LOGDIR_MANIFEST, path);
    enum err e = smallfile_read(dir->sys, path, &at, &size);
    if (e) { return e; }
    struct wire_reader r;
    e = size < MANIFEST_HEAD_SIZE + 4 ? ERR_MALFORMED : ERR_OK;
    if (!e) {
        wire_reader_init(&r, slice_of(at + size - 4, 4));
        if (wire_u32(&r) != crc32c(0, at, size - 4)) { e = ERR_CORRUPT; }
        wire_reader_init(&r, slice_of(at, size - 4));
        if (!e && (wire_u64(&r) != MANIFEST_MAGIC || wire_u32(&r) != 1)) { e = ERR_MALFORMED; }
    }
    uint32_t count = e ? 0 : wire_u32(&r);
    for (uint32_t i = 0; i < count && !e; i++) {
        struct log *log = NULL;
        e = take_log(&r, dir, &log);
        if (!e) { e = logdir_add(dir, log); }
    }
    if (!e && (r.bad || wire_left(&r) != 0)) { e = ERR_MALFORMED; }
    mem_free(at);
    return e;
}
