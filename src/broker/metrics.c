/* metrics.c - the table of what /metrics shows, and how each value is read.
 *
 * Names are those that Prometheus' JMX exporter gives Kafka's MBeans by its example rules; what
 * Kafka does not have begins with barnabas_. docs/METRICS.md is written from this table by
 * tools/metrics_docs.py. Only what is counted or looked at stands here: nothing is always zero.
 *
 * Thread: the task of http/. Per partition values come from one list of references a scrape. */
#include "base/check.h"
#include "base/mem.h"
#include "broker/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Partitions [first, end) of the list: one topic, and the sum of its counters. */
struct topic_run {
    size_t first, end;
    struct partition_counters sum;
};

struct scrape {
    const struct watch *watch;
    bool is_running; /* [WAT-1] */
    struct replica_snapshot all; /* by topic, then number */
    struct topic_run *topics;
    size_t topics_count;
    struct partition_counters total;
    struct histogram joined;
};

static struct scrape *scrape_of(const struct metrics_scrape *s)
{
    return s->ctx;
}

/* ---- a scrape's list of partitions ---- */

static int by_topic(const void *a, const void *b)
{
    const struct partition *const *left = a, *const *right = b;
    int order = strcmp(log_topic((*left)->log), log_topic((*right)->log));
    if (order) { return order; }
    /* A topic that was deleted and made again may be there twice. */
    order = memcmp((*left)->topic_id.b, (*right)->topic_id.b, sizeof(*left)->topic_id.b);
    return order ? order : ((*left)->index > (*right)->index) - ((*left)->index < (*right)->index);
}

static bool is_same_topic(const struct partition *a, const struct partition *b)
{
    return uuid_eq(a->topic_id, b->topic_id);
}

/* Of two topics with one name, the first of which is on its way out, one stays. */
static void drop_twins(struct replica_snapshot *all)
{
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++) {
        struct partition *p = all->partitions[i];
        const struct partition *last = count ? all->partitions[count - 1] : NULL;
        bool is_twin =
            last && !is_same_topic(last, p) && strcmp(log_topic(last->log), log_topic(p->log)) == 0;
        if (is_twin) {
            partition_unref(p);
        } else {
            all->partitions[count++] = p;
        }
    }
    all->count = count;
}

static bool scrape_group(struct scrape *s)
{
    struct partition **all = s->all.partitions;
    qsort(all, s->all.count, sizeof(struct partition *), by_topic);
    partition_counters_add(&s->total, &s->all.gone);
    for (size_t i = 0; i < s->all.count; i++) {
        partition_counters_add(&s->total, &all[i]->counters);
    }
    drop_twins(&s->all);
    for (size_t i = 0; i < s->all.count; i++) {
        s->topics_count += i == 0 || !is_same_topic(all[i - 1], all[i]);
    }
    s->topics = mem_array(s->topics_count, sizeof *s->topics);
    if (!s->topics && s->topics_count) { return false; }
    struct topic_run *run = NULL;
    for (size_t i = 0; i < s->all.count; i++) {
        if (i == 0 || !is_same_topic(all[i - 1], all[i])) {
            run = run ? run + 1 : s->topics;
            run->first = i;
        }
        run->end = i + 1;
        partition_counters_add(&run->sum, &all[i]->counters);
    }
    return true;
}

static void scrape_end(void *scrape_ctx)
{
    struct scrape *s = scrape_ctx;
    replica_snapshot_drop(&s->all);
    mem_free(s->topics);
    mem_free(s);
}

static void *scrape_begin(void *ctx)
{
    const struct watch *w = ctx;
    struct scrape *s = mem_new(struct scrape);
    if (!s) { return NULL; }
    s->watch = w;
    s->is_running = watch_state(w) >= WATCH_RUNNING;
    if (s->is_running && (replica_snapshot_take(w->replicas, &s->all) || !scrape_group(s))) {
        scrape_end(s);
        return NULL;
    }
    return s;
}

/* ---- reads ---- */

enum what_process { PROCESS_STATE, PROCESS_RESIDENT };

