/* check.h - assertions that stay on.
 *
 * CHECK is for our own bugs: it prints the expression, the place and the message, and aborts, in
 * all builds. It is never used on bytes that came from network or disk. DCHECK is for what costs:
 * debug and sanitizer builds. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <stddef.h>

__attribute__((noreturn, cold, format(printf, 4, 5))) void
check_failed(const char *expr, const char *file, int line, const char *fmt, ...);

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (__builtin_expect(!(x), 0)) { check_failed(#x, __FILE__, __LINE__, "%s", ""); }         \
    } while (0)

/* CHECK with values: CHECKF(a <= b, "a=%ld b=%ld", a, b). */
#define CHECKF(x, ...)                                                                             \
    do {                                                                                           \
        if (__builtin_expect(!(x), 0)) { check_failed(#x, __FILE__, __LINE__, __VA_ARGS__); }      \
    } while (0)

#ifdef BARNABAS_DEBUG
#define DCHECK(x) CHECK(x)
#else
#define DCHECK(x) ((void)sizeof(x))
#endif

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
