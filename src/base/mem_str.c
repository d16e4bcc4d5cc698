/* mem_str.c - copies of strings on the heap of mem.h. */
#include "base/mem.h"

#include <string.h>

char *mem_strndup(const char *s, size_t size)
{
    char *copy = mem_alloc(size + 1);
    if (!copy) { return NULL; }
    memcpy(copy, s, size);
    copy[size] = '\0';
    return copy;
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}
