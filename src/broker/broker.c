/* broker.c - puts the rooms together and takes them apart. */
#include "broker/broker.h"

#include "api/api.h"
#include "base/check.h"
#include "base/mem.h"
#include "broker/listeners.h"
#include "broker/purg_env.h"
#include "broker/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BROKER_LOGGER "kafka.server.KafkaServer"
#define BROKER_PATH_SIZE 4096
#define BROKER_DIRS_MAX 64

struct broker {
    struct broker_options options;
    struct meta_publisher publisher;
    struct controller *controller;
    struct replica_manager *replicas;
    struct api *api;
    struct net *net;
    struct listeners listeners;
    struct purg_env purg_env;
    struct watch watch;
    char cluster_id[64];
    char dirs[BROKER_DIRS_MAX][BROKER_PATH_SIZE];
    size_t dirs_count;
    int32_t node_id;
    uint64_t start_ns;
};

static struct config_scope broker_scope(const struct broker *b)
{
    return (struct config_scope){b->options.statics, NULL, b->node_id};
}

/* ---- identity ---- */

static enum err broker_take_dirs(struct broker *b, char *message)
{
    struct config_scope scope = broker_scope(b);
    const char *text = config_broker_text(&scope, "log.dirs");
    if (!text || !*text) { text = config_broker_text(&scope, "log.dir"); }
    while (text && *text) {
        size_t size = strcspn(text, ",");
        if (b->dirs_count == BROKER_DIRS_MAX || size >= BROKER_PATH_SIZE - 64) {
            snprintf(message, BROKER_MESSAGE_SIZE, "log.dirs: too many or too long");
            return ERR_INVALID;
        }
        if (size) {
            memcpy(b->dirs[b->dirs_count], text, size);
            b->dirs[b->dirs_count++][size] = '\0';
        }
        text += size + (text[size] == ',');
    }
    if (b->dirs_count) { return ERR_OK; }
    snprintf(message, BROKER_MESSAGE_SIZE, "log.dirs: expected at least one directory");
    return ERR_INVALID;
}

/* What an operator can do something about. */
static const char *dir_reason(enum err e)
{
    switch (e) {
    case ERR_BUSY:
        return "another broker uses it";
    case ERR_ACCESS:
        return "permission denied";
    case ERR_NOTFOUND:
        return "not a directory";
    case ERR_NOSPACE:
        return "the disk is full";
    case ERR_IO:
        return "the device failed or is read-only";
    case ERR_STOPPED:
        return "told to stop while it recovered";
    default:
        return err_name(e);
    }
}

/* The directories above it, as Kafka makes them. Opening it tells what did not work. */
static void make_parents(struct sys *sys, const char *dir)
{
    char path[BROKER_PATH_SIZE];
    snprintf(path, sizeof path, "%s", dir);
    for (char *slash = strchr(path + 1, '/'); path[0] && slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        enum err e = sys_dir_create(sys, path);
        if (!e) { e = sys_parent_sync(sys, path); }
        *slash = '/';
        if (e && e != ERR_EXISTS) { return; }
    }
}

/* The cluster's id: what the directories say, or a new one. */
static enum err broker_take_cluster_id(struct broker *b, char *message)
{
    struct logdir_identity found;
    for (size_t i = 0; i < b->dirs_count; i++) {
        enum err e = logdir_identity(b->options.sys, b->dirs[i], &found);
        if (e == ERR_NOTFOUND) { continue; }
        if (e == ERR_MALFORMED) {
            int n = snprintf(message, BROKER_MESSAGE_SIZE, "%.300s/meta.properties", b->dirs[i]);
            if (found.line) {
                n += snprintf(message + n, BROKER_MESSAGE_SIZE - (size_t)n, " line %d", found.line);
            }
            snprintf(message + n, BROKER_MESSAGE_SIZE - (size_t)n, ": expected %s", found.expected);
            return e;
        }
        if (e) {
            snprintf(message, BROKER_MESSAGE_SIZE, "%s/meta.properties cannot be read: %s",
                     b->dirs[i], dir_reason(e));
            return e;
        }
        if (found.node_id != b->node_id) {
            snprintf(message, BROKER_MESSAGE_SIZE,
                     "%s/meta.properties belongs to node.id %" PRId32 ", but node.id is %" PRId32
                     " here",
                     b->dirs[i], found.node_id, b->node_id);
            return ERR_INVALID;
        }
        if (b->cluster_id[0] && strcmp(b->cluster_id, found.cluster_id) != 0) {
            snprintf(message, BROKER_MESSAGE_SIZE,
                     "%s/meta.properties belongs to cluster %s, not %s", b->dirs[i],
                     found.cluster_id, b->cluster_id);
            return ERR_INVALID;
        }
        memcpy(b->cluster_id, found.cluster_id, sizeof b->cluster_id);
    }
    while (b->cluster_id[0] == '\0' || b->cluster_id[0] == '-') {
        struct uuid id;
        sys_random(b->options.sys, &id, sizeof id);
        uuid_format(id, b->cluster_id);
    }
    return ERR_OK;
}

