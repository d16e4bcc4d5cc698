/* log_int.h - what the files of log/ share: the log, its segments, its surroundings.
 *
 * Place:      private to src/log and its tests.
 * Thread:     fields say who guards them; "lock" is log->lock.
 * Memory:     a log in use has a struct log_warm; an idle one gave it back and keeps about 700
 *             bytes and no descriptor.
 * Invariants: [SEG-1] segments are in order of base; there is always at least one; the last one is
 *             active. [SEG-2] an index entry is (last offset of a batch, position of that batch).
 *             [SEG-3] an index read from a file is a hint: it is checked against the batch it
 *             points at before it is believed. */
#ifndef LOG_LOG_INT_H
#define LOG_LOG_INT_H

#include "base/check.h"
#include "base/mem.h"
#include "log/dir.h"
#include "log/epochs.h"
#include "log/log.h"
#include "log/producer.h"

#define LOGGER_LOG "kafka.log.UnifiedLog"
#define LOGGER_DIR "kafka.log.LogManager"

#define LOG_PATH_SIZE 1200
#define LOG_DIR_PATH_LEN_MAX 700
#define LOG_NAME_SIZE (LOG_TOPIC_NAME_LEN_MAX + 16) /* "<topic>-<partition>" */
#define LOG_RING_COUNT 64u /* batches at the end whose positions are known; a power of two */
#define LOG_HINTS_COUNT 4u
#define LOG_ROT_COUNT_MAX 64u
#define LOG_EXPIRE_SCAN_MAX 10000u /* producers looked at in one pass */
#define LOG_TIME_UNKNOWN INT64_MIN /* of a segment whose time index was not read yet */
#define LOG_RESERVE_BYTES_MIN (64u << 10)
#define LOG_RESERVE_BYTES_MAX (16u << 20)
#define LOG_RESERVE_OFF UINT64_MAX

/* ---- sparse index (index.c) ---- */

#define INDEX_ENTRY_SIZE 8u
#define TIME_ENTRY_SIZE 12u

struct index_entry {
    uint32_t offset; /* last offset of a batch, relative to the segment's base */
    uint32_t pos;
};

struct index_time {
    int64_t time;
    uint32_t offset;
};

/* Of the active segment, in memory. */
struct index {
    struct index_entry *at;
    struct index_time *times;
    uint32_t count, capacity;
    uint32_t times_count, times_capacity;
};

void index_fini(struct index *x);
NODISCARD enum err index_add(struct index *x, uint32_t offset, uint32_t pos);
/* Ignores a time that is not above the last. */
NODISCARD enum err index_add_time(struct index *x, int64_t time, uint32_t offset);
/* The last entry at or below the offset or position; false when there is none. */
bool index_find_offset(const struct index *x, uint32_t offset, struct index_entry *out);
bool index_find_pos(const struct index *x, uint32_t pos, struct index_entry *out);
bool index_find_time(const struct index *x, int64_t time, struct index_time *out);
/* Drops entries at or above the relative offset. */
void index_truncate(struct index *x, uint32_t offset);
/* Writes both files whole; path_* end in .index and .timeindex. */
NODISCARD enum err index_write(const struct index *x, struct sys *sys, const char *path_index,
                               const char *path_time);
/* Reads both files as far as their entries rise (a zero tail ends it). Missing: empty. */
NODISCARD enum err index_read(struct index *x, struct sys *sys, const char *path_index,
                              const char *path_time, uint64_t segment_size);
/* The same searches in an index file of a closed segment, by pread. */
NODISCARD enum err index_file_find_offset(struct sys_file *f, uint32_t offset, bool *found,
                                          struct index_entry *out);
NODISCARD enum err index_file_find_pos(struct sys_file *f, uint32_t pos, bool *found,
                                       struct index_entry *out);
NODISCARD enum err index_file_find_time(struct sys_file *f, int64_t time, bool *found,
                                        struct index_time *out);
NODISCARD enum err index_file_last_time(struct sys_file *f, bool *found, struct index_time *out);

/* ---- walking batch headers in a file (walk.c) ---- */

#define WALK_BLOCK 4096u

