/* codec_zstd.c - zstd frames through libzstd.
 *
 * A frame says how large a window its reader needs, up to 128 MiB (the library's limit, which Java
 * shares): such a context is freed when the stream closes. Frames may follow one another. */
#include "base/mem.h"
#include "wire/codec_int.h"

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

#define ZSTD_JAVA_LEVEL_DEFAULT 3

static void *zstd_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return mem_alloc(size);
}

static void zstd_free(void *ctx, void *p)
{
    (void)ctx;
    mem_free(p);
}

static ZSTD_customMem zstd_mem(void)
{
    return (ZSTD_customMem){zstd_alloc, zstd_free, NULL};
}

static enum err zstd_err(size_t code)
{
    return ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation ? ERR_NOMEM : ERR_MALFORMED;
}

enum err codec_zstd_read_open(struct codec_scratch *s)
{
    if (!s->zstd_read) {
        s->zstd_read = ZSTD_createDCtx_advanced(zstd_mem());
        if (!s->zstd_read) { return ERR_NOMEM; }
    }
    size_t r = ZSTD_DCtx_reset(s->zstd_read, ZSTD_reset_session_only);
    if (ZSTD_isError(r)) { return zstd_err(r); }
    s->zstd_in_frame = true; /* there must be at least one frame */
    s->zstd_begins = true;
    return ERR_OK;
}

/* Whether a frame keeps what it said of its size. The library looks only when it has the room to
 * decompress it at once, or at a last block that is not empty: the verdict must not hang on how
 * much is read at a time. */
static bool zstd_size_holds(struct codec_scratch *s, size_t got, bool is_end)
{
    if (s->zstd_left == ZSTD_CONTENTSIZE_UNKNOWN) { return true; }
    if (got > s->zstd_left) { return false; }
    s->zstd_left -= got;
    return !is_end || s->zstd_left == 0;
}

enum err codec_zstd_read(struct codec_scratch *s, uint8_t *at, size_t size, size_t *got)
{
    ZSTD_outBuffer out = {at, size, 0};
    while (out.pos < out.size) {
        ZSTD_inBuffer in = {s->in.at, s->in.size, 0};
        size_t before = out.pos;
        if (in.size == 0 && !s->zstd_in_frame) { break; }
        if (s->zstd_begins && in.size > 0) {
            s->zstd_left = ZSTD_getFrameContentSize(in.src, in.size);
            if (s->zstd_left == ZSTD_CONTENTSIZE_ERROR) { s->zstd_left = ZSTD_CONTENTSIZE_UNKNOWN; }
            s->zstd_begins = false;
        }
        size_t r = ZSTD_decompressStream(s->zstd_read, &out, &in);
        if (ZSTD_isError(r)) { return zstd_err(r); }
        if (!s->zstd_begins && !zstd_size_holds(s, out.pos - before, r == 0)) {
            return ERR_MALFORMED;
        }
        if (r == 0) { s->zstd_begins = true; }
        s->in = slice_sub(s->in, in.pos, s->in.size);
        s->zstd_in_frame = r != 0;
        /* Inside a frame without input or progress: cut. */
        if (r != 0 && in.pos == 0 && out.pos == before) { return ERR_MALFORMED; }
    }
    *got = out.pos;
    return ERR_OK;
}

void codec_zstd_read_close(struct codec_scratch *s)
{
    if (s->zstd_read && ZSTD_sizeof_DCtx(s->zstd_read) > CODEC_KEEP_MAX) {
        ZSTD_freeDCtx(s->zstd_read);
        s->zstd_read = NULL;
    }
}

enum err codec_zstd_write_open(struct codec_scratch *s, int32_t level, uint64_t size_hint)
{
    int want = level == CODEC_LEVEL_DEFAULT ? ZSTD_JAVA_LEVEL_DEFAULT
               : level > ZSTD_maxCLevel()   ? ZSTD_maxCLevel()
               : level < ZSTD_minCLevel()   ? ZSTD_minCLevel()
                                            : level;
    if (!s->zstd_write) {
        s->zstd_write = ZSTD_createCCtx_advanced(zstd_mem());
        if (!s->zstd_write) { return ERR_NOMEM; }
    }
    size_t r = ZSTD_CCtx_reset(s->zstd_write, ZSTD_reset_session_and_parameters);
    if (!ZSTD_isError(r)) {
        r = ZSTD_CCtx_setParameter(s->zstd_write, ZSTD_c_compressionLevel, want);
    }
    if (!ZSTD_isError(r) && size_hint > 0) {
        r = ZSTD_CCtx_setPledgedSrcSize(s->zstd_write, size_hint);
    }
    return ZSTD_isError(r) ? zstd_err(r) : ERR_OK;
}

static enum err zstd_some(struct codec_scratch *s, struct slice bytes, ZSTD_EndDirective mode)
{
    ZSTD_inBuffer in = {bytes.at, bytes.size, 0};
    for (;;) {
        enum err e = ERR_OK;
        size_t room = 0;
        uint8_t *to = codec_out_some(s, &room, &e);
        if (!to) { return e; }
        ZSTD_outBuffer out = {to, room, 0};
        size_t r = ZSTD_compressStream2(s->zstd_write, &out, &in, mode);
        if (ZSTD_isError(r)) { return zstd_err(r); }
        s->out->size += out.pos;
        bool done = mode == ZSTD_e_end ? r == 0 : in.pos == in.size;
        if (done) { return ERR_OK; }
    }
}

enum err codec_zstd_write(struct codec_scratch *s, struct slice in)
{
    return zstd_some(s, in, ZSTD_e_continue);
}

enum err codec_zstd_write_end(struct codec_scratch *s)
{
    return zstd_some(s, SLICE_NULL, ZSTD_e_end);
}

void codec_zstd_write_close(struct codec_scratch *s)
{
    if (s->zstd_write && ZSTD_sizeof_CCtx(s->zstd_write) > CODEC_KEEP_MAX) {
        ZSTD_freeCCtx(s->zstd_write);
        s->zstd_write = NULL;
    }
}

void codec_zstd_fini(struct codec_scratch *s)
{
    ZSTD_freeDCtx(s->zstd_read);
    ZSTD_freeCCtx(s->zstd_write);
    s->zstd_read = NULL;
    s->zstd_write = NULL;
}
