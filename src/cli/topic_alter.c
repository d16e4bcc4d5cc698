/* topic_alter.c - `barnabas topic alter`: more partitions, other configurations.
 *
 * Note: this librdkafka (2.0.2) has AlterConfigs, which replaces all overrides of a topic, and not
 * IncrementalAlterConfigs. So the overrides are read, changed and sent back whole; a change that
 * somebody else makes between the two is lost. */
#include "cli/topic_int.h"

#include "base/check.h"
#include "base/mem.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

#define KEY_SIZE 256

struct alter_options {
    struct client_options client;
    int64_t partitions;
    struct option_list configs, deleted;
};

static const struct option alter_table[] = {
    CLIENT_OPTIONS,
    {.name = "partitions",
     .kind = OPTION_NUMBER,
     .letter = 'p',
     .field = offsetof(struct alter_options, partitions),
     .value = "N",
     .min = 1,
     .max = 100000,
     .help = "have N in all; there is no way to have fewer"},
    {.name = "config",
     .kind = OPTION_PAIRS,
     .letter = 'c',
     .field = offsetof(struct alter_options, configs),
     .value = "KEY=VALUE",
     .help = "set a configuration; may be given again"},
    {.name = "delete-config",
     .kind = OPTION_TEXTS,
     .letter = 'd',
     .field = offsetof(struct alter_options, deleted),
     .value = "KEY",
     .help = "go back to what the broker says; may be given\nagain"},
};

static const struct usage alter_usage = {
    .command = "topic alter",
    .operands = "NAME",
    .operands_min = 1,
    .operands_max = 1,
    .about =
        "Changes a topic. Keys of records move to other partitions when there are more of them.\n"
        "Configurations are read, changed and sent back whole: do not run two at a time.",
    .options = alter_table,
    .options_count = COUNT_OF(alter_table),
    .examples = "  barnabas topic alter orders --partitions 24\n"
                "  barnabas topic alter orders -c retention.ms=86400000 -d cleanup.policy\n",
};

static int alter_partitions(struct client *c, const char *name, int64_t partitions)
{
    char text[CLIENT_REASON_SIZE];
    rd_kafka_NewPartitions_t *wanted =
        c->kafka.NewPartitions_new(name, (size_t)partitions, text, sizeof text);
    if (!wanted) { return client_fail(c, "%s", text); }
    rd_kafka_AdminOptions_t *admin = client_admin(c, RD_KAFKA_ADMIN_OP_CREATEPARTITIONS);
    if (admin) { c->kafka.CreatePartitions(c->rk, &wanted, 1, admin, c->queue); }
    c->kafka.NewPartitions_destroy(wanted);
    if (!admin) { return cli_no_memory(c->command); }
    c->kafka.AdminOptions_destroy(admin);
    rd_kafka_event_t *event = client_await(c);
    if (!event) { return CLI_FAILED; }
    size_t count = 0;
    const rd_kafka_topic_result_t **results = c->kafka.CreatePartitions_result_topics(
        c->kafka.event_CreatePartitions_result(event), &count);
    int code = client_topic_results(c, results, count);
    if (!code) { printf("%s has %" PRId64 " partitions\n", name, partitions); }
    c->kafka.event_destroy(event);
    return code;
}

/* Whether the change speaks of this key: then it is not sent back as it was. */
static bool is_changed(const struct alter_options *o, const char *key)
{
    size_t len = strlen(key);
    for (size_t i = 0; i < o->configs.count; i++) {
        const char *pair = o->configs.at[i];
        if (strncmp(pair, key, len) == 0 && pair[len] == '=') { return true; }
    }
    for (size_t i = 0; i < o->deleted.count; i++) {
        if (strcmp(o->deleted.at[i], key) == 0) { return true; }
    }
    return false;
}

static int keep_overrides(struct client *c, const struct alter_options *o,
                          const rd_kafka_ConfigResource_t *now, rd_kafka_ConfigResource_t *next)
{
    size_t count = 0;
    const rd_kafka_ConfigEntry_t **entries = c->kafka.ConfigResource_configs(now, &count);
    for (size_t i = 0; i < count; i++) {
        const char *key = c->kafka.ConfigEntry_name(entries[i]);
        if (!topic_config_is_override(c, entries[i]) || is_changed(o, key)) { continue; }
        const char *value = c->kafka.ConfigEntry_value(entries[i]);
        if (!value) {
            return client_fail(c, "%s is hidden by the broker and would be lost; set it, too", key);
        }
        if (c->kafka.ConfigResource_set_config(next, key, value)) {
            return cli_no_memory(c->command);
        }
    }
    for (size_t i = 0; i < o->deleted.count; i++) {
        size_t k = 0;
        while (k < count && strcmp(c->kafka.ConfigEntry_name(entries[k]), o->deleted.at[i]) != 0) {
            k++;
        }
        if (k == count) {
            return client_fail(c, "--delete-config: topics have no configuration '%s'",
                               o->deleted.at[i]);
        }
    }
    return CLI_DONE;
}

