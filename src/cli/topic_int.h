/* topic_int.h - what the files of `barnabas topic` share.
 *
 * Place:      cli/, private.
 * Thread:     main. */
#ifndef CLI_TOPIC_INT_H
#define CLI_TOPIC_INT_H

#include "cli/client.h"
#include "cli/output.h"

/* How configurations come back: one resource a topic. */
struct topic_configs {
    rd_kafka_event_t *event; /* owner of everything below */
    const rd_kafka_ConfigResource_t **resources;
    size_t count;
};

/* Connects for admin calls: as a consumer, since questions of a producer would create topics. */
int topic_open(struct client *c, const char *command, const struct client_options *options);
/* The configurations of the topics, in the order of the names. CLI_DONE, or said. */
int topic_configs_fetch(struct client *c, const char **names, size_t count,
                        struct topic_configs *out);
void topic_configs_fini(const struct client *c, struct topic_configs *t);
/* True when the topic itself has the value: neither the broker's nor the default. */
bool topic_config_is_override(const struct client *c, const rd_kafka_ConfigEntry_t *entry);

int topic_list(int argc, char **argv);
int topic_describe(int argc, char **argv);
int topic_alter(int argc, char **argv);

#endif
