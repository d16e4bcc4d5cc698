/* dir_int.h - what the files of the directory half of log/ share.
 *
 * Place:   private to src/log and its tests.
 * Thread:  fields say who guards them. Lock ranks: a log (LOG) before the table of logs (LOGDIR)
 * before the marks (FLUSHER). */
#ifndef LOG_DIR_INT_H
#define LOG_DIR_INT_H

#include "base/list.h"
#include "base/map.h"
#include "log/log_int.h"

#define LOGDIR_MANIFEST "clean-manifest"
#define LOGDIR_MARKS "synced-marks"
#define LOGDIR_MARKER ".kafka_cleanshutdown"
#define LOGDIR_RECOVERY_POINTS "recovery-point-offset-checkpoint"
#define LOGDIR_STARTS "log-start-offset-checkpoint"
#define LOGDIR_HIGH_WATERMARKS "replication-offset-checkpoint"

/* ---- what a start found (load.c) ---- */

struct logdir_load_stats {
    size_t logs_count;
    size_t logs_scanned_count; /* needed a scan because the stop was not clean */
    uint64_t scanned_bytes;
    uint64_t load_ns;
    bool was_clean; /* the manifest was used */
    int64_t broker_epoch; /* of the clean-shutdown marker, -1 when none */
};

/* ---- synced marks (synced.c): format in docs/STORAGE.md ---- */

#define MARKS_ENTRY_SIZE 64u
#define MARKS_FOLD_ENTRIES_MIN 16384u /* the file is folded when it has more, and 4 a log */
#define MARKS_SYNC_DELAY_NS (100 * SYS_MS) /* how long a mark may be written but not synced */

enum mark_kind {
    MARK_SYNCED = 1,
    MARK_FOLD = 2, /* as SYNCED; what lies below was looked at or written by a sound process */
    MARK_LOWERED = 3, /* truncation */
    MARK_START = 4, /* log start in offset */
};

struct mark_entry {
    struct uuid topic_id;
    int32_t partition;
    enum mark_kind kind;
    struct log_mark mark;
    int64_t hw;
};

struct marks {
    struct sys *sys; /* constant */
    struct sys_mutex lock;
    /* Guarded by the lock. */
    char path[LOG_PATH_SIZE];
    struct sys_file *file;
    bool name_dirty; /* its name is not durable yet */
    uint64_t pos; /* end of the file */
    struct mark_entry *pending; /* of the last flush: written with the next */
    uint32_t pending_count, pending_capacity;
    uint64_t written, synced; /* bytes since the start: what is between them may be lost */
    uint32_t generation; /* rises with every marks_put() */
};

void marks_init(struct marks *m, struct sys *sys, const char *dir_path);
void marks_fini(struct marks *m);
/* Opens the file to go on behind its last whole entry; makes an empty one when absent. */
NODISCARD enum err marks_open(struct marks *m);
uint32_t marks_generation(struct marks *m);
/* Replaces the file by one that holds these entries, durably. ERR_AGAIN: marks_put() came since
 * 'generation', which was taken before the entries were collected. Marks that were added since are
 * lost, which is safe. On another error the marks go on in the old file, or in the new one, whose
 * name the next durable mark syncs. */
NODISCARD enum err marks_fold(struct marks *m, const struct mark_entry *entries, uint32_t count,
                              uint32_t generation);
/* Keeps an entry for the next marks_write(). Without memory it is left out: a lower mark is safe.
 */
void marks_add(struct marks *m, const struct mark_entry *entry);
NODISCARD enum err marks_write(struct marks *m);
/* Writes one entry now, before what is pending for that partition, which is dropped. */
NODISCARD enum err marks_put(struct marks *m, const struct mark_entry *entry, bool durable);
NODISCARD enum err marks_sync(struct marks *m); /* BLOCKS */
/* Bytes written so far; a sync that begins after the call covers them. */
uint64_t marks_written(struct marks *m);
void marks_note_synced(struct marks *m, uint64_t written);
bool marks_is_unsynced(struct marks *m);
bool marks_has_pending(struct marks *m);
uint64_t marks_entries(struct marks *m);

/* What the file says of one partition. */
struct mark_state {
    struct log_mark from;
    struct log_mark mark;
    bool has_mark;
    bool was_folded; /* the checkpoints, which know names only, speak of this log */
    int64_t start; /* -1: nothing said */
    int64_t hw; /* -1 */
};
/* Reads the file into a map from (topic id, partition) to struct mark_state. Damaged entries are
 * skipped. ERR_NOTFOUND, ERR_CORRUPT (no such file of ours). */
NODISCARD enum err marks_read(struct sys *sys, const char *dir_path, struct map *out);
struct mark_state *marks_state(const struct map *states, struct uuid topic_id, int32_t partition);
void marks_states_fini(struct map *states);

/* ---- Kafka's checkpoint files (checkpoint.c) ---- */

struct checkpoint_line {
    const char *topic;
    int32_t partition;
    int64_t offset;
};
/* Text "0\n<count>\n<topic> <partition> <offset>\n...". Durable but for the directory's sync. */
NODISCARD enum err checkpoint_write(struct sys *sys, const char *path,
                                    const struct checkpoint_line *lines, size_t count,
                                    enum smallfile_mode mode);
/* Into a map from "<topic>-<partition>" to an int64_t. ERR_MALFORMED leaves it empty. */
NODISCARD enum err checkpoint_read(struct sys *sys, const char *path, struct map *out);
bool checkpoint_get(const struct map *m, const char *name, int64_t *offset);
void checkpoint_fini(struct map *m);

