/* purgatory_test.c - what a delayed operation does, one true sentence a test, in virtual time.
 *
 * "Another thread" is a call with self = NULL, made from inside a try_complete: that is the worst
 * moment for it, and always the same one. */
#include "purg_test.h"

#define MS 1000000u

struct item {
    struct purg_op op; /* first: item and op are one address */
    struct purg_watch_node nodes[4];
    bool is_ready;
    int tries;
    int completions;
    enum purg_reason reason;
    int order; /* of completion */
    void (*on_try)(struct item *item); /* runs after try_complete has looked */
    void (*on_done)(struct item *item); /* runs in on_complete */
};

/* What a test's world consists of. */
static struct test_env env_state;
static struct purg_env env;
static struct purgatory *purgatory;
static struct purg_owner *owner;
static int order_next;
static int wakes;
static struct item item, other;

static struct purg_key key_of(uint64_t number)
{
    return (struct purg_key){.hi = 0xfeed, .lo = number * 7919, .sub = number};
}

static bool item_try(struct purg_op *op)
{
    struct item *it = (struct item *)(void *)op;
    assert_int_equal(env_state.locks_held, 0);
    assert_int_equal(it->completions, 0); /* [OP-2] */
    bool is_ready = it->is_ready;
    it->tries++;
    if (it->on_try) { it->on_try(it); }
    return is_ready;
}

static void item_complete(struct purg_op *op, enum purg_reason reason)
{
    struct item *it = (struct item *)(void *)op;
    assert_int_equal(env_state.locks_held, 0);
    assert_false(purg_op_is_parked(op));
    assert_false(purg_timer_is_added(&op->timer)); /* [OP-2] */
    for (uint32_t i = 0; i < op->nodes_count; i++) {
        assert_int_equal(op->nodes[i].next, 0); /* [PRG-1] */
    }
    it->completions++;
    it->reason = reason;
    it->order = order_next++;
    if (it->on_done) { it->on_done(it); }
}

static const struct purg_op_type item_type = {"item", item_try, item_complete};

static void count_wake(void *ctx)
{
    ++*(int *)ctx;
}

static int world_start(void **state)
{
    (void)state;
    env = test_env_table(&env_state);
    purgatory = purg_create(&env, &(struct purg_options){.shards = 8});
    owner = purg_owner_create(&env,
                              &(struct purg_owner_options){.wake = count_wake, .wake_ctx = &wakes});
    wakes = 0;
    order_next = 0;
    memset(&item, 0, sizeof item);
    memset(&other, 0, sizeof other);
    return purgatory && owner ? 0 : -1;
}

/* Nothing is left behind, whatever the test did. */
static int world_end(void **state)
{
    (void)state;
    assert_int_equal(purg_size(purgatory), 0);
    assert_int_equal(purg_delayed(purgatory), 0);
    purg_owner_destroy(owner);
    purg_destroy(purgatory);
    assert_int_equal(env_state.bytes_used, 0);
    return 0;
}

/* Parks on keys first .. first + count - 1. */
static enum purg_outcome park(struct item *it, struct purg_owner *self, uint64_t first,
                              size_t count, uint64_t deadline_ns)
{
    struct purg_key keys[4];
    for (size_t i = 0; i < count && i < 4; i++) {
        keys[i] = key_of(first + i);
    }
    purg_op_init(&it->op, &item_type, owner);
    return purg_try_complete_else_watch(purgatory, self, &it->op, it->nodes, keys, count,
                                        deadline_ns);
}

static void expect_ended(struct item *it, enum purg_reason reason)
{
    assert_int_equal(it->completions, 1);
    assert_int_equal(it->reason, reason);
}

