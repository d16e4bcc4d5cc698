/* epochs.c - see epochs.h. Few entries: searches go from the end, where the answers are. */
#include "log/epochs.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdio.h>

void epochs_init(struct epochs *e)
{
    *e = (struct epochs){0};
}

void epochs_fini(struct epochs *e)
{
    mem_free(e->many);
    *e = (struct epochs){0};
}

void epochs_clear(struct epochs *e)
{
    epochs_fini(e);
}

static struct epoch_entry *at(struct epochs *e, uint32_t i)
{
    return e->many ? &e->many[i] : &e->one;
}

static enum err reserve(struct epochs *e, uint32_t count)
{
    if (count <= 1 || count <= e->capacity) { return ERR_OK; }
    uint32_t want = e->capacity ? e->capacity * 2 : 4;
    while (want < count) {
        want *= 2;
    }
    struct epoch_entry *many = mem_realloc(e->many, want * sizeof *many);
    if (!many) { return ERR_NOMEM; }
    if (!e->many && e->count == 1) { many[0] = e->one; }
    e->many = many;
    e->capacity = want;
    return ERR_OK;
}

enum err epochs_assign(struct epochs *e, int32_t epoch, int64_t start, bool *changed)
{
    *changed = false;
    if (epoch < 0 || start < 0) { return ERR_INVALID; }
    uint32_t keep = e->count;
    if (keep > 0) {
        const struct epoch_entry *last = epochs_at(e, keep - 1);
        if (last->epoch == epoch && last->start <= start) { return ERR_OK; }
    }
    while (keep > 0 &&
           (epochs_at(e, keep - 1)->epoch >= epoch || epochs_at(e, keep - 1)->start >= start)) {
        keep--;
    }
    enum err err = reserve(e, keep + 1);
    if (err) { return err; }
    *at(e, keep) = (struct epoch_entry){.start = start, .epoch = epoch};
    e->count = keep + 1;
    *changed = true;
    return ERR_OK;
}

int32_t epochs_latest(const struct epochs *e)
{
    return e->count ? epochs_at(e, e->count - 1)->epoch : -1;
}

int32_t epochs_of_offset(const struct epochs *e, int64_t offset)
{
    for (uint32_t i = e->count; i-- > 0;) {
        if (epochs_at(e, i)->start <= offset) { return epochs_at(e, i)->epoch; }
    }
    return -1;
}

struct epoch_end epochs_end_of(const struct epochs *e, int32_t epoch, int64_t leo)
{
    if (epoch < 0 || epoch > epochs_latest(e)) { return (struct epoch_end){-1, -1}; }
    int64_t end = leo;
    for (uint32_t i = e->count; i-- > 0;) {
        const struct epoch_entry *x = epochs_at(e, i);
        if (x->epoch <= epoch) { return (struct epoch_end){x->epoch, end}; }
        end = x->start;
    }
    return (struct epoch_end){epoch, end};
}

bool epochs_truncate_end(struct epochs *e, int64_t offset)
{
    uint32_t before = e->count;
    while (e->count > 0 && epochs_at(e, e->count - 1)->start >= offset) {
        e->count--;
    }
    return e->count != before;
}

bool epochs_truncate_start(struct epochs *e, int64_t offset)
{
    uint32_t holder = 0; /* entries that start at or before offset */
    while (holder < e->count && epochs_at(e, holder)->start <= offset) {
        holder++;
    }
    if (holder == 0) { return false; }
    uint32_t gone = holder - 1;
    bool changed = gone > 0 || epochs_at(e, gone)->start != offset;
    if (gone > 0) { memmove(e->many, e->many + gone, (e->count - gone) * sizeof *e->many); }
    e->count -= gone;
    at(e, 0)->start = offset;
    return changed;
}

enum err epochs_encode(const struct epochs *e, struct wire_buf *out)
{
    char line[64];
    struct wire_writer w;
    wire_writer_init_buf(&w, out);
    int n = snprintf(line, sizeof line, "0\n%u\n", e->count);
    wire_put_raw(&w, slice_of(line, (size_t)n));
    for (uint32_t i = 0; i < e->count; i++) {
        const struct epoch_entry *x = epochs_at(e, i);
        n = snprintf(line, sizeof line, "%d %lld\n", x->epoch, (long long)x->start);
        wire_put_raw(&w, slice_of(line, (size_t)n));
    }
    return wire_writer_finish(&w);
}

/* A decimal number without sign, then the separator. False when it is not that or too large. */
static bool take_number(struct slice *text, uint8_t separator, int64_t max, int64_t *out)
{
    int64_t v = 0;
    size_t i = 0;
    for (; i < text->size && text->at[i] >= '0' && text->at[i] <= '9'; i++) {
        int digit = text->at[i] - '0';
        if (v > max / 10 || v * 10 > max - digit) { return false; }
        v = v * 10 + digit;
    }
    /* The last line too: without its end it may be half a number. */
    if (i == 0 || i == text->size || text->at[i] != separator) { return false; }
    *text = slice_sub(*text, i + 1, text->size);
    *out = v;
    return true;
}

static enum err decode_entries(struct epochs *e, struct slice text)
{
    int64_t version = 0;
    int64_t count = 0;
    if (!take_number(&text, '\n', 0, &version) ||
        !take_number(&text, '\n', EPOCHS_COUNT_MAX, &count)) {
        return ERR_MALFORMED;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t epoch = 0;
        int64_t start = 0;
        if (!take_number(&text, ' ', INT32_MAX, &epoch) ||
            !take_number(&text, '\n', INT64_MAX, &start)) {
            return ERR_MALFORMED;
        }
        if (e->count > 0) { /* [EPO-1] */
            const struct epoch_entry *last = epochs_at(e, e->count - 1);
            if (last->epoch >= epoch || last->start >= start) { return ERR_MALFORMED; }
        }
        bool changed = false;
        enum err err = epochs_assign(e, (int32_t)epoch, start, &changed);
        if (err) { return err; }
    }
    return text.size == 0 ? ERR_OK : ERR_MALFORMED;
}

enum err epochs_decode(struct epochs *e, struct slice file)
{
    epochs_clear(e);
    enum err err = decode_entries(e, file);
    if (err) { epochs_clear(e); }
    return err;
}
