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

/* ---- what arrives together is appended together ---- */

#define GATHER 5

/* One record; sequence -1: of no producer. */
static void make_sequenced(struct wire_buf *out, int32_t sequence)
{
    struct batch_build_record r = {.timestamp = 1700000000000, .value = SLICE_LIT("v")};
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    if (sequence >= 0) {
        o.producer_id = 7;
        o.producer_epoch = 0;
        o.base_sequence = sequence;
    }
    wire_buf_init(out, 1 << 20);
    assert_int_equal(batch_build(&o, &r, 1, NULL, out), ERR_OK);
}

static void start_os(struct fixture *f, struct client *c, int32_t partitions)
{
    fx_put(f, "log.flush.policy", "os");
    fx_start(f);
    client_open(c, f);
    client_create_topic(c, "t", partitions, NULL, NULL);
}

static void encode_sequenced(struct client *c, int32_t index, int16_t acks, int32_t sequence)
{
    struct wire_buf batch;
    make_sequenced(&batch, sequence);
    client_encode_produce(c, "t", index, acks, wire_buf_slice(&batch));
    wire_buf_fini(&batch);
}

static void test_five_pipelined_produces_are_one_write_and_one_send(void **state)
{
    struct fixture *f = *state;
    struct client c;
    int64_t offset;
    start_os(f, &c, 1);
    client_produce(&c, "t", 0, 1, SLICE_LIT("opens the log"));
    for (int16_t acks = -1; acks <= 1; acks += 2) {
        struct net_counters before = fx_counters(f);
        uint64_t writes_before = atomic_load(&writes);
        int64_t end = client_offset(&c, "t", 0, -1);
        int32_t first = c.correlation + 1;
        for (int i = 0; i < GATHER; i++) {
            encode_sequenced(&c, 0, acks, -1);
        }
        client_flush(&c);
        for (int i = 0; i < GATHER; i++) {
            assert_int_equal(client_receive_produce(&c, first + i, &offset), 0);
            assert_int_equal(offset, end + i);
        }
        struct net_counters after = fx_counters(f);
        assert_int_equal(atomic_load(&writes) - writes_before, 1);
        assert_int_equal(after.requests - before.requests, GATHER + 1);
        assert_int_equal(after.send_calls - before.send_calls, 2); /* one for the look at the end */
        assert_int_equal(after.wakes - before.wakes, 0);
        assert_int_equal(after.parked - before.parked, 0);
    }
    client_close(&c);
}

static void test_a_bad_batch_fails_alone(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct wire_buf batch;
    static const int expected[GATHER] = {0, 0, 2, 0, 0};
    static const int offsets[GATHER] = {1, 2, -1, 3, 4};
    int64_t offset;
    start_os(f, &c, 1);
    client_produce(&c, "t", 0, 1, SLICE_LIT("opens the log"));
    uint64_t writes_before = atomic_load(&writes);
    int32_t first = c.correlation + 1;
    for (int i = 0; i < GATHER; i++) {
        make_sequenced(&batch, -1);
        if (expected[i]) { batch.at[batch.size - 1] ^= 1; }
        client_encode_produce(&c, "t", 0, -1, wire_buf_slice(&batch));
        wire_buf_fini(&batch);
    }
    client_flush(&c);
    for (int i = 0; i < GATHER; i++) {
        assert_int_equal(client_receive_produce(&c, first + i, &offset), expected[i]);
        assert_int_equal(offset, offsets[i]);
    }
    assert_int_equal(atomic_load(&writes) - writes_before, 1);
    client_close(&c);
}

/* 3 comes again, 6 comes too early, and the next one in order is taken. */
static void test_sequences_are_checked_among_what_arrives_together(void **state)
{
    struct fixture *f = *state;
    struct client c;
    static const int32_t sequences[] = {1, 2, 3, 3, 6, 4};
    static const int expected[] = {0, 0, 0, 0, 45, 0};
    static const int offsets[] = {1, 2, 3, 3, -1, 4};
    int64_t offset;
    start_os(f, &c, 1);
    encode_sequenced(&c, 0, 1, 0);
    client_flush(&c);
    assert_int_equal(client_receive_produce(&c, c.correlation, &offset), 0);
    int32_t first = c.correlation + 1;
    for (size_t i = 0; i < COUNT_OF(sequences); i++) {
        encode_sequenced(&c, 0, -1, sequences[i]);
    }
    client_flush(&c);
    for (size_t i = 0; i < COUNT_OF(sequences); i++) {
        int error = client_receive_produce(&c, first + (int32_t)i, &offset);
        assert_int_equal(error, expected[i]);
        assert_int_equal(offset, offsets[i]);
    }
    assert_int_equal(client_offset(&c, "t", 0, -1), 5);
    client_close(&c);
}

static void encode_list_offsets(struct client *c)
{
    struct list_offsets_request q;
    struct list_offsets_request_list_offsets_topic t;
    struct list_offsets_request_list_offsets_partition p;
    list_offsets_request_init(&q);
    list_offsets_request_list_offsets_topic_init(&t);
    list_offsets_request_list_offsets_partition_init(&p);
    p.timestamp = -1;
    t.name = SLICE_LIT("t");
    t.partitions = &p;
    t.partitions_count = 1;
    q.replica_id = -1;
    q.topics = &t;
    q.topics_count = 1;
    client_encode(c, LIST_OFFSETS_REQUEST_KEY, 6, &q);
}

static int64_t receive_list_offsets(struct client *c, int32_t correlation)
{
    struct list_offsets_response m;
    client_receive(c, LIST_OFFSETS_REQUEST_KEY, 6, correlation, &m);
    assert_int_equal(m.topics[0].partitions[0].error_code, 0);
    return m.topics[0].partitions[0].offset;
}

