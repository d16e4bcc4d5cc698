/* properties.c - the syntax of Java properties. */
#include "broker/properties.h"

#include "base/mem.h"

#include <stdio.h>

#define PROPERTIES_LOGGER "kafka.server.KafkaConfig"

struct parse {
    struct slice left;
    int line; /* of the entry being read; 0: not a file */
    int line_next;
    const char *source;
    const struct logger *logger;
    struct config_set *set;
    char *message;
    char *buf; /* the logical line, later key and value unescaped in place */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f';
}

/* One physical line without its end, leading blanks removed. False at the end of the text. */
static bool next_physical(struct parse *p, struct slice *out)
{
    if (p->left.size == 0) { return false; }
    size_t n = 0;
    while (n < p->left.size && p->left.at[n] != '\n' && p->left.at[n] != '\r') {
        n++;
    }
    *out = slice_sub(p->left, 0, n);
    size_t skip = n < p->left.size ? n + 1 : n;
    if (skip < p->left.size && p->left.at[n] == '\r' && p->left.at[skip] == '\n') { skip++; }
    p->left = slice_sub(p->left, skip, p->left.size);
    p->line_next++;
    while (out->size && is_blank((char)out->at[0])) {
        *out = slice_sub(*out, 1, out->size);
    }
    return true;
}

static bool ends_with_backslash(struct slice line)
{
    size_t n = 0;
    while (n < line.size && line.at[line.size - 1 - n] == '\\') {
        n++;
    }
    return n % 2 == 1;
}

/* The next entry, continuation lines joined, into p->buf. False at the end. */
static bool next_logical(struct parse *p)
{
    struct slice line;
    for (;;) {
        p->line = p->line_next + 1;
        if (!next_physical(p, &line)) { return false; }
        if (line.size && line.at[0] != '#' && line.at[0] != '!') { break; }
    }
    size_t used = 0;
    for (;;) {
        bool goes_on = ends_with_backslash(line);
        size_t n = line.size - (goes_on ? 1 : 0);
        if (n) { memcpy(p->buf + used, line.at, n); }
        used += n;
        if (!goes_on || !next_physical(p, &line)) { break; }
    }
    p->buf[used] = '\0';
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') { return c - '0'; }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Writes a code unit of \uXXXX as UTF-8 (surrogates one by one, as they come). */
static size_t put_utf8(char *to, unsigned u)
{
    if (u < 0x80) {
        to[0] = (char)u;
        return 1;
    }
    if (u < 0x800) {
        to[0] = (char)(0xc0 | u >> 6);
        to[1] = (char)(0x80 | (u & 0x3f));
        return 2;
    }
    to[0] = (char)(0xe0 | u >> 12);
    to[1] = (char)(0x80 | (u >> 6 & 0x3f));
    to[2] = (char)(0x80 | (u & 0x3f));
    return 3;
}

/* Unescapes size bytes at text in place; returns the new size, SIZE_MAX for a broken \u. */
static size_t unescape(char *text, size_t size)
{
    size_t to = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '\\' || i + 1 == size) {
            text[to++] = text[i];
            continue;
        }
        char c = text[++i];
        switch (c) {
        case 't':
            text[to++] = '\t';
            break;
        case 'n':
            text[to++] = '\n';
            break;
        case 'r':
            text[to++] = '\r';
            break;
        case 'f':
            text[to++] = '\f';
            break;
        case 'u': {
            unsigned u = 0;
            if (i + 4 >= size) { return SIZE_MAX; }
            for (int k = 0; k < 4; k++) {
                int d = hex_digit(text[++i]);
                if (d < 0) { return SIZE_MAX; }
                u = u << 4 | (unsigned)d;
            }
            to += put_utf8(text + to, u);
            break;
        }
        default:
            text[to++] = c;
        }
    }
    return to;
}

/* "file line 3", or the source alone. */
static const char *place_of(const struct parse *p, char buf[PROPERTIES_MESSAGE_SIZE])
{
    snprintf(buf, PROPERTIES_MESSAGE_SIZE, p->line ? "%s line %d" : "%s", p->source, p->line);
    return buf;
}

/* Checks one entry and puts it into the set. */
static enum err take_entry(struct parse *p, struct slice key, struct slice value)
{
    char text[CONFIG_MESSAGE_SIZE], name[128], place[PROPERTIES_MESSAGE_SIZE];
    const struct config_def *def = config_broker_def(key);
    if (!def) {
        log_warn(p->logger, PROPERTIES_LOGGER, "%s: unknown key '%s' is ignored",
                 place_of(p, place), slice_print(key, name, sizeof name));
        return ERR_OK;
    }
    /* An empty value of a number or boolean means: not set. */
    if (value.size == 0 && def->type != CONFIG_STRING && def->type != CONFIG_LIST) {
        return ERR_OK;
    }
    enum err e = config_check(def, value, text);
    if (e) {
        snprintf(p->message, PROPERTIES_MESSAGE_SIZE, "%.200s: %s", place_of(p, place), text);
        return e;
    }
    if (def->is_unused) {
        log_warn(p->logger, PROPERTIES_LOGGER, "%s: %s is accepted and has no effect here",
                 place_of(p, place), def->name);
    }
    char *normal = mem_alloc(value.size + 1);
    if (!normal) { return ERR_NOMEM; }
    e = config_normalize(def, value, normal);
    if (!e) { e = config_set_put(p->set, key, slice_str(normal)); }
    mem_free(normal);
    return e;
}

