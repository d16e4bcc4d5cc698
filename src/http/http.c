/* http.c - libmicrohttpd inside a task of ours.
 *
 * Place:      sys makes the listening socket and sleeps on the library's epoll set; the library
 *             accepts, reads, parses and sends when the task turns it.
 * Thread:     the task "http"; start and stop from the thread that starts and stops the broker. */
#include "http/http.h"

#include "base/check.h"
#include "base/mem.h"

#include <microhttpd.h>
#include <stdio.h>

#define HTTP_LIBRARY "libmicrohttpd.so.12"

#define HTTP_LOGGER "barnabas.http"
#define HTTP_BACKLOG 16
#define HTTP_LOOK_MS 1000u
#define HTTP_TEXT "text/plain; charset=utf-8"
#define HTTP_METRICS_TEXT "text/plain; version=0.0.4; charset=utf-8"

/* The library's functions that are called. */
#define HTTP_FUNCTIONS(X)                                                                          \
    X(start_daemon)                                                                                \
    X(get_daemon_info)                                                                             \
    X(run)                                                                                         \
    X(get_timeout)                                                                                 \
    X(quiesce_daemon)                                                                              \
    X(stop_daemon)                                                                                 \
    X(create_response_from_buffer)                                                                 \
    X(create_response_from_callback)                                                               \
    X(add_response_header)                                                                         \
    X(queue_response)                                                                              \
    X(destroy_response)

struct http_library {
#define X(name) __typeof__(MHD_##name) *name;
    HTTP_FUNCTIONS(X)
#undef X
};

struct http {
    struct http_options options;
    struct http_library mhd;
    struct sys_listener *listener;
    struct sys_poller *poller;
    struct sys_task *task;
    struct MHD_Daemon *daemon;
    uint64_t now_ns; /* the task's */
    uint16_t port;
};

/* ---- answers ---- */

static enum MHD_Result answer(const struct http *h, struct MHD_Connection *c, unsigned status,
                              struct MHD_Response *r, const char *type)
{
    if (!r) { return MHD_NO; } /* closes the connection */
    enum MHD_Result done = h->mhd.add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED && done == MHD_YES) {
        done = h->mhd.add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    if (done == MHD_YES) { done = h->mhd.queue_response(c, status, r); }
    h->mhd.destroy_response(r);
    return done;
}

static enum MHD_Result answer_text(const struct http *h, struct MHD_Connection *c, unsigned status,
                                   const char *text)
{
    char line[160];
    int size = snprintf(line, sizeof line, "%s\n", text);
    CHECK(size > 0 && (size_t)size < sizeof line);
    return answer(h, c, status,
                  h->mhd.create_response_from_buffer((size_t)size, line, MHD_RESPMEM_MUST_COPY),
                  HTTP_TEXT);
}

static ssize_t scrape_next(void *ctx, uint64_t pos, char *buf, size_t size)
{
    (void)pos; /* always where the last call ended */
    size_t got = metrics_scrape_next(ctx, buf, size);
    return got ? (ssize_t)got : MHD_CONTENT_READER_END_OF_STREAM;
}

static void scrape_free(void *ctx)
{
    metrics_scrape_destroy(ctx);
}

static enum MHD_Result answer_metrics(struct http *h, struct MHD_Connection *c)
{
    struct metrics_scrape *scrape = metrics_scrape_create(h->options.metrics);
    if (!scrape) { return MHD_NO; }
    struct MHD_Response *r = h->mhd.create_response_from_callback(
        MHD_SIZE_UNKNOWN, METRICS_PAGE_SIZE, scrape_next, scrape, scrape_free);
    if (!r) { metrics_scrape_destroy(scrape); }
    return answer(h, c, MHD_HTTP_OK, r, HTTP_METRICS_TEXT);
}

static enum MHD_Result answer_state(const struct http *h, struct MHD_Connection *c,
                                    const char *why_not)
{
    return answer_text(h, c, why_not ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK,
                       why_not ? why_not : "ok");
}

