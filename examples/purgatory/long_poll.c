/* long_poll.c - a long poll on several keys: readers wait until any of their channels has news.
 *
 * Writers publish numbered messages to channels. A reader follows three of them, of which two are
 * shared with other readers, and polls again and again with what it has seen so far. Each poll is
 * one operation that watches three keys, and its reader's thread blocks until it is answered. A
 * reaper owns the operations, since no thread here has a loop. At last one poll watches a channel
 * where nothing happens, and comes back when its time is up. */
#include <purgatory/purgatory.h>
#include <purgatory/reaper.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHANNELS = 4, QUIET = CHANNELS, READERS = 4, WRITERS = 2, MESSAGES = 2000, WATCHED = 3 };

/* How many messages a channel has. This is the published state that polls look at. */
static _Atomic(uint64_t) channels[CHANNELS + 1];
static struct purgatory *purgatory;
static struct purg_owner *owner;

/* A poll lives on its reader's stack: lent while parked, back when 'is_answered'. */
struct poll {
    struct purg_op op; /* first: poll and op are one address */
    struct purg_watch_node nodes[WATCHED];
    /* Constant while parked: try_complete reads it on any thread. */
    size_t count;
    size_t watched[WATCHED];
    uint64_t seen[WATCHED];
    /* Guarded by 'mutex'. */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool is_answered;
    enum purg_reason reason;
};

static struct purg_key channel_key(size_t channel)
{
    return (struct purg_key){.lo = channel};
}

/* Any thread, no lock of the library held. No effect: only the answer to 'is there news?'. */
static bool poll_try(struct purg_op *op)
{
    const struct poll *poll = (struct poll *)op;
    for (size_t i = 0; i < poll->count; i++) {
        if (channels[poll->watched[i]] > poll->seen[i]) { return true; }
    }
    return false;
}

/* The reaper's thread, exactly once for each parked poll. */
static void poll_complete(struct purg_op *op, enum purg_reason reason)
{
    struct poll *poll = (struct poll *)op;
    pthread_mutex_lock(&poll->mutex);
    poll->reason = reason;
    poll->is_answered = true;
    pthread_cond_signal(&poll->cond);
    pthread_mutex_unlock(&poll->mutex); /* the reader may be gone after this */
}

static const struct purg_op_type poll_type = {"poll", poll_try, poll_complete};

/* Blocks until a channel has more messages than were seen, or until the deadline. */
static enum purg_reason poll_wait(struct poll *poll, uint64_t deadline_ns)
{
    struct purg_key keys[WATCHED];
    for (size_t i = 0; i < poll->count; i++) {
        keys[i] = channel_key(poll->watched[i]);
    }
    purg_op_init(&poll->op, &poll_type, owner); /* before each parking */
    if (purg_try_complete_else_watch(purgatory, NULL, &poll->op, poll->nodes, keys, poll->count,
                                     deadline_ns) == PURG_DONE) {
        return PURG_EVENT; /* there was news already; poll_complete will not run */
    }
    pthread_mutex_lock(&poll->mutex);
    while (!poll->is_answered) {
        pthread_cond_wait(&poll->cond, &poll->mutex);
    }
    poll->is_answered = false;
    pthread_mutex_unlock(&poll->mutex);
    return poll->reason;
}

static void poll_init(struct poll *poll)
{
    *poll = (struct poll){.count = 0};
    pthread_mutex_init(&poll->mutex, NULL);
    pthread_cond_init(&poll->cond, NULL);
}

static void poll_fini(struct poll *poll)
{
    pthread_cond_destroy(&poll->cond);
    pthread_mutex_destroy(&poll->mutex);
}

/* Follows three channels to the last message. A wake-up that is lost would leave it here. */
static void *reader_main(void *arg)
{
    size_t first = (size_t)arg;
    struct poll poll;
    poll_init(&poll);
    poll.count = WATCHED;
    for (size_t i = 0; i < WATCHED; i++) {
        poll.watched[i] = (first + i) % CHANNELS;
    }
    size_t polls = 0;
    uint64_t read = 0;
    while (read < WATCHED * MESSAGES * WRITERS) {
        if (poll_wait(&poll, PURG_NEVER) != PURG_EVENT) { abort(); }
        polls++;
        for (size_t i = 0; i < WATCHED; i++) {
            uint64_t end = channels[poll.watched[i]];
            read += end - poll.seen[i];
            poll.seen[i] = end;
        }
    }
    poll_fini(&poll);
    return (void *)polls;
}

static void *writer_main(void *arg)
{
    (void)arg;
    for (int message = 0; message < MESSAGES; message++) {
        for (size_t i = 0; i < CHANNELS; i++) {
            channels[i]++; /* publish, */
            purg_check(purgatory, NULL, channel_key(i)); /* then tell, with no lock held */
        }
        sched_yield(); /* so that readers come between */
    }
    return NULL;
}

/* Nothing comes, so the deadline answers: never before its time. */
static bool quiet_poll_expires(const struct purg_env *env)
{
    struct poll poll;
    poll_init(&poll);
    poll.count = 1;
    poll.watched[0] = QUIET;
    uint64_t deadline_ns = env->now_ns(env->ctx) + 20 * 1000000;
    bool is_expired = poll_wait(&poll, deadline_ns) == PURG_EXPIRED;
    poll_fini(&poll);
    return is_expired && env->now_ns(env->ctx) >= deadline_ns;
}

int main(void)
{
    struct purg_env env = purg_env_pthread();
    purgatory = purg_create(&env, &(struct purg_options){.shards = 64});
    struct purg_reaper *reaper = purg_reaper_start(&env, &(struct purg_owner_options){0});
    if (!purgatory || !reaper) { abort(); }
    owner = purg_reaper_owner(reaper);

    pthread_t readers[READERS], writers[WRITERS];
    for (size_t i = 0; i < READERS; i++) {
        if (pthread_create(&readers[i], NULL, reader_main, (void *)i) != 0) { abort(); }
    }
    for (size_t i = 0; i < WRITERS; i++) {
        if (pthread_create(&writers[i], NULL, writer_main, NULL) != 0) { abort(); }
    }
    for (size_t i = 0; i < WRITERS; i++) {
        pthread_join(writers[i], NULL);
    }
    for (size_t i = 0; i < READERS; i++) {
        void *polls;
        pthread_join(readers[i], &polls);
        printf("reader %zu: %d messages in %zu polls\n", i, WATCHED * MESSAGES * WRITERS,
               (size_t)polls);
    }
    bool is_expired = quiet_poll_expires(&env);
    printf("quiet channel: %s\n", is_expired ? "timed out" : "wrong");
    purg_reaper_stop(reaper);
    size_t left = purg_size(purgatory);
    purg_destroy(purgatory);
    return is_expired && left == 0 ? 0 : 1;
}
