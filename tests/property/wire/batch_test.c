/* batch_test.c - properties of batches over random records.
 *
 * 1. What is built is valid, and is walked back as it was.
 * 2. The verdict on a batch does not depend on its codec: the same record bytes, damaged or not,
 *    are judged alike in one piece and through the window. */
#include "wire/batch.h"

#include "base/crc32c.h"
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 1500
#define RECORDS_MAX 40
#define POOL_SIZE 200000u
#define NOW 1700000000000

static struct codec_scratch *scratch;
static struct wire_buf batch;
static struct wire_buf packed;
static struct wire_buf plain;
static uint8_t *pool;
static uint64_t random_state;

static uint64_t next_random(uint64_t below)
{
    random_state += 0x9e3779b97f4a7c15ULL;
    return hash_u64(random_state) % below;
}

/* Mostly short, sometimes null or empty, rarely longer than the walk's window. */
static struct slice random_bytes(bool null_allowed)
{
    uint64_t kind = next_random(100);
    if (kind < 10 && null_allowed) { return SLICE_NULL; }
    size_t size = kind < 20   ? 0
                  : kind < 97 ? next_random(200)
                  : kind < 99 ? next_random(20000)
                              : next_random(100000);
    return slice_of(pool + next_random(POOL_SIZE - size), size);
}

struct sample {
    struct batch_build_record records[RECORDS_MAX];
    struct batch_build_header headers[RECORDS_MAX][3];
    size_t count;
};

static void random_sample(struct sample *s)
{
    s->count = 1 + next_random(RECORDS_MAX);
    for (size_t i = 0; i < s->count; i++) {
        struct batch_build_record *r = &s->records[i];
        r->timestamp = next_random(10) == 0 ? BATCH_NO_TIME : (int64_t)next_random(NOW);
        r->key = random_bytes(true);
        r->value = random_bytes(true);
        r->headers_count = next_random(3) == 0 ? next_random(4) : 0;
        r->headers = s->headers[i];
        for (size_t j = 0; j < r->headers_count; j++) {
            s->headers[i][j] = (struct batch_build_header){random_bytes(false), random_bytes(true)};
        }
    }
}

static const struct batch_rules rules = {
    .now_ms = NOW,
    .time_before_max_ms = INT64_MAX,
    .time_after_max_ms = 0,
    .zstd_allowed = true,
};

static int setup(void **state)
{
    (void)state;
    scratch = codec_scratch_create();
    wire_buf_init(&batch, 64u << 20);
    wire_buf_init(&packed, 64u << 20);
    wire_buf_init(&plain, 64u << 20);
    pool = malloc(POOL_SIZE);
    for (size_t i = 0; i < POOL_SIZE; i++) {
        pool[i] = (uint8_t)(i % 1000 < 500 ? next_random(256) : 'a' + i % 7);
    }
    return scratch && pool ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    codec_scratch_destroy(scratch);
    wire_buf_fini(&batch);
    wire_buf_fini(&packed);
    wire_buf_fini(&plain);
    free(pool);
    return 0;
}

static void assert_walks_back(const struct sample *s)
{
    struct batch_iter it;
    struct batch_record got;
    assert_int_equal(batch_iter_open(&it, scratch, wire_buf_slice(&batch), 64u << 20, &plain),
                     ERR_OK);
    for (size_t i = 0; i < s->count; i++) {
        const struct batch_build_record *r = &s->records[i];
        assert_true(batch_iter_next(&it, &got));
        assert_int_equal(got.offset, i);
        assert_int_equal(got.timestamp, r->timestamp);
        assert_true(slice_eq(got.key, r->key) && slice_is_null(got.key) == slice_is_null(r->key));
        assert_true(slice_eq(got.value, r->value) &&
                    slice_is_null(got.value) == slice_is_null(r->value));
        assert_int_equal(got.headers_count, r->headers_count);
        for (size_t j = 0; j < r->headers_count; j++) {
            struct slice key;
            struct slice value;
            assert_true(batch_header_next(&got.headers, &key, &value));
            assert_true(slice_eq(key, r->headers[j].key));
            assert_true(slice_eq(value, r->headers[j].value));
        }
    }
    assert_false(batch_iter_next(&it, &got));
    assert_int_equal(it.err, ERR_OK);
}

