/* limits_test.c - what peers may not do, how much they may have, and the control plane. */
#include "integration/net/fixture.h"

static void start(struct fake *f)
{
    struct net_config c;
    fake_config(&c);
    fake_start(f, &c);
}

/* Case 08: strangers on the port are closed at once, with one line. */
static void test_c08_what_is_not_kafka_is_closed_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *line;
    } strangers[] = {
        {"GET / HTTP/1.1\r\n\r\n", 18, "HTTP"},
        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11, "TLS"},
        {"\xff\xff\xff\xff", 4, "127.0.0.1"},
        {"\0\0\0\0", 4, "127.0.0.1"},
        {"\0\0\0\7", 4, "127.0.0.1"},
        {"\x06\x40\0\1", 4, "127.0.0.1"}, /* 100 MiB and one */
    };
    for (size_t i = 0; i < COUNT_OF(strangers); i++) {
        struct fake f;
        start(&f);
        for (int k = 0; k < 20; k++) {
            int fd = client_open(&f, 0);
            client_write(fd, strangers[i].bytes, strangers[i].size);
            client_expect_closed(fd);
        }
        assert_int_equal(fake_counters(&f).closed[NET_CLOSED_FRAME], 20);
        assert_int_equal(atomic_load(&f.lines), 1);
        net_stop(f.net);
        f.net = NULL;
        assert_non_null(strstr(f.line, strangers[i].line));
        fake_stop(&f);
    }
}

static void test_requests_in_front_of_a_bad_frame_are_answered(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[64];
    size_t size = client_frame(buf, 0, FAKE_ECHO, 1, "good", 4);
    memset(buf + size, 0xff, 4);
    client_write(fd, buf, size + 4);
    client_expect(fd, 1, "good");
    client_expect_closed(fd);
    fake_stop(&f);
}

/* Declaring much costs the sender, not us. */
static void test_memory_grows_with_what_arrives(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int64_t before = atomic_load(&heap_bytes);
    int fds[50];
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = client_open(&f, 0);
        client_write(fds[i], "\0\x40\0\0abc", 7); /* 4 MiB to come */
    }
    WAIT_FOR(fake_counters(&f).queued_bytes == 50 * ((uint64_t)4 << 20));
    assert_true(atomic_load(&heap_bytes) - before < 50 * 80000);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        close(fds[i]);
    }
    WAIT_FOR(fake_counters(&f).queued_bytes == 0);
    fake_stop(&f);
}

static void test_frames_wait_in_line_for_memory(void **state)
{
    (void)state;
    struct fake f;
    struct net_config c;
    fake_config(&c);
    c.queued_bytes_max = 100000;
    fake_start(&f, &c);
    int a = client_open(&f, 0), b = client_open(&f, 0), d = client_open(&f, 0);
    int e = client_open(&f, 0);
    client_write(a, "\0\1\x5f\x90", 4); /* 90,000, body not sent yet */
    WAIT_FOR(fake_counters(&f).queued_bytes == 90000);
    static uint8_t large[50000];
    client_send(b, FAKE_ECHO, 1, large, sizeof large);
    WAIT_FOR(fake_counters(&f).memory_waits == 1);
    client_write(e, "\0\0\1\0", 4); /* would fit, but is behind */
    WAIT_FOR(fake_counters(&f).memory_waits == 2);
    client_send(d, FAKE_ECHO, 2, "small", 5); /* whole: nobody's memory keeps it out */
    client_expect(d, 2, "small");
    assert_int_equal(fake_counters(&f).queued_bytes, 90000);
    close(a);
    uint8_t *got = malloc(sizeof large);
    int32_t correlation;
    assert_int_equal(client_answer(b, &correlation, got, sizeof large), sizeof large);
    free(got);
    close(e);
    /* One that is larger than everything is taken when it is alone. */
    uint8_t *huge = calloc(1, 150000);
    client_send(b, FAKE_ECHO, 3, huge, 150000);
    assert_int_equal(client_answer(b, &correlation, huge, 150000), 150000);
    free(huge);
    WAIT_FOR(fake_counters(&f).queued_bytes == 0);
    close(b);
    close(d);
    fake_stop(&f);
}

