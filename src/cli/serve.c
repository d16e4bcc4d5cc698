/* serve.c - `barnabas serve`: configuration from a file and flags, then a broker until SIGTERM,
 * SIGINT or SIGHUP.
 *
 * Thread: main waits; the broker has its own tasks. A wrong configuration is CLI_MISUSED, so that a
 * supervisor need not try again. */
#include "base/check.h"
#include "broker/broker.h"
#include "broker/properties.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/signals.h"

#include <stdio.h>
#include <string.h>

#define SERVE_LOGGER "org.apache.kafka.common.utils.LoggingSignalHandler"
#define SERVE_DRAIN_MS 5000

struct serve_options {
    struct option_list overrides;
};

static const struct option serve_table[] = {
    {.name = "override",
     .kind = OPTION_PAIRS,
     .field = offsetof(struct serve_options, overrides),
     .value = "KEY=VALUE",
     .help = "sets one key; may be given again, wins over the\nfile"},
};

static const struct usage serve_usage = {
    .command = "serve",
    .operands = "[server.properties]",
    .operands_max = 1,
    .about =
        "Starts a broker. Without a file every key has its default: port 9092 on all interfaces,\n"
        "data in ./data. Keys are those of Kafka's server.properties; docs/CONFIGURATION.md\n"
        "lists them. SIGTERM, SIGINT and SIGHUP stop it in order: what was acknowledged is on "
        "disk,\nexit code 0.",
    .options = serve_table,
    .options_count = COUNT_OF(serve_table),
    .examples = "  barnabas serve --override listeners=PLAINTEXT://127.0.0.1:9092\n"
                "  barnabas serve server.properties --override log.dirs=/var/lib/barnabas\n",
};

/* Puts file and flags into set. CLI_DONE, or said. */
static int serve_configure(struct sys *sys, const char *file, const struct serve_options *o,
                           struct config_set *set)
{
    char message[PROPERTIES_MESSAGE_SIZE];
    const struct logger *logger = sys_logger(sys);
    if (file) {
        enum err e = properties_load(sys, file, logger, set, message);
        if (e) {
            fprintf(stderr, "barnabas serve: %s\n", message);
            return e == ERR_INVALID || e == ERR_MALFORMED ? CLI_MISUSED : CLI_FAILED;
        }
    }
    for (size_t i = 0; i < o->overrides.count; i++) {
        if (properties_override(o->overrides.at[i], logger, set, message)) {
            fprintf(stderr, "barnabas serve: %s\n", message);
            return CLI_MISUSED;
        }
    }
    bool has_dirs = config_set_get(set, "log.dirs") || config_set_get(set, "log.dir");
    if (!has_dirs && config_set_put(set, slice_str("log.dirs"), slice_str("./data"))) {
        return cli_no_memory("serve");
    }
    return CLI_DONE;
}

static int serve_run(struct sys *sys, struct config_set *set)
{
    char message[BROKER_MESSAGE_SIZE];
    struct broker *broker;
    struct broker_options options = {
        .sys = sys, .logger = sys_logger(sys), .statics = set, .http = &http_server};
    enum err e = broker_start(&options, &broker, message);
    if (e == ERR_STOPPED) {
        log_info(options.logger, SERVE_LOGGER,
                 "Terminating process due to signal %d, before it started (%s); the next start "
                 "recovers again",
                 sys_wait_signal(sys), message);
        return CLI_DONE;
    }
    if (e) {
        fprintf(stderr, "barnabas serve: cannot start: %s\n", message);
        return e == ERR_INVALID ? CLI_MISUSED : CLI_FAILED;
    }
    int number = sys_wait_signal(sys);
    log_info(options.logger, SERVE_LOGGER, "Terminating process due to signal %d", number);
    broker_stop(broker, SERVE_DRAIN_MS);
    return CLI_DONE;
}

int cli_serve(int argc, char **argv)
{
    struct serve_options o = {0};
    size_t operands;
    int code;
    if (!options_parse(&serve_usage, argc, argv, &o, &operands, &code)) { return code; }
    signals_hold(); /* one that comes while it starts stops it in order, too */
    struct sys *sys = sys_create();
    if (!sys) { return cli_no_memory("serve"); }
    struct config_set set;
    config_set_init(&set);
    sys_descriptors_max(sys);
    code = serve_configure(sys, operands ? argv[0] : NULL, &o, &set);
    if (!code) { code = serve_run(sys, &set); }
    config_set_fini(&set);
    sys_destroy(sys);
    return code;
}
