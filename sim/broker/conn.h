/* conn.h - one connection of a simulated client: frames out, answers back in order.
 *
 * Place:      sim/broker, over sim_connect().
 * Invariants: [CON-1] each answer carries the correlation id of the oldest request that waits: none
 *             is skipped, answered twice or out of turn. [CON-2] none waits longer than
 *             CONN_ANSWER_MAX_NS while the connection stands. */
#ifndef BROKER_CONN_H
#define BROKER_CONN_H

#include "bytes.h"
#include "sim/machine.h"

#define CONN_PENDING_MAX 32
#define CONN_ANSWER_MAX_NS (60000 * SYS_MS)

enum {
    API_PRODUCE = 0,
    API_FETCH = 1,
    API_VERSIONS = 18,
    API_CREATE_TOPICS = 19,
    API_DELETE_TOPICS = 20,
    API_DELETE_RECORDS = 21,
    API_INIT_PID = 22
};

#define PENDING_PARTS_MAX 2

struct pending_part { /* a partition that a fetch asks for */
    uint32_t partition;
    int64_t offset;
    int64_t hw_known, start_known; /* when it was sent */
};

struct pending {
    int32_t correlation;
    int16_t api;
    uint64_t sent_ns;
    /* The actor's notes. */
    uint32_t partition;
    struct sim_record first;
    uint32_t count;
    int64_t offset; /* of DeleteRecords */
    struct pending_part parts[PENDING_PARTS_MAX];
    size_t parts_count;
    uint32_t generation; /* of the topic that comes and goes */
    uint32_t wait_ms;
    bool was_head;
    bool is_first; /* no other request waited on the connection */
    size_t wants_bytes; /* so many end the wait; 0: not looked at */
    bool is_waiting; /* an empty answer may not come before wait_ms */
};

struct conn {
    struct sim *sim;
    struct sys_stream *stream; /* NULL: closed */
    struct bytes out, in;
    struct pending pending[CONN_PENDING_MAX]; /* ring */
    size_t first, count;
    int32_t correlation;
};

void conn_open(struct conn *c, struct sim *sim, struct sim_host *host, uint16_t port);
void conn_close(struct conn *c); /* also when it is closed */
void conn_fini(struct conn *c);
bool conn_has_room(const struct conn *c);
/* Queues a frame; body without header. note NULL: no answer will come (acks=0). */
void conn_send(struct conn *c, int16_t api, int16_t version, const struct bytes *body,
               const struct pending *note);
/* Moves bytes; each answer goes to on_answer. False once the connection is gone (and closed). */
bool conn_pump(struct conn *c,
               void (*on_answer)(void *ctx, const struct pending *p, struct look *l), void *ctx);

#endif