static bool read_process(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct watch *w = scrape_of(out)->watch;
    (void)step;
    metrics_put(out, NULL, 0,
                m->what == PROCESS_STATE ? (int64_t)watch_state(w)
                                         : (int64_t)sys_resident_bytes(w->sys));
    return false;
}

enum what_topic {
    TOPIC_MESSAGES_IN,
    TOPIC_BYTES_IN,
    TOPIC_BYTES_OUT,
    TOPIC_PRODUCES,
    TOPIC_FETCHES
};

static int64_t topic_value(const struct partition_counters *c, int what)
{
    const _Atomic uint64_t *const fields[] = {
        [TOPIC_MESSAGES_IN] = &c->messages_in, [TOPIC_BYTES_IN] = &c->bytes_in,
        [TOPIC_BYTES_OUT] = &c->bytes_out,     [TOPIC_PRODUCES] = &c->produces,
        [TOPIC_FETCHES] = &c->fetches,
    };
    return (int64_t)partition_counted(fields[what]);
}

/* First all topics together, those that are gone included; then each. */
static bool read_topic(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    if (!s->is_running) { return false; }
    if (step == 0) {
        metrics_put(out, NULL, 0, topic_value(&s->total, m->what));
    } else {
        const struct topic_run *run = &s->topics[step - 1];
        const struct metric_label label = {"topic", log_topic(s->all.partitions[run->first]->log)};
        metrics_put(out, &label, 1, topic_value(&run->sum, m->what));
    }
    return step < s->topics_count;
}

static bool read_refused(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    (void)step;
    if (!s->is_running) { return false; }
    metrics_put(out, NULL, 0, (int64_t)api_refused(s->watch->api, (enum api_refusal)m->what));
    return false;
}

enum what_log { LOG_SIZE, LOG_START, LOG_END, LOG_SEGMENTS };

static int64_t log_value(struct log *log, int what)
{
    switch ((enum what_log)what) {
    case LOG_SIZE:
        return (int64_t)log_size_bytes(log);
    case LOG_START:
        return log_start_offset(log);
    case LOG_END:
        return log_leo(log);
    case LOG_SEGMENTS:
        return (int64_t)log_segments_count(log);
    }
    return 0;
}

/* Labels of a partition; number is where its text stands. */
#define PARTITION_LABELS 2
static void partition_labels(const struct partition *p, struct metric_label out[PARTITION_LABELS],
                             char number[16])
{
    snprintf(number, 16, "%" PRId32, p->index);
    out[0] = (struct metric_label){"topic", log_topic(p->log)};
    out[1] = (struct metric_label){"partition", number};
}

static bool read_log(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    if (step >= s->all.count) { return false; }
    const struct partition *p = s->all.partitions[step];
    struct metric_label labels[PARTITION_LABELS];
    char number[16];
    partition_labels(p, labels, number);
    metrics_put(out, labels, PARTITION_LABELS, log_value(p->log, m->what));
    return step + 1 < s->all.count;
}

static bool read_produce_expired(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    (void)m;
    if (!s->is_running) { return false; }
    if (step == 0) {
        metrics_put(out, NULL, 0, (int64_t)partition_counted(&s->total.produces_expired));
        return s->all.count > 0;
    }
    const struct partition *p = s->all.partitions[step - 1];
    uint64_t count = partition_counted(&p->counters.produces_expired);
    struct metric_label labels[PARTITION_LABELS];
    char number[16];
    partition_labels(p, labels, number);
    if (count) { metrics_put(out, labels, PARTITION_LABELS, (int64_t)count); }
    return step < s->all.count;
}

enum what_replicas { REPLICAS_ALL, REPLICAS_LEADERS, REPLICAS_OFFLINE };

static bool read_replicas(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    (void)step;
    if (!s->is_running) { return false; }
    int64_t count = 0;
    for (size_t i = 0; i < s->all.count; i++) {
        enum partition_state state = partition_state(s->all.partitions[i]);
        count += m->what == REPLICAS_ALL ||
                 (m->what == REPLICAS_OFFLINE) == (state == PARTITION_OFFLINE);
    }
    metrics_put(out, NULL, 0, count);
    return false;
}

