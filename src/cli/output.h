/* output.h - what a person reads: tables on standard output, a progress bar on standard error.
 *
 * Place:      cli/.
 * Thread:     one.
 * Ownership:  a table owns its cells (an arena).
 * Failure:    a table without memory goes bad once and table_print() says false. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "base/arena.h"
#include "base/slice.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 8

struct table_column {
    const char *title;
    bool is_number; /* right-aligned */
};

struct table {
    const struct table_column *columns;
    size_t columns_count;
    struct arena arena;
    char **cells;
    size_t cells_count, cells_capacity;
    bool bad;
};

void table_init(struct table *t, const struct table_column *columns, size_t columns_count);
void table_fini(struct table *t);
/* The next cell; cells fill row after row. */
__attribute__((format(printf, 2, 3))) void table_cell(struct table *t, const char *fmt, ...);
/* False without memory. */
bool table_print(const struct table *t, FILE *out);

/* Prints the value, indented, with a newline, and drops it. CLI_DONE; CLI_FAILED (said) when value
 * is NULL, which is how jansson reports that there is no memory. */
int json_out(const char *command, json_t *value);

/* Text when the bytes are UTF-8, else NULL (also without memory). Null bytes are text. */
json_t *json_text(struct slice bytes);
/* Puts bytes under 'name': a string, null, or base64 under "<name>_base64" when they are no text.
 * False without memory. */
bool json_set_bytes(json_t *object, const char *name, struct slice bytes);

/* A bar that repaints itself at most ten times a second. */
struct progress {
    bool is_on;
    const char *what;
    uint64_t total; /* 0: not known */
    uint64_t painted_ns, started_ns;
};

/* Off unless standard error is a terminal (and standard output is not, when it is written to). */
void progress_start(struct progress *p, const char *what, uint64_t total, bool writes_output);
/* done in the unit of total; records for the rate. */
void progress_show(struct progress *p, uint64_t done, uint64_t records);
/* Wipes the bar off the line. */
void progress_end(struct progress *p);

#endif
