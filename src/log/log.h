/* log.h - the log of one partition: segments of record batches on disk, in Kafka's own format.
 *
 * Place:      log/ room, public. replica/ appends and reads; dir.h opens, flushes and deletes logs.
 *             Format: docs/STORAGE.md.
 * Thread:     any thread may call any function; each log has one lock (rank SYS_RANK_LOG), held for
 *             memory work and at most one write. Published ends are read without it. Calls marked
 *             BLOCKS, and those with may_block, may wait for the device, also for what another
 *             does there: handlers, readers, keeper and start-up make them.
 * Ownership:  logs are reference counted: who gets one from dir.h holds a reference until
 *             log_unref(). A slice holds its file open (also of a deleted segment) until
 *             log_slice_release().
 * Invariants: [LOG-1] offsets of batches rise; leo is the last one plus one.  [LOG-2] start <=
 * synced
 *             <= leo, but start may pass synced by DeleteRecords.  [LOG-3] bytes below synced
 * survive a crash, with their file names.  [LOG-4] nothing below synced is ever cut but by
 *             truncation, retention and deletion.  [LOG-5] a slice is a run of whole batches.
 * Failure:    ERR_NOSPACE: cut back to the published end, reads go on. ERR_IO: the whole directory
 * is offline, then every call answers ERR_OFFLINE. ERR_CLOSED: the log was deleted. */
#ifndef LOG_LOG_H
#define LOG_LOG_H

#include "base/err.h"
#include "base/slice.h"
#include "base/uuid.h"
#include "sys/sys.h"
#include "wire/batch.h"

struct log; /* opaque */

/* ---- configuration ---- */

#define LOG_TOPIC_NAME_LEN_MAX 249
#define LOG_CODEC_PRODUCER (-1) /* compression.type=producer */

enum log_cleanup { LOG_CLEANUP_DELETE = 1, LOG_CLEANUP_COMPACT = 2 };

/* Topic keys that a log obeys, named as Kafka's. -1 where Kafka's -1 means "no limit". */
struct log_config {
    int64_t segment_ms;
    int64_t segment_jitter_ms;
    int64_t retention_ms;
    int64_t retention_bytes;
    int64_t message_timestamp_before_max_ms;
    int64_t message_timestamp_after_max_ms;
    int64_t flush_messages;
    int64_t flush_ms;
    int64_t delete_retention_ms;
    int64_t file_delete_delay_ms;
    int64_t producer_expiration_ms; /* the broker's producer.id.expiration.ms */
    int64_t decompressed_bytes_max; /* of one batch; 0: no limit */
    int32_t segment_bytes;
    int32_t segment_index_bytes;
    int32_t index_interval_bytes;
    int32_t max_message_bytes;
    int32_t compression_gzip_level;
    int32_t compression_lz4_level;
    int32_t compression_zstd_level;
    int8_t compression_codec; /* enum codec, or LOG_CODEC_PRODUCER */
    bool timestamp_is_append_time; /* message.timestamp.type=LogAppendTime */
    uint8_t cleanup; /* enum log_cleanup bits */
    bool preallocate; /* accepted; space is reserved with or without it */
};

/* Kafka 4.4's defaults. */
void log_config_defaults(struct log_config *c);

/* BLOCKS. Takes effect with the next append, roll or retention pass. */
void log_set_config(struct log *log, const struct log_config *c);

/* True for [a-zA-Z0-9._-]{1,249} but not "." or "..": names become directories. */
bool log_topic_name_is_valid(struct slice name);

/* ---- identity and published ends: any thread, no lock ---- */

struct log *log_ref(struct log *log);
void log_unref(struct log *log); /* accepts NULL */

const char *log_topic(const struct log *log);
int32_t log_partition(const struct log *log);
struct uuid log_topic_id(const struct log *log);