enum what_cluster { CLUSTER_TOPICS, CLUSTER_PARTITIONS };

static bool read_cluster(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    (void)step;
    if (!s->is_running) { return false; }
    struct meta_image *image = meta_latest(s->watch->publisher);
    metrics_put(out, NULL, 0,
                m->what == CLUSTER_TOPICS ? (int64_t)meta_topics_count(image)
                                          : (int64_t)image->partitions_count);
    meta_unref(image);
    return false;
}

enum what_directories { DIRECTORIES_OFFLINE, DIRECTORY_OFFLINE };

static bool read_directories(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    if (!s->is_running) { return false; }
    size_t count = replica_dirs_count(s->watch->replicas);
    int64_t offline = 0;
    for (size_t i = 0; i < count; i++) {
        offline += logdir_is_offline(replica_dir(s->watch->replicas, i));
    }
    if (m->what == DIRECTORIES_OFFLINE) {
        metrics_put(out, NULL, 0, offline);
        return false;
    }
    const struct logdir *dir = replica_dir(s->watch->replicas, step);
    const struct metric_label label = {"logDirectory", logdir_path(dir)};
    metrics_put(out, &label, 1, logdir_is_offline(dir));
    return step + 1 < count;
}

enum what_purgatory {
    PURGATORY_SIZE,
    PURGATORY_DELAYED,
    PURGATORY_EXPIRED,
    PURGATORY_FETCH_EXPIRED
};

static void put_purgatory(struct metrics_scrape *out, int what, const struct metric_label *label,
                          const struct purgatory *p)
{
    uint64_t value = what == PURGATORY_SIZE      ? purg_size(p)
                     : what == PURGATORY_DELAYED ? purg_delayed(p)
                                                 : purg_expirations(p);
    metrics_put(out, label, 1, (int64_t)value);
}

static bool read_purgatories(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    (void)step;
    if (!s->is_running) { return false; }
    const struct purgatory *fetch = replica_fetch_purgatory(s->watch->replicas);
    const struct {
        struct metric_label label;
        const struct purgatory *purgatory;
    } all[] = {
        {{"delayedOperation", "Produce"}, replica_produce_purgatory(s->watch->replicas)},
        {{"delayedOperation", "Fetch"}, fetch},
        {{"delayedOperation", "Controller"}, api_waits(s->watch->api)},
    };
    if (m->what == PURGATORY_FETCH_EXPIRED) {
        const struct metric_label label = {"fetcherType", "consumer"};
        put_purgatory(out, m->what, &label, fetch);
        return false;
    }
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        put_purgatory(out, m->what, &all[i].label, all[i].purgatory);
    }
    return false;
}

static bool read_requests(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    (void)m;
    const char *name = s->is_running ? api_name_at(step) : NULL;
    if (!name) { return false; }
    uint64_t count;
    for (int16_t v = 0; api_requests_at(s->watch->api, step, v, &count); v++) {
        char number[16];
        snprintf(number, sizeof number, "%d", v);
        const struct metric_label labels[] = {{"request", name}, {"version", number}};
        if (count) { metrics_put(out, labels, COUNT_OF(labels), (int64_t)count); }
    }
    return true;
}

static bool read_times(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    struct scrape *s = scrape_of(out);
    const char *name = s->is_running ? api_name_at(step) : NULL;
    if (!name) { return false; }
    memset(&s->joined, 0, sizeof s->joined);
    api_times_at(s->watch->api, step, (enum api_time)m->what, &s->joined);
    const struct metric_label label = {"request", name};
    if (histogram_count(&s->joined)) { metrics_put_summary(out, &label, 1, &s->joined, 0.001); }
    return true;
}

enum what_processor {
    PROCESSOR_CONNECTIONS,
    PROCESSOR_OPENED,
    PROCESSOR_GONE,
    PROCESSOR_REQUESTS,
    PROCESSOR_BYTES_IN,
    PROCESSOR_BYTES_OUT,
};

