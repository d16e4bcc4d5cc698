/* slice.c - comparisons and printing of borrowed bytes. */
#include "base/slice.h"

#include "base/check.h"

int slice_cmp(struct slice a, struct slice b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int c = n ? memcmp(a.at, b.at, n) : 0;
    if (c != 0) { return c; }
    return a.size < b.size ? -1 : a.size > b.size;
}

struct slice slice_sub(struct slice a, size_t from, size_t size)
{
    if (from > a.size) { from = a.size; }
    if (size > a.size - from) { size = a.size - from; }
    return (struct slice){a.at ? a.at + from : NULL, size};
}

char *slice_print(struct slice a, char *buf, size_t buf_size)
{
    CHECK(buf_size > 0);
    size_t n = a.size < buf_size - 1 ? a.size : buf_size - 1;
    for (size_t i = 0; i < n; i++) {
        buf[i] = a.at[i] >= 0x20 && a.at[i] < 0x7f ? (char)a.at[i] : '?';
    }
    buf[n] = '\0';
    return buf;
}