static void test_complete_operation_is_not_parked(void **state)
{
    (void)state;
    item.is_ready = true;
    assert_int_equal(park(&item, owner, 1, 3, 5 * MS), PURG_DONE);
    assert_int_equal(item.tries, 1);
    assert_int_equal(env_state.locks_count, 0); /* the cheap path */
    assert_true(purg_owner_step(owner, 9 * MS) == PURG_NEVER);
    assert_int_equal(item.completions, 0);
    assert_false(purg_op_cancel(&item.op, owner, PURG_CANCELLED));
}

static void test_event_completes_once_and_unlinks_from_all_keys(void **state)
{
    (void)state;
    assert_int_equal(park(&item, owner, 1, 3, 5 * MS), PURG_PARKED);
    assert_int_equal(item.tries, 2);
    assert_int_equal(purg_size(purgatory), 3);
    assert_int_equal(purg_delayed(purgatory), 1);
    assert_int_equal(purg_owner_count(owner), 1);
    assert_int_equal(purg_check(purgatory, owner, key_of(1)), 0); /* not ready */
    assert_int_equal(purg_check(purgatory, owner, key_of(9)), 0); /* nobody there */
    assert_true(purg_op_is_parked(&item.op));
    item.is_ready = true;
    assert_int_equal(purg_check(purgatory, owner, key_of(2)), 1);
    assert_int_equal(purg_size(purgatory), 0); /* at once */
    assert_int_equal(item.completions, 0); /* the owner's step does it */
    assert_int_equal(purg_owner_next_ns(owner), 0);
    assert_int_equal(purg_check(purgatory, owner, key_of(1)), 0);
    assert_true(purg_owner_step(owner, 9 * MS) == PURG_NEVER);
    expect_ended(&item, PURG_EVENT);
    assert_int_equal(purg_expirations(purgatory), 0);
}

static void test_operation_expires_at_its_deadline_and_not_before(void **state)
{
    (void)state;
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_PARKED);
    assert_int_equal(purg_owner_step(owner, 0), 5 * MS);
    assert_int_equal(purg_owner_step(owner, 5 * MS - 1), 5 * MS);
    assert_int_equal(item.completions, 0);
    assert_true(purg_owner_step(owner, 5 * MS) == PURG_NEVER);
    expect_ended(&item, PURG_EXPIRED);
    assert_int_equal(purg_expirations(purgatory), 1);
    assert_int_equal(purg_owner_now_ns(owner), 5 * MS);
}

static void test_past_deadline_expires_at_the_next_step(void **state)
{
    (void)state;
    purg_owner_step(owner, 50 * MS);
    assert_int_equal(park(&item, owner, 1, 1, 3), PURG_PARKED);
    assert_int_equal(purg_owner_next_ns(owner), 0);
    purg_owner_step(owner, 50 * MS);
    expect_ended(&item, PURG_EXPIRED);
}

static void test_operation_without_deadline_waits_for_its_event(void **state)
{
    (void)state;
    assert_int_equal(park(&item, owner, 1, 1, PURG_NEVER), PURG_PARKED);
    assert_true(purg_owner_step(owner, UINT64_MAX - 1) == PURG_NEVER);
    assert_int_equal(item.completions, 0);
    item.is_ready = true;
    assert_int_equal(purg_check(purgatory, owner, key_of(1)), 1);
    purg_owner_step(owner, UINT64_MAX - 1);
    expect_ended(&item, PURG_EVENT);
}

static void test_cancel_ends_once(void **state)
{
    (void)state;
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_PARKED);
    assert_true(purg_op_cancel(&item.op, owner, PURG_CANCELLED));
    assert_false(purg_op_cancel(&item.op, owner, PURG_SHUTDOWN));
    assert_int_equal(purg_size(purgatory), 0);
    purg_owner_step(owner, 9 * MS);
    expect_ended(&item, PURG_CANCELLED);
}