static uint64_t processor_value(const struct net_processor_counters *c, int what)
{
    switch ((enum what_processor)what) {
    case PROCESSOR_CONNECTIONS:
        return c->connections;
    case PROCESSOR_OPENED:
        return c->opened;
    case PROCESSOR_GONE:
        return c->gone;
    case PROCESSOR_REQUESTS:
        return c->requests;
    case PROCESSOR_BYTES_IN:
        return c->bytes_in;
    case PROCESSOR_BYTES_OUT:
        return c->bytes_out;
    }
    return 0;
}

static bool read_processors(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    struct net_processor_counters c;
    if (!s->is_running || !net_processor_counters_get(s->watch->net, step, &c)) { return false; }
    char number[16];
    snprintf(number, sizeof number, "%zu", step);
    const struct metric_label labels[] = {{"listener", c.listener}, {"networkProcessor", number}};
    metrics_put(out, labels, COUNT_OF(labels), (int64_t)processor_value(&c, m->what));
    return true;
}

enum what_net { NET_QUEUED, NET_MEMORY_USED, NET_MEMORY_LEFT, NET_EXPIRED, NET_CLOSED };

static bool read_net(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    struct net_counters all;
    struct net_processor_counters c;
    if (!s->is_running) { return false; }
    net_counters_get(s->watch->net, &all);
    switch ((enum what_net)m->what) {
    case NET_QUEUED: {
        int64_t queued = net_slow_count(s->watch->net);
        for (size_t i = 0; net_processor_counters_get(s->watch->net, i, &c); i++) {
            queued += c.queued;
        }
        metrics_put(out, NULL, 0, queued);
        return false;
    }
    case NET_MEMORY_USED:
        metrics_put(out, NULL, 0, (int64_t)all.queued_bytes);
        return false;
    case NET_MEMORY_LEFT:
        metrics_put(out, NULL, 0, (int64_t)net_memory_left(s->watch->net));
        return false;
    case NET_EXPIRED:
        metrics_put(out, NULL, 0, (int64_t)all.closed[NET_CLOSED_IDLE]);
        return false;
    case NET_CLOSED: {
        const struct metric_label label = {"reason",
                                           net_close_reason_name((enum net_close_reason)step)};
        metrics_put(out, &label, 1, (int64_t)all.closed[step]);
        return step + 1 < NET_CLOSED_REASONS;
    }
    }
    return false;
}

static bool read_sessions(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    const struct scrape *s = scrape_of(out);
    (void)m;
    (void)step;
    if (!s->is_running) { return false; }
    metrics_put(out, NULL, 0, (int64_t)api_fetch_sessions_count(s->watch->api));
    return false;
}

static bool read_flushes(struct metrics_scrape *out, const struct metric *m, size_t step)
{
    struct scrape *s = scrape_of(out);
    (void)m;
    (void)step;
    if (!s->is_running) { return false; }
    memset(&s->joined, 0, sizeof s->joined);
    const struct replica_manager *r = s->watch->replicas;
    for (size_t i = 0; i < replica_dirs_count(r); i++) {
        const struct histogram *h = logdir_flush_times(replica_dir(r, i));
        bool is_seen = false; /* with another directory of the device */
        for (size_t k = 0; k < i; k++) {
            is_seen = is_seen || logdir_flush_times(replica_dir(r, k)) == h;
        }
        if (!is_seen) { histogram_add(&s->joined, h); }
    }
    metrics_put_summary(out, NULL, 0, &s->joined, 0.001);
    return false;
}

/* ---- the table ---- */

