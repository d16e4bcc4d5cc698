/* batch_test.c - batches with a heap that counts and fails: the n-th allocation failing is refused
 * cleanly and leaks nothing; in steady state there is no allocation at all. */
#include "wire/batch.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define RECORDS_COUNT 300
#define FAILURES_MAX 200

static struct {
    long calls;
    long fail_at; /* the call that fails, -1: none */
    long live;
} heap = {.fail_at = -1};

static bool fails(void)
{
    return heap.calls++ == heap.fail_at;
}

/* These stand in for base/mem.c. */
void *mem_alloc(size_t size)
{
    if (fails()) { return NULL; }
    heap.live++;
    return malloc(size ? size : 1);
}

void *mem_zalloc(size_t size)
{
    if (fails()) { return NULL; }
    heap.live++;
    return calloc(1, size ? size : 1);
}

void *mem_array(size_t count, size_t size)
{
    if (fails()) { return NULL; }
    heap.live++;
    return calloc(count ? count : 1, size ? size : 1);
}

void *mem_realloc(void *p, size_t size)
{
    if (fails()) { return NULL; }
    heap.live += p == NULL;
    return realloc(p, size ? size : 1);
}

void mem_free(void *p)
{
    heap.live -= p != NULL;
    free(p);
}

static void build(enum codec codec, struct wire_buf *out)
{
    static char text[] = "a record that looks much like the one before it";
    struct batch_build_record r[RECORDS_COUNT];
    for (size_t i = 0; i < RECORDS_COUNT; i++) {
        r[i] = (struct batch_build_record){.timestamp = 5,
                                           .value = slice_of(text, sizeof text - i % 7)};
    }
    struct codec_scratch *s = codec_scratch_create();
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    o.codec = codec;
    wire_buf_init(out, 1u << 20);
    assert_int_equal(batch_build(&o, r, RECORDS_COUNT, s, out), ERR_OK);
    codec_scratch_destroy(s);
}

static const struct batch_rules rules_keep = {
    .now_ms = 5, .time_before_max_ms = 5, .time_after_max_ms = 5, .zstd_allowed = true};

/* Validate, and rewrite when the rules want it. */
static enum batch_reject run(const struct batch_rules *rules, struct codec_scratch *s,
                             const struct wire_buf *batch, struct wire_buf *out)
{
    struct batch_facts f;
    enum batch_reject r = batch_validate(rules, s, (struct mslice){batch->at, batch->size}, &f);
    if (r == BATCH_OK && f.recompress) {
        r = batch_recompress(rules, s, wire_buf_slice(batch), &f, out);
    }
    return r;
}

static void test_steady_state_allocates_nothing(void **state)
{
    (void)state;
    for (int from = 0; from < CODEC_COUNT; from++) {
        for (int to = 0; to < CODEC_COUNT; to++) {
            struct wire_buf batch;
            struct wire_buf out;
            build((enum codec)from, &batch);
            wire_buf_init(&out, 1u << 20);
            struct codec_scratch *s = codec_scratch_create();
            struct batch_rules rules = rules_keep;
            rules.codec_forced = true;
            rules.codec = (enum codec)to;
            rules.level = CODEC_LEVEL_DEFAULT;
            assert_int_equal(run(&rules, s, &batch, &out), BATCH_OK);
            assert_int_equal(run(&rules, s, &batch, &out), BATCH_OK);
            long before = heap.calls;
            for (int i = 0; i < 20; i++) {
                assert_int_equal(run(&rules, s, &batch, &out), BATCH_OK);
            }
            assert_int_equal(heap.calls, before);
            codec_scratch_destroy(s);
            wire_buf_fini(&batch);
            wire_buf_fini(&out);
        }
    }
    assert_int_equal(heap.live, 0);
}

static void test_every_failed_allocation_is_refused_cleanly(void **state)
{
    (void)state;
    for (int from = 0; from < CODEC_COUNT; from++) {
        struct wire_buf batch;
        build((enum codec)from, &batch);
        for (int to = 0; to < CODEC_COUNT; to++) {
            long n = 0;
            enum batch_reject r = BATCH_NOMEM;
            for (; r == BATCH_NOMEM && n < FAILURES_MAX; n++) {
                long live = heap.live;
                struct wire_buf out;
                wire_buf_init(&out, 1u << 20);
                struct codec_scratch *s = codec_scratch_create();
                struct batch_rules rules = rules_keep;
                rules.codec_forced = true;
                rules.codec = (enum codec)to;
                rules.level = CODEC_LEVEL_DEFAULT;
                heap.calls = 0;
                heap.fail_at = n;
                r = run(&rules, s, &batch, &out);
                heap.fail_at = -1;
                assert_true(r == BATCH_OK || r == BATCH_NOMEM);
                /* The scratch that met the failure works once there is memory. */
                assert_int_equal(run(&rules, s, &batch, &out), BATCH_OK);
                codec_scratch_destroy(s);
                wire_buf_fini(&out);
                assert_int_equal(heap.live, live);
            }
            assert_int_equal(r, BATCH_OK);
            assert_true(from == to ? from == CODEC_NONE || n > 1 : n > 1);
        }
        wire_buf_fini(&batch);
    }
    assert_int_equal(heap.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady_state_allocates_nothing),
        cmocka_unit_test(test_every_failed_allocation_is_refused_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
