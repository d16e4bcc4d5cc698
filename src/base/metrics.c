/* metrics.c - Prometheus text, a page at a time. */
#include "base/metrics.h"

#include "base/check.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct metrics_scrape *metrics_scrape_create(const struct metrics *metrics)
{
    struct metrics_scrape *s = mem_new(struct metrics_scrape);
    if (!s) { return NULL; }
    s->metrics = metrics;
    s->ctx = metrics->begin(metrics->ctx);
    if (!s->ctx) {
        mem_free(s);
        return NULL;
    }
    return s;
}

void metrics_scrape_destroy(struct metrics_scrape *s)
{
    if (!s) { return; }
    s->metrics->end(s->ctx);
    mem_free(s);
}

/* False: no room; nothing is written then. */
static __attribute__((format(printf, 2, 3))) bool put(struct metrics_scrape *s, const char *format,
                                                      ...)
{
    size_t room = sizeof s->page - s->size;
    va_list args;
    va_start(args, format);
    int size = vsnprintf(s->page + s->size, room, format, args);
    va_end(args);
    CHECK(size >= 0);
    if ((size_t)size >= room) { return false; }
    s->size += (size_t)size;
    return true;
}

/* A label's value: backslash, quote and newline are escaped. */
static bool put_escaped(struct metrics_scrape *s, const char *value)
{
    for (const char *p = value; *p; p++) {
        if (s->size + 2 > sizeof s->page) { return false; }
        if (*p == '\\' || *p == '"' || *p == '\n') { s->page[s->size++] = '\\'; }
        s->page[s->size++] = *p == '\n' ? 'n' : *p;
    }
    return true;
}

static bool put_name(struct metrics_scrape *s, const char *suffix,
                     const struct metric_label *labels, size_t labels_count)
{
    bool is_whole = put(s, "%s%s", s->metrics->rows[s->row].name, suffix);
    for (size_t i = 0; i < labels_count && is_whole; i++) {
        is_whole = put(s, "%s%s=\"", i ? "," : "{", labels[i].name) &&
                   put_escaped(s, labels[i].value) && put(s, "\"");
    }
    return is_whole && (labels_count == 0 || put(s, "}"));
}

/* [MET-1] */
static bool put_head(struct metrics_scrape *s)
{
    static const char *const types[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_SUMMARY] = "summary"};
    if (s->named) { return true; }
    const struct metric *m = &s->metrics->rows[s->row];
    return put(s, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, types[m->type]);
}

/* [MET-2]: a line that is not whole is taken back. */
static void put_end(struct metrics_scrape *s, size_t from, bool is_whole)
{
    if (is_whole) {
        s->named = true;
    } else {
        s->size = from;
    }
}

void metrics_put(struct metrics_scrape *s, const struct metric_label *labels, size_t labels_count,
                 int64_t value)
{
    size_t from = s->size;
    put_end(s, from,
            put_head(s) && put_name(s, "", labels, labels_count) &&
                put(s, " %" PRId64 "\n", value));
}

static bool put_real(struct metrics_scrape *s, const char *suffix,
                     const struct metric_label *labels, size_t labels_count, double value)
{
    return put_name(s, suffix, labels, labels_count) && put(s, " %.12g\n", value);
}

void metrics_put_real(struct metrics_scrape *s, const struct metric_label *labels,
                      size_t labels_count, double value)
{
    size_t from = s->size;
    put_end(s, from, put_head(s) && put_real(s, "", labels, labels_count, value));
}

void metrics_put_summary(struct metrics_scrape *s, const struct metric_label *labels,
                         size_t labels_count, const struct histogram *h, double unit)
{
    /* Those of Kafka's histograms. */
    static const char *const quantiles[] = {"0.50", "0.75", "0.95", "0.98", "0.99", "0.999"};
    static const double values[] = {0.50, 0.75, 0.95, 0.98, 0.99, 0.999};
    struct metric_label all[3];
    size_t from = s->size;
    bool is_whole = put_head(s);
    CHECK(labels_count < COUNT_OF(all));
    for (size_t i = 0; i < labels_count; i++) {
        all[i] = labels[i];
    }
    for (size_t i = 0; i < COUNT_OF(quantiles) && is_whole; i++) {
        all[labels_count] = (struct metric_label){"quantile", quantiles[i]};
        is_whole =
            put_real(s, "", all, labels_count + 1, (double)histogram_quantile(h, values[i]) * unit);
    }
    is_whole =
        is_whole && put_real(s, "_sum", labels, labels_count, (double)histogram_sum(h) * unit) &&
        put_name(s, "_count", labels, labels_count) && put(s, " %" PRIu64 "\n", histogram_count(h));
    put_end(s, from, is_whole);
}

/* Fills the page with whole steps. */
static void scrape_fill(struct metrics_scrape *s)
{
    s->size = s->sent = 0;
    while (s->row < s->metrics->rows_count && sizeof s->page - s->size >= METRICS_STEP_SIZE) {
        const struct metric *m = &s->metrics->rows[s->row];
        if (m->read(s, m, s->step)) {
            s->step++;
            continue;
        }
        s->row++;
        s->step = 0;
        s->named = false;
    }
}

size_t metrics_scrape_next(struct metrics_scrape *s, char *to, size_t size)
{
    if (s->sent == s->size) { scrape_fill(s); }
    size_t left = s->size - s->sent;
    size_t take = left < size ? left : size;
    memcpy(to, s->page + s->sent, take);
    s->sent += take;
    return take;
}
