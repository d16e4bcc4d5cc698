/* writer.c - the parts of writer.h that are too long to inline. */
#include "wire/writer.h"

#include "base/check.h"
#include "base/mem.h"

#include <limits.h>

#define BUF_SIZE_MIN ((size_t)256)

void wire_buf_init(struct wire_buf *b, size_t limit)
{
    *b = (struct wire_buf){.limit = limit};
}

void wire_buf_fini(struct wire_buf *b)
{
    mem_free(b->at);
    *b = (struct wire_buf){.limit = b->limit};
}

enum err wire_buf_reserve(struct wire_buf *b, size_t size)
{
    if (size <= b->cap) { return ERR_OK; }
    if (size > b->limit) { return ERR_LIMIT; }
    size_t cap = b->cap < BUF_SIZE_MIN ? BUF_SIZE_MIN : b->cap;
    while (cap < size) {
        cap = cap > b->limit / 2 ? b->limit : cap * 2;
    }
    uint8_t *p = mem_realloc(b->at, cap);
    if (!p) { return ERR_NOMEM; }
    b->at = p;
    b->cap = cap;
    return ERR_OK;
}

void wire_writer_init_fixed(struct wire_writer *w, struct mslice memory)
{
    *w = (struct wire_writer){.at = memory.at, .cap = memory.size};
}

void wire_writer_init_buf(struct wire_writer *w, struct wire_buf *buf)
{
    *w = (struct wire_writer){.at = buf->at, .pos = buf->size, .cap = buf->cap, .buf = buf};
}

void wire_writer_init_count(struct wire_writer *w)
{
    *w = (struct wire_writer){.counting = true};
}

void wire_writer_set_holes(struct wire_writer *w, struct wire_hole *holes, size_t holes_max)
{
    w->holes = holes;
    w->holes_max = holes_max;
    w->holes_count = 0;
}

enum err wire_writer_finish(struct wire_writer *w)
{
    if (w->buf && w->err == ERR_OK) { w->buf->size = w->pos; }
    return w->err;
}

void wire_writer_fail(struct wire_writer *w, enum err e)
{
    if (w->err == ERR_OK) {
        w->err = e;
        w->cap = w->pos; /* [WR-2]: whatever comes next takes the slow way and does nothing */
    }
}

uint8_t *wire_put_slow(struct wire_writer *w, size_t size)
{
    if (w->err != ERR_OK || size == 0) { return NULL; }
    if (w->counting) {
        w->pos += size;
        return NULL;
    }
    if (!w->buf || size > SIZE_MAX - w->pos) {
        wire_writer_fail(w, ERR_LIMIT);
        return NULL;
    }
    enum err e = wire_buf_reserve(w->buf, w->pos + size);
    if (e) {
        wire_writer_fail(w, e);
        return NULL;
    }
    w->at = w->buf->at;
    w->cap = w->buf->cap;
    uint8_t *p = w->at + w->pos;
    w->pos += size;
    return p;
}

void wire_put_raw(struct wire_writer *w, struct slice bytes)
{
    if (bytes.size == 0) { return; }
    uint8_t *p = wire_put(w, bytes.size);
    if (p) { memcpy(p, bytes.at, bytes.size); }
}

static size_t varint_format(uint64_t v, uint8_t out[10])
{
    size_t n = 0;
    while (v >= 0x80) {
        out[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    out[n++] = (uint8_t)v;
    return n;
}

void wire_put_uvarlong(struct wire_writer *w, uint64_t v)
{
    uint8_t b[10];
    wire_put_raw(w, (struct slice){b, varint_format(v, b)});
}

void wire_put_uvarint(struct wire_writer *w, uint32_t v)
{
    if (v < 0x80) {
        wire_put_u8(w, (uint8_t)v);
        return;
    }
    wire_put_uvarlong(w, v);
}

/* Sizes and counts are int32 at most, and one more must fit in the compact form. */
static bool size_is_ok(struct wire_writer *w, size_t size, size_t max)
{
    if (size > max) {
        wire_writer_fail(w, ERR_INVALID);
        return false;
    }
    return true;
}

void wire_put_string(struct wire_writer *w, struct slice s, bool flexible, bool nullable)
{
    if (!s.at && nullable) {
        if (flexible) {
            wire_put_u8(w, 0);
        } else {
            wire_put_i16(w, -1);
        }
        return;
    }
    if (!size_is_ok(w, s.size, SHRT_MAX)) { return; }
    if (flexible) {
        wire_put_uvarint(w, (uint32_t)s.size + 1);
    } else {
        wire_put_i16(w, (int16_t)s.size);
    }
    wire_put_raw(w, s);
}

void wire_put_array(struct wire_writer *w, size_t count, bool is_null, bool flexible, bool nullable)
{
    if (is_null && count == 0 && nullable) {
        if (flexible) {
            wire_put_u8(w, 0);
        } else {
            wire_put_i32(w, -1);
        }
        return;
    }
    if (!size_is_ok(w, count, INT_MAX - 1)) { return; }
    if (flexible) {
        wire_put_uvarint(w, (uint32_t)count + 1);
    } else {
        wire_put_i32(w, (int32_t)count);
    }
}

void wire_put_bytes(struct wire_writer *w, struct slice s, bool flexible, bool nullable)
{
    wire_put_array(w, s.size, s.at == NULL, flexible, nullable);
    wire_put_raw(w, s);
}

void wire_put_records(struct wire_writer *w, struct slice s, bool flexible, bool nullable)
{
    wire_put_array(w, s.size, s.at == NULL, flexible, nullable);
    if (s.at || s.size == 0) {
        wire_put_raw(w, s);
        return;
    }
    if (w->counting) {
        w->holes_bytes += s.size;
        return;
    }
    if (w->holes_count == w->holes_max) {
        wire_writer_fail(w, ERR_LIMIT);
        return;
    }
    w->holes[w->holes_count++] = (struct wire_hole){.pos = w->pos, .size = s.size};
    w->holes_bytes += s.size;
}

void wire_put_tag(struct wire_writer *w, uint32_t tag, size_t mark)
{
    if (w->err) { return; }
    size_t size = w->pos - mark;
    uint8_t head[20];
    size_t head_size = varint_format(tag, head);
    head_size += varint_format(size, head + head_size);
    CHECK(w->holes_count == 0 ||
          w->holes[w->holes_count - 1].pos <= mark); /* records are never tagged */
    if (wire_put(w, head_size)) {
        memmove(w->at + mark + head_size, w->at + mark, size);
        memcpy(w->at + mark, head, head_size);
    }
}

struct wire_frame wire_frame_begin(struct wire_writer *w)
{
    struct wire_frame frame = {.pos = w->pos, .holes_bytes = w->holes_bytes};
    wire_put_u32(w, 0);
    return frame;
}

void wire_frame_end(struct wire_writer *w, struct wire_frame frame)
{
    if (w->err || w->counting) { return; }
    size_t size = w->pos - frame.pos - 4 + (w->holes_bytes - frame.holes_bytes);
    if (size_is_ok(w, size, INT_MAX)) {
        uint32_t v = __builtin_bswap32((uint32_t)size);
        memcpy(w->at + frame.pos, &v, sizeof v);
    }
}