/* The library calls it when the head has come and again when the request is whole; in between for
 * each part of a body, which nobody needs: the connection is closed. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **seen)
{
    struct http *h = ctx;
    (void)version;
    (void)upload;
    bool is_head = *seen == NULL;
    *seen = h;
    if (*upload_size) { return MHD_NO; }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return answer_text(h, c, MHD_HTTP_METHOD_NOT_ALLOWED, "expected GET or HEAD");
    }
    if (is_head) { return MHD_YES; }
    if (strcmp(path, "/metrics") == 0) { return answer_metrics(h, c); }
    if (strcmp(path, "/healthz") == 0) {
        return answer_state(h, c, h->options.why_unhealthy(h->options.ctx, h->now_ns));
    }
    if (strcmp(path, "/readyz") == 0) {
        return answer_state(h, c, h->options.why_unready(h->options.ctx));
    }
    return answer_text(h, c, MHD_HTTP_NOT_FOUND, "expected /metrics, /healthz or /readyz");
}

/* What the library has to say is about single clients: nothing that an operator needs. */
static __attribute__((format(printf, 2, 0))) void on_library_log(void *ctx, const char *format,
                                                                 va_list args)
{
    (void)ctx;
    (void)format;
    (void)args;
}

/* ---- the task ---- */

static uint64_t http_step(void *ctx, uint64_t now_ns)
{
    struct http *h = ctx;
    struct sys_poll_event event;
    MHD_UNSIGNED_LONG_LONG wait_ms;
    h->now_ns = now_ns;
    (void)sys_poller_events(h->poller, &event, 1); /* one descriptor: the library knows the rest */
    (void)h->mhd.run(h->daemon);
    /* At its limit of connections the library stops listening, until a run that finds fewer of them
     * when it begins. If one run closes all that are left, as silent as each other, the library
     * waits for nothing any more: so it runs once a second, or nobody would get in again. */
    if (h->mhd.get_timeout(h->daemon, &wait_ms) != MHD_YES || wait_ms > HTTP_LOOK_MS) {
        wait_ms = HTTP_LOOK_MS;
    }
    return now_ns + wait_ms * SYS_MS;
}

/* ---- life ---- */

static void http_stop(struct http *h)
{
    if (!h) { return; }
    sys_task_stop(h->task);
    if (h->daemon) {
        (void)h->mhd.quiesce_daemon(h->daemon); /* the listening socket stays ours */
        h->mhd.stop_daemon(h->daemon);
    }
    sys_poller_destroy(h->poller);
    sys_listener_close(h->listener);
    mem_free(h);
}

static enum err http_load(struct http *h)
{
    static const char *const names[] = {
#define X(name) "MHD_" #name,
        HTTP_FUNCTIONS(X)
#undef X
    };
    sys_function *found[COUNT_OF(names)];
    _Static_assert(sizeof found == sizeof h->mhd, "one pointer each, in order");
    enum err e = sys_library_load(HTTP_LIBRARY, names, COUNT_OF(names), found);
    if (e) {
        log_error(h->options.logger, HTTP_LOGGER, "http.listener needs " HTTP_LIBRARY ", which %s",
                  e == ERR_NOTFOUND ? "is not installed" : "is another version here");
        return e;
    }
    memcpy(&h->mhd, found, sizeof found);
    return ERR_OK;
}

static enum err http_start_library(struct http *h)
{
    h->daemon = h->mhd.start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER,
        on_library_log, NULL, MHD_OPTION_LISTEN_SOCKET, sys_listener_descriptor(h->listener),
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, HTTP_CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)HTTP_IDLE_S, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        h->daemon ? h->mhd.get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    return info ? sys_poller_add_descriptor(h->poller, info->epoll_fd, 0) : ERR_NOMEM;
}

static enum err http_start(const struct http_options *options, struct http **out)
{
    *out = NULL;
    struct http *h = mem_new(struct http);
    if (!h) { return ERR_NOMEM; }
    h->options = *options;
    enum err e = http_load(h);
    if (!e) {
        e = sys_listen(options->sys, options->host, options->port, HTTP_BACKLOG, &h->listener);
    }
    if (!e) { e = sys_poller_create(options->sys, &h->poller); }
    if (!e) { e = http_start_library(h); }
    struct sys_task_options task = {
        .name = "http", .step = http_step, .ctx = h, .poller = h->poller};
    if (!e) {
        h->port = sys_listener_port(h->listener);
        e = sys_task_start(options->sys, &task, &h->task);
    }
    if (e) {
        http_stop(h);
        return e;
    }
    log_info(options->logger, HTTP_LOGGER, "Metrics and health on %s:%u (http.listener)",
             options->host[0] ? options->host : "0.0.0.0", h->port);
    *out = h;
    return ERR_OK;
}

static uint16_t http_port(const struct http *h)
{
    return h->port;
}

const struct http_server http_server = {.start = http_start, .port = http_port, .stop = http_stop};
