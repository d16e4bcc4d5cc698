/* consume.c - `barnabas consume`: the records of a topic, all its partitions or one, without a
 * group.
 *
 * Thread: main; records of all partitions come through one queue. */
#include "base/check.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/output.h"
#include "cli/signals.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define CONSUME_BATCH 1000
#define CONSUME_POLL_MS 100
#define OFFSET_UNSET INT64_MIN

struct consume_options {
    struct client_options client;
    const char *format, *key_separator;
    int64_t offset, partition, messages_max, idle_ms;
    bool from_beginning, exit_at_end, quiet;
};

static const struct option consume_table[] = {
    CLIENT_OPTIONS,
    {.name = "from-beginning",
     .kind = OPTION_FLAG,
     .field = offsetof(struct consume_options, from_beginning),
     .help = "from the earliest record (default: new records)"},
    {.name = "offset",
     .kind = OPTION_NUMBER,
     .letter = 'o',
     .field = offsetof(struct consume_options, offset),
     .value = "N",
     .min = -INT32_MAX,
     .max = INT64_MAX,
     .help = "from offset N of each partition; -N: the last N\nof each"},
    {.name = "partition",
     .kind = OPTION_NUMBER,
     .letter = 'p',
     .field = offsetof(struct consume_options, partition),
     .value = "N",
     .min = 0,
     .max = INT32_MAX,
     .help = "only this one (default: all)"},
    {.name = "max-messages",
     .kind = OPTION_NUMBER,
     .letter = 'n',
     .field = offsetof(struct consume_options, messages_max),
     .value = "N",
     .min = 1,
     .max = INT64_MAX,
     .help = "end after N records"},
    {.name = "timeout-ms",
     .kind = OPTION_NUMBER,
     .field = offsetof(struct consume_options, idle_ms),
     .value = "MS",
     .min = 1,
     .max = INT32_MAX,
     .help = "end when no record came for so long; a failure\nwhen --max-messages is not reached"},
    {.name = "exit-at-end",
     .kind = OPTION_FLAG,
     .letter = 'e',
     .field = offsetof(struct consume_options, exit_at_end),
     .help = "end when every partition has been read"},
    {.name = "format",
     .kind = OPTION_CHOICE,
     .field = offsetof(struct consume_options, format),
     .value = "FORMAT",
     .choices = "value|key-value|json",
     .help =
         "value (default), key-value, or json: an object a\nline with offset, time and headers"},
    {.name = "key-separator",
     .kind = OPTION_TEXT,
     .letter = 'K',
     .field = offsetof(struct consume_options, key_separator),
     .value = "TEXT",
     .help = "between key and value (default: a tab)"},
    {.name = "quiet",
     .kind = OPTION_FLAG,
     .letter = 'q',
     .field = offsetof(struct consume_options, quiet),
     .help = "no count at the end"},
};

static const struct usage consume_usage = {
    .command = "consume",
    .operands = "TOPIC",
    .operands_min = 1,
    .operands_max = 1,
    .about =
        "Prints records, a line each, and follows the topic until Ctrl-C. In JSON, bytes that\n"
        "are no text are under key_base64 or value_base64.",
    .options = consume_table,
    .options_count = COUNT_OF(consume_table),
    .examples = "  barnabas consume orders --from-beginning --exit-at-end\n"
                "  barnabas consume orders --partition 3 --offset -10 --format json -e\n",
};

