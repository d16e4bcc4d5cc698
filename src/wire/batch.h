/* batch.h - record batches in Kafka's format v2: look, check, stamp, walk, rewrite, build.
 *
 * Place:      wire/. Pure: bytes in, facts out; no lock, no clock (now is given).
 * Thread:     any; a codec_scratch belongs to one thread at a time.
 * Ownership:  batches are borrowed. Nothing is allocated in steady state: compressed records are
 *             walked through a window of 64 KiB inside the scratch.
 * Format:     docs/STORAGE.md. A header of 61 bytes, then records. The CRC covers attributes to the
 *             end, so base offset and leader epoch are set without touching it.
 * Invariants: [BAT-1] a batch that batch_validate() calls BATCH_OK has the length it says, the
 * right CRC, records_count whole records with offset deltas 0..n-1, and nothing behind them.
 *             [BAT-2] no byte outside the batch is read.  [BAT-3] decompression yields at most
 *             batch_rules.decompressed_bytes_max, and memory use does not depend on it.
 * Failure:    a client's fault is an enum batch_reject; nothing from the network is a CHECK. */
#ifndef WIRE_BATCH_H
#define WIRE_BATCH_H

#include "wire/codec.h"

#define BATCH_HEADER_SIZE 61
/* Base offset and length field: what stands before the bytes that length counts. */
#define BATCH_LENGTH_OVERHEAD 12
#define BATCH_MAGIC 2
#define BATCH_NO_TIME (-1)
#define BATCH_NO_PRODUCER (-1)
/* Records whose compressed form is allowed to grow to this much in any case. */
#define BATCH_DECOMPRESSED_FLOOR (64u << 20)
/* Beyond the floor the output may be this many times the input. */
#define BATCH_DECOMPRESSED_RATIO 100u

enum batch_attribute {
    BATCH_CODEC_MASK = 0x07,
    BATCH_LOG_APPEND_TIME = 0x08,
    BATCH_TRANSACTIONAL = 0x10,
    BATCH_CONTROL = 0x20,
    BATCH_DELETE_HORIZON = 0x40,
};

struct batch_header {
    int64_t base_offset;
    int32_t length; /* of what follows the length field */
    int32_t leader_epoch;
    int8_t magic;
    uint32_t crc;
    int16_t attributes;
    int32_t last_offset_delta;
    int64_t base_timestamp; /* the delete horizon when that bit is set */
    int64_t max_timestamp;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int32_t records_count;
};

static inline size_t batch_size(const struct batch_header *h)
{
    return (size_t)BATCH_LENGTH_OVERHEAD + (size_t)h->length;
}
static inline int64_t batch_last_offset(const struct batch_header *h)
{
    return (int64_t)((uint64_t)h->base_offset + (uint64_t)(int64_t)h->last_offset_delta);
}
static inline bool batch_is_log_append_time(const struct batch_header *h)
{
    return (h->attributes & BATCH_LOG_APPEND_TIME) != 0;
}
static inline bool batch_is_transactional(const struct batch_header *h)
{
    return (h->attributes & BATCH_TRANSACTIONAL) != 0;
}
static inline bool batch_is_control(const struct batch_header *h)
{
    return (h->attributes & BATCH_CONTROL) != 0;
}
static inline bool batch_has_producer(const struct batch_header *h)
{
    return h->producer_id >= 0;
}
/* 0..7: 5 to 7 are no codec. */
static inline unsigned batch_codec_bits(const struct batch_header *h)
{
    return (unsigned)h->attributes & BATCH_CODEC_MASK;
}
/* The sequence of the last record: counts on from 2^31-1 to 0. */
int32_t batch_last_sequence(const struct batch_header *h);

/* Decodes the header of the batch at the start of bytes. Needs BATCH_HEADER_SIZE bytes, not the
 * whole batch. ERR_RANGE: fewer bytes than a header. ERR_UNSUPPORTED: magic 0, 1 or above 2 (out
 * then holds base_offset, length, magic only). ERR_MALFORMED: a length that no batch has. */
