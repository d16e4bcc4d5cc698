/* sys.h - the operating system as Barnabas sees it: clock, entropy, files, streams, tasks, locks.
 *
 * Place:    floor 0, above base. The only room that calls the OS. This header has two
 *           implementations that are chosen at link time: src/sys/ (POSIX and Linux) and sim/ (a
 *           simulated machine: virtual time, disk that crashes, seeded scheduler). So nothing here
 *           shows a descriptor, a pthread type or errno.
 * Thread:   each function says who may call it; "any" means from any task.
 * Waiting:  what surely does not wait (append to the page cache, probe, warm read, non-blocking
 *           socket calls) is a direct call. Calls marked BLOCKS may wait for a device: only tasks
 *           that exist for it (flusher, reader, handler, start-up) make them.
 * Failure:  every failure is an enum err; errno is mapped in one place. ERR_IO means the device is
 *           not to be trusted again.
 */
#ifndef SYS_SYS_H
#define SYS_SYS_H

#include "base/annotate.h"
#include "base/err.h"
#include "base/logger.h"
#include "base/slice.h"

#include <stdatomic.h>

#define SYS_NEVER UINT64_MAX
#define SYS_MS ((uint64_t)1000000) /* nanoseconds */

struct sys; /* one process's view of its machine */

/* ---- life ---- */

/* Production only (src/sys): the real machine. NULL without memory. */
struct sys *sys_create(void);
void sys_destroy(struct sys *sys); /* after every task, file and stream is gone; accepts NULL */

/* ---- clock, entropy ---- */

uint64_t sys_mono_ns(struct sys *sys); /* any. Monotonic; never mixed with wall time */
int64_t sys_wall_ms(struct sys *sys); /* any. Unix time */
void sys_random(struct sys *sys, void *buf, size_t size); /* any */
uint64_t sys_random_u64(struct sys *sys);

/* ---- locks ---- */

/* Ranks in docs/CONCURRENCY.md: a thread takes locks in rising rank only; debug builds verify it.
 */
struct CAPABILITY("mutex") sys_mutex {
    _Alignas(8) unsigned char opaque[24];
    unsigned rank;
};

enum sys_lock_rank {
    SYS_RANK_META = 10,
    SYS_RANK_REPLICAS = 20, /* replica manager's tables */
    SYS_RANK_PARTITION = 30,
    SYS_RANK_LOG_FILES = 35,
    SYS_RANK_LOG = 40,
    SYS_RANK_PRODUCERS = 45,
    SYS_RANK_LOGDIR = 50,
    SYS_RANK_FLUSHER = 60,
    SYS_RANK_NET = 70,
    SYS_RANK_PURGATORY = 80,
    SYS_RANK_LEAF = 90,
};

void sys_mutex_init(struct sys_mutex *m, unsigned rank);
void sys_mutex_fini(struct sys_mutex *m);
void sys_mutex_lock(struct sys_mutex *m) ACQUIRES(*m);
void sys_mutex_unlock(struct sys_mutex *m) RELEASES(*m);

/* Locks that are a word of another library's (libpurgatory's shards). wait sleeps while the word
 * has 'value', and may return early; wake wakes one who sleeps on it. taking and giving tell the
 * check of ranks, before such a lock is taken and before it is given back; outside debug builds
 * they do nothing. Any thread. */
void sys_word_wait(_Atomic(uint32_t) *word, uint32_t value);
void sys_word_wake(_Atomic(uint32_t) *word);
void sys_word_taking(enum sys_lock_rank rank);
void sys_word_giving(enum sys_lock_rank rank);

/* ---- mailbox ---- */

/* Intrusive message: the sender's memory moves to the receiver with it. */
struct sys_msg {
    struct sys_msg *next;
};

/* Many senders, one receiver; lock-free. */
struct sys_mailbox {
    _Atomic(struct sys_msg *) head;
};

void sys_mailbox_init(struct sys_mailbox *box);
/* Any. True when the box was empty: the sender then wakes the receiver (sys_task_wake). */
bool sys_mailbox_post(struct sys_mailbox *box, struct sys_msg *msg);
/* Receiver. All messages, oldest first, linked by next; NULL when empty. */
struct sys_msg *sys_mailbox_take(struct sys_mailbox *box);

