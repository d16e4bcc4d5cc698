/* clock.c - clocks, entropy, futexes. */
#include "base/check.h"
#include "sys/sys_int.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t sys_clock_ns(void)
{
    struct timespec t;
    int rc = clock_gettime(CLOCK_MONOTONIC, &t);
    CHECK(rc == 0);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

uint64_t sys_mono_ns(struct sys *sys)
{
    (void)sys;
    return sys_clock_ns();
}

int64_t sys_wall_ms(struct sys *sys)
{
    (void)sys;
    struct timespec t;
    int rc = clock_gettime(CLOCK_REALTIME, &t);
    CHECK(rc == 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct timespec sys_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000U),
                             .tv_nsec = (long)(ns % 1000000000U)};
}

void sys_random(struct sys *sys, void *buf, size_t size)
{
    (void)sys;
    unsigned char *p = buf;
    while (size > 0) {
        ssize_t n = getrandom(p, size, 0);
        if (n < 0 && errno == EINTR) { continue; }
        CHECK(n > 0); /* Cannot fail otherwise on the kernels that we run on. */
        p += n;
        size -= (size_t)n;
    }
}

uint64_t sys_random_u64(struct sys *sys)
{
    uint64_t x;
    sys_random(sys, &x, sizeof x);
    return x;
}

void sys_futex_wait(_Atomic int *word, int expected, uint64_t deadline_ns)
{
    struct timespec t = sys_timespec(deadline_ns);
    /* BITSET takes an absolute monotonic time; every way of returning is for the caller's loop. */
    (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                  deadline_ns == SYS_NEVER ? NULL : &t, NULL, FUTEX_BITSET_MATCH_ANY);
}

void sys_futex_wake(_Atomic int *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
}

void sys_futex_wake_one(_Atomic int *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

bool sys_wait_flag(struct sys *sys, _Atomic int *flag, uint64_t deadline_ns)
{
    (void)sys;
    /* Acquire; pairs with the release in sys_signal_flag(). */
    while (atomic_load_explicit(flag, memory_order_acquire) == 0) {
        if (deadline_ns != SYS_NEVER && sys_clock_ns() >= deadline_ns) { return false; }
        sys_futex_wait(flag, 0, deadline_ns);
    }
    return true;
}

void sys_signal_flag(struct sys *sys, _Atomic int *flag, int value)
{
    (void)sys;
    atomic_store_explicit(flag, value, memory_order_release);
    /* The waiter may have returned and *flag be gone: the kernel only compares addresses. */
    sys_futex_wake(flag);
}
