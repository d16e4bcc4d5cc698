/* journal.c - append, replay and snapshots of the metadata log of a broker alone. */
#include "meta/journal.h"

#include "base/check.h"
#include "base/mem.h"
#include "wire/batch.h"
#include "wire/gen/snapshot_footer_record.h"
#include "wire/gen/snapshot_header_record.h"
#include "wire/reader.h"

#include <inttypes.h>
#include <stdio.h>

#define JOURNAL_LOGGER "org.apache.kafka.raft.internals.KafkaRaftLog"
#define JOURNAL_DIR "__cluster_metadata-0"
#define JOURNAL_EPOCH 1
#define JOURNAL_PATH_SIZE 4096
#define JOURNAL_BATCH_SIZE_MAX ((size_t)64 << 20)
#define JOURNAL_SNAPSHOT_BATCH_SIZE ((size_t)256 << 10)
#define JOURNAL_FILES_MAX 1024

/* Kafka's control records in a snapshot: the first record of all and the last one, and what else
 * Kafka puts behind the first. */
enum control_type {
    CONTROL_SNAPSHOT_HEADER = 3,
    CONTROL_SNAPSHOT_FOOTER = 4,
    CONTROL_KRAFT_VERSION = 5,
    CONTROL_KRAFT_VOTERS = 6,
};

struct journal {
    struct sys *sys;
    const struct logger *logger;
    char *dir; /* <metadata dir>/__cluster_metadata-0 */
    struct sys_file *file; /* the active log file */
    int64_t base; /* its first offset, of its name */
    uint64_t pos; /* its end */
    bool names_dirty; /* its name is not durable yet, or a snapshot's: the next append syncs them */
    int64_t next_offset;
    int64_t newest_ms; /* of the newest record; -1: none */
    uint64_t snapshot_bytes;
    uint64_t bytes_since_snapshot;
    bool is_broken; /* a write or sync failed */
    struct wire_buf buf;
};

static enum err journal_path(const struct journal *j, char path[JOURNAL_PATH_SIZE],
                             const char *name)
{
    int n = snprintf(path, JOURNAL_PATH_SIZE, "%s/%s", j->dir, name);
    return n < 0 || n >= JOURNAL_PATH_SIZE ? ERR_LIMIT : ERR_OK;
}

/* ---- replay ---- */

/* Files of the directory by kind. */
struct journal_files {
    int64_t snapshot_end; /* -1: none */
    char snapshot[64];
    int64_t logs[JOURNAL_FILES_MAX]; /* base offsets, ascending */
    size_t logs_count;
    char leftovers[JOURNAL_FILES_MAX][64]; /* unfinished or replaced snapshots */
    size_t leftovers_count;
};

static enum err add_leftover(struct journal_files *f, const char *name)
{
    if (f->leftovers_count == JOURNAL_FILES_MAX) { return ERR_LIMIT; }
    snprintf(f->leftovers[f->leftovers_count++], sizeof f->leftovers[0], "%s", name);
    return ERR_OK;
}

/* 'width' digits, stepped over; false when there is anything else or the number is too large. */
static bool take_digits(const char **at, int width, int64_t max, int64_t *out)
{
    int64_t v = 0;
    for (int i = 0; i < width; i++) {
        char c = (*at)[i];
        if (c < '0' || c > '9' || v > (max - (c - '0')) / 10) { return false; }
        v = v * 10 + (c - '0');
    }
    *at += width;
    *out = v;
    return true;
}

/* "<20 digits>.log", "<20 digits>-<10 digits>.checkpoint" and that with ".part": all else that may
 * lie here (Kafka's quorum-state, a copy that somebody made) is not ours. */
