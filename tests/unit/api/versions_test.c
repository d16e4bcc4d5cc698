/* versions_test.c - every version that is advertised answers, in bytes that the same version reads
 * whole; what is not advertised closes the connection. */
#include "fixture.h"

#include "wire/gen/api_versions_request.h"
#include "wire/gen/api_versions_response.h"
#include "wire/gen/create_partitions_request.h"
#include "wire/gen/delete_records_request.h"
#include "wire/gen/describe_configs_request.h"
#include "wire/gen/fetch_request.h"
#include "wire/gen/list_offsets_request.h"
#include "wire/gen/metadata_request.h"
#include "wire/gen/offset_for_leader_epoch_request.h"

#define TOPIC "swept"

/* Room for any message's struct. */
union any {
    _Alignas(16) uint8_t bytes[4096];
};

/* Produce and Fetch have their own test; a Produce of nothing is not answered in every version. */
static void test_every_version_answers_a_request_of_defaults(void **state)
{
    struct fixture *f = *state;
    union any request, response;
    size_t swept = 0;
    for (size_t i = 0; i < api_handlers_count(); i++) {
        const struct wire_api *api = api_handler_at(i);
        const struct wire_message *m = fx_message(api->key, WIRE_REQUEST);
        assert_true(m->size <= sizeof request);
        assert_true(fx_message(api->key, WIRE_RESPONSE)->size <= sizeof response);
        for (int16_t v = api->version_min; v <= api->advertise_max; v++) {
            memset(&request, 0, sizeof request);
            m->init(&request);
            if (api->key == WIRE_API_PRODUCE) { continue; }
            if (api->key == WIRE_API_API_VERSIONS) {
                struct api_versions_request *q = (void *)&request;
                q->client_software_name = SLICE_LIT("test");
                q->client_software_version = SLICE_LIT("1.0");
            }
            fx_call(f, api->key, v, &request, &response);
            swept++;
        }
    }
    assert_true(swept > 80);
}

static void test_every_version_answers_for_a_partition(void **state)
{
    struct fixture *f = *state;
    union any response;
    struct list_offsets_request list;
    struct list_offsets_request_list_offsets_topic lt = {.name = SLICE_LIT(TOPIC)};
    struct list_offsets_request_list_offsets_partition lp;
    list_offsets_request_init(&list);
    list_offsets_request_list_offsets_partition_init(&lp);
    list.replica_id = -1;
    list.topics = &lt;
    list.topics_count = 1;
    lt.partitions = &lp;
    lt.partitions_count = 1;
    for (int16_t v = 1; v <= LIST_OFFSETS_REQUEST_VERSION_MAX; v++) {
        for (lp.timestamp = -2; lp.timestamp <= 0; lp.timestamp++) {
            fx_call(f, WIRE_API_LIST_OFFSETS, v, &list, &response);
            assert_non_null(strstr(f->json, "\"errorCode\":0"));
        }
    }
    struct offset_for_leader_epoch_request epoch;
    struct offset_for_leader_epoch_request_offset_for_leader_topic et = {.topic = SLICE_LIT(TOPIC)};
    struct offset_for_leader_epoch_request_offset_for_leader_partition ep;
    offset_for_leader_epoch_request_init(&epoch);
    offset_for_leader_epoch_request_offset_for_leader_partition_init(&ep);
    epoch.topics = &et;
    epoch.topics_count = 1;
    et.partitions = &ep;
    et.partitions_count = 1;
    for (int16_t v = 2; v <= OFFSET_FOR_LEADER_EPOCH_REQUEST_VERSION_MAX; v++) {
        fx_call(f, WIRE_API_OFFSET_FOR_LEADER_EPOCH, v, &epoch, &response);
        assert_non_null(strstr(f->json, "\"errorCode\":0"));
    }
    struct delete_records_request del;
    struct delete_records_request_delete_records_topic dt = {.name = SLICE_LIT(TOPIC)};
    struct delete_records_request_delete_records_partition dp = {0};
    delete_records_request_init(&del);
    del.topics = &dt;
    del.topics_count = 1;
    dt.partitions = &dp;
    dt.partitions_count = 1;
    for (int16_t v = 0; v <= DELETE_RECORDS_REQUEST_VERSION_MAX; v++) {
        fx_call(f, WIRE_API_DELETE_RECORDS, v, &del, &response);
        assert_non_null(strstr(f->json, "\"errorCode\":0"));
    }
}

