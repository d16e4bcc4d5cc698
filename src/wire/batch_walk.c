/* batch_walk.c - one record's framing, and the walk over records through a window. See batch_int.h.
 */
#include "base/check.h"
#include "wire/batch_int.h"

const uint8_t *batch_uvarint_slow(const uint8_t *p, const uint8_t *end, uint32_t *out)
{
    uint32_t v = 0;
    for (unsigned shift = 0; shift < 35 && p < end; shift += 7) {
        uint8_t b = *p++;
        if (shift == 28 && b > 0x0f) { return NULL; }
        v |= (uint32_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *out = v;
            return p;
        }
    }
    return NULL;
}

const uint8_t *batch_uvarlong_slow(const uint8_t *p, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70 && p < end; shift += 7) {
        uint8_t b = *p++;
        if (shift == 63 && b > 1) { return NULL; }
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *out = v;
            return p;
        }
    }
    return NULL;
}

bool batch_parse_headers(const uint8_t *p, const uint8_t *end, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        struct slice key;
        struct slice value;
        p = batch_bytes(p, end, &key);
        if (!p || !key.at) { return false; }
        p = batch_bytes(p, end, &value);
        if (!p) { return false; }
    }
    return p == end;
}

enum err batch_walk_open(struct batch_walk *w, struct codec_scratch *scratch,
                         const struct batch_header *h, struct slice batch, uint64_t out_max)
{
    struct slice records =
        slice_sub(batch, BATCH_HEADER_SIZE, batch_size(h) - (size_t)BATCH_HEADER_SIZE);
    *w = (struct batch_walk){.at = records.at, .end = records.at + records.size};
    unsigned codec = batch_codec_bits(h);
    if (codec == CODEC_NONE) { return ERR_OK; }
    if (codec >= CODEC_COUNT) { return ERR_UNSUPPORTED; }
    CHECK(scratch != NULL);
    w->at = w->end = codec_window(scratch);
    if (!w->at) { return ERR_NOMEM; }
    enum err e = codec_read_open(scratch, (enum codec)codec, records, out_max);
    if (e) {
        codec_read_close(scratch);
        return e;
    }
    w->scratch = scratch;
    w->more = true;
    return ERR_OK;
}

void batch_walk_close(struct batch_walk *w)
{
    if (w->scratch) { codec_read_close(w->scratch); }
    w->scratch = NULL;
}

/* Moves what is left to the front of the window and fills it up. False on a stream error. */
static bool refill(struct batch_walk *w)
{
    size_t left = (size_t)(w->end - w->at);
    uint8_t *window = w->scratch->window;
    if (left > 0) { memmove(window, w->at, left); }
    size_t got = 0;
    w->err = codec_read(w->scratch, window + left, CODEC_WINDOW - left, &got);
    if (w->err) { return false; }
    w->more = got == CODEC_WINDOW - left;
    w->refilled += got;
    w->at = window;
    w->end = window + left + got;
    return true;
}

/* A record longer than the window, read piece by piece. */
struct long_record {
    struct batch_walk *w;
    uint32_t left; /* of the record */
};

static bool long_byte(struct long_record *r, uint8_t *out)
{
    if (r->left == 0) { return false; }
    if (r->w->at == r->w->end) {
        if (!r->w->more || !refill(r->w) || r->w->at == r->w->end) { return false; }
    }
    r->left--;
    *out = *r->w->at++;
    return true;
}

static bool long_varlong(struct long_record *r, unsigned bytes_max, int64_t *out)
{
    uint8_t buf[10];
    for (unsigned i = 0; i < bytes_max; i++) {
        if (!long_byte(r, &buf[i])) { return false; }
        if (buf[i] < 0x80) {
            uint64_t v = 0;
            bool ok = batch_uvarlong_slow(buf, buf + i + 1, &v) != NULL;
            *out = (int64_t)((v >> 1) ^ (~(v & 1) + 1));
            return ok;
        }
    }
    return false;
}

static bool long_varint(struct long_record *r, int32_t *out)
{
    int64_t v = 0;
    if (!long_varlong(r, 5, &v) || v < INT32_MIN || v > INT32_MAX) { return false; }
    *out = (int32_t)v;
    return true;
}

static bool long_skip(struct long_record *r, uint32_t size)
{
    if (size > r->left) { return false; }
    while (size > 0) {
        if (r->w->at == r->w->end) {
            if (!r->w->more || !refill(r->w) || r->w->at == r->w->end) { return false; }
        }
        size_t here = (size_t)(r->w->end - r->w->at);
        uint32_t now = here < size ? (uint32_t)here : size;
        r->w->at += now;
        r->left -= now;
        size -= now;
    }
    return true;
}

static bool long_bytes(struct long_record *r, bool null_allowed, bool *has)
{
    int32_t size = 0;
    if (!long_varint(r, &size) || size < -1 || (size == -1 && !null_allowed)) { return false; }
    *has = size >= 0;
    return size <= 0 || long_skip(r, (uint32_t)size);
}

static bool parse_long_record(struct long_record *r, struct walk_record *out)
{
    *out = (struct walk_record){0};
    uint8_t attributes = 0;
    bool has = false;
    if (!long_byte(r, &attributes) || !long_varlong(r, 10, &out->timestamp_delta) ||
        !long_varint(r, &out->offset_delta) || !long_bytes(r, true, &out->has_key) ||
        !long_bytes(r, true, &has) || !long_varint(r, &out->headers_count) ||
        out->headers_count < 0) {
        return false;
    }
    for (int32_t i = 0; i < out->headers_count; i++) {
        if (!long_bytes(r, false, &has) || !long_bytes(r, true, &has)) { return false; }
    }
    return r->left == 0;
}

/* The cases that the inlined walk leaves: the window's end, the records' end, bad bytes. */
enum walk_result batch_walk_slow(struct batch_walk *w, struct walk_record *out)
{
    if (w->more && !refill(w)) { return WALK_STREAM; }
    if (w->at == w->end) { return WALK_END; }
    int32_t size = 0;
    const uint8_t *p = batch_varint(w->at, w->end, &size);
    if (!p || size < 0) { return WALK_BAD; }
    if (w->end - p >= size) {
        w->at = p + size;
        return batch_parse_record(p, p + size, out) ? WALK_OK : WALK_BAD;
    }
    if (!w->more) { return WALK_BAD; }
    w->at = p;
    struct long_record r = {w, (uint32_t)size};
    if (parse_long_record(&r, out)) { return WALK_OK; }
    return w->err ? WALK_STREAM : WALK_BAD;
}

uint64_t batch_decompressed_max(const struct batch_rules *rules, size_t compressed)
{
    uint64_t max = (uint64_t)compressed * BATCH_DECOMPRESSED_RATIO;
    if (max < BATCH_DECOMPRESSED_FLOOR) { max = BATCH_DECOMPRESSED_FLOOR; }
    if (rules->decompressed_bytes_max > 0 && max > (uint64_t)rules->decompressed_bytes_max) {
        max = (uint64_t)rules->decompressed_bytes_max;
    }
    return max;
}
