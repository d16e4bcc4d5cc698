/* codec_fuzz.c - compressed payloads of every codec.
 *
 * Input: a byte for the codec, then the payload. Oracles: never more output than the limit; reading
 * in small pieces gives the same bytes and verdict as in one; what was read can be written and read
 * again. */
#include "fuzz/fuzz.h"
#include "wire/codec.h"

#include <stdlib.h>

#define OUT_MAX ((uint64_t)1 << 20)

static struct codec_scratch *scratch;
static struct wire_buf whole;
static struct wire_buf again;

static void check_pieces(enum codec codec, struct slice in, enum err expected)
{
    static uint8_t piece[4096];
    size_t done = 0;
    size_t step = 1;
    size_t got = 1;
    enum err e = codec_read_open(scratch, codec, in, OUT_MAX);
    while (!e && got > 0) {
        e = codec_read(scratch, piece, step, &got);
        CHECK(got <= step);
        if (expected == ERR_OK) {
            CHECK(!e && done + got <= whole.size);
            CHECK(got == 0 || memcmp(whole.at + done, piece, got) == 0);
        }
        done += got;
        CHECK(done <= OUT_MAX);
        step = step * 2 + 1 > sizeof piece ? sizeof piece : step * 2 + 1;
    }
    codec_read_close(scratch);
    CHECK((e == ERR_OK) == (expected == ERR_OK));
    CHECK(e || done == whole.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!scratch) {
        scratch = codec_scratch_create();
        wire_buf_init(&whole, 4 * OUT_MAX);
        wire_buf_init(&again, 4 * OUT_MAX);
    }
    if (size < 1) { return 0; }
    CHECK(scratch != NULL);
    enum codec codec = (enum codec)(data[0] % CODEC_COUNT);
    struct slice in = slice_of(data + 1, size - 1);
    whole.size = 0;
    enum err e = codec_decompress(scratch, codec, in, OUT_MAX, &whole);
    CHECK(e == ERR_OK || e == ERR_MALFORMED || e == ERR_LIMIT);
    CHECK(whole.size <= OUT_MAX);
    check_pieces(codec, in, e);
    if (e) { return 0; }
    again.size = 0;
    e = codec_write_open(scratch, codec, CODEC_LEVEL_DEFAULT, whole.size, &again);
    CHECK(!e);
    e = codec_write(scratch, wire_buf_slice(&whole));
    CHECK(!e);
    e = codec_write_end(scratch);
    CHECK(!e);
    size_t plain = whole.size;
    if (plain == 0) {
        return 0;
    } /* an empty xerial stream is not read back, as no batch is empty */
    e = codec_decompress(scratch, codec, wire_buf_slice(&again), OUT_MAX, &whole);
    CHECK(!e && whole.size == 2 * plain);
    CHECK(memcmp(whole.at, whole.at + plain, plain) == 0);
    return 0;
}