static void test_cancel_key_ends_all_watchers_whatever_they_say(void **state)
{
    (void)state;
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_PARKED); /* 1 2 */
    assert_int_equal(park(&other, owner, 2, 2, 5 * MS), PURG_PARKED); /* 2 3 */
    int tries = item.tries;
    assert_int_equal(purg_cancel_key(purgatory, owner, key_of(2), PURG_CANCELLED), 2);
    assert_int_equal(purg_cancel_key(purgatory, owner, key_of(2), PURG_CANCELLED), 0);
    assert_int_equal(purg_size(purgatory), 0);
    purg_owner_step(owner, 0);
    expect_ended(&item, PURG_CANCELLED);
    expect_ended(&other, PURG_CANCELLED);
    assert_int_equal(item.tries, tries);
    assert_true(item.order < other.order); /* oldest first */
}

static void plain_due(struct purg_timer *timer, uint64_t now_ns)
{
    (void)timer;
    (void)now_ns;
    order_next += 100;
}

static void test_shutdown_ends_all_and_what_comes_after(void **state)
{
    (void)state;
    struct purg_timer plain;
    purg_timer_init(&plain, plain_due);
    purg_timer_add(purg_owner_wheel(owner), &plain, 7 * MS);
    static struct item late, foreign;
    memset(&late, 0, sizeof late);
    memset(&foreign, 0, sizeof foreign);
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_PARKED);
    assert_int_equal(park(&other, owner, 1, 2, PURG_NEVER), PURG_PARKED);
    purg_owner_shutdown(owner);
    assert_int_equal(purg_size(purgatory), 0);
    assert_false(purg_owner_is_idle(owner));
    assert_int_equal(park(&late, owner, 1, 2, 5 * MS), PURG_PARKED);
    assert_int_equal(park(&foreign, NULL, 1, 2, 5 * MS), PURG_PARKED);
    assert_int_equal(purg_owner_step(owner, 0), 7 * MS);
    assert_true(purg_owner_is_idle(owner));
    expect_ended(&item, PURG_SHUTDOWN);
    expect_ended(&other, PURG_SHUTDOWN);
    expect_ended(&late, PURG_SHUTDOWN);
    expect_ended(&foreign, PURG_SHUTDOWN);
    purg_owner_step(owner, 7 * MS);
    assert_int_equal(order_next, 104); /* the plain timer lived on */
}

/* Ready just after the look, told by another thread at once: nobody else may be relied on. */
static void event_after_look(struct item *it)
{
    it->on_try = NULL;
    it->is_ready = true;
    assert_int_equal(purg_check(purgatory, NULL, key_of(1)), 0); /* left to who is checking */
}

static void test_event_during_a_check_is_not_lost(void **state)
{
    (void)state;
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_PARKED);
    item.on_try = event_after_look;
    assert_int_equal(purg_check(purgatory, owner, key_of(2)), 1);
    purg_owner_step(owner, 0);
    expect_ended(&item, PURG_EVENT);
}

static void test_event_between_first_try_and_watch_is_not_lost(void **state)
{
    (void)state;
    item.on_try = event_after_look;
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_DONE);
    assert_int_equal(item.tries, 2);
    assert_int_equal(purg_size(purgatory), 0);
    assert_true(purg_owner_step(owner, 9 * MS) == PURG_NEVER); /* the timer is gone too */
    assert_int_equal(item.completions, 0);
    assert_true(purg_owner_is_idle(owner));
}

static void event_after_second_look(struct item *it)
{
    if (it->tries == 2) { event_after_look(it); }
}

static void test_event_during_the_second_try_is_not_lost(void **state)
{
    (void)state;
    item.on_try = event_after_second_look;
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_DONE);
    assert_int_equal(item.tries, 3);
    other.on_try = event_after_second_look;
    assert_int_equal(park(&other, NULL, 1, 2, 5 * MS), PURG_DONE); /* a foreign owner's too */
    assert_true(purg_owner_step(owner, 9 * MS) == PURG_NEVER);
    assert_int_equal(item.completions + other.completions, 0);
}

