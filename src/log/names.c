/* names.c - names of topics, directories and files. Topic names come from outside: see log.h. */
#include "log/log_int.h"

#include <stdarg.h>
#include <stdio.h>

bool log_topic_name_is_valid(struct slice name)
{
    if (name.size == 0 || name.size > LOG_TOPIC_NAME_LEN_MAX) { return false; }
    if (slice_eq_str(name, ".") || slice_eq_str(name, "..")) { return false; }
    for (size_t i = 0; i < name.size; i++) {
        uint8_t c = name.at[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
        if (!ok) { return false; }
    }
    return true;
}

static void path_print(char *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void path_print(char *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(buf, LOG_PATH_SIZE, fmt, args);
    va_end(args);
    /* Directory paths and topic names are bounded where they come in. */
    CHECKF(n > 0 && n < LOG_PATH_SIZE, "n=%d", n);
}

void log_path_dir(const struct log *log, char *buf)
{
    path_print(buf, "%s/%s-%d", log->env->dir_path, log->topic, log->partition);
}

void log_path_file(const struct log *log, const char *name, char *buf)
{
    path_print(buf, "%s/%s-%d/%s", log->env->dir_path, log->topic, log->partition, name);
}

void log_path_segment(const struct log *log, int64_t base, const char *suffix, char *buf)
{
    path_print(buf, "%s/%s-%d/%020lld%s", log->env->dir_path, log->topic, log->partition,
               (long long)base, suffix);
}

bool name_has_suffix(const char *name, const char *suffix)
{
    size_t n = strlen(name), s = strlen(suffix);
    return n >= s && memcmp(name + n - s, suffix, s) == 0;
}

bool log_parse_segment_name(const char *name, const char *suffix, int64_t *base)
{
    uint64_t v = 0;
    for (size_t i = 0; i < 20; i++) {
        if (name[i] < '0' || name[i] > '9') { return false; }
        unsigned digit = (unsigned)(name[i] - '0');
        if (v > ((uint64_t)INT64_MAX - digit) / 10) { return false; }
        v = v * 10 + digit;
    }
    if (strcmp(name + 20, suffix) != 0) { return false; }
    *base = (int64_t)v;
    return true;
}

bool log_parse_dir_name(const char *name, char *topic, int32_t *partition)
{
    const char *dash = strrchr(name, '-');
    if (!dash || dash == name || dash[1] == '\0') { return false; }
    int64_t v = 0;
    for (const char *p = dash + 1; *p; p++) {
        if (*p < '0' || *p > '9') { return false; }
        v = v * 10 + (*p - '0');
        if (v > INT32_MAX) { return false; }
    }
    if (dash[1] == '0' && dash[2] != '\0') { return false; }
    struct slice t = slice_of(name, (size_t)(dash - name));
    if (!log_topic_name_is_valid(t)) { return false; }
    memcpy(topic, t.at, t.size);
    topic[t.size] = '\0';
    *partition = (int32_t)v;
    return true;
}
