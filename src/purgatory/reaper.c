/* reaper.c - a thread with an owner and nothing else to do.
 *
 * Place:      see reaper.h; POSIX threads.
 * Thread:     'is_woken' and 'is_stopping' are guarded by 'mutex'; the owner is the thread's.
 * Invariants: the thread sleeps only after a step that found nothing to do; a post after that step
 *             sets is_woken, which is looked at under the mutex before sleeping: no lost wake. */
#include <pthread.h>
#include <time.h>

#include "purgatory/purg_int.h"
#include "purgatory/reaper.h"

struct purg_reaper {
    struct purg_env env;
    struct purg_owner *owner;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool is_woken;
    bool is_stopping;
};

static void reaper_wake(void *ctx)
{
    struct purg_reaper *reaper = ctx;
    pthread_mutex_lock(&reaper->mutex);
    reaper->is_woken = true;
    pthread_cond_signal(&reaper->cond);
    pthread_mutex_unlock(&reaper->mutex);
}

/* Sleeps until 'next_ns' or a wake. Returns whether to stop. */
static bool reaper_sleep(struct purg_reaper *reaper, uint64_t next_ns)
{
    struct timespec until = {.tv_sec = (time_t)(next_ns / 1000000000u),
                             .tv_nsec = (long)(next_ns % 1000000000u)};
    pthread_mutex_lock(&reaper->mutex);
    int error = 0;
    while (!reaper->is_woken && !reaper->is_stopping && error == 0) {
        error = next_ns == PURG_NEVER
                    ? pthread_cond_wait(&reaper->cond, &reaper->mutex)
                    : pthread_cond_timedwait(&reaper->cond, &reaper->mutex, &until);
    }
    reaper->is_woken = false;
    bool is_stopping = reaper->is_stopping;
    pthread_mutex_unlock(&reaper->mutex);
    return is_stopping;
}

static void *reaper_main(void *arg)
{
    struct purg_reaper *reaper = arg;
    bool is_stopping = false;
    while (!is_stopping) {
        uint64_t next_ns = purg_owner_step(reaper->owner, reaper->env.now_ns(reaper->env.ctx));
        is_stopping = reaper_sleep(reaper, next_ns);
    }
    purg_owner_shutdown(reaper->owner);
    do {
        purg_owner_step(reaper->owner, reaper->env.now_ns(reaper->env.ctx));
    } while (!purg_owner_is_idle(reaper->owner));
    return NULL;
}

/* The condition waits on the same clock as the deadlines. */
static bool cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0) { return false; }
    bool is_made = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
                   pthread_cond_init(cond, &attr) == 0;
    pthread_condattr_destroy(&attr);
    return is_made;
}

struct purg_reaper *purg_reaper_start(const struct purg_env *env,
                                      const struct purg_owner_options *options)
{
    struct purg_reaper *reaper = env->alloc(env->ctx, sizeof *reaper, PURG_CACHE_LINE);
    if (!reaper) { return NULL; }
    reaper->env = *env;
    struct purg_owner_options own = *options;
    own.start_ns = env->now_ns(env->ctx);
    own.wake = reaper_wake;
    own.wake_ctx = reaper;
    reaper->owner = purg_owner_create(env, &own);
    if (!reaper->owner) { goto fail_owner; }
    if (pthread_mutex_init(&reaper->mutex, NULL) != 0) { goto fail_mutex; }
    if (!cond_init(&reaper->cond)) { goto fail_cond; }
    if (pthread_create(&reaper->thread, NULL, reaper_main, reaper) != 0) { goto fail_thread; }
    return reaper;
fail_thread:
    pthread_cond_destroy(&reaper->cond);
fail_cond:
    pthread_mutex_destroy(&reaper->mutex);
fail_mutex:
    purg_owner_destroy(reaper->owner);
fail_owner:
    env->free(env->ctx, reaper, sizeof *reaper);
    return NULL;
}

struct purg_owner *purg_reaper_owner(struct purg_reaper *reaper)
{
    return reaper->owner;
}

void purg_reaper_stop(struct purg_reaper *reaper)
{
    if (!reaper) { return; }
    if (pthread_equal(pthread_self(), reaper->thread)) {
        purg_misuse(&reaper->env, "purg_reaper_stop: called on the reaper's own thread");
    }
    pthread_mutex_lock(&reaper->mutex);
    reaper->is_stopping = true;
    pthread_cond_signal(&reaper->cond);
    pthread_mutex_unlock(&reaper->mutex);
    pthread_join(reaper->thread, NULL);
    purg_owner_destroy(reaper->owner);
    pthread_cond_destroy(&reaper->cond);
    pthread_mutex_destroy(&reaper->mutex);
    struct purg_env env = reaper->env;
    env.free(env.ctx, reaper, sizeof *reaper);
}
