/* synced.c - the synced marks of a directory: how far each log is known to be on the disk.
 *
 * Place:      log/, private.
 * Thread:     flusher and keeper write; truncation writes through marks_put(); the marks' own
 *             lock.
 * Format:     docs/STORAGE.md. An append-only file of 64-byte entries, replaced by a folded one
 *             now and then. An entry is 512-byte-sector safe: eight of them fill a sector, none
 *             crosses one.
 * Rules:      [MRK-1] a mark speaks of bytes whose sync has returned. [MRK-2] the marks of one
 *             flush are written with the next, and synced by a syncfs of it or within
 *             MARKS_SYNC_DELAY_NS: a mark that comes too late only makes more bytes count as a
 *             possible torn tail. [MRK-3] a lowered mark is durable before the bytes above it go.
 *             [MRK-4] the open file is the one that has the name: a fold opens before it renames.
 * Failure:    a damaged entry is skipped; a damaged file counts as no marks. */
#include "log/dir_int.h"

#include "base/crc32c.h"
#include "wire/reader.h"
#include "wire/writer.h"

#include <stdio.h>

static const char marks_magic[8] = {'B', 'B', 'M', 'A', 'R', 'K', 'S', '1'};

static void encode_entry(const struct mark_entry *e, uint8_t *at)
{
    struct wire_writer w;
    memset(at, 0, MARKS_ENTRY_SIZE);
    wire_writer_init_fixed(&w, (struct mslice){at, MARKS_ENTRY_SIZE});
    wire_put_u32(&w, 0);
    wire_put_u32(&w, (uint32_t)e->kind);
    wire_put_uuid(&w, e->topic_id);
    wire_put_i32(&w, e->partition);
    wire_put_i32(&w, e->mark.epoch);
    wire_put_i64(&w, e->mark.offset);
    wire_put_i64(&w, e->mark.base);
    wire_put_u64(&w, e->mark.pos);
    wire_put_i64(&w, e->hw);
    uint32_t crc = __builtin_bswap32(crc32c(0, at + 4, MARKS_ENTRY_SIZE - 4));
    memcpy(at, &crc, sizeof crc);
}

static bool decode_entry(const uint8_t *at, struct mark_entry *e)
{
    struct wire_reader r;
    wire_reader_init(&r, slice_of(at, MARKS_ENTRY_SIZE));
    uint32_t crc = wire_u32(&r), kind = wire_u32(&r);
    e->topic_id = wire_uuid(&r);
    e->partition = wire_i32(&r);
    e->mark.epoch = wire_i32(&r);
    e->mark.offset = wire_i64(&r);
    e->mark.base = wire_i64(&r);
    e->mark.pos = wire_u64(&r);
    e->hw = wire_i64(&r);
    if (crc != crc32c(0, at + 4, MARKS_ENTRY_SIZE - 4)) { return false; }
    if (kind < MARK_SYNCED || kind > MARK_START || e->mark.offset < 0) { return false; }
    e->kind = (enum mark_kind)kind;
    return true;
}

static void encode_header(uint8_t *at)
{
    memset(at, 0, MARKS_ENTRY_SIZE);
    memcpy(at, marks_magic, sizeof marks_magic);
}

void marks_init(struct marks *m, struct sys *sys, const char *dir_path)
{
    *m = (struct marks){.sys = sys};
    int n = snprintf(m->path, sizeof m->path, "%s/" LOGDIR_MARKS, dir_path);
    CHECK(n > 0 && (size_t)n < sizeof m->path);
    sys_mutex_init(&m->lock, SYS_RANK_FLUSHER);
}

void marks_fini(struct marks *m)
{
    sys_file_unref(m->file);
    mem_free(m->pending);
    sys_mutex_fini(&m->lock);
}

enum err marks_open(struct marks *m)
{
    enum err e = sys_file_open(m->sys, m->path, SYS_WRITE | SYS_CREATE, &m->file);
    if (e) { return e; }
    uint64_t size = 0;
    e = sys_file_size(m->file, &size);
    if (e) { return e; }
    m->pos = size - size % MARKS_ENTRY_SIZE;
    if (m->pos > 0) { return ERR_OK; }
    m->name_dirty = true;
    uint8_t header[MARKS_ENTRY_SIZE];
    size_t written = 0;
    encode_header(header);
    struct sys_iov iov = {header, sizeof header};
    e = sys_file_write(m->file, &iov, 1, 0, &written);
    if (!e) { m->pos = MARKS_ENTRY_SIZE; }
    return e;
}

/* Appends encoded entries; on failure the end stays where it was. */
static enum err append(struct marks *m, const uint8_t *at, size_t size)
{
    size_t written = 0;
    struct sys_iov iov = {at, size};
    enum err e = sys_file_write(m->file, &iov, 1, m->pos, &written);
    if (e) { return e; }
    m->pos += size;
    m->written += size;
    return ERR_OK;
}

