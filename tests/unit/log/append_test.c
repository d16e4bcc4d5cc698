/* append_test.c - appending and reading one log on real files. */
#include "fixture.h"

static void test_offsets_are_dense_and_every_batch_comes_back(void **state)
{
    struct fixture *f = *state;
    struct log *log = fixture_create(f, "t");
    int64_t next = 0;
    for (int i = 1; i <= 200; i++) {
        struct log_append_result r =
            fixture_append(f, log, (struct fixture_batch){.count = i % 7 + 1, .value_size = 300});
        assert_int_equal(r.first_offset, next);
        assert_int_equal(r.last_offset, next + i % 7);
        assert_int_equal(r.append_time_ms, -1);
        next = r.last_offset + 1;
    }
    assert_int_equal(log_leo(log), next);
    for (size_t max = 1; max < 1u << 20; max = max * 5 + 3) {
        assert_int_equal(fixture_read_all(log, max), next);
    }
    log_unref(log);
}

/* C16: a fetch in the middle of a batch returns the batch. */
static void test_a_read_inside_a_batch_gives_the_batch_whole(void **state)
{
    struct fixture *f = *state;
    struct log *log = fixture_create(f, "t");
    for (int c = CODEC_NONE; c <= CODEC_ZSTD; c++) {
        fixture_append(f, log, (struct fixture_batch){.count = 100, .codec = (enum codec)c});
    }
    for (int i = 0; i < 300; i++) { /* push them out of the ring */
        fixture_append(f, log, (struct fixture_batch){.value_size = 200});
    }
    for (int64_t at = 0; at < 500; at++) {
        struct log_slice s;
        assert_int_equal(fixture_read_at(log, at, 100, true, &s), ERR_OK);
        assert_int_equal(s.offset_first, at / 100 * 100);
        assert_int_equal(s.offset_next, at / 100 * 100 + 100);
        log_slice_release(&s);
    }
    log_unref(log);
}

/* C17 */
static void test_the_first_batch_is_whole_or_nothing(void **state)
{
    struct fixture *f = *state;
    struct log *log = fixture_create(f, "t");
    fixture_append(f, log, (struct fixture_batch){.value_size = 900 << 10});
    for (int i = 0; i < 10; i++) {
        fixture_append(f, log, (struct fixture_batch){.value_size = 1024});
    }
    struct log_slice s;
    assert_int_equal(fixture_read_at(log, 0, 1, true, &s), ERR_OK);
    assert_int_equal(s.offset_next, 1);
    assert_true(s.size > 900 << 10);
    log_slice_release(&s);
    assert_int_equal(fixture_read_at(log, 0, 2000, false, &s), ERR_OK);
    assert_int_equal(s.size, 0);
    assert_true(s.is_cut);
    assert_int_equal(fixture_read_at(log, 3, 2500, false, &s), ERR_OK);
    assert_int_equal(s.offset_first, 3);
    assert_int_equal(s.offset_next, 5);
    assert_true(s.size <= 2500);
    log_slice_release(&s);
    log_unref(log);
}

/* C22 */
static void test_reads_at_the_end_wait_and_beyond_it_fail(void **state)
{
    struct fixture *f = *state;
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 10);
    struct log_slice s;
    assert_int_equal(fixture_read_at(log, 10, 1000, true, &s), ERR_OK);
    assert_int_equal(s.size, 0);
    assert_false(s.is_cut);
    assert_int_equal(fixture_read_at(log, 11, 1000, true, &s), ERR_RANGE);
    assert_int_equal(fixture_read_at(log, -1, 1000, true, &s), ERR_RANGE);
    log_set_hw(log, 10);
    assert_int_equal(log_set_start(log, 10), ERR_OK);
    assert_int_equal(fixture_read_at(log, 10, 1000, true, &s), ERR_OK);
    assert_int_equal(s.size, 0);
    assert_int_equal(fixture_read_at(log, 9, 1000, true, &s), ERR_RANGE);
    log_unref(log);
}

