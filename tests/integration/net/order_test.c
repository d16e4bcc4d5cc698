/* order_test.c - requests run once, answers leave in order, whoever runs them. */
#include "integration/net/fixture.h"

static void start(struct fake *f)
{
    struct net_config c;
    fake_config(&c);
    fake_start(f, &c);
}

static void test_a_request_is_answered_on_its_connection(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int a = client_open(&f, 0), b = client_open(&f, 0);
    client_send(a, FAKE_ECHO, 7, "one", 3);
    client_send(b, FAKE_ECHO, 8, "two", 3);
    client_expect(b, 8, "two");
    client_expect(a, 7, "one");
    close(a);
    WAIT_FOR(atomic_load(&f.closed) == 1);
    client_send(b, FAKE_ECHO, 9, "", 0);
    client_expect(b, 9, "");
    close(b);
    WAIT_FOR(fake_counters(&f).connections == 0);
    fake_stop(&f);
    assert_int_equal(atomic_load(&f.closed), 2);
}

/* One recv, one send, no wake, no allocation for each request, once the pools are filled. */
static void test_an_unpipelined_request_is_one_recv_and_one_send(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    for (int i = 0; i < 100; i++) {
        client_send(fd, FAKE_ECHO, i, "warm", 4);
        client_expect(fd, i, "warm");
    }
    struct net_counters before = fake_counters(&f);
    uint64_t calls = atomic_load(&heap_calls);
    for (int i = 0; i < 1000; i++) {
        client_send(fd, FAKE_ECHO, i, "steady", 6);
        client_expect(fd, i, "steady");
    }
    assert_int_equal(atomic_load(&heap_calls) - calls, 0);
    struct net_counters after = fake_counters(&f);
    assert_int_equal(after.requests - before.requests, 1000);
    assert_int_equal(after.recv_calls - before.recv_calls, 1000);
    assert_int_equal(after.send_calls - before.send_calls, 1000);
    assert_int_equal(after.wakes - before.wakes, 0);
    assert_int_equal(after.allocations - before.allocations, 0);
    close(fd);
    fake_stop(&f);
}

static void test_a_pipeline_is_answered_in_order_and_gathered(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    static uint8_t buf[100000];
    size_t size = 0;
    for (int i = 0; i < 1000; i++) {
        size = client_frame(buf, size, FAKE_ECHO, i, "0123456789", 10);
    }
    client_write(fd, buf, size);
    for (int i = 0; i < 1000; i++) {
        client_expect(fd, i, "0123456789");
    }
    struct net_counters c = fake_counters(&f);
    assert_int_equal(c.requests, 1000);
    assert_true(c.send_calls < 200); /* 16 requests a turn */
    close(fd);
    fake_stop(&f);
}

/* Cut anywhere, a frame is one frame. */
static void test_frames_that_arrive_in_pieces_are_whole(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[64];
    size_t size = client_frame(buf, 0, FAKE_ECHO, 1, "abc", 3);
    size = client_frame(buf, size, FAKE_ECHO, 2, "defg", 4);
    for (size_t cut = 1; cut < size; cut++) {
        client_write(fd, buf, cut);
        fake_block(1);
        client_write(fd, buf + cut, size - cut);
        client_expect(fd, 1, "abc");
        client_expect(fd, 2, "defg");
    }
    close(fd);
    fake_stop(&f);
}

static void test_large_frames_of_many_sizes_come_through(void **state)
{
    (void)state;
    static const size_t sizes[] = {16371,  16372,   16373,   69620,   69621,   262144,
                                   300000, 1048576, 1200000, 5000000, 30000000};
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t *sent = malloc(30000000), *got = malloc(30000000);
    assert_non_null(sent);
    assert_non_null(got);
    for (size_t i = 0; i < 30000000; i++) {
        sent[i] = (uint8_t)(i * 31 + (i >> 11));
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        uint8_t head[12];
        (void)client_frame(head, 0, FAKE_ECHO, (int32_t)i, NULL, 0);
        uint32_t be = htonl((uint32_t)(8 + sizes[i]));
        memcpy(head, &be, 4);
        client_write(fd, head, sizeof head);
        client_write(fd, sent, sizes[i]);
        int32_t correlation;
        assert_int_equal(client_answer(fd, &correlation, got, 30000000), sizes[i]);
        assert_int_equal(correlation, i);
        assert_memory_equal(sent, got, sizes[i]);
    }
    free(sent);
    free(got);
    assert_int_equal(fake_counters(&f).queued_bytes, 0);
    close(fd);
    fake_stop(&f);
}

