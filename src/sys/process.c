/* process.c - the process itself: life, log output, limits, signals.
 *
 * Thread:     create, destroy and sys_wait_signal() on main; the rest from any. */
#include "base/check.h"
#include "base/mem.h"
#include "sys/sys_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SYS_LINE_MAX 1100 /* a log line and its newline */
#define SYS_DESCRIPTORS_CAP 1048576 /* when the hard limit says "infinite" */

static void sys_logger_write(void *ctx, enum logger_level level, const char *line)
{
    (void)ctx;
    (void)level;
    char buf[SYS_LINE_MAX];
    size_t size = strnlen(line, sizeof buf - 1);
    memcpy(buf, line, size);
    buf[size++] = '\n';
    size_t done = 0;
    while (done < size) { /* One call but for a full pipe. Nobody is told when output is gone. */
        ssize_t n = write(STDOUT_FILENO, buf + done, size - done);
        if (n < 0 && errno != EINTR) { return; }
        done += n > 0 ? (size_t)n : 0;
    }
}

static int64_t sys_logger_wall_ms(void *ctx)
{
    return sys_wall_ms(ctx);
}

struct sys *sys_create(void)
{
    struct sys *sys = mem_new(struct sys);
    if (!sys) { return NULL; }
    sys->logger = (struct logger){.level_min = LOG_INFO,
                                  .write = sys_logger_write,
                                  .wall_ms = sys_logger_wall_ms,
                                  .ctx = sys};
    sys_mutex_init(&sys->lock, SYS_RANK_LEAF);
    for (size_t i = 0; i < SYS_DEVICES_MAX; i++) {
        sys->devices[i].sync_fd = -1;
    }
    return sys;
}

void sys_destroy(struct sys *sys)
{
    if (!sys) { return; }
    for (size_t i = 0; i < SYS_DEVICES_MAX; i++) {
        if (sys->devices[i].sync_fd >= 0) { (void)close(sys->devices[i].sync_fd); }
    }
    sys_mutex_fini(&sys->lock);
    mem_free(sys);
}

struct logger *sys_logger(struct sys *sys)
{
    return &sys->logger;
}

uint64_t sys_descriptors_max(struct sys *sys)
{
    (void)sys;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) { return 1024; }
    rlim_t hard = limit.rlim_max == RLIM_INFINITY ? SYS_DESCRIPTORS_CAP : limit.rlim_max;
    if (limit.rlim_cur < hard) {
        struct rlimit raised = {.rlim_cur = hard, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) { return hard; }
    }
    return limit.rlim_cur;
}

uint64_t sys_resident_bytes(struct sys *sys)
{
    (void)sys;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) { return 0; }
    char text[128];
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n <= 0) { return 0; }
    text[n] = '\0';
    const char *second = strchr(text, ' '); /* pages: size, resident, ... */
    long page = sysconf(_SC_PAGESIZE);
    return second && page > 0 ? (uint64_t)strtoull(second, NULL, 10) * (uint64_t)page : 0;
}

unsigned sys_cpu_count(struct sys *sys)
{
    (void)sys;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) { return (unsigned)CPU_COUNT(&set); }
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

static sigset_t stop_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) { /* nohup */
        (void)sigaddset(&set, SIGHUP);
    }
    return set;
}

bool sys_stop_is_wanted(struct sys *sys)
{
    (void)sys;
    sigset_t pending, set = stop_signals();
    if (sigpending(&pending) < 0) { return false; }
    int rc = sigandset(&set, &set, &pending);
    CHECK(rc == 0);
    return sigisemptyset(&set) == 0;
}

int sys_wait_signal(struct sys *sys)
{
    (void)sys;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    int rc = sigaction(SIGPIPE, &ignore, NULL);
    CHECK(rc == 0);
    sigset_t set = stop_signals();
    rc = pthread_sigmask(SIG_BLOCK, &set, NULL);
    CHECK(rc == 0);
    int number = 0;
    rc = sigwait(&set, &number);
    CHECK(rc == 0);
    return number;
}
