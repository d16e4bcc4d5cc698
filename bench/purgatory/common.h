/* common.h - what both sides of the purgatory's benchmarks compute alike, and clocks.
 *
 * Place:      bench/purgatory and bench/timer; bench/purgatory/java/Common.java is its twin: the
 *             same seeds give the same keys, delays and orders.
 * Failure:    a benchmark that cannot go on ends the program: better no figure than a wrong one. */
#ifndef BENCH_PURGATORY_COMMON_H
#define BENCH_PURGATORY_COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

static inline uint64_t mix(uint64_t number)
{
    number += 0x9e3779b97f4a7c15u;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static inline uint64_t clock_ns(clockid_t id)
{
    struct timespec time;
    if (clock_gettime(id, &time) != 0) { abort(); }
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static inline uint64_t mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* Ends the program when what is measured is not true. */
static inline void must(int is_true, const char *what)
{
    if (!is_true) {
        fprintf(stderr, "not so: %s\n", what);
        exit(1);
    }
}

#endif
