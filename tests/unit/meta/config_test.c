/* config_test.c - definitions that hold together, values that are checked, layers in their order.
 */
#include "base/check.h"
#include "base/mem.h"
#include "meta/config.h"
#include "meta/records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const struct config_def *def_of(const char *key, bool is_topic)
{
    const struct config_def *def =
        is_topic ? config_topic_def(slice_str(key)) : config_broker_def(slice_str(key));
    if (!def) { fail_msg("%s is not in the table", key); }
    return def;
}

static enum err check(const char *key, const char *value)
{
    char message[CONFIG_MESSAGE_SIZE];
    enum err e = config_check(def_of(key, true), slice_str(value), message);
    assert_true(e == ERR_OK || strstr(message, key) != NULL);
    return e;
}

static void check_table(const struct config_def *defs, size_t count, bool is_topic)
{
    char message[CONFIG_MESSAGE_SIZE];
    assert_true(count > 30);
    for (size_t i = 0; i < count; i++) {
        const struct config_def *d = &defs[i];
        assert_int_equal(d->is_topic, is_topic);
        if (i > 0 && strcmp(defs[i - 1].name, d->name) >= 0) { fail_msg("%s: order", d->name); }
        assert_ptr_equal(def_of(d->name, is_topic), d);
        if (d->default_value && config_check(d, slice_str(d->default_value), message)) {
            fail_msg("%s: its default is refused: %s", d->name, message);
        }
        for (size_t s = 0; s < CONFIG_SYNONYMS_MAX && d->synonyms[s].name; s++) {
            assert_false(def_of(d->synonyms[s].name, false)->is_topic);
            assert_true(d->synonyms[s].scale > 0);
        }
        if (!d->doc || strlen(d->doc) < 20 || d->doc[strlen(d->doc) - 1] != '.') {
            fail_msg("%s has no sentence about itself", d->name);
        }
    }
}

static void test_every_definition_is_sorted_found_and_allows_its_default(void **state)
{
    (void)state;
    size_t count;
    const struct config_def *defs = config_topic_defs(&count);
    check_table(defs, count, true);
    defs = config_broker_defs(&count);
    check_table(defs, count, false);
    assert_null(config_topic_def(SLICE_LIT("no.such.key")));
    assert_null(config_topic_def(SLICE_LIT("")));
    assert_null(config_broker_def(SLICE_LIT("segment.ms")));
}

static void test_values_are_checked(void **state)
{
    (void)state;
    const struct {
        const char *key, *value;
        enum err err;
    } cases[] = {
        {"retention.ms", "-1", ERR_OK},
        {"retention.ms", " 60000 ", ERR_OK},
        {"retention.ms", "-2", ERR_INVALID},
        {"retention.ms", "abc", ERR_INVALID},
        {"retention.ms", "", ERR_INVALID},
        {"retention.ms", "1.5", ERR_INVALID},
        {"retention.ms", "9223372036854775807", ERR_OK},
        {"retention.ms", "9223372036854775808", ERR_INVALID},
        {"segment.bytes", "1048576", ERR_OK},
        {"segment.bytes", "1000", ERR_INVALID},
        {"segment.bytes", "2147483648", ERR_INVALID},
        {"compression.gzip.level", "0", ERR_INVALID}, /* -1 and 1 to 9 */
        {"compression.gzip.level", "-1", ERR_OK},
        {"compression.gzip.level", "10", ERR_INVALID},
        {"compression.type", "zstd", ERR_OK},
        {"compression.type", "foo", ERR_INVALID},
        {"compression.type", "", ERR_INVALID},
        {"message.timestamp.type", "x", ERR_INVALID},
        {"unclean.leader.election.enable", "TRUE", ERR_OK},
        {"unclean.leader.election.enable", "maybe", ERR_INVALID},
        {"cleanup.policy", "compact, delete", ERR_OK},
        {"cleanup.policy", "compact,shred", ERR_INVALID},
        {"min.cleanable.dirty.ratio", "0.5", ERR_OK},
        {"min.cleanable.dirty.ratio", "1.5", ERR_INVALID},
        {"min.cleanable.dirty.ratio", "half", ERR_INVALID},
        {"min.insync.replicas", "0", ERR_INVALID},
        {"leader.replication.throttled.replicas", "*", ERR_OK},
        {"leader.replication.throttled.replicas", "0:1,1:2", ERR_OK},
        {"leader.replication.throttled.replicas", "0-1", ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (check(cases[i].key, cases[i].value) != cases[i].err) {
            fail_msg("%s=%s", cases[i].key, cases[i].value);
        }
    }
}

static void check_normal(const char *key, const char *value, const char *wanted)
{
    char buf[128];
    assert_int_equal(config_normalize(def_of(key, true), slice_str(value), buf), ERR_OK);
    assert_string_equal(buf, wanted);
}

static void test_address_limits_are_checked(void **state)
{
    (void)state;
    static const char *const good[] = {"", "127.0.0.1:5", "10.0.0.1:0, ::1:7"};
    static const char *const bad[] = {"127.0.0.1",   "127.0.0.1:",    ":5",   "127.0.0.1:-1",
                                      "127.0.0.1:x", "127.0.0.1:5,,", "a:1,b"};
    const struct config_def *def = config_broker_def(SLICE_LIT("max.connections.per.ip.overrides"));
    char message[CONFIG_MESSAGE_SIZE];
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_int_equal(config_check(def, slice_str(good[i]), message), ERR_OK);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(config_check(def, slice_str(bad[i]), message), ERR_INVALID);
        assert_non_null(strstr(message, "address:limit"));
    }
}

