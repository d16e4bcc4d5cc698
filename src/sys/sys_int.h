/* sys_int.h - what the files of sys/ share: one errno table, devices, files, streams, pollers.
 *
 * Place:   private to src/sys (and its tests). The only header of the house that shows descriptors.
 */
#ifndef SYS_SYS_INT_H
#define SYS_SYS_INT_H

#include "sys/sys.h"

#include <sys/epoll.h>
#include <time.h>

#define SYS_DEVICES_MAX 32
#define SYS_DEVICE_CALLS_MAX 16 /* stamps of calls in flight; further calls go unstamped */
#define SYS_DEVICE_SLOW_NS (5 * SYS_MS)
#define SYS_DEVICE_QUICK_COUNT 10 /* quick calls in a row that make a slow device good again */
#define SYS_POLL_BATCH_MAX 256
#define SYS_PATIENCE_NS SYS_MS

/* One block device, found by its st_dev. Slots are filled once and stay until sys_destroy. */
struct sys_device {
    _Atomic uint64_t id; /* 0: a free slot */
    _Atomic uint64_t started_ns[SYS_DEVICE_CALLS_MAX]; /* 0: a free stamp */
    _Atomic unsigned slow_left; /* quick calls that are still missing; 0: the device is quick */
    int sync_fd; /* for syncfs, so that no write-back error is missed; guarded by sys->lock */
};

struct sys {
    struct logger logger;
    struct sys_mutex lock; /* device slots are taken and their sync_fd opened under it */
    struct sys_device devices[SYS_DEVICES_MAX];
};

/* An errno value in our words; the only place that maps it. Never ERR_OK. */
enum err sys_err(int code);

uint64_t sys_clock_ns(void);
struct timespec sys_timespec(uint64_t ns);

/* Waits on *word == expected until the absolute deadline; wakes one sleeper. */
void sys_futex_wait(_Atomic int *word, int expected, uint64_t deadline_ns);
void sys_futex_wake(_Atomic int *word); /* all who wait */
void sys_futex_wake_one(_Atomic int *word);

/* NULL when the table is full: calls on it are not stamped. */
struct sys_device *sys_device_of(struct sys *sys, uint64_t id);
/* The stamp to hand to sys_device_end. d may be NULL. */
struct sys_stamp {
    uint64_t started_ns;
    unsigned slot; /* SYS_DEVICE_CALLS_MAX: none was free */
};
struct sys_stamp sys_device_begin(struct sys_device *d);
void sys_device_end(struct sys_device *d, struct sys_stamp stamp);

struct sys_file {
    struct sys *sys;
    struct sys_device *device; /* NULL: not stamped */
    uint64_t device_id;
    _Atomic unsigned refs;
    int fd;
};

/* Takes the descriptor in, also on failure. */
NODISCARD enum err sys_file_wrap(struct sys *sys, int fd, struct sys_file **out);

struct sys_listener {
    int fd;
    uint16_t port;
    uint64_t token; /* while a poller has it */
};

struct sys_plain {
    struct sys_stream stream;
    int fd;
    bool is_patient; /* in the poller's patient set */
    uint64_t token; /* while a poller has it */
};

struct sys_plain *sys_plain_of(struct sys_stream *s);

/* Owner: the task that sleeps in it. */
struct sys_poller {
    int epoll_fd;
    int event_fd; /* edge-triggered: written to wake, never read */
    int patient_fd; /* the epoll set of what may be told late [SYS-8] */
    bool patient_armed; /* it ends a sleep */
    bool patient_woke; /* it ended the last one */
    bool patient_alone; /* the first in a while: armed again before the next sleep */
    uint64_t patient_ns; /* not armed: when it was looked at; 0: look now */
    uint64_t patient_woke_ns;
    bool owned; /* by a task: at most one poll a turn */
    bool polled; /* this turn; owned only */
    bool looked; /* the same of the patient set */
    bool coarse; /* the kernel lacks epoll_pwait2: sleep in milliseconds, rounded up */
    size_t ready_count;
    size_t ready_next;
    struct epoll_event ready[SYS_POLL_BATCH_MAX];
};

/* Sleeps until something is ready, the poller is woken, or the deadline. */
void sys_poller_sleep(struct sys_poller *p, uint64_t deadline_ns);
void sys_poller_wake(struct sys_poller *p);

/* Debug builds: aborts when this thread holds a lock. */
void sys_mutex_check_none_held(void);

#endif