/* ---- manifest (manifest.c) ---- */

struct logdir;

NODISCARD enum err manifest_write(struct logdir *dir);
/* Makes a log of every entry and adds it. ERR_NOTFOUND, ERR_CORRUPT, ERR_MALFORMED: nothing added.
 */
NODISCARD enum err manifest_load(struct logdir *dir);

/* ---- identity (identity.c) ---- */

/* Its name is durable with the next sync of the directory: that of [DIR-2]. */
NODISCARD enum err identity_write(struct sys *sys, const char *path,
                                  const struct logdir_identity *id);
NODISCARD enum err partition_metadata_read(struct log *log, struct uuid *topic_id);

/* ---- flusher (flusher.c) ---- */

#define FLUSH_FILES_FEW 4u /* so many fdatasyncs are cheaper than one syncfs */

struct flusher {
    /* Constant from its start on. */
    struct sys *sys;
    struct sys_task *task;
    uint32_t dirs_count; /* joined; of the thread that opens and closes directories */
    struct sys_mailbox dirty; /* struct log, by flush_msg */
    struct sys_mailbox requests; /* struct flush_request */
    /* The flusher's own. */
    struct logdir *dirs; /* linked by flush_next */
    struct log *pending; /* linked by flush_next */
    struct log_flush *round;
    size_t round_count, round_capacity;
    struct histogram times; /* any thread reads */
    /* Counters, relaxed. */
    _Atomic uint64_t flushes, file_syncs, fs_syncs, dir_syncs, logs_flushed;
};

/* BLOCKS. Takes part in the flusher of a peer on the same device, or starts one. */
NODISCARD enum err flusher_join(struct logdir *dir);
/* BLOCKS. No callback runs after the return; the last directory ends the task. sync: the file
 * system is synced first (a failure shows as the directory being offline). Harmless before the
 * join. */
void flusher_leave(struct logdir *dir, bool sync);
/* Any thread. */
void flusher_post(struct flusher *f, struct log *log);
/* Waits for a round that began after the call, over all directories of the device. Not on the
 * flusher or keeper. */
void flusher_wait(struct flusher *f);

/* ---- keeper (keeper.c) ---- */

#define KEEPER_LOGS_MAX 256u /* looked at in one step */

struct removal {
    struct list node;
    uint64_t due_ns;
    bool is_tree;
    char path[];
};

enum keeper_job { KEEPER_RETENTION, KEEPER_IDLE, KEEPER_CHECKPOINT, KEEPER_JOBS };

struct keeper {
    struct logdir *dir; /* constant */
    /* The keeper's own. */
    uint64_t due_ns[KEEPER_JOBS];
    struct log **pass; /* logs of the present pass over them, referenced */
    size_t pass_count, pass_at;
    enum keeper_job pass_job;
    bool in_pass;
    bool told_offline;
    /* Guarded by the lock. */
    struct sys_mutex lock;
    struct sys_task *task; /* NULL before the start and from keeper_stop() on */
    struct list removals; /* in order of due_ns as far as delays are equal */
};

void keeper_init(struct keeper *k, struct logdir *dir);
NODISCARD enum err keeper_start(struct keeper *k);
/* Ends the task. Before flusher_leave(): a keeper that deletes wakes the flusher. */
void keeper_stop(struct keeper *k);
/* After both have stopped. Removes at once what waits for removal, or leaves it to the next start.
 */
void keeper_fini(struct keeper *k, bool remove_waiting);
/* Any thread, also before the keeper runs and after it stopped. */
void keeper_wake(struct keeper *k);
void keeper_remove_later(struct keeper *k, const char *path, int64_t delay_ms, bool is_tree);

/* ---- the directory (dir.c) ---- */

struct logdir {
    /* Constant once the directory is open. */
    struct sys *sys;
    char *path;
    struct logdir_options options; /* strings are not kept */
    struct logdir_identity identity;
    struct log_env env;
    struct sys_file *lock_file;
    struct logdir_load_stats stats;

    /* The first failure sets both, the cause before the flag; never taken back. */
    _Atomic bool offline;
    _Atomic int offline_cause; /* enum err */

    struct sys_mutex lock;
    /* Guarded by the lock. */
    struct log **logs;
    size_t logs_count, logs_capacity;
    struct map by_name;

    struct marks marks; /* its own lock */
    /* Of who opens and closes. NULL before it joins and after it left; peers may share it. */
    struct flusher *flusher;
    /* The flusher's, while joined. */
    struct logdir *flush_next;
    uint64_t marks_due_ns;
    uint64_t marks_written; /* when the syncfs under way began */
    struct keeper keeper;
};

void logdir_path_of(const struct logdir *dir, const char *name, char *buf);
/* Takes the reference in. */
NODISCARD enum err logdir_add(struct logdir *dir, struct log *log);
/* Referenced copies of all logs, in an array for mem_free; each to be log_unref'd. */
NODISCARD enum err logdir_snapshot(struct logdir *dir, struct log ***out, size_t *count);
/* Takes the directory offline. Any thread, any lock but the keeper's. */
void logdir_fail(struct logdir *dir, enum err e);
NODISCARD enum err logdir_load(struct logdir *dir);
/* The three checkpoints; fold: also the marks. */
NODISCARD enum err logdir_checkpoint(struct logdir *dir, bool fold);

#endif
