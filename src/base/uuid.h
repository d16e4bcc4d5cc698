/* uuid.h - 128-bit ids of topics, directories and clusters, as Kafka writes them (16 bytes;
 * URL-safe base64 without padding). */
#ifndef BASE_UUID_H
#define BASE_UUID_H

#include "base/slice.h"

struct uuid {
    uint8_t b[16];
};

#define UUID_TEXT_SIZE 23 /* 22 characters and the terminator */

static inline bool uuid_is_zero(struct uuid u)
{
    static const struct uuid zero;
    return memcmp(&u, &zero, sizeof u) == 0;
}

static inline bool uuid_eq(struct uuid a, struct uuid b)
{
    return memcmp(a.b, b.b, sizeof a.b) == 0;
}

/* Two words, for hash keys and purgatory keys. */
static inline uint64_t uuid_hi(struct uuid u)
{
    uint64_t x;
    memcpy(&x, u.b, 8);
    return x;
}

static inline uint64_t uuid_lo(struct uuid u)
{
    uint64_t x;
    memcpy(&x, u.b + 8, 8);
    return x;
}

char *uuid_format(struct uuid u, char buf[UUID_TEXT_SIZE]);
/* False when it is not 22 base64url characters. */
bool uuid_parse(struct slice text, struct uuid *out);

#endif