static void test_a_parked_request_lets_others_run_but_keeps_its_place(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0), other = client_open(&f, 0);
    client_send(fd, FAKE_PARK, 1, NULL, 0);
    client_send(fd, FAKE_ECHO, 2, "x", 1);
    client_send(fd, FAKE_PARK, 3, NULL, 0);
    client_send(fd, FAKE_ECHO, 4, "y", 1);
    WAIT_FOR(atomic_load(&f.handled) == 4);
    assert_false(client_has(fd, 20));
    client_send(other, FAKE_RELEASE, 5, NULL, 0);
    client_expect(other, 5, "");
    client_expect(fd, 1, "parked");
    client_expect(fd, 2, "x");
    client_expect(fd, 3, "parked");
    client_expect(fd, 4, "y");
    close(fd);
    close(other);
    fake_stop(&f);
}

static void test_a_holding_request_blocks_its_connection(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0), other = client_open(&f, 0);
    uint8_t buf[128];
    size_t size = client_frame(buf, 0, FAKE_HOLD, 1, NULL, 0);
    size = client_frame(buf, size, FAKE_ECHO, 2, "after", 5);
    client_write(fd, buf, size);
    WAIT_FOR(atomic_load(&f.handled) == 1);
    client_send(fd, FAKE_ECHO, 3, "later", 5);
    client_send(other, FAKE_ECHO, 4, "free", 4);
    client_expect(other, 4, "free");
    assert_false(client_has(fd, 20));
    assert_int_equal(atomic_load(&f.handled), 2);
    client_send(other, FAKE_RELEASE, 5, NULL, 0);
    client_expect(other, 5, "");
    client_expect(fd, 1, "parked");
    client_expect(fd, 2, "after");
    client_expect(fd, 3, "later");
    close(fd);
    close(other);
    fake_stop(&f);
}

static void test_a_request_without_answer_leaves_no_gap(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[128];
    size_t size = client_frame(buf, 0, FAKE_NONE, 1, NULL, 0);
    size = client_frame(buf, size, FAKE_ECHO, 2, "a", 1);
    size = client_frame(buf, size, FAKE_NONE, 3, NULL, 0);
    size = client_frame(buf, size, FAKE_NONE, 4, NULL, 0);
    client_write(fd, buf, size);
    client_expect(fd, 2, "a");
    client_send(fd, FAKE_ECHO, 5, "b", 1);
    client_expect(fd, 5, "b");
    assert_int_equal(atomic_load(&f.handled), 5);
    close(fd);
    fake_stop(&f);
}

static void test_answers_in_front_of_a_closing_request_leave(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[128];
    size_t size = client_frame(buf, 0, FAKE_ECHO, 1, "a", 1);
    size = client_frame(buf, size, FAKE_CLOSE, 2, NULL, 0);
    size = client_frame(buf, size, FAKE_ECHO, 3, "never", 5);
    client_write(fd, buf, size);
    client_expect(fd, 1, "a");
    client_expect_closed(fd);
    assert_int_equal(atomic_load(&f.handled), 2);
    fd = client_open(&f, 0);
    size = client_frame(buf, 0, FAKE_LAST, 4, "bye", 3);
    size = client_frame(buf, size, FAKE_ECHO, 5, "never", 5);
    client_write(fd, buf, size);
    client_expect(fd, 4, "bye");
    client_expect_closed(fd);
    assert_int_equal(fake_counters(&f).closed[NET_CLOSED_API], 2);
    fake_stop(&f);
}

/* What was sent before the end of the stream has its effect and, with half a connection left, its
 * answer. */
