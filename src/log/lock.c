/* lock.c - a log's lock: short for everybody, long for who works on files.
 *
 * Place:      log/, private.
 * Thread:     any. Two locks: files_lock (rank LOG_FILES) is taken first by who may wait for the
 *             disk and kept until the end; the lock itself (rank LOG) is given back during file
 *             work, with is_away telling that the log is still somebody's.
 * Invariants: [LCK-1] the lock is held for memory work and one write at most, so that a network
 *             thread may wait for it. [LCK-2] file work is done with files_lock only: whoever has
 *             just the lock aborts in log_files_begin(). [LCK-3] while is_away nobody but
 *             the owner of files_lock looks at what the lock guards. */
#include "log/log_int.h"

void log_lock(struct log *log) NO_THREAD_SAFETY
{
    sys_mutex_lock(&log->files_lock);
    sys_mutex_lock(&log->lock);
    CHECK(!log->is_away); /* its owner has files_lock */
    log->may_wait = true;
}

bool log_lock_now(struct log *log) NO_THREAD_SAFETY
{
    sys_mutex_lock(&log->lock);
    if (!log->is_away) { return true; }
    sys_mutex_unlock(&log->lock);
    return false;
}

bool log_lock_if(struct log *log, bool may_block) NO_THREAD_SAFETY
{
    if (!may_block) { return log_lock_now(log); }
    log_lock(log);
    return true;
}

void log_unlock(struct log *log) NO_THREAD_SAFETY
{
    CHECK(!log->is_away);
    bool may_wait = log->may_wait;
    log->may_wait = false;
    sys_mutex_unlock(&log->lock);
    if (may_wait) { sys_mutex_unlock(&log->files_lock); }
}

void log_files_begin(struct log *log) NO_THREAD_SAFETY
{
    CHECK(log->may_wait); /* [LCK-2] */
    if (log->files_depth++ > 0) { return; }
    log->is_away = true;
    sys_mutex_unlock(&log->lock);
}

void log_files_end(struct log *log) NO_THREAD_SAFETY
{
    CHECK(log->files_depth > 0);
    if (--log->files_depth > 0) { return; }
    sys_mutex_lock(&log->lock);
    log->is_away = false;
}