/* ---- the controller's hooks ---- */

static enum err on_partitions_added(void *ctx, const struct meta_image *next,
                                    const struct meta_topic *topic, int32_t from)
{
    struct broker *b = ctx;
    return replica_add_partitions(b->replicas, next, topic, from);
}

static void on_topic_removed(void *ctx, const struct meta_topic *topic)
{
    struct broker *b = ctx;
    replica_remove_partitions(b->replicas, topic, 0);
}

static void on_partitions_undone(void *ctx, const struct meta_topic *topic, int32_t from)
{
    struct broker *b = ctx;
    replica_remove_partitions(b->replicas, topic, from);
}

/* "address:limit,..." into rows; the texts live in buf. config_check() has seen the value. */
static size_t parse_ip_limits(const char *text, char *buf, size_t buf_size,
                              struct net_ip_limit rows[CONFIG_ADDRESS_LIMITS_MAX])
{
    size_t count = 0;
    snprintf(buf, buf_size, "%s", text ? text : "");
    for (char *save = NULL, *one = strtok_r(buf, ",", &save); one;
         one = strtok_r(NULL, ",", &save)) {
        char *colon = strrchr(one, ':');
        one += strspn(one, " ");
        if (!colon) { continue; } /* the empty list */
        CHECK(count < CONFIG_ADDRESS_LIMITS_MAX);
        *colon = '\0';
        rows[count++] = (struct net_ip_limit){one, (uint32_t)strtoul(colon + 1, NULL, 10)};
    }
    return count;
}

static void broker_limits(const struct config_scope *scope, char *buf, size_t buf_size,
                          struct net_ip_limit *rows, struct net_limits *out)
{
    out->connections_max = (uint32_t)config_broker_i64(scope, "max.connections");
    out->connections_per_ip_max = (uint32_t)config_broker_i64(scope, "max.connections.per.ip");
    out->overrides_count = parse_ip_limits(
        config_broker_text(scope, "max.connections.per.ip.overrides"), buf, buf_size, rows);
    out->overrides = rows;
}

static void on_config_changed(void *ctx, const struct meta_image *image, enum meta_resource type,
                              struct slice name)
{
    struct broker *b = ctx;
    replica_config_changed(b->replicas, image, type, name);
    if (type != META_RESOURCE_BROKER || !b->net) { return; }
    struct config_scope scope = {b->options.statics, image, b->node_id};
    struct net_ip_limit rows[CONFIG_ADDRESS_LIMITS_MAX];
    char buf[CONFIG_ADDRESS_LIMITS_SIZE];
    struct net_limits limits;
    broker_limits(&scope, buf, sizeof buf, rows, &limits);
    if (net_reconfigure(b->net, &limits)) {
        log_warn(b->options.logger, BROKER_LOGGER,
                 "No memory for new connection limits: the old ones stay");
    }
}

/* ---- start ---- */

static enum log_flush_policy flush_policy_of(const char *text)
{
    if (strcmp(text, "os") == 0) { return LOG_FLUSH_OS; }
    return strcmp(text, "window") == 0 ? LOG_FLUSH_WINDOW : LOG_FLUSH_GROUP;
}

static enum err start_metadata(struct broker *b, char *message)
{
    struct config_scope scope = broker_scope(b);
    const char *dir = config_broker_text(&scope, "metadata.log.dir");
    if (!dir || !*dir) { dir = b->dirs[0]; }
    make_parents(b->options.sys, dir);
    struct controller_options options = {
        .sys = b->options.sys,
        .logger = b->options.logger,
        .metadata_dir = dir,
        .node_id = b->node_id,
        .statics = b->options.statics,
        .snapshot_bytes =
            (uint64_t)config_broker_i64(&scope, "metadata.log.max.record.bytes.between.snapshots"),
        .publisher = &b->publisher,
        .hooks = {.ctx = b,
                  .on_partitions_added = on_partitions_added,
                  .on_partitions_undone = on_partitions_undone,
                  .on_topic_removed = on_topic_removed,
                  .on_config_changed = on_config_changed},
    };
    enum err e = controller_create(&options, &b->controller);
    if (e) {
        snprintf(message, BROKER_MESSAGE_SIZE, "metadata log in %.400s: %s", dir, dir_reason(e));
    }
    return e;
}

