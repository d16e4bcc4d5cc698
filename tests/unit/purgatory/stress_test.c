/* stress_test.c - many threads at once: exactly once, none lost, nothing left. Run under TSan too.
 *
 * From 2 to 16 threads: owners with threads of their own park, check, cancel and complete; a reaper
 * owns what the other threads park; those threads publish events and cancel keys. Each operation
 * waits until the version of its key reaches a target. Afterwards every key's events have been
 * checked, so an operation that still waits although its target was reached is a lost wake-up.
 * In the end nothing is linked and all memory is back (case C25). */
#include <pthread.h>
#include <stdatomic.h>

#include "purg_test.h"

#include "purgatory/reaper.h"

#define OWNERS_MAX 4
#define THREADS_MAX 16
#define OPS 48000 /* of all threads together */
#define KEYS 24
#define CHECK_KEYS 20 /* more than are treated at a time */
#define KEYS_PER_OP 3
#define PARKED_MAX 400 /* per thread, so that keys keep short lists */
#define MS 1000000u

struct stress_op {
    struct purg_op op; /* first */
    struct purg_watch_node nodes[KEYS_PER_OP];
    uint64_t number;
    size_t key;
    uint64_t target;
    size_t thread;
    char scratch; /* written by try_complete and on_complete: TSan sees any overlap */
};

struct waker { /* how an owner's thread sleeps */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool is_woken;
};

struct stress {
    struct purg_env env;
    size_t owners_count; /* threads below are owners' */
    size_t threads_count;
    size_t ops_each;
    _Atomic(size_t) bytes_used;
    struct purgatory *purgatory;
    struct purg_owner *owners[OWNERS_MAX];
    struct purg_reaper *reaper;
    _Atomic(uint64_t) versions[KEYS];
    _Atomic(uint32_t) completions[OPS];
    _Atomic(int64_t) parked[THREADS_MAX];
    _Atomic(uint64_t) reasons[PURG_SHUTDOWN + 1];
    _Atomic(uint64_t) done_at_once;
    _Atomic(uint64_t) lost;
    _Atomic(bool) is_ending;
    struct waker wakers[OWNERS_MAX];
};

static struct stress s;

static void waker_wake(void *ctx)
{
    struct waker *waker = ctx;
    pthread_mutex_lock(&waker->mutex);
    waker->is_woken = true;
    pthread_cond_signal(&waker->cond);
    pthread_mutex_unlock(&waker->mutex);
}

static void waker_sleep(struct waker *waker, uint64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                             .tv_nsec = (long)(until_ns % 1000000000u)};
    pthread_mutex_lock(&waker->mutex);
    int error = 0;
    while (!waker->is_woken && error == 0) {
        error = pthread_cond_clockwait(&waker->cond, &waker->mutex, CLOCK_MONOTONIC, &until);
    }
    waker->is_woken = false;
    pthread_mutex_unlock(&waker->mutex);
}

static struct purg_key key_of(size_t number)
{
    return (struct purg_key){.hi = 1, .lo = number, .sub = 2};
}

static bool is_reached(const struct stress_op *it)
{
    return atomic_load_explicit(&s.versions[it->key], memory_order_relaxed) >= it->target;
}

static bool op_try(struct purg_op *op)
{
    struct stress_op *it = (struct stress_op *)(void *)op;
    it->scratch++;
    return is_reached(it);
}

static void op_complete(struct purg_op *op, enum purg_reason reason)
{
    struct stress_op *it = (struct stress_op *)(void *)op;
    it->scratch++;
    if (reason == PURG_SHUTDOWN && is_reached(it)) {
        atomic_fetch_add(&s.lost, 1); /* its last event was checked before the shutdown */
    }
    atomic_fetch_add(&s.completions[it->number], 1);
    atomic_fetch_add(&s.reasons[reason], 1);
    atomic_fetch_sub(&s.parked[it->thread], 1);
    memset(it, 0xa5, sizeof *it);
    free(it);
}

static const struct purg_op_type op_type = {"stress", op_try, op_complete};

