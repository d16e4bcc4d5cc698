/* task_test.c - tasks, mailboxes, flags, locks. Real threads: nothing here depends on how long
 * anything takes, but for deadlines that only a lost wake-up can reach. */
#include "base/mem.h"
#include "sys/sys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>

#include <cmocka.h>

#define PATIENCE_NS (60000 * SYS_MS)

static uint64_t deadline(struct sys *sys)
{
    return sys_mono_ns(sys) + PATIENCE_NS;
}

static void test_a_mailbox_keeps_order_and_tells_who_must_wake(void **state)
{
    (void)state;
    struct sys_mailbox box;
    struct sys_msg msgs[3];
    sys_mailbox_init(&box);
    assert_null(sys_mailbox_take(&box));
    assert_true(sys_mailbox_post(&box, &msgs[0]));
    assert_false(sys_mailbox_post(&box, &msgs[1]));
    assert_false(sys_mailbox_post(&box, &msgs[2]));
    struct sys_msg *m = sys_mailbox_take(&box);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(m, &msgs[i]);
        m = m->next;
    }
    assert_null(m);
    assert_true(sys_mailbox_post(&box, &msgs[0]));
    assert_ptr_equal(sys_mailbox_take(&box), &msgs[0]);
}

/* Senders post numbered messages; the receiver gives each back through the sender's own box. A
 * sender has few messages, so it soon depends on the receiver to wake up, and the other way round:
 * one lost wake-up stops everything. */
#define SENDERS_COUNT 3
#define SENDER_MSGS 2
#define ROUNDS_COUNT 20000

struct parcel {
    struct sys_msg msg; /* first */
    struct sender *from;
    uint64_t number;
};

struct sender {
    struct stress *stress;
    struct sys_mailbox back;
    struct sys_task *task;
    struct parcel parcels[SENDER_MSGS];
    uint64_t sent;
    uint64_t seen; /* the receiver's: the last number of this sender */
};

struct stress {
    struct sys *sys;
    struct sys_mailbox box;
    struct sys_task *receiver;
    struct sys_poller *poller;
    struct sender senders[SENDERS_COUNT];
    uint64_t received;
    _Atomic int done;
};

static void sender_send(struct sender *s, struct parcel *p)
{
    if (s->sent == ROUNDS_COUNT) { return; }
    p->number = ++s->sent;
    if (sys_mailbox_post(&s->stress->box, &p->msg)) { sys_task_wake(s->stress->receiver); }
}

static uint64_t sender_step(void *ctx, uint64_t now_ns)
{
    (void)now_ns;
    struct sender *s = ctx;
    if (s->sent == 0) {
        for (int i = 0; i < SENDER_MSGS; i++) {
            sender_send(s, &s->parcels[i]);
        }
    }
    struct sys_msg *m = sys_mailbox_take(&s->back);
    while (m) {
        struct sys_msg *next = m->next;
        sender_send(s, (struct parcel *)m);
        m = next;
    }
    return SYS_NEVER;
}

static uint64_t receiver_step(void *ctx, uint64_t now_ns)
{
    (void)now_ns;
    struct stress *st = ctx;
    struct sys_msg *m = sys_mailbox_take(&st->box);
    while (m) {
        struct sys_msg *next = m->next;
        struct parcel *p = (struct parcel *)m;
        assert_true(p->number == p->from->seen + 1);
        p->from->seen = p->number;
        st->received++;
        if (sys_mailbox_post(&p->from->back, &p->msg)) { sys_task_wake(p->from->task); }
        m = next;
    }
    if (st->received == (uint64_t)SENDERS_COUNT * ROUNDS_COUNT && !st->done) {
        sys_signal_flag(st->sys, &st->done, 1);
    }
    return SYS_NEVER;
}

