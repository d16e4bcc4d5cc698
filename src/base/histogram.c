/* histogram.c - bucket arithmetic of log-linear histograms. */
#include "base/histogram.h"

#include <stdatomic.h>
#include <stddef.h>

static uint64_t load(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

/* The writer's own: no read-modify-write is needed. */
static void store(_Atomic uint64_t *at, uint64_t value)
{
    atomic_store_explicit(at, value, memory_order_relaxed);
}

static size_t histogram_index(uint64_t value)
{
    if (value < 16) { return (size_t)value; }
    unsigned top = 63U - (unsigned)__builtin_clzll(value);
    size_t i = (size_t)(top - 3) * 16 + (size_t)(value >> (top - 4) & 15);
    return i < HISTOGRAM_BUCKETS ? i : HISTOGRAM_BUCKETS - 1;
}

/* The largest value that falls into bucket i. */
static uint64_t histogram_upper(size_t i)
{
    if (i < 16) { return i; }
    if (i == HISTOGRAM_BUCKETS - 1) { return UINT64_MAX; }
    unsigned top = (unsigned)(i / 16) + 3;
    uint64_t low = (16 + (uint64_t)(i % 16)) << (top - 4);
    return low + ((uint64_t)1 << (top - 4)) - 1;
}

void histogram_record(struct histogram *h, uint64_t value)
{
    _Atomic uint64_t *bucket = &h->buckets[histogram_index(value)];
    store(bucket, load(bucket) + 1);
    store(&h->count, load(&h->count) + 1);
    store(&h->sum, load(&h->sum) + value);
    if (value > load(&h->max)) { store(&h->max, value); }
}

void histogram_add(struct histogram *to, const struct histogram *from)
{
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        store(&to->buckets[i], load(&to->buckets[i]) + load(&from->buckets[i]));
    }
    store(&to->count, load(&to->count) + load(&from->count));
    store(&to->sum, load(&to->sum) + load(&from->sum));
    if (load(&from->max) > load(&to->max)) { store(&to->max, load(&from->max)); }
}

uint64_t histogram_quantile(const struct histogram *h, double q)
{
    uint64_t max = load(&h->max);
    double want = q * (double)load(&h->count);
    uint64_t seen = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += load(&h->buckets[i]);
        if (seen > 0 && (double)seen >= want) {
            uint64_t upper = histogram_upper(i);
            return upper < max ? upper : max;
        }
    }
    return max;
}

uint64_t histogram_count(const struct histogram *h)
{
    return load(&h->count);
}

uint64_t histogram_sum(const struct histogram *h)
{
    return load(&h->sum);
}
