/* produce_test.c - what a produce costs, and what becomes of those that wait. */
#include "integration/broker/fixture.h"

/* One round trip: the request's frame in one recv, its answer in one send, on one thread. */
static void test_an_unpipelined_produce_is_one_recv_and_one_send(void **state)
{
    enum { WARM = 100, COUNT = 1000 };
    struct fixture *f = *state;
    struct client c;
    struct wire_buf batch;
    int64_t offset;
    fx_put(f, "log.flush.policy", "os");
    fx_start(f);
    client_open(&c, f);
    client_create_topic(&c, "fast", 1, NULL, NULL);
    make_batch(&batch, SLICE_LIT("a record of some size, as small ones are"));
    for (int i = 0; i < WARM; i++) {
        client_encode_produce(&c, "fast", 0, 1, wire_buf_slice(&batch));
        client_flush(&c);
        assert_int_equal(client_receive_produce(&c, c.correlation, &offset), 0);
    }
    struct net_counters before = fx_counters(f);
    for (int i = 0; i < COUNT; i++) {
        client_encode_produce(&c, "fast", 0, 1, wire_buf_slice(&batch));
        client_flush(&c);
        assert_int_equal(client_receive_produce(&c, c.correlation, &offset), 0);
        assert_int_equal(offset, WARM + i);
    }
    struct net_counters after = fx_counters(f);
    assert_int_equal(after.requests - before.requests, COUNT);
    assert_int_equal(after.recv_calls - before.recv_calls, COUNT);
    assert_int_equal(after.send_calls - before.send_calls, COUNT);
    assert_int_equal(after.wakes - before.wakes, 0);
    assert_int_equal(after.allocations - before.allocations, 0);
    assert_int_equal(after.slow - before.slow, 0);
    assert_int_equal(after.parked - before.parked, 0);
    wire_buf_fini(&batch);
    client_close(&c);
}

/* The whole process, not only net: the client's side frees and allocates its answer each time. */
static void test_a_produce_calls_no_allocator(void **state)
{
    enum { WARM = 100, COUNT = 1000 };
    struct fixture *f = *state;
    struct client c;
    struct wire_buf batch;
    uint8_t answer[256];
    fx_put(f, "log.flush.policy", "os");
    fx_start(f);
    client_open(&c, f);
    client_create_topic(&c, "fast", 1, NULL, NULL);
    make_batch(&batch, SLICE_LIT("v"));
    client_encode_produce(&c, "fast", 0, 1, wire_buf_slice(&batch));
    size_t size = c.out.size;
    uint64_t before = 0;
    for (int i = 0; i < WARM + COUNT; i++) {
        uint32_t be;
        if (i == WARM) { before = atomic_load(&heap_calls); }
        c.out.size = size; /* the same request again */
        client_flush(&c);
        assert_true(client_read(&c, &be, sizeof be));
        assert_true(ntohl(be) <= sizeof answer);
        assert_true(client_read(&c, answer, ntohl(be)));
    }
    uint64_t calls = atomic_load(&heap_calls) - before;
    /* The segment's index in memory may grow once. */
    if (calls > 2) { fail_msg("%d produces: %d allocations", COUNT, (int)calls); }
    assert_int_equal(client_offset(&c, "fast", 0, -1), WARM + COUNT);
    wire_buf_fini(&batch);
    client_close(&c);
}

static void test_what_arrives_together_is_answered_together(void **state)
{
    enum { COUNT = 200 };
    struct fixture *f = *state;
    struct client c;
    struct wire_buf batch;
    int64_t offset;
    fx_put(f, "log.flush.policy", "os");
    fx_start(f);
    client_open(&c, f);
    client_create_topic(&c, "fast", 1, NULL, NULL);
    make_batch(&batch, SLICE_LIT("v"));
    int32_t first = c.correlation + 1;
    struct net_counters before = fx_counters(f);
    for (int i = 0; i < COUNT; i++) {
        client_encode_produce(&c, "fast", 0, -1, wire_buf_slice(&batch));
    }
    client_flush(&c);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(client_receive_produce(&c, first + i, &offset), 0);
        assert_int_equal(offset, i);
    }
    struct net_counters after = fx_counters(f);
    assert_int_equal(after.requests - before.requests, COUNT);
    assert_true(after.recv_calls - before.recv_calls < COUNT / 2);
    assert_true(after.send_calls - before.send_calls < COUNT / 2);
    wire_buf_fini(&batch);
    client_close(&c);
}

