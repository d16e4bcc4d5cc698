/* walk.c - from batch to batch through a segment file, reading headers only; and finding the way
 * again behind bytes that are no batch.
 *
 * Place:      log/, private.
 * Thread:     any; a walk belongs to its caller. It borrows the file.
 * Failure:    bytes that cannot be a batch are ERR_CORRUPT; the caller decides whether that is a
 *             torn tail or rot. */
#include "log/log_int.h"

#define RESYNC_BLOCK (256u << 10)

void walk_init(struct walk *w, const struct walk_span *span, uint64_t pos)
{
    w->span = *span;
    w->pos = pos;
    w->end = span->size;
    w->offset_min = span->base;
    w->has_prev = false;
    w->block_pos = 0;
    w->block_size = 0;
}

static enum err walk_fill(struct walk *w)
{
    uint64_t left = w->end - w->pos;
    size_t size = left < WALK_BLOCK ? (size_t)left : WALK_BLOCK;
    if (!w->span.may_block && !sys_file_is_warm(w->span.file, w->pos, size)) { return ERR_AGAIN; }
    w->block_pos = w->pos;
    w->block_size = 0;
    return sys_file_read(w->span.file, w->block, size, w->pos, &w->block_size);
}

enum err walk_peek(struct walk *w, struct batch_header *out)
{
    if (w->pos >= w->end) { return ERR_RANGE; }
    if (w->end - w->pos < BATCH_HEADER_SIZE) { return ERR_CORRUPT; }
    if (w->pos < w->block_pos || w->pos + BATCH_HEADER_SIZE > w->block_pos + w->block_size) {
        enum err e = walk_fill(w);
        if (e) { return e; }
        if (w->block_size < BATCH_HEADER_SIZE) { return ERR_CORRUPT; }
    }
    size_t at = (size_t)(w->pos - w->block_pos);
    if (batch_peek(slice_of(w->block + at, w->block_size - at), out) != ERR_OK) {
        return ERR_CORRUPT;
    }
    if (batch_size(out) > w->end - w->pos || out->base_offset < w->offset_min ||
        out->last_offset_delta < 0 || out->base_offset > INT64_MAX - INT32_MAX - 1 ||
        batch_last_offset(out) >= w->span.end) {
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

void walk_advance(struct walk *w, const struct batch_header *h)
{
    w->has_prev = true;
    w->prev_pos = w->pos;
    w->prev_min = w->offset_min;
    w->pos += batch_size(h);
    w->offset_min = batch_last_offset(h) + 1;
}

enum err walk_check_batch(const struct walk_span *span, uint64_t pos, int64_t offset_min, bool *ok,
                          struct batch_header *h)
{
    uint8_t head[BATCH_HEADER_SIZE];
    size_t got = 0;
    *ok = false;
    if (pos > span->size || span->size - pos < BATCH_HEADER_SIZE) { return ERR_OK; }
    enum err e = sys_file_read(span->file, head, sizeof head, pos, &got);
    if (e || got < sizeof head || batch_peek(slice_of(head, got), h) != ERR_OK) { return e; }
    if (batch_size(h) > span->size - pos || h->base_offset < offset_min ||
        h->last_offset_delta < 0 || h->base_offset > INT64_MAX - INT32_MAX - 1 ||
        batch_last_offset(h) >= span->end) {
        return ERR_OK;
    }
    uint8_t *buf = mem_alloc(batch_size(h));
    if (!buf) { return ERR_NOMEM; }
    e = sys_file_read(span->file, buf, batch_size(h), pos, &got);
    *ok = !e && got == batch_size(h) && batch_check_crc(slice_of(buf, got)) == ERR_OK;
    mem_free(buf);
    return e;
}

enum err walk_resync(const struct walk_span *span, uint64_t from, int64_t offset_min, uint64_t *pos,
                     int64_t *offset)
{
    *pos = span->size;
    *offset = span->end;
    uint8_t *block = mem_alloc(RESYNC_BLOCK);
    if (!block) { return ERR_NOMEM; }
    enum err e = ERR_OK;
    uint64_t at = from;
    while (!e && at + BATCH_HEADER_SIZE <= span->size) {
        size_t want = span->size - at < RESYNC_BLOCK ? (size_t)(span->size - at) : RESYNC_BLOCK;
        size_t got = 0;
        e = sys_file_read(span->file, block, want, at, &got);
        if (e || got < BATCH_HEADER_SIZE) { break; }
        size_t steps = got - BATCH_HEADER_SIZE + 1;
        for (size_t i = 0; !e && i < steps; i++) {
            /* The magic byte first: it rules out nearly every place. */
            if (block[i + 16] != BATCH_MAGIC) { continue; }
            bool ok = false;
            struct batch_header h;
            e = walk_check_batch(span, at + i, offset_min, &ok, &h);
            if (!e && ok) {
                *pos = at + i;
                *offset = h.base_offset;
                goto done;
            }
        }
        at += steps;
    }
done:
    mem_free(block);
    return e;
}

enum err walk_find_rot(struct walk *w, struct log_rot *rot)
{
    bool ok = false;
    struct batch_header h;
    *rot = (struct log_rot){.base = w->span.base, .pos = w->pos, .offset = w->offset_min};
    if (w->has_prev) {
        enum err e = walk_check_batch(&w->span, w->prev_pos, w->prev_min, &ok, &h);
        if (e) { return e; }
        bool prev_is_sound = ok;
        if (prev_is_sound) {
            /* Offsets are not under the CRC: a sound batch here, but for its offset, says that the
             * offset before was wrong. */
            e = walk_check_batch(&w->span, w->pos, w->prev_min, &ok, &h);
            if (e) { return e; }
            prev_is_sound = !ok;
        }
        if (!prev_is_sound) {
            rot->pos = w->prev_pos;
            rot->offset = w->prev_min;
        }
    }
    return walk_resync(&w->span, rot->pos + 1, rot->offset, &rot->pos_end, &rot->offset_end);
}

void walk_leave_rot(struct walk *w, const struct log_rot *rot)
{
    w->pos = rot->pos_end;
    w->offset_min = rot->offset_end;
    w->has_prev = false;
}
