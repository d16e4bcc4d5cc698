/* reader.h - reads Kafka's primitive types from borrowed bytes.
 *
 * Place:      wire/, under the generated messages; log/ and others read their own formats with it.
 * Thread:     a reader belongs to whoever made it.
 * Ownership:  slices that it returns point into the bytes read.
 * Invariants: [RD-1] at <= end. [RD-2] once bad, at == end, and everything read is zero, null or
 *             empty: callers check bad once, at the end. [RD-3] no count is returned that the
 *             bytes left could not hold.
 * Failure:    short, oversized or impossible input makes the reader bad; nothing is ever a
 *             CHECK. */
#ifndef WIRE_READER_H
#define WIRE_READER_H

#include "base/slice.h"
#include "base/uuid.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest string: Kafka writes the length as int16. */
#define WIRE_STRING_SIZE_MAX 32767
/* Tagged fields of one struct. The protocol has at most 9; more than this is no client of ours. */
#define WIRE_TAGS_MAX 256

/* What decoding one message may take from its arena: no request decodes to more than 8 times its
 * size plus 64 KiB. */
#define WIRE_DECODE_BUDGET(wire_size) ((size_t)8 * (wire_size) + 65536)

struct wire_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool bad;
};

void wire_reader_init(struct wire_reader *r, struct slice bytes);

/* The one place where a reader goes bad. Also for callers that find a value impossible. */
static inline void wire_fail(struct wire_reader *r)
{
    r->bad = true;
    r->at = r->end;
}

static inline size_t wire_left(const struct wire_reader *r)
{
    return (size_t)(r->end - r->at);
}

/* The next size bytes, or NULL and bad. */
static inline const uint8_t *wire_take(struct wire_reader *r, size_t size)
{
    if (__builtin_expect(wire_left(r) < size, 0)) {
        wire_fail(r);
        return NULL;
    }
    const uint8_t *p = r->at;
    r->at += size;
    return p;
}

static inline uint8_t wire_u8(struct wire_reader *r)
{
    const uint8_t *p = wire_take(r, 1);
    return p ? *p : 0;
}

static inline int8_t wire_i8(struct wire_reader *r)
{
    return (int8_t)wire_u8(r);
}

static inline bool wire_bool(struct wire_reader *r)
{
    return wire_u8(r) != 0;
}

static inline uint16_t wire_u16(struct wire_reader *r)
{
    const uint8_t *p = wire_take(r, 2);
    return (uint16_t)(p ? (p[0] << 8) | p[1] : 0);
}

static inline int16_t wire_i16(struct wire_reader *r)
{
    return (int16_t)wire_u16(r);
}

static inline uint32_t wire_u32(struct wire_reader *r)
{
    const uint8_t *p = wire_take(r, 4);
    uint32_t v = 0;
    if (p) { memcpy(&v, p, sizeof v); }
    return __builtin_bswap32(v);
}

static inline int32_t wire_i32(struct wire_reader *r)
{
    return (int32_t)wire_u32(r);
}

static inline uint64_t wire_u64(struct wire_reader *r)
{
    const uint8_t *p = wire_take(r, 8);
    uint64_t v = 0;
    if (p) { memcpy(&v, p, sizeof v); }
    return __builtin_bswap64(v);
}

static inline int64_t wire_i64(struct wire_reader *r)
{
    return (int64_t)wire_u64(r);
}

static inline double wire_f64(struct wire_reader *r)
{
    uint64_t bits = wire_u64(r);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline struct uuid wire_uuid(struct wire_reader *r)
{
    struct uuid u = {{0}};
    const uint8_t *p = wire_take(r, sizeof u.b);
    if (p) { memcpy(u.b, p, sizeof u.b); }
    return u;
}

/* Base 128, least significant group first. More than 5 or 10 bytes, or bits beyond the type, are
 * bad. */
uint32_t wire_uvarint_slow(struct wire_reader *r);
uint64_t wire_uvarlong(struct wire_reader *r);

static inline uint32_t wire_uvarint(struct wire_reader *r)
{
    if (__builtin_expect(r->at < r->end && *r->at < 0x80, 1)) { return *r->at++; }
    return wire_uvarint_slow(r);
}

/* Zigzag, as record fields use them. */
static inline int32_t wire_varint(struct wire_reader *r)
{
    uint32_t v = wire_uvarint(r);
    return (int32_t)((v >> 1) ^ (~(v & 1) + 1));
}

static inline int64_t wire_varlong(struct wire_reader *r)
{
    uint64_t v = wire_uvarlong(r);
    return (int64_t)((v >> 1) ^ (~(v & 1) + 1));
}

/* Length-prefixed values; flexible chooses the compact form. Null has at == NULL, an empty value
 * has not. wire_bytes is also the form of records. */
struct slice wire_string(struct wire_reader *r, bool flexible);
struct slice wire_bytes(struct wire_reader *r, bool flexible);

/* The same where the version allows no null. */
static inline struct slice wire_string_nonnull(struct wire_reader *r, bool flexible)
{
    struct slice s = wire_string(r, flexible);
    if (!s.at) { wire_fail(r); }
    return s;
}

static inline struct slice wire_bytes_nonnull(struct wire_reader *r, bool flexible)
{
    struct slice s = wire_bytes(r, flexible);
    if (!s.at) { wire_fail(r); }
    return s;
}

/* The count of an array whose elements take at least element_size_min (>= 1) bytes each; -1 is
 * null. [RD-3] */
int32_t wire_array(struct wire_reader *r, bool flexible, size_t element_size_min);

static inline int32_t wire_array_nonnull(struct wire_reader *r, bool flexible,
                                         size_t element_size_min)
{
    int32_t n = wire_array(r, flexible, element_size_min);
    if (n < 0) {
        wire_fail(r);
        return 0;
    }
    return n;
}

/* A tagged section is a count, then tag, size and bytes of each field. The caller loops:
 *
 *     for (uint32_t n = wire_tags(r); n > 0; n--) {
 *         struct wire_tag t = wire_tag_open(r);
 *         switch (t.tag) {
 *         case 0: out->epoch = wire_i64(r); break;
 *         default: wire_tag_skip(r); break;
 *         }
 *         wire_tag_close(r, t);
 *     }
 *
 * Between open and close the reader ends where the field ends; a known field must fill it exactly.
 */
struct wire_tag {
    const uint8_t *outer_end;
    uint32_t tag;
};

uint32_t wire_tags(struct wire_reader *r);
struct wire_tag wire_tag_open(struct wire_reader *r);
void wire_tag_close(struct wire_reader *r, struct wire_tag t);
/* A whole section that nobody understands; nearly always it is empty. */
void wire_tags_skip_slow(struct wire_reader *r);

static inline void wire_tags_skip(struct wire_reader *r)
{
    if (__builtin_expect(r->at < r->end && *r->at == 0, 1)) {
        r->at++;
        return;
    }
    wire_tags_skip_slow(r);
}

static inline void wire_tag_skip(struct wire_reader *r)
{
    r->at = r->end;
}

#endif