static enum err on_file(void *ctx, const char *name, bool is_dir)
{
    struct journal_files *f = ctx;
    const char *rest = name;
    int64_t offset = 0, epoch = 0;
    if (is_dir || !take_digits(&rest, 20, INT64_MAX, &offset)) { return ERR_OK; }
    bool is_snapshot = *rest == '-';
    if (is_snapshot) {
        rest++;
        if (!take_digits(&rest, 10, INT32_MAX, &epoch)) { return ERR_OK; }
    }
    if (is_snapshot && strcmp(rest, ".checkpoint.part") == 0) { return add_leftover(f, name); }
    if (is_snapshot && strcmp(rest, ".checkpoint") == 0) {
        enum err e = f->snapshot_end >= 0 ? add_leftover(f, f->snapshot) : ERR_OK;
        f->snapshot_end = offset; /* names are sorted: the last is the newest */
        snprintf(f->snapshot, sizeof f->snapshot, "%s", name);
        return e;
    }
    if (!is_snapshot && strcmp(rest, ".log") == 0) {
        if (f->logs_count == JOURNAL_FILES_MAX) { return ERR_LIMIT; }
        f->logs[f->logs_count++] = offset;
    }
    return ERR_OK;
}

/* Where replay of one file stands. */
struct replay {
    struct journal *j;
    struct sys_file *file;
    const char *name;
    uint64_t pos, size;
    struct meta_image **image;
    int64_t offset_fixed; /* snapshot: every record gets this offset; -1: their own */
    int64_t skip_below; /* of a log: what the snapshot holds already */
    bool has_header, has_footer; /* of a snapshot */
};

static enum err replay_damage(const struct replay *p, const char *what)
{
    log_error(p->j->logger, JOURNAL_LOGGER,
              "Metadata file %s/%s is damaged at position %" PRIu64
              ": %s. The broker does not start on it; restore the file from a copy.",
              p->j->dir, p->name, p->pos, what);
    return ERR_CORRUPT;
}

/* Reads the batch at pos into j->buf. ERR_RANGE: it is not whole; ERR_CORRUPT: it is whole and
 * wrong. */
static enum err replay_read(struct replay *p, struct batch_header *h)
{
    uint8_t head[BATCH_HEADER_SIZE];
    size_t got;
    struct wire_buf *buf = &p->j->buf;
    enum err e = sys_file_read(p->file, head, sizeof head, p->pos, &got);
    if (e) { return e; }
    if (got < sizeof head) { return ERR_RANGE; }
    if (batch_peek(slice_of(head, sizeof head), h)) { return ERR_CORRUPT; }
    size_t size = batch_size(h);
    if (size > JOURNAL_BATCH_SIZE_MAX) { return ERR_CORRUPT; }
    if (size > p->size - p->pos) { return ERR_RANGE; }
    buf->size = 0;
    e = wire_buf_reserve(buf, size);
    if (e) { return e; }
    e = sys_file_read(p->file, buf->at, size, p->pos, &got);
    if (e) { return e; }
    if (got < size) { return ERR_RANGE; }
    buf->size = size;
    return batch_check_crc(wire_buf_slice(buf)) ? ERR_CORRUPT : ERR_OK;
}

static enum err replay_apply(struct replay *p)
{
    struct batch_iter it;
    struct batch_record record;
    if (batch_iter_open(&it, NULL, wire_buf_slice(&p->j->buf), JOURNAL_BATCH_SIZE_MAX, NULL)) {
        return replay_damage(p, "no such batch is written here");
    }
    while (batch_iter_next(&it, &record)) {
        int64_t offset = p->offset_fixed >= 0 ? p->offset_fixed : record.offset;
        if (p->offset_fixed < 0 && offset != p->j->next_offset) {
            return replay_damage(p, "a record has another offset than expected");
        }
        bool is_known = offset < p->skip_below;
        enum err e = is_known ? ERR_OK : meta_apply(p->image, record.value, offset);
        if (e == ERR_NOMEM) { return e; }
        if (e) { return replay_damage(p, "a record that does not fit those before it"); }
        if (p->offset_fixed < 0) { p->j->next_offset = record.offset + 1; }
    }
    return it.err ? replay_damage(p, "a record is malformed") : ERR_OK;
}

/* One control record; is_first: of the whole file. */
static enum err replay_control_record(struct replay *p, const struct batch_record *record,
                                      bool is_first)
{
    struct wire_reader r;
    wire_reader_init(&r, record->key);
    int16_t version = wire_i16(&r), type = wire_i16(&r);
    bool is_known = !r.bad && version == 0;
    if (is_known && type == CONTROL_SNAPSHOT_HEADER && is_first) {
        p->has_header = true;
    } else if (is_known && type == CONTROL_SNAPSHOT_FOOTER && p->has_header) {
        p->has_footer = true;
    } else if (!is_known || (type != CONTROL_KRAFT_VERSION && type != CONTROL_KRAFT_VOTERS)) {
        return replay_damage(p, "a control record that does not belong there");
    }
    return ERR_OK;
}

