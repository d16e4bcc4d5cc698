/* fixture.h - a data directory under a temporary path, and batches to fill it with.
 *
 * Place:      tests of log/.
 * Thread:     the test's own; flusher and keeper run behind it. Directories are made in $TMPDIR or
 *             /tmp and removed at the end. */
#ifndef TESTS_LOG_FIXTURE_H
#define TESTS_LOG_FIXTURE_H

#include "log/dir_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define NOW_MS 1700000000000LL

struct fixture {
    struct sys *sys;
    char root[256];
    char path[300]; /* root/data */
    struct logdir *dir;
    struct logdir_options options;
    struct codec_scratch *scratch;
    struct wire_buf batch;
    struct wire_buf recompressed;
    struct uuid topic_id;
    _Atomic int64_t synced; /* last on_synced */
    _Atomic int offline;
};

static inline void fixture_on_synced(void *ctx, struct log *log, int64_t synced)
{
    struct fixture *f = ctx;
    (void)log;
    atomic_store(&f->synced, synced);
}

static inline void fixture_on_offline(void *ctx, struct logdir *dir, enum err cause)
{
    struct fixture *f = ctx;
    (void)dir;
    (void)cause;
    sys_signal_flag(f->sys, &f->offline, 1);
}

static inline void fixture_shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline void fixture_shell(const char *fmt, ...)
{
    char cmd[2048];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(cmd, sizeof cmd, fmt, args);
    va_end(args);
    assert_true(n > 0 && (size_t)n < sizeof cmd);
    assert_int_equal(system(cmd), 0);
}

static inline void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    const char *tmp = getenv("TMPDIR");
    snprintf(f->root, sizeof f->root, "%s/bb-log-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->root));
    snprintf(f->path, sizeof f->path, "%s/data", f->root);
    f->sys = sys_create();
    assert_non_null(f->sys);
    f->scratch = codec_scratch_create();
    assert_non_null(f->scratch);
    wire_buf_init(&f->batch, 64u << 20);
    wire_buf_init(&f->recompressed, 64u << 20);
    for (size_t i = 0; i < 16; i++) {
        f->topic_id.b[i] = (uint8_t)(i + 1);
    }
    f->options = (struct logdir_options){
        .cluster_id = "cluster-of-tests",
        .node_id = 1,
        .recovery_threads = 2,
        .callbacks = {.ctx = f, .on_synced = fixture_on_synced, .on_offline = fixture_on_offline},
    };
    if (getenv("LOG_TEST_VERBOSE")) { f->options.logger = sys_logger(f->sys); }
    log_config_defaults(&f->options.config);
    f->options.config.producer_expiration_ms = INT64_MAX;
}

static inline void fixture_open(struct fixture *f)
{
    f->options.path = f->path;
    f->options.cluster_id = "cluster-of-tests";
    assert_int_equal(logdir_open(f->sys, &f->options, &f->dir), ERR_OK);
}

static inline void fixture_close(struct fixture *f, bool clean)
{
    logdir_close(f->dir, &(struct logdir_close_options){.clean = clean, .broker_epoch = 7});
    f->dir = NULL;
}

static inline void fixture_fini(struct fixture *f)
{
    if (f->dir) { fixture_close(f, false); }
    codec_scratch_destroy(f->scratch);
    wire_buf_fini(&f->batch);
    wire_buf_fini(&f->recompressed);
    sys_destroy(f->sys);
    fixture_shell("rm -rf '%s'", f->root);
}

/* For cmocka: the state of a test is its fixture. */
static inline int fixture_setup(void **state)
{
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f);
    *state = f;
    return 0;
}

/* The same with its directory open. */
static inline int fixture_setup_open(void **state)
{
    fixture_setup(state);
    fixture_open(*state);
    return 0;
}

static inline int fixture_teardown(void **state)
{
    fixture_fini(*state);
    free(*state);
    return 0;
}

/* A second directory beside the first: g has its callbacks' state and nothing else of its own. */
static inline void fixture_open_peer(struct fixture *f, struct fixture *g)
{
    memset(g, 0, sizeof *g);
    g->sys = f->sys;
    g->topic_id = f->topic_id;
    g->options = f->options;
    g->options.callbacks.ctx = g;
    g->options.peers = &f->dir;
    g->options.peers_count = 1;
    snprintf(g->path, sizeof g->path, "%s/peer", f->root);
    fixture_open(g);
}

static inline struct log *fixture_create(struct fixture *f, const char *topic)
{
    struct log *log = NULL;
    struct logdir_create_options o = {
        .topic = topic, .topic_id = f->topic_id, .config = f->options.config};
    assert_int_equal(logdir_create_log(f->dir, &o, &log), ERR_OK);
    return log;
}

static inline struct log *fixture_find(struct fixture *f, const char *topic)
{
    struct log *log = logdir_find(f->dir, topic, 0);
    assert_non_null(log);
    return log;
}

