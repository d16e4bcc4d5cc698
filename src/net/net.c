/* net.c - start, shutdown, counters.
 *
 * Thread:     the thread that starts and stops the broker; net_counters_get() and net_reconfigure()
 *             any.
 * Ownership:  struct net owns every task, connection and buffer of the room.
 * Failure:    whatever net_start() has begun is taken back. */
#include "net/net_int.h"

void net_config_init(struct net_config *config)
{
    *config = (struct net_config){
        .processors_count = 3,
        .handlers_count = 8,
        .readers_count = 2,
        .backlog = 1024,
        .send_buffer_bytes = -1,
        .receive_buffer_bytes = -1,
        .frame_bytes_max = 100 * 1024 * 1024,
        .queued_requests_max = 500,
        .queued_bytes_max = (uint64_t)256 << 20,
        .idle_max_ms = 600000,
        .partial_max_ms = 30000,
        .stalled_max_ms = 60000,
        .in_flight_max = 64,
        .output_bytes_max = (uint64_t)4 << 20,
        .limits = {.connections_max = INT32_MAX, .connections_per_ip_max = INT32_MAX},
    };
}

/* ---- start ---- */

static enum err net_check_config(const struct net_config *c)
{
    bool fine = c->listeners_count >= 1 && c->listeners_count <= NET_LISTENERS_MAX &&
                c->processors_count >= 1 && c->processors_count <= 64 && c->handlers_count >= 1 &&
                c->handlers_count <= NET_HANDLERS_MAX && c->readers_count >= 1 &&
                c->readers_count <= 64 && c->frame_bytes_max >= NET_FRAME_BYTES_MIN &&
                c->queued_requests_max >= 1 && c->queued_bytes_max >= 1 && c->in_flight_max >= 1 &&
                c->in_flight_max <= UINT16_MAX / 2 && c->output_bytes_max >= 1;
    if (!fine) {
        log_error(c->logger, "kafka.server.KafkaServer",
                  "The network's configuration is out of bounds: at least one listener (at most "
                  "%d), 1 to 64 network threads and 1 to %d io threads are needed",
                  NET_LISTENERS_MAX, NET_HANDLERS_MAX);
    }
    return fine ? ERR_OK : ERR_INVALID;
}

static bool net_has_control(const struct net *net)
{
    for (size_t i = 0; i < net->listeners_count; i++) {
        if (net->listeners[i].is_control) { return true; }
    }
    return false;
}

static enum err net_open_listeners(struct net *net, const struct net_config *config)
{
    net->listeners = mem_array(config->listeners_count, sizeof *net->listeners);
    if (!net->listeners) { return ERR_NOMEM; }
    for (size_t i = 0; i < config->listeners_count; i++) {
        struct net_listener *l = &net->listeners[i];
        l->net = net;
        l->index = (unsigned)i;
        net->listeners_count++;
        enum err e = net_listener_open(l, &config->listeners[i]);
        if (e) { return e; }
    }
    return ERR_OK;
}

/* Each data listener has processors_count, a control listener one. */
static enum err net_make_processors(struct net *net)
{
    size_t count = 0, data = 0;
    for (size_t i = 0; i < net->listeners_count; i++) {
        struct net_listener *l = &net->listeners[i];
        l->processors_count = l->is_control ? 1 : net->config.processors_count;
        count += l->processors_count;
        data += l->is_control ? 0 : l->processors_count;
    }
    if (count > NET_PROCESSORS_MAX) {
        log_error(net->config.logger, "kafka.server.KafkaServer",
                  "%zu network threads for all listeners are too many (at most %d)", count,
                  NET_PROCESSORS_MAX);
        return ERR_INVALID;
    }
    net->processors = mem_array(count, sizeof *net->processors);
    if (!net->processors) { return ERR_NOMEM; }
    uint32_t share = data ? net->config.queued_requests_max / (uint32_t)data : 0;
    for (size_t i = 0; i < net->listeners_count; i++) {
        struct net_listener *l = &net->listeners[i];
        l->processors = mem_array(l->processors_count, sizeof *l->processors);
        if (!l->processors) { return ERR_NOMEM; }
        for (unsigned k = 0; k < l->processors_count; k++) {
            size_t at = net->processors_count;
            struct net_processor *p = &net->processors[at];
            struct net_plane *plane = l->is_control ? &net->control : &net->data;
            enum err e = net_processor_init(p, net, plane, (unsigned)at);
            net->processors_count++;
            if (e) { return e; }
            p->listener = l;
            p->queue_max = l->is_control ? NET_CONTROL_QUEUE : share ? share : 1;
            l->processors[k] = p;
        }
    }
    return ERR_OK;
}

