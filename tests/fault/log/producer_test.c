/* producer_test.c - producers and epochs with a heap that fails: nothing is half-made, nothing
 * leaks, and what was checked can be added. */
#include "log/epochs.h"
#include "log/producer.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

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

#define PRODUCERS_COUNT 100

static struct batch_header batch(int64_t pid)
{
    return (struct batch_header){.producer_id = pid, .max_timestamp = 5};
}

static void test_checked_producer_is_added_without_memory(void **state)
{
    (void)state;
    for (long n = 0; n < 12; n++) { /* more than the table allocates for so many */
        struct producers p;
        producers_init(&p, 1000);
        heap.calls = 0;
        heap.fail_at = n;
        for (int64_t pid = 0; pid < PRODUCERS_COUNT; pid++) {
            struct batch_header h = batch(pid);
            struct producer_duplicate dup;
            uint32_t before = p.count;
            enum err e = producers_check(&p, &h, &dup);
            if (e) {
                assert_int_equal(e, ERR_NOMEM);
                assert_int_equal(p.count, before);
                assert_null(producers_find(&p, pid));
                assert_int_equal(producers_check(&p, &h, &dup), ERR_OK);
            }
            long at = heap.fail_at;
            heap.fail_at = heap.calls; /* the next call fails: there must be none */
            assert_int_equal(producers_add(&p, &h), ERR_OK);
            heap.fail_at = at;
        }
        heap.fail_at = -1;
        for (int64_t pid = 0; pid < PRODUCERS_COUNT; pid++) {
            assert_non_null(producers_find(&p, pid));
        }
        producers_fini(&p);
        assert_int_equal(heap.live, 0);
    }
}

static void test_snapshot_without_memory_leaves_nothing(void **state)
{
    (void)state;
    struct producers p;
    struct wire_buf file;
    producers_init(&p, 1000);
    wire_buf_init(&file, 1u << 20);
    for (int64_t pid = 0; pid < PRODUCERS_COUNT; pid++) {
        struct batch_header h = batch(pid);
        assert_int_equal(producers_add(&p, &h), ERR_OK);
    }
    assert_int_equal(producers_snapshot_encode(&p, &file), ERR_OK);
    enum err e = ERR_NOMEM;
    long n = 0;
    for (; e == ERR_NOMEM; n++) {
        heap.calls = 0;
        heap.fail_at = n;
        e = producers_snapshot_decode(&p, wire_buf_slice(&file), 0, -1);
        assert_true(e == ERR_OK || (e == ERR_NOMEM && p.count == 0));
    }
    heap.fail_at = -1;
    assert_true(n > 2);
    assert_int_equal(p.count, PRODUCERS_COUNT);
    producers_fini(&p);
    wire_buf_fini(&file);
    assert_int_equal(heap.live, 0);
}

static void test_epoch_without_memory_changes_nothing(void **state)
{
    (void)state;
    struct epochs e;
    bool changed = false;
    epochs_init(&e);
    assert_int_equal(epochs_assign(&e, 1, 10, &changed), ERR_OK);
    heap.fail_at = heap.calls;
    assert_int_equal(epochs_assign(&e, 2, 20, &changed), ERR_NOMEM);
    assert_false(changed);
    assert_int_equal(e.count, 1);
    assert_int_equal(epochs_latest(&e), 1);
    heap.fail_at = -1;
    assert_int_equal(epochs_assign(&e, 2, 20, &changed), ERR_OK);
    assert_int_equal(epochs_of_offset(&e, 15), 1);
    epochs_fini(&e);
    assert_int_equal(heap.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checked_producer_is_added_without_memory),
        cmocka_unit_test(test_snapshot_without_memory_leaves_nothing),
        cmocka_unit_test(test_epoch_without_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
