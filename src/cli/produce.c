/* produce.c - `barnabas produce`: lines to records.
 *
 * Thread: main. A record counts when the broker has acknowledged it; one that was refused makes the
 * command fail, the others are sent all the same. */
#include "base/check.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/signals.h"

#include <inttypes.h>
#include <string.h>

#define PRODUCE_POLL_MS 100

struct produce_options {
    struct client_options client;
    const char *file, *key_separator, *acks, *compression;
    struct option_list headers;
    int64_t partition;
    bool quiet;
};

static const struct option produce_table[] = {
    CLIENT_OPTIONS,
    {.name = "file",
     .kind = OPTION_TEXT,
     .letter = 'f',
     .field = offsetof(struct produce_options, file),
     .value = "FILE",
     .help = "lines of this file (default: standard input)"},
    {.name = "key-separator",
     .kind = OPTION_TEXT,
     .letter = 'K',
     .field = offsetof(struct produce_options, key_separator),
     .value = "TEXT",
     .help = "what stands between key and value; lines\nwithout it have no key"},
    {.name = "header",
     .kind = OPTION_PAIRS,
     .letter = 'H',
     .field = offsetof(struct produce_options, headers),
     .value = "KEY=VALUE",
     .help = "a header of every record; may be given again"},
    {.name = "partition",
     .kind = OPTION_NUMBER,
     .letter = 'p',
     .field = offsetof(struct produce_options, partition),
     .value = "N",
     .min = 0,
     .max = INT32_MAX,
     .help =
         "all to this one (default: by the key, as Java\nclients do it; without a key anywhere)"},
    {.name = "acks",
     .kind = OPTION_CHOICE,
     .letter = 'a',
     .field = offsetof(struct produce_options, acks),
     .value = "ACKS",
     .choices = "all|1|0",
     .help = "all (default: on the disk of every replica in\nsync, each once), 1 or 0"},
    {.name = "compression",
     .kind = OPTION_CHOICE,
     .letter = 'z',
     .field = offsetof(struct produce_options, compression),
     .value = "CODEC",
     .choices = "none|gzip|snappy|lz4|zstd",
     .help = "none (default), gzip, snappy, lz4 or zstd"},
    {.name = "quiet",
     .kind = OPTION_FLAG,
     .letter = 'q',
     .field = offsetof(struct produce_options, quiet),
     .help = "no count at the end"},
};

static const struct usage produce_usage = {
    .command = "produce",
    .operands = "TOPIC",
    .operands_min = 1,
    .operands_max = 1,
    .about =
        "Sends each line as a record and waits until the broker has all of them. An empty line\n"
        "is a record with an empty value. A topic that is not there is created, where the\n"
        "broker allows it.",
    .options = produce_table,
    .options_count = COUNT_OF(produce_table),
    .examples = "  echo 'alice:42' | barnabas produce scores --key-separator :\n"
                "  barnabas produce logs --file access.log --compression zstd -H host=web1\n",
};

struct produce {
    struct client client; /* first: it is the opaque of the library's calls */
    const struct produce_options *options;
    const char *topic;
    struct lines lines;
    struct progress progress;
    uint64_t sent, done, failed;
    rd_kafka_resp_err_t first_error;
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    (void)rk;
    struct produce *p = (struct produce *)opaque;
    if (!message->err) {
        p->done++;
        return;
    }
    if (p->failed++ == 0) { p->first_error = message->err; }
}

/* A copy of the headers for one record; NULL when there are none. */
static rd_kafka_headers_t *make_headers(const struct produce *p)
{
    const struct produce_options *o = p->options;
    if (!o->headers.count) { return NULL; }
    rd_kafka_headers_t *headers = p->client.kafka.headers_new(o->headers.count);
    for (size_t i = 0; i < o->headers.count; i++) {
        const char *pair = o->headers.at[i], *equals = strchr(pair, '=');
        p->client.kafka.header_add(headers, pair, equals - pair, equals + 1, -1);
    }
    return headers;
}

static void split(const struct produce_options *o, struct slice line, struct slice *key,
                  struct slice *value)
{
    *key = SLICE_NULL;
    *value = line;
    if (!o->key_separator) { return; }
    size_t size = strlen(o->key_separator);
    const uint8_t *found = memmem(line.at, line.size, o->key_separator, size);
    if (!found) { return; }
    size_t at = (size_t)(found - line.at);
    *key = slice_of(line.at, at);
    *value = slice_of(found + size, line.size - at - size);
}

