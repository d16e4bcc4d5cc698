/* shutdown_test.c - the orderly end: stop accepting, stop reading, drain, stop. */
#include "integration/net/fixture.h"

static void start(struct fake *f, uint32_t processors)
{
    struct net_config c;
    fake_config(&c);
    c.processors_count = processors;
    fake_start(f, &c);
}

static void test_delayed_operations_are_answered_before_the_end(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 3);
    int fds[30];
    for (int i = 0; i < 30; i++) {
        fds[i] = client_open(&f, 0);
        client_send_i32(fds[i], i & 1 ? FAKE_WAIT : FAKE_SLOW_WAIT, i, 60000);
    }
    WAIT_FOR(atomic_load(&f.handled) == 30);
    net_stop_accepting(f.net);
    net_stop_reading(f.net);
    for (int i = 0; i < 30; i++) {
        client_send(fds[i], FAKE_ECHO, 100, "too late", 8);
    }
    assert_true(net_drain(f.net, sys_mono_ns(f.sys) + 10000 * SYS_MS));
    for (int i = 0; i < 30; i++) {
        client_expect(fds[i], i, "late");
    }
    assert_int_equal(atomic_load(&f.last_reason), PURG_SHUTDOWN);
    fake_stop(&f);
    assert_int_equal(atomic_load(&f.handled), 30);
    assert_int_equal(atomic_load(&f.closed), 30);
    for (int i = 0; i < 30; i++) {
        client_expect_closed(fds[i]);
    }
}

static void test_drain_gives_up_at_its_deadline(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 1);
    int fd = client_open(&f, 0);
    client_send_i32(fd, FAKE_BIG, 1, 64 << 20); /* which nobody takes */
    WAIT_FOR(fake_counters(&f).bytes_out > 0);
    net_stop_accepting(f.net);
    net_stop_reading(f.net);
    uint64_t begin = sys_mono_ns(f.sys);
    assert_false(net_drain(f.net, begin + 100 * SYS_MS));
    assert_true(sys_mono_ns(f.sys) - begin < 5000 * SYS_MS);
    fake_stop(&f);
    close(fd);
}

static void test_nobody_can_connect_once_accepting_has_stopped(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 1);
    int fd = client_open(&f, 0);
    uint16_t port = net_port(f.net, 0);
    WAIT_FOR(fake_counters(&f).connections == 1);
    net_stop_accepting(f.net);
    int late = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(late, (struct sockaddr *)&to, sizeof to), -1);
    close(late);
    client_send(fd, FAKE_ECHO, 1, "old", 3);
    client_expect(fd, 1, "old");
    close(fd);
    fake_stop(&f);
}

/* Everything at once, ended in the middle: nothing is lost or left behind (sanitizers look on). */
static void test_a_stop_in_the_middle_of_work_leaves_nothing(void **state)
{
    (void)state;
    static const enum fake_key keys[] = {FAKE_ECHO,      FAKE_WAIT, FAKE_SLOW,
                                         FAKE_SLOW_WAIT, FAKE_ECHO, FAKE_BLOCK};
    for (int round = 0; round < 10; round++) {
        struct fake f;
        start(&f, 2);
        int fds[40];
        for (int i = 0; i < 40; i++) {
            fds[i] = client_open(&f, 0);
            for (int k = 0; k < 12; k++) {
                enum fake_key key = keys[(i + k) % (int)COUNT_OF(keys)];
                client_send_i32(fds[i], key, k, key == FAKE_BLOCK ? 1 : 60000);
            }
        }
        fake_block(round * 3);
        fake_stop(&f);
        for (int i = 0; i < 40; i++) {
            close(fds[i]);
        }
    }
    assert_int_equal(atomic_load(&heap_bytes), 0);
}

/* Many clients, all kinds of requests, several processors: every answer comes, in order. */
struct load {
    struct fake *f;
    _Atomic int done;
};

static void load_one(struct fake *f, unsigned seed)
{
    static const enum fake_key keys[] = {FAKE_ECHO, FAKE_WAIT, FAKE_SLOW, FAKE_SLOW_WAIT};
    int fd = client_open(f, 0);
    for (int round = 0; round < 20; round++) {
        enum fake_key sent[20];
        for (int i = 0; i < 20; i++) {
            seed = seed * 1103515245U + 12345U;
            sent[i] = keys[(seed >> 16) % COUNT_OF(keys)];
            client_send_i32(fd, sent[i], i, (int32_t)((seed >> 20) % 3));
        }
        for (int i = 0; i < 20; i++) {
            uint8_t payload[8];
            int32_t correlation;
            ssize_t size = client_answer(fd, &correlation, payload, sizeof payload);
            CHECK(size == 4 && correlation == i);
        }
    }
    close(fd);
}

static uint64_t load_step(void *ctx, uint64_t now_ns)
{
    (void)now_ns;
    struct load *l = ctx;
    int n = atomic_fetch_add(&l->done, 1);
    if (n >= 8) { return SYS_NEVER; }
    load_one(l->f, (unsigned)n + 1);
    return 0;
}

static void test_mixed_load_is_answered_in_order(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 2);
    struct load l = {.f = &f};
    struct sys_task *tasks[4];
    for (size_t i = 0; i < COUNT_OF(tasks); i++) {
        struct sys_task_options o = {.name = "load", .step = load_step, .ctx = &l};
        assert_int_equal(sys_task_start(f.sys, &o, &tasks[i]), ERR_OK);
    }
    WAIT_FOR(atomic_load(&f.handled) == 8 * 400 && atomic_load(&f.closed) == 8);
    for (size_t i = 0; i < COUNT_OF(tasks); i++) {
        sys_task_stop(tasks[i]);
    }
    assert_int_equal(fake_counters(&f).queued_bytes, 0);
    fake_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stop_in_the_middle_of_work_leaves_nothing),
        cmocka_unit_test(test_delayed_operations_are_answered_before_the_end),
        cmocka_unit_test(test_drain_gives_up_at_its_deadline),
        cmocka_unit_test(test_nobody_can_connect_once_accepting_has_stopped),
        cmocka_unit_test(test_mixed_load_is_answered_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
