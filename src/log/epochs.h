/* epochs.h - which leader epoch began at which offset in one log.
 *
 * Place:      log/, inside struct log. Pure data: the log writes leader-epoch-checkpoint.
 * Thread:     the log's lock guards it.
 * Ownership:  the log embeds it; epochs_fini() frees the array. One entry needs no array.
 * Invariants: [EPO-1] epochs and start offsets both rise strictly from entry to entry.
 * Format:     text: "0\n", the number of entries, then "<epoch> <start offset>" a line.
 * Failure:    ERR_NOMEM changes nothing. A damaged file is ERR_MALFORMED and leaves no entries: the
 *             log rebuilds them from its batch headers. */
#ifndef LOG_EPOCHS_H
#define LOG_EPOCHS_H

#include "base/err.h"
#include "base/slice.h"
#include "wire/writer.h"

#define EPOCHS_COUNT_MAX 1000000u /* in a checkpoint file */

struct epoch_entry {
    int64_t start;
    int32_t epoch;
};

struct epochs {
    struct epoch_entry *many; /* NULL: there is only one, in one */
    uint32_t count;
    uint32_t capacity; /* of many */
    struct epoch_entry one;
};

static inline const struct epoch_entry *epochs_at(const struct epochs *e, uint32_t i)
{
    return e->many ? &e->many[i] : &e->one;
}

void epochs_init(struct epochs *e);
void epochs_fini(struct epochs *e);
void epochs_clear(struct epochs *e);

/* A batch of this epoch is at start. Entries that contradict it (same or later epoch with another
 * start, or a start at or behind this one) go. *changed tells whether the file must be written.
 * Negative epochs or offsets are ERR_INVALID. */
NODISCARD enum err epochs_assign(struct epochs *e, int32_t epoch, int64_t start, bool *changed);

/* -1 when there is none. */
int32_t epochs_latest(const struct epochs *e);
/* The epoch that the record at offset was written in, -1 when not known. */
int32_t epochs_of_offset(const struct epochs *e, int64_t offset);

struct epoch_end {
    int32_t epoch; /* -1: unknown */
    int64_t end; /* exclusive; -1: unknown */
};
/* OffsetForLeaderEpoch: the largest epoch at or below the one asked for, and where it ends. The
 * latest ends at leo. An epoch later than all: -1, -1. Earlier than all: that epoch and the first
 * start that is kept. */
struct epoch_end epochs_end_of(const struct epochs *e, int32_t epoch, int64_t leo);

/* Entries that start at or behind offset go. True when something changed. */
bool epochs_truncate_end(struct epochs *e, int64_t offset);
/* The log now starts at offset: entries before it go, the one that holds it starts there. */
bool epochs_truncate_start(struct epochs *e, int64_t offset);

/* Appends the file's bytes to out. */
NODISCARD enum err epochs_encode(const struct epochs *e, struct wire_buf *out);
/* Replaces all entries. */
NODISCARD enum err epochs_decode(struct epochs *e, struct slice file);

#endif
