/* misuse_test.c - broken contracts are told before anything has changed, and end the program.
 *
 * Most land in expect_assert_failure() by way of the test environment; what must abort does so in
 * a child. Slots, shards and timers added twice are wheel_test.c's and purgatory_test.c's. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "purg_test.h"

#include "purgatory/reaper.h"

#define MS 1000000u
#define KEYS 12 /* enough that the only shard's table grows */

struct item {
    struct purg_op op; /* first: item and op are one address */
    struct purg_watch_node nodes[KEYS];
    int completions;
    enum purg_reason reason;
    void (*on_done)(void);
};

static struct test_env env_state;
static struct purg_env env;
static struct purgatory *purgatory;
static struct purg_owner *owner;
static struct item item, other;
static int called_under_lock;

static bool item_try(struct purg_op *op)
{
    (void)op;
    return false;
}

static void item_complete(struct purg_op *op, enum purg_reason reason)
{
    struct item *it = (struct item *)(void *)op;
    it->completions++;
    it->reason = reason;
    if (it->on_done) { it->on_done(); }
}

static const struct purg_op_type item_type = {"item", item_try, item_complete};

static struct purg_key key_of(uint64_t number)
{
    return (struct purg_key){.lo = number};
}

static void expect_park_refused(struct item *it, struct purg_watch_node *nodes,
                                const struct purg_key *keys, size_t count)
{
    volatile bool is_parked = false;
    expect_assert_failure(is_parked = purg_try_complete_else_watch(purgatory, owner, &it->op, nodes,
                                                                   keys, count, 9 * MS));
    assert_false(is_parked);
}

/* Every call that takes a shard's lock, from a place where this thread holds one. */
static void call_under_lock(void)
{
    static struct item third;
    struct purg_key key = key_of(1);
    called_under_lock++;
    purg_op_init(&third.op, &item_type, owner);
    expect_assert_failure(purg_check(purgatory, owner, key));
    expect_assert_failure(purg_check_many(purgatory, owner, &key, 1));
    expect_assert_failure(purg_cancel_key(purgatory, owner, key, PURG_CANCELLED));
    expect_assert_failure(purg_op_cancel(&other.op, owner, PURG_CANCELLED));
    expect_park_refused(&third, third.nodes, &key, 1);
    assert_true(purg_op_is_parked(&other.op));
}

static void *bad_alloc(void *ctx, size_t size, size_t align)
{
    if (env_state.locks_held > 0) { call_under_lock(); }
    return test_env_alloc(ctx, size, align);
}

static void bad_free(void *ctx, void *memory, size_t size)
{
    if (env_state.locks_held > 0) { call_under_lock(); }
    test_env_free(ctx, memory, size);
}

/* Runs without a lock. */
static uint64_t free_hash(struct purg_key key)
{
    assert_int_equal(env_state.locks_held, 0);
    return key.lo;
}

static void world_start(void)
{
    purgatory = purg_create(&env, &(struct purg_options){.shards = 1, .hash = free_hash});
    owner = purg_owner_create(&env, &(struct purg_owner_options){.start_ns = 0});
    assert_non_null(purgatory);
    assert_non_null(owner);
    called_under_lock = 0;
    memset(&item, 0, sizeof item);
    memset(&other, 0, sizeof other);
}

static void world_end(void)
{
    purg_owner_shutdown(owner);
    while (!purg_owner_is_idle(owner)) {
        purg_owner_step(owner, 0);
    }
    assert_int_equal(purg_size(purgatory), 0);
    purg_owner_destroy(owner);
    purg_destroy(purgatory);
    assert_int_equal(env_state.bytes_used, 0);
}

static void park(struct item *it, uint64_t first, size_t count)
{
    struct purg_key keys[KEYS];
    for (size_t i = 0; i < count; i++) {
        keys[i] = key_of(first + i);
    }
    purg_op_init(&it->op, &item_type, owner);
    assert_int_equal(
        purg_try_complete_else_watch(purgatory, owner, &it->op, it->nodes, keys, count, 5 * MS),
        PURG_PARKED);
}

/* The table grows while 'item' is parked; then everything goes on as if nothing had been. */
static void expect_caught_under_lock(void)
{
    world_start();
    park(&other, 1, 2);
    called_under_lock = 0;
    park(&item, 2, KEYS);
    assert_true(called_under_lock > 0);
    assert_int_equal(purg_size(purgatory), 2 + KEYS);
    assert_int_equal(purg_cancel_key(purgatory, owner, key_of(1), PURG_CANCELLED), 1);
    assert_int_equal(purg_cancel_key(purgatory, owner, key_of(KEYS), PURG_CANCELLED), 1);
    world_end();
    assert_int_equal(item.completions, 1);
    assert_int_equal(other.completions, 1);
}

static void test_memory_that_calls_back_under_a_shards_lock_is_caught(void **state)
{
    (void)state;
    env = test_env_table(&env_state);
    env.alloc = bad_alloc;
    expect_caught_under_lock();
    env = test_env_table(&env_state);
    env.free = bad_free;
    expect_caught_under_lock();
}

static void test_parking_without_keys_or_nodes_is_refused(void **state)
{
    (void)state;
    env = test_env_table(&env_state);
    world_start();
    struct purg_key key = key_of(1);
    purg_op_init(&item.op, &item_type, owner);
    expect_park_refused(&item, item.nodes, &key, 0);
    expect_park_refused(&item, item.nodes, &key, PURG_KEYS_MAX + 1);
    expect_park_refused(&item, NULL, &key, 1);
    expect_park_refused(&item, item.nodes, NULL, 1);
    park(&item, 1, 1); /* nothing had changed */
    world_end();
    assert_int_equal(item.reason, PURG_SHUTDOWN);
}

