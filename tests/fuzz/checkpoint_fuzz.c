/* checkpoint_fuzz.c - a checkpoint of a data directory: one offset for each partition.
 *
 * Oracles: what is accepted has valid names and no negative offset, and is written so that it reads
 * the same; what is refused leaves nothing. */
#include "base/mem.h"
#include "fuzz/folder.h"
#include "log/dir_int.h"

static struct sys *sys;

static void check_written(const struct map *m, const char *path)
{
    struct checkpoint_line *lines = mem_array(m->count + 1, sizeof *lines);
    char(*topics)[LOG_TOPIC_NAME_LEN_MAX + 1] = mem_array(m->count + 1, sizeof *topics);
    CHECK(lines && topics);
    for (size_t i = 0; i < m->count; i++) {
        char name[LOG_NAME_SIZE + 1];
        const struct map_entry *e = &m->entries[i];
        CHECK(e->key_size < sizeof name);
        memcpy(name, e->key, e->key_size);
        name[e->key_size] = '\0';
        int64_t offset = -1;
        CHECK(checkpoint_get(m, name, &offset) && offset >= 0);
        CHECK(log_parse_dir_name(name, topics[i], &lines[i].partition));
        lines[i].topic = topics[i];
        lines[i].offset = offset;
    }
    enum err e = checkpoint_write(sys, path, lines, m->count, SMALLFILE_PLAIN);
    CHECK(!e);
    struct map again;
    e = checkpoint_read(sys, path, &again);
    CHECK(!e && again.count == m->count);
    for (size_t i = 0; i < m->count; i++) {
        struct slice key = slice_of(m->entries[i].key, m->entries[i].key_size);
        const int64_t *a = m->entries[i].value, *b = map_get(&again, key);
        CHECK(b && *a == *b);
    }
    checkpoint_fini(&again);
    mem_free(lines);
    mem_free(topics);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!sys) {
        folder_make();
        sys = sys_create();
        CHECK(sys != NULL);
    }
    char path[128];
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    folder_write("checkpoint", slice_of(data, size));
    struct map m;
    enum err e = checkpoint_read(sys, path, &m);
    CHECKF(e == ERR_OK || e == ERR_MALFORMED, "%s", err_name(e));
    CHECK(!e || m.count == 0);
    if (!e) { check_written(&m, path); }
    checkpoint_fini(&m);
    return 0;
}