static void test_requests_before_the_end_of_stream_are_run(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[4096];
    size_t size = 0;
    for (int i = 0; i < 100; i++) {
        size = client_frame(buf, size, FAKE_ECHO, i, "z", 1);
    }
    client_write(fd, buf, size);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    for (int i = 0; i < 100; i++) {
        client_expect(fd, i, "z");
    }
    client_expect_closed(fd);
    assert_int_equal(atomic_load(&f.handled), 100);
    assert_int_equal(fake_counters(&f).closed[NET_CLOSED_PEER], 1);
    fake_stop(&f);
}

static void test_a_slow_request_runs_on_a_handler_in_its_place(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[512];
    size_t size = 0;
    for (int i = 1; i <= 8; i++) {
        size = client_frame(buf, size, i == 3 || i == 6 ? FAKE_SLOW : FAKE_ECHO, i, "s", 1);
    }
    client_write(fd, buf, size);
    for (int i = 1; i <= 8; i++) {
        client_expect(fd, i, "s");
    }
    /* The handler goes on with what stood behind the slow request. */
    assert_int_equal(atomic_load(&f.order), 0x0102030405060708);
    assert_true(atomic_load(&f.on_handler) >= 2);
    assert_true(fake_counters(&f).slow >= 1);
    close(fd);
    fake_stop(&f);
}

static void test_handlers_steal_from_a_stuck_processor(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int first = client_open(&f, 0), second = client_open(&f, 0), third = client_open(&f, 0);
    WAIT_FOR(fake_counters(&f).connections == 3);
    /* While the first call keeps the processor, the next two arrive: one turn finds both, and one
     * of them waits behind the other's call. */
    client_send_i32(first, FAKE_BLOCK, 1, 50);
    fake_block(10);
    client_send_i32(second, FAKE_BLOCK, 2, 300);
    client_send_i32(third, FAKE_BLOCK, 3, 300);
    uint64_t begin = sys_mono_ns(f.sys);
    uint8_t payload[16];
    int32_t correlation;
    assert_int_equal(client_answer(first, &correlation, payload, sizeof payload), 4);
    assert_int_equal(client_answer(second, &correlation, payload, sizeof payload), 4);
    assert_int_equal(correlation, 2);
    assert_int_equal(client_answer(third, &correlation, payload, sizeof payload), 4);
    assert_int_equal(correlation, 3);
    uint64_t took = sys_mono_ns(f.sys) - begin;
    assert_int_equal(fake_counters(&f).steals, 1);
    assert_int_equal(atomic_load(&f.on_handler), 1);
    assert_true(took < 600 * SYS_MS); /* one after the other it would be 640 */
    close(first);
    close(second);
    close(third);
    fake_stop(&f);
}

static void test_a_throttled_connection_is_answered_then_muted(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[128];
    uint32_t ms = htonl(500);
    size_t size = client_frame(buf, 0, FAKE_THROTTLE, 1, &ms, 4);
    size = client_frame(buf, size, FAKE_ECHO, 2, "a", 1);
    uint64_t begin = sys_mono_ns(f.sys);
    client_write(fd, buf, size);
    client_send(fd, FAKE_ECHO, 3, "b", 1);
    int32_t correlation;
    uint8_t payload[16];
    assert_int_equal(client_answer(fd, &correlation, payload, sizeof payload), 4);
    uint64_t answered = sys_mono_ns(f.sys) - begin;
    client_expect(fd, 2, "a");
    client_expect(fd, 3, "b");
    uint64_t muted = sys_mono_ns(f.sys) - begin;
    assert_true(answered < 400 * SYS_MS);
    assert_true(muted >= 499 * SYS_MS && muted < 5000 * SYS_MS);
    close(fd);
    fake_stop(&f);
}

static void test_a_delayed_operation_answers_at_its_time(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    client_send_i32(fd, FAKE_WAIT, 1, 30);
    client_send_i32(fd, FAKE_SLOW_WAIT, 2, 0); /* may end before the handler has returned */
    client_expect(fd, 1, "late");
    client_expect(fd, 2, "late");
    for (int i = 0; i < 500; i++) {
        client_send_i32(fd, FAKE_SLOW_WAIT, i, 0);
        client_expect(fd, i, "late");
    }
    assert_int_equal(atomic_load(&f.last_reason), PURG_EXPIRED);
    close(fd);
    fake_stop(&f);
}

