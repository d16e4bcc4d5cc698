/* metrics.h - named values that are read when somebody asks, as Prometheus text (version 0.0.4).
 *
 * Place:      base/. Rooms count; a table of struct metric (const) says what is shown under which
 *             name and how it is read; http/ sends the text.
 * Thread:     a scrape belongs to one thread. What it reads is counted elsewhere, without a lock:
 *             by one writer each, or by relaxed atomics.
 * Memory:     one page of METRICS_PAGE_SIZE a scrape, however long the text becomes.
 * Invariants: [MET-1] all samples of a name follow its HELP and TYPE lines, without another name
 *             between them. [MET-2] a line is whole or is left out. [MET-3] a metric without a
 *             sample does not appear.
 * Failure:    a scrape needs memory at its start only. */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include "base/err.h"
#include "base/histogram.h"

#include <stdbool.h>
#include <stddef.h>

#define METRICS_PAGE_SIZE ((size_t)32 << 10)
#define METRICS_STEP_SIZE ((size_t)16 << 10) /* what one step writes at most */

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_SUMMARY };

struct metrics_scrape;

struct metric {
    const char *name, *help;
    enum metric_type type;
    int what; /* for read */
    /* Writes what stands at 'step', from 0 on, possibly nothing. False: there is no further step. A
     * step writes at most METRICS_STEP_SIZE. */
    bool (*read)(struct metrics_scrape *s, const struct metric *m, size_t step);
};

/* What is scraped. begin() makes what the reads of one scrape share (NULL: no memory), end() frees
 * it. */
struct metrics {
    const struct metric *rows;
    size_t rows_count;
    void *ctx;
    void *(*begin)(void *ctx);
    void (*end)(void *scrape_ctx);
};

struct metric_label {
    const char *name, *value;
};

struct metrics_scrape {
    const struct metrics *metrics;
    void *ctx; /* begin()'s */
    size_t row, step;
    bool named; /* HELP and TYPE of the row are written */
    size_t size, sent; /* of page */
    char page[METRICS_PAGE_SIZE];
};

/* NULL: no memory. 'metrics' outlives the scrape. */
struct metrics_scrape *metrics_scrape_create(const struct metrics *metrics);
void metrics_scrape_destroy(struct metrics_scrape *s); /* accepts NULL */
/* The next bytes of the text; 0: that was all. */
size_t metrics_scrape_next(struct metrics_scrape *s, char *to, size_t size);

/* ---- for read() ---- */

void metrics_put(struct metrics_scrape *s, const struct metric_label *labels, size_t labels_count,
                 int64_t value);
void metrics_put_real(struct metrics_scrape *s, const struct metric_label *labels,
                      size_t labels_count, double value);
/* Quantiles, sum and count of a histogram whose unit is 'unit' of the shown one (0.001:
 * microseconds, shown as milliseconds). At most 2 labels. */
void metrics_put_summary(struct metrics_scrape *s, const struct metric_label *labels,
                         size_t labels_count, const struct histogram *h, double unit);

#endif
