/* tree_test.c - the persistent map against a plain array, and old versions that stay as they were.
 */
#include "base/check.h"
#include "base/map.h"
#include "base/mem.h"
#include "meta/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KEYS 200
#define VERSIONS 64

struct cell {
    int refs;
    int number;
};

static int live_cells;

static void cell_ref(void *value)
{
    ((struct cell *)value)->refs++;
}

static void cell_unref(void *value)
{
    struct cell *c = value;
    if (--c->refs == 0) {
        live_cells--;
        mem_free(c);
    }
}

static const struct tree_type cell_type = {cell_ref, cell_unref};

static struct cell *cell_make(int number)
{
    struct cell *c = mem_new(struct cell);
    assert_non_null(c);
    *c = (struct cell){1, number};
    live_cells++;
    return c;
}

static struct slice key_of(int k, char buf[16])
{
    buf[0] = (char)('a' + k % 26);
    buf[1] = (char)('a' + k / 26 % 26);
    return slice_of(buf, 2);
}

struct walk {
    int count;
    struct slice last;
};

static bool walk_ascends(void *ctx, struct slice key, void *value)
{
    struct walk *w = ctx;
    assert_non_null(value);
    if (w->count) { assert_true(slice_cmp(w->last, key) < 0); }
    w->last = key;
    w->count++;
    return true;
}

static void check_version(const struct tree_node *root, const int model[KEYS])
{
    char buf[16];
    int count = 0;
    for (int k = 0; k < KEYS; k++) {
        struct cell *c = tree_get(root, key_of(k, buf));
        assert_int_equal(c ? c->number : 0, model[k]);
        count += model[k] != 0;
    }
    assert_int_equal(tree_count(root), count);
    struct walk w = {0, SLICE_NULL};
    tree_each(root, SLICE_NULL, walk_ascends, &w);
    assert_int_equal(w.count, count);
}

static void test_every_version_keeps_its_content(void **state)
{
    (void)state;
    static int models[VERSIONS][KEYS];
    struct tree_node *versions[VERSIONS] = {NULL};
    int model[KEYS] = {0};
    struct tree_node *root = NULL;
    uint64_t seed = 42;
    for (int step = 0; step < 5000; step++) {
        char buf[16];
        seed = hash_u64(seed + 1);
        int k = (int)(seed % KEYS);
        struct tree_node *next;
        if (seed >> 32 & 1) {
            assert_int_equal(tree_put(&cell_type, root, key_of(k, buf), cell_make(step + 1), &next),
                             ERR_OK);
            model[k] = step + 1;
        } else {
            assert_int_equal(tree_remove(&cell_type, root, key_of(k, buf), &next), ERR_OK);
            model[k] = 0;
        }
        int slot = step % VERSIONS;
        tree_unref(&cell_type, versions[slot]);
        versions[slot] = root; /* the old version stays alive here */
        memcpy(models[slot], model, sizeof model);
        root = next;
        if (step % 250 == 249) { check_version(root, model); }
        /* versions[slot] is the tree before this step; it must equal the model of the step before.
         */
        if (step % 333 == 332) {
            check_version(versions[slot], models[(step + VERSIONS - 1) % VERSIONS]);
        }
    }
    for (int i = 0; i < VERSIONS; i++) {
        tree_unref(&cell_type, versions[i]);
    }
    tree_unref(&cell_type, root);
    assert_int_equal(live_cells, 0);
}

static void test_a_walk_begins_at_the_given_key(void **state)
{
    (void)state;
    struct tree_node *root = NULL;
    for (int i = 0; i < 3; i++) {
        const char *names[] = {"a", "c", "e"};
        struct tree_node *next;
        assert_int_equal(tree_put(&cell_type, root, slice_str(names[i]), cell_make(i + 1), &next),
                         ERR_OK);
        tree_unref(&cell_type, root);
        root = next;
    }
    struct walk w = {0, SLICE_NULL};
    tree_each(root, slice_str("b"), walk_ascends, &w);
    assert_int_equal(w.count, 2);
    tree_unref(&cell_type, root);
    assert_int_equal(live_cells, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_version_keeps_its_content),
        cmocka_unit_test(test_a_walk_begins_at_the_given_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
