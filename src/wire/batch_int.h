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

/* A record's bytes without its length: true when they are exactly one record. */
bool batch_parse_record(const uint8_t *at, const uint8_t *end, struct walk_record *out);

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
static inline const uint8_t *batch_uvarint(const uint8_t *p, const uint8_t *end, uint32_t *out)
{
    if (__builtin_expect(p < end && *p < 0x80, 1)) {
        *out = *p;
        return p + 1;
    }
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

static inline int32_t batch_unzigzag(uint32_t v)
{
    return (int32_t)((v >> 1) ^ (~(v & 1) + 1));
}

/* The next record. */
static inline enum walk_result batch_walk_next(struct batch_walk *w, struct walk_record *out)
{
    uint32_t raw = 0;
    const uint8_t *p = batch_uvarint(w->at, w->end, &raw);
    int32_t size = batch_unzigzag(raw);
    if (__builtin_expect(p != NULL && size >= 0 && w->end - p >= size, 1)) {
        w->at = p + size;
        return batch_parse_record(p, p + size, out) ? WALK_OK : WALK_BAD;
    }
    return batch_walk_slow(w, out);
}

/* What the walk may decompress to. */
uint64_t batch_decompressed_max(const struct batch_rules *rules, size_t compressed);

#endif
