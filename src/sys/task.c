/* task.c - a task is a thread that runs steps and sleeps between them.
 *
 * Thread:     each task its own; wake from any thread, stop from any but itself.
 * Ownership:  sys_task_start() gives the caller the task, sys_task_stop() takes it back.
 *
 *                  begin a step                     nothing to do
 *      NOTIFIED ------------------> RUNNING -----------------------> SLEEPING
 *          ^                           |                                 |
 *          +------------ wake ---------+------------ wake + syscall -----+
 *
 * Invariants: [SYS-4] no lost wake-up. A sender changes its data (a mailbox), then exchanges the
 *             state to NOTIFIED. The task exchanges the state to RUNNING before a step looks at
 *             the data, and goes to SLEEPING only by a compare-and-swap from RUNNING. All are
 *             sequentially consistent: a wake that comes after the step began makes the swap fail,
 *             one that comes before it is seen by that step. [SYS-5] only the wake that finds
 *             SLEEPING makes a system call. */
#include "base/check.h"
#include "base/mem.h"
#include "sys/sys_int.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

enum sys_task_state { SYS_TASK_RUNNING, SYS_TASK_NOTIFIED, SYS_TASK_SLEEPING };

#define SYS_TASK_NAME_SIZE 16

struct sys_task {
    uint64_t (*step)(void *ctx, uint64_t now_ns); /* these: constant */
    void *ctx;
    struct sys_poller *poller;
    char name[SYS_TASK_NAME_SIZE];
    pthread_t thread;
    _Atomic int state;
    _Atomic bool stopping;
    _Atomic uint64_t wakes;
};

static _Thread_local const struct sys_task *sys_task_current;

static void sys_task_sleep(struct sys_task *task, uint64_t deadline_ns)
{
    int expected = SYS_TASK_RUNNING;
    if (!atomic_compare_exchange_strong(&task->state, &expected, SYS_TASK_SLEEPING)) {
        return; /* Notified during the step. */
    }
    if (task->poller) {
        sys_poller_sleep(task->poller, deadline_ns);
    } else {
        sys_futex_wait(&task->state, SYS_TASK_SLEEPING, deadline_ns);
    }
}

static void *sys_task_main(void *arg)
{
    struct sys_task *task = arg;
    sys_task_current = task;
    /* Else the kernel wakes it up to 50 us after its deadline, to save power. */
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    (void)pthread_setname_np(pthread_self(), task->name); /* A name is a comfort only. */
    while (!atomic_load(&task->stopping)) {
        (void)atomic_exchange(&task->state, SYS_TASK_RUNNING); /* [SYS-4] before the step looks */
        if (atomic_load(&task->stopping)) { break; }
        uint64_t now = sys_clock_ns();
        uint64_t next = task->step(task->ctx, now);
        sys_mutex_check_none_held();
        if (task->poller) { task->poller->polled = task->poller->looked = false; }
        if (next > now) { sys_task_sleep(task, next); }
    }
    sys_task_current = NULL;
    return NULL;
}

static enum err sys_task_spawn(struct sys_task *task)
{
    /* Signals are for main, which waits for them; a task never sees one (SIGPIPE of sendfile). */
    sigset_t all, before;
    (void)sigfillset(&all);
    int rc = pthread_sigmask(SIG_SETMASK, &all, &before);
    CHECK(rc == 0);
    int spawned = pthread_create(&task->thread, NULL, sys_task_main, task);
    rc = pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(rc == 0);
    if (spawned != 0) { return ERR_LIMIT; }
    return ERR_OK;
}

enum err sys_task_start(struct sys *sys, const struct sys_task_options *options,
                        struct sys_task **out)
{
    (void)sys;
    *out = NULL;
    CHECK(options->step);
    CHECK(strlen(options->name) < SYS_TASK_NAME_SIZE);
    struct sys_task *task = mem_new(struct sys_task);
    if (!task) { return ERR_NOMEM; }
    task->step = options->step;
    task->ctx = options->ctx;
    task->poller = options->poller;
    memcpy(task->name, options->name, strlen(options->name));
    atomic_init(&task->state, SYS_TASK_RUNNING);
    if (task->poller) {
        CHECK(!task->poller->owned);
        task->poller->owned = true;
    }
    *out = task; /* before the first step, which may look at it */
    enum err e = sys_task_spawn(task);
    if (e) {
        *out = NULL;
        if (task->poller) { task->poller->owned = false; }
        mem_free(task);
    }
    return e;
}

void sys_task_wake(struct sys_task *task)
{
    if (atomic_exchange(&task->state, SYS_TASK_NOTIFIED) != SYS_TASK_SLEEPING) {
        return; /* [SYS-5] it looks again before it sleeps */
    }
    (void)atomic_fetch_add_explicit(&task->wakes, 1, memory_order_relaxed);
    if (task->poller) {
        sys_poller_wake(task->poller);
    } else {
        sys_futex_wake(&task->state);
    }
}

void sys_task_stop(struct sys_task *task)
{
    if (!task) { return; }
    CHECK(!sys_task_is_current(task));
    atomic_store(&task->stopping, true);
    sys_task_wake(task);
    int rc = pthread_join(task->thread, NULL);
    CHECK(rc == 0);
    if (task->poller) { task->poller->owned = false; }
    mem_free(task);
}

bool sys_task_is_current(const struct sys_task *task)
{
    return sys_task_current == task;
}

uint64_t sys_task_wakes(const struct sys_task *task)
{
    return atomic_load_explicit(&task->wakes, memory_order_relaxed);
}
