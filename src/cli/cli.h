/* cli.h - the commands of the program. Each gets what follows its name and returns an exit code.
 *
 * Place:      floor 8, above everything. Unlike the rooms below, the commands may use the C
 *             library's streams and getenv; what they read of the broker's own files goes through
 *             sys.
 * Thread:     main, one command a process.
 * Ownership:  argv is the caller's. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

enum cli_exit {
    CLI_DONE = 0,
    CLI_FAILED = 1, /* the world said no: a broker, a file, a record */
    CLI_MISUSED =
        2, /* the command line or a configuration makes no sense: trying again is useless */
};

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

int cli_serve(int argc, char **argv);
int cli_topic(int argc, char **argv);
int cli_produce(int argc, char **argv);
int cli_consume(int argc, char **argv);
int cli_dump_log(int argc, char **argv);

/* Says "<command>: no memory" and returns CLI_FAILED. */
int cli_no_memory(const char *command);

#endif