static enum err replay_control(struct replay *p)
{
    struct batch_iter it;
    struct batch_record record;
    bool is_first = p->pos == 0;
    if (batch_iter_open(&it, NULL, wire_buf_slice(&p->j->buf), JOURNAL_BATCH_SIZE_MAX, NULL)) {
        return replay_damage(p, "no such batch is written here");
    }
    while (batch_iter_next(&it, &record)) {
        if (p->has_footer) { return replay_damage(p, "records behind the end of the snapshot"); }
        enum err e = replay_control_record(p, &record, is_first);
        if (e) { return e; }
        is_first = false;
    }
    return it.err ? replay_damage(p, "a record is malformed") : ERR_OK;
}

/* A right batch that was appended later than what is expected here. */
static bool is_later_batch(const struct journal *j, struct slice at)
{
    struct batch_header h;
    return batch_peek(at, &h) == ERR_OK && h.base_offset > j->next_offset &&
           h.base_offset - j->next_offset <= (int64_t)JOURNAL_BATCH_SIZE_MAX &&
           batch_size(&h) <= at.size && batch_check_crc(at) == ERR_OK;
}

/* Whether what begins at pos may be an append that a crash interrupted: each is synced before the
 * next, so no later one stands behind it. The broken batch's own length is not believed. ERR_OK:
 * torn. ERR_CORRUPT: records that were acknowledged are damaged. */
static enum err replay_judge(struct replay *p)
{
    struct wire_buf *buf = &p->j->buf;
    size_t got = 0;
    if (p->size - p->pos > JOURNAL_BATCH_SIZE_MAX) { return ERR_CORRUPT; }
    size_t rest = (size_t)(p->size - p->pos);
    buf->size = 0;
    enum err e = wire_buf_reserve(buf, rest);
    if (!e) { e = sys_file_read(p->file, buf->at, rest, p->pos, &got); }
    if (e) { return e; }
    for (size_t at = 1; at + BATCH_HEADER_SIZE <= got; at++) {
        if (is_later_batch(p->j, slice_of(buf->at + at, got - at))) { return ERR_CORRUPT; }
    }
    return ERR_OK;
}

/* The batch at pos is not right: cuts it away when a crash may have torn it. */
static enum err replay_end(struct replay *p, bool may_be_torn)
{
    enum err e = may_be_torn ? replay_judge(p) : ERR_CORRUPT;
    if (e == ERR_CORRUPT) { return replay_damage(p, "the checksum or length of a batch is wrong"); }
    if (e) { return e; }
    log_warn(p->j->logger, JOURNAL_LOGGER,
             "Cutting %s/%s at position %" PRIu64
             ": the last append was interrupted and never acknowledged",
             p->j->dir, p->name, p->pos);
    e = sys_file_truncate(p->file, p->pos);
    return e ? e : sys_file_sync(p->file);
}

static enum err replay_file(struct replay *p, bool may_be_torn)
{
    enum err e = sys_file_size(p->file, &p->size);
    while (!e && p->pos < p->size) {
        struct batch_header h = {0};
        e = replay_read(p, &h);
        if (e == ERR_RANGE || e == ERR_CORRUPT) { return replay_end(p, may_be_torn); }
        if (e) { return e; }
        if (p->offset_fixed < 0 && h.base_offset != p->j->next_offset) {
            return replay_damage(p, "a batch has another offset than expected");
        }
        if (p->has_footer) { return replay_damage(p, "bytes behind the end of the snapshot"); }
        bool is_control = p->offset_fixed >= 0 && batch_is_control(&h);
        e = is_control ? replay_control(p) : replay_apply(p);
        p->pos += batch_size(&h);
        if (p->offset_fixed < 0 && h.max_timestamp > p->j->newest_ms) {
            p->j->newest_ms = h.max_timestamp;
        }
    }
    return e;
}

