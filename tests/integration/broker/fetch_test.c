/* fetch_test.c - how fetched bytes leave, and what ends a fetch that waits. */
#include "integration/broker/fixture.h"

#define LARGE ((size_t)900 << 10) /* below max.message.bytes */
#define COPIED_MAX ((size_t)16 << 10) /* slices below are copied into the answer */

static struct slice pattern(uint8_t *at, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1103515245u + 12345u;
        at[i] = (uint8_t)(seed >> 16);
    }
    return slice_of(at, size);
}

/* Every record of the stored batches, in order, is the pattern of its offset. */
static int64_t check_records(struct slice records, int64_t from, size_t size)
{
    uint8_t *want = malloc(size);
    assert_non_null(want);
    while (records.size) {
        struct batch_iter it;
        struct batch_record r;
        struct batch_header h;
        assert_int_equal(batch_peek(records, &h), ERR_OK);
        size_t batch = batch_size(&h);
        assert_true(batch <= records.size); /* never half a batch */
        assert_int_equal(batch_check_crc(slice_sub(records, 0, batch)), ERR_OK);
        assert_int_equal(batch_iter_open(&it, NULL, slice_sub(records, 0, batch), UINT64_MAX, NULL),
                         ERR_OK);
        while (batch_iter_next(&it, &r)) {
            assert_int_equal(r.offset, from);
            assert_true(slice_eq(r.value, pattern(want, size, (unsigned)from)));
            from++;
        }
        assert_int_equal(it.err, ERR_OK);
        records = slice_sub(records, batch, records.size);
    }
    free(want);
    return from;
}

static void fill(struct client *c, const char *topic, int count, size_t size)
{
    uint8_t *at = malloc(size);
    assert_non_null(at);
    for (int i = 0; i < count; i++) {
        assert_int_equal(client_produce(c, topic, 0, -1, pattern(at, size, (unsigned)i)), i);
    }
    free(at);
}

/* Calls are counted before they are made, bytes after: what is counted after an answer is there
 * when the only processor has answered somebody else. */
static struct net_counters counters_settled(const struct fixture *f, struct client *other)
{
    client_ask_nothing(other);
    return fx_counters(f);
}

static void test_a_large_fetch_leaves_by_sendfile(void **state)
{
    enum { COUNT = 8 };
    struct fixture *f = *state;
    struct client c, other;
    fx_start(f);
    client_open(&c, f);
    client_open(&other, f);
    client_create_topic(&c, "large", 1, NULL, NULL);
    fill(&c, "large", COUNT, LARGE);
    struct net_counters before = counters_settled(f, &other);
    client_send_fetch(&c, "large", 0, 0, 0);
    const struct fetch_response_partition_data *p = client_receive_fetch(&c);
    assert_int_equal(p->error_code, 0);
    assert_int_equal(p->high_watermark, COUNT);
    assert_true(p->records.size > COUNT * LARGE);
    assert_int_equal(check_records(p->records, 0, LARGE), COUNT);
    struct net_counters after = counters_settled(f, &other);
    uint64_t by_file = after.file_bytes - before.file_bytes;
    uint64_t copied = after.copied_bytes - before.copied_bytes; /* a rest of a cut piece */
    assert_int_equal(by_file + copied, p->records.size);
    assert_true(copied < COPIED_MAX);
    /* Pieces of 256 KiB at most; a full socket may cut some. */
    assert_true(after.file_pieces - before.file_pieces >= by_file / (256u << 10));
    client_close(&other);
    client_close(&c);
}

static void test_a_small_fetch_is_one_send(void **state)
{
    struct fixture *f = *state;
    struct client c, other;
    fx_start(f);
    client_open(&c, f);
    client_open(&other, f);
    client_create_topic(&c, "small", 1, NULL, NULL);
    fill(&c, "small", 10, 100);
    client_send_fetch(&c, "small", 0, 0, 0);
    size_t size = client_receive_fetch(&c)->records.size;
    struct net_counters before = counters_settled(f, &other);
    client_send_fetch(&c, "small", 0, 0, 0);
    const struct fetch_response_partition_data *p = client_receive_fetch(&c);
    assert_int_equal(check_records(p->records, 0, 100), 10);
    struct net_counters after = fx_counters(f);
    assert_int_equal(after.send_calls - before.send_calls, 1);
    assert_int_equal(after.recv_calls - before.recv_calls, 1);
    after = counters_settled(f, &other);
    assert_true(size < COPIED_MAX);
    assert_int_equal(after.file_pieces, before.file_pieces);
    assert_int_equal(after.copied_bytes - before.copied_bytes, size);
    client_close(&other);
    client_close(&c);
}

/* The bytes of a topic that is deleted while they leave still leave: the slice pins its file. */
static void test_a_fetch_under_way_survives_the_deletion_of_its_topic(void **state)
{
    enum { COUNT = 40 };
    struct fixture *f = *state;
    struct client c, other;
    fx_start(f);
    client_open(&c, f);
    client_open(&other, f);
    client_create_topic(&other, "large", 1, "file.delete.delay.ms", "0");
    fill(&other, "large", COUNT, LARGE);
    uint64_t before = fx_counters(f).file_pieces;
    client_send_fetch(&c, "large", 0, 0, 0);
    while (fx_counters(f).file_pieces == before) { /* it has begun, and the socket is too small */
        sched_yield();
    }
    client_send_delete(&other, "large");
    client_receive_delete(&other);
    const struct fetch_response_partition_data *p = client_receive_fetch(&c);
    assert_int_equal(p->error_code, 0);
    assert_int_equal(check_records(p->records, 0, LARGE), COUNT);
    client_close(&other);
    client_close(&c);
}

