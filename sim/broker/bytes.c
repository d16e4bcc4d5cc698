/* bytes.c - Kafka's wire by hand. */
#include "bytes.h"

#include "base/check.h"
#include "base/crc32c.h"

#include <inttypes.h>
#include <stdlib.h>

void bytes_free(struct bytes *b)
{
    free(b->at);
    *b = (struct bytes){0};
}

void bytes_put(struct bytes *b, const void *data, size_t size)
{
    if (size == 0) { return; }
    if (b->size + size > b->capacity) {
        b->capacity = (b->size + size) * 2;
        b->at = realloc(b->at, b->capacity);
        CHECK(b->at);
    }
    memcpy(b->at + b->size, data, size);
    b->size += size;
}

void bytes_drop(struct bytes *b, size_t size)
{
    CHECK(size <= b->size);
    memmove(b->at, b->at + size, b->size - size);
    b->size -= size;
}

static void bytes_poke(uint8_t *at, int64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        at[i] = (uint8_t)((uint64_t)value >> (8 * (size - 1 - i)));
    }
}

void bytes_int(struct bytes *b, int64_t value, size_t size)
{
    uint8_t raw[8];
    bytes_poke(raw, value, size);
    bytes_put(b, raw, size);
}

void bytes_text(struct bytes *b, const char *text)
{
    bytes_int(b, text ? (int64_t)strlen(text) : -1, 2);
    if (text) { bytes_put(b, text, strlen(text)); }
}

static void bytes_varint(struct bytes *b, int64_t value)
{
    uint64_t z = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (z >= 0x80) {
        bytes_int(b, (int64_t)(z & 0x7f) | 0x80, 1);
        z >>= 7;
    }
    bytes_int(b, (int64_t)z, 1);
}

int64_t look_int(struct look *l, size_t size)
{
    if (l->left < size) {
        l->bad = true;
        l->left = 0;
        return 0;
    }
    uint64_t v = 0;
    for (size_t i = 0; i < size; i++) {
        v = v << 8 | l->at[i];
    }
    l->at += size;
    l->left -= size;
    unsigned unused = (unsigned)(64 - 8 * size);
    return (int64_t)(v << unused) >> unused;
}

int64_t look_varint(struct look *l)
{
    uint64_t z = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = (uint8_t)look_int(l, 1);
        z |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) { break; }
    }
    return (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
}

struct slice look_bytes(struct look *l, int64_t size)
{
    if (size < 0) { return SLICE_NULL; }
    if (l->left < (uint64_t)size) {
        l->bad = true;
        l->left = 0;
        return SLICE_NULL;
    }
    struct slice s = slice_of(l->at, (size_t)size);
    l->at += size;
    l->left -= (size_t)size;
    return s;
}

struct slice look_text(struct look *l)
{
    return look_bytes(l, look_int(l, 2));
}

/* ---- records ---- */

#define BATCH_HEAD 61
#define BATCH_LENGTH_AT 8
#define BATCH_CRC_AT 17
#define BATCH_ATTRIBUTES_AT 21

static size_t record_fill(struct sim_record r)
{
    return (size_t)((r.number * 7 + r.producer * 31) % RECORD_FILL_MAX);
}

size_t record_size_min(struct sim_record r)
{
    return 12 + record_fill(r) + 7; /* value; lengths, deltas and counts of a byte each */
}

static uint8_t record_byte(struct sim_record r, size_t i)
{
    return (uint8_t)(r.number * 5 + r.producer + i);
}

static void record_put(struct bytes *out, struct sim_record r, uint32_t delta)
{
    struct bytes body = {0};
    bytes_int(&body, 0, 1);
    bytes_varint(&body, 0);
    bytes_varint(&body, delta);
    bytes_varint(&body, -1);
    size_t fill = record_fill(r);
    bytes_varint(&body, (int64_t)(12 + fill));
    bytes_int(&body, r.producer, 4);
    bytes_int(&body, (int64_t)r.number, 8);
    for (size_t i = 0; i < fill; i++) {
        bytes_int(&body, record_byte(r, i), 1);
    }
    bytes_varint(&body, 0);
    bytes_varint(out, (int64_t)body.size);
    bytes_put(out, body.at, body.size);
    bytes_free(&body);
}