/* Memory that others wait for is not held for a frame that does not come. */
static void test_a_frame_that_does_not_come_makes_room_for_others(void **state)
{
    (void)state;
    struct fake f;
    struct net_config c;
    fake_config(&c);
    c.queued_bytes_max = 100000;
    fake_start(&f, &c);
    static uint8_t large[50000];
    uint8_t *got = malloc(sizeof large);
    int32_t correlation;
    int silent = client_open(&f, 0), fine = client_open(&f, 0);
    client_write(silent, "\0\2\0\0", 4); /* 131,072; allowed 30 s when nobody waits */
    WAIT_FOR(fake_counters(&f).queued_bytes == 131072);
    client_send(fine, FAKE_ECHO, 1, large, sizeof large);
    assert_int_equal(client_answer(fine, &correlation, got, sizeof large), sizeof large);
    assert_int_equal(fake_counters(&f).closed[NET_CLOSED_PARTIAL], 1);
    free(got);
    close(silent);
    close(fine);
    fake_stop(&f);
}

static void test_a_connection_in_line_for_memory_may_close(void **state)
{
    (void)state;
    struct fake f;
    struct net_config c;
    fake_config(&c);
    c.queued_bytes_max = 1000;
    fake_start(&f, &c);
    static uint8_t large[20000], got[20000];
    int32_t correlation;
    for (int i = 0; i < 20; i++) {
        int a = client_open(&f, 0), b = client_open(&f, 0), d = client_open(&f, 0);
        client_write(a, "\0\0\3\x84", 4); /* 900 */
        WAIT_FOR(fake_counters(&f).queued_bytes == 900);
        client_write(b, "\0\0\2\0", 4);
        client_send(d, FAKE_ECHO, 1, large, sizeof large); /* not a small one */
        WAIT_FOR(fake_counters(&f).memory_waits == (uint64_t)i * 2 + 2);
        struct linger hard = {.l_onoff = 1};
        assert_int_equal(setsockopt(b, SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
        assert_int_equal(setsockopt(a, SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
        close(i & 1 ? a : b);
        if (i & 2) { fake_block(2); }
        close(i & 1 ? b : a);
        assert_int_equal(client_answer(d, &correlation, got, sizeof got), sizeof large);
        close(d);
        WAIT_FOR(fake_counters(&f).connections == 0);
        assert_int_equal(fake_counters(&f).queued_bytes, 0);
    }
    fake_stop(&f);
}

/* Case 95: too many are closed without harm to the rest; limits change while running. */
static void test_c95_limits_of_connections_change_while_running(void **state)
{
    (void)state;
    struct fake f;
    struct net_config c;
    fake_config(&c);
    c.limits.connections_max = 3;
    fake_start(&f, &c);
    int fds[6];
    for (int i = 0; i < 3; i++) {
        fds[i] = client_open(&f, 0);
        client_send(fds[i], FAKE_ECHO, i, "in", 2);
        client_expect(fds[i], i, "in");
    }
    client_expect_closed(client_open(&f, 0));
    struct net_limits limits = {.connections_max = 100, .connections_per_ip_max = 4};
    assert_int_equal(net_reconfigure(f.net, &limits), ERR_OK);
    fds[3] = client_open(&f, 0);
    client_send(fds[3], FAKE_ECHO, 3, "in", 2);
    client_expect(fds[3], 3, "in");
    client_expect_closed(client_open(&f, 0));
    struct net_ip_limit own = {"127.0.0.1", 5};
    limits.overrides = &own;
    limits.overrides_count = 1;
    assert_int_equal(net_reconfigure(f.net, &limits), ERR_OK);
    fds[4] = client_open(&f, 0);
    client_send(fds[4], FAKE_ECHO, 4, "in", 2);
    client_expect(fds[4], 4, "in");
    client_expect_closed(client_open(&f, 0));
    assert_int_equal(fake_counters(&f).closed[NET_CLOSED_LIMIT], 3);
    close(fds[0]);
    WAIT_FOR(fake_counters(&f).connections == 4);
    fds[0] = client_open(&f, 0); /* a place is free again */
    client_send(fds[0], FAKE_ECHO, 5, "in", 2);
    client_expect(fds[0], 5, "in");
    for (int i = 0; i < 5; i++) {
        close(fds[i]);
    }
    fake_stop(&f);
}

/* Case 97: the silent are closed, also who never sent a byte; who waits for an answer is not idle.
 */
static void test_c97_idle_connections_are_closed(void **state)
{
    (void)state;
    struct fake f;
    struct net_config c;
    fake_config(&c);
    c.idle_max_ms = 150;
    fake_start(&f, &c);
    int silent = client_open(&f, 0), once = client_open(&f, 0), waits = client_open(&f, 0);
    uint64_t begin = sys_mono_ns(f.sys);
    client_send(once, FAKE_ECHO, 1, "x", 1);
    client_expect(once, 1, "x");
    client_send_i32(waits, FAKE_WAIT, 2, 1500);
    client_expect_closed(silent);
    client_expect_closed(once);
    uint64_t took = sys_mono_ns(f.sys) - begin;
    assert_true(took >= 150 * SYS_MS && took < 1400 * SYS_MS);
    client_expect(waits, 2, "late");
    client_expect_closed(waits);
    assert_int_equal(fake_counters(&f).closed[NET_CLOSED_IDLE], 3);
    fake_stop(&f);
}

static void test_a_frame_must_be_whole_in_time(void **state)
{
    (void)state;
    struct fake f;
    struct net_config c;
    fake_config(&c);
    c.partial_max_ms = 200;
    fake_start(&f, &c);
    int fd = client_open(&f, 0), fine = client_open(&f, 0);
    client_write(fd, "\0\0\1\0", 4);
    bool open = true;
    for (int i = 0; i < 100 && open; i++) { /* a byte now and then does not help */
        open = send(fd, "x", 1, MSG_NOSIGNAL) == 1 && !client_has(fd, 20);
    }
    assert_false(open);
    close(fd);
    assert_int_equal(fake_counters(&f).closed[NET_CLOSED_PARTIAL], 1);
    client_send(fine, FAKE_ECHO, 1, "fine", 4);
    client_expect(fine, 1, "fine");
    close(fine);
    fake_stop(&f);
}

static void test_a_peer_must_take_its_answers(void **state)
{
    (void)state;
    struct fake f;
    struct net_config c;
    fake_config(&c);
    c.stalled_max_ms = 200;
    fake_start(&f, &c);
    int fd = client_open(&f, 0);
    client_send_i32(fd, FAKE_BIG, 1, 64 << 20);
    WAIT_FOR(fake_counters(&f).closed[NET_CLOSED_STALLED] == 1);
    close(fd);
    fake_stop(&f);
}

static void test_requests_in_flight_of_a_connection_are_bounded(void **state)
{
    (void)state;
    struct fake f;
    struct net_config c;
    fake_config(&c);
    c.in_flight_max = 10;
    fake_start(&f, &c);
    int fd = client_open(&f, 0), other = client_open(&f, 0);
    for (int i = 0; i < 30; i++) {
        client_send(fd, FAKE_PARK, i, NULL, 0);
    }
    WAIT_FOR(atomic_load(&f.handled) == 10);
    fake_block(30);
    assert_int_equal(atomic_load(&f.handled), 10);
    for (int round = 0; round < 3; round++) {
        WAIT_FOR(atomic_load(&f.handled) == 10 * (round + 1) + round);
        client_send(other, FAKE_RELEASE, 99, NULL, 0);
        client_expect(other, 99, "");
    }
    for (int i = 0; i < 30; i++) {
        client_expect(fd, i, "parked");
    }
    close(fd);
    close(other);
    fake_stop(&f);
}

/* Handlers are busy with as many requests as may be queued: the next is not read, and no loop spins
 * about it. */
static void test_a_full_queue_stops_reading(void **state)
{
    (void)state;
    struct fake f;
    struct net_config c;
    fake_config(&c);
    c.queued_requests_max = 4;
    c.handlers_count = 1;
    fake_start(&f, &c);
    int slow[4], next = client_open(&f, 0);
    uint8_t buf[64];
    uint32_t ms = htonl(400);
    for (int i = 0; i < 4; i++) {
        slow[i] = client_open(&f, 0);
        size_t size = client_frame(buf, 0, FAKE_SLOW, i, "s", 1);
        size = client_frame(buf, size, FAKE_BLOCK, i, &ms, 4);
        client_write(slow[i], buf, size);
    }
    WAIT_FOR(fake_counters(&f).slow >= 2);
    struct timespec begin, end;
    uint64_t asked = sys_mono_ns(f.sys);
    client_send(next, FAKE_ECHO, 9, "next", 4);
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin), 0);
    client_expect(next, 9, "next");
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end), 0);
    int64_t cpu_ns = (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec;
    assert_true(sys_mono_ns(f.sys) - asked >= 100 * SYS_MS);
    assert_true(cpu_ns < 50 * 1000000LL);
    for (int i = 0; i < 4; i++) {
        uint8_t payload[8];
        int32_t correlation;
        client_expect(slow[i], i, "s");
        assert_int_equal(client_answer(slow[i], &correlation, payload, sizeof payload), 4);
        close(slow[i]);
    }
    close(next);
    fake_stop(&f);
}

static void test_an_idle_connection_costs_at_most_4_kib(void **state)
{
    (void)state;
    struct fake f;
    struct net_config c;
    fake_config(&c);
    fake_start(&f, &c);
    (void)sys_descriptors_max(f.sys);
    enum { COUNT = 9000 }; /* two descriptors each in this process */
    int *fds = malloc(COUNT * sizeof *fds);
    assert_non_null(fds);
    int64_t before = atomic_load(&heap_bytes);
    for (int i = 0; i < COUNT; i++) {
        fds[i] = client_open(&f, 0);
        client_send(fds[i], FAKE_ECHO, i, "hello", 5);
        client_expect(fds[i], i, "hello");
    }
    int64_t each = (atomic_load(&heap_bytes) - before) / COUNT;
    print_message("%lld bytes of heap for an idle connection\n", (long long)each);
    assert_true(each <= 4096 - 1024); /* what the heap rounds up is included; the rest is reserve */
    assert_int_equal(fake_counters(&f).connections, COUNT);
    client_send(fds[COUNT / 2], FAKE_ECHO, 1, "still", 5);
    client_expect(fds[COUNT / 2], 1, "still");
    for (int i = 0; i < COUNT; i++) {
        close(fds[i]);
    }
    WAIT_FOR(fake_counters(&f).connections == 0);
    free(fds);
    fake_stop(&f);
}

/* Cluster traffic never waits behind the data plane, stuck processors and used up memory included.
 */
static void test_the_control_plane_is_apart(void **state)
{
    (void)state;
    static const struct net_listener_config both[] = {
        {.name = "PLAINTEXT", .host = "127.0.0.1"},
        {.name = "CONTROLLER", .host = "127.0.0.1", .is_control = true},
    };
    struct fake f;
    struct net_config c;
    fake_config(&c);
    c.listeners = both;
    c.listeners_count = 2;
    c.queued_bytes_max = 1000;
    c.limits.connections_max = 2;
    fake_start(&f, &c);
    int hog = client_open(&f, 0), busy = client_open(&f, 0);
    client_write(hog, "\0\0\3\xe8", 4);
    client_send_i32(busy, FAKE_BLOCK, 1, 300);
    int control = client_open(&f, 1);
    for (int i = 0; i < 10; i++) {
        client_send(control, i & 1 ? FAKE_SLOW : FAKE_ECHO, i, "urgent", 6);
        client_expect(control, i, "urgent");
    }
    assert_false(client_has(busy, 0));
    close(hog);
    close(busy);
    close(control);
    fake_stop(&f);
}

static void test_a_start_that_cannot_be_says_why(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    struct net_listener_config taken = fake_listener;
    taken.port = net_port(f.net, 0);
    struct net_config c;
    fake_config(&c);
    c.logger = &f.logger;
    c.listeners = &taken;
    struct net_api api = {.handle = fake_handle};
    struct net *net;
    assert_int_equal(net_start(f.sys, &c, &api, &net), ERR_BUSY);
    assert_null(net);
    assert_non_null(strstr(f.line, "already in use"));
    taken.port = 0;
    taken.security = NET_SSL;
    assert_int_equal(net_start(f.sys, &c, &api, &net), ERR_UNSUPPORTED);
    assert_non_null(strstr(f.line, "PLAINTEXT"));
    c.handlers_count = 0;
    assert_int_equal(net_start(f.sys, &c, &api, &net), ERR_INVALID);
    fake_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_c08_what_is_not_kafka_is_closed_at_once),
        cmocka_unit_test(test_requests_in_front_of_a_bad_frame_are_answered),
        cmocka_unit_test(test_memory_grows_with_what_arrives),
        cmocka_unit_test(test_frames_wait_in_line_for_memory),
        cmocka_unit_test(test_a_frame_that_does_not_come_makes_room_for_others),
        cmocka_unit_test(test_a_connection_in_line_for_memory_may_close),
        cmocka_unit_test(test_c95_limits_of_connections_change_while_running),
        cmocka_unit_test(test_c97_idle_connections_are_closed),
        cmocka_unit_test(test_a_frame_must_be_whole_in_time),
        cmocka_unit_test(test_a_peer_must_take_its_answers),
        cmocka_unit_test(test_requests_in_flight_of_a_connection_are_bounded),
        cmocka_unit_test(test_a_full_queue_stops_reading),
        cmocka_unit_test(test_an_idle_connection_costs_at_most_4_kib),
        cmocka_unit_test(test_the_control_plane_is_apart),
        cmocka_unit_test(test_a_start_that_cannot_be_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
