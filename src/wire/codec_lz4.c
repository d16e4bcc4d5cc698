/* codec_lz4.c - lz4 frames through liblz4.
 *
 * Java's reader takes exactly one frame of independent blocks, so nothing else is let into a log:
 * linked blocks, skippable frames and bytes behind the frame are malformed. Written as Java does:
 * 64 KiB blocks, independent, no checksums but the header's, no content size. */
#include "base/mem.h"
#include "wire/codec_int.h"

#define LZ4F_STATIC_LINKING_ONLY
#include <lz4frame.h>

#define LZ4_BLOCK_SIZE 65536u
/* liblz4 switches to its slower, denser compressor from here on. */
#define LZ4_LEVEL_DENSE_MIN 3
#define LZ4_LEVEL_DENSE_MAX 12
/* Java means its fast compressor by this level, the default. */
#define LZ4_JAVA_LEVEL_DEFAULT 9

static void *lz4_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return mem_alloc(size);
}

static void *lz4_zalloc(void *ctx, size_t size)
{
    (void)ctx;
    return mem_zalloc(size);
}

static void lz4_free(void *ctx, void *p)
{
    (void)ctx;
    mem_free(p);
}

static LZ4F_CustomMem lz4_mem(void)
{
    return (LZ4F_CustomMem){lz4_alloc, lz4_zalloc, lz4_free, NULL};
}

static enum err lz4_err(size_t code)
{
    return LZ4F_getErrorCode(code) == LZ4F_ERROR_allocation_failed ? ERR_NOMEM : ERR_MALFORMED;
}

enum err codec_lz4_read_open(struct codec_scratch *s)
{
    if (!s->lz4_read) {
        s->lz4_read = LZ4F_createDecompressionContext_advanced(lz4_mem(), LZ4F_VERSION);
        if (!s->lz4_read) { return ERR_NOMEM; }
    }
    s->lz4_large = false;
    s->lz4_ended = false;
    LZ4F_resetDecompressionContext(s->lz4_read);
    LZ4F_frameInfo_t info;
    size_t eaten = s->in.size;
    size_t r = LZ4F_getFrameInfo(s->lz4_read, &info, s->in.at, &eaten);
    if (LZ4F_isError(r)) { return lz4_err(r); }
    if (info.frameType != LZ4F_frame || info.blockMode != LZ4F_blockIndependent ||
        info.dictID != 0) {
        return ERR_MALFORMED;
    }
    s->lz4_large = info.blockSizeID > LZ4F_max256KB;
    s->in = slice_sub(s->in, eaten, s->in.size);
    return ERR_OK;
}

enum err codec_lz4_read(struct codec_scratch *s, uint8_t *at, size_t size, size_t *got)
{
    size_t done = 0;
    while (done < size && !s->lz4_ended) {
        size_t in_now = s->in.size;
        size_t out_now = size - done;
        size_t r = LZ4F_decompress(s->lz4_read, at + done, &out_now, s->in.at, &in_now, NULL);
        if (LZ4F_isError(r)) { return lz4_err(r); }
        s->in = slice_sub(s->in, in_now, s->in.size);
        done += out_now;
        if (r == 0) { /* the end of the frame */
            if (s->in.size > 0) { return ERR_MALFORMED; } /* [COD-2] */
            s->lz4_ended = true;
            break;
        }
        if (in_now == 0 && out_now == 0) { return ERR_MALFORMED; } /* cut */
    }
    *got = done;
    return ERR_OK;
}

void codec_lz4_read_close(struct codec_scratch *s)
{
    if (s->lz4_large) {
        LZ4F_freeDecompressionContext(s->lz4_read);
        s->lz4_read = NULL;
        s->lz4_large = false;
    }
}

static LZ4F_preferences_t lz4_preferences(int level)
{
    LZ4F_preferences_t p = LZ4F_INIT_PREFERENCES;
    p.frameInfo.blockSizeID = LZ4F_max64KB;
    p.frameInfo.blockMode = LZ4F_blockIndependent;
    p.compressionLevel = level;
    p.autoFlush = 1; /* blocks are cut here; otherwise liblz4 1.9 allocates a buffer each time */
    return p;
}

enum err codec_lz4_write_open(struct codec_scratch *s, int32_t level)
{
    int want = 0;
    if (level != CODEC_LEVEL_DEFAULT && level != LZ4_JAVA_LEVEL_DEFAULT) {
        want = level < LZ4_LEVEL_DENSE_MIN   ? LZ4_LEVEL_DENSE_MIN
               : level > LZ4_LEVEL_DENSE_MAX ? LZ4_LEVEL_DENSE_MAX
                                             : level;
    }
    if (!s->lz4_write) {
        s->lz4_write = LZ4F_createCompressionContext_advanced(lz4_mem(), LZ4F_VERSION);
        if (!s->lz4_write) { return ERR_NOMEM; }
    }
    s->lz4_level = want;
    enum err e = codec_blocks_open(s, LZ4_BLOCK_SIZE);
    if (e) { return e; }
    LZ4F_preferences_t p = lz4_preferences(want);
    uint8_t *to = codec_out_room(s, LZ4F_HEADER_SIZE_MAX, &e);
    if (!to) { return e; }
    size_t r = LZ4F_compressBegin(s->lz4_write, to, LZ4F_HEADER_SIZE_MAX, &p);
    if (LZ4F_isError(r)) { return lz4_err(r); }
    s->out->size += r;
    return ERR_OK;
}

static enum err write_block(struct codec_scratch *s, struct slice in)
{
    LZ4F_preferences_t p = lz4_preferences(s->lz4_level);
    size_t bound = LZ4F_compressBound(in.size, &p);
    enum err e = ERR_OK;
    uint8_t *to = codec_out_room(s, bound, &e);
    if (!to) { return e; }
    size_t r = LZ4F_compressUpdate(s->lz4_write, to, bound, in.at, in.size, NULL);
    if (LZ4F_isError(r)) { return lz4_err(r); }
    s->out->size += r;
    return ERR_OK;
}

enum err codec_lz4_write(struct codec_scratch *s, struct slice in)
{
    return codec_blocks_write(s, in, LZ4_BLOCK_SIZE, write_block);
}

enum err codec_lz4_write_end(struct codec_scratch *s)
{
    LZ4F_preferences_t p = lz4_preferences(s->lz4_level);
    size_t bound = LZ4F_compressBound(0, &p);
    enum err e = codec_blocks_end(s, write_block);
    if (e) { return e; }
    uint8_t *to = codec_out_room(s, bound, &e);
    if (!to) { return e; }
    size_t r = LZ4F_compressEnd(s->lz4_write, to, bound, NULL);
    if (LZ4F_isError(r)) { return lz4_err(r); }
    s->out->size += r;
    return ERR_OK;
}

void codec_lz4_fini(struct codec_scratch *s)
{
    LZ4F_freeDecompressionContext(s->lz4_read);
    LZ4F_freeCompressionContext(s->lz4_write);
    s->lz4_read = NULL;
    s->lz4_write = NULL;
}
