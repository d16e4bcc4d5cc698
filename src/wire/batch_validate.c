/* batch_validate.c - everything that is checked before a client's batch may enter a log.
 *
 * Order: size and magic, CRC, header fields, then each record. The walk is the hot loop of a
 * produce; it only compares, and looks for the reason of a refusal after it has failed. */
#include "base/check.h"
#include "base/crc32c.h"
#include "wire/batch_int.h"

static enum batch_reject refuse(struct batch_facts *out, enum batch_reject r, int32_t index,
                                const char *message)
{
    out->record_index = index;
    out->message = message;
    return r;
}

static enum batch_reject check_shape(const struct batch_rules *rules, struct slice batch,
                                     struct batch_facts *out)
{
    if (batch.size == 0) { return refuse(out, BATCH_EMPTY, -1, "no records in the request"); }
    switch (batch_peek(batch, &out->header)) {
    case ERR_OK:
        break;
    case ERR_UNSUPPORTED:
        return refuse(out, BATCH_OLD_MAGIC, -1, "only record format 2 is accepted");
    case ERR_RANGE:
        return refuse(out, BATCH_CUT, -1, "the batch is shorter than its header");
    default:
        return refuse(out, BATCH_LENGTH, -1, "the batch says a length that no batch has");
    }
    size_t size = batch_size(&out->header);
    if (size > batch.size) {
        return refuse(out, BATCH_CUT, -1, "the batch is shorter than it says");
    }
    if (size < batch.size) {
        return refuse(out, BATCH_SEVERAL, -1, "only one batch for each partition is allowed");
    }
    if (rules->max_message_bytes > 0 && size > (size_t)rules->max_message_bytes) {
        return refuse(out, BATCH_TOO_LARGE, -1, "the batch is larger than max.message.bytes");
    }
    uint32_t crc = crc32c(0, batch.at + BATCH_AT_ATTRIBUTES, size - (size_t)BATCH_AT_ATTRIBUTES);
    if (crc != out->header.crc) {
        return refuse(out, BATCH_BAD_CRC, -1, "the batch's checksum does not match");
    }
    return BATCH_OK;
}

static enum batch_reject check_codec(const struct batch_rules *rules, struct batch_facts *out)
{
    unsigned codec = batch_codec_bits(&out->header);
    if (codec >= CODEC_COUNT) {
        return refuse(out, BATCH_CODEC, -1, "no compression type has this number");
    }
    if (codec == CODEC_ZSTD && !rules->zstd_allowed) {
        return refuse(out, BATCH_CODEC_VERSION, -1, "zstd needs Produce version 7 or later");
    }
    out->recompress = rules->codec_forced && codec != (unsigned)rules->codec;
    return BATCH_OK;
}

static enum batch_reject check_header(const struct batch_rules *rules, struct batch_facts *out)
{
    const struct batch_header *h = &out->header;
    if (h->base_offset != 0) {
        return refuse(out, BATCH_BASE_OFFSET, -1, "the base offset of a new batch must be 0");
    }
    if (h->records_count <= 0) { return refuse(out, BATCH_EMPTY, -1, "the batch has no records"); }
    if (h->last_offset_delta != h->records_count - 1) {
        return refuse(out, BATCH_COUNTS, -1, "record count and last offset delta disagree");
    }
    if (batch_is_control(h) && !rules->control_allowed) {
        return refuse(out, BATCH_IS_CONTROL, -1, "clients must not write control batches");
    }
    if (batch_is_transactional(h)) {
        if (!batch_has_producer(h)) {
            return refuse(out, BATCH_SEQUENCE, -1, "a transactional batch needs a producer id");
        }
        if (!rules->transactional_allowed) {
            return refuse(out, BATCH_IS_TRANSACTIONAL, -1,
                          "this broker does not take part in transactions");
        }
    }
    if (batch_has_producer(h) && !batch_is_control(h) &&
        (h->producer_epoch < 0 || h->base_sequence < 0)) {
        return refuse(out, BATCH_SEQUENCE, -1,
                      "a batch with a producer id needs an epoch and a sequence");
    }
    if (batch_is_log_append_time(h)) {
        return refuse(out, BATCH_TIME_TYPE, -1, "producers must not set the log append time type");
    }
    return check_codec(rules, out);
}

/* The times that records may have. */
struct time_bounds {
    int64_t min;
    int64_t max;
};

