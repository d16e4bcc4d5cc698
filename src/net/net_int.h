/* net_int.h - what the files of net/ share: processors, connections, jobs, planes, budgets.
 *
 * Place:      private to src/net and its unit tests.
 * Thread:     processor: everything of a connection but its job. A job (the requests that one run
 *             may execute) moves: owner -> ready queue -> the owner itself or a thief; owner ->
 *             slow queue -> a handler; and back to the owner by its mailbox. Who has the job may
 *             touch the job and the public part of its requests, nobody else does.
 * Ownership:  a connection is freed by its processor once it is closed and nothing refers to it:
 *             no request, no job elsewhere, no message on its way. Until then it is a ghost.
 * Invariants: [NET-6] a job is in at most one place. [NET-7] a turn makes no system call for a
 *             connection that had nothing to do. [NET-8] net_budget.used is the sum of what frames
 *             have reserved. [NET-9] locks of net are leaves: nothing is called under them. */
#ifndef NET_NET_INT_H
#define NET_NET_INT_H

#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "net/net.h"
#include "purgatory/owner.h"

#define NET_FRAME_BYTES_MIN 8 /* api key, version, correlation id */
#define NET_TURN_REQUESTS_MAX 16 /* of one connection, and staged before the next one runs */
#define NET_TURN_BYTES_MAX ((size_t)1 << 20) /* the same; in and out */
#define NET_EVENTS_MAX 64 /* read before their requests are run */
/* Delayed operations that end in one turn: each answer takes scratch memory until it is sent, so
 * that thousands that expire together reuse what is in the cache. */
#define NET_ENDS_MAX 64
#define NET_IOV_MAX 64
#define NET_SMALL_BYTES ((size_t)1024) /* answers so small leave as one piece */
#define NET_FILE_PIECE_BYTES ((size_t)256 * 1024)
#define NET_FILE_COPY_BYTES ((size_t)16 * 1024) /* smaller slices are copied */
#define NET_COPY_BUFFER_BYTES ((size_t)64 * 1024)
#define NET_ANSWER_BYTES_MAX ((size_t)256 * 1024 * 1024) /* of buf */
#define NET_CONTROL_QUEUE 20
#define NET_STUCK_NS (2 * SYS_MS) /* a head that waits longer may be stolen */
#define NET_WATCH_IDLE_POLLS 100
#define NET_ACCEPT_BATCH 64
#define NET_ACCEPT_PAUSE_NS (100 * SYS_MS)
#define NET_HANDLER_BATCH 32
#define NET_VAIN_MIN 2 /* waits in vain, one after another, that make a connection patient */

/* ---- counters ---- */

enum net_count {
    NET_COUNT_ACCEPTED,
    NET_COUNT_OPENED,
    NET_COUNT_GONE,
    NET_COUNT_REQUESTS,
    NET_COUNT_PARKED,
    NET_COUNT_BYTES_IN,
    NET_COUNT_BYTES_OUT,
    NET_COUNT_RECV_CALLS,
    NET_COUNT_SEND_CALLS,
    NET_COUNT_FILE_PIECES,
    NET_COUNT_FILE_BYTES,
    NET_COUNT_COPIED_BYTES,
    NET_COUNT_COLD_PIECES,
    NET_COUNT_STEALS,
    NET_COUNT_SLOW,
    NET_COUNT_MEMORY_WAITS,
    NET_COUNT_ACCEPT_PAUSES,
    NET_COUNT_PATIENT,
    NET_COUNT_ALLOCATIONS,
    NET_COUNT_CLOSED, /* and NET_CLOSED_REASONS - 1 more */
    NET_COUNTS = NET_COUNT_CLOSED + NET_CLOSED_REASONS,
};

/* Written by one thread, read by any. */
struct net_tally {
    _Atomic uint64_t at[NET_COUNTS];
};

static inline void net_tally_add(struct net_tally *t, enum net_count what, uint64_t n)
{
    uint64_t v = atomic_load_explicit(&t->at[what], memory_order_relaxed);
    atomic_store_explicit(&t->at[what], v + n, memory_order_relaxed);
}

/* ---- messages ---- */

enum net_msg_kind {
    NET_MSG_OPEN, /* a new connection, from an acceptor */
    NET_MSG_JOB, /* a job was run elsewhere */
    NET_MSG_MEMORY, /* a reservation was granted */
    NET_MSG_WARM, /* to a reader, and back */
    NET_MSG_STOP_READING,
    NET_MSG_DRAIN,
    NET_MSG_CLOSE,
    NET_MSG_PING,
};

