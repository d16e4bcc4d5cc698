/* message_oracle.c - see message_oracle.h. */
#include "fuzz/message_oracle.h"

#include "base/arena.h"
#include "fuzz/fuzz.h"
#include "wire/reader.h"
#include "wire/text.h"
#include "wire/writer.h"

#include <stdlib.h>

#define TEXT_SIZE 65536u

static struct wire_buf first;
static struct wire_buf second;

static void encode(const struct wire_message *msg, int version, const void *m, struct wire_buf *out)
{
    struct wire_writer w;
    out->limit = (size_t)1 << 28;
    out->size = 0;
    wire_writer_init_buf(&w, out);
    enum err e = msg->encode(&w, version, m);
    if (!e) { e = wire_writer_finish(&w); }
    CHECKF(!e, "%s v%d: what was decoded cannot be encoded: %s", msg->name, version, err_name(e));
    CHECKF(out->size == msg->measure(version, m), "%s v%d measures wrong", msg->name, version);
}

static enum err decode(const struct wire_message *msg, int version, struct slice bytes,
                       struct arena *a, void *m)
{
    struct wire_reader r;
    wire_reader_init(&r, bytes);
    return msg->decode(&r, version, a, m);
}

void message_oracle(const struct wire_message *msg, int version, struct slice bytes)
{
    struct arena a;
    size_t budget = WIRE_DECODE_BUDGET(bytes.size);
    arena_init(&a, 4096, budget);
    void *m = malloc(msg->size);
    void *again = malloc(msg->size);
    char *text = malloc(TEXT_SIZE);
    CHECK(m && again && text);
    enum err e = decode(msg, version, bytes, &a, m);
    CHECKF(a.total <= budget, "%s v%d decodes %zu bytes to %zu", msg->name, version, bytes.size,
           a.total);
    if (!e) {
        struct arena b;
        encode(msg, version, m, &first);
        arena_init(&b, 4096, (size_t)1 << 28);
        e = decode(msg, version, wire_buf_slice(&first), &b, again);
        CHECKF(!e, "%s v%d: what was encoded cannot be decoded", msg->name, version);
        encode(msg, version, again, &second);
        CHECKF(slice_eq(wire_buf_slice(&first), wire_buf_slice(&second)), "%s v%d is not stable",
               msg->name, version);
        struct wire_text t;
        wire_text_init(&t, text, TEXT_SIZE);
        msg->print(&t, version, m);
        CHECK(t.len < t.cap && text[t.len] == '\0');
        arena_fini(&b);
    }
    arena_fini(&a);
    free(m);
    free(again);
    free(text);
}
