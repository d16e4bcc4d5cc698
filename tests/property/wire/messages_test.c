/* messages_test.c - over all messages and versions: what decodes, encodes again to a message that
 * means the same.
 *
 * Inputs are Kafka's golden vectors with bytes changed, cut or put in, and plain noise, from a
 * fixed seed. */
#include "base/arena.h"
#include "base/mem.h"
#include "wire/message.h"
#include "wire/reader.h"
#include "wire/text.h"
#include "wire/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#define SIZE_MAX_HERE ((size_t)1 << 20)
#define MESSAGE_SIZE_MAX 4096

struct room {
    uint64_t seed;
    struct arena arena[2];
    uint8_t message[2][MESSAGE_SIZE_MAX];
    uint8_t *bytes[2];
    char *text[2];
    uint64_t decoded;
    uint64_t refused;
};

static uint32_t next(struct room *m, uint32_t below)
{
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->seed >> 33) % below;
}

static int room_setup(void **state)
{
    struct room *m = mem_new(struct room);
    assert_non_null(m);
    m->seed = 20240607;
    for (size_t i = 0; i < 2; i++) {
        arena_init(&m->arena[i], 65536, 0);
        m->bytes[i] = mem_alloc(SIZE_MAX_HERE);
        m->text[i] = mem_alloc(4 * SIZE_MAX_HERE);
        assert_true(m->bytes[i] && m->text[i]);
    }
    *state = m;
    return 0;
}

static int room_teardown(void **state)
{
    struct room *m = *state;
    for (size_t i = 0; i < 2; i++) {
        arena_fini(&m->arena[i]);
        mem_free(m->bytes[i]);
        mem_free(m->text[i]);
    }
    mem_free(m);
    return 0;
}

static enum err decode(struct room *m, size_t i, const struct wire_message *of, int version,
                       struct slice in)
{
    struct wire_reader r;
    wire_reader_init(&r, in);
    arena_reset(&m->arena[i]);
    m->arena[i].limit = WIRE_DECODE_BUDGET(in.size);
    enum err e = of->decode(&r, version, &m->arena[i], m->message[i]);
    assert_true(m->arena[i].total <= m->arena[i].limit);
    assert_true(e == ERR_OK || e == ERR_MALFORMED || e == ERR_NOMEM);
    return e;
}

static size_t encode(struct room *m, size_t i, const struct wire_message *of, int version)
{
    struct wire_writer w;
    wire_writer_init_fixed(&w, (struct mslice){m->bytes[i], SIZE_MAX_HERE});
    enum err e = of->encode(&w, version, m->message[i]);
    if (e) { fail_msg("%s %d: encode: %s", of->name, version, err_name(e)); }
    struct wire_text t;
    wire_text_init(&t, m->text[i], 4 * SIZE_MAX_HERE);
    t.reveal = true;
    of->print(&t, version, m->message[i]);
    return w.pos;
}

/* Takes any bytes. What decodes is encoded; that decodes to the same text and encodes to the same
 * bytes. */
static void check(struct room *m, const struct wire_message *of, int version, struct slice in)
{
    if (decode(m, 0, of, version, in)) {
        m->refused++;
        return;
    }
    m->decoded++;
    size_t size = encode(m, 0, of, version);
    assert_int_equal(of->measure(version, m->message[0]), size);
    if (decode(m, 1, of, version, slice_of(m->bytes[0], size))) {
        fail_msg("%s %d: what we wrote does not decode", of->name, version);
    }
    assert_int_equal(encode(m, 1, of, version), size);
    assert_memory_equal(m->bytes[0], m->bytes[1], size);
    assert_string_equal(m->text[0], m->text[1]);
}

static size_t mutate(struct room *m, uint8_t *b, size_t size)
{
    static const uint8_t nasty[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0xfe};
    uint32_t changes = 1 + next(m, 3);
    for (uint32_t i = 0; i < changes && size > 0; i++) {
        size_t at = next(m, (uint32_t)size);
        switch (next(m, 5)) {
        case 0:
            b[at] = nasty[next(m, sizeof nasty)];
            break;
        case 1:
            b[at] ^= (uint8_t)(1u << next(m, 8));
            break;
        case 2: /* take one out */
            memmove(b + at, b + at + 1, size - at - 1);
            size--;
            break;
        case 3: /* put one in */
            memmove(b + at + 1, b + at, size - at);
            b[at] = (uint8_t)next(m, 256);
            size++;
            break;
        default:
            b[at]++;
            break;
        }
    }
    return size;
}