struct net_msg {
    struct sys_msg link; /* first */
    enum net_msg_kind kind;
};

/* ---- budget of bytes for frames ---- */

enum net_waiter_state { NET_WAITER_NONE, NET_WAITER_IN_LINE, NET_WAITER_GRANTED };

struct net_waiter {
    struct net_msg msg;
    struct list link; /* guarded by the budget's lock, like size and state while in line */
    size_t size;
    enum net_waiter_state state;
    struct net_processor *processor;
};

/* A frame may always be taken when nothing else is reserved, so that one that is larger than the
 * whole budget does not wait for ever. First come, first served; an eighth is kept for small frames
 * that are there whole and become requests at once: those who hold the rest for frames that do not
 * come cannot lock others out. */
#define NET_BUDGET_SMALL ((size_t)16 << 10)
struct net_budget {
    _Atomic uint64_t used;
    uint64_t max;
    _Atomic uint32_t waiters_count;
    struct sys_mutex lock;
    struct list waiters; /* guarded by lock */
};

void net_budget_init(struct net_budget *b, uint64_t max);
void net_budget_fini(struct net_budget *b);
/* Without waiting, for a frame of at most NET_BUDGET_SMALL that is there whole. */
bool net_budget_take_whole(struct net_budget *b, size_t size);
/* Without waiting, for what already has 'own': up to half of all and behind nobody in line. */
bool net_budget_take_more(struct net_budget *b, size_t own, size_t size);
/* True: reserved. False: in line; the grant comes as NET_MSG_MEMORY to the waiter's processor. */
bool net_budget_take(struct net_budget *b, struct net_waiter *w, size_t size);
/* Gives size back and grants heads of the line. */
void net_budget_give(struct net_budget *b, size_t size);
/* Leaves the line. False: the grant is on its way (its message will come). */
bool net_budget_leave(struct net_budget *b, struct net_waiter *w);

/* ---- buffers, requests ---- */

struct net_buf {
    struct net_buf *next; /* in the pool */
    size_t cap;
    uint32_t refs; /* the connection and requests; owner's thread */
    uint32_t class_index; /* NET_BUF_CLASSES: of no class */
    uint8_t at[];
};

#define NET_BUF_CLASSES 4

/* Memory of a request while it is decoded and answered. */
struct net_scratch {
    struct net_scratch *next;
    struct arena arena;
    struct wire_buf buf;
};

enum net_req_state {
    NET_REQ_WAITING, /* split, not applied: in a job or about to be */
    NET_REQ_PARKED,
    NET_REQ_DONE, /* may leave when it is first */
};

struct net_req {
    struct net_request pub; /* first */
    struct list order; /* in the connection, in order of arrival */
    struct net_req *run_next; /* in the job; constant while the job is away */
    struct net_buf *buf; /* holds frame */
    size_t charged; /* of the plane's budget */
    size_t reserved; /* the same, for what it needs beyond its frame; until its end */
    struct net_scratch *scratch;
    size_t scratch_cap; /* of the answer buffer when it was attached */
    struct arena park;
    enum net_req_state state;
    bool later; /* net_answer_later() came before the verdict */
    bool cancelled; /* on_cancel was called */
    bool release_wanted; /* net_request_release() on a handler: done by the owner */
    bool silent; /* no answer */
    uint64_t started_ns, handled_ns, done_ns; /* as in struct net_times */
    /* How much of it has left. */
    uint8_t size_be[4];
    uint8_t size_sent;
    size_t buf_sent;
    struct net_part *part; /* the next part that has not left whole */
    size_t part_sent;
    size_t warm_left; /* bytes from part_sent on that a reader has just warmed */
};

/* ---- connection ---- */

struct net_job {
    struct net_msg msg; /* NET_MSG_OPEN first, then NET_MSG_JOB */
    struct list link; /* ready or slow queue; guarded by its lock */
    struct net_req *first;
    struct net_req *end; /* the first that was not run, NULL if all were; set by the runner */
    uint32_t count; /* requests; the owner's */
    uint64_t queued_ns;
    bool in_ready; /* guarded by the processor's ready_lock */
};

enum net_job_place { NET_JOB_NONE, NET_JOB_READY, NET_JOB_AWAY };

