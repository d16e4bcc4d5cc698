/* main.c - bench_purgatory: one leg of a benchmark of libpurgatory, one line of JSON.
 *
 * Place:      bench/purgatory. Links the library and the environment that the broker gives it, as
 *             they are in the broker; --pthread takes the library's own environment instead. */
#include <string.h>

#include "bench_purgatory.h"
#include "broker/purg_env.h"
#include "common.h"
#include "purgatory/env.h"

static int usage(void)
{
    fputs("usage: bench_purgatory [--pthread] window KEYS OUTSTANDING THREADS MS TURN\n"
          "       bench_purgatory [--pthread] arrivals P50_MS P75_MS PER_SECOND COUNT TIMEOUT_MS "
          "KEYS KEY_SPACE\n",
          stderr);
    return 2;
}

static int run(const struct purg_env *env, int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[0], "window") == 0) {
        window_run(&(struct window_options){.env = *env,
                                            .keys = strtoul(argv[1], NULL, 10),
                                            .outstanding = strtoul(argv[2], NULL, 10),
                                            .threads = (unsigned)strtoul(argv[3], NULL, 10),
                                            .run_ns = strtoul(argv[4], NULL, 10) * MS,
                                            .turn = strtoul(argv[5], NULL, 10)});
        return 0;
    }
    if (argc == 8 && strcmp(argv[0], "arrivals") == 0) {
        arrivals_run(&(struct arrivals_options){.env = *env,
                                                .p50_ms = strtod(argv[1], NULL),
                                                .p75_ms = strtod(argv[2], NULL),
                                                .per_second = strtod(argv[3], NULL),
                                                .count = strtoul(argv[4], NULL, 10),
                                                .timeout_ms = strtoul(argv[5], NULL, 10),
                                                .keys = strtoul(argv[6], NULL, 10),
                                                .key_space = strtoul(argv[7], NULL, 10)});
        return 0;
    }
    return usage();
}

int main(int argc, char **argv)
{
    bool is_pthread = argc > 1 && strcmp(argv[1], "--pthread") == 0;
    struct sys *sys = sys_create();
    must(sys != NULL, "memory");
    struct purg_env env = is_pthread ? purg_env_pthread() : broker_purg_env(sys);
    int skip = 1 + is_pthread;
    int rc = argc > skip ? run(&env, argc - skip, argv + skip) : usage();
    sys_destroy(sys);
    return rc;
}
