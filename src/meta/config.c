/* config.c - checking values and resolving them through their layers. */
#include "meta/config.h"

#include "base/check.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CONFIG_VALUE_SIZE_MAX 65536

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static struct slice slice_trim(struct slice s)
{
    while (s.size && is_space(s.at[0])) {
        s.at++;
        s.size--;
    }
    while (s.size && is_space(s.at[s.size - 1])) {
        s.size--;
    }
    return s;
}

/* Takes the next element of a comma-separated list, trimmed. False when none is left. */
static bool list_next(struct slice *rest, struct slice *element)
{
    if (!rest->at) { return false; }
    const uint8_t *comma = rest->size ? memchr(rest->at, ',', rest->size) : NULL;
    size_t size = comma ? (size_t)(comma - rest->at) : rest->size;
    *element = slice_trim(slice_of(rest->at, size));
    *rest = comma ? slice_of(comma + 1, rest->size - size - 1) : SLICE_NULL;
    return true;
}

static bool valid_has(const char *valid, struct slice value)
{
    for (const char *p = valid;;) {
        const char *end = strchr(p, '|');
        struct slice one = end ? slice_of(p, (size_t)(end - p)) : slice_str(p);
        if (slice_eq(one, value)) { return true; }
        if (!end) { return false; }
        p = end + 1;
    }
}

static bool parse_i64(struct slice text, int64_t *out)
{
    char buf[24];
    text = slice_trim(text);
    if (text.size == 0 || text.size >= sizeof buf) { return false; }
    memcpy(buf, text.at, text.size);
    buf[text.size] = '\0';
    char *end;
    errno = 0;
    long long v = strtoll(buf, &end, 10);
    if (errno || *end || end == buf) { return false; }
    *out = v;
    return true;
}

static bool parse_double(struct slice text, double *out)
{
    char buf[48];
    text = slice_trim(text);
    if (text.size == 0 || text.size >= sizeof buf) { return false; }
    memcpy(buf, text.at, text.size);
    buf[text.size] = '\0';
    char *end;
    *out = strtod(buf, &end);
    return *end == '\0' && end != buf;
}

static bool is_word(struct slice text, const char *lower)
{
    size_t n = strlen(lower);
    if (text.size != n) { return false; }
    for (size_t i = 0; i < n; i++) {
        if ((text.at[i] | 0x20) != lower[i]) { return false; }
    }
    return true;
}

static enum err check_number(const struct config_def *def, struct slice value, char *message)
{
    char text[64];
    int64_t v;
    if (!parse_i64(value, &v) || (def->type == CONFIG_INT && (v > INT32_MAX || v < INT32_MIN)) ||
        (def->type == CONFIG_SHORT && (v > INT16_MAX || v < INT16_MIN))) {
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "Invalid value %s for configuration %s: Not a number of type %s",
                 slice_print(value, text, sizeof text), def->name,
                 def->type == CONFIG_LONG  ? "LONG"
                 : def->type == CONFIG_INT ? "INT"
                                           : "SHORT");
        return ERR_INVALID;
    }
    bool is_gap = strcmp(def->name, "compression.gzip.level") == 0 && v == 0;
    if (v < def->min || is_gap) {
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "Invalid value %" PRId64 " for configuration %s: Value must be at least %" PRId64,
                 v, def->name, is_gap ? (int64_t)1 : def->min);
        return ERR_INVALID;
    }
    if (v > def->max) {
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "Invalid value %" PRId64
                 " for configuration %s: Value must be no more than %" PRId64,
                 v, def->name, def->max);
        return ERR_INVALID;
    }
    return ERR_OK;
}

