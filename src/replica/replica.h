/* replica.h - the partitions of this broker: their state, their high watermark, and who waits for
 * them.
 *
 * Place:      floor 4. Owns the data directories (log/dir.h) and the purgatories of produce and
 *             fetch; api/ appends, reads and parks here. The controller's hooks add and remove
 *             partitions.
 * Thread:     partitions are looked up and used from any thread; what changes the set of
 *             partitions runs on the controller's task or at start-up. A partition's published
 *             state (state, epoch, hw) is atomic.
 * Order:      state before cancel: a partition's state is set first, then its operations are
 *             cancelled; try_complete treats a state other than online as complete, so nobody
 *             waits for a timeout.
 * Invariants: [REP-1] the high watermark never moves back while the broker runs. [REP-2] hw <=
 *             leo. [REP-3] under the group policy hw <= synced: what is readable survives. [REP-4]
 *             keys are checked only while no lock is held.
 * Failure:    a directory that goes offline takes its partitions offline; the others go on. */
#ifndef REPLICA_REPLICA_H
#define REPLICA_REPLICA_H

#include "log/dir.h"
#include "meta/config.h"
#include "purgatory/purgatory.h"

struct replica_manager;

enum partition_state {
    PARTITION_ONLINE,
    PARTITION_OFFLINE, /* its directory failed: KAFKA_STORAGE_ERROR */
    PARTITION_DELETED, /* UNKNOWN_TOPIC_OR_PARTITION */
    PARTITION_STOPPING, /* the broker stops: NOT_LEADER_OR_FOLLOWER, clients look elsewhere */
};

/* What metrics show of a partition; relaxed, in the cache line that references touch anyway. */
struct partition_counters {
    _Atomic uint64_t bytes_in, messages_in, produces; /* appended; produces: also refused ones */
    _Atomic uint64_t bytes_out, fetches; /* handed out; reads, also those that found nothing */
    _Atomic uint64_t produces_expired; /* acknowledgements that did not come in time */
};

