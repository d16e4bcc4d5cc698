/* segment_fuzz.c - the files of a partition after an unclean stop: recovery, indexes, reads.
 *
 * Input: flags, offset of the synced mark, size of .index and of .timeindex (two bytes each), then
 * .index, .timeindex, .log. Oracles: recovery never fails over bytes; what is left reads as whole
 * batches with right checksums and rising offsets, or as rot, and nothing lies between two reads;
 * the log takes another batch. */
#include "fuzz/fuzz.h"
#include "fuzz/repair.h"
#include "log/log_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    FLAG_REPAIR = 1, /* checksums are made right */
    FLAG_MARK = 2, /* a synced mark is known */
    FLAG_TRUST = 4, /* ... and what is below it was looked at before */
    FLAG_HW = 8, /* so was the high watermark */
    FLAG_PLACED = 16, /* the mark says where in the file it is */
};
#define INPUT_HEAD 6u
#define NOW_MS 1700000000000

static struct {
    char root[64];
    struct sys *sys;
    struct codec_scratch *scratch;
    struct wire_buf batch;
    struct wire_buf spare;
    struct log_config config;
    struct log_env env;
    _Atomic bool offline;
} fuzz;

static void remove_root(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", fuzz.root);
    if (fuzz.root[0] && system(command) != 0) { fprintf(stderr, "%s is left\n", fuzz.root); }
}

static void init(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(fuzz.root, sizeof fuzz.root, "%s/bb-fuzz-XXXXXX", base);
    CHECK(mkdtemp(fuzz.root) != NULL);
    atexit(remove_root);
    fuzz.sys = sys_create();
    fuzz.scratch = codec_scratch_create();
    CHECK(fuzz.sys && fuzz.scratch);
    wire_buf_init(&fuzz.batch, (size_t)1 << 20);
    wire_buf_init(&fuzz.spare, (size_t)1 << 20);
    log_config_defaults(&fuzz.config);
    fuzz.config.producer_expiration_ms = INT64_MAX;
    fuzz.env = (struct log_env){
        .sys = fuzz.sys, .dir_path = fuzz.root, .policy = LOG_FLUSH_OS, .offline = &fuzz.offline};
    char path[128];
    snprintf(path, sizeof path, "%s/t-0", fuzz.root);
    enum err e = sys_dir_create(fuzz.sys, path);
    CHECK(!e);
}

static void write_file(const char *suffix, struct slice bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/t-0/00000000000000000000%s", fuzz.root, suffix);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    CHECK(fwrite(bytes.at, 1, bytes.size, f) == bytes.size);
    CHECK(fclose(f) == 0);
}

static enum err remove_file(void *ctx, const char *name, bool is_dir)
{
    char path[512];
    (void)ctx;
    CHECK(!is_dir);
    snprintf(path, sizeof path, "%s/t-0/%s", fuzz.root, name);
    return sys_path_unlink(fuzz.sys, path);
}

static void empty_dir(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/t-0", fuzz.root);
    enum err e = sys_dir_list(fuzz.sys, path, remove_file, NULL);
    CHECK(!e);
}

struct bound {
    uint64_t pos;
    int64_t offset;
    bool is_sound; /* checksums count too */
};

/* Behind the last batch that ends at or before the bound. */
static struct log_mark place_mark(struct slice log, const struct bound *b)
{
    struct log_mark m = {.base = 0, .epoch = -1};
    while (log.size > 0) {
        struct batch_header h;
        if (batch_peek(log, &h) != ERR_OK || batch_size(&h) > log.size ||
            h.base_offset < m.offset || h.last_offset_delta < 0 ||
            h.base_offset > INT64_MAX - INT32_MAX - 1 || batch_last_offset(&h) >= b->offset ||
            m.pos + batch_size(&h) > b->pos || (b->is_sound && batch_check_crc(log) != ERR_OK)) {
            break;
        }
        m.offset = batch_last_offset(&h) + 1;
        m.pos += batch_size(&h);
        log = slice_sub(log, batch_size(&h), log.size);
    }
    return m;
}

/* Index entries of what is trusted were right when they were written; the others may say anything.
 */
static size_t right_index(uint8_t *index, size_t size, struct slice log, uint64_t trusted)
{
    size_t kept = 0;
    for (size_t at = 0; at + 8 <= size; at += 8) {
        uint64_t pos = (uint64_t)index[at + 4] << 24 | (uint64_t)index[at + 5] << 16 |
                       (uint64_t)index[at + 6] << 8 | index[at + 7];
        memmove(index + kept, index + at, 8);
        if (pos < trusted) {
            struct log_mark m = place_mark(log, &(struct bound){.pos = pos, .offset = INT64_MAX});
            struct batch_header h;
            enum err e = batch_peek(slice_sub(log, m.pos, log.size), &h);
            CHECK(!e);
            int64_t last = batch_last_offset(&h);
            if (m.pos != pos || last > INT32_MAX) { continue; }
            for (size_t k = 0; k < 4; k++) {
                index[kept + k] = (uint8_t)(last >> (24 - 8 * k));
            }
        }
        kept += 8;
    }
    return kept;
}

/* Checks the batches of one read from offset on. */
static void check_slice(const struct log_slice *s, int64_t offset)
{
    uint8_t *at = malloc(s->size);
    size_t got = 0;
    CHECK(at != NULL);
    enum err e = sys_file_read(s->file, at, s->size, s->pos, &got);
    CHECK(!e && got == s->size);
    int64_t next = s->offset_first;
    for (size_t pos = 0; pos < got;) {
        struct batch_header h;
        struct slice left = slice_of(at + pos, got - pos);
        e = batch_peek(left, &h);
        CHECK(!e && batch_size(&h) <= left.size);
        CHECK(h.base_offset >= next && batch_last_offset(&h) >= h.base_offset);
        CHECK(batch_check_crc(left) == ERR_OK);
        next = batch_last_offset(&h) + 1;
        pos += batch_size(&h);
    }
    CHECK(next == s->offset_next && next > offset);
    free(at);
}

