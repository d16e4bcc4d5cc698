/* checkpoint.c - Kafka's text checkpoints of a directory: one offset for each partition.
 *
 * Place:  log/, private. Pure but for reading and replacing the file.
 * Format: "0", the number of lines, then "<topic> <partition> <offset>" a line.
 * Failure: a file that is not exactly that is ERR_MALFORMED as a whole. */
#include "log/dir_int.h"

#include <stdio.h>

enum err checkpoint_write(struct sys *sys, const char *path, const struct checkpoint_line *lines,
                          size_t count, enum smallfile_mode mode)
{
    size_t size = 64;
    for (size_t i = 0; i < count; i++) {
        size += strlen(lines[i].topic) + 40;
    }
    char *buf = mem_alloc(size);
    if (!buf) { return ERR_NOMEM; }
    size_t at = (size_t)snprintf(buf, size, "0\n%zu\n", count);
    for (size_t i = 0; i < count; i++) {
        at += (size_t)snprintf(buf + at, size - at, "%s %d %lld\n", lines[i].topic,
                               lines[i].partition, (long long)lines[i].offset);
    }
    enum err e = smallfile_write(sys, path, slice_of(buf, at), mode);
    mem_free(buf);
    return e;
}

/* A decimal number up to the separator, which is stepped over. */
static bool take_number(const char **at, const char *end, char separator, int64_t max, int64_t *out)
{
    int64_t v = 0;
    const char *p = *at;
    while (p < end && *p >= '0' && *p <= '9') {
        if (v > (max - (*p - '0')) / 10) { return false; }
        v = v * 10 + (*p - '0');
        p++;
    }
    if (p == *at || p >= end || *p != separator) { return false; }
    *out = v;
    *at = p + 1;
    return true;
}

static enum err take_line(const char **at, const char *end, struct map *out)
{
    const char *space = memchr(*at, ' ', (size_t)(end - *at));
    if (!space) { return ERR_MALFORMED; }
    struct slice topic = slice_of(*at, (size_t)(space - *at));
    if (!log_topic_name_is_valid(topic)) { return ERR_MALFORMED; }
    int64_t partition = 0, offset = 0;
    *at = space + 1;
    if (!take_number(at, end, ' ', INT32_MAX, &partition) ||
        !take_number(at, end, '\n', INT64_MAX, &offset)) {
        return ERR_MALFORMED;
    }
    char name[LOG_NAME_SIZE];
    int n = snprintf(name, sizeof name, "%.*s-%d", (int)topic.size, (const char *)topic.at,
                     (int)partition);
    int64_t *value = mem_new(int64_t);
    if (!value) { return ERR_NOMEM; }
    *value = offset;
    void *old = NULL;
    enum err e = map_put(out, slice_of(name, (size_t)n), value, &old);
    mem_free(e ? value : old);
    return e;
}

enum err checkpoint_read(struct sys *sys, const char *path, struct map *out)
{
    map_init(out);
    uint8_t *buf = NULL;
    size_t size = 0;
    enum err e = smallfile_read(sys, path, &buf, &size);
    if (e) { return e; }
    const char *at = (const char *)buf, *end = at + size;
    int64_t version = -1, count = 0;
    if (!take_number(&at, end, '\n', 9, &version) || version != 0 ||
        !take_number(&at, end, '\n', INT32_MAX, &count)) {
        e = ERR_MALFORMED;
    }
    for (int64_t i = 0; !e && i < count; i++) {
        e = take_line(&at, end, out);
    }
    mem_free(buf);
    if (e) { checkpoint_fini(out); }
    return e;
}

bool checkpoint_get(const struct map *m, const char *name, int64_t *offset)
{
    const int64_t *v = map_get(m, slice_str(name));
    if (!v) { return false; }
    *offset = *v;
    return true;
}

void checkpoint_fini(struct map *m)
{
    for (size_t i = 0; i < m->count; i++) {
        mem_free(m->entries[i].value);
    }
    map_fini(m);
    map_init(m);
}
