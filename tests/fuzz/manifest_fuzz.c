/* manifest_fuzz.c - the manifest that a clean stop leaves.
 *
 * Input: the file; a first byte of 1 has its checksum made right. Oracles: what is accepted makes
 * logs that keep the invariants of a log and is written so that it reads as the same bytes again;
 * what is refused is refused as damage. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "fuzz/folder.h"
#include "log/dir_int.h"

static struct sys *sys;

static void dir_init(struct logdir *dir)
{
    *dir = (struct logdir){.sys = sys, .path = folder};
    log_config_defaults(&dir->options.config);
    sys_mutex_init(&dir->lock, SYS_RANK_LOGDIR);
    map_init(&dir->by_name);
    dir->env = (struct log_env){.sys = sys, .dir_path = folder, .offline = &dir->offline};
}

static void dir_fini(struct logdir *dir)
{
    for (size_t i = 0; i < dir->logs_count; i++) {
        log_unref(dir->logs[i]);
    }
    mem_free(dir->logs);
    map_fini(&dir->by_name);
    sys_mutex_fini(&dir->lock);
}

static void check_log(struct log *log) NO_THREAD_SAFETY
{
    uint64_t size = 0;
    CHECK(log->segments_count > 0);
    for (uint32_t i = 0; i < log->segments_count; i++) {
        const struct segment *s = &log->segments[i];
        CHECK(s->base >= 0 && s->end >= s->base);
        CHECK(i == 0 || s->base >= log->segments[i - 1].end);
        size += s->size;
    }
    CHECK(log_size_bytes(log) == size);
    CHECK(log_active(log)->end == log_leo(log));
    CHECK(log_start_offset(log) >= 0 && log_start_offset(log) <= log_leo(log));
    CHECK(log_hw(log) >= 0 && log_hw(log) <= log_leo(log));
    CHECK(log->rot_count <= LOG_ROT_COUNT_MAX);
    for (uint32_t i = 0; i < log->rot_count; i++) {
        const struct log_rot *r = &log->rot[i];
        CHECK(r->base >= 0 && r->pos < r->pos_end);
        CHECK(r->offset >= r->base && r->offset_end >= r->offset);
    }
    CHECK(log_partition(log) >= 0);
}

static struct slice read_back(const char *name)
{
    char path[128];
    struct slice out = SLICE_NULL;
    uint8_t *at = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    enum err e = smallfile_read(sys, path, &at, &out.size);
    CHECK(!e);
    out.at = at;
    return out;
}

/* Written again and again it stays the same. */
static void check_written(struct logdir *dir)
{
    enum err e = manifest_write(dir);
    CHECK(!e);
    struct slice first = read_back(LOGDIR_MANIFEST);
    struct logdir again;
    dir_init(&again);
    e = manifest_load(&again);
    CHECKF(!e && again.logs_count == dir->logs_count, "%s", err_name(e));
    e = manifest_write(&again);
    CHECK(!e);
    struct slice second = read_back(LOGDIR_MANIFEST);
    CHECK(first.size == second.size && memcmp(first.at, second.at, first.size) == 0);
    mem_free((void *)(uintptr_t)first.at);
    mem_free((void *)(uintptr_t)second.at);
    dir_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!sys) {
        folder_make();
        sys = sys_create();
        CHECK(sys != NULL);
    }
    if (size < 1) { return 0; }
    uint8_t *file = mem_alloc(size);
    CHECK(file != NULL);
    memcpy(file, data + 1, size - 1);
    if (data[0] == 1 && size >= 5) {
        uint32_t crc = __builtin_bswap32(crc32c(0, file, size - 5));
        memcpy(file + size - 5, &crc, sizeof crc);
    }
    folder_write(LOGDIR_MANIFEST, slice_of(file, size - 1));
    mem_free(file);
    struct logdir dir;
    dir_init(&dir);
    enum err e = manifest_load(&dir);
    CHECKF(!e || e == ERR_MALFORMED || e == ERR_CORRUPT || e == ERR_EXISTS, "%s", err_name(e));
    for (size_t i = 0; i < dir.logs_count && !e; i++) {
        check_log(dir.logs[i]);
    }
    if (!e) { check_written(&dir); }
    dir_fini(&dir);
    return 0;
}
