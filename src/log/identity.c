/* identity.c - meta.properties of a directory and partition.metadata of a log.
 *
 * Place:      log/, private but for logdir_identity().
 * Thread:     start-up.
 * Failure:    a file that names no cluster, or another version, is ERR_MALFORMED: nothing is
 *             filled but what was expected, and in which line. */
#include "log/dir_int.h"

#include <stdio.h>
#include <stdlib.h>

/* The value of "key=" at the start of a line; SLICE_NULL when absent. */
static struct slice property(struct slice text, const char *key)
{
    size_t key_size = strlen(key), at = 0;
    while (at < text.size) {
        const uint8_t *line = text.at + at;
        const uint8_t *nl = memchr(line, '\n', text.size - at);
        size_t size = nl ? (size_t)(nl - line) : text.size - at;
        at += size + 1;
        if (size > 0 && line[size - 1] == '\r') { size--; }
        if (size > key_size && memcmp(line, key, key_size) == 0 && line[key_size] == '=') {
            return slice_of(line + key_size + 1, size - key_size - 1);
        }
    }
    return SLICE_NULL;
}

static bool parse_i32(struct slice text, int32_t *out)
{
    char buf[16];
    if (text.size == 0 || text.size >= sizeof buf) { return false; }
    memcpy(buf, text.at, text.size);
    buf[text.size] = '\0';
    char *end = NULL;
    long v = strtol(buf, &end, 10);
    if (*end != '\0' || v < INT32_MIN || v > INT32_MAX) { return false; }
    *out = (int32_t)v;
    return true;
}

/* False: out->expected says what should have stood at *at, or anywhere when that is NULL. */
static bool parse_identity(struct slice text, struct logdir_identity *out, const uint8_t **at)
{
    int32_t version = -1;
    struct slice cluster = property(text, "cluster.id");
    struct slice node = property(text, "node.id");
    if (slice_is_null(node)) { node = property(text, "broker.id"); } /* version 0 */
    struct slice directory = property(text, "directory.id");
    out->expected = "text, not a zero byte";
    *at = text.size ? memchr(text.at, 0, text.size) : NULL;
    if (*at) { return false; }
    *at = property(text, "version").at;
    out->expected = "version=0 or version=1";
    if (!parse_i32(property(text, "version"), &version) || version < 0 || version > 1) {
        return false;
    }
    *at = cluster.at;
    out->expected = "cluster.id=ID, of 1 to 63 characters";
    if (cluster.size == 0 || cluster.size >= sizeof out->cluster_id) { return false; }
    *at = node.at;
    out->expected = "node.id=N";
    if (!parse_i32(node, &out->node_id)) { return false; }
    *at = directory.at;
    out->expected = "directory.id=ID, of 22 characters";
    if (!slice_is_null(directory) && !uuid_parse(directory, &out->directory_id)) { return false; }
    memcpy(out->cluster_id, cluster.at, cluster.size);
    return true;
}

enum err logdir_identity(struct sys *sys, const char *path, struct logdir_identity *out)
{
    *out = (struct logdir_identity){.node_id = -1};
    char file[LOG_PATH_SIZE];
    int n = snprintf(file, sizeof file, "%s/meta.properties", path);
    if (n < 0 || (size_t)n >= sizeof file) { return ERR_LIMIT; }
    uint8_t *bytes = NULL;
    size_t size = 0;
    enum err e = smallfile_read(sys, file, &bytes, &size);
    if (e) { return e; }
    const uint8_t *at = NULL;
    struct logdir_identity found = {.node_id = -1};
    if (parse_identity(slice_of(bytes, size), &found, &at)) {
        *out = found;
        out->expected = NULL;
    } else {
        e = ERR_MALFORMED;
        out->expected = found.expected;
        for (const uint8_t *p = bytes; at && p <= at; p++) {
            out->line += p == bytes || p[-1] == '\n';
        }
    }
    mem_free(bytes);
    return e;
}

enum err identity_write(struct sys *sys, const char *path, const struct logdir_identity *id)
{
    char file[LOG_PATH_SIZE], text[256], uuid[UUID_TEXT_SIZE];
    int n = snprintf(file, sizeof file, "%s/meta.properties", path);
    CHECK(n > 0 && (size_t)n < sizeof file);
    n = snprintf(text, sizeof text, "#\ncluster.id=%s\ndirectory.id=%s\nnode.id=%d\nversion=1\n",
                 id->cluster_id, uuid_format(id->directory_id, uuid), id->node_id);
    return smallfile_write(sys, file, slice_of(text, (size_t)n), SMALLFILE_DURABLE);
}

enum err partition_metadata_read(struct log *log, struct uuid *topic_id)
{
    char path[LOG_PATH_SIZE];
    log_path_file(log, "partition.metadata", path);
    uint8_t *at = NULL;
    size_t size = 0;
    enum err e = smallfile_read(log->env->sys, path, &at, &size);
    if (e) { return e; }
    static const char key[] = "topic_id: ";
    struct slice text = slice_of(at, size);
    /* What a power cut leaves of one that was never synced is empty, or zeros. */
    e = ERR_NOTFOUND;
    for (size_t i = 0; i < size; i++) {
        if (at[i] != 0) { e = ERR_MALFORMED; }
    }
    for (size_t i = 0; i + sizeof key - 1 + UUID_TEXT_SIZE - 1 <= text.size; i++) {
        if (memcmp(text.at + i, key, sizeof key - 1) != 0) { continue; }
        struct slice id = slice_of(text.at + i + sizeof key - 1, UUID_TEXT_SIZE - 1);
        if (uuid_parse(id, topic_id) && !uuid_is_zero(*topic_id)) { e = ERR_OK; }
        break;
    }
    mem_free(at);
    return e;
}
