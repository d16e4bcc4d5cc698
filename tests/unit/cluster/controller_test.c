/* controller_test.c - mutations are whole or not at all, in order, durable before they are seen. */
#include "fixture.h"

static void test_replicas_come_before_the_image_and_go_after_it(void **state)
{
    struct fixture *f = *state;
    struct uuid id = create(f, "orders", 3);
    assert_int_equal(partitions_of(f, "orders"), 3);
    struct controller_mutation more = {
        .kind = CONTROLLER_CREATE_PARTITIONS, .id = id, .partitions_count = 5};
    ask(f, &more, 1, false);
    assert_int_equal(more.result, ERR_OK);
    struct controller_mutation gone = {.kind = CONTROLLER_DELETE_TOPIC, .id = id};
    ask(f, &gone, 1, false);
    assert_int_equal(gone.result, ERR_OK);
    assert_int_equal(partitions_of(f, "orders"), -1);
    assert_string_equal(f->trace,
                        "add orders 0-3 hidden; add orders 3-5 shown; remove orders hidden; ");
}

static void test_a_topic_gets_an_id_that_tools_can_take(void **state)
{
    struct fixture *f = *state;
    char text[UUID_TEXT_SIZE];
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        struct uuid id = create(f, name, 1);
        assert_int_not_equal(uuid_format(id, text)[0], '-');
        assert_int_equal(id.b[6] >> 4, 4); /* RFC 9562, random */
        assert_int_equal(id.b[8] >> 6, 2);
    }
}

static void test_what_is_wrong_is_refused_alone(void **state)
{
    struct fixture *f = *state;
    struct controller_mutation m[] = {create_of("a", 1), create_of("a", 1), create_of("b", 0),
                                      create_of("c", META_PARTITIONS_PER_TOPIC_MAX + 1),
                                      create_of("d", 2)};
    ask(f, m, 5, false);
    assert_int_equal(m[0].result, ERR_OK);
    assert_int_equal(m[1].result, ERR_EXISTS);
    assert_int_equal(m[2].result, ERR_LIMIT);
    assert_int_equal(m[3].result, ERR_LIMIT);
    assert_int_equal(m[4].result, ERR_OK);
    assert_int_equal(partitions_of(f, "a"), 1);
    assert_int_equal(partitions_of(f, "b"), -1);
    assert_int_equal(partitions_of(f, "d"), 2);
    struct controller_mutation absent[] = {
        {.kind = CONTROLLER_DELETE_TOPIC, .id = {{9}}},
        {.kind = CONTROLLER_CREATE_PARTITIONS, .id = {{9}}, .partitions_count = 2},
        {.kind = CONTROLLER_CREATE_PARTITIONS, .id = m[4].id, .partitions_count = 2},
        {.kind = CONTROLLER_CREATE_PARTITIONS,
         .id = m[4].id,
         .partitions_count = META_PARTITIONS_PER_TOPIC_MAX + 1}};
    ask(f, absent, 4, false);
    assert_int_equal(absent[0].result, ERR_NOTFOUND);
    assert_int_equal(absent[1].result, ERR_NOTFOUND);
    assert_int_equal(absent[2].result, ERR_RANGE);
    assert_int_equal(absent[3].result, ERR_LIMIT);
    assert_int_equal(partitions_of(f, "d"), 2);
}

static void test_a_dry_run_decides_and_changes_nothing(void **state)
{
    struct fixture *f = *state;
    create(f, "there", 1);
    f->trace[0] = '\0';
    struct controller_config bad = {SLICE_LIT("segment.ms"), SLICE_LIT("x"), CONTROLLER_CONFIG_SET};
    struct controller_mutation m[] = {create_of("new", 1), create_of("there", 1),
                                      alter_of(META_RESOURCE_TOPIC, "there", &bad, 1)};
    ask(f, m, 3, true);
    assert_int_equal(m[0].result, ERR_OK);
    assert_int_equal(m[1].result, ERR_EXISTS);
    assert_int_equal(m[2].result, ERR_INVALID);
    assert_non_null(strstr(m[2].message, "segment.ms"));
    assert_int_equal(partitions_of(f, "new"), -1);
    assert_string_equal(f->trace, "");
}

