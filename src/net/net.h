/* net.h - listeners, connections, frames, order of answers, back-pressure. Knows no API.
 *
 * Place:      floor 3. broker/ starts it with a table of functions (struct net_api) behind which
 *             api/ decodes and answers; net never looks into a frame beyond its size.
 * Thread:     a processor task owns its connections for life; the table's functions run on a
 *             processor or on a handler task, one request of a connection at a time. Each function
 *             below says who may call it.
 * Ownership:  a struct net_request belongs to api/ from handle() until it is answered: for a
 *             verdict other than NET_PARKED_* until handle() returns (NET_STAGED: flush()), for a
 *             parked one until net_answer_later(). Memory is pooled by the processor.
 * Invariants: [NET-1] answers leave in the order of their requests.
 *             [NET-2] every request that handle() parked is given back by exactly one
 *             net_answer_later(), also after on_cancel(); net drops the answer of a closed
 *             connection.
 *             [NET-3] a connection is run by one thread at a time.
 *             [NET-4] on_close() comes once, after the last request of the connection has ended.
 *             [NET-5] memory for a frame is reserved before its body is read and grows only with
 *             the bytes that arrive.
 * Failure:    whatever a peer does ends at worst in a closed connection and a counter. */
#ifndef NET_NET_H
#define NET_NET_H

#include "base/arena.h"
#include "base/err.h"
#include "base/logger.h"
#include "base/slice.h"
#include "purgatory/env.h"
#include "sys/sys.h"
#include "wire/writer.h"

struct net;
struct net_conn;
struct purg_owner;

/* ---- what a request looks like to api/ ---- */

enum net_verdict {
    NET_ANSWERED, /* req->answer is filled */
    NET_NONE, /* no answer is due (acks=0) */
    NET_CLOSE, /* close the connection; earlier answers that are ready leave first, this one never
                */
    NET_PARKED_PASS, /* effect done, answer comes later; later requests may run meanwhile */
    NET_PARKED_HOLD, /* comes later and blocks the connection until then */
    NET_SLOW, /* call again on a handler (on_handler is true there): 'op' says what is done already,
               * arena and answer are empty again */
    NET_STAGED, /* its effect comes with flush(), which sets its verdict; not on a handler. Later
                 * requests may be staged meanwhile */
    NET_FLUSH_FIRST, /* behind_staged, and it must see what they do: nothing was done, call flush()
                      * and then again */
};

/* A part of a file inside an answer. */
struct net_part {
    struct net_part *next;
    size_t at; /* leaves after this many bytes of the answer's buf */
    struct sys_file *file;
    uint64_t pos;
    size_t size;
    void (*release)(void *release_ctx); /* once, when sent or dropped; on the processor's thread */
    void *release_ctx;
};

#define NET_VAIN_MS 100 /* shorter waits would feel a millisecond more */

/* Response header and body. The 4 bytes of size in front are net's: do not write them. */
struct net_answer {
    struct wire_buf buf; /* empty at the start; write with wire_writer_init_buf() */
    struct net_part *first, *last; /* file slices in order, by net_answer_add_file() */
    uint64_t file_bytes; /* their sum */
    int32_t
        throttle_ms; /* the answer leaves at once, then the connection is not read for so long */
    bool close_after; /* close once this answer has left (failed authentication) */
    bool in_vain; /* a wait of NET_VAIN_MS or more brought nothing: what follows does not hurry */
};