/* [partitionId]:[brokerId],... or * */
static bool is_replica_list(struct slice value)
{
    struct slice rest = value, one;
    if (slice_eq_str(slice_trim(value), "*") || value.size == 0) { return true; }
    while (list_next(&rest, &one)) {
        const uint8_t *colon = one.size ? memchr(one.at, ':', one.size) : NULL;
        int64_t a, b;
        if (!colon || !parse_i64(slice_of(one.at, (size_t)(colon - one.at)), &a) ||
            !parse_i64(slice_of(colon + 1, one.size - (size_t)(colon - one.at) - 1), &b) || a < 0 ||
            b < 0) {
            return false;
        }
    }
    return true;
}

/* address:limit,... as the network takes them: see net_ip_limit. */
static bool is_address_limit_list(struct slice value)
{
    struct slice rest = value, one;
    size_t count = 0;
    if (slice_trim(value).size == 0) { return true; }
    while (list_next(&rest, &one)) {
        const uint8_t *colon = one.size ? memrchr(one.at, ':', one.size) : NULL;
        int64_t limit;
        if (!colon || colon == one.at || ++count > CONFIG_ADDRESS_LIMITS_MAX ||
            !parse_i64(slice_of(colon + 1, one.size - (size_t)(colon - one.at) - 1), &limit) ||
            limit < 0 || limit > INT32_MAX) {
            return false;
        }
    }
    return value.size < CONFIG_ADDRESS_LIMITS_SIZE;
}

bool config_host_port(struct slice value, char host[CONFIG_HOST_SIZE], uint16_t *port)
{
    const uint8_t *colon = value.size ? memrchr(value.at, ':', value.size) : NULL;
    int64_t number;
    if (!colon ||
        !parse_i64(slice_of(colon + 1, value.size - (size_t)(colon - value.at) - 1), &number) ||
        number < 0 || number > UINT16_MAX) {
        return false;
    }
    struct slice name = slice_of(value.at, (size_t)(colon - value.at));
    bool has_brackets = name.size >= 2 && name.at[0] == '[' && name.at[name.size - 1] == ']';
    if (has_brackets) { name = slice_sub(name, 1, name.size - 2); }
    bool has_colon = name.size && memchr(name.at, ':', name.size);
    if (name.size >= CONFIG_HOST_SIZE || has_colon != has_brackets ||
        (name.size && memchr(name.at, '/', name.size))) {
        return false;
    }
    if (name.size) { memcpy(host, name.at, name.size); }
    host[name.size] = '\0';
    *port = (uint16_t)number;
    return true;
}

static enum err check_text(const struct config_def *def, struct slice value, char *message)
{
    char text[64];
    struct slice rest = value, one;
    if (def->type == CONFIG_LIST && strstr(def->name, ".throttled.replicas")) {
        if (is_replica_list(value)) { return ERR_OK; }
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "Invalid value %s for configuration %s: must be the literal '*' or a list of "
                 "replicas in the format [partitionId]:[brokerId],...",
                 slice_print(value, text, sizeof text), def->name);
        return ERR_INVALID;
    }
    if (strcmp(def->name, "max.connections.per.ip.overrides") == 0) {
        if (is_address_limit_list(value)) { return ERR_OK; }
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "Invalid value %s for configuration %s: must be address:limit,... with limits "
                 "from 0 and at most %d addresses",
                 slice_print(value, text, sizeof text), def->name, CONFIG_ADDRESS_LIMITS_MAX);
        return ERR_INVALID;
    }
    if (strcmp(def->name, "http.listener") == 0) {
        char host[CONFIG_HOST_SIZE];
        uint16_t port;
        if (slice_trim(value).size == 0 || config_host_port(slice_trim(value), host, &port)) {
            return ERR_OK;
        }
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "Invalid value %s for configuration %s: must be host:port with a port from 0 to "
                 "65535, as 127.0.0.1:9404 or [::1]:9404",
                 slice_print(value, text, sizeof text), def->name);
        return ERR_INVALID;
    }
    if (!def->valid) { return ERR_OK; }
    if (def->type == CONFIG_STRING) {
        if (valid_has(def->valid, slice_trim(value))) { return ERR_OK; }
        one = value;
        goto bad;
    }
    if (slice_trim(value).size == 0) { return ERR_OK; } /* the empty list */
    while (list_next(&rest, &one)) {
        if (!valid_has(def->valid, one)) { goto bad; }
    }
    return ERR_OK;