struct fixture_batch {
    int32_t count; /* records, 0: 1 */
    size_t value_size; /* 0: 10 */
    int64_t time; /* of the first; each next one ms later. 0: NOW_MS */
    int64_t producer_id; /* 0: none */
    int16_t producer_epoch;
    int32_t sequence;
    int32_t leader_epoch;
    enum codec codec;
    bool expect_error;
};

/* Builds a batch in f->batch. */
static inline struct mslice fixture_build(struct fixture *f, const struct fixture_batch *b)
{
    static uint8_t value[1 << 20];
    size_t count = b->count ? (size_t)b->count : 1;
    struct batch_build_record *records = calloc(count, sizeof *records);
    assert_non_null(records);
    for (size_t i = 0; i < count; i++) {
        records[i].timestamp = (b->time ? b->time : NOW_MS) + (int64_t)i;
        records[i].value = slice_of(value, b->value_size ? b->value_size : 10);
        records[i].key = slice_of("k", 1);
    }
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    o.codec = b->codec;
    if (b->producer_id) {
        o.producer_id = b->producer_id;
        o.producer_epoch = b->producer_epoch;
        o.base_sequence = b->sequence;
    }
    size_t at = f->batch.size;
    assert_int_equal(batch_build(&o, records, count, f->scratch, &f->batch), ERR_OK);
    free(records);
    return (struct mslice){f->batch.at + at, f->batch.size - at};
}

static inline enum err fixture_append_one(struct log *log, struct log_append_args *a,
                                          struct log_append_result *r)
{
    log_append(log, &a, &r, 1);
    return r->err;
}

static inline struct log_append_result fixture_append(struct fixture *f, struct log *log,
                                                      struct fixture_batch b)
{
    f->batch.size = 0;
    struct log_append_args a = {.records = fixture_build(f, &b),
                                .now_ms = NOW_MS,
                                .leader_epoch = b.leader_epoch,
                                .zstd_allowed = true,
                                .may_block = true,
                                .scratch = f->scratch,
                                .recompressed = &f->recompressed};
    struct log_append_result r;
    enum err e = fixture_append_one(log, &a, &r);
    assert_int_equal(e, r.err);
    if (!b.expect_error) { assert_int_equal(e, ERR_OK); }
    return r;
}

/* Appends batches of one record until leo is 'end'. */
static inline void fixture_fill(struct fixture *f, struct log *log, int64_t end)
{
    while (log_leo(log) < end) {
        fixture_append(f, log, (struct fixture_batch){.value_size = 100});
    }
}

/* Bytes of a read, in a malloc'ed block. */
static inline uint8_t *fixture_slice_bytes(const struct log_slice *s)
{
    uint8_t *at = malloc(s->size + 1);
    assert_non_null(at);
    size_t got = 0;
    assert_int_equal(sys_file_read(s->file, at, s->size, s->pos, &got), ERR_OK);
    assert_int_equal(got, s->size);
    return at;
}

/* Reads the log from its start to leo in pieces of bytes_max, checks every batch, and returns how
 * many records there are. Offsets must be dense. */
static inline int64_t fixture_read_all(struct log *log, size_t bytes_max)
{
    int64_t offset = log_start_offset(log), records = 0;
    while (offset < log_leo(log)) {
        struct log_read_args a = {.offset = offset,
                                  .offset_max = log_leo(log),
                                  .bytes_max = bytes_max,
                                  .min_one = true,
                                  .may_block = true};
        struct log_slice s;
        assert_int_equal(log_read(log, &a, &s), ERR_OK);
        assert_true(s.size > 0);
        assert_true(s.offset_first <= offset);
        uint8_t *bytes = fixture_slice_bytes(&s);
        size_t at = 0;
        while (at < s.size) {
            struct batch_header h;
            struct slice left = slice_of(bytes + at, s.size - at);
            assert_int_equal(batch_peek(left, &h), ERR_OK);
            assert_true(batch_size(&h) <= left.size); /* [LOG-5] */
            assert_int_equal(batch_check_crc(left), ERR_OK);
            assert_true(h.base_offset <= offset && batch_last_offset(&h) >= offset);
            records += batch_last_offset(&h) + 1 - offset;
            offset = batch_last_offset(&h) + 1;
            at += batch_size(&h);
        }
        assert_int_equal(s.offset_next, offset);
        free(bytes);
        log_slice_release(&s);
    }
    return records;
}

static inline enum err fixture_read_at(struct log *log, int64_t offset, size_t bytes_max,
                                       bool min_one, struct log_slice *s)
{
    struct log_read_args a = {.offset = offset,
                              .offset_max = log_leo(log),
                              .bytes_max = bytes_max,
                              .min_one = min_one,
                              .may_block = true};
    return log_read(log, &a, s);
}

#endif
