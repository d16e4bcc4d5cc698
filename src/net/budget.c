/* budget.c - bytes that frames may take together; a fair line when there are none left.
 *
 * Thread:     any; the line is guarded by the lock.
 * Invariants: [NET-8] used is the sum of what was taken and not given back.
 *             No lost grant: who joins the line counts itself in before it tries once more, who
 *             gives back subtracts before it looks at the count; both are sequentially consistent.
 * Failure:    none; a frame larger than the budget is taken when nothing else is. */
#include "net/net_int.h"

void net_budget_init(struct net_budget *b, uint64_t max)
{
    atomic_init(&b->used, 0);
    atomic_init(&b->waiters_count, 0);
    b->max = max;
    sys_mutex_init(&b->lock, SYS_RANK_NET);
    list_init(&b->waiters);
}

void net_budget_fini(struct net_budget *b)
{
    CHECK(list_is_empty(&b->waiters));
    sys_mutex_fini(&b->lock);
}

/* What is used beyond 'own' and 'size' more stay below max, or nothing is. */
static bool net_budget_add(struct net_budget *b, size_t own, size_t size, uint64_t max)
{
    uint64_t used = atomic_load(&b->used);
    do {
        if (used > own && (used > max || size > max - used)) { return false; }
    } while (!atomic_compare_exchange_weak(&b->used, &used, used + size));
    return true;
}

static bool net_budget_try(struct net_budget *b, size_t size, uint64_t max)
{
    return net_budget_add(b, 0, size, max);
}

bool net_budget_take_whole(struct net_budget *b, size_t size)
{
    return size <= NET_BUDGET_SMALL && net_budget_try(b, size, b->max);
}

bool net_budget_take_more(struct net_budget *b, size_t own, size_t size)
{
    return atomic_load(&b->waiters_count) == 0 && net_budget_add(b, own, size, b->max / 2);
}

static uint64_t net_budget_line_max(const struct net_budget *b)
{
    return b->max - b->max / 8;
}

bool net_budget_take(struct net_budget *b, struct net_waiter *w, size_t size)
{
    DCHECK(w->state == NET_WAITER_NONE);
    if (atomic_load(&b->waiters_count) == 0 && net_budget_try(b, size, net_budget_line_max(b))) {
        return true;
    }
    sys_mutex_lock(&b->lock);
    bool first = list_is_empty(&b->waiters);
    atomic_fetch_add(&b->waiters_count, 1);
    if (first && net_budget_try(b, size, net_budget_line_max(b))) {
        atomic_fetch_sub(&b->waiters_count, 1);
        sys_mutex_unlock(&b->lock);
        return true;
    }
    w->size = size;
    w->state = NET_WAITER_IN_LINE;
    list_add_tail(&b->waiters, &w->link);
    sys_mutex_unlock(&b->lock);
    return false;
}

/* Moves the heads that fit to 'granted'; they are told once the lock is free. */
static void net_budget_grant(struct net_budget *b, struct list *granted) HOLDS(b->lock)
{
    while (!list_is_empty(&b->waiters)) {
        struct net_waiter *w = LIST_ENTRY(b->waiters.next, struct net_waiter, link);
        if (!net_budget_try(b, w->size, net_budget_line_max(b))) { return; }
        list_remove(&w->link);
        w->state = NET_WAITER_GRANTED;
        atomic_fetch_sub(&b->waiters_count, 1);
        list_add_tail(granted, &w->link);
    }
}

static void net_budget_serve(struct net_budget *b)
{
    struct list granted;
    list_init(&granted);
    sys_mutex_lock(&b->lock);
    net_budget_grant(b, &granted);
    sys_mutex_unlock(&b->lock);
    for (struct list *l = list_pop_head(&granted); l; l = list_pop_head(&granted)) {
        struct net_waiter *w = LIST_ENTRY(l, struct net_waiter, link);
        net_processor_post(w->processor, &w->msg);
    }
}

void net_budget_give(struct net_budget *b, size_t size)
{
    uint64_t before = atomic_fetch_sub(&b->used, size);
    CHECKF(before >= size, "[NET-8] used=%llu size=%zu", (unsigned long long)before, size);
    if (atomic_load(&b->waiters_count) > 0) { net_budget_serve(b); }
}

bool net_budget_leave(struct net_budget *b, struct net_waiter *w)
{
    sys_mutex_lock(&b->lock);
    bool left = w->state == NET_WAITER_IN_LINE;
    if (left) {
        list_remove(&w->link);
        w->state = NET_WAITER_NONE;
        atomic_fetch_sub(&b->waiters_count, 1);
    }
    sys_mutex_unlock(&b->lock);
    /* Those behind a large frame that left may fit now. */
    if (left && atomic_load(&b->waiters_count) > 0) { net_budget_serve(b); }
    return left;
}
