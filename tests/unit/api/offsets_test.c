/* offsets_test.c - ListOffsets, OffsetForLeaderEpoch, DeleteRecords. */
#include "fixture.h"

#include "wire/gen/delete_records_request.h"
#include "wire/gen/delete_records_response.h"
#include "wire/gen/list_offsets_request.h"
#include "wire/gen/list_offsets_response.h"
#include "wire/gen/offset_for_leader_epoch_request.h"
#include "wire/gen/offset_for_leader_epoch_response.h"

#define VERSION 11

struct asked {
    const char *topic;
    int64_t time;
    int32_t partition, epoch, replica;
    int16_t version;
};

static struct list_offsets_response_list_offsets_partition_response list(struct fixture *f,
                                                                         struct asked a)
{
    struct list_offsets_request q;
    struct list_offsets_response m;
    struct list_offsets_request_list_offsets_topic t = {.name = slice_str(a.topic)};
    struct list_offsets_request_list_offsets_partition p = {
        .partition_index = a.partition, .current_leader_epoch = a.epoch, .timestamp = a.time};
    list_offsets_request_init(&q);
    q.replica_id = a.replica;
    q.topics = &t;
    q.topics_count = 1;
    t.partitions = &p;
    t.partitions_count = 1;
    fx_call(f, WIRE_API_LIST_OFFSETS, a.version, &q, &m);
    assert_int_equal(m.topics_count, 1);
    assert_int_equal(m.topics[0].partitions_count, 1);
    return m.topics[0].partitions[0];
}

static struct asked asks(const char *topic, int64_t time)
{
    return (struct asked){
        .topic = topic, .time = time, .epoch = -1, .replica = -1, .version = VERSION};
}

static void expect(struct fixture *f, const char *topic, int64_t time, int64_t offset,
                   int64_t found_time)
{
    struct list_offsets_response_list_offsets_partition_response p = list(f, asks(topic, time));
    assert_int_equal(p.error_code, 0);
    assert_int_equal(p.offset, offset);
    assert_int_equal(p.timestamp, found_time);
}

static int32_t epoch_of(struct fixture *f, const char *topic)
{
    return list(f, asks(topic, -1)).leader_epoch;
}

/* error and low watermark */
static int16_t delete_before(struct fixture *f, const char *topic, int32_t partition,
                             int64_t offset, int64_t *low)
{
    struct delete_records_request q;
    struct delete_records_response m;
    struct delete_records_request_delete_records_topic t = {.name = slice_str(topic)};
    struct delete_records_request_delete_records_partition p = {partition, offset};
    delete_records_request_init(&q);
    q.topics = &t;
    q.topics_count = 1;
    q.timeout_ms = 20000;
    t.partitions = &p;
    t.partitions_count = 1;
    fx_call(f, WIRE_API_DELETE_RECORDS, 2, &q, &m);
    *low = m.topics[0].partitions[0].low_watermark;
    return m.topics[0].partitions[0].error_code;
}

static void test_the_ends_and_the_times_of_a_log(void **state)
{
    struct fixture *f = *state;
    const int64_t times[] = {NOW_MS + 2000, NOW_MS + 1000, NOW_MS + 1500}, later = NOW_MS + 500;
    fx_create_topic(f, "times", 1, NULL, NULL);
    expect(f, "times", -1, 0, -1);
    expect(f, "times", -2, 0, -1);
    expect(f, "times", -3, -1, -1);
    expect(f, "times", 0, -1, -1);
    fx_produce(f, "times", times, 3);
    fx_produce(f, "times", &later, 1);
    expect(f, "times", -1, 4, -1);
    expect(f, "times", -2, 0, -1);
    expect(f, "times", -3, 0, NOW_MS + 2000);
    expect(f, "times", -4, 0, -1); /* nothing is tiered: the local start is the start */
    expect(f, "times", -5, -1, -1);
    expect(f, "times", -6, -1, -1);
    expect(f, "times", NOW_MS, 0, NOW_MS + 2000);
    expect(f, "times", NOW_MS + 1800, 0, NOW_MS + 2000);
    expect(f, "times", NOW_MS + 2001, -1, -1);
}

static void test_special_times_depend_on_the_version(void **state)
{
    struct fixture *f = *state;
    const struct {
        int16_t version;
        int64_t time;
        int16_t error;
    } cases[] = {{6, -3, 35}, {7, -3, 0},   {7, -4, 35}, {8, -4, 0},   {8, -5, 35},
                 {9, -5, 0},  {10, -6, 35}, {11, -6, 0}, {11, -7, 35}, {1, -1, 0}};
    fx_create_topic(f, "specials", 1, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct asked a = asks("specials", cases[i].time);
        a.version = cases[i].version;
        if (a.version < 4) { a.epoch = -1; }
        assert_int_equal(list(f, a).error_code, cases[i].error);
    }
}