/* Why a connection is not read. */
enum net_stall {
    NET_STALL_JOB = 1, /* its requests are queued or running */
    NET_STALL_HOLD = 2, /* a request blocks it */
    NET_STALL_IN_FLIGHT = 4,
    NET_STALL_MEMORY = 8,
    NET_STALL_THROTTLED = 16,
    NET_STALL_OUTPUT = 32, /* too much unsent */
    NET_STALL_EOF = 64, /* the peer sends no more */
    NET_STALL_STOPPED = 128, /* shutdown */
    NET_STALL_CLOSING = 256,
    NET_STALL_QUEUE = 512, /* the processor's queue is full */
};

struct net_warm {
    struct net_msg msg;
    struct sys_file *file; /* a reference of its own */
    uint64_t pos;
    size_t size;
    struct net_processor *processor;
    enum err err;
    bool is_out;
};

struct net_conn {
    struct net_processor *processor;
    struct net_listener *listener;
    struct sys_stream *stream; /* NULL once closed */
    uint32_t slot, generation;

    /* Owner's thread from here on, but for job. */
    uint16_t stalls; /* mask of enum net_stall */
    uint8_t interest; /* what the poller watches */
    uint8_t in_class; /* of the next receive buffer */
    uint8_t vain_count; /* waits in vain since the last other answer; up to NET_VAIN_MIN */
    bool wants_write; /* the last send moved less than it could */
    bool has_close_reason;
    bool partial_known; /* the size of the partial frame is read and reserved */
    uint8_t job_place;
    uint16_t pins; /* calls on the stack that will look at it again */
    uint16_t in_flight; /* length of order */
    uint16_t unrun; /* of these, those from run on */
    enum net_close_reason close_reason; /* close after the next flush, if has_close_reason */

    struct net_buf *in;
    size_t in_pos, in_end; /* bytes that are received and not split */
    size_t frame_size; /* partial_known: of the frame at in_pos */

    struct list order;
    struct net_req *run; /* first request that was not run */
    struct net_req *hold;
    uint64_t out_bytes;

    struct list flush_link; /* in the processor's flush list */
    struct list queue_link; /* in the processor's queue_waiters */
    struct purg_timer timer; /* for the earliest of the deadlines below, or before it */
    uint64_t active_ns; /* last byte in or answer out */
    uint64_t partial_ns; /* since when a partial frame is read; 0: none */
    uint64_t stalled_ns; /* since when nothing leaves; valid while wants_write */
    uint64_t throttled_until_ns;

    struct net_job job;
    struct net_waiter memory;
    struct net_warm warm;
    char peer[SYS_ADDRESS_SIZE];
};

/* ---- planes, handlers, readers ---- */

struct net_handler {
    struct net_plane *plane;
    struct sys_task *task;
    unsigned index;
};

/* Data or control: what its processors and handlers share. */
struct net_plane {
    struct net *net;
    struct net_budget budget;
    struct net_handler handlers[NET_HANDLERS_MAX];
    unsigned handlers_count;
    _Atomic uint64_t idle_mask; /* handlers that sleep or are about to */
    _Atomic uint32_t slow_count;
    struct sys_mutex slow_lock;
    struct list slow; /* of net_job.link; guarded by slow_lock */
};

struct net_reader {
    struct sys_mailbox box;
    struct sys_task *task;
};

/* ---- processor ---- */

struct net_slot {
    struct net_conn *conn;
    uint32_t generation;
    uint32_t next_free;
};

struct net_processor {
    struct net *net;
    struct net_plane *plane;
    struct sys_task *task;
    struct sys_poller *poller;
    struct purg_owner *owner;
    struct purg_wheel *wheel;
    unsigned index; /* in the net */
    const struct net_listener *listener;
    struct sys_mailbox box;

    /* The request channel: connections with whole requests. */
    struct sys_mutex ready_lock;
    struct list ready; /* of net_job.link; guarded by ready_lock */
    _Atomic uint32_t ready_count;
    _Atomic uint64_t run_seq; /* odd while a request runs here */
    _Atomic bool stuck; /* set by the watch, cleared by the processor */

    /* Its own thread. */
    uint64_t now_ns; /* when the turn began */
    uint64_t clock_ns; /* the last look at the clock */
    uint32_t queue_max;
    struct net_slot *slots;
    uint32_t slots_count;
    uint32_t slot_free; /* slots_count: none */
    size_t conns_count; /* ghosts included */
    size_t in_flight; /* requests of all connections, until they have ended */
    size_t queued; /* requests in jobs, those with handlers included */
    struct list flush;
    struct list queue_waiters; /* connections with bytes that the queue has no place for */
    struct net_buf *bufs[NET_BUF_CLASSES];
    unsigned bufs_count[NET_BUF_CLASSES];
    struct net_req *reqs; /* by run_next */
    unsigned reqs_count;
    struct net_scratch *scratches;
    unsigned scratches_count;
    uint8_t *copy; /* NET_COPY_BUFFER_BYTES */
    struct logger_rate log_rate;
    bool reading;
    bool draining;
    bool closing;
    struct net_tally tally;

