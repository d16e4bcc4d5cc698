/* producer_test.c - the sequence rules, the window, expiry, snapshots. */
#include "log/producer.h"

#include "base/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    struct producers p;
    int64_t leo;
    struct producer_duplicate dup;
};

static struct batch_header batch(int64_t pid, int16_t epoch, int32_t seq, int32_t count)
{
    return (struct batch_header){
        .producer_id = pid,
        .producer_epoch = epoch,
        .base_sequence = seq,
        .records_count = count,
        .last_offset_delta = count - 1,
        .max_timestamp = 1000,
    };
}

/* What the log does: check, then append at the end. */
static enum err produce(struct fixture *f, struct batch_header h)
{
    enum err e = producers_check(&f->p, &h, &f->dup);
    if (e) { return e; }
    h.base_offset = f->leo;
    f->leo += h.records_count;
    assert_int_equal(producers_add(&f->p, &h), ERR_OK);
    return ERR_OK;
}

static enum err send(struct fixture *f, int32_t seq, int32_t count)
{
    return produce(f, batch(7, 0, seq, count));
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    producers_init(&f->p, 1000);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    producers_fini(&f->p);
    free(f);
    return 0;
}

static void reload(struct fixture *f)
{
    struct wire_buf b;
    wire_buf_init(&b, 1u << 26);
    assert_int_equal(producers_snapshot_encode(&f->p, &b), ERR_OK);
    assert_int_equal(b.size, producers_snapshot_size(&f->p));
    assert_int_equal(producers_snapshot_decode(&f->p, wire_buf_slice(&b), 0, -1), ERR_OK);
    wire_buf_fini(&b);
}

static void test_c49_duplicates_are_answered_with_their_first_offsets(void **state)
{
    struct fixture *f = *state;
    for (int32_t s = 0; s < 7; s++) {
        assert_int_equal(send(f, s, 1), ERR_OK);
    }
    for (int32_t s = 6; s >= 2; s--) {
        assert_int_equal(send(f, s, 1), ERR_DUPLICATE);
        assert_int_equal(f->dup.first_offset, s);
        assert_int_equal(f->dup.last_offset, s);
        assert_int_equal(f->dup.timestamp, 1000);
    }
    assert_int_equal(send(f, 0, 1), ERR_OUT_OF_ORDER); /* left the window of five */
    assert_int_equal(send(f, 8, 1), ERR_OUT_OF_ORDER);
    assert_int_equal(send(f, 7, 1), ERR_OK);
    assert_int_equal(f->leo, 8);
    reload(f); /* as after a crash */
    assert_int_equal(send(f, 7, 1), ERR_DUPLICATE);
    assert_int_equal(f->dup.first_offset, 7);
    assert_int_equal(send(f, 8, 1), ERR_OK);
    assert_int_equal(f->leo, 9);
}

static void test_c50_sequences_wrap(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(send(f, 2147483646, 3), ERR_OK);
    assert_int_equal(send(f, 1, 2), ERR_OK);
    assert_int_equal(send(f, 2147483646, 3), ERR_DUPLICATE);
    assert_int_equal(f->dup.first_offset, 0);
    assert_int_equal(f->dup.last_offset, 2);
    assert_int_equal(send(f, 1, 2), ERR_DUPLICATE);
    assert_int_equal(f->dup.first_offset, 3);
    assert_int_equal(send(f, 0, 1), ERR_OUT_OF_ORDER);
    assert_int_equal(send(f, 3, 1), ERR_OK);
    assert_int_equal(f->leo, 6);
}

static void test_sequence_zero_follows_the_largest(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(send(f, INT32_MAX, 1), ERR_OK);
    assert_int_equal(send(f, 1, 1), ERR_OUT_OF_ORDER);
    assert_int_equal(send(f, 0, 1), ERR_OK);
}

static void test_batch_with_other_bounds_is_no_duplicate(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(send(f, 0, 4), ERR_OK);
    assert_int_equal(send(f, 0, 3), ERR_OUT_OF_ORDER);
    assert_int_equal(send(f, 1, 3), ERR_OUT_OF_ORDER);
    assert_int_equal(send(f, 0, 5), ERR_OUT_OF_ORDER);
    assert_int_equal(send(f, 0, 4), ERR_DUPLICATE);
}

static void test_new_epoch_starts_at_zero_and_fences_the_old(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(produce(f, batch(7, 2, 0, 1)), ERR_OK);
    assert_int_equal(produce(f, batch(7, 3, 1, 1)), ERR_OUT_OF_ORDER);
    assert_int_equal(produce(f, batch(7, 3, 0, 1)), ERR_OK);
    assert_int_equal(produce(f, batch(7, 2, 1, 1)), ERR_FENCED);
    assert_int_equal(produce(f, batch(7, 2, 0, 1)), ERR_FENCED);
    assert_int_equal(produce(f, batch(7, 3, 0, 1)), ERR_DUPLICATE);
    assert_int_equal(produce(f, batch(7, 3, 1, 1)), ERR_OK);
}