/* [NET-12] Two waits in vain make a connection patient, any other answer ends that; all are
 * answered meanwhile. */
static void test_a_connection_that_waits_in_vain_is_patient(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    int32_t correlation = 0;
    for (uint64_t round = 1; round <= 3; round++) {
        client_send_i32(fd, FAKE_WAIT, ++correlation, 1);
        client_expect(fd, correlation, "late");
        assert_int_equal(fake_counters(&f).patient, round - 1);
        for (int more = 0; more < 3; more++) {
            client_send_i32(fd, FAKE_WAIT, ++correlation, 1);
            client_expect(fd, correlation, "late");
            assert_int_equal(fake_counters(&f).patient, round);
        }
        client_send(fd, FAKE_ECHO, ++correlation, "now", 3);
        client_expect(fd, correlation, "now");
    }
    /* A patient peer that goes is noticed. */
    client_send_i32(fd, FAKE_WAIT, 1, 0);
    client_expect(fd, 1, "late");
    client_send_i32(fd, FAKE_WAIT, 2, 0);
    client_expect(fd, 2, "late");
    assert_int_equal(fake_counters(&f).patient, 4);
    close(fd);
    WAIT_FOR(atomic_load(&f.closed) == 1);
    fake_stop(&f);
}

/* [NET-11] The turn began long before it is run: another request kept the processor. */
static void test_a_wait_counts_from_the_arrival(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[256];
    uint32_t stuck = htonl(60), wait = htonl(50);
    size_t size = client_frame(buf, 0, FAKE_BLOCK, 1, &stuck, 4);
    size = client_frame(buf, size, FAKE_WAIT, 2, &wait, 4);
    uint64_t begin = sys_mono_ns(f.sys);
    client_write(fd, buf, size);
    uint8_t payload[16];
    int32_t correlation;
    assert_int_equal(client_answer(fd, &correlation, payload, sizeof payload), 4);
    client_expect(fd, 2, "late");
    /* Counted from the beginning of the turn both would be over after 60. */
    assert_true(sys_mono_ns(f.sys) - begin >= 110 * SYS_MS);
    close(fd);
    fake_stop(&f);
}

static void test_parked_requests_end_when_their_connection_closes(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int a = client_open(&f, 0), b = client_open(&f, 0);
    for (int i = 0; i < 5; i++) {
        client_send(a, FAKE_PARK, i, NULL, 0);
        client_send_i32(b, FAKE_WAIT, i, 60000);
    }
    client_send(a, FAKE_HOLD, 9, NULL, 0);
    client_send_i32(b, FAKE_SLOW_WAIT, 9, 60000);
    WAIT_FOR(atomic_load(&f.handled) == 12);
    close(b);
    WAIT_FOR(atomic_load(&f.closed) == 1);
    assert_int_equal(atomic_load(&f.cancelled), 6);
    assert_int_equal(atomic_load(&f.last_reason), PURG_CANCELLED);
    fake_stop(&f); /* closes a */
    assert_int_equal(atomic_load(&f.cancelled), 12);
    assert_int_equal(atomic_load(&f.closed), 2);
    close(a);
}

/* A closed connection whose request is with a handler stays as a ghost until that is back. */
static void test_a_connection_may_close_while_a_handler_has_it(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    for (int i = 0; i < 20; i++) {
        int fd = client_open(&f, 0);
        uint8_t buf[256];
        uint32_t ms = htonl(3);
        size_t size = client_frame(buf, 0, FAKE_SLOW, 1, NULL, 0);
        size = client_frame(buf, size, FAKE_BLOCK, 2, &ms, 4);
        ms = htonl(60000);
        size = client_frame(buf, size, FAKE_WAIT, 3, &ms, 4);
        client_write(fd, buf, size);
        struct linger hard = {.l_onoff = 1};
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
        if (i & 1) { fake_block(1); }
        close(fd); /* reset */
    }
    WAIT_FOR(fake_counters(&f).accepted == 20);
    WAIT_FOR(atomic_load(&f.closed) == 20);
    assert_int_equal(fake_counters(&f).queued_bytes, 0);
    fake_stop(&f);
}