static enum err journal_load_snapshot(struct journal *j, const struct journal_files *f,
                                      struct meta_image **image)
{
    char path[JOURNAL_PATH_SIZE];
    if (f->snapshot_end < 0) { return ERR_OK; }
    struct replay p = {.j = j, .name = f->snapshot, .image = image};
    p.offset_fixed = f->snapshot_end - 1;
    enum err e = journal_path(j, path, f->snapshot);
    if (!e) { e = sys_file_open(j->sys, path, SYS_READ, &p.file); }
    if (!e) { e = replay_file(&p, false); }
    /* Without a header it is of an early Barnabas, which wrote no end either. */
    if (!e && p.has_header && !p.has_footer) {
        e = replay_damage(&p, "the end of the snapshot is missing");
    }
    if (!e && (*image)->offset != f->snapshot_end - 1) {
        e = replay_damage(&p, "no record stands in this snapshot");
    }
    sys_file_unref(p.file);
    j->next_offset = f->snapshot_end;
    return e;
}

static enum err journal_sync_names(struct journal *j)
{
    enum err e = j->names_dirty ? sys_dir_sync(j->sys, j->dir) : ERR_OK;
    if (!e) { j->names_dirty = false; }
    if (e == ERR_IO) { j->is_broken = true; }
    return e;
}

/* Opens (creating it) the log file that begins at base as the active one. */
static enum err journal_open_active(struct journal *j, int64_t base)
{
    char path[JOURNAL_PATH_SIZE], name[64];
    snprintf(name, sizeof name, "%020" PRId64 ".log", base);
    enum err e = journal_path(j, path, name);
    struct sys_file *file = NULL;
    if (!e) { e = sys_file_open(j->sys, path, SYS_WRITE | SYS_CREATE, &file); }
    if (e) { return e; }
    sys_file_unref(j->file);
    j->file = file;
    j->base = base;
    j->pos = 0;
    j->names_dirty = true;
    return ERR_OK;
}

/* One log file. Of what stands below the snapshot only the shape is checked: an early Barnabas went
 * on in the old file when it could not open the new one. */
static enum err journal_load_log(struct journal *j, int64_t base, int64_t snapshot_end,
                                 bool may_be_torn, struct meta_image **image)
{
    char name[64];
    snprintf(name, sizeof name, "%020" PRId64 ".log", base);
    enum err e = journal_open_active(j, base);
    if (e) { return e; }
    struct replay p = {.j = j, .file = j->file, .name = name, .image = image};
    p.offset_fixed = -1;
    p.skip_below = snapshot_end;
    if (base < snapshot_end && j->next_offset == snapshot_end) { j->next_offset = base; }
    if (base != j->next_offset) {
        return replay_damage(&p, "the records before this file are missing");
    }
    e = replay_file(&p, may_be_torn);
    /* [JRN-1]: a process that was killed may have left its last append whole and not synced. */
    if (!e && may_be_torn) { e = sys_file_sync(j->file); }
    j->pos = p.pos;
    j->bytes_since_snapshot += p.pos;
    return e;
}

static enum err log_is_empty(struct journal *j, int64_t base, bool *is_empty)
{
    struct sys_stat st;
    char path[JOURNAL_PATH_SIZE], name[64];
    snprintf(name, sizeof name, "%020" PRId64 ".log", base);
    enum err e = journal_path(j, path, name);
    if (!e) { e = sys_path_stat(j->sys, path, &st); }
    *is_empty = !e && st.size == 0;
    return e;
}

/* Files that hold something, one after another; those that a snapshot and a later file replace are
 * left out. Then the empty ones behind: the last is the active one if it begins where the records
 * end, and left over from an early Barnabas if they went on elsewhere. */
static enum err journal_load_logs(struct journal *j, const struct journal_files *f,
                                  struct meta_image **image)
{
    size_t count = f->logs_count;
    bool is_empty = true;
    enum err e = ERR_OK;
    while (!e && count > 0 && is_empty) {
        e = log_is_empty(j, f->logs[count - 1], &is_empty);
        if (!e && is_empty) { count--; }
    }
    for (size_t i = 0; i < count && !e; i++) {
        if (i + 1 < count && f->logs[i + 1] <= f->snapshot_end) { continue; }
        e = journal_load_log(j, f->logs[i], f->snapshot_end, i + 1 == count, image);
    }
    if (e) { return e; }
    if (j->next_offset < f->snapshot_end) { j->next_offset = f->snapshot_end; }
    int64_t last = f->logs_count > count ? f->logs[f->logs_count - 1] : -1;
    if (last > j->next_offset) {
        return journal_load_log(j, last, f->snapshot_end, false, image); /* says what is wrong */
    }
    bool is_replaced = j->next_offset == f->snapshot_end; /* whatever was read */
    bool is_next = last == j->next_offset;
    if (!j->file || is_replaced || is_next) { e = journal_open_active(j, j->next_offset); }
    return e ? e : journal_sync_names(j);
}