void marks_add(struct marks *m, const struct mark_entry *entry)
{
    sys_mutex_lock(&m->lock);
    if (m->pending_count == m->pending_capacity) {
        uint32_t n = m->pending_capacity ? m->pending_capacity * 2 : 64;
        struct mark_entry *at = mem_realloc(m->pending, n * sizeof *at);
        if (at) {
            m->pending = at;
            m->pending_capacity = n;
        }
    }
    if (m->pending_count < m->pending_capacity) { m->pending[m->pending_count++] = *entry; }
    sys_mutex_unlock(&m->lock);
}

#define WRITE_ENTRIES 64u

static enum err write_locked(struct marks *m)
{
    uint8_t buf[WRITE_ENTRIES * MARKS_ENTRY_SIZE];
    uint32_t done = 0;
    enum err e = ERR_OK;
    while (!e && done < m->pending_count) {
        uint32_t n = m->pending_count - done;
        if (n > WRITE_ENTRIES) { n = WRITE_ENTRIES; }
        for (uint32_t i = 0; i < n; i++) {
            encode_entry(&m->pending[done + i], buf + (size_t)i * MARKS_ENTRY_SIZE);
        }
        e = append(m, buf, (size_t)n * MARKS_ENTRY_SIZE);
        done += n;
    }
    /* A full disk costs marks, not data: they come again with the next flush. */
    m->pending_count = 0;
    return e == ERR_NOSPACE ? ERR_OK : e;
}

enum err marks_write(struct marks *m)
{
    sys_mutex_lock(&m->lock);
    enum err e = write_locked(m);
    sys_mutex_unlock(&m->lock);
    return e;
}

static enum err sync_name(struct marks *m)
{
    enum err e = m->name_dirty ? sys_parent_sync(m->sys, m->path) : ERR_OK;
    if (!e) { m->name_dirty = false; }
    return e;
}

enum err marks_put(struct marks *m, const struct mark_entry *entry, bool durable)
{
    uint8_t buf[MARKS_ENTRY_SIZE];
    encode_entry(entry, buf);
    sys_mutex_lock(&m->lock);
    /* Pending marks of this partition are older than what is said now. */
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->pending_count; i++) {
        const struct mark_entry *p = &m->pending[i];
        bool same = p->partition == entry->partition && uuid_eq(p->topic_id, entry->topic_id);
        if (same && entry->kind != MARK_START) { continue; }
        m->pending[kept++] = *p;
    }
    m->pending_count = kept;
    m->generation++;
    enum err e = append(m, buf, sizeof buf);
    if (!e && durable) {
        e = sys_file_sync(m->file);
        if (!e) { e = sync_name(m); }
        if (!e) { m->synced = m->written; }
    }
    sys_mutex_unlock(&m->lock);
    return e;
}

enum err marks_sync(struct marks *m)
{
    sys_mutex_lock(&m->lock);
    uint64_t written = m->written;
    struct sys_file *f = m->synced < written ? sys_file_ref(m->file) : NULL;
    sys_mutex_unlock(&m->lock);
    if (!f) { return ERR_OK; }
    enum err e = sys_file_sync(f);
    sys_file_unref(f);
    sys_mutex_lock(&m->lock);
    if (!e) { e = sync_name(m); }
    sys_mutex_unlock(&m->lock);
    if (!e) { marks_note_synced(m, written); }
    return e;
}

uint64_t marks_written(struct marks *m)
{
    sys_mutex_lock(&m->lock);
    uint64_t written = m->written;
    sys_mutex_unlock(&m->lock);
    return written;
}

void marks_note_synced(struct marks *m, uint64_t written)
{
    sys_mutex_lock(&m->lock);
    if (m->synced < written) { m->synced = written; }
    sys_mutex_unlock(&m->lock);
}

bool marks_is_unsynced(struct marks *m)
{
    sys_mutex_lock(&m->lock);
    bool is = m->synced < m->written;
    sys_mutex_unlock(&m->lock);
    return is;
}

bool marks_has_pending(struct marks *m)
{
    sys_mutex_lock(&m->lock);
    bool has = m->pending_count > 0;
    sys_mutex_unlock(&m->lock);
    return has;
}

uint64_t marks_entries(struct marks *m)
{
    sys_mutex_lock(&m->lock);
    uint64_t n = m->pos / MARKS_ENTRY_SIZE;
    sys_mutex_unlock(&m->lock);
    return n;
}

uint32_t marks_generation(struct marks *m)
{
    sys_mutex_lock(&m->lock);
    uint32_t g = m->generation;
    sys_mutex_unlock(&m->lock);
    return g;
}