static void test_the_http_listener_is_host_and_port(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        uint16_t port;
    } good[] = {{"127.0.0.1:9404", "127.0.0.1", 9404},
                {":0", "", 0},
                {"[::1]:65535", "::1", 65535},
                {"host.example:1", "host.example", 1}};
    static const char *const bad[] = {
        "localhost", "a:65536", "a:-1", "a:", "::1:1", "[::1]", "[a]:1", "http://a:1"};
    const struct config_def *def = config_broker_def(SLICE_LIT("http.listener"));
    char message[CONFIG_MESSAGE_SIZE], host[CONFIG_HOST_SIZE];
    uint16_t port;
    assert_int_equal(config_check(def, SLICE_LIT(""), message), ERR_OK); /* off */
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_int_equal(config_check(def, slice_str(good[i].text), message), ERR_OK);
        assert_true(config_host_port(slice_str(good[i].text), host, &port));
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(config_check(def, slice_str(bad[i]), message), ERR_INVALID);
        assert_non_null(strstr(message, "host:port"));
    }
}

static void test_values_are_stored_in_one_form(void **state)
{
    (void)state;
    check_normal("cleanup.policy", "compact , delete,compact", "compact,delete");
    check_normal("cleanup.policy", " , ", "");
    check_normal("unclean.leader.election.enable", "TRUE", "true");
    check_normal("segment.ms", " 5 ", "5");
    check_normal("message.timestamp.type", "LogAppendTime", "LogAppendTime");
    assert_true(config_list_has("compact,delete", "delete"));
    assert_false(config_list_has("compact,deleted", "delete"));
    assert_false(config_list_has(NULL, "delete"));
}

/* As long as a value may be; each element differs. */
static void test_long_lists_take_no_time_squared(void **state)
{
    (void)state;
    enum { COUNT = 13000, EACH = 5 };
    char *list = mem_alloc(COUNT * EACH + 1), *half = mem_alloc(COUNT * EACH + 1);
    char *buf = mem_alloc(2 * COUNT * EACH + 2);
    assert_true(list && half && buf);
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0, n = i; k < EACH - 1; k++, n /= 36) {
            list[i * EACH + k] = "0123456789abcdefghijklmnopqrstuvwxyz"[n % 36];
        }
        list[i * EACH + EACH - 1] = ',';
    }
    list[COUNT * EACH - 1] = '\0';
    snprintf(half, COUNT * EACH + 1, "%.*s", COUNT / 2 * EACH - 1, list);
    struct sys *sys = sys_create();
    uint64_t began_ns = sys_mono_ns(sys);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(
            config_normalize(config_topic_def(SLICE_LIT("cleanup.policy")), slice_str(list), buf),
            ERR_OK);
        assert_string_equal(buf, list);
        assert_int_equal(config_list_add(slice_str(half), slice_str(list), buf), ERR_OK);
        assert_string_equal(buf, list);
        assert_int_equal(config_list_subtract(slice_str(list), slice_str(half), buf), ERR_OK);
        assert_string_equal(buf, list + strlen(half) + 1);
    }
    assert_true(sys_mono_ns(sys) - began_ns < 5000 * SYS_MS);
    sys_destroy(sys);
    mem_free(list);
    mem_free(half);
    mem_free(buf);
}

