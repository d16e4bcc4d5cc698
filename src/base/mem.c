/* mem.c - the heap of production: the C allocator. The simulator links its own definitions instead
 * of this file. */
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *mem_alloc(size_t size)
{
    return malloc(size ? size : 1);
}

void *mem_zalloc(size_t size)
{
    return calloc(1, size ? size : 1);
}

void *mem_array(size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) { return NULL; }
    return calloc(count ? count : 1, size ? size : 1);
}

void *mem_realloc(void *p, size_t size)
{
    return realloc(p, size ? size : 1);
}

void mem_free(void *p)
{
    free(p);
}
