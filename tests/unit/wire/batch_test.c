/* batch_test.c - what a broker answers to good and bad batches, stamping, rewriting, searching. */
#include "wire/batch.h"

#include "base/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW 1700000000000
#define AT_ATTRIBUTES 21
#define AT_CRC 17

static struct codec_scratch *scratch;
static struct wire_buf buf;
static struct wire_buf other;

static int setup(void **state)
{
    (void)state;
    scratch = codec_scratch_create();
    wire_buf_init(&buf, 256u << 20);
    wire_buf_init(&other, 256u << 20);
    return scratch ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    codec_scratch_destroy(scratch);
    wire_buf_fini(&buf);
    wire_buf_fini(&other);
    return 0;
}

static struct batch_rules rules_plain(void)
{
    return (struct batch_rules){
        .now_ms = NOW,
        .time_before_max_ms = INT64_MAX,
        .time_after_max_ms = 3600000,
        .max_message_bytes = 1048588,
        .zstd_allowed = true,
        .level = CODEC_LEVEL_DEFAULT,
    };
}

static struct mslice whole(void)
{
    return (struct mslice){buf.at, buf.size};
}

/* Builds into buf: values "value-<i>", keys when asked for, the given times. */
static void build(const struct batch_build_options *o, const int64_t *times, size_t count,
                  bool keys)
{
    static char text[1000][32];
    struct batch_build_record r[1000] = {{0}};
    assert_true(count <= 1000);
    for (size_t i = 0; i < count; i++) {
        snprintf(text[i], sizeof text[i], "value-%zu", i);
        r[i].timestamp = times ? times[i] : NOW + (int64_t)i;
        r[i].value = slice_str(text[i]);
        if (keys) { r[i].key = slice_str(text[i] + 6); }
    }
    buf.size = 0;
    assert_int_equal(batch_build(o, r, count, scratch, &buf), ERR_OK);
}

static void fix_crc(void)
{
    uint32_t crc = __builtin_bswap32(crc32c(0, buf.at + AT_ATTRIBUTES, buf.size - AT_ATTRIBUTES));
    memcpy(buf.at + AT_CRC, &crc, sizeof crc);
}

static void set_i32(size_t at, int32_t v)
{
    uint32_t x = __builtin_bswap32((uint32_t)v);
    memcpy(buf.at + at, &x, sizeof x);
    fix_crc();
}

static enum batch_reject check(const struct batch_rules *rules)
{
    struct batch_facts f;
    enum batch_reject r = batch_validate(rules, scratch, whole(), &f);
    assert_true((f.message == NULL) == (r == BATCH_OK));
    return r;
}

static void test_good_batch_of_each_codec_is_accepted_with_its_facts(void **state)
{
    (void)state;
    const int64_t times[] = {NOW + 5, NOW + 9, NOW + 7, NOW + 9};
    for (int c = 0; c < CODEC_COUNT; c++) {
        struct batch_build_options o = BATCH_BUILD_PLAIN;
        o.codec = (enum codec)c;
        build(&o, times, 4, true);
        struct batch_rules rules = rules_plain();
        rules.keys_required = true;
        struct batch_facts f;
        assert_int_equal(batch_validate(&rules, scratch, whole(), &f), BATCH_OK);
        assert_int_equal(f.max_timestamp, NOW + 9);
        assert_int_equal(f.max_timestamp_delta, 1);
        assert_int_equal(f.header.records_count, 4);
        assert_int_equal(f.records_bytes, 4 * 15);
        assert_false(f.recompress);
        assert_int_equal(batch_check_crc(wire_buf_slice(&buf)), ERR_OK);
    }
}

