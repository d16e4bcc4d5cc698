/* load.h - one load against one broker: its options, its loop, its measured window.
 *
 * Place:      bench/wire. main.c parses options and prints; the modes (produce, fetch, parked,
 *             longpoll) say what is sent next and what an answer must look like.
 * Thread:     one.
 * Ownership:  load_run() opens and closes everything that it uses but the topics.
 * Invariants: [LOAD-1] each answer's error code is looked at. [LOAD-2] in an open loop a latency
 *             begins at the intended time, also when the request could not be sent then, and each
 *             request whose intended time lies in the window is counted. [LOAD-3] no request is
 *             issued after the window, and all in flight are awaited.
 * Failure:    errors in answers are counted and shown; anything else ends the program. */
#ifndef BENCH_WIRE_LOAD_H
#define BENCH_WIRE_LOAD_H

#include "conn.h"
#include "hist.h"
#include "usage.h"

enum { CONNECTIONS_MAX = 60000, TARGETS_MAX = 200000 };

struct options {
    const char *mode;
    const char *topic; /* prefix of the topics' names */
    uint16_t port;
    int broker_pid;
    int16_t acks;
    bool keep_topics;
    bool use_topics; /* they exist already */
    bool spread; /* each connection walks over all partitions */
    uint32_t connections;
    uint32_t depth;
    uint32_t topics;
    uint32_t partitions; /* of each topic */
    uint32_t batch_bytes;
    uint32_t record_bytes;
    uint32_t fetch_bytes;
    uint32_t wait_ms;
    uint32_t gap_us;
    uint64_t bytes_max; /* issued in all, 0: no limit */
    uint64_t load_bytes; /* written before a fetch load begins */
    double rate; /* requests a second, 0: closed loop */
    double seconds;
    double warm_seconds;
};

enum phase { PHASE_WARM, PHASE_WINDOW, PHASE_DRAIN };

struct load;

struct mode {
    const char *name;
    void (*prepare)(struct load *l); /* connections are open, nothing is sent; may be NULL */
    void (*start)(struct load *l, int64_t now);
    void (*answer)(struct load *l, struct conn *c, const struct answer *a);
    int64_t (*tick)(struct load *l, int64_t now); /* returns when it wants to be called next */
    void (*report)(const struct load *l); /* more members of the result; may be NULL */
};

extern const struct mode mode_produce;
extern const struct mode mode_fetch;
extern const struct mode mode_parked;
extern const struct mode mode_longpoll;

struct load {
    const struct options *options;
    const struct mode *mode;
    int epoll_fd;
    int admin_fd;
    struct target *targets;
    uint32_t targets_count;
    struct conn *conns;
    uint32_t conns_count;
    uint32_t conns_started; /* long polls: the first rounds are spread over time */
    struct batch batch;
    struct hist hist;
    enum phase phase;
    int64_t start_ns;
    struct usage before;
    struct usage after;
    uint64_t requests; /* answered in the window */
    uint64_t bytes; /* of records, in them */
    uint64_t records;
    uint64_t bytes_issued; /* since the start */
    uint64_t errors; /* since the start, any phase */
    uint64_t early; /* long polls answered before their time */
    int64_t early_ns_max; /* by how much at most */
    uint64_t wraps; /* fetchers that began again at offset 0 */
    int first_error;
    int64_t *ends; /* fetch: the end offset of each target */
};

extern const int64_t TIME_NEVER;

/* Topics: create all and wait until each partition answers; delete all. */
void load_create_topics(struct load *l);
void load_delete_topics(struct load *l);
int64_t load_end_offset(struct load *l, uint32_t target);

void load_run(struct load *l);
void load_close(struct load *l);

/* For the modes. */
bool load_is_open_loop(const struct load *l);
void load_count_error(struct load *l, int16_t error);
/* Counts one answer if it belongs to the window. */
void load_count(struct load *l, const struct answer *a, uint64_t bytes, uint64_t records);

#endif