/* Removes what a finished snapshot replaced; a failure leaves files that the next start removes. */
static void journal_remove_old(struct journal *j, const struct journal_files *f)
{
    char path[JOURNAL_PATH_SIZE], name[64];
    for (size_t i = 0; i < f->leftovers_count; i++) {
        if (journal_path(j, path, f->leftovers[i]) == ERR_OK) {
            err_ignore(sys_path_unlink(j->sys, path), "the next start removes it");
        }
    }
    for (size_t i = 0; i < f->logs_count; i++) {
        if (f->logs[i] >= f->snapshot_end || f->logs[i] >= j->base) { continue; }
        snprintf(name, sizeof name, "%020" PRId64 ".log", f->logs[i]);
        if (journal_path(j, path, name) == ERR_OK) {
            err_ignore(sys_path_unlink(j->sys, path), "the next start removes it");
        }
    }
}

static enum err journal_make_dirs(struct journal *j, const char *parent)
{
    enum err e = sys_dir_create(j->sys, parent);
    if (e && e != ERR_EXISTS) { return e; }
    e = sys_dir_create(j->sys, j->dir);
    return e == ERR_EXISTS ? ERR_OK : e;
}

/* The names above the file's, which an earlier start may have made shortly before a crash. After
 * the file's own, whose sync has mostly taken them along. */
static enum err journal_sync_dirs(struct journal *j, const char *parent)
{
    enum err e = sys_dir_sync(j->sys, parent);
    return e ? e : sys_parent_sync(j->sys, parent);
}

enum err journal_open(const struct journal_options *options, struct journal **out,
                      struct meta_image **image)
{
    *out = NULL;
    *image = NULL;
    struct journal_files *files = mem_new(struct journal_files);
    struct journal *j = mem_new(struct journal);
    struct meta_image *loaded = meta_create();
    enum err e = ERR_NOMEM;
    if (!files || !j || !loaded) { goto fail; }
    files->snapshot_end = -1;
    j->sys = options->sys;
    j->logger = options->logger;
    j->snapshot_bytes = options->snapshot_bytes;
    j->newest_ms = -1;
    wire_buf_init(&j->buf, JOURNAL_BATCH_SIZE_MAX);
    size_t size = strlen(options->dir) + sizeof JOURNAL_DIR + 2;
    j->dir = mem_alloc(size);
    if (!j->dir) { goto fail; }
    snprintf(j->dir, size, "%s/%s", options->dir, JOURNAL_DIR);
    e = journal_make_dirs(j, options->dir);
    if (!e) { e = sys_dir_list(j->sys, j->dir, on_file, files); }
    if (!e) { e = journal_load_snapshot(j, files, &loaded); }
    if (!e) { e = journal_load_logs(j, files, &loaded); }
    if (!e) { e = journal_sync_dirs(j, options->dir); }
    if (e) { goto fail; }
    journal_remove_old(j, files);
    mem_free(files);
    *image = loaded;
    *out = j;
    return ERR_OK;
fail:
    mem_free(files);
    meta_unref(loaded);
    journal_close(j);
    return e;
}

void journal_close(struct journal *j)
{
    if (!j) { return; }
    sys_file_unref(j->file);
    wire_buf_fini(&j->buf);
    mem_free(j->dir);
    mem_free(j);
}

/* ---- append ---- */

static struct batch_build_options journal_batch(int64_t base_offset)
{
    struct batch_build_options options = BATCH_BUILD_PLAIN;
    options.base_offset = base_offset;
    options.leader_epoch = JOURNAL_EPOCH;
    return options;
}

