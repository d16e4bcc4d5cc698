/* listeners.c - "NAME://host:port,..." and what belongs to each name. */
#include "broker/listeners.h"

#include <stdio.h>
#include <stdlib.h>

static bool copy_text(char *to, size_t to_size, struct slice text)
{
    if (text.size >= to_size || (text.size && memchr(text.at, 0, text.size))) { return false; }
    if (text.size) { memcpy(to, text.at, text.size); }
    to[text.size] = '\0';
    return true;
}

static struct slice trim(struct slice s)
{
    while (s.size && s.at[0] == ' ') {
        s = slice_sub(s, 1, s.size);
    }
    while (s.size && s.at[s.size - 1] == ' ') {
        s.size--;
    }
    return s;
}

/* Takes the next part before the separator. */
static bool next_part(struct slice *rest, char separator, struct slice *part)
{
    if (!rest->at) { return false; }
    const uint8_t *end = rest->size ? memchr(rest->at, separator, rest->size) : NULL;
    size_t size = end ? (size_t)(end - rest->at) : rest->size;
    *part = trim(slice_of(rest->at, size));
    *rest = end ? slice_of(end + 1, rest->size - size - 1) : SLICE_NULL;
    return true;
}

/* NAME://host:port, host possibly empty or [ipv6]. */
static bool parse_endpoint(struct slice text, char name[LISTENER_NAME_SIZE],
                           char host[LISTENER_HOST_SIZE], uint16_t *port)
{
    const uint8_t *scheme = text.size ? memmem(text.at, text.size, "://", 3) : NULL;
    if (!scheme || scheme == text.at) { return false; }
    struct slice name_part = slice_of(text.at, (size_t)(scheme - text.at));
    struct slice rest = slice_of(scheme + 3, text.size - name_part.size - 3);
    const uint8_t *colon = rest.size ? memrchr(rest.at, ':', rest.size) : NULL;
    if (!colon) { return false; }
    struct slice host_part = slice_of(rest.at, (size_t)(colon - rest.at));
    struct slice port_part = slice_of(colon + 1, rest.size - host_part.size - 1);
    if (host_part.size >= 2 && host_part.at[0] == '[' && host_part.at[host_part.size - 1] == ']') {
        host_part = slice_sub(host_part, 1, host_part.size - 2);
    }
    char digits[8];
    char *end;
    if (port_part.size == 0 || !copy_text(digits, sizeof digits, port_part)) { return false; }
    long value = strtol(digits, &end, 10);
    if (digits[0] < '0' || digits[0] > '9' || *end || value < 0 || value > 65535) { return false; }
    *port = (uint16_t)value;
    return copy_text(name, LISTENER_NAME_SIZE, name_part) &&
           copy_text(host, LISTENER_HOST_SIZE, host_part);
}

static struct listener_row *row_find(struct listeners *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++) {
        if (strcmp(l->rows[i].name, name) == 0) { return &l->rows[i]; }
    }
    return NULL;
}

static enum err bad_endpoint(const char *key, struct slice text, char *message)
{
    char shown[128];
    snprintf(message, LISTENERS_MESSAGE_SIZE,
             "%s: expected NAME://host:port (port 0 to 65535), found '%s'", key,
             slice_print(text, shown, sizeof shown));
    return ERR_INVALID;
}

static enum err parse_listeners(struct listeners *l, const char *text, char *message)
{
    struct slice rest = slice_str(text), part;
    while (next_part(&rest, ',', &part)) {
        if (l->count == NET_LISTENERS_MAX) {
            snprintf(message, LISTENERS_MESSAGE_SIZE, "listeners: at most %d are possible",
                     NET_LISTENERS_MAX);
            return ERR_INVALID;
        }
        struct listener_row row = {.security = NET_PLAINTEXT};
        if (!parse_endpoint(part, row.name, row.host, &row.port)) {
            return bad_endpoint("listeners", part, message);
        }
        if (row_find(l, row.name)) {
            snprintf(message, LISTENERS_MESSAGE_SIZE, "listeners: the name %s stands twice",
                     row.name);
            return ERR_INVALID;
        }
        l->rows[l->count++] = row;
    }
    return ERR_OK; /* an empty text is one wrong endpoint */
}