static void test_shape_faults_are_told_apart(void **state)
{
    (void)state;
    struct batch_rules rules = rules_plain();
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    buf.size = 0;
    assert_int_equal(check(&rules), BATCH_EMPTY);
    build(&o, NULL, 3, false);
    size_t size = buf.size;
    for (size_t cut = 1; cut < size; cut++) {
        buf.size = cut;
        assert_int_equal(check(&rules), BATCH_CUT);
    }
    buf.size = size;
    assert_int_equal(batch_build(&o, &(struct batch_build_record){0}, 1, scratch, &buf), ERR_OK);
    assert_int_equal(check(&rules), BATCH_SEVERAL);
    for (int magic = 0; magic < 4; magic++) {
        build(&o, NULL, 3, false);
        buf.at[16] = (uint8_t)magic;
        assert_int_equal(check(&rules), magic == 2 ? BATCH_OK : BATCH_OLD_MAGIC);
    }
    build(&o, NULL, 3, false);
    set_i32(8, 48);
    assert_int_equal(check(&rules), BATCH_LENGTH);
    set_i32(8, -1);
    assert_int_equal(check(&rules), BATCH_LENGTH);
    build(&o, NULL, 3, false);
    rules.max_message_bytes = (int32_t)buf.size;
    assert_int_equal(check(&rules), BATCH_OK);
    rules.max_message_bytes--;
    assert_int_equal(check(&rules), BATCH_TOO_LARGE);
}

static void test_every_flipped_bit_behind_the_crc_is_noticed(void **state)
{
    (void)state;
    struct batch_rules rules = rules_plain();
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    build(&o, NULL, 3, true);
    for (size_t i = AT_CRC; i < buf.size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            buf.at[i] ^= (uint8_t)(1 << bit);
            assert_int_equal(check(&rules), BATCH_BAD_CRC);
            buf.at[i] ^= (uint8_t)(1 << bit);
        }
    }
    assert_int_equal(check(&rules), BATCH_OK);
}

static void test_header_faults_are_told_apart(void **state)
{
    (void)state;
    struct batch_rules rules = rules_plain();
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    o.base_offset = 1;
    build(&o, NULL, 2, false);
    assert_int_equal(check(&rules), BATCH_BASE_OFFSET);
    o = BATCH_BUILD_PLAIN;
    build(&o, NULL, 0, false);
    assert_int_equal(check(&rules), BATCH_EMPTY);
    build(&o, NULL, 2, false);
    set_i32(57, 3);
    assert_int_equal(check(&rules), BATCH_COUNTS);
    set_i32(23, 2); /* count and last delta agree, but a record is missing */
    assert_int_equal(check(&rules), BATCH_COUNTS);
    set_i32(57, 1);
    set_i32(23, 0); /* the second record is left over */
    assert_int_equal(check(&rules), BATCH_COUNTS);
    o.control = true;
    build(&o, NULL, 2, true);
    assert_int_equal(check(&rules), BATCH_IS_CONTROL);
    rules.control_allowed = true;
    assert_int_equal(check(&rules), BATCH_OK);
    o = BATCH_BUILD_PLAIN;
    o.transactional = true;
    build(&o, NULL, 2, true);
    assert_int_equal(check(&rules), BATCH_SEQUENCE);
    o.producer_id = 7;
    o.producer_epoch = 0;
    o.base_sequence = 0;
    build(&o, NULL, 2, true);
    assert_int_equal(check(&rules), BATCH_IS_TRANSACTIONAL);
    rules.transactional_allowed = true;
    assert_int_equal(check(&rules), BATCH_OK);
    o.base_sequence = -1;
    build(&o, NULL, 2, true);
    assert_int_equal(check(&rules), BATCH_SEQUENCE);
    o = BATCH_BUILD_PLAIN;
    build(&o, NULL, 2, false);
    batch_set_max_timestamp(whole(), true, NOW);
    assert_int_equal(check(&rules), BATCH_TIME_TYPE);
}

static void test_codec_faults_are_told_apart(void **state)
{
    (void)state;
    struct batch_rules rules = rules_plain();
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    for (int c = 5; c <= 7; c++) {
        build(&o, NULL, 2, false);
        buf.at[22] = (uint8_t)c;
        fix_crc();
        assert_int_equal(check(&rules), BATCH_CODEC);
    }
    for (int c = 1; c < CODEC_COUNT; c++) { /* plain bytes under a codec's name */
        build(&o, NULL, 200, false);
        buf.at[22] = (uint8_t)c;
        fix_crc();
        assert_int_equal(check(&rules), BATCH_COMPRESSED);
    }
    o.codec = CODEC_ZSTD;
    build(&o, NULL, 2, false);
    rules.zstd_allowed = false;
    assert_int_equal(check(&rules), BATCH_CODEC_VERSION);
}