static enum err start_replicas(struct broker *b, char *message)
{
    struct config_scope scope = broker_scope(b);
    struct replica_options options = {
        .sys = b->options.sys,
        .logger = b->options.logger,
        .statics = b->options.statics,
        .publisher = &b->publisher,
        .node_id = b->node_id,
        .flush_policy = flush_policy_of(config_broker_text(&scope, "log.flush.policy")),
        .purg_env = &b->purg_env,
    };
    enum err e = replica_create(&options, &b->replicas);
    for (size_t i = 0; i < b->dirs_count && !e; i++) {
        make_parents(b->options.sys, b->dirs[i]);
        e = replica_open_dir(b->replicas, b->dirs[i], b->cluster_id);
        if (e) {
            snprintf(message, BROKER_MESSAGE_SIZE, "log directory %s: %s", b->dirs[i],
                     dir_reason(e));
        }
    }
    return e;
}

static enum err start_net(struct broker *b, char *message)
{
    /* With what was changed while an earlier start ran. */
    struct meta_image *image = meta_latest(&b->publisher);
    struct config_scope scope = {b->options.statics, image, b->node_id};
    struct net_listener_config rows[NET_LISTENERS_MAX];
    struct net_ip_limit ips[CONFIG_ADDRESS_LIMITS_MAX];
    char buf[CONFIG_ADDRESS_LIMITS_SIZE];
    struct net_config config;
    net_config_init(&config);
    for (size_t i = 0; i < b->listeners.count; i++) {
        const struct listener_row *row = &b->listeners.rows[i];
        rows[i] = (struct net_listener_config){row->name, row->host, row->port, row->security,
                                               row->is_control};
    }
    config.listeners = rows;
    config.listeners_count = b->listeners.count;
    config.processors_count = (uint32_t)config_broker_i64(&scope, "num.network.threads");
    config.handlers_count = (uint32_t)config_broker_i64(&scope, "num.io.threads");
    if (config.handlers_count > NET_HANDLERS_MAX) { config.handlers_count = NET_HANDLERS_MAX; }
    config.backlog = (uint32_t)config_broker_i64(&scope, "socket.listen.backlog.size");
    config.send_buffer_bytes = (int32_t)config_broker_i64(&scope, "socket.send.buffer.bytes");
    config.receive_buffer_bytes = (int32_t)config_broker_i64(&scope, "socket.receive.buffer.bytes");
    config.frame_bytes_max = (uint32_t)config_broker_i64(&scope, "socket.request.max.bytes");
    config.queued_requests_max = (uint32_t)config_broker_i64(&scope, "queued.max.requests");
    int64_t queued = config_broker_i64(&scope, "queued.max.request.bytes");
    if (queued > 0) { config.queued_bytes_max = (uint64_t)queued; }
    int64_t idle = config_broker_i64(&scope, "connections.max.idle.ms");
    config.idle_max_ms = idle > 0 ? (uint64_t)idle : 0; /* -1: never */
    config.partial_max_ms = (uint64_t)config_broker_i64(&scope, "connections.partial.frame.max.ms");
    config.stalled_max_ms = (uint64_t)config_broker_i64(&scope, "connections.stalled.write.max.ms");
    broker_limits(&scope, buf, sizeof buf, ips, &config.limits);
    config.logger = b->options.logger;
    config.purg_env = b->purg_env;
    enum err e = net_start(b->options.sys, &config, api_table(b->api), &b->net);
    meta_unref(image);
    if (e) {
        snprintf(message, BROKER_MESSAGE_SIZE, "listeners: %s%s", err_name(e),
                 e == ERR_BUSY ? " (the port is in use)" : "");
    }
    return e;
}

/* What clients are told: the advertised address, or what is bound. */
static enum err start_registration(struct broker *b)
{
    struct config_scope scope = broker_scope(b);
    struct meta_endpoint endpoints[NET_LISTENERS_MAX];
    char name[LISTENER_HOST_SIZE];
    for (size_t i = 0; i < b->listeners.count; i++) {
        struct listener_row *row = &b->listeners.rows[i];
        bool is_any = row->host[0] == '\0' || strcmp(row->host, "0.0.0.0") == 0 ||
                      strcmp(row->host, "::") == 0;
        if (row->advertised_host[0] == '\0' && is_any) {
            sys_hostname(b->options.sys, name, sizeof name);
            snprintf(row->advertised_host, sizeof row->advertised_host, "%s", name);
        } else if (row->advertised_host[0] == '\0') {
            memcpy(row->advertised_host, row->host, sizeof row->advertised_host);
        }
        if (row->advertised_port == 0) { row->advertised_port = net_port(b->net, i); }
        endpoints[i] = (struct meta_endpoint){row->name, row->advertised_host, row->advertised_port,
                                              (int16_t)row->security};
    }
    return controller_start(b->controller, endpoints, b->listeners.count,
                            config_broker_text(&scope, "broker.rack"));
}

