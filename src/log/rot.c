/* rot.c - ranges of a log that were synced once and hold no valid batch now.
 *
 * Place:      log/, private.
 * Thread:     under the log's lock, but for the reads that find them.
 * Rule:       rot is kept, never cut: its offsets answer ERR_CORRUPT, everything around it is
 *             served. */
#include "log/log_int.h"

bool log_rot_find_pos(const struct log *log, int64_t base, uint64_t pos, struct log_rot *out)
{
    for (uint32_t i = 0; i < log->rot_count; i++) {
        const struct log_rot *r = &log->rot[i];
        if (r->base == base && pos >= r->pos && pos < r->pos_end) {
            *out = *r;
            return true;
        }
    }
    return false;
}

void log_rot_add(struct log *log, const struct log_rot *rot)
{
    struct log_rot known;
    if (log_rot_find_pos(log, rot->base, rot->pos, &known)) { return; }
    atomic_fetch_add_explicit(&log->rot_total, 1, memory_order_relaxed);
    log_error(
        log->env->logger, LOGGER_LOG,
        "%s-%d: rotten bytes in segment %lld from %llu to %llu: offsets %lld to %lld cannot be "
        "read; nothing was cut",
        log->topic, log->partition, (long long)rot->base, (unsigned long long)rot->pos,
        (unsigned long long)rot->pos_end, (long long)rot->offset, (long long)rot->offset_end - 1);
    if (log->rot_count == LOG_ROT_COUNT_MAX) { return; }
    struct log_rot *at = mem_realloc(log->rot, (log->rot_count + 1) * sizeof *at);
    if (!at) { return; } /* found again at the next read */
    log->rot = at;
    log->rot[log->rot_count++] = *rot;
}

/* Known rot at the walk's place, or at the batch before it. */
static bool find_known(const struct log *log, const struct walk *w, struct log_rot *rot)
    HOLDS(log->lock);
static bool find_known(const struct log *log, const struct walk *w, struct log_rot *rot)
{
    return log_rot_find_pos(log, w->span.base, w->pos, rot) ||
           (w->has_prev && log_rot_find_pos(log, w->span.base, w->prev_pos, rot));
}

enum err log_skip_rot(struct log *log, struct walk *w, struct log_rot *rot)
{
    if (!find_known(log, w, rot) || rot->pos_end <= w->pos) {
        if (!w->span.may_block) { return ERR_AGAIN; }
        enum err e = walk_find_rot(w, rot);
        if (e) { return e; }
        log_rot_add(log, rot);
    }
    walk_leave_rot(w, rot);
    return ERR_OK;
}

enum err log_skip_rot_unlocked(struct log *log, struct walk *w, struct log_rot *rot)
{
    if (!log_lock_if(log, w->span.may_block)) { return ERR_AGAIN; }
    bool known = find_known(log, w, rot) && rot->pos_end > w->pos;
    log_unlock(log);
    if (!known) {
        if (!w->span.may_block) { return ERR_AGAIN; }
        enum err e = walk_find_rot(w, rot);
        if (e) { return e; }
        log_lock(log);
        if (w->span.generation == log->cut_generation) { log_rot_add(log, rot); }
        log_unlock(log);
    }
    walk_leave_rot(w, rot);
    return ERR_OK;
}
