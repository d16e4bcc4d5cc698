/* hist.h - a log-linear histogram of durations in nanoseconds.
 *
 * Place:      bench/wire; knows nothing of the wire.
 * Thread:     one thread; no locks.
 * Ownership:  caller's memory; all zero is an empty histogram.
 * Invariants: [HIST-1] a value's bucket is at most 1/64 of it wide, so a quantile is at most 1.6 %
 *             too high and never too low.  [HIST-2] total is the sum of all counts.
 * Failure:    none; values above the last bucket are counted in it, max keeps the true value. */
#ifndef BENCH_WIRE_HIST_H
#define BENCH_WIRE_HIST_H

#include <stdint.h>

enum {
    HIST_LINEAR_BITS = 6,
    HIST_LINEAR = 1 << HIST_LINEAR_BITS,
    HIST_POWERS = 36, /* up to 2^42 ns, over an hour */
    HIST_BUCKETS = HIST_LINEAR * (HIST_POWERS + 1),
};

struct hist {
    uint64_t counts[HIST_BUCKETS];
    uint64_t total;
    uint64_t max;
};

void hist_add(struct hist *h, uint64_t value_ns);

/* The least bucket end that at least this share (0 to 1) of all values does not exceed; 0 if none.
 */
uint64_t hist_quantile(const struct hist *h, double share);

#endif