NODISCARD enum err batch_peek(struct slice bytes, struct batch_header *out);
/* Of one whole batch (bytes may go on behind it). ERR_CORRUPT when the CRC does not match; errors
 * of batch_peek; ERR_RANGE when the batch is cut. */
NODISCARD enum err batch_check_crc(struct slice bytes);

/* In place, at the batch's first byte. */
void batch_set_base_offset(uint8_t *batch, int64_t base_offset);
void batch_set_leader_epoch(uint8_t *batch, int32_t leader_epoch);
/* Sets max timestamp and the timestamp type, and computes the CRC again. batch is whole. */
void batch_set_max_timestamp(struct mslice batch, bool log_append_time, int64_t max_timestamp);

/* ---- validation ---- */

/* Why a client's batch is refused. In brackets the protocol error that suits it. */
enum batch_reject {
    BATCH_OK = 0,
    BATCH_EMPTY, /* no bytes, or no records [87] */
    BATCH_CUT, /* shorter than it says [87] */
    BATCH_SEVERAL, /* bytes behind the first batch [87] */
    BATCH_LENGTH, /* a length that no batch has [87] */
    BATCH_OLD_MAGIC, /* magic 0, 1 or unknown [87] */
    BATCH_BAD_CRC, /* [2] */
    BATCH_TOO_LARGE, /* max.message.bytes, before or after recompression [10] */
    BATCH_BASE_OFFSET, /* not 0 [87] */
    BATCH_COUNTS, /* count, last offset delta and records disagree [87] */
    BATCH_RECORD, /* a record's framing [87] */
    BATCH_OFFSETS, /* record deltas are not 0..n-1 [87] */
    BATCH_NO_KEY, /* compacted topic [87] */
    BATCH_IS_CONTROL, /* control bit set by a client [87] */
    BATCH_IS_TRANSACTIONAL, /* refused while there are no transactions [48] */
    BATCH_SEQUENCE, /* producer id with a negative epoch or sequence [87] */
    BATCH_TIME, /* outside the topic's limits, or overflows [32] */
    BATCH_TIME_TYPE, /* a client set the log append time bit [32] */
    BATCH_CODEC, /* codec bits 5 to 7 [76] */
    BATCH_CODEC_VERSION, /* zstd in a Produce version below 7 [76] */
    BATCH_COMPRESSED, /* the compressed bytes are not what the codec writes [87] */
    BATCH_BOMB, /* decompresses to more than allowed [10] */
    BATCH_NOMEM, /* ours: no memory for a context or a buffer [56] */
};
#define BATCH_REJECT_COUNT 23

/* What the topic and the request allow. Zeroed limits mean: no limit (max_message_bytes,
 * decompressed_bytes_max). */
struct batch_rules {
    int64_t now_ms;
    int64_t time_before_max_ms; /* message.timestamp.before.max.ms */
    int64_t time_after_max_ms; /* message.timestamp.after.max.ms */
    int64_t decompressed_bytes_max; /* max.decompressed.message.bytes */
    int32_t max_message_bytes;
    bool log_append_time; /* message.timestamp.type */
    bool keys_required; /* cleanup.policy has compact */
    bool zstd_allowed; /* Produce 7 and later */
    bool transactional_allowed;
    bool control_allowed; /* the broker's own markers */
    /* compression.type other than "producer": what batches are rewritten to. */
    bool codec_forced;
    enum codec codec;
    int32_t level; /* or CODEC_LEVEL_DEFAULT */
};

struct batch_facts {
    struct batch_header header; /* with max_timestamp and attributes as they will be stored */
    int64_t max_timestamp; /* what the index needs: now_ms under log append time */
    int32_t max_timestamp_delta; /* offset delta of the first record that has it */
    uint64_t records_bytes; /* decompressed */
    bool recompress; /* call batch_recompress before appending */
    int32_t record_index; /* the offending record, -1: the batch as a whole */
    const char *message; /* constant text for Produce v8+, NULL when BATCH_OK */
};

/* Checks one whole batch as a client sent it. When BATCH_OK, and recompress is not set, the batch
 * is ready to be given offset and epoch: log append time is set and a wrong max timestamp in the
 * header is put right, in place. Otherwise the bytes are unchanged. */
