/* purg_env.h - libpurgatory on top of sys: its locks, clock and memory, the same for the real
 * machine and the simulated one. */
#ifndef BROKER_PURG_ENV_H
#define BROKER_PURG_ENV_H

#include "purgatory/env.h"
#include "sys/sys.h"

struct purg_env broker_purg_env(struct sys *sys);

#endif
