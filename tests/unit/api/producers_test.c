/* producers_test.c - ids for idempotent producers, and FindCoordinator. */
#include "fixture.h"

#include "api/producer_ids.h"
#include "wire/gen/find_coordinator_request.h"
#include "wire/gen/find_coordinator_response.h"
#include "wire/gen/init_producer_id_request.h"
#include "wire/gen/init_producer_id_response.h"

static void test_of_two_blocks_the_larger_remainder_is_kept(void **state)
{
    (void)state;
    int64_t id = -1;
    struct producer_ids *p = producer_ids_create();
    assert_non_null(p);
    assert_false(producer_ids_take(p, &id));
    producer_ids_add(p, 1000, 3);
    assert_true(producer_ids_take(p, &id));
    assert_int_equal(id, 1000);
    producer_ids_add(p, 5000, 2); /* two are left: they go first */
    assert_true(producer_ids_take(p, &id));
    assert_int_equal(id, 1001);
    producer_ids_add(p, 7000, 2);
    assert_true(producer_ids_take(p, &id));
    assert_int_equal(id, 7000);
    assert_true(producer_ids_take(p, &id));
    assert_int_equal(id, 7001);
    assert_false(producer_ids_take(p, &id));
    producer_ids_destroy(p);
    producer_ids_destroy(NULL);
}

static struct init_producer_id_response init(struct fixture *f, struct slice transactional_id,
                                             int64_t id, int16_t epoch)
{
    struct init_producer_id_request q;
    struct init_producer_id_response m;
    init_producer_id_request_init(&q);
    q.transactional_id = transactional_id;
    q.transaction_timeout_ms = 1000;
    q.producer_id = id;
    q.producer_epoch = epoch;
    fx_call(f, WIRE_API_INIT_PRODUCER_ID, 5, &q, &m);
    return m;
}

/* More than two blocks, so some come from the controller. */
static void test_every_producer_gets_an_id_of_its_own(void **state)
{
    struct fixture *f = *state;
    int64_t last = -1;
    for (int i = 0; i < 2 * CONTROLLER_PRODUCER_IDS_COUNT + 5; i++) {
        struct init_producer_id_response m = init(f, SLICE_NULL, -1, -1);
        assert_int_equal(m.error_code, 0);
        assert_int_equal(m.producer_epoch, 0);
        assert_true(m.producer_id > last);
        last = m.producer_id;
    }
}

/* Only transactional ids keep theirs: an idempotent producer that starts anew gets a new one. */
static void test_a_producer_that_names_its_old_id_gets_a_new_one(void **state)
{
    struct fixture *f = *state;
    int64_t old = init(f, SLICE_NULL, -1, -1).producer_id;
    struct init_producer_id_response m = init(f, SLICE_NULL, old, 3);
    assert_int_equal(m.error_code, 0);
    assert_true(m.producer_id > old);
    assert_int_equal(m.producer_epoch, 0);
    assert_int_equal(init(f, SLICE_NULL, old, -1).error_code, KAFKA_INVALID_REQUEST);
    assert_int_equal(init(f, SLICE_NULL, -1, 3).error_code, KAFKA_INVALID_REQUEST);
}

static void test_a_transactional_id_is_refused_for_good(void **state)
{
    struct fixture *f = *state;
    struct init_producer_id_response m = init(f, SLICE_LIT("tx"), -1, -1);
    assert_int_equal(m.error_code, KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    assert_int_equal(m.producer_id, -1);
    assert_int_equal(m.producer_epoch, -1);
    assert_int_equal(init(f, SLICE_LIT(""), -1, -1).error_code, KAFKA_INVALID_REQUEST);
}

static void test_every_coordinator_is_here(void **state)
{
    struct fixture *f = *state;
    struct find_coordinator_request q;
    struct find_coordinator_response m;
    struct slice keys[2] = {SLICE_LIT("g1"), SLICE_LIT("")};
    for (int16_t v = 0; v <= FIND_COORDINATOR_REQUEST_VERSION_MAX; v++) {
        find_coordinator_request_init(&q);
        q.key = SLICE_LIT("g1");
        if (v >= 4) {
            q.key = SLICE_LIT("");
            q.coordinator_keys = keys;
            q.coordinator_keys_count = 2;
        }
        fx_call(f, WIRE_API_FIND_COORDINATOR, v, &q, &m);
        if (v < 4) {
            assert_int_equal(m.error_code, 0);
            assert_int_equal(m.node_id, 1);
            assert_int_equal(m.port, net_port(f->net, 0));
            continue;
        }
        assert_int_equal(m.coordinators_count, 2);
        for (size_t i = 0; i < 2; i++) {
            assert_true(slice_eq(m.coordinators[i].key, keys[i]));
            assert_int_equal(m.coordinators[i].error_code, 0);
            assert_true(slice_eq_str(m.coordinators[i].host, "127.0.0.1"));
            assert_int_equal(m.coordinators[i].port, net_port(f->net, 0));
        }
    }
}

static void test_a_coordinator_of_no_kind_is_refused_key_by_key(void **state)
{
    struct fixture *f = *state;
    struct find_coordinator_request q;
    struct find_coordinator_response m;
    struct slice key = SLICE_LIT("k");
    find_coordinator_request_init(&q);
    q.key_type = 9;
    q.coordinator_keys = &key;
    q.coordinator_keys_count = 1;
    fx_call(f, WIRE_API_FIND_COORDINATOR, 4, &q, &m);
    assert_int_equal(m.coordinators[0].error_code, KAFKA_INVALID_REQUEST);
    assert_int_equal(m.coordinators[0].node_id, -1);
    q.key_type = 2; /* share groups have theirs from version 6 */
    fx_call(f, WIRE_API_FIND_COORDINATOR, 5, &q, &m);
    assert_int_equal(m.coordinators[0].error_code, KAFKA_INVALID_REQUEST);
    q = (struct find_coordinator_request){.key = SLICE_LIT("k"), .key_type = 9};
    fx_call(f, WIRE_API_FIND_COORDINATOR, 3, &q, &m);
    assert_int_equal(m.error_code, KAFKA_INVALID_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_two_blocks_the_larger_remainder_is_kept),
        cmocka_unit_test(test_every_producer_gets_an_id_of_its_own),
        cmocka_unit_test(test_a_producer_that_names_its_old_id_gets_a_new_one),
        cmocka_unit_test(test_a_transactional_id_is_refused_for_good),
        cmocka_unit_test(test_every_coordinator_is_here),
        cmocka_unit_test(test_a_coordinator_of_no_kind_is_refused_key_by_key),
    };
    return cmocka_run_group_tests(tests, fx_setup, fx_teardown);
}
