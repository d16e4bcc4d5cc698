/* walk.c - from batch to batch through a segment file, reading headers only; and finding the way
 * again behind bytes that are no batch.
 *
 * Place:   log/, private. Thread: any; a walk belongs to its caller. It borrows the file.
 * Failure: bytes that cannot be a batch are ERR_CORRUPT; the caller decides whether that is a torn
 * tail or rot. */
#include "log/log_int.h"

#define RESYNC_BLOCK (256u << 10)

void walk_init(struct walk *w, struct sys_file *file, uint64_t pos, uint64_t end,
               int64_t offset_min, bool may_block)
{
    w->file = file;
    w->pos = pos;
    w->end = end;
    w->offset_min = offset_min;
    w->may_block = may_block;
    w->block_pos = 0;
    w->block_size = 0;
}

static enum err walk_fill(struct walk *w)
{
    uint64_t left = w->end - w->pos;
    size_t size = left < WALK_BLOCK ? (size_t)left : WALK_BLOCK;
    if (!w->may_block && !sys_file_is_warm(w->file, w->pos, size)) { return ERR_AGAIN; }
    w->block_pos = w->pos;
    w->block_size = 0;
    return sys_file_read(w->file, w->block, size, w->pos, &w->block_size);
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
        out->last_offset_delta < 0 || out->base_offset > INT64_MAX - INT32_MAX - 1) {
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

void walk_advance(struct walk *w, const struct batch_header *h)
{
    w->pos += batch_size(h);
    w->offset_min = batch_last_offset(h) + 1;
}

/* A header that could begin a batch, and the CRC of the whole agrees. */
static enum err resync_try(struct sys_file *file, uint64_t pos, uint64_t to, int64_t offset_min,
                           const uint8_t *head, bool *ok, int64_t *offset)
{
    *ok = false;
    struct batch_header h;
    if (batch_peek(slice_of(head, BATCH_HEADER_SIZE), &h) != ERR_OK) { return ERR_OK; }
    if (batch_size(&h) > to - pos || h.base_offset < offset_min || h.last_offset_delta < 0) {
        return ERR_OK;
    }
    uint8_t *buf = mem_alloc(batch_size(&h));
    if (!buf) { return ERR_NOMEM; }
    size_t got = 0;
    enum err e = sys_file_read(file, buf, batch_size(&h), pos, &got);
    if (!e && got == batch_size(&h) && batch_check_crc(slice_of(buf, got)) == ERR_OK) {
        *ok = true;
        *offset = h.base_offset;
    }
    mem_free(buf);
    return e;
}

enum err walk_resync(struct sys_file *file, uint64_t from, uint64_t to, int64_t offset_min,
                     uint64_t *pos, int64_t *offset)
{
    *pos = to;
    *offset = offset_min;
    uint8_t *block = mem_alloc(RESYNC_BLOCK);
    if (!block) { return ERR_NOMEM; }
    enum err e = ERR_OK;
    uint64_t at = from;
    while (!e && at + BATCH_HEADER_SIZE <= to) {
        size_t want = to - at < RESYNC_BLOCK ? (size_t)(to - at) : RESYNC_BLOCK, got = 0;
        e = sys_file_read(file, block, want, at, &got);
        if (e || got < BATCH_HEADER_SIZE) { break; }
        size_t steps = got - BATCH_HEADER_SIZE + 1;
        for (size_t i = 0; !e && i < steps; i++) {
            /* The magic byte first: it rules out nearly every place. */
            if (block[i + 16] != BATCH_MAGIC) { continue; }
            bool ok = false;
            e = resync_try(file, at + i, to, offset_min, block + i, &ok, offset);
            if (!e && ok) {
                *pos = at + i;
                goto done;
            }
        }
        at += steps;
    }
done:
    mem_free(block);
    return e;
}
