/* output.c - see output.h. */
#include "cli/output.h"

#include "base/mem.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#define TABLE_BYTES_MAX ((size_t)1 << 30)
#define TABLE_CHUNK_SIZE ((size_t)64 << 10)
#define CELL_SIZE_MAX 4096
#define BAR_WIDTH 30
#define BAR_INTERVAL_NS 100000000u

/* ---- tables ---- */

void table_init(struct table *t, const struct table_column *columns, size_t columns_count)
{
    *t = (struct table){.columns = columns, .columns_count = columns_count};
    arena_init(&t->arena, TABLE_CHUNK_SIZE, TABLE_BYTES_MAX);
}

void table_fini(struct table *t)
{
    arena_fini(&t->arena);
    mem_free((void *)t->cells);
}

void table_cell(struct table *t, const char *fmt, ...)
{
    char text[CELL_SIZE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (t->cells_count == t->cells_capacity) {
        size_t capacity = t->cells_capacity ? t->cells_capacity * 2 : 64;
        char **cells = mem_realloc((void *)t->cells, capacity * sizeof *cells);
        if (!cells) {
            t->bad = true;
            return;
        }
        t->cells = cells;
        t->cells_capacity = capacity;
    }
    char *cell = arena_strndup(&t->arena, text, strlen(text));
    t->bad |= !cell;
    t->cells[t->cells_count] = cell;
    t->cells_count += !t->bad;
}

static void print_cell(const struct table *t, size_t column, int width, const char *text, FILE *out)
{
    bool is_last = column + 1 == t->columns_count;
    if (t->columns[column].is_number) {
        fprintf(out, "%*s", width, text);
    } else if (is_last) {
        fputs(text, out);
    } else {
        fprintf(out, "%-*s", width, text);
    }
    fputs(is_last ? "\n" : "  ", out);
}

bool table_print(const struct table *t, FILE *out)
{
    if (t->bad) { return false; }
    int widths[TABLE_COLUMNS_MAX];
    for (size_t c = 0; c < t->columns_count; c++) {
        size_t width = strlen(t->columns[c].title);
        for (size_t i = c; i < t->cells_count; i += t->columns_count) {
            size_t len = strlen(t->cells[i]);
            if (len > width) { width = len; }
        }
        widths[c] = (int)width;
    }
    for (size_t c = 0; c < t->columns_count; c++) {
        print_cell(t, c, widths[c], t->columns[c].title, out);
    }
    for (size_t i = 0; i < t->cells_count; i++) {
        size_t c = i % t->columns_count;
        print_cell(t, c, widths[c], t->cells[i], out);
    }
    return true;
}

/* ---- JSON ---- */

int json_out(const char *command, json_t *value)
{
    if (!value || json_dumpf(value, stdout, JSON_INDENT(2))) {
        json_decref(value);
        return cli_no_memory(command);
    }
    putchar('\n');
    json_decref(value);
    return CLI_DONE;
}

json_t *json_text(struct slice bytes)
{
    return json_stringn(bytes.size ? (const char *)bytes.at : "", bytes.size);
}

static json_t *json_base64(struct slice bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = mem_alloc(bytes.size / 3 * 4 + 8), *at = text;
    if (!text) { return NULL; }
    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        uint32_t three = (uint32_t)bytes.at[i] << 16;
        if (left > 1) { three |= (uint32_t)bytes.at[i + 1] << 8; }
        if (left > 2) { three |= bytes.at[i + 2]; }
        *at++ = digits[three >> 18];
        *at++ = digits[three >> 12 & 63];
        *at++ = left > 1 ? digits[three >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[three & 63] : '=';
    }
    json_t *value = json_stringn(text, (size_t)(at - text));
    mem_free(text);
    return value;
}

bool json_set_bytes(json_t *object, const char *name, struct slice bytes)
{
    if (slice_is_null(bytes)) { return json_object_set_new(object, name, json_null()) == 0; }
    json_t *text = json_text(bytes);
    if (text) { return json_object_set_new(object, name, text) == 0; }
    char key[64];
    snprintf(key, sizeof key, "%s_base64", name);
    return json_object_set_new(object, key, json_base64(bytes)) == 0;
}

/* ---- progress ---- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void progress_start(struct progress *p, const char *what, uint64_t total, bool writes_output)
{
    bool is_on = isatty(STDERR_FILENO) && !(writes_output && isatty(STDOUT_FILENO));
    *p = (struct progress){.is_on = is_on, .what = what, .total = total, .started_ns = now_ns()};
}

void progress_show(struct progress *p, uint64_t done, uint64_t records)
{
    if (!p->is_on) { return; }
    uint64_t now = now_ns();
    if (now - p->painted_ns < BAR_INTERVAL_NS) { return; }
    p->painted_ns = now;
    double seconds = (double)(now - p->started_ns) / 1e9;
    double rate = seconds > 0 ? (double)records / seconds : 0;
    fprintf(stderr, "\r%s ", p->what);
    if (p->total) {
        if (done > p->total) { done = p->total; }
        int full = (int)(done * BAR_WIDTH / p->total);
        fputc('[', stderr);
        for (int i = 0; i < BAR_WIDTH; i++) {
            fputc(i < full ? '#' : '.', stderr);
        }
        fprintf(stderr, "] %3d %%  ", (int)(done * 100 / p->total));
    }
    fprintf(stderr, "%" PRIu64 " records, %.0f a second\033[K", records, rate);
}

void progress_end(struct progress *p)
{
    if (p->is_on && p->painted_ns) { fputs("\r\033[K", stderr); }
    p->is_on = false;
}
