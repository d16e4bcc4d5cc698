/* topic.c - `barnabas topic create` and `delete`, and the way to its other commands. */
#include "cli/topic_int.h"

#include "base/check.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#define TOPIC_DELETE_MAX 1000

int topic_open(struct client *c, const char *command, const struct client_options *options)
{
    struct client_setup setup = {.command = command, .options = options, .type = RD_KAFKA_CONSUMER};
    return client_open(c, &setup);
}

/* ---- create ---- */

struct create_options {
    struct client_options client;
    int64_t partitions, replication_factor;
    struct option_list configs;
    bool if_not_exists, validate_only;
};

static const struct option create_table[] = {
    CLIENT_OPTIONS,
    {.name = "partitions",
     .kind = OPTION_NUMBER,
     .letter = 'p',
     .field = offsetof(struct create_options, partitions),
     .value = "N",
     .min = 1,
     .max = 100000,
     .help = "how many (default: the broker's num.partitions)"},
    {.name = "replication-factor",
     .kind = OPTION_NUMBER,
     .field = offsetof(struct create_options, replication_factor),
     .value = "N",
     .min = 1,
     .max = 32767,
     .help = "copies of each (default: the broker's\ndefault.replication.factor)"},
    {.name = "config",
     .kind = OPTION_PAIRS,
     .letter = 'c',
     .field = offsetof(struct create_options, configs),
     .value = "KEY=VALUE",
     .help = "a configuration of the topic; may be given again"},
    {.name = "if-not-exists",
     .kind = OPTION_FLAG,
     .field = offsetof(struct create_options, if_not_exists),
     .help = "done, too, when the topic is there already"},
    {.name = "validate-only",
     .kind = OPTION_FLAG,
     .field = offsetof(struct create_options, validate_only),
     .help = "ask the broker whether it would, and stop there"},
};

static const struct usage create_usage = {
    .command = "topic create",
    .operands = "NAME",
    .operands_min = 1,
    .operands_max = 1,
    .about = "Creates a topic. docs/CONFIGURATION.md lists the keys for --config.",
    .options = create_table,
    .options_count = COUNT_OF(create_table),
    .examples = "  barnabas topic create orders --partitions 12\n"
                "  barnabas topic create audit -c retention.ms=-1 -c compression.type=zstd\n",
};

/* NULL: refused, said. */
static rd_kafka_NewTopic_t *create_describe(const struct client *c, const char *name,
                                            const struct create_options *o, int *code)
{
    char text[CLIENT_REASON_SIZE];
    rd_kafka_NewTopic_t *topic = c->kafka.NewTopic_new(
        name, (int)o->partitions, (int)o->replication_factor, text, sizeof text);
    if (!topic) {
        client_fail(c, "%s", text);
        *code = CLI_MISUSED;
        return NULL;
    }
    for (size_t i = 0; i < o->configs.count; i++) {
        const char *pair = o->configs.at[i], *equals = strchr(pair, '=');
        char key[256];
        snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
        rd_kafka_resp_err_t e = c->kafka.NewTopic_set_config(topic, key, equals + 1);
        if (!e) { continue; }
        *code = client_fail(c, "--config %s: %s", pair, c->kafka.err2str(e));
        c->kafka.NewTopic_destroy(topic);
        return NULL;
    }
    return topic;
}