/* The first answer cannot be made: the connection closes, and the slow request behind it, which has
 * begun, gives back what it holds. */
static void test_a_slow_request_of_a_closed_connection_is_dropped(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[64];
    size_t size = client_frame(buf, 0, FAKE_EMPTY, 1, NULL, 0);
    size = client_frame(buf, size, FAKE_SLOW, 2, NULL, 0);
    client_write(fd, buf, size);
    client_expect_closed(fd);
    WAIT_FOR(atomic_load(&f.closed) == 1);
    assert_int_equal(atomic_load(&f.dropped), 1);
    assert_int_equal(atomic_load(&f.handled), 1);
    assert_int_equal(fake_counters(&f).closed[NET_CLOSED_MEMORY], 1);
    fake_stop(&f);
}

/* ---- staged requests ---- */

static void test_staged_requests_are_done_together_and_leave_together(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[512];
    size_t size = 0;
    for (int i = 1; i <= 5; i++) {
        size = client_frame(buf, size, FAKE_STAGE, i, "s", 1);
    }
    client_write(fd, buf, size);
    for (int i = 1; i <= 5; i++) {
        client_expect(fd, i, "s");
    }
    assert_int_equal(atomic_load(&f.flushes), 1);
    assert_int_equal(atomic_load(&f.order), 0x0102030405);
    assert_int_equal(fake_counters(&f).send_calls, 1);
    close(fd);
    fake_stop(&f);
}

static void test_another_request_runs_after_what_is_staged(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[512];
    size_t size = 0;
    for (int i = 1; i <= 7; i++) {
        size = client_frame(buf, size, i == 3 || i == 4 ? FAKE_ECHO : FAKE_STAGE, i, "s", 1);
    }
    client_write(fd, buf, size);
    for (int i = 1; i <= 7; i++) {
        client_expect(fd, i, "s");
    }
    assert_int_equal(atomic_load(&f.flushes), 2);
    assert_int_equal(atomic_load(&f.order), 0x01020304050607);
    assert_int_equal(fake_counters(&f).send_calls, 1);
    close(fd);
    fake_stop(&f);
}

/* While the first call keeps the processor the others arrive: one turn finds them all. */
static void test_what_several_connections_stage_in_a_turn_is_done_together(void **state)
{
    enum { CONNECTIONS = 40 };
    (void)state;
    struct fake f;
    start(&f);
    int first = client_open(&f, 0), fd[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        fd[i] = client_open(&f, 0);
    }
    WAIT_FOR(fake_counters(&f).connections == CONNECTIONS + 1);
    client_send_i32(first, FAKE_BLOCK, 1, 100);
    fake_block(20);
    for (int i = 0; i < CONNECTIONS; i++) {
        client_send(fd[i], FAKE_STAGE, i, "s", 1);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        client_expect(fd[i], i, "s");
        close(fd[i]);
    }
    assert_int_equal(atomic_load(&f.flushes), 3); /* 16 requests at most */
    assert_int_equal(atomic_load(&f.staged_most), 16);
    close(first);
    fake_stop(&f);
}

static void test_a_staged_request_that_is_slow_takes_those_behind_it_along(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[512];
    for (int last = 0; last < 2; last++) { /* nothing behind them, and something that waits */
        size_t size = client_frame(buf, 0, FAKE_STAGE, 1, "a", 1);
        size = client_frame(buf, size, FAKE_STAGE, 2, "slow", 4);
        size = client_frame(buf, size, FAKE_STAGE, 3, "b", 1);
        if (last) { size = client_frame(buf, size, FAKE_ECHO, 4, "c", 1); }
        client_write(fd, buf, size);
        client_expect(fd, 1, "a");
        client_expect(fd, 2, "slow");
        client_expect(fd, 3, "b");
        if (last) { client_expect(fd, 4, "c"); }
    }
    assert_int_equal(atomic_load(&f.order), 0x01020301020304);
    assert_int_equal(atomic_load(&f.on_handler), 5);
    assert_int_equal(atomic_load(&f.flushes), 2);
    close(fd);
    fake_stop(&f);
}

