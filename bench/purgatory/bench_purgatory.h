/* bench_purgatory.h - the two benchmarks of the program bench_purgatory.
 *
 * Place:      bench/purgatory; each prints one line of JSON about one leg. */
#ifndef BENCH_PURGATORY_H
#define BENCH_PURGATORY_H

#include "purgatory/env.h"

struct window_options {
    struct purg_env env;
    size_t keys; /* of one operation */
    uint64_t outstanding; /* of all threads */
    unsigned threads;
    uint64_t run_ns;
    size_t turn; /* so many events, then as many new operations; at most WINDOW_STEP_EVERY */
};

#define WINDOW_STEP_EVERY 16 /* events between two steps of the owner */

void window_run(const struct window_options *options);

struct arrivals_options {
    struct purg_env env;
    double p50_ms, p75_ms; /* of the log-normal completion times */
    double per_second;
    uint64_t count;
    uint64_t timeout_ms;
    size_t keys; /* of one operation, */
    uint64_t key_space; /* out of so many */
};

void arrivals_run(const struct arrivals_options *options);

#endif