static void test_nothing_at_or_above_the_bound_is_given(void **state)
{
    struct fixture *f = *state;
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 500);
    for (int64_t hw = 0; hw <= 500; hw += 7) {
        struct log_read_args a = {.offset = 0,
                                  .offset_max = hw,
                                  .bytes_max = 1 << 20,
                                  .min_one = true,
                                  .may_block = true};
        struct log_slice s;
        assert_int_equal(log_read(log, &a, &s), ERR_OK);
        if (hw == 0) {
            assert_int_equal(s.size, 0);
        } else {
            assert_int_equal(s.offset_next, hw);
        }
        log_slice_release(&s);
    }
    log_unref(log);
}

static void test_a_full_segment_rolls_and_reads_go_across(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 4096;
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 200);
    assert_true(log->segments_count > 5);
    assert_int_equal(fixture_read_all(log, 100), 200);
    assert_int_equal(fixture_read_all(log, 100000), 200);
    struct log_append_result r =
        fixture_append(f, log, (struct fixture_batch){.value_size = 5000, .expect_error = true});
    assert_int_equal(r.reject, LOG_REJECT_SEGMENT_TOO_SMALL);
    log_unref(log);
}

static void test_segments_roll_by_time_and_by_a_full_index(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_ms = 1000;
    struct log *log = fixture_create(f, "t");
    fixture_append(f, log, (struct fixture_batch){.time = NOW_MS});
    fixture_append(f, log, (struct fixture_batch){.time = NOW_MS + 1000});
    assert_int_equal(log->segments_count, 1);
    fixture_append(f, log, (struct fixture_batch){.time = NOW_MS + 1001});
    assert_int_equal(log->segments_count, 2);
    log_unref(log);

    f->options.config.segment_ms = INT64_MAX;
    f->options.config.segment_index_bytes = 240; /* 20 entries in the time index */
    f->options.config.index_interval_bytes = 0;
    log = fixture_create(f, "u");
    for (int i = 0; i < 60; i++) {
        fixture_append(f, log, (struct fixture_batch){.time = NOW_MS + i});
    }
    assert_true(log->segments_count >= 3);
    assert_int_equal(fixture_read_all(log, 100), 60);
    log_unref(log);
}

static void test_a_duplicate_is_answered_with_its_first_offsets(void **state)
{
    struct fixture *f = *state;
    struct log *log = fixture_create(f, "t");
    struct fixture_batch b = {.count = 3, .producer_id = 9};
    for (int i = 0; i < 8; i++) {
        b.sequence = i * 3;
        struct log_append_result r = fixture_append(f, log, b);
        assert_false(r.is_duplicate);
    }
    for (int i = 3; i < 8; i++) { /* the last five */
        b.sequence = i * 3;
        struct log_append_result r = fixture_append(f, log, b);
        assert_true(r.is_duplicate);
        assert_int_equal(r.first_offset, i * 3);
        assert_int_equal(r.last_offset, i * 3 + 2);
    }
    assert_int_equal(log_leo(log), 24);
    b.sequence = 30;
    b.expect_error = true;
    assert_int_equal(fixture_append(f, log, b).reject, LOG_REJECT_OUT_OF_ORDER);
    b.producer_epoch = 1;
    b.sequence = 0;
    b.expect_error = false;
    fixture_append(f, log, b);
    b.producer_epoch = 0;
    b.sequence = 24;
    b.expect_error = true;
    assert_int_equal(fixture_append(f, log, b).reject, LOG_REJECT_FENCED);
    log_unref(log);
}

