/* stop_test.c - a graceful stop ends every request with an answer, and the next start knows all
 * that was acknowledged. */
#include "integration/broker/fixture.h"

#include "wire/gen/delete_records_request.h"
#include "wire/gen/delete_records_response.h"
#include "wire/gen/describe_configs_request.h"
#include "wire/gen/describe_configs_response.h"
#include "wire/gen/init_producer_id_request.h"
#include "wire/gen/init_producer_id_response.h"
#include "wire/gen/metadata_request.h"
#include "wire/gen/metadata_response.h"

#include <time.h>

static void *stop_main(void *arg)
{
    fx_stop(arg);
    return NULL;
}

/* Begins a stop on another thread, and waits until no connection is accepted any more. */
static pthread_t stop_begin(struct fixture *f)
{
    pthread_t thread;
    uint16_t port = broker_port(f->broker);
    assert_int_equal(pthread_create(&thread, NULL, stop_main, f), 0);
    for (int fd = client_connect(port); fd >= 0; fd = client_connect(port)) {
        close(fd);
        sched_yield();
    }
    return thread;
}

static void expect_end(struct client *c)
{
    uint8_t byte;
    assert_false(client_read(c, &byte, 1));
}

static void test_produces_that_wait_are_acknowledged_by_the_last_flush(void **state)
{
    enum { COUNT = 20 };
    struct fixture *f = *state;
    struct client c;
    struct wire_buf batch;
    int64_t offset;
    fx_start(f);
    client_open(&c, f);
    client_create_topic(&c, "t", 1, NULL, NULL);
    make_batch(&batch, SLICE_LIT("waits for the stop"));
    gate_set(true);
    uint64_t parked = fx_counters(f).parked;
    int32_t first = c.correlation + 1;
    for (int i = 0; i < COUNT; i++) {
        client_encode_produce(&c, "t", 0, -1, wire_buf_slice(&batch));
    }
    client_flush(&c);
    fx_await_parked(f, parked + COUNT);
    pthread_t thread = stop_begin(f);
    uint8_t byte;
    assert_int_equal(recv(c.fd, &byte, 1, MSG_DONTWAIT), -1); /* nothing is promised yet */
    gate_set(false);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(client_receive_produce(&c, first + i, &offset), 0);
        assert_int_equal(offset, i);
    }
    expect_end(&c);
    client_close(&c);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fx_start(f);
    client_open(&c, f);
    assert_int_equal(client_offset(&c, "t", 0, -1), COUNT);
    assert_int_equal(client_produce(&c, "t", 0, -1, SLICE_LIT("goes on")), COUNT);
    client_close(&c);
    wire_buf_fini(&batch);
}