static const struct metric rows[] = {
    {"kafka_server_kafkaserver_brokerstate",
     "1 starting, 2 reading its directories, 3 running, 7 stopping.", METRIC_GAUGE, PROCESS_STATE,
     read_process},
    {"process_resident_memory_bytes", "Resident memory.", METRIC_GAUGE, PROCESS_RESIDENT,
     read_process},
    {"kafka_server_brokertopicmetrics_messagesin_total",
     "Records appended: all topics, and each with a label.", METRIC_COUNTER, TOPIC_MESSAGES_IN,
     read_topic},
    {"kafka_server_brokertopicmetrics_bytesin_total",
     "Bytes of record batches appended, as clients sent them.", METRIC_COUNTER, TOPIC_BYTES_IN,
     read_topic},
    {"kafka_server_brokertopicmetrics_bytesout_total", "Bytes of record batches in fetch answers.",
     METRIC_COUNTER, TOPIC_BYTES_OUT, read_topic},
    {"kafka_server_brokertopicmetrics_totalproducerequests_total",
     "Appends asked for, one a partition and request, refused ones included.", METRIC_COUNTER,
     TOPIC_PRODUCES, read_topic},
    {"kafka_server_brokertopicmetrics_totalfetchrequests_total",
     "Reads for fetches, one a partition; a fetch that waited reads twice.", METRIC_COUNTER,
     TOPIC_FETCHES, read_topic},
    {"kafka_server_brokertopicmetrics_bytesrejected_total",
     "Bytes of batches that were refused since they are too large.", METRIC_COUNTER,
     API_REFUSED_BYTES, read_refused},
    {"kafka_server_brokertopicmetrics_invalidmagicnumberrecords_total",
     "Batches refused for an old or unknown format.", METRIC_COUNTER, API_REFUSED_MAGIC,
     read_refused},
    {"kafka_server_brokertopicmetrics_invalidmessagecrcrecords_total",
     "Batches refused for a wrong checksum.", METRIC_COUNTER, API_REFUSED_CRC, read_refused},
    {"kafka_server_brokertopicmetrics_invalidoffsetorsequencerecords_total",
     "Batches refused for offsets or a producer's sequence out of order.", METRIC_COUNTER,
     API_REFUSED_SEQUENCE, read_refused},
    {"kafka_server_brokertopicmetrics_nokeycompactedtopicrecords_total",
     "Batches refused for a record without a key in a compacted topic.", METRIC_COUNTER,
     API_REFUSED_NO_KEY, read_refused},
    {"kafka_network_requestmetrics_requests_total", "Requests answered, by API and version.",
     METRIC_COUNTER, 0, read_requests},
    {"kafka_network_requestmetrics_totaltimems",
     "Milliseconds from the last byte of a request to the last of its answer.", METRIC_SUMMARY,
     API_TIME_TOTAL, read_times},
    {"kafka_network_requestmetrics_requestqueuetimems",
     "Milliseconds until a thread began with the request.", METRIC_SUMMARY, API_TIME_QUEUE,
     read_times},
    {"kafka_network_requestmetrics_localtimems", "Milliseconds of work on the request.",
     METRIC_SUMMARY, API_TIME_LOCAL, read_times},
    {"kafka_network_requestmetrics_remotetimems",
     "Milliseconds in which the request was parked: a long poll, acks=all.", METRIC_SUMMARY,
     API_TIME_REMOTE, read_times},
    {"kafka_network_requestmetrics_responsesendtimems", "Milliseconds until the answer had left.",
     METRIC_SUMMARY, API_TIME_SEND, read_times},
    {"kafka_network_requestchannel_requestqueuesize",
     "Connections whose requests wait for a thread.", METRIC_GAUGE, NET_QUEUED, read_net},
    {"kafka_network_socketserver_memorypoolused", "Bytes reserved for received requests.",
     METRIC_GAUGE, NET_MEMORY_USED, read_net},
    {"kafka_network_socketserver_memorypoolavailable",
     "Bytes that requests may still take (queued.max.request.bytes).", METRIC_GAUGE,
     NET_MEMORY_LEFT, read_net},
    {"kafka_network_socketserver_expiredconnectionskilledcount",
     "Connections closed since they were idle.", METRIC_COUNTER, NET_EXPIRED, read_net},
    {"kafka_server_socket_server_metrics_connection_count", "Open connections.", METRIC_GAUGE,
     PROCESSOR_CONNECTIONS, read_processors},
    {"kafka_server_socket_server_metrics_connection_creation_total", "Connections opened.",
     METRIC_COUNTER, PROCESSOR_OPENED, read_processors},
    {"kafka_server_socket_server_metrics_connection_close_total", "Connections closed.",
     METRIC_COUNTER, PROCESSOR_GONE, read_processors},
    {"kafka_server_socket_server_metrics_request_total", "Requests received.", METRIC_COUNTER,
     PROCESSOR_REQUESTS, read_processors},
    {"kafka_server_socket_server_metrics_incoming_byte_total", "Bytes received.", METRIC_COUNTER,
     PROCESSOR_BYTES_IN, read_processors},
    {"kafka_server_socket_server_metrics_outgoing_byte_total", "Bytes sent.", METRIC_COUNTER,
     PROCESSOR_BYTES_OUT, read_processors},
    {"barnabas_connections_closed_total", "Connections closed or refused, by reason.",
     METRIC_COUNTER, NET_CLOSED, read_net},
    {"kafka_server_delayedoperationpurgatory_purgatorysize",
     "Watches in a purgatory: one for each key that a waiting operation looks at.", METRIC_GAUGE,
     PURGATORY_SIZE, read_purgatories},
    {"kafka_server_delayedoperationpurgatory_numdelayedoperations",
     "Operations that wait in a purgatory.", METRIC_GAUGE, PURGATORY_DELAYED, read_purgatories},
    {"barnabas_purgatory_expirations_total", "Operations whose time was over, by purgatory.",
     METRIC_COUNTER, PURGATORY_EXPIRED, read_purgatories},
    {"kafka_server_delayedfetchmetrics_expires_total",
     "Fetches that waited their whole time in vain.", METRIC_COUNTER, PURGATORY_FETCH_EXPIRED,
     read_purgatories},
    {"kafka_server_delayedproducemetrics_expires_total",
     "Appends that were not acknowledged in time: all, and each partition that had one.",
     METRIC_COUNTER, 0, read_produce_expired},
    {"kafka_server_fetchsessioncache_numincrementalfetchsessions", "Fetch sessions.", METRIC_GAUGE,
     0, read_sessions},
    {"kafka_server_replicamanager_partitioncount", "Partitions on this broker.", METRIC_GAUGE,
     REPLICAS_ALL, read_replicas},
    {"kafka_server_replicamanager_leadercount", "Partitions that this broker leads.", METRIC_GAUGE,
     REPLICAS_LEADERS, read_replicas},
    {"kafka_server_replicamanager_offlinereplicacount", "Partitions whose directory has failed.",
     METRIC_GAUGE, REPLICAS_OFFLINE, read_replicas},
    {"kafka_controller_kafkacontroller_globaltopiccount", "Topics of the cluster.", METRIC_GAUGE,
     CLUSTER_TOPICS, read_cluster},
    {"kafka_controller_kafkacontroller_globalpartitioncount", "Partitions of the cluster.",
     METRIC_GAUGE, CLUSTER_PARTITIONS, read_cluster},
    {"kafka_log_logmanager_offlinelogdirectorycount", "Data directories that have failed.",
     METRIC_GAUGE, DIRECTORIES_OFFLINE, read_directories},
    {"kafka_log_logmanager_logdirectoryoffline", "1 when the data directory has failed.",
     METRIC_GAUGE, DIRECTORY_OFFLINE, read_directories},
    {"kafka_log_logflushstats_logflushrateandtimems",
     "Milliseconds that a flush of a data directory's dirty logs took.", METRIC_SUMMARY, 0,
     read_flushes},
    {"kafka_log_log_size", "Bytes of the log.", METRIC_GAUGE, LOG_SIZE, read_log},
    {"kafka_log_log_logstartoffset", "First offset of the log.", METRIC_GAUGE, LOG_START, read_log},
    {"kafka_log_log_logendoffset", "Offset of the next record.", METRIC_GAUGE, LOG_END, read_log},
    {"kafka_log_log_numlogsegments", "Segments of the log.", METRIC_GAUGE, LOG_SEGMENTS, read_log},
};

void watch_metrics_init(struct watch *w)
{
    w->metrics = (struct metrics){
        .rows = rows,
        .rows_count = COUNT_OF(rows),
        .ctx = w,
        .begin = scrape_begin,
        .end = scrape_end,
    };
}