static int set_overrides(struct client *c, const struct alter_options *o,
                         rd_kafka_ConfigResource_t *next)
{
    for (size_t i = 0; i < o->configs.count; i++) {
        const char *pair = o->configs.at[i], *equals = strchr(pair, '=');
        char key[KEY_SIZE];
        snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
        if (c->kafka.ConfigResource_set_config(next, key, equals + 1)) {
            return client_fail(c, "--config %s: not a key and a value", pair);
        }
    }
    return CLI_DONE;
}

static int send_overrides(struct client *c, rd_kafka_ConfigResource_t *next)
{
    rd_kafka_AdminOptions_t *admin = client_admin(c, RD_KAFKA_ADMIN_OP_ALTERCONFIGS);
    if (!admin) { return cli_no_memory(c->command); }
    c->kafka.AlterConfigs(c->rk, &next, 1, admin, c->queue);
    c->kafka.AdminOptions_destroy(admin);
    rd_kafka_event_t *event = client_await(c);
    if (!event) { return CLI_FAILED; }
    size_t count = 0;
    const rd_kafka_ConfigResource_t **results =
        c->kafka.AlterConfigs_result_resources(c->kafka.event_AlterConfigs_result(event), &count);
    int code = CLI_DONE;
    for (size_t i = 0; i < count; i++) {
        rd_kafka_resp_err_t e = c->kafka.ConfigResource_error(results[i]);
        if (!e) { continue; }
        const char *text = c->kafka.ConfigResource_error_string(results[i]);
        code = client_fail(c, "%s: %s", c->kafka.ConfigResource_name(results[i]),
                           text && *text ? text : c->kafka.err2str(e));
    }
    c->kafka.event_destroy(event);
    return code;
}

static int alter_configs(struct client *c, const char *name, const struct alter_options *o)
{
    struct topic_configs now;
    int code = topic_configs_fetch(c, &name, 1, &now);
    if (code) { return code; }
    rd_kafka_ConfigResource_t *next = c->kafka.ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name);
    code = now.count == 1 && next ? CLI_DONE : client_fail(c, "%s: no configurations", name);
    if (!code) { code = keep_overrides(c, o, now.resources[0], next); }
    if (!code) { code = set_overrides(c, o, next); }
    if (!code) { code = send_overrides(c, next); }
    if (next) { c->kafka.ConfigResource_destroy(next); }
    topic_configs_fini(c, &now);
    if (!code) { printf("altered the configurations of %s\n", name); }
    return code;
}

/* Configurations first: they are more likely to be refused, and then nothing was changed. */
static int alter_all(struct client *c, const char *name, const struct alter_options *o)
{
    const struct rd_kafka_metadata *m = NULL;
    int code = client_metadata(c, name, &m);
    if (code) { return code; }
    c->kafka.metadata_destroy(m);
    if (o->configs.count || o->deleted.count) { code = alter_configs(c, name, o); }
    if (!code && o->partitions > 0) { code = alter_partitions(c, name, o->partitions); }
    return code;
}

int topic_alter(int argc, char **argv)
{
    struct alter_options o = {.client = CLIENT_OPTIONS_DEFAULT};
    size_t operands;
    int code;
    if (!options_parse(&alter_usage, argc, argv, &o, &operands, &code)) { return code; }
    if (!o.partitions && !o.configs.count && !o.deleted.count) {
        return options_refuse(&alter_usage, "expected --partitions, --config or --delete-config");
    }
    for (size_t i = 0; i < o.configs.count; i++) {
        if (strcspn(o.configs.at[i], "=") >= KEY_SIZE) {
            return options_refuse(&alter_usage, "--config: a key has at most %d characters",
                                  KEY_SIZE - 1);
        }
    }
    struct client c;
    code = topic_open(&c, alter_usage.command, &o.client);
    if (!code) { code = alter_all(&c, argv[0], &o); }
    client_close(&c);
    return code;
}