/* A line for each holder of bounded memory. */
static void log_memory_plan(const struct broker *b)
{
    struct config_scope scope = broker_scope(b);
    log_info(b->options.logger, BROKER_LOGGER,
             "Memory: requests that are received and not answered, at most %" PRId64
             " bytes (queued.max.request.bytes)",
             config_broker_i64(&scope, "queued.max.request.bytes"));
    log_info(b->options.logger, BROKER_LOGGER,
             "Memory: connections, at most %" PRId64 " of at most 4096 bytes each when idle "
             "(max.connections)",
             config_broker_i64(&scope, "max.connections"));
    log_info(b->options.logger, BROKER_LOGGER,
             "Memory: fetch sessions, at most %" PRId64
             " (max.incremental.fetch.session.cache.slots)",
             config_broker_i64(&scope, "max.incremental.fetch.session.cache.slots"));
    log_info(b->options.logger, BROKER_LOGGER,
             "Memory: %zu partitions, at most 1024 bytes each when idle",
             replica_partitions_count(b->replicas));
}

static enum err start_all(struct broker *b, char *message)
{
    enum err e = broker_take_dirs(b, message);
    if (!e) { e = broker_take_cluster_id(b, message); }
    watch_set_state(&b->watch, WATCH_RECOVERY);
    if (!e) { e = start_replicas(b, message); }
    if (!e) { e = start_metadata(b, message); }
    if (e) { return e; }
    struct meta_image *image = meta_latest(&b->publisher);
    e = replica_load(b->replicas, image);
    meta_unref(image);
    if (e) { return e; }
    /* What a crash left behind the last marks may have been read already: the high watermark must
     * not begin below it. Nothing to do after a clean stop. */
    replica_flush(b->replicas);
    log_info(b->options.logger, BROKER_LOGGER,
             "[BrokerServer id=%" PRId32 "] Transition from "
             "STARTING to STARTED: %zu partitions loaded",
             b->node_id, replica_partitions_count(b->replicas));
    struct api_options api = {
        .sys = b->options.sys,
        .logger = b->options.logger,
        .statics = b->options.statics,
        .publisher = &b->publisher,
        .replicas = b->replicas,
        .controller = b->controller,
        .purg_env = &b->purg_env,
        .node_id = b->node_id,
        .cluster_id = b->cluster_id,
    };
    e = api_create(&api, &b->api);
    if (!e) { e = start_net(b, message); }
    if (!e) { e = start_registration(b); }
    if (e) { return e; }
    api_open(b->api);
    b->watch.net = b->net;
    b->watch.api = b->api;
    b->watch.replicas = b->replicas;
    b->watch.publisher = &b->publisher;
    watch_set_state(&b->watch, WATCH_RUNNING);
    return ERR_OK;
}

/* Kafka's 3 network threads, but no more than there are processors: a request runs to its end where
 * it arrives, so more threads than that only take turns on one processor. */
static enum err default_threads(struct broker *b)
{
    struct config_set *set = b->options.statics;
    if (config_set_get(set, "num.network.threads")) { return ERR_OK; }
    unsigned count = sys_cpu_count(b->options.sys);
    char text[8];
    snprintf(text, sizeof text, "%u", count < 3 ? count : 3);
    return config_set_put(set, slice_str("num.network.threads"), slice_str(text));
}

/* broker.id is the older name of node.id: files of ZooKeeper's time have it alone, others both. */
static enum err broker_take_id(struct broker *b, char *message)
{
    struct config_set *set = b->options.statics;
    struct config_scope scope = broker_scope(b);
    const char *node = config_set_get(set, "node.id"), *old = config_set_get(set, "broker.id");
    if (node && old && strcmp(node, old) != 0) {
        snprintf(message, BROKER_MESSAGE_SIZE,
                 "broker.id: expected %s as in node.id, or nothing, found %s", node, old);
        return ERR_INVALID;
    }
    int64_t id = config_broker_i64(&scope, old ? "broker.id" : "node.id");
    if (id < 0) {
        snprintf(message, BROKER_MESSAGE_SIZE, "broker.id: expected 0 or more, found %s", old);
        return ERR_INVALID;
    }
    b->node_id = (int32_t)id;
    return ERR_OK;
}

