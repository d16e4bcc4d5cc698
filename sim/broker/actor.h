/* actor.h - simulated clients: producers of four kinds, fetchers with and without sessions, both on
 * one connection, and one that deletes records and a topic.
 *
 * Place:      sim/broker; driven between steps of the world.
 * Invariants: [ACT-1] an idempotent producer has at most five batches in flight; its oldest one,
 *             sent again after any loss, is answered with success or a retriable error, never with
 *             a sequence error. [ACT-2] an empty fetch that waits is not answered before its time.
 *             [ACT-3] a fetch returns whole batches without a gap from the one that holds its
 *             offset, all below the high watermark. [ACT-4] what nothing holds up is answered soon.
 *             [ACT-5] a deletion ends what waits for the topic; a new topic of the name has nothing
 *             of the old one. */
#ifndef BROKER_ACTOR_H
#define BROKER_ACTOR_H

#include "conn.h"
#include "ghost.h"

#define ACTOR_TOPIC "sim"
#define ACTOR_VOLATILE "volatile" /* one partition; is deleted and created again and again */
#define ACTOR_WINDOW 5

enum actor_kind {
    ACTOR_IDEMPOTENT, /* acks=all, sends again until it knows */
    ACTOR_ALL, /* acks=all, never again */
    ACTOR_ONE, /* acks=1 */
    ACTOR_ZERO, /* acks=0 */
    ACTOR_FETCHER,
    ACTOR_MIXED, /* ACTOR_ALL, fetches and ApiVersions, pipelined on one connection */
    ACTOR_SESSION, /* fetches all partitions of ACTOR_TOPIC in a session */
    ACTOR_ADMIN, /* deletes records, and the volatile topic */
};

enum topic_state { TOPIC_GONE, TOPIC_CREATING, TOPIC_STABLE, TOPIC_DELETING };

struct actor_world {
    struct sim *sim;
    struct sim_host *host;
    struct ghost *ghost;
    uint16_t port; /* 0: the broker is not there */
    uint32_t partitions_count; /* of ACTOR_TOPIC; the volatile topic's one is behind them */
    enum topic_state volatile_state; /* as the admin knows it */
    uint32_t volatile_generation; /* rises with each change of it */
    uint64_t volatile_gone_ns; /* when a deletion was last answered */
    uint64_t volatile_back_ns; /* since when it may be there again */
    bool keeps_acks_one; /* the flush policy and the faults are such that acks=1 is a promise too */
    uint64_t pace_ms; /* between two sends of a client, at most */
    uint64_t patience_ns; /* how late an answer may be, for how often fibers are preempted */
    uint64_t troubled_ns; /* until when a fault made waiting longer than it should be */
    bool is_draining; /* nothing new */
    bool is_stopping; /* the broker is: waiting ends early */
};

struct actor_batch {
    uint32_t partition;
    struct sim_record first;
    uint32_t count;
    int32_t base_sequence;
    bool is_sent;
    bool is_acked;
};

struct actor {
    struct actor_world *world;
    enum actor_kind kind;
    uint32_t number;
    struct conn conn;
    uint64_t next_ns; /* when it wants its turn */
    uint32_t partition;
    uint64_t number_next;
    /* idempotent */
    int64_t producer_id;
    int16_t producer_epoch;
    bool is_asking_id;
    bool has_failed; /* wait for the outstanding answers, then send again */
    int32_t sequence_next;
    struct actor_batch window[ACTOR_WINDOW];
    size_t window_count;
    /* fetching */
    int64_t offset;
    uint32_t offset_generation; /* of the volatile topic, that 'offset' is of */
    int64_t session_offsets[PENDING_PARTS_MAX], session_sent[PENDING_PARTS_MAX];
    int64_t session_max[PENDING_PARTS_MAX];
    int32_t session_id, session_epoch;
    bool is_auditing; /* from 0 to the high watermark, then done */
    bool is_done;
    uint64_t answers;
    int16_t last_code; /* of a fetch */
};

void actor_init(struct actor *a, struct actor_world *w, enum actor_kind kind, uint32_t number);
void actor_fini(struct actor *a);
void actor_turn(struct actor *a);
/* Has nothing outstanding: every request answered, every idempotent batch acknowledged. */
bool actor_is_quiet(const struct actor *a);

#endif