static void send_produces(struct client *c, const char *topic, int count)
{
    struct wire_buf batch;
    make_batch(&batch, SLICE_LIT("waits"));
    for (int i = 0; i < count; i++) {
        client_encode_produce(c, topic, 0, -1, wire_buf_slice(&batch));
    }
    client_flush(c);
    wire_buf_fini(&batch);
}

/* Under the group policy nothing is acknowledged or read before it is on the device. */
static void test_acks_all_waits_for_the_device_and_acks_one_does_not(void **state)
{
    struct fixture *f = *state;
    struct client c, other;
    int64_t offset;
    fx_start(f);
    client_open(&c, f);
    client_open(&other, f);
    client_create_topic(&c, "safe", 1, NULL, NULL);
    gate_set(true);
    uint64_t parked = fx_counters(f).parked;
    send_produces(&c, "safe", 1);
    fx_await_parked(f, parked + 1);
    assert_int_equal(client_produce(&other, "safe", 0, 1, SLICE_LIT("at once")), 1);
    assert_int_equal(client_offset(&other, "safe", 0, -1), 0); /* readable: nothing yet */
    uint8_t byte;
    assert_int_equal(recv(c.fd, &byte, 1, MSG_DONTWAIT), -1);
    gate_set(false);
    assert_int_equal(client_receive_produce(&c, c.correlation, &offset), 0);
    assert_int_equal(offset, 0);
    client_produce(&other, "safe", 0, -1, SLICE_LIT("last"));
    assert_int_equal(client_offset(&other, "safe", 0, -1), 3);
    client_close(&other);
    client_close(&c);
}

static void test_deleting_a_topic_answers_the_produces_that_wait_for_it(void **state)
{
    enum { COUNT = 10 };
    struct fixture *f = *state;
    struct client c, other;
    int64_t offset;
    fx_start(f);
    client_open(&c, f);
    client_open(&other, f);
    client_create_topic(&c, "doomed", 1, NULL, NULL);
    client_create_topic(&c, "stays", 1, NULL, NULL);
    gate_set(true);
    uint64_t parked = fx_counters(f).parked;
    int32_t first = c.correlation + 1;
    send_produces(&c, "doomed", COUNT);
    fx_await_parked(f, parked + COUNT);
    client_send_delete(&other, "doomed");
    for (int i = 0; i < COUNT; i++) { /* the device has not moved: they do not wait for it */
        assert_int_equal(client_receive_produce(&c, first + i, &offset), 3);
        assert_int_equal(offset, -1);
    }
    gate_set(false);
    client_receive_delete(&other);
    assert_int_equal(client_produce(&c, "stays", 0, -1, SLICE_LIT("v")), 0);
    client_create_topic(&c, "doomed", 1, NULL, NULL); /* the name is free, the log is another */
    assert_int_equal(client_produce(&c, "doomed", 0, -1, SLICE_LIT("v")), 0);
    client_close(&other);
    client_close(&c);
}

/* A client that goes away takes nothing with it but its answer. */
static void test_a_produce_whose_client_is_gone_is_kept(void **state)
{
    enum { COUNT = 5 };
    struct fixture *f = *state;
    struct client c, other;
    fx_start(f);
    client_open(&c, f);
    client_open(&other, f);
    client_create_topic(&c, "kept", 1, NULL, NULL);
    gate_set(true);
    uint64_t parked = fx_counters(f).parked;
    send_produces(&c, "kept", COUNT);
    fx_await_parked(f, parked + COUNT);
    client_close(&c);
    while (fx_counters(f).connections > 1) {
        sched_yield();
    }
    gate_set(false);
    assert_int_equal(client_produce(&other, "kept", 0, -1, SLICE_LIT("v")), COUNT);
    assert_int_equal(client_offset(&other, "kept", 0, -1), COUNT + 1);
    client_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_an_unpipelined_produce_is_one_recv_and_one_send),
        CASE(test_a_produce_calls_no_allocator),
        CASE(test_what_arrives_together_is_answered_together),
        CASE(test_acks_all_waits_for_the_device_and_acks_one_does_not),
        CASE(test_deleting_a_topic_answers_the_produces_that_wait_for_it),
        CASE(test_a_produce_whose_client_is_gone_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
