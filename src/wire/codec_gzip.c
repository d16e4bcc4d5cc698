/* codec_gzip.c - gzip members through zlib.
 *
 * Contexts are about 40 KiB (read) and 270 KiB (write) whatever the data are, so they are kept. */
#include "base/mem.h"
#include "wire/codec_int.h"

#define ZLIB_CONST
#include <zlib.h>

#define GZIP_WINDOW_BITS (15 + 16) /* gzip header and trailer only */

static void *gzip_alloc(void *ctx, unsigned count, unsigned size)
{
    (void)ctx;
    return mem_array(count, size);
}

static void gzip_free(void *ctx, void *p)
{
    (void)ctx;
    mem_free(p);
}

static enum err gzip_err(int z)
{
    return z == Z_MEM_ERROR ? ERR_NOMEM : ERR_MALFORMED;
}

static z_stream *stream_new(void)
{
    z_stream *z = mem_new(z_stream);
    if (z) {
        z->zalloc = gzip_alloc;
        z->zfree = gzip_free;
    }
    return z;
}

enum err codec_gzip_read_open(struct codec_scratch *s)
{
    if (s->inflate) { return inflateReset(s->inflate) == Z_OK ? ERR_OK : ERR_MALFORMED; }
    z_stream *z = stream_new();
    if (!z) { return ERR_NOMEM; }
    int r = inflateInit2(z, GZIP_WINDOW_BITS);
    if (r != Z_OK) {
        mem_free(z);
        return gzip_err(r);
    }
    s->inflate = z;
    return ERR_OK;
}

enum err codec_gzip_read(struct codec_scratch *s, uint8_t *at, size_t size, size_t *got)
{
    z_stream *z = s->inflate;
    size_t done = 0;
    while (done < size) {
        /* zlib counts in unsigned int; batches are smaller, windows much smaller. */
        uInt in_now = s->in.size > (1u << 30) ? 1u << 30 : (uInt)s->in.size;
        uInt out_now = size - done > (1u << 30) ? 1u << 30 : (uInt)(size - done);
        z->next_in = s->in.at;
        z->avail_in = in_now;
        z->next_out = at + done;
        z->avail_out = out_now;
        int r = inflate(z, Z_NO_FLUSH);
        size_t eaten = in_now - z->avail_in;
        s->in = slice_sub(s->in, eaten, s->in.size);
        done += out_now - z->avail_out;
        if (r == Z_STREAM_END) {
            if (s->in.size == 0) { break; }
            if (inflateReset(z) != Z_OK) { return ERR_MALFORMED; } /* a further member */
            continue;
        }
        if (r != Z_OK) { return gzip_err(r); } /* Z_BUF_ERROR: the data are cut */
    }
    *got = done;
    return ERR_OK;
}

enum err codec_gzip_write_open(struct codec_scratch *s, int32_t level)
{
    int want = level == CODEC_LEVEL_DEFAULT || level == -1 ? Z_DEFAULT_COMPRESSION
               : level < 1                                 ? 1
               : level > 9                                 ? 9
                                                           : level;
    if (s->deflate && s->deflate_level == want) {
        return deflateReset(s->deflate) == Z_OK ? ERR_OK : ERR_INVALID;
    }
    if (s->deflate) {
        deflateEnd(s->deflate);
        mem_free(s->deflate);
        s->deflate = NULL;
    }
    z_stream *z = stream_new();
    if (!z) { return ERR_NOMEM; }
    int r = deflateInit2(z, want, Z_DEFLATED, GZIP_WINDOW_BITS, 8, Z_DEFAULT_STRATEGY);
    if (r != Z_OK) {
        mem_free(z);
        return gzip_err(r);
    }
    s->deflate = z;
    s->deflate_level = want;
    return ERR_OK;
}

static enum err deflate_some(struct codec_scratch *s, struct slice in, int flush)
{
    z_stream *z = s->deflate;
    z->next_in = in.at;
    z->avail_in = (uInt)in.size;
    for (;;) {
        enum err e = ERR_OK;
        size_t room = 0;
        uint8_t *to = codec_out_some(s, &room, &e);
        if (!to) { return e; }
        uInt room_now = room > (1u << 30) ? 1u << 30 : (uInt)room;
        z->next_out = to;
        z->avail_out = room_now;
        int r = deflate(z, flush);
        s->out->size += room_now - z->avail_out;
        if (r == Z_STREAM_END) { return ERR_OK; }
        if (r != Z_OK && r != Z_BUF_ERROR) { return ERR_INVALID; }
        if (flush == Z_NO_FLUSH && z->avail_in == 0 && z->avail_out != 0) { return ERR_OK; }
    }
}

enum err codec_gzip_write(struct codec_scratch *s, struct slice in)
{
    while (in.size > 0) {
        struct slice now = slice_sub(in, 0, 1u << 30);
        enum err e = deflate_some(s, now, Z_NO_FLUSH);
        if (e) { return e; }
        in = slice_sub(in, now.size, in.size);
    }
    return ERR_OK;
}

enum err codec_gzip_write_end(struct codec_scratch *s)
{
    return deflate_some(s, SLICE_NULL, Z_FINISH);
}

void codec_gzip_fini(struct codec_scratch *s)
{
    if (s->inflate) {
        inflateEnd(s->inflate);
        mem_free(s->inflate);
    }
    if (s->deflate) {
        deflateEnd(s->deflate);
        mem_free(s->deflate);
    }
    s->inflate = NULL;
    s->deflate = NULL;
}