static void stress(bool with_poller)
{
    struct sys *sys = sys_create();
    struct stress *st = mem_new(struct stress);
    assert_non_null(sys);
    assert_non_null(st);
    st->sys = sys;
    sys_mailbox_init(&st->box);
    if (with_poller) { assert_int_equal(sys_poller_create(sys, &st->poller), ERR_OK); }
    assert_int_equal(sys_task_start(sys,
                                    &(struct sys_task_options){.name = "receiver",
                                                               .step = receiver_step,
                                                               .ctx = st,
                                                               .poller = st->poller},
                                    &st->receiver),
                     ERR_OK);
    for (int i = 0; i < SENDERS_COUNT; i++) {
        struct sender *s = &st->senders[i];
        s->stress = st;
        sys_mailbox_init(&s->back);
        for (int j = 0; j < SENDER_MSGS; j++) {
            s->parcels[j].from = s;
        }
        assert_int_equal(
            sys_task_start(
                sys, &(struct sys_task_options){.name = "sender", .step = sender_step, .ctx = s},
                &s->task),
            ERR_OK);
    }
    assert_true(sys_wait_flag(sys, &st->done, deadline(sys)));
    for (int i = 0; i < SENDERS_COUNT; i++) {
        sys_task_stop(st->senders[i].task);
        assert_true(st->senders[i].seen == ROUNDS_COUNT);
    }
    sys_task_stop(st->receiver);
    sys_poller_destroy(st->poller);
    mem_free(st);
    sys_destroy(sys);
}

static void test_no_wakeup_is_lost_between_mailbox_and_sleep(void **state)
{
    (void)state;
    stress(false);
}

static void test_no_wakeup_is_lost_between_mailbox_and_poller(void **state)
{
    (void)state;
    stress(true);
}

struct ticker {
    struct sys *sys;
    uint64_t due_ns;
    uint64_t woke_ns;
    int steps_count;
    int slack_ns; /* what the kernel may add */
    struct sys_task *self;
    bool was_current;
    _Atomic int done;
};

static uint64_t ticker_step(void *ctx, uint64_t now_ns)
{
    struct ticker *t = ctx;
    t->was_current = sys_task_is_current(t->self);
    t->slack_ns = prctl(PR_GET_TIMERSLACK);
    if (t->steps_count++ == 0) {
        t->due_ns = now_ns + 5 * SYS_MS;
        return t->due_ns;
    }
    if (now_ns < t->due_ns) { return t->due_ns; } /* early: the test will see it */
    t->woke_ns = now_ns;
    sys_signal_flag(t->sys, &t->done, 1);
    return SYS_NEVER;
}

static void run_ticker(bool with_poller)
{
    struct sys *sys = sys_create();
    struct sys_poller *poller = NULL;
    if (with_poller) { assert_int_equal(sys_poller_create(sys, &poller), ERR_OK); }
    struct ticker t = {.sys = sys};
    assert_int_equal(
        sys_task_start(sys,
                       &(struct sys_task_options){
                           .name = "ticker", .step = ticker_step, .ctx = &t, .poller = poller},
                       &t.self),
        ERR_OK);
    assert_true(sys_wait_flag(sys, &t.done, deadline(sys)));
    assert_false(sys_task_is_current(t.self));
    assert_int_equal(sys_task_wakes(t.self), 0);
    sys_task_stop(t.self);
    assert_true(t.woke_ns >= t.due_ns);
    assert_int_equal(t.steps_count, 2); /* never early */
    assert_in_range(t.slack_ns, 0, 1);
    assert_true(t.was_current);
    sys_poller_destroy(poller);
    sys_destroy(sys);
}

static void test_a_task_sleeps_until_its_time(void **state)
{
    (void)state;
    run_ticker(false);
    run_ticker(true);
}

/* The step waits for the test, so the test knows that the task is awake while it wakes it. */
struct gate {
    struct sys *sys;
    _Atomic int inside;
    _Atomic int open;
    _Atomic int steps_count;
};

static uint64_t gate_step(void *ctx, uint64_t now_ns)
{
    (void)now_ns;
    struct gate *g = ctx;
    atomic_fetch_add(&g->steps_count, 1);
    sys_signal_flag(g->sys, &g->inside, 1);
    assert_true(sys_wait_flag(g->sys, &g->open, deadline(g->sys)));
    return SYS_NEVER;
}

