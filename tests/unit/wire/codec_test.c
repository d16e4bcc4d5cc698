/* codec_test.c - streams of every codec: round trips, cuts, noise, foreign framings, bombs. */
#include "wire/codec.h"

#include <lz4frame.h>
#include <setjmp.h>
#include <snappy-c.h>
#include <stdarg.h>
#include <stdlib.h>
#include <zstd.h>

#include <cmocka.h>

#define SIZE_MAX_TESTED 400000u

static struct codec_scratch *scratch;
static uint8_t *text; /* compresses well */
static uint8_t *noise; /* does not compress */
static struct wire_buf packed;
static struct wire_buf plain;

static uint32_t random_state = 7;
static uint32_t next_random(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static int setup(void **state)
{
    (void)state;
    scratch = codec_scratch_create();
    text = malloc(SIZE_MAX_TESTED);
    noise = malloc(SIZE_MAX_TESTED);
    wire_buf_init(&packed, 64u << 20);
    wire_buf_init(&plain, 64u << 20);
    for (size_t i = 0; i < SIZE_MAX_TESTED; i++) {
        text[i] = (uint8_t)("the castle hill was hidden "[next_random() % 7 + i % 20]);
        noise[i] = (uint8_t)next_random();
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    codec_scratch_destroy(scratch);
    free(text);
    free(noise);
    wire_buf_fini(&packed);
    wire_buf_fini(&plain);
    return 0;
}

static void pack(enum codec c, struct slice in, size_t piece)
{
    packed.size = 0;
    assert_int_equal(codec_write_open(scratch, c, CODEC_LEVEL_DEFAULT, 0, &packed), ERR_OK);
    for (size_t at = 0; at < in.size; at += piece) {
        assert_int_equal(codec_write(scratch, slice_sub(in, at, piece)), ERR_OK);
    }
    assert_int_equal(codec_write_end(scratch), ERR_OK);
}

static enum err unpack(enum codec c, struct slice in, uint64_t max)
{
    plain.size = 0;
    return codec_decompress(scratch, c, in, max, &plain);
}

static void test_what_is_written_is_read_back_whatever_the_pieces(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 2, 100, 32767, 32768, 32769, 65535, 65536, 65537, 400000};
    const size_t pieces[] = {1000, 32768, 65536, 400000};
    for (int c = 0; c < CODEC_COUNT; c++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
                struct slice in = slice_of(i % 2 ? text : noise, sizes[i]);
                pack((enum codec)c, in, pieces[p]);
                assert_int_equal(unpack((enum codec)c, wire_buf_slice(&packed), in.size), ERR_OK);
                assert_true(slice_eq(in, wire_buf_slice(&plain)));
            }
        }
    }
}

static void test_small_reads_give_the_same_bytes(void **state)
{
    (void)state;
    for (int c = 0; c < CODEC_COUNT; c++) {
        pack((enum codec)c, slice_of(text, 100000), 100000);
        for (size_t step = 1; step < 40000; step = step * 3 + 1) {
            assert_int_equal(
                codec_read_open(scratch, (enum codec)c, wire_buf_slice(&packed), UINT64_MAX),
                ERR_OK);
            uint8_t out[40000];
            size_t done = 0;
            size_t got = 1;
            while (got > 0) {
                assert_int_equal(codec_read(scratch, out, step, &got), ERR_OK);
                assert_memory_equal(out, text + done, got);
                done += got;
            }
            assert_int_equal(done, 100000);
            codec_read_close(scratch);
        }
    }
}

static void test_output_beyond_the_limit_is_an_error_not_a_cut(void **state)
{
    (void)state;
    for (int c = 0; c < CODEC_COUNT; c++) {
        pack((enum codec)c, slice_of(text, 100000), 100000);
        assert_int_equal(unpack((enum codec)c, wire_buf_slice(&packed), 100000), ERR_OK);
        assert_int_equal(unpack((enum codec)c, wire_buf_slice(&packed), 99999), ERR_LIMIT);
        assert_true(plain.size <= 99999); /* [COD-1] */
        assert_int_equal(unpack((enum codec)c, wire_buf_slice(&packed), 0), ERR_LIMIT);
    }
}