/* The bytes to walk over: one segment's published part. */
struct walk_span {
    struct sys_file *file;
    int64_t base; /* offsets are in [base, end) */
    int64_t end;
    uint64_t size;
    uint32_t generation; /* the log's cut_generation then: for who goes on without the lock */
    bool may_block;
};

struct walk {
    struct walk_span span;
    uint64_t pos; /* of the next batch */
    uint64_t end; /* of the part that may be looked at */
    int64_t offset_min; /* the next batch must start at or behind it */
    bool has_prev; /* the batch before pos was walked over; it began at: */
    uint64_t prev_pos;
    int64_t prev_min;
    uint64_t block_pos;
    size_t block_size;
    uint8_t block[WALK_BLOCK];
};

void walk_init(struct walk *w, const struct walk_span *span, uint64_t pos);
/* The header of the batch at w->pos, without moving. ERR_RANGE: at the end. ERR_CORRUPT: no batch
 * there. ERR_AGAIN: cold and may_block is false. */
NODISCARD enum err walk_peek(struct walk *w, struct batch_header *out);
/* Is there a whole batch at pos, with a right CRC and offsets in [offset_min, span->end)? BLOCKS.
 */
NODISCARD enum err walk_check_batch(const struct walk_span *span, uint64_t pos, int64_t offset_min,
                                    bool *ok, struct batch_header *h);
/* Moves behind the batch that walk_peek() gave. */
void walk_advance(struct walk *w, const struct batch_header *h);
/* Searches for the next place in [from, span->size) where a batch with a right CRC and a base
 * offset of at least offset_min begins. *pos = size, *offset = end when there is none. BLOCKS. */
NODISCARD enum err walk_resync(const struct walk_span *span, uint64_t from, int64_t offset_min,
                               uint64_t *pos, int64_t *offset);

struct log_rot;
/* After ERR_CORRUPT: how far the damage reaches. The batch before may be the liar (a wrong length
 * or offset in a header that looked sound), which its CRC or the batch at pos tells. BLOCKS. */
NODISCARD enum err walk_find_rot(struct walk *w, struct log_rot *rot);
/* Goes on behind it. */
void walk_leave_rot(struct walk *w, const struct log_rot *rot);

/* ---- segments ---- */

/* All guarded by the lock, as part of the log. Moves with the array: never kept over an unlock. */
struct segment {
    int64_t base;
    int64_t end; /* one past the last offset; base when empty */
    uint64_t size; /* published bytes */
    int64_t time_max; /* -1: no times; LOG_TIME_UNKNOWN: not read yet */
    int64_t time_max_offset; /* last offset of the batch that has it */
    int64_t time_first; /* of the first batch, for rolling; -1 unknown */
    struct sys_file *file; /* .log; NULL while closed */
    struct sys_file *index_file; /* .index of a closed segment; NULL while closed */
    bool exists; /* the .log file was created */
    bool names_dirty; /* ... and its name may not be on the disk */
    bool data_dirty; /* bytes that may not be on the disk */
    _Atomic bool used; /* since the keeper last looked */
};

/* A run of bytes that hold no valid batch though they were synced: kept, never served. */
struct log_rot {
    int64_t base; /* segment */
    uint64_t pos, pos_end;
    int64_t offset, offset_end;
};

struct log_ring {
    int64_t base;
    int64_t last;
    uint64_t pos;
};

/* What only a log in use has. Guarded by the lock. */
struct log_warm {
    struct index index; /* of the active segment */
    struct producers producers;
    bool producers_stale; /* must be rebuilt before the next check */
    int32_t last_epoch; /* of the last batch when the log was warmed up, -1: it has none */
    uint64_t bytes_since_index;
    uint64_t reserved_end; /* LOG_RESERVE_OFF: the file system cannot */
    uint32_t reserve_step;
    uint32_t ring_count; /* batches ever put in; the last LOG_RING_COUNT are there */
    struct log_ring ring[LOG_RING_COUNT]; /* of the active segment only */
    struct {
        int64_t offset;
        uint64_t pos;
        int64_t base;
    } hints[LOG_HINTS_COUNT]; /* where readers will go on */
    uint32_t hint_next;
};

/* ---- surroundings: what the directory does for its logs ---- */

/* How far a log is known to be on the disk. */
struct log_mark {
    int64_t offset;
    int64_t base; /* segment of pos; -1: pos is not known (a Kafka checkpoint) */
    uint64_t pos;
    int32_t epoch;
};

