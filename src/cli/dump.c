/* dump.c - `barnabas dump-log`: which files, and how they are printed. */
#include "cli/dump.h"

#include "base/check.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/options.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define DUMP_DEPTH_MAX 8
#define DUMP_FILES_MAX 1000

/* ---- printing ---- */

static bool is_bare(const char *text)
{
    for (const char *at = text; *at; at++) {
        bool ok = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                  (*at >= '0' && *at <= '9') || strchr("._-", *at);
        if (!ok) { return false; }
    }
    return *text != '\0';
}

static void print_value(const char *name, const json_t *value)
{
    bool is_data = strcmp(name, "key") == 0 || strcmp(name, "value") == 0;
    if (json_is_string(value) && !is_data && is_bare(json_string_value(value))) {
        fputs(json_string_value(value), stdout);
        return;
    }
    json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_COMPACT);
}

void dump_emit(struct dump *d, const char *kind, json_t *object)
{
    if (!object) {
        dump_problem(d, 0, "no memory");
        return;
    }
    if (d->is_json) {
        json_t *line = json_pack("{s:s, s:s}", "file", d->path, "kind", kind);
        if (line && json_object_update(line, object) == 0) {
            json_dumpf(line, stdout, JSON_COMPACT);
            putchar('\n');
        }
        json_decref(line);
    } else {
        if (!d->has_header) { printf("%s: %" PRIu64 " bytes\n", d->path, d->size); }
        d->has_header = true;
        printf("%s%s", strcmp(kind, "record") == 0 ? "    " : "  ", kind);
        const char *name;
        json_t *value;
        json_object_foreach(object, name, value)
        {
            printf(" %s=", name);
            print_value(name, value);
        }
        putchar('\n');
    }
    json_decref(object);
}

void dump_problem(struct dump *d, uint64_t pos, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    d->problems++;
    fflush(stdout);
    fprintf(stderr, "%s: position %" PRIu64 ": %s\n", d->path, pos, text);
    if (!d->is_json) { return; }
    json_t *line = json_pack("{s:s, s:s, s:I, s:s}", "file", d->path, "kind", "problem", "position",
                             (json_int_t)pos, "text", text);
    if (line) {
        json_dumpf(line, stdout, JSON_COMPACT);
        putchar('\n');
    }
    json_decref(line);
}

/* ---- reading ---- */

bool dump_read(struct dump *d, uint64_t pos, size_t size)
{
    size_t got = 0;
    d->bytes.size = 0;
    if (wire_buf_reserve(&d->bytes, size)) {
        dump_problem(d, pos, "%zu bytes do not fit into memory", size);
        return false;
    }
    enum err e = sys_file_read(d->file, d->bytes.at, size, pos, &got);
    if (e || got < size) {
        dump_problem(d, pos, "reading failed: %s", e ? err_name(e) : "the file became shorter");
        return false;
    }
    d->bytes.size = size;
    return true;
}

int64_t dump_base_offset(const struct dump *d)
{
    int64_t offset = 0;
    for (int i = 0; i < 20; i++) {
        char c = d->name[i];
        if (c < '0' || c > '9' || offset > (INT64_MAX - (c - '0')) / 10) { return -1; }
        offset = offset * 10 + (c - '0');
    }
    return offset;
}

/* ---- files ---- */

struct dump_kind {
    const char *suffix;
    bool is_whole_name;
    void (*dump)(struct dump *d);
    const char *what;
};

static const struct dump_kind kinds[] = {
    {".log", false, dump_batches, "record batches"},
    {".checkpoint", false, dump_batches, "a metadata snapshot"},
    {".index", false, dump_index, "an offset index"},
    {".timeindex", false, dump_time_index, "a time index"},
    {".txnindex", false, dump_aborted, "aborted transactions"},
    {".snapshot", false, dump_snapshot, "producers"},
    {"leader-epoch-checkpoint", true, dump_epochs, "leader epochs"},
    {"log-start-offset-checkpoint", true, dump_checkpoint, "offsets of a directory"},
    {"recovery-point-offset-checkpoint", true, dump_checkpoint, "offsets of a directory"},
    {"replication-offset-checkpoint", true, dump_checkpoint, "offsets of a directory"},
    {"partition.metadata", true, dump_properties, "properties"},
    {"meta.properties", true, dump_properties, "properties"},
};

/* Files that were renamed to go away soon are of the same kind. */
static const struct dump_kind *kind_of(const char *name)
{
    size_t len = strlen(name);
    const char deleted[] = ".deleted";
    if (len > sizeof deleted && strcmp(name + len - (sizeof deleted - 1), deleted) == 0) {
        len -= sizeof deleted - 1;
    }
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        size_t size = strlen(kinds[i].suffix);
        if (size > len || (kinds[i].is_whole_name && size != len)) { continue; }
        if (memcmp(name + len - size, kinds[i].suffix, size) == 0) { return &kinds[i]; }
    }
    return NULL;
}

static void set_path(struct dump *d, const char *path)
{
    const char *slash = strrchr(path, '/');
    d->path = path;
    d->name = slash ? slash + 1 : path;
    d->has_header = false;
    d->folder[0] = '\0';
    if (!slash) { return; }
    const char *start = slash;
    while (start > path && start[-1] != '/') {
        start--;
    }
    snprintf(d->folder, sizeof d->folder, "%.*s", (int)(slash - start), start);
}

