/* heap.h - a keyed binary heap, the usual alternative to a timing wheel.
 *
 * Place:      bench/timer, a peer only. Keys lie in the array beside the pointers (so sifting
 *             touches no timer's memory but to tell it its place), timers know their index.
 * Thread:     one. Complexity: add, remove: O(log n). */
#ifndef BENCH_TIMER_HEAP_H
#define BENCH_TIMER_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct heap_timer {
    size_t index;
};

struct heap_entry {
    uint64_t deadline_ns;
    struct heap_timer *timer;
};

struct heap {
    struct heap_entry *entries; /* room for all that are ever in it */
    size_t count;
};

void heap_add(struct heap *heap, struct heap_timer *timer, uint64_t deadline_ns);
void heap_remove(struct heap *heap, struct heap_timer *timer);

#endif