void batch_put(struct bytes *out, const struct sim_batch *b, int64_t now_ms)
{
    size_t start = out->size;
    bytes_int(out, b->base_offset, 8);
    bytes_int(out, 0, 4); /* length, below */
    bytes_int(out, -1, 4);
    bytes_int(out, 2, 1);
    bytes_int(out, 0, 4); /* CRC, below */
    bytes_int(out, 0, 2);
    bytes_int(out, b->count - 1, 4);
    bytes_int(out, now_ms, 8);
    bytes_int(out, now_ms, 8);
    bytes_int(out, b->producer_id, 8);
    bytes_int(out, b->producer_epoch, 2);
    bytes_int(out, b->base_sequence, 4);
    bytes_int(out, b->count, 4);
    for (uint32_t i = 0; i < b->count; i++) {
        record_put(out, (struct sim_record){b->first.producer, b->first.number + i}, i);
    }
    uint8_t *at = out->at + start;
    size_t size = out->size - start;
    bytes_poke(at + BATCH_LENGTH_AT, (int64_t)size - 12, 4);
    bytes_poke(at + BATCH_CRC_AT, crc32c(0, at + BATCH_ATTRIBUTES_AT, size - BATCH_ATTRIBUTES_AT),
               4);
}

/* One record: what its producer wrote, or the world is wrong. */
static struct sim_record record_look(struct look *l, uint32_t delta)
{
    struct slice body = look_bytes(l, look_varint(l));
    struct look in = {.at = body.at, .left = body.size};
    CHECK(!l->bad);
    int64_t attributes = look_int(&in, 1);
    (void)look_varint(&in); /* timestamp delta */
    int64_t offset_delta = look_varint(&in);
    int64_t key_size = look_varint(&in);
    CHECK(attributes == 0 && offset_delta == delta && key_size == -1);
    struct slice value = look_bytes(&in, look_varint(&in));
    int64_t headers = look_varint(&in);
    CHECK(!in.bad && in.left == 0 && headers == 0 && value.size >= 12);
    struct look v = {.at = value.at, .left = value.size};
    struct sim_record r = {.producer = (uint32_t)look_int(&v, 4)};
    r.number = (uint64_t)look_int(&v, 8);
    CHECK(v.left == record_fill(r));
    for (size_t i = 0; v.left > 0; i++) {
        CHECK((uint8_t)look_int(&v, 1) == record_byte(r, i));
    }
    return r;
}

bool batch_look(struct look *l, struct sim_batch *out)
{
    if (l->left < BATCH_HEAD) { return false; }
    struct look head = *l;
    *out = (struct sim_batch){.base_offset = look_int(&head, 8)};
    int64_t length = look_int(&head, 4);
    CHECKF(length >= BATCH_HEAD - 12, "a batch of length %" PRId64 " was served", length);
    if (l->left < (uint64_t)length + 12) { return false; }
    struct slice whole = look_bytes(l, length + 12);
    (void)look_int(&head, 4); /* leader epoch */
    int64_t magic = look_int(&head, 1);
    uint32_t crc = (uint32_t)look_int(&head, 4);
    CHECK(magic == 2);
    uint32_t sum = crc32c(0, whole.at + BATCH_ATTRIBUTES_AT, whole.size - BATCH_ATTRIBUTES_AT);
    out->is_rotten = crc != sum;
    int64_t attributes = look_int(&head, 2);
    int64_t last_delta = look_int(&head, 4);
    (void)look_int(&head, 8);
    (void)look_int(&head, 8);
    out->producer_id = look_int(&head, 8);
    out->producer_epoch = (int16_t)look_int(&head, 2);
    out->base_sequence = (int32_t)look_int(&head, 4);
    out->count = (uint32_t)look_int(&head, 4);
    if (out->is_rotten) { return true; }
    CHECK(attributes == 0 && out->count > 0 && last_delta == (int64_t)out->count - 1);
    struct look records = {.at = whole.at + BATCH_HEAD, .left = whole.size - BATCH_HEAD};
    for (uint32_t i = 0; i < out->count; i++) {
        struct sim_record r = record_look(&records, i);
        if (i == 0) { out->first = r; }
        CHECK(r.producer == out->first.producer && r.number == out->first.number + i);
    }
    CHECK(records.left == 0);
    return true;
}
