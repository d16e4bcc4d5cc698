/* watch.h - what is shown to those who watch the broker: metrics, health, readiness.
 *
 * Place:      broker/; start and stop hand it what there is, http/ asks.
 * Thread:     watch_start(), watch_set_state() and watch_stop() from the thread that starts and
 *             stops the broker; all else on the task of http/.
 * Invariants: [WAT-1] net, api and replicas are looked at only after the state became
 *             WATCH_RUNNING, and watch_stop() returns before they go.
 * Failure:    a wrong or used address refuses the start. */
#ifndef BROKER_WATCH_H
#define BROKER_WATCH_H

#include "api/api.h"
#include "http/http.h"
#include "net/net.h"
#include "replica/replica.h"

/* Kafka's numbers of BrokerState. */
enum watch_state {
    WATCH_STARTING = 1,
    WATCH_RECOVERY = 2, /* directories are read */
    WATCH_RUNNING = 3, /* requests are answered */
    WATCH_STOPPING = 7, /* answers that are due still leave */
};

struct watch {
    struct sys *sys;
    const struct logger *logger;
    const struct http_server *server; /* NULL: this program has none */
    /* enum watch_state; release in watch_set_state(), acquire by readers: [WAT-1] */
    _Atomic int state;
    /* Constant from WATCH_RUNNING on. */
    struct net *net;
    struct api *api;
    struct replica_manager *replicas;
    struct meta_publisher *publisher;

    struct metrics metrics;
    struct http *http; /* NULL: off */
};

/* address: http.listener; NULL or empty: nothing is started. */
NODISCARD enum err watch_start(struct watch *w, const char *address, char *message,
                               size_t message_size);
void watch_set_state(struct watch *w, enum watch_state state);
void watch_stop(struct watch *w); /* idempotent */

/* The table and its scrapes (metrics.c). */
void watch_metrics_init(struct watch *w);
static inline enum watch_state watch_state(const struct watch *w)
{
    return (enum watch_state)atomic_load_explicit(&w->state, memory_order_acquire);
}

#endif
