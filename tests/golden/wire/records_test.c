/* records_test.c - record batches that kafka-clients 4.4 wrote in every codec: validated, walked,
 * compared record by record, and rewritten into every other codec.
 *
 * The vectors come from tests/golden/java-records/Records.java; both sides make the same records
 * from their numbers. "--write DIR" writes the same batches as this library makes them, for
 * "Records.java check DIR": the other direction. */
#include "wire/batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define BASE_TIME 1700000000000
#define RECORDS_MAX 200
#define BIG_SIZE 150000

struct vector {
    const char *name;
    enum codec codec;
    int records_count; /* 3 with a long one: big */
    int32_t level;
};

static const struct vector vectors[] = {
    {"none-1", CODEC_NONE, 1, CODEC_LEVEL_DEFAULT},
    {"none-200", CODEC_NONE, 200, CODEC_LEVEL_DEFAULT},
    {"gzip-1", CODEC_GZIP, 1, CODEC_LEVEL_DEFAULT},
    {"gzip-200", CODEC_GZIP, 200, CODEC_LEVEL_DEFAULT},
    {"gzip-200-l9", CODEC_GZIP, 200, 9},
    {"gzip-big", CODEC_GZIP, 3, CODEC_LEVEL_DEFAULT},
    {"snappy-1", CODEC_SNAPPY, 1, CODEC_LEVEL_DEFAULT},
    {"snappy-200", CODEC_SNAPPY, 200, CODEC_LEVEL_DEFAULT},
    {"snappy-big", CODEC_SNAPPY, 3, CODEC_LEVEL_DEFAULT},
    {"lz4-1", CODEC_LZ4, 1, CODEC_LEVEL_DEFAULT},
    {"lz4-200", CODEC_LZ4, 200, CODEC_LEVEL_DEFAULT},
    {"lz4-200-l1", CODEC_LZ4, 200, 1},
    {"lz4-200-l17", CODEC_LZ4, 200, 17},
    {"lz4-big", CODEC_LZ4, 3, CODEC_LEVEL_DEFAULT},
    {"zstd-1", CODEC_ZSTD, 1, CODEC_LEVEL_DEFAULT},
    {"zstd-200", CODEC_ZSTD, 200, CODEC_LEVEL_DEFAULT},
    {"zstd-200-l-5", CODEC_ZSTD, 200, -5},
    {"zstd-200-l22", CODEC_ZSTD, 200, 22},
    {"zstd-big", CODEC_ZSTD, 3, CODEC_LEVEL_DEFAULT},
};
#define VECTORS_COUNT (sizeof vectors / sizeof vectors[0])

/* The records as both sides make them. */
struct made {
    struct batch_build_record records[RECORDS_MAX];
    struct batch_build_header headers[RECORDS_MAX][2];
    char keys[RECORDS_MAX][16];
    char values[RECORDS_MAX][340];
    char header_values[RECORDS_MAX][16];
    uint8_t big[BIG_SIZE];
};

static struct made *make_records(const struct vector *v)
{
    struct made *m = calloc(1, sizeof *m);
    for (int i = 0; i < v->records_count; i++) {
        struct batch_build_record *r = &m->records[i];
        r->timestamp = BASE_TIME + i * 7919 % 1000 - 500;
        snprintf(m->keys[i], sizeof m->keys[i], "key-%d", i);
        if (i % 4 != 3) { r->key = slice_str(m->keys[i]); }
        int n = snprintf(m->values[i], sizeof m->values[i], "value-%d-", i);
        memset(m->values[i] + n, 'a' + i % 26, (size_t)(i * 37 % 300));
        if (i % 7 != 6) { r->value = slice_str(m->values[i]); }
        if (v->records_count == 3 && i == 1) {
            for (int64_t b = 0; b < BIG_SIZE; b++) {
                m->big[b] = (uint8_t)('a' + b * b % 26);
            }
            r->value = slice_of(m->big, BIG_SIZE);
        }
        snprintf(m->header_values[i], sizeof m->header_values[i], "x%d", i);
        for (int j = 0; j < i % 3; j++) {
            m->headers[i][j].key = j ? SLICE_LIT("h1") : SLICE_LIT("h0");
            if ((i + j) % 5 != 0) { m->headers[i][j].value = slice_str(m->header_values[i]); }
        }
        r->headers = m->headers[i];
        r->headers_count = (size_t)(i % 3);
    }
    return m;
}

static struct codec_scratch *scratch;
static struct wire_buf file_buf;
static struct wire_buf plain;
static struct wire_buf made_buf;

static int setup(void **state)
{
    (void)state;
    scratch = codec_scratch_create();
    wire_buf_init(&file_buf, 1u << 24);
    wire_buf_init(&plain, 1u << 24);
    wire_buf_init(&made_buf, 1u << 24);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    codec_scratch_destroy(scratch);
    wire_buf_fini(&file_buf);
    wire_buf_fini(&plain);
    wire_buf_fini(&made_buf);
    return 0;
}

static void load(const struct vector *v)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/data/records/%s.bin", v->name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(wire_buf_reserve(&file_buf, 1u << 20), ERR_OK);
    file_buf.size = fread(file_buf.at, 1, file_buf.cap, f);
    fclose(f);
    assert_true(file_buf.size > BATCH_HEADER_SIZE && file_buf.size < file_buf.cap);
}

static void assert_slices(struct slice got, struct slice expected)
{
    assert_int_equal(slice_is_null(got), slice_is_null(expected));
    assert_true(slice_eq(got, expected));
}