/* The state is set before the keys are cancelled: the latecomer is caught by its second try. */
static void deleted_after_look(struct item *it)
{
    it->on_try = NULL;
    it->is_ready = true; /* 'deleted' counts as complete */
    assert_int_equal(purg_cancel_key(purgatory, NULL, key_of(1), PURG_CANCELLED), 0);
}

static void test_state_before_cancel_leaves_no_latecomer(void **state)
{
    (void)state;
    item.on_try = deleted_after_look;
    assert_int_equal(park(&item, owner, 1, 2, PURG_NEVER), PURG_DONE);
}

static void cancel_at_second_look(struct item *it)
{
    if (it->tries == 2) {
        assert_int_equal(purg_cancel_key(purgatory, NULL, key_of(2), PURG_CANCELLED), 1);
        assert_int_equal(purg_size(purgatory), 2); /* the parking thread unlinks */
    }
}

static void test_cancel_while_parking_is_answered_by_the_owner(void **state)
{
    (void)state;
    item.on_try = cancel_at_second_look;
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_PARKED);
    assert_int_equal(purg_size(purgatory), 0);
    other.on_try = cancel_at_second_look;
    assert_int_equal(park(&other, NULL, 1, 2, 5 * MS), PURG_PARKED);
    assert_int_equal(purg_size(purgatory), 0);
    purg_owner_step(owner, 9 * MS);
    expect_ended(&item, PURG_CANCELLED);
    expect_ended(&other, PURG_CANCELLED);
}

static void cancel_at_look(struct item *it)
{
    assert_true(purg_op_cancel(&it->op, NULL, PURG_CANCELLED));
    purg_owner_step(owner, 0);
    assert_int_equal(it->completions, 0); /* [OP-2] somebody is inside try_complete */
}

static void test_completion_waits_until_nobody_is_inside(void **state)
{
    (void)state;
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_PARKED);
    item.on_try = cancel_at_look;
    item.is_ready = true; /* says complete, but is too late */
    assert_int_equal(purg_check(purgatory, NULL, key_of(1)), 0);
    purg_owner_step(owner, 0);
    expect_ended(&item, PURG_CANCELLED);
}

static void test_foreign_park_is_armed_by_its_owner_and_wakes_it_once(void **state)
{
    (void)state;
    assert_true(purg_owner_step(owner, 0) == PURG_NEVER); /* asleep */
    assert_int_equal(park(&item, NULL, 1, 2, 5 * MS), PURG_PARKED);
    assert_int_equal(park(&other, NULL, 1, 2, 6 * MS), PURG_PARKED);
    assert_int_equal(wakes, 1);
    assert_int_equal(purg_owner_next_ns(owner), 0);
    assert_int_equal(purg_owner_step(owner, 0), 5 * MS);
    assert_int_equal(purg_owner_count(owner), 2);
    purg_owner_step(owner, 5 * MS);
    expect_ended(&item, PURG_EXPIRED);
    other.is_ready = true;
    assert_int_equal(purg_check(purgatory, NULL, key_of(1)), 1);
    assert_int_equal(wakes, 2);
    purg_owner_step(owner, 5 * MS);
    expect_ended(&other, PURG_EVENT);
}

static void test_own_events_need_no_wake(void **state)
{
    (void)state;
    purg_owner_step(owner, 0);
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_PARKED);
    item.is_ready = true;
    assert_int_equal(purg_check(purgatory, owner, key_of(1)), 1);
    purg_owner_step(owner, 0);
    expect_ended(&item, PURG_EVENT);
    assert_int_equal(wakes, 0);
}

static void test_completed_before_the_owner_armed_it(void **state)
{
    (void)state;
    assert_int_equal(park(&item, NULL, 1, 2, 5 * MS), PURG_PARKED);
    item.is_ready = true;
    assert_int_equal(purg_check(purgatory, NULL, key_of(2)), 1);
    assert_int_equal(purg_owner_count(owner), 0);
    assert_true(purg_owner_step(owner, 9 * MS) == PURG_NEVER);
    expect_ended(&item, PURG_EVENT);
    assert_true(purg_owner_is_idle(owner));
}

