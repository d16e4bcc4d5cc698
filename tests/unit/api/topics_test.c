/* topics_test.c - DeleteTopics, CreatePartitions, DescribeTopicPartitions, DescribeLogDirs,
 * DescribeCluster, ListPartitionReassignments. */
#include "fixture.h"

#include "wire/gen/create_partitions_request.h"
#include "wire/gen/create_partitions_response.h"
#include "wire/gen/delete_topics_request.h"
#include "wire/gen/delete_topics_response.h"
#include "wire/gen/describe_cluster_request.h"
#include "wire/gen/describe_cluster_response.h"
#include "wire/gen/describe_log_dirs_request.h"
#include "wire/gen/describe_log_dirs_response.h"
#include "wire/gen/describe_topic_partitions_request.h"
#include "wire/gen/describe_topic_partitions_response.h"
#include "wire/gen/list_partition_reassignments_request.h"
#include "wire/gen/list_partition_reassignments_response.h"

static struct uuid id_of(struct fixture *f, const char *name)
{
    struct meta_image *image = meta_latest(&f->publisher);
    const struct meta_topic *t = meta_topic(image, slice_str(name));
    struct uuid id = t ? t->id : (struct uuid){0};
    meta_unref(image);
    return id;
}

static bool exists(struct fixture *f, const char *name)
{
    return !uuid_is_zero(id_of(f, name));
}

/* ---- DeleteTopics */

static void delete_named(struct fixture *f, int16_t version, const char *const *names, size_t count,
                         int32_t timeout_ms, struct delete_topics_response *m)
{
    struct delete_topics_request q;
    struct slice slices[4];
    struct delete_topics_request_delete_topic_state states[4] = {0};
    delete_topics_request_init(&q);
    for (size_t i = 0; i < count; i++) {
        slices[i] = states[i].name = slice_str(names[i]);
    }
    if (version >= 6) {
        q.topics = states;
        q.topics_count = count;
    } else {
        q.topic_names = slices;
        q.topic_names_count = count;
    }
    q.timeout_ms = timeout_ms;
    fx_call(f, WIRE_API_DELETE_TOPICS, version, &q, m);
}

