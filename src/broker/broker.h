/* broker.h - one broker process: configuration, wiring, start, stop. All state hangs from one
 * struct broker.
 *
 * Place:      floor 7. main (cli/serve.c) and the simulator start brokers with it.
 * Thread:     start and stop from one thread that is no task; it may block.
 * Order:      start: identity, metadata, logs, network (no request is read before the rest stands),
 * registration. Stop: the reverse, with a last flush that acknowledges what waits. Failure:
 * broker_start() says in message why it could not; nothing runs then. ERR_STOPPED: a signal came
 * while it recovered (sys_stop_is_wanted()); the next start recovers the same. */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include "http/http.h"
#include "meta/config.h"
#include "net/net.h"

struct broker;

#define BROKER_MESSAGE_SIZE 512

struct broker_options {
    struct sys *sys;
    const struct logger *logger;
    struct config_set *statics; /* borrowed until broker_stop() */
    /* What http.listener starts; NULL: this program has no such server, the key is refused. */
    const struct http_server *http;
};

NODISCARD enum err broker_start(const struct broker_options *options, struct broker **out,
                                char message[BROKER_MESSAGE_SIZE]);
/* Controlled stop: answers leave until drain_ms have passed. Frees. Accepts NULL. */
void broker_stop(struct broker *b, uint64_t drain_ms);

/* The bound port of the first listener. */
uint16_t broker_port(const struct broker *b);
/* Of http.listener; 0: off. */
uint16_t broker_http_port(const struct broker *b);
struct net *broker_net(const struct broker *b);
struct replica_manager *broker_replicas(const struct broker *b);

#endif
