/* client.c - see client.h. */
#include "cli/client.h"

#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int client_fail(const struct client *c, const char *fmt, ...)
{
    va_list args;
    fprintf(stderr, "barnabas %s: ", c->command);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return CLI_FAILED;
}

/* ---- life ---- */

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)rk;
    (void)level;
    (void)facility;
    (void)text;
}

static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    struct client *c = opaque;
    /* "All brokers are down" follows the reason why and says less. */
    if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || !c->reason[0]) {
        snprintf(c->reason, sizeof c->reason, "%s", reason);
    }
    if (code == RD_KAFKA_RESP_ERR__FATAL) {
        char text[CLIENT_REASON_SIZE];
        c->fatal = c->kafka.fatal_error(rk, text, sizeof text);
        snprintf(c->reason, sizeof c->reason, "%s", text);
    }
}

static int set(struct client *c, rd_kafka_conf_t *conf, const char *key, const char *value)
{
    char text[CLIENT_REASON_SIZE];
    if (c->kafka.conf_set(conf, key, value, text, sizeof text) == RD_KAFKA_CONF_OK) {
        return CLI_DONE;
    }
    fprintf(stderr, "barnabas %s: %s=%s: %s\n", c->command, key, value, text);
    return CLI_MISUSED;
}

static int configure(struct client *c, const struct client_setup *setup, rd_kafka_conf_t *conf)
{
    int code = set(c, conf, "bootstrap.servers", c->options->bootstrap);
    if (!code) { code = set(c, conf, "client.id", "barnabas-cli"); }
    for (size_t i = 0; !code && i < setup->settings_count; i++) {
        const struct client_setting *s = &setup->settings[i];
        if (s->value) { code = set(c, conf, s->key, s->value); }
    }
    for (size_t i = 0; !code && i < c->options->extra.count; i++) {
        const char *pair = c->options->extra.at[i], *equals = strchr(pair, '=');
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
        code = set(c, conf, key, equals + 1);
    }
    if (!c->options->verbose) { c->kafka.conf_set_log_cb(conf, on_log); }
    if (setup->on_delivery) { c->kafka.conf_set_dr_msg_cb(conf, setup->on_delivery); }
    c->kafka.conf_set_error_cb(conf, on_error);
    c->kafka.conf_set_opaque(conf, c);
    return code;
}

/* A metadata request about nothing: the shortest question that a broker answers. */
static int reach(struct client *c)
{
    const struct rd_kafka_metadata *metadata = NULL;
    int timeout = (int)c->options->timeout_ms;
    rd_kafka_resp_err_t e = c->kafka.metadata(c->rk, 0, NULL, &metadata, timeout);
    c->kafka.poll(c->rk, 0); /* brings the reason */
    if (!e) {
        c->kafka.metadata_destroy(metadata);
        c->reason[0] = '\0'; /* of an earlier try */
        return CLI_DONE;
    }
    return client_fail(c, "no broker answered at %s: %s", c->options->bootstrap,
                       c->reason[0] ? c->reason : c->kafka.err2str(e));
}

int client_open(struct client *c, const struct client_setup *setup)
{
    *c = (struct client){.command = setup->command, .options = setup->options};
    int code = kafka_load(c->command, &c->kafka);
    if (code) { return code; }
    rd_kafka_conf_t *conf = c->kafka.conf_new();
    char text[CLIENT_REASON_SIZE];
    code = configure(c, setup, conf);
    if (code) {
        c->kafka.conf_destroy(conf);
        return code;
    }
    c->rk = c->kafka.new(setup->type, conf, text, sizeof text);
    if (!c->rk) {
        c->kafka.conf_destroy(conf);
        fprintf(stderr, "barnabas %s: %s\n", c->command, text);
        return CLI_MISUSED;
    }
    c->queue = c->kafka.queue_new(c->rk);
    return reach(c);
}

void client_close(struct client *c)
{
    if (c->queue) { c->kafka.queue_destroy(c->queue); }
    if (c->rk) { c->kafka.destroy(c->rk); }
    *c = (struct client){.command = c->command};
}

/* ---- admin calls ---- */

rd_kafka_AdminOptions_t *client_admin(struct client *c, rd_kafka_admin_op_t op)
{
    rd_kafka_AdminOptions_t *options = c->kafka.AdminOptions_new(c->rk, op);
    char text[CLIENT_REASON_SIZE];
    int timeout = (int)c->options->timeout_ms;
    if (options && c->kafka.AdminOptions_set_request_timeout(options, timeout, text, sizeof text)) {
        c->kafka.AdminOptions_destroy(options);
        return NULL;
    }
    return options;
}

rd_kafka_event_t *client_await(struct client *c)
{
    /* The library ends the call at its own timeout; this one only bounds a bug. */
    rd_kafka_event_t *event = c->kafka.queue_poll(c->queue, (int)c->options->timeout_ms + 60000);
    if (!event) {
        client_fail(c, "no answer");
        return NULL;
    }
    if (!c->kafka.event_error(event)) { return event; }
    c->kafka.poll(c->rk, 0);
    client_fail(c, "%s%s%s%s", c->kafka.event_error_string(event), c->reason[0] ? " (" : "",
                c->reason, c->reason[0] ? ")" : "");
    c->kafka.event_destroy(event);
    return NULL;
}

int client_topic_results(const struct client *c, const rd_kafka_topic_result_t **results,
                         size_t count)
{
    int code = CLI_DONE;
    for (size_t i = 0; i < count; i++) {
        rd_kafka_resp_err_t e = c->kafka.topic_result_error(results[i]);
        if (!e) { continue; }
        const char *text = c->kafka.topic_result_error_string(results[i]);
        code = client_fail(c, "%s: %s", c->kafka.topic_result_name(results[i]),
                           text && *text ? text : c->kafka.err2str(e));
    }
    return code;
}

int client_metadata(struct client *c, const char *name, const struct rd_kafka_metadata **out)
{
    int timeout = (int)c->options->timeout_ms;
    rd_kafka_topic_t *topic = name ? c->kafka.topic_new(c->rk, name, NULL) : NULL;
    if (name && !topic) { return client_fail(c, "%s: no topic has such a name", name); }
    rd_kafka_resp_err_t e = c->kafka.metadata(c->rk, name == NULL, topic, out, timeout);
    if (topic) { c->kafka.topic_destroy(topic); }
    if (e) { return client_fail(c, "metadata: %s", c->kafka.err2str(e)); }
    if (!name) { return CLI_DONE; }
    const struct rd_kafka_metadata *m = *out;
    if (m->topic_cnt == 1 && !m->topics[0].err) { return CLI_DONE; }
    e = m->topic_cnt == 1 ? m->topics[0].err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    c->kafka.metadata_destroy(m);
    *out = NULL;
    if (e == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
        return client_fail(c, "there is no topic '%s'", name);
    }
    return client_fail(c, "%s: %s", name, c->kafka.err2str(e));
}
