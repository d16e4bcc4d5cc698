/* process.h - a broker that a harness runs as a process of a simulated host.
 *
 * Thread: on a fiber of the process; the harness reads between its steps. */
#ifndef BROKER_PROCESS_H
#define BROKER_PROCESS_H

#include "broker/broker.h"

struct process {
    struct broker *broker; /* NULL until it has started */
    struct config_set *statics;
    bool has_failed_start;
};

struct process_setting {
    const char *key, *value;
};

/* The settings in the process's own memory; process_start() takes them. */
struct config_set *process_settings(const struct process_setting *rows, size_t count);
/* [FLT-1] A start that fails says why. */
void process_start(struct process *p, struct sys *sys, struct config_set *statics);
void process_stop(struct process *p);

#endif