struct log_env {
    struct sys *sys;
    const struct logger *logger;
    const char *dir_path;
    uint64_t device;
    enum log_flush_policy policy;
    _Atomic bool *offline;
    void *ctx;
    /* Any of these may be NULL (tests of a log alone). All may be called with the log's lock held
     * and must not take it. */
    void (*dirty)(void *ctx, struct log *log); /* put it on the flusher's list */
    void (*failed)(void *ctx, enum err e); /* the device failed: offline is set already */
    NODISCARD enum err (*lower_mark)(void *ctx, struct log *log,
                                     const struct log_mark *mark); /* BLOCKS */
    NODISCARD enum err (*note_start)(void *ctx, struct log *log, int64_t start);
    NODISCARD enum err (*sync_start)(void *ctx, struct log *log); /* BLOCKS; no lock held */
    void (*remove_later)(void *ctx, const char *path, int64_t delay_ms);
    void (*start_moved)(void *ctx, struct log *log, int64_t start); /* no lock held */
};

struct log {
    /* Immutable. */
    const struct log_env *env;
    struct uuid topic_id;
    int32_t partition;
    char *topic;

    /* Published: written under the lock with release, read anywhere with acquire. */
    _Atomic int64_t leo;
    _Atomic int64_t synced;
    _Atomic int64_t start;
    _Atomic int64_t hw;
    _Atomic uint64_t size_total;
    _Atomic uint64_t rot_total;
    _Atomic bool is_warm; /* pairs with the non-blocking checks before the lock */
    _Atomic bool is_closed; /* deleted or set aside */
    _Atomic bool is_used; /* since the keeper last looked */
    _Atomic bool is_posted; /* it is on the flusher's list */
    _Atomic bool is_urgent; /* flush.messages reached or a roll: flush without waiting */
    _Atomic uint32_t refs;
    _Atomic uint64_t error_line_ns; /* when the last line about the device was written */

    /* The flusher's while is_posted. */
    struct sys_msg flush_msg;
    struct log *flush_next;
    uint64_t flush_due_ns;

    /* The directory's, under its lock. */
    size_t dir_slot;

    struct sys_mutex files_lock; /* of who may wait for the disk: taken before the lock */
    uint32_t files_depth; /* guarded by it: nesting of file work */

    /* Guarded by the lock, down to the end. */
    struct sys_mutex lock;
    bool may_wait; /* who has the lock has files_lock too */
    bool is_away; /* file work: what is below is its owner's alone though the lock is free */
    struct log_config config;
    struct segment *segments;
    uint32_t segments_count;
    uint32_t segments_capacity;
    struct epochs epochs;
    struct log_warm *warm;
    struct log_rot *rot;
    uint32_t rot_count;
    uint32_t cut_generation; /* rises with every truncation */
    int64_t unflushed_records;
    int64_t active_since_ms; /* when the active segment began */
    int64_t roll_jitter_ms;
    int64_t snapshot_loose; /* offset of a snapshot that no segment owns, or -1 */
    struct log_mark synced_mark; /* with its position; what the next fold of the marks says */
    bool dir_dirty; /* the partition's directory may not be on the disk */
    bool epochs_loaded;
    bool has_no_producers; /* at leo, while the log is cold: no snapshot has to be looked for */
    bool is_verified; /* files agree with what the manifest said */
};

/* ---- names (names.c): all write at most LOG_PATH_SIZE bytes ---- */

void log_path_dir(const struct log *log, char *buf);
void log_path_file(const struct log *log, const char *name, char *buf);
void log_path_segment(const struct log *log, int64_t base, const char *suffix, char *buf);
/* "<20 digits><suffix>" -> offset; false for any other name. */
bool log_parse_segment_name(const char *name, const char *suffix, int64_t *base);
/* "<topic>-<partition>": false for other names. topic holds LOG_TOPIC_NAME_LEN_MAX + 1 bytes. */
bool log_parse_dir_name(const char *name, char *topic, int32_t *partition);
bool name_has_suffix(const char *name, const char *suffix);

/* ---- small files (smallfile.c) ---- */

#define SMALLFILE_BYTES_MAX (256u << 20)

