/* abort_test.c - misuse that must end the process, each in a child of its own; and signals. */
#include "sys/sys.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The signal that ended the child, or minus its exit code. */
static int run_child(int (*body)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
        (void)alarm(30);
        _exit(body());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

NO_THREAD_SAFETY static int lock_in_order(void)
{
    struct sys_mutex low, high;
    sys_mutex_init(&low, SYS_RANK_META);
    sys_mutex_init(&high, SYS_RANK_LEAF);
    sys_mutex_lock(&low);
    sys_mutex_lock(&high);
    sys_mutex_unlock(&low);
    sys_mutex_unlock(&high);
    return 7;
}

static void test_rising_ranks_are_fine(void **state)
{
    (void)state;
    assert_int_equal(run_child(lock_in_order), -7);
}

#ifdef BARNABAS_DEBUG
NO_THREAD_SAFETY static int lock_out_of_order(void)
{
    struct sys_mutex low, high;
    sys_mutex_init(&low, SYS_RANK_META);
    sys_mutex_init(&high, SYS_RANK_LEAF);
    sys_mutex_lock(&high);
    sys_mutex_lock(&low);
    return 0;
}

static uint64_t step_that_keeps_a_lock(void *ctx, uint64_t now_ns) NO_THREAD_SAFETY
{
    (void)now_ns;
    sys_mutex_lock(ctx);
    return SYS_NEVER;
}

static int keep_a_lock_over_a_step(void)
{
    struct sys *sys = sys_create();
    struct sys_mutex m;
    sys_mutex_init(&m, SYS_RANK_META);
    struct sys_task *task;
    if (sys_task_start(
            sys,
            &(struct sys_task_options){.name = "bad", .step = step_that_keeps_a_lock, .ctx = &m},
            &task)) {
        return 0;
    }
    _Atomic int never = 0;
    (void)sys_wait_flag(sys, &never, SYS_NEVER);
    return 0;
}

static void test_falling_ranks_abort(void **state)
{
    (void)state;
    assert_int_equal(run_child(lock_out_of_order), SIGABRT);
}

static void test_a_lock_held_after_a_step_aborts(void **state)
{
    (void)state;
    assert_int_equal(run_child(keep_a_lock_over_a_step), SIGABRT);
}
#endif

/* SIGTERM goes to the one who waits for it, though tasks run; SIGPIPE does nothing. */
static uint64_t raise_step(void *ctx, uint64_t now_ns)
{
    (void)ctx;
    (void)now_ns;
    (void)kill(getpid(), SIGPIPE);
    (void)kill(getpid(), SIGTERM);
    return SYS_NEVER;
}

static int wait_for_sigterm(void)
{
    /* Blocked before the task sends it; sys_wait_signal() does the same for later ones. */
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGPIPE);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    struct sys *sys = sys_create();
    struct sys_task *task;
    if (sys_task_start(sys, &(struct sys_task_options){.name = "raise", .step = raise_step},
                       &task)) {
        return 1;
    }
    int number = sys_wait_signal(sys);
    (void)sigdelset(&set, SIGTERM);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    sys_task_stop(task);
    sys_destroy(sys);
    return number == SIGTERM ? 7 : 1;
}

static void test_a_signal_ends_the_wait_of_main(void **state)
{
    (void)state;
    assert_int_equal(run_child(wait_for_sigterm), -7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rising_ranks_are_fine),
#ifdef BARNABAS_DEBUG
        cmocka_unit_test(test_falling_ranks_abort),
        cmocka_unit_test(test_a_lock_held_after_a_step_aborts),
#endif
        cmocka_unit_test(test_a_signal_ends_the_wait_of_main),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
