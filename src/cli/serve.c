/* serve.c - `barnabas serve`: configuration from a file and flags, then a broker until SIGTERM or
 * SIGINT. */
#include "cli/cli.h"

#include "broker/broker.h"
#include "broker/properties.h"

#include <stdio.h>
#include <string.h>

#define SERVE_DRAIN_MS 5000

static const char serve_help[] =
    "Usage: barnabas serve [server.properties] [--override key=value]...\n"
    "\n"
    "Starts a broker. Without a file every key has its default: port 9092 on all interfaces,\n"
    "data in ./data. Keys are those of Kafka's server.properties; docs/CONFIGURATION.md lists "
    "them.\n"
    "\n"
    "  --override key=value   sets one key; may be given again, wins over the file\n"
    "  --help                 this text\n"
    "\n"
    "Examples:\n"
    "  barnabas serve\n"
    "  barnabas serve server.properties --override log.dirs=/var/lib/barnabas\n"
    "  barnabas serve --override listeners=PLAINTEXT://127.0.0.1:9092\n"
    "\n"
    "SIGTERM and SIGINT stop it in order: what was acknowledged is on the disk, exit code 0.\n";

/* Reads the arguments into set. 0: go on; otherwise the exit code plus 1. */
static int serve_arguments(int argc, char **argv, struct sys *sys, struct config_set *set)
{
    char message[PROPERTIES_MESSAGE_SIZE];
    const struct logger *logger = sys_logger(sys);
    const char *file = NULL;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(serve_help, stdout);
            return 1;
        }
        if (strcmp(argv[i], "--override") == 0) {
            i++;
            continue;
        }
        if (argv[i][0] == '-' || file) {
            fprintf(stderr, "barnabas serve: unexpected argument '%s'; see --help\n", argv[i]);
            return 3;
        }
        file = argv[i];
    }
    if (file && properties_load(sys, file, logger, set, message)) {
        fprintf(stderr, "barnabas serve: %s\n", message);
        return 2;
    }
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--override") != 0) { continue; }
        if (++i == argc) {
            fprintf(stderr, "barnabas serve: --override: expected key=value after it\n");
            return 3;
        }
        if (properties_override(argv[i], logger, set, message)) {
            fprintf(stderr, "barnabas serve: %s\n", message);
            return 2;
        }
    }
    return 0;
}

static int serve_run(struct sys *sys, struct config_set *set)
{
    char message[BROKER_MESSAGE_SIZE];
    struct broker *broker;
    struct broker_options options = {.sys = sys, .logger = sys_logger(sys), .statics = set};
    if (broker_start(&options, &broker, message)) {
        fprintf(stderr, "barnabas serve: cannot start: %s\n", message);
        return 1;
    }
    int number = sys_wait_signal(sys);
    log_info(options.logger, "org.apache.kafka.common.utils.LoggingSignalHandler",
             "Terminating process due to signal %d", number);
    broker_stop(broker, SERVE_DRAIN_MS);
    return 0;
}

int cli_serve(int argc, char **argv)
{
    struct sys *sys = sys_create();
    if (!sys) {
        fprintf(stderr, "barnabas serve: no memory\n");
        return 1;
    }
    struct config_set set;
    config_set_init(&set);
    sys_descriptors_max(sys);
    int code = serve_arguments(argc, argv, sys, &set);
    bool has_dirs = config_set_get(&set, "log.dirs") || config_set_get(&set, "log.dir");
    if (!code && !has_dirs && config_set_put(&set, slice_str("log.dirs"), slice_str("./data"))) {
        code = 2;
    }
    code = code ? code - 1 : serve_run(sys, &set);
    config_set_fini(&set);
    sys_destroy(sys);
    return code;
}