/* Empty, and without an error that would make the client forget its position. */
static void test_a_fetch_that_waits_is_answered_at_the_stop(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fx_start(f);
    client_open(&c, f);
    client_create_topic(&c, "t", 1, NULL, NULL);
    uint64_t parked = fx_counters(f).parked;
    client_send_fetch(&c, "t", 0, 0, 600000);
    fx_await_parked(f, parked + 1);
    pthread_t thread = stop_begin(f);
    const struct fetch_response_partition_data *p = client_receive_fetch(&c);
    assert_int_equal(p->records.size, 0);
    /* NOT_LEADER_OR_FOLLOWER: retriable, look for the leader again. */
    assert_true(p->error_code == 0 || p->error_code == 6);
    expect_end(&c);
    client_close(&c);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A client that takes nothing holds the stop no longer than it may. */
static void test_a_stop_does_not_wait_for_ever(void **state)
{
    struct fixture *f = *state;
    struct client c;
    uint8_t *value = mem_zalloc(900000);
    assert_non_null(value);
    fx_start(f);
    client_open(&c, f);
    client_create_topic(&c, "t", 1, NULL, NULL);
    for (int i = 0; i < 30; i++) {
        client_produce(&c, "t", 0, 1, slice_of(value, 900000));
    }
    mem_free(value);
    client_produce(&c, "t", 0, -1, SLICE_LIT("all is readable"));
    uint64_t before = fx_counters(f).file_pieces;
    client_send_fetch(&c, "t", 0, 0, 0);
    while (fx_counters(f).file_pieces == before) {
        sched_yield();
    }
    uint64_t begun = sys_mono_ns(f->sys);
    broker_stop(f->broker, 100);
    f->broker = NULL;
    assert_true(sys_mono_ns(f->sys) - begun < 10000 * SYS_MS);
    client_close(&c);
}

/* ---- the next start */

struct known {
    struct uuid id;
    int32_t partitions_count;
    char cluster_id[64];
    int64_t start, end;
    char retention[32];
};

static void ask_metadata(struct client *c, const char *topic, struct known *out)
{
    struct metadata_request q;
    struct metadata_response m;
    struct metadata_request_metadata_request_topic t;
    metadata_request_init(&q);
    metadata_request_metadata_request_topic_init(&t);
    t.name = slice_str(topic);
    q.topics = &t;
    q.topics_count = 1;
    q.allow_auto_topic_creation = false;
    client_call(c, METADATA_REQUEST_KEY, 12, &q, &m);
    assert_int_equal(m.topics_count, 1);
    assert_int_equal(m.topics[0].error_code, 0);
    assert_int_equal(m.brokers_count, 1);
    out->id = m.topics[0].topic_id;
    out->partitions_count = (int32_t)m.topics[0].partitions_count;
    assert_true(m.cluster_id.size < sizeof out->cluster_id);
    memcpy(out->cluster_id, m.cluster_id.at, m.cluster_id.size);
    for (size_t i = 0; i < m.topics[0].partitions_count; i++) {
        assert_int_equal(m.topics[0].partitions[i].error_code, 0);
        assert_int_equal(m.topics[0].partitions[i].leader_id, m.brokers[0].node_id);
    }
}

static void ask_config(struct client *c, const char *topic, const char *key, char out[32])
{
    struct describe_configs_request q;
    struct describe_configs_response m;
    struct describe_configs_request_describe_configs_resource r;
    struct slice name = slice_str(key);
    describe_configs_request_init(&q);
    describe_configs_request_describe_configs_resource_init(&r);
    r.resource_type = META_RESOURCE_TOPIC;
    r.resource_name = slice_str(topic);
    r.configuration_keys = &name;
    r.configuration_keys_count = 1;
    q.resources = &r;
    q.resources_count = 1;
    client_call(c, DESCRIBE_CONFIGS_REQUEST_KEY, 4, &q, &m);
    assert_int_equal(m.results_count, 1);
    assert_int_equal(m.results[0].configs_count, 1);
    slice_print(m.results[0].configs[0].value, out, 32);
}

static void ask(struct client *c, const char *topic, int32_t index, struct known *out)
{
    *out = (struct known){0};
    ask_metadata(c, topic, out);
    ask_config(c, topic, "retention.ms", out->retention);
    out->start = client_offset(c, topic, index, -2);
    out->end = client_offset(c, topic, index, -1);
}

static void delete_records(struct client *c, const char *topic, int32_t index, int64_t offset)
{
    struct delete_records_request q;
    struct delete_records_response m;
    struct delete_records_request_delete_records_topic t;
    struct delete_records_request_delete_records_partition p;
    delete_records_request_init(&q);
    delete_records_request_delete_records_topic_init(&t);
    delete_records_request_delete_records_partition_init(&p);
    p.partition_index = index;
    p.offset = offset;
    t.name = slice_str(topic);
    t.partitions = &p;
    t.partitions_count = 1;
    q.topics = &t;
    q.topics_count = 1;
    q.timeout_ms = 20000;
    client_call(c, DELETE_RECORDS_REQUEST_KEY, 2, &q, &m);
    assert_int_equal(m.topics[0].partitions[0].error_code, 0);
    assert_int_equal(m.topics[0].partitions[0].low_watermark, offset);
}

static void test_topics_configs_and_offsets_are_there_after_each_start(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct known first, later;
    fx_start(f);
    client_open(&c, f);
    client_create_topic(&c, "kept", 3, "retention.ms", "-1");
    client_create_topic(&c, "gone", 1, NULL, NULL);
    client_send_delete(&c, "gone");
    client_receive_delete(&c);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(client_produce(&c, "kept", 2, -1, SLICE_LIT("value")), i);
    }
    delete_records(&c, "kept", 2, 4);
    ask(&c, "kept", 2, &first);
    assert_int_equal(first.partitions_count, 3);
    assert_int_equal(first.start, 4);
    assert_int_equal(first.end, 10);
    assert_string_equal(first.retention, "-1");
    for (int start = 0; start < 3; start++) {
        client_close(&c);
        fx_stop(f);
        fx_start(f);
        client_open(&c, f);
        ask(&c, "kept", 2, &later);
        assert_memory_equal(&first, &later, sizeof first);
        client_send_fetch(&c, "kept", 2, 4, 0);
        const struct fetch_response_partition_data *p = client_receive_fetch(&c);
        struct batch_header h;
        assert_int_equal(p->error_code, 0);
        assert_int_equal(batch_peek(p->records, &h), ERR_OK);
        assert_int_equal(h.base_offset, 4);
        assert_int_equal(client_offset(&c, "kept", 0, -1), 0);
        assert_int_equal(replica_partitions_count(broker_replicas(f->broker)), 3);
    }
    client_close(&c);
}

