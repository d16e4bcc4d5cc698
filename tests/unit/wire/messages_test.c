/* messages_test.c - what generated messages do beyond the golden vectors: versions, defaults,
 * budgets, secrets. */
#include "base/arena.h"
#include "wire/gen/apis.h"
#include "wire/gen/fetch_response.h"
#include "wire/gen/init_producer_id_request.h"
#include "wire/gen/join_group_request.h"
#include "wire/gen/metadata_request.h"
#include "wire/gen/produce_request.h"
#include "wire/gen/request_header.h"
#include "wire/gen/sasl_authenticate_request.h"
#include "wire/reader.h"
#include "wire/text.h"
#include "wire/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_the_table_of_apis_says_what_kafka_says(void **state)
{
    (void)state;
    assert_int_equal(wire_apis_count, 95);
    for (size_t i = 0; i < wire_apis_count; i++) {
        assert_int_equal(wire_apis[i].key, i);
    }
    const struct wire_api *produce = &wire_apis[WIRE_API_PRODUCE];
    assert_string_equal(produce->name, "Produce");
    assert_int_equal(produce->version_min, 3);
    assert_int_equal(produce->version_max, 13);
    assert_int_equal(produce->advertise_min, 0);
    assert_int_equal(produce->advertise_max, 13);
    const struct wire_api *init = &wire_apis[WIRE_API_INIT_PRODUCER_ID];
    assert_int_equal(init->version_max, 6);
    assert_int_equal(init->advertise_max, 5); /* the latest is unstable */
    const struct wire_api *removed = &wire_apis[WIRE_API_LEADER_AND_ISR];
    assert_true(removed->version_max < removed->version_min);
    assert_int_equal(wire_apis[WIRE_API_VOTE].listeners, WIRE_LISTENER_CONTROLLER);
    assert_ptr_equal(wire_api_find(18), &wire_apis[18]);
    assert_null(wire_api_find(-1));
    assert_null(wire_api_find(95));
}

static void test_header_versions_follow_the_flexible_version(void **state)
{
    (void)state;
    const struct wire_api *produce = &wire_apis[WIRE_API_PRODUCE];
    assert_int_equal(wire_api_request_header_version(produce, 8), 1);
    assert_int_equal(wire_api_request_header_version(produce, 9), 2);
    assert_int_equal(wire_api_response_header_version(produce, 8), 0);
    assert_int_equal(wire_api_response_header_version(produce, 9), 1);
    const struct wire_api *handshake = &wire_apis[WIRE_API_SASL_HANDSHAKE];
    assert_int_equal(wire_api_request_header_version(handshake, 1), 1);
    const struct wire_api *versions = &wire_apis[WIRE_API_API_VERSIONS];
    assert_int_equal(wire_api_request_header_version(versions, 3), 2);
    assert_int_equal(wire_api_response_header_version(versions, 3), 0);
}

static void test_the_client_id_is_never_compact(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0, 18, 0, 3, 0, 0, 0, 7, 0, 2, 'm', 'e', 0};
    struct arena a;
    arena_init(&a, 1024, 4096);
    struct wire_reader r;
    wire_reader_init(&r, slice_of(bytes, sizeof bytes));
    struct request_header h;
    assert_int_equal(request_header_decode(&r, 2, &a, &h), ERR_OK);
    assert_true(slice_eq_str(h.client_id, "me"));
    assert_int_equal(h.correlation_id, 7);
    assert_int_equal(wire_left(&r), 0);
    arena_fini(&a);
}

static void test_a_value_that_the_version_lacks_is_an_error_unless_ignorable(void **state)
{
    (void)state;
    struct init_producer_id_request m;
    init_producer_id_request_init(&m);
    m.transaction_timeout_ms = 1;
    m.producer_id = 5; /* from version 3 on */
    assert_true(init_producer_id_request_size(3, &m) > 0);
    assert_int_equal(init_producer_id_request_size(2, &m), 0);
    uint8_t memory[64];
    struct wire_writer w;
    wire_writer_init_fixed(&w, (struct mslice){memory, sizeof memory});
    assert_int_equal(init_producer_id_request_encode(&w, 2, &m), ERR_UNSUPPORTED);
    m.producer_id = -1;
    assert_true(init_producer_id_request_size(2, &m) > 0);
    struct join_group_request j;
    join_group_request_init(&j);
    size_t size = join_group_request_size(5, &j);
    j.reason = SLICE_LIT("because"); /* 8+, ignorable */
    assert_int_equal(join_group_request_size(5, &j), size);
}

