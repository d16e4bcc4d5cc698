/* wakeup_test.c - one event for each operation, at the worst moments: a lost one is not made good.
 *
 * One thread parks operations without deadline, one after the other; a second tells each its only
 * event at about that time; a third checks the same keys without cause, so that the event often
 * meets a check in progress. try_complete gives its core away after it has looked, which is the
 * window. In the end each must have been answered once. Run under TSan too. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "purg_test.h"

#define OPS 8000
#define AHEAD_MAX 3 /* of the parking thread before the events */

struct pair {
    struct purg_op op; /* first */
    struct purg_watch_node node;
    _Atomic(bool) is_ready;
    int answers; /* the owner's */
};

static struct pair pairs[OPS];
static struct purgatory *purgatory;
static struct purg_owner *owner;
static _Atomic(size_t) parked_next;
static _Atomic(size_t) events_next;

static struct purg_key key_of(size_t number)
{
    return (struct purg_key){.hi = number / 2, .lo = 5, .sub = 1}; /* two share a key */
}

static bool pair_try(struct purg_op *op)
{
    struct pair *pair = (struct pair *)(void *)op;
    bool is_ready = atomic_load_explicit(&pair->is_ready, memory_order_relaxed);
    if (!is_ready) { sched_yield(); }
    return is_ready;
}

static void pair_complete(struct purg_op *op, enum purg_reason reason)
{
    struct pair *pair = (struct pair *)(void *)op;
    if (reason == PURG_EVENT) { pair->answers++; }
}

static const struct purg_op_type pair_type = {"pair", pair_try, pair_complete};

static void *tell_events(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < OPS; i++) {
        while (atomic_load(&parked_next) < i) {
            sched_yield();
        }
        atomic_store_explicit(&pairs[i].is_ready, true, memory_order_relaxed);
        purg_check(purgatory, NULL, key_of(i));
        atomic_store(&events_next, i + 1);
    }
    return NULL;
}

static void *check_without_cause(void *arg)
{
    (void)arg;
    size_t now;
    while ((now = atomic_load(&parked_next)) < OPS) {
        purg_check(purgatory, NULL, key_of(now));
        purg_check(purgatory, NULL, key_of(atomic_load(&events_next)));
    }
    return NULL;
}

static void park_all(void)
{
    for (size_t i = 0; i < OPS; i++) {
        while (i > atomic_load(&events_next) + AHEAD_MAX) {
            sched_yield();
        }
        atomic_store(&parked_next, i);
        struct purg_key key = key_of(i);
        purg_op_init(&pairs[i].op, &pair_type, owner);
        if (purg_try_complete_else_watch(purgatory, i % 2 ? owner : NULL, &pairs[i].op,
                                         &pairs[i].node, &key, 1, PURG_NEVER) == PURG_DONE) {
            pairs[i].answers++;
        }
        if (i % 8 == 0) { purg_owner_step(owner, i); }
    }
    atomic_store(&parked_next, OPS);
}

static void test_event_while_another_thread_checks_is_not_lost_c26(void **state)
{
    (void)state;
    struct purg_env env = purg_env_pthread();
    purgatory = purg_create(&env, &(struct purg_options){.shards = 2});
    owner = purg_owner_create(&env, &(struct purg_owner_options){.step_max = 0});
    assert_non_null(purgatory);
    assert_non_null(owner);
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, tell_events, NULL), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, check_without_cause, NULL), 0);
    park_all();
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    size_t lost = purg_delayed(purgatory); /* all events have been told */
    purg_owner_shutdown(owner);
    while (!purg_owner_is_idle(owner)) {
        purg_owner_step(owner, OPS);
    }
    assert_int_equal(lost, 0);
    for (size_t i = 0; i < OPS; i++) {
        assert_int_equal(pairs[i].answers, 1);
    }
    assert_int_equal(purg_size(purgatory), 0);
    purg_owner_destroy(owner);
    purg_destroy(purgatory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_while_another_thread_checks_is_not_lost_c26),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