/* The first position at or behind pos that is not known to be rotten. */
static uint64_t skip_rot(struct log *log, uint64_t pos)
{
    struct log_rot rot;
    log_lock(log);
    while (log_rot_find_pos(log, 0, pos, &rot)) {
        pos = rot.pos_end;
    }
    log_unlock(log);
    return pos;
}

static void read_all(struct log *log, size_t bytes_max)
{
    int64_t offset = log_start_offset(log);
    int64_t end = log_leo(log);
    uint64_t pos = 0;
    for (int rounds = 0; offset < end && rounds < 1000; rounds++) {
        struct log_read_args a = {.offset = offset,
                                  .offset_max = end,
                                  .bytes_max = bytes_max,
                                  .min_one = true,
                                  .may_block = true};
        struct log_slice s;
        enum err e = log_read(log, &a, &s);
        if (e) {
            CHECKF(e == ERR_CORRUPT || e == ERR_RANGE, "a read at %lld says %s", (long long)offset,
                   err_name(e));
            offset++;
            continue;
        }
        CHECK(s.size > 0);
        CHECKF(skip_rot(log, pos) == s.pos, "a read at %lld begins at %llu, the last ended at %llu",
               (long long)offset, (unsigned long long)s.pos, (unsigned long long)pos);
        check_slice(&s, offset);
        offset = s.offset_next;
        pos = s.pos + s.size;
        log_slice_release(&s);
    }
    struct log_time_offset t;
    err_ignore(log_offset_by_time(log, 1700000000000, end, &t), "rot may be in the way");
    err_ignore(log_offset_of_max_time(log, &t), "rot may be in the way");
}

static void append_one(struct log *log)
{
    struct batch_build_record r = {.timestamp = NOW_MS, .value = SLICE_LIT("value")};
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    int64_t leo = log_leo(log);
    fuzz.batch.size = 0;
    enum err e = batch_build(&o, &r, 1, NULL, &fuzz.batch);
    CHECK(!e);
    struct log_append_args *a =
        &(struct log_append_args){.records = {fuzz.batch.at, fuzz.batch.size},
                                  .now_ms = NOW_MS,
                                  .leader_epoch = INT32_MAX,
                                  .zstd_allowed = true,
                                  .may_block = true,
                                  .scratch = fuzz.scratch,
                                  .recompressed = &fuzz.spare};
    struct log_append_result *out = &(struct log_append_result){0};
    log_append(log, &a, &out, 1);
    CHECKF(!out->err, "append at %lld: %s", (long long)leo, err_name(out->err));
    CHECK(out->first_offset == leo && log_leo(log) == leo + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!fuzz.sys) { init(); }
    if (size < INPUT_HEAD) { return 0; }
    unsigned flags = data[0];
    struct slice rest = slice_of(data + INPUT_HEAD, size - INPUT_HEAD);
    struct slice index = slice_sub(rest, 0, (size_t)data[2] << 8 | data[3]);
    rest = slice_sub(rest, index.size, rest.size);
    struct slice times = slice_sub(rest, 0, (size_t)data[4] << 8 | data[5]);
    rest = slice_sub(rest, times.size, rest.size);
    uint8_t *bytes = malloc(rest.size + index.size + 1);
    CHECK(bytes != NULL);
    memcpy(bytes, rest.at, rest.size);
    if (flags & FLAG_REPAIR) { repair(bytes, rest.size); }
    struct slice data_file = slice_of(bytes, rest.size);
    struct bound bound = {.pos = UINT64_MAX, .offset = data[1]};
    struct log_mark placed = place_mark(data_file, &bound);
    bound.is_sound = true;
    struct log_mark sound = place_mark(data_file, &bound);
    struct log_recovery r = {.from = {.base = -1, .epoch = -1}, .mark = {.base = -1, .epoch = -1}};
    r.has_mark = (flags & FLAG_MARK) != 0;
    if (r.has_mark) { r.mark.offset = data[1]; }
    if (r.has_mark && flags & FLAG_PLACED) { r.mark = placed; }
    if (r.has_mark && flags & FLAG_TRUST) { r.from = flags & FLAG_PLACED ? sound : r.mark; }
    if (flags & FLAG_HW) { r.hw = data[1]; }
    empty_dir();
    write_file(".log", data_file);
    if (index.size) {
        uint8_t *entries = bytes + rest.size;
        memcpy(entries, index.at, index.size);
        index.size = right_index(entries, index.size, data_file, r.from.pos);
        write_file(".index", slice_of(entries, index.size));
    }
    if (times.size) { write_file(".timeindex", times); }
    free(bytes);

    struct log *log = NULL;
    struct log_seed seed = {.topic = "t", .config = &fuzz.config};
    enum err e = log_new(&fuzz.env, &seed, 0, &log);
    CHECK(!e);
    log_lock(log);
    log_files_begin(log);
    e = log_recover(log, &r);
    log_files_end(log);
    log_unlock(log);
    CHECKF(!e, "recovery failed: %s", err_name(e));
    CHECK(log_start_offset(log) >= 0 && log_leo(log) >= log_start_offset(log));
    read_all(log, 4096);
    read_all(log, 1);
    if (log_leo(log) < INT64_MAX - INT32_MAX - 2) { append_one(log); }
    CHECK(!atomic_load(&fuzz.offline));
    log_unref(log);
    return 0;
}
