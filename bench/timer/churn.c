/* churn.c - timers that come and go: the wheel, a keyed heap, libuv.
 *
 * Place:      bench/timer. All structures get the same delays, 60 to 90 s, in the same order. An
 *             item is a cache line at least, and items come in random order of memory, as the
 *             timers of connections and requests do.
 * Thread:     one. */
#include <stdalign.h>
#include <string.h>
#include <uv.h>

#include "heap.h"
#include "purgatory/common.h"
#include "purgatory/wheel.h"
#include "timer.h"

#define BATCH 256 /* turns between two looks at the clock */
#define EXPIRE_SPAN_MS 30000

struct item {
    alignas(64) union {
        struct purg_timer wheel;
        struct heap_timer heap;
    } timer;
};

union store {
    struct purg_wheel wheel;
    struct heap heap;
    uv_loop_t loop;
};

struct structure {
    const char *name;
    size_t item_size;
    void (*init)(union store *store, const struct purg_env *env, size_t room);
    void (*fini)(union store *store);
    void (*prepare)(union store *store, void *item);
    void (*add)(union store *store, void *item, uint64_t deadline_ms);
    void (*remove)(union store *store, void *item);
    size_t (*advance)(union store *store, uint64_t now_ms); /* NULL: it has a clock of its own */
};

static void wheel_due(struct purg_timer *timer, uint64_t now_ns)
{
    must(timer->deadline_ns <= now_ns, "never early");
}

static void wheel_init(union store *store, const struct purg_env *env, size_t room)
{
    (void)room;
    must(purg_wheel_init(&store->wheel, env, &(struct purg_wheel_options){.slots = 0}), "memory");
}

static void wheel_fini(union store *store)
{
    while (purg_wheel_take_any(&store->wheel)) {}
    purg_wheel_fini(&store->wheel);
}

static void wheel_prepare(union store *store, void *item)
{
    (void)store;
    purg_timer_init(item, wheel_due);
}

static void wheel_add(union store *store, void *item, uint64_t deadline_ms)
{
    purg_timer_add(&store->wheel, item, deadline_ms * MS);
}

static void wheel_remove(union store *store, void *item)
{
    purg_timer_remove(&store->wheel, item);
}

static size_t wheel_advance(union store *store, uint64_t now_ms)
{
    return purg_wheel_advance(&store->wheel, now_ms * MS, SIZE_MAX);
}

static void heap_init(union store *store, const struct purg_env *env, size_t room)
{
    (void)env;
    store->heap = (struct heap){.entries = malloc(room * sizeof *store->heap.entries)};
    must(store->heap.entries != NULL, "memory");
}

static void heap_fini(union store *store)
{
    free(store->heap.entries);
}

static void heap_prepare(union store *store, void *item)
{
    (void)store;
    (void)item;
}

static void heap_add_item(union store *store, void *item, uint64_t deadline_ms)
{
    heap_add(&store->heap, item, deadline_ms * MS);
}

static void heap_remove_item(union store *store, void *item)
{
    heap_remove(&store->heap, item);
}

static size_t heap_advance(union store *store, uint64_t now_ms)
{
    struct heap *heap = &store->heap;
    size_t count = 0;
    while (heap->count > 0 && heap->entries[0].deadline_ns <= now_ms * MS) {
        heap_remove(heap, heap->entries[0].timer);
        count++;
    }
    return count;
}

static void libuv_due(uv_timer_t *timer)
{
    (void)timer;
    abort(); /* the loop never runs */
}

static void libuv_init(union store *store, const struct purg_env *env, size_t room)
{
    (void)env;
    (void)room;
    must(uv_loop_init(&store->loop) == 0, "memory");
}

static void libuv_fini(union store *store)
{
    (void)store; /* its timers' memory goes with the process, which ends now */
}

static void libuv_prepare(union store *store, void *item)
{
    must(uv_timer_init(&store->loop, item) == 0, "a timer");
}

static void libuv_add(union store *store, void *item, uint64_t deadline_ms)
{
    (void)store;
    must(uv_timer_start(item, libuv_due, deadline_ms, 0) == 0, "a timer");
}

static void libuv_remove(union store *store, void *item)
{
    (void)store;
    must(uv_timer_stop(item) == 0, "a timer");
}