static void test_what_cannot_be_asked_is_said_for_its_partition(void **state)
{
    struct fixture *f = *state;
    fx_create_topic(f, "asked", 1, NULL, NULL);
    int32_t epoch = epoch_of(f, "asked");
    struct asked a = asks("absent", -1);
    assert_int_equal(list(f, a).error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    const int32_t partitions[] = {1, -1, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < COUNT_OF(partitions); i++) {
        a = asks("asked", -1);
        a.partition = partitions[i];
        assert_int_equal(list(f, a).error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    }
    a = asks("asked", -1);
    a.epoch = epoch;
    assert_int_equal(list(f, a).error_code, 0);
    a.epoch = epoch + 1;
    assert_int_equal(list(f, a).error_code, KAFKA_UNKNOWN_LEADER_EPOCH);
    if (epoch > 0) {
        a.epoch = epoch - 1;
        assert_int_equal(list(f, a).error_code, KAFKA_FENCED_LEADER_EPOCH);
    }
}

static void test_a_partition_that_is_asked_for_twice_is_refused(void **state)
{
    struct fixture *f = *state;
    struct list_offsets_request q;
    struct list_offsets_response m;
    struct list_offsets_request_list_offsets_topic t = {.name = SLICE_LIT("twice")};
    struct list_offsets_request_list_offsets_partition p[5];
    const int32_t indexes[5] = {2, 0, 1, 0, 0};
    fx_create_topic(f, "twice", 3, NULL, NULL);
    list_offsets_request_init(&q);
    q.replica_id = -1;
    q.topics = &t;
    q.topics_count = 1;
    t.partitions = p;
    t.partitions_count = 5;
    for (size_t i = 0; i < 5; i++) {
        p[i] = (struct list_offsets_request_list_offsets_partition){indexes[i], -1, -1};
    }
    fx_call(f, WIRE_API_LIST_OFFSETS, VERSION, &q, &m);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(m.topics[0].partitions[i].partition_index, indexes[i]);
        assert_int_equal(m.topics[0].partitions[i].error_code,
                         indexes[i] ? 0 : KAFKA_INVALID_REQUEST);
    }
}

static void test_records_are_deleted_up_to_the_watermark(void **state)
{
    struct fixture *f = *state;
    int64_t times[10], low;
    for (int i = 0; i < 10; i++) {
        times[i] = NOW_MS + i;
    }
    fx_create_topic(f, "trim", 1, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        fx_produce(f, "trim", times, 10);
    }
    const struct {
        int64_t offset;
        int16_t error;
        int64_t low;
    } cases[] = {{0, 0, 0},   {25, 0, 25}, {20, 0, 25}, /* done already */
                 {25, 0, 25}, {41, 1, -1}, {-2, 1, -1}, {-1, 0, 40}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(delete_before(f, "trim", 0, cases[i].offset, &low), cases[i].error);
        assert_int_equal(low, cases[i].low);
    }
    expect(f, "trim", -2, 40, -1);
    expect(f, "trim", NOW_MS, -1, -1); /* nothing below the start is found */
    assert_int_equal(fx_produce(f, "trim", times, 1), 40);
    expect(f, "trim", NOW_MS, 40, NOW_MS);
    assert_int_equal(delete_before(f, "absent", 0, 0, &low), KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(delete_before(f, "trim", -1, 0, &low), KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
}

static void test_a_topic_that_only_compacts_keeps_its_records(void **state)
{
    struct fixture *f = *state;
    int64_t low;
    fx_create_topic(f, "compacted", 1, "cleanup.policy", "compact");
    fx_create_topic(f, "both", 1, "cleanup.policy", "compact,delete");
    assert_int_equal(delete_before(f, "compacted", 0, 0, &low), KAFKA_POLICY_VIOLATION);
    assert_int_equal(low, -1);
    assert_int_equal(delete_before(f, "both", 0, 0, &low), 0);
}

static struct offset_for_leader_epoch_response_epoch_end_offset
end_of(struct fixture *f, const char *topic, int32_t epoch, int32_t current)
{
    struct offset_for_leader_epoch_request q;
    struct offset_for_leader_epoch_response m;
    struct offset_for_leader_epoch_request_offset_for_leader_topic t = {.topic = slice_str(topic)};
    struct offset_for_leader_epoch_request_offset_for_leader_partition p = {
        .current_leader_epoch = current, .leader_epoch = epoch};
    offset_for_leader_epoch_request_init(&q);
    q.topics = &t;
    q.topics_count = 1;
    t.partitions = &p;
    t.partitions_count = 1;
    fx_call(f, WIRE_API_OFFSET_FOR_LEADER_EPOCH, 4, &q, &m);
    return m.topics[0].partitions[0];
}

static void test_an_epoch_ends_where_the_next_begins(void **state)
{
    struct fixture *f = *state;
    int64_t time = NOW_MS;
    fx_create_topic(f, "epochs", 1, NULL, NULL);
    fx_produce(f, "epochs", &time, 1);
    int32_t now = epoch_of(f, "epochs");
    struct offset_for_leader_epoch_response_epoch_end_offset e = end_of(f, "epochs", now, -1);
    assert_int_equal(e.error_code, 0);
    assert_int_equal(e.leader_epoch, now);
    assert_int_equal(e.end_offset, 1);
    e = end_of(f, "epochs", now + 1, -1); /* not begun */
    assert_int_equal(e.error_code, 0);
    assert_int_equal(e.leader_epoch, -1);
    assert_int_equal(e.end_offset, -1);
    e = end_of(f, "epochs", -1, -1);
    assert_int_equal(e.end_offset, -1);
    assert_int_equal(end_of(f, "epochs", now, now).error_code, 0);
    assert_int_equal(end_of(f, "epochs", now, now + 1).error_code, KAFKA_UNKNOWN_LEADER_EPOCH);
    assert_int_equal(end_of(f, "absent", 0, -1).error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_ends_and_the_times_of_a_log),
        cmocka_unit_test(test_special_times_depend_on_the_version),
        cmocka_unit_test(test_what_cannot_be_asked_is_said_for_its_partition),
        cmocka_unit_test(test_a_partition_that_is_asked_for_twice_is_refused),
        cmocka_unit_test(test_records_are_deleted_up_to_the_watermark),
        cmocka_unit_test(test_a_topic_that_only_compacts_keeps_its_records),
        cmocka_unit_test(test_an_epoch_ends_where_the_next_begins),
    };
    return cmocka_run_group_tests(tests, fx_setup, fx_teardown);
}
