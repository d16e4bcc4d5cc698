/* marks_fuzz.c - the file of synced marks, and what a recovery makes of it.
 *
 * Input: a byte of flags, then the file. Oracles: reading never fails over bytes; a mark that is
 * written behind them is the one that counts; a log of whole batches loses nothing unless a mark
 * with a right checksum points into the middle of one. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "fuzz/folder.h"
#include "log/dir_int.h"

enum { FLAG_REPAIR = 1 }; /* magic and checksums are made right */
#define BATCHES 5

static struct sys *sys;
static struct log_env env;
static struct log_config config;
static _Atomic bool offline;
static struct wire_buf segment; /* BATCHES of one record */
static const struct uuid topic_id = {.b = {1, 2, 3}};

static void init(void)
{
    folder_make();
    sys = sys_create();
    CHECK(sys != NULL);
    char path[128];
    snprintf(path, sizeof path, "%s/t-0", folder);
    enum err e = sys_dir_create(sys, path);
    CHECK(!e);
    log_config_defaults(&config);
    env = (struct log_env){
        .sys = sys, .dir_path = folder, .policy = LOG_FLUSH_OS, .offline = &offline};
    wire_buf_init(&segment, 1u << 20);
    for (int64_t i = 0; i < BATCHES; i++) {
        struct batch_build_record r = {.timestamp = 1700000000000, .value = SLICE_LIT("value")};
        struct batch_build_options o = BATCH_BUILD_PLAIN;
        o.base_offset = i;
        e = batch_build(&o, &r, 1, NULL, &segment);
        CHECK(!e);
    }
}

static void repair(uint8_t *at, size_t size)
{
    if (size >= 8) { memcpy(at, "BBMARKS1", 8); }
    for (size_t p = MARKS_ENTRY_SIZE; p + MARKS_ENTRY_SIZE <= size; p += MARKS_ENTRY_SIZE) {
        uint32_t crc = __builtin_bswap32(crc32c(0, at + p + 4, MARKS_ENTRY_SIZE - 4));
        memcpy(at + p, &crc, sizeof crc);
    }
}

/* Whether a mark names a batch's head, as every one that was written does: it is believed. */
static bool is_true(const struct log_mark *mark)
{
    if (mark->base != 0) { return true; }
    return mark->offset < 1000 && mark->pos == (uint64_t)mark->offset * (segment.size / BATCHES);
}

/* As load.c does it for a directory with marks. */
static void recover(const struct mark_state *s)
{
    folder_write("t-0/00000000000000000000.log", wire_buf_slice(&segment));
    struct log *log = NULL;
    struct log_seed seed = {.topic = "t", .topic_id = topic_id, .config = &config};
    enum err e = log_new(&env, &seed, 0, &log);
    CHECK(!e);
    struct log_recovery r = {.from = s->from, .mark = s->mark, .is_ours = true};
    r.has_mark = s->has_mark;
    if (s->start > 0) { r.start = s->start; }
    if (s->hw > 0) { r.hw = s->hw; }
    if (!s->has_mark) { r.from.base = r.mark.base = -1; }
    log_lock(log);
    log_files_begin(log);
    e = log_recover(log, &r);
    log_files_end(log);
    log_unlock(log);
    CHECKF(!e && !atomic_load(&offline), "recovery failed: %s", err_name(e));
    if (is_true(&s->from) && is_true(&s->mark)) {
        CHECKF(log_leo(log) >= BATCHES, "leo is %lld", (long long)log_leo(log));
        CHECK(log_size_bytes(log) == segment.size);
    }
    CHECK(log_start_offset(log) <= log_leo(log) && log_hw(log) <= log_leo(log));
    log_unref(log);
}

static void write_one(struct marks *m)
{
    struct mark_entry entry = {.topic_id = topic_id,
                               .partition = 7,
                               .kind = MARK_LOWERED,
                               .mark = {.offset = 3, .base = 0, .pos = 99, .epoch = 4},
                               .hw = 2};
    enum err e = marks_put(m, &entry, false);
    CHECK(!e);
    struct map states;
    e = marks_read(sys, folder, &states);
    CHECK(!e);
    const struct mark_state *s = marks_state(&states, topic_id, 7);
    CHECK(s && s->has_mark && s->mark.offset == 3 && s->mark.pos == 99 && s->hw <= 3);
    marks_states_fini(&states);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!sys) { init(); }
    if (size < 1) { return 0; }
    uint8_t *file = mem_alloc(size);
    CHECK(file != NULL);
    memcpy(file, data + 1, size - 1);
    if (data[0] & FLAG_REPAIR) { repair(file, size - 1); }
    folder_write(LOGDIR_MARKS, slice_of(file, size - 1));
    mem_free(file);
    struct map states;
    enum err e = marks_read(sys, folder, &states);
    CHECKF(e == ERR_OK || e == ERR_CORRUPT, "%s", err_name(e));
    if (e) {
        char path[128];
        snprintf(path, sizeof path, "%s/" LOGDIR_MARKS, folder);
        e = sys_path_unlink(sys, path);
        CHECK(!e);
    } else {
        const struct mark_state *s = marks_state(&states, topic_id, 0);
        if (s) { recover(s); }
        marks_states_fini(&states);
    }
    struct marks m;
    marks_init(&m, sys, folder);
    e = marks_open(&m);
    CHECK(!e);
    write_one(&m);
    marks_fini(&m);
    return 0;
}