/* ---- tasks ---- */

struct sys_task;
struct sys_poller;

/* A task is state plus a step that never waits (but for BLOCKS calls in tasks made for them). step
 * returns the time at which it wants to run again without being woken: now_ns or less for at once,
 * SYS_NEVER for only when woken. */
struct sys_task_options {
    const char *name; /* at most 15 characters: the thread's name */
    uint64_t (*step)(void *ctx, uint64_t now_ns);
    void *ctx;
    struct sys_poller *poller; /* the task sleeps in it; NULL: sleeps until woken or due */
};

NODISCARD enum err sys_task_start(struct sys *sys, const struct sys_task_options *options,
                                  struct sys_task **out);
/* Any. The task runs a step soon; calls while it is awake are merged and cost no system call. */
void sys_task_wake(struct sys_task *task);
/* Not the task itself. No step runs after the return; frees the task. Accepts NULL. */
void sys_task_stop(struct sys_task *task);
/* True on the thread (or in the simulated step) of this task. */
bool sys_task_is_current(const struct sys_task *task);
/* Wake-ups that needed a system call since the start: for the test of "no cross-thread wake". */
uint64_t sys_task_wakes(const struct sys_task *task);

/* Waits until *flag is non-zero (set by a task, which then calls sys_signal_flag) or deadline. For
 * main and tests; the simulator runs its scheduler meanwhile. False at the deadline. */
bool sys_wait_flag(struct sys *sys, _Atomic int *flag, uint64_t deadline_ns);
void sys_signal_flag(struct sys *sys, _Atomic int *flag, int value);

/* ---- files ---- */

struct sys_file; /* an open file, reference counted */

enum sys_open { SYS_READ = 0, SYS_WRITE = 1, SYS_CREATE = 2, SYS_EXCLUSIVE = 4, SYS_TRUNCATE = 8 };

struct sys_stat {
    uint64_t size;
    uint64_t device;
    uint64_t allocated; /* bytes on the device, reservations included */
    int64_t modified_ms;
    bool is_dir;
};

/* Read-only unless SYS_WRITE. One reference. */
NODISCARD enum err sys_file_open(struct sys *sys, const char *path, unsigned flags,
                                 struct sys_file **out);
struct sys_file *sys_file_ref(struct sys_file *f);
/* Last one closes. Accepts NULL. Any. */
void sys_file_unref(struct sys_file *f);
uint64_t sys_file_device(const struct sys_file *f);

struct sys_iov {
    const void *at;
    size_t size;
};

/* Reads up to size bytes at pos; *got < size only at the end of the file. May wait for a cold page.
 * Any. */
NODISCARD enum err sys_file_read(struct sys_file *f, void *buf, size_t size, uint64_t pos,
                                 size_t *got);
/* Writes all of it at pos or fails; *written says how much is there after a failure. ERR_NOSPACE
 * also for a short write. Any. */
NODISCARD enum err sys_file_write(struct sys_file *f, const struct sys_iov *iov, size_t iov_count,
                                  uint64_t pos, size_t *written);
NODISCARD enum err sys_file_sync(struct sys_file *f); /* BLOCKS. fdatasync */
NODISCARD enum err sys_file_truncate(struct sys_file *f,
                                     uint64_t size); /* also gives back reserved space */
NODISCARD enum err sys_file_size(struct sys_file *f, uint64_t *size);
/* Reserves space without changing the size (fallocate KEEP_SIZE). ERR_UNSUPPORTED where the file
 * system cannot: go on without. */
NODISCARD enum err sys_file_reserve(struct sys_file *f, uint64_t pos, uint64_t size);
/* True when a read of the first and last page of the range would not wait (preadv2 RWF_NOWAIT).
 * Any. */
bool sys_file_is_warm(struct sys_file *f, uint64_t pos, uint64_t size);
/* Reads the range into the page cache. BLOCKS. */
NODISCARD enum err sys_file_warm(struct sys_file *f, uint64_t pos, uint64_t size);