static enum err net_start_tasks(struct net *net)
{
    enum err e = net_readers_start(net, net->config.readers_count);
    if (e) { return e; }
    e = net_watch_start(net);
    if (e) { return e; }
    e = net_plane_start(&net->data, net->config.handlers_count);
    if (e) { return e; }
    if (net_has_control(net)) {
        e = net_plane_start(&net->control, 1);
        if (e) { return e; }
    }
    for (size_t i = 0; i < net->processors_count; i++) {
        e = net_processor_start(&net->processors[i]);
        if (e) { return e; }
    }
    for (size_t i = 0; i < net->listeners_count; i++) {
        e = net_listener_start(&net->listeners[i]);
        if (e) { return e; }
    }
    return ERR_OK;
}

enum err net_start(struct sys *sys, const struct net_config *config, const struct net_api *api,
                   struct net **out)
{
    *out = NULL;
    enum err e = net_check_config(config);
    if (e) { return e; }
    struct net *net = mem_new(struct net);
    if (!net) { return ERR_NOMEM; }
    net->sys = sys;
    net->api = *api;
    net->config = *config;
    net->config.listeners = NULL;
    net->config.limits.overrides = NULL;
    net_limits_init(&net->limits);
    net_plane_init(&net->data, net, config->queued_bytes_max);
    net_plane_init(&net->control, net, config->frame_bytes_max);
    e = net_limits_set(&net->limits, &config->limits);
    if (e) { goto fail; }
    e = net_open_listeners(net, config);
    if (e) { goto fail; }
    e = net_make_processors(net);
    if (e) { goto fail; }
    e = net_start_tasks(net);
    if (e) { goto fail; }
    *out = net;
    return ERR_OK;
fail:
    net_stop(net);
    return e;
}

uint16_t net_port(const struct net *net, size_t index)
{
    CHECK(index < net->listeners_count);
    return net->listeners[index].port;
}

enum err net_reconfigure(struct net *net, const struct net_limits *limits)
{
    return net_limits_set(&net->limits, limits);
}

bool net_is_turning(struct net *net, uint64_t now_ns)
{
    bool all = true;
    for (size_t i = 0; i < net->processors_count; i++) {
        struct net_processor *p = &net->processors[i];
        uint64_t since = atomic_load_explicit(&p->pinged_ns, memory_order_acquire);
        if (since) {
            all = all && now_ns - since < NET_TURN_MAX_NS;
            continue;
        }
        atomic_store_explicit(&p->pinged_ns, now_ns, memory_order_relaxed);
        net_processor_post(p, &p->ping_msg);
    }
    return all;
}

/* ---- shutdown ---- */

void net_stop_accepting(struct net *net)
{
    for (size_t i = 0; i < net->listeners_count; i++) {
        net_listener_stop(&net->listeners[i]);
    }
}

void net_stop_reading(struct net *net)
{
    for (size_t i = 0; i < net->processors_count; i++) {
        struct net_processor *p = &net->processors[i];
        if (atomic_load(&p->stop_reading_flag)) { continue; } /* called before */
        net_processor_post(p, &p->stop_reading_msg);
        (void)sys_wait_flag(net->sys, &p->stop_reading_flag, SYS_NEVER);
    }
}

bool net_drain(struct net *net, uint64_t deadline_ns)
{
    for (size_t i = 0; i < net->processors_count; i++) {
        struct net_processor *p = &net->processors[i];
        net_processor_post(p, &p->drain_msg);
    }
    bool all = true;
    for (size_t i = 0; i < net->processors_count; i++) {
        all = sys_wait_flag(net->sys, &net->processors[i].drained_flag, deadline_ns) && all;
    }
    return all;
}

void net_stop(struct net *net)
{
    if (!net) { return; }
    net_stop_accepting(net);
    /* Handlers and readers still run: whatever is with them comes back by itself. */
    for (size_t i = 0; i < net->processors_count; i++) {
        struct net_processor *p = &net->processors[i];
        if (p->task) { net_processor_post(p, &p->close_msg); }
    }
    for (size_t i = 0; i < net->processors_count; i++) {
        struct net_processor *p = &net->processors[i];
        if (p->task) { (void)sys_wait_flag(net->sys, &p->closed_flag, SYS_NEVER); }
    }
    sys_task_stop(net->watch);
    net_plane_stop(&net->data);
    net_plane_stop(&net->control);
    net_readers_stop(net);
    for (size_t i = 0; i < net->processors_count; i++) {
        net_processor_fini(&net->processors[i]);
    }
    for (size_t i = 0; i < net->listeners_count; i++) {
        mem_free(net->listeners[i].processors);
    }
    net_plane_fini(&net->data);
    net_plane_fini(&net->control);
    net_limits_fini(&net->limits);
    mem_free(net->watch_seq);
    mem_free(net->processors);
    mem_free(net->listeners);
    mem_free(net);
}

