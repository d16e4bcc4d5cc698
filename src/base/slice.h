/* slice.h - a borrowed run of bytes, and strings in that form. The holder of a slice does not own
 * the bytes. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Immutable bytes. at may be NULL: the protocol's null (size is 0 then); an empty value has at !=
 * NULL. */
struct slice {
    const uint8_t *at;
    size_t size;
};

/* Bytes that may be changed in place. */
struct mslice {
    uint8_t *at;
    size_t size;
};

#define SLICE_NULL ((struct slice){NULL, 0})
#define SLICE_LIT(s) ((struct slice){(const uint8_t *)(s), sizeof(s) - 1})

static inline struct slice slice_of(const void *at, size_t size)
{
    return (struct slice){(const uint8_t *)at, size};
}

static inline struct slice slice_str(const char *s)
{
    return s ? slice_of(s, strlen(s)) : SLICE_NULL;
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

static inline bool slice_eq_str(struct slice a, const char *s)
{
    return slice_eq(a, slice_str(s));
}

static inline bool slice_is_null(struct slice a)
{
    return a.at == NULL;
}

/* Lexicographic, shorter first on a tie: <0, 0, >0. */
int slice_cmp(struct slice a, struct slice b);

/* The part [from, from + size), cut to what is there. */
struct slice slice_sub(struct slice a, size_t from, size_t size);

/* Copies into buf as a C string, cut to buf_size - 1 bytes; returns buf. Bytes that are no
 * printable ASCII become
 * '?', so that a remote string can go into a log line. */
char *slice_print(struct slice a, char *buf, size_t buf_size);

#endif
