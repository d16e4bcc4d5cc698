/* lock_test.c - a shard's lock when it is taken already: who waits sleeps, and is woken.
 *
 * Memory is asked for under the lock when a table grows. There a thread stays until the other one
 * waits, so nothing here depends on time. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "purg_test.h"

#define KEYS 4 /* the fourth one makes the table grow, under the lock */

static struct purg_env table; /* the real one */
static _Atomic(unsigned) waits;
static _Atomic(unsigned) wakes;
static _Atomic(bool) is_holding;
static _Atomic(bool) is_armed;
static pthread_t holder;

static void count_wait(void *ctx, _Atomic(uint32_t) *word, uint32_t value)
{
    atomic_fetch_add(&waits, 1);
    table.word_wait(ctx, word, value);
}

static void count_wake(void *ctx, _Atomic(uint32_t) *word)
{
    atomic_fetch_add(&wakes, 1);
    table.word_wake(ctx, word);
}

/* Memory for the table that grows: the lock is held until somebody waits for it. */
static void *hold_and_alloc(void *ctx, size_t size, size_t align)
{
    if (atomic_exchange(&is_armed, false)) {
        atomic_store(&is_holding, true);
        while (atomic_load(&waits) == 0) {
            sched_yield();
        }
    }
    return table.alloc(ctx, size, align);
}

struct item {
    struct purg_op op; /* first */
    struct purg_watch_node node;
};

static bool item_try(struct purg_op *op)
{
    (void)op;
    return false;
}

static void item_complete(struct purg_op *op, enum purg_reason reason)
{
    (void)op;
    assert_int_equal(reason, PURG_CANCELLED);
}

static const struct purg_op_type item_type = {"item", item_try, item_complete};

struct world {
    struct purgatory *purgatory;
    struct purg_owner *owner;
    struct item items[KEYS];
};

static void *park_all(void *arg)
{
    struct world *world = arg;
    for (uint64_t i = 0; i < KEYS; i++) {
        if (i == KEYS - 1) { atomic_store(&is_armed, true); }
        purg_op_init(&world->items[i].op, &item_type, world->owner);
        if (purg_try_complete_else_watch(world->purgatory, NULL, &world->items[i].op,
                                         &world->items[i].node, &(struct purg_key){.lo = i}, 1,
                                         PURG_NEVER) != PURG_PARKED) {
            abort();
        }
    }
    return NULL;
}

static void test_who_finds_the_lock_taken_sleeps_until_it_is_free(void **state)
{
    (void)state;
    table = purg_env_pthread();
    struct purg_env env = table;
    env.word_wait = count_wait;
    env.word_wake = count_wake;
    env.alloc = hold_and_alloc;
    struct world world = {
        .purgatory = purg_create(&env, &(struct purg_options){.shards = 1}),
        .owner = purg_owner_create(&env, &(struct purg_owner_options){.start_ns = 0}),
    };
    assert_non_null(world.purgatory);
    assert_non_null(world.owner);
    assert_int_equal(pthread_create(&holder, NULL, park_all, &world), 0);
    while (!atomic_load(&is_holding)) {
        sched_yield();
    }
    /* Its lock is held, by the other thread, until this one waits. */
    assert_int_equal(purg_check(world.purgatory, world.owner, (struct purg_key){.lo = 0}), 0);
    assert_int_equal(pthread_join(holder, NULL), 0);
    assert_true(atomic_load(&waits) > 0);
    assert_true(atomic_load(&wakes) > 0); /* who waits has left its mark on the lock */
    purg_owner_step(world.owner, 0); /* what was parked elsewhere is taken over */
    for (uint64_t i = 0; i < KEYS; i++) {
        struct purg_key key = {.lo = i};
        assert_int_equal(purg_cancel_key(world.purgatory, world.owner, key, PURG_CANCELLED), 1);
    }
    purg_owner_step(world.owner, 0);
    assert_true(purg_owner_is_idle(world.owner));
    purg_owner_destroy(world.owner);
    purg_destroy(world.purgatory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_finds_the_lock_taken_sleeps_until_it_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
