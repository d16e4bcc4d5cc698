/* listeners.h - listeners, advertised.listeners and listener.security.protocol.map as one table.
 *
 * Place:      broker/; start-up only.
 * Failure:    ERR_INVALID with a message that says which key holds what. */
#ifndef BROKER_LISTENERS_H
#define BROKER_LISTENERS_H

#include "meta/config.h"
#include "net/net.h"

#define LISTENER_NAME_SIZE 64
#define LISTENER_HOST_SIZE 256
#define LISTENERS_MESSAGE_SIZE 512

struct listener_row {
    char name[LISTENER_NAME_SIZE];
    char host[LISTENER_HOST_SIZE];
    char advertised_host[LISTENER_HOST_SIZE]; /* "": this machine's name, or the host that is bound
                                               */
    uint16_t port;
    uint16_t advertised_port; /* 0: the port that is bound */
    enum net_security security;
    bool is_control;
};

struct listeners {
    struct listener_row rows[NET_LISTENERS_MAX];
    size_t count;
};

NODISCARD enum err listeners_parse(const struct config_scope *scope, struct listeners *out,
                                   char message[LISTENERS_MESSAGE_SIZE]);

#endif
