/* frame.c - see frame.h. */
#include "frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    API_PRODUCE = 0,
    API_FETCH = 1,
    API_LIST_OFFSETS = 2,
    API_METADATA = 3,
    API_CREATE_TOPICS = 19,
    API_DELETE_TOPICS = 20,
    ADMIN_TIMEOUT_MS = 30000,
    PRODUCE_TIMEOUT_MS = 30000,
    BATCH_CRC_POS = 17,
    BATCH_CRC_FROM = 21,
};

_Noreturn void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench_wire: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void put_bytes(struct writer *w, const void *bytes, size_t size)
{
    if (w->size_max - w->size < size) { die("a frame outgrew its buffer of %zu", w->size_max); }
    memcpy(w->at + w->size, bytes, size);
    w->size += size;
}

static void put_uint(struct writer *w, uint64_t value, unsigned width)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < width; i++) {
        bytes[i] = (uint8_t)(value >> (8U * (width - 1U - i)));
    }
    put_bytes(w, bytes, width);
}

static void put_i8(struct writer *w, int8_t value)
{
    put_uint(w, (uint8_t)value, 1);
}

static void put_i16(struct writer *w, int16_t value)
{
    put_uint(w, (uint16_t)value, 2);
}

static void put_i32(struct writer *w, int32_t value)
{
    put_uint(w, (uint32_t)value, 4);
}

static void put_i64(struct writer *w, int64_t value)
{
    put_uint(w, (uint64_t)value, 8);
}

static void put_string(struct writer *w, const char *text)
{
    size_t len = strlen(text);
    put_i16(w, (int16_t)len);
    put_bytes(w, text, len);
}

static void put_varint(struct writer *w, int64_t value)
{
    uint64_t zigzag = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (zigzag >= 0x80U) {
        put_uint(w, (zigzag & 0x7fU) | 0x80U, 1);
        zigzag >>= 7;
    }
    put_uint(w, zigzag, 1);
}

static void set_u32(uint8_t *at, uint32_t value)
{
    struct writer w = {.at = at, .size_max = 4};
    put_uint(&w, value, 4);
}

static uint64_t get_uint(struct reader *r, unsigned width)
{
    if (r->bad || r->left < width) {
        r->bad = true;
        return 0;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++) {
        value = (value << 8) | r->at[i];
    }
    r->at += width;
    r->left -= width;
    return value;
}

static int16_t get_i16(struct reader *r)
{
    return (int16_t)(uint16_t)get_uint(r, 2);
}

static int32_t get_i32(struct reader *r)
{
    return (int32_t)(uint32_t)get_uint(r, 4);
}

static int64_t get_i64(struct reader *r)
{
    return (int64_t)get_uint(r, 8);
}

static void skip_bytes(struct reader *r, int64_t size)
{
    if (size < 0) { return; } /* null */
    if (r->bad || (uint64_t)size > r->left) {
        r->bad = true;
        return;
    }
    r->at += size;
    r->left -= (size_t)size;
}

static void skip_string(struct reader *r)
{
    skip_bytes(r, get_i16(r));
}

/* Castagnoli's polynomial, a table of four bits at a time: only used before the clock runs. */
uint32_t crc32c(const uint8_t *at, size_t size)
{
    uint32_t table[16];
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 4; bit++) {
            value = (value & 1U) ? (value >> 1) ^ 0x82f63b78U : value >> 1;
        }
        table[i] = value;
    }
    uint32_t sum = ~0U;
    for (size_t i = 0; i < size; i++) {
        sum ^= at[i];
        sum = (sum >> 4) ^ table[sum & 15U];
        sum = (sum >> 4) ^ table[sum & 15U];
    }
    return ~sum;
}

static size_t varint_size(int64_t value)
{
    uint8_t bytes[10];
    struct writer w = {.at = bytes, .size_max = sizeof bytes};
    put_varint(&w, value);
    return w.size;
}

/* Attributes, timestamp delta 0, offset delta, null key, value, no headers. */
static size_t record_body_size(int64_t index, uint32_t value_bytes)
{
    return 1 + 1 + varint_size(index) + 1 + varint_size(value_bytes) + value_bytes + 1;
}

static void put_record(struct writer *w, int64_t index, uint32_t value_bytes, uint64_t *random)
{
    put_varint(w, (int64_t)record_body_size(index, value_bytes));
    put_i8(w, 0);
    put_varint(w, 0);
    put_varint(w, index);
    put_varint(w, -1);
    put_varint(w, value_bytes);
    for (uint32_t i = 0; i < value_bytes; i++) {
        *random = *random * 6364136223846793005U + 1442695040888963407U;
        put_uint(w, (uint64_t)'a' + ((*random >> 33) % 26U), 1);
    }
    put_varint(w, 0);
}