static int create_send(struct client *c, const char *name, const struct create_options *o)
{
    int code = CLI_FAILED;
    char text[CLIENT_REASON_SIZE];
    rd_kafka_NewTopic_t *topic = create_describe(c, name, o, &code);
    if (!topic) { return code; }
    rd_kafka_AdminOptions_t *admin = client_admin(c, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    if (!admin ||
        c->kafka.AdminOptions_set_validate_only(admin, o->validate_only, text, sizeof text)) {
        c->kafka.NewTopic_destroy(topic);
        return cli_no_memory(c->command);
    }
    c->kafka.CreateTopics(c->rk, &topic, 1, admin, c->queue);
    c->kafka.AdminOptions_destroy(admin);
    c->kafka.NewTopic_destroy(topic);
    rd_kafka_event_t *event = client_await(c);
    if (!event) { return CLI_FAILED; }
    size_t count = 0;
    const rd_kafka_topic_result_t **results =
        c->kafka.CreateTopics_result_topics(c->kafka.event_CreateTopics_result(event), &count);
    bool is_there = count == 1 && c->kafka.topic_result_error(results[0]) ==
                                      RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS;
    if (is_there && o->if_not_exists) {
        printf("%s exists already\n", name);
        code = CLI_DONE;
    } else {
        code = client_topic_results(c, results, count);
        if (!code) { printf("%s %s\n", o->validate_only ? "could create" : "created", name); }
    }
    c->kafka.event_destroy(event);
    return code;
}

static int topic_create(int argc, char **argv)
{
    struct create_options o = {
        .client = CLIENT_OPTIONS_DEFAULT, .partitions = -1, .replication_factor = -1};
    size_t operands;
    int code;
    if (!options_parse(&create_usage, argc, argv, &o, &operands, &code)) { return code; }
    struct client c;
    code = topic_open(&c, create_usage.command, &o.client);
    if (!code) { code = create_send(&c, argv[0], &o); }
    client_close(&c);
    return code;
}

/* ---- delete ---- */

struct delete_options {
    struct client_options client;
};

static const struct option delete_table[] = {CLIENT_OPTIONS};

static const struct usage delete_usage = {
    .command = "topic delete",
    .operands = "NAME...",
    .operands_min = 1,
    .operands_max = TOPIC_DELETE_MAX,
    .about = "Deletes topics with all their records, at once and for good.",
    .options = delete_table,
    .options_count = COUNT_OF(delete_table),
    .examples = "  barnabas topic delete orders\n"
                "  barnabas topic delete test-1 test-2 test-3 -b kafka.example:9092\n",
};

static int delete_send(struct client *c, char **names, size_t count)
{
    rd_kafka_DeleteTopic_t *topics[TOPIC_DELETE_MAX];
    rd_kafka_AdminOptions_t *admin = client_admin(c, RD_KAFKA_ADMIN_OP_DELETETOPICS);
    if (!admin) { return cli_no_memory(c->command); }
    for (size_t i = 0; i < count; i++) {
        topics[i] = c->kafka.DeleteTopic_new(names[i]);
    }
    c->kafka.DeleteTopics(c->rk, topics, count, admin, c->queue);
    c->kafka.DeleteTopic_destroy_array(topics, count);
    c->kafka.AdminOptions_destroy(admin);
    rd_kafka_event_t *event = client_await(c);
    if (!event) { return CLI_FAILED; }
    size_t results_count = 0;
    const rd_kafka_topic_result_t **results = c->kafka.DeleteTopics_result_topics(
        c->kafka.event_DeleteTopics_result(event), &results_count);
    for (size_t i = 0; i < results_count; i++) {
        if (c->kafka.topic_result_error(results[i])) { continue; }
        printf("deleted %s\n", c->kafka.topic_result_name(results[i]));
    }
    int code = client_topic_results(c, results, results_count);
    c->kafka.event_destroy(event);
    return code;
}

static int topic_delete(int argc, char **argv)
{
    struct delete_options o = {.client = CLIENT_OPTIONS_DEFAULT};
    size_t operands;
    int code;
    if (!options_parse(&delete_usage, argc, argv, &o, &operands, &code)) { return code; }
    for (size_t i = 0; i < operands; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(argv[i], argv[k]) == 0) {
                return options_refuse(&delete_usage, "'%s' is named twice", argv[i]);
            }
        }
    }
    struct client c;
    code = topic_open(&c, delete_usage.command, &o.client);
    if (!code) { code = delete_send(&c, argv, operands); }
    client_close(&c);
    return code;
}

/* ---- the way ---- */

static const struct command topic_commands[] = {
    {"create", "create a topic", topic_create},
    {"list", "name all topics", topic_list},
    {"describe", "partitions, leaders, offsets, configurations", topic_describe},
    {"alter", "add partitions, change configurations", topic_alter},
    {"delete", "delete topics and their records", topic_delete},
};

static int topic_usage(FILE *out, int code)
{
    fputs("Usage: barnabas topic <command> [options]; 'barnabas topic <command> --help' tells "
          "more\n\n",
          out);
    for (size_t i = 0; i < COUNT_OF(topic_commands); i++) {
        fprintf(out, "  %-10s %s\n", topic_commands[i].name, topic_commands[i].summary);
    }
    fputs("\nExamples:\n"
          "  barnabas topic create orders --partitions 12\n"
          "  barnabas topic describe orders --format json\n",
          out);
    return code;
}

int cli_topic(int argc, char **argv)
{
    if (argc == 0) { return topic_usage(stderr, CLI_MISUSED); }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        return topic_usage(stdout, CLI_DONE);
    }
    for (size_t i = 0; i < COUNT_OF(topic_commands); i++) {
        if (strcmp(argv[0], topic_commands[i].name) == 0) {
            return topic_commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "barnabas topic: unknown command '%s'\n", argv[0]);
    return topic_usage(stderr, CLI_MISUSED);
}
