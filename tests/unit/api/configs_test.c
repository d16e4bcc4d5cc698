/* configs_test.c - DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources. */
#include "fixture.h"

#include "wire/gen/alter_configs_request.h"
#include "wire/gen/alter_configs_response.h"
#include "wire/gen/describe_configs_request.h"
#include "wire/gen/describe_configs_response.h"
#include "wire/gen/incremental_alter_configs_request.h"
#include "wire/gen/incremental_alter_configs_response.h"
#include "wire/gen/list_config_resources_request.h"
#include "wire/gen/list_config_resources_response.h"

#define TOPIC META_RESOURCE_TOPIC
#define BROKER META_RESOURCE_BROKER
#define KEYS_MAX 4

#define RESULT struct describe_configs_response_describe_configs_result
#define ROW struct describe_configs_response_describe_configs_resource_result

/* All keys when names is NULL; count 0 with names: an empty list. */
static const RESULT *describe_keys(struct fixture *f, int8_t type, const char *name,
                                   const char *const *names, size_t count)
{
    static struct describe_configs_response m;
    struct describe_configs_request q;
    struct describe_configs_request_describe_configs_resource r = {
        .resource_type = type, .resource_name = slice_str(name)};
    struct slice keys[KEYS_MAX];
    for (size_t i = 0; i < count; i++) {
        keys[i] = slice_str(names[i]);
    }
    describe_configs_request_init(&q);
    q.resources = &r;
    q.resources_count = 1;
    q.include_synonyms = true;
    r.configuration_keys = names ? keys : NULL;
    r.configuration_keys_count = count;
    fx_call(f, WIRE_API_DESCRIBE_CONFIGS, 4, &q, &m);
    assert_int_equal(m.results_count, 1);
    return &m.results[0];
}

static const RESULT *describe(struct fixture *f, int8_t type, const char *name)
{
    return describe_keys(f, type, name, NULL, 0);
}

static const ROW *find(const RESULT *r, const char *key)
{
    for (size_t i = 0; i < r->configs_count; i++) {
        if (slice_eq_str(r->configs[i].name, key)) { return &r->configs[i]; }
    }
    return NULL;
}

static void expect(struct fixture *f, int8_t type, const char *name, const char *key,
                   const char *value, enum config_source source)
{
    const ROW *c = find(describe(f, type, name), key);
    assert_non_null(c);
    if (!slice_eq_str(c->value, value)) { fail_msg("%s of %s is not %s", key, name, value); }
    assert_int_equal(c->config_source, source);
}

/* ---- altering */

struct change {
    const char *key, *value;
    int8_t op;
};

static int16_t alter(struct fixture *f, int8_t type, const char *name, const struct change *c,
                     size_t count, bool validate_only)
{
    struct incremental_alter_configs_request q;
    struct incremental_alter_configs_response m;
    struct incremental_alter_configs_request_alter_configs_resource r = {
        .resource_type = type, .resource_name = slice_str(name)};
    struct incremental_alter_configs_request_alterable_config rows[KEYS_MAX];
    incremental_alter_configs_request_init(&q);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct incremental_alter_configs_request_alterable_config){
            slice_str(c[i].key), c[i].op, slice_str(c[i].value)};
    }
    r.configs = rows;
    r.configs_count = count;
    q.resources = &r;
    q.resources_count = 1;
    q.validate_only = validate_only;
    fx_call(f, WIRE_API_INCREMENTAL_ALTER_CONFIGS, 1, &q, &m);
    assert_int_equal(m.responses_count, 1);
    assert_int_equal(m.responses[0].resource_type, type);
    assert_true(slice_eq_str(m.responses[0].resource_name, name));
    /* A refusal says why. */
    if (m.responses[0].error_code) { assert_true(m.responses[0].error_message.size > 0); }
    return m.responses[0].error_code;
}

static int16_t alter_one(struct fixture *f, int8_t type, const char *name, const char *key,
                         const char *value, int8_t op)
{
    struct change c = {key, value, op};
    return alter(f, type, name, &c, 1, false);
}