static uint32_t records_that_fit(uint32_t batch_bytes, uint32_t value_bytes, size_t *size_out)
{
    size_t size = BATCH_HEAD_BYTES;
    uint32_t records = 0;
    for (;;) {
        size_t body = record_body_size(records, value_bytes);
        size_t whole = body + varint_size((int64_t)body);
        if (records > 0 && size + whole > batch_bytes) { break; }
        size += whole;
        records++;
    }
    *size_out = size;
    return records;
}

struct batch batch_build(uint32_t batch_bytes, uint32_t value_bytes, int64_t now_ms)
{
    size_t size = 0;
    uint32_t records = records_that_fit(batch_bytes, value_bytes, &size);
    struct writer w = {.at = malloc(size), .size_max = size};
    if (!w.at) { die("no memory for a batch of %zu bytes", size); }
    put_i64(&w, 0);
    put_i32(&w, (int32_t)(size - 12));
    put_i32(&w, -1); /* partition leader epoch */
    put_i8(&w, 2);
    put_i32(&w, 0); /* the sum, below */
    put_i16(&w, 0);
    put_i32(&w, (int32_t)records - 1);
    put_i64(&w, now_ms);
    put_i64(&w, now_ms);
    put_i64(&w, -1);
    put_i16(&w, -1);
    put_i32(&w, -1);
    put_i32(&w, (int32_t)records);
    uint64_t random = 42;
    for (uint32_t i = 0; i < records; i++) {
        put_record(&w, i, value_bytes, &random);
    }
    set_u32(w.at + BATCH_CRC_POS, crc32c(w.at + BATCH_CRC_FROM, w.size - BATCH_CRC_FROM));
    return (struct batch){.at = w.at, .size = (uint32_t)w.size, .records = records};
}

int64_t batch_check_run(const struct batch *want, const uint8_t *at, size_t size, int64_t offset)
{
    int64_t count = 0;
    while (size >= want->size) {
        struct reader r = {.at = at, .left = size};
        if (get_i64(&r) != offset) { return -1; }
        if (get_i32(&r) != (int32_t)(want->size - 12)) { return -1; }
        /* The epoch is the broker's; from the magic on every byte is ours, the sum among them. */
        if (memcmp(at + 16, want->at + 16, want->size - 16) != 0) { return -1; }
        offset += want->records;
        at += want->size;
        size -= want->size;
        count++;
    }
    return count;
}

static struct writer frame_begin(uint8_t *out, size_t out_max, int16_t api, int16_t version,
                                 int32_t correlation)
{
    struct writer w = {.at = out, .size_max = out_max};
    put_i32(&w, 0);
    put_i16(&w, api);
    put_i16(&w, version);
    put_i32(&w, correlation);
    put_string(&w, "bench");
    return w;
}

static size_t frame_end(struct writer *w, size_t more)
{
    set_u32(w->at, (uint32_t)(w->size - FRAME_SIZE_PREFIX + more));
    return w->size;
}

size_t frame_produce_head(uint8_t *out, size_t out_max, int32_t correlation, int16_t acks,
                          const struct target *target, uint32_t records_size)
{
    struct writer w = frame_begin(out, out_max, API_PRODUCE, 7, correlation);
    put_i16(&w, -1); /* no transaction */
    put_i16(&w, acks);
    put_i32(&w, PRODUCE_TIMEOUT_MS);
    put_i32(&w, 1);
    put_string(&w, target->topic);
    put_i32(&w, 1);
    put_i32(&w, target->partition);
    put_i32(&w, (int32_t)records_size);
    return frame_end(&w, records_size);
}

size_t frame_fetch(uint8_t *out, size_t out_max, const struct fetch_args *args)
{
    struct writer w = frame_begin(out, out_max, API_FETCH, 11, args->correlation);
    put_i32(&w, -1); /* a consumer */
    put_i32(&w, args->wait_ms);
    put_i32(&w, args->bytes_min);
    put_i32(&w, INT32_MAX);
    put_i8(&w, 0);
    put_i32(&w, 0);
    put_i32(&w, -1); /* no session */
    put_i32(&w, 1);
    put_string(&w, args->target->topic);
    put_i32(&w, 1);
    put_i32(&w, args->target->partition);
    put_i32(&w, -1);
    put_i64(&w, args->offset);
    put_i64(&w, -1);
    put_i32(&w, args->bytes_max);
    put_i32(&w, 0); /* nothing forgotten */
    put_string(&w, "");
    return frame_end(&w, 0);
}