/* The replicas that were made for it are taken back, and what stands beside it is carried out. */
static void test_a_topic_without_replicas_is_not_shown(void **state)
{
    struct fixture *f = *state;
    struct controller_config c = {SLICE_LIT("max.connections"), SLICE_LIT("5"),
                                  CONTROLLER_CONFIG_SET};
    char buf[256];
    f->refuse = ERR_NOSPACE;
    struct controller_mutation m[] = {create_of("full", 2),
                                      alter_of(META_RESOURCE_BROKER, "", &c, 1)};
    ask(f, m, 2, false);
    f->refuse = ERR_OK;
    assert_int_equal(m[0].result, ERR_NOSPACE);
    assert_int_equal(m[1].result, ERR_OK);
    assert_int_equal(partitions_of(f, "full"), -1);
    assert_string_equal(override_of(f, META_RESOURCE_BROKER, "", "max.connections", buf), "5");
    assert_string_equal(f->trace, "add full 0-2 hidden; undo full 0-2 hidden; config 4/; ");
    create(f, "full", 2); /* the name is free */
    f->trace[0] = '\0';
    f->refuse = ERR_NOSPACE;
    struct controller_mutation more = {
        .kind = CONTROLLER_CREATE_PARTITIONS, .id = topic_id(f, "full"), .partitions_count = 5};
    ask(f, &more, 1, false);
    f->refuse = ERR_OK;
    assert_int_equal(more.result, ERR_NOSPACE);
    assert_int_equal(partitions_of(f, "full"), 2);
    assert_string_equal(f->trace, "add full 2-5 shown; undo full 2-5 shown; ");
}

static void test_everything_is_there_after_the_next_start(void **state)
{
    struct fixture *f = *state;
    char buf[256];
    struct controller_config c = {SLICE_LIT("segment.ms"), SLICE_LIT("900000"),
                                  CONTROLLER_CONFIG_SET};
    struct controller_mutation m = create_of("orders", 3);
    m.configs = &c;
    m.configs_count = 1;
    ask(f, &m, 1, false);
    assert_int_equal(m.result, ERR_OK);
    int64_t epoch = controller_broker_epoch(f->c);
    fixture_shut(f);
    assert_int_equal(fixture_open(f), ERR_OK);
    assert_int_equal(partitions_of(f, "orders"), 3);
    assert_string_equal(override_of(f, META_RESOURCE_TOPIC, "orders", "segment.ms", buf), "900000");
    assert_true(controller_broker_epoch(f->c) > epoch);
    struct meta_image *image = meta_latest(&f->publisher);
    const struct meta_broker *b = meta_broker(image, 1);
    assert_int_equal(b->epoch, controller_broker_epoch(f->c));
    assert_string_equal(b->rack, "rack-1");
    assert_int_equal(meta_broker_endpoint(b, SLICE_LIT("PLAINTEXT"))->port, 9092);
    meta_unref(image);
}

static void alter(struct fixture *f, const char *key, const char *value,
                  enum controller_config_op op, enum err wanted)
{
    struct controller_config c = {slice_str(key), slice_str(value), op};
    struct controller_mutation m = alter_of(META_RESOURCE_TOPIC, "t", &c, 1);
    ask(f, &m, 1, false);
    assert_int_equal(m.result, wanted);
}

static const char *policy(struct fixture *f, char buf[256])
{
    return override_of(f, META_RESOURCE_TOPIC, "t", "cleanup.policy", buf);
}

static void test_lists_grow_from_the_effective_value_and_shrink_to_nothing(void **state)
{
    struct fixture *f = *state;
    char buf[256];
    create(f, "t", 1);
    alter(f, "cleanup.policy", "compact", CONTROLLER_CONFIG_APPEND, ERR_OK);
    assert_string_equal(policy(f, buf), "delete,compact");
    alter(f, "cleanup.policy", "compact", CONTROLLER_CONFIG_APPEND, ERR_OK);
    assert_string_equal(policy(f, buf), "delete,compact"); /* once */
    alter(f, "cleanup.policy", "shred", CONTROLLER_CONFIG_APPEND, ERR_INVALID);
    alter(f, "cleanup.policy", "delete", CONTROLLER_CONFIG_SUBTRACT, ERR_OK);
    assert_string_equal(policy(f, buf), "compact");
    alter(f, "cleanup.policy", "compact", CONTROLLER_CONFIG_SUBTRACT, ERR_OK);
    assert_string_equal(policy(f, buf), "");
    alter(f, "cleanup.policy", "compact, compact", CONTROLLER_CONFIG_SET, ERR_OK);
    assert_string_equal(policy(f, buf), "compact");
    alter(f, "cleanup.policy", NULL, CONTROLLER_CONFIG_DELETE, ERR_OK);
    assert_string_equal(policy(f, buf), "-");
    alter(f, "cleanup.policy", NULL, CONTROLLER_CONFIG_DELETE, ERR_OK); /* nothing there: done */
    alter(f, "no.such.key", "1", CONTROLLER_CONFIG_SET, ERR_INVALID);
}

static void test_one_wrong_key_keeps_the_others_of_its_resource_as_they_were(void **state)
{
    struct fixture *f = *state;
    char buf[256];
    create(f, "t", 1);
    struct controller_config c[] = {
        {SLICE_LIT("segment.ms"), SLICE_LIT("5"), CONTROLLER_CONFIG_SET},
        {SLICE_LIT("retention.ms"), SLICE_LIT("abc"), CONTROLLER_CONFIG_SET}};
    struct controller_mutation m = alter_of(META_RESOURCE_TOPIC, "t", c, 2);
    ask(f, &m, 1, false);
    assert_int_equal(m.result, ERR_INVALID);
    assert_string_equal(override_of(f, META_RESOURCE_TOPIC, "t", "segment.ms", buf), "-");
}