/* ---- layers */

struct layers {
    struct config_set statics;
    struct meta_image *image;
    struct wire_buf buf;
    struct config_scope scope;
};

static int setup(void **state)
{
    struct layers *l = mem_new(struct layers);
    assert_non_null(l);
    config_set_init(&l->statics);
    l->image = meta_create();
    wire_buf_init(&l->buf, 1u << 20);
    *state = l;
    return 0;
}

static int teardown(void **state)
{
    struct layers *l = *state;
    config_set_fini(&l->statics);
    meta_unref(l->image);
    wire_buf_fini(&l->buf);
    mem_free(l);
    return 0;
}

static void put_static(struct layers *l, const char *key, const char *value)
{
    assert_int_equal(config_set_put(&l->statics, slice_str(key), slice_str(value)), ERR_OK);
}

static void put(struct layers *l, enum meta_resource type, const char *name, const char *key,
                const char *value)
{
    assert_int_equal(
        record_config(&l->buf, type, slice_str(name), slice_str(key), slice_str(value)), ERR_OK);
    assert_int_equal(meta_apply(&l->image, wire_buf_slice(&l->buf), l->image->offset + 1), ERR_OK);
    l->buf.size = 0;
}

static const struct config_scope *scope(struct layers *l)
{
    l->scope = (struct config_scope){&l->statics, l->image, 7};
    return &l->scope;
}

static void expect_broker(struct layers *l, const char *key, const char *text,
                          enum config_source source)
{
    struct config_value v;
    config_broker_value(scope(l), def_of(key, false), &v);
    assert_string_equal(v.text, text);
    assert_int_equal(v.source, source);
}

static void expect_topic(struct layers *l, const char *topic, const char *key, const char *text,
                         enum config_source source)
{
    struct config_value v;
    config_topic_value(scope(l), slice_str(topic), def_of(key, true), &v);
    assert_string_equal(v.text, text);
    assert_int_equal(v.source, source);
}

static void test_the_nearest_layer_decides(void **state)
{
    struct layers *l = *state;
    const char *key = "message.max.bytes";
    expect_broker(l, key, "1048588", CONFIG_SOURCE_DEFAULT);
    put_static(l, key, "2000000");
    expect_broker(l, key, "2000000", CONFIG_SOURCE_STATIC);
    put(l, META_RESOURCE_BROKER, "", key, "3000000");
    expect_broker(l, key, "3000000", CONFIG_SOURCE_DYNAMIC_DEFAULT);
    put(l, META_RESOURCE_BROKER, "8", key, "1"); /* another broker's */
    expect_broker(l, key, "3000000", CONFIG_SOURCE_DYNAMIC_DEFAULT);
    put(l, META_RESOURCE_BROKER, "7", key, "4000000");
    expect_broker(l, key, "4000000", CONFIG_SOURCE_DYNAMIC_BROKER);
    expect_topic(l, "t", "max.message.bytes", "4000000", CONFIG_SOURCE_DYNAMIC_BROKER);
    put(l, META_RESOURCE_TOPIC, "t", "max.message.bytes", "5");
    expect_topic(l, "t", "max.message.bytes", "5", CONFIG_SOURCE_TOPIC);
    expect_topic(l, "u", "max.message.bytes", "4000000", CONFIG_SOURCE_DYNAMIC_BROKER);
    expect_topic(l, NULL, "max.message.bytes", "4000000", CONFIG_SOURCE_DYNAMIC_BROKER);
    assert_int_equal(config_topic_i64(scope(l), SLICE_LIT("t"), "max.message.bytes"), 5);
}