static void test_topics_are_deleted_by_name_in_every_version(void **state)
{
    struct fixture *f = *state;
    struct delete_topics_response m;
    const char *names[] = {"gone", "absent"};
    for (int16_t v = 1; v <= DELETE_TOPICS_REQUEST_VERSION_MAX; v++) {
        fx_create_topic(f, "gone", 2, NULL, NULL);
        delete_named(f, v, names, 2, 20000, &m);
        assert_int_equal(m.responses_count, 2);
        assert_int_equal(m.responses[0].error_code, 0);
        assert_int_equal(m.responses[1].error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
        assert_true(slice_eq_str(m.responses[0].name, "gone"));
        assert_false(exists(f, "gone"));
    }
}

static void test_topics_are_deleted_by_id(void **state)
{
    struct fixture *f = *state;
    struct delete_topics_request q;
    struct delete_topics_response m;
    struct delete_topics_request_delete_topic_state s[3];
    fx_create_topic(f, "by-id", 1, NULL, NULL);
    struct uuid id = id_of(f, "by-id");
    for (size_t i = 0; i < 3; i++) {
        s[i] = (struct delete_topics_request_delete_topic_state){.name = SLICE_NULL};
    }
    s[0].topic_id = id;
    s[1].topic_id.b[3] = 9; /* unknown */
    delete_topics_request_init(&q); /* s[2]: neither name nor id */
    q.topics = s;
    q.topics_count = 3;
    q.timeout_ms = 20000;
    fx_call(f, WIRE_API_DELETE_TOPICS, 6, &q, &m);
    assert_int_equal(m.responses[0].error_code, 0);
    assert_true(slice_eq_str(m.responses[0].name, "by-id"));
    assert_true(uuid_eq(m.responses[0].topic_id, id));
    assert_int_equal(m.responses[1].error_code, KAFKA_UNKNOWN_TOPIC_ID);
    assert_int_equal(m.responses[2].error_code, KAFKA_INVALID_REQUEST);
    assert_false(exists(f, "by-id"));
}

static void test_a_topic_that_is_named_twice_stays_and_is_answered_once(void **state)
{
    struct fixture *f = *state;
    struct delete_topics_response m;
    const char *names[] = {"named-twice", "other", "named-twice"};
    fx_create_topic(f, "named-twice", 1, NULL, NULL);
    fx_create_topic(f, "other", 1, NULL, NULL);
    delete_named(f, 5, names, 3, 20000, &m);
    assert_int_equal(m.responses_count, 2);
    assert_int_equal(m.responses[0].error_code, KAFKA_INVALID_REQUEST);
    assert_int_equal(m.responses[1].error_code, 0);
    assert_true(exists(f, "named-twice"));
    assert_false(exists(f, "other"));
}

static void test_without_time_nothing_is_done(void **state)
{
    struct fixture *f = *state;
    struct delete_topics_response m;
    const char *names[] = {"stays"};
    fx_create_topic(f, "stays", 1, NULL, NULL);
    delete_named(f, 6, names, 1, 0, &m);
    assert_int_equal(m.responses[0].error_code, KAFKA_REQUEST_TIMED_OUT);
    assert_true(exists(f, "stays"));
}

/* ---- CreatePartitions */

struct more {
    const char *name;
    int32_t count;
    int32_t assigned[2]; /* the brokers of one added partition each; 0: none */
};

static int16_t create_more(struct fixture *f, struct more more, int32_t timeout_ms, bool dry)
{
    struct create_partitions_request q;
    struct create_partitions_response m;
    struct create_partitions_request_create_partitions_topic t = {.name = slice_str(more.name),
                                                                  .count = more.count};
    struct create_partitions_request_create_partitions_assignment a[2];
    create_partitions_request_init(&q);
    for (size_t i = 0; i < 2 && more.assigned[i]; i++) {
        a[i].broker_ids = &more.assigned[i];
        a[i].broker_ids_count = 1;
        t.assignments = a;
        t.assignments_count = i + 1;
    }
    q.topics = &t;
    q.topics_count = 1;
    q.timeout_ms = timeout_ms;
    q.validate_only = dry;
    fx_call(f, WIRE_API_CREATE_PARTITIONS, 3, &q, &m);
    return m.results[0].error_code;
}

static int32_t partitions_of(struct fixture *f, const char *name)
{
    struct meta_image *image = meta_latest(&f->publisher);
    int32_t count = meta_topic_partitions_count(meta_topic(image, slice_str(name)));
    meta_unref(image);
    return count;
}

static void test_a_topic_gets_more_partitions_and_never_fewer(void **state)
{
    struct fixture *f = *state;
    fx_create_topic(f, "more", 2, NULL, NULL);
    const struct {
        struct more more;
        int16_t error;
        int32_t then;
    } cases[] = {
        {{"absent", 3, {0}}, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, 2},
        {{"more", 2, {0}}, KAFKA_INVALID_PARTITIONS, 2},
        {{"more", 1, {0}}, KAFKA_INVALID_PARTITIONS, 2},
        {{"more", -1, {0}}, KAFKA_INVALID_PARTITIONS, 2},
        {{"more", META_PARTITIONS_PER_TOPIC_MAX + 1, {0}}, KAFKA_INVALID_PARTITIONS, 2},
        {{"more", 4, {1}}, KAFKA_INVALID_REPLICA_ASSIGNMENT, 2}, /* two are added */
        {{"more", 4, {1, 9}}, KAFKA_INVALID_REPLICA_ASSIGNMENT, 2}, /* no such broker */
        {{"more", 4, {1, 1}}, 0, 4},
        {{"more", 5, {0}}, 0, 5},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(create_more(f, cases[i].more, 20000, true), cases[i].error);
        assert_int_equal(create_more(f, cases[i].more, 0, false),
                         cases[i].error ? cases[i].error : KAFKA_REQUEST_TIMED_OUT);
        assert_int_equal(create_more(f, cases[i].more, 20000, false), cases[i].error);
        assert_int_equal(partitions_of(f, "more"), cases[i].then);
    }
    struct partition *p = replica_find(f->replicas, id_of(f, "more"), 4);
    assert_non_null(p);
    partition_unref(p);
}

/* ---- DescribeTopicPartitions */

/* One page after the other, limit partitions each; counts topics and partitions that came. */
static void test_topics_come_page_by_page(void **state)
{
    struct fixture *f = *state;
    struct describe_topic_partitions_request_cursor cursor;
    struct describe_topic_partitions_request_topic_request names[] = {{SLICE_LIT("page-b")},
                                                                      {SLICE_LIT("page-a")},
                                                                      {SLICE_LIT("page-absent")},
                                                                      {SLICE_LIT("page-c")}};
    char last[64] = "";
    fx_create_topic(f, "page-a", 3, NULL, NULL);
    fx_create_topic(f, "page-b", 5, NULL, NULL);
    fx_create_topic(f, "page-c", 1, NULL, NULL);
    for (int32_t limit = 1; limit <= 10; limit++) {
        bool seen[3][5] = {{false}};
        struct describe_topic_partitions_request q;
        struct describe_topic_partitions_response m;
        describe_topic_partitions_request_init(&q);
        q.topics = names;
        q.topics_count = 4;
        q.response_partition_limit = limit;
        int pages = 0;
        do {
            int32_t on_page = 0;
            fx_call(f, WIRE_API_DESCRIBE_TOPIC_PARTITIONS, 0, &q, &m);
            for (size_t i = 0; i < m.topics_count; i++) {
                if (m.topics[i].error_code) {
                    assert_true(slice_eq_str(m.topics[i].name, "page-absent"));
                    assert_int_equal(m.topics[i].error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
                    continue;
                }
                int which = m.topics[i].name.at[5] - 'a';
                for (size_t k = 0; k < m.topics[i].partitions_count; k++) {
                    int32_t index = m.topics[i].partitions[k].partition_index;
                    assert_int_equal(m.topics[i].partitions[k].leader_id, 1);
                    assert_false(seen[which][index]);
                    seen[which][index] = true;
                    on_page++;
                }
            }
            assert_true(on_page <= limit);
            pages++;
            if (m.next_cursor) {
                slice_print(m.next_cursor->topic_name, last, sizeof last);
                cursor.topic_name = slice_str(last);
                cursor.partition_index = m.next_cursor->partition_index;
                q.cursor = &cursor;
            }
        } while (m.next_cursor && pages < 20);
        assert_int_equal(pages, (9 + limit - 1) / limit);
        assert_true(seen[0][2] && seen[1][0] && seen[1][4] && seen[2][0]);
    }
}

static void test_without_names_every_topic_comes_in_order(void **state)
{
    struct fixture *f = *state;
    struct describe_topic_partitions_request q;
    struct describe_topic_partitions_response m;
    fx_create_topic(f, "every-a", 1, NULL, NULL);
    fx_create_topic(f, "every-b", 1, NULL, NULL);
    describe_topic_partitions_request_init(&q);
    fx_call(f, WIRE_API_DESCRIBE_TOPIC_PARTITIONS, 0, &q, &m);
    assert_null(m.next_cursor);
    assert_true(m.topics_count >= 2);
    for (size_t i = 1; i < m.topics_count; i++) {
        assert_true(slice_cmp(m.topics[i - 1].name, m.topics[i].name) < 0);
    }
}

/* ---- DescribeLogDirs */

static void test_a_directory_shows_each_topic_once_with_its_sizes(void **state)
{
    struct fixture *f = *state;
    struct describe_log_dirs_request q;
    struct describe_log_dirs_response m;
    int32_t wanted[] = {2, 0, 77};
    struct describe_log_dirs_request_describable_log_dir_topic t[] = {
        {SLICE_LIT("sizes"), wanted, 3}, {SLICE_LIT("absent"), wanted, 1}};
    int64_t time = NOW_MS;
    fx_create_topic(f, "sizes", 3, NULL, NULL);
    fx_produce(f, "sizes", &time, 1); /* into partition 0 */
    describe_log_dirs_request_init(&q);
    q.topics = t;
    q.topics_count = 2;
    fx_call(f, WIRE_API_DESCRIBE_LOG_DIRS, 5, &q, &m);
    assert_int_equal(m.error_code, 0);
    assert_int_equal(m.results_count, 1);
    assert_int_equal(m.results[0].error_code, 0);
    assert_true(m.results[0].total_bytes > 0);
    assert_true(m.results[0].usable_bytes <= m.results[0].total_bytes);
    assert_int_equal(m.results[0].topics_count, 1);
    assert_true(slice_eq_str(m.results[0].topics[0].name, "sizes"));
    assert_int_equal(m.results[0].topics[0].partitions_count, 2);
    assert_int_equal(m.results[0].topics[0].partitions[0].partition_index, 0);
    assert_true(m.results[0].topics[0].partitions[0].partition_size > 61);
    assert_int_equal(m.results[0].topics[0].partitions[1].partition_index, 2);
    assert_int_equal(m.results[0].topics[0].partitions[1].partition_size, 0);
    q.topics = NULL; /* all */
    q.topics_count = 0;
    fx_call(f, WIRE_API_DESCRIBE_LOG_DIRS, 5, &q, &m);
    bool has_topic = false;
    for (size_t i = 0; i < m.results[0].topics_count; i++) {
        if (!slice_eq_str(m.results[0].topics[i].name, "sizes")) { continue; }
        assert_false(has_topic); /* clients keep the last entry of a topic */
        has_topic = true;
        assert_int_equal(m.results[0].topics[i].partitions_count, 3);
    }
    assert_true(has_topic);
}

/* ---- the cluster */

static void test_the_cluster_is_this_broker(void **state)
{
    struct fixture *f = *state;
    struct describe_cluster_request q;
    struct describe_cluster_response m;
    describe_cluster_request_init(&q);
    for (int16_t v = 0; v <= DESCRIBE_CLUSTER_REQUEST_VERSION_MAX; v++) {
        q.include_cluster_authorized_operations = v == 1;
        fx_call(f, WIRE_API_DESCRIBE_CLUSTER, v, &q, &m);
        assert_int_equal(m.error_code, 0);
        assert_true(slice_eq_str(m.cluster_id, CLUSTER));
        assert_int_equal(m.controller_id, 1);
        assert_int_equal(m.brokers_count, 1);
        assert_int_equal(m.brokers[0].port, net_port(f->net, 0));
        assert_true(slice_eq_str(m.brokers[0].rack, "rack-1"));
        assert_int_equal(m.cluster_authorized_operations, v == 1 ? 8096 : INT32_MIN);
    }
    q.include_cluster_authorized_operations = false;
    q.endpoint_type = 2;
    fx_call(f, WIRE_API_DESCRIBE_CLUSTER, 2, &q, &m);
    assert_int_equal(m.error_code, KAFKA_MISMATCHED_ENDPOINT_TYPE);
    q.endpoint_type = 3;
    fx_call(f, WIRE_API_DESCRIBE_CLUSTER, 2, &q, &m);
    assert_int_equal(m.error_code, KAFKA_UNSUPPORTED_ENDPOINT_TYPE);
}

static void test_no_replica_is_on_the_move(void **state)
{
    struct fixture *f = *state;
    struct list_partition_reassignments_request q;
    struct list_partition_reassignments_response m;
    list_partition_reassignments_request_init(&q);
    fx_call(f, WIRE_API_LIST_PARTITION_REASSIGNMENTS, 0, &q, &m);
    assert_int_equal(m.error_code, 0);
    assert_int_equal(m.topics_count, 0);
}

/* ---- with deletion switched off */

static void test_deletion_can_be_switched_off(void **state)
{
    (void)state;
    struct delete_topics_response m;
    const char *names[] = {"kept"};
    struct fixture *f = fx_create();
    void *own = f;
    assert_int_equal(
        config_set_put(&f->statics, SLICE_LIT("delete.topic.enable"), SLICE_LIT("false")), ERR_OK);
    fx_start(f);
    fx_create_topic(f, "kept", 1, NULL, NULL);
    delete_named(f, 6, names, 1, 20000, &m);
    assert_int_equal(m.responses[0].error_code, KAFKA_TOPIC_DELETION_DISABLED);
    delete_named(f, 2, names, 1, 20000, &m); /* has no such error */
    assert_int_equal(m.responses[0].error_code, KAFKA_INVALID_REQUEST);
    assert_true(exists(f, "kept"));
    fx_teardown(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topics_are_deleted_by_name_in_every_version),
        cmocka_unit_test(test_topics_are_deleted_by_id),
        cmocka_unit_test(test_a_topic_that_is_named_twice_stays_and_is_answered_once),
        cmocka_unit_test(test_without_time_nothing_is_done),
        cmocka_unit_test(test_a_topic_gets_more_partitions_and_never_fewer),
        cmocka_unit_test(test_topics_come_page_by_page),
        cmocka_unit_test(test_without_names_every_topic_comes_in_order),
        cmocka_unit_test(test_a_directory_shows_each_topic_once_with_its_sizes),
        cmocka_unit_test(test_the_cluster_is_this_broker),
        cmocka_unit_test(test_no_replica_is_on_the_move),
        cmocka_unit_test(test_deletion_can_be_switched_off),
    };
    return cmocka_run_group_tests(tests, fx_setup, fx_teardown);
}