static int16_t replace(struct fixture *f, int8_t type, const char *name, const char *key,
                       const char *value)
{
    struct alter_configs_request q;
    struct alter_configs_response m;
    struct alter_configs_request_alter_configs_resource r = {.resource_type = type,
                                                             .resource_name = slice_str(name)};
    struct alter_configs_request_alterable_config c = {slice_str(key), slice_str(value)};
    alter_configs_request_init(&q);
    r.configs = &c;
    r.configs_count = key ? 1 : 0;
    q.resources = &r;
    q.resources_count = 1;
    fx_call(f, WIRE_API_ALTER_CONFIGS, 2, &q, &m);
    assert_int_equal(m.responses_count, 1);
    return m.responses[0].error_code;
}

/* ---- describing */

static void test_a_topic_shows_every_key_with_value_source_and_type(void **state)
{
    struct fixture *f = *state;
    size_t count;
    const struct config_def *defs = config_topic_defs(&count);
    fx_create_topic(f, "shown", 1, "segment.ms", "900000");
    const RESULT *r = describe(f, TOPIC, "shown");
    assert_int_equal(r->error_code, 0);
    assert_int_equal(r->configs_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(slice_eq_str(r->configs[i].name, defs[i].name));
        assert_int_equal(r->configs[i].config_type, (int)defs[i].type);
        assert_false(r->configs[i].read_only);
        assert_false(r->configs[i].is_sensitive);
    }
    expect(f, TOPIC, "shown", "segment.ms", "900000", CONFIG_SOURCE_TOPIC);
    expect(f, TOPIC, "shown", "segment.index.bytes", "10485760", CONFIG_SOURCE_DEFAULT);
    expect(f, TOPIC, "shown", "segment.bytes", "2097152", CONFIG_SOURCE_STATIC);
    expect(f, TOPIC, "shown", "retention.ms", "356400000", CONFIG_SOURCE_STATIC);
}

static void test_synonyms_are_listed_as_they_were_set(void **state)
{
    struct fixture *f = *state;
    fx_create_topic(f, "synonyms", 1, "retention.ms", "5");
    const ROW *c = find(describe(f, TOPIC, "synonyms"), "retention.ms");
    const struct {
        const char *name, *value;
        int8_t source;
    } wanted[] = {{"retention.ms", "5", CONFIG_SOURCE_TOPIC},
                  {"log.retention.hours", "99", CONFIG_SOURCE_STATIC},
                  {"log.retention.hours", "168", CONFIG_SOURCE_DEFAULT}};
    assert_int_equal(c->synonyms_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(slice_eq_str(c->synonyms[i].name, wanted[i].name));
        assert_true(slice_eq_str(c->synonyms[i].value, wanted[i].value));
        assert_int_equal(c->synonyms[i].source, wanted[i].source);
    }
}

static void test_only_the_named_keys_are_shown(void **state)
{
    struct fixture *f = *state;
    const char *const names[] = {"segment.ms", "retention.ms", "nope"};
    fx_create_topic(f, "named", 1, NULL, NULL);
    assert_int_equal(describe_keys(f, TOPIC, "named", names, 1)->configs_count, 1);
    assert_int_equal(describe_keys(f, TOPIC, "named", names, 2)->configs_count, 2);
    assert_int_equal(describe_keys(f, TOPIC, "named", names, 3)->configs_count, 2);
    assert_int_equal(describe_keys(f, TOPIC, "named", &names[2], 1)->configs_count, 0);
    assert_true(describe_keys(f, TOPIC, "named", names, 0)->configs_count > 30); /* empty: all */
}

static void test_documentation_comes_when_it_is_asked_for(void **state)
{
    struct fixture *f = *state;
    struct describe_configs_request q;
    struct describe_configs_response m;
    struct describe_configs_request_describe_configs_resource r = {
        .resource_type = TOPIC, .resource_name = SLICE_LIT("documented")};
    fx_create_topic(f, "documented", 1, NULL, NULL);
    describe_configs_request_init(&q);
    q.resources = &r;
    q.resources_count = 1;
    for (int i = 0; i < 2; i++) {
        q.include_documentation = i == 1;
        fx_call(f, WIRE_API_DESCRIBE_CONFIGS, 4, &q, &m);
        for (size_t k = 0; k < m.results[0].configs_count; k++) {
            const ROW *c = &m.results[0].configs[k];
            assert_int_equal(slice_is_null(c->documentation), i == 0);
            assert_int_equal(c->synonyms_count, 0); /* not asked for */
        }
    }
}

