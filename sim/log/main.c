/* main.c - one log directory alone: appends, flushes, rolls and truncations among power cuts. The
 * broker of one never truncates a log while it runs; a follower does, so the log is asked directly.
 *
 *   sim_log --seeds 100 [--from 1]   as many runs; the first failure prints seed and trace
 *   sim_log --must-fail 100          a planted bug: success when one of so many runs finds it
 *
 * Invariants: [SLG-1] after a power cut everything below the synced end that the log told, and
 * below a truncation under way, is there and the same. [SLG-2] behind it is only what was appended
 * at that offset once. [SLG-3] nothing is called rot: nothing rotted. */
#include "base/check.h"
#include "base/mem.h"
#include "log/dir.h"
#include "sim/broker/bytes.h"
#include "sim/machine.h"
#include "wire/codec.h"
#include "wire/writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define OFFSETS_MAX 4096
#define EVER_MAX 64
#define BATCH_RECORDS_MAX 4
#define CRASHES 12

struct book {
    struct sim *sim;
    struct log *log; /* of the process that is up */
    bool is_verified; /* it is open, and 'current' is what it holds */
    struct codec_scratch *scratch;
    uint64_t current[OFFSETS_MAX]; /* record number + 1 at each offset; 0: none */
    uint64_t ever[OFFSETS_MAX][EVER_MAX];
    int64_t base[OFFSETS_MAX]; /* of the batch at each offset */
    uint64_t number_next;
    int64_t floor; /* where a truncation under way may cut */
    int64_t required; /* the end of what must be there after the last crash */
};

static void note_record(struct book *b, int64_t offset, uint64_t number)
{
    CHECK(offset >= 0 && offset < OFFSETS_MAX);
    b->current[offset] = number + 1;
    for (size_t i = 0; i < EVER_MAX; i++) {
        if (b->ever[offset][i] == 0) {
            b->ever[offset][i] = number + 1;
            return;
        }
    }
    CHECKF(b->ever[offset][EVER_MAX - 1] == 0, "offset %" PRId64 " was written too often", offset);
}

static bool was_written(const struct book *b, int64_t offset, uint64_t number)
{
    for (size_t i = 0; i < EVER_MAX && b->ever[offset][i]; i++) {
        if (b->ever[offset][i] == number + 1) { return true; }
    }
    return false;
}

/* ---- on fibers of the process ---- */

static void append(struct book *b, struct sys *sys)
{
    struct sim_batch batch = {.producer_id = -1,
                              .producer_epoch = -1,
                              .base_sequence = -1,
                              .count = 1 + (uint32_t)sim_below(b->sim, BATCH_RECORDS_MAX),
                              .first = {.producer = 1, .number = b->number_next}};
    b->number_next += batch.count;
    int64_t at = log_leo(b->log);
    for (uint32_t i = 0; i < batch.count; i++) { /* before: a crash may come in the middle */
        note_record(b, at + i, batch.first.number + i);
        b->base[at + i] = at;
    }
    struct bytes bytes = {0};
    struct wire_buf recompressed;
    wire_buf_init(&recompressed, 1 << 20);
    batch_put(&bytes, &batch, sys_wall_ms(sys));
    struct log_append_args args = {.records = {bytes.at, bytes.size},
                                   .now_ms = sys_wall_ms(sys),
                                   .origin = LOG_FROM_CLIENT,
                                   .may_block = true,
                                   .scratch = b->scratch,
                                   .recompressed = &recompressed};
    struct log_append_result result;
    log_append(b->log, (struct log_append_args *[]){&args}, (struct log_append_result *[]){&result},
               1);
    CHECKF(!result.err && result.first_offset == at, "append at %" PRId64 ": %s", at,
           err_name(result.err));
    wire_buf_fini(&recompressed);
    bytes_free(&bytes);
}

static void truncate_some(struct book *b)
{
    int64_t to = log_leo(b->log) - (int64_t)sim_below(b->sim, 30);
    /* Between batches, as a follower does: epochs begin and end there. */
    to = to < 0 ? 0 : to == log_leo(b->log) ? to : b->base[to];
    b->floor = to;
    enum err e = log_truncate_to(b->log, to);
    CHECK(!e && log_leo(b->log) == to);
    for (int64_t o = to; o < OFFSETS_MAX; o++) {
        b->current[o] = 0;
    }
    b->floor = INT64_MAX;
}

static void verify_batches(struct book *b, struct slice bytes, int64_t *next)
{
    struct look l = {.at = bytes.at, .left = bytes.size};
    struct sim_batch batch;
    while (batch_look(&l, &batch)) {
        CHECKF(batch.base_offset == *next && !batch.is_rotten,
               "batch %" PRId64 " where %" PRId64 " is due", batch.base_offset, *next);
        for (uint32_t i = 0; i < batch.count; i++, ++*next) {
            uint64_t number = batch.first.number + i;
            CHECKF(was_written(b, *next, number), "[SLG-2] offset %" PRId64, *next);
            CHECKF(*next >= b->required || b->current[*next] == number + 1,
                   "[SLG-1] offset %" PRId64 " is another record; synced to %" PRId64, *next,
                   b->required);
            b->current[*next] = number + 1;
            b->base[*next] = batch.base_offset;
        }
    }
    CHECK(l.left == 0);
}