/* ---- counters ---- */

static void net_sum(uint64_t sum[NET_COUNTS], const struct net_tally *t)
{
    for (unsigned i = 0; i < NET_COUNTS; i++) {
        sum[i] += atomic_load_explicit(&t->at[i], memory_order_relaxed);
    }
}

static uint64_t net_sum_wakes(const struct net *net)
{
    uint64_t n = net->watch ? sys_task_wakes(net->watch) : 0;
    for (size_t i = 0; i < net->processors_count; i++) {
        n += sys_task_wakes(net->processors[i].task);
    }
    for (unsigned i = 0; i < net->data.handlers_count; i++) {
        n += sys_task_wakes(net->data.handlers[i].task);
    }
    for (unsigned i = 0; i < net->control.handlers_count; i++) {
        n += sys_task_wakes(net->control.handlers[i].task);
    }
    for (size_t i = 0; i < net->readers_count; i++) {
        n += sys_task_wakes(net->readers[i].task);
    }
    return n;
}

/* Both grow while they are read. */
static uint64_t net_open_count(const uint64_t sum[NET_COUNTS])
{
    uint64_t opened = sum[NET_COUNT_OPENED], gone = sum[NET_COUNT_GONE];
    return opened > gone ? opened - gone : 0;
}

void net_counters_get(const struct net *net, struct net_counters *out)
{
    uint64_t sum[NET_COUNTS] = {0};
    for (size_t i = 0; i < net->processors_count; i++) {
        net_sum(sum, &net->processors[i].tally);
    }
    for (size_t i = 0; i < net->listeners_count; i++) {
        net_sum(sum, &net->listeners[i].tally);
    }
    *out = (struct net_counters){
        .connections = net_open_count(sum),
        .queued_bytes =
            atomic_load(&net->data.budget.used) + atomic_load(&net->control.budget.used),
        .accepted = sum[NET_COUNT_ACCEPTED],
        .requests = sum[NET_COUNT_REQUESTS],
        .parked = sum[NET_COUNT_PARKED],
        .bytes_in = sum[NET_COUNT_BYTES_IN],
        .bytes_out = sum[NET_COUNT_BYTES_OUT],
        .recv_calls = sum[NET_COUNT_RECV_CALLS],
        .send_calls = sum[NET_COUNT_SEND_CALLS],
        .file_pieces = sum[NET_COUNT_FILE_PIECES],
        .file_bytes = sum[NET_COUNT_FILE_BYTES],
        .copied_bytes = sum[NET_COUNT_COPIED_BYTES],
        .cold_pieces = sum[NET_COUNT_COLD_PIECES],
        .steals = atomic_load_explicit(&net->steals, memory_order_relaxed),
        .slow = sum[NET_COUNT_SLOW],
        .memory_waits = sum[NET_COUNT_MEMORY_WAITS],
        .accept_pauses = sum[NET_COUNT_ACCEPT_PAUSES],
        .patient = sum[NET_COUNT_PATIENT],
        .wakes = net_sum_wakes(net),
        .allocations = sum[NET_COUNT_ALLOCATIONS],
    };
    for (unsigned i = 0; i < NET_CLOSED_REASONS; i++) {
        out->closed[i] = sum[NET_COUNT_CLOSED + i];
    }
}

bool net_processor_counters_get(const struct net *net, size_t index,
                                struct net_processor_counters *out)
{
    uint64_t sum[NET_COUNTS] = {0};
    if (index >= net->processors_count) { return false; }
    const struct net_processor *p = &net->processors[index];
    net_sum(sum, &p->tally);
    *out = (struct net_processor_counters){
        .listener = p->listener->name,
        .connections = net_open_count(sum),
        .opened = sum[NET_COUNT_OPENED],
        .gone = sum[NET_COUNT_GONE],
        .expired = sum[NET_COUNT_CLOSED + NET_CLOSED_IDLE],
        .requests = sum[NET_COUNT_REQUESTS],
        .bytes_in = sum[NET_COUNT_BYTES_IN],
        .bytes_out = sum[NET_COUNT_BYTES_OUT],
        .queued = atomic_load_explicit(&p->ready_count, memory_order_relaxed),
    };
    return true;
}

uint32_t net_slow_count(const struct net *net)
{
    return atomic_load_explicit(&net->data.slow_count, memory_order_relaxed) +
           atomic_load_explicit(&net->control.slow_count, memory_order_relaxed);
}

uint64_t net_memory_left(const struct net *net)
{
    uint64_t used = atomic_load_explicit(&net->data.budget.used, memory_order_relaxed);
    return used < net->data.budget.max ? net->data.budget.max - used : 0;
}