/* Also when a log is cold: the third produce goes to a handler, and what is behind it too. */
static void test_another_request_sees_the_produces_before_it(void **state)
{
    struct fixture *f = *state;
    struct client c;
    int64_t offset;
    start_os(f, &c, 2);
    client_produce(&c, "t", 0, 1, SLICE_LIT("opens the first log, not the second"));
    for (int round = 0; round < 2; round++) {
        int64_t end = 1 + 4 * round;
        int32_t first = c.correlation + 1;
        uint64_t slow = fx_counters(f).slow;
        encode_sequenced(&c, 0, 1, -1);
        encode_sequenced(&c, 0, 1, -1);
        encode_list_offsets(&c);
        encode_sequenced(&c, 1, 1, -1);
        encode_sequenced(&c, 0, 1, -1);
        encode_list_offsets(&c);
        encode_sequenced(&c, 0, 1, -1);
        client_flush(&c);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(client_receive_produce(&c, first + i, &offset), 0);
            assert_int_equal(offset, end + i);
        }
        assert_int_equal(receive_list_offsets(&c, first + 2), end + 2);
        assert_int_equal(client_receive_produce(&c, first + 3, &offset), 0);
        assert_int_equal(offset, round);
        assert_int_equal(client_receive_produce(&c, first + 4, &offset), 0);
        assert_int_equal(offset, end + 2);
        assert_int_equal(receive_list_offsets(&c, first + 5), end + 3);
        assert_int_equal(client_receive_produce(&c, first + 6, &offset), 0);
        assert_int_equal(offset, end + 3);
        assert_int_equal(fx_counters(f).slow - slow, round == 0);
    }
    client_close(&c);
}

/* An acks=0 produce cannot say what is wrong: the connection closes, what came with it is kept. */
static void test_a_bad_produce_without_acks_closes_and_keeps_its_neighbours(void **state)
{
    struct fixture *f = *state;
    struct client c, other;
    uint8_t byte;
    start_os(f, &c, 1);
    client_open(&other, f);
    client_produce(&c, "t", 0, 1, SLICE_LIT("opens the log"));
    for (int i = 0; i < GATHER; i++) {
        encode_sequenced(&c, i == 2 ? 9 : 0, 0, -1); /* there is no partition 9 */
    }
    client_flush(&c);
    assert_false(client_read(&c, &byte, 1));
    assert_int_equal(client_offset(&other, "t", 0, -1), GATHER);
    client_close(&other);
    client_close(&c);
}

static void gather_partitions(struct fixture *f, int partitions, uint64_t writes_most)
{
    enum { PARTITIONS_MAX = 100, REQUESTS = 3 };
    struct client c;
    struct wire_buf batch;
    struct produce_request q;
    struct produce_request_topic_produce_data t;
    struct produce_request_partition_produce_data p[PARTITIONS_MAX];
    struct produce_response m;
    start_os(f, &c, partitions);
    make_sequenced(&batch, -1);
    produce_request_init(&q);
    produce_request_topic_produce_data_init(&t);
    for (int i = 0; i < partitions; i++) {
        produce_request_partition_produce_data_init(&p[i]);
        p[i].index = i % 2 ? i : partitions - 2 - i;
        p[i].records = wire_buf_slice(&batch);
    }
    t.name = SLICE_LIT("t");
    t.partition_data = p;
    t.partition_data_count = (size_t)partitions;
    q.acks = 1;
    q.timeout_ms = 20000;
    q.topic_data = &t;
    q.topic_data_count = 1;
    for (int round = 0; round < 2; round++) { /* the first finds all logs cold */
        int32_t first = c.correlation + 1;
        uint64_t writes_before = atomic_load(&writes);
        for (int i = 0; i < REQUESTS; i++) {
            client_encode(&c, PRODUCE_REQUEST_KEY, PRODUCE_VERSION, &q);
        }
        client_flush(&c);
        for (int i = 0; i < REQUESTS; i++) {
            client_receive(&c, PRODUCE_REQUEST_KEY, PRODUCE_VERSION, first + i, &m);
            assert_int_equal(m.responses[0].partition_responses_count, partitions);
            for (int k = 0; k < partitions; k++) {
                assert_int_equal(m.responses[0].partition_responses[k].index, p[k].index);
                assert_int_equal(m.responses[0].partition_responses[k].error_code, 0);
                assert_int_equal(m.responses[0].partition_responses[k].base_offset,
                                 round * REQUESTS + i);
            }
        }
        uint64_t count = atomic_load(&writes) - writes_before;
        if (round > 0) { assert_in_range(count, partitions, writes_most); }
    }
    wire_buf_fini(&batch);
    client_close(&c);
}

static void test_many_partitions_are_one_write_each(void **state)
{
    gather_partitions(*state, 40, 40);
}

/* More than a gather takes in one round. */
static void test_very_many_partitions_are_appended_in_rounds(void **state)
{
    gather_partitions(*state, 100, 300);
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
        CASE(test_five_pipelined_produces_are_one_write_and_one_send),
        CASE(test_a_bad_batch_fails_alone),
        CASE(test_sequences_are_checked_among_what_arrives_together),
        CASE(test_another_request_sees_the_produces_before_it),
        CASE(test_a_bad_produce_without_acks_closes_and_keeps_its_neighbours),
        CASE(test_many_partitions_are_one_write_each),
        CASE(test_very_many_partitions_are_appended_in_rounds),
        CASE(test_acks_all_waits_for_the_device_and_acks_one_does_not),
        CASE(test_deleting_a_topic_answers_the_produces_that_wait_for_it),
        CASE(test_a_produce_whose_client_is_gone_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
