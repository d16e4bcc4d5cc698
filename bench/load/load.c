/* load.c - a real load through librdkafka that knows afterwards what the broker owes it.
 *
 * Place:      bench/load; one program, a client like any other. tests/interop/load_kill9.py runs it
 *             and kills the broker meanwhile.
 * Work:       one idempotent producer (acks=all) a codec, each writing to every partition of every
 *             topic; a record carries its producer, its partition and its sequence there. When all
 *             are answered, one consumer without a group reads every partition to its end.
 * Thread:     main(); delivery reports arrive in rd_kafka_poll() on it.
 * Invariants: [KILL-1] every acknowledged record is there.  [KILL-2] no record is there twice.
 *             [KILL-3] sequences of one producer in one partition rise.  [KILL-4] offsets are dense
 *             and each record's bytes are those that were sent.
 * Output:     lines "acked COUNT" while producing, at the end one line of JSON.
 * Failure:    exit 0 all holds; 2 an invariant is broken; 1 the load itself could not be done. */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <librdkafka/rdkafka.h>

enum {
    CODECS_COUNT = 4,
    TOPICS_MAX = 64,
    PARTITIONS_MAX = 4096, /* of all topics together */
    VALUE_HEAD_BYTES = 24,
    VALUE_MAX = 64 * 1024,
    POLL_EVERY = 256,
    TIMEOUT_MS = 60000,
    STALL_S_MAX = 300,
    COMPLAINTS_MAX = 20,
};

static const char *const CODECS[CODECS_COUNT] = {"gzip", "snappy", "lz4", "zstd"};

/* What one producer sent to one partition. */
struct lane {
    uint64_t sent;
    uint64_t acked;
    uint64_t found_next; /* the least sequence that may come next when reading back */
    uint8_t *acks; /* one bit a sequence */
    uint64_t acks_max;
};

struct load {
    const char *brokers;
    const char *topic;
    uint64_t records;
    uint32_t topics;
    uint32_t partitions; /* of each topic */
    uint32_t value_bytes;
    struct lane *lanes; /* [codec][topic and partition] */
    rd_kafka_t *producers[CODECS_COUNT];
    rd_kafka_topic_t *handles[CODECS_COUNT][TOPICS_MAX];
    uint64_t acked;
    uint64_t refused; /* delivery failed: nothing is promised */
    uint64_t found;
    uint64_t missing;
    uint64_t twice;
    uint64_t disorder;
    uint64_t damaged;
    uint64_t unacked_found;
    uint32_t complaints;
    double produce_s;
    double read_s;
};

/* What travels with a record as its opaque pointer: its lane above, its sequence below. */
enum { TAG_SEQUENCE_BITS = 40 };

static _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench_load: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint32_t lanes_of_codec(const struct load *l)
{
    return l->topics * l->partitions;
}

static bool is_acked(const struct lane *lane, uint64_t sequence)
{
    unsigned byte = sequence < lane->sent ? lane->acks[sequence / 8] : 0;
    return (byte >> (sequence % 8) & 1U) != 0;
}

static void grow_acks(struct lane *lane)
{
    if (lane->sent < lane->acks_max) { return; }
    uint64_t more = lane->acks_max ? lane->acks_max * 2 : 1U << 16;
    uint8_t *acks = realloc(lane->acks, more / 8);
    if (!acks) { die("no memory for %" PRIu64 " acknowledgements", more); }
    memset(acks + lane->acks_max / 8, 0, (more - lane->acks_max) / 8);
    lane->acks = acks;
    lane->acks_max = more;
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    (void)rk;
    struct load *l = opaque;
    uint64_t tag = (uintptr_t)m->_private;
    uint64_t sequence = tag & ((1ULL << TAG_SEQUENCE_BITS) - 1);
    if (m->err) {
        if (l->refused++ == 0) {
            fprintf(stderr, "bench_load: not delivered: %s\n", rd_kafka_err2str(m->err));
        }
        return;
    }
    struct lane *lane = &l->lanes[tag >> TAG_SEQUENCE_BITS];
    lane->acks[sequence / 8] |= (uint8_t)(1U << (sequence % 8));
    lane->acked++;
    l->acked++;
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value)
{
    char text[256];
    if (rd_kafka_conf_set(conf, key, value, text, sizeof text) != RD_KAFKA_CONF_OK) {
        die("%s=%s: %s", key, value, text);
    }
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
    char text[256];
    rd_kafka_t *rk = rd_kafka_new(type, conf, text, sizeof text);
    if (!rk) { die("a client could not be made: %s", text); }
    return rk;
}

