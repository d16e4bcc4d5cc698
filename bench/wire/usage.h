/* usage.h - what the processors did between two moments: the broker, this program, all others.
 *
 * Place:      bench/wire; reads /proc and the kernel's per-process CPU clock.
 * Failure:    a broker that has ended ends the program; without a pid its figures are zero. */
#ifndef BENCH_WIRE_USAGE_H
#define BENCH_WIRE_USAGE_H

#include <stdint.h>

struct usage {
    int64_t at_ns;
    int64_t broker_cpu_ns; /* user and system time of all threads, exact to the nanosecond */
    int64_t self_cpu_ns;
    int64_t busy_ns; /* all processes, in clock ticks of 10 ms */
    int64_t steal_ns;
    int64_t broker_rss_kib;
    int64_t broker_rss_max_kib;
};

struct usage usage_now(int broker_pid);

#endif