struct consume {
    struct client client;
    const struct consume_options *options;
    const char *name;
    rd_kafka_topic_t *topic;
    rd_kafka_queue_t *records;
    int32_t *partitions; /* that are read */
    bool *ended; /* by partition id */
    size_t partitions_count, started_count, ended_count, ids_max;
    struct progress progress;
    uint64_t total, count, last_ns;
    bool is_failed;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- printing ---- */

static json_t *headers_json(const struct consume *c, const rd_kafka_message_t *m)
{
    json_t *out = json_array();
    rd_kafka_headers_t *headers = NULL;
    if (!out || c->client.kafka.message_headers(m, &headers)) { return out; }
    const char *name;
    const void *value;
    size_t size;
    for (size_t i = 0; !c->client.kafka.header_get_all(headers, i, &name, &value, &size); i++) {
        json_t *row = json_object();
        json_set_bytes(row, "key", slice_str(name));
        json_set_bytes(row, "value", value ? slice_of(value, size) : SLICE_NULL);
        json_array_append_new(out, row);
    }
    return out;
}

static int print_json(const struct consume *c, const rd_kafka_message_t *m)
{
    rd_kafka_timestamp_type_t type;
    int64_t timestamp = c->client.kafka.message_timestamp(m, &type);
    json_t *out = json_pack("{s:s, s:i, s:I, s:o, s:s}", "topic", c->name, "partition",
                            m->partition, "offset", (json_int_t)m->offset, "timestamp",
                            timestamp < 0 ? json_null() : json_integer(timestamp), "timestamp_type",
                            type == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME ? "append" : "create");
    bool ok = out && json_set_bytes(out, "key", m->key ? slice_of(m->key, m->key_len) : SLICE_NULL);
    ok = ok && json_set_bytes(out, "value", m->payload ? slice_of(m->payload, m->len) : SLICE_NULL);
    ok = ok && json_object_set_new(out, "headers", headers_json(c, m)) == 0;
    if (ok) {
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
    }
    json_decref(out);
    return ok ? CLI_DONE : cli_no_memory(consume_usage.command);
}

static int print_record(const struct consume *c, const rd_kafka_message_t *m)
{
    const char *format = c->options->format;
    if (strcmp(format, "json") == 0) { return print_json(c, m); }
    if (strcmp(format, "key-value") == 0) {
        if (m->key) { fwrite(m->key, 1, m->key_len, stdout); }
        fputs(c->options->key_separator, stdout);
    }
    if (m->payload) { fwrite(m->payload, 1, m->len, stdout); }
    putchar('\n');
    return CLI_DONE;
}

/* ---- reading ---- */

/* True: go on. */
static bool take_event(struct consume *c, const rd_kafka_message_t *m)
{
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        size_t id = (size_t)m->partition;
        if (id < c->ids_max && !c->ended[id]) {
            c->ended[id] = true;
            c->ended_count++;
        }
        return !(c->options->exit_at_end && c->ended_count == c->partitions_count);
    }
    if (m->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE ||
        m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET) {
        client_fail(&c->client, "%s-%" PRId32 " has no such offset: %s", c->name, m->partition,
                    c->client.kafka.message_errstr(m));
    } else {
        client_fail(&c->client, "%s-%" PRId32 ": %s", c->name, m->partition,
                    c->client.kafka.message_errstr(m));
    }
    c->is_failed = true;
    return false;
}

/* True: go on. */
static bool take_message(struct consume *c, const rd_kafka_message_t *m)
{
    if (m->err) { return take_event(c, m); }
    if (print_record(c, m)) {
        c->is_failed = true;
        return false;
    }
    c->count++;
    c->last_ns = now_ns();
    return !(c->options->messages_max && c->count == (uint64_t)c->options->messages_max) &&
           !ferror(stdout);
}

static bool take_batch(struct consume *c, rd_kafka_message_t **batch, size_t count)
{
    bool goes_on = true;
    for (size_t i = 0; i < count; i++) {
        if (goes_on) { goes_on = take_message(c, batch[i]); }
        c->client.kafka.message_destroy(batch[i]);
    }
    return goes_on;
}

/* True when nothing came for as long as was allowed. */
static bool is_idle(struct consume *c)
{
    uint64_t idle_ms = (now_ns() - c->last_ns) / 1000000u;
    if (!c->options->idle_ms || idle_ms < (uint64_t)c->options->idle_ms) { return false; }
    if (c->options->messages_max) {
        client_fail(&c->client, "no record for %" PRId64 " ms; %" PRIu64 " of %" PRId64 " came",
                    c->options->idle_ms, c->count, c->options->messages_max);
        c->is_failed = true;
    }
    return true;
}

static void read_all(struct consume *c)
{
    rd_kafka_message_t *batch[CONSUME_BATCH];
    c->last_ns = now_ns();
    for (;;) {
        ssize_t got =
            c->client.kafka.consume_batch_queue(c->records, CONSUME_POLL_MS, batch, CONSUME_BATCH);
        c->client.kafka.poll(c->client.rk, 0);
        if (got > 0 && !take_batch(c, batch, (size_t)got)) { return; }
        if (got < CONSUME_BATCH) { fflush(stdout); }
        if (ferror(stdout)) { return; } /* main says so */
        progress_show(&c->progress, c->count, c->count);
        if (signals_take()) {
            /* Ctrl-C is how following ends; but who named an end did not reach it. */
            c->is_failed = c->options->messages_max || c->options->exit_at_end;
            return;
        }
        if (is_idle(c)) { return; }
    }
}

/* ---- which partitions, from where ---- */

static int choose_partitions(struct consume *c)
{
    const struct rd_kafka_metadata *m = NULL;
    int code = client_metadata(&c->client, c->name, &m);
    if (code) { return code; }
    size_t count = (size_t)m->topics[0].partition_cnt;
    c->partitions = mem_array(count, sizeof *c->partitions);
    c->ended = mem_array(count, sizeof *c->ended);
    if (!c->partitions || !c->ended) {
        c->client.kafka.metadata_destroy(m);
        return cli_no_memory(consume_usage.command);
    }
    c->ids_max = count;
    int64_t wanted = c->options->partition;
    for (size_t i = 0; i < count; i++) {
        int32_t id = m->topics[0].partitions[i].id;
        if (wanted < 0 || id == wanted) { c->partitions[c->partitions_count++] = id; }
    }
    c->client.kafka.metadata_destroy(m);
    if (c->partitions_count) { return CLI_DONE; }
    return client_fail(&c->client, "%s has no partition %" PRId64 "; it has %zu", c->name, wanted,
                       count);
}

