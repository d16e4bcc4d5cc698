/* folder.h - a folder in memory where a target puts its files; removed at the end. */
#ifndef TESTS_FUZZ_FOLDER_H
#define TESTS_FUZZ_FOLDER_H

#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64];

static void folder_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (folder[0] && system(command) != 0) { fprintf(stderr, "%s is left\n", folder); }
}

static inline void folder_make(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/bb-fuzz-XXXXXX", base);
    CHECK(mkdtemp(folder) != NULL);
    int rc = atexit(folder_remove);
    CHECK(rc == 0);
}

static inline void folder_write(const char *name, struct slice bytes)
{
    char path[320];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    CHECK(fwrite(bytes.at, 1, bytes.size, f) == bytes.size);
    CHECK(fclose(f) == 0);
}

#endif
