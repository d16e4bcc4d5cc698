/* device.c - which devices are slow: a stamp for each call that is under way.
 *
 * Thread:     any, without a lock. Slots for devices are taken under sys->lock and never given
 *             back.
 * Invariants: [SYS-7] a device is slow while a stamped call is older than SYS_DEVICE_SLOW_NS, and
 *             after such a call until SYS_DEVICE_QUICK_COUNT quick ones ended in a row. Calls that
 *             exist to wait (sync, warm) are not stamped: a flush of 10 ms is no sign of a slow
 *             device, an append that waits behind it is. */
#include "sys/sys_int.h"

static _Thread_local unsigned sys_device_slot; /* where this thread looks first */

static struct sys_device *sys_device_find(struct sys *sys, uint64_t id)
{
    for (size_t i = 0; i < SYS_DEVICES_MAX; i++) {
        /* Acquire; pairs with the release in sys_device_of(). */
        uint64_t at = atomic_load_explicit(&sys->devices[i].id, memory_order_acquire);
        if (at == id) { return &sys->devices[i]; }
        if (at == 0) { return NULL; }
    }
    return NULL;
}

struct sys_device *sys_device_of(struct sys *sys, uint64_t id)
{
    if (id == 0) { return NULL; }
    struct sys_device *d = sys_device_find(sys, id);
    if (d) { return d; }
    sys_mutex_lock(&sys->lock);
    d = sys_device_find(sys, id);
    for (size_t i = 0; !d && i < SYS_DEVICES_MAX; i++) {
        struct sys_device *free_slot = &sys->devices[i];
        if (atomic_load_explicit(&free_slot->id, memory_order_relaxed) != 0) { continue; }
        atomic_store_explicit(&free_slot->id, id, memory_order_release);
        d = free_slot;
    }
    sys_mutex_unlock(&sys->lock);
    return d;
}

struct sys_stamp sys_device_begin(struct sys_device *d)
{
    struct sys_stamp stamp = {.started_ns = sys_clock_ns(), .slot = SYS_DEVICE_CALLS_MAX};
    if (!d) { return stamp; }
    for (unsigned i = 0; i < SYS_DEVICE_CALLS_MAX; i++) {
        unsigned slot = (sys_device_slot + i) % SYS_DEVICE_CALLS_MAX;
        uint64_t free_stamp = 0;
        if (atomic_compare_exchange_strong_explicit(&d->started_ns[slot], &free_stamp,
                                                    stamp.started_ns, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            stamp.slot = slot;
            sys_device_slot = slot;
            break;
        }
    }
    return stamp;
}

void sys_device_end(struct sys_device *d, struct sys_stamp stamp)
{
    if (!d) { return; }
    bool slow = sys_clock_ns() - stamp.started_ns > SYS_DEVICE_SLOW_NS;
    unsigned left = atomic_load_explicit(&d->slow_left, memory_order_relaxed);
    if (slow) {
        atomic_store_explicit(&d->slow_left, SYS_DEVICE_QUICK_COUNT, memory_order_relaxed);
    } else if (left > 0) {
        /* A race with another thread costs one quick call more or less. */
        atomic_store_explicit(&d->slow_left, left - 1, memory_order_relaxed);
    }
    if (stamp.slot < SYS_DEVICE_CALLS_MAX) {
        atomic_store_explicit(&d->started_ns[stamp.slot], 0, memory_order_relaxed);
    }
}

bool sys_device_is_slow(struct sys *sys, uint64_t device)
{
    const struct sys_device *d = sys_device_find(sys, device);
    if (!d) { return false; }
    if (atomic_load_explicit(&d->slow_left, memory_order_relaxed) > 0) { return true; }
    uint64_t now = 0;
    for (unsigned i = 0; i < SYS_DEVICE_CALLS_MAX; i++) {
        uint64_t started = atomic_load_explicit(&d->started_ns[i], memory_order_relaxed);
        if (started == 0) { continue; }
        if (now == 0) { now = sys_clock_ns(); }
        if (now > started && now - started > SYS_DEVICE_SLOW_NS) { return true; }
    }
    return false;
}
