/* flush.c - what one flush of one log covers, and its publication.
 *
 * Place:      log/, private; the flusher calls it.
 * Thread:     flusher; the lock is held for memory work and, rarely, to open a file.
 * Rule:       [FLU-1] the end is taken before the syncs begin and published after all of them,
 *             names included, have succeeded. */
#include "log/log_int.h"

/* Files of segments with unsynced bytes. ERR_LIMIT: more than fit; the file system is synced. */
static enum err take_files(struct log *log, struct log_flush *out) HOLDS(log->lock);
static enum err take_files(struct log *log, struct log_flush *out)
{
    for (uint32_t i = 0; i < log->segments_count; i++) {
        struct segment *s = &log->segments[i];
        out->names |= s->names_dirty && s->exists;
        if (!s->data_dirty || out->needs_fs) { continue; }
        if (out->files_count == LOG_FLUSH_FILES_MAX) {
            out->needs_fs = true;
            continue;
        }
        enum err e = log_open_segment(log, i);
        if (e) { return e; }
        out->files[out->files_count++] = sys_file_ref(log->segments[i].file);
    }
    return ERR_OK;
}

bool log_flush_begin(struct log *log, struct log_flush *out)
{
    *out = (struct log_flush){.log = log};
    log_lock(log);
    /* From here on an append posts it again. */
    atomic_store_explicit(&log->is_posted, false, memory_order_release);
    atomic_store_explicit(&log->is_urgent, false, memory_order_release);
    bool any = log_usable(log) == ERR_OK && take_files(log, out) == ERR_OK;
    if (any) {
        struct segment *s = log_active(log);
        out->mark = (struct log_mark){.offset = log_leo(log),
                                      .base = s->base,
                                      .pos = s->size,
                                      .epoch = epochs_latest(&log->epochs)};
        out->generation = log->cut_generation;
        out->dir_name = log->dir_dirty;
        any = out->files_count > 0 || out->names || out->needs_fs;
        for (uint32_t i = 0; i < log->segments_count; i++) {
            log->segments[i].data_dirty = false;
            if (log->segments[i].exists) { log->segments[i].names_dirty = false; }
        }
        if (any) { log->dir_dirty = false; }
        log->unflushed_records = 0;
    }
    log_unlock(log);
    if (!any) {
        for (uint32_t i = 0; i < out->files_count; i++) {
            sys_file_unref(out->files[i]);
        }
    }
    return any;
}

bool log_flush_end(struct log_flush *f, bool synced)
{
    struct log *log = f->log;
    bool published = false;
    for (uint32_t i = 0; i < f->files_count; i++) {
        sys_file_unref(f->files[i]);
    }
    f->files_count = 0;
    if (!synced) { return false; } /* the directory is offline: nothing is tried again */
    log_lock(log);
    if (f->generation == log->cut_generation) {
        published = true;
        if (log_synced(log) < f->mark.offset) {
            /* Pairs with the acquire in log_synced(). */
            atomic_store_explicit(&log->synced, f->mark.offset, memory_order_release);
        }
        log->synced_mark = f->mark;
    } else {
        log_active(log)->data_dirty = true;
    }
    log_unlock(log);
    if (!published) { log_mark_dirty(log, true); }
    return published;
}
