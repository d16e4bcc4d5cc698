/* histogram.c - bucket arithmetic of log-linear histograms. */
#include "base/histogram.h"

#include <stdatomic.h>
#include <stddef.h>

static size_t histogram_index(uint64_t value)
{
    if (value < 16) { return (size_t)value; }
    unsigned top = 63U - (unsigned)__builtin_clzll(value);
    return (size_t)(top - 3) * 16 + (size_t)(value >> (top - 4) & 15);
}

/* The largest value that falls into bucket i. */
static uint64_t histogram_upper(size_t i)
{
    if (i < 16) { return i; }
    unsigned top = (unsigned)(i / 16) + 3;
    uint64_t low = (16 + (uint64_t)(i % 16)) << (top - 4);
    return low + ((uint64_t)1 << (top - 4)) - 1;
}

void histogram_record(struct histogram *h, uint64_t value)
{
    atomic_fetch_add_explicit(&h->buckets[histogram_index(value)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, value, memory_order_relaxed);
    uint64_t max = atomic_load_explicit(&h->max, memory_order_relaxed);
    while (value > max && !atomic_compare_exchange_weak_explicit(
                              &h->max, &max, value, memory_order_relaxed, memory_order_relaxed)) {}
}

uint64_t histogram_quantile(const struct histogram *h, double q)
{
    uint64_t count = atomic_load_explicit(&h->count, memory_order_relaxed);
    uint64_t max = atomic_load_explicit(&h->max, memory_order_relaxed);
    double want = q * (double)count;
    uint64_t seen = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += atomic_load_explicit(&h->buckets[i], memory_order_relaxed);
        if (seen > 0 && (double)seen >= want) {
            uint64_t upper = histogram_upper(i);
            return upper < max ? upper : max;
        }
    }
    return max;
}
