/* writer.h - writes Kafka's primitive types into caller's memory.
 *
 * Place:      wire/, under the generated messages.
 * Thread:     a writer belongs to whoever made it.
 * Ownership:  the writer borrows its memory; a wire_buf owns its block.
 * Kinds:      fixed (a given piece of memory), buf (appends to a wire_buf, which grows up to its
 *             limit), count (no memory: only the size is wanted).
 * Invariants: [WR-1] pos <= cap, except in a counting writer, whose cap is 0. [WR-2] err is set
 *             once; later writes do nothing, so callers check once, at the end. [WR-3] holes are
 *             in order of position.
 * Failure:    ERR_LIMIT (fixed memory full, buffer at its limit, too many holes), ERR_NOMEM,
 *             ERR_UNSUPPORTED (a value that the version cannot carry), ERR_INVALID (a value longer
 *             than its type). */
#ifndef WIRE_WRITER_H
#define WIRE_WRITER_H

#include "base/err.h"
#include "base/slice.h"
#include "base/uuid.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing block. Zero-initialised it is empty; limit must be set. Freed by wire_buf_fini. */
struct wire_buf {
    uint8_t *at;
    size_t size;
    size_t cap;
    size_t limit;
};

void wire_buf_init(struct wire_buf *b, size_t limit);
void wire_buf_fini(struct wire_buf *b);
/* Makes room for size bytes in all. */
NODISCARD enum err wire_buf_reserve(struct wire_buf *b, size_t size);

static inline struct slice wire_buf_slice(const struct wire_buf *b)
{
    return (struct slice){b->at, b->size};
}

/* Bytes that belong at pos of the output but are sent from elsewhere: records that leave by
 * sendfile. */
struct wire_hole {
    size_t pos;
    size_t size;
};

struct wire_writer {
    uint8_t *at;
    size_t pos; /* bytes written; in a wire_buf counted from its start */
    size_t cap;
    enum err err;
    bool counting;
    struct wire_buf *buf;
    struct wire_hole *holes;
    size_t holes_count;
    size_t holes_max;
    size_t holes_bytes;
};

void wire_writer_init_fixed(struct wire_writer *w, struct mslice memory);
void wire_writer_init_buf(struct wire_writer *w, struct wire_buf *buf);
void wire_writer_init_count(struct wire_writer *w);
/* From here on records {NULL, size > 0} leave a hole instead of being an error. */
void wire_writer_set_holes(struct wire_writer *w, struct wire_hole *holes, size_t holes_max);
/* Gives the bytes to the wire_buf (its size grows only here, and only without error) and returns
 * err. */
NODISCARD enum err wire_writer_finish(struct wire_writer *w);

void wire_writer_fail(struct wire_writer *w, enum err e);
uint8_t *wire_put_slow(struct wire_writer *w, size_t size);

/* Room for the next size bytes; NULL when counting or bad. */
static inline uint8_t *wire_put(struct wire_writer *w, size_t size)
{
    if (__builtin_expect(w->cap - w->pos >= size && !w->counting, 1)) {
        uint8_t *p = w->at + w->pos;
        w->pos += size;
        return p;
    }
    return wire_put_slow(w, size);
}

static inline void wire_put_u8(struct wire_writer *w, uint8_t v)
{
    uint8_t *p = wire_put(w, 1);
    if (p) { *p = v; }
}

static inline void wire_put_i8(struct wire_writer *w, int8_t v)
{
    wire_put_u8(w, (uint8_t)v);
}

static inline void wire_put_bool(struct wire_writer *w, bool v)
{
    wire_put_u8(w, v ? 1 : 0);
}

static inline void wire_put_u16(struct wire_writer *w, uint16_t v)
{
    uint8_t *p = wire_put(w, 2);
    if (p) {
        v = __builtin_bswap16(v);
        memcpy(p, &v, sizeof v);
    }
}

static inline void wire_put_i16(struct wire_writer *w, int16_t v)
{
    wire_put_u16(w, (uint16_t)v);
}

static inline void wire_put_u32(struct wire_writer *w, uint32_t v)
{
    uint8_t *p = wire_put(w, 4);
    if (p) {
        v = __builtin_bswap32(v);
        memcpy(p, &v, sizeof v);
    }
}

static inline void wire_put_i32(struct wire_writer *w, int32_t v)
{
    wire_put_u32(w, (uint32_t)v);
}

static inline void wire_put_u64(struct wire_writer *w, uint64_t v)
{
    uint8_t *p = wire_put(w, 8);
    if (p) {
        v = __builtin_bswap64(v);
        memcpy(p, &v, sizeof v);
    }
}

static inline void wire_put_i64(struct wire_writer *w, int64_t v)
{
    wire_put_u64(w, (uint64_t)v);
}

static inline void wire_put_f64(struct wire_writer *w, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    wire_put_u64(w, bits);
}

static inline void wire_put_uuid(struct wire_writer *w, struct uuid u)
{
    uint8_t *p = wire_put(w, sizeof u.b);
    if (p) { memcpy(p, u.b, sizeof u.b); }
}

void wire_put_raw(struct wire_writer *w, struct slice bytes);
void wire_put_uvarint(struct wire_writer *w, uint32_t v);
void wire_put_uvarlong(struct wire_writer *w, uint64_t v);

static inline void wire_put_varint(struct wire_writer *w, int32_t v)
{
    wire_put_uvarint(w, ((uint32_t)v << 1) ^ (uint32_t)(v >> 31));
}

static inline void wire_put_varlong(struct wire_writer *w, int64_t v)
{
    wire_put_uvarlong(w, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

/* Length-prefixed values. at == NULL is written as null where nullable says that the version has
 * null, else as empty, so that a zeroed struct can be sent. */
void wire_put_string(struct wire_writer *w, struct slice s, bool flexible, bool nullable);
void wire_put_bytes(struct wire_writer *w, struct slice s, bool flexible, bool nullable);
/* As bytes; {NULL, size > 0} writes the length and leaves a hole of that size. */
void wire_put_records(struct wire_writer *w, struct slice s, bool flexible, bool nullable);
/* The count in front of an array; is_null is honoured as above. */
void wire_put_array(struct wire_writer *w, size_t count, bool is_null, bool flexible,
                    bool nullable);

/* A tagged field: what was written since mark = w->pos becomes its content. */
void wire_put_tag(struct wire_writer *w, uint32_t tag, size_t mark);

/* A frame: 4 bytes of size, then everything written until wire_frame_end, holes included. */
struct wire_frame {
    size_t pos;
    size_t holes_bytes; /* of earlier frames in the same writer */
};

struct wire_frame wire_frame_begin(struct wire_writer *w);
void wire_frame_end(struct wire_writer *w, struct wire_frame frame);

#endif
