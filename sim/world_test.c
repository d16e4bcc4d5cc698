/* world_test.c - tasks, locks, streams, heaps and the clock of the simulated world; and that one
 * seed is one story. */
#include "sim/machine.h"

#include "base/check.h"
#include "base/mem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void idle(struct sys *sys, void *ctx)
{
    (void)sys;
    (void)ctx;
}

/* ---- an echo server as a broker would be built: a poller, one task, streams ---- */

#define ECHO_CONNS_MAX 8

struct echo_conn {
    struct sys_stream *stream;
    uint8_t held[64]; /* read and not sent back yet */
    size_t held_size;
};

struct echo {
    struct sys_poller *poller;
    struct sys_listener *listener;
    struct sys_task *task;
    struct echo_conn conns[ECHO_CONNS_MAX];
};

static void echo_close(struct echo *e, struct echo_conn *c)
{
    sys_poller_remove(e->poller, c->stream);
    sys_stream_close(c->stream);
    c->stream = NULL;
}

static void echo_accept(struct echo *e)
{
    struct sys_stream *s;
    char peer[SYS_ADDRESS_SIZE];
    while (sys_accept(e->listener, &s, peer) == ERR_OK) {
        uint64_t i = 0;
        while (e->conns[i].stream) {
            i++;
            CHECK(i < ECHO_CONNS_MAX);
        }
        e->conns[i] = (struct echo_conn){.stream = s};
        enum err rc = sys_poller_add(e->poller, s, i, SYS_READABLE);
        CHECK(!rc);
    }
}

static void echo_move(struct echo *e, uint64_t i)
{
    struct echo_conn *c = &e->conns[i];
    size_t moved;
    enum err rc = ERR_OK;
    if (c->held_size == 0) {
        rc = sys_stream_recv(c->stream, c->held, sizeof c->held, &moved);
        c->held_size = moved;
    }
    if (!rc && c->held_size > 0) {
        struct sys_iov iov = {.at = c->held, .size = c->held_size};
        rc = sys_stream_sendv(c->stream, &iov, 1, false, &moved);
        memmove(c->held, c->held + moved, c->held_size - moved);
        c->held_size -= moved;
    }
    if (rc == ERR_CLOSED) {
        echo_close(e, c);
        return;
    }
    rc = sys_poller_set(e->poller, c->stream, i, c->held_size ? SYS_WRITABLE : SYS_READABLE);
    CHECK(!rc);
}

static uint64_t echo_step(void *ctx, uint64_t now_ns)
{
    (void)now_ns;
    struct echo *e = ctx;
    struct sys_poll_event events[4];
    size_t count = sys_poller_events(e->poller, events, COUNT_OF(events));
    for (size_t i = 0; i < count; i++) {
        if (events[i].token == ECHO_CONNS_MAX) {
            echo_accept(e);
        } else if (e->conns[events[i].token].stream) {
            echo_move(e, events[i].token);
        }
    }
    return SYS_NEVER;
}

static void echo_main(struct sys *sys, void *ctx)
{
    (void)ctx;
    struct echo *e = mem_new(struct echo);
    CHECK(e);
    enum err rc = sys_poller_create(sys, &e->poller);
    if (!rc) { rc = sys_listen(sys, NULL, 9092, 8, &e->listener); }
    if (!rc) { rc = sys_poller_add_listener(e->poller, e->listener, ECHO_CONNS_MAX); }
    if (!rc) {
        rc = sys_task_start(sys,
                            &(struct sys_task_options){
                                .name = "echo", .step = echo_step, .ctx = e, .poller = e->poller},
                            &e->task);
    }
    CHECK(!rc);
}

struct client {
    struct sys_stream *stream;
    uint8_t sent, got; /* each byte is one more than the last */
    unsigned left;
    bool is_closed;
};