/* Puts a file of these bytes in the place of the marks. */
static enum err replace_file(struct marks *m, struct slice bytes)
{
    char tmp[LOG_PATH_SIZE + 8];
    struct sys_file *f = NULL;
    size_t written = 0;
    struct sys_iov iov = {bytes.at, bytes.size};
    int n = snprintf(tmp, sizeof tmp, "%s.tmp", m->path);
    CHECK(n > 0 && (size_t)n < sizeof tmp);
    enum err e = sys_file_open(m->sys, tmp, SYS_WRITE | SYS_CREATE | SYS_TRUNCATE, &f);
    if (e) { return e; }
    e = sys_file_write(f, &iov, 1, 0, &written);
    if (!e) { e = sys_file_sync(f); }
    if (!e) { e = sys_path_rename(m->sys, tmp, m->path); }
    if (e) {
        sys_file_unref(f);
        err_ignore(sys_path_unlink(m->sys, tmp), "the error that led here counts");
        return e;
    }
    sys_file_unref(m->file);
    m->file = f; /* [MRK-4] */
    m->pos = bytes.size;
    m->synced = m->written;
    m->name_dirty = true;
    return sync_name(m);
}

enum err marks_fold(struct marks *m, const struct mark_entry *entries, uint32_t count,
                    uint32_t generation)
{
    size_t size = ((size_t)count + 1) * MARKS_ENTRY_SIZE;
    uint8_t *buf = mem_alloc(size);
    if (!buf) { return ERR_NOMEM; }
    encode_header(buf);
    for (uint32_t i = 0; i < count; i++) {
        encode_entry(&entries[i], buf + ((size_t)i + 1) * MARKS_ENTRY_SIZE);
    }
    sys_mutex_lock(&m->lock);
    /* Something was lowered while the caller collected its entries: they may say too much. */
    enum err e = generation == m->generation ? replace_file(m, slice_of(buf, size)) : ERR_AGAIN;
    sys_mutex_unlock(&m->lock);
    mem_free(buf);
    return e;
}

/* ---- reading ---- */

#define STATE_KEY_SIZE 20u

static void state_key(uint8_t key[STATE_KEY_SIZE], struct uuid id, int32_t partition)
{
    memcpy(key, id.b, 16);
    memcpy(key + 16, &partition, 4);
}

struct mark_state *marks_state(const struct map *states, struct uuid topic_id, int32_t partition)
{
    uint8_t key[STATE_KEY_SIZE];
    state_key(key, topic_id, partition);
    return map_get(states, slice_of(key, sizeof key));
}

static void state_apply(struct mark_state *s, const struct mark_entry *e)
{
    if (e->kind == MARK_START) {
        s->start = e->mark.offset;
        return;
    }
    if (e->hw > s->hw) { s->hw = e->hw; }
    if (e->kind == MARK_LOWERED && s->hw > e->mark.offset) { s->hw = e->mark.offset; }
    /* A log that came after the fold is looked at from its beginning. */
    if (!s->has_mark) { s->from = (struct log_mark){.epoch = -1}; }
    bool lower = e->kind == MARK_LOWERED && e->mark.offset < s->from.offset;
    if (e->kind == MARK_FOLD || lower) { s->from = e->mark; }
    if (e->kind == MARK_FOLD) { s->was_folded = true; }
    s->mark = e->mark;
    s->has_mark = true;
}

static enum err state_note(struct map *out, const struct mark_entry *e)
{
    struct mark_state *s = marks_state(out, e->topic_id, e->partition);
    if (!s) {
        s = mem_new(struct mark_state);
        if (!s) { return ERR_NOMEM; }
        s->start = s->hw = -1;
        uint8_t key[STATE_KEY_SIZE];
        state_key(key, e->topic_id, e->partition);
        enum err err = map_put(out, slice_of(key, sizeof key), s, NULL);
        if (err) {
            mem_free(s);
            return err;
        }
    }
    state_apply(s, e);
    return ERR_OK;
}

enum err marks_read(struct sys *sys, const char *dir_path, struct map *out)
{
    char path[LOG_PATH_SIZE];
    int n = snprintf(path, sizeof path, "%s/" LOGDIR_MARKS, dir_path);
    CHECK(n > 0 && (size_t)n < sizeof path);
    map_init(out);
    uint8_t *at = NULL;
    size_t size = 0;
    enum err e = smallfile_read(sys, path, &at, &size);
    if (e) { return e; }
    if (size < MARKS_ENTRY_SIZE || memcmp(at, marks_magic, sizeof marks_magic) != 0) {
        e = ERR_CORRUPT;
    }
    for (size_t p = MARKS_ENTRY_SIZE; !e && p + MARKS_ENTRY_SIZE <= size; p += MARKS_ENTRY_SIZE) {
        struct mark_entry entry;
        if (decode_entry(at + p, &entry)) { e = state_note(out, &entry); }
    }
    mem_free(at);
    if (e) { marks_states_fini(out); }
    return e;
}

void marks_states_fini(struct map *states)
{
    for (size_t i = 0; i < states->count; i++) {
        mem_free(states->entries[i].value);
    }
    map_fini(states);
    map_init(states);
}
