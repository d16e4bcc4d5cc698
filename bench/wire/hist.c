/* hist.c - see hist.h. Bucket of v: below 64 the value itself; above, 64 buckets a power of two. */
#include "hist.h"

static unsigned hist_bucket(uint64_t value)
{
    if (value < HIST_LINEAR) { return (unsigned)value; }
    unsigned power = 63U - (unsigned)__builtin_clzll(value) - HIST_LINEAR_BITS;
    if (power >= HIST_POWERS) { return HIST_BUCKETS - 1; }
    unsigned within = (unsigned)(value >> power) & (HIST_LINEAR - 1U);
    return (power + 1U) * HIST_LINEAR + within;
}

static uint64_t hist_bucket_end(unsigned bucket)
{
    if (bucket < HIST_LINEAR) { return bucket; }
    unsigned power = bucket / HIST_LINEAR - 1U;
    uint64_t within = bucket % HIST_LINEAR;
    return ((HIST_LINEAR + within + 1U) << power) - 1U;
}

void hist_add(struct hist *h, uint64_t value_ns)
{
    h->counts[hist_bucket(value_ns)]++;
    h->total++;
    if (value_ns > h->max) { h->max = value_ns; }
}

uint64_t hist_quantile(const struct hist *h, double share)
{
    if (h->total == 0) { return 0; }
    uint64_t rank = (uint64_t)(share * (double)h->total + 0.999999);
    if (rank < 1) { rank = 1; }
    uint64_t seen = 0;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        seen += h->counts[i];
        if (seen >= rank) {
            uint64_t end = hist_bucket_end(i);
            return end < h->max ? end : h->max;
        }
    }
    return h->max;
}
