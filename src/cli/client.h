/* client.h - a connection to a broker through librdkafka, as the client commands use it.
 *
 * Place:      cli/. The options that all client commands share, and waiting for admin answers.
 * Thread:     main; librdkafka's own threads call nothing of ours.
 * Ownership:  client_close() ends what client_open() began, also after a failure.
 * Failure:    said on standard error with what the library reported last ("Connection refused"). */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "cli/kafka.h"
#include "cli/options.h"

#define CLIENT_REASON_SIZE 256

struct client_options {
    const char *bootstrap;
    int64_t timeout_ms; /* to reach the broker, and for one admin call */
    struct option_list extra; /* librdkafka's own configuration, key=value */
    bool verbose;
};

#define CLIENT_OPTIONS_DEFAULT                                                                     \
    ((struct client_options){.bootstrap = "127.0.0.1:9092", .timeout_ms = 5000})
#define CLIENT_OPTIONS_COUNT 4
/* Rows of an option table whose struct begins with a struct client_options named 'client'. */
#define CLIENT_OPTIONS                                                                             \
    {.name = "bootstrap-server",                                                                   \
     .kind = OPTION_TEXT,                                                                          \
     .letter = 'b',                                                                                \
     .field = offsetof(struct client_options, bootstrap),                                          \
     .value = "HOST:PORT",                                                                         \
     .help = "the broker, or several with commas\n(default 127.0.0.1:9092)"},                      \
        {.name = "request-timeout-ms",                                                             \
         .kind = OPTION_NUMBER,                                                                    \
         .field = offsetof(struct client_options, timeout_ms),                                     \
         .value = "MS",                                                                            \
         .min = 1,                                                                                 \
         .max = 3600000,                                                                           \
         .help =                                                                                   \
             "how long to try to reach the broker, and to\nwait for an answer (default 5000)"},    \
        {.name = "set",                                                                            \
         .kind = OPTION_PAIRS,                                                                     \
         .letter = 'X',                                                                            \
         .field = offsetof(struct client_options, extra),                                          \
         .value = "KEY=VALUE",                                                                     \
         .help = "a configuration key of librdkafka; may be\ngiven again"},                        \
    {                                                                                              \
        .name = "verbose", .kind = OPTION_FLAG, .letter = 'v',                                     \
        .field = offsetof(struct client_options, verbose),                                         \
        .help = "librdkafka's log on standard error"                                               \
    }

struct client_setting {
    const char *key;
    const char *value; /* NULL: left at its default */
};

struct client {
    const char *command;
    const struct client_options *options;
    struct kafka kafka; /* the library */
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue; /* of admin answers */
    char reason[CLIENT_REASON_SIZE]; /* the last error that the library reported */
    rd_kafka_resp_err_t fatal; /* nothing more will work */
};

struct client_setup {
    const char *command;
    const struct client_options *options;
    rd_kafka_type_t type;
    const struct client_setting *settings;
    size_t settings_count;
    /* Of producers; may be NULL. Its opaque is the struct client. */
    void (*on_delivery)(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque);
};

/* Loads the library, makes the client, waits until a broker answers. CLI_DONE, or an exit code
 * (said). */
int client_open(struct client *c, const struct client_setup *setup);
void client_close(struct client *c);
/* Says "barnabas <command>: <text>", and returns CLI_FAILED. */
__attribute__((format(printf, 2, 3))) int client_fail(const struct client *c, const char *fmt, ...);

/* Options for one admin call, with the client's timeout; NULL without memory. */
rd_kafka_AdminOptions_t *client_admin(struct client *c, rd_kafka_admin_op_t op);
/* Waits for the answer of an admin call that was sent to c->queue. NULL: failed, said. */
rd_kafka_event_t *client_await(struct client *c);
/* The results of a topic call: says what failed, returns the exit code. */
int client_topic_results(const struct client *c, const rd_kafka_topic_result_t **results,
                         size_t count);

/* Metadata of one topic (which must exist) or, with name NULL, of all. CLI_DONE or said. */
int client_metadata(struct client *c, const char *name, const struct rd_kafka_metadata **out);

#endif
