/* topic_describe.c - `barnabas topic list` and `describe`. */
#include "cli/topic_int.h"

#include "base/check.h"
#include "base/mem.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define REPLICAS_TEXT_SIZE 512

struct describe_options {
    struct client_options client;
    const char *format;
};

#define FORMAT_OPTION                                                                              \
    {                                                                                              \
        .name = "format", .kind = OPTION_CHOICE,                                                   \
        .field = offsetof(struct describe_options, format), .value = "FORMAT",                     \
        .choices = "table|json", .help = "table (default) or json"                                 \
    }

static const struct option describe_table[] = {CLIENT_OPTIONS, FORMAT_OPTION};

static bool is_json(const struct describe_options *o)
{
    return strcmp(o->format, "json") == 0;
}

static int by_name(const void *a, const void *b)
{
    const struct rd_kafka_metadata_topic *const *x = a, *const *y = b;
    return strcmp((*x)->topic, (*y)->topic);
}

/* The topics of the answer in order of their names; freed with mem_free. NULL without memory. */
static const struct rd_kafka_metadata_topic **sorted(const struct rd_kafka_metadata *m)
{
    size_t count = (size_t)m->topic_cnt;
    const struct rd_kafka_metadata_topic **out = mem_array(count, sizeof *out);
    for (size_t i = 0; out && i < count; i++) {
        out[i] = &m->topics[i];
    }
    if (out) { qsort((void *)out, count, sizeof *out, by_name); }
    return out;
}

static int replicas_of(const struct rd_kafka_metadata_topic *t)
{
    return t->partition_cnt ? t->partitions[0].replica_cnt : 0;
}

/* ---- list ---- */

static const struct usage list_usage = {
    .command = "topic list",
    .operands = "",
    .about = "Names all topics with the number of their partitions and of the copies of each.",
    .options = describe_table,
    .options_count = COUNT_OF(describe_table),
    .examples = "  barnabas topic list\n"
                "  barnabas topic list --format json | jq -r '.[].name'\n",
};

static int list_json(const struct rd_kafka_metadata_topic **topics, size_t count)
{
    json_t *out = json_array();
    for (size_t i = 0; out && i < count; i++) {
        json_t *row =
            json_pack("{s:s, s:i, s:i}", "name", topics[i]->topic, "partitions",
                      topics[i]->partition_cnt, "replication_factor", replicas_of(topics[i]));
        if (json_array_append_new(out, row)) {
            json_decref(out);
            out = NULL;
        }
    }
    return json_out(list_usage.command, out);
}

static int list_table(const struct rd_kafka_metadata_topic **topics, size_t count)
{
    static const struct table_column columns[] = {
        {"TOPIC", false}, {"PARTITIONS", true}, {"REPLICATION", true}};
    struct table table;
    table_init(&table, columns, COUNT_OF(columns));
    for (size_t i = 0; i < count; i++) {
        table_cell(&table, "%s", topics[i]->topic);
        table_cell(&table, "%d", topics[i]->partition_cnt);
        table_cell(&table, "%d", replicas_of(topics[i]));
    }
    int code = table_print(&table, stdout) ? CLI_DONE : cli_no_memory(list_usage.command);
    table_fini(&table);
    return code;
}

static int list_print(const struct rd_kafka_metadata *m, const struct describe_options *o)
{
    const struct rd_kafka_metadata_topic **topics = sorted(m);
    if (!topics) { return cli_no_memory(list_usage.command); }
    size_t count = (size_t)m->topic_cnt;
    int code = is_json(o) ? list_json(topics, count) : list_table(topics, count);
    mem_free((void *)topics);
    return code;
}

int topic_list(int argc, char **argv)
{
    struct describe_options o = {.client = CLIENT_OPTIONS_DEFAULT, .format = "table"};
    size_t operands;
    int code;
    if (!options_parse(&list_usage, argc, argv, &o, &operands, &code)) { return code; }
    struct client c;
    const struct rd_kafka_metadata *m = NULL;
    code = topic_open(&c, list_usage.command, &o.client);
    if (!code) { code = client_metadata(&c, NULL, &m); }
    if (!code) { code = list_print(m, &o); }
    if (m) { c.kafka.metadata_destroy(m); }
    client_close(&c);
    return code;
}

/* ---- configurations ---- */

bool topic_config_is_override(const struct client *c, const rd_kafka_ConfigEntry_t *entry)
{
    return c->kafka.ConfigEntry_source(entry) == RD_KAFKA_CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG;
}