static const struct structure structures[] = {
    {"wheel", sizeof(struct item), wheel_init, wheel_fini, wheel_prepare, wheel_add, wheel_remove,
     wheel_advance},
    {"heap", sizeof(struct item), heap_init, heap_fini, heap_prepare, heap_add_item,
     heap_remove_item, heap_advance},
    {"libuv", (sizeof(uv_timer_t) + 63) / 64 * 64, libuv_init, libuv_fini, libuv_prepare, libuv_add,
     libuv_remove, NULL},
};

static const struct structure *structure_named(const char *name)
{
    for (size_t i = 0; i < sizeof structures / sizeof structures[0]; i++) {
        if (strcmp(structures[i].name, name) == 0) { return &structures[i]; }
    }
    return NULL;
}

/* All items, in an order that memory does not have. */
static void **items_shuffled(unsigned char *memory, size_t count, size_t size)
{
    void **items = malloc(count * sizeof *items);
    must(items != NULL, "memory");
    for (size_t i = 0; i < count; i++) {
        size_t j = mix(i) % (i + 1);
        if (j != i) { items[i] = items[j]; }
        items[j] = memory + i * size;
    }
    return items;
}

static uint64_t delay_ms(uint64_t number)
{
    return 60000 + mix(number) % 30000;
}

bool churn_run(const struct purg_env *env, const char *which, bool is_hot, size_t outstanding,
               uint64_t run_ns)
{
    const struct structure *s = structure_named(which);
    if (!s || outstanding == 0) { return false; }
    union store store;
    s->init(&store, env, outstanding + 1);
    unsigned char *memory = aligned_alloc(64, (outstanding + 1) * s->item_size);
    must(memory != NULL, "memory");
    void **items = items_shuffled(memory, outstanding + 1, s->item_size);
    for (size_t i = 0; i <= outstanding; i++) {
        s->prepare(&store, items[i]);
        if (i < outstanding) { s->add(&store, items[i], delay_ms(i)); }
    }
    uint64_t turns = 0;
    size_t oldest = 0;
    uint64_t start_cpu_ns = cpu_ns();
    uint64_t start_ns = mono_ns();
    uint64_t now_ns = start_ns;
    for (; now_ns - start_ns < run_ns; now_ns = mono_ns()) {
        for (size_t i = 0; i < BATCH; i++, turns++) {
            void *item = items[is_hot ? outstanding : oldest];
            if (is_hot) {
                s->add(&store, item, delay_ms(turns));
                s->remove(&store, item);
            } else {
                s->remove(&store, item);
                s->add(&store, item, delay_ms(turns));
                if (++oldest == outstanding) { oldest = 0; }
            }
        }
    }
    printf("{\"ns\": %.2f, \"cpu_ns\": %.2f}\n", (double)(now_ns - start_ns) / (double)turns,
           (double)(cpu_ns() - start_cpu_ns) / (double)turns);
    s->fini(&store);
    free(items);
    free(memory);
    return true;
}

bool expire_run(const struct purg_env *env, const char *which, size_t outstanding)
{
    const struct structure *s = structure_named(which);
    if (!s || !s->advance || outstanding == 0) { return false; }
    union store store;
    s->init(&store, env, outstanding);
    unsigned char *memory = aligned_alloc(64, outstanding * s->item_size);
    must(memory != NULL, "memory");
    void **items = items_shuffled(memory, outstanding, s->item_size);
    for (size_t i = 0; i < outstanding; i++) {
        s->prepare(&store, items[i]);
        s->add(&store, items[i], 1 + mix(i) % EXPIRE_SPAN_MS);
    }
    size_t fired = 0;
    uint64_t start_ns = cpu_ns();
    for (uint64_t ms = 0; ms <= EXPIRE_SPAN_MS; ms++) {
        fired += s->advance(&store, ms);
    }
    double ns = (double)(cpu_ns() - start_ns) / (double)outstanding;
    must(fired == outstanding, "each has fired");
    printf("{\"ns\": %.2f, \"cpu_ns\": %.2f}\n", ns, ns);
    s->fini(&store);
    free(items);
    free(memory);
    return true;
}