static void verify(struct book *b)
{
    int64_t leo = log_leo(b->log), next = 0;
    CHECKF(leo >= b->required, "[SLG-1] the log ends at %" PRId64 ", %" PRId64 " was synced", leo,
           b->required);
    CHECKF(log_rot_count(b->log) == 0, "[SLG-3] %" PRIu64 " rotten ranges", log_rot_count(b->log));
    while (next < leo) {
        struct log_read_args args = {.offset = next,
                                     .offset_max = leo,
                                     .bytes_max = 4000,
                                     .min_one = true,
                                     .may_block = true};
        struct log_slice slice;
        enum err e = log_read(b->log, &args, &slice);
        CHECKF(!e && slice.size > 0, "read at %" PRId64 " of %" PRId64 ": %s", next, leo,
               err_name(e));
        uint8_t *buf = mem_alloc(slice.size);
        size_t got;
        CHECK(buf);
        e = sys_file_read(slice.file, buf, slice.size, slice.pos, &got);
        CHECK(!e && got == slice.size);
        verify_batches(b, slice_of(buf, got), &next);
        mem_free(buf);
        log_slice_release(&slice);
    }
    for (int64_t o = leo; o < OFFSETS_MAX; o++) {
        b->current[o] = 0;
    }
}

static void log_main(struct sys *sys, void *ctx)
{
    struct book *b = ctx;
    struct logdir *dir;
    struct log_config config;
    log_config_defaults(&config);
    config.segment_index_bytes = 96;
    config.index_interval_bytes = 200;
    struct logdir_options options = {.path = "d1/logs",
                                     .cluster_id = "sim",
                                     .node_id = 1,
                                     .recovery_threads = 2,
                                     .flush_policy = LOG_FLUSH_GROUP,
                                     .config = config,
                                     .logger = sys_logger(sys)};
    enum err e = logdir_open(sys, &options, &dir);
    CHECK(!e);
    struct log *log = logdir_find(dir, "t", 0);
    if (log && uuid_is_zero(log_topic_id(log))) { /* as the broker does with who has no id */
        e = logdir_stray_log(dir, log);
        CHECK(!e);
        log_unref(log);
        log = NULL;
    }
    if (!log) {
        CHECKF(b->required == 0, "[SLG-1] the log is gone, %" PRId64 " was synced", b->required);
        struct logdir_create_options create = {
            .topic = "t", .topic_id = {.b = {1, 2, 3}}, .config = config};
        e = logdir_create_log(dir, &create, &log);
        CHECK(!e);
    }
    b->scratch = codec_scratch_create();
    CHECK(b->scratch);
    b->log = log;
    verify(b);
    b->is_verified = true;
    b->required = 0;
    for (;;) {
        uint64_t what = sim_below(b->sim, 100);
        e = ERR_OK;
        if (what < 60) {
            append(b, sys);
        } else if (what < 70) {
            e = logdir_flush(dir);
        } else if (what < 80) {
            truncate_some(b);
        } else if (what < 85) {
            e = log_roll(log, sys_wall_ms(sys));
        } else {
            _Atomic int never = 0;
            uint64_t ns = sim_below(b->sim, 5 * SYS_MS);
            (void)sys_wait_flag(sys, &never, sys_mono_ns(sys) + ns);
        }
        CHECKF(!e, "%s", err_name(e));
    }
}

/* ---- the harness ---- */

static void run(uint64_t seed)
{
    struct book *b = calloc(1, sizeof *b);
    CHECK(b);
    b->sim = sim_create(&(struct sim_options){.seed = seed, .preempt_permille = 50});
    b->floor = INT64_MAX;
    struct sim_host *host = sim_host_create(b->sim, "b1");
    for (int i = 0; i < CRASHES; i++) {
        b->is_verified = false;
        sim_boot(host, log_main, b);
        uint64_t ms = 5 + sim_below(b->sim, 60);
        sim_run_until(b->sim, sim_now_ns(b->sim) + ms * SYS_MS);
        if (b->is_verified) {
            int64_t synced = log_synced(b->log);
            int64_t floor = b->floor > 0 ? b->floor : 0;
            b->required = synced < floor ? synced : floor;
            sim_note(b->sim, "must keep up to %" PRId64, b->required);
        } /* else: it was still being read, the old promise holds */
        b->floor = INT64_MAX;
        sim_crash(host, SIM_KEEP_BY_CHANCE);
    }
    sim_destroy(b->sim);
    free(b);
}

static bool fails(uint64_t seed)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(STDERR_FILENO);
        run(seed);
        _exit(0);
    }
    int status = 0;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

int main(int argc, char **argv)
{
    uint64_t from = 1, count = 1;
    bool must_fail = false;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--from") == 0) {
            from = value;
        } else {
            must_fail = strcmp(argv[i], "--must-fail") == 0;
            count = value;
        }
    }
    for (uint64_t seed = from; seed < from + count; seed++) {
        if (!must_fail) {
            run(seed);
        } else if (fails(seed)) {
            (void)printf("found by seed %" PRIu64 "\n", seed);
            return 0;
        }
    }
    (void)printf("%" PRIu64 " runs%s\n", count, must_fail ? " did not find it" : "");
    return must_fail;
}
