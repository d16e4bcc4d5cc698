/* codec.h - the compression codecs of record batches, as streams.
 *
 * Place:      wire/, under batch.h. Knows bytes only, no records.
 * Thread:     a scratch belongs to one thread (or to one call at a time); at most one stream is
 *             open for reading and one for writing. Make one per thread that validates batches.
 * Ownership:  contexts of the libraries live in the scratch, are made at first use and reused, so
 *             a steady flow does not allocate. What a hostile frame makes large (zstd window, lz4
 *             block) is given back when the stream ends: an idle scratch keeps at most about 4
 *             MiB. Formats: gzip members; snappy in the Java framing (xerial) and, on read, one
 *             raw block (at most 64 MiB); lz4 one frame of independent blocks; zstd frames.
 *             Written as kafka-clients do.
 * Invariants: [COD-1] a read never yields more than the limit given at open. [COD-2] bytes behind
 *             the end of the compressed data are an error, never ignored.
 * Failure:    ERR_MALFORMED (not what the codec writes, or cut), ERR_LIMIT (output beyond the
 *             limit), ERR_NOMEM. After an error the stream is dead; the scratch stays usable. */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include "base/err.h"
#include "base/slice.h"
#include "wire/writer.h"

/* The values are those of the batch attributes, bits 0 to 2. */
enum codec {
    CODEC_NONE = 0,
    CODEC_GZIP = 1,
    CODEC_SNAPPY = 2,
    CODEC_LZ4 = 3,
    CODEC_ZSTD = 4,
};
#define CODEC_COUNT 5

/* The level that compression.<codec>.level has when nobody sets it. */
#define CODEC_LEVEL_DEFAULT INT32_MIN

/* "none", "gzip", "snappy", "lz4", "zstd". */
const char *codec_name(enum codec codec);

struct codec_scratch;

/* Small; contexts come at first use. NULL without memory. */
struct codec_scratch *codec_scratch_create(void);
void codec_scratch_destroy(struct codec_scratch *s); /* accepts NULL */

/* ---- reading ---- */

/* Starts to decompress in (borrowed until the end). At most out_max bytes will be yielded. */
NODISCARD enum err codec_read_open(struct codec_scratch *s, enum codec codec, struct slice in,
                                   uint64_t out_max);
/* Fills at most size bytes; *got less than size only at the end, where it may be 0. */
NODISCARD enum err codec_read(struct codec_scratch *s, uint8_t *at, size_t size, size_t *got);
void codec_read_close(struct codec_scratch *s);

/* All of it, appended to out (also bounded by the limit of out). */
NODISCARD enum err codec_decompress(struct codec_scratch *s, enum codec codec, struct slice in,
                                    uint64_t out_max, struct wire_buf *out);

/* ---- writing ---- */

/* What a codec may want to reserve beyond what it writes: an exact bound on the output is checked
 * by the caller, at the end; the limit of out is this much larger. */
#define CODEC_WRITE_SLACK (256u << 10)

/* Starts to compress; output is appended to out, whose limit bounds it. size_hint is the whole
 * input's size, or 0 when not known; when given it must be exact. level: gzip 1..9, lz4 1..17, zstd
 * -131072..22, or CODEC_LEVEL_DEFAULT; others are clamped. */
NODISCARD enum err codec_write_open(struct codec_scratch *s, enum codec codec, int32_t level,
                                    uint64_t size_hint, struct wire_buf *out);
NODISCARD enum err codec_write(struct codec_scratch *s, struct slice in);
NODISCARD enum err codec_write_end(struct codec_scratch *s);
/* Gives up an open write; harmless after codec_write_end. */
void codec_write_close(struct codec_scratch *s);

#endif