static void test_a_field_that_the_version_lacks_has_its_default(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0xff, 0xff, 0, 0, 0, 9}; /* version 0: no id, a timeout */
    struct arena a;
    arena_init(&a, 1024, 4096);
    struct wire_reader r;
    wire_reader_init(&r, slice_of(bytes, sizeof bytes));
    struct init_producer_id_request m;
    memset(&m, 0x5a, sizeof m);
    assert_int_equal(init_producer_id_request_decode(&r, 0, &a, &m), ERR_OK);
    assert_null(m.transactional_id.at);
    assert_int_equal(m.transaction_timeout_ms, 9);
    assert_true(m.producer_id == -1);
    assert_int_equal(m.producer_epoch, -1);
    arena_fini(&a);
}

static void test_null_and_empty_arrays_are_told_apart(void **state)
{
    (void)state;
    static const uint8_t null[] = {0xff, 0xff, 0xff, 0xff};
    static const uint8_t empty[] = {0, 0, 0, 0};
    struct arena a;
    arena_init(&a, 1024, 4096);
    struct metadata_request m;
    struct wire_reader r;
    wire_reader_init(&r, slice_of(null, sizeof null));
    assert_int_equal(metadata_request_decode(&r, 1, &a, &m), ERR_OK);
    assert_null(m.topics);
    wire_reader_init(&r, slice_of(empty, sizeof empty));
    assert_int_equal(metadata_request_decode(&r, 1, &a, &m), ERR_OK);
    assert_non_null(m.topics);
    assert_int_equal(m.topics_count, 0);
    wire_reader_init(&r, slice_of(null, sizeof null));
    assert_int_equal(metadata_request_decode(&r, 0, &a, &m), ERR_MALFORMED);
    assert_true(m.allow_auto_topic_creation); /* on error the defaults stand */
    arena_fini(&a);
}

/* 100,000 topics of one byte each would decode to 32 bytes each: beyond 8 times the wire size plus
 * 64 KiB. */
static void test_decoding_stops_at_its_budget(void **state)
{
    (void)state;
    size_t count = 100000;
    size_t size = 4 + 3 * count;
    uint8_t *bytes = calloc(1, size);
    assert_non_null(bytes);
    bytes[1] = (uint8_t)(count >> 16);
    bytes[2] = (uint8_t)(count >> 8);
    bytes[3] = (uint8_t)count;
    for (size_t i = 0; i < count; i++) {
        bytes[4 + 3 * i + 1] = 1;
        bytes[4 + 3 * i + 2] = 'x';
    }
    struct arena a;
    arena_init(&a, 4096, WIRE_DECODE_BUDGET(size));
    struct wire_reader r;
    wire_reader_init(&r, slice_of(bytes, size));
    struct metadata_request m;
    assert_int_equal(metadata_request_decode(&r, 1, &a, &m), ERR_NOMEM);
    assert_int_equal(m.topics_count, 0);
    assert_true(a.total <= a.limit);
    arena_fini(&a);
    free(bytes);
}

static void test_unknown_tagged_fields_are_skipped_and_not_sent_on(void **state)
{
    (void)state;
    /* Metadata 13 without topics: null array, two booleans, one tagged field of two bytes that
     * nobody knows. */
    static const uint8_t bytes[] = {0, 1, 0, 1, 0x63, 2, 0xaa, 0xbb};
    struct arena a;
    arena_init(&a, 1024, 4096);
    struct wire_reader r;
    wire_reader_init(&r, slice_of(bytes, sizeof bytes));
    struct metadata_request m;
    assert_int_equal(metadata_request_decode(&r, 13, &a, &m), ERR_OK);
    assert_int_equal(wire_left(&r), 0);
    uint8_t memory[64];
    struct wire_writer w;
    wire_writer_init_fixed(&w, (struct mslice){memory, sizeof memory});
    assert_int_equal(metadata_request_encode(&w, 13, &m), ERR_OK);
    assert_int_equal(w.pos, 4);
    assert_memory_equal(memory, "\x00\x01\x00\x00", 4);
    arena_fini(&a);
}