    /* Shutdown: messages from and flags for the thread that stops the net. */
    struct net_msg stop_reading_msg, drain_msg, close_msg;
    struct net_msg ping_msg;
    _Atomic uint64_t pinged_ns; /* 0: the last ping was answered; the asker sets, p clears */
    _Atomic int stop_reading_flag, drained_flag, closed_flag;
};

/* ---- listeners, limits ---- */

struct net_listener {
    struct net *net;
    char name[64];
    bool is_control;
    unsigned index;
    struct sys_listener *socket;
    uint16_t port;
    struct sys_poller *poller;
    struct sys_task *task;
    struct net_processor **processors; /* the accepted connections go to them in turn */
    unsigned processors_count;
    unsigned processor_next;
    bool paused; /* out of descriptors */
    uint64_t resume_ns;
    struct logger_rate limit_rate, pause_rate;
    struct net_tally tally;
};

struct net_limit_table {
    struct sys_mutex lock;
    uint32_t connections_max; /* guarded by lock */
    uint32_t per_ip_max; /* guarded by lock */
    struct map overrides; /* address -> limit; guarded by lock */
    struct map counts; /* address -> open connections; guarded by lock */
    uint32_t connections; /* of data listeners; guarded by lock */
};

void net_limits_init(struct net_limit_table *t);
void net_limits_fini(struct net_limit_table *t);
NODISCARD enum err net_limits_set(struct net_limit_table *t, const struct net_limits *limits);
/* Counts a connection in. ERR_LIMIT: too many (*what says of which). Control connections are
 * outside max.connections, not outside the limit per address. */
NODISCARD enum err net_limits_enter(struct net_limit_table *t, const char *address, bool is_control,
                                    const char **what);
void net_limits_leave(struct net_limit_table *t, const char *address, bool is_control);

/* ---- the whole ---- */

struct net {
    struct sys *sys;
    struct net_api api;
    struct net_config config; /* its pointers are not kept, but for logger */
    struct net_plane data, control;
    struct net_listener *listeners;
    size_t listeners_count;
    struct net_processor *processors;
    size_t processors_count;
    struct net_reader *readers;
    size_t readers_count;
    struct net_limit_table limits;
    /* The watch over processors that are stuck in a call. */
    struct sys_task *watch;
    _Atomic bool watch_armed;
    uint64_t *watch_seq; /* per processor, the watch's own */
    unsigned watch_idle_polls;
    _Atomic uint64_t steals;
};

/* ---- pure parts (frame.c) ---- */

enum net_frame_verdict { NET_FRAME_OK, NET_FRAME_SHORT, NET_FRAME_BAD };
/* Looks at the 4 bytes of size in front of a frame. */
enum net_frame_verdict net_frame_size(const uint8_t *at, size_t have, size_t frame_bytes_max,
                                      size_t *size);
/* What the first bytes of something that is not Kafka look like: "TLS", "HTTP" or NULL. */
const char *net_frame_foreign(const uint8_t *at, size_t have);

/* ---- pools (pool.c); owner's thread ---- */

unsigned net_buf_class(size_t size);
size_t net_buf_class_size(unsigned index);
struct net_buf *net_buf_get(struct net_processor *p, size_t size); /* NULL: no memory */
void net_buf_unref(struct net_processor *p, struct net_buf *b); /* accepts NULL */
struct net_req *net_req_get(struct net_processor *p);
void net_req_put(struct net_processor *p, struct net_req *r);
NODISCARD enum err net_req_attach(struct net_processor *p, struct net_req *r, size_t frame_size);
void net_req_detach(struct net_processor *p, struct net_req *r); /* idempotent */
void net_req_drop_frame(struct net_processor *p, struct net_req *r); /* idempotent */
void net_pool_fini(struct net_processor *p);
/* Any thread: for a request that is run by a handler. NULL: no memory. */
struct net_scratch *net_scratch_create(void);
void net_req_give_scratch(struct net_req *r, struct net_scratch *s, size_t frame_size);

/* ---- connection (conn.c) ---- */

void net_conn_open(struct net_conn *c); /* from the acceptor's message */
/* Now. The connection may be freed unless it is pinned. */
void net_conn_close(struct net_conn *c, enum net_close_reason reason);
/* After the next flush has taken what is ready. */
void net_conn_close_soon(struct net_conn *c, enum net_close_reason reason);
static inline void net_conn_pin(struct net_conn *c)
{
    c->pins++;
}
/* A closed, pinned connection: drops requests that nobody runs and answers that nobody gets; asks
 * api to end those that are parked. */