/* Reads a whole file into a block that the caller frees with mem_free. ERR_LIMIT above the bound.
 */
NODISCARD enum err smallfile_read(struct sys *sys, const char *path, uint8_t **at, size_t *size);
enum smallfile_mode { SMALLFILE_PLAIN, SMALLFILE_DURABLE };
/* Replaces path by way of "<path>.tmp". DURABLE: synced before the rename (the directory is synced
 * by the caller). */
NODISCARD enum err smallfile_write(struct sys *sys, const char *path, struct slice bytes,
                                   enum smallfile_mode mode);

/* ---- the lock (lock.c) ---- */

/* For who may wait for the disk: also for the file work of another. */
void log_lock(struct log *log) ACQUIRES(log->lock);
/* For who may not: false when file work is under way; nothing is held then. It waits for memory
 * work and one write at most. */
NODISCARD bool log_lock_now(struct log *log) TRY_ACQUIRES(true, log->lock);
NODISCARD bool log_lock_if(struct log *log, bool may_block) TRY_ACQUIRES(true, log->lock);
void log_unlock(struct log *log) RELEASES(log->lock);
/* Around file work, after log_lock() only; may be nested. Between them the log is the caller's
 * alone, as under the lock, but log_lock_now() says so instead of waiting. */
void log_files_begin(struct log *log) HOLDS(log->lock);
void log_files_end(struct log *log) HOLDS(log->lock);

/* ---- life (log.c) ---- */

struct log_seed {
    const char *topic;
    struct uuid topic_id;
    int32_t partition;
    const struct log_config *config;
};

/* A log in memory with one empty segment at base, nothing on disk. One reference. */
NODISCARD enum err log_new(const struct log_env *env, const struct log_seed *seed, int64_t base,
                           struct log **out);
/* Makes the directory and partition.metadata of a new log. */
NODISCARD enum err log_create_files(struct log *log);
void log_uncreate_files(struct log *log); /* while nothing else is in the directory */
/* Opens what an append or read needs: files, index, epochs, producers. */
NODISCARD enum err log_warm_up(struct log *log) HOLDS(log->lock);
/* Where to begin to walk segment i for offset 'from': an index entry that its batch confirms. */
uint64_t log_scan_begin(struct log *log, uint32_t i, int64_t from) HOLDS(log->lock);
/* Calls visit for the header of each batch whose last offset is at least from, in order, skipping
 * rot. */
NODISCARD enum err log_scan_headers(struct log *log, int64_t from,
                                    enum err (*visit)(struct log *log,
                                                      const struct batch_header *h),
                                    bool may_use_index) HOLDS(log->lock);
NODISCARD enum err log_load_epochs(struct log *log) HOLDS(log->lock);
NODISCARD enum err log_write_epochs(struct log *log) HOLDS(log->lock);
NODISCARD enum err log_rebuild_producers(struct log *log) HOLDS(log->lock);
NODISCARD enum err log_write_snapshot(struct log *log, int64_t offset) HOLDS(log->lock);
/* Gives memory and descriptors back: index and snapshot files are written. */
NODISCARD enum err log_cool_down(struct log *log) HOLDS(log->lock);
/* Closes descriptors of closed segments that nobody used. True when the whole log was idle and was
 * cooled down. Keeper. */
bool log_idle_step(struct log *log);
/* Forgets files and memory without writing. */
void log_drop(struct log *log) HOLDS(log->lock);
void log_set_closed(struct log *log);
/* Forgets producers that were silent too long; a bounded number of them. Keeper. */
void log_expire_producers(struct log *log, int64_t now_ms);

/* ERR_OFFLINE, ERR_CLOSED or ERR_OK. */
NODISCARD enum err log_usable(const struct log *log);
/* Takes an error of the device: ERR_IO takes the directory offline. Returns what to answer. */
enum err log_device_error(struct log *log, enum err e, const char *what);

