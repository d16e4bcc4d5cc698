/* codec.c - names, the scratch, and the dispatch to the codecs. See codec.h. */
#include "wire/codec.h"

#include "base/check.h"
#include "base/mem.h"
#include "wire/codec_int.h"

const char *codec_name(enum codec codec)
{
    switch (codec) {
    case CODEC_NONE:
        return "none";
    case CODEC_GZIP:
        return "gzip";
    case CODEC_SNAPPY:
        return "snappy";
    case CODEC_LZ4:
        return "lz4";
    case CODEC_ZSTD:
        return "zstd";
    }
    return "unknown";
}

struct codec_scratch *codec_scratch_create(void)
{
    struct codec_scratch *s = mem_new(struct codec_scratch);
    if (s) {
        wire_buf_init(&s->block, 64u << 20);
        wire_buf_init(&s->block_in, 64u << 10);
    }
    return s;
}

void codec_scratch_destroy(struct codec_scratch *s)
{
    if (!s) { return; }
    codec_gzip_fini(s);
    codec_snappy_fini(s);
    codec_lz4_fini(s);
    codec_zstd_fini(s);
    mem_free(s->window);
    mem_free(s);
}

uint8_t *codec_window(struct codec_scratch *s)
{
    if (!s->window) { s->window = mem_alloc(CODEC_WINDOW); }
    return s->window;
}

uint8_t *codec_out_room(struct codec_scratch *s, size_t size, enum err *e)
{
    *e = wire_buf_reserve(s->out, s->out->size + size);
    return *e ? NULL : s->out->at + s->out->size;
}

uint8_t *codec_out_some(struct codec_scratch *s, size_t *size, enum err *e)
{
    size_t want = s->out->limit > s->out->size ? s->out->limit - s->out->size : 1;
    uint8_t *to = codec_out_room(s, want < 4096 ? want : 4096, e);
    *size = to ? s->out->cap - s->out->size : 0;
    return to;
}

enum err codec_blocks_open(struct codec_scratch *s, size_t block_size)
{
    s->block_in.size = 0;
    return wire_buf_reserve(&s->block_in, block_size);
}

enum err codec_blocks_write(struct codec_scratch *s, struct slice in, size_t block_size,
                            enum err (*write)(struct codec_scratch *s, struct slice block))
{
    while (in.size > 0) {
        if (s->block_in.size == 0 && in.size >= block_size) {
            enum err e = write(s, slice_sub(in, 0, block_size));
            if (e) { return e; }
            in = slice_sub(in, block_size, in.size);
            continue;
        }
        struct slice now = slice_sub(in, 0, block_size - s->block_in.size);
        memcpy(s->block_in.at + s->block_in.size, now.at, now.size);
        s->block_in.size += now.size;
        in = slice_sub(in, now.size, in.size);
        if (s->block_in.size == block_size) {
            enum err e = codec_blocks_end(s, write);
            if (e) { return e; }
        }
    }
    return ERR_OK;
}

enum err codec_blocks_end(struct codec_scratch *s,
                          enum err (*write)(struct codec_scratch *s, struct slice block))
{
    if (s->block_in.size == 0) { return ERR_OK; }
    enum err e = write(s, wire_buf_slice(&s->block_in));
    s->block_in.size = 0;
    return e;
}

enum err codec_read_open(struct codec_scratch *s, enum codec codec, struct slice in,
                         uint64_t out_max)
{
    s->reading = codec;
    s->in = in;
    s->out_left = out_max;
    s->read_ended = false;
    switch (codec) {
    case CODEC_NONE:
        return ERR_OK;
    case CODEC_GZIP:
        return codec_gzip_read_open(s);
    case CODEC_SNAPPY:
        return codec_snappy_read_open(s);
    case CODEC_LZ4:
        return codec_lz4_read_open(s);
    case CODEC_ZSTD:
        return codec_zstd_read_open(s);
    }
    return ERR_UNSUPPORTED;
}

static enum err read_some(struct codec_scratch *s, uint8_t *at, size_t size, size_t *got)
{
    switch (s->reading) {
    case CODEC_NONE:
        *got = size < s->in.size ? size : s->in.size;
        if (*got) { memcpy(at, s->in.at, *got); }
        s->in = slice_sub(s->in, *got, s->in.size);
        return ERR_OK;
    case CODEC_GZIP:
        return codec_gzip_read(s, at, size, got);
    case CODEC_SNAPPY:
        return codec_snappy_read(s, at, size, got);
    case CODEC_LZ4:
        return codec_lz4_read(s, at, size, got);
    case CODEC_ZSTD:
        return codec_zstd_read(s, at, size, got);
    }
    return ERR_UNSUPPORTED;
}

