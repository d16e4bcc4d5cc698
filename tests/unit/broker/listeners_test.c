/* listeners_test.c - listeners, what is advertised for them, and which messages wrong ones get. */
#include "broker/listeners.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct config_set set;
static struct listeners found;
static char message[LISTENERS_MESSAGE_SIZE];

static void put(const char *key, const char *value)
{
    assert_int_equal(config_set_put(&set, slice_str(key), slice_str(value)), ERR_OK);
}

static int setup(void **state)
{
    (void)state;
    config_set_init(&set);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    config_set_fini(&set);
    return 0;
}

static enum err parse(void)
{
    struct config_scope scope = {&set, NULL, 1};
    return listeners_parse(&scope, &found, message);
}

static void refuse(const char *key, const char *value, const char *says)
{
    config_set_fini(&set);
    config_set_init(&set);
    put("listeners", "PLAINTEXT://127.0.0.1:9092");
    put(key, value);
    assert_int_equal(parse(), ERR_INVALID);
    if (!strstr(message, says)) { fail_msg("'%s' should say '%s'", message, says); }
}

static void test_the_control_plane_is_one_of_the_listeners(void **state)
{
    (void)state;
    refuse("control.plane.listener.name", "NOPE", "expected the name of one of listeners");
    refuse("controller.listener.names", "CONTROLLER", "found 'CONTROLLER'");
    put("process.roles", "broker"); /* the listener is another process's */
    assert_int_equal(parse(), ERR_OK);
    assert_false(found.rows[0].is_control);
    put("control.plane.listener.name", "PLAINTEXT");
    assert_int_equal(parse(), ERR_OK);
    assert_true(found.rows[0].is_control);
}

static void test_the_default_is_one_plain_listener(void **state)
{
    (void)state;
    assert_int_equal(parse(), ERR_OK);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.rows[0].name, "PLAINTEXT");
    assert_string_equal(found.rows[0].host, "");
    assert_int_equal(found.rows[0].port, 9092);
    assert_int_equal(found.rows[0].security, NET_PLAINTEXT);
    assert_false(found.rows[0].is_control);
}

static void test_each_listener_has_a_name_a_host_and_a_port(void **state)
{
    (void)state;
    put("listeners", "A://127.0.0.1:1, PLAINTEXT://[::1]:65535 ,C://:0");
    put("listener.security.protocol.map", "A:PLAINTEXT,C:PLAINTEXT");
    assert_int_equal(parse(), ERR_OK);
    assert_int_equal(found.count, 3);
    assert_string_equal(found.rows[0].name, "A");
    assert_string_equal(found.rows[1].host, "::1");
    assert_int_equal(found.rows[1].port, 65535);
    assert_string_equal(found.rows[2].host, "");
    assert_int_equal(found.rows[2].port, 0);
}

static void test_a_listener_is_advertised_as_asked(void **state)
{
    (void)state;
    put("listeners", "PLAINTEXT://0.0.0.0:9092,X://127.0.0.1:9093");
    put("listener.security.protocol.map", "X:SASL_SSL");
    put("advertised.listeners", "PLAINTEXT://broker.example:19092");
    assert_int_equal(parse(), ERR_OK);
    assert_string_equal(found.rows[0].advertised_host, "broker.example");
    assert_int_equal(found.rows[0].advertised_port, 19092);
    assert_string_equal(found.rows[1].advertised_host, ""); /* as it is bound */
    assert_int_equal(found.rows[1].advertised_port, 0);
    assert_int_equal(found.rows[1].security, NET_SASL_SSL);
}

static void test_the_control_plane_is_named(void **state)
{
    (void)state;
    put("listeners", "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2");
    put("control.plane.listener.name", "CONTROLLER");
    assert_int_equal(parse(), ERR_OK);
    assert_false(found.rows[0].is_control);
    assert_true(found.rows[1].is_control);
}

static void test_the_control_plane_has_an_older_and_a_newer_name(void **state)
{
    (void)state;
    put("listeners", "PLAINTEXT://127.0.0.1:1,ONE://127.0.0.1:2,PLAINTEXT2://127.0.0.1:3");
    put("listener.security.protocol.map", "PLAINTEXT2:PLAINTEXT"); /* control needs no entry */
    put("controller.listener.names", "ONE");
    assert_int_equal(parse(), ERR_OK);
    assert_true(found.rows[1].is_control);
    put("control.plane.listener.name", "PLAINTEXT2"); /* ours counts when both are there */
    put("listener.security.protocol.map", "ONE:PLAINTEXT,PLAINTEXT2:PLAINTEXT");
    assert_int_equal(parse(), ERR_OK);
    assert_false(found.rows[1].is_control);
    assert_true(found.rows[2].is_control);
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    refuse("listeners", "", "NAME://host:port");
    refuse("listeners", "127.0.0.1:9092", "NAME://host:port");
    refuse("listeners", "://127.0.0.1:9092", "NAME://host:port");
    refuse("listeners", "PLAINTEXT://127.0.0.1", "NAME://host:port");
    refuse("listeners", "PLAINTEXT://127.0.0.1:", "NAME://host:port");
    refuse("listeners", "PLAINTEXT://127.0.0.1:65536", "NAME://host:port");
    refuse("listeners", "PLAINTEXT://127.0.0.1:-1", "NAME://host:port");
    refuse("listeners", "PLAINTEXT://127.0.0.1:9x", "NAME://host:port");
    refuse("listeners", "PLAINTEXT://a:1,PLAINTEXT://b:2", "twice");
    refuse("listeners", "OTHER://127.0.0.1:9092", "listener.security.protocol.map");
    refuse("advertised.listeners", "OTHER://h:1", "is not in listeners");
    refuse("advertised.listeners", "PLAINTEXT://:1", "a host that clients can reach");
    refuse("advertised.listeners", "PLAINTEXT://0.0.0.0:1", "a host that clients can reach");
    refuse("advertised.listeners", "PLAINTEXT://[::]:1", "a host that clients can reach");
    refuse("advertised.listeners", "PLAINTEXT", "advertised.listeners");
    refuse("advertised.listeners", "PLAINTEXT://h:70000", "advertised.listeners");
}

static void test_there_is_a_limit_of_listeners(void **state)
{
    (void)state;
    char text[2048] = "", map[2048] = "";
    for (int i = 0; i < NET_LISTENERS_MAX + 1; i++) {
        char one[64];
        snprintf(one, sizeof one, "%sL%d://127.0.0.1:%d", i ? "," : "", i, i + 1);
        strcat(text, one);
        snprintf(one, sizeof one, "%sL%d:PLAINTEXT", i ? "," : "", i);
        strcat(map, one);
    }
    refuse("listeners", text, "at most");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_the_control_plane_is_one_of_the_listeners),
        CASE(test_the_default_is_one_plain_listener),
        CASE(test_each_listener_has_a_name_a_host_and_a_port),
        CASE(test_a_listener_is_advertised_as_asked),
        CASE(test_the_control_plane_is_named),
        CASE(test_the_control_plane_has_an_older_and_a_newer_name),
        CASE(test_what_is_wrong_is_said),
        CASE(test_there_is_a_limit_of_listeners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