static enum err take_line(struct parse *p)
{
    char *text = p->buf;
    size_t key_end = 0;
    while (text[key_end] && text[key_end] != '=' && text[key_end] != ':' &&
           !is_blank(text[key_end])) {
        key_end += text[key_end] == '\\' && text[key_end + 1] ? 2 : 1;
    }
    size_t from = key_end;
    while (is_blank(text[from])) {
        from++;
    }
    if (text[from] == '=' || text[from] == ':') { from++; }
    while (is_blank(text[from])) {
        from++;
    }
    size_t value_size = unescape(text + from, strlen(text + from));
    size_t key_size = unescape(text, key_end);
    if (key_size == SIZE_MAX || value_size == SIZE_MAX) {
        snprintf(p->message, PROPERTIES_MESSAGE_SIZE,
                 "%s line %d: expected four hexadecimal digits after \\u", p->source, p->line);
        return ERR_INVALID;
    }
    return take_entry(p, slice_of(text, key_size), slice_of(text + from, value_size));
}

enum err properties_parse(struct slice text, const char *source, const struct logger *logger,
                          struct config_set *set, char message[PROPERTIES_MESSAGE_SIZE])
{
    struct parse p = {.left = text,
                      .source = source,
                      .logger = logger,
                      .set = set,
                      .message = message,
                      .buf = mem_alloc(text.size + 1)};
    message[0] = '\0';
    const uint8_t *zero = text.size ? memchr(text.at, 0, text.size) : NULL;
    if (zero) {
        struct slice line;
        while (p.left.size && p.left.at <= zero && next_physical(&p, &line)) {}
        snprintf(message, PROPERTIES_MESSAGE_SIZE, "%s line %d: expected text, found a zero byte",
                 source, p.line_next);
        mem_free(p.buf);
        return ERR_INVALID;
    }
    enum err e = p.buf ? ERR_OK : ERR_NOMEM;
    while (!e && next_logical(&p)) {
        e = take_line(&p);
    }
    mem_free(p.buf);
    return e;
}

static enum err read_whole(struct sys *sys, const char *path, char **text, size_t *size)
{
    struct sys_file *f = NULL;
    uint64_t file_size = 0;
    *text = NULL;
    enum err e = sys_file_open(sys, path, SYS_READ, &f);
    if (!e) { e = sys_file_size(f, &file_size); }
    if (!e && file_size > PROPERTIES_FILE_SIZE_MAX) { e = ERR_LIMIT; }
    if (!e) {
        *text = mem_alloc((size_t)file_size);
        e = *text ? sys_file_read(f, *text, (size_t)file_size, 0, size) : ERR_NOMEM;
    }
    sys_file_unref(f);
    return e;
}

enum err properties_load(struct sys *sys, const char *path, const struct logger *logger,
                         struct config_set *set, char message[PROPERTIES_MESSAGE_SIZE])
{
    char *text;
    size_t size = 0;
    enum err e = read_whole(sys, path, &text, &size);
    if (e) {
        const char *why = e == ERR_NOTFOUND ? "no such file (expected a server.properties)"
                          : e == ERR_LIMIT  ? "larger than 1 MiB (expected a server.properties)"
                          : e == ERR_ACCESS ? "cannot be read: permission denied"
                          : e == ERR_NOMEM  ? "cannot be read: no memory"
                                            : "cannot be read (expected a file)";
        snprintf(message, PROPERTIES_MESSAGE_SIZE, "%.200s: %s", path, why);
    } else {
        e = properties_parse(slice_of(text, size), path, logger, set, message);
    }
    mem_free(text);
    return e;
}

enum err properties_override(const char *argument, const struct logger *logger,
                             struct config_set *set, char message[PROPERTIES_MESSAGE_SIZE])
{
    const char *equals = strchr(argument, '=');
    if (!equals || equals == argument) {
        snprintf(message, PROPERTIES_MESSAGE_SIZE, "--override: expected key=value, found '%s'",
                 argument);
        return ERR_INVALID;
    }
    struct parse p = {.source = "--override", .logger = logger, .set = set};
    p.message = message;
    message[0] = '\0';
    return take_entry(&p, slice_of(argument, (size_t)(equals - argument)), slice_str(equals + 1));
}