enum err codec_read(struct codec_scratch *s, uint8_t *at, size_t size, size_t *got)
{
    *got = 0;
    if (s->read_ended || size == 0) { return ERR_OK; }
    /* One byte more than is left shows that the limit is passed, not only reached. */
    size_t want = s->out_left < size ? (size_t)s->out_left + 1 : size;
    enum err e = read_some(s, at, want, got);
    if (e) {
        *got = 0;
        s->read_ended = true;
        return e;
    }
    if (*got > s->out_left) { /* [COD-1] */
        *got = 0;
        s->read_ended = true;
        return ERR_LIMIT;
    }
    s->out_left -= *got;
    s->read_ended = *got < want;
    return ERR_OK;
}

void codec_read_close(struct codec_scratch *s)
{
    switch (s->reading) {
    case CODEC_NONE:
    case CODEC_GZIP:
        break;
    case CODEC_SNAPPY:
        codec_snappy_read_close(s);
        break;
    case CODEC_LZ4:
        codec_lz4_read_close(s);
        break;
    case CODEC_ZSTD:
        codec_zstd_read_close(s);
        break;
    }
    s->reading = CODEC_NONE;
    s->in = SLICE_NULL;
    s->read_ended = true;
}

enum err codec_decompress(struct codec_scratch *s, enum codec codec, struct slice in,
                          uint64_t out_max, struct wire_buf *out)
{
    enum err e = codec_read_open(s, codec, in, out_max);
    while (!e && !s->read_ended) {
        e = wire_buf_reserve(out, out->size + 1);
        if (e) { break; }
        size_t room = out->cap - out->size;
        if (room < CODEC_WINDOW && out->cap < out->limit) {
            size_t more =
                out->limit - out->size < CODEC_WINDOW ? out->limit - out->size : CODEC_WINDOW;
            e = wire_buf_reserve(out, out->size + more);
            if (e) { break; }
            room = out->cap - out->size;
        }
        size_t got = 0;
        e = codec_read(s, out->at + out->size, room, &got);
        out->size += got;
    }
    codec_read_close(s);
    return e;
}

enum err codec_write_open(struct codec_scratch *s, enum codec codec, int32_t level,
                          uint64_t size_hint, struct wire_buf *out)
{
    s->writing = codec;
    s->out = out;
    switch (codec) {
    case CODEC_NONE:
        return ERR_OK;
    case CODEC_GZIP:
        return codec_gzip_write_open(s, level);
    case CODEC_SNAPPY:
        return codec_snappy_write_open(s);
    case CODEC_LZ4:
        return codec_lz4_write_open(s, level);
    case CODEC_ZSTD:
        return codec_zstd_write_open(s, level, size_hint);
    }
    return ERR_UNSUPPORTED;
}

enum err codec_write(struct codec_scratch *s, struct slice in)
{
    enum err e = ERR_OK;
    if (in.size == 0) { return ERR_OK; }
    switch (s->writing) {
    case CODEC_NONE: {
        uint8_t *to = codec_out_room(s, in.size, &e);
        if (to) {
            memcpy(to, in.at, in.size);
            s->out->size += in.size;
        }
        return e;
    }
    case CODEC_GZIP:
        return codec_gzip_write(s, in);
    case CODEC_SNAPPY:
        return codec_snappy_write(s, in);
    case CODEC_LZ4:
        return codec_lz4_write(s, in);
    case CODEC_ZSTD:
        return codec_zstd_write(s, in);
    }
    return ERR_UNSUPPORTED;
}

enum err codec_write_end(struct codec_scratch *s)
{
    enum err e = ERR_OK;
    switch (s->writing) {
    case CODEC_NONE:
        break;
    case CODEC_GZIP:
        e = codec_gzip_write_end(s);
        break;
    case CODEC_SNAPPY:
        e = codec_snappy_write_end(s);
        break;
    case CODEC_LZ4:
        e = codec_lz4_write_end(s);
        break;
    case CODEC_ZSTD:
        e = codec_zstd_write_end(s);
        break;
    }
    codec_write_close(s);
    return e;
}

void codec_write_close(struct codec_scratch *s)
{
    if (s->writing == CODEC_ZSTD) { codec_zstd_write_close(s); }
    s->writing = CODEC_NONE;
    s->out = NULL;
}