static void test_unknown_producer_may_start_anywhere_unless_transactional(void **state)
{
    struct fixture *f = *state;
    struct batch_header h = batch(8, 0, 3, 1);
    h.attributes = BATCH_TRANSACTIONAL;
    assert_int_equal(produce(f, h), ERR_OUT_OF_ORDER);
    h.base_sequence = 0;
    assert_int_equal(produce(f, h), ERR_OK);
    assert_int_equal(produce(f, batch(9, 5, 3, 1)), ERR_OK);
    assert_int_equal(produce(f, batch(9, 5, 4, 1)), ERR_OK);
    assert_int_equal(f->p.count, 2);
}

static void test_refused_batches_leave_no_trace(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(send(f, 0, 1), ERR_OK);
    assert_int_equal(send(f, 5, 1), ERR_OUT_OF_ORDER);
    struct batch_header h = batch(99, 0, 0, 1);
    assert_int_equal(producers_check(&f->p, &h, &f->dup), ERR_OK);
    assert_int_equal(f->p.count, 1); /* only judged, not appended */
    assert_null(producers_find(&f->p, 99));
    assert_int_equal(send(f, 1, 1), ERR_OK);
}

static void test_batches_without_producer_and_markers_take_no_sequence(void **state)
{
    struct fixture *f = *state;
    struct batch_header plain = batch(-1, -1, -1, 3);
    assert_int_equal(producers_add(&f->p, &plain), ERR_OK);
    assert_int_equal(f->p.count, 0);
    assert_int_equal(send(f, 0, 1), ERR_OK);
    struct batch_header marker = batch(7, 1, -1, 1);
    marker.attributes = BATCH_CONTROL | BATCH_TRANSACTIONAL;
    assert_int_equal(producers_add(&f->p, &marker), ERR_OK);
    assert_int_equal(producers_find(&f->p, 7)->epoch, 1);
    assert_int_equal(send(f, 1, 1), ERR_FENCED);
    assert_int_equal(produce(f, batch(7, 1, 1, 1)), ERR_OUT_OF_ORDER);
    assert_int_equal(produce(f, batch(7, 1, 0, 1)), ERR_OK);
}

static void test_more_producers_than_the_bound_are_refused(void **state)
{
    struct fixture *f = *state;
    for (int64_t pid = 0; pid < 1000; pid++) {
        assert_int_equal(produce(f, batch(pid, 0, 0, 1)), ERR_OK);
    }
    assert_int_equal(produce(f, batch(1000, 0, 0, 1)), ERR_LIMIT);
    assert_int_equal(produce(f, batch(999, 0, 1, 1)), ERR_OK);
}

static void test_expiry_forgets_only_the_old_in_bounded_steps(void **state)
{
    struct fixture *f = *state;
    for (int64_t pid = 0; pid < 900; pid++) {
        struct batch_header h = batch(pid, 0, 0, 1);
        h.max_timestamp = pid % 3 == 0 ? 5000 : 1000;
        assert_int_equal(produce(f, h), ERR_OK);
    }
    assert_int_equal(producers_expire(&f->p, 1999, 1000, 1000), 0);
    uint32_t gone = 0;
    for (int step = 0; step < 9; step++) {
        uint32_t now = producers_expire(&f->p, 2000, 1000, 100);
        assert_true(now <= 100);
        gone += now;
    }
    assert_int_equal(gone, 600);
    assert_int_equal(f->p.count, 300);
    for (int64_t pid = 0; pid < 900; pid++) {
        assert_int_equal(producers_find(&f->p, pid) != NULL, pid % 3 == 0);
    }
    assert_int_equal(producers_expire(&f->p, 6000, 1000, 1000), 300);
    assert_null(f->p.entries); /* nothing left, no memory */
    assert_int_equal(produce(f, batch(3, 0, 17, 1)), ERR_OK);
}

/* Many ids with removals between them, against a plain array. */
static void test_table_finds_what_an_array_finds(void **state)
{
    struct fixture *f = *state;
    bool there[600] = {false};
    uint32_t x = 11;
    for (int step = 0; step < 20000; step++) {
        x = x * 1664525u + 1013904223u;
        int64_t pid = (x >> 8) % 600;
        struct batch_header h = batch(pid * 4096, 0, 0, 1);
        h.max_timestamp = there[pid] ? 0 : 1000000;
        assert_int_equal(producers_add(&f->p, &h), ERR_OK);
        if (there[pid]) { /* old now: expires alone */
            assert_int_equal(producers_expire(&f->p, 500000, 1000, 1000), 1);
        }
        there[pid] = !there[pid];
        if (step % 500 == 0) {
            for (int64_t i = 0; i < 600; i++) {
                assert_int_equal(producers_find(&f->p, i * 4096) != NULL, there[i]);
            }
        }
    }
}