/* librdkafka tells about every lost connection; here these are meant. */
static void log_nothing(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)rk;
    if (level <= 2) { fprintf(stderr, "%s %s\n", facility, text); }
}

static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    (void)opaque;
    if (code != RD_KAFKA_RESP_ERR__FATAL) { return; }
    char text[256];
    rd_kafka_resp_err_t err = rd_kafka_fatal_error(rk, text, sizeof text);
    die("an idempotent producer gave up: %s: %s (%s)", rd_kafka_err2name(err), text, reason);
}

static rd_kafka_conf_t *conf_new(struct load *l)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", l->brokers);
    set(conf, "reconnect.backoff.ms", "20");
    set(conf, "reconnect.backoff.max.ms", "200");
    rd_kafka_conf_set_log_cb(conf, log_nothing);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_opaque(conf, l);
    return conf;
}

static void topic_name(const struct load *l, uint32_t index, char *out, size_t out_max)
{
    snprintf(out, out_max, "%s-%u", l->topic, index);
}

static void open_producers(struct load *l)
{
    for (uint32_t c = 0; c < CODECS_COUNT; c++) {
        rd_kafka_conf_t *conf = conf_new(l);
        set(conf, "enable.idempotence", "true");
        set(conf, "compression.type", CODECS[c]);
        set(conf, "linger.ms", "5");
        set(conf, "message.timeout.ms", "0"); /* the broker comes back; nobody gives up */
        set(conf, "retry.backoff.ms", "50");
        set(conf, "queue.buffering.max.messages", "100000");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        l->producers[c] = client(RD_KAFKA_PRODUCER, conf);
    }
}

/* Not before the topics exist: a handle asks for metadata, and that would create them. */
static void open_handles(struct load *l)
{
    for (uint32_t c = 0; c < CODECS_COUNT; c++) {
        for (uint32_t t = 0; t < l->topics; t++) {
            char name[128];
            topic_name(l, t, name, sizeof name);
            l->handles[c][t] = rd_kafka_topic_new(l->producers[c], name, NULL);
            if (!l->handles[c][t]) { die("topic %s", name); }
        }
    }
}