static void test_cut_streams_and_bytes_behind_are_malformed(void **state)
{
    (void)state;
    for (int c = 1; c < CODEC_COUNT; c++) {
        pack((enum codec)c, slice_of(text, 1000), 1000);
        size_t size = packed.size;
        for (size_t cut = 0; cut < size; cut++) {
            if (c == CODEC_SNAPPY && cut == 16) { continue; } /* a framing without blocks */
            enum err e = unpack((enum codec)c, slice_of(packed.at, cut), 5000);
            assert_int_equal(e, ERR_MALFORMED);
        }
        assert_int_equal(wire_buf_reserve(&packed, size + 1), ERR_OK);
        packed.at[size] = 0x55;
        assert_int_equal(unpack((enum codec)c, slice_of(packed.at, size + 1), 5000),
                         ERR_MALFORMED); /* [COD-2] */
    }
}

static void test_damaged_streams_never_yield_more_than_the_limit(void **state)
{
    (void)state;
    for (int c = 1; c < CODEC_COUNT; c++) {
        for (int round = 0; round < 3000; round++) {
            pack((enum codec)c, slice_of(text, 700), 700);
            for (int n = 0; n < 3; n++) {
                packed.at[next_random() % packed.size] = (uint8_t)next_random();
            }
            enum err e = unpack((enum codec)c, wire_buf_slice(&packed), 4096);
            assert_true(e == ERR_OK || e == ERR_MALFORMED || e == ERR_LIMIT);
            assert_true(plain.size <= 4096);
        }
    }
}

static void test_raw_snappy_without_framing_is_read(void **state)
{
    (void)state;
    size_t size = snappy_max_compressed_length(200000);
    char *raw = malloc(size);
    assert_int_equal(snappy_compress((const char *)text, 200000, raw, &size), SNAPPY_OK);
    assert_int_equal(unpack(CODEC_SNAPPY, slice_of(raw, size), 200000), ERR_OK);
    assert_true(slice_eq(slice_of(text, 200000), wire_buf_slice(&plain)));
    assert_int_equal(unpack(CODEC_SNAPPY, slice_of(raw, size), 1000), ERR_LIMIT);
    free(raw);
}

static void test_snappy_that_lies_about_its_size_costs_no_memory(void **state)
{
    (void)state;
    /* 4 GiB and 60 MiB declared, a few bytes there. */
    const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0x0f, 0x00, 'x'};
    const uint8_t large[] = {0x80, 0x80, 0x80, 0x1e, 0x00, 'x'};
    assert_int_equal(unpack(CODEC_SNAPPY, slice_of(huge, sizeof huge), UINT64_MAX), ERR_MALFORMED);
    assert_int_equal(unpack(CODEC_SNAPPY, slice_of(large, sizeof large), UINT64_MAX),
                     ERR_MALFORMED);
    uint8_t framed[16 + 4 + sizeof large] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0,
                                             0,    0,   0,   1,   0,   0,   0,   1};
    framed[16] = 0xff; /* a negative block size */
    memcpy(framed + 20, large, sizeof large);
    assert_int_equal(unpack(CODEC_SNAPPY, slice_of(framed, sizeof framed), UINT64_MAX),
                     ERR_MALFORMED);
}

static void test_joined_gzip_members_and_zstd_frames_are_one_stream(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const enum codec codecs[] = {CODEC_GZIP, CODEC_ZSTD, CODEC_SNAPPY};
        enum codec c = codecs[i];
        pack(c, slice_of(text, 5000), 5000);
        struct wire_buf two;
        wire_buf_init(&two, 1u << 20);
        assert_int_equal(wire_buf_reserve(&two, 2 * packed.size), ERR_OK);
        memcpy(two.at, packed.at, packed.size);
        memcpy(two.at + packed.size, packed.at, packed.size);
        two.size = 2 * packed.size;
        assert_int_equal(unpack(c, wire_buf_slice(&two), 10000), ERR_OK);
        assert_int_equal(plain.size, 10000);
        assert_memory_equal(plain.at, text, 5000);
        assert_memory_equal(plain.at + 5000, text, 5000);
        wire_buf_fini(&two);
    }
}

/* Java's reader could not read these, so they must not enter a log. */
/* It says 88 bytes, has 20 and an empty last block, which the library does not compare. */
static void test_zstd_frame_that_is_shorter_than_it_says_is_malformed(void **state)
{
    (void)state;
    static const uint8_t frame[] = "\x28\xb5\x2f\xfd\x21\x00\x58\xa0\x00\x00"
                                   "\x26\0\0\0\x0akey-0\x10value-0-\0\x01\0";
    struct codec_scratch *s = codec_scratch_create();
    assert_non_null(s);
    struct slice in = slice_of(frame, sizeof frame); /* with the literal's last zero */
    for (size_t step = 1; step <= 128; step *= 2) {
        uint8_t piece[128];
        size_t got = 1;
        enum err e = codec_read_open(s, CODEC_ZSTD, in, 1024);
        while (!e && got > 0) {
            e = codec_read(s, piece, step, &got);
        }
        codec_read_close(s);
        assert_int_equal(e, ERR_MALFORMED);
    }
    codec_scratch_destroy(s);
}

