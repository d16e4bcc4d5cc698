/* watch.c - health and readiness, and the life of the HTTP server. */
#include "broker/watch.h"

#include "base/check.h"

#include <stdio.h>

static const char *why_unhealthy(void *ctx, uint64_t now_ns)
{
    const struct watch *w = ctx;
    if (watch_state(w) < WATCH_RUNNING || net_is_turning(w->net, now_ns)) { return NULL; }
    return "a network thread does not finish its turn";
}

static bool has_directory(const struct watch *w)
{
    for (size_t i = 0; i < replica_dirs_count(w->replicas); i++) {
        if (!logdir_is_offline(replica_dir(w->replicas, i))) { return true; }
    }
    return false;
}

static const char *why_unready(void *ctx)
{
    const struct watch *w = ctx;
    switch (watch_state(w)) {
    case WATCH_STARTING:
    case WATCH_RECOVERY:
        return "the broker is starting";
    case WATCH_STOPPING:
        return "the broker is stopping";
    case WATCH_RUNNING:
        break;
    }
    return has_directory(w) ? NULL : "every data directory is offline";
}

enum err watch_start(struct watch *w, const char *address, char *message, size_t message_size)
{
    char host[CONFIG_HOST_SIZE];
    uint16_t port;
    watch_metrics_init(w);
    if (!address || !*address) { return ERR_OK; }
    bool is_valid = config_host_port(slice_str(address), host, &port);
    CHECK(is_valid); /* config_check() saw it */
    if (!w->server) {
        snprintf(message, message_size, "http.listener: this program has no HTTP server");
        return ERR_UNSUPPORTED;
    }
    struct http_options options = {
        .sys = w->sys,
        .logger = w->logger,
        .host = host,
        .port = port,
        .metrics = &w->metrics,
        .why_unhealthy = why_unhealthy,
        .why_unready = why_unready,
        .ctx = w,
    };
    enum err e = w->server->start(&options, &w->http);
    if (e) {
        snprintf(message, message_size, "http.listener %s: %s%s", address, err_name(e),
                 e == ERR_BUSY ? " (the port is in use)" : "");
    }
    return e;
}

void watch_set_state(struct watch *w, enum watch_state state)
{
    atomic_store_explicit(&w->state, (int)state, memory_order_release);
}

void watch_stop(struct watch *w)
{
    if (w->http) { w->server->stop(w->http); }
    w->http = NULL;
}
