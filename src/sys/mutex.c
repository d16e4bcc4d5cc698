/* mutex.c - locks, with their rank verified in debug builds.
 *
 * Thread:     any. The list of held locks is thread-local.
 * Invariants: [SYS-1] a thread takes locks in rising rank only. [SYS-2] no lock survives a step. */
#include "base/check.h"
#include "sys/sys_int.h"

#include <pthread.h>
#include <string.h>

_Static_assert(sizeof(pthread_mutex_t) <= sizeof((struct sys_mutex){0}.opaque),
               "the opaque part holds a pthread mutex");

static pthread_mutex_t *sys_mutex_inner(struct sys_mutex *m)
{
    return (pthread_mutex_t *)(void *)m->opaque;
}

#ifdef BARNABAS_DEBUG
#define SYS_HELD_MAX 16
static _Thread_local const struct sys_mutex *sys_held[SYS_HELD_MAX];
static _Thread_local unsigned sys_held_count;

static void sys_mutex_note_lock(const struct sys_mutex *m)
{
    for (unsigned i = 0; i < sys_held_count; i++) {
        CHECKF(sys_held[i]->rank < m->rank, "[SYS-1] rank %u is held, %u is taken",
               sys_held[i]->rank, m->rank);
    }
    CHECK(sys_held_count < SYS_HELD_MAX);
    sys_held[sys_held_count++] = m;
}

static void sys_mutex_note_unlock(const struct sys_mutex *m)
{
    unsigned i = 0;
    while (i < sys_held_count && sys_held[i] != m) {
        i++;
    }
    CHECKF(i < sys_held_count, "a lock of rank %u is given back that is not held", m->rank);
    sys_held[i] = sys_held[--sys_held_count];
}

void sys_mutex_check_none_held(void)
{
    CHECKF(sys_held_count == 0, "[SYS-2] a lock of rank %u is held after a step",
           sys_held[0]->rank);
}
#else
static void sys_mutex_note_lock(const struct sys_mutex *m)
{
    (void)m;
}

static void sys_mutex_note_unlock(const struct sys_mutex *m)
{
    (void)m;
}

void sys_mutex_check_none_held(void)
{
}
#endif

void sys_mutex_init(struct sys_mutex *m, unsigned rank)
{
    memset(m, 0, sizeof *m);
    m->rank = rank;
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);
    CHECK(rc == 0);
    /* Locks are short: a few spins are cheaper than a sleep. */
    rc = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    CHECK(rc == 0);
    rc = pthread_mutex_init(sys_mutex_inner(m), &attr);
    CHECK(rc == 0);
    (void)pthread_mutexattr_destroy(&attr);
}

void sys_mutex_fini(struct sys_mutex *m)
{
    int rc = pthread_mutex_destroy(sys_mutex_inner(m));
    CHECK(rc == 0); /* EBUSY: it is still held. */
}

NO_THREAD_SAFETY void sys_mutex_lock(struct sys_mutex *m)
{
    sys_mutex_note_lock(m);
    int rc = pthread_mutex_lock(sys_mutex_inner(m));
    CHECK(rc == 0);
}

NO_THREAD_SAFETY void sys_mutex_unlock(struct sys_mutex *m)
{
    sys_mutex_note_unlock(m);
    int rc = pthread_mutex_unlock(sys_mutex_inner(m));
    CHECK(rc == 0);
}
