/* image.h - the cluster's metadata at one point of its log: immutable, shared, read without a lock.
 *
 * Place:      meta/ applies records to images (pure); the controller (cluster/) makes new ones;
 *             every other room reads. The records are Kafka's KRaft records (TopicRecord,
 *             PartitionRecord, ConfigRecord, ...).
 * Thread:     an image never changes. meta_ref/meta_unref from any thread. Tasks keep a struct
 *             meta_view, which costs one atomic load a look unless something changed.
 * Ownership:  whoever holds a reference may use every pointer below it.
 * Invariants: [META-1] topics by name and by id hold the same topics. [META-2] partitions of a
 *             topic are dense from 0. [META-3] an image of a higher offset was made from this one
 *             by applying records in log order. */
#ifndef META_IMAGE_H
#define META_IMAGE_H

#include "base/err.h"
#include "base/slice.h"
#include "base/uuid.h"
#include "meta/tree.h"
#include "sys/sys.h"

/* The largest partition count of a topic and of one request. */
#define META_PARTITIONS_PER_TOPIC_MAX 100000
#define META_REPLICAS_MAX 32

enum meta_resource {
    META_RESOURCE_TOPIC = 2,
    META_RESOURCE_BROKER = 4
}; /* Kafka's ConfigResource types */

struct meta_partition {
    _Atomic uint32_t refs;
    int32_t index;
    int32_t leader; /* -1: none */
    int32_t leader_epoch;
    int32_t partition_epoch;
    uint32_t replicas_count;
    uint32_t isr_count;
    int32_t *replicas; /* in the same block as the struct */
    int32_t *isr;
};

struct meta_topic {
    _Atomic uint32_t refs;
    struct uuid id;
    struct tree_node *partitions; /* by big-endian index */
    char *name;
};

/* One (resource, key) override. */
struct meta_config {
    _Atomic uint32_t refs;
    char *value;
};

struct meta_endpoint {
    char *name;
    char *host;
    uint16_t port;
    int16_t security_protocol;
};

struct meta_broker {
    _Atomic uint32_t refs;
    int32_t id;
    int64_t epoch;
    char *rack; /* NULL: none */
    bool is_fenced;
    size_t endpoints_count;
    struct meta_endpoint *endpoints;
};

struct meta_image {
    _Atomic uint32_t refs;
    int64_t offset; /* of the last record applied; -1 at the start */
    struct tree_node *topics; /* by name: struct meta_topic */
    struct tree_node *topics_by_id; /* by the 16 bytes of the id */
    struct tree_node *configs; /* by meta_config_key(): struct meta_config */
    struct tree_node *brokers; /* by big-endian id */
    struct tree_node *features; /* by name: level as struct meta_config text */
    int64_t producer_id_next; /* first id of the next block */
    size_t partitions_count;
};

/* An empty image. NULL without memory. */
struct meta_image *meta_create(void);
struct meta_image *meta_ref(struct meta_image *image);
void meta_unref(struct meta_image *image); /* accepts NULL */

/* ---- look-ups: NULL when absent ---------------------------------------------------------------
 */

const struct meta_topic *meta_topic(const struct meta_image *image, struct slice name);
const struct meta_topic *meta_topic_by_id(const struct meta_image *image, struct uuid id);
const struct meta_partition *meta_topic_partition(const struct meta_topic *topic, int32_t index);
int32_t meta_topic_partitions_count(const struct meta_topic *topic);
size_t meta_topics_count(const struct meta_image *image);
const struct meta_broker *meta_broker(const struct meta_image *image, int32_t id);
const struct meta_endpoint *meta_broker_endpoint(const struct meta_broker *b,
                                                 struct slice listener);
/* The override's value, NULL when there is none. name "" with META_RESOURCE_BROKER: the
 * cluster-wide default. */
const char *meta_config(const struct meta_image *image, enum meta_resource type, struct slice name,
                        struct slice key);

void meta_each_topic(const struct meta_image *image, struct slice from_name,
                     bool (*visit)(void *ctx, const struct meta_topic *topic), void *ctx);
void meta_each_partition(const struct meta_topic *topic, int32_t from,
                         bool (*visit)(void *ctx, const struct meta_partition *p), void *ctx);
void meta_each_broker(const struct meta_image *image,
                      bool (*visit)(void *ctx, const struct meta_broker *b), void *ctx);
/* Overrides of one resource in key order. */
void meta_each_config(const struct meta_image *image, enum meta_resource type, struct slice name,
                      bool (*visit)(void *ctx, struct slice key, const char *value), void *ctx);

/* A topic outlives its image while it is referenced. */
void meta_topic_ref(struct meta_topic *topic);
void meta_topic_unref(struct meta_topic *topic);

/* ---- apply --------------------------------------------------------------------------------------
 */

/* One record's value as KRaft frames it: varint frame version (1), varint type, varint version,
 * body. */
/* Applies one record to *image, which is replaced by a new version (the old reference is dropped).
 * ERR_MALFORMED: the bytes or the move make no sense (an unknown topic, a partition twice);
 * ERR_UNSUPPORTED: an unknown record type. On error *image is as it was. */
NODISCARD enum err meta_apply(struct meta_image **image, struct slice record, int64_t offset);

/* Calls emit with the records that rebuild the image from an empty one, in an order that meta_apply
 * accepts; stops at its error. */
NODISCARD enum err meta_dump(const struct meta_image *image,
                             enum err (*emit)(void *ctx, struct slice record), void *ctx);

/* ---- publication ---- */

/* The newest image, for all tasks. The controller publishes, anybody looks. */
struct meta_publisher {
    struct sys_mutex lock;
    struct meta_image *image; /* guarded by lock */
};

void meta_publisher_init(struct meta_publisher *p,
                         struct meta_image *image); /* takes the reference */
void meta_publisher_fini(struct meta_publisher *p);
void meta_publish(struct meta_publisher *p, struct meta_image *image); /* takes the reference */
/* Any. A new reference. */
struct meta_image *meta_latest(struct meta_publisher *p);
#endif
