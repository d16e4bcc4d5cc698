/* late.c - timers in real time: how late they are, and what a step costs after a long idle time.
 *
 * Place:      bench/timer. Drives an owner as the broker's loop does: step, then sleep until the
 *             moment that the step named.
 * Thread:     one. */
#include <poll.h>

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
    int64_t *late_ns;
    size_t count;
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

void late_run(const struct purg_env *env, uint64_t per_second, uint64_t span_ms)
{
    size_t count = (size_t)(per_second * span_ms / 1000);
    must(count > 0, "timers");
    struct timed *timers = malloc(count * sizeof *timers);
    late = (struct late){.late_ns = calloc(count, sizeof *late.late_ns)};
    must(timers && late.late_ns, "memory");
    for (size_t i = 0; i < count; i++) {
        purg_timer_init(&timers[i].timer, late_due);
    }
    struct purg_owner *owner = owner_new(env, mono_ns());
    for (size_t i = 0; i < count; i++) {
        uint64_t deadline_ns = mono_ns() + (500 + mix(i) % span_ms) * MS;
        purg_timer_add(purg_owner_wheel(owner), &timers[i].timer, deadline_ns);
    }
    uint64_t start_cpu_ns = cpu_ns();
    for (;;) {
        uint64_t next_ns = purg_owner_step(owner, mono_ns());
        if (next_ns == PURG_NEVER) { break; }
        uint64_t now_ns = mono_ns();
        if (next_ns > now_ns) {
            uint64_t wait_ns = next_ns - now_ns;
            struct timespec wait = {.tv_sec = (time_t)(wait_ns / SECOND),
                                    .tv_nsec = (long)(wait_ns % SECOND)};
            ppoll(NULL, 0, &wait, NULL);
        }
    }
    double cpu = (double)(cpu_ns() - start_cpu_ns) / (double)count;
    must(late.count == count, "each has fired");
    qsort(late.late_ns, count, sizeof *late.late_ns, compare);
    printf("{\"least_us\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"most_us\": %.1f, "
           "\"cpu_ns\": %.1f}\n",
           (double)late.late_ns[0] / 1e3, (double)late.late_ns[count / 2] / 1e3,
           (double)late.late_ns[count - 1 - count / 100] / 1e3,
           (double)late.late_ns[count - 1] / 1e3, cpu);
    purg_owner_destroy(owner);
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
