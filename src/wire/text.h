/* text.h - a bounded text of what a message holds, as JSON, for logs and tests.
 *
 * Thread:     one at a time.
 * Ownership:  borrows the caller's buffer, which is always terminated.
 * Invariants: [TX-1] len < cap. [TX-2] output is printable ASCII whatever a peer sent.
 * Failure:    what does not fit is left out and cut is set; the text then is no whole JSON. */
#ifndef WIRE_TEXT_H
#define WIRE_TEXT_H

#include "base/slice.h"
#include "base/uuid.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire_text {
    char *at;
    size_t cap;
    size_t len;
    bool cut;
    bool reveal; /* print sensitive fields too: tests, and who asks for it of their own files */
};

/* cap >= 1 */
void wire_text_init(struct wire_text *t, char *buffer, size_t cap);

/* name is NULL for the outermost value and inside arrays. */
void wire_text_open(struct wire_text *t, const char *name, char bracket);
void wire_text_close(struct wire_text *t, char bracket);
void wire_text_null(struct wire_text *t, const char *name);
void wire_text_bool(struct wire_text *t, const char *name, bool v);
void wire_text_int(struct wire_text *t, const char *name, int64_t v);
void wire_text_f64(struct wire_text *t, const char *name, double v);
void wire_text_str(struct wire_text *t, const char *name, struct slice s);
void wire_text_bytes(struct wire_text *t, const char *name, struct slice s); /* base64 */
void wire_text_size(struct wire_text *t, const char *name,
                    struct slice s); /* only how many bytes */
void wire_text_uuid(struct wire_text *t, const char *name, struct uuid u);
/* True, having written "hidden", unless the text may reveal secrets. */
bool wire_text_hide(struct wire_text *t, const char *name);

#endif
