/* main.c - bench_timer: one leg of a benchmark of timers, one line of JSON.
 *
 * Place:      bench/timer. Links libpurgatory as the broker does; libuv and a heap are peers. */
#include <string.h>

#include "broker/purg_env.h"
#include "purgatory/common.h"
#include "timer.h"

static int usage(void)
{
    fputs("usage: bench_timer hot|fifo wheel|heap|libuv OUTSTANDING MS\n"
          "       bench_timer expire wheel|heap OUTSTANDING\n"
          "       bench_timer late wheel PER_SECOND MS\n"
          "       bench_timer idle\n",
          stderr);
    return 2;
}

static bool run(struct sys *sys, const struct purg_env *env, int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "idle") == 0) {
        idle_run(env);
        return true;
    }
    if (argc < 4) { return false; }
    size_t number = strtoul(argv[3], NULL, 10);
    if (argc == 4 && strcmp(argv[1], "expire") == 0) { return expire_run(env, argv[2], number); }
    if (argc != 5) { return false; }
    uint64_t ms = strtoul(argv[4], NULL, 10);
    if (strcmp(argv[1], "late") == 0) {
        late_run(sys, env, number, ms);
        return true;
    }
    bool is_hot = strcmp(argv[1], "hot") == 0;
    return (is_hot || strcmp(argv[1], "fifo") == 0) &&
           churn_run(env, argv[2], is_hot, number, ms * MS);
}

int main(int argc, char **argv)
{
    struct sys *sys = sys_create();
    must(sys != NULL, "memory");
    struct purg_env env = broker_purg_env(sys);
    int rc = run(sys, &env, argc, argv) ? 0 : usage();
    sys_destroy(sys);
    return rc;
}