static const struct wire_message *find(const char *name)
{
    for (size_t i = 0; i < wire_messages_count; i++) {
        if (strcmp(wire_messages[i].name, name) == 0) { return &wire_messages[i]; }
    }
    fail_msg("unknown message %s", name);
    return NULL;
}

static size_t parse_hex(const char *hex, uint8_t *out)
{
    size_t size = strlen(hex) / 2;
    for (size_t i = 0; i < size; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return size;
}

static void test_changed_vectors_are_refused_or_mean_what_they_encode_to(void **state)
{
    struct room *m = *state;
    gzFile file = gzopen("tests/golden/vectors.txt.gz", "rb");
    char *line = mem_alloc(SIZE_MAX_HERE);
    uint8_t *vector = mem_alloc(SIZE_MAX_HERE);
    assert_true(file && line && vector);
    while (gzgets(file, line, (int)SIZE_MAX_HERE)) {
        char *save = NULL;
        const struct wire_message *of = find(strtok_r(line, " ", &save));
        int version = atoi(strtok_r(NULL, " ", &save));
        strtok_r(NULL, " ", &save);
        size_t size = parse_hex(strtok_r(NULL, " ", &save) + 1, vector);
        assert_true(of->size <= MESSAGE_SIZE_MAX);
        for (int i = 0; i < (size > 4096 ? 2 : 20); i++) {
            /* Room for three more bytes, exactly as long as it is for the address sanitizer. */
            uint8_t *changed = mem_alloc(size + 3);
            assert_non_null(changed);
            memcpy(changed, vector, size);
            size_t changed_size = mutate(m, changed, size);
            uint8_t *exact = mem_alloc(changed_size);
            assert_non_null(exact);
            memcpy(exact, changed, changed_size);
            mem_free(changed);
            check(m, of, version, slice_of(exact, changed_size));
            mem_free(exact);
        }
    }
    gzclose(file);
    mem_free(vector);
    mem_free(line);
    /* Both ways were really taken. */
    assert_true(m->decoded > 1000 && m->refused > 1000);
}

static void test_noise_is_refused_or_means_what_it_encodes_to(void **state)
{
    struct room *m = *state;
    for (size_t i = 0; i < wire_messages_count; i++) {
        const struct wire_message *of = &wire_messages[i];
        for (int version = of->version_min; version <= of->version_max; version++) {
            for (int k = 0; k < 30; k++) {
                size_t size = next(m, 200);
                uint8_t *noise = mem_alloc(size);
                assert_non_null(noise);
                for (size_t j = 0; j < size; j++) {
                    noise[j] = (uint8_t)(next(m, 3) ? next(m, 4) : next(m, 256));
                }
                check(m, of, version, slice_of(noise, size));
                mem_free(noise);
            }
        }
    }
}

/* A message of defaults can be sent in every version. */
static void test_defaults_encode_in_every_version(void **state)
{
    struct room *m = *state;
    for (size_t i = 0; i < wire_messages_count; i++) {
        const struct wire_message *of = &wire_messages[i];
        for (int version = of->version_min; version <= of->version_max; version++) {
            of->init(m->message[0]);
            size_t size = encode(m, 0, of, version);
            assert_int_equal(decode(m, 1, of, version, slice_of(m->bytes[0], size)), ERR_OK);
            assert_int_equal(encode(m, 1, of, version), size);
            assert_memory_equal(m->bytes[0], m->bytes[1], size);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_changed_vectors_are_refused_or_mean_what_they_encode_to, room_setup,
            room_teardown),
        cmocka_unit_test_setup_teardown(test_noise_is_refused_or_means_what_it_encodes_to,
                                        room_setup, room_teardown),
        cmocka_unit_test_setup_teardown(test_defaults_encode_in_every_version, room_setup,
                                        room_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
