/* bench_purgatory.c - how long parking and completing takes, and a timer's coming and going.
 *
 * Prints tab-separated lines: what, keys, outstanding, threads, operations per second in all,
 * nanoseconds per operation of one thread: by the clock, and of processor time (which other
 * programs on the machine disturb less).
 *
 *   purgatory  a window of operations is outstanding; each turn completes the oldest by an event on
 *              one of its keys (on its owner's thread, on_complete included) and parks a new one.
 *              Deadlines 0.5 to 30 s; every thread has an owner, all share one purgatory.
 *   hot        a timer is added and removed while others wait.
 *   fifo       the oldest timer is removed, and added anew.
 *
 * Operations lie in one slab that is reused in order, as the broker's do. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "purgatory/purgatory.h"

#define MS 1000000u
#define KEYS_MAX 3
#define THREADS_MAX 16
#define STEP_EVERY 16 /* operations a loop turn */

struct item {
    struct purg_op op; /* first */
    struct purg_watch_node nodes[KEYS_MAX];
    bool is_ready;
};

struct bench {
    struct purg_env env;
    struct purgatory *purgatory;
    size_t keys_count;
    size_t outstanding; /* of one thread */
    size_t turns; /* of one thread */
    pthread_barrier_t start;
};

struct lane {
    struct bench *bench;
    uint64_t number;
    double seconds;
    double cpu_seconds;
    uint64_t completed;
};

static bool item_try(struct purg_op *op)
{
    return ((struct item *)(void *)op)->is_ready;
}

static void item_complete(struct purg_op *op, enum purg_reason reason)
{
    struct item *item = (struct item *)(void *)op;
    item->is_ready = reason != PURG_EVENT; /* seen by lane_run */
}

static const struct purg_op_type item_type = {"bench", item_try, item_complete};

static uint64_t mix(uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    return (number ^ (number >> 27)) * 0x94d049bb133111ebu;
}

static struct purg_key key_of(const struct lane *lane, uint64_t serial, size_t i)
{
    return (struct purg_key){.hi = lane->number, .lo = serial, .sub = i};
}

static void park(const struct lane *lane, struct purg_owner *owner, struct item *item,
                 uint64_t serial)
{
    struct purg_key keys[KEYS_MAX];
    for (size_t i = 0; i < lane->bench->keys_count; i++) {
        keys[i] = key_of(lane, serial, i);
    }
    item->is_ready = false;
    purg_op_init(&item->op, &item_type, owner);
    uint64_t deadline_ns = (500 + mix(serial) % 29500) * MS;
    if (purg_try_complete_else_watch(lane->bench->purgatory, owner, &item->op, item->nodes, keys,
                                     lane->bench->keys_count, deadline_ns) != PURG_PARKED) {
        abort();
    }
}

