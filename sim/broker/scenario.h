/* scenario.h - one run: a broker, clients, faults drawn from the seed, and what must hold at its
 * end.
 *
 * Place:   sim/broker.
 * Phases:  start and create the topic; faults among load, every kind switched on or off by the
 * seed; heal; drain (every request is answered, every idempotent batch acknowledged); audit (all
 *          that was promised is read back); an orderly stop that leaves no memory; a power cut that
 *          keeps nothing; start and audit again.
 * Failure: a CHECK that prints seed and trace. */
#ifndef BROKER_SCENARIO_H
#define BROKER_SCENARIO_H

#include "sim/machine.h"

struct scenario_options {
    uint64_t seed;
    uint64_t load_ms; /* of virtual time; 0: 3,000 */
    FILE *trace;
};

struct scenario_result {
    uint64_t hash;
    uint64_t acked, seen; /* records */
    uint64_t crashes, kills, stops, full_disks, sync_errors, rots, slow_disks, resets;
    struct sim_counts counts;
    uint64_t virtual_ms;
};

void scenario_run(const struct scenario_options *options, struct scenario_result *out);

#endif