NODISCARD enum batch_reject batch_validate(const struct batch_rules *rules,
                                           struct codec_scratch *scratch, struct mslice batch,
                                           struct batch_facts *out);

/* Rewrites a batch that batch_validate called BATCH_OK with facts->recompress into rules->codec.
 * The records, their deltas and the base timestamp stay. out (cleared first) holds the new batch;
 * facts->header follows. BATCH_TOO_LARGE when the new form is above max_message_bytes. Slow: call
 * it on a handler. */
NODISCARD enum batch_reject batch_recompress(const struct batch_rules *rules,
                                             struct codec_scratch *scratch, struct slice batch,
                                             struct batch_facts *facts, struct wire_buf *out);

/* ---- searching in a stored batch ---- */

struct batch_found {
    int64_t offset;
    int64_t timestamp;
};

/* The first record at or after offset_min whose time is at least timestamp. Records without time
 * never match. ERR_NOTFOUND: none. ERR_MALFORMED, ERR_CORRUPT: the stored bytes are bad. */
NODISCARD enum err batch_find_time(struct codec_scratch *scratch, struct slice batch,
                                   int64_t timestamp, int64_t offset_min, struct batch_found *out);
/* The first record that has the batch's largest time. ERR_NOTFOUND when no record has a time. */
NODISCARD enum err batch_find_max_time(struct codec_scratch *scratch, struct slice batch,
                                       struct batch_found *out);

/* ---- walking with contents ---- */

struct batch_record {
    int64_t offset;
    int64_t timestamp; /* of the batch under log append time */
    struct slice key; /* null: at == NULL */
    struct slice value;
    struct slice headers; /* encoded, for batch_header_next() */
    uint32_t headers_count;
    uint32_t size; /* of the record with its length */
};

struct batch_iter {
    struct batch_header header;
    struct slice left;
    int32_t index; /* of the next record */
    enum err err;
};

/* Opens a stored batch (CRC is not checked). Compressed records are decompressed into buf (cleared
 * first, at most bytes_max), which must outlive the records; buf may be NULL when the batch is
 * known to be uncompressed. */
NODISCARD enum err batch_iter_open(struct batch_iter *it, struct codec_scratch *scratch,
                                   struct slice batch, uint64_t bytes_max, struct wire_buf *buf);
/* False at the end and on bad bytes; it->err tells which. */
bool batch_iter_next(struct batch_iter *it, struct batch_record *out);

/* Takes the next header off the front of *headers. False at the end. value may be null. */
bool batch_header_next(struct slice *headers, struct slice *key, struct slice *value);

/* ---- building: tests, tools, simulator, the broker's own batches ---- */

struct batch_build_header {
    struct slice key;
    struct slice value; /* null allowed */
};

struct batch_build_record {
    int64_t timestamp;
    struct slice key; /* null allowed */
    struct slice value; /* null allowed */
    const struct batch_build_header *headers;
    size_t headers_count;
};

/* Zeroed options give a plain batch, but for the producer id: set BATCH_NO_PRODUCER (-1), with
 * epoch -1 and sequence -1, where there is none. BATCH_BUILD_PLAIN does that. */
struct batch_build_options {
    int64_t base_offset;
    int64_t producer_id;
    int32_t leader_epoch;
    int32_t base_sequence;
    int16_t producer_epoch;
    enum codec codec;
    int32_t level; /* CODEC_LEVEL_DEFAULT or as codec_write_open */
    bool transactional;
    bool control;
};
#define BATCH_BUILD_PLAIN                                                                          \
    ((struct batch_build_options){.producer_id = -1,                                               \
                                  .base_sequence = -1,                                             \
                                  .producer_epoch = -1,                                            \
                                  .leader_epoch = -1,                                              \
                                  .level = CODEC_LEVEL_DEFAULT})

/* Appends one batch with records 0..count-1 to out. scratch may be NULL for CODEC_NONE. */
NODISCARD enum err batch_build(const struct batch_build_options *options,
                               const struct batch_build_record *records, size_t count,
                               struct codec_scratch *scratch, struct wire_buf *out);

#endif
