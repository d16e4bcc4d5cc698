/* late.c - timers in real time: how late they are, and what a step costs after a long idle time.
 *
 * Place:      bench/timer. An owner is a task of its own, as each network thread of the broker is.
 * Thread:     the caller's makes all, the task's fires. */
#include <stdatomic.h>

#include "purgatory/common.h"
#include "purgatory/owner.h"
#include "timer.h"

#define IDLE_NS (3 * SECOND)
#define IDLE_ROUNDS 1000
#define IDLE_MANY 100000

struct timed {
    struct purg_timer timer; /* first */
};

struct late {
    struct sys *sys;
    struct purg_owner *owner;
    int64_t *late_ns;
    size_t count;
    _Atomic int is_over;
};

/* The callbacks know no context but their timer: the program has one measurement. */
static struct late late;

static void late_due(struct purg_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    late.late_ns[late.count++] = (int64_t)(mono_ns() - timer->deadline_ns);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static struct purg_owner *owner_new(const struct purg_env *env, uint64_t start_ns)
{
    struct purg_owner_options options = {.start_ns = start_ns, .step_max = SIZE_MAX};
    struct purg_owner *owner = purg_owner_create(env, &options);
    must(owner != NULL, "memory");
    return owner;
}

static uint64_t late_step(void *ctx, uint64_t now_ns)
{
    (void)ctx;
    if (atomic_load(&late.is_over)) { return SYS_NEVER; }
    uint64_t next_ns = purg_owner_step(late.owner, now_ns);
    if (next_ns == PURG_NEVER) { sys_signal_flag(late.sys, &late.is_over, 1); }
    return next_ns;
}

/* All timers fire on a task that sleeps in a poller. */
static void late_fire(struct sys *sys)
{
    struct sys_task_options options = {.name = "late", .step = late_step};
    struct sys_task *task;
    must(sys_poller_create(sys, &options.poller) == ERR_OK, "a poller");
    must(sys_task_start(sys, &options, &task) == ERR_OK, "a task");
    must(sys_wait_flag(sys, &late.is_over, SYS_NEVER), "over");
    sys_task_stop(task);
    sys_poller_destroy(options.poller);
}

void late_run(struct sys *sys, const struct purg_env *env, uint64_t per_second, uint64_t span_ms)
{
    size_t count = (size_t)(per_second * span_ms / 1000);
    must(count > 0, "timers");
    struct timed *timers = malloc(count * sizeof *timers);
    late.late_ns = calloc(count, sizeof *late.late_ns);
    must(timers && late.late_ns, "memory");
    for (size_t i = 0; i < count; i++) {
        purg_timer_init(&timers[i].timer, late_due);
    }
    late.sys = sys;
    late.owner = owner_new(env, mono_ns());
    for (size_t i = 0; i < count; i++) {
        uint64_t deadline_ns = mono_ns() + (500 + mix(i) % span_ms) * MS;
        purg_timer_add(purg_owner_wheel(late.owner), &timers[i].timer, deadline_ns);
    }
    uint64_t start_cpu_ns = cpu_ns();
    late_fire(sys);
    double cpu = (double)(cpu_ns() - start_cpu_ns) / (double)count;
    must(late.count == count, "each has fired");
    qsort(late.late_ns, count, sizeof *late.late_ns, compare);
    printf("{\"least_us\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"most_us\": %.1f, "
           "\"cpu_ns\": %.1f}\n",
           (double)late.late_ns[0] / 1e3, (double)late.late_ns[count / 2] / 1e3,
           (double)late.late_ns[count - 1 - count / 100] / 1e3,
           (double)late.late_ns[count - 1] / 1e3, cpu);
    purg_owner_destroy(late.owner);
    free(timers);
    free(late.late_ns);
}

/* The median and the greatest cost of a step 3 s after the one before, with 'count' timers that are
 * further away than that. */
static void idle_jumps(const struct purg_env *env, size_t count, double *median_us, double *most_us)
{
    struct timed *timers = malloc(count * sizeof *timers);
    int64_t *cost_ns = malloc(IDLE_ROUNDS * sizeof *cost_ns);
    must(timers && cost_ns, "memory");
    for (size_t round = 0; round < IDLE_ROUNDS; round++) {
        /* A clock whose jump begins anywhere in the wheel's turn. */
        uint64_t start_ns = SECOND + mix(round) % (300 * SECOND);
        struct purg_owner *owner = owner_new(env, start_ns);
        for (size_t i = 0; i < count; i++) {
            purg_timer_init(&timers[i].timer, late_due);
            purg_timer_add(purg_owner_wheel(owner), &timers[i].timer,
                           start_ns + IDLE_NS + SECOND + mix(i) % (60 * SECOND));
        }
        purg_owner_step(owner, start_ns);
        uint64_t before_ns = mono_ns();
        purg_owner_step(owner, start_ns + IDLE_NS);
        cost_ns[round] = (int64_t)(mono_ns() - before_ns);
        while (purg_wheel_take_any(purg_owner_wheel(owner))) {}
        purg_owner_destroy(owner);
        if (count > 1 && round == 20) { /* a hundred thousand take long to add */
            qsort(cost_ns, round + 1, sizeof *cost_ns, compare);
            *median_us = (double)cost_ns[round / 2] / 1e3;
            *most_us = (double)cost_ns[round] / 1e3;
            break;
        }
        if (round == IDLE_ROUNDS - 1) {
            qsort(cost_ns, IDLE_ROUNDS, sizeof *cost_ns, compare);
            *median_us = (double)cost_ns[IDLE_ROUNDS / 2] / 1e3;
            *most_us = (double)cost_ns[IDLE_ROUNDS - 1] / 1e3;
        }
    }
    free(timers);
    free(cost_ns);
}

void idle_run(const struct purg_env *env)
{
    struct timed timer;
    purg_timer_init(&timer.timer, late_due);
    struct purg_owner *owner = owner_new(env, mono_ns());
    purg_timer_add(purg_owner_wheel(owner), &timer.timer, mono_ns() + 100 * SECOND);
    purg_owner_step(owner, mono_ns());
    struct timespec nap = {.tv_sec = IDLE_NS / SECOND};
    nanosleep(&nap, NULL);
    uint64_t before_ns = mono_ns();
    purg_owner_step(owner, before_ns);
    double real_us = (double)(mono_ns() - before_ns) / 1e3;
    purg_timer_remove(purg_owner_wheel(owner), &timer.timer);
    purg_owner_destroy(owner);
    double one_us, one_most_us, many_us, many_most_us;
    idle_jumps(env, 1, &one_us, &one_most_us);
    idle_jumps(env, IDLE_MANY, &many_us, &many_most_us);
    printf("{\"real_us\": %.2f, \"jump_us\": %.2f, \"jump_most_us\": %.2f, \"many_us\": %.2f, "
           "\"many_most_us\": %.2f}\n",
           real_us, one_us, one_most_us, many_us, many_most_us);
}