static void test_timeout_after_the_event_does_nothing(void **state)
{
    (void)state;
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_PARKED);
    item.is_ready = true;
    assert_int_equal(purg_check(purgatory, NULL, key_of(1)), 1);
    purg_owner_step(owner, 9 * MS); /* the deadline passed while it lay in the inbox */
    expect_ended(&item, PURG_EVENT);
    assert_int_equal(purg_expirations(purgatory), 0);
}

static void test_event_after_the_timeout_does_nothing(void **state)
{
    (void)state;
    assert_int_equal(park(&item, owner, 1, 2, 5 * MS), PURG_PARKED);
    purg_owner_step(owner, 5 * MS);
    item.is_ready = true;
    assert_int_equal(purg_check(purgatory, owner, key_of(1)), 0);
    assert_false(purg_op_cancel(&item.op, owner, PURG_CANCELLED));
    purg_owner_step(owner, 9 * MS);
    expect_ended(&item, PURG_EXPIRED);
}

static void park_again_once(struct item *it)
{
    it->on_done = NULL;
    it->completions = 0; /* a new life */
    assert_int_equal(park(it, owner, 3, 1, purg_owner_now_ns(owner) + 2 * MS), PURG_PARKED);
}

static void test_operation_may_be_parked_again_when_it_ends(void **state)
{
    (void)state;
    item.on_done = park_again_once;
    assert_int_equal(park(&item, owner, 1, 1, 5 * MS), PURG_PARKED);
    assert_int_equal(purg_owner_step(owner, 5 * MS), 7 * MS);
    assert_int_equal(purg_size(purgatory), 1);
    purg_owner_step(owner, 7 * MS);
    expect_ended(&item, PURG_EXPIRED);
}

#define MANY 1000
static struct item many[MANY];

static void many_park(size_t count)
{
    memset(many, 0, sizeof many);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(park(&many[i], owner, 1, 1 + i % 3, (10 + i) * MS), PURG_PARKED);
    }
}

static void test_long_list_is_walked_whole_and_keeps_who_waits(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 31, 32, 33, 63, 64, 65, 100, MANY};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t count = sizes[s];
        many_park(count);
        assert_int_equal(purg_check(purgatory, owner, key_of(1)), 0);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(many[i].tries, 3); /* two at parking, one now */
            many[i].is_ready = i % 2 == 0;
        }
        assert_int_equal(purg_check(purgatory, owner, key_of(1)), (count + 1) / 2);
        assert_int_equal(purg_delayed(purgatory), count / 2);
        assert_int_equal(purg_cancel_key(purgatory, owner, key_of(1), PURG_CANCELLED), count / 2);
        assert_int_equal(purg_size(purgatory), 0);
        order_next = 0;
        purg_owner_step(owner, 0);
        purg_owner_step(owner, 0);
        for (size_t i = 0; i < count; i++) {
            expect_ended(&many[i], i % 2 == 0 ? PURG_EVENT : PURG_CANCELLED);
            size_t rank = i % 2 == 0 ? i / 2 : (count + 1) / 2 + i / 2;
            assert_int_equal(many[i].order, rank); /* [PRG-2] oldest first */
        }
    }
}

/* In the middle of a walk others come to the end of the list, and all before it goes. */
static void disturb_walk(struct item *it)
{
    it->on_try = NULL;
    assert_int_equal(park(&item, owner, 1, 1, 5 * MS), PURG_PARKED);
    assert_int_equal(purg_cancel_key(purgatory, NULL, key_of(1), PURG_CANCELLED), 101);
    assert_int_equal(park(&other, owner, 1, 1, 5 * MS), PURG_PARKED);
}

