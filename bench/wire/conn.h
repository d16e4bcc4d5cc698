/* conn.h - one connection of the generator: requests in flight, gathered sends, streamed answers.
 *
 * Place:      bench/wire, between the loads (load.c and the modes) and the socket.
 * Thread:     the one thread of the program; sockets do not block and are edge-triggered.
 * Ownership:  conn_open() fills the caller's struct, conn_close() frees what it holds.
 * Invariants: [CONN-1] answers come in request order: each answer's correlation id is that of the
 *             oldest request in flight.  [CONN-2] at most depth requests are in flight.
 * Failure:    a closed connection, a reset or a frame out of order ends the program (die). */
#ifndef BENCH_WIRE_CONN_H
#define BENCH_WIRE_CONN_H

#include "frame.h"

enum {
    CONN_DEPTH_MAX = 256,
    CONN_REQUEST_HEAD_MAX = 256,
    CONN_ANSWER_HEAD_MAX = 256, /* of a longer answer the rest is dropped unread */
    CONN_SCRATCH_BYTES = 64 * 1024,
};

struct request {
    uint8_t head[CONN_REQUEST_HEAD_MAX];
    uint32_t head_size;
    uint32_t body_size;
    const uint8_t *body; /* borrowed; NULL when the head is everything */
    int32_t correlation;
    int64_t since_ns; /* where its latency begins: sent, or meant to be sent */
};

struct conn {
    int fd;
    uint32_t index;
    uint32_t depth;
    struct request *ring; /* depth slots */
    uint32_t first; /* oldest request in flight */
    uint32_t count; /* in flight */
    uint32_t unsent; /* the newest of them that are not sent whole */
    uint32_t sent_bytes; /* of the first unsent one */
    int32_t correlation_next;
    /* The answer that is arriving. */
    uint8_t head[FRAME_SIZE_PREFIX + CONN_ANSWER_HEAD_MAX];
    uint32_t head_have;
    uint32_t frame_size; /* 0: not known yet */
    uint32_t skip_left;
    /* The mode's own state. */
    uint64_t issued;
    int64_t offset;
    int64_t at_ns;
};

/* One whole answer: its first head_size bytes (without size prefix) and the oldest request. */
struct answer {
    const uint8_t *head;
    size_t head_size;
    uint32_t frame_size;
    const struct request *request;
    int64_t now_ns;
};

typedef void conn_on_answer(void *context, struct conn *c, const struct answer *a);

int64_t now_ns(void);

/* A blocking socket to 127.0.0.1 with TCP_NODELAY. */
int connect_port(uint16_t port);

void conn_open(struct conn *c, uint32_t index, uint16_t port, uint32_t depth);
void conn_close(struct conn *c);

/* The next free slot with its correlation id set, or NULL when depth are in flight. The caller
 * fills head, body and since_ns, then calls conn_flush(). */
struct request *conn_request(struct conn *c);

/* Sends what the socket takes now. */
void conn_flush(struct conn *c);

/* Reads all that has arrived; calls back once for each whole answer, which leaves the ring after.
 */
void conn_receive(struct conn *c, conn_on_answer *on_answer, void *context);

/* Blocking: sends one frame and reads one answer into a buffer that the caller frees. */
uint8_t *conn_ask(int fd, const uint8_t *frame, size_t size, size_t *answer_size);

#endif