static void test_sensitive_fields_are_hidden_and_records_are_sizes(void **state)
{
    (void)state;
    char text[512];
    struct wire_text t;
    struct sasl_authenticate_request s;
    sasl_authenticate_request_init(&s);
    s.auth_bytes = SLICE_LIT("user pass");
    wire_text_init(&t, text, sizeof text);
    sasl_authenticate_request_print(&t, 2, &s);
    assert_string_equal(text, "{\"authBytes\":\"hidden\"}");
    struct produce_request_partition_produce_data part = {.index = 3,
                                                          .records = SLICE_LIT("12345")};
    struct produce_request_topic_produce_data topic = {
        .name = SLICE_LIT("t\n"), .partition_data = &part, .partition_data_count = 1};
    struct produce_request p;
    produce_request_init(&p);
    p.acks = -1;
    p.topic_data = &topic;
    p.topic_data_count = 1;
    wire_text_init(&t, text, sizeof text);
    produce_request_print(&t, 9, &p);
    assert_string_equal(
        text,
        "{\"transactionalId\":null,\"acks\":-1,\"timeoutMs\":0,\"topicData\":[{\"name\":\"t\\n\","
        "\"partitionData\":[{\"index\":3,\"recordsSizeInBytes\":5}]}]}");
}

static void test_printing_is_bounded(void **state)
{
    (void)state;
    char text[32];
    struct wire_text t;
    struct metadata_request m;
    metadata_request_init(&m);
    for (size_t cap = 1; cap <= sizeof text; cap++) {
        memset(text, 'Z', sizeof text);
        wire_text_init(&t, text, cap);
        metadata_request_print(&t, 1, &m);
        assert_true(t.len < cap);
        assert_int_equal(text[t.len], 0);
        assert_true(t.cut == (cap <= strlen("{\"topics\":[]}")));
    }
}

static void test_records_of_a_fetch_can_be_left_out_for_sendfile(void **state)
{
    (void)state;
    struct fetch_response_partition_data part;
    fetch_response_partition_data_init(&part);
    part.records = (struct slice){NULL, 500};
    struct fetch_response_fetchable_topic_response topic;
    fetch_response_fetchable_topic_response_init(&topic);
    topic.partitions = &part;
    topic.partitions_count = 1;
    struct fetch_response m;
    fetch_response_init(&m);
    m.responses = &topic;
    m.responses_count = 1;
    uint8_t memory[256];
    struct wire_hole holes[1];
    struct wire_writer w;
    wire_writer_init_fixed(&w, (struct mslice){memory, sizeof memory});
    wire_writer_set_holes(&w, holes, 1);
    assert_int_equal(fetch_response_encode(&w, 13, &m), ERR_OK);
    assert_int_equal(w.holes_count, 1);
    assert_int_equal(w.pos + 500, fetch_response_size(13, &m));
    /* The same with the bytes in place is the same message around them. */
    uint8_t whole[1024];
    static const uint8_t records[500];
    struct wire_writer x;
    part.records = slice_of(records, sizeof records);
    wire_writer_init_fixed(&x, (struct mslice){whole, sizeof whole});
    assert_int_equal(fetch_response_encode(&x, 13, &m), ERR_OK);
    assert_int_equal(x.pos, w.pos + 500);
    assert_memory_equal(whole, memory, holes[0].pos);
    assert_memory_equal(whole + holes[0].pos + 500, memory + holes[0].pos, w.pos - holes[0].pos);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table_of_apis_says_what_kafka_says),
        cmocka_unit_test(test_header_versions_follow_the_flexible_version),
        cmocka_unit_test(test_the_client_id_is_never_compact),
        cmocka_unit_test(test_a_value_that_the_version_lacks_is_an_error_unless_ignorable),
        cmocka_unit_test(test_a_field_that_the_version_lacks_has_its_default),
        cmocka_unit_test(test_null_and_empty_arrays_are_told_apart),
        cmocka_unit_test(test_decoding_stops_at_its_budget),
        cmocka_unit_test(test_unknown_tagged_fields_are_skipped_and_not_sent_on),
        cmocka_unit_test(test_sensitive_fields_are_hidden_and_records_are_sizes),
        cmocka_unit_test(test_printing_is_bounded),
        cmocka_unit_test(test_records_of_a_fetch_can_be_left_out_for_sendfile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
