/* arrivals.c - the test of Kafka's purgatory redesign: requests come and end in real time.
 *
 * Place:      bench/purgatory; java/Arrivals.java is the same with Kafka's classes.
 * Thread:     the main thread parks and owns; 'completer' ends operations at their time, as the
 *             redesign's completion thread does. The schedule is made before the clock starts, the
 *             same on both sides.
 * Ownership:  a slot of the ring belongs to the main thread until it is parked; it is used again
 *             when on_complete has run and the completer is through with it.
 *
 * Arrivals are exponential; completion times log-normal. What would be completed long after its
 * timeout is not completed at all. Each operation carries 100 bytes and watches 'keys' keys out of
 * 'key_space', on which no event comes: the completer names the operation itself. A leg whose two
 * threads end less than a twentieth later than the schedule has sustained the rate. */
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bench_purgatory.h"
#include "common.h"
#include "purgatory/purgatory.h"

#define KEYS_MAX 100
#define DATA_BYTES 100
#define AFTER_MS 20 /* completions so long after the timeout still come */
#define NEVER UINT32_MAX
#define BEHIND_US 50 /* how long the completer sleeps when the other thread is behind */

struct request {
    struct purg_op op; /* first */
    struct arrivals *arrivals;
    bool is_answered; /* on_complete has run */
    struct purg_watch_node nodes[]; /* 'keys' of them; behind them the data */
};

struct arrivals {
    const struct arrivals_options *options;
    struct purgatory *purgatory;
    struct purg_owner *owner;
    int wake_fd;
    /* The schedule: when each request comes, and who is completed in which millisecond. */
    uint64_t *at_ns; /* since the start */
    uint32_t *complete_ms; /* NEVER: by its timeout */
    uint32_t *order; /* requests by the millisecond of their completion */
    uint64_t order_count;
    /* The ring. */
    unsigned char *slots;
    _Atomic(bool) *passed; /* a slot's request: the completer is through with it */
    uint64_t slots_count;
    size_t slot_size;
    uint64_t start_ns;
    uint64_t answered; /* the owner's */
    uint64_t expired;
    uint64_t late_ns; /* the completer's, at its end */
    _Alignas(64) _Atomic(uint64_t) parked; /* requests so far, for the completer */
};

static struct request *request_of(const struct arrivals *arrivals, uint64_t number)
{
    return (struct request *)(void *)(arrivals->slots +
                                      number % arrivals->slots_count * arrivals->slot_size);
}

/* Apart from the request, whose lines are the owner's by then. */
static _Atomic(bool) *passed_of(const struct arrivals *arrivals, uint64_t number)
{
    return &arrivals->passed[number % arrivals->slots_count];
}

static bool request_try(struct purg_op *op)
{
    (void)op;
    return false;
}

static void request_complete(struct purg_op *op, enum purg_reason reason)
{
    struct request *request = (struct request *)(void *)op;
    request->arrivals->answered++;
    request->arrivals->expired += reason == PURG_EXPIRED;
    request->is_answered = true;
}

static const struct purg_op_type request_type = {"request", request_try, request_complete};

static double uniform(uint64_t number)
{
    return ((double)(mix(number) >> 11) + 0.5) / 9007199254740992.0;
}

/* The standard normal distribution's value, Box and Muller. */
static double normal(uint64_t number)
{
    return sqrt(-2 * log(uniform(2 * number))) * cos(2 * M_PI * uniform(2 * number + 1));
}

static void schedule_make(struct arrivals *arrivals)
{
    const struct arrivals_options *options = arrivals->options;
    uint64_t count = options->count;
    arrivals->at_ns = malloc(count * sizeof *arrivals->at_ns);
    arrivals->complete_ms = malloc(count * sizeof *arrivals->complete_ms);
    arrivals->order = malloc(count * sizeof *arrivals->order);
    must(arrivals->at_ns && arrivals->complete_ms && arrivals->order, "memory");
    double mu = log(options->p50_ms);
    double sigma = (log(options->p75_ms) - mu) / 0.6744897501960817;
    double at = 0;
    uint32_t last_ms = 0;
    for (uint64_t i = 0; i < count; i++) {
        at += -log(uniform((UINT64_C(1) << 40) + i)) * 1e9 / options->per_second;
        double latency_ms = exp(mu + sigma * normal((UINT64_C(1) << 41) + i));
        arrivals->at_ns[i] = (uint64_t)at;
        arrivals->complete_ms[i] = NEVER;
        if (latency_ms < (double)(options->timeout_ms + AFTER_MS)) {
            uint32_t ms = (uint32_t)(at / 1e6 + latency_ms) + 1;
            arrivals->complete_ms[i] = ms;
            if (ms > last_ms) { last_ms = ms; }
        }
    }
    uint64_t *starts = calloc((size_t)last_ms + 2, sizeof *starts);
    must(starts != NULL, "memory");
    for (uint64_t i = 0; i < count; i++) {
        if (arrivals->complete_ms[i] != NEVER) { starts[arrivals->complete_ms[i] + 1]++; }
    }
    for (size_t ms = 1; ms <= (size_t)last_ms + 1; ms++) {
        starts[ms] += starts[ms - 1];
    }
    arrivals->order_count = starts[last_ms + 1];
    for (uint64_t i = 0; i < count; i++) {
        if (arrivals->complete_ms[i] != NEVER) {
            arrivals->order[starts[arrivals->complete_ms[i]]++] = (uint32_t)i;
        }
    }
    free(starts);
}