static void create_topics(struct load *l)
{
    rd_kafka_t *rk = l->producers[0];
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_NewTopic_t *wanted[TOPICS_MAX];
    char text[256];
    for (uint32_t t = 0; t < l->topics; t++) {
        char name[128];
        topic_name(l, t, name, sizeof name);
        wanted[t] = rd_kafka_NewTopic_new(name, (int)l->partitions, 1, text, sizeof text);
        if (!wanted[t]) { die("topic %s: %s", name, text); }
    }
    rd_kafka_CreateTopics(rk, wanted, l->topics, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
    if (!event) { die("CreateTopics was not answered"); }
    if (rd_kafka_event_error(event)) {
        die("CreateTopics: %s", rd_kafka_event_error_string(event));
    }
    size_t count = 0;
    const rd_kafka_topic_result_t **results =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
    for (size_t i = 0; i < count; i++) {
        rd_kafka_resp_err_t err = rd_kafka_topic_result_error(results[i]);
        if (err) { die("CreateTopics: %s", rd_kafka_err2str(err)); }
    }
    rd_kafka_event_destroy(event);
    rd_kafka_NewTopic_destroy_array(wanted, l->topics);
    rd_kafka_queue_destroy(queue);
}

/* The bytes of a record: its place, then letters that compress as text does and differ by place. */
static void fill_value(uint8_t *out, uint32_t size, uint32_t lane, uint64_t sequence)
{
    uint64_t head[3] = {lane, sequence, (lane * 0x9e3779b97f4a7c15U) ^ (sequence + 1)};
    memcpy(out, head, VALUE_HEAD_BYTES);
    uint64_t random = head[2] | 1U;
    for (uint32_t i = VALUE_HEAD_BYTES; i < size; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        out[i] = (uint8_t)('a' + (random & 7U));
    }
}

static void poll_all(struct load *l, int wait_ms)
{
    for (uint32_t c = 0; c < CODECS_COUNT; c++) {
        rd_kafka_poll(l->producers[c], c == 0 ? wait_ms : 0);
    }
}

static void say_progress(const struct load *l, double *next)
{
    double now = now_s();
    if (now < *next) { return; }
    *next = now + 0.05;
    printf("acked %" PRIu64 "\n", l->acked);
    fflush(stdout);
}

/* Sends one record or, when the producer's queue is full, none. */
static bool send_one(struct load *l, uint64_t number, uint8_t *value)
{
    uint32_t codec = (uint32_t)(number % CODECS_COUNT);
    uint32_t place = (uint32_t)(number / CODECS_COUNT % lanes_of_codec(l));
    uint32_t lane_index = codec * lanes_of_codec(l) + place;
    struct lane *lane = &l->lanes[lane_index];
    grow_acks(lane);
    fill_value(value, l->value_bytes, lane_index, lane->sent);
    union {
        uint64_t bits;
        void *pointer;
    } tag = {.bits = ((uint64_t)lane_index << TAG_SEQUENCE_BITS) | lane->sent};
    int failed =
        rd_kafka_produce(l->handles[codec][place / l->partitions], (int32_t)(place % l->partitions),
                         RD_KAFKA_MSG_F_COPY, value, l->value_bytes, NULL, 0, tag.pointer);
    if (failed == 0) {
        lane->sent++;
        return true;
    }
    rd_kafka_resp_err_t err = rd_kafka_last_error();
    if (err != RD_KAFKA_RESP_ERR__QUEUE_FULL) { die("produce: %s", rd_kafka_err2str(err)); }
    return false;
}

static void produce_all(struct load *l)
{
    uint8_t value[VALUE_MAX];
    double start = now_s();
    double next = start;
    for (uint64_t number = 0; number < l->records;) {
        if (send_one(l, number, value)) {
            number++;
            if (number % POLL_EVERY == 0) { poll_all(l, 0); }
        } else {
            poll_all(l, 10);
        }
        if (number % POLL_EVERY == 0) { say_progress(l, &next); }
    }
    uint64_t last = 0;
    double moved = now_s();
    while (l->acked + l->refused < l->records) {
        poll_all(l, 20);
        say_progress(l, &next);
        if (l->acked != last) {
            last = l->acked;
            moved = now_s();
        }
        if (now_s() - moved > STALL_S_MAX) {
            die("%" PRIu64 " records got no answer", l->records - l->acked - l->refused);
        }
    }
    l->produce_s = now_s() - start;
}

static void complain(struct load *l, const char *what, const rd_kafka_message_t *m, uint64_t a,
                     uint64_t b)
{
    if (l->complaints++ >= COMPLAINTS_MAX) { return; }
    fprintf(stderr,
            "bench_load: %s: %s [%d] offset %" PRId64 ", sequence %" PRIu64 ", expected %" PRIu64
            "\n",
            what, rd_kafka_topic_name(m->rkt), m->partition, m->offset, a, b);
}

static void check_record(struct load *l, uint32_t place, const rd_kafka_message_t *m)
{
    uint64_t head[3] = {0};
    uint8_t want[VALUE_MAX];
    if (m->len == l->value_bytes) { memcpy(head, m->payload, VALUE_HEAD_BYTES); }
    uint64_t lane_index = head[0];
    if (m->len != l->value_bytes || lane_index >= (uint64_t)CODECS_COUNT * lanes_of_codec(l) ||
        lane_index % lanes_of_codec(l) != place) {
        l->damaged++;
        complain(l, "a record that was not sent here", m, m->len, l->value_bytes);
        return;
    }
    struct lane *lane = &l->lanes[lane_index];
    uint64_t sequence = head[1];
    fill_value(want, l->value_bytes, (uint32_t)lane_index, sequence);
    if (sequence >= lane->sent || memcmp(want, m->payload, m->len) != 0) {
        l->damaged++;
        complain(l, "a record with other bytes", m, sequence, lane->sent);
        return;
    }
    l->found++;
    if (!is_acked(lane, sequence)) { l->unacked_found++; }
    if (sequence < lane->found_next) {
        l->twice++;
        complain(l, "a record again, or late", m, sequence, lane->found_next);
        return;
    }
    for (uint64_t s = lane->found_next; s < sequence; s++) {
        if (is_acked(lane, s)) {
            l->missing++;
            complain(l, "an acknowledged record is missing before", m, sequence, s);
        }
    }
    lane->found_next = sequence + 1;
}

static rd_kafka_t *open_reader(struct load *l)
{
    rd_kafka_conf_t *conf = conf_new(l);
    set(conf, "group.id", "bench-load"); /* only named: there is no subscription, no commit */
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.partition.eof", "true");
    set(conf, "check.crcs", "true");
    set(conf, "auto.offset.reset", "error");
    set(conf, "queued.max.messages.kbytes", "65536");
    rd_kafka_t *rk = client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(rk);
    rd_kafka_topic_partition_list_t *all =
        rd_kafka_topic_partition_list_new((int)lanes_of_codec(l));
    for (uint32_t t = 0; t < l->topics; t++) {
        char name[128];
        topic_name(l, t, name, sizeof name);
        for (uint32_t p = 0; p < l->partitions; p++) {
            rd_kafka_topic_partition_list_add(all, name, (int32_t)p)->offset = 0;
        }
    }
    rd_kafka_resp_err_t err = rd_kafka_assign(rk, all);
    if (err) { die("assign: %s", rd_kafka_err2str(err)); }
    rd_kafka_topic_partition_list_destroy(all);
    return rk;
}

static uint32_t place_of(const struct load *l, const rd_kafka_message_t *m)
{
    const char *name = rd_kafka_topic_name(m->rkt);
    uint32_t topic = (uint32_t)strtoul(strrchr(name, '-') + 1, NULL, 10);
    return topic * l->partitions + (uint32_t)m->partition;
}

/* Reads every partition to the end that the broker gave it, once. */
static void read_all(struct load *l)
{
    rd_kafka_t *rk = open_reader(l);
    int64_t *next_offsets = calloc(lanes_of_codec(l), sizeof *next_offsets);
    bool *ended = calloc(lanes_of_codec(l), sizeof *ended);
    if (!next_offsets || !ended) { die("no memory"); }
    double start = now_s();
    double moved = start;
    for (uint32_t open = lanes_of_codec(l); open > 0;) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 1000);
        if (!m) {
            if (now_s() - moved > STALL_S_MAX) { die("reading back stands still"); }
            continue;
        }
        moved = now_s();
        if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            uint32_t place = place_of(l, m);
            if (!ended[place]) { open--; }
            ended[place] = true;
        } else if (m->err) {
            fprintf(stderr, "bench_load: reading: %s\n", rd_kafka_message_errstr(m));
            bool is_link = m->err == RD_KAFKA_RESP_ERR__TRANSPORT ||
                           m->err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
            if (!is_link) { l->damaged++; }
        } else {
            uint32_t place = place_of(l, m);
            if (m->offset != next_offsets[place]) {
                l->disorder++;
                complain(l, "an offset out of line", m, (uint64_t)m->offset,
                         (uint64_t)next_offsets[place]);
            }
            next_offsets[place] = m->offset + 1;
            check_record(l, place, m);
        }
        rd_kafka_message_destroy(m);
    }
    l->read_s = now_s() - start;
    free(next_offsets);
    free(ended);
    rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
}

