/* text.c - JSON for logs, see text.h. */
#include "wire/text.h"

#include <stdarg.h>
#include <stdio.h>

void wire_text_init(struct wire_text *t, char *buffer, size_t cap)
{
    *t = (struct wire_text){.at = buffer, .cap = cap};
    buffer[0] = '\0';
}

static void put(struct wire_text *t, const char *s, size_t len)
{
    if (t->cut || len >= t->cap - t->len) {
        t->cut = true;
        return;
    }
    memcpy(t->at + t->len, s, len);
    t->len += len;
    t->at[t->len] = '\0';
}

__attribute__((format(printf, 2, 3))) static void putf(struct wire_text *t, const char *fmt, ...)
{
    char b[64];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(b, sizeof b, fmt, args);
    va_end(args);
    put(t, b, n < 0 ? 0 : (size_t)n);
}

/* A comma unless this is the first thing in its brackets, then the name. */
static void lead(struct wire_text *t, const char *name)
{
    char last = t->len ? t->at[t->len - 1] : '{';
    if (last != '{' && last != '[') { put(t, ",", 1); }
    if (name) {
        put(t, "\"", 1);
        put(t, name, strlen(name));
        put(t, "\":", 2);
    }
}

void wire_text_open(struct wire_text *t, const char *name, char bracket)
{
    lead(t, name);
    put(t, &bracket, 1);
}

void wire_text_close(struct wire_text *t, char bracket)
{
    put(t, &bracket, 1);
}

void wire_text_null(struct wire_text *t, const char *name)
{
    lead(t, name);
    put(t, "null", 4);
}

void wire_text_bool(struct wire_text *t, const char *name, bool v)
{
    lead(t, name);
    putf(t, "%s", v ? "true" : "false");
}

void wire_text_int(struct wire_text *t, const char *name, int64_t v)
{
    lead(t, name);
    putf(t, "%lld", (long long)v);
}

void wire_text_f64(struct wire_text *t, const char *name, double v)
{
    char b[40];
    int n = snprintf(b, sizeof b, "%.17g", v);
    lead(t, name);
    put(t, b, n < 0 ? 0 : (size_t)n);
    if (!strpbrk(b, ".en")) { put(t, ".0", 2); }
}

/* One code point of s at *i, U+FFFD for bytes that are no UTF-8. */
static uint32_t utf8_next(struct slice s, size_t *i)
{
    uint8_t b = s.at[(*i)++];
    if (b < 0x80) { return b; }
    size_t more = b >= 0xf0 ? 3 : b >= 0xe0 ? 2 : 1;
    if (b < 0xc2 || b > 0xf4 || more > s.size - *i) { return 0xfffd; }
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    uint32_t c = b & (0x3fU >> more);
    for (size_t k = 0; k < more; k++) {
        uint8_t n = s.at[*i + k];
        if ((n & 0xc0) != 0x80) { return 0xfffd; }
        c = (c << 6) | (n & 0x3f);
    }
    if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) { return 0xfffd; }
    *i += more;
    return c;
}

void wire_text_str(struct wire_text *t, const char *name, struct slice s)
{
    if (!s.at) {
        wire_text_null(t, name);
        return;
    }
    lead(t, name);
    put(t, "\"", 1);
    for (size_t i = 0; i < s.size && !t->cut;) {
        uint32_t c = utf8_next(s, &i);
        if (c == '"' || c == '\\') {
            putf(t, "\\%c", (int)c);
        } else if (c == '\n') {
            put(t, "\\n", 2);
        } else if (c >= 0x20 && c < 0x7f) {
            putf(t, "%c", (int)c);
        } else if (c < 0x10000) {
            putf(t, "\\u%04X", c);
        } else {
            putf(t, "\\u%04X\\u%04X", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        }
    }
    put(t, "\"", 1);
}

void wire_text_bytes(struct wire_text *t, const char *name, struct slice s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (!s.at) {
        wire_text_null(t, name);
        return;
    }
    lead(t, name);
    put(t, "\"", 1);
    for (size_t i = 0; i < s.size && !t->cut; i += 3) {
        size_t n = s.size - i;
        uint32_t v = (uint32_t)s.at[i] << 16;
        v |= n > 1 ? (uint32_t)s.at[i + 1] << 8 : 0;
        v |= n > 2 ? s.at[i + 2] : 0;
        char four[4] = {digits[v >> 18], digits[(v >> 12) & 63], '=', '='};
        if (n > 1) { four[2] = digits[(v >> 6) & 63]; }
        if (n > 2) { four[3] = digits[v & 63]; }
        put(t, four, 4);
    }
    put(t, "\"", 1);
}

void wire_text_size(struct wire_text *t, const char *name, struct slice s)
{
    if (!s.at && s.size == 0) {
        wire_text_null(t, name);
        return;
    }
    wire_text_int(t, name, (int64_t)s.size);
}

void wire_text_uuid(struct wire_text *t, const char *name, struct uuid u)
{
    char b[UUID_TEXT_SIZE];
    lead(t, name);
    putf(t, "\"%s\"", uuid_format(u, b));
}

bool wire_text_hide(struct wire_text *t, const char *name)
{
    if (t->reveal) { return false; }
    lead(t, name);
    put(t, "\"hidden\"", 8);
    return true;
}