/* Ends each operation at its time, once it was parked. */
static void *completer_main(void *arg)
{
    struct arrivals *arrivals = arg;
    uint64_t now_ns = mono_ns() - arrivals->start_ns;
    uint64_t parked = 0;
    uint64_t due_ns = 0;
    for (uint64_t i = 0; i < arrivals->order_count; i++) {
        uint32_t number = arrivals->order[i];
        due_ns = arrivals->complete_ms[number] * MS;
        while (now_ns < due_ns) {
            uint64_t until_ns = arrivals->start_ns + due_ns;
            struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND),
                                     .tv_nsec = (long)(until_ns % SECOND)};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
            now_ns = mono_ns() - arrivals->start_ns;
        }
        while (parked <= number) { /* the other thread is behind */
            parked = atomic_load_explicit(&arrivals->parked, memory_order_acquire);
            if (parked <= number) { usleep(BEHIND_US); }
        }
        struct request *request = request_of(arrivals, number);
        purg_op_cancel(&request->op, NULL, PURG_CANCELLED);
        atomic_store_explicit(passed_of(arrivals, number), true, memory_order_release);
        if (i % 64 == 0) { now_ns = mono_ns() - arrivals->start_ns; }
    }
    now_ns = mono_ns() - arrivals->start_ns;
    arrivals->late_ns = now_ns > due_ns ? now_ns - due_ns : 0;
    return NULL;
}

static void wake(void *ctx)
{
    uint64_t one = 1;
    must(write(((struct arrivals *)ctx)->wake_fd, &one, sizeof one) == sizeof one, "woken");
}

static void owner_sleep(struct arrivals *arrivals, uint64_t now_ns, uint64_t until_ns)
{
    if (until_ns <= now_ns) { return; }
    uint64_t for_ns = until_ns - now_ns;
    struct timespec span = {.tv_sec = (time_t)(for_ns / SECOND),
                            .tv_nsec = (long)(for_ns % SECOND)};
    struct pollfd fd = {.fd = arrivals->wake_fd, .events = POLLIN};
    uint64_t drop;
    if (ppoll(&fd, 1, &span, NULL) > 0 && read(arrivals->wake_fd, &drop, sizeof drop) < 0) {
        abort();
    }
}

static void request_park(struct arrivals *arrivals, uint64_t number, uint64_t now_ns)
{
    const struct arrivals_options *options = arrivals->options;
    struct request *request = request_of(arrivals, number);
    struct purg_key keys[KEYS_MAX];
    for (size_t i = 0; i < options->keys; i++) {
        keys[i] = (struct purg_key){.lo = mix((UINT64_C(1) << 42) + number * KEYS_MAX + i) %
                                          options->key_space};
    }
    bool has_completion = arrivals->complete_ms[number] != NEVER;
    request->arrivals = arrivals;
    request->is_answered = false;
    atomic_store_explicit(passed_of(arrivals, number), !has_completion, memory_order_relaxed);
    memset(&request->nodes[options->keys], (int)(number & 0xff), DATA_BYTES);
    purg_op_init(&request->op, &request_type, arrivals->owner);
    uint64_t deadline_ns = now_ns + options->timeout_ms * MS;
    must(purg_try_complete_else_watch(arrivals->purgatory, arrivals->owner, &request->op,
                                      request->nodes, keys, options->keys,
                                      deadline_ns) == PURG_PARKED,
         "parked");
    atomic_store_explicit(&arrivals->parked, number + 1, memory_order_release);
}

static bool slot_is_free(const struct arrivals *arrivals, uint64_t number)
{
    if (number < arrivals->slots_count) { return true; }
    const struct request *request = request_of(arrivals, number);
    return request->is_answered &&
           atomic_load_explicit(passed_of(arrivals, number), memory_order_acquire);
}