static void dump_one(struct dump *d, const char *path, const struct dump_kind *kind)
{
    set_path(d, path);
    enum err e = sys_file_open(d->sys, path, SYS_READ, &d->file);
    if (!e) { e = sys_file_size(d->file, &d->size); }
    if (e) {
        dump_problem(d, 0, "cannot be opened: %s", err_name(e));
    } else {
        if (!d->is_json) { printf("%s: %" PRIu64 " bytes, %s\n", path, d->size, kind->what); }
        d->has_header = true;
        kind->dump(d);
    }
    sys_file_unref(d->file);
    d->file = NULL;
}

struct walk_folder {
    struct dump *d;
    const char *path;
    int depth;
};

static void dump_folder(struct dump *d, const char *path, int depth);

static enum err on_name(void *ctx, const char *name, bool is_dir)
{
    const struct walk_folder *w = ctx;
    char path[DUMP_PATH_SIZE];
    int n = snprintf(path, sizeof path, "%s/%s", w->path, name);
    if (n < 0 || (size_t)n >= sizeof path) { return ERR_LIMIT; }
    const struct dump_kind *kind = is_dir ? NULL : kind_of(name);
    if (is_dir) {
        dump_folder(w->d, path, w->depth + 1);
    } else if (kind) {
        dump_one(w->d, path, kind);
    }
    return ERR_OK;
}

static void dump_folder(struct dump *d, const char *path, int depth)
{
    struct walk_folder w = {.d = d, .path = path, .depth = depth};
    enum err e = depth > DUMP_DEPTH_MAX ? ERR_LIMIT : sys_dir_list(d->sys, path, on_name, &w);
    if (e) {
        set_path(d, path);
        dump_problem(d, 0, "the folder cannot be read: %s", err_name(e));
    }
}

/* ---- the command ---- */

struct dump_options {
    const char *format;
    bool is_deep, is_metadata, is_revealing;
};

static const struct option dump_table[] = {
    {.name = "deep",
     .kind = OPTION_FLAG,
     .letter = 'd',
     .field = offsetof(struct dump_options, is_deep),
     .help = "every record of every batch, too"},
    {.name = "metadata",
     .kind = OPTION_FLAG,
     .letter = 'm',
     .field = offsetof(struct dump_options, is_metadata),
     .help = "records are metadata records (needed only when\nthe folder is not called "
             "__cluster_metadata-0);\nimplies --deep"},
    {.name = "reveal",
     .kind = OPTION_FLAG,
     .field = offsetof(struct dump_options, is_revealing),
     .help = "what metadata records hold of configurations and\ncredentials, instead of 'hidden'"},
    {.name = "format",
     .kind = OPTION_CHOICE,
     .field = offsetof(struct dump_options, format),
     .value = "FORMAT",
     .choices = "text|json",
     .help = "text (default), or json: an object a line"},
};

static const struct usage dump_usage = {
    .command = "dump-log",
    .operands = "FILE|DIR...",
    .operands_min = 1,
    .operands_max = DUMP_FILES_MAX,
    .about =
        "Shows and checks files of a data directory, of Barnabas or Apache Kafka: segments "
        "(.log),\n"
        "metadata snapshots (.checkpoint), indexes (.index, .timeindex, .txnindex), producers\n"
        "(.snapshot), leader-epoch-checkpoint, the offset checkpoints, partition.metadata and\n"
        "meta.properties. Of a folder all of them, with the folders in it. Damage is told on\n"
        "standard error with file and position, and makes the exit code 1. A running broker may\n"
        "be in the middle of a write at the end of its newest segments.",
    .options = dump_table,
    .options_count = COUNT_OF(dump_table),
    .examples = "  barnabas dump-log data/orders-0 --deep\n"
                "  barnabas dump-log data/__cluster_metadata-0 --format json\n",
};

static int dump_operands(struct dump *d, char **argv, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sys_stat stat;
        enum err e = sys_path_stat(d->sys, argv[i], &stat);
        if (e) {
            set_path(d, argv[i]);
            dump_problem(d, 0, "cannot be opened: %s",
                         e == ERR_NOTFOUND ? "there is no such file" : err_name(e));
            continue;
        }
        if (stat.is_dir) {
            size_t len = strlen(argv[i]);
            while (len > 1 && argv[i][len - 1] == '/') {
                argv[i][--len] = '\0';
            }
            dump_folder(d, argv[i], 0);
            continue;
        }
        const char *slash = strrchr(argv[i], '/');
        const struct dump_kind *kind = kind_of(slash ? slash + 1 : argv[i]);
        if (!kind) {
            return options_refuse(&dump_usage,
                                  "%s: expected a file that ends in .log, .index, "
                                  ".timeindex, .txnindex, .snapshot or -checkpoint",
                                  argv[i]);
        }
        dump_one(d, argv[i], kind);
    }
    return d->problems ? CLI_FAILED : CLI_DONE;
}

int cli_dump_log(int argc, char **argv)
{
    struct dump_options o = {.format = "text"};
    size_t operands;
    int code;
    if (!options_parse(&dump_usage, argc, argv, &o, &operands, &code)) { return code; }
    struct dump d = {.sys = sys_create(),
                     .is_deep = o.is_deep || o.is_metadata,
                     .is_metadata = o.is_metadata,
                     .is_revealing = o.is_revealing,
                     .is_json = strcmp(o.format, "json") == 0,
                     .scratch = codec_scratch_create()};
    wire_buf_init(&d.bytes, DUMP_BYTES_MAX);
    wire_buf_init(&d.plain, DUMP_BYTES_MAX);
    code = d.sys && d.scratch ? dump_operands(&d, argv, operands) : cli_no_memory("dump-log");
    wire_buf_fini(&d.bytes);
    wire_buf_fini(&d.plain);
    codec_scratch_destroy(d.scratch);
    sys_destroy(d.sys);
    return code;
}
