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
/* The functions for net_start(); valid while the api lives. */
const struct net_api *api_table(struct api *api);

#endif
