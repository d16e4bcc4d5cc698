/* journal.h - the metadata log of a broker alone: Kafka's record batches in Kafka's directory and
 * names.
 *
 * Place:      <metadata.log.dir>/__cluster_metadata-0/ holds <offset>.log segments and
 *             <offset>-<epoch>.checkpoint snapshots. The controller is the only writer. The same
 *             calls will be served by the Raft engine's log later.
 * Thread:     the controller's task (start-up: main). journal_append BLOCKS until the batch is on
 *             the device.
 * Invariants: [JRN-1] a record is applied anywhere only after it was synced. [JRN-2] a snapshot's
 *             name appears (rename, directory synced) only when its content is synced. [JRN-3] log
 *             files below the newest snapshot are removed only after [JRN-2]. [JRN-4] what is
 *             appended behind a snapshot stands in a file that begins there or later.
 * Failure:    a torn tail of the newest log file (a crash in the middle of an append that was
 *             never acknowledged) is cut. Any other damage is an error that names file and
 *             position: the broker does not start. ERR_IO: nothing more is written. */
#ifndef META_JOURNAL_H
#define META_JOURNAL_H

#include "base/logger.h"
#include "meta/image.h"

struct journal;

struct journal_options {
    struct sys *sys;
    const struct logger *logger;
    const char *dir; /* the metadata directory; created when absent */
    uint64_t snapshot_bytes; /* a snapshot is due after this many bytes of log */
};

/* Opens and replays: *image receives one reference to the image of everything on disk. */
NODISCARD enum err journal_open(const struct journal_options *options, struct journal **out,
                                struct meta_image **image);
void journal_close(struct journal *j); /* accepts NULL */

/* Appends the records as one batch and syncs. BLOCKS. *first_offset is the first record's. On error
 * nothing was appended. */
NODISCARD enum err journal_append(struct journal *j, const struct slice *records,
                                  size_t records_count, int64_t wall_ms, int64_t *first_offset);
/* True when a snapshot should be written. */
bool journal_wants_snapshot(const struct journal *j);
/* Writes a snapshot of image (which must be the image of the whole log) and removes what it
 * replaces. BLOCKS. */
NODISCARD enum err journal_snapshot(struct journal *j, const struct meta_image *image,
                                    int64_t wall_ms);

#endif
