/* batch_build.c - batches from records. See batch.h. */
#include "base/check.h"
#include "wire/batch_int.h"

static void put_blob(struct wire_writer *w, struct slice s)
{
    wire_put_varint(w, s.at ? (int32_t)s.size : -1);
    if (s.at) { wire_put_raw(w, s); }
}

static void put_body(struct wire_writer *w, const struct batch_build_record *r, int64_t time_delta,
                     int32_t offset_delta)
{
    wire_put_u8(w, 0);
    wire_put_varlong(w, time_delta);
    wire_put_varint(w, offset_delta);
    put_blob(w, r->key);
    put_blob(w, r->value);
    wire_put_varint(w, (int32_t)r->headers_count);
    for (size_t i = 0; i < r->headers_count; i++) {
        struct slice key = r->headers[i].key;
        put_blob(w, key.at ? key : slice_of("", 0));
        put_blob(w, r->headers[i].value);
    }
}

static enum err put_records(const struct batch_build_record *records, size_t count,
                            struct wire_buf *out, struct batch_header *h)
{
    struct wire_writer w;
    wire_writer_init_buf(&w, out);
    for (size_t i = 0; i < count; i++) {
        int64_t delta = 0;
        if (__builtin_sub_overflow(records[i].timestamp, h->base_timestamp, &delta)) {
            wire_writer_fail(&w, ERR_INVALID);
            break;
        }
        if (records[i].timestamp > h->max_timestamp) { h->max_timestamp = records[i].timestamp; }
        struct wire_writer size;
        wire_writer_init_count(&size);
        put_body(&size, &records[i], delta, (int32_t)i);
        if (size.pos > INT32_MAX) {
            wire_writer_fail(&w, ERR_LIMIT);
            break;
        }
        wire_put_varint(&w, (int32_t)size.pos);
        put_body(&w, &records[i], delta, (int32_t)i);
    }
    return wire_writer_finish(&w);
}

static enum err put_compressed(const struct batch_build_options *o,
                               const struct batch_build_record *records, size_t count,
                               struct codec_scratch *scratch, struct wire_buf *out,
                               struct batch_header *h)
{
    struct wire_buf plain;
    wire_buf_init(&plain, INT32_MAX);
    enum err e = put_records(records, count, &plain, h);
    if (!e) { e = codec_write_open(scratch, o->codec, o->level, plain.size, out); }
    if (!e) { e = codec_write(scratch, wire_buf_slice(&plain)); }
    if (!e) { e = codec_write_end(scratch); }
    codec_write_close(scratch);
    wire_buf_fini(&plain);
    return e;
}

enum err batch_build(const struct batch_build_options *o, const struct batch_build_record *records,
                     size_t count, struct codec_scratch *scratch, struct wire_buf *out)
{
    CHECK(o->codec == CODEC_NONE || scratch != NULL);
    if (count > INT32_MAX) { return ERR_LIMIT; }
    const size_t start = out->size;
    struct batch_header h = {
        .base_offset = o->base_offset,
        .leader_epoch = o->leader_epoch,
        .magic = BATCH_MAGIC,
        .attributes = (int16_t)((unsigned)o->codec | (o->transactional ? BATCH_TRANSACTIONAL : 0u) |
                                (o->control ? BATCH_CONTROL : 0u)),
        .last_offset_delta = (int32_t)count - 1,
        .base_timestamp = count ? records[0].timestamp : BATCH_NO_TIME,
        .max_timestamp = BATCH_NO_TIME,
        .producer_id = o->producer_id,
        .producer_epoch = o->producer_epoch,
        .base_sequence = o->base_sequence,
        .records_count = (int32_t)count,
    };
    enum err e = wire_buf_reserve(out, start + BATCH_HEADER_SIZE);
    if (e) { return e; }
    out->size += BATCH_HEADER_SIZE;
    e = o->codec == CODEC_NONE ? put_records(records, count, out, &h)
                               : put_compressed(o, records, count, scratch, out, &h);
    size_t size = out->size - start;
    if (!e && size > INT32_MAX) { e = ERR_LIMIT; }
    if (e) {
        out->size = start;
        return e;
    }
    h.length = (int32_t)(size - BATCH_LENGTH_OVERHEAD);
    batch_put_header(out->at + start, &h);
    batch_put_crc((struct mslice){out->at + start, size});
    return ERR_OK;
}