static void assert_records(struct slice batch, const struct vector *v, const struct made *m,
                           int64_t base_offset)
{
    struct batch_iter it;
    struct batch_record got;
    assert_int_equal(batch_iter_open(&it, scratch, batch, 1u << 24, &plain), ERR_OK);
    for (int i = 0; i < v->records_count; i++) {
        const struct batch_build_record *r = &m->records[i];
        assert_true(batch_iter_next(&it, &got));
        assert_int_equal(got.offset, base_offset + i);
        assert_int_equal(got.timestamp, r->timestamp);
        assert_slices(got.key, r->key);
        assert_slices(got.value, r->value);
        assert_int_equal(got.headers_count, r->headers_count);
        for (size_t j = 0; j < r->headers_count; j++) {
            struct slice key;
            struct slice value;
            assert_true(batch_header_next(&got.headers, &key, &value));
            assert_slices(key, r->headers[j].key);
            assert_slices(value, r->headers[j].value);
        }
        assert_int_equal(got.headers.size, 0);
    }
    assert_false(batch_iter_next(&it, &got));
    assert_int_equal(it.err, ERR_OK);
}

static void test_batches_of_kafka_hold_what_was_put_in(void **state)
{
    (void)state;
    for (size_t i = 0; i < VECTORS_COUNT; i++) {
        const struct vector *v = &vectors[i];
        struct made *m = make_records(v);
        load(v);
        struct slice batch = wire_buf_slice(&file_buf);
        struct batch_header h;
        assert_int_equal(batch_check_crc(batch), ERR_OK);
        assert_int_equal(batch_peek(batch, &h), ERR_OK);
        assert_int_equal(batch_size(&h), batch.size);
        assert_int_equal(h.base_offset, 1000);
        assert_int_equal(h.leader_epoch, 9);
        assert_int_equal(batch_codec_bits(&h), v->codec);
        assert_int_equal(h.producer_id, 4711);
        assert_int_equal(h.producer_epoch, 3);
        assert_int_equal(h.base_sequence, 55);
        assert_int_equal(h.records_count, v->records_count);
        assert_records(batch, v, m, 1000);
        free(m);
    }
}

static void test_batches_of_kafka_are_valid_and_rewritten_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < VECTORS_COUNT; i++) {
        const struct vector *v = &vectors[i];
        struct made *m = make_records(v);
        for (int to = 0; to < CODEC_COUNT; to++) {
            load(v);
            batch_set_base_offset(file_buf.at, 0);
            struct batch_rules rules = {
                .now_ms = BASE_TIME,
                .time_before_max_ms = 501,
                .time_after_max_ms = 501,
                .zstd_allowed = true,
                .codec_forced = true,
                .codec = (enum codec)to,
                .level = CODEC_LEVEL_DEFAULT,
            };
            struct batch_facts f;
            struct mslice batch = {file_buf.at, file_buf.size};
            assert_int_equal(batch_validate(&rules, scratch, batch, &f), BATCH_OK);
            assert_int_equal(f.recompress, to != (int)v->codec);
            struct batch_found found;
            assert_int_equal(batch_find_max_time(scratch, wire_buf_slice(&file_buf), &found),
                             ERR_OK);
            assert_int_equal(found.timestamp, f.max_timestamp);
            assert_int_equal(found.offset, f.max_timestamp_delta);
            if (!f.recompress) { continue; }
            assert_int_equal(
                batch_recompress(&rules, scratch, wire_buf_slice(&file_buf), &f, &made_buf),
                BATCH_OK);
            assert_records(wire_buf_slice(&made_buf), v, m, 0);
        }
        free(m);
    }
}

/* Uncompressed, there is only one way to write a batch. */
static void test_uncompressed_batches_have_kafkas_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct vector *v = &vectors[i];
        struct made *m = make_records(v);
        load(v);
        struct batch_build_options o = {
            .base_offset = 1000,
            .producer_id = 4711,
            .producer_epoch = 3,
            .base_sequence = 55,
            .leader_epoch = 9,
        };
        made_buf.size = 0;
        assert_int_equal(batch_build(&o, m->records, (size_t)v->records_count, NULL, &made_buf),
                         ERR_OK);
        assert_true(slice_eq(wire_buf_slice(&made_buf), wire_buf_slice(&file_buf)));
        free(m);
    }
}

static int write_all(const char *dir)
{
    setup(NULL);
    for (size_t i = 0; i < VECTORS_COUNT; i++) {
        const struct vector *v = &vectors[i];
        struct made *m = make_records(v);
        struct batch_build_options o = {
            .base_offset = 1000,
            .producer_id = 4711,
            .producer_epoch = 3,
            .base_sequence = 55,
            .leader_epoch = 9,
            .codec = v->codec,
            .level = v->level,
        };
        made_buf.size = 0;
        char path[512];
        snprintf(path, sizeof path, "%s/%s.bin", dir, v->name);
        FILE *f = fopen(path, "wb");
        bool ok = f && batch_build(&o, m->records, (size_t)v->records_count, scratch, &made_buf) ==
                           ERR_OK;
        ok = ok && fwrite(made_buf.at, 1, made_buf.size, f) == made_buf.size && fclose(f) == 0;
        free(m);
        if (!ok) { return 1; }
    }
    return teardown(NULL);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0) { return write_all(argv[2]); }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_of_kafka_hold_what_was_put_in),
        cmocka_unit_test(test_batches_of_kafka_are_valid_and_rewritten_whole),
        cmocka_unit_test(test_uncompressed_batches_have_kafkas_bytes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
