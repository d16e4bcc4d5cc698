/* listener.c - acceptors: one task a listener; connections go to its processors in turn.
 *
 * Thread:     each acceptor its own.
 * Ownership:  the acceptor makes the connection and gives it away with the message that opens it.
 * Failure:    beyond a limit the connection is closed at once; out of descriptors the backlog waits
 *             and accepting goes on after a pause; what is open stays open. */
#include "net/net_int.h"

#include <stdio.h>

static bool net_listener_may_log(struct net_listener *l, struct logger_rate *rate, uint64_t now_ns,
                                 uint64_t *suppressed)
{
    return l->net->config.logger && logger_rate(rate, (int64_t)(now_ns / SYS_MS), suppressed);
}

static void net_listener_refuse(struct net_listener *l, const char *peer, const char *what,
                                uint64_t now_ns)
{
    net_tally_add(&l->tally, (enum net_count)(NET_COUNT_CLOSED + NET_CLOSED_LIMIT), 1);
    uint64_t suppressed;
    if (net_listener_may_log(l, &l->limit_rate, now_ns, &suppressed)) {
        log_warn(l->net->config.logger, "kafka.network.Acceptor",
                 "Rejected connection from %s on listener %s: limit %s reached (%llu such lines "
                 "left out)",
                 peer, l->name, what, (unsigned long long)suppressed);
    }
}

static void net_listener_give(struct net_listener *l, struct sys_stream *stream, const char *peer,
                              uint64_t now_ns)
{
    net_tally_add(&l->tally, NET_COUNT_ACCEPTED, 1);
    const char *what;
    if (net_limits_enter(&l->net->limits, peer, l->is_control, &what)) {
        net_listener_refuse(l, peer, what, now_ns);
        sys_stream_close(stream);
        return;
    }
    struct net_conn *c = mem_new(struct net_conn);
    if (!c) {
        net_limits_leave(&l->net->limits, peer, l->is_control);
        net_listener_refuse(l, peer, "memory", now_ns);
        sys_stream_close(stream);
        return;
    }
    c->listener = l;
    c->stream = stream;
    c->processor = l->processors[l->processor_next];
    l->processor_next = (l->processor_next + 1) % l->processors_count;
    memcpy(c->peer, peer, sizeof c->peer);
    c->job.msg.kind = NET_MSG_OPEN;
    net_processor_post(c->processor, &c->job.msg);
}

/* Also for other failures of accept, so that a broken listener does not spin. */
static void net_listener_pause(struct net_listener *l, enum err e, uint64_t now_ns)
{
    sys_poller_remove_listener(l->poller, l->socket);
    l->paused = true;
    l->resume_ns = now_ns + NET_ACCEPT_PAUSE_NS;
    net_tally_add(&l->tally, NET_COUNT_ACCEPT_PAUSES, 1);
    uint64_t suppressed;
    if (net_listener_may_log(l, &l->pause_rate, now_ns, &suppressed)) {
        log_error(l->net->config.logger, "kafka.network.Acceptor",
                  "Cannot accept connections on listener %s (%s%s), trying again", l->name,
                  err_name(e), e == ERR_LIMIT ? ": out of file descriptors" : "");
    }
}

static uint64_t net_listener_step(void *ctx, uint64_t now_ns)
{
    struct net_listener *l = ctx;
    struct sys_poll_event events[4];
    (void)sys_poller_events(l->poller, events, COUNT_OF(events));
    if (l->paused) {
        if (now_ns < l->resume_ns) { return l->resume_ns; }
        if (sys_poller_add_listener(l->poller, l->socket, 0)) {
            l->resume_ns = now_ns + NET_ACCEPT_PAUSE_NS;
            return l->resume_ns;
        }
        l->paused = false;
    }
    for (unsigned i = 0; i < NET_ACCEPT_BATCH; i++) {
        struct sys_stream *stream;
        char peer[SYS_ADDRESS_SIZE];
        enum err e = sys_accept(l->socket, &stream, peer);
        if (e == ERR_AGAIN) { return SYS_NEVER; }
        if (e) {
            net_listener_pause(l, e, now_ns);
            return l->resume_ns;
        }
        net_listener_give(l, stream, peer, now_ns);
    }
    return now_ns;
}

enum err net_listener_open(struct net_listener *l, const struct net_listener_config *cfg)
{
    const struct logger *logger = l->net->config.logger;
    size_t len = strlen(cfg->name);
    if (!len || len >= sizeof l->name) {
        log_error(logger, "kafka.server.KafkaServer",
                  "A listener's name must have 1 to %zu characters", sizeof l->name - 1);
        return ERR_INVALID;
    }
    memcpy(l->name, cfg->name, len + 1);
    l->is_control = cfg->is_control;
    if (cfg->security != NET_PLAINTEXT) {
        log_error(logger, "kafka.server.KafkaServer",
                  "Listener %s: only the security protocol PLAINTEXT is supported", l->name);
        return ERR_UNSUPPORTED;
    }
    const char *host = cfg->host && *cfg->host ? cfg->host : "*";
    const struct net_config *net = &l->net->config;
    enum err e = sys_listen(l->net->sys, cfg->host, cfg->port, net->backlog, &l->socket);
    if (!e) {
        e = sys_listener_buffers(l->socket, net->send_buffer_bytes, net->receive_buffer_bytes);
    }
    if (e) {
        log_error(logger, "kafka.server.KafkaServer", "Listener %s cannot listen on %s:%u: %s (%s)",
                  l->name, host, cfg->port,
                  e == ERR_BUSY       ? "the address is already in use"
                  : e == ERR_NOTFOUND ? "no such address"
                  : e == ERR_ACCESS   ? "permission denied"
                  : e == ERR_INVALID  ? "no address of this machine"
                                      : "the system refused",
                  err_name(e));
        return e;
    }
    l->port = sys_listener_port(l->socket);
    return ERR_OK;
}

enum err net_listener_start(struct net_listener *l)
{
    enum err e = sys_poller_create(l->net->sys, &l->poller);
    if (e) { return e; }
    e = sys_poller_add_listener(l->poller, l->socket, 0);
    if (e) { return e; }
    char name[32];
    (void)snprintf(name, sizeof name, "accept-%u", l->index);
    struct sys_task_options options = {
        .name = name, .step = net_listener_step, .ctx = l, .poller = l->poller};
    e = sys_task_start(l->net->sys, &options, &l->task);
    if (e) { return e; }
    log_info(l->net->config.logger, "kafka.network.DataPlaneAcceptor",
             "Listener %s accepts connections on port %u", l->name, l->port);
    return ERR_OK;
}

void net_listener_stop(struct net_listener *l)
{
    sys_task_stop(l->task);
    l->task = NULL;
    if (l->poller && l->socket && !l->paused) { sys_poller_remove_listener(l->poller, l->socket); }
    sys_poller_destroy(l->poller);
    l->poller = NULL;
    sys_listener_close(l->socket);
    l->socket = NULL;
}
