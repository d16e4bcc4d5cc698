/* tree.h - persistent ordered map: a new version shares all nodes but O(log n) with the old one.
 *
 * Place:      meta's images (topics by name, by id, configurations) are such trees. A treap whose
 *             priorities are hashes of the keys, so its shape depends on the content alone.
 * Thread:     a version never changes, so any thread may read it without a lock. References are
 *             atomic; new versions are made by one thread at a time.
 * Ownership:  a root counts as one reference. tree_put/tree_remove give a new root and leave the
 *             old one as it was. A node owns one reference to its value, dropped through
 *             tree_type.unref.
 * Invariants: [TREE-1] keys ascend in order (slice_cmp). [TREE-2] a parent's priority is not below
 *             its children's. */
#ifndef META_TREE_H
#define META_TREE_H

#include "base/err.h"
#include "base/slice.h"

struct tree_node;

struct tree_type {
    void (*ref)(void *value);
    void (*unref)(void *value);
};

/* NULL when absent. */
void *tree_get(const struct tree_node *root, struct slice key);
size_t tree_count(const struct tree_node *root);

/* Takes over one reference to value, also on failure. *out is a new root. O(log n). */
NODISCARD enum err tree_put(const struct tree_type *type, struct tree_node *root, struct slice key,
                            void *value, struct tree_node **out);
/* *out is a new root (another reference to the same one when the key is absent). */
NODISCARD enum err tree_remove(const struct tree_type *type, struct tree_node *root,
                               struct slice key, struct tree_node **out);

struct tree_node *tree_ref(struct tree_node *root);
void tree_unref(const struct tree_type *type, struct tree_node *root); /* accepts NULL */

/* Calls visit in key order, from the first key >= from, until it returns false. */
void tree_each(const struct tree_node *root, struct slice from,
               bool (*visit)(void *ctx, struct slice key, void *value), void *ctx);

#endif
