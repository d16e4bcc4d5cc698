/* crc32c.c - ISA-L picks the fastest kernel for this processor at the first call. */
#include "base/crc32c.h"

#include <isa-l/crc.h>
#include <limits.h>

uint32_t crc32c(uint32_t crc, const void *at, size_t size)
{
    const unsigned char *p = at;
    uint32_t state = ~crc;
    while (size > 0) {
        int n = size > INT_MAX ? INT_MAX : (int)size;
        /* The library takes a plain pointer and only reads. */
        union {
            const unsigned char *in;
            unsigned char *out;
        } u = {.in = p};
        state = crc32_iscsi(u.out, n, state);
        p += n;
        size -= (size_t)n;
    }
    return ~state;
}