struct net_request {
    /* Set by net, constant for api. */
    struct net_conn *conn;
    struct purg_owner *owner; /* completes delayed operations of this connection */
    struct purg_owner *self; /* 'owner' when on its thread, NULL on a handler: purgatory's 'self' */
    struct mslice frame; /* without the size; may be changed in place; empty once released */
    uint64_t received_ns; /* the turn in which the frame was complete */
    unsigned processor; /* its number, below NET_PROCESSORS_MAX */
    bool on_handler; /* a thread that may wait for a disk */
    bool behind_staged; /* requests that came before it are staged */
    /* Memory of the request: decoding and building the answer. Lives until the answer has left, so
     * release_ctx may point into it. Gone after net_request_release(); back with
     * net_request_resume(). Its limit is 8 times the frame and 64 KiB; api may raise it. */
    struct arena *arena;
    /* Small memory for what stays while the request is parked (operation, watch nodes, positions).
     * Lives until the request has ended, whatever happens to 'arena'. */
    struct arena *park_arena;
    /* Api's own; zeroed for each request, kept from NET_SLOW to the handler. */
    void *op;
    uint32_t tag; /* Api's own, for on_sent(): what kind of request it is */
    struct net_answer answer;
    /* What became of it: handle() returns it, flush() sets it. */
    enum net_verdict verdict;
    struct net_request *turn_next;
};

/* Requests that said NET_STAGED, in order of their connections and, within one, of arrival: what
 * has come in one turn of a processor. Bounded by NET_TURN_* (net_int.h). */
struct net_turn {
    struct net_request *first, *last;
    size_t count, bytes;
};

/* When a request passed which point; each at least the one before. */
struct net_times {
    uint64_t received_ns;
    uint64_t started_ns; /* handle() began, the last time */
    uint64_t handled_ns; /* and returned */
    uint64_t done_ns; /* answered; later than handled_ns if it was parked */
    uint64_t sent_ns; /* the answer has left */
};

/* ---- calls for api/, on the thread that runs the request ---- */

/* Puts a slice of a file into the answer behind the first 'at' bytes of buf; calls rise in 'at'.
 * release (may be NULL) is called exactly once, also if the answer never leaves; on error it is
 * not called. */
NODISCARD enum err net_answer_add_file(struct net_request *req, size_t at, struct sys_file *file,
                                       uint64_t pos, size_t size,
                                       void (*release)(void *release_ctx), void *release_ctx);

/* Gives frame, arena and answer memory back early: for requests that park after their effect, to be
 * called before the operation is parked. File slices added so far are released. */
void net_request_release(struct net_request *req);

/* Counts memory that the request needs beyond its frame against queued.max.request.bytes, until the
 * request has ended. False, and nothing is counted: half of it is used, or frames wait in line; the
 * request is to be refused. One that is alone always gets it. The thread that runs the request. */
NODISCARD bool net_request_reserve(struct net_request *req, size_t bytes);

/* Takes arena and answer memory for a request that released them; no effect if it has them. Owner's
 * thread, before the answer is written (on_complete). Without memory: ERR_NOMEM; then call
 * net_answer_later() with answer.buf left empty: the connection is closed. */
NODISCARD enum err net_request_resume(struct net_request *req);

/* Completes a parked request, [NET-2]. Owner's thread (purgatory's on_complete). It may come before
 * handle() has returned on a handler. Nothing may touch req afterwards. */
void net_answer_later(struct net_request *req);

/* Constant facts about a connection; any thread that runs its request, and the owner. */
const char *net_conn_listener(const struct net_conn *conn); /* name, "PLAINTEXT" */

/* ---- the table from broker/ ---- */

struct net_api {
    void *ctx;
    /* Decodes and runs one request. Must not wait unless req->on_handler. now_ns: at or after its
     * arrival, so that what it waits until is not early [NET-11]. */
    enum net_verdict (*handle)(void *ctx, struct net_request *req, uint64_t now_ns);
    /* Does what was staged and sets each verdict, to any but the last two. When one says NET_SLOW
     * the later ones of its connection must say so too. On the processor of all of them. NULL:
     * handle() stages nothing. */
    void (*flush)(void *ctx, const struct net_turn *turn, uint64_t now_ns);
    /* The connection of a parked request has closed: end its operation soon (purg_op_cancel), so
     * that net_answer_later() comes. A Produce may also stay until its time. Owner's thread; it may
     * call net_answer_later() itself. NULL: parked requests end by themselves. */
    void (*on_cancel)(void *ctx, struct net_request *req);
    /* A request that said NET_SLOW with an op will not run again, its connection has closed: give
     * back what op holds. Owner's thread. May be NULL. */
    void (*on_drop)(void *ctx, struct net_request *req);
    /* The request's answer has left whole, or it needed none; frame and arenas may be gone. Owner's
     * thread. May be NULL. */
    void (*on_sent)(void *ctx, const struct net_request *req, const struct net_times *times);
    /* Last sight of a connection, [NET-4]. Owner's thread. May be NULL. */
    void (*on_close)(void *ctx, struct net_conn *conn);
};

