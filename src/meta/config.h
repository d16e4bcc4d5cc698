/* config.h - every configuration key that Barnabas knows: type, default, limits, where its value
 * comes from.
 *
 * Place:      meta/ holds the definitions and the resolution; broker/ parses files and flags into
 *             a config_set; api/ describes and alters; replica/ turns a topic's values into a
 *             log's configuration. Names, types, defaults and limits are those of Apache Kafka
 *             4.4; keys of our own are marked in config_table.c.
 * Thread:     definitions are constant. A config_set is built at start and constant afterwards.
 *             Dynamic values live in the image.
 * Order:      topic override, dynamic broker value, dynamic cluster-wide default, static file or
 *             flag, default; a topic key falls back to its broker synonyms in that order, synonym
 *             by synonym (KIP-226). */
#ifndef META_CONFIG_H
#define META_CONFIG_H

#include "base/map.h"
#include "meta/image.h"

/* Numbers as in DescribeConfigs answers. */
enum config_type {
    CONFIG_BOOLEAN = 1,
    CONFIG_STRING = 2,
    CONFIG_INT = 3,
    CONFIG_SHORT = 4,
    CONFIG_LONG = 5,
    CONFIG_DOUBLE = 6,
    CONFIG_LIST = 7,
    CONFIG_CLASS = 8,
    CONFIG_PASSWORD = 9,
};

enum config_update { CONFIG_READ_ONLY, CONFIG_PER_BROKER, CONFIG_CLUSTER_WIDE };

enum config_source {
    CONFIG_SOURCE_TOPIC = 1,
    CONFIG_SOURCE_DYNAMIC_BROKER = 2,
    CONFIG_SOURCE_DYNAMIC_DEFAULT = 3,
    CONFIG_SOURCE_STATIC = 4,
    CONFIG_SOURCE_DEFAULT = 5,
};

#define CONFIG_SYNONYMS_MAX 3

struct config_synonym {
    const char *name; /* a broker key; NULL ends the list */
    int64_t scale; /* its value times this is the topic key's: log.retention.hours -> 3600000 */
};

struct config_def {
    const char *name;
    const char *doc; /* a sentence for DescribeConfigs and docs/CONFIGURATION.md */
    enum config_type type;
    const char *default_value; /* NULL: null */
    int64_t min, max; /* of numbers; min > max: no limit */
    const char *valid; /* "a|b|c": allowed strings or list elements; NULL: any */
    enum config_update update; /* of broker keys */
    bool is_topic;
    bool is_unused; /* accepted, checked and described; changes nothing here */
    struct config_synonym synonyms[CONFIG_SYNONYMS_MAX]; /* of topic keys */
};

const struct config_def *config_topic_defs(size_t *count); /* sorted by name */
const struct config_def *config_broker_defs(size_t *count); /* sorted by name */
const struct config_def *config_topic_def(struct slice name);
const struct config_def *config_broker_def(struct slice name);

#define CONFIG_MESSAGE_SIZE 256
/* Of max.connections.per.ip.overrides. */
#define CONFIG_ADDRESS_LIMITS_MAX 256
#define CONFIG_ADDRESS_LIMITS_SIZE 8192

/* Whether value (not null) is allowed for the key. On ERR_INVALID message says what was expected,
 * in Kafka's words where clients match them. */
NODISCARD enum err config_check(const struct config_def *def, struct slice value,
                                char message[CONFIG_MESSAGE_SIZE]);
/* host:port of http.listener: the host empty (all interfaces), a name, an address, or [address]. */
#define CONFIG_HOST_SIZE 256
bool config_host_port(struct slice value, char host[CONFIG_HOST_SIZE], uint16_t *port);
/* The value as it is stored: spaces around list elements and repeated elements removed, booleans in
 * lower case. Into buf (at least value.size + 1). Only after config_check. Time in the order of the
 * value's size. */
NODISCARD enum err config_normalize(const struct config_def *def, struct slice value, char *buf);

/* Values of the properties file and the command line: key -> char * (owned). */
struct config_set {
    struct map values;
};

void config_set_init(struct config_set *set);
void config_set_fini(struct config_set *set);
NODISCARD enum err config_set_put(struct config_set *set, struct slice key, struct slice value);
const char *config_set_get(const struct config_set *set, const char *key); /* NULL: not set */

/* Where values are looked up; borrowed. */
struct config_scope {
    const struct config_set *statics;
    const struct meta_image *image; /* may be NULL: static values only */
    int32_t broker_id;
};

struct config_value {
    const char *text; /* NULL: null. Borrowed from scope, or scaled */
    enum config_source source;
    char scaled[24]; /* text points here when a synonym's unit differs */
};

/* The effective value of a broker key. Unknown keys yield NULL with CONFIG_SOURCE_DEFAULT. */
void config_broker_value(const struct config_scope *scope, const struct config_def *def,
                         struct config_value *out);
/* The effective value of a topic key; topic may be null: what a topic without overrides has. */
void config_topic_value(const struct config_scope *scope, struct slice topic,
                        const struct config_def *def, struct config_value *out);

/* One line of DescribeConfigs' synonym list, in order; returns false after the last. Start with
 * index 0. */
struct config_synonym_value {
    const char *name;
    const char *text; /* in the topic key's unit */
    const char *raw; /* as it is set, in the synonym's own unit: what DescribeConfigs lists */
    enum config_source source;
    char scaled[24];
};
bool config_synonym_at(const struct config_scope *scope, struct slice topic,
                       const struct config_def *def, size_t index,
                       struct config_synonym_value *out);

/* Typed access; the key must exist in the table (CHECK) and its value is valid by construction. */
int64_t config_broker_i64(const struct config_scope *scope, const char *key);
bool config_broker_bool(const struct config_scope *scope, const char *key);
const char *config_broker_text(const struct config_scope *scope, const char *key); /* may be NULL */
int64_t config_topic_i64(const struct config_scope *scope, struct slice topic, const char *key);
bool config_topic_bool(const struct config_scope *scope, struct slice topic, const char *key);
/* Of STRING and LIST keys; borrowed from the scope. */
const char *config_topic_text(const struct config_scope *scope, struct slice topic,
                              const char *key);
/* The list 'old' with the elements of 'value' behind it, or without them, each once, into buf (at
 * least old.size + value.size + 2). */
NODISCARD enum err config_list_add(struct slice old, struct slice value, char *buf);
NODISCARD enum err config_list_subtract(struct slice old, struct slice value, char *buf);
/* True when the list value holds the element. */
bool config_list_has(const char *list, const char *element);

#endif
