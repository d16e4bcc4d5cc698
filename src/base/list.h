/* list.h - intrusive doubly linked ring. A head or an unlinked node points to itself. Not for
 * concurrent use. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>

struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
    l->next = l->prev = l;
}

static inline bool list_is_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_insert_between(struct list *n, struct list *before, struct list *after)
{
    n->prev = before;
    n->next = after;
    before->next = n;
    after->prev = n;
}

static inline void list_add_tail(struct list *head, struct list *n)
{
    list_insert_between(n, head->prev, head);
}

static inline void list_add_head(struct list *head, struct list *n)
{
    list_insert_between(n, head, head->next);
}

/* Leaves n unlinked (pointing to itself); harmless when it already is. */
static inline void list_remove(struct list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    list_init(n);
}

/* First node unlinked and returned, NULL when empty. */
static inline struct list *list_pop_head(struct list *head)
{
    if (list_is_empty(head)) { return (struct list *)0; }
    struct list *n = head->next;
    list_remove(n);
    return n;
}

#define LIST_ENTRY(node, type, member) CONTAINER_OF(node, type, member)

/* Safe against removal of the current node. */
#define LIST_EACH(var, next_var, head)                                                             \
    for (struct list *var = (head)->next, *next_var = var->next; var != (head);                    \
         var = next_var, next_var = var->next)

#endif
