/* index.c - sparse indexes: in memory for the active segment, in Kafka's files for closed ones.
 *
 * Place:      log/, private.
 * Thread:     the in-memory index under the log's lock; files from anywhere.
 * Format:     .index: 8-byte entries (relative last offset u32, position u32); .timeindex: 12-byte
 *             entries (timestamp i64, relative last offset u32). Big endian. Both rise strictly.
 *             Kafka preallocates them with zeros; a clean close trims, a crash does not.
 * Failure:    what a file says is a hint only [SEG-3]; entries that do not rise end the file. */
#include "log/log_int.h"

#define INDEX_CAPACITY_MIN 32u

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}

static void put_u32(uint8_t *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}

static int64_t get_i64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return (int64_t)__builtin_bswap64(v);
}

static void put_i64(uint8_t *p, int64_t x)
{
    uint64_t v = __builtin_bswap64((uint64_t)x);
    memcpy(p, &v, sizeof v);
}

void index_fini(struct index *x)
{
    mem_free(x->at);
    mem_free(x->times);
    *x = (struct index){0};
}

enum err index_add(struct index *x, uint32_t offset, uint32_t pos)
{
    if (x->count == x->capacity) {
        uint32_t n = x->capacity ? x->capacity * 2 : INDEX_CAPACITY_MIN;
        struct index_entry *at = mem_realloc(x->at, n * sizeof *at);
        if (!at) { return ERR_NOMEM; }
        x->at = at;
        x->capacity = n;
    }
    if (x->count > 0 && x->at[x->count - 1].offset >= offset) { return ERR_OK; }
    x->at[x->count++] = (struct index_entry){offset, pos};
    return ERR_OK;
}

enum err index_add_time(struct index *x, int64_t time, uint32_t offset)
{
    if (x->times_count > 0) {
        const struct index_time *last = &x->times[x->times_count - 1];
        if (time <= last->time || offset < last->offset) { return ERR_OK; }
    }
    if (x->times_count == x->times_capacity) {
        uint32_t n = x->times_capacity ? x->times_capacity * 2 : INDEX_CAPACITY_MIN;
        struct index_time *at = mem_realloc(x->times, n * sizeof *at);
        if (!at) { return ERR_NOMEM; }
        x->times = at;
        x->times_capacity = n;
    }
    x->times[x->times_count++] = (struct index_time){time, offset};
    return ERR_OK;
}

/* ---- searches in memory: the number of entries at or below the key, minus one ---- */

bool index_find_offset(const struct index *x, uint32_t offset, struct index_entry *out)
{
    uint32_t low = 0, high = x->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (x->at[mid].offset <= offset) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == 0) { return false; }
    *out = x->at[low - 1];
    return true;
}

bool index_find_pos(const struct index *x, uint32_t pos, struct index_entry *out)
{
    uint32_t low = 0, high = x->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (x->at[mid].pos <= pos) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == 0) { return false; }
    *out = x->at[low - 1];
    return true;
}

bool index_find_time(const struct index *x, int64_t time, struct index_time *out)
{
    uint32_t low = 0, high = x->times_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (x->times[mid].time <= time) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == 0) { return false; }
    *out = x->times[low - 1];
    return true;
}

void index_truncate(struct index *x, uint32_t offset)
{
    while (x->count > 0 && x->at[x->count - 1].offset >= offset) {
        x->count--;
    }
    while (x->times_count > 0 && x->times[x->times_count - 1].offset >= offset) {
        x->times_count--;
    }
}

/* ---- whole files ---- */

static enum err write_file(struct sys *sys, const char *path, const uint8_t *at, size_t size)
{
    struct sys_file *f = NULL;
    enum err e = sys_file_open(sys, path, SYS_WRITE | SYS_CREATE | SYS_TRUNCATE, &f);
    if (e) { return e; }
    if (size > 0) {
        size_t written = 0;
        struct sys_iov iov = {at, size};
        e = sys_file_write(f, &iov, 1, 0, &written);
    }
    sys_file_unref(f);
    return e;
}

enum err index_write(const struct index *x, struct sys *sys, const char *path_index,
                     const char *path_time)
{
    size_t size = (size_t)x->count * INDEX_ENTRY_SIZE;
    size_t times_size = (size_t)x->times_count * TIME_ENTRY_SIZE;
    uint8_t *buf = mem_alloc(size > times_size ? size : times_size);
    if (!buf) { return ERR_NOMEM; }
    for (uint32_t i = 0; i < x->count; i++) {
        put_u32(buf + (size_t)i * INDEX_ENTRY_SIZE, x->at[i].offset);
        put_u32(buf + (size_t)i * INDEX_ENTRY_SIZE + 4, x->at[i].pos);
    }
    enum err e = write_file(sys, path_index, buf, size);
    if (!e) {
        for (uint32_t i = 0; i < x->times_count; i++) {
            put_i64(buf + (size_t)i * TIME_ENTRY_SIZE, x->times[i].time);
            put_u32(buf + (size_t)i * TIME_ENTRY_SIZE + 8, x->times[i].offset);
        }
        e = write_file(sys, path_time, buf, times_size);
    }
    mem_free(buf);
    return e;
}