static void test_lz4_frames_with_linked_blocks_are_refused(void **state)
{
    (void)state;
    LZ4F_preferences_t p = LZ4F_INIT_PREFERENCES;
    p.frameInfo.blockMode = LZ4F_blockLinked;
    p.frameInfo.blockSizeID = LZ4F_max64KB;
    size_t cap = LZ4F_compressFrameBound(200000, &p);
    uint8_t *frame = malloc(cap);
    size_t size = LZ4F_compressFrame(frame, cap, text, 200000, &p);
    assert_false(LZ4F_isError(size));
    assert_int_equal(unpack(CODEC_LZ4, slice_of(frame, size), 200000), ERR_MALFORMED);
    p.frameInfo.blockMode = LZ4F_blockIndependent;
    p.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
    p.frameInfo.blockSizeID = LZ4F_max4MB;
    size = LZ4F_compressFrame(frame, cap, text, 200000, &p);
    assert_false(LZ4F_isError(size));
    assert_int_equal(unpack(CODEC_LZ4, slice_of(frame, size), 200000), ERR_OK);
    assert_true(slice_eq(slice_of(text, 200000), wire_buf_slice(&plain)));
    frame[size - 1] ^= 1; /* the content's checksum */
    assert_int_equal(unpack(CODEC_LZ4, slice_of(frame, size), 200000), ERR_MALFORMED);
    free(frame);
}

static void test_zstd_frames_of_the_largest_level_are_read(void **state)
{
    (void)state;
    /* Written as a stream, so the frame asks for the whole window of its level. */
    for (int level = -5; level <= 22; level += 9) {
        packed.size = 0;
        assert_int_equal(codec_write_open(scratch, CODEC_ZSTD, level, 0, &packed), ERR_OK);
        assert_int_equal(codec_write(scratch, slice_of(text, 50000)), ERR_OK);
        assert_int_equal(codec_write(scratch, slice_of(text, 50000)), ERR_OK);
        assert_int_equal(codec_write_end(scratch), ERR_OK);
        assert_int_equal(unpack(CODEC_ZSTD, wire_buf_slice(&packed), 100000), ERR_OK);
        assert_int_equal(plain.size, 100000);
    }
}

static void test_output_limit_of_a_writer_is_kept(void **state)
{
    (void)state;
    for (int c = 0; c < CODEC_COUNT; c++) {
        struct wire_buf small;
        wire_buf_init(&small, 2000);
        enum err e = codec_write_open(scratch, (enum codec)c, CODEC_LEVEL_DEFAULT, 0, &small);
        if (!e) { e = codec_write(scratch, slice_of(noise, 100000)); }
        if (!e) { e = codec_write_end(scratch); }
        codec_write_close(scratch);
        assert_int_equal(e, ERR_LIMIT);
        assert_true(small.cap <= 2000);
        wire_buf_fini(&small);
    }
}

static void test_names_are_kafkas(void **state)
{
    (void)state;
    static const char *const names[CODEC_COUNT] = {"none", "gzip", "snappy", "lz4", "zstd"};
    for (int i = 0; i < CODEC_COUNT; i++) {
        assert_string_equal(codec_name((enum codec)i), names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_kafkas),
        cmocka_unit_test(test_what_is_written_is_read_back_whatever_the_pieces),
        cmocka_unit_test(test_small_reads_give_the_same_bytes),
        cmocka_unit_test(test_output_beyond_the_limit_is_an_error_not_a_cut),
        cmocka_unit_test(test_cut_streams_and_bytes_behind_are_malformed),
        cmocka_unit_test(test_damaged_streams_never_yield_more_than_the_limit),
        cmocka_unit_test(test_raw_snappy_without_framing_is_read),
        cmocka_unit_test(test_snappy_that_lies_about_its_size_costs_no_memory),
        cmocka_unit_test(test_joined_gzip_members_and_zstd_frames_are_one_stream),
        cmocka_unit_test(test_zstd_frame_that_is_shorter_than_it_says_is_malformed),
        cmocka_unit_test(test_lz4_frames_with_linked_blocks_are_refused),
        cmocka_unit_test(test_zstd_frames_of_the_largest_level_are_read),
        cmocka_unit_test(test_output_limit_of_a_writer_is_kept),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
