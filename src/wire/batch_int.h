/* batch_int.h - the bytes of a batch header, one record's framing, and the walk over records.
 *
 * The walk sees the records through a window: all of them when they are not compressed, else 64 KiB
 * in the scratch that codec_read() refills. A record that fits the window is parsed in one piece;
 * a longer one is read through byte by byte and gives no slices. */
#ifndef WIRE_BATCH_INT_H
#define WIRE_BATCH_INT_H

#include "wire/batch.h"
#include "wire/codec_int.h"

enum batch_field {
    BATCH_AT_BASE_OFFSET = 0,
    BATCH_AT_LENGTH = 8,
    BATCH_AT_LEADER_EPOCH = 12,
    BATCH_AT_MAGIC = 16,
    BATCH_AT_CRC = 17,
    BATCH_AT_ATTRIBUTES = 21,
    BATCH_AT_LAST_OFFSET_DELTA = 23,
    BATCH_AT_BASE_TIMESTAMP = 27,
    BATCH_AT_MAX_TIMESTAMP = 35,
    BATCH_AT_PRODUCER_ID = 43,
    BATCH_AT_PRODUCER_EPOCH = 51,
    BATCH_AT_BASE_SEQUENCE = 53,
    BATCH_AT_RECORDS_COUNT = 57,
};

static inline uint16_t batch_get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap16(v);
}
static inline uint32_t batch_get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}
static inline uint64_t batch_get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}
static inline void batch_put16(uint8_t *p, uint16_t v)
{
    v = __builtin_bswap16(v);
    memcpy(p, &v, sizeof v);
}
static inline void batch_put32(uint8_t *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}
static inline void batch_put64(uint8_t *p, uint64_t v)
{
    v = __builtin_bswap64(v);
    memcpy(p, &v, sizeof v);
}

/* Writes all 61 bytes but the CRC. */
void batch_put_header(uint8_t *batch, const struct batch_header *h);
/* Computes and stores the CRC of a whole batch. */
void batch_put_crc(struct mslice batch);

/* One record's framing. Slices are empty when the record was longer than the window. */
struct walk_record {
    int64_t timestamp_delta;
    int32_t offset_delta;
    int32_t headers_count;
    struct slice key; /* at == NULL: null */
    struct slice value;
    struct slice headers;
    bool has_key;
};

enum walk_result {
    WALK_OK,
    WALK_END, /* no byte is left */
    WALK_BAD, /* a record's framing */
    WALK_STREAM, /* the decompressor: walk->err */
};

struct batch_walk {
    const uint8_t *at;
    const uint8_t *end;
    struct codec_scratch *scratch; /* NULL: everything is between at and end */
    uint64_t refilled; /* bytes that came through the window */
    bool more; /* the stream may yield more */
    enum err err;
};

/* Starts at the first record. ERR_* as codec_read_open. A walk that opened must be closed. */
NODISCARD enum err batch_walk_open(struct batch_walk *w, struct codec_scratch *scratch,
                                   const struct batch_header *h, struct slice batch,
                                   uint64_t out_max);
void batch_walk_close(struct batch_walk *w);
enum walk_result batch_walk_slow(struct batch_walk *w, struct walk_record *out);

/* Reads an unsigned varint of at most 32 bits; NULL when cut, longer than five bytes or wider. */
const uint8_t *batch_uvarint_slow(const uint8_t *p, const uint8_t *end, uint32_t *out);
/* The same for 64 bits and ten bytes. */
const uint8_t *batch_uvarlong_slow(const uint8_t *p, const uint8_t *end, uint64_t *out);

/* One and two bytes here: lengths, deltas and counts of common records. */
static inline const uint8_t *batch_uvarint(const uint8_t *p, const uint8_t *end, uint32_t *out)
{
    if (__builtin_expect(end - p >= 2, 1)) {
        uint32_t low = p[0];
        if (low < 0x80) {
            *out = low;
            return p + 1;
        }
        if (p[1] < 0x80) {
            *out = (low & 0x7f) | (uint32_t)p[1] << 7;
            return p + 2;
        }
    }
    uint32_t v = 0;
    p = batch_uvarint_slow(p, end, &v);
    *out = v;
    return p;
}