bad:
    snprintf(message, CONFIG_MESSAGE_SIZE,
             "Invalid value %s for configuration %s: String must be one of: %s",
             slice_print(one, text, sizeof text), def->name, def->valid);
    for (char *p = strstr(message, "one of: "); p && *p; p++) {
        if (*p == '|') { *p = ','; }
    }
    return ERR_INVALID;
}

enum err config_check(const struct config_def *def, struct slice value,
                      char message[CONFIG_MESSAGE_SIZE])
{
    char text[64];
    double d;
    message[0] = '\0';
    if (value.size > CONFIG_VALUE_SIZE_MAX) {
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "Value of configuration %s is too long: expected at most %d bytes", def->name,
                 CONFIG_VALUE_SIZE_MAX);
        return ERR_INVALID;
    }
    if (value.size && memchr(value.at, 0, value.size)) { /* as text it would end there */
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "Invalid value %s for configuration %s: a zero character is no part of a value",
                 slice_print(value, text, sizeof text), def->name);
        return ERR_INVALID;
    }
    switch (def->type) {
    case CONFIG_BOOLEAN:
        if (is_word(slice_trim(value), "true") || is_word(slice_trim(value), "false")) {
            return ERR_OK;
        }
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "Invalid value %s for configuration %s: Expected value to be either true or false",
                 slice_print(value, text, sizeof text), def->name);
        return ERR_INVALID;
    case CONFIG_INT:
    case CONFIG_SHORT:
    case CONFIG_LONG:
        return check_number(def, value, message);
    case CONFIG_DOUBLE:
        if (parse_double(value, &d) && d >= 0.0 && d <= 1.0) { return ERR_OK; }
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "Invalid value %s for configuration %s: Value must be between 0 and 1",
                 slice_print(value, text, sizeof text), def->name);
        return ERR_INVALID;
    case CONFIG_STRING:
    case CONFIG_LIST:
    case CONFIG_CLASS:
    case CONFIG_PASSWORD:
        return check_text(def, value, message);
    }
    return ERR_INVALID;
}

/* Puts an element into a set of them; *is_new is false when it is there already. */
static enum err set_add(struct map *set, struct slice element, bool *is_new)
{
    *is_new = !map_get(set, element);
    return *is_new ? map_put(set, element, set, NULL) : ERR_OK;
}

/* Writes the elements of 'list' that are not in 'set' yet, each once, behind *used bytes of buf. */
static enum err list_copy(struct slice list, struct map *set, char *buf, size_t *used)
{
    struct slice one;
    while (list_next(&list, &one)) {
        bool is_new = false;
        enum err e = one.size ? set_add(set, one, &is_new) : ERR_OK;
        if (e) { return e; }
        if (!is_new) { continue; }
        if (*used) { buf[(*used)++] = ','; }
        memcpy(buf + *used, one.at, one.size);
        *used += one.size;
    }
    buf[*used] = '\0';
    return ERR_OK;
}

enum err config_list_add(struct slice old, struct slice value, char *buf)
{
    struct map set;
    size_t used = 0;
    map_init(&set);
    enum err e = list_copy(old, &set, buf, &used);
    if (!e) { e = list_copy(value, &set, buf, &used); }
    map_fini(&set);
    return e;
}

enum err config_list_subtract(struct slice old, struct slice value, char *buf)
{
    struct map set;
    struct slice one;
    enum err e = ERR_OK;
    bool is_new;
    size_t used = 0;
    map_init(&set);
    while (!e && list_next(&value, &one)) {
        e = set_add(&set, one, &is_new);
    }
    if (!e) { e = list_copy(old, &set, buf, &used); }
    map_fini(&set);
    return e;
}