/* Hands one record to the library, waiting for room. */
static rd_kafka_resp_err_t send_line(struct produce *p, struct slice line)
{
    struct slice key, value;
    split(p->options, line, &key, &value);
    rd_kafka_headers_t *headers = make_headers(p);
    rd_kafka_resp_err_t e;
    for (;;) {
        rd_kafka_vu_t vus[] = {
            {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = p->topic},
            {.vtype = RD_KAFKA_VTYPE_PARTITION,
             .u.i32 = p->options->partition < 0 ? RD_KAFKA_PARTITION_UA
                                                : (int32_t)p->options->partition},
            {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
            {.vtype = RD_KAFKA_VTYPE_VALUE,
             .u.mem = {.ptr = (void *)(uintptr_t)value.at, .size = value.size}},
            {.vtype = RD_KAFKA_VTYPE_KEY,
             .u.mem = {.ptr = (void *)(uintptr_t)key.at, .size = key.size}},
            {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
        };
        size_t count = COUNT_OF(vus) - (headers == NULL);
        rd_kafka_error_t *error = p->client.kafka.produceva(p->client.rk, vus, count);
        e = error ? p->client.kafka.error_code(error) : RD_KAFKA_RESP_ERR_NO_ERROR;
        if (error) { p->client.kafka.error_destroy(error); }
        if (e != RD_KAFKA_RESP_ERR__QUEUE_FULL) { break; }
        p->client.kafka.poll(p->client.rk, PRODUCE_POLL_MS);
        if (signals_take()) {
            e = RD_KAFKA_RESP_ERR__INTR;
            break;
        }
    }
    if (e && headers) { p->client.kafka.headers_destroy(headers); }
    if (!e) { p->sent++; }
    return e;
}

static void show(struct produce *p)
{
    progress_show(&p->progress, p->lines.taken, p->done);
}

/* Reads and sends until the end or a signal. */
static int send_all(struct produce *p)
{
    struct slice line;
    for (uint64_t turn = 0;; turn++) {
        enum lines_event event = lines_next(&p->lines, &line);
        if (event == LINES_END) { return CLI_DONE; }
        if (event == LINES_FAILED) {
            return client_fail(&p->client, "%s: %s",
                               p->options->file ? p->options->file : "standard input",
                               p->lines.reason);
        }
        if (event == LINES_LINE) {
            rd_kafka_resp_err_t e = send_line(p, line);
            if (e) {
                return client_fail(&p->client, "record %" PRIu64 " could not be sent: %s",
                                   p->sent + 1, p->client.kafka.err2str(e));
            }
        }
        if (event == LINES_LINE && turn % 256 != 0) { continue; }
        p->client.kafka.poll(p->client.rk, 0);
        show(p);
        if (p->client.fatal) { return CLI_FAILED; }
        if (signals_take()) {
            return client_fail(&p->client, "interrupted after %" PRIu64 " records", p->sent);
        }
    }
}

/* Waits until every record has its answer; a second signal gives up. */
static int wait_answers(struct produce *p)
{
    p->client.kafka.flush(p->client.rk, 0); /* nothing lingers from here on */
    while (p->client.kafka.outq_len(p->client.rk) > 0) {
        p->client.kafka.poll(p->client.rk, PRODUCE_POLL_MS);
        show(p);
        if (signals_take()) {
            return client_fail(&p->client, "interrupted; %d records have no answer",
                               p->client.kafka.outq_len(p->client.rk));
        }
    }
    return CLI_DONE;
}

static int produce_run(struct produce *p)
{
    progress_start(&p->progress, "produce", p->lines.size, false);
    int code = send_all(p);
    int waited = wait_answers(p);
    progress_end(&p->progress);
    if (!code) { code = waited; }
    if (p->failed) {
        const char *reason = p->client.reason;
        code = client_fail(&p->client, "%" PRIu64 " of %" PRIu64 " records failed: %s%s%s%s",
                           p->failed, p->sent, p->client.kafka.err2str(p->first_error),
                           *reason ? " (" : "", reason, *reason ? ")" : "");
    } else if (p->client.fatal) {
        code = client_fail(&p->client, "%s", p->client.reason);
    }
    if (!p->options->quiet) {
        fprintf(stderr, "%" PRIu64 " record%s to %s\n", p->done, p->done == 1 ? "" : "s", p->topic);
    }
    return code;
}

static int produce_open(struct produce *p)
{
    const struct produce_options *o = p->options;
    bool is_all = strcmp(o->acks, "all") == 0;
    char limit[32];
    snprintf(limit, sizeof limit, "%zu", LINE_BYTES_MAX);
    const struct client_setting settings[] = {
        {"acks", o->acks},
        {"enable.idempotence", is_all ? "true" : "false"},
        {"compression.codec", o->compression},
        {"partitioner", "murmur2_random"},
        {"message.max.bytes", limit}, /* the broker's limit is the one that counts */
        {"queue.buffering.max.messages", "1000000"},
        {"queue.buffering.max.kbytes", "262144"},
    };
    struct client_setup setup = {.command = produce_usage.command,
                                 .options = &o->client,
                                 .type = RD_KAFKA_PRODUCER,
                                 .settings = settings,
                                 .settings_count = COUNT_OF(settings),
                                 .on_delivery = on_delivery};
    return client_open(&p->client, &setup);
}

int cli_produce(int argc, char **argv)
{
    struct produce_options o = {
        .client = CLIENT_OPTIONS_DEFAULT, .acks = "all", .compression = "none", .partition = -1};
    size_t operands;
    int code;
    if (!options_parse(&produce_usage, argc, argv, &o, &operands, &code)) { return code; }
    if (o.key_separator && !*o.key_separator) {
        return options_refuse(&produce_usage, "--key-separator: expected at least one character");
    }
    struct produce p = {.options = &o, .topic = argv[0]};
    signals_hold();
    if (!lines_open(&p.lines, o.file)) {
        fprintf(stderr, "barnabas produce: %s: %s\n", o.file ? o.file : "standard input",
                p.lines.reason);
        lines_close(&p.lines);
        return CLI_FAILED;
    }
    code = produce_open(&p);
    if (!code) { code = produce_run(&p); }
    client_close(&p.client);
    lines_close(&p.lines);
    return code;
}
