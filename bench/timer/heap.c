/* heap.c - see heap.h. */
#include "heap.h"

static void put(struct heap *heap, size_t index, struct heap_entry entry)
{
    heap->entries[index] = entry;
    entry.timer->index = index;
}

static void sift_up(struct heap *heap, size_t index, struct heap_entry entry)
{
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (heap->entries[parent].deadline_ns <= entry.deadline_ns) { break; }
        put(heap, index, heap->entries[parent]);
        index = parent;
    }
    put(heap, index, entry);
}

static void sift_down(struct heap *heap, size_t index, struct heap_entry entry)
{
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= heap->count) { break; }
        if (child + 1 < heap->count &&
            heap->entries[child + 1].deadline_ns < heap->entries[child].deadline_ns) {
            child++;
        }
        if (heap->entries[child].deadline_ns >= entry.deadline_ns) { break; }
        put(heap, index, heap->entries[child]);
        index = child;
    }
    put(heap, index, entry);
}

void heap_add(struct heap *heap, struct heap_timer *timer, uint64_t deadline_ns)
{
    sift_up(heap, heap->count++, (struct heap_entry){deadline_ns, timer});
}

void heap_remove(struct heap *heap, struct heap_timer *timer)
{
    size_t index = timer->index;
    struct heap_entry last = heap->entries[--heap->count];
    if (index == heap->count) { return; }
    if (index > 0 && heap->entries[(index - 1) / 2].deadline_ns > last.deadline_ns) {
        sift_up(heap, index, last);
    } else {
        sift_down(heap, index, last);
    }
}