/* log.retention.ms wins over .minutes, that over .hours; each has its own unit. */
static void test_synonyms_are_taken_in_order_and_scaled(void **state)
{
    struct layers *l = *state;
    expect_topic(l, "t", "retention.ms", "604800000", CONFIG_SOURCE_DEFAULT);
    put_static(l, "log.retention.hours", "2");
    expect_topic(l, "t", "retention.ms", "7200000", CONFIG_SOURCE_STATIC);
    put_static(l, "log.retention.minutes", "3");
    expect_topic(l, "t", "retention.ms", "180000", CONFIG_SOURCE_STATIC);
    put_static(l, "log.retention.ms", "44");
    expect_topic(l, "t", "retention.ms", "44", CONFIG_SOURCE_STATIC);
    assert_int_equal(config_topic_i64(scope(l), SLICE_LIT("t"), "retention.ms"), 44);
}

static void test_for_ever_stays_for_ever_in_every_unit(void **state)
{
    struct layers *l = *state;
    put_static(l, "log.retention.hours", "-1");
    expect_topic(l, "t", "retention.ms", "-1", CONFIG_SOURCE_STATIC);
}

static void test_the_list_of_synonyms_shows_each_value_as_it_was_set(void **state)
{
    struct layers *l = *state;
    struct config_synonym_value v;
    const struct config_def *def = def_of("retention.ms", true);
    put_static(l, "log.retention.hours", "2");
    put(l, META_RESOURCE_TOPIC, "t", "retention.ms", "9");
    const struct {
        const char *name, *raw;
        enum config_source source;
    } wanted[] = {
        {"retention.ms", "9", CONFIG_SOURCE_TOPIC},
        {"log.retention.hours", "2", CONFIG_SOURCE_STATIC},
        {"log.retention.hours", "168", CONFIG_SOURCE_DEFAULT},
    };
    for (size_t i = 0; i < 3; i++) {
        assert_true(config_synonym_at(scope(l), SLICE_LIT("t"), def, i, &v));
        assert_string_equal(v.name, wanted[i].name);
        assert_string_equal(v.raw, wanted[i].raw);
        assert_int_equal(v.source, wanted[i].source);
    }
    assert_false(config_synonym_at(scope(l), SLICE_LIT("t"), def, 3, &v));
}

static void test_typed_access(void **state)
{
    struct layers *l = *state;
    put_static(l, "delete.topic.enable", "false");
    assert_false(config_broker_bool(scope(l), "delete.topic.enable"));
    assert_true(config_broker_bool(scope(l), "auto.create.topics.enable"));
    assert_string_equal(config_topic_text(scope(l), SLICE_LIT("t"), "cleanup.policy"), "delete");
    assert_false(config_topic_bool(scope(l), SLICE_LIT("t"), "preallocate"));
    assert_string_equal(config_set_get(&l->statics, "delete.topic.enable"), "false");
    assert_null(config_set_get(&l->statics, "node.id"));
    put_static(l, "delete.topic.enable", "true"); /* the last one holds */
    assert_true(config_broker_bool(scope(l), "delete.topic.enable"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_definition_is_sorted_found_and_allows_its_default),
        cmocka_unit_test(test_values_are_checked),
        cmocka_unit_test(test_address_limits_are_checked),
        cmocka_unit_test(test_the_http_listener_is_host_and_port),
        cmocka_unit_test(test_values_are_stored_in_one_form),
        cmocka_unit_test(test_long_lists_take_no_time_squared),
        CASE(test_the_nearest_layer_decides),
        CASE(test_synonyms_are_taken_in_order_and_scaled),
        CASE(test_for_ever_stays_for_ever_in_every_unit),
        CASE(test_the_list_of_synonyms_shows_each_value_as_it_was_set),
        CASE(test_typed_access),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