static void park_one(size_t thread, uint64_t number, struct purg_owner *self, uint64_t *seed)
{
    struct stress_op *it = calloc(1, sizeof *it);
    if (!it) { abort(); }
    size_t keys_count = 1 + test_random(seed) % KEYS_PER_OP;
    struct purg_key keys[KEYS_PER_OP];
    for (size_t i = 0; i < keys_count; i++) {
        keys[i] = key_of(test_random(seed) % KEYS);
    }
    it->number = thread * s.ops_each + number;
    it->key = (size_t)keys[test_random(seed) % keys_count].lo;
    it->target = atomic_load(&s.versions[it->key]) + test_random(seed) % 4;
    it->thread = thread;
    struct purg_owner *owner = self;
    if (!self || test_random(seed) % 8 == 0) { /* some go to another thread's owner */
        size_t i = test_random(seed) % (s.owners_count + 1);
        owner = i < s.owners_count ? s.owners[i] : purg_reaper_owner(s.reaper);
    }
    uint64_t deadline_ns = PURG_NEVER;
    if (test_random(seed) % 2 == 0) {
        deadline_ns = s.env.now_ns(NULL) + test_random(seed) % (8 * MS);
    }
    purg_op_init(&it->op, &op_type, owner);
    atomic_fetch_add(&s.parked[thread], 1);
    if (purg_try_complete_else_watch(s.purgatory, self, &it->op, it->nodes, keys, keys_count,
                                     deadline_ns) == PURG_DONE) {
        atomic_fetch_add(&s.completions[it->number], 1);
        atomic_fetch_add(&s.done_at_once, 1);
        atomic_fetch_sub(&s.parked[thread], 1);
        free(it);
        return;
    }
    if (owner == self && test_random(seed) % 16 == 0) { /* on its owner's thread it still lives */
        purg_op_cancel(&it->op, self, PURG_CANCELLED);
    }
}

static void act(struct purg_owner *self, uint64_t *seed)
{
    size_t key = test_random(seed) % KEYS;
    if (test_random(seed) % 64 == 0) {
        purg_cancel_key(s.purgatory, self, key_of(key), PURG_CANCELLED);
    } else {
        atomic_fetch_add_explicit(&s.versions[key], 1, memory_order_relaxed);
        struct purg_key keys[CHECK_KEYS] = {key_of(key)};
        if (test_random(seed) % 2) {
            purg_check(s.purgatory, self, keys[0]);
            return;
        }
        for (size_t i = 1; i < CHECK_KEYS; i++) {
            size_t other = test_random(seed) % KEYS;
            atomic_fetch_add_explicit(&s.versions[other], 1, memory_order_relaxed);
            keys[i] = key_of(other);
        }
        purg_check_many(s.purgatory, self, keys, CHECK_KEYS);
    }
}

static void *actor_main(void *arg)
{
    size_t thread = *(const size_t *)arg;
    uint64_t seed = thread;
    for (uint64_t number = 0; number < s.ops_each;) {
        if (atomic_load(&s.parked[thread]) < PARKED_MAX) {
            park_one(thread, number++, NULL, &seed);
        }
        act(NULL, &seed);
    }
    return NULL;
}

static void *owner_main(void *arg)
{
    size_t thread = *(const size_t *)arg;
    uint64_t seed = thread;
    uint64_t number = 0;
    struct purg_owner *self = s.owners[thread];
    while (number < s.ops_each || !atomic_load(&s.is_ending)) {
        for (int i = 0; i < 20 && number < s.ops_each; i++) {
            if (atomic_load(&s.parked[thread]) < PARKED_MAX) {
                park_one(thread, number++, self, &seed);
            }
            act(self, &seed);
        }
        uint64_t now_ns = s.env.now_ns(NULL);
        uint64_t next_ns = purg_owner_step(self, now_ns);
        if (number == s.ops_each && next_ns > now_ns) {
            uint64_t limit_ns = now_ns + 5 * MS; /* to look at is_ending */
            waker_sleep(&s.wakers[thread], next_ns < limit_ns ? next_ns : limit_ns);
        }
    }
    return NULL;
}

