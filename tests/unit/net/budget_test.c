/* budget_test.c - bytes for frames: bound, fairness, leaving the line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_int.h"

/* A processor that is only a mailbox. */
struct post {
    struct sys *sys;
    struct net_processor p;
    struct net_budget b;
};

static uint64_t sleep_step(void *ctx, uint64_t now_ns)
{
    (void)ctx;
    (void)now_ns;
    return SYS_NEVER;
}

static void start(struct post *t, uint64_t max)
{
    memset(t, 0, sizeof *t);
    t->sys = sys_create();
    assert_non_null(t->sys);
    sys_mailbox_init(&t->p.box);
    struct sys_task_options o = {.name = "post", .step = sleep_step};
    assert_int_equal(sys_task_start(t->sys, &o, &t->p.task), ERR_OK);
    net_budget_init(&t->b, max);
}

static void stop(struct post *t)
{
    net_budget_fini(&t->b);
    sys_task_stop(t->p.task);
    sys_destroy(t->sys);
}

static struct net_waiter waiter(struct post *t)
{
    struct net_waiter w = {.processor = &t->p};
    w.msg.kind = NET_MSG_MEMORY;
    return w;
}

/* The waiter that was told next; NULL: none. */
static struct net_waiter *granted(struct post *t)
{
    struct sys_msg *m = sys_mailbox_take(&t->p.box);
    return m ? CONTAINER_OF(m, struct net_waiter, msg.link) : NULL;
}

static void test_what_fits_is_taken_and_the_rest_waits_its_turn(void **state)
{
    (void)state;
    struct post t;
    start(&t, 100);
    struct net_waiter a = waiter(&t), b = waiter(&t), c = waiter(&t);
    assert_true(net_budget_take(&t.b, &a, 60));
    assert_false(net_budget_take(&t.b, &b, 50));
    assert_false(net_budget_take(&t.b, &c, 10)); /* would fit, but b is first */
    assert_null(granted(&t));
    net_budget_give(&t.b, 60);
    struct sys_msg *m = sys_mailbox_take(&t.p.box);
    assert_ptr_equal(m, &b.msg.link);
    assert_ptr_equal(m->next, &c.msg.link);
    assert_int_equal(b.state, NET_WAITER_GRANTED);
    assert_int_equal(atomic_load(&t.b.used), 60);
    net_budget_give(&t.b, 50);
    net_budget_give(&t.b, 10);
    assert_int_equal(atomic_load(&t.b.used), 0);
    stop(&t);
}

static void test_a_frame_larger_than_all_is_taken_alone(void **state)
{
    (void)state;
    struct post t;
    start(&t, 100);
    struct net_waiter a = waiter(&t), b = waiter(&t);
    assert_true(net_budget_take(&t.b, &a, 500));
    assert_false(net_budget_take(&t.b, &b, 1));
    net_budget_give(&t.b, 500);
    assert_ptr_equal(granted(&t), &b);
    net_budget_give(&t.b, 1);
    stop(&t);
}

static void test_leaving_the_line_lets_the_next_one_in(void **state)
{
    (void)state;
    struct post t;
    start(&t, 100);
    struct net_waiter a = waiter(&t), b = waiter(&t), c = waiter(&t);
    assert_true(net_budget_take(&t.b, &a, 60));
    assert_false(net_budget_take(&t.b, &b, 90));
    assert_false(net_budget_take(&t.b, &c, 25));
    assert_true(net_budget_leave(&t.b, &b));
    assert_ptr_equal(granted(&t), &c);
    assert_false(net_budget_leave(&t.b, &c)); /* the grant is on its way */
    net_budget_give(&t.b, 85);
    stop(&t);
}