size_t frame_metadata(uint8_t *out, size_t out_max, int32_t correlation)
{
    struct writer w = frame_begin(out, out_max, API_METADATA, 1, correlation);
    put_i32(&w, 0); /* no topics */
    return frame_end(&w, 0);
}

size_t frame_list_offset(uint8_t *out, size_t out_max, int32_t correlation,
                         const struct target *target)
{
    struct writer w = frame_begin(out, out_max, API_LIST_OFFSETS, 1, correlation);
    put_i32(&w, -1);
    put_i32(&w, 1);
    put_string(&w, target->topic);
    put_i32(&w, 1);
    put_i32(&w, target->partition);
    put_i64(&w, -1); /* latest */
    return frame_end(&w, 0);
}

size_t frame_create_topic(uint8_t *out, size_t out_max, int32_t correlation, const char *topic,
                          int32_t partitions_count)
{
    struct writer w = frame_begin(out, out_max, API_CREATE_TOPICS, 4, correlation);
    put_i32(&w, 1);
    put_string(&w, topic);
    put_i32(&w, partitions_count);
    put_i16(&w, 1);
    put_i32(&w, 0);
    put_i32(&w, 0);
    put_i32(&w, ADMIN_TIMEOUT_MS);
    put_i8(&w, 0);
    return frame_end(&w, 0);
}

size_t frame_delete_topic(uint8_t *out, size_t out_max, int32_t correlation, const char *topic)
{
    struct writer w = frame_begin(out, out_max, API_DELETE_TOPICS, 3, correlation);
    put_i32(&w, 1);
    put_string(&w, topic);
    put_i32(&w, ADMIN_TIMEOUT_MS);
    return frame_end(&w, 0);
}

bool answer_produce(const uint8_t *frame, size_t size, struct produce_answer *out)
{
    struct reader r = {.at = frame, .left = size};
    *out = (struct produce_answer){.correlation = get_i32(&r)};
    if (get_i32(&r) != 1) { return false; }
    skip_string(&r);
    if (get_i32(&r) != 1) { return false; }
    (void)get_i32(&r);
    out->error = get_i16(&r);
    out->base_offset = get_i64(&r);
    (void)get_i64(&r); /* append time */
    (void)get_i64(&r); /* log start */
    (void)get_i32(&r); /* throttle */
    return !r.bad && r.left == 0;
}

bool answer_fetch(const uint8_t *frame, size_t size, struct fetch_answer *out)
{
    struct reader r = {.at = frame, .left = size};
    *out = (struct fetch_answer){.correlation = get_i32(&r)};
    (void)get_i32(&r); /* throttle */
    out->error = get_i16(&r);
    (void)get_i32(&r); /* session */
    int32_t topics_count = get_i32(&r);
    if (out->error != 0) { return !r.bad; }
    if (topics_count != 1) { return false; }
    skip_string(&r);
    if (get_i32(&r) != 1) { return false; }
    (void)get_i32(&r);
    out->error = get_i16(&r);
    out->high_watermark = get_i64(&r);
    (void)get_i64(&r); /* last stable offset */
    (void)get_i64(&r); /* log start */
    if (get_i32(&r) > 0) { return false; } /* aborted transactions: none here */
    (void)get_i32(&r); /* preferred replica */
    int32_t records_size = get_i32(&r);
    out->records_size = records_size > 0 ? (uint32_t)records_size : 0;
    out->records_pos = (size_t)(r.at - frame);
    return !r.bad;
}

bool answer_metadata(const uint8_t *frame, size_t size, int32_t *brokers_count)
{
    struct reader r = {.at = frame, .left = size};
    (void)get_i32(&r);
    *brokers_count = get_i32(&r);
    return !r.bad;
}

bool answer_list_offset(const uint8_t *frame, size_t size, int16_t *error, int64_t *offset)
{
    struct reader r = {.at = frame, .left = size};
    (void)get_i32(&r);
    if (get_i32(&r) != 1) { return false; }
    skip_string(&r);
    if (get_i32(&r) != 1) { return false; }
    (void)get_i32(&r);
    *error = get_i16(&r);
    (void)get_i64(&r);
    *offset = get_i64(&r);
    return !r.bad;
}

bool answer_topic_error(const uint8_t *frame, size_t size, int16_t *error)
{
    struct reader r = {.at = frame, .left = size};
    (void)get_i32(&r);
    (void)get_i32(&r);
    if (get_i32(&r) != 1) { return false; }
    skip_string(&r);
    *error = get_i16(&r);
    return !r.bad;
}