static void *counting_alloc(void *ctx, size_t size, size_t align)
{
    atomic_fetch_add(&s.bytes_used, size);
    struct purg_env env = purg_env_pthread();
    return env.alloc(ctx, size, align);
}

static void counting_free(void *ctx, void *memory, size_t size)
{
    atomic_fetch_sub(&s.bytes_used, size);
    struct purg_env env = purg_env_pthread();
    env.free(ctx, memory, size);
}

static void stress_start(size_t threads_count)
{
    memset(&s, 0, sizeof s);
    s.env = purg_env_pthread();
    s.env.alloc = counting_alloc;
    s.env.free = counting_free;
    s.threads_count = threads_count;
    s.owners_count = threads_count / 2 < OWNERS_MAX ? threads_count / 2 : OWNERS_MAX;
    s.ops_each = OPS / threads_count;
    s.purgatory = purg_create(&s.env, &(struct purg_options){.shards = 8});
    assert_non_null(s.purgatory);
    for (size_t i = 0; i < s.owners_count; i++) {
        pthread_mutex_init(&s.wakers[i].mutex, NULL);
        pthread_cond_init(&s.wakers[i].cond, NULL);
        s.owners[i] =
            purg_owner_create(&s.env, &(struct purg_owner_options){.tick_ns = MS / 4,
                                                                   .start_ns = s.env.now_ns(NULL),
                                                                   .wake = waker_wake,
                                                                   .wake_ctx = &s.wakers[i]});
        assert_non_null(s.owners[i]);
    }
    s.reaper = purg_reaper_start(&s.env, &(struct purg_owner_options){.tick_ns = MS / 4});
    assert_non_null(s.reaper);
}

/* No other thread runs any more: this one is each owner's. */
static void stress_end(void)
{
    for (size_t i = 0; i < s.owners_count; i++) {
        purg_owner_shutdown(s.owners[i]);
        while (!purg_owner_is_idle(s.owners[i])) {
            purg_owner_step(s.owners[i], s.env.now_ns(NULL));
        }
        purg_owner_destroy(s.owners[i]);
        pthread_cond_destroy(&s.wakers[i].cond);
        pthread_mutex_destroy(&s.wakers[i].mutex);
    }
    purg_reaper_stop(s.reaper);
}

static void run_threads(void)
{
    pthread_t threads[THREADS_MAX];
    size_t numbers[THREADS_MAX];
    for (size_t i = 0; i < s.threads_count; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < s.owners_count ? owner_main : actor_main, &numbers[i]),
                         0);
    }
    for (size_t i = s.owners_count; i < s.threads_count; i++) {
        pthread_join(threads[i], NULL);
    }
    atomic_store(&s.is_ending, true);
    for (size_t i = 0; i < s.owners_count; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void run(size_t threads_count)
{
    stress_start(threads_count);
    run_threads();
    stress_end();
    for (size_t i = 0; i < s.threads_count * s.ops_each; i++) {
        assert_int_equal(atomic_load(&s.completions[i]), 1);
    }
    assert_int_equal(atomic_load(&s.lost), 0);
    assert_int_equal(purg_size(s.purgatory), 0);
    assert_int_equal(purg_delayed(s.purgatory), 0);
    assert_int_equal(purg_expirations(s.purgatory), atomic_load(&s.reasons[PURG_EXPIRED]));
    purg_destroy(s.purgatory);
    assert_int_equal(atomic_load(&s.bytes_used), 0);
    print_message(
        "%zu threads: at once %zu, events %zu, expired %zu, cancelled %zu, shutdown %zu\n",
        threads_count, (size_t)s.done_at_once, (size_t)s.reasons[PURG_EVENT],
        (size_t)s.reasons[PURG_EXPIRED], (size_t)s.reasons[PURG_CANCELLED],
        (size_t)s.reasons[PURG_SHUTDOWN]);
}

static void test_each_operation_ends_exactly_once_on_2_to_16_threads_c25(void **state)
{
    (void)state;
    static const size_t counts[] = {2, 3, 5, 8, 16};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        run(counts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_operation_ends_exactly_once_on_2_to_16_threads_c25),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