static void test_replacing_drops_the_overrides_that_are_not_named(void **state)
{
    struct fixture *f = *state;
    char buf[256];
    create(f, "t", 1);
    create(f, "u", 1);
    struct controller_config c[] = {
        {SLICE_LIT("segment.ms"), SLICE_LIT("5"), CONTROLLER_CONFIG_SET},
        {SLICE_LIT("retention.ms"), SLICE_LIT("6"), CONTROLLER_CONFIG_SET}};
    struct controller_mutation m[] = {alter_of(META_RESOURCE_TOPIC, "t", c, 2),
                                      alter_of(META_RESOURCE_TOPIC, "u", c, 2)};
    ask(f, m, 2, false);
    m[0] = alter_of(META_RESOURCE_TOPIC, "t", &c[1], 1);
    m[0].replaces_all = true;
    ask(f, m, 1, false);
    assert_int_equal(m[0].result, ERR_OK);
    assert_string_equal(override_of(f, META_RESOURCE_TOPIC, "t", "segment.ms", buf), "-");
    assert_string_equal(override_of(f, META_RESOURCE_TOPIC, "t", "retention.ms", buf), "6");
    assert_string_equal(override_of(f, META_RESOURCE_TOPIC, "u", "segment.ms", buf), "5");
    m[0] = alter_of(META_RESOURCE_TOPIC, "absent", c, 2);
    ask(f, m, 1, false);
    assert_int_equal(m[0].result, ERR_NOTFOUND);
}

static void test_producer_ids_are_never_handed_out_twice(void **state)
{
    struct fixture *f = *state;
    int64_t next = 0;
    for (int start = 0; start < 3; start++) {
        for (int i = 0; i < 4; i++) {
            struct controller_mutation m = {.kind = CONTROLLER_PRODUCER_IDS};
            ask(f, &m, 1, false);
            assert_int_equal(m.result, ERR_OK);
            assert_int_equal(m.producer_id_first, next);
            next += CONTROLLER_PRODUCER_IDS_COUNT;
        }
        fixture_shut(f);
        assert_int_equal(fixture_open(f), ERR_OK);
    }
}

/* [CTL-2]: whoever came first wins, also when both wait for the same sync. */
static void test_requests_are_carried_out_in_their_order(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 50 };
    struct controller_mutation m[COUNT];
    static struct asked asked[COUNT]; /* too large for the stack of a sanitized test */
    for (int i = 0; i < COUNT; i++) {
        m[i] = create_of(i % 2 ? "same" : "other", i + 1);
        ask_begin(f, &asked[i], &m[i], 1, false);
    }
    for (int i = 0; i < COUNT; i++) {
        ask_end(f, &asked[i]);
        assert_int_equal(m[i].result, i < 2 ? ERR_OK : ERR_EXISTS);
    }
    assert_int_equal(partitions_of(f, "other"), 1);
    assert_int_equal(partitions_of(f, "same"), 2);
}

static void test_what_was_submitted_is_answered_at_the_stop(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 20 };
    struct controller_mutation m[COUNT];
    static struct asked asked[COUNT];
    char names[COUNT][16];
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        m[i] = create_of(names[i], 1);
        ask_begin(f, &asked[i], &m[i], 1, false);
    }
    controller_stop(f->c);
    struct meta_image *image = meta_latest(&f->publisher);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(atomic_load(&asked[i].is_done), 1);
        assert_true(m[i].result == ERR_OK || m[i].result == ERR_CLOSED);
        assert_int_equal(meta_topic(image, slice_str(names[i])) != NULL, m[i].result == ERR_OK);
    }
    meta_unref(image);
    controller_destroy(f->c);
    meta_publisher_fini(&f->publisher);
    f->c = NULL;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_replicas_come_before_the_image_and_go_after_it),
        CASE(test_a_topic_gets_an_id_that_tools_can_take),
        CASE(test_what_is_wrong_is_refused_alone),
        CASE(test_a_dry_run_decides_and_changes_nothing),
        CASE(test_a_topic_without_replicas_is_not_shown),
        CASE(test_everything_is_there_after_the_next_start),
        CASE(test_lists_grow_from_the_effective_value_and_shrink_to_nothing),
        CASE(test_one_wrong_key_keeps_the_others_of_its_resource_as_they_were),
        CASE(test_replacing_drops_the_overrides_that_are_not_named),
        CASE(test_producer_ids_are_never_handed_out_twice),
        CASE(test_requests_are_carried_out_in_their_order),
        CASE(test_what_was_submitted_is_answered_at_the_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