int topic_configs_fetch(struct client *c, const char **names, size_t count,
                        struct topic_configs *out)
{
    *out = (struct topic_configs){0};
    rd_kafka_ConfigResource_t **asked = mem_array(count, sizeof *asked);
    rd_kafka_AdminOptions_t *admin = client_admin(c, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    if (!asked || !admin) {
        mem_free((void *)asked);
        if (admin) { c->kafka.AdminOptions_destroy(admin); }
        return cli_no_memory(c->command);
    }
    for (size_t i = 0; i < count; i++) {
        asked[i] = c->kafka.ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, names[i]);
    }
    c->kafka.DescribeConfigs(c->rk, asked, count, admin, c->queue);
    c->kafka.ConfigResource_destroy_array(asked, count);
    mem_free((void *)asked);
    c->kafka.AdminOptions_destroy(admin);
    out->event = client_await(c);
    if (!out->event) { return CLI_FAILED; }
    out->resources = c->kafka.DescribeConfigs_result_resources(
        c->kafka.event_DescribeConfigs_result(out->event), &out->count);
    for (size_t i = 0; i < out->count; i++) {
        rd_kafka_resp_err_t e = c->kafka.ConfigResource_error(out->resources[i]);
        if (!e) { continue; }
        const char *text = c->kafka.ConfigResource_error_string(out->resources[i]);
        client_fail(c, "%s: %s", c->kafka.ConfigResource_name(out->resources[i]),
                    text && *text ? text : c->kafka.err2str(e));
        topic_configs_fini(c, out);
        return CLI_FAILED;
    }
    return CLI_DONE;
}

void topic_configs_fini(const struct client *c, struct topic_configs *t)
{
    if (t->event) { c->kafka.event_destroy(t->event); }
    *t = (struct topic_configs){0};
}

static const rd_kafka_ConfigResource_t *configs_of(const struct client *c,
                                                   const struct topic_configs *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(c->kafka.ConfigResource_name(t->resources[i]), name) == 0) {
            return t->resources[i];
        }
    }
    return NULL;
}

/* ---- describe ---- */

static const struct usage describe_usage = {
    .command = "topic describe",
    .operands = "[NAME]",
    .operands_max = 1,
    .about =
        "Shows a topic's partitions with leaders, replicas and offsets, and the configurations\n"
        "that it does not take from the broker. Without NAME all topics, without offsets.",
    .options = describe_table,
    .options_count = COUNT_OF(describe_table),
    .examples = "  barnabas topic describe orders\n"
                "  barnabas topic describe orders --format json | jq .configs\n",
};

static const struct table_column describe_columns[] = {
    {"PARTITION", true}, {"LEADER", true},   {"REPLICAS", false},
    {"ISR", false},      {"EARLIEST", true}, {"LATEST", true},
};

static const char *nodes_text(const int32_t *nodes, int count, char text[REPLICAS_TEXT_SIZE])
{
    size_t len = 0;
    text[0] = '\0';
    for (int i = 0; i < count && len + 16 < REPLICAS_TEXT_SIZE; i++) {
        len += (size_t)snprintf(text + len, REPLICAS_TEXT_SIZE - len, "%s%" PRId32, i ? "," : "",
                                nodes[i]);
    }
    return text;
}

static json_t *nodes_json(const int32_t *nodes, int count)
{
    json_t *out = json_array();
    for (int i = 0; out && i < count; i++) {
        json_array_append_new(out, json_integer(nodes[i]));
    }
    return out;
}

/* One topic on its way to the output. */
struct described {
    const struct client *client;
    const struct rd_kafka_metadata_topic *topic;
    const rd_kafka_ConfigResource_t *configs;
    int64_t *earliest, *latest; /* a partition each; NULL: not asked */
};

static json_t *describe_configs_json(const struct described *d)
{
    const struct client *c = d->client;
    json_t *out = json_object();
    size_t count = 0;
    const rd_kafka_ConfigEntry_t **entries =
        d->configs ? c->kafka.ConfigResource_configs(d->configs, &count) : NULL;
    for (size_t i = 0; out && i < count; i++) {
        if (!topic_config_is_override(c, entries[i])) { continue; }
        const char *value = c->kafka.ConfigEntry_value(entries[i]);
        json_object_set_new(out, c->kafka.ConfigEntry_name(entries[i]),
                            value ? json_string(value) : json_null());
    }
    return out;
}

static json_t *describe_json(const struct described *d)
{
    json_t *partitions = json_array();
    for (int i = 0; partitions && i < d->topic->partition_cnt; i++) {
        const struct rd_kafka_metadata_partition *p = &d->topic->partitions[i];
        json_t *row = json_pack("{s:i, s:i, s:o, s:o}", "partition", p->id, "leader", p->leader,
                                "replicas", nodes_json(p->replicas, p->replica_cnt), "isr",
                                nodes_json(p->isrs, p->isr_cnt));
        if (row && d->earliest) {
            json_object_set_new(row, "earliest", json_integer(d->earliest[i]));
            json_object_set_new(row, "latest", json_integer(d->latest[i]));
        }
        json_array_append_new(partitions, row);
    }
    return json_pack("{s:s, s:i, s:o, s:o}", "name", d->topic->topic, "replication_factor",
                     replicas_of(d->topic), "configs", describe_configs_json(d), "partitions",
                     partitions);
}

