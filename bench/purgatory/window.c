/* window.c - insert, then complete by key, with a given number of operations outstanding.
 *
 * Place:      bench/purgatory; java/Window.java is the same with Kafka's classes.
 * Thread:     one lane a thread, each with an owner and an equal part of the outstanding
 *             operations; all share one purgatory.
 *
 * A turn publishes that the oldest operations may be answered, sends an event to one key of each
 * (which ends it: on_complete is part of the price) and parks as many new ones. Every STEP_EVERY
 * events the lane reads the clock and steps its owner, as a broker's loop does. So a turn of
 * STEP_EVERY is what a loop does that has read what has arrived: it knows the keys to come and
 * tells the library; a turn of one is one event after the other. Delays are 30 to 60 s, so no
 * deadline comes. Operations lie in one slab that is reused in order, as the broker's do. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "bench_purgatory.h"
#include "common.h"
#include "purgatory/purgatory.h"

#define KEYS_MAX 3
#define LANES_MAX 16
#define STEP_EVERY WINDOW_STEP_EVERY

struct item {
    struct purg_op op; /* first */
    _Atomic(bool) is_ready;
    struct purg_watch_node nodes[];
};

struct window {
    const struct window_options *options;
    struct purgatory *purgatory;
    pthread_barrier_t start;
};

struct lane {
    _Alignas(128) struct window *window; /* lanes share no cache line, nor a pair of them */
    uint64_t number;
    uint64_t turns;
    uint64_t elapsed_ns;
    uint64_t cpu_ns;
    uint64_t completed;
};

/* Items in the order of their serial numbers, used again in that order: a few more than are
 * outstanding, for one is free only after its on_complete. */
struct slab {
    unsigned char *items;
    size_t item_size;
    uint64_t count;
};

static struct slab slab_new(uint64_t outstanding, size_t keys)
{
    struct slab slab = {.item_size = sizeof(struct item) + keys * sizeof(struct purg_watch_node),
                        .count = outstanding + 2 * STEP_EVERY};
    size_t size = (slab.count * slab.item_size + 63) / 64 * 64;
    slab.items = aligned_alloc(64, size);
    must(slab.items != NULL, "memory");
    memset(slab.items, 0, size); /* no page faults later */
    return slab;
}

static struct item *item_at(const struct slab *slab, uint64_t index)
{
    return (struct item *)(void *)(slab->items + index * slab->item_size);
}

static uint64_t index_after(const struct slab *slab, uint64_t index)
{
    return index + 1 == slab->count ? 0 : index + 1;
}

static bool item_try(struct purg_op *op)
{
    return atomic_load_explicit(&((struct item *)(void *)op)->is_ready, memory_order_relaxed);
}

static void item_complete(struct purg_op *op, enum purg_reason reason)
{
    (void)op;
    must(reason == PURG_EVENT || reason == PURG_SHUTDOWN, "no deadline comes");
}

static const struct purg_op_type item_type = {"bench", item_try, item_complete};

static struct purg_key key_of(const struct lane *lane, uint64_t serial, size_t i)
{
    return (struct purg_key){.hi = lane->number, .lo = serial, .sub = i};
}

/* Writes the keys of 'count' operations from a serial number on. Returns how many keys. */
static size_t keys_of(const struct lane *lane, uint64_t serial, size_t count, struct purg_key *keys)
{
    size_t each = lane->window->options->keys;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < each; k++) {
            *keys++ = key_of(lane, serial + i, k);
        }
    }
    return count * each;
}

static void park(const struct lane *lane, struct purg_owner *owner, struct item *item,
                 const struct purg_key *keys, uint64_t serial, uint64_t now_ns)
{
    const struct window *window = lane->window;
    atomic_store_explicit(&item->is_ready, false, memory_order_relaxed);
    purg_op_init(&item->op, &item_type, owner);
    uint64_t deadline_ns = now_ns + (30000 + mix(serial) % 30000) * MS;
    must(purg_try_complete_else_watch(window->purgatory, owner, &item->op, item->nodes, keys,
                                      window->options->keys, deadline_ns) == PURG_PARKED,
         "parked");
}

/* Where a lane is in its operations and in the slab. */
struct place {
    uint64_t oldest, serial; /* the next to be completed, the next to be parked */
    uint64_t oldest_index, next_index;
};

