/* cli.h - the commands of the program. Each gets what follows its name and returns the exit code: 0
 * done, 1 failed, 2 misused. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

int cli_serve(int argc, char **argv);

#endif