void net_conn_drop_requests(struct net_conn *c);
void net_conn_cancel_parked(struct net_conn *c);
void net_conn_unpin(struct net_conn *c); /* frees a ghost that nothing refers to */
static inline bool net_conn_is_closed(const struct net_conn *c)
{
    return c->stream == NULL;
}
void net_conn_stall(struct net_conn *c, enum net_stall why);
void net_conn_resume(struct net_conn *c, enum net_stall why); /* splits what is buffered */
void net_conn_set_interest(struct net_conn *c, unsigned mask);
/* A wait ended: in vain or not. Makes the connection patient, or ends that [NET-12]. */
void net_conn_count_vain(struct net_conn *c, bool in_vain);
/* The peer has sent its last byte: closes once what it asked for has been done. */
void net_conn_check_eof(struct net_conn *c);
void net_conn_arm(struct net_conn *c); /* after a deadline came nearer */
void net_conn_on_event(struct net_conn *c, unsigned ready);
void net_conn_on_memory(struct net_conn *c);

/* ---- input (input.c) ---- */

/* Bytes that are received and not split. */
static inline size_t net_conn_input_size(const struct net_conn *c)
{
    return c->in_end - c->in_pos;
}

void net_conn_read(struct net_conn *c);
/* Splits buffered frames into requests and queues the connection if there are any. */
void net_conn_split(struct net_conn *c);

/* ---- running (run.c) ---- */

/* Runs a job on this thread: on the processor (self is its owner) or on a handler (self and turn
 * NULL). What it leaves in the turn has no verdict before net_turn_flush(). *clock_ns is the last
 * look at the clock, which was after the job's requests had come. */
void net_job_run(struct net *net, struct net_conn *c, struct purg_owner *self,
                 struct net_turn *turn, uint64_t *clock_ns);
/* Does what is staged; the turn is empty then. */
void net_turn_flush(struct net_processor *p, struct net_turn *turn);
/* Owner's thread: takes the verdicts of a job that was run. */
void net_job_apply(struct net_conn *c);
/* The request's answer may leave when its turn comes. */
void net_req_done(struct net_conn *c, struct net_req *r);
/* Takes it out of its connection and frees it; the connection must be pinned. */
void net_req_end(struct net_conn *c, struct net_req *r);

/* ---- output (output.c) ---- */

void net_conn_flush(struct net_conn *c); /* pinned by the caller */
void net_conn_flush_later(struct net_conn *c); /* in this turn */
void net_req_release_parts(struct net_req *r);
void net_conn_on_warm(struct net_conn *c);

/* ---- processor (processor.c) ---- */

NODISCARD enum err net_processor_init(struct net_processor *p, struct net *net,
                                      struct net_plane *plane, unsigned index);
NODISCARD enum err net_processor_start(struct net_processor *p);
void net_processor_fini(struct net_processor *p); /* stops the task */
/* Any thread. */
void net_processor_post(struct net_processor *p, struct net_msg *msg);
void net_processor_queue(struct net_processor *p, struct net_conn *c);
/* Takes a connection back from the ready queue. False: a thief has it. */
bool net_processor_unqueue(struct net_processor *p, struct net_conn *c);
struct net_conn *net_processor_pop(struct net_processor *p); /* any thread; NULL: empty */

/* ---- handlers, watch, readers (handler.c, reader.c), listeners (listener.c) ---- */

void net_plane_init(struct net_plane *plane, struct net *net, uint64_t budget_bytes);
NODISCARD enum err net_plane_start(struct net_plane *plane, unsigned handlers_count);
void net_plane_stop(struct net_plane *plane);
void net_plane_fini(struct net_plane *plane);
void net_plane_post_slow(struct net_plane *plane, struct net_conn *c);
bool net_plane_wake_one(struct net_plane *plane);
NODISCARD enum err net_watch_start(struct net *net);
void net_watch_arm(struct net *net);
NODISCARD enum err net_readers_start(struct net *net, unsigned count);
void net_readers_stop(struct net *net);
void net_reader_post(struct net *net, struct net_warm *w);
NODISCARD enum err net_listener_open(struct net_listener *l, const struct net_listener_config *cfg);
NODISCARD enum err net_listener_start(struct net_listener *l);
void net_listener_stop(struct net_listener *l);

#endif