/* One record whose bytes behind the length are given. */
static void build_raw(const uint8_t *record, size_t size)
{
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    build(&o, NULL, 1, false);
    buf.size = BATCH_HEADER_SIZE;
    struct wire_writer w;
    wire_writer_init_buf(&w, &buf);
    wire_put_varint(&w, (int32_t)size);
    wire_put_raw(&w, slice_of(record, size));
    assert_int_equal(wire_writer_finish(&w), ERR_OK);
    set_i32(8, (int32_t)buf.size - 12);
}

#define RAW(...)                                                                                   \
    do {                                                                                           \
        const uint8_t bytes_[] = {__VA_ARGS__};                                                    \
        build_raw(bytes_, sizeof bytes_);                                                          \
    } while (0)

static void test_record_framing_is_checked_field_by_field(void **state)
{
    (void)state;
    struct batch_rules rules = rules_plain();
    rules.now_ms = NOW * 2;
    /* attributes, time delta, offset delta, key, value, headers; lengths are zigzag */
    RAW(0, 0, 0, 1, 1, 0);
    assert_int_equal(check(&rules), BATCH_OK);
    RAW(0, 0, 0, 2, 'k', 4, 'v', 'w', 2, 2, 'h', 1);
    assert_int_equal(check(&rules), BATCH_OK);
    RAW(0, 0x80, 0x80, 0x80, 0x80, 0x00, 0, 1, 1, 0); /* long-winded, as Java accepts it */
    assert_int_equal(check(&rules), BATCH_OK);
    RAW(0, 0, 0, 1, 1);
    assert_int_equal(check(&rules), BATCH_RECORD); /* no header count */
    RAW(0, 0, 0, 1, 1, 0, 0);
    assert_int_equal(check(&rules), BATCH_RECORD); /* one byte too many */
    RAW(0, 0, 0, 3, 1, 0);
    assert_int_equal(check(&rules), BATCH_RECORD); /* key length -2 */
    RAW(0, 0, 0, 1, 3, 0);
    assert_int_equal(check(&rules), BATCH_RECORD); /* value length -2 */
    RAW(0, 0, 0, 1, 20, 'x', 0);
    assert_int_equal(check(&rules), BATCH_RECORD); /* value longer than the record */
    RAW(0, 0, 0, 1, 1, 1);
    assert_int_equal(check(&rules), BATCH_RECORD); /* header count -1 */
    RAW(0, 0, 0, 1, 1, 2, 1, 1);
    assert_int_equal(check(&rules), BATCH_RECORD); /* header without key */
    RAW(0, 0, 0, 1, 1, 4, 2, 'h', 1);
    assert_int_equal(check(&rules), BATCH_RECORD); /* second header missing */
    RAW(0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f);
    assert_int_equal(check(&rules), BATCH_RECORD); /* 2^31-1 headers */
    RAW(0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 1, 0);
    assert_int_equal(check(&rules), BATCH_RECORD); /* a varint wider than 32 bits */
    RAW(0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0);
    assert_int_equal(check(&rules), BATCH_RECORD); /* a varint of six bytes */
    RAW(0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03, 0, 1, 1, 0);
    assert_int_equal(check(&rules), BATCH_RECORD); /* a varlong wider than 64 bits */
    RAW(0, 0, 2, 1, 1, 0);
    assert_int_equal(check(&rules), BATCH_OFFSETS); /* first delta is 1 */
    RAW(0, 0, 1, 1, 1, 0);
    assert_int_equal(check(&rules), BATCH_OFFSETS); /* first delta is -1 */
    RAW(0);
    assert_int_equal(check(&rules), BATCH_RECORD);
    build_raw(NULL, 0);
    assert_int_equal(check(&rules), BATCH_RECORD);
    rules.keys_required = true;
    RAW(0, 0, 0, 1, 1, 0);
    assert_int_equal(check(&rules), BATCH_NO_KEY);
    RAW(0, 0, 0, 0, 1, 0);
    assert_int_equal(check(&rules), BATCH_OK); /* an empty key is a key */
}