static inline void partition_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline uint64_t partition_counted(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void partition_counters_add(struct partition_counters *to,
                                          const struct partition_counters *from)
{
    partition_count(&to->bytes_in, partition_counted(&from->bytes_in));
    partition_count(&to->messages_in, partition_counted(&from->messages_in));
    partition_count(&to->produces, partition_counted(&from->produces));
    partition_count(&to->bytes_out, partition_counted(&from->bytes_out));
    partition_count(&to->fetches, partition_counted(&from->fetches));
    partition_count(&to->produces_expired, partition_counted(&from->produces_expired));
}

/* One partition that this broker leads. Reference counted. */
struct partition {
    _Atomic uint32_t refs;
    struct partition_counters counters;
    /* enum partition_state; release in partition_set_state(), acquire in partition_state() */
    _Atomic int state;
    _Atomic int32_t leader_epoch;
    _Atomic int64_t hw; /* release in partition_advance(), acquire in partition_hw() */
    int32_t index;
    struct uuid topic_id;
    struct log *log; /* a reference */
    struct replica_manager *manager;
};

struct replica_options {
    struct sys *sys;
    const struct logger *logger;
    const struct config_set *statics;
    struct meta_publisher *publisher;
    int32_t node_id;
    enum log_flush_policy flush_policy;
    const struct purg_env *purg_env;
};

/* ---- life ---- */

NODISCARD enum err replica_create(const struct replica_options *options,
                                  struct replica_manager **out);
/* BLOCKS. Opens (creating it) one data directory. Before replica_load(). */
NODISCARD enum err replica_open_dir(struct replica_manager *m, const char *path,
                                    const char *cluster_id);
/* BLOCKS. Joins the logs that were found with the image: a log whose topic id the image does not
 * know is set aside, a partition without a log gets an empty one. */
NODISCARD enum err replica_load(struct replica_manager *m, const struct meta_image *image);
/* Every partition leaves the online state and its operations end, retriable. From here on appends
 * are refused. */
void replica_stop_partitions(struct replica_manager *m);
/* BLOCKS. One flush of all directories: what was appended is synced and its produces complete. */
void replica_flush(struct replica_manager *m);
/* BLOCKS. Closes the directories: clean leaves manifest and marker. No request may run any more. */
void replica_destroy(struct replica_manager *m, bool is_clean, int64_t broker_epoch);

/* ---- the controller's hooks ---- */

NODISCARD enum err replica_add_partitions(struct replica_manager *m, const struct meta_image *next,
                                          const struct meta_topic *topic, int32_t from);
/* The partitions from 'from' on are gone, with their logs. */
void replica_remove_partitions(struct replica_manager *m, const struct meta_topic *topic,
                               int32_t from);
/* Topic and broker overrides that concern logs take effect. */
void replica_config_changed(struct replica_manager *m, const struct meta_image *image,
                            enum meta_resource type, struct slice name);

/* ---- partitions ---- */

/* A reference, or NULL. */
struct partition *replica_find(struct replica_manager *m, struct uuid topic_id, int32_t index);
struct partition *partition_ref(struct partition *p);
void partition_unref(struct partition *p); /* accepts NULL */
size_t replica_partitions_count(struct replica_manager *m);
/* Calls visit with every partition, borrowed; no lock is held. */
void replica_each(struct replica_manager *m, void (*visit)(void *ctx, struct partition *p),
                  void *ctx);

#define REPLICA_SNAPSHOT_STEP 256
/* The partitions at one moment, referenced; the caller gives them back. */
struct replica_snapshot {
    struct partition **partitions;
    size_t count;
    struct partition_counters gone; /* sums over those that were removed */
};
/* Locks the table for at most REPLICA_SNAPSHOT_STEP partitions at a time, unless some are removed
 * again and again meanwhile. ERR_NOMEM leaves *out empty. */
NODISCARD enum err replica_snapshot_take(struct replica_manager *m, struct replica_snapshot *out);
void replica_snapshot_drop(struct replica_snapshot *s); /* idempotent */

static inline enum partition_state partition_state(const struct partition *p)
{
    return (enum partition_state)atomic_load_explicit(&p->state, memory_order_acquire);
}

static inline int64_t partition_hw(const struct partition *p)
{
    return atomic_load_explicit(&p->hw, memory_order_acquire);
}

static inline int32_t partition_leader_epoch(const struct partition *p)
{
    return atomic_load_explicit(&p->leader_epoch, memory_order_acquire);
}

/* Without transactions nothing is unstable: the last stable offset is the high watermark. */
static inline int64_t partition_lso(const struct partition *p)
{
    return partition_hw(p);
}

/* The purgatory key of a partition. */
static inline struct purg_key partition_key(const struct partition *p)
{
    return (struct purg_key){uuid_hi(p->topic_id), uuid_lo(p->topic_id), (uint64_t)p->index};
}

/* Appends; log_append's contract, plus: a partition that is not online answers LOG_REJECT_STORAGE
 * or ERR_CLOSED. Afterwards, and when no lock is held, partition_advance() must be called if
 * anything was appended. */
void partition_append(struct partition *p, struct log_append_args *const args[],
                      struct log_append_result *const out[], size_t count);
/* Moves the high watermark to where the flush policy allows and wakes who waits for it. self:
 * purgatory's. No lock held. */
void partition_advance(struct partition *p, struct purg_owner *self);
/* The same in two steps, for several partitions: raise answers whether the watermark moved; then
 * wake looks after all who wait for those that did, given by their keys. No lock held. */
NODISCARD bool partition_raise(struct partition *p);
void replica_wake(struct replica_manager *m, struct purg_owner *self, const struct purg_key *keys,
                  size_t count);
/* The log start moved or the state changed: whoever waits looks again. */
void partition_check(struct partition *p, struct purg_owner *self);

/* ---- shared parts for api/ ---- */

struct purgatory *replica_produce_purgatory(struct replica_manager *m);
struct purgatory *replica_fetch_purgatory(struct replica_manager *m);
size_t replica_dirs_count(const struct replica_manager *m);
struct logdir *replica_dir(const struct replica_manager *m, size_t index);

/* The log configuration of a topic: overrides, then broker values, then defaults. */
void replica_log_config(const struct config_scope *scope, struct slice topic,
                        struct log_config *out);

#endif
