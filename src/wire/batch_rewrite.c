/* batch_rewrite.c - a batch in another codec.
 *
 * The record bytes are the same in every codec (deltas count from the header, which stays), so the
 * old stream is decompressed through the window straight into the new one. */
#include "base/check.h"
#include "wire/batch_int.h"

static enum batch_reject rewrite_reject(enum err e)
{
    switch (e) {
    case ERR_OK:
        return BATCH_OK;
    case ERR_LIMIT:
        return BATCH_TOO_LARGE;
    case ERR_NOMEM:
        return BATCH_NOMEM;
    default:
        return BATCH_COMPRESSED;
    }
}

static const char *rewrite_message(enum batch_reject r)
{
    switch (r) {
    case BATCH_OK:
        return NULL;
    case BATCH_TOO_LARGE:
        return "rewritten, the batch is larger than max.message.bytes";
    case BATCH_NOMEM:
        return "out of memory";
    default:
        return "the compressed records cannot be read";
    }
}

static enum err copy_records(const struct batch_rules *rules, struct codec_scratch *scratch,
                             struct slice records, const struct batch_facts *facts,
                             struct wire_buf *out)
{
    uint8_t *window = codec_window(scratch);
    if (!window) { return ERR_NOMEM; }
    enum codec from = (enum codec)batch_codec_bits(&facts->header);
    enum err e = codec_read_open(scratch, from, records, facts->records_bytes);
    if (e) { goto end; }
    e = codec_write_open(scratch, rules->codec, rules->level, facts->records_bytes, out);
    while (!e) {
        size_t got = 0;
        e = codec_read(scratch, window, CODEC_WINDOW, &got);
        if (e || got == 0) { break; }
        e = codec_write(scratch, slice_of(window, got));
    }
    if (!e) { e = codec_write_end(scratch); }
end:
    codec_write_close(scratch);
    codec_read_close(scratch);
    return e;
}

enum batch_reject batch_recompress(const struct batch_rules *rules, struct codec_scratch *scratch,
                                   struct slice batch, struct batch_facts *facts,
                                   struct wire_buf *out)
{
    CHECK(facts->recompress && batch.size == batch_size(&facts->header));
    const size_t limit = out->limit;
    size_t size_max = rules->max_message_bytes > 0 ? (size_t)rules->max_message_bytes : INT32_MAX;
    if (size_max + CODEC_WRITE_SLACK < limit) { out->limit = size_max + CODEC_WRITE_SLACK; }
    out->size = 0;
    enum err e = wire_buf_reserve(out, BATCH_HEADER_SIZE);
    if (!e) {
        out->size = BATCH_HEADER_SIZE;
        e = copy_records(rules, scratch, slice_sub(batch, BATCH_HEADER_SIZE, batch.size), facts,
                         out);
    }
    out->limit = limit;
    if (!e && out->size > size_max) { e = ERR_LIMIT; }
    enum batch_reject r = rewrite_reject(e);
    facts->message = rewrite_message(r);
    if (r) {
        out->size = 0;
        return r;
    }
    struct batch_header *h = &facts->header;
    h->length = (int32_t)(out->size - BATCH_LENGTH_OVERHEAD);
    h->attributes = (int16_t)((h->attributes & ~BATCH_CODEC_MASK) | (int)rules->codec);
    batch_put_header(out->at, h);
    batch_put_crc((struct mslice){out->at, out->size});
    h->crc = batch_get32(out->at + BATCH_AT_CRC);
    facts->recompress = false;
    return BATCH_OK;
}