static void client_move(struct sim *sim, struct client *c)
{
    uint8_t buf[32];
    size_t moved;
    struct sys_iov iov = {.at = buf, .size = 1 + (size_t)sim_below(sim, sizeof buf)};
    if (iov.size > c->left) { iov.size = c->left; }
    for (size_t i = 0; i < iov.size; i++) {
        buf[i] = (uint8_t)(c->sent + i);
    }
    if (iov.size > 0 && !sys_stream_sendv(c->stream, &iov, 1, false, &moved)) {
        c->sent = (uint8_t)(c->sent + moved);
        c->left -= (unsigned)moved;
    }
    enum err e = sys_stream_recv(c->stream, buf, sizeof buf, &moved);
    for (size_t i = 0; i < moved; i++) {
        assert_int_equal(buf[i], c->got);
        c->got++;
    }
    c->is_closed |= e == ERR_CLOSED;
}

/* Three clients send 3,000 bytes each through the echo server; the world's hash at the end. */
static uint64_t echo_story(uint64_t seed, bool crash)
{
    struct sim *sim = sim_create(&(struct sim_options){
        .seed = seed, .preempt_permille = 50, .short_permille = 300, .stream_bytes_max = 100});
    struct sim_host *host = sim_host_create(sim, "b1");
    sim_boot(host, echo_main, NULL);
    sim_run_until(sim, sim_now_ns(sim) + SYS_MS);
    struct client clients[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = (struct client){.stream = sim_connect(host, 9092), .left = 3000};
    }
    uint64_t limit = sim_now_ns(sim) + 60000 * SYS_MS;
    unsigned turns = 0, busy = 3;
    while (busy > 0) {
        bool is_moving = sim_step(sim, limit);
        busy = 0;
        for (int i = 0; i < 3; i++) {
            struct client *c = &clients[i];
            if (!c->is_closed && sim_stream_ready(c->stream)) {
                client_move(sim, c);
                is_moving = true;
            }
            busy += !c->is_closed && (c->left > 0 || c->got != c->sent);
        }
        assert_true(is_moving);
        if (crash && ++turns == 300) { sim_crash(host, SIM_KEEP_BY_CHANCE); }
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(clients[i].is_closed, crash);
        sys_stream_close(clients[i].stream);
    }
    uint64_t hash = sim_hash(sim);
    sim_destroy(sim);
    return hash;
}

static void test_bytes_travel_in_order_in_any_pieces(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        (void)echo_story(seed, false);
    }
}

static void test_a_crash_is_seen_by_the_clients(void **state)
{
    (void)state;
    (void)echo_story(1, true);
}

static void test_one_seed_is_one_story(void **state)
{
    (void)state;
    uint64_t first = echo_story(42, false);
    assert_true(first == echo_story(42, false));
    assert_true(first != echo_story(43, false));
    assert_true(echo_story(44, true) == echo_story(44, true));
}

static void test_nobody_listens_shows_as_closed(void **state)
{
    (void)state;
    struct sim *sim = sim_create(&(struct sim_options){.seed = 1});
    struct sim_host *host = sim_host_create(sim, "b1");
    struct sys_stream *s = sim_connect(host, 1);
    struct sys_iov iov = {.at = "x", .size = 1};
    size_t moved;
    assert_int_equal(sys_stream_sendv(s, &iov, 1, false, &moved), ERR_CLOSED);
    sys_stream_close(s);
    sim_destroy(sim);
}

/* ---- locks ---- */

struct shared {
    struct sys_mutex lock;
    struct sys *sys;
    uint64_t value;
    int inside;
    _Atomic int done;
    _Atomic int stopped;
    struct sys_task *tasks[2];
};

