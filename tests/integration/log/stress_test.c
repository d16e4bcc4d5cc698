/* stress_test.c - appenders, readers, the flusher, retention and truncation of the start at once.
 * Meant for ThreadSanitizer; what is read must be whole, in order, and never above the bound. */
#include "unit/log/fixture.h"

#define WRITERS 3
#define READERS 2
#define BATCHES 400

struct worker {
    struct fixture *f;
    struct log *log;
    struct codec_scratch *scratch;
    struct wire_buf batch;
    struct sys_task *task;
    int id;
    int done_count;
    int64_t offset; /* of a reader */
    _Atomic int done;
};

static uint64_t writer_step(void *ctx, uint64_t now_ns)
{
    struct worker *w = ctx;
    if (w->done_count == BATCHES) {
        sys_signal_flag(w->f->sys, &w->done, 1);
        return SYS_NEVER;
    }
    /* Not far ahead of the flusher, so that it and retention have a part in it. */
    log_set_hw(w->log, log_synced(w->log));
    if (log_leo(w->log) - log_synced(w->log) > 20) { return now_ns + SYS_MS / 4; }
    static const uint8_t value[200];
    struct batch_build_record r = {.timestamp = NOW_MS + w->done_count,
                                   .value = slice_of(value, sizeof value)};
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    o.producer_id = w->id + 1;
    o.producer_epoch = 0;
    o.base_sequence = w->done_count;
    w->batch.size = 0;
    CHECK(batch_build(&o, &r, 1, w->scratch, &w->batch) == ERR_OK);
    struct log_append_args *args =
        &(struct log_append_args){.records = {w->batch.at, w->batch.size},
                                  .now_ms = NOW_MS,
                                  .may_block = true,
                                  .scratch = w->scratch};
    struct log_append_result *out = &(struct log_append_result){0};
    log_append(w->log, &args, &out, 1);
    CHECK(out->err == ERR_OK);
    CHECK(!out->is_duplicate);
    w->done_count++;
    return now_ns;
}

static uint64_t reader_step(void *ctx, uint64_t now_ns)
{
    struct worker *w = ctx;
    int64_t bound = log_synced(w->log);
    if (w->offset == (int64_t)WRITERS * BATCHES) {
        sys_signal_flag(w->f->sys, &w->done, 1);
        return SYS_NEVER;
    }
    struct log_read_args a = {.offset = w->offset,
                              .offset_max = bound,
                              .bytes_max = 3000,
                              .min_one = true,
                              .may_block = true};
    struct log_slice s;
    enum err e = log_read(w->log, &a, &s);
    if (e == ERR_RANGE) { /* retention overtook it */
        w->offset = log_start_offset(w->log);
        return now_ns;
    }
    CHECKF(e == ERR_OK, "e=%d", (int)e);
    if (s.size > 0) {
        uint8_t bytes[8192];
        size_t got = 0, at = 0;
        CHECK(s.size <= sizeof bytes);
        CHECK(sys_file_read(s.file, bytes, s.size, s.pos, &got) == ERR_OK && got == s.size);
        while (at < got) {
            struct batch_header h;
            CHECK(batch_check_crc(slice_of(bytes + at, got - at)) == ERR_OK);
            CHECK(batch_peek(slice_of(bytes + at, got - at), &h) == ERR_OK);
            CHECK(h.base_offset == w->offset && h.base_offset < bound);
            w->offset = h.base_offset + 1;
            at += batch_size(&h);
        }
        log_slice_release(&s);
        return now_ns;
    }
    return now_ns + SYS_MS;
}

static void start(struct worker *w, uint64_t (*step)(void *, uint64_t))
{
    struct sys_task_options o = {.name = "worker", .step = step, .ctx = w};
    assert_int_equal(sys_task_start(w->f->sys, &o, &w->task), ERR_OK);
}

static void test_everybody_at_once(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f);
    f->options.config.segment_bytes = 20000;
    f->options.config.retention_bytes = 60000;
    f->options.config.retention_ms = -1; /* the records are old: by time all of them would go */
    f->options.config.file_delete_delay_ms = 1;
    f->options.retention_check_ms = 5;
    f->options.checkpoint_ms = 7;
    f->options.idle_close_ms = 11;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    struct worker w[WRITERS + READERS];
    memset(w, 0, sizeof w);
    for (int i = 0; i < WRITERS + READERS; i++) {
        w[i].f = f;
        w[i].log = log;
        w[i].id = i;
        w[i].scratch = codec_scratch_create();
        wire_buf_init(&w[i].batch, 1 << 20);
        start(&w[i], i < WRITERS ? writer_step : reader_step);
    }
    for (int i = 0; i < WRITERS + READERS; i++) {
        assert_true(sys_wait_flag(f->sys, &w[i].done, sys_mono_ns(f->sys) + 60000 * SYS_MS));
        sys_task_stop(w[i].task);
        codec_scratch_destroy(w[i].scratch);
        wire_buf_fini(&w[i].batch);
    }
    assert_int_equal(log_leo(log), WRITERS * BATCHES);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    log_set_hw(log, log_leo(log));
    size_t deleted = 0;
    assert_int_equal(log_retention_step(log, NOW_MS, &deleted), ERR_OK);
    int64_t begin = log_start_offset(log);
    assert_true(begin > 0);
    assert_int_equal(fixture_read_all(log, 5000), WRITERS * BATCHES - begin);
    log_unref(log);
    fixture_close(f, true);
    fixture_open(f);
    log = fixture_find(f, "t");
    begin = log_start_offset(log);
    assert_int_equal(fixture_read_all(log, 5000), WRITERS * BATCHES - begin);
    log_unref(log);
    fixture_fini(f);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