static void test_offending_record_is_named(void **state)
{
    (void)state;
    struct batch_rules rules = rules_plain();
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    int64_t times[50];
    for (int c = 0; c < CODEC_COUNT; c++) {
        for (size_t i = 0; i < 50; i++) {
            times[i] = i == 37 ? NOW + 3600001 : NOW + 3600000;
        }
        o.codec = (enum codec)c;
        build(&o, times, 50, false);
        struct batch_facts f;
        assert_int_equal(batch_validate(&rules, scratch, whole(), &f), BATCH_TIME);
        assert_int_equal(f.record_index, 37);
        assert_non_null(f.message);
    }
}

static void test_times_outside_the_limits_are_refused(void **state)
{
    (void)state;
    struct batch_rules rules = rules_plain();
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    rules.time_before_max_ms = 1000;
    const struct {
        int64_t time;
        enum batch_reject expected;
    } cases[] = {
        {NOW - 1000, BATCH_OK},      {NOW - 1001, BATCH_TIME},  {NOW + 3600000, BATCH_OK},
        {NOW + 3600001, BATCH_TIME}, {BATCH_NO_TIME, BATCH_OK}, {INT64_MAX, BATCH_TIME},
        {INT64_MIN, BATCH_TIME},     {0, BATCH_TIME},           {-2, BATCH_TIME},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        build(&o, &cases[i].time, 1, false);
        assert_int_equal(check(&rules), cases[i].expected);
    }
    rules.log_append_time = true; /* the broker's clock counts then */
    build(&o, &cases[1].time, 1, false);
    assert_int_equal(check(&rules), BATCH_OK);
    /* An overflowing sum of base and delta is refused whatever the limits are. */
    rules = rules_plain();
    rules.time_after_max_ms = INT64_MAX;
    RAW(0, 4, 0, 1, 1, 0);
    uint64_t base = __builtin_bswap64((uint64_t)INT64_MAX - 1);
    memcpy(buf.at + 27, &base, sizeof base);
    fix_crc();
    assert_int_equal(check(&rules), BATCH_TIME);
}

/* C34: deltas far to both sides, and a record without time. */
static void test_c34_times_out_of_order_keep_the_right_maximum(void **state)
{
    (void)state;
    struct batch_rules rules = rules_plain();
    rules.now_ms = 4000000000000;
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    const int64_t base = 3000000000000;
    const int64_t times[] = {base, base - (1LL << 31) - 5, -1, base + (1LL << 31) + 5, 500};
    for (int c = 0; c < CODEC_COUNT; c++) {
        o.codec = (enum codec)c;
        build(&o, times, 5, false);
        struct batch_facts f;
        assert_int_equal(batch_validate(&rules, scratch, whole(), &f), BATCH_OK);
        assert_int_equal(f.max_timestamp, times[3]);
        assert_int_equal(f.max_timestamp_delta, 3);
        struct batch_found found;
        struct slice b = wire_buf_slice(&buf);
        assert_int_equal(batch_find_time(scratch, b, -1, 0, &found), ERR_OK);
        assert_int_equal(found.offset, 0);
        assert_int_equal(batch_find_time(scratch, b, base + 1, 0, &found), ERR_OK);
        assert_int_equal(found.offset, 3);
        assert_int_equal(batch_find_time(scratch, b, times[3] + 1, 0, &found), ERR_NOTFOUND);
        const int64_t none[] = {-1, -1};
        build(&o, none, 2, false);
        assert_int_equal(batch_validate(&rules, scratch, whole(), &f), BATCH_OK);
        assert_int_equal(f.max_timestamp, -1);
        b = wire_buf_slice(&buf);
        assert_int_equal(batch_find_time(scratch, b, -1, 0, &found), ERR_NOTFOUND);
        assert_int_equal(batch_find_max_time(scratch, b, &found), ERR_NOTFOUND);
    }
}