enum err config_normalize(const struct config_def *def, struct slice value, char *buf)
{
    if (def->type == CONFIG_LIST) { return config_list_add(value, SLICE_NULL, buf); }
    if (def->type != CONFIG_PASSWORD) { value = slice_trim(value); }
    if (value.size) { memcpy(buf, value.at, value.size); }
    buf[value.size] = '\0';
    if (def->type != CONFIG_BOOLEAN) { return ERR_OK; }
    for (char *p = buf; *p; p++) {
        *p = (char)(*p | 0x20);
    }
    return ERR_OK;
}

void config_set_init(struct config_set *set)
{
    map_init(&set->values);
}

void config_set_fini(struct config_set *set)
{
    for (size_t i = 0; i < set->values.count; i++) {
        mem_free(set->values.entries[i].value);
    }
    map_fini(&set->values);
}

enum err config_set_put(struct config_set *set, struct slice key, struct slice value)
{
    char *copy = mem_alloc(value.size + 1);
    if (!copy) { return ERR_NOMEM; }
    if (value.size) { memcpy(copy, value.at, value.size); }
    copy[value.size] = '\0';
    void *old;
    enum err e = map_put(&set->values, key, copy, &old);
    mem_free(e ? copy : old);
    return e;
}

const char *config_set_get(const struct config_set *set, const char *key)
{
    return map_get(&set->values, slice_str(key));
}

/* The broker key's value in one layer, NULL when that layer says nothing. */
static const char *broker_layer(const struct config_scope *scope, const struct config_def *def,
                                enum config_source source)
{
    struct slice key = slice_str(def->name);
    char id[16];
    switch (source) {
    case CONFIG_SOURCE_DYNAMIC_BROKER:
        snprintf(id, sizeof id, "%" PRId32, scope->broker_id);
        return scope->image ? meta_config(scope->image, META_RESOURCE_BROKER, slice_str(id), key)
                            : NULL;
    case CONFIG_SOURCE_DYNAMIC_DEFAULT:
        return scope->image ? meta_config(scope->image, META_RESOURCE_BROKER, slice_str(""), key)
                            : NULL;
    case CONFIG_SOURCE_STATIC:
        return scope->statics ? map_get(&scope->statics->values, key) : NULL;
    case CONFIG_SOURCE_DEFAULT:
        return def->default_value;
    case CONFIG_SOURCE_TOPIC:
        break;
    }
    return NULL;
}

static const enum config_source broker_layers[] = {CONFIG_SOURCE_DYNAMIC_BROKER,
                                                   CONFIG_SOURCE_DYNAMIC_DEFAULT,
                                                   CONFIG_SOURCE_STATIC, CONFIG_SOURCE_DEFAULT};

void config_broker_value(const struct config_scope *scope, const struct config_def *def,
                         struct config_value *out)
{
    out->text = NULL;
    out->source = CONFIG_SOURCE_DEFAULT;
    for (size_t i = 0; i < COUNT_OF(broker_layers) && !out->text; i++) {
        out->source = broker_layers[i];
        out->text = broker_layer(scope, def, out->source);
    }
}

static const char *scale_text(const char *text, int64_t scale, char scaled[24])
{
    int64_t v;
    if (!text || scale == 1 || !parse_i64(slice_str(text), &v)) { return text; }
    if (v < 0 || v > INT64_MAX / scale) {
        v = v < 0 ? v : INT64_MAX; /* -1 hours means for ever, like -1 ms */
    } else {
        v *= scale;
    }
    snprintf(scaled, 24, "%" PRId64, v);
    return scaled;
}

/* Number of synonyms of a topic key. */
static size_t synonyms_count(const struct config_def *def)
{
    size_t n = 0;
    while (n < CONFIG_SYNONYMS_MAX && def->synonyms[n].name) {
        n++;
    }
    return n;
}