static uint64_t add_step(void *ctx, uint64_t now_ns)
{
    (void)now_ns;
    struct shared *s = ctx;
    sys_mutex_lock(&s->lock);
    CHECK(s->inside++ == 0);
    struct sys_file *f; /* waits for the disk with the lock held: others must queue */
    enum err e = sys_file_open(s->sys, "d/f", SYS_WRITE | SYS_CREATE, &f);
    CHECK(!e);
    e = sys_file_sync(f);
    CHECK(!e);
    sys_file_unref(f);
    s->value++;
    s->inside--;
    bool is_last = s->value == 20;
    sys_mutex_unlock(&s->lock);
    if (is_last) { sys_signal_flag(s->sys, &s->done, 1); }
    return s->value >= 20 ? SYS_NEVER : 0;
}

static void locks_main(struct sys *sys, void *ctx)
{
    struct shared *s = ctx;
    s->sys = sys;
    sys_mutex_init(&s->lock, SYS_RANK_LOGDIR);
    for (int i = 0; i < 2; i++) {
        enum err e = sys_task_start(
            sys, &(struct sys_task_options){.name = "add", .step = add_step, .ctx = s},
            &s->tasks[i]);
        CHECK(!e);
    }
    bool is_set = sys_wait_flag(sys, &s->done, SYS_NEVER);
    CHECK(is_set);
    for (int i = 0; i < 2; i++) {
        sys_task_stop(s->tasks[i]);
    }
    sys_mutex_fini(&s->lock);
    atomic_store(&s->stopped, 1);
}

static void test_a_lock_is_waited_for(void **state)
{
    (void)state;
    struct sim *sim = sim_create(&(struct sim_options){.seed = 5, .preempt_permille = 200});
    struct sim_host *host = sim_host_create(sim, "b1");
    struct shared s = {0};
    sim_boot(host, locks_main, &s);
    assert_true(sys_wait_flag(NULL, &s.stopped, sim_now_ns(sim) + 10000 * SYS_MS));
    assert_true(s.value >= 20);
    assert_true(sim_counts(sim)->lock_waits > 0);
    assert_true(sim_counts(sim)->preemptions > 0);
    sim_destroy(sim);
}

NO_THREAD_SAFETY static void lock_twice(struct sys *sys, void *ctx)
{
    (void)sys;
    struct sys_mutex *m = ctx;
    sys_mutex_init(m, SYS_RANK_LOG);
    sys_mutex_lock(m);
    sys_mutex_lock(m);
}

NO_THREAD_SAFETY static uint64_t keep_step(void *ctx, uint64_t now_ns)
{
    (void)now_ns;
    sys_mutex_lock(ctx);
    return SYS_NEVER;
}

static void keep_lock(struct sys *sys, void *ctx)
{
    struct sys_task *task;
    sys_mutex_init(ctx, SYS_RANK_LOG);
    enum err e = sys_task_start(
        sys, &(struct sys_task_options){.name = "keep", .step = keep_step, .ctx = ctx}, &task);
    CHECK(!e);
}

static bool aborts(void (*main)(struct sys *sys, void *ctx))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
        struct sim *sim = sim_create(&(struct sim_options){.seed = 1});
        struct sys_mutex m;
        sim_boot(sim_host_create(sim, "b1"), main, &m);
        sim_run_until(sim, sim_now_ns(sim) + SYS_MS);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void test_misuse_of_locks_aborts(void **state)
{
    (void)state;
    assert_true(aborts(lock_twice));
    assert_true(aborts(keep_lock));
    assert_false(aborts(idle));
}

/* ---- time ---- */

struct ticks {
    uint64_t at_ns[5];
    int count;
};

static uint64_t tick_step(void *ctx, uint64_t now_ns)
{
    struct ticks *t = ctx;
    if (t->count == 5) { return SYS_NEVER; }
    t->at_ns[t->count++] = now_ns;
    return now_ns + 3600000 * SYS_MS;
}

static void tick_main(struct sys *sys, void *ctx)
{
    struct sys_task *task;
    enum err e = sys_task_start(
        sys, &(struct sys_task_options){.name = "tick", .step = tick_step, .ctx = ctx}, &task);
    CHECK(!e);
}

