/* producer.h - what one log remembers of its idempotent producers: the sequence rules.
 *
 * Place:      log/, inside struct log. Pure data: the log reads and writes the snapshot files.
 * Thread:     the log's lock guards all of it.
 * Ownership:  the log embeds a producers; producers_fini() frees its table. Empty costs no memory.
 * Bound:      at most count_max producers, 192 bytes each with its place in the hash table.
 * Format:     a snapshot is Kafka's: version int16 1, CRC-32C of the rest uint32, entries. Only the
 *             last batch of each producer is in it.
 * Rules:      [PRO-1] a batch that is among the last five of its producer epoch is a duplicate and
 *             is answered with its first offsets.  [PRO-2] the next batch starts one behind the
 * last sequence; 0 follows 2^31-1.  [PRO-3] a new epoch starts at sequence 0; an older epoch is
 * fenced.  [PRO-4] without any state a plain producer may start anywhere, a transactional one at 0.
 * Failure:    ERR_NOMEM and ERR_LIMIT come from producers_check(), so that producers_add() after it
 *             cannot fail. A damaged snapshot is ERR_CORRUPT or ERR_MALFORMED and leaves the table
 *             empty: the log then replays its batches. */
#ifndef LOG_PRODUCER_H
#define LOG_PRODUCER_H

#include "base/err.h"
#include "base/slice.h"
#include "wire/batch.h"

#define PRODUCERS_COUNT_MAX 1000000u /* default of count_max */
#define PRODUCER_WINDOW 5

/* One remembered batch. */
struct producer_batch {
    int64_t last_offset;
    int64_t timestamp; /* its max timestamp */
    int32_t last_sequence;
    int32_t offset_delta; /* last_offset - first offset */
};

struct producer_entry {
    int64_t producer_id;
    int64_t last_timestamp; /* for expiry */
    int64_t txn_first_offset; /* of the open transaction, -1 */
    int32_t coordinator_epoch; /* of the last marker, -1 */
    int16_t epoch; /* -1: none yet */
    uint8_t batches_count;
    struct producer_batch batches[PRODUCER_WINDOW]; /* oldest first */
};

struct producers {
    struct producer_entry *entries; /* dense */
    uint32_t *slots; /* index + 1, 0 is empty */
    uint32_t count;
    uint32_t capacity;
    uint32_t slots_count; /* power of two */
    uint32_t count_max;
    uint32_t expire_next; /* where producers_expire() goes on */
};

void producers_init(struct producers *p, uint32_t count_max);
void producers_fini(struct producers *p);
/* Forgets everything and gives the memory back. */
void producers_clear(struct producers *p);

/* What the log already has of a duplicate. */
struct producer_duplicate {
    int64_t first_offset;
    int64_t last_offset;
    int64_t timestamp; /* Kafka answers it as LogAppendTimeMs */
};

/* Judges a batch with a producer id before it is appended. ERR_OK: append, then producers_add().
 * ERR_DUPLICATE: *dup says what to answer. ERR_OUT_OF_ORDER [45], ERR_FENCED [47]. ERR_NOMEM,
 * ERR_LIMIT: no room for a new producer. */
NODISCARD enum err producers_check(struct producers *p, const struct batch_header *h,
                                   struct producer_duplicate *dup);
/* Notes a batch that was appended (or is read back in recovery, or comes from a leader) with its
 * real base_offset. Never judges. Batches without producer id are ignored. Cannot fail after
 * producers_check() said ERR_OK. */
NODISCARD enum err producers_add(struct producers *p, const struct batch_header *h);

/* Adds what an older view knows and p does not: producers, open transactions, the batch before the
 * first of a window that has room. p was read from batches, older from a snapshot, which holds one
 * batch of each producer. */
NODISCARD enum err producers_merge_older(struct producers *p, const struct producers *older);

/* NULL when unknown. Valid until the next change. */
const struct producer_entry *producers_find(const struct producers *p, int64_t producer_id);

/* Forgets producers whose last batch is older than expiration_ms. Looks at no more than scan_max
 * entries and goes on there next time, so that no call is long. Returns how many went. */
uint32_t producers_expire(struct producers *p, int64_t now_ms, int64_t expiration_ms,
                          uint32_t scan_max);

/* ---- snapshot ---- */

size_t producers_snapshot_size(const struct producers *p);
/* Appends the file's bytes to out. */
NODISCARD enum err producers_snapshot_encode(const struct producers *p, struct wire_buf *out);
/* Replaces all state. Entries that have expired at now_ms are left out (expiration_ms < 0: none).
 */
NODISCARD enum err producers_snapshot_decode(struct producers *p, struct slice file, int64_t now_ms,
                                             int64_t expiration_ms);

#endif