/* Parks all requests at their times. Returns how late the last one was. */
static uint64_t owner_run(struct arrivals *arrivals)
{
    uint64_t count = arrivals->options->count;
    uint64_t number = 0;
    uint64_t late_ns = 0;
    while (arrivals->answered < count) {
        uint64_t now_ns = mono_ns();
        for (int i = 0; i < 64 && number < count && slot_is_free(arrivals, number) &&
                        arrivals->start_ns + arrivals->at_ns[number] <= now_ns;
             i++) {
            request_park(arrivals, number++, now_ns);
            if (number == count) {
                late_ns = mono_ns() - arrivals->start_ns - arrivals->at_ns[count - 1];
            }
        }
        now_ns = mono_ns();
        uint64_t next_ns = purg_owner_step(arrivals->owner, now_ns);
        if (number < count) {
            /* As Kafka's test, in whole milliseconds: several requests a turn. */
            uint64_t at_ns = arrivals->start_ns + arrivals->at_ns[number];
            if (at_ns > now_ns && at_ns < now_ns + MS) { at_ns = now_ns + MS; }
            if (at_ns < next_ns) { next_ns = at_ns; }
        }
        if (arrivals->answered < count) { owner_sleep(arrivals, now_ns, next_ns); }
    }
    return late_ns;
}

static void arrivals_init(struct arrivals *arrivals, const struct arrivals_options *options)
{
    *arrivals = (struct arrivals){.options = options};
    schedule_make(arrivals);
    size_t size =
        sizeof(struct request) + options->keys * sizeof(struct purg_watch_node) + DATA_BYTES;
    arrivals->slot_size = (size + 63) / 64 * 64;
    /* No request stays longer than its timeout and a little. */
    double stay_ms = 2.0 * (double)(options->timeout_ms + AFTER_MS) + 100;
    arrivals->slots_count = (uint64_t)(options->per_second * stay_ms / 1000) + 1024;
    if (arrivals->slots_count > options->count) { arrivals->slots_count = options->count; }
    arrivals->slots = aligned_alloc(64, arrivals->slots_count * arrivals->slot_size);
    arrivals->passed = calloc(arrivals->slots_count, sizeof *arrivals->passed);
    must(arrivals->slots && arrivals->passed, "memory");
    for (size_t i = 0; i < arrivals->slots_count * arrivals->slot_size; i += 4096) {
        arrivals->slots[i] = 0; /* the kernel gives its pages before the clock starts */
    }
    memset(arrivals->passed, 0, arrivals->slots_count * sizeof *arrivals->passed);
    arrivals->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct purg_owner_options owner = {.start_ns = mono_ns(), .wake = wake, .wake_ctx = arrivals};
    arrivals->purgatory = purg_create(&options->env, &(struct purg_options){.shards = 0});
    arrivals->owner = purg_owner_create(&options->env, &owner);
    must(arrivals->purgatory && arrivals->owner && arrivals->wake_fd >= 0, "memory");
}

static void arrivals_fini(struct arrivals *arrivals)
{
    must(purg_size(arrivals->purgatory) == 0, "nothing is left linked");
    while (!purg_owner_is_idle(arrivals->owner)) {
        purg_owner_step(arrivals->owner, mono_ns());
    }
    purg_owner_destroy(arrivals->owner);
    purg_destroy(arrivals->purgatory);
    close(arrivals->wake_fd);
    free(arrivals->slots);
    free(arrivals->passed);
    free(arrivals->at_ns);
    free(arrivals->complete_ms);
    free(arrivals->order);
}

void arrivals_run(const struct arrivals_options *options)
{
    must(options->keys > 0 && options->keys <= KEYS_MAX && options->key_space > 0 &&
             options->count > 0 && options->count < NEVER && options->per_second > 0,
         "1 to 100 keys, a number of requests");
    struct arrivals arrivals;
    arrivals_init(&arrivals, options);
    arrivals.start_ns = mono_ns() + MS;
    uint64_t start_cpu_ns = cpu_ns();
    pthread_t completer;
    must(pthread_create(&completer, NULL, completer_main, &arrivals) == 0, "a thread");
    uint64_t late_ns = owner_run(&arrivals);
    pthread_join(completer, NULL);
    uint64_t used_ns = cpu_ns() - start_cpu_ns;
    uint64_t slack_ns = arrivals.at_ns[options->count - 1] / 20;
    printf("{\"sustained\": %s, \"late_ms\": %.2f, \"complete_late_ms\": %.2f, \"expired\": %llu, "
           "\"cpu_us\": %.3f}\n",
           late_ns <= slack_ns && arrivals.late_ns <= slack_ns ? "true" : "false",
           (double)late_ns / 1e6, (double)arrivals.late_ns / 1e6,
           (unsigned long long)arrivals.expired, (double)used_ns / 1e3 / (double)options->count);
    arrivals_fini(&arrivals);
}