/* Encodes records as one batch at base_offset into j->buf. */
static enum err journal_encode(struct journal *j, const struct slice *records, size_t count,
                               int64_t wall_ms, int64_t base_offset)
{
    struct batch_build_record *build = mem_array(count, sizeof *build);
    if (!build) { return ERR_NOMEM; }
    for (size_t i = 0; i < count; i++) {
        build[i] = (struct batch_build_record){.timestamp = wall_ms, .value = records[i]};
    }
    struct batch_build_options options = journal_batch(base_offset);
    j->buf.size = 0;
    enum err e = batch_build(&options, build, count, NULL, &j->buf);
    mem_free(build);
    return e;
}

enum err journal_append(struct journal *j, const struct slice *records, size_t records_count,
                        int64_t wall_ms, int64_t *first_offset)
{
    *first_offset = -1;
    if (j->is_broken) { return ERR_IO; }
    CHECK(records_count > 0);
    enum err e = journal_encode(j, records, records_count, wall_ms, j->next_offset);
    if (!e) { e = journal_sync_names(j); }
    if (e && !j->is_broken) { return e; }
    struct sys_iov iov = {j->buf.at, j->buf.size};
    size_t written;
    if (!e) { e = sys_file_write(j->file, &iov, 1, j->pos, &written); }
    if (e == ERR_NOSPACE && sys_file_truncate(j->file, j->pos) == ERR_OK) { return e; }
    if (!e) { e = sys_file_sync(j->file); }
    if (e) {
        j->is_broken = true; /* [JRN-1]: what is on the device is unknown from here on */
        log_error(j->logger, JOURNAL_LOGGER, "Writing the metadata log in %s failed: %s", j->dir,
                  err_name(e));
        return e == ERR_NOSPACE ? ERR_NOSPACE : ERR_IO;
    }
    *first_offset = j->next_offset;
    j->next_offset += (int64_t)records_count;
    j->pos += iov.size;
    j->bytes_since_snapshot += iov.size;
    if (wall_ms > j->newest_ms) { j->newest_ms = wall_ms; }
    return ERR_OK;
}

/* ---- snapshot ---- */

bool journal_wants_snapshot(const struct journal *j)
{
    return !j->is_broken && j->bytes_since_snapshot > j->snapshot_bytes;
}

/* Collects records and writes them in batches. */
struct snapshot {
    struct journal *j;
    struct sys_file *file;
    uint64_t pos;
    int64_t next;
    int64_t wall_ms;
    struct wire_buf bytes; /* of the records waiting */
    struct slice *records; /* at is an offset into bytes until they are written */
    size_t count, capacity;
};

/* Writes what is in j->buf, 'count' records. */
static enum err snapshot_put(struct snapshot *s, size_t count)
{
    struct sys_iov iov = {s->j->buf.at, s->j->buf.size};
    size_t written;
    enum err e = sys_file_write(s->file, &iov, 1, s->pos, &written);
    s->pos += iov.size;
    s->next += (int64_t)count;
    return e;
}

static enum err snapshot_control(struct snapshot *s, enum control_type type)
{
    uint8_t key[8], value[32];
    struct wire_writer k, v;
    wire_writer_init_fixed(&k, (struct mslice){key, sizeof key});
    wire_put_i16(&k, 0);
    wire_put_i16(&k, (int16_t)type);
    enum err e = wire_writer_finish(&k);
    wire_writer_init_fixed(&v, (struct mslice){value, sizeof value});
    if (!e && type == CONTROL_SNAPSHOT_HEADER) {
        struct snapshot_header_record m = {.last_contained_log_timestamp = s->j->newest_ms};
        e = snapshot_header_record_encode(&v, 0, &m);
    } else if (!e) {
        struct snapshot_footer_record m = {0};
        e = snapshot_footer_record_encode(&v, 0, &m);
    }
    if (e) { return e; }
    struct batch_build_record record = {
        .timestamp = s->wall_ms, .key = slice_of(key, k.pos), .value = slice_of(value, v.pos)};
    struct batch_build_options options = journal_batch(s->next);
    options.control = true;
    s->j->buf.size = 0;
    e = batch_build(&options, &record, 1, NULL, &s->j->buf);
    return e ? e : snapshot_put(s, 1);
}