int64_t log_leo(const struct log *log); /* acquire; pairs with the release of an append */
int64_t log_synced(const struct log *log); /* acquire; under LOG_FLUSH_OS it trails far behind */
int64_t log_start_offset(const struct log *log); /* acquire */
uint64_t log_size_bytes(const struct log *log); /* bytes of all segments */
size_t log_segments_count(struct log *log); /* BLOCKS */
/* Rotten ranges that recovery or reads found and kept, since start. */
uint64_t log_rot_count(const struct log *log);

/* The replica's high watermark as it was last told; used for the checkpoint, by retention (nothing
 * at or above it is deleted) and to start again. Never moves back but by log_truncate_to(). */
void log_set_hw(struct log *log, int64_t hw);
int64_t log_hw(const struct log *log);

/* ---- append ---- */

enum log_origin {
    LOG_FROM_CLIENT, /* offsets and epoch are assigned here, everything is validated */
    LOG_FROM_LEADER, /* a follower's copy: offsets and epochs are kept, framing and CRC are checked
                      */
};

/* Why an append was refused: the client's error is chosen in api/. */
enum log_reject {
    LOG_REJECT_NONE,
    LOG_REJECT_BATCH, /* batch_reject says what */
    LOG_REJECT_SEGMENT_TOO_SMALL, /* a batch above segment.bytes: 18 */
    LOG_REJECT_OUT_OF_ORDER, /* sequence gap: 45; from a leader: offsets that do not rise */
    LOG_REJECT_FENCED, /* producer epoch: 47 */
    LOG_REJECT_PRODUCERS_LIMIT, /* no room for another producer: 56 */
    LOG_REJECT_STORAGE, /* disk full, offline or no memory: 56, retriable */
    LOG_REJECT_CLOSED, /* the log was deleted: 3 */
};

struct log_append_args {
    /* One whole batch from a client, one or more from a leader. Borrowed; offsets, epoch and append
     * time are written in place. */
    struct mslice records;
    int64_t now_ms;
    int32_t leader_epoch;
    enum log_origin origin;
    bool zstd_allowed; /* Produce 7 and later */
    /* False, which is for clients' batches only: instead of opening files of an idle log, closing
     * a segment, writing a new leader epoch, waiting for who does, or recompressing, answer
     * ERR_AGAIN with the batch as it was; the caller comes back from a handler with true. */
    bool may_block;
    struct codec_scratch *scratch; /* the calling thread's own */
    /* Takes recompressed bytes; may be NULL when may_block is false. Initialised, with a limit. */
    struct wire_buf *recompressed;
};

struct log_append_result {
    enum err err;
    enum log_reject reject;
    enum batch_reject batch_reject; /* with LOG_REJECT_BATCH */
    bool is_duplicate; /* err is ERR_OK: it was in the log already, the offsets are those of then */
    int64_t first_offset; /* -1 unless ERR_OK */
    int64_t last_offset;
    int64_t append_time_ms; /* -1 unless message.timestamp.type is LogAppendTime */
    int64_t log_start_offset;
    int32_t record_index; /* the refused record within its batch, -1: the whole batch */
    const char *message; /* static text for the client, or NULL */
};

#define LOG_APPEND_COUNT_MAX 64

/* Appends what arrived together, in order, each with its own result. Validates without the lock,
 * then checks sequences, assigns offsets and writes under it, all accepted ones by one positional
 * write, and publishes the new end. On an error nothing of that one was published; if the write
 * fails all accepted ones fail. What comes behind an ERR_AGAIN has it too. No allocation in steady
 * state. count: 1 to LOG_APPEND_COUNT_MAX. */
void log_append(struct log *log, struct log_append_args *const args[],
                struct log_append_result *const out[], size_t count);

/* ---- read ---- */

struct log_read_args {
    int64_t offset; /* first wanted */
    int64_t offset_max; /* exclusive bound: high watermark, LSO or leo */
    size_t bytes_max;
    bool min_one; /* the first batch comes whole even when it is larger than bytes_max */
    bool may_block; /* false: ERR_AGAIN rather than waiting for the disk */
};

