/* actor_int.h - the parts of a simulated client. */
#ifndef BROKER_ACTOR_INT_H
#define BROKER_ACTOR_INT_H

#include "actor.h"
#include "base/check.h"

#include <inttypes.h>

enum {
    CODE_NONE = 0,
    CODE_OUT_OF_RANGE = 1,
    CODE_UNKNOWN_TOPIC = 3,
    CODE_NOT_LEADER = 6,
    CODE_TIMED_OUT = 7,
    CODE_EXISTS = 36,
    CODE_SEQUENCE = 45,
    CODE_STORAGE = 56,
    CODE_NO_SESSION = 70,
};

void actor_sleep(struct actor *a, uint64_t max_ms);
bool actor_is_retriable(int16_t code);
/* Nothing made this answer late: no fault since the request, none before it on its connection. */
void actor_check_prompt(const struct actor *a, const struct pending *p, uint64_t since_ns);
const char *actor_topic(const struct actor_world *w, uint32_t partition);
uint32_t actor_index(const struct actor_world *w, uint32_t partition);
/* Of the volatile topic, and not of what it is now: an answer says nothing. */
bool actor_is_stale(const struct actor_world *w, uint32_t partition, uint32_t generation);

/* fetcher.c */
void fetcher_send(struct actor *a);
void fetcher_turn(struct actor *a);
void fetcher_answer(struct actor *a, const struct pending *p, struct look *l);

/* admin.c */
void admin_turn(struct actor *a);
void admin_answer(struct actor *a, const struct pending *p, struct look *l);
bool admin_is_quiet(const struct actor *a);

#endif
