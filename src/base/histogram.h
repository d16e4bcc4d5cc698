/* histogram.h - log-linear latency histogram: 64 powers of two, 16 linear buckets in each, so at
 * most 6.25 % error.
 *
 * Thread: record from any thread (relaxed atomics); reading while others record gives a near
 * picture. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS (61 * 16)

struct histogram {
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
    _Atomic uint64_t count;
    _Atomic uint64_t sum;
    _Atomic uint64_t max;
};

void histogram_record(struct histogram *h, uint64_t value);
/* The upper edge of the bucket that holds quantile q (0..1); 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double q);

#endif