static void test_reason_that_is_no_cancels_is_refused(void **state)
{
    (void)state;
    env = test_env_table(&env_state);
    world_start();
    park(&item, 1, 1);
    static const int reasons[] = {PURG_EXPIRED, PURG_SHUTDOWN + 1, 64};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        enum purg_reason reason = (enum purg_reason)reasons[i];
        expect_assert_failure(purg_op_cancel(&item.op, owner, reason));
        expect_assert_failure(purg_cancel_key(purgatory, owner, key_of(1), reason));
    }
    assert_true(purg_op_is_parked(&item.op));
    world_end();
    assert_int_equal(item.reason, PURG_SHUTDOWN);
}

/* The end of use: cancel says no, parking without init is refused, init makes it new. */
static void test_use_after_completion_is_defined(void **state)
{
    (void)state;
    env = test_env_table(&env_state);
    world_start();
    park(&item, 1, 2);
    purg_owner_step(owner, 5 * MS);
    assert_int_equal(item.completions, 1);
    assert_false(purg_op_is_parked(&item.op));
    assert_false(purg_op_cancel(&item.op, owner, PURG_CANCELLED));
    assert_false(purg_timer_remove(purg_owner_wheel(owner), &item.op.timer));
    struct purg_key key = key_of(1);
    expect_park_refused(&item, item.nodes, &key, 1);
    assert_int_equal(purg_size(purgatory), 0);
    park(&item, 1, 2);
    expect_park_refused(&item, item.nodes, &key, 1);
    assert_int_equal(purg_size(purgatory), 2); /* parked once, as before */
    world_end();
    assert_int_equal(item.completions, 2);
}

static void misuse_from_callback(void)
{
    expect_assert_failure(purg_owner_step(owner, 9 * MS));
    expect_assert_failure(purg_owner_destroy(owner));
}

static void test_step_and_destroy_within_a_step_are_refused(void **state)
{
    (void)state;
    env = test_env_table(&env_state);
    world_start();
    item.on_done = misuse_from_callback;
    park(&item, 1, 1);
    purg_owner_step(owner, 5 * MS);
    assert_int_equal(item.completions, 1);
    world_end();
}

static struct purg_wheel wheel;

static void advance_within(struct purg_timer *timer, uint64_t now_ns)
{
    (void)timer;
    expect_assert_failure((void)purg_wheel_advance(&wheel, now_ns, 1));
}

static void test_advance_within_an_advance_is_refused(void **state)
{
    (void)state;
    env = test_env_table(&env_state);
    struct purg_timer timer;
    assert_true(purg_wheel_init(&wheel, &env, &(struct purg_wheel_options){.slots = 8}));
    purg_timer_init(&timer, advance_within);
    for (uint64_t i = 1; i < 3; i++) {
        purg_timer_add(&wheel, &timer, i * MS);
        assert_int_equal(purg_wheel_advance(&wheel, i * MS, 9), 1);
    }
    purg_wheel_fini(&wheel);
}

/* How a child ended that did 'act': its signal, 0 for none. Its stderr goes nowhere. */
static int signal_of(void (*act)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr)) { _exit(1); }
        act();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void step_without_budget(void)
{
    struct purg_env quiet = purg_env_pthread();
    quiet.misuse = NULL;
    if (purg_wheel_init(&wheel, &quiet, &(struct purg_wheel_options){.slots = 8})) {
        (void)purg_wheel_advance(&wheel, 0, 0);
    }
}

static void park_without_key(void)
{
    struct purg_env loud = purg_env_pthread();
    struct purgatory *waiting = purg_create(&loud, &(struct purg_options){.shards = 1});
    struct purg_owner *own = purg_owner_create(&loud, &(struct purg_owner_options){.slots = 8});
    struct purg_key key = key_of(1);
    if (!waiting || !own) { return; }
    purg_op_init(&item.op, &item_type, own);
    if (purg_try_complete_else_watch(waiting, own, &item.op, item.nodes, &key, 0, 1)) { return; }
}

static void test_misuse_aborts_with_and_without_a_callback(void **state)
{
    (void)state;
    assert_int_equal(signal_of(step_without_budget), SIGABRT);
    assert_int_equal(signal_of(park_without_key), SIGABRT);
}

static struct purg_reaper *reaper;

static void stop_own_reaper(void)
{
    purg_reaper_stop(reaper);
}

static void stop_reaper_from_its_callback(void)
{
    struct purg_env real = purg_env_pthread();
    purgatory = purg_create(&real, &(struct purg_options){.shards = 1});
    reaper = purg_reaper_start(&real, &(struct purg_owner_options){.slots = 8});
    if (!purgatory || !reaper) { return; }
    owner = purg_reaper_owner(reaper);
    struct purg_key key = key_of(1);
    item.on_done = stop_own_reaper;
    purg_op_init(&item.op, &item_type, owner);
    if (purg_try_complete_else_watch(purgatory, NULL, &item.op, item.nodes, &key, 1, 0)) {
        pause(); /* the reaper's thread ends us */
    }
}

static void test_reaper_stopped_by_its_own_callback_aborts(void **state)
{
    (void)state;
    assert_int_equal(signal_of(stop_reaper_from_its_callback), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_that_calls_back_under_a_shards_lock_is_caught),
        cmocka_unit_test(test_parking_without_keys_or_nodes_is_refused),
        cmocka_unit_test(test_reason_that_is_no_cancels_is_refused),
        cmocka_unit_test(test_use_after_completion_is_defined),
        cmocka_unit_test(test_step_and_destroy_within_a_step_are_refused),
        cmocka_unit_test(test_advance_within_an_advance_is_refused),
        cmocka_unit_test(test_misuse_aborts_with_and_without_a_callback),
        cmocka_unit_test(test_reaper_stopped_by_its_own_callback_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
