/* timer.h - what bench_timer measures. Each prints one line of JSON about one leg. */
#ifndef BENCH_TIMER_H
#define BENCH_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "purgatory/env.h"
#include "sys/sys.h"

/* A timer added and taken out while others wait (hot), or the oldest taken out and added anew.
 * 'which' is wheel, heap or libuv. False: no such structure. */
bool churn_run(const struct purg_env *env, const char *which, bool is_hot, size_t outstanding,
               uint64_t run_ns);

/* All timers added, then the clock taken through their time tick by tick: wheel or heap. */
bool expire_run(const struct purg_env *env, const char *which, size_t outstanding);

/* Timers in real time: how late each is. */
void late_run(struct sys *sys, const struct purg_env *env, uint64_t per_second, uint64_t span_ms);

/* What the first step costs after three seconds without one. */
void idle_run(const struct purg_env *env);

#endif