static void test_every_version_answers_for_a_topic(void **state)
{
    struct fixture *f = *state;
    union any response;
    struct metadata_request meta;
    struct metadata_request_metadata_request_topic mt;
    metadata_request_init(&meta);
    metadata_request_metadata_request_topic_init(&mt);
    mt.name = SLICE_LIT(TOPIC);
    meta.topics = &mt;
    meta.topics_count = 1;
    for (int16_t v = 0; v <= METADATA_REQUEST_VERSION_MAX; v++) {
        fx_call(f, WIRE_API_METADATA, v, &meta, &response);
        assert_non_null(strstr(f->json, "\"" TOPIC "\""));
    }
    struct describe_configs_request conf;
    struct describe_configs_request_describe_configs_resource r = {.resource_type = 2};
    r.resource_name = SLICE_LIT(TOPIC);
    describe_configs_request_init(&conf);
    conf.resources = &r;
    conf.resources_count = 1;
    conf.include_synonyms = true;
    for (int16_t v = 1; v <= DESCRIBE_CONFIGS_REQUEST_VERSION_MAX; v++) {
        conf.include_documentation = v >= 3;
        fx_call(f, WIRE_API_DESCRIBE_CONFIGS, v, &conf, &response);
        assert_non_null(strstr(f->json, "retention.ms"));
    }
    struct create_partitions_request more;
    struct create_partitions_request_create_partitions_topic pt = {.name = SLICE_LIT(TOPIC)};
    create_partitions_request_init(&more);
    more.topics = &pt;
    more.topics_count = 1;
    more.timeout_ms = 20000;
    for (int16_t v = 0; v <= CREATE_PARTITIONS_REQUEST_VERSION_MAX; v++) {
        pt.count = v + 2;
        fx_call(f, WIRE_API_CREATE_PARTITIONS, v, &more, &response);
        assert_non_null(strstr(f->json, "\"errorCode\":0"));
    }
}

static void test_a_version_that_is_not_advertised_closes_the_connection(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < api_handlers_count(); i++) {
        const struct wire_api *api = api_handler_at(i);
        if (api->key == WIRE_API_API_VERSIONS) { continue; }
        uint8_t frame[] = {0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0};
        int16_t versions[] = {(int16_t)(api->advertise_max + 1), (int16_t)(api->version_min - 1)};
        for (size_t k = 0; k < 2; k++) {
            frame[4] = (uint8_t)(api->key >> 8);
            frame[5] = (uint8_t)api->key;
            frame[6] = (uint8_t)(versions[k] >> 8);
            frame[7] = (uint8_t)versions[k];
            fx_write(f, slice_of(frame, sizeof frame));
            fx_expect_closed(f);
        }
    }
}

static void test_an_api_that_is_not_there_closes_the_connection(void **state)
{
    struct fixture *f = *state;
    const int16_t keys[] = {WIRE_API_JOIN_GROUP, 4, 999, -1, INT16_MAX};
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        uint8_t frame[] = {0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0};
        frame[4] = (uint8_t)((uint16_t)keys[i] >> 8);
        frame[5] = (uint8_t)keys[i];
        fx_write(f, slice_of(frame, sizeof frame));
        fx_expect_closed(f);
    }
    const uint8_t cut[] = {0, 0, 0, 5, 0, 3, 0, 9, 0}; /* not even a correlation id */
    fx_write(f, slice_of(cut, sizeof cut));
    fx_expect_closed(f);
}

/* KIP-511: the answer has version 0 and says what there is. */
static void test_a_new_version_of_api_versions_is_answered_in_version_0(void **state)
{
    struct fixture *f = *state;
    struct api_versions_response m;
    const uint8_t frame[] = {0, 0, 0, 12, 0, 18, 0x7f, 0xff, 0, 0, 0, 9, 0xff, 0xff, 0, 0};
    f->correlation = 9;
    fx_write(f, slice_of(frame, sizeof frame));
    assert_true(fx_receive(f, WIRE_API_API_VERSIONS, 0, &m));
    assert_int_equal(m.error_code, KAFKA_UNSUPPORTED_VERSION);
    assert_int_equal(m.api_keys_count, api_handlers_count());
}

static void test_a_client_must_have_a_name(void **state)
{
    struct fixture *f = *state;
    const struct {
        const char *name, *version;
        enum kafka_error error;
    } cases[] = {{"librdkafka", "2.0.2", KAFKA_NONE}, {"a", "1", KAFKA_NONE},
                 {"", "1", KAFKA_INVALID_REQUEST},    {"a", "", KAFKA_INVALID_REQUEST},
                 {"-a", "1", KAFKA_INVALID_REQUEST},  {"a.", "1", KAFKA_INVALID_REQUEST},
                 {"a b", "1", KAFKA_INVALID_REQUEST}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_versions_request q;
        struct api_versions_response m;
        api_versions_request_init(&q);
        q.client_software_name = slice_str(cases[i].name);
        q.client_software_version = slice_str(cases[i].version);
        fx_call(f, WIRE_API_API_VERSIONS, 3, &q, &m);
        assert_int_equal(m.error_code, cases[i].error);
    }
}

static int setup(void **state)
{
    fx_setup(state);
    fx_create_topic(*state, TOPIC, 1, NULL, NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_version_answers_a_request_of_defaults),
        cmocka_unit_test(test_every_version_answers_for_a_partition),
        cmocka_unit_test(test_every_version_answers_for_a_topic),
        cmocka_unit_test(test_a_version_that_is_not_advertised_closes_the_connection),
        cmocka_unit_test(test_an_api_that_is_not_there_closes_the_connection),
        cmocka_unit_test(test_a_new_version_of_api_versions_is_answered_in_version_0),
        cmocka_unit_test(test_a_client_must_have_a_name),
    };
    return cmocka_run_group_tests(tests, setup, fx_teardown);
}