static void test_a_waiting_fetch_is_woken_by_a_produce(void **state)
{
    struct fixture *f = *state;
    struct client c, other;
    fx_start(f);
    client_open(&c, f);
    client_open(&other, f);
    client_create_topic(&other, "t", 2, NULL, NULL);
    uint64_t parked = fx_counters(f).parked;
    client_send_fetch(&c, "t", 1, 0, 600000);
    fx_await_parked(f, parked + 1);
    client_produce(&other, "t", 0, -1, SLICE_LIT("another partition"));
    uint8_t byte;
    assert_int_equal(recv(c.fd, &byte, 1, MSG_DONTWAIT), -1);
    client_produce(&other, "t", 1, -1, SLICE_LIT("this one"));
    const struct fetch_response_partition_data *p = client_receive_fetch(&c);
    assert_int_equal(p->error_code, 0);
    assert_int_equal(p->high_watermark, 1);
    assert_true(p->records.size > 0);
    client_close(&other);
    client_close(&c);
}

/* Only waits that are long and brought nothing make the connection patient. */
static void test_fetches_in_vain_make_their_connection_patient(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fx_start(f);
    client_open(&c, f);
    client_create_topic(&c, "t", 1, NULL, NULL);
    for (int i = 0; i < 3; i++) { /* too short to count */
        client_send_fetch(&c, "t", 0, 0, NET_VAIN_MS - 1);
        assert_int_equal(client_receive_fetch(&c)->records.size, 0);
    }
    assert_int_equal(fx_counters(f).patient, 0);
    for (int i = 0; i < 3; i++) {
        client_send_fetch(&c, "t", 0, 0, NET_VAIN_MS);
        assert_int_equal(client_receive_fetch(&c)->records.size, 0);
    }
    assert_int_equal(fx_counters(f).patient, 1);
    client_produce(&c, "t", 0, -1, SLICE_LIT("found"));
    client_send_fetch(&c, "t", 0, 0, NET_VAIN_MS);
    assert_true(client_receive_fetch(&c)->records.size > 0);
    client_send_fetch(&c, "t", 0, 1, NET_VAIN_MS);
    assert_int_equal(client_receive_fetch(&c)->records.size, 0);
    assert_int_equal(fx_counters(f).patient, 1);
    client_close(&c);
}

/* What cannot be read by others is not read by a fetch that waits: it wakes with the watermark. */
static void test_a_waiting_fetch_does_not_see_what_is_not_on_the_device(void **state)
{
    struct fixture *f = *state;
    struct client c, other;
    fx_start(f);
    client_open(&c, f);
    client_open(&other, f);
    client_create_topic(&other, "t", 1, NULL, NULL);
    uint64_t parked = fx_counters(f).parked;
    client_send_fetch(&c, "t", 0, 0, 600000);
    fx_await_parked(f, parked + 1);
    gate_set(true);
    client_produce(&other, "t", 0, 1, SLICE_LIT("appended"));
    gate_await();
    uint8_t byte;
    assert_int_equal(recv(c.fd, &byte, 1, MSG_DONTWAIT), -1);
    gate_set(false);
    const struct fetch_response_partition_data *p = client_receive_fetch(&c);
    assert_int_equal(p->high_watermark, 1);
    assert_true(p->records.size > 0);
    client_close(&other);
    client_close(&c);
}

static void test_a_fetch_that_waits_for_a_deleted_topic_is_told_at_once(void **state)
{
    struct fixture *f = *state;
    struct client c, by_id, other;
    struct fetch_request q;
    struct fetch_response m;
    struct fetch_request_fetch_topic t;
    struct fetch_request_fetch_partition p;
    fx_start(f);
    client_open(&c, f);
    client_open(&by_id, f);
    client_open(&other, f);
    fetch_request_init(&q);
    fetch_request_fetch_topic_init(&t);
    fetch_request_fetch_partition_init(&p);
    p.partition_max_bytes = 1 << 20;
    t.topic_id = client_create_topic(&other, "doomed", 1, NULL, NULL);
    t.partitions = &p;
    t.partitions_count = 1;
    q.max_wait_ms = 600000;
    q.min_bytes = 1;
    q.topics = &t;
    q.topics_count = 1;
    uint64_t parked = fx_counters(f).parked;
    client_send_fetch(&c, "doomed", 0, 0, 600000);
    client_send(&by_id, FETCH_REQUEST_KEY, 16, &q);
    fx_await_parked(f, parked + 2);
    client_send_delete(&other, "doomed");
    client_receive_delete(&other);
    assert_int_equal(client_receive_fetch(&c)->error_code, 3);
    client_receive(&by_id, FETCH_REQUEST_KEY, 16, by_id.correlation, &m);
    assert_int_equal(m.responses[0].partitions[0].error_code, 3);
    client_close(&other);
    client_close(&by_id);
    client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_large_fetch_leaves_by_sendfile),
        CASE(test_a_small_fetch_is_one_send),
        CASE(test_a_fetch_under_way_survives_the_deletion_of_its_topic),
        CASE(test_a_waiting_fetch_is_woken_by_a_produce),
        CASE(test_fetches_in_vain_make_their_connection_patient),
        CASE(test_a_waiting_fetch_does_not_see_what_is_not_on_the_device),
        CASE(test_a_fetch_that_waits_for_a_deleted_topic_is_told_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