/* ---- configuration ---- */

enum net_security { NET_PLAINTEXT, NET_SSL, NET_SASL_PLAINTEXT, NET_SASL_SSL };

/* "PLAINTEXT", "SSL", ... in any case; false for anything else. */
bool net_security_parse(const char *text, enum net_security *out);

struct net_listener_config {
    const char *name; /* "PLAINTEXT", "CONTROLLER"; copied */
    const char *host; /* NULL or "": all interfaces */
    uint16_t port; /* 0: any */
    enum net_security security; /* only NET_PLAINTEXT works now; others: ERR_UNSUPPORTED */
    bool is_control; /* the control plane: 1 processor, queue of 20, own handler, no max.connections
                      */
};

struct net_ip_limit {
    const char *address; /* as the peer shows it: "127.0.0.1" */
    uint32_t connections_max;
};

/* May be changed while running. */
struct net_limits {
    uint32_t connections_max; /* max.connections, all data listeners together */
    uint32_t connections_per_ip_max; /* max.connections.per.ip */
    const struct net_ip_limit *overrides; /* max.connections.per.ip.overrides; copied */
    size_t overrides_count;
};

struct net_config {
    const struct net_listener_config *listeners;
    size_t listeners_count; /* at most NET_LISTENERS_MAX */
    uint32_t processors_count; /* per data listener (num.network.threads) */
    uint32_t handlers_count; /* num.io.threads, at most NET_HANDLERS_MAX */
    uint32_t readers_count; /* tasks that warm cold file ranges */
    uint32_t backlog; /* socket.listen.backlog.size */
    int32_t send_buffer_bytes, receive_buffer_bytes; /* of sockets; -1: the system's */
    uint32_t frame_bytes_max; /* socket.request.max.bytes */
    uint32_t queued_requests_max; /* queued.max.requests */
    uint64_t queued_bytes_max; /* queued.max.request.bytes */
    uint64_t idle_max_ms; /* connections.max.idle.ms; 0: never */
    uint64_t partial_max_ms; /* a frame must be whole this long after its first byte; each 64 KiB
                              * that came give it a second more */
    uint64_t stalled_max_ms; /* unsent answers must move at least this often */
    uint32_t in_flight_max; /* requests of one connection that are received and not answered */
    uint64_t output_bytes_max; /* unsent answers of one connection, file slices included, beyond
                                * which it is not read */
    struct net_limits limits;
    const struct logger *logger; /* NULL: silent */
    struct purg_env purg_env; /* for the processors' purgatory owners; copied */
};

#define NET_LISTENERS_MAX 16
#define NET_PROCESSORS_MAX 256
#define NET_HANDLERS_MAX 64

/* Kafka's defaults, ours where they differ: no listener, no logger, purg_env left empty. */
void net_config_init(struct net_config *config);

/* ---- life; all from the thread that starts and stops the broker ---- */

/* Listens and starts all tasks. The config's strings are copied. On failure nothing runs and a log
 * line says what was wrong: ERR_BUSY (a port), ERR_UNSUPPORTED (security), ERR_INVALID, ERR_NOMEM.
 */
NODISCARD enum err net_start(struct sys *sys, const struct net_config *config,
                             const struct net_api *api, struct net **out);

/* The real port of listener 'index' (as in the config); for port 0. */
uint16_t net_port(const struct net *net, size_t index);