enum err index_read(struct index *x, struct sys *sys, const char *path_index, const char *path_time,
                    uint64_t segment_size)
{
    uint8_t *at = NULL;
    size_t size = 0;
    enum err e = smallfile_read(sys, path_index, &at, &size);
    if (e == ERR_NOTFOUND) { return ERR_OK; }
    if (e) { return e; }
    for (size_t p = 0; !e && p + INDEX_ENTRY_SIZE <= size; p += INDEX_ENTRY_SIZE) {
        struct index_entry n = {get_u32(at + p), get_u32(at + p + 4)};
        const struct index_entry *last = x->count ? &x->at[x->count - 1] : NULL;
        if (n.pos == 0 || n.pos >= segment_size ||
            (last && (n.offset <= last->offset || n.pos <= last->pos))) {
            break;
        }
        e = index_add(x, n.offset, n.pos);
    }
    mem_free(at);
    if (e) { return e; }
    e = smallfile_read(sys, path_time, &at, &size);
    if (e == ERR_NOTFOUND) { return ERR_OK; }
    if (e) { return e; }
    for (size_t p = 0; !e && p + TIME_ENTRY_SIZE <= size; p += TIME_ENTRY_SIZE) {
        struct index_time n = {get_i64(at + p), get_u32(at + p + 8)};
        const struct index_time *last = x->times_count ? &x->times[x->times_count - 1] : NULL;
        if (last ? (n.time <= last->time || n.offset < last->offset)
                 : (n.time <= 0 && n.offset == 0)) {
            break;
        }
        e = index_add_time(x, n.time, n.offset);
    }
    mem_free(at);
    return e;
}

/* ---- searches in files ---- */

/* Reads entry i into buf. Entries beyond the end or all zero (Kafka's preallocation): *ok false. */
static enum err file_entry(struct sys_file *f, uint64_t i, size_t size, uint8_t *buf, bool *ok)
{
    size_t got = 0;
    enum err e = sys_file_read(f, buf, size, i * size, &got);
    if (e) { return e; }
    *ok = got == size;
    for (size_t k = 0, zeros = 0; *ok && k < size; k++) {
        if (buf[k] == 0 && ++zeros == size) { *ok = false; }
    }
    return ERR_OK;
}

/* The last entry whose key is at most 'key'; the key stands at key_at in the entry. */
struct file_search {
    struct sys_file *file;
    size_t entry_size;
    size_t key_at;
    bool key_is_i64;
    int64_t key;
};

static enum err file_search(const struct file_search *s, bool *found, uint8_t *out)
{
    *found = false;
    uint64_t size = 0;
    enum err e = sys_file_size(s->file, &size);
    if (e) { return e; }
    uint64_t low = 0, high = size / s->entry_size;
    uint8_t buf[TIME_ENTRY_SIZE];
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        bool ok = false;
        e = file_entry(s->file, mid, s->entry_size, buf, &ok);
        if (e) { return e; }
        int64_t key = s->key_is_i64 ? get_i64(buf + s->key_at) : get_u32(buf + s->key_at);
        if (ok && key <= s->key) {
            memcpy(out, buf, s->entry_size);
            *found = true;
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return ERR_OK;
}

static enum err file_find(struct sys_file *f, size_t key_at, uint32_t key, bool *found,
                          struct index_entry *out)
{
    uint8_t buf[TIME_ENTRY_SIZE] = {0};
    struct file_search s = {
        .file = f, .entry_size = INDEX_ENTRY_SIZE, .key_at = key_at, .key = key};
    enum err e = file_search(&s, found, buf);
    if (!e && *found) { *out = (struct index_entry){get_u32(buf), get_u32(buf + 4)}; }
    return e;
}

enum err index_file_find_offset(struct sys_file *f, uint32_t offset, bool *found,
                                struct index_entry *out)
{
    return file_find(f, 0, offset, found, out);
}

enum err index_file_find_pos(struct sys_file *f, uint32_t pos, bool *found, struct index_entry *out)
{
    return file_find(f, 4, pos, found, out);
}

enum err index_file_find_time(struct sys_file *f, int64_t time, bool *found, struct index_time *out)
{
    uint8_t buf[TIME_ENTRY_SIZE] = {0};
    struct file_search s = {
        .file = f, .entry_size = TIME_ENTRY_SIZE, .key_is_i64 = true, .key = time};
    enum err e = file_search(&s, found, buf);
    if (!e && *found) { *out = (struct index_time){get_i64(buf), get_u32(buf + 8)}; }
    return e;
}

enum err index_file_last_time(struct sys_file *f, bool *found, struct index_time *out)
{
    return index_file_find_time(f, INT64_MAX, found, out);
}
