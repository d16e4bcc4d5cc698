/* mem.h - the heap as every room sees it.
 *
 * Thread: any. The default implementation (mem.c) calls the C allocator; the simulator links its
 * own, which keeps a heap per simulated process and can fail the n-th allocation. So nothing
 * outside base/mem.c calls malloc. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/err.h"

#include <stddef.h>

/* NULL when there is no memory (also on overflow of count * size). A size of 0 gives a valid
 * pointer. */
NODISCARD void *mem_alloc(size_t size);
NODISCARD void *mem_zalloc(size_t size);
NODISCARD void *mem_array(size_t count, size_t size); /* zeroed */
/* Grows or shrinks; on failure returns NULL and the old block stays. */
NODISCARD void *mem_realloc(void *p, size_t size);
void mem_free(void *p); /* accepts NULL */

#define mem_new(type) ((type *)mem_zalloc(sizeof(type)))

NODISCARD char *mem_strdup(const char *s);
NODISCARD char *mem_strndup(const char *s, size_t size);

#endif