static void test_walk_survives_that_its_list_is_emptied_and_refilled(void **state)
{
    (void)state;
    many_park(100);
    many[40].on_try = disturb_walk; /* in the second batch */
    for (size_t i = 0; i < 100; i++) {
        many[i].is_ready = i > 50;
    }
    assert_int_equal(purg_check(purgatory, owner, key_of(1)), 0);
    assert_int_equal(other.tries, 2); /* [PRG-2] came later */
    assert_int_equal(purg_size(purgatory), 1);
    assert_int_equal(purg_cancel_key(purgatory, owner, key_of(1), PURG_SHUTDOWN), 1);
    purg_owner_step(owner, 0);
    for (size_t i = 0; i < 100; i++) {
        expect_ended(&many[i], PURG_CANCELLED);
    }
    expect_ended(&item, PURG_CANCELLED);
    expect_ended(&other, PURG_SHUTDOWN);
}

static void nested_walk(struct item *it)
{
    it->on_try = NULL;
    assert_int_equal(purg_check(purgatory, NULL, key_of(1)), 68);
}

/* Two walks of one long list at a time: each operation is ended by one of them. */
static void test_two_walks_share_a_long_list(void **state)
{
    (void)state;
    many_park(100);
    for (size_t i = 1; i < 100; i++) {
        many[i].is_ready = true;
    }
    many[0].on_try = nested_walk; /* while the outer walk holds the first batch of 32 */
    assert_int_equal(purg_check(purgatory, owner, key_of(1)), 31);
    assert_int_equal(many[0].tries, 4); /* told to try again */
    assert_int_equal(purg_cancel_key(purgatory, owner, key_of(1), PURG_CANCELLED), 1);
    purg_owner_step(owner, 0);
    for (size_t i = 0; i < 100; i++) {
        expect_ended(&many[i], i == 0 ? PURG_CANCELLED : PURG_EVENT);
    }
}

static void test_step_is_bounded_and_says_when_work_is_left(void **state)
{
    (void)state;
    struct purg_owner *whole = owner;
    owner = purg_owner_create(&env, &(struct purg_owner_options){.step_max = 10});
    assert_non_null(owner);
    many_park(25);
    int steps = 1;
    while (purg_owner_step(owner, 1000 * MS) == 0) {
        assert_true(order_next <= 10 * steps);
        steps++;
    }
    assert_true(steps >= 3);
    assert_int_equal(order_next, 25);
    purg_owner_destroy(owner);
    owner = whole;
}

static void test_another_owner_is_a_stranger(void **state)
{
    (void)state;
    struct purg_owner *self = purg_owner_create(&env, &(struct purg_owner_options){.step_max = 0});
    assert_non_null(self);
    purg_owner_step(owner, 0);
    assert_int_equal(park(&item, self, 1, 2, 5 * MS), PURG_PARKED);
    assert_int_equal(wakes, 1);
    purg_owner_step(owner, 0);
    item.is_ready = true;
    assert_int_equal(purg_check(purgatory, self, key_of(1)), 1);
    assert_int_equal(wakes, 2);
    purg_owner_step(self, 0);
    assert_int_equal(item.completions, 0);
    purg_owner_step(owner, 0);
    expect_ended(&item, PURG_EVENT);
    purg_owner_destroy(self);
}

static void step_within(struct item *it)
{
    (void)it;
    expect_assert_failure(purg_owner_step(owner, 0));
}

static void misuse_park(size_t keys_count, bool is_fresh)
{
    struct purg_key keys[1] = {key_of(1)};
    if (is_fresh) { purg_op_init(&other.op, &item_type, owner); }
    enum purg_outcome outcome = PURG_DONE;
    expect_assert_failure(outcome = purg_try_complete_else_watch(purgatory, owner, &other.op,
                                                                 other.nodes, keys, keys_count, 1));
    assert_int_equal(outcome, PURG_DONE);
}

