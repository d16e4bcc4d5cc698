/* histogram.h - log-linear histogram: powers of two, 16 linear buckets in each, so at most 6.25 %
 * error below 2^32 (71 minutes in microseconds); what is larger is counted as the largest seen.
 *
 * Thread: one thread records, any thread reads meanwhile and gets a near picture. Several writers
 * have one each, joined by histogram_add() when they are read. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS (29 * 16 + 1)

struct histogram {
    _Atomic uint64_t count;
    _Atomic uint64_t sum;
    _Atomic uint64_t max;
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_record(struct histogram *h, uint64_t value);
/* Adds what 'from' holds; the caller is the writer of 'to'. */
void histogram_add(struct histogram *to, const struct histogram *from);
/* The upper edge of the bucket that holds quantile q (0..1); 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double q);
uint64_t histogram_count(const struct histogram *h);
uint64_t histogram_sum(const struct histogram *h);

#endif
