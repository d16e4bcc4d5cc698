/* controller_int.h - deciding mutations: pure but for the topic ids it draws.
 *
 * A 'deciding' is an image that grows mutation by mutation, together with the records that make it;
 * marks allow to go back. */
#ifndef CLUSTER_CONTROLLER_INT_H
#define CLUSTER_CONTROLLER_INT_H

#include "cluster/controller.h"
#include "meta/journal.h"
#include "meta/records.h"

struct deciding {
    struct sys *sys; /* entropy for topic ids */
    int32_t node_id;
    int64_t broker_epoch;
    const struct config_set *statics;
    struct meta_image *image; /* after the records so far; a reference */
    struct wire_buf bytes;
    struct slice *records; /* sizes; 'at' is set by deciding_point_records() */
    size_t records_count, records_max;
};

struct deciding_mark {
    struct meta_image *image; /* a reference */
    size_t bytes, records_count;
};

NODISCARD enum err deciding_init(struct deciding *d, struct meta_image *image, struct sys *sys,
                                 int32_t node_id, int64_t broker_epoch,
                                 const struct config_set *statics);
void deciding_fini(struct deciding *d);
struct deciding_mark deciding_mark(const struct deciding *d);
void deciding_restore(struct deciding *d, const struct deciding_mark *mark);
void deciding_mark_fini(struct deciding_mark *mark);
/* Makes records[] point at their bytes, which move while more are added. */
void deciding_point_records(struct deciding *d);

/* Carries out one mutation on d->image and adds its records; the caller restores a mark on error.
 */
NODISCARD enum err controller_decide(struct deciding *d, struct controller_mutation *m);
NODISCARD enum err controller_decide_registration(struct deciding *d,
                                                  const struct meta_endpoint *endpoints,
                                                  size_t endpoints_count, const char *rack,
                                                  struct uuid incarnation);
/* An upper bound of the record bytes that a request makes. */
size_t controller_weight(const struct controller_request *request);

struct meta_topic *controller_topic_ref(const struct meta_topic *topic);
void controller_topic_unref(struct meta_topic *topic); /* accepts NULL */

#endif