/* Paths: relative to the working directory or absolute; '/' separates. */
NODISCARD enum err sys_path_stat(struct sys *sys, const char *path, struct sys_stat *out);
NODISCARD enum err sys_dir_create(struct sys *sys, const char *path); /* ERR_EXISTS when there */
NODISCARD enum err sys_dir_sync(struct sys *sys,
                                const char *path); /* BLOCKS. fsync of the directory */
/* BLOCKS. The same for the directory that holds path: makes path's own name durable. ERR_OK where
 * the system lets nobody open that directory: then somebody else made the name. */
NODISCARD enum err sys_parent_sync(struct sys *sys, const char *path);
NODISCARD enum err sys_fs_sync(struct sys *sys,
                               const char *path); /* BLOCKS. syncfs of its file system */
NODISCARD enum err sys_fs_free(struct sys *sys, const char *path, uint64_t *bytes);
/* The size of the file system that holds path. */
NODISCARD enum err sys_fs_total(struct sys *sys, const char *path, uint64_t *bytes);
NODISCARD enum err sys_path_rename(struct sys *sys, const char *from, const char *to);
NODISCARD enum err sys_path_unlink(struct sys *sys, const char *path);
NODISCARD enum err sys_dir_remove(struct sys *sys, const char *path); /* must be empty */
/* Calls visit for each name but . and .., in sorted order; stops and returns its error. */
NODISCARD enum err sys_dir_list(struct sys *sys, const char *path,
                                enum err (*visit)(void *ctx, const char *name, bool is_dir),
                                void *ctx);
/* An exclusive lock on path (created) for the life of the process; ERR_BUSY when another process
 * holds it. */
NODISCARD enum err sys_lock_take(struct sys *sys, const char *path, struct sys_file **out);

/* True when a call on this device is running for more than 5 ms now, until ten quick ones in a row.
 * Any, cheap. */
bool sys_device_is_slow(struct sys *sys, uint64_t device);

/* ---- streams ---- */

#define SYS_ADDRESS_SIZE 64 /* "[ipv6]:port" and the terminator */

struct sys_listener;
struct sys_stream;

enum sys_interest {
    SYS_READABLE = 1,
    SYS_WRITABLE = 2,
    SYS_PATIENT = 4, /* a poller may tell it up to a millisecond late, together with others */
};

/* A kind of stream: plain (sys), TLS (net, later), simulated (sim). All calls are non-blocking and
 * return ERR_AGAIN when nothing can move, ERR_CLOSED when the peer is gone (recv: *moved == 0 with
 * ERR_CLOSED). Owner task only. */
struct sys_stream_ops {
    enum err (*recv)(struct sys_stream *s, void *buf, size_t size, size_t *moved);
    enum err (*sendv)(struct sys_stream *s, const struct sys_iov *iov, size_t iov_count, bool more,
                      size_t *moved);
    enum err (*send_file)(struct sys_stream *s, struct sys_file *f, uint64_t pos, size_t size,
                          size_t *moved);
    /* What the stream waits for beyond what its user asked (a TLS handshake); a sys_interest mask.
     */
    unsigned (*wants)(const struct sys_stream *s);
    void (*close)(struct sys_stream *s); /* frees */
};

struct sys_stream {
    const struct sys_stream_ops *ops;
};

static inline enum err sys_stream_recv(struct sys_stream *s, void *buf, size_t size, size_t *moved)
{
    return s->ops->recv(s, buf, size, moved);
}

/* more: further bytes follow at once (MSG_MORE). */
static inline enum err sys_stream_sendv(struct sys_stream *s, const struct sys_iov *iov,
                                        size_t iov_count, bool more, size_t *moved)
{
    return s->ops->sendv(s, iov, iov_count, more, moved);
}

/* *moved == 0 with ERR_OK: the file ended early (a slice came up short): close the connection. */
static inline enum err sys_stream_send_file(struct sys_stream *s, struct sys_file *f, uint64_t pos,
                                            size_t size, size_t *moved)
{
    return s->ops->send_file(s, f, pos, size, moved);
}

static inline void sys_stream_close(struct sys_stream *s)
{
    if (s) { s->ops->close(s); }
}