static void test_wakes_of_an_awake_task_are_merged_and_cost_no_call(void **state)
{
    (void)state;
    struct sys *sys = sys_create();
    struct gate g = {.sys = sys};
    struct sys_task *task;
    assert_int_equal(
        sys_task_start(
            sys, &(struct sys_task_options){.name = "gate", .step = gate_step, .ctx = &g}, &task),
        ERR_OK);
    assert_true(sys_wait_flag(sys, &g.inside, deadline(sys)));
    for (int i = 0; i < 100; i++) {
        sys_task_wake(task);
    }
    assert_int_equal(sys_task_wakes(task), 0);
    atomic_store(&g.inside, 0);
    sys_signal_flag(sys, &g.open, 1);
    assert_true(sys_wait_flag(sys, &g.inside, deadline(sys))); /* one more step came of them */
    sys_task_stop(task);
    assert_in_range(atomic_load(&g.steps_count), 2, 3); /* stop may wake it for a last one */
    sys_destroy(sys);
}

static void test_a_flag_that_nobody_sets_ends_at_the_deadline(void **state)
{
    (void)state;
    struct sys *sys = sys_create();
    _Atomic int flag = 0;
    uint64_t until = sys_mono_ns(sys) + 2 * SYS_MS;
    assert_false(sys_wait_flag(sys, &flag, until));
    assert_true(sys_mono_ns(sys) >= until);
    sys_destroy(sys);
}

/* Locks exclude: unlocked, two tasks would lose increments (and TSan would tell). */
struct counter {
    struct sys *sys;
    struct sys_mutex lock;
    uint64_t value;
    _Atomic int done;
};

static uint64_t counter_step(void *ctx, uint64_t now_ns)
{
    (void)now_ns;
    struct counter *c = ctx;
    for (int i = 0; i < 10000; i++) {
        sys_mutex_lock(&c->lock);
        c->value++;
        sys_mutex_unlock(&c->lock);
    }
    if (atomic_fetch_add(&c->done, 1) == 1) { sys_signal_flag(c->sys, &c->done, 2); }
    return SYS_NEVER;
}

static void test_a_lock_excludes(void **state)
{
    (void)state;
    struct counter c = {.sys = sys_create()};
    sys_mutex_init(&c.lock, SYS_RANK_LEAF);
    struct sys_task *tasks[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sys_task_start(c.sys,
                                        &(struct sys_task_options){
                                            .name = "counter", .step = counter_step, .ctx = &c},
                                        &tasks[i]),
                         ERR_OK);
    }
    while (atomic_load(&c.done) < 2) {
        _Atomic int never = 0;
        (void)sys_wait_flag(c.sys, &never, sys_mono_ns(c.sys) + SYS_MS);
    }
    for (int i = 0; i < 2; i++) {
        sys_task_stop(tasks[i]);
    }
    assert_true(c.value == 20000);
    sys_mutex_fini(&c.lock);
    sys_destroy(c.sys);
}

static void test_a_library_is_loaded_when_it_is_asked_for(void **state)
{
    (void)state;
    static const char *const names[] = {"cos", "sin"}, *const wrong[] = {"cos", "no_such_function"};
    sys_function *found[2] = {NULL, NULL};
    assert_int_equal(sys_library_load("libm.so.6", names, 2, found), ERR_OK);
    assert_true(found[0] && found[1] && found[0] != found[1]);
    assert_int_equal(sys_library_load("libm.so.6", wrong, 2, found), ERR_UNSUPPORTED);
    assert_int_equal(sys_library_load("libno_such.so.1", names, 2, found), ERR_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_library_is_loaded_when_it_is_asked_for),
        cmocka_unit_test(test_a_mailbox_keeps_order_and_tells_who_must_wake),
        cmocka_unit_test(test_no_wakeup_is_lost_between_mailbox_and_sleep),
        cmocka_unit_test(test_no_wakeup_is_lost_between_mailbox_and_poller),
        cmocka_unit_test(test_a_task_sleeps_until_its_time),
        cmocka_unit_test(test_wakes_of_an_awake_task_are_merged_and_cost_no_call),
        cmocka_unit_test(test_a_flag_that_nobody_sets_ends_at_the_deadline),
        cmocka_unit_test(test_a_lock_excludes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