enum err broker_start(const struct broker_options *options, struct broker **out,
                      char message[BROKER_MESSAGE_SIZE])
{
    *out = NULL;
    message[0] = '\0';
    struct meta_image *empty = meta_create();
    struct broker *b = mem_new(struct broker);
    if (!b || !empty) {
        mem_free(b);
        meta_unref(empty);
        snprintf(message, BROKER_MESSAGE_SIZE, "%s", err_name(ERR_NOMEM));
        return ERR_NOMEM;
    }
    b->options = *options;
    b->purg_env = broker_purg_env(options->sys);
    b->start_ns = sys_mono_ns(options->sys);
    meta_publisher_init(&b->publisher, empty);
    struct config_scope scope = broker_scope(b);
    enum err e = broker_take_id(b, message);
    if (!e) { e = default_threads(b); }
    if (!e) { e = listeners_parse(&scope, &b->listeners, message); }
    b->watch.sys = options->sys;
    b->watch.logger = options->logger;
    b->watch.server = options->http;
    watch_set_state(&b->watch, WATCH_STARTING);
    if (!e) {
        e = watch_start(&b->watch, config_broker_text(&scope, "http.listener"), message,
                        BROKER_MESSAGE_SIZE);
    }
    if (!e) { e = start_all(b, message); }
    if (e) {
        if (!message[0]) { snprintf(message, BROKER_MESSAGE_SIZE, "%s", err_name(e)); }
        broker_stop(b, 0);
        return e;
    }
    log_memory_plan(b);
    for (size_t i = 0; i < b->listeners.count; i++) {
        const struct listener_row *row = &b->listeners.rows[i];
        log_info(options->logger, "kafka.network.DataPlaneAcceptor",
                 "Awaiting socket connections on %s:%u (%s), advertised as %s:%u",
                 row->host[0] ? row->host : "0.0.0.0", net_port(b->net, i), row->name,
                 row->advertised_host, row->advertised_port);
    }
    log_info(options->logger, "kafka.server.BrokerLifecycleManager",
             "[BrokerLifecycleManager id=%" PRId32 "] The broker is in RECOVERY. Transitioning "
             "from RECOVERY to RUNNING.",
             b->node_id);
    log_info(options->logger, "kafka.server.KafkaRaftServer",
             "Kafka Server started: cluster %s, node %" PRId32 ", %.1f ms", b->cluster_id,
             b->node_id, (double)(sys_mono_ns(options->sys) - b->start_ns) / 1e6);
    *out = b;
    return ERR_OK;
}

/* ---- stop ---- */

void broker_stop(struct broker *b, uint64_t drain_ms)
{
    if (!b) { return; }
    int64_t epoch = b->controller ? controller_broker_epoch(b->controller) : -1;
    bool was_running = epoch >= 0;
    if (watch_state(&b->watch) == WATCH_RUNNING) { watch_set_state(&b->watch, WATCH_STOPPING); }
    if (b->net) {
        net_stop_accepting(b->net);
        net_stop_reading(b->net);
        replica_flush(b->replicas); /* produces that wait are acknowledged by it */
        replica_stop_partitions(b->replicas); /* the rest gets a retriable error */
        if (!net_drain(b->net, sys_mono_ns(b->options.sys) + drain_ms * SYS_MS)) {
            log_warn(b->options.logger, BROKER_LOGGER,
                     "Some answers did not leave within %" PRIu64 " ms", drain_ms);
        }
    }
    if (b->controller) { controller_stop(b->controller); }
    watch_stop(&b->watch); /* it looks at all that goes now */
    net_stop(b->net);
    api_destroy(b->api);
    controller_destroy(b->controller);
    replica_destroy(b->replicas, was_running, epoch);
    meta_publisher_fini(&b->publisher);
    if (was_running) { log_info(b->options.logger, BROKER_LOGGER, "shut down completed"); }
    mem_free(b);
}

uint16_t broker_port(const struct broker *b)
{
    return net_port(b->net, 0);
}

uint16_t broker_http_port(const struct broker *b)
{
    return b->watch.http ? b->watch.server->port(b->watch.http) : 0;
}

struct net *broker_net(const struct broker *b)
{
    return b->net;
}

struct replica_manager *broker_replicas(const struct broker *b)
{
    return b->replicas;
}
