/* dir.h - one data directory: its lock and identity, the logs in it, the flusher, checkpoints.
 *
 * Place:      log/ room, public. broker/ opens directories and hands in callbacks; replica/
 *             creates, finds and deletes logs. Format of every file: docs/STORAGE.md.
 * Thread:     logdir_open/close from start-up and shutdown, one thread; everything else from any.
 *             Two tasks: the flusher (syncs, runs on_synced), one for all directories of a device,
 *             and the keeper of each (retention, idle logs, removal of deleted files, checkpoints,
 *             runs on_offline).
 * Ownership:  the directory holds one reference to each log; create and find give another.
 * Invariants: [DIR-1] one process a directory (.lock). [DIR-2] the clean-shutdown marker and the
 *             manifest are gone, durably, before the first write. [DIR-3] a mark is written only
 *             after the sync that it speaks of. [DIR-4] a failed sync or EIO is never retried.
 * Failure:    ERR_BUSY: another process. ERR_INVALID: meta.properties names another cluster or
 *             node (a clear line goes to the logger). ERR_STOPPED: the process is told to stop; the
 *             next start recovers the same. After ERR_IO the directory is offline until the
 *             process starts again; other directories go on. */
#ifndef LOG_DIR_H
#define LOG_DIR_H

#include "base/histogram.h"
#include "log/log.h"

struct logdir; /* opaque */

enum log_flush_policy {
    LOG_FLUSH_GROUP, /* default: every append is synced soon, together with what else waits */
    LOG_FLUSH_WINDOW, /* flush.messages and flush.ms of each log */
    LOG_FLUSH_OS, /* at roll, checkpoint and stop only */
};

struct logdir_callbacks {
    void *ctx;
    /* Everything below 'synced' of this log survives a crash now. Flusher task, no lock held. May
     * come twice with the same offset. */
    void (*on_synced)(void *ctx, struct log *log, int64_t synced);
    /* The directory failed; its logs answer ERR_OFFLINE already. Keeper task, no lock held, once.
     */
    void (*on_offline)(void *ctx, struct logdir *dir, enum err cause);
    /* Retention or DeleteRecords moved the log start. Keeper or caller's task, no lock held. */
    void (*on_start_moved)(void *ctx, struct log *log, int64_t start);
};

struct logdir_options {
    const char *path;
    const char *cluster_id; /* text form; written into meta.properties of a fresh directory */
    int32_t node_id;
    enum log_flush_policy flush_policy;
    struct log_config config; /* for logs found on disk, until the owner sets theirs */
    int32_t recovery_threads; /* num.recovery.threads.per.data.dir; 0: 1 */
    int64_t retention_check_ms; /* log.retention.check.interval.ms; 0: 300,000 */
    int64_t checkpoint_ms; /* hw, log start and recovery point checkpoints; 0: 60,000 */
    int64_t idle_close_ms; /* an idle log gives up its descriptors and memory; 0: 60,000 */
    const struct logger *logger; /* may be NULL */
    /* Directories that are open: the flusher of one on the same device is shared. */
    struct logdir *const *peers;
    size_t peers_count;
    struct logdir_callbacks callbacks; /* unset ones are skipped */
};

/* BLOCKS. Creates the directory when it is absent, takes .lock, reads identity, loads or recovers
 * every log, removes the marker, starts the tasks. */
NODISCARD enum err logdir_open(struct sys *sys, const struct logdir_options *options,
                               struct logdir **out);
/* BLOCKS. clean: a last flush (on_synced runs), indexes, snapshots, checkpoints, manifest and,
 * last, the marker with broker_epoch. Not clean: files are closed as they are (tests, offline
 * directory). All references by create and find must be given back before; no call may follow. */
struct logdir_close_options {
    bool clean;
    int64_t broker_epoch;
};
void logdir_close(struct logdir *dir, const struct logdir_close_options *options);

/* BLOCKS. A flush now: when it returns every byte appended before the call is synced and on_synced
 * has run. For the controlled stop, before answers are drained. */
NODISCARD enum err logdir_flush(struct logdir *dir);

const char *logdir_path(const struct logdir *dir);
bool logdir_is_offline(const struct logdir *dir);

/* Reads cluster.id, node.id and directory.id of path/meta.properties before any directory is
 * opened; ERR_NOTFOUND when it is fresh. ERR_MALFORMED: 'expected' and 'line' say what is wrong. */
struct logdir_identity {
    char cluster_id[64];
    int32_t node_id;
    struct uuid directory_id; /* zero when absent */
    const char *expected; /* of ERR_MALFORMED, else NULL */
    int line; /* in which; 0: in none */
};
NODISCARD enum err logdir_identity(struct sys *sys, const char *path, struct logdir_identity *out);

struct logdir_create_options {
    const char *topic;
    struct uuid topic_id;
    int32_t partition;
    struct log_config config;
};

/* BLOCKS briefly (makes a directory). Gives a reference. ERR_EXISTS: there is a log of this name
 * (of this or another topic id). ERR_INVALID: bad name. */
NODISCARD enum err logdir_create_log(struct logdir *dir,
                                     const struct logdir_create_options *options, struct log **out);
/* A reference, or NULL. */
struct log *logdir_find(struct logdir *dir, const char *topic, int32_t partition);
/* Calls visit for every log present at the call; the log is borrowed for the call. No lock is held.
 */
void logdir_each(struct logdir *dir, void (*visit)(void *ctx, struct log *log), void *ctx);
size_t logdir_logs_count(struct logdir *dir);

/* The log answers ERR_CLOSED from here on; its directory is renamed to
 * "<topic>-<partition>.<32 hex>-delete" and removed after file.delete.delay.ms. Borrows log; slices
 * stay valid. Set the partition's state and cancel its operations first. */
NODISCARD enum err logdir_delete_log(struct logdir *dir, struct log *log);
/* Sets a directory aside that the metadata does not know: renamed to "<topic>-<partition>.<32
 * hex>-stray", never removed. */
NODISCARD enum err logdir_stray_log(struct logdir *dir, struct log *log);

/* Microseconds of each round of the flusher; directories of one device may share it. Any thread,
 * while the directory is open. */
const struct histogram *logdir_flush_times(const struct logdir *dir);

#endif
