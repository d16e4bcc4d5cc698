/* http.h - /metrics, /healthz and /readyz for those who watch the broker, over libmicrohttpd.
 *
 * Place:      floor 6. broker/ says by a table what is shown; http.listener says where.
 * Thread:     one task of its own drives the library; the table's functions run on it. Nothing is
 *             started when nothing is configured.
 * Bounds:     HTTP_CONNECTIONS_MAX connections of HTTP_CONNECTION_BYTES each, closed after
 *             HTTP_IDLE_S without a byte; an answer is made page by page as the client takes it.
 * Invariants: [HTTP-1] only GET and HEAD, only the three paths. [HTTP-2] the data plane is never
 *             waited for: what is shown is read without its locks held.
 * Failure:    a client that misbehaves loses its connection; without memory for an answer, too. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/logger.h"
#include "base/metrics.h"
#include "sys/sys.h"

#define HTTP_CONNECTIONS_MAX 64
#define HTTP_CONNECTION_BYTES ((size_t)32 << 10)
#define HTTP_IDLE_S 5

struct http;

struct http_options {
    struct sys *sys;
    const struct logger *logger;
    const char *host; /* "": all interfaces */
    uint16_t port; /* 0: any */
    const struct metrics *metrics; /* outlives the server */
    /* NULL: healthy, ready. Otherwise a line that says why not. */
    const char *(*why_unhealthy)(void *ctx, uint64_t now_ns);
    const char *(*why_unready)(void *ctx);
    void *ctx;
};

/* A table, so that a program without the library (the simulator) links a broker. */
struct http_server {
    /* ERR_BUSY: the port is in use. */
    enum err (*start)(const struct http_options *options, struct http **out);
    uint16_t (*port)(const struct http *http);
    /* No function of the options runs after the return. Accepts NULL. */
    void (*stop)(struct http *http);
};

extern const struct http_server http_server;

#endif