/* What was acknowledged after the last record found is missing too. */
static void count_missing_tails(struct load *l)
{
    for (uint32_t i = 0; i < CODECS_COUNT * lanes_of_codec(l); i++) {
        const struct lane *lane = &l->lanes[i];
        for (uint64_t s = lane->found_next; s < lane->sent; s++) {
            if (is_acked(lane, s)) { l->missing++; }
        }
    }
}

static void close_all(struct load *l)
{
    for (uint32_t c = 0; c < CODECS_COUNT; c++) {
        for (uint32_t t = 0; t < l->topics; t++) {
            rd_kafka_topic_destroy(l->handles[c][t]);
        }
        rd_kafka_destroy(l->producers[c]);
    }
    for (uint32_t i = 0; i < CODECS_COUNT * lanes_of_codec(l); i++) {
        free(l->lanes[i].acks);
    }
    free(l->lanes);
}

static uint64_t number(const char *name, const char *text, uint64_t least, uint64_t most)
{
    char *end = NULL;
    uint64_t value = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || value < least || value > most) {
        die("%s %s: expected %" PRIu64 " to %" PRIu64, name, text, least, most);
    }
    return value;
}

static void parse(int argc, char **argv, struct load *l)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i];
        const char *text = argv[i + 1];
        if (strcmp(name, "--brokers") == 0) {
            l->brokers = text;
        } else if (strcmp(name, "--topic") == 0) {
            l->topic = text;
        } else if (strcmp(name, "--records") == 0) {
            l->records = number(name, text, 1, 1ULL << 36);
        } else if (strcmp(name, "--topics") == 0) {
            l->topics = (uint32_t)number(name, text, 1, TOPICS_MAX);
        } else if (strcmp(name, "--partitions") == 0) {
            l->partitions = (uint32_t)number(name, text, 1, PARTITIONS_MAX);
        } else if (strcmp(name, "--record") == 0) {
            l->value_bytes = (uint32_t)number(name, text, VALUE_HEAD_BYTES, VALUE_MAX);
        } else {
            die("unknown option %s", name);
        }
    }
    if (argc % 2 == 0 || !l->brokers || lanes_of_codec(l) > PARTITIONS_MAX) {
        die("--brokers HOST:PORT [--records N] [--topics N] [--partitions N] [--record BYTES] "
            "[--topic PREFIX]");
    }
}

