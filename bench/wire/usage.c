/* usage.c - see usage.h. */
#include "usage.h"

#include "conn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t cpu_clock_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0) { die("reading a CPU clock: %s", strerror(errno)); }
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void read_machine(struct usage *u)
{
    FILE *in = fopen("/proc/stat", "r");
    if (!in) { die("/proc/stat: %s", strerror(errno)); }
    int64_t v[8] = {0};
    int got = fscanf(in,
                     "cpu %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
                     " %" SCNd64 " %" SCNd64,
                     &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]);
    fclose(in);
    if (got != 8) { die("/proc/stat has an unknown form"); }
    int64_t tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
    u->busy_ns = (v[0] + v[1] + v[2] + v[5] + v[6]) * tick_ns;
    u->steal_ns = v[7] * tick_ns;
}

static void read_broker(struct usage *u, int pid)
{
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) != 0) { die("the broker, process %d, has ended", pid); }
    u->broker_cpu_ns = cpu_clock_ns(clock);
    char line[256];
    snprintf(line, sizeof line, "/proc/%d/status", pid);
    FILE *in = fopen(line, "r");
    if (!in) { die("%s: %s", line, strerror(errno)); }
    while (fgets(line, sizeof line, in)) {
        (void)sscanf(line, "VmRSS: %" SCNd64, &u->broker_rss_kib);
        (void)sscanf(line, "VmHWM: %" SCNd64, &u->broker_rss_max_kib);
    }
    fclose(in);
}

struct usage usage_now(int broker_pid)
{
    struct usage u = {.at_ns = now_ns()};
    u.self_cpu_ns = cpu_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (broker_pid > 0) { read_broker(&u, broker_pid); }
    read_machine(&u);
    return u;
}
