/* codec_snappy.c - snappy blocks, in the framing of the Java library (xerial) or raw.
 *
 * Framing: 82 'S' 'N' 'A' 'P' 'P' 'Y' 00, version int32, oldest compatible version int32, then
 * blocks: size int32 big endian, one raw snappy block. Java writes blocks of 32 KiB of input. Some
 * clients send one raw block without framing; the first eight bytes tell them apart.
 *
 * A block is decompressed as a whole, so its declared size is checked first: snappy's densest
 * element makes 64 bytes of 3, so more than 22 times the input is a lie. */
#include "base/check.h"
#include "wire/codec_int.h"

#include <snappy-c.h>

#define XERIAL_HEADER_SIZE 16
#define XERIAL_BLOCK_SIZE 32768u
#define SNAPPY_RATIO_MAX 22u

static const uint8_t xerial_header[XERIAL_HEADER_SIZE] = {
    0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1,
};

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

enum err codec_snappy_read_open(struct codec_scratch *s)
{
    s->block.size = 0;
    s->block_pos = 0;
    s->block_framed = s->in.size >= 8 && memcmp(s->in.at, xerial_header, 8) == 0;
    if (s->block_framed) {
        if (s->in.size < XERIAL_HEADER_SIZE) { return ERR_MALFORMED; }
        s->in = slice_sub(s->in, XERIAL_HEADER_SIZE, s->in.size);
    } else if (s->in.size == 0) {
        return ERR_MALFORMED;
    }
    return ERR_OK;
}

/* Takes the next compressed block off the input. */
static enum err next_block(struct codec_scratch *s, struct slice *out)
{
    if (!s->block_framed) {
        *out = s->in;
        s->in = SLICE_NULL;
        return ERR_OK;
    }
    /* Streams may be joined: then a header stands where a size is due. */
    while (s->in.size >= XERIAL_HEADER_SIZE && memcmp(s->in.at, xerial_header, 8) == 0) {
        s->in = slice_sub(s->in, XERIAL_HEADER_SIZE, s->in.size);
    }
    if (s->in.size == 0) {
        *out = SLICE_NULL;
        return ERR_OK;
    }
    if (s->in.size < 4) { return ERR_MALFORMED; }
    uint32_t size = get_u32(s->in.at);
    s->in = slice_sub(s->in, 4, s->in.size);
    if (size == 0 || size > s->in.size) { return ERR_MALFORMED; }
    *out = slice_sub(s->in, 0, size);
    s->in = slice_sub(s->in, size, s->in.size);
    return ERR_OK;
}

/* Decompresses into at when there is room for the whole block, else into the block buffer. */
static enum err open_block(struct codec_scratch *s, struct slice in, uint8_t *at, size_t room,
                           size_t *got)
{
    size_t size = 0;
    if (snappy_uncompressed_length((const char *)in.at, in.size, &size) != SNAPPY_OK) {
        return ERR_MALFORMED;
    }
    if (size / SNAPPY_RATIO_MAX > in.size) { return ERR_MALFORMED; }
    if (size > CODEC_WINDOW && size - CODEC_WINDOW > s->out_left) { return ERR_LIMIT; }
    uint8_t *to = at;
    if (size > room) {
        s->block.size = 0;
        enum err e = wire_buf_reserve(&s->block, size);
        if (e) { return e; }
        to = s->block.at;
    }
    size_t made = size;
    uint8_t none;
    if (snappy_uncompress((const char *)in.at, in.size, (char *)(size ? to : &none), &made) !=
            SNAPPY_OK ||
        made != size) {
        return ERR_MALFORMED;
    }
    if (size > room) {
        s->block.size = size;
        s->block_pos = 0;
        *got = 0;
    } else {
        *got = size;
    }
    return ERR_OK;
}

enum err codec_snappy_read(struct codec_scratch *s, uint8_t *at, size_t size, size_t *got)
{
    size_t done = 0;
    while (done < size) {
        size_t ready = s->block.size - s->block_pos;
        if (ready > 0) {
            size_t n = ready < size - done ? ready : size - done;
            memcpy(at + done, s->block.at + s->block_pos, n);
            s->block_pos += n;
            done += n;
            continue;
        }
        if (s->in.size == 0) { break; }
        struct slice block = SLICE_NULL;
        enum err e = next_block(s, &block);
        if (e) { return e; }
        if (block.size == 0) { break; }
        size_t n = 0;
        e = open_block(s, block, at + done, size - done, &n);
        if (e) { return e; }
        done += n;
    }
    *got = done;
    return ERR_OK;
}

void codec_snappy_read_close(struct codec_scratch *s)
{
    s->block.size = 0;
    s->block_pos = 0;
    if (s->block.cap > CODEC_KEEP_MAX) {
        size_t limit = s->block.limit;
        wire_buf_fini(&s->block);
        wire_buf_init(&s->block, limit);
    }
}

enum err codec_snappy_write_open(struct codec_scratch *s)
{
    enum err e = codec_blocks_open(s, XERIAL_BLOCK_SIZE);
    if (e) { return e; }
    uint8_t *to = codec_out_room(s, XERIAL_HEADER_SIZE, &e);
    if (!to) { return e; }
    memcpy(to, xerial_header, XERIAL_HEADER_SIZE);
    s->out->size += XERIAL_HEADER_SIZE;
    return ERR_OK;
}

static enum err write_block(struct codec_scratch *s, struct slice in)
{
    enum err e = ERR_OK;
    size_t made = snappy_max_compressed_length(in.size);
    uint8_t *to = codec_out_room(s, 4 + made, &e);
    if (!to) { return e; }
    snappy_status st = snappy_compress((const char *)in.at, in.size, (char *)to + 4, &made);
    CHECK(st == SNAPPY_OK);
    uint32_t size = __builtin_bswap32((uint32_t)made);
    memcpy(to, &size, sizeof size);
    s->out->size += 4 + made;
    return ERR_OK;
}

enum err codec_snappy_write(struct codec_scratch *s, struct slice in)
{
    return codec_blocks_write(s, in, XERIAL_BLOCK_SIZE, write_block);
}

enum err codec_snappy_write_end(struct codec_scratch *s)
{
    return codec_blocks_end(s, write_block);
}

void codec_snappy_fini(struct codec_scratch *s)
{
    wire_buf_fini(&s->block);
    wire_buf_fini(&s->block_in);
}