static void test_small_whole_frames_do_not_wait_behind_those_that_do_not_come(void **state)
{
    (void)state;
    struct post t;
    start(&t, 80 << 10);
    struct net_waiter a = waiter(&t), b = waiter(&t);
    assert_true(net_budget_take(&t.b, &a, 70 << 10));
    assert_false(net_budget_take(&t.b, &b, 1)); /* the last eighth is not for the line */
    assert_true(net_budget_take_whole(&t.b, 8 << 10));
    assert_false(net_budget_take_whole(&t.b, 4 << 10)); /* the bound holds */
    net_budget_give(&t.b, 8 << 10);
    assert_false(net_budget_take_whole(&t.b, NET_BUDGET_SMALL + 1));
    net_budget_give(&t.b, 70 << 10);
    assert_ptr_equal(granted(&t), &b);
    net_budget_give(&t.b, 1);
    stop(&t);
}

static void test_more_is_taken_up_to_half_and_behind_nobody(void **state)
{
    (void)state;
    struct post t;
    start(&t, 100);
    struct net_waiter a = waiter(&t), b = waiter(&t);
    assert_true(net_budget_take(&t.b, &a, 10));
    assert_true(net_budget_take_more(&t.b, 10, 500)); /* alone: as a frame that is too large */
    assert_false(net_budget_take_more(&t.b, 10, 1));
    net_budget_give(&t.b, 500);
    assert_true(net_budget_take_more(&t.b, 9, 40));
    assert_false(net_budget_take_more(&t.b, 9, 1)); /* half of it is used */
    net_budget_give(&t.b, 40);
    assert_false(net_budget_take(&t.b, &b, 90));
    assert_false(net_budget_take_more(&t.b, 10, 1)); /* somebody waits */
    net_budget_give(&t.b, 10);
    assert_ptr_equal(granted(&t), &b);
    net_budget_give(&t.b, 90);
    stop(&t);
}

static void test_addresses_and_totals_are_counted(void **state)
{
    (void)state;
    struct net_limit_table t;
    net_limits_init(&t);
    const char *what;
    struct net_ip_limit one = {"10.0.0.1", 1};
    struct net_limits limits = {
        .connections_max = 3, .connections_per_ip_max = 2, .overrides = &one, .overrides_count = 1};
    assert_int_equal(net_limits_set(&t, &limits), ERR_OK);
    assert_int_equal(net_limits_enter(&t, "10.0.0.1", false, &what), ERR_OK);
    assert_int_equal(net_limits_enter(&t, "10.0.0.1", false, &what), ERR_LIMIT);
    assert_string_equal(what, "max.connections.per.ip");
    assert_int_equal(net_limits_enter(&t, "10.0.0.2", false, &what), ERR_OK);
    assert_int_equal(net_limits_enter(&t, "10.0.0.2", false, &what), ERR_OK);
    assert_int_equal(net_limits_enter(&t, "10.0.0.2", false, &what), ERR_LIMIT);
    assert_int_equal(net_limits_enter(&t, "10.0.0.3", false, &what), ERR_LIMIT);
    assert_string_equal(what, "max.connections");
    assert_int_equal(net_limits_enter(&t, "10.0.0.3", true, &what), ERR_OK); /* control */
    net_limits_leave(&t, "10.0.0.3", true);
    net_limits_leave(&t, "10.0.0.1", false);
    assert_int_equal(net_limits_enter(&t, "10.0.0.1", false, &what), ERR_OK);
    net_limits_leave(&t, "10.0.0.1", false);
    net_limits_leave(&t, "10.0.0.2", false);
    net_limits_leave(&t, "10.0.0.2", false);
    assert_int_equal(t.counts.count, 0);
    net_limits_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fits_is_taken_and_the_rest_waits_its_turn),
        cmocka_unit_test(test_a_frame_larger_than_all_is_taken_alone),
        cmocka_unit_test(test_leaving_the_line_lets_the_next_one_in),
        cmocka_unit_test(test_small_whole_frames_do_not_wait_behind_those_that_do_not_come),
        cmocka_unit_test(test_more_is_taken_up_to_half_and_behind_nobody),
        cmocka_unit_test(test_addresses_and_totals_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