static void test_gathered_appends_are_judged_one_by_one(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 2000;
    struct log *log = fixture_create(f, "t");
    struct log_append_args a[150];
    struct log_append_result r[150];
    struct log_append_args *ap[150];
    struct log_append_result *rp[150];
    size_t at[151];
    f->batch.size = 0;
    for (int i = 0; i < 150; i++) {
        at[i] = f->batch.size;
        struct fixture_batch b = {.producer_id = 5, .sequence = i};
        if (i == 70) { b.sequence = 69; } /* a duplicate of the one before it, in the same write */
        if (i > 70) { b.sequence = i - 1; }
        fixture_build(f, &b);
    }
    at[150] = f->batch.size;
    f->batch.at[at[100] + 70] ^= 1; /* a broken batch among them */
    for (int i = 0; i < 150; i++) {
        a[i] = (struct log_append_args){.records = {f->batch.at + at[i], at[i + 1] - at[i]},
                                        .now_ms = NOW_MS,
                                        .may_block = true,
                                        .scratch = f->scratch};
        ap[i] = &a[i];
        rp[i] = &r[i];
    }
    for (size_t i = 0; i < 150; i += 50) {
        log_append(log, ap + i, rp + i, 50);
    }
    for (int i = 0; i < 150; i++) {
        if (i < 70) { assert_int_equal(r[i].first_offset, i); }
        if (i == 70) {
            assert_true(r[i].is_duplicate);
            assert_int_equal(r[i].first_offset, 69);
        }
        if (i > 70 && i < 100) { assert_int_equal(r[i].first_offset, i - 1); }
        if (i == 100) {
            assert_int_equal(r[i].reject, LOG_REJECT_BATCH);
            assert_int_equal(r[i].batch_reject, BATCH_BAD_CRC);
        }
        if (i > 100) { assert_int_equal(r[i].reject, LOG_REJECT_OUT_OF_ORDER); }
    }
    assert_int_equal(log_leo(log), 99);
    assert_true(log->segments_count > 1);
    assert_int_equal(fixture_read_all(log, 1000), 99);
    log_unref(log);
}

static void test_another_codec_is_rewritten_where_waiting_is_allowed(void **state)
{
    struct fixture *f = *state;
    f->options.config.compression_codec = CODEC_ZSTD;
    struct log *log = fixture_create(f, "t");
    fixture_append(f, log, (struct fixture_batch){.codec = CODEC_ZSTD});
    struct fixture_batch b = {.count = 50, .value_size = 100, .codec = CODEC_GZIP};
    f->batch.size = 0;
    struct log_append_args a = {.records = fixture_build(f, &b),
                                .now_ms = NOW_MS,
                                .zstd_allowed = true,
                                .scratch = f->scratch};
    struct log_append_result r;
    assert_int_equal(fixture_append_one(log, &a, &r), ERR_AGAIN);
    assert_int_equal(log_leo(log), 1);
    a.may_block = true;
    a.recompressed = &f->recompressed;
    assert_int_equal(fixture_append_one(log, &a, &r), ERR_OK);
    assert_int_equal(fixture_read_all(log, 1 << 20), 51);
    struct log_slice s;
    assert_int_equal(fixture_read_at(log, 1, 1 << 20, true, &s), ERR_OK);
    uint8_t *bytes = fixture_slice_bytes(&s);
    struct batch_header h;
    assert_int_equal(batch_peek(slice_of(bytes, s.size), &h), ERR_OK);
    assert_int_equal(batch_codec_bits(&h), CODEC_ZSTD);
    free(bytes);
    log_slice_release(&s);
    log_unref(log);
}

static void test_log_append_time_is_stamped(void **state)
{
    struct fixture *f = *state;
    f->options.config.timestamp_is_append_time = true;
    struct log *log = fixture_create(f, "t");
    struct log_append_result r =
        fixture_append(f, log, (struct fixture_batch){.count = 3, .time = 5});
    assert_int_equal(r.append_time_ms, NOW_MS);
    struct log_time_offset t;
    assert_int_equal(log_offset_of_max_time(log, &t), ERR_OK);
    assert_int_equal(t.timestamp, NOW_MS);
    assert_int_equal(t.offset, 0);
    log_unref(log);
}

