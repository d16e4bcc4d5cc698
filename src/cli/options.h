/* options.h - the options of a command as a table: parsing, checks and help from one source.
 *
 * Place:      cli/. Pure but for printing. Forms: --name value, --name=value, -x value, -xvalue;
 *             flags take no value; "--" ends the options. The last one wins, lists collect.
 * Ownership:  values point into argv.
 * Failure:    the first mistake is printed with what was expected. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTION_LIST_MAX 256

enum option_kind {
    OPTION_FLAG, /* bool */
    OPTION_TEXT, /* const char * */
    OPTION_NUMBER, /* int64_t */
    OPTION_CHOICE, /* const char * */
    OPTION_TEXTS, /* struct option_list */
    OPTION_PAIRS, /* struct option_list of "key=value" */
};

struct option_list {
    const char *at[OPTION_LIST_MAX];
    size_t count;
};

struct option {
    const char *name; /* without the dashes */
    enum option_kind kind;
    char letter; /* 0: none */
    size_t field; /* offsetof in the command's struct, of the type beside the kind */
    const char *value; /* as help calls it: "N" */
    const char *choices; /* "table|json" */
    int64_t min, max; /* of NUMBER */
    const char *help;
};

struct usage {
    const char *command; /* "topic create" */
    const char *operands; /* "NAME" or "" */
    size_t operands_min, operands_max;
    const char *about;
    const struct option *options;
    size_t options_count;
    const char *examples; /* lines */
};

/* Fills 'into', whose fields hold the defaults. Operands are moved to the front of argv and
 * counted. True: go on. False: return *code, everything was said. */
bool options_parse(const struct usage *usage, int argc, char **argv, void *into, size_t *operands,
                   int *code);
/* "barnabas <command>: <text>", with a hint to --help; returns CLI_MISUSED. */
__attribute__((format(printf, 2, 3))) int options_refuse(const struct usage *usage, const char *fmt,
                                                         ...);

#endif