bool config_synonym_at(const struct config_scope *scope, struct slice topic,
                       const struct config_def *def, size_t index, struct config_synonym_value *out)
{
    size_t n = 0;
    if (def->is_topic && topic.at && scope->image) {
        out->text = meta_config(scope->image, META_RESOURCE_TOPIC, topic, slice_str(def->name));
        out->raw = out->text;
        out->name = def->name;
        out->source = CONFIG_SOURCE_TOPIC;
        if (out->text && n++ == index) { return true; }
    }
    size_t count = def->is_topic ? synonyms_count(def) : 1;
    for (size_t s = 0; s < count; s++) {
        const struct config_def *d =
            def->is_topic ? config_broker_def(slice_str(def->synonyms[s].name)) : def;
        int64_t scale = def->is_topic ? def->synonyms[s].scale : 1;
        for (size_t i = 0; d && i < COUNT_OF(broker_layers); i++) {
            const char *text = broker_layer(scope, d, broker_layers[i]);
            if (!text || n++ != index) { continue; }
            out->name = d->name;
            out->source = broker_layers[i];
            out->raw = text;
            out->text = scale == 1 ? text : scale_text(text, scale, out->scaled);
            return true;
        }
    }
    return false;
}

void config_topic_value(const struct config_scope *scope, struct slice topic,
                        const struct config_def *def, struct config_value *out)
{
    struct config_synonym_value s;
    if (!config_synonym_at(scope, topic, def, 0, &s)) {
        out->text = def->default_value;
        out->source = CONFIG_SOURCE_DEFAULT;
        return;
    }
    out->source = s.source;
    if (s.text == s.scaled) {
        memcpy(out->scaled, s.scaled, sizeof out->scaled);
        out->text = out->scaled;
    } else {
        out->text = s.text;
    }
}

static int64_t text_i64(const char *key, const char *text)
{
    int64_t v = 0;
    CHECKF(text && parse_i64(slice_str(text), &v), "%s=%s", key, text ? text : "null");
    return v;
}

static const struct config_def *broker_def_or_die(const char *key)
{
    const struct config_def *def = config_broker_def(slice_str(key));
    CHECKF(def != NULL, "unknown key %s", key);
    return def;
}

int64_t config_broker_i64(const struct config_scope *scope, const char *key)
{
    return text_i64(key, config_broker_text(scope, key));
}

bool config_broker_bool(const struct config_scope *scope, const char *key)
{
    const char *text = config_broker_text(scope, key);
    return text && is_word(slice_trim(slice_str(text)), "true");
}

const char *config_broker_text(const struct config_scope *scope, const char *key)
{
    struct config_value v;
    config_broker_value(scope, broker_def_or_die(key), &v);
    return v.text;
}

static const struct config_def *topic_def_or_die(const char *key)
{
    const struct config_def *def = config_topic_def(slice_str(key));
    CHECKF(def != NULL, "unknown key %s", key);
    return def;
}

int64_t config_topic_i64(const struct config_scope *scope, struct slice topic, const char *key)
{
    struct config_value v;
    config_topic_value(scope, topic, topic_def_or_die(key), &v);
    return text_i64(key, v.text);
}

bool config_topic_bool(const struct config_scope *scope, struct slice topic, const char *key)
{
    struct config_value v;
    config_topic_value(scope, topic, topic_def_or_die(key), &v);
    return v.text && is_word(slice_trim(slice_str(v.text)), "true");
}

const char *config_topic_text(const struct config_scope *scope, struct slice topic, const char *key)
{
    const struct config_def *def = topic_def_or_die(key);
    struct config_value v;
    CHECKF(def->type == CONFIG_STRING || def->type == CONFIG_LIST, "%s is a number", key);
    config_topic_value(scope, topic, def, &v);
    return v.text; /* texts are never scaled */
}

bool config_list_has(const char *list, const char *element)
{
    struct slice rest = slice_str(list ? list : ""), one;
    while (list_next(&rest, &one)) {
        if (slice_eq_str(one, element)) { return true; }
    }
    return false;
}
