/* tree.c - split and merge on shared, immutable nodes. */
#include "meta/tree.h"

#include "base/check.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdatomic.h>

struct tree_node {
    _Atomic uint32_t refs;
    uint32_t key_size;
    uint64_t priority;
    size_t count; /* of this subtree */
    struct tree_node *left, *right;
    void *value;
    uint8_t key[];
};

static struct slice node_key(const struct tree_node *n)
{
    return slice_of(n->key, n->key_size);
}

size_t tree_count(const struct tree_node *root)
{
    return root ? root->count : 0;
}

void *tree_get(const struct tree_node *root, struct slice key)
{
    while (root) {
        int c = slice_cmp(key, node_key(root));
        if (c == 0) { return root->value; }
        root = c < 0 ? root->left : root->right;
    }
    return NULL;
}

struct tree_node *tree_ref(struct tree_node *root)
{
    if (root) { atomic_fetch_add_explicit(&root->refs, 1, memory_order_relaxed); }
    return root;
}

void tree_unref(const struct tree_type *type, struct tree_node *root)
{
    while (root) {
        /* Release: our reads come before the free; acquire: the freeing thread sees them all. */
        if (atomic_fetch_sub_explicit(&root->refs, 1, memory_order_acq_rel) != 1) { return; }
        struct tree_node *right = root->right;
        tree_unref(type, root->left); /* depth is O(log n) */
        type->unref(root->value);
        mem_free(root);
        root = right;
    }
}

/* A node with the given children; takes over the references to left, right and value, also on
 * failure. */
static struct tree_node *node_make(const struct tree_type *type, struct slice key,
                                   uint64_t priority, void *value, struct tree_node *left,
                                   struct tree_node *right)
{
    struct tree_node *n = key.size <= UINT32_MAX ? mem_alloc(sizeof *n + key.size) : NULL;
    if (!n) {
        tree_unref(type, left);
        tree_unref(type, right);
        type->unref(value);
        return NULL;
    }
    atomic_init(&n->refs, 1);
    n->key_size = (uint32_t)key.size;
    n->priority = priority;
    n->count = 1 + tree_count(left) + tree_count(right);
    n->left = left;
    n->right = right;
    n->value = value;
    if (key.size) { memcpy(n->key, key.at, key.size); }
    return n;
}

/* A copy of n with other children (references taken over). */
static struct tree_node *node_with(const struct tree_type *type, const struct tree_node *n,
                                   struct tree_node *left, struct tree_node *right)
{
    type->ref(n->value);
    return node_make(type, node_key(n), n->priority, n->value, left, right);
}

/* Splits into keys below and keys above; the key itself is dropped. False without memory (both NULL
 * then). */
static bool tree_split(const struct tree_type *type, struct tree_node *n, struct slice key,
                       struct tree_node **below, struct tree_node **above)
{
    *below = *above = NULL;
    if (!n) { return true; }
    int c = slice_cmp(key, node_key(n));
    if (c == 0) {
        *below = tree_ref(n->left);
        *above = tree_ref(n->right);
        return true;
    }
    struct tree_node *inner_below, *inner_above;
    if (!tree_split(type, c < 0 ? n->left : n->right, key, &inner_below, &inner_above)) {
        return false;
    }
    if (c < 0) {
        *above = node_with(type, n, inner_above, tree_ref(n->right));
        *below = inner_below;
        if (*above) { return true; }
    } else {
        *below = node_with(type, n, tree_ref(n->left), inner_below);
        *above = inner_above;
        if (*below) { return true; }
    }
    tree_unref(type, *below);
    tree_unref(type, *above);
    *below = *above = NULL;
    return false;
}

static bool node_is_above(const struct tree_node *a, const struct tree_node *b)
{
    return a->priority != b->priority ? a->priority > b->priority
                                      : slice_cmp(node_key(a), node_key(b)) < 0;
}

/* Every key of a is below every key of b. Borrows both; *out is a new root. False without memory.
 */
static bool tree_merge(const struct tree_type *type, struct tree_node *a, struct tree_node *b,
                       struct tree_node **out)
{
    *out = NULL;
    if (!a || !b) {
        *out = tree_ref(a ? a : b);
        return true;
    }
    struct tree_node *inner;
    if (node_is_above(a, b)) {
        if (!tree_merge(type, a->right, b, &inner)) { return false; }
        *out = node_with(type, a, tree_ref(a->left), inner);
    } else {
        if (!tree_merge(type, a, b->left, &inner)) { return false; }
        *out = node_with(type, b, inner, tree_ref(b->right));
    }
    return *out != NULL;
}

/* Puts a key that is known to be absent or replaced; borrows root, takes the reference to value. */
static struct tree_node *tree_insert(const struct tree_type *type, struct tree_node *root,
                                     struct slice key, uint64_t priority, void *value)
{
    if (root && root->priority > priority && slice_cmp(key, node_key(root)) != 0) {
        bool is_left = slice_cmp(key, node_key(root)) < 0;
        struct tree_node *child =
            tree_insert(type, is_left ? root->left : root->right, key, priority, value);
        if (!child) { return NULL; }
        return is_left ? node_with(type, root, child, tree_ref(root->right))
                       : node_with(type, root, tree_ref(root->left), child);
    }
    struct tree_node *below, *above;
    if (!tree_split(type, root, key, &below, &above)) {
        type->unref(value);
        return NULL;
    }
    return node_make(type, key, priority, value, below, above);
}

enum err tree_put(const struct tree_type *type, struct tree_node *root, struct slice key,
                  void *value, struct tree_node **out)
{
    *out = tree_insert(type, root, key, hash_bytes(key.at, key.size, 0), value);
    return *out ? ERR_OK : ERR_NOMEM;
}

static bool tree_delete(const struct tree_type *type, struct tree_node *n, struct slice key,
                        struct tree_node **out)
{
    int c = slice_cmp(key, node_key(n));
    if (c == 0) { return tree_merge(type, n->left, n->right, out); }
    struct tree_node *child;
    if (!tree_delete(type, c < 0 ? n->left : n->right, key, &child)) { return false; }
    *out = c < 0 ? node_with(type, n, child, tree_ref(n->right))
                 : node_with(type, n, tree_ref(n->left), child);
    return *out != NULL;
}

enum err tree_remove(const struct tree_type *type, struct tree_node *root, struct slice key,
                     struct tree_node **out)
{
    *out = NULL;
    if (!tree_get(root, key)) {
        *out = tree_ref(root);
        return ERR_OK;
    }
    return tree_delete(type, root, key, out) ? ERR_OK : ERR_NOMEM;
}

static bool tree_walk(const struct tree_node *n, struct slice from,
                      bool (*visit)(void *ctx, struct slice key, void *value), void *ctx)
{
    while (n) {
        if (slice_cmp(node_key(n), from) >= 0) {
            if (!tree_walk(n->left, from, visit, ctx)) { return false; }
            if (!visit(ctx, node_key(n), n->value)) { return false; }
        }
        n = n->right;
    }
    return true;
}

void tree_each(const struct tree_node *root, struct slice from,
               bool (*visit)(void *ctx, struct slice key, void *value), void *ctx)
{
    tree_walk(root, from, visit, ctx);
}
