/* controller.h - the one place where the cluster's metadata changes: decides, writes the records,
 * publishes the new image.
 *
 * Place:      cluster/, a task of its own. With one broker it is a quorum of one: the journal
 *             (meta/journal.h) is its log; the Raft engine takes the journal's place later, the
 *             rest stays.
 * Thread:     controller_submit() from any task. Steps, hooks and done() run on the controller's
 *             task.
 * Order:      creation: replicas (hook) before the image that shows them; deletion: the image
 *             first, then the replicas (hook).
 * Ownership:  a submitted request and all it points to belong to the controller until done() is
 *             called, once; also at shutdown (then with ERR_CLOSED).
 * Invariants: [CTL-1] an image is published only after its records are synced. [CTL-2] requests
 *             are carried out in the order of their submission; those that wait together share one
 *             sync. [CTL-3] a mutation is whole or not at all.
 * Failure:    ERR_IO from the journal: every mutation from then on gets ERR_IO; the broker goes on
 *             with the image it has. */
#ifndef CLUSTER_CONTROLLER_H
#define CLUSTER_CONTROLLER_H

#include "meta/config.h"
#include "meta/image.h"

struct controller;

#define CONTROLLER_MUTATIONS_MAX 10000 /* of one request */

enum controller_kind {
    CONTROLLER_CREATE_TOPIC, /* name, partitions_count, replicas, configs; sets id */
    CONTROLLER_DELETE_TOPIC, /* id; ERR_NOTFOUND */
    CONTROLLER_CREATE_PARTITIONS, /* id, partitions_count: the new total; ERR_RANGE when it is not
                                     larger */
    CONTROLLER_ALTER_CONFIG, /* resource, name, configs, replaces_all */
    CONTROLLER_PRODUCER_IDS, /* sets producer_id_first: a block of CONTROLLER_PRODUCER_IDS_COUNT */
};

#define CONTROLLER_PRODUCER_IDS_COUNT 1000

enum controller_config_op { /* IncrementalAlterConfigs' numbers */
                            CONTROLLER_CONFIG_SET = 0,
                            CONTROLLER_CONFIG_DELETE = 1,
                            CONTROLLER_CONFIG_APPEND = 2,
                            CONTROLLER_CONFIG_SUBTRACT = 3,
};

struct controller_config {
    struct slice key;
    struct slice value; /* not for DELETE */
    enum controller_config_op op;
};

/* One change. Inputs are checked by api/ already (names, counts, types of values); the controller
 * decides what depends on the newest image: does it exist, what is the list that an element is
 * appended to. */
struct controller_mutation {
    enum controller_kind kind;
    struct slice name; /* topic, or resource name */
    struct uuid id;
    int32_t partitions_count;
    enum meta_resource resource;
    bool replaces_all; /* AlterConfigs: keys not given lose their override */
    const struct controller_config *configs;
    size_t configs_count;
    /* results */
    enum err result;
    char message[CONFIG_MESSAGE_SIZE]; /* when result is ERR_INVALID */
    int64_t producer_id_first;
};

struct controller_request {
    struct sys_msg msg;
    struct controller_mutation *mutations;
    size_t mutations_count;
    bool is_dry_run; /* decide and answer, change nothing */
    void (*done)(struct controller_request *request);
    void *ctx;
};

struct controller_hooks {
    void *ctx;
    /* Partitions [from, count of topic) of a topic in 'next' are about to be shown: make their
     * replicas. An error refuses the mutation. */
    enum err (*on_partitions_added)(void *ctx, const struct meta_image *next,
                                    const struct meta_topic *topic, int32_t from);
    /* These partitions will not be shown after all (their mutation or its sync failed): take back
     * what was made of them. */
    void (*on_partitions_undone)(void *ctx, const struct meta_topic *topic, int32_t from);
    /* The image that no longer holds this topic is published. */
    void (*on_topic_removed)(void *ctx, const struct meta_topic *topic);
    /* Overrides of a resource changed; the image that holds them is published. */
    void (*on_config_changed)(void *ctx, const struct meta_image *image, enum meta_resource type,
                              struct slice name);
};

struct controller_options {
    struct sys *sys;
    const struct logger *logger;
    const char *metadata_dir; /* holds __cluster_metadata-0 */
    int32_t node_id;
    const struct config_set *statics;
    uint64_t snapshot_bytes;
    struct meta_publisher *publisher;
    struct controller_hooks hooks;
};

/* Replays the journal and publishes its image; starts nothing yet. BLOCKS. */
NODISCARD enum err controller_create(const struct controller_options *options,
                                     struct controller **out);
/* Writes this broker's registration (a new broker epoch, listeners, rack) and starts the task.
 * BLOCKS. */
NODISCARD enum err controller_start(struct controller *c, const struct meta_endpoint *endpoints,
                                    size_t endpoints_count, const char *rack);
/* Of this start; after controller_start(). */
int64_t controller_broker_epoch(const struct controller *c);
void controller_submit(struct controller *c, struct controller_request *request);
/* Carries out what was submitted, refuses what comes later with ERR_CLOSED, ends the task. */
void controller_stop(struct controller *c);
void controller_destroy(struct controller *c); /* accepts NULL */

#endif
