/* replay.c - runs a fuzz target over files and folders given as arguments: the corpus as a test. */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define INPUT_SIZE_MAX ((size_t)1 << 22)

static size_t inputs_count;

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    uint8_t *buf = malloc(INPUT_SIZE_MAX);
    CHECK(buf != NULL);
    size_t size = fread(buf, 1, INPUT_SIZE_MAX, f);
    fclose(f);
    uint8_t *exact = malloc(size ? size : 1); /* its end is the end of its block: ASan sees */
    CHECK(exact != NULL);
    memcpy(exact, buf, size);
    free(buf);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    inputs_count++;
    return 0;
}

static int replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode)) { return replay_file(path); }
    struct dirent **names = NULL;
    int n = scandir(path, &names, NULL, alphasort);
    int failed = n < 0;
    for (int i = 0; i < n; i++) {
        char below[4096];
        if (names[i]->d_name[0] != '.') {
            snprintf(below, sizeof below, "%s/%s", path, names[i]->d_name);
            failed |= replay(below);
        }
        free(names[i]);
    }
    free(names);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        failed |= replay(argv[i]);
    }
    printf("%zu inputs\n", inputs_count);
    return failed || inputs_count == 0;
}