static inline const uint8_t *batch_uvarlong(const uint8_t *p, const uint8_t *end, uint64_t *out)
{
    if (__builtin_expect(end - p >= 2, 1)) {
        uint64_t low = p[0];
        if (low < 0x80) {
            *out = low;
            return p + 1;
        }
        if (p[1] < 0x80) {
            *out = (low & 0x7f) | (uint64_t)p[1] << 7;
            return p + 2;
        }
    }
    uint64_t v = 0;
    p = batch_uvarlong_slow(p, end, &v);
    *out = v;
    return p;
}

static inline int32_t batch_unzigzag(uint32_t v)
{
    return (int32_t)((v >> 1) ^ (~(v & 1) + 1));
}

static inline const uint8_t *batch_varint(const uint8_t *p, const uint8_t *end, int32_t *out)
{
    uint32_t raw = 0;
    p = batch_uvarint(p, end, &raw);
    *out = batch_unzigzag(raw);
    return p;
}

/* Length and bytes; -1 is null. */
static inline const uint8_t *batch_bytes(const uint8_t *p, const uint8_t *end, struct slice *out)
{
    int32_t size = 0;
    p = batch_varint(p, end, &size);
    if (__builtin_expect(!p || size < 0, 0)) {
        *out = SLICE_NULL;
        return size == -1 ? p : NULL;
    }
    if (end - p < size) { return NULL; }
    *out = slice_of(p, (size_t)size);
    return p + size;
}

/* True when count headers fill the bytes exactly. */
bool batch_parse_headers(const uint8_t *p, const uint8_t *end, int32_t count);

/* A record's bytes without its length: true when they are exactly one record. */
__attribute__((always_inline)) static inline bool
batch_parse_record(const uint8_t *p, const uint8_t *end, struct walk_record *out)
{
    if (p == end) { return false; }
    uint64_t time = 0;
    p = batch_uvarlong(p + 1, end, &time); /* behind the attributes: none is in use */
    if (!p) { return false; }
    out->timestamp_delta = (int64_t)((time >> 1) ^ (~(time & 1) + 1));
    p = batch_varint(p, end, &out->offset_delta);
    if (!p) { return false; }
    p = batch_bytes(p, end, &out->key);
    if (!p) { return false; }
    out->has_key = out->key.at != NULL;
    p = batch_bytes(p, end, &out->value);
    if (!p || p == end) { return false; }
    if (__builtin_expect(*p == 0, 1)) { /* no headers */
        out->headers_count = 0;
        out->headers = slice_of(end, 0);
        return p + 1 == end;
    }
    p = batch_varint(p, end, &out->headers_count);
    if (!p || out->headers_count < 0) { return false; }
    out->headers = slice_of(p, (size_t)(end - p));
    return batch_parse_headers(p, end, out->headers_count);
}

/* The next record. */
static inline enum walk_result batch_walk_next(struct batch_walk *w, struct walk_record *out)
{
    int32_t size = 0;
    const uint8_t *p = batch_varint(w->at, w->end, &size);
    if (__builtin_expect(p != NULL && size >= 0 && w->end - p >= size, 1)) {
        w->at = p + size;
        return batch_parse_record(p, p + size, out) ? WALK_OK : WALK_BAD;
    }
    struct walk_record slow; /* of its own, so that *out can live in registers */
    enum walk_result r = batch_walk_slow(w, &slow);
    if (r == WALK_OK) { *out = slow; }
    return r;
}

/* What the walk may decompress to. */
uint64_t batch_decompressed_max(const struct batch_rules *rules, size_t compressed);

#endif