static void test_the_clock_jumps_when_nothing_can_run(void **state)
{
    (void)state;
    struct sim *sim = sim_create(&(struct sim_options){.seed = 1});
    struct sim_host *host = sim_host_create(sim, "b1");
    struct ticks t = {0};
    sim_boot(host, tick_main, &t);
    while (sim_step(sim, SYS_NEVER)) {}
    assert_int_equal(t.count, 5);
    for (int i = 1; i < 5; i++) {
        assert_true(t.at_ns[i] >= t.at_ns[i - 1] + 3600000 * SYS_MS);
        assert_true(t.at_ns[i] < t.at_ns[i - 1] + 3600001 * SYS_MS);
    }
    assert_true(sim_counts(sim)->steps < 50);
    int64_t wall = sys_wall_ms(sim_sys(host));
    sim_jump_wall_clock(host, -5000);
    assert_int_equal(sys_wall_ms(sim_sys(host)), wall - 5000);
    sim_destroy(sim);
}

/* ---- heap ---- */

static void take_memory(struct sys *sys, void *ctx)
{
    (void)sys;
    (void)ctx;
    void *p = mem_alloc(1000);
    p = mem_realloc(p, 3000);
    CHECK(p); /* and never given back */
}

static void third_fails(struct sys *sys, void *ctx)
{
    (void)sys;
    int *failed = ctx;
    for (int i = 1; i <= 5; i++) {
        void *p = mem_alloc(10);
        if (!p) { *failed = *failed * 10 + i; }
        mem_free(p);
    }
}

static void test_a_heap_goes_with_its_process_and_fails_on_demand(void **state)
{
    (void)state;
    struct sim *sim = sim_create(&(struct sim_options){.seed = 1});
    struct sim_host *host = sim_host_create(sim, "b1");
    sim_boot(host, take_memory, NULL);
    sim_run_until(sim, sim_now_ns(sim) + SYS_MS);
    assert_int_equal(sim_heap_bytes(host), 3000);
    int failed = 0;
    sim_fail_allocation(host, 3);
    sim_call(host, third_fails, &failed, NULL);
    sim_run_until(sim, sim_now_ns(sim) + SYS_MS);
    assert_int_equal(failed, 3);
    assert_int_equal(sim_heap_bytes(host), 3000);
    sim_kill(host);
    assert_int_equal(sim_heap_bytes(host), 0);
    assert_false(sim_is_up(host));
    sim_boot(host, idle, NULL); /* it can start again */
    sim_run_until(sim, sim_now_ns(sim) + SYS_MS);
    sim_destroy(sim);
}

static void wait_for_signal(struct sys *sys, void *ctx)
{
    *(int *)ctx = sys_wait_signal(sys);
}

static void test_a_signal_reaches_main(void **state)
{
    (void)state;
    struct sim *sim = sim_create(&(struct sim_options){.seed = 1});
    struct sim_host *host = sim_host_create(sim, "b1");
    int number = 0;
    sim_boot(host, wait_for_signal, &number);
    sim_run_until(sim, sim_now_ns(sim) + SYS_MS);
    assert_int_equal(number, 0);
    sim_signal(host, SIGTERM);
    sim_run_until(sim, sim_now_ns(sim) + SYS_MS);
    assert_int_equal(number, SIGTERM);
    sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_travel_in_order_in_any_pieces),
        cmocka_unit_test(test_a_crash_is_seen_by_the_clients),
        cmocka_unit_test(test_one_seed_is_one_story),
        cmocka_unit_test(test_nobody_listens_shows_as_closed),
        cmocka_unit_test(test_a_lock_is_waited_for),
        cmocka_unit_test(test_misuse_of_locks_aborts),
        cmocka_unit_test(test_the_clock_jumps_when_nothing_can_run),
        cmocka_unit_test(test_a_heap_goes_with_its_process_and_fails_on_demand),
        cmocka_unit_test(test_a_signal_reaches_main),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