static void test_a_broker_shows_its_keys_and_what_can_be_changed(void **state)
{
    struct fixture *f = *state;
    const RESULT *r = describe(f, BROKER, "1");
    assert_int_equal(r->error_code, 0);
    assert_true(find(r, "listeners")->read_only);
    assert_false(find(r, "message.max.bytes")->read_only);
    for (size_t i = 0; i < r->configs_count; i++) {
        assert_false(r->configs[i].is_sensitive && !slice_is_null(r->configs[i].value));
    }
    expect(f, BROKER, "1", "log.segment.bytes", "2097152", CONFIG_SOURCE_STATIC);
}

static void test_what_is_not_there_is_not_described(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(describe(f, TOPIC, "absent")->error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(describe(f, BROKER, "77")->error_code, KAFKA_INVALID_REQUEST);
    assert_int_equal(describe(f, BROKER, "x")->error_code, KAFKA_INVALID_REQUEST);
    assert_int_equal(describe(f, 8, "1")->error_code, KAFKA_INVALID_REQUEST);
    assert_int_equal(describe(f, 0, "")->error_code, KAFKA_INVALID_REQUEST);
}

/* ---- changing */

static void test_replacing_keeps_only_what_is_named(void **state)
{
    struct fixture *f = *state;
    fx_create_topic(f, "replaced", 1, "retention.ms", "5");
    assert_int_equal(replace(f, TOPIC, "replaced", "segment.ms", "7"), 0);
    expect(f, TOPIC, "replaced", "segment.ms", "7", CONFIG_SOURCE_TOPIC);
    expect(f, TOPIC, "replaced", "retention.ms", "356400000", CONFIG_SOURCE_STATIC);
    assert_int_equal(replace(f, TOPIC, "replaced", "segment.ms", NULL), KAFKA_INVALID_REQUEST);
    assert_int_equal(replace(f, TOPIC, "replaced", "segment.ms", "x"), KAFKA_INVALID_CONFIG);
    expect(f, TOPIC, "replaced", "segment.ms", "7", CONFIG_SOURCE_TOPIC);
    assert_int_equal(replace(f, TOPIC, "replaced", NULL, NULL), 0);
    expect(f, TOPIC, "replaced", "segment.ms", "604800000", CONFIG_SOURCE_DEFAULT);
}

static void test_increments_touch_only_what_is_named(void **state)
{
    struct fixture *f = *state;
    fx_create_topic(f, "inc", 1, "retention.ms", "5");
    const struct change both[] = {{"segment.ms", "7", 0}, {"retention.ms", NULL, 1}};
    assert_int_equal(alter_one(f, TOPIC, "inc", "segment.ms", "8", 0), 0);
    expect(f, TOPIC, "inc", "retention.ms", "5", CONFIG_SOURCE_TOPIC);
    assert_int_equal(alter(f, TOPIC, "inc", both, 2, false), 0);
    expect(f, TOPIC, "inc", "segment.ms", "7", CONFIG_SOURCE_TOPIC);
    expect(f, TOPIC, "inc", "retention.ms", "356400000", CONFIG_SOURCE_STATIC);
    assert_int_equal(alter_one(f, TOPIC, "inc", "cleanup.policy", "compact", 2), 0);
    expect(f, TOPIC, "inc", "cleanup.policy", "delete,compact", CONFIG_SOURCE_TOPIC);
    assert_int_equal(alter_one(f, TOPIC, "inc", "cleanup.policy", "delete", 3), 0);
    expect(f, TOPIC, "inc", "cleanup.policy", "compact", CONFIG_SOURCE_TOPIC);
}

static void test_what_makes_no_sense_is_refused_with_a_reason(void **state)
{
    struct fixture *f = *state;
    const struct {
        int8_t type;
        const char *name;
        struct change change;
        enum kafka_error error;
    } cases[] = {
        {TOPIC, "refused", {"segment.ms", "abc", 0}, KAFKA_INVALID_CONFIG},
        {TOPIC, "refused", {"segment.bytes", "1000", 0}, KAFKA_INVALID_CONFIG},
        {TOPIC, "refused", {"compression.type", "foo", 0}, KAFKA_INVALID_CONFIG},
        {TOPIC, "refused", {"no.such.key", "1", 0}, KAFKA_INVALID_CONFIG},
        {TOPIC, "refused", {"segment.ms", "", 0}, KAFKA_INVALID_CONFIG},
        {TOPIC, "refused", {"segment.ms", "1", 2}, KAFKA_INVALID_CONFIG}, /* no list */
        {TOPIC, "refused", {"segment.ms", NULL, 0}, KAFKA_INVALID_REQUEST},
        {TOPIC, "refused", {"segment.ms", "1", 9}, KAFKA_INVALID_REQUEST},
        {TOPIC, "absent", {"segment.ms", "1", 0}, KAFKA_UNKNOWN_TOPIC_OR_PARTITION},
        {BROKER, "77", {"message.max.bytes", "1", 0}, KAFKA_INVALID_REQUEST},
        {BROKER, "1", {"listeners", "PLAINTEXT://:1", 0}, KAFKA_INVALID_REQUEST}, /* read-only */
        {BROKER, "1", {"node.id", NULL, 1}, KAFKA_INVALID_REQUEST},
        {BROKER, "", {"no.such.key", "1", 0}, KAFKA_INVALID_CONFIG},
        {BROKER, "", {"message.max.bytes", "x", 0}, KAFKA_INVALID_CONFIG},
        {16, "metrics", {"x", "1", 0}, KAFKA_INVALID_REQUEST},
    };
    fx_create_topic(f, "refused", 1, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (int dry = 0; dry < 2; dry++) {
            int16_t error = alter(f, cases[i].type, cases[i].name, &cases[i].change, 1, dry == 1);
            if (error != (int16_t)cases[i].error) {
                fail_msg("%s: %d is not %d", cases[i].change.key, error, (int)cases[i].error);
            }
        }
    }
    const struct change twice[] = {{"segment.ms", "1", 0}, {"segment.ms", "2", 0}};
    assert_int_equal(alter(f, TOPIC, "refused", twice, 2, false), KAFKA_INVALID_REQUEST);
    expect(f, TOPIC, "refused", "segment.ms", "604800000", CONFIG_SOURCE_DEFAULT);
}

static void test_a_dry_run_changes_nothing(void **state)
{
    struct fixture *f = *state;
    const struct change c = {"segment.ms", "5", 0};
    fx_create_topic(f, "dry", 1, NULL, NULL);
    assert_int_equal(alter(f, TOPIC, "dry", &c, 1, true), 0);
    expect(f, TOPIC, "dry", "segment.ms", "604800000", CONFIG_SOURCE_DEFAULT);
}

/* A wrong one and a right one in one request; and one that is named twice. */
static void test_resources_are_judged_one_by_one(void **state)
{
    struct fixture *f = *state;
    struct incremental_alter_configs_request q;
    struct incremental_alter_configs_response m;
    struct incremental_alter_configs_request_alterable_config good = {SLICE_LIT("segment.ms"), 0,
                                                                      SLICE_LIT("5")},
                                                              bad = {SLICE_LIT("segment.ms"), 0,
                                                                     SLICE_LIT("x")};
    struct incremental_alter_configs_request_alter_configs_resource r[] = {
        {TOPIC, SLICE_LIT("one"), &bad, 1},
        {TOPIC, SLICE_LIT("two"), &good, 1},
        {TOPIC, SLICE_LIT("three"), &good, 1},
        {TOPIC, SLICE_LIT("three"), &good, 1}};
    fx_create_topic(f, "one", 1, NULL, NULL);
    fx_create_topic(f, "two", 1, NULL, NULL);
    fx_create_topic(f, "three", 1, NULL, NULL);
    incremental_alter_configs_request_init(&q);
    q.resources = r;
    q.resources_count = 4;
    fx_call(f, WIRE_API_INCREMENTAL_ALTER_CONFIGS, 1, &q, &m);
    assert_int_equal(m.responses[0].error_code, KAFKA_INVALID_CONFIG);
    assert_int_equal(m.responses[1].error_code, 0);
    for (size_t i = 2; i < m.responses_count; i++) {
        assert_int_equal(m.responses[i].error_code, KAFKA_INVALID_REQUEST);
    }
    expect(f, TOPIC, "two", "segment.ms", "5", CONFIG_SOURCE_TOPIC);
    expect(f, TOPIC, "three", "segment.ms", "604800000", CONFIG_SOURCE_DEFAULT);
}

static void test_broker_values_have_their_layers(void **state)
{
    struct fixture *f = *state;
    const char *key = "message.max.bytes";
    fx_create_topic(f, "layers", 1, NULL, NULL);
    assert_int_equal(describe(f, BROKER, "")->configs_count, 0); /* nothing is set for all */
    assert_int_equal(alter_one(f, BROKER, "", key, "2000000", 0), 0);
    assert_int_equal(alter_one(f, BROKER, "1", key, "3000000", 0), 0);
    expect(f, BROKER, "1", key, "3000000", CONFIG_SOURCE_DYNAMIC_BROKER);
    expect(f, TOPIC, "layers", "max.message.bytes", "3000000", CONFIG_SOURCE_DYNAMIC_BROKER);
    const RESULT *r = describe(f, BROKER, "");
    assert_int_equal(r->configs_count, 1);
    assert_true(slice_eq_str(r->configs[0].value, "2000000")); /* not this broker's */
    assert_int_equal(r->configs[0].config_source, CONFIG_SOURCE_DYNAMIC_DEFAULT);
    assert_int_equal(r->configs[0].synonyms_count, 1);
    assert_int_equal(alter_one(f, BROKER, "1", key, NULL, 1), 0);
    expect(f, BROKER, "1", key, "2000000", CONFIG_SOURCE_DYNAMIC_DEFAULT);
    assert_int_equal(alter_one(f, BROKER, "", key, NULL, 1), 0);
    expect(f, BROKER, "1", key, "1048588", CONFIG_SOURCE_DEFAULT);
}

static void test_resources_with_configurations_are_listed(void **state)
{
    struct fixture *f = *state;
    struct list_config_resources_request q;
    struct list_config_resources_response m;
    int8_t types[] = {TOPIC, BROKER, 99};
    fx_create_topic(f, "listed", 1, NULL, NULL);
    list_config_resources_request_init(&q);
    q.resource_types = types;
    q.resource_types_count = 2;
    fx_call(f, WIRE_API_LIST_CONFIG_RESOURCES, 1, &q, &m);
    assert_int_equal(m.error_code, 0);
    int topics = 0, brokers = 0;
    for (size_t i = 0; i < m.config_resources_count; i++) {
        topics += m.config_resources[i].resource_type == TOPIC &&
                  slice_eq_str(m.config_resources[i].resource_name, "listed");
        brokers += m.config_resources[i].resource_type == BROKER &&
                   slice_eq_str(m.config_resources[i].resource_name, "1");
    }
    assert_int_equal(topics, 1);
    assert_int_equal(brokers, 1);
    q.resource_types_count = 3;
    fx_call(f, WIRE_API_LIST_CONFIG_RESOURCES, 1, &q, &m);
    assert_int_equal(m.error_code, KAFKA_UNSUPPORTED_VERSION);
    q.resource_types_count = 0;
    fx_call(f, WIRE_API_LIST_CONFIG_RESOURCES, 0, &q, &m); /* client metrics: there are none */
    assert_int_equal(m.config_resources_count, 0);
}

static int setup(void **state)
{
    struct fixture *f = fx_create();
    assert_int_equal(config_set_put(&f->statics, SLICE_LIT("log.retention.hours"), SLICE_LIT("99")),
                     ERR_OK);
    assert_int_equal(
        config_set_put(&f->statics, SLICE_LIT("log.segment.bytes"), SLICE_LIT("2097152")), ERR_OK);
    fx_start(f);
    *state = f;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_topic_shows_every_key_with_value_source_and_type),
        cmocka_unit_test(test_synonyms_are_listed_as_they_were_set),
        cmocka_unit_test(test_only_the_named_keys_are_shown),
        cmocka_unit_test(test_documentation_comes_when_it_is_asked_for),
        cmocka_unit_test(test_a_broker_shows_its_keys_and_what_can_be_changed),
        cmocka_unit_test(test_what_is_not_there_is_not_described),
        cmocka_unit_test(test_replacing_keeps_only_what_is_named),
        cmocka_unit_test(test_increments_touch_only_what_is_named),
        cmocka_unit_test(test_what_makes_no_sense_is_refused_with_a_reason),
        cmocka_unit_test(test_a_dry_run_changes_nothing),
        cmocka_unit_test(test_resources_are_judged_one_by_one),
        cmocka_unit_test(test_broker_values_have_their_layers),
        cmocka_unit_test(test_resources_with_configurations_are_listed),
    };
    return cmocka_run_group_tests(tests, setup, fx_teardown);
}
