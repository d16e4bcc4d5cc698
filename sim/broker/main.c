/* main.c - runs scenarios: one seed with its trace, or many one after the other.
 *
 *   sim_broker --seeds 100 [--from 1]      as many runs; the first failure prints seed and trace
 *   sim_broker --seed 42 [--trace]         one run; --trace prints every event as it happens
 *   sim_broker --must-fail 300             a broker with a planted bug: success when one run of so
 * many finds it
 *   --load-ms N                            length of the load phase in virtual time
 *   --twice                                each seed twice, and the hashes must be equal */
#include "scenario.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void add(struct scenario_result *sum, const struct scenario_result *r)
{
    sum->acked += r->acked;
    sum->seen += r->seen;
    sum->crashes += r->crashes;
    sum->kills += r->kills;
    sum->stops += r->stops;
    sum->full_disks += r->full_disks;
    sum->sync_errors += r->sync_errors;
    sum->rots += r->rots;
    sum->slow_disks += r->slow_disks;
    sum->resets += r->resets;
    sum->virtual_ms += r->virtual_ms;
    sum->counts.steps += r->counts.steps;
    sum->counts.sectors_lost += r->counts.sectors_lost;
    sum->counts.names_lost += r->counts.names_lost;
    sum->counts.cold_reads_in_poller += r->counts.cold_reads_in_poller;
    sum->counts.syncs += r->counts.syncs;
}

static void report(const struct scenario_result *s, uint64_t runs)
{
    (void)printf("%" PRIu64 " runs, %" PRIu64 " s of virtual time, %" PRIu64 " steps\n", runs,
                 s->virtual_ms / 1000, s->counts.steps);
    (void)printf("%" PRIu64 " records acknowledged, %" PRIu64 " read; %" PRIu64 " syncs\n",
                 s->acked, s->seen, s->counts.syncs);
    (void)printf("%" PRIu64 " power cuts, %" PRIu64 " kills, %" PRIu64 " stops; %" PRIu64
                 " full disks, %" PRIu64 " failing syncs, %" PRIu64 " slow disks, %" PRIu64
                 " rotten batches, %" PRIu64 " resets\n",
                 s->crashes, s->kills, s->stops, s->full_disks, s->sync_errors, s->slow_disks,
                 s->rots, s->resets);
    (void)printf("%" PRIu64 " sectors and %" PRIu64 " names lost; %" PRIu64
                 " cold reads on a processor\n",
                 s->counts.sectors_lost, s->counts.names_lost, s->counts.cold_reads_in_poller);
}

static void run_one(const struct scenario_options *options, bool twice, struct scenario_result *sum)
{
    struct scenario_result first, second;
    scenario_run(options, &first);
    if (twice) {
        scenario_run(options, &second);
        if (first.hash != second.hash) {
            (void)fprintf(stderr, "seed %" PRIu64 " does not repeat\n", options->seed);
            exit(1);
        }
    }
    add(sum, &first);
}

/* Each run in a child, until one of them fails. */
static int find_failure(struct scenario_options *options, uint64_t count)
{
    for (uint64_t n = 0; n < count; n++, options->seed++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct scenario_result result;
            if (!freopen("/dev/null", "w", stderr)) { _exit(125); }
            (void)alarm(60); /* one that never ends has found it too */
            scenario_run(options, &result);
            _exit(0);
        }
        int status = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid) { return 2; }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            (void)printf("found by seed %" PRIu64 "\n", options->seed);
            return 0;
        }
    }
    (void)printf("%" PRIu64 " runs did not find it\n", count);
    return 1;
}

int main(int argc, char **argv)
{
    struct scenario_options options = {.seed = 1};
    struct scenario_result sum = {0};
    uint64_t count = 1;
    bool twice = false, must_fail = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool has_value = true;
        if (strcmp(argv[i], "--seed") == 0 || strcmp(argv[i], "--from") == 0) {
            options.seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--seeds") == 0 || strcmp(argv[i], "--must-fail") == 0) {
            must_fail = strcmp(argv[i], "--must-fail") == 0;
            count = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--load-ms") == 0) {
            options.load_ms = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--trace") == 0) {
            options.trace = stdout;
            has_value = false;
        } else if (strcmp(argv[i], "--twice") == 0) {
            twice = true;
            has_value = false;
        } else {
            (void)fprintf(stderr, "unknown argument %s\n", argv[i]);
            return 2;
        }
        i += has_value;
    }
    if (must_fail) { return find_failure(&options, count); }
    for (uint64_t n = 0; n < count; n++, options.seed++) {
        run_one(&options, twice, &sum);
    }
    report(&sum, count);
    return 0;
}