struct log_slice {
    struct sys_file *file; /* a reference; NULL when size is 0 */
    uint64_t pos;
    size_t size;
    int64_t offset_first; /* base offset of the first batch: at most the wanted offset */
    int64_t offset_next; /* one past the last offset in the slice */
    bool is_cut; /* size 0 though there is data: bytes_max is below the first batch */
};

/* One contiguous run of whole batches of one segment, beginning with the batch that holds
 * args->offset. ERR_OK with size 0: nothing to read yet (offset at the bound), or is_cut.
 * ERR_RANGE: below the log start or above leo. ERR_AGAIN: would wait (may_block false).
 * ERR_CORRUPT: the offset lies in a rotten range. On every error *out is empty. */
NODISCARD enum err log_read(struct log *log, const struct log_read_args *args,
                            struct log_slice *out);
void log_slice_release(struct log_slice *s); /* empties it; harmless when empty */

/* How many bytes a read of [offset, offset_max) would find, at most bytes_max: for the min.bytes of
 * a waiting fetch. Never waits for the disk; an estimate (rounded down to known batch heads) when
 * the place of an offset is not in memory, bytes_max while another works on the log's files. */
size_t log_bytes_between(struct log *log, int64_t offset, int64_t offset_max, size_t bytes_max);

/* ---- lookups (BLOCKS) ---- */

struct log_time_offset {
    int64_t timestamp; /* -1: none */
    int64_t offset; /* -1: none */
    int32_t leader_epoch; /* -1: unknown */
};

/* First record with a timestamp of at least time_ms and an offset below offset_max. */
NODISCARD enum err log_offset_by_time(struct log *log, int64_t time_ms, int64_t offset_max,
                                      struct log_time_offset *out);
/* The first record that has the greatest timestamp of the log. */
NODISCARD enum err log_offset_of_max_time(struct log *log, struct log_time_offset *out);
/* OffsetForLeaderEpoch: the greatest epoch at most 'epoch' and where it ends; -1 and -1 when none.
 * ERR_AGAIN: would wait (may_block false). */
struct log_epoch_args {
    int32_t epoch;
    bool may_block;
};
NODISCARD enum err log_epoch_end_offset(struct log *log, const struct log_epoch_args *args,
                                        int32_t *epoch_out, int64_t *offset_out);
/* Epoch of the record at offset, -1 when unknown; of the last record with offset leo - 1. */
NODISCARD enum err log_epoch_of(struct log *log, int64_t offset, int32_t *epoch_out);
/* A new leader epoch begins at leo. Kept in leader-epoch-checkpoint. */
NODISCARD enum err log_assign_epoch(struct log *log, int32_t epoch);

/* ---- changes of shape (BLOCKS) ---- */

/* Cuts everything at and above offset (the batch that holds it goes whole), lowering the synced
 * mark durably first. This and log_reset() are for followers, which replication will bring; until
 * then the simulator and unit tests are their only callers. */
NODISCARD enum err log_truncate_to(struct log *log, int64_t offset);
/* DeleteRecords: records below offset are gone for readers; segments go with the next retention
 * pass. Not above the high watermark (ERR_RANGE). At or below the present start: done already.
 * Survives kill -9 at once, a power cut after the next flush. */
NODISCARD enum err log_set_start(struct log *log, int64_t offset);
/* Drops everything and begins anew at offset (a follower whose log ends below the leader's start).
 */
NODISCARD enum err log_reset(struct log *log, int64_t offset);
/* Closes the active segment and begins a new one at leo; nothing when it is empty. */
NODISCARD enum err log_roll(struct log *log, int64_t now_ms);
/* Deletes what retention.ms, retention.bytes and the log start allow; *deleted counts segments.
 * BLOCKS; the log's lock is not held meanwhile. Keeper. */
NODISCARD enum err log_retention_step(struct log *log, int64_t now_ms, size_t *deleted);

#endif