/* C31 and C32: the first record with the largest time, the first at or after a trimmed start. */
static void test_c32_search_finds_the_first_record_that_matches(void **state)
{
    (void)state;
    const int64_t times[] = {5, 9, 7, 9};
    for (int c = 0; c < CODEC_COUNT; c++) {
        struct batch_build_options o = BATCH_BUILD_PLAIN;
        o.codec = (enum codec)c;
        o.base_offset = 100;
        build(&o, times, 4, false);
        struct slice b = wire_buf_slice(&buf);
        struct batch_found f;
        assert_int_equal(batch_find_max_time(scratch, b, &f), ERR_OK);
        assert_int_equal(f.offset, 101);
        assert_int_equal(f.timestamp, 9);
        assert_int_equal(batch_find_time(scratch, b, 4, 0, &f), ERR_OK);
        assert_int_equal(f.offset, 100);
        assert_int_equal(f.timestamp, 5);
        assert_int_equal(batch_find_time(scratch, b, 6, 0, &f), ERR_OK);
        assert_int_equal(f.offset, 101);
        assert_int_equal(batch_find_time(scratch, b, 6, 102, &f), ERR_OK);
        assert_int_equal(f.offset, 102);
        assert_int_equal(f.timestamp, 7);
        assert_int_equal(batch_find_time(scratch, b, 6, 104, &f), ERR_NOTFOUND);
        /* Under log append time all records have the batch's time. */
        batch_set_max_timestamp(whole(), true, 50);
        assert_int_equal(batch_find_max_time(scratch, b, &f), ERR_OK);
        assert_int_equal(f.offset, 100);
        assert_int_equal(f.timestamp, 50);
        assert_int_equal(batch_find_time(scratch, b, 50, 103, &f), ERR_OK);
        assert_int_equal(f.offset, 103);
        assert_int_equal(batch_find_time(scratch, b, 51, 0, &f), ERR_NOTFOUND);
    }
}

static void test_stamping_changes_the_header_alone(void **state)
{
    (void)state;
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    build(&o, NULL, 10, true);
    struct batch_rules rules = rules_plain();
    rules.log_append_time = true;
    rules.now_ms = NOW + 777;
    uint8_t before[1024];
    memcpy(before, buf.at, buf.size);
    struct batch_facts f;
    assert_int_equal(batch_validate(&rules, scratch, whole(), &f), BATCH_OK);
    assert_int_equal(f.max_timestamp, NOW + 777);
    assert_int_equal(f.max_timestamp_delta, 0);
    struct batch_header h;
    assert_int_equal(batch_peek(wire_buf_slice(&buf), &h), ERR_OK);
    assert_true(batch_is_log_append_time(&h));
    assert_int_equal(h.max_timestamp, NOW + 777);
    assert_int_equal(h.crc, f.header.crc);
    assert_int_equal(batch_check_crc(wire_buf_slice(&buf)), ERR_OK);
    assert_memory_equal(before + BATCH_HEADER_SIZE, buf.at + BATCH_HEADER_SIZE,
                        buf.size - BATCH_HEADER_SIZE);
    /* Offset and epoch leave the checksum alone. */
    batch_set_base_offset(buf.at, 123456789012);
    batch_set_leader_epoch(buf.at, 42);
    assert_int_equal(batch_check_crc(wire_buf_slice(&buf)), ERR_OK);
    assert_int_equal(batch_peek(wire_buf_slice(&buf), &h), ERR_OK);
    assert_int_equal(h.base_offset, 123456789012);
    assert_int_equal(batch_last_offset(&h), 123456789021);
    assert_int_equal(h.leader_epoch, 42);
}

