/* signals.c - see signals.h. */
#include "cli/signals.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>

static sigset_t held_signals(void)
{
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) { /* nohup */
        sigaddset(&held, SIGHUP);
    }
    return held;
}

void signals_hold(void)
{
    sigset_t held = held_signals();
    sigprocmask(SIG_BLOCK, &held, NULL);
}

bool signals_take(void)
{
    sigset_t held = held_signals();
    return sigtimedwait(&held, NULL, &(struct timespec){0}) > 0;
}