int main(int argc, char **argv)
{
    static_assert(sizeof(uint64_t) == sizeof(void *), "a tag travels as a pointer");
    struct load l = {
        .topic = "load",
        .records = 1000000,
        .topics = 3,
        .partitions = 12,
        .value_bytes = 100,
    };
    parse(argc, argv, &l);
    l.lanes = calloc((size_t)CODECS_COUNT * lanes_of_codec(&l), sizeof *l.lanes);
    if (!l.lanes) { die("no memory"); }
    open_producers(&l);
    create_topics(&l);
    open_handles(&l);
    produce_all(&l);
    read_all(&l);
    count_missing_tails(&l);
    bool good = !l.missing && !l.twice && !l.disorder && !l.damaged;
    printf("{\"records\": %" PRIu64 ", \"acked\": %" PRIu64 ", \"refused\": %" PRIu64
           ", \"found\": %" PRIu64 ", \"missing\": %" PRIu64 ", \"twice\": %" PRIu64
           ", \"disorder\": %" PRIu64 ", \"damaged\": %" PRIu64 ", \"unacked_found\": %" PRIu64
           ", \"produce_s\": %.2f, \"read_s\": %.2f, \"good\": %s}\n",
           l.records, l.acked, l.refused, l.found, l.missing, l.twice, l.disorder, l.damaged,
           l.unacked_found, l.produce_s, l.read_s, good ? "true" : "false");
    close_all(&l);
    return good ? 0 : 2;
}