/* host: a name, an address, or NULL/"" for all interfaces. port 0 picks one. ERR_BUSY: in use. */
NODISCARD enum err sys_listen(struct sys *sys, const char *host, uint16_t port, unsigned backlog,
                              struct sys_listener **out);
/* Kernel buffers of the connections that it will accept, in bytes; below 0: as the system likes. */
NODISCARD enum err sys_listener_buffers(struct sys_listener *l, int send_bytes, int receive_bytes);
uint16_t sys_listener_port(const struct sys_listener *l);
void sys_listener_close(struct sys_listener *l); /* accepts NULL */
/* Production only: the descriptor, for a library with a loop of its own; it stays the listener's.
 */
int sys_listener_descriptor(const struct sys_listener *l);
/* Next connection, TCP_NODELAY set. peer: the address without the port (for per-IP limits).
 * ERR_AGAIN: none. ERR_LIMIT: out of descriptors (the connection stays in the backlog). Task that
 * polls the listener. */
NODISCARD enum err sys_accept(struct sys_listener *l, struct sys_stream **out,
                              char peer[SYS_ADDRESS_SIZE]);
/* Starts to connect; ready when it becomes writable; an error shows at the first send. */
NODISCARD enum err sys_connect(struct sys *sys, const char *host, uint16_t port,
                               struct sys_stream **out);
/* The fully qualified or plain name of this machine; for advertised.listeners. */
void sys_hostname(struct sys *sys, char *buf, size_t size);

/* ---- pollers ---- */

struct sys_poll_event {
    uint64_t token;
    unsigned ready; /* sys_interest mask; an error or hang-up shows as both */
};

NODISCARD enum err sys_poller_create(struct sys *sys, struct sys_poller **out);
void sys_poller_destroy(struct sys_poller *p);
/* Owner task. Level-triggered. The stream must be the plain (or simulated) kind, removed before it
 * is closed. Patient streams do not each end a sleep: while some become ready, the poller looks at
 * them once a millisecond. A stream that alone becomes ready is told at once. The simulator tells
 * all at once. */
NODISCARD enum err sys_poller_add(struct sys_poller *p, struct sys_stream *s, uint64_t token,
                                  unsigned interest);
NODISCARD enum err sys_poller_set(struct sys_poller *p, struct sys_stream *s, uint64_t token,
                                  unsigned interest);
void sys_poller_remove(struct sys_poller *p, struct sys_stream *s);
NODISCARD enum err sys_poller_add_listener(struct sys_poller *p, struct sys_listener *l,
                                           uint64_t token);
void sys_poller_remove_listener(struct sys_poller *p, struct sys_listener *l);
/* Production only: watches a library's descriptor for reading until it is closed. */
NODISCARD enum err sys_poller_add_descriptor(struct sys_poller *p, int fd, uint64_t token);
/* The events that ended the last sleep, or what is ready now without waiting; 0 when none. Owner
 * task, from its step. */
size_t sys_poller_events(struct sys_poller *p, struct sys_poll_event *out, size_t count_max);

/* ---- the process ---- */

/* Production only, any, BLOCKS. Loads a shared library for the life of the process and finds
 * functions in it by name. ERR_NOTFOUND: it is not installed. ERR_UNSUPPORTED: it lacks one. */
typedef void sys_function(void);
NODISCARD enum err sys_library_load(const char *name, const char *const *symbols, size_t count,
                                    sys_function **out);
/* A logger that writes to standard output, one write a line. Freed with sys_destroy. */
struct logger *sys_logger(struct sys *sys);
uint64_t sys_descriptors_max(struct sys *sys); /* raises the soft limit to the hard one first */
uint64_t sys_resident_bytes(struct sys *sys);
unsigned sys_cpu_count(struct sys *sys);
/* Production only: main sleeps until SIGTERM, SIGINT or, unless it is ignored, SIGHUP; the number
 * of the signal. SIGPIPE is ignored from here on. */
int sys_wait_signal(struct sys *sys);
/* Any. True from when such a signal came until sys_wait_signal() takes it, where main holds it back
 * (blocks it) before: for what takes long at a start. */
bool sys_stop_is_wanted(struct sys *sys);

#endif