static void test_misuse_is_reported_before_anything_changes(void **state)
{
    (void)state;
    misuse_park(1, false); /* never initialised */
    misuse_park(0, true);
    misuse_park(PURG_KEYS_MAX + 1, true);
    assert_int_equal(park(&other, owner, 1, 1, 5 * MS), PURG_PARKED);
    misuse_park(1, false); /* twice */
    expect_assert_failure(purg_op_cancel(&other.op, owner, PURG_EXPIRED));
    expect_assert_failure(purg_cancel_key(purgatory, owner, key_of(1), PURG_EXPIRED));
    expect_assert_failure(purg_owner_destroy(owner));
    expect_assert_failure(purg_destroy(purgatory));
    other.on_done = step_within;
    purg_owner_step(owner, 5 * MS);
    expect_ended(&other, PURG_EXPIRED);
    misuse_park(1, false); /* after its end, without init */
    expect_assert_failure(assert_null(purg_create(&env, &(struct purg_options){.shards = 3})));
}

static void test_creation_without_memory_leaves_nothing(void **state)
{
    (void)state;
    size_t before = env_state.bytes_used;
    for (size_t allowed = 0; allowed < 2; allowed++) {
        env_state.allocs_left = allowed;
        assert_null(purg_create(&env, &(struct purg_options){.shards = 4}));
        env_state.allocs_left = allowed;
        assert_null(purg_owner_create(&env, &(struct purg_owner_options){.step_max = 0}));
        assert_int_equal(env_state.bytes_used, before);
    }
    env_state.allocs_left = SIZE_MAX;
    purg_destroy(NULL);
    purg_owner_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_complete_operation_is_not_parked, world_start,
                                        world_end),
        cmocka_unit_test_setup_teardown(test_event_completes_once_and_unlinks_from_all_keys,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_operation_expires_at_its_deadline_and_not_before,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_past_deadline_expires_at_the_next_step, world_start,
                                        world_end),
        cmocka_unit_test_setup_teardown(test_operation_without_deadline_waits_for_its_event,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_cancel_ends_once, world_start, world_end),
        cmocka_unit_test_setup_teardown(test_cancel_key_ends_all_watchers_whatever_they_say,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_shutdown_ends_all_and_what_comes_after, world_start,
                                        world_end),
        cmocka_unit_test_setup_teardown(test_event_during_a_check_is_not_lost, world_start,
                                        world_end),
        cmocka_unit_test_setup_teardown(test_event_between_first_try_and_watch_is_not_lost,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_event_during_the_second_try_is_not_lost, world_start,
                                        world_end),
        cmocka_unit_test_setup_teardown(test_state_before_cancel_leaves_no_latecomer, world_start,
                                        world_end),
        cmocka_unit_test_setup_teardown(test_cancel_while_parking_is_answered_by_the_owner,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_completion_waits_until_nobody_is_inside, world_start,
                                        world_end),
        cmocka_unit_test_setup_teardown(test_foreign_park_is_armed_by_its_owner_and_wakes_it_once,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_own_events_need_no_wake, world_start, world_end),
        cmocka_unit_test_setup_teardown(test_completed_before_the_owner_armed_it, world_start,
                                        world_end),
        cmocka_unit_test_setup_teardown(test_timeout_after_the_event_does_nothing, world_start,
                                        world_end),
        cmocka_unit_test_setup_teardown(test_event_after_the_timeout_does_nothing, world_start,
                                        world_end),
        cmocka_unit_test_setup_teardown(test_operation_may_be_parked_again_when_it_ends,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_long_list_is_walked_whole_and_keeps_who_waits,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_walk_survives_that_its_list_is_emptied_and_refilled,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_two_walks_share_a_long_list, world_start, world_end),
        cmocka_unit_test_setup_teardown(test_step_is_bounded_and_says_when_work_is_left,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_another_owner_is_a_stranger, world_start, world_end),
        cmocka_unit_test_setup_teardown(test_misuse_is_reported_before_anything_changes,
                                        world_start, world_end),
        cmocka_unit_test_setup_teardown(test_creation_without_memory_leaves_nothing, world_start,
                                        world_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
