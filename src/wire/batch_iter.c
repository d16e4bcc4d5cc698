/* batch_iter.c - the records of a stored batch: search by time, walk with contents. See batch.h.
 *
 * Stored batches may have gaps (compaction), so deltas are only required to rise. */
#include "base/check.h"
#include "wire/batch_int.h"

static enum err open_stored(struct slice batch, struct batch_header *h)
{
    enum err e = batch_peek(batch, h);
    if (e) { return e == ERR_RANGE ? ERR_MALFORMED : e; }
    if (batch.size < batch_size(h) || h->records_count < 0 || batch_codec_bits(h) >= CODEC_COUNT) {
        return ERR_MALFORMED;
    }
    return ERR_OK;
}

/* Under log append time every record has the batch's time. Sums wrap: a stored batch is not ours
 * to judge. */
static int64_t record_time(const struct batch_header *h, const struct walk_record *r)
{
    if (batch_is_log_append_time(h)) { return h->max_timestamp; }
    return (int64_t)((uint64_t)h->base_timestamp + (uint64_t)r->timestamp_delta);
}

static int64_t record_offset(const struct batch_header *h, const struct walk_record *r)
{
    return (int64_t)((uint64_t)h->base_offset + (uint64_t)(int64_t)r->offset_delta);
}

/* What a search looks for; the first match, or the first maximum. */
struct search {
    int64_t timestamp;
    int64_t offset_min;
    bool want_max;
    bool found;
    struct batch_found best;
};

/* True when nothing later can matter. */
static bool search_step(struct search *s, int64_t offset, int64_t timestamp)
{
    if (timestamp == BATCH_NO_TIME) { return false; }
    if (s->want_max) {
        if (!s->found || timestamp > s->best.timestamp) {
            s->found = true;
            s->best = (struct batch_found){offset, timestamp};
        }
        return false;
    }
    if (timestamp < s->timestamp || offset < s->offset_min) { return false; }
    s->found = true;
    s->best = (struct batch_found){offset, timestamp};
    return true;
}

static enum err search_run(struct codec_scratch *scratch, struct slice batch, struct search *s,
                           struct batch_found *out)
{
    struct batch_header h;
    *out = (struct batch_found){-1, BATCH_NO_TIME};
    enum err e = open_stored(batch, &h);
    if (e) { return e; }
    struct batch_rules rules = {0};
    struct batch_walk w;
    uint64_t out_max = batch_decompressed_max(&rules, batch.size);
    e = batch_walk_open(&w, scratch, &h, batch, out_max);
    if (e) { return e; }
    bool done = false;
    for (int32_t i = 0; i < h.records_count && !done && !e; i++) {
        struct walk_record r;
        enum walk_result got = batch_walk_next(&w, &r);
        if (got != WALK_OK) {
            e = got == WALK_STREAM ? w.err : ERR_MALFORMED;
            break;
        }
        done = search_step(s, record_offset(&h, &r), record_time(&h, &r));
    }
    batch_walk_close(&w);
    if (e) { return e; }
    if (!s->found) { return ERR_NOTFOUND; }
    *out = s->best;
    return ERR_OK;
}

enum err batch_find_time(struct codec_scratch *scratch, struct slice batch, int64_t timestamp,
                         int64_t offset_min, struct batch_found *out)
{
    struct search s = {.timestamp = timestamp, .offset_min = offset_min};
    return search_run(scratch, batch, &s, out);
}

enum err batch_find_max_time(struct codec_scratch *scratch, struct slice batch,
                             struct batch_found *out)
{
    struct search s = {.want_max = true};
    return search_run(scratch, batch, &s, out);
}

enum err batch_iter_open(struct batch_iter *it, struct codec_scratch *scratch, struct slice batch,
                         uint64_t bytes_max, struct wire_buf *buf)
{
    *it = (struct batch_iter){0};
    it->err = open_stored(batch, &it->header);
    if (it->err) { return it->err; }
    struct slice records =
        slice_sub(batch, BATCH_HEADER_SIZE, batch_size(&it->header) - (size_t)BATCH_HEADER_SIZE);
    enum codec codec = (enum codec)batch_codec_bits(&it->header);
    if (codec == CODEC_NONE) {
        it->left = records;
        return ERR_OK;
    }
    if (!buf || !scratch) {
        it->err = ERR_UNSUPPORTED;
        return it->err;
    }
    buf->size = 0;
    it->err = codec_decompress(scratch, codec, records, bytes_max, buf);
    if (!it->err) { it->left = wire_buf_slice(buf); }
    return it->err;
}

bool batch_iter_next(struct batch_iter *it, struct batch_record *out)
{
    if (it->err) { return false; }
    if (it->index >= it->header.records_count) {
        if (it->left.size > 0) { it->err = ERR_MALFORMED; }
        return false;
    }
    const uint8_t *at = it->left.at;
    const uint8_t *end = at + it->left.size;
    uint32_t raw = 0;
    const uint8_t *p = batch_uvarint(at, end, &raw);
    int32_t size = batch_unzigzag(raw);
    struct walk_record r;
    if (!p || size < 0 || end - p < size || !batch_parse_record(p, p + size, &r)) {
        it->err = ERR_MALFORMED;
        return false;
    }
    it->index++;
    it->left = slice_of(p + size, (size_t)(end - (p + size)));
    *out = (struct batch_record){
        .offset = record_offset(&it->header, &r),
        .timestamp = record_time(&it->header, &r),
        .key = r.key,
        .value = r.value,
        .headers = r.headers,
        .headers_count = (uint32_t)r.headers_count,
        .size = (uint32_t)(p + size - at),
    };
    return true;
}

static bool take_bytes(struct slice *from, struct slice *out)
{
    const uint8_t *end = from->at + from->size;
    uint32_t raw = 0;
    const uint8_t *p = batch_uvarint(from->at, end, &raw);
    int32_t size = batch_unzigzag(raw);
    if (!p || size < -1 || end - p < size) { return false; }
    *out = size < 0 ? SLICE_NULL : slice_of(p, (size_t)size);
    p += size < 0 ? 0 : size;
    *from = slice_of(p, (size_t)(end - p));
    return true;
}

bool batch_header_next(struct slice *headers, struct slice *key, struct slice *value)
{
    return headers->size > 0 && take_bytes(headers, key) && take_bytes(headers, value);
}