static enum err snapshot_flush(struct snapshot *s)
{
    if (s->count == 0) { return ERR_OK; }
    size_t from = 0;
    for (size_t i = 0; i < s->count; i++) {
        s->records[i].at = s->bytes.at + from;
        from += s->records[i].size;
    }
    enum err e = journal_encode(s->j, s->records, s->count, s->wall_ms, s->next);
    if (e) { return e; }
    e = snapshot_put(s, s->count);
    s->count = 0;
    s->bytes.size = 0;
    return e;
}

static enum err snapshot_emit(void *ctx, struct slice record)
{
    struct snapshot *s = ctx;
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 256;
        struct slice *records = mem_realloc(s->records, capacity * sizeof *records);
        if (!records) { return ERR_NOMEM; }
        s->records = records;
        s->capacity = capacity;
    }
    enum err e = wire_buf_reserve(&s->bytes, s->bytes.size + record.size);
    if (e) { return e; }
    memcpy(s->bytes.at + s->bytes.size, record.at, record.size);
    s->bytes.size += record.size;
    s->records[s->count++].size = record.size;
    return s->bytes.size >= JOURNAL_SNAPSHOT_BATCH_SIZE ? snapshot_flush(s) : ERR_OK;
}

/* Writes the whole snapshot under a name that no start reads, and syncs it. */
static enum err snapshot_write(struct journal *j, const struct meta_image *image, int64_t wall_ms,
                               const char *path)
{
    struct snapshot s = {.j = j, .wall_ms = wall_ms};
    wire_buf_init(&s.bytes, JOURNAL_BATCH_SIZE_MAX);
    enum err e = sys_file_open(j->sys, path, SYS_WRITE | SYS_CREATE | SYS_TRUNCATE, &s.file);
    if (!e) { e = snapshot_control(&s, CONTROL_SNAPSHOT_HEADER); }
    if (!e) { e = meta_dump(image, snapshot_emit, &s); }
    if (!e) { e = snapshot_flush(&s); }
    if (!e) { e = snapshot_control(&s, CONTROL_SNAPSHOT_FOOTER); }
    if (!e) { e = sys_file_sync(s.file); }
    sys_file_unref(s.file);
    wire_buf_fini(&s.bytes);
    mem_free(s.records);
    return e;
}

enum err journal_snapshot(struct journal *j, const struct meta_image *image, int64_t wall_ms)
{
    char path[JOURNAL_PATH_SIZE], part[JOURNAL_PATH_SIZE], name[96];
    if (j->is_broken) { return ERR_IO; }
    CHECKF(image->offset == j->next_offset - 1, "image %" PRId64 ", log %" PRId64, image->offset,
           j->next_offset);
    snprintf(name, sizeof name, "%020" PRId64 "-%010d.checkpoint", j->next_offset, JOURNAL_EPOCH);
    enum err e = journal_path(j, path, name);
    snprintf(name, sizeof name, "%020" PRId64 "-%010d.checkpoint.part", j->next_offset,
             JOURNAL_EPOCH);
    if (!e) { e = journal_path(j, part, name); }
    if (!e) { e = snapshot_write(j, image, wall_ms, part); }
    /* The log goes on in a new file before the snapshot has its name: no record behind it may ever
     * stand in a file that it replaces. One sync makes both names durable, [JRN-2]; where it cannot
     * be made now, the next append does it first. */
    if (!e && j->pos > 0) {
        e = journal_open_active(j, j->next_offset);
        if (!e) { j->bytes_since_snapshot = 0; }
    }
    if (!e) { e = sys_path_rename(j->sys, part, path); }
    if (!e) { j->names_dirty = true; }
    if (!e) { e = journal_sync_names(j); }
    if (e) {
        log_warn(j->logger, JOURNAL_LOGGER, "Writing a metadata snapshot in %s failed: %s", j->dir,
                 err_name(e));
        return e;
    }
    j->bytes_since_snapshot = 0;
    struct journal_files *files = mem_new(struct journal_files);
    if (!files) { return ERR_OK; } /* the next start removes the old files */
    files->snapshot_end = -1;
    if (sys_dir_list(j->sys, j->dir, on_file, files) == ERR_OK) { journal_remove_old(j, files); }
    mem_free(files);
    return ERR_OK;
}
