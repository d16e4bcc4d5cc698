/* signals.h - SIGINT, SIGTERM and SIGHUP as something that is looked for, not something that
 * interrupts.
 *
 * Place:      cli/.
 * Thread:     main, before any other thread begins. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdbool.h>

/* They are held back from here on, so that a command can end in order; an ignored SIGHUP stays
 * ignored. */
void signals_hold(void);
/* True when one of them has come; takes it. */
bool signals_take(void);

#endif
