/* messages_test.c - every message and version against vectors that Kafka's own classes wrote
 * (tests/golden/java).
 *
 * A line: name, version, variant, 'x' and the bytes in hex, Kafka's JSON of the same message. */
#include "base/arena.h"
#include "base/mem.h"
#include "wire/message.h"
#include "wire/reader.h"
#include "wire/text.h"
#include "wire/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#define LINE_SIZE_MAX ((size_t)1 << 20)
#define VERSIONS_MAX 32

struct vectors {
    gzFile file;
    char *line;
    char *text;
    uint8_t *bytes;
    uint8_t *again;
    void *message;
    /* the line, in parts */
    const struct wire_message *of;
    int version;
    const char *json;
    size_t size;
};

static const struct wire_message *find(const char *name)
{
    for (size_t i = 0; i < wire_messages_count; i++) {
        if (strcmp(wire_messages[i].name, name) == 0) { return &wire_messages[i]; }
    }
    fail_msg("unknown message %s", name);
    return NULL;
}

static uint8_t digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void vectors_open(struct vectors *v)
{
    *v = (struct vectors){0};
    v->file = gzopen("tests/golden/vectors.txt.gz", "rb");
    assert_non_null(v->file);
    v->line = mem_alloc(LINE_SIZE_MAX);
    v->text = mem_alloc(LINE_SIZE_MAX);
    v->bytes = mem_alloc(LINE_SIZE_MAX);
    v->again = mem_alloc(LINE_SIZE_MAX);
    v->message = mem_alloc(4096);
    assert_true(v->line && v->text && v->bytes && v->again && v->message);
}

static void vectors_close(struct vectors *v)
{
    gzclose(v->file);
    mem_free(v->line);
    mem_free(v->text);
    mem_free(v->bytes);
    mem_free(v->again);
    mem_free(v->message);
}

static bool vectors_next(struct vectors *v)
{
    if (!gzgets(v->file, v->line, (int)LINE_SIZE_MAX)) { return false; }
    char *save = NULL;
    v->of = find(strtok_r(v->line, " \n", &save));
    v->version = atoi(strtok_r(NULL, " \n", &save));
    strtok_r(NULL, " \n", &save);
    const char *hex = strtok_r(NULL, " \n", &save) + 1;
    v->json = strtok_r(NULL, "\n", &save);
    assert_non_null(v->json);
    v->size = strlen(hex) / 2;
    for (size_t i = 0; i < v->size; i++) {
        v->bytes[i] = (uint8_t)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    }
    assert_true(v->of->size <= 4096);
    return true;
}

static void check_vector(struct vectors *v, struct arena *a)
{
    struct wire_reader r;
    wire_reader_init(&r, slice_of(v->bytes, v->size));
    arena_reset(a);
    a->limit = WIRE_DECODE_BUDGET(v->size);
    enum err e = v->of->decode(&r, v->version, a, v->message);
    if (e || wire_left(&r) != 0) {
        fail_msg("%s %d: decode: %s, %zu left", v->of->name, v->version, err_name(e),
                 wire_left(&r));
    }
    struct wire_text t;
    wire_text_init(&t, v->text, LINE_SIZE_MAX);
    t.reveal = true;
    v->of->print(&t, v->version, v->message);
    if (strcmp(v->text, v->json) != 0) {
        fail_msg("%s %d:\nours  %s\ntheirs %s", v->of->name, v->version, v->text, v->json);
    }
    struct wire_writer w;
    wire_writer_init_fixed(&w, (struct mslice){v->again, LINE_SIZE_MAX});
    e = v->of->encode(&w, v->version, v->message);
    if (e || w.pos != v->size || memcmp(v->again, v->bytes, v->size) != 0) {
        fail_msg("%s %d: encode: %s, %zu of %zu bytes", v->of->name, v->version, err_name(e), w.pos,
                 v->size);
    }
    assert_int_equal(v->of->measure(v->version, v->message), v->size);
}

static void test_every_vector_decodes_prints_and_encodes_as_in_kafka(void **state)
{
    (void)state;
    struct vectors v;
    struct arena a;
    vectors_open(&v);
    arena_init(&a, 65536, 0);
    size_t count = 0;
    uint32_t *seen = mem_array(wire_messages_count, sizeof *seen);
    assert_non_null(seen);
    while (vectors_next(&v)) {
        check_vector(&v, &a);
        assert_true(v.version < VERSIONS_MAX);
        seen[v.of - wire_messages] |= 1u << v.version;
        count++;
    }
    assert_true(count > 3000);
    for (size_t i = 0; i < wire_messages_count; i++) {
        const struct wire_message *m = &wire_messages[i];
        for (int version = m->version_min; version <= m->version_max; version++) {
            if (!(seen[i] & (1u << version))) { fail_msg("no vector of %s %d", m->name, version); }
        }
    }
    mem_free(seen);
    arena_fini(&a);
    vectors_close(&v);
}

/* A message cut anywhere is malformed: every byte of it is needed. */
static void test_every_cut_of_a_message_is_malformed(void **state)
{
    (void)state;
    struct vectors v;
    struct arena a;
    vectors_open(&v);
    arena_init(&a, 65536, 0);
    while (vectors_next(&v)) {
        size_t step = v.size > 512 ? v.size / 64 : 1;
        for (size_t cut = 0; cut < v.size; cut += step) {
            /* A copy of its own, so that the address sanitizer sees a read beyond the end. */
            uint8_t *part = mem_alloc(cut);
            assert_non_null(part);
            memcpy(part, v.bytes, cut);
            struct wire_reader r;
            wire_reader_init(&r, slice_of(part, cut));
            arena_reset(&a);
            a.limit = WIRE_DECODE_BUDGET(cut);
            enum err e = v.of->decode(&r, v.version, &a, v.message);
            if (e != ERR_MALFORMED) {
                fail_msg("%s %d cut at %zu: %s", v.of->name, v.version, cut, err_name(e));
            }
            mem_free(part);
        }
    }
    arena_fini(&a);
    vectors_close(&v);
}

/* A version that the protocol does not have is refused in both directions. */
static void test_versions_outside_the_range_are_refused(void **state)
{
    (void)state;
    void *m = mem_alloc(4096);
    struct arena a;
    arena_init(&a, 4096, 65536);
    for (size_t i = 0; i < wire_messages_count; i++) {
        const struct wire_message *of = &wire_messages[i];
        int versions[] = {of->version_min - 1, of->version_max + 1};
        for (size_t k = 0; k < 2; k++) {
            uint8_t bytes[64] = {0};
            struct wire_reader r;
            wire_reader_init(&r, slice_of(bytes, sizeof bytes));
            assert_int_equal(of->decode(&r, versions[k], &a, m), ERR_UNSUPPORTED);
            struct wire_writer w;
            wire_writer_init_fixed(&w, (struct mslice){bytes, sizeof bytes});
            assert_int_equal(of->encode(&w, versions[k], m), ERR_UNSUPPORTED);
        }
    }
    arena_fini(&a);
    mem_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_vector_decodes_prints_and_encodes_as_in_kafka),
        cmocka_unit_test(test_every_cut_of_a_message_is_malformed),
        cmocka_unit_test(test_versions_outside_the_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
