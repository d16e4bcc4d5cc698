/* properties_test.c - Java's properties syntax, checks with the line that is wrong. */
#include "broker/properties.h"
#include "sys/sys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct parsed {
    struct config_set set;
    char message[PROPERTIES_MESSAGE_SIZE];
    enum err err;
};

static struct parsed parsed;

static void parse(const char *text)
{
    config_set_init(&parsed.set);
    parsed.err =
        properties_parse(slice_str(text), "server.properties", NULL, &parsed.set, parsed.message);
}

static void forget(void)
{
    config_set_fini(&parsed.set);
}

static void expect(const char *text, const char *key, const char *value)
{
    parse(text);
    if (parsed.err) { fail_msg("%s: %s", text, parsed.message); }
    const char *found = config_set_get(&parsed.set, key);
    if (!found && value) { fail_msg("%s: %s is not set", text, key); }
    if (value) {
        assert_string_equal(found, value);
    } else {
        assert_null(found);
    }
    forget();
}

static void refuse(const char *text, const char *line, const char *says)
{
    parse(text);
    assert_int_not_equal(parsed.err, ERR_OK);
    if (!strstr(parsed.message, line) || !strstr(parsed.message, says)) {
        fail_msg("'%s' should say '%s' and '%s'", parsed.message, line, says);
    }
    forget();
}

static void test_keys_and_values_are_separated_as_java_does(void **state)
{
    (void)state;
    expect("broker.rack=r1", "broker.rack", "r1");
    expect("broker.rack:r1", "broker.rack", "r1");
    expect("broker.rack r1", "broker.rack", "r1");
    expect("  broker.rack  =  r1", "broker.rack", "r1");
    expect("broker.rack==r1", "broker.rack", "=r1");
    expect("broker.rack=a=b:c", "broker.rack", "a=b:c");
    expect("broker.rack=r1\r\nnode.id=5\r\n", "node.id", "5");
    expect("broker.rack=r1\rnode.id=5", "node.id", "5");
    expect("", "broker.rack", NULL);
    expect("\n\n \t\n", "broker.rack", NULL);
}

static void test_comments_are_no_entries(void **state)
{
    (void)state;
    expect("# broker.rack=r1\n! broker.rack=r2\n  # x\nnode.id=7", "broker.rack", NULL);
    expect("broker.rack=r1 # not a comment", "broker.rack", "r1 # not a comment");
    expect("# goes on \\\nbroker.rack=r1", "broker.rack", "r1"); /* comments have no next line */
}

static void test_a_backslash_joins_lines_and_escapes(void **state)
{
    (void)state;
    expect("broker.rack=a,\\\n   b", "broker.rack", "a,b");
    expect("broker.\\\n  rack=r1", "broker.rack", "r1");
    expect("broker.rack=a\\\\\nnode.id=5", "broker.rack", "a\\");
    expect("broker.rack=a\\", "broker.rack", "a");
    expect("broker\\.rack=r1", "broker.rack", "r1");
    expect("broker.rack=\\u0041\\u00e9\\u20ac", "broker.rack", "A\xc3\xa9\xe2\x82\xac");
    expect("broker.rack=a\\tb", "broker.rack", "a\tb");
    expect("broker.rack=\\q", "broker.rack", "q");
    refuse("node.id=1\nbroker.rack=\\u12", "line 2", "hexadecimal");
    refuse("broker.rack=\\uzzzz", "line 1", "hexadecimal");
}

static void test_values_are_checked_and_the_line_is_named(void **state)
{
    (void)state;
    refuse("node.id=1\n\nnum.io.threads=many", "line 3", "num.io.threads");
    refuse("# one\nlog.segment.bytes=\\\n 5", "line 2", "log.segment.bytes");
    refuse("auto.create.topics.enable=perhaps", "line 1", "true or false");
    parse("broker.rack=a");
    assert_string_equal(parsed.message, "");
    forget();
}