static void turn(struct lane *lane, struct purg_owner *owner, const struct slab *slab,
                 struct place *at, uint64_t now_ns)
{
    const struct window_options *options = lane->window->options;
    struct purgatory *purgatory = lane->window->purgatory;
    struct purg_key events[STEP_EVERY];
    struct purg_key keys[STEP_EVERY * KEYS_MAX]; /* of the operations to be parked */
    size_t keys_count = keys_of(lane, at->serial, options->turn, keys);
    if (options->turn > 1) { purg_prefetch(purgatory, keys, keys_count); }
    for (size_t i = 0; i < options->turn; i++, at->oldest++) {
        atomic_store_explicit(&item_at(slab, at->oldest_index)->is_ready, true,
                              memory_order_relaxed);
        at->oldest_index = index_after(slab, at->oldest_index);
        events[i] = key_of(lane, at->oldest, at->oldest % options->keys);
    }
    if (options->turn > 1) {
        lane->completed += purg_check_many(purgatory, owner, events, options->turn);
    } else {
        lane->completed += purg_check(purgatory, owner, events[0]);
    }
    for (size_t i = 0; i < options->turn; i++, at->serial++) {
        park(lane, owner, item_at(slab, at->next_index), &keys[i * options->keys], at->serial,
             now_ns);
        at->next_index = index_after(slab, at->next_index);
    }
}

/* Turns until the time is over. */
static void lane_run(struct lane *lane, struct purg_owner *owner, const struct slab *slab,
                     uint64_t outstanding)
{
    const struct window *window = lane->window;
    uint64_t start_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t start_ns = mono_ns();
    uint64_t now_ns = start_ns;
    uint64_t end_ns = start_ns + window->options->run_ns;
    struct place at = {.serial = outstanding, .next_index = outstanding};
    while (now_ns < end_ns) {
        for (size_t i = 0; i < STEP_EVERY; i += window->options->turn) {
            turn(lane, owner, slab, &at, now_ns);
        }
        now_ns = mono_ns();
        purg_owner_step(owner, now_ns);
    }
    lane->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_cpu_ns;
    lane->elapsed_ns = now_ns - start_ns;
    lane->turns = at.oldest;
}

static void *lane_main(void *arg)
{
    struct lane *lane = arg;
    const struct window *window = lane->window;
    uint64_t outstanding = window->options->outstanding / window->options->threads;
    struct slab slab = slab_new(outstanding, window->options->keys);
    uint64_t now_ns = mono_ns();
    struct purg_owner *owner =
        purg_owner_create(&window->options->env, &(struct purg_owner_options){.start_ns = now_ns});
    must(owner != NULL, "memory");
    for (uint64_t serial = 0; serial < outstanding; serial++) {
        struct purg_key keys[KEYS_MAX];
        keys_of(lane, serial, 1, keys);
        park(lane, owner, item_at(&slab, serial), keys, serial, now_ns);
    }
    pthread_barrier_wait(&lane->window->start);
    lane_run(lane, owner, &slab, outstanding);
    pthread_barrier_wait(&lane->window->start);
    purg_owner_shutdown(owner);
    while (!purg_owner_is_idle(owner)) {
        purg_owner_step(owner, now_ns);
    }
    purg_owner_destroy(owner);
    free(slab.items);
    return NULL;
}

void window_run(const struct window_options *options)
{
    unsigned count = options->threads;
    must(count > 0 && count <= LANES_MAX && options->keys > 0 && options->keys <= KEYS_MAX,
         "1 to 16 threads, 1 to 3 keys");
    must(options->turn > 0 && STEP_EVERY % options->turn == 0 &&
             options->outstanding / count >= options->turn,
         "a turn that divides 16, and not more than are outstanding");
    struct window window = {.options = options};
    window.purgatory = purg_create(&options->env, &(struct purg_options){.shards = 0});
    must(window.purgatory && pthread_barrier_init(&window.start, NULL, count) == 0, "memory");
    pthread_t ids[LANES_MAX];
    struct lane lanes[LANES_MAX];
    for (unsigned i = 0; i < count; i++) {
        lanes[i] = (struct lane){.window = &window, .number = i};
        must(pthread_create(&ids[i], NULL, lane_main, &lanes[i]) == 0, "a thread");
    }
    uint64_t used_ns = 0;
    double per_second = 0;
    uint64_t turns = 0;
    for (unsigned i = 0; i < count; i++) {
        pthread_join(ids[i], NULL);
        must(lanes[i].completed == lanes[i].turns, "each event ended its operation");
        turns += lanes[i].turns;
        used_ns += lanes[i].cpu_ns;
        per_second += (double)lanes[i].turns * 1e9 / (double)lanes[i].elapsed_ns;
    }
    must(purg_size(window.purgatory) == 0, "nothing is left linked");
    pthread_barrier_destroy(&window.start);
    purg_destroy(window.purgatory);
    printf("{\"ops_s\": %.0f, \"ns\": %.1f, \"cpu_ns\": %.1f}\n", per_second,
           1e9 * count / per_second, (double)used_ns / (double)turns);
}