/* Rolling writes and opens files: not on a thread that may not wait for them. */
static void test_who_may_not_block_neither_rolls_nor_waits_for_a_roll(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 1000;
    struct log *log = fixture_create(f, "t");
    struct log_append_result r = {0};
    struct log_append_args a = {.now_ms = NOW_MS, .scratch = f->scratch};
    fixture_append(f, log, (struct fixture_batch){0});
    int64_t again = 0;
    for (int i = 0; i < 100; i++) {
        f->batch.size = 0;
        a.records = fixture_build(f, &(struct fixture_batch){0});
        a.may_block = false;
        uint32_t segments = log->segments_count;
        int64_t leo = log_leo(log);
        enum err e = fixture_append_one(log, &a, &r);
        assert_int_equal(log->segments_count, segments);
        if (e == ERR_OK) { continue; }
        assert_int_equal(e, ERR_AGAIN);
        assert_int_equal(log_leo(log), leo);
        a.may_block = true;
        assert_int_equal(fixture_append_one(log, &a, &r), ERR_OK);
        again += log->segments_count > segments; /* else the device was slow just then */
    }
    assert_true(again > 5);
    assert_int_equal(fixture_read_all(log, 500), 101);
    /* The same when records are older than segment.ms allows. */
    struct log_config c = f->options.config;
    c.segment_bytes = 1 << 20;
    c.segment_ms = 1000;
    log_set_config(log, &c);
    f->batch.size = 0;
    a.records = fixture_build(f, &(struct fixture_batch){.time = NOW_MS + 5000});
    a.may_block = false;
    assert_int_equal(fixture_append_one(log, &a, &r), ERR_AGAIN);
    /* Somebody else is at it. */
    log_set_config(log, &f->options.config);
    log_lock(log);
    log_files_begin(log);
    struct log_read_args read = {.offset = 100, .offset_max = 101, .bytes_max = 1000};
    struct log_slice s;
    assert_int_equal(fixture_append_one(log, &a, &r), ERR_AGAIN);
    assert_int_equal(log_read(log, &read, &s), ERR_AGAIN);
    assert_int_equal(log_bytes_between(log, 100, 101, 1000), 1000); /* the read will tell */
    assert_int_equal(log_bytes_between(log, 101, 102, 1000), 0);
    log_files_end(log);
    log_unlock(log);
    assert_in_range(log_bytes_between(log, 100, 101, 1000), 1, 999);
    log_unref(log);
}

/* Appends elsewhere until the device is not slow, which would be a reason of its own. */
static void wait_for_the_device(struct fixture *f)
{
    struct log *other = fixture_create(f, "other");
    while (sys_device_is_slow(f->sys, other->env->device)) {
        fixture_append(f, other, (struct fixture_batch){0});
    }
    log_unref(other);
}

/* Where two appends meet at a segment's end the second finds out under the lock, stamped already.
 */
static void test_what_would_roll_is_put_back_as_it_came(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 1000;
    f->options.config.timestamp_is_append_time = true;
    struct log *log = fixture_create(f, "t");
    fixture_append(f, log, (struct fixture_batch){0});
    wait_for_the_device(f);
    uint8_t bytes[3][600], before[3][600];
    struct log_append_args a[3], *args[3];
    struct log_append_result r[3], *out[3];
    for (int i = 0; i < 3; i++) {
        f->batch.size = 0;
        struct mslice b = fixture_build(f, &(struct fixture_batch){.value_size = 400});
        assert_in_range(b.size, 400, sizeof before[i]);
        memcpy(before[i], b.at, b.size);
        memcpy(bytes[i], b.at, b.size);
        a[i] = (struct log_append_args){
            .records = {bytes[i], b.size}, .now_ms = NOW_MS + 1, .scratch = f->scratch};
        args[i] = &a[i];
        out[i] = &r[i];
    }
    log_append(log, args, out, 3);
    assert_int_equal(r[0].err, ERR_OK);
    assert_int_equal(r[0].append_time_ms, NOW_MS + 1);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(r[i].err, ERR_AGAIN);
        assert_int_equal(r[i].reject, LOG_REJECT_NONE);
        assert_int_equal(r[i].first_offset, -1);
        assert_memory_equal(a[i].records.at, before[i], a[i].records.size);
        a[i].may_block = true;
    }
    assert_int_equal(log_leo(log), 2);
    log_append(log, args + 1, out + 1, 2); /* as from a handler */
    for (int i = 1; i < 3; i++) {
        assert_int_equal(r[i].err, ERR_OK);
        assert_int_equal(r[i].first_offset, i + 1);
    }
    assert_int_equal(log_segments_count(log), 2);
    log_unref(log);
}