static void test_the_last_entry_holds(void **state)
{
    (void)state;
    expect("node.id=1\nnode.id=2", "node.id", "2");
}

static void test_values_are_kept_in_one_form(void **state)
{
    (void)state;
    expect("auto.create.topics.enable=TRUE", "auto.create.topics.enable", "true");
    expect("log.cleanup.policy=compact, delete", "log.cleanup.policy", "compact,delete");
}

/* Files of other versions carry keys that we do not have; an empty number means: not set. */
static void test_unknown_keys_and_empty_numbers_are_ignored(void **state)
{
    (void)state;
    expect("no.such.key=1\nnode.id=3", "no.such.key", NULL);
    expect("num.io.threads=\nnode.id=3", "num.io.threads", NULL);
}

static void test_a_zero_byte_is_no_text(void **state)
{
    (void)state;
    config_set_init(&parsed.set);
    static const char text[] = "#\r\n\nnode.id=1\0\nnum.partitions=3\n";
    enum err e =
        properties_parse(slice_of(text, sizeof text - 1), "f", NULL, &parsed.set, parsed.message);
    assert_int_equal(e, ERR_INVALID);
    assert_string_equal(parsed.message, "f line 3: expected text, found a zero byte");
    forget();
    /* An escape would cut a value as well. */
    refuse("node.id=1\nbroker.rack=a\\u0000b", "line 2", "zero character");
    refuse("listeners=PLAINTEXT://:9092\\u0000,\\", "line 1", "zero character");
}

static void test_overrides_of_the_command_line(void **state)
{
    (void)state;
    config_set_init(&parsed.set);
    assert_int_equal(properties_override("node.id=4", NULL, &parsed.set, parsed.message), ERR_OK);
    assert_int_equal(properties_override("node.id=5", NULL, &parsed.set, parsed.message), ERR_OK);
    assert_string_equal(config_set_get(&parsed.set, "node.id"), "5");
    assert_int_equal(properties_override("broker.rack=a=b", NULL, &parsed.set, parsed.message),
                     ERR_OK);
    assert_string_equal(config_set_get(&parsed.set, "broker.rack"), "a=b");
    const char *wrong[] = {"node.id", "=5", "node.id=five"};
    for (size_t i = 0; i < 3; i++) {
        parsed.message[0] = '\0';
        assert_int_equal(properties_override(wrong[i], NULL, &parsed.set, parsed.message),
                         ERR_INVALID);
        assert_non_null(strstr(parsed.message, "--override"));
    }
    forget();
}

static void test_a_file_is_read_or_its_absence_is_said(void **state)
{
    (void)state;
    char path[] = "/tmp/bb-properties-XXXXXX";
    struct sys *sys = sys_create();
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    assert_non_null(f);
    assert_true(fputs("node.id=9\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    config_set_init(&parsed.set);
    assert_int_equal(properties_load(sys, path, NULL, &parsed.set, parsed.message), ERR_OK);
    assert_string_equal(config_set_get(&parsed.set, "node.id"), "9");
    assert_int_equal(remove(path), 0);
    assert_int_equal(properties_load(sys, path, NULL, &parsed.set, parsed.message), ERR_NOTFOUND);
    assert_non_null(strstr(parsed.message, path));
    forget();
    sys_destroy(sys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_and_values_are_separated_as_java_does),
        cmocka_unit_test(test_comments_are_no_entries),
        cmocka_unit_test(test_a_backslash_joins_lines_and_escapes),
        cmocka_unit_test(test_values_are_checked_and_the_line_is_named),
        cmocka_unit_test(test_the_last_entry_holds),
        cmocka_unit_test(test_values_are_kept_in_one_form),
        cmocka_unit_test(test_unknown_keys_and_empty_numbers_are_ignored),
        cmocka_unit_test(test_a_zero_byte_is_no_text),
        cmocka_unit_test(test_overrides_of_the_command_line),
        cmocka_unit_test(test_a_file_is_read_or_its_absence_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