/* Any thread. On ERR_NOMEM the old limits stay. Connections that exceed new limits stay open. */
NODISCARD enum err net_reconfigure(struct net *net, const struct net_limits *limits);

/* False: a processor has not finished a turn for NET_TURN_MAX_NS since it was asked. Asks all
 * processors, so the first answer is always true. One thread at a time; before net_stop(). */
#define NET_TURN_MAX_NS (5000 * SYS_MS)
bool net_is_turning(struct net *net, uint64_t now_ns);

/* Shutdown in this order; each may be left out, net_stop() does all.
 * Closes the listeners. */
void net_stop_accepting(struct net *net);
/* No further byte is read; requests whose frames were complete still run. Returns when every
 * processor knows. */
void net_stop_reading(struct net *net);
/* Ends all delayed operations of the processors (PURG_SHUTDOWN) and waits until every answer has
 * left. False at the deadline (sys_mono_ns): some connection still had something to send. */
NODISCARD bool net_drain(struct net *net, uint64_t deadline_ns);
/* Closes all connections, waits for handlers and readers, ends the tasks, frees. Accepts NULL. */
void net_stop(struct net *net);

/* ---- counters ---- */

enum net_close_reason {
    NET_CLOSED_PEER, /* end of stream or reset */
    NET_CLOSED_FRAME, /* a size that cannot be; something that is not Kafka */
    NET_CLOSED_IDLE,
    NET_CLOSED_PARTIAL, /* a frame did not become whole in time */
    NET_CLOSED_STALLED, /* the peer did not take its answers */
    NET_CLOSED_API, /* NET_CLOSE or close_after */
    NET_CLOSED_FILE, /* a file slice came up short or could not be read */
    NET_CLOSED_MEMORY,
    NET_CLOSED_LIMIT, /* max.connections and per ip, at accept */
    NET_CLOSED_STOP,
    NET_CLOSED_REASONS,
};

const char *net_close_reason_name(enum net_close_reason reason);

/* Sums over all tasks; each grows only, but for connections and queued_bytes. */
struct net_counters {
    uint64_t connections; /* open now */
    uint64_t queued_bytes; /* reserved for frames now */
    uint64_t accepted;
    uint64_t closed[NET_CLOSED_REASONS];
    uint64_t requests;
    uint64_t parked; /* requests that were parked */
    uint64_t bytes_in, bytes_out;
    uint64_t recv_calls, send_calls;
    uint64_t file_pieces, file_bytes; /* by sendfile */
    uint64_t copied_bytes; /* small slices, read and sent with the rest */
    uint64_t cold_pieces; /* handed to a reader */
    uint64_t steals; /* connections that a handler took from a stuck processor */
    uint64_t slow; /* requests that asked for a handler */
    uint64_t memory_waits; /* frames that waited for queued_bytes_max */
    uint64_t accept_pauses; /* out of descriptors */
    uint64_t patient; /* times that a connection became patient */
    uint64_t wakes; /* sleeping tasks of net that were woken: a system call each */
    uint64_t allocations; /* pool misses on the request path; growth of kept buffers included */
};

/* Any thread; near, not a snapshot. */
void net_counters_get(const struct net *net, struct net_counters *out);

/* One processor's part. */
struct net_processor_counters {
    const char *listener; /* borrowed from the net */
    uint64_t connections; /* open now */
    uint64_t opened, gone;
    uint64_t expired; /* closed since they were idle */
    uint64_t requests;
    uint64_t bytes_in, bytes_out;
    uint32_t queued; /* connections with requests that wait to be run */
};

/* False: there are no more than index processors. */
bool net_processor_counters_get(const struct net *net, size_t index,
                                struct net_processor_counters *out);
/* Connections whose requests wait for a handler; bytes that frames of the data plane may still
 * take. */
uint32_t net_slow_count(const struct net *net);
uint64_t net_memory_left(const struct net *net);

#endif