static inline struct segment *log_active(struct log *log) HOLDS(log->lock)
{
    return &log->segments[log->segments_count - 1];
}
/* Index of the segment that holds offset (the last one whose base is at most offset). */
uint32_t log_find_segment(const struct log *log, int64_t offset) HOLDS(log->lock);
/* Removes the files of a segment without delay: its offsets will be used again. Not synced. */
NODISCARD enum err log_unlink_segment(struct log *log, struct segment *s) HOLDS(log->lock);
/* The same for all segments behind i, and forgets them. */
NODISCARD enum err log_unlink_behind(struct log *log, uint32_t i) HOLDS(log->lock);
/* Removes .index and .timeindex of the segment at base, as far as they are there. Not synced. */
NODISCARD enum err log_remove_index(struct log *log, int64_t base);
/* Removes producer snapshots of offsets above 'offset'. Not synced. */
NODISCARD enum err log_drop_snapshots(struct log *log, int64_t offset) HOLDS(log->lock);
NODISCARD enum err log_add_segment(struct log *log, const struct segment *s) HOLDS(log->lock);
/* Opens .log of a segment (created when it is the active one and absent). */
NODISCARD enum err log_open_segment(struct log *log, uint32_t i) HOLDS(log->lock);
NODISCARD enum err log_segment_time(struct log *log, uint32_t i) HOLDS(log->lock);
void log_close_segment_files(struct segment *s);
NODISCARD enum err log_roll_locked(struct log *log, int64_t base, int64_t now_ms) HOLDS(log->lock);
/* Notes a batch of the active segment in index, ring and times. Without memory an index entry is
 * left out: the index is sparse anyway. */
void log_note_batch(struct log *log, const struct batch_header *h, int64_t time_max, uint64_t pos)
    HOLDS(log->lock);
void log_mark_dirty(struct log *log, bool urgent);
void log_publish_end(struct log *log, int64_t leo) HOLDS(log->lock);

/* ---- rot (rot.c) ---- */

bool log_rot_find_pos(const struct log *log, int64_t base, uint64_t pos, struct log_rot *out)
    HOLDS(log->lock);
void log_rot_add(struct log *log, const struct log_rot *rot) HOLDS(log->lock);
/* After ERR_CORRUPT of a walk: finds the damage, notes it, goes on behind it. ERR_AGAIN when that
 * would have to read and the walk may not block. */
NODISCARD enum err log_skip_rot(struct log *log, struct walk *w, struct log_rot *rot)
    HOLDS(log->lock);
/* The same for who does not hold the lock. */
NODISCARD enum err log_skip_rot_unlocked(struct log *log, struct walk *w, struct log_rot *rot);
static inline struct walk_span log_span(const struct segment *s)
{
    return (struct walk_span){
        .file = s->file, .base = s->base, .end = s->end, .size = s->size, .may_block = true};
}

/* ---- recovery (recover.c) ---- */

struct log_recovery {
    /* Bytes below 'from' are trusted; between from and mark they are checked, and what is bad is
     * rot; behind the mark what is bad is a torn tail. base -1: positions are not known. */
    struct log_mark from;
    struct log_mark mark;
    bool has_mark;
    bool is_ours; /* the directory had marks of ours: no compacted log of another broker is in it */
    bool may_stop; /* at a start: ERR_STOPPED when the process is told to stop */
    int64_t start; /* 0 when none is known */
    int64_t start_max; /* of the checkpoint, which may speak of a deleted log of that name */
    int64_t hw;
    /* Out. */
    uint64_t scanned_bytes;
    uint64_t cut_bytes;
    bool was_scanned;
};

/* Finds the segments of a log that was not closed cleanly, checks what is not known to be on the
 * disk, cuts a torn tail. The log is fresh from log_new(). BLOCKS. */
NODISCARD enum err log_recover(struct log *log, struct log_recovery *r) HOLDS(log->lock);

/* ---- flushing (flush.c) ---- */

#define LOG_FLUSH_FILES_MAX 4u

/* What one flush of one log covers. */
struct log_flush {
    struct log *log;
    struct log_mark mark;
    uint32_t generation;
    bool names; /* sync the partition's directory */
    bool dir_name; /* and the data directory */
    bool needs_fs; /* more files than fit */
    uint32_t files_count;
    struct sys_file *files[LOG_FLUSH_FILES_MAX];
};

/* Takes the log's present end and what must be synced for it. False: nothing to do. */
bool log_flush_begin(struct log *log, struct log_flush *out);
/* After the syncs: publishes. False when a truncation came between: nothing may be published. */
bool log_flush_end(struct log_flush *f, bool synced);

#endif
