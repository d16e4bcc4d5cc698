/* fetch_session.h - incremental fetch sessions (KIP-227): the broker remembers a consumer's
 * partitions, requests name only changes.
 *
 * Place:      api/, used by fetch.c.
 * Thread:     any; the cache's lock finds and lists sessions, each has a lock of its own for its
 *             partitions. Never both; memory work only.
 * Bound:      max.incremental.fetch.session.cache.slots sessions, FETCH_SESSION_PARTITIONS_MAX
 *             partitions in one, FETCH_SESSIONS_PARTITIONS_MAX in all. When the cache is full,
 *             sessions that were not used for two minutes make room; otherwise the new consumer
 *             gets no session (id 0), and one that grows too large is closed.
 * Invariants: [FS-1] a session's epoch rises by one with each request that is accepted, from
 *             INT32_MAX to 1. [FS-2] a partition is in a session once. */
#ifndef API_FETCH_SESSION_H
#define API_FETCH_SESSION_H

#include "api/errors.h"
#include "base/arena.h"
#include "base/uuid.h"
#include "sys/sys.h"
#include "wire/gen/fetch_request.h"

#define FETCH_SESSION_PARTITIONS_MAX ((size_t)100000) /* of one session */
#define FETCH_SESSIONS_PARTITIONS_MAX ((size_t)500000) /* of all; about 300 bytes each */

struct fetch_sessions;

/* What is fetched from one partition. */
struct fetch_want {
    struct slice topic; /* null in versions with topic ids */
    struct uuid id; /* zero in versions with names */
    int64_t offset;
    int32_t index;
    int32_t bytes_max;
    int32_t current_leader_epoch;
    int32_t last_fetched_epoch;
};

/* One request's view of its session. */
struct fetch_context {
    int32_t session_id; /* 0: none */
    bool is_incremental; /* unchanged partitions are left out of the answer */
    struct fetch_want *wants; /* in the arena, names too */
    size_t wants_count;
};

/* [FS-1] */
static inline int32_t fetch_session_next_epoch(int32_t epoch)
{
    return epoch == INT32_MAX ? 1 : epoch + 1;
}

struct fetch_sessions *fetch_sessions_create(struct sys *sys, size_t sessions_max);
void fetch_sessions_destroy(struct fetch_sessions *s); /* accepts NULL */
size_t fetch_sessions_count(struct fetch_sessions *s);
size_t fetch_sessions_partitions(struct fetch_sessions *s);

/* How many partitions fetch_session_begin() would list, at most. */
size_t fetch_session_wants(struct fetch_sessions *s, const struct fetch_request *m);
/* Takes the request's changes over and lists what is to be fetched, in the session's order. arena:
 * the one that lives while the request is parked; NULL: there is no room for the list, nothing is
 * listed and no session begun, but one that is there goes on. *out_of_memory is set when the arena
 * or the heap is spent; the session is closed then. */
enum kafka_error fetch_session_begin(struct fetch_sessions *s, const struct fetch_request *m,
                                     int16_t version, uint64_t now_ns, struct arena *arena,
                                     struct fetch_context *out, bool *out_of_memory);

/* What a partition's answer holds: decides whether an incremental answer shows it, and remembers it
 * as sent. */
struct fetch_sent {
    enum kafka_error error;
    int64_t hw, log_start;
    bool has_records, has_divergence;
};
bool fetch_session_sent(struct fetch_sessions *s, const struct fetch_context *context,
                        const struct fetch_want *want, const struct fetch_sent *sent);

#endif
