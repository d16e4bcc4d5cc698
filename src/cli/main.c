/* main.c - one program, many commands. */
#include "base/check.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static int cli_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("barnabas %s (speaks the protocol of Apache Kafka 4.4)\n", BARNABAS_VERSION);
    return 0;
}

static const struct command commands[] = {
    {"serve", "start a broker", cli_serve},
    {"version", "print the version", cli_version},
};

static void usage(FILE *out)
{
    fputs("Barnabas, a streaming broker that speaks the Apache Kafka protocol.\n\n"
          "Usage: barnabas <command> [options]; barnabas <command> --help tells more\n\n",
          out);
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) { return cli_version(0, NULL); }
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) { return commands[i].run(argc - 2, argv + 2); }
    }
    fprintf(stderr, "barnabas: unknown command '%s'\n\n", argv[1]);
    usage(stderr);
    return 2;
}