/* ---- idempotent producers */

static void init_producer(struct client *c, int64_t *id, int16_t *epoch)
{
    struct init_producer_id_request q;
    struct init_producer_id_response m;
    init_producer_id_request_init(&q);
    q.transactional_id = SLICE_NULL;
    client_call(c, INIT_PRODUCER_ID_REQUEST_KEY, 4, &q, &m);
    assert_int_equal(m.error_code, 0);
    *id = m.producer_id;
    *epoch = m.producer_epoch;
}

/* With the time of now: a producer is forgotten a day after its last record's time. */
static int produce_as(struct client *c, int64_t id, int16_t epoch, int32_t sequence,
                      int64_t *offset)
{
    struct batch_build_record r = {.timestamp = (int64_t)time(NULL) * 1000,
                                   .value = SLICE_LIT("once")};
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    struct wire_buf batch;
    o.producer_id = id;
    o.producer_epoch = epoch;
    o.base_sequence = sequence;
    wire_buf_init(&batch, 1u << 20);
    assert_int_equal(batch_build(&o, &r, 1, NULL, &batch), ERR_OK);
    client_encode_produce(c, "t", 0, -1, wire_buf_slice(&batch));
    wire_buf_fini(&batch);
    client_flush(c);
    return client_receive_produce(c, c->correlation, offset);
}

static void test_a_producer_goes_on_after_a_restart_without_a_duplicate(void **state)
{
    struct fixture *f = *state;
    struct client c;
    int64_t id, other, offset;
    int16_t epoch, other_epoch;
    fx_start(f);
    client_open(&c, f);
    client_create_topic(&c, "t", 1, NULL, NULL);
    init_producer(&c, &id, &epoch);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(produce_as(&c, id, epoch, i, &offset), 0);
        assert_int_equal(offset, i);
    }
    client_close(&c);
    fx_stop(f);
    fx_start(f);
    client_open(&c, f);
    assert_int_equal(produce_as(&c, id, epoch, 2, &offset), 0); /* sent again: answered, once */
    assert_int_equal(offset, 2);
    assert_int_equal(client_offset(&c, "t", 0, -1), 3);
    assert_int_equal(produce_as(&c, id, epoch, 9, &offset), 45); /* OUT_OF_ORDER_SEQUENCE_NUMBER */
    assert_int_equal(produce_as(&c, id, epoch, 3, &offset), 0);
    assert_int_equal(offset, 3);
    init_producer(&c, &other, &other_epoch);
    assert_true(other > id); /* never handed out twice */
    client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_produces_that_wait_are_acknowledged_by_the_last_flush),
        CASE(test_a_fetch_that_waits_is_answered_at_the_stop),
        CASE(test_a_stop_does_not_wait_for_ever),
        CASE(test_topics_configs_and_offsets_are_there_after_each_start),
        CASE(test_a_producer_goes_on_after_a_restart_without_a_duplicate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