static void test_a_cold_log_says_again_before_anything_is_done(void **state)
{
    struct fixture *f = *state;
    struct log *log = fixture_create(f, "t");
    struct fixture_batch b = {0};
    f->batch.size = 0;
    struct log_append_args a = {
        .records = fixture_build(f, &b), .now_ms = NOW_MS, .scratch = f->scratch};
    struct log_append_result r;
    assert_int_equal(fixture_append_one(log, &a, &r), ERR_AGAIN);
    a.may_block = true;
    assert_int_equal(fixture_append_one(log, &a, &r), ERR_OK);
    a.may_block = false;
    f->batch.size = 0;
    a.records = fixture_build(f, &b);
    assert_int_equal(fixture_append_one(log, &a, &r), ERR_OK);
    assert_int_equal(log_leo(log), 2);
    log_unref(log);
}

static void test_a_leaders_batches_keep_their_offsets(void **state)
{
    struct fixture *f = *state;
    struct log *from = fixture_create(f, "from"), *to = fixture_create(f, "to");
    for (int i = 0; i < 100; i++) {
        fixture_append(
            f, from,
            (struct fixture_batch){
                .count = 2, .leader_epoch = i / 30, .producer_id = 3, .sequence = i * 2});
    }
    struct log_slice s;
    assert_int_equal(fixture_read_at(from, 0, 1 << 20, true, &s), ERR_OK);
    uint8_t *bytes = fixture_slice_bytes(&s);
    struct log_append_args a = {
        .records = {bytes, s.size}, .now_ms = NOW_MS, .origin = LOG_FROM_LEADER, .may_block = true};
    struct log_append_result r;
    assert_int_equal(fixture_append_one(to, &a, &r), ERR_OK);
    assert_int_equal(r.first_offset, 0);
    assert_int_equal(r.last_offset, 199);
    assert_int_equal(fixture_append_one(to, &a, &r), ERR_OUT_OF_ORDER);
    bytes[65] ^= 1;
    assert_int_equal(fixture_append_one(to, &a, &r), ERR_CORRUPT);
    int32_t epoch = 0;
    int64_t end = 0;
    struct log_epoch_args args = {.epoch = 1};
    assert_int_equal(log_epoch_end_offset(to, &args, &epoch, &end), ERR_OK);
    log_lock(to);
    log_files_begin(to);
    assert_int_equal(log_epoch_end_offset(to, &args, &epoch, &end), ERR_AGAIN);
    log_files_end(to);
    log_unlock(to);
    assert_int_equal(log_epoch_end_offset(to, &args, &epoch, &end), ERR_OK);
    assert_int_equal(epoch, 1);
    assert_int_equal(end, 120);
    assert_int_equal(fixture_read_all(to, 300), 200);
    free(bytes);
    log_slice_release(&s);
    log_unref(from);
    log_unref(to);
}

static void test_a_deleted_segment_stays_readable_while_a_slice_holds_it(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 2000;
    f->options.config.file_delete_delay_ms = 0;
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 50);
    struct log_slice s;
    assert_int_equal(fixture_read_at(log, 0, 1 << 20, true, &s), ERR_OK);
    assert_int_equal(logdir_delete_log(f->dir, log), ERR_OK);
    fixture_close(f, true); /* removes what waits for removal */
    free(fixture_slice_bytes(&s));
    log_slice_release(&s);
    fixture_shell("test -z \"$(ls '%s' | grep delete)\"", f->path);
    assert_int_equal(fixture_read_at(log, 0, 100, true, &s), ERR_CLOSED);
    log_unref(log);
}

