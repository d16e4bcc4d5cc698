/* main.c - one program, many commands. */
#include "base/check.h"
#include "cli/cli.h"
#include "cli/options.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct version_options {
    const char *format;
};

static const struct option version_table[] = {
    {.name = "format",
     .kind = OPTION_CHOICE,
     .field = offsetof(struct version_options, format),
     .value = "FORMAT",
     .choices = "text|json",
     .help = "text (default) or json"},
};

static const struct usage version_usage = {
    .command = "version",
    .operands = "",
    .about = "Prints the version of this program and of the protocol it speaks.",
    .options = version_table,
    .options_count = COUNT_OF(version_table),
    .examples = "  barnabas version\n"
                "  barnabas version --format json\n",
};

static int cli_version(int argc, char **argv)
{
    struct version_options o = {.format = "text"};
    size_t operands;
    int code;
    if (!options_parse(&version_usage, argc, argv, &o, &operands, &code)) { return code; }
    if (strcmp(o.format, "text") == 0) {
        printf("barnabas %s (speaks the protocol of Apache Kafka 4.4)\n", BARNABAS_VERSION);
        return CLI_DONE;
    }
    json_t *out = json_pack("{s:s, s:s}", "version", BARNABAS_VERSION, "protocol", "4.4");
    if (!out) { return cli_no_memory("version"); }
    json_dumpf(out, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(out);
    return CLI_DONE;
}

static const struct command commands[] = {
    {"serve", "start a broker", cli_serve},
    {"topic", "create, list, describe, alter and delete topics", cli_topic},
    {"produce", "send lines of a file or of standard input as records", cli_produce},
    {"consume", "print the records of a topic", cli_consume},
    {"dump-log", "show what the files of a data directory hold, and check them", cli_dump_log},
    {"version", "print the version", cli_version},
};

static void usage(FILE *out)
{
    fputs("Barnabas, a streaming broker that speaks the Apache Kafka protocol.\n\n"
          "Usage: barnabas <command> [options]; 'barnabas <command> --help' tells more\n\n",
          out);
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    fputs(
        "\nExit codes: 0 done, 1 failed, 2 misused.\n\n"
        "A first minute, in two terminals:\n"
        "  barnabas serve\n"
        "  echo hello | barnabas produce greetings; barnabas consume greetings --from-beginning\n",
        out);
}

/* Output that could not be written (a full disk, a closed stream) is a failure too. */
static int finish(const char *name, int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) { return code; }
    fprintf(stderr, "barnabas %s: standard output could not be written\n", name);
    return code ? code : CLI_FAILED;
}

/* A stream that the caller closed would give its number to the next file, and what is printed would
 * go there: into a log's segment. Opened the other way round it fails, as a closed one does. */
static bool hold_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int mode = fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY;
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode) != fd) { return false; }
    }
    return true;
}

int main(int argc, char **argv)
{
    if (!hold_streams()) { return CLI_FAILED; }
    if (argc < 2) {
        usage(stderr);
        return CLI_MISUSED;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        usage(stdout);
        return finish("help", CLI_DONE);
    }
    if (strcmp(name, "--version") == 0) { name = "version"; }
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return finish(name, commands[i].run(argc - 2, argv + 2));
        }
    }
    fprintf(stderr, "barnabas: unknown command '%s'; expected one of:\n", name);
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        fprintf(stderr, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    return CLI_MISUSED;
}