static void test_wrong_max_timestamp_of_a_client_is_put_right(void **state)
{
    (void)state;
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    build(&o, NULL, 10, true);
    batch_set_max_timestamp(whole(), false, NOW + 500000);
    struct batch_rules rules = rules_plain();
    assert_int_equal(check(&rules), BATCH_OK);
    struct batch_header h;
    assert_int_equal(batch_peek(wire_buf_slice(&buf), &h), ERR_OK);
    assert_int_equal(h.max_timestamp, NOW + 9);
    assert_int_equal(batch_check_crc(wire_buf_slice(&buf)), ERR_OK);
}

/* Every record of two batches is the same. */
static void assert_same_records(struct slice a, struct slice b)
{
    struct batch_iter ia;
    struct batch_iter ib;
    struct wire_buf ba;
    struct wire_buf bb;
    wire_buf_init(&ba, 256u << 20);
    wire_buf_init(&bb, 256u << 20);
    assert_int_equal(batch_iter_open(&ia, scratch, a, 256u << 20, &ba), ERR_OK);
    assert_int_equal(batch_iter_open(&ib, scratch, b, 256u << 20, &bb), ERR_OK);
    struct batch_record ra;
    struct batch_record rb;
    while (batch_iter_next(&ia, &ra)) {
        assert_true(batch_iter_next(&ib, &rb));
        assert_int_equal(ra.offset, rb.offset);
        assert_int_equal(ra.timestamp, rb.timestamp);
        assert_true(slice_eq(ra.key, rb.key));
        assert_true(slice_eq(ra.value, rb.value));
        assert_true(slice_eq(ra.headers, rb.headers));
    }
    assert_false(batch_iter_next(&ib, &rb));
    assert_int_equal(ia.err, ERR_OK);
    assert_int_equal(ib.err, ERR_OK);
    wire_buf_fini(&ba);
    wire_buf_fini(&bb);
}

static void test_every_codec_is_rewritten_into_every_other(void **state)
{
    (void)state;
    for (int from = 0; from < CODEC_COUNT; from++) {
        for (int to = 0; to < CODEC_COUNT; to++) {
            struct batch_build_options o = BATCH_BUILD_PLAIN;
            o.codec = (enum codec)from;
            o.producer_id = 9;
            o.producer_epoch = 1;
            o.base_sequence = 77;
            build(&o, NULL, 900, true);
            struct batch_rules rules = rules_plain();
            rules.codec_forced = true;
            rules.codec = (enum codec)to;
            struct batch_facts f;
            assert_int_equal(batch_validate(&rules, scratch, whole(), &f), BATCH_OK);
            assert_int_equal(f.recompress, from != to);
            if (from == to) { continue; }
            struct slice old = wire_buf_slice(&buf);
            assert_int_equal(batch_recompress(&rules, scratch, old, &f, &other), BATCH_OK);
            struct slice made = wire_buf_slice(&other);
            assert_int_equal(batch_check_crc(made), ERR_OK);
            struct batch_header h;
            assert_int_equal(batch_peek(made, &h), ERR_OK);
            assert_int_equal(batch_codec_bits(&h), to);
            assert_int_equal(batch_size(&h), made.size);
            assert_int_equal(h.base_sequence, 77);
            assert_memory_equal(&h, &f.header, sizeof h);
            assert_same_records(old, made);
            rules.codec_forced = false;
            assert_int_equal(
                batch_validate(&rules, scratch, (struct mslice){other.at, other.size}, &f),
                BATCH_OK);
        }
    }
}

static void test_rewriting_stamps_log_append_time_and_keeps_the_size_limit(void **state)
{
    (void)state;
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    o.codec = CODEC_ZSTD;
    build(&o, NULL, 900, true);
    struct batch_rules rules = rules_plain();
    rules.codec_forced = true;
    rules.log_append_time = true;
    struct batch_facts f;
    assert_int_equal(batch_validate(&rules, scratch, whole(), &f), BATCH_OK);
    assert_int_equal(batch_recompress(&rules, scratch, wire_buf_slice(&buf), &f, &other), BATCH_OK);
    struct batch_header h;
    assert_int_equal(batch_peek(wire_buf_slice(&other), &h), ERR_OK);
    assert_true(batch_is_log_append_time(&h));
    assert_int_equal(h.max_timestamp, NOW);
    assert_int_equal(batch_codec_bits(&h), CODEC_NONE);
    rules.max_message_bytes = (int32_t)other.size - 1;
    assert_int_equal(batch_validate(&rules, scratch, whole(), &f), BATCH_OK);
    assert_int_equal(batch_recompress(&rules, scratch, wire_buf_slice(&buf), &f, &other),
                     BATCH_TOO_LARGE);
    assert_non_null(f.message);
}