static bool describe_print(const struct described *d)
{
    const struct client *c = d->client;
    printf("%s: %d partition%s, replication factor %d\n", d->topic->topic, d->topic->partition_cnt,
           d->topic->partition_cnt == 1 ? "" : "s", replicas_of(d->topic));
    size_t count = 0;
    const rd_kafka_ConfigEntry_t **entries =
        d->configs ? c->kafka.ConfigResource_configs(d->configs, &count) : NULL;
    for (size_t i = 0; i < count; i++) {
        if (!topic_config_is_override(c, entries[i])) { continue; }
        const char *value = c->kafka.ConfigEntry_value(entries[i]);
        printf("  %s=%s\n", c->kafka.ConfigEntry_name(entries[i]), value ? value : "(hidden)");
    }
    struct table table;
    char text[REPLICAS_TEXT_SIZE];
    table_init(&table, describe_columns, d->earliest ? 6 : 4);
    for (int i = 0; i < d->topic->partition_cnt; i++) {
        const struct rd_kafka_metadata_partition *p = &d->topic->partitions[i];
        table_cell(&table, "%" PRId32, p->id);
        table_cell(&table, "%" PRId32, p->leader);
        table_cell(&table, "%s", nodes_text(p->replicas, p->replica_cnt, text));
        table_cell(&table, "%s", nodes_text(p->isrs, p->isr_cnt, text));
        if (!d->earliest) { continue; }
        table_cell(&table, "%" PRId64, d->earliest[i]);
        table_cell(&table, "%" PRId64, d->latest[i]);
    }
    bool ok = table_print(&table, stdout);
    table_fini(&table);
    return ok;
}

/* Fills in the offsets of every partition. */
static int describe_offsets(struct client *c, struct described *d)
{
    size_t count = (size_t)d->topic->partition_cnt;
    d->earliest = mem_array(count * 2, sizeof *d->earliest);
    if (!d->earliest) { return cli_no_memory(c->command); }
    d->latest = d->earliest + count;
    for (size_t i = 0; i < count; i++) {
        int32_t partition = d->topic->partitions[i].id;
        rd_kafka_resp_err_t e =
            c->kafka.query_watermark_offsets(c->rk, d->topic->topic, partition, &d->earliest[i],
                                             &d->latest[i], (int)c->options->timeout_ms);
        if (e) {
            return client_fail(c, "offsets of %s-%" PRId32 ": %s", d->topic->topic, partition,
                               c->kafka.err2str(e));
        }
    }
    return CLI_DONE;
}

/* A named topic is one object in JSON, all topics are a list. */
static int describe_topics(struct client *c, const struct rd_kafka_metadata_topic **topics,
                           size_t count, const struct topic_configs *configs,
                           const struct describe_options *o, bool is_named)
{
    json_t *list = is_json(o) ? json_array() : NULL;
    int code = CLI_DONE;
    for (size_t i = 0; !code && i < count; i++) {
        struct described d = {
            .client = c, .topic = topics[i], .configs = configs_of(c, configs, topics[i]->topic)};
        if (is_named) { code = describe_offsets(c, &d); }
        if (!code && is_json(o)) {
            if (json_array_append_new(list, describe_json(&d))) {
                code = cli_no_memory(c->command);
            }
        } else if (!code) {
            if (i) { putchar('\n'); }
            if (!describe_print(&d)) { code = cli_no_memory(c->command); }
        }
        mem_free(d.earliest);
    }
    if (!code && is_json(o)) {
        code = json_out(c->command,
                        is_named ? json_incref(json_array_get(list, 0)) : json_incref(list));
    }
    json_decref(list);
    return code;
}

static int describe_all(struct client *c, const struct rd_kafka_metadata *m,
                        const struct describe_options *o, bool is_named)
{
    size_t count = (size_t)m->topic_cnt;
    const struct rd_kafka_metadata_topic **topics = sorted(m);
    const char **names = mem_array(count, sizeof *names);
    struct topic_configs configs = {0};
    int code = topics && names ? CLI_DONE : cli_no_memory(c->command);
    for (size_t i = 0; !code && i < count; i++) {
        names[i] = topics[i]->topic;
    }
    if (!code && count) { code = topic_configs_fetch(c, names, count, &configs); }
    if (!code) { code = describe_topics(c, topics, count, &configs, o, is_named); }
    topic_configs_fini(c, &configs);
    mem_free((void *)topics);
    mem_free((void *)names);
    return code;
}

int topic_describe(int argc, char **argv)
{
    struct describe_options o = {.client = CLIENT_OPTIONS_DEFAULT, .format = "table"};
    size_t operands;
    int code;
    if (!options_parse(&describe_usage, argc, argv, &o, &operands, &code)) { return code; }
    const char *name = operands ? argv[0] : NULL;
    struct client c;
    const struct rd_kafka_metadata *m = NULL;
    code = topic_open(&c, describe_usage.command, &o.client);
    if (!code) { code = client_metadata(&c, name, &m); }
    if (!code) { code = describe_all(&c, m, &o, name != NULL); }
    if (m) { c.kafka.metadata_destroy(m); }
    client_close(&c);
    return code;
}
