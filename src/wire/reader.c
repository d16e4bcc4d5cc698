/* reader.c - the parts of reader.h that are too long to inline. */
#include "wire/reader.h"

void wire_reader_init(struct wire_reader *r, struct slice bytes)
{
    static const uint8_t nothing[1];
    r->at = bytes.at ? bytes.at : nothing;
    r->end = r->at + bytes.size;
    r->bad = false;
}

uint32_t wire_uvarint_slow(struct wire_reader *r)
{
    uint32_t v = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        uint8_t b = wire_u8(r);
        if (shift == 28 && b > 0x0f) { break; }
        v |= (uint32_t)(b & 0x7f) << shift;
        if (b < 0x80) { return r->bad ? 0 : v; }
    }
    wire_fail(r);
    return 0;
}

uint64_t wire_uvarlong(struct wire_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t b = wire_u8(r);
        if (shift == 63 && b > 0x01) { break; }
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) { return r->bad ? 0 : v; }
    }
    wire_fail(r);
    return 0;
}

static struct slice take_slice(struct wire_reader *r, size_t size)
{
    const uint8_t *p = wire_take(r, size);
    return p ? (struct slice){p, size} : SLICE_NULL;
}

/* A compact length is the size plus one, zero for null. */
static bool compact_size(struct wire_reader *r, size_t *size)
{
    uint32_t n = wire_uvarint(r);
    if (n == 0) { return false; }
    *size = n - 1;
    return true;
}

struct slice wire_string(struct wire_reader *r, bool flexible)
{
    size_t size = 0;
    if (flexible) {
        if (!compact_size(r, &size)) { return SLICE_NULL; }
    } else {
        int16_t n = wire_i16(r);
        if (n < 0) {
            if (n != -1) { wire_fail(r); }
            return SLICE_NULL;
        }
        size = (size_t)n;
    }
    if (r->bad || size > WIRE_STRING_SIZE_MAX) {
        wire_fail(r);
        return SLICE_NULL;
    }
    return take_slice(r, size);
}

struct slice wire_bytes(struct wire_reader *r, bool flexible)
{
    size_t size = 0;
    if (flexible) {
        if (!compact_size(r, &size)) { return SLICE_NULL; }
    } else {
        int32_t n = wire_i32(r);
        if (n < 0) {
            if (n != -1) { wire_fail(r); }
            return SLICE_NULL;
        }
        size = (size_t)n;
    }
    if (r->bad) { return SLICE_NULL; }
    return take_slice(r, size);
}

int32_t wire_array(struct wire_reader *r, bool flexible, size_t element_size_min)
{
    size_t count = 0;
    if (flexible) {
        if (!compact_size(r, &count)) { return r->bad ? 0 : -1; }
    } else {
        int32_t n = wire_i32(r);
        if (n < -1) {
            wire_fail(r);
            return 0;
        }
        if (n == -1) { return -1; }
        count = (size_t)n;
    }
    if (count > INT32_MAX || count > wire_left(r) / element_size_min) {
        wire_fail(r);
        return 0;
    }
    return (int32_t)count;
}

uint32_t wire_tags(struct wire_reader *r)
{
    uint32_t n = wire_uvarint(r);
    if (n > WIRE_TAGS_MAX || n > wire_left(r) / 2) {
        wire_fail(r);
        return 0;
    }
    return n;
}

struct wire_tag wire_tag_open(struct wire_reader *r)
{
    struct wire_tag t = {.outer_end = r->end};
    t.tag = wire_uvarint(r);
    uint32_t size = wire_uvarint(r);
    if (r->bad || size > wire_left(r)) {
        wire_fail(r);
        t.tag = UINT32_MAX;
        return t;
    }
    r->end = r->at + size;
    return t;
}

void wire_tag_close(struct wire_reader *r, struct wire_tag t)
{
    bool exact = r->at == r->end;
    r->end = t.outer_end;
    if (r->bad || !exact) { wire_fail(r); }
}

void wire_tags_skip_slow(struct wire_reader *r)
{
    for (uint32_t n = wire_tags(r); n > 0 && !r->bad; n--) {
        struct wire_tag t = wire_tag_open(r);
        wire_tag_skip(r);
        wire_tag_close(r, t);
    }
}