static void test_compression_levels_are_taken_and_clamped(void **state)
{
    (void)state;
    const int32_t levels[] = {
        CODEC_LEVEL_DEFAULT, -200000, -131072, -1, 0, 1, 2, 9, 12, 17, 19, 99};
    for (int c = 1; c < CODEC_COUNT; c++) {
        for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
            struct batch_build_options o = BATCH_BUILD_PLAIN;
            o.codec = (enum codec)c;
            o.level = levels[i];
            build(&o, NULL, 500, true);
            struct batch_rules rules = rules_plain();
            assert_int_equal(check(&rules), BATCH_OK);
        }
    }
}

/* Records longer than the window that the walk looks through, at its edges too. */
static void test_records_longer_than_the_window_are_walked(void **state)
{
    (void)state;
    static uint8_t big[300000];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof big; i++) {
        x = x * 1664525u + 1013904223u;
        big[i] = (uint8_t)(x >> 24);
    }
    const struct batch_build_header headers[] = {
        {SLICE_LIT("first"), slice_of(big, 70000)},
        {SLICE_LIT("second"), SLICE_NULL},
        {slice_of(big, 66000), SLICE_LIT("")},
    };
    const size_t sizes[] = {65536 - 20, 65536 - 10, 65536, 65536 + 10, 131072, 300000};
    for (int c = 0; c < CODEC_COUNT; c++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            struct batch_build_record r[4] = {
                {.timestamp = 1, .key = slice_of(big, 70), .value = slice_of(big, sizes[i])},
                {.timestamp = 3, .key = slice_of(big, sizes[i]), .value = SLICE_LIT("v")},
                {.timestamp = 2, .value = SLICE_LIT("x"), .headers = headers, .headers_count = 3},
                {.timestamp = 0, .key = SLICE_LIT("k")},
            };
            struct batch_build_options o = BATCH_BUILD_PLAIN;
            o.codec = (enum codec)c;
            buf.size = 0;
            assert_int_equal(batch_build(&o, r, 4, scratch, &buf), ERR_OK);
            struct batch_rules rules = rules_plain();
            rules.max_message_bytes = 0;
            struct batch_facts f;
            assert_int_equal(batch_validate(&rules, scratch, whole(), &f), BATCH_OK);
            assert_int_equal(f.max_timestamp_delta, 1);
            assert_int_equal(f.max_timestamp, 3);
            rules.keys_required = true;
            assert_int_equal(batch_validate(&rules, scratch, whole(), &f), BATCH_NO_KEY);
            assert_int_equal(f.record_index, 2);
        }
    }
}

static void test_a_bomb_is_stopped_at_the_limit(void **state)
{
    (void)state;
    static uint8_t zeros[8u << 20];
    for (int c = 1; c < CODEC_COUNT; c++) {
        struct batch_build_record r = {.timestamp = NOW, .value = slice_of(zeros, sizeof zeros)};
        struct batch_build_options o = BATCH_BUILD_PLAIN;
        o.codec = (enum codec)c;
        buf.size = 0;
        assert_int_equal(batch_build(&o, &r, 1, scratch, &buf), ERR_OK);
        struct batch_rules rules = rules_plain();
        assert_int_equal(check(&rules), BATCH_OK);
        struct batch_facts f;
        assert_int_equal(batch_validate(&rules, scratch, whole(), &f), BATCH_OK);
        rules.decompressed_bytes_max = (int64_t)f.records_bytes;
        assert_int_equal(check(&rules), BATCH_OK);
        rules.decompressed_bytes_max--;
        assert_int_equal(check(&rules), BATCH_BOMB);
        rules.decompressed_bytes_max = 1000;
        assert_int_equal(check(&rules), BATCH_BOMB);
        build(&o, NULL, 2, false); /* the scratch is fine afterwards */
        assert_int_equal(check(&(struct batch_rules){.now_ms = NOW,
                                                     .zstd_allowed = true,
                                                     .time_before_max_ms = INT64_MAX,
                                                     .time_after_max_ms = 99}),
                         BATCH_OK);
    }
}