/* Where reading begins in a partition that holds [low, high). */
static int64_t first_of(const struct consume_options *o, int64_t low, int64_t high)
{
    int64_t first = o->offset;
    if (o->from_beginning) { return low; }
    if (first == OFFSET_UNSET) { return high; }
    if (first < 0) { first += high; }
    return first < low ? low : first;
}

/* How many records will come, for the bar. 0 when that is not known. */
static uint64_t count_ahead(struct consume *c)
{
    uint64_t total = 0, max = (uint64_t)c->options->messages_max;
    for (size_t i = 0; c->options->exit_at_end && i < c->partitions_count; i++) {
        int64_t low = 0, high = 0;
        if (c->client.kafka.query_watermark_offsets(c->client.rk, c->name, c->partitions[i], &low,
                                                    &high, (int)c->options->client.timeout_ms)) {
            return max;
        }
        int64_t first = first_of(c->options, low, high);
        if (high > first) { total += (uint64_t)(high - first); }
    }
    return max && (total == 0 || max < total) ? max : total;
}

/* What to ask the library for. "The last N" is worked out here: the library would run into the
 * start of a log that has fewer. */
static int start_offset(struct consume *c, int32_t partition, int64_t *out)
{
    const struct consume_options *o = c->options;
    *out = o->from_beginning ? RD_KAFKA_OFFSET_BEGINNING : RD_KAFKA_OFFSET_END;
    if (o->offset == OFFSET_UNSET) { return CLI_DONE; }
    *out = o->offset;
    if (o->offset >= 0) { return CLI_DONE; }
    int64_t low = 0, high = 0;
    rd_kafka_resp_err_t e = c->client.kafka.query_watermark_offsets(
        c->client.rk, c->name, partition, &low, &high, (int)o->client.timeout_ms);
    if (e) {
        return client_fail(&c->client, "offsets of %s-%" PRId32 ": %s", c->name, partition,
                           c->client.kafka.err2str(e));
    }
    *out = first_of(o, low, high);
    return CLI_DONE;
}

static int start(struct consume *c)
{
    c->topic = c->client.kafka.topic_new(c->client.rk, c->name, NULL);
    c->records = c->client.kafka.queue_new(c->client.rk);
    if (!c->topic || !c->records) { return client_fail(&c->client, "%s: no such name", c->name); }
    for (size_t i = 0; i < c->partitions_count; i++) {
        int64_t offset;
        int code = start_offset(c, c->partitions[i], &offset);
        if (code) { return code; }
        if (c->client.kafka.consume_start_queue(c->topic, c->partitions[i], offset, c->records)) {
            return client_fail(&c->client, "%s-%" PRId32 ": %s", c->name, c->partitions[i],
                               c->client.kafka.err2str(c->client.kafka.last_error()));
        }
        c->started_count = i + 1;
    }
    return CLI_DONE;
}

static void stop(struct consume *c)
{
    for (size_t i = 0; i < c->started_count; i++) {
        c->client.kafka.consume_stop(c->topic, c->partitions[i]);
    }
    if (c->records) { c->client.kafka.queue_destroy(c->records); }
    if (c->topic) { c->client.kafka.topic_destroy(c->topic); }
    mem_free(c->partitions);
    mem_free(c->ended);
    client_close(&c->client);
}

static int consume_run(struct consume *c)
{
    int code = choose_partitions(c);
    if (code) { return code; }
    progress_start(&c->progress, "consume", 0, true);
    if (c->progress.is_on) { c->progress.total = count_ahead(c); }
    code = start(c);
    if (code) { return code; }
    read_all(c);
    progress_end(&c->progress);
    fflush(stdout);
    if (!c->options->quiet) {
        fprintf(stderr, "%" PRIu64 " record%s from %s\n", c->count, c->count == 1 ? "" : "s",
                c->name);
    }
    return c->is_failed ? CLI_FAILED : CLI_DONE;
}

int cli_consume(int argc, char **argv)
{
    struct consume_options o = {.client = CLIENT_OPTIONS_DEFAULT,
                                .format = "value",
                                .key_separator = "\t",
                                .offset = OFFSET_UNSET,
                                .partition = -1};
    size_t operands;
    int code;
    if (!options_parse(&consume_usage, argc, argv, &o, &operands, &code)) { return code; }
    if (o.from_beginning && o.offset != OFFSET_UNSET) {
        return options_refuse(&consume_usage, "expected --from-beginning or --offset, not both");
    }
    struct consume c = {.options = &o, .name = argv[0]};
    signals_hold();
    const struct client_setting settings[] = {
        {"enable.partition.eof", "true"},
        {"auto.offset.reset", "error"},
        {"fetch.wait.max.ms", "100"},
        {"check.crcs", "true"},
    };
    struct client_setup setup = {.command = consume_usage.command,
                                 .options = &o.client,
                                 .type = RD_KAFKA_CONSUMER,
                                 .settings = settings,
                                 .settings_count = COUNT_OF(settings)};
    code = client_open(&c.client, &setup);
    if (!code) { code = consume_run(&c); }
    stop(&c);
    return code;
}
