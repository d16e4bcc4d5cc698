/* limits.c - how many connections are open, in all and per address, and how many may be.
 *
 * Thread:     any, under the table's lock: acceptors enter, processors leave, the broker's thread
 *             changes the limits.
 * Failure:    ERR_NOMEM while counting a connection in refuses it; counting out cannot fail. */
#include "net/net_int.h"

void net_limits_init(struct net_limit_table *t)
{
    sys_mutex_init(&t->lock, SYS_RANK_NET);
    map_init(&t->overrides);
    map_init(&t->counts);
    t->connections = 0;
    t->connections_max = t->per_ip_max = INT32_MAX;
}

void net_limits_fini(struct net_limit_table *t)
{
    map_fini(&t->overrides);
    map_fini(&t->counts);
    sys_mutex_fini(&t->lock);
}

/* The maps hold numbers in place of pointers, one more than the number so that 0 is absent. */
static void *net_number(uint64_t n)
{
    return (void *)(uintptr_t)(n + 1);
}

static bool net_number_get(const struct map *m, struct slice key, uint64_t *out)
{
    uintptr_t v = (uintptr_t)map_get(m, key);
    *out = v ? v - 1 : 0;
    return v != 0;
}

enum err net_limits_set(struct net_limit_table *t, const struct net_limits *limits)
{
    struct map fresh;
    map_init(&fresh);
    for (size_t i = 0; i < limits->overrides_count; i++) {
        const struct net_ip_limit *o = &limits->overrides[i];
        enum err e = map_put(&fresh, slice_str(o->address), net_number(o->connections_max), NULL);
        if (e) {
            map_fini(&fresh);
            return e;
        }
    }
    sys_mutex_lock(&t->lock);
    struct map old = t->overrides;
    t->overrides = fresh;
    t->connections_max = limits->connections_max;
    t->per_ip_max = limits->connections_per_ip_max;
    sys_mutex_unlock(&t->lock);
    map_fini(&old);
    return ERR_OK;
}

static enum err net_limits_enter_locked(struct net_limit_table *t, struct slice address,
                                        bool is_control, const char **what) HOLDS(t->lock)
{
    uint64_t open, max;
    (void)net_number_get(&t->counts, address, &open);
    if (!net_number_get(&t->overrides, address, &max)) { max = t->per_ip_max; }
    if (open >= max) {
        *what = "max.connections.per.ip";
        return ERR_LIMIT;
    }
    if (!is_control && t->connections >= t->connections_max) {
        *what = "max.connections";
        return ERR_LIMIT;
    }
    enum err e = map_put(&t->counts, address, net_number(open + 1), NULL);
    if (e) { return e; }
    if (!is_control) { t->connections++; }
    return ERR_OK;
}

enum err net_limits_enter(struct net_limit_table *t, const char *address, bool is_control,
                          const char **what)
{
    *what = "memory";
    sys_mutex_lock(&t->lock);
    enum err e = net_limits_enter_locked(t, slice_str(address), is_control, what);
    sys_mutex_unlock(&t->lock);
    return e;
}

void net_limits_leave(struct net_limit_table *t, const char *address, bool is_control)
{
    struct slice key = slice_str(address);
    uint64_t open;
    sys_mutex_lock(&t->lock);
    bool known = net_number_get(&t->counts, key, &open);
    CHECK(known && open > 0);
    if (open == 1) {
        (void)map_remove(&t->counts, key);
    } else {
        /* The key is there, so this replaces in place and cannot fail. */
        err_ignore(map_put(&t->counts, key, net_number(open - 1), NULL), "replaces a value");
    }
    if (!is_control) {
        CHECK(t->connections > 0);
        t->connections--;
    }
    sys_mutex_unlock(&t->lock);
}