static void test_headers_come_back_as_they_were_written(void **state)
{
    (void)state;
    const struct batch_build_header headers[] = {{SLICE_LIT("a"), SLICE_LIT("1")},
                                                 {SLICE_LIT(""), SLICE_NULL},
                                                 {SLICE_LIT("b"), SLICE_LIT("")}};
    struct batch_build_record r = {.timestamp = 8, .headers = headers, .headers_count = 3};
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    o.base_offset = 5;
    buf.size = 0;
    assert_int_equal(batch_build(&o, &r, 1, NULL, &buf), ERR_OK);
    struct batch_iter it;
    struct batch_record got;
    assert_int_equal(batch_iter_open(&it, NULL, wire_buf_slice(&buf), 0, NULL), ERR_OK);
    assert_true(batch_iter_next(&it, &got));
    assert_int_equal(got.offset, 5);
    assert_int_equal(got.timestamp, 8);
    assert_true(slice_is_null(got.key) && slice_is_null(got.value));
    assert_int_equal(got.headers_count, 3);
    assert_int_equal(got.size, buf.size - BATCH_HEADER_SIZE);
    for (int i = 0; i < 3; i++) {
        struct slice key;
        struct slice value;
        assert_true(batch_header_next(&got.headers, &key, &value));
        assert_true(slice_eq(key, headers[i].key));
        assert_true(slice_eq(value, headers[i].value));
        assert_int_equal(slice_is_null(value), slice_is_null(headers[i].value));
    }
    struct slice key;
    assert_false(batch_header_next(&got.headers, &key, &key));
    assert_false(batch_iter_next(&it, &got));
    assert_int_equal(it.err, ERR_OK);
}

static void test_sequences_wrap_behind_the_largest_number(void **state)
{
    (void)state;
    struct batch_header h = {.base_sequence = 2147483646, .last_offset_delta = 2};
    assert_int_equal(batch_last_sequence(&h), 0);
    h.last_offset_delta = 1;
    assert_int_equal(batch_last_sequence(&h), INT32_MAX);
    h = (struct batch_header){.base_sequence = -1, .last_offset_delta = 9};
    assert_int_equal(batch_last_sequence(&h), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_batch_of_each_codec_is_accepted_with_its_facts),
        cmocka_unit_test(test_shape_faults_are_told_apart),
        cmocka_unit_test(test_every_flipped_bit_behind_the_crc_is_noticed),
        cmocka_unit_test(test_header_faults_are_told_apart),
        cmocka_unit_test(test_codec_faults_are_told_apart),
        cmocka_unit_test(test_record_framing_is_checked_field_by_field),
        cmocka_unit_test(test_offending_record_is_named),
        cmocka_unit_test(test_times_outside_the_limits_are_refused),
        cmocka_unit_test(test_c34_times_out_of_order_keep_the_right_maximum),
        cmocka_unit_test(test_c32_search_finds_the_first_record_that_matches),
        cmocka_unit_test(test_stamping_changes_the_header_alone),
        cmocka_unit_test(test_wrong_max_timestamp_of_a_client_is_put_right),
        cmocka_unit_test(test_every_codec_is_rewritten_into_every_other),
        cmocka_unit_test(test_rewriting_stamps_log_append_time_and_keeps_the_size_limit),
        cmocka_unit_test(test_compression_levels_are_taken_and_clamped),
        cmocka_unit_test(test_records_longer_than_the_window_are_walked),
        cmocka_unit_test(test_a_bomb_is_stopped_at_the_limit),
        cmocka_unit_test(test_headers_come_back_as_they_were_written),
        cmocka_unit_test(test_sequences_wrap_behind_the_largest_number),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
