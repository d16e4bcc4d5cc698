/* options.c - see options.h. */
#include "cli/options.h"

#include "base/check.h"
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTION_LEFT_LEN 32 /* columns of "  -x, --name VALUE" in help */

int cli_no_memory(const char *command)
{
    fprintf(stderr, "barnabas %s: no memory\n", command);
    return CLI_FAILED;
}

int options_refuse(const struct usage *usage, const char *fmt, ...)
{
    va_list args;
    fprintf(stderr, "barnabas %s: ", usage->command);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "; 'barnabas %s --help' tells more\n", usage->command);
    return CLI_MISUSED;
}

/* ---- help ---- */

static void print_option(const struct option *o)
{
    char left[128];
    int n = snprintf(left, sizeof left, "  %c%c%c --%s%s%s", o->letter ? '-' : ' ',
                     o->letter ? o->letter : ' ', o->letter ? ',' : ' ', o->name,
                     o->value ? " " : "", o->value ? o->value : "");
    if (n < OPTION_LEFT_LEN) {
        printf("%-*s", OPTION_LEFT_LEN, left);
    } else {
        printf("%s\n%*s", left, OPTION_LEFT_LEN, "");
    }
    for (const char *at = o->help; *at;) {
        size_t line = strcspn(at, "\n");
        printf("%.*s\n", (int)line, at);
        at += line + (at[line] == '\n');
        if (*at) { printf("%*s", OPTION_LEFT_LEN, ""); }
    }
}

static void print_help(const struct usage *usage)
{
    printf("Usage: barnabas %s%s%s%s\n\n%s\n", usage->command, *usage->operands ? " " : "",
           usage->operands, usage->options_count ? " [options]" : "", usage->about);
    printf("\nOptions:\n");
    for (size_t i = 0; i < usage->options_count; i++) {
        print_option(&usage->options[i]);
    }
    print_option(&(struct option){.name = "help", .letter = 'h', .help = "this text"});
    printf("\nExamples:\n%s", usage->examples);
}

/* ---- parsing ---- */

static const struct option *find_long(const struct usage *usage, const char *name, size_t len)
{
    for (size_t i = 0; i < usage->options_count; i++) {
        const struct option *o = &usage->options[i];
        if (strlen(o->name) == len && memcmp(o->name, name, len) == 0) { return o; }
    }
    return NULL;
}

static const struct option *find_letter(const struct usage *usage, char letter)
{
    for (size_t i = 0; i < usage->options_count; i++) {
        if (usage->options[i].letter == letter) { return &usage->options[i]; }
    }
    return NULL;
}

static bool is_choice(const char *choices, const char *value)
{
    size_t len = strlen(value);
    for (const char *at = choices; *at; at += *at == '|') {
        size_t size = strcspn(at, "|");
        if (size == len && memcmp(at, value, len) == 0) { return true; }
        at += size;
    }
    return false;
}

static bool set_number(const struct usage *usage, const struct option *o, const char *value,
                       int64_t *field)
{
    char *end = NULL;
    errno = 0;
    int64_t number = strtoll(value, &end, 10);
    bool is_number = *value && *end == '\0' && *value != ' ' && errno == 0;
    if (is_number && number >= o->min && number <= o->max) {
        *field = number;
        return true;
    }
    options_refuse(usage, "--%s: expected a whole number from %" PRId64 " to %" PRId64 ", got '%s'",
                   o->name, o->min, o->max, value);
    return false;
}

static bool add_to_list(const struct usage *usage, const struct option *o, const char *value,
                        struct option_list *list)
{
    const char *equals = strchr(value, '=');
    if (o->kind == OPTION_PAIRS && (!equals || equals == value)) {
        options_refuse(usage, "--%s: expected key=value, got '%s'", o->name, value);
        return false;
    }
    if (list->count == OPTION_LIST_MAX) {
        options_refuse(usage, "--%s: expected at most %d of them", o->name, OPTION_LIST_MAX);
        return false;
    }
    list->at[list->count++] = value;
    return true;
}

static bool set_value(const struct usage *usage, const struct option *o, const char *value,
                      void *into)
{
    unsigned char *field = (unsigned char *)into + o->field;
    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)(void *)field = true;
        return true;
    case OPTION_NUMBER:
        return set_number(usage, o, value, (int64_t *)(void *)field);
    case OPTION_CHOICE:
        if (!is_choice(o->choices, value)) {
            options_refuse(usage, "--%s: expected one of %s, got '%s'", o->name, o->choices, value);
            return false;
        }
        *(const char **)(void *)field = value;
        return true;
    case OPTION_TEXT:
        *(const char **)(void *)field = value;
        return true;
    case OPTION_TEXTS:
    case OPTION_PAIRS:
        return add_to_list(usage, o, value, (struct option_list *)(void *)field);
    }
    return false;
}

/* One argument that begins with a dash; *i moves on when the value is the next one. */
static bool take_option(const struct usage *usage, int argc, char **argv, int *i, void *into)
{
    const char *arg = argv[*i], *value = NULL;
    const struct option *o;
    if (arg[1] == '-') {
        size_t len = strcspn(arg + 2, "=");
        o = find_long(usage, arg + 2, len);
        if (arg[2 + len] == '=') { value = arg + 3 + len; }
    } else {
        o = find_letter(usage, arg[1]);
        if (arg[2]) { value = arg + 2; }
    }
    if (!o) {
        options_refuse(usage, "unknown option '%s'", arg);
        return false;
    }
    if (o->kind == OPTION_FLAG) {
        if (!value) { return set_value(usage, o, NULL, into); }
        options_refuse(usage, "--%s: expected no value, got '%s'", o->name, value);
        return false;
    }
    if (!value) {
        if (*i + 1 >= argc) {
            options_refuse(usage, "--%s: expected %s after it", o->name, o->value);
            return false;
        }
        value = argv[++*i];
    }
    return set_value(usage, o, value, into);
}

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

bool options_parse(const struct usage *usage, int argc, char **argv, void *into, size_t *operands,
                   int *code)
{
    size_t count = 0;
    *code = CLI_MISUSED;
    bool is_over = false;
    for (int i = 0; i < argc; i++) {
        if (!is_over && is_help(argv[i])) {
            print_help(usage);
            *code = CLI_DONE;
            return false;
        }
        if (!is_over && strcmp(argv[i], "--") == 0) {
            is_over = true;
        } else if (is_over || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[count++] = argv[i];
        } else if (!take_option(usage, argc, argv, &i, into)) {
            return false;
        }
    }
    *operands = count;
    if (count < usage->operands_min) {
        options_refuse(usage, "expected %s", usage->operands);
        return false;
    }
    if (count > usage->operands_max) {
        options_refuse(usage, "unexpected argument '%s'", argv[usage->operands_max]);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (*argv[i]) { continue; }
        options_refuse(usage, "expected %s, got an empty one", usage->operands);
        return false;
    }
    return true;
}