static enum err parse_advertised(struct listeners *l, const char *text, char *message)
{
    struct slice rest = slice_str(text), part;
    char name[LISTENER_NAME_SIZE], host[LISTENER_HOST_SIZE];
    uint16_t port;
    while (text && next_part(&rest, ',', &part)) {
        if (!parse_endpoint(part, name, host, &port)) {
            return bad_endpoint("advertised.listeners", part, message);
        }
        struct listener_row *row = row_find(l, name);
        if (!row || host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) {
            snprintf(message, LISTENERS_MESSAGE_SIZE,
                     row ? "advertised.listeners: %s needs a host that clients can reach"
                         : "advertised.listeners: %s is not in listeners",
                     name);
            return ERR_INVALID;
        }
        snprintf(row->advertised_host, sizeof row->advertised_host, "%s", host);
        row->advertised_port = port;
    }
    return ERR_OK;
}

/* The security protocol of each listener; a name that is itself a protocol needs no entry. */
static enum err parse_security(struct listeners *l, const char *map, char *message)
{
    for (size_t i = 0; i < l->count; i++) {
        struct listener_row *row = &l->rows[i];
        struct slice rest = slice_str(map), part;
        bool is_found = net_security_parse(row->name, &row->security) || row->is_control;
        while (map && next_part(&rest, ',', &part)) {
            struct slice name, protocol;
            char text[32];
            if (!next_part(&part, ':', &name) || !next_part(&part, ':', &protocol) ||
                !slice_eq_str(name, row->name)) {
                continue;
            }
            is_found =
                copy_text(text, sizeof text, protocol) && net_security_parse(text, &row->security);
            break;
        }
        if (!is_found) {
            snprintf(message, LISTENERS_MESSAGE_SIZE,
                     "listener.security.protocol.map: expected %s:PLAINTEXT (or SSL, "
                     "SASL_PLAINTEXT, SASL_SSL) for the listener %s",
                     row->name, row->name);
            return ERR_INVALID;
        }
    }
    return ERR_OK;
}

/* Which listeners are the control plane's. A name that is none of them is a mistake, unless it is
 * that of another process: brokers of Kafka that are no controllers name the controllers' listener.
 */
static enum err parse_control(const struct config_scope *scope, struct listeners *l, char *message)
{
    const char *key = "control.plane.listener.name";
    const char *names = config_broker_text(scope, key);
    bool is_elsewhere = false;
    if (!names || !*names) {
        key = "controller.listener.names";
        names = config_broker_text(scope, key);
        is_elsewhere = !config_list_has(config_broker_text(scope, "process.roles"), "controller");
    }
    bool is_found = is_elsewhere || !names || !*names;
    for (size_t i = 0; names && i < l->count; i++) {
        l->rows[i].is_control = config_list_has(names, l->rows[i].name);
        is_found = is_found || l->rows[i].is_control;
    }
    if (is_found) { return ERR_OK; }
    char shown[128];
    snprintf(message, LISTENERS_MESSAGE_SIZE,
             "%s: expected the name of one of listeners, found '%s'", key,
             slice_print(slice_str(names), shown, sizeof shown));
    return ERR_INVALID;
}

enum err listeners_parse(const struct config_scope *scope, struct listeners *out,
                         char message[LISTENERS_MESSAGE_SIZE])
{
    *out = (struct listeners){0};
    message[0] = '\0';
    enum err e = parse_listeners(out, config_broker_text(scope, "listeners"), message);
    if (!e) { e = parse_control(scope, out, message); }
    if (!e) {
        e = parse_advertised(out, config_broker_text(scope, "advertised.listeners"), message);
    }
    if (!e) {
        e = parse_security(out, config_broker_text(scope, "listener.security.protocol.map"),
                           message);
    }
    return e;
}