static struct time_bounds time_bounds_of(const struct batch_rules *rules)
{
    struct time_bounds b = {INT64_MIN, INT64_MAX};
    int64_t t = 0;
    if (!__builtin_sub_overflow(rules->now_ms, rules->time_before_max_ms, &t)) { b.min = t; }
    if (!__builtin_add_overflow(rules->now_ms, rules->time_after_max_ms, &t)) { b.max = t; }
    return b;
}

static enum batch_reject refuse_walk(struct batch_facts *out, enum walk_result r, enum err e,
                                     int32_t index)
{
    if (r == WALK_BAD) {
        return refuse(out, BATCH_RECORD, index, "the record's lengths do not fit together");
    }
    if (r == WALK_END) {
        return refuse(out, BATCH_COUNTS, index, "the batch holds fewer records than it says");
    }
    if (e == ERR_LIMIT) {
        return refuse(out, BATCH_BOMB, -1, "the records decompress to more than is allowed");
    }
    if (e == ERR_NOMEM) { return refuse(out, BATCH_NOMEM, -1, "out of memory"); }
    return refuse(out, BATCH_COMPRESSED, -1, "the compressed records cannot be read");
}

static enum batch_reject walk_records(const struct batch_rules *rules, struct batch_walk *w,
                                      struct batch_facts *out)
{
    const struct time_bounds bounds = time_bounds_of(rules);
    const int64_t base = out->header.base_timestamp;
    const int32_t count = out->header.records_count;
    int64_t max = BATCH_NO_TIME;
    int32_t max_delta = 0;
    for (int32_t i = 0; i < count; i++) {
        struct walk_record r;
        enum walk_result got = batch_walk_next(w, &r);
        if (got != WALK_OK) { return refuse_walk(out, got, w->err, i); }
        if (r.offset_delta != i) {
            return refuse(out, BATCH_OFFSETS, i, "offset deltas must count up from 0");
        }
        if (!r.has_key && rules->keys_required) {
            return refuse(out, BATCH_NO_KEY, i, "records of a compacted topic need a key");
        }
        if (rules->log_append_time) { continue; }
        int64_t time = 0;
        if (__builtin_add_overflow(base, r.timestamp_delta, &time)) {
            return refuse(out, BATCH_TIME, i, "the record's timestamp overflows");
        }
        if ((time < bounds.min || time > bounds.max) && time != BATCH_NO_TIME) {
            return refuse(out, BATCH_TIME, i, "the record's timestamp is outside the limits");
        }
        if (time > max) {
            max = time;
            max_delta = i;
        }
    }
    struct walk_record beyond;
    enum walk_result rest = batch_walk_next(w, &beyond);
    if (rest == WALK_STREAM) { return refuse_walk(out, rest, w->err, -1); }
    if (rest != WALK_END) {
        return refuse(out, BATCH_COUNTS, -1, "there are bytes behind the last record");
    }
    out->max_timestamp = rules->log_append_time ? rules->now_ms : max;
    out->max_timestamp_delta = max_delta;
    return BATCH_OK;
}

enum batch_reject batch_validate(const struct batch_rules *rules, struct codec_scratch *scratch,
                                 struct mslice batch, struct batch_facts *out)
{
    *out = (struct batch_facts){.record_index = -1, .max_timestamp = BATCH_NO_TIME};
    struct slice bytes = slice_of(batch.at, batch.size);
    enum batch_reject r = check_shape(rules, bytes, out);
    if (!r) { r = check_header(rules, out); }
    if (r) { return r; }
    size_t plain = batch.size - BATCH_HEADER_SIZE;
    struct batch_walk w;
    enum err e =
        batch_walk_open(&w, scratch, &out->header, bytes, batch_decompressed_max(rules, plain));
    if (e) { return refuse_walk(out, WALK_STREAM, e, -1); }
    out->records_bytes = w.scratch ? 0 : plain;
    r = walk_records(rules, &w, out);
    if (w.scratch) { out->records_bytes = w.refilled; }
    batch_walk_close(&w);
    if (r) { return r; }

    struct batch_header *h = &out->header;
    bool stamp = rules->log_append_time || h->max_timestamp != out->max_timestamp;
    h->max_timestamp = out->max_timestamp;
    if (rules->log_append_time) { h->attributes |= BATCH_LOG_APPEND_TIME; }
    if (stamp && !out->recompress) {
        batch_set_max_timestamp(batch, rules->log_append_time, h->max_timestamp);
        h->crc = batch_get32(batch.at + BATCH_AT_CRC);
    }
    return BATCH_OK;
}