static void test_no_answer_passes_that_of_a_staged_request_that_closes(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[512];
    size_t size = client_frame(buf, 0, FAKE_STAGE, 1, "a", 1);
    size = client_frame(buf, size, FAKE_STAGE, 2, "close", 5);
    size = client_frame(buf, size, FAKE_STAGE, 3, "done, not answered", 18);
    size = client_frame(buf, size, FAKE_ECHO, 4, "never", 5);
    client_write(fd, buf, size);
    client_expect(fd, 1, "a");
    client_expect_closed(fd);
    WAIT_FOR(atomic_load(&f.closed) == 1);
    assert_int_equal(atomic_load(&f.order), 0x010203);
    assert_int_equal(fake_counters(&f).closed[NET_CLOSED_API], 1);
    fake_stop(&f);
}

static void test_staged_requests_of_a_closed_connection_are_dropped(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    int fd = client_open(&f, 0);
    uint8_t buf[512];
    size_t size = client_frame(buf, 0, FAKE_STAGE, 1, "empty", 5);
    size = client_frame(buf, size, FAKE_STAGE, 2, "slow", 4);
    size = client_frame(buf, size, FAKE_STAGE, 3, "b", 1);
    size = client_frame(buf, size, FAKE_ECHO, 4, "never", 5);
    client_write(fd, buf, size);
    client_expect_closed(fd);
    WAIT_FOR(atomic_load(&f.closed) == 1);
    assert_int_equal(atomic_load(&f.dropped), 2);
    assert_int_equal(atomic_load(&f.handled), 1);
    assert_int_equal(fake_counters(&f).queued_bytes, 0);
    fake_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_is_answered_on_its_connection),
        cmocka_unit_test(test_an_unpipelined_request_is_one_recv_and_one_send),
        cmocka_unit_test(test_a_pipeline_is_answered_in_order_and_gathered),
        cmocka_unit_test(test_frames_that_arrive_in_pieces_are_whole),
        cmocka_unit_test(test_large_frames_of_many_sizes_come_through),
        cmocka_unit_test(test_a_parked_request_lets_others_run_but_keeps_its_place),
        cmocka_unit_test(test_a_holding_request_blocks_its_connection),
        cmocka_unit_test(test_a_request_without_answer_leaves_no_gap),
        cmocka_unit_test(test_answers_in_front_of_a_closing_request_leave),
        cmocka_unit_test(test_requests_before_the_end_of_stream_are_run),
        cmocka_unit_test(test_a_slow_request_runs_on_a_handler_in_its_place),
        cmocka_unit_test(test_handlers_steal_from_a_stuck_processor),
        cmocka_unit_test(test_a_throttled_connection_is_answered_then_muted),
        cmocka_unit_test(test_a_delayed_operation_answers_at_its_time),
        cmocka_unit_test(test_a_connection_that_waits_in_vain_is_patient),
        cmocka_unit_test(test_a_wait_counts_from_the_arrival),
        cmocka_unit_test(test_parked_requests_end_when_their_connection_closes),
        cmocka_unit_test(test_a_slow_request_of_a_closed_connection_is_dropped),
        cmocka_unit_test(test_a_connection_may_close_while_a_handler_has_it),
        cmocka_unit_test(test_staged_requests_are_done_together_and_leave_together),
        cmocka_unit_test(test_another_request_runs_after_what_is_staged),
        cmocka_unit_test(test_what_several_connections_stage_in_a_turn_is_done_together),
        cmocka_unit_test(test_a_staged_request_that_is_slow_takes_those_behind_it_along),
        cmocka_unit_test(test_no_answer_passes_that_of_a_staged_request_that_closes),
        cmocka_unit_test(test_staged_requests_of_a_closed_connection_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