static void test_times_lead_to_offsets(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 20000;
    struct log *log = fixture_create(f, "t");
    for (int i = 0; i < 300; i++) {
        /* Ten records a batch, 10 ms a batch; one batch is far ahead of its time. */
        int64_t time = i == 150 ? NOW_MS + 10000 : NOW_MS + i * 10;
        fixture_append(
            f, log,
            (struct fixture_batch){
                .count = 10, .value_size = 40, .time = time, .codec = i % 2 ? CODEC_LZ4 : 0});
    }
    assert_true(log->segments_count > 3);
    for (int i = 0; i < 1500; i += 13) {
        struct log_time_offset t;
        assert_int_equal(log_offset_by_time(log, NOW_MS + i, INT64_MAX, &t), ERR_OK);
        assert_int_equal(t.offset, i);
        assert_int_equal(t.timestamp, NOW_MS + i);
        assert_int_equal(t.leader_epoch, 0);
    }
    struct log_time_offset t;
    assert_int_equal(log_offset_by_time(log, NOW_MS + 2000, INT64_MAX, &t), ERR_OK);
    assert_int_equal(t.offset, 1500);
    assert_int_equal(log_offset_by_time(log, NOW_MS + 2000, 1500, &t), ERR_OK);
    assert_int_equal(t.offset, -1);
    assert_int_equal(log_offset_by_time(log, NOW_MS + 20000, INT64_MAX, &t), ERR_OK);
    assert_int_equal(t.offset, -1);
    assert_int_equal(log_offset_of_max_time(log, &t), ERR_OK);
    assert_int_equal(t.offset, 1509);
    assert_int_equal(t.timestamp, NOW_MS + 10009);
    log_unref(log);
}

static void test_truncation_leaves_a_log_that_goes_on(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 4000;
    struct log *log = fixture_create(f, "t");
    for (int64_t cut = 180; cut >= 0; cut -= 19) {
        fixture_fill(f, log, 200);
        assert_int_equal(log_truncate_to(log, cut), ERR_OK);
        assert_int_equal(log_leo(log), cut);
        assert_true(log_synced(log) <= cut);
        assert_int_equal(fixture_read_all(log, 1000), cut);
    }
    fixture_fill(f, log, 100);
    assert_int_equal(fixture_read_all(log, 1000), 100);
    assert_int_equal(log_reset(log, 5000), ERR_OK);
    assert_int_equal(log_leo(log), 5000);
    fixture_fill(f, log, 5010);
    assert_int_equal(log_start_offset(log), 5000);
    assert_int_equal(fixture_read_all(log, 1000), 10);
    log_unref(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup_open, fixture_teardown)
        T(test_offsets_are_dense_and_every_batch_comes_back),
        T(test_a_read_inside_a_batch_gives_the_batch_whole),
        T(test_the_first_batch_is_whole_or_nothing),
        T(test_reads_at_the_end_wait_and_beyond_it_fail),
        T(test_nothing_at_or_above_the_bound_is_given),
        T(test_a_full_segment_rolls_and_reads_go_across),
        T(test_segments_roll_by_time_and_by_a_full_index),
        T(test_a_duplicate_is_answered_with_its_first_offsets),
        T(test_gathered_appends_are_judged_one_by_one),
        T(test_another_codec_is_rewritten_where_waiting_is_allowed),
        T(test_log_append_time_is_stamped),
        T(test_what_would_roll_is_put_back_as_it_came),
        T(test_who_may_not_block_neither_rolls_nor_waits_for_a_roll),
        T(test_a_cold_log_says_again_before_anything_is_done),
        T(test_a_leaders_batches_keep_their_offsets),
        T(test_a_deleted_segment_stays_readable_while_a_slice_holds_it),
        T(test_times_lead_to_offsets),
        T(test_truncation_leaves_a_log_that_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