static double clock_seconds(clockid_t id)
{
    struct timespec time;
    if (clock_gettime(id, &time) != 0) { abort(); }
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *lane_main(void *arg)
{
    struct lane *lane = arg;
    struct bench *bench = lane->bench;
    struct purg_owner *owner =
        purg_owner_create(&bench->env, &(struct purg_owner_options){.step_max = 0});
    /* More slots than outstanding, so that one is reused only after its on_complete. */
    size_t slots = bench->outstanding + 2 * STEP_EVERY;
    struct item *items = calloc(slots, sizeof *items);
    if (!owner || !items) { abort(); }
    uint64_t serial = 0;
    for (; serial < bench->outstanding; serial++) {
        park(lane, owner, &items[serial % slots], serial);
    }
    pthread_barrier_wait(&bench->start);
    double start = clock_seconds(CLOCK_MONOTONIC);
    double start_cpu = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
    for (size_t turn = 0; turn < bench->turns; turn++, serial++) {
        uint64_t oldest = serial - bench->outstanding;
        items[oldest % slots].is_ready = true;
        lane->completed +=
            purg_check(bench->purgatory, owner, key_of(lane, oldest, oldest % bench->keys_count));
        park(lane, owner, &items[serial % slots], serial);
        if (turn % STEP_EVERY == 0) { purg_owner_step(owner, 1); }
    }
    lane->seconds = clock_seconds(CLOCK_MONOTONIC) - start;
    lane->cpu_seconds = clock_seconds(CLOCK_THREAD_CPUTIME_ID) - start_cpu;
    purg_owner_shutdown(owner);
    while (!purg_owner_is_idle(owner)) {
        purg_owner_step(owner, 1);
    }
    purg_owner_destroy(owner);
    free(items);
    return NULL;
}

static void print_line(const char *what, size_t keys, size_t outstanding, size_t threads,
                       double per_second, double ns, double cpu_ns)
{
    printf("%s\t%zu\t%zu\t%zu\t%.0f\t%.1f\t%.1f\n", what, keys, outstanding, threads, per_second,
           ns, cpu_ns);
    fflush(stdout);
}

static void bench_purgatory(size_t keys_count, size_t outstanding, size_t threads, size_t turns)
{
    struct bench bench = {.env = purg_env_pthread(),
                          .keys_count = keys_count,
                          .outstanding = outstanding / threads,
                          .turns = turns};
    bench.purgatory = purg_create(&bench.env, &(struct purg_options){.shards = 0});
    if (!bench.purgatory || pthread_barrier_init(&bench.start, NULL, (unsigned)threads) != 0) {
        abort();
    }
    pthread_t ids[THREADS_MAX];
    struct lane lanes[THREADS_MAX];
    for (size_t i = 0; i < threads; i++) {
        lanes[i] = (struct lane){.bench = &bench, .number = i};
        if (pthread_create(&ids[i], NULL, lane_main, &lanes[i]) != 0) { abort(); }
    }
    double per_second = 0;
    double ns = 0;
    double cpu_ns = 0;
    for (size_t i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        if (lanes[i].completed != turns) { abort(); } /* what is measured must be true */
        per_second += (double)turns / lanes[i].seconds;
        ns += lanes[i].seconds * 1e9 / (double)turns / (double)threads;
        cpu_ns += lanes[i].cpu_seconds * 1e9 / (double)turns / (double)threads;
    }
    if (purg_size(bench.purgatory) != 0) { abort(); }
    pthread_barrier_destroy(&bench.start);
    purg_destroy(bench.purgatory);
    print_line("purgatory", keys_count, outstanding, threads, per_second, ns, cpu_ns);
}

static void timer_due(struct purg_timer *timer, uint64_t now_ns)
{
    (void)timer;
    (void)now_ns;
    abort(); /* the clock stands still */
}

static void bench_timer(bool is_hot, size_t outstanding, size_t turns)
{
    struct purg_env env = purg_env_pthread();
    struct purg_wheel wheel;
    struct purg_timer *timers = calloc(outstanding + 1, sizeof *timers);
    if (!timers || !purg_wheel_init(&wheel, &env, &(struct purg_wheel_options){.slots = 0})) {
        abort();
    }
    for (size_t i = 0; i <= outstanding; i++) {
        purg_timer_init(&timers[i], timer_due);
        if (i < outstanding) { purg_timer_add(&wheel, &timers[i], (1 + mix(i) % 30000) * MS); }
    }
    double start = clock_seconds(CLOCK_MONOTONIC);
    double start_cpu = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
    for (size_t turn = 0; turn < turns; turn++) {
        uint64_t deadline_ns = (1 + mix(turn) % 30000) * MS;
        if (is_hot) {
            purg_timer_add(&wheel, &timers[outstanding], deadline_ns);
            purg_timer_remove(&wheel, &timers[outstanding]);
        } else {
            struct purg_timer *timer = &timers[turn % outstanding];
            purg_timer_remove(&wheel, timer);
            purg_timer_add(&wheel, timer, deadline_ns);
        }
    }
    double seconds = clock_seconds(CLOCK_MONOTONIC) - start;
    double cpu_seconds = clock_seconds(CLOCK_THREAD_CPUTIME_ID) - start_cpu;
    while (purg_wheel_take_any(&wheel)) {}
    purg_wheel_fini(&wheel);
    free(timers);
    print_line(is_hot ? "hot" : "fifo", 0, outstanding, 1, (double)turns / seconds,
               seconds * 1e9 / (double)turns, cpu_seconds * 1e9 / (double)turns);
}

/* bench_purgatory [turns]: more turns, steadier figures. */
int main(int argc, char **argv)
{
    size_t turns = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    static const size_t outstanding[] = {128, 10000, 100000, 1000000};
    if (turns == 0) {
        fputs("usage: bench_purgatory [turns]\n", stderr);
        return 2;
    }
    printf("what\tkeys\toutstanding\tthreads\tops_per_s\tns_per_op\tcpu_ns_per_op\n");
    for (size_t i = 0; i < sizeof outstanding / sizeof outstanding[0]; i++) {
        for (size_t keys = 1; keys <= KEYS_MAX; keys += 2) {
            bench_purgatory(keys, outstanding[i], 1, turns);
            bench_purgatory(keys, outstanding[i], 2, turns);
        }
    }
    for (size_t i = 0; i < sizeof outstanding / sizeof outstanding[0]; i++) {
        bench_timer(true, outstanding[i], turns);
        bench_timer(false, outstanding[i], turns);
    }
    return 0;
}
