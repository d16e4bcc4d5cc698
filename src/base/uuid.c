/* uuid.c - base64url text of 128-bit ids. */
#include "base/uuid.h"

static const char uuid_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

char *uuid_format(struct uuid u, char buf[UUID_TEXT_SIZE])
{
    char *o = buf;
    for (size_t i = 0; i < 15; i += 3) {
        uint32_t w = (uint32_t)u.b[i] << 16 | (uint32_t)u.b[i + 1] << 8 | u.b[i + 2];
        *o++ = uuid_digits[w >> 18];
        *o++ = uuid_digits[w >> 12 & 63];
        *o++ = uuid_digits[w >> 6 & 63];
        *o++ = uuid_digits[w & 63];
    }
    *o++ = uuid_digits[u.b[15] >> 2];
    *o++ = uuid_digits[(u.b[15] & 3) << 4];
    *o = '\0';
    return buf;
}

static int uuid_digit(uint8_t c)
{
    const char *p = c ? strchr(uuid_digits, c) : NULL;
    return p ? (int)(p - uuid_digits) : -1;
}

bool uuid_parse(struct slice text, struct uuid *out)
{
    *out = (struct uuid){0};
    if (text.size != UUID_TEXT_SIZE - 1) { return false; }
    uint32_t bits = 0;
    unsigned bits_count = 0;
    size_t n = 0;
    for (size_t i = 0; i < text.size; i++) {
        int d = uuid_digit(text.at[i]);
        if (d < 0) { return false; }
        bits = bits << 6 | (uint32_t)d;
        bits_count += 6;
        if (bits_count >= 8 && n < sizeof out->b) {
            bits_count -= 8;
            out->b[n++] = (uint8_t)(bits >> bits_count);
        }
    }
    return n == sizeof out->b;
}