static void test_what_is_built_is_valid_and_walks_back(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        random_state = round;
        struct sample s;
        random_sample(&s);
        struct batch_build_options o = BATCH_BUILD_PLAIN;
        o.codec = (enum codec)(round % CODEC_COUNT);
        batch.size = 0;
        assert_int_equal(batch_build(&o, s.records, s.count, scratch, &batch), ERR_OK);
        struct batch_facts f;
        struct mslice whole = {batch.at, batch.size};
        assert_int_equal(batch_validate(&rules, scratch, whole, &f), BATCH_OK);
        int64_t max = BATCH_NO_TIME;
        size_t first = 0;
        for (size_t i = 0; i < s.count; i++) {
            if (s.records[i].timestamp > max) {
                max = s.records[i].timestamp;
                first = i;
            }
        }
        assert_int_equal(f.max_timestamp, max);
        assert_int_equal(f.max_timestamp_delta, first);
        assert_walks_back(&s);
    }
}

static void put_u32(uint8_t *at, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(at, &v, sizeof v);
}

/* The header of batch before the records compressed with another codec. */
static void pack_records(enum codec codec)
{
    packed.size = 0;
    assert_int_equal(wire_buf_reserve(&packed, BATCH_HEADER_SIZE), ERR_OK);
    memcpy(packed.at, batch.at, BATCH_HEADER_SIZE);
    packed.size = BATCH_HEADER_SIZE;
    struct slice records = slice_sub(wire_buf_slice(&batch), BATCH_HEADER_SIZE, batch.size);
    assert_int_equal(codec_write_open(scratch, codec, CODEC_LEVEL_DEFAULT, 0, &packed), ERR_OK);
    assert_int_equal(codec_write(scratch, records), ERR_OK);
    assert_int_equal(codec_write_end(scratch), ERR_OK);
    put_u32(packed.at + 8, (uint32_t)packed.size - 12);
    packed.at[22] = (uint8_t)codec;
    put_u32(packed.at + 17, crc32c(0, packed.at + 21, packed.size - 21));
}

/* Flips, overwrites or cuts record bytes, and makes the checksum right again. */
static void damage(void)
{
    size_t hits = next_random(4);
    for (size_t i = 0; i < hits; i++) {
        size_t at = BATCH_HEADER_SIZE + next_random(batch.size - BATCH_HEADER_SIZE);
        if (next_random(2) == 0) { at = BATCH_HEADER_SIZE + next_random(16); }
        if (at < batch.size) { batch.at[at] = (uint8_t)next_random(256); }
    }
    if (next_random(4) == 0) {
        batch.size = BATCH_HEADER_SIZE + 1 + next_random(batch.size - BATCH_HEADER_SIZE);
    }
    put_u32(batch.at + 8, (uint32_t)batch.size - 12);
    put_u32(batch.at + 17, crc32c(0, batch.at + 21, batch.size - 21));
}

static void test_verdict_does_not_depend_on_the_codec(void **state)
{
    (void)state;
    unsigned refused = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        random_state = round + 1000000;
        struct sample s;
        random_sample(&s);
        struct batch_build_options o = BATCH_BUILD_PLAIN;
        batch.size = 0;
        assert_int_equal(batch_build(&o, s.records, s.count, NULL, &batch), ERR_OK);
        damage();
        pack_records((enum codec)(1 + round % (CODEC_COUNT - 1)));
        struct batch_facts a;
        struct batch_facts b;
        enum batch_reject ra =
            batch_validate(&rules, scratch, (struct mslice){batch.at, batch.size}, &a);
        enum batch_reject rb =
            batch_validate(&rules, scratch, (struct mslice){packed.at, packed.size}, &b);
        assert_int_equal(ra, rb);
        assert_int_equal(a.record_index, b.record_index);
        assert_int_equal(a.max_timestamp, b.max_timestamp);
        assert_int_equal(a.max_timestamp_delta, b.max_timestamp_delta);
        refused += ra != BATCH_OK;
    }
    assert_true(refused > ROUNDS / 4 && refused < ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_built_is_valid_and_walks_back),
        cmocka_unit_test(test_verdict_does_not_depend_on_the_codec),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
