/* api.h - Kafka's APIs: one file each; decode, look up, call, answer.
 *
 * Place:      floor 6. broker/ creates it and hands api_table() to net/. The dispatch table
 *             (dispatch.c) is also what ApiVersions advertises, so nothing is listed that is not
 *             answered.
 * Thread:     api_handle() runs on processors and handlers, one request of a connection at a time;
 *             on_complete of parked requests on the connection's processor.
 * Ownership:  see net/net.h; what a parked request keeps lies in its park arena.
 * Invariants: [API-1] Kafka's error codes are chosen here and nowhere below. [API-2] a request
 *             that did something is never answered NET_SLOW without remembering what
 *             (call->req->op). */
#ifndef API_API_H
#define API_API_H

#include "base/histogram.h"
#include "cluster/controller.h"
#include "net/net.h"
#include "replica/replica.h"

struct api;

struct api_options {
    struct sys *sys;
    const struct logger *logger;
    const struct config_set *statics;
    struct meta_publisher *publisher;
    struct replica_manager *replicas;
    struct controller *controller;
    const struct purg_env *purg_env;
    int32_t node_id;
    const char *cluster_id;
};

NODISCARD enum err api_create(const struct api_options *options, struct api **out);
void api_destroy(struct api *api); /* accepts NULL; after net_stop() */
/* Requests are answered from here on; earlier ones, between listening and registration, close their
 * connection. */
void api_open(struct api *api);
/* ---- for metrics; any thread ---- */

/* Where a request's time went: net_times' steps, in microseconds. */
enum api_time {
    API_TIME_TOTAL, /* received to sent */
    API_TIME_QUEUE, /* received to started */
    API_TIME_LOCAL, /* started to handled */
    API_TIME_REMOTE, /* handled to done: parked */
    API_TIME_SEND, /* done to sent */
    API_TIMES,
};

/* The APIs that are answered, ascending by key. NULL at and beyond the last. */
const char *api_name_at(size_t index);
/* Requests of version 'version' that were answered; false: that version is not served. */
bool api_requests_at(const struct api *api, size_t index, int16_t version, uint64_t *count);
/* Adds the times of all processors to *out. */
void api_times_at(const struct api *api, size_t index, enum api_time time, struct histogram *out);

/* Records that were refused, by what was wrong with their batch. */
enum api_refusal {
    API_REFUSED_MAGIC,
    API_REFUSED_CRC,
    API_REFUSED_SEQUENCE, /* offsets within the batch, or the producer's sequence */
    API_REFUSED_NO_KEY, /* in a compacted topic */
    API_REFUSED_BYTES, /* too large: bytes, not records */
    API_REFUSALS,
};
uint64_t api_refused(const struct api *api, enum api_refusal what);

/* Requests that wait for the controller. */
const struct purgatory *api_waits(const struct api *api);
size_t api_fetch_sessions_count(const struct api *api);

/* The functions for net_start(); valid while the api lives. */
const struct net_api *api_table(struct api *api);

#endif