static void test_snapshot_has_kafkas_bytes(void **state)
{
    struct fixture *f = *state;
    struct batch_header h = batch(0x0102030405060708, 3, 40, 5);
    h.base_offset = 100;
    h.max_timestamp = 0x0a0b0c0d;
    assert_int_equal(producers_add(&f->p, &h), ERR_OK);
    struct wire_buf b;
    wire_buf_init(&b, 4096);
    assert_int_equal(producers_snapshot_encode(&f->p, &b), ERR_OK);
    const uint8_t expected[] = {
        0,    0,    0,    1, /* one entry */
        1,    2,    3,    4,    5,    6,    7,    8, /* producer id */
        0,    3, /* epoch */
        0,    0,    0,    44, /* last sequence */
        0,    0,    0,    0,    0,    0,    0,    104, /* last offset */
        0,    0,    0,    4, /* offset delta */
        0,    0,    0,    0,    0x0a, 0x0b, 0x0c, 0x0d, /* timestamp */
        0xff, 0xff, 0xff, 0xff, /* coordinator epoch */
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* no open transaction */
    };
    assert_int_equal(b.size, 6 + sizeof expected);
    assert_memory_equal(b.at + 6, expected, sizeof expected);
    assert_int_equal(b.at[0] << 8 | b.at[1], 1);
    uint32_t crc = crc32c(0, expected, sizeof expected);
    assert_int_equal(b.at[2], crc >> 24);
    assert_int_equal(b.at[5], crc & 0xff);
    wire_buf_fini(&b);
}

static void test_damaged_snapshot_is_refused_and_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    for (int64_t pid = 0; pid < 20; pid++) {
        assert_int_equal(produce(f, batch(pid, 0, 0, 1)), ERR_OK);
    }
    struct wire_buf b;
    wire_buf_init(&b, 1u << 20);
    assert_int_equal(producers_snapshot_encode(&f->p, &b), ERR_OK);
    for (size_t i = 0; i < b.size; i++) {
        b.at[i] ^= 0x10;
        assert_int_not_equal(producers_snapshot_decode(&f->p, wire_buf_slice(&b), 0, -1), ERR_OK);
        assert_int_equal(f->p.count, 0);
        b.at[i] ^= 0x10;
        assert_int_not_equal(producers_snapshot_decode(&f->p, slice_of(b.at, i), 0, -1), ERR_OK);
        assert_int_equal(f->p.count, 0);
    }
    /* A right checksum over a wrong count. */
    b.at[9] = 21;
    uint32_t crc = __builtin_bswap32(crc32c(0, b.at + 6, b.size - 6));
    memcpy(b.at + 2, &crc, sizeof crc);
    assert_int_equal(producers_snapshot_decode(&f->p, wire_buf_slice(&b), 0, -1), ERR_MALFORMED);
    wire_buf_fini(&b);
}

static void test_expired_producers_are_not_loaded(void **state)
{
    struct fixture *f = *state;
    struct batch_header h = batch(1, 0, 0, 1);
    assert_int_equal(produce(f, h), ERR_OK);
    h = batch(2, 0, 0, 1);
    h.max_timestamp = 9000;
    assert_int_equal(produce(f, h), ERR_OK);
    struct wire_buf b;
    wire_buf_init(&b, 4096);
    assert_int_equal(producers_snapshot_encode(&f->p, &b), ERR_OK);
    assert_int_equal(producers_snapshot_decode(&f->p, wire_buf_slice(&b), 9500, 1000), ERR_OK);
    assert_null(producers_find(&f->p, 1));
    assert_non_null(producers_find(&f->p, 2));
    wire_buf_fini(&b);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_c49_duplicates_are_answered_with_their_first_offsets),
        T(test_c50_sequences_wrap),
        T(test_sequence_zero_follows_the_largest),
        T(test_batch_with_other_bounds_is_no_duplicate),
        T(test_new_epoch_starts_at_zero_and_fences_the_old),
        T(test_unknown_producer_may_start_anywhere_unless_transactional),
        T(test_refused_batches_leave_no_trace),
        T(test_batches_without_producer_and_markers_take_no_sequence),
        T(test_more_producers_than_the_bound_are_refused),
        T(test_expiry_forgets_only_the_old_in_bounded_steps),
        T(test_table_finds_what_an_array_finds),
        T(test_snapshot_has_kafkas_bytes),
        T(test_damaged_snapshot_is_refused_and_leaves_nothing),
        T(test_expired_producers_are_not_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
