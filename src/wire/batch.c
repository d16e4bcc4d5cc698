/* batch.c - the header of a batch: decode, encode, CRC, in-place setters. See batch.h. */
#include "wire/batch.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "wire/batch_int.h"

_Static_assert(BATCH_AT_RECORDS_COUNT + 4 == BATCH_HEADER_SIZE, "the header's fields fill it");

int32_t batch_last_sequence(const struct batch_header *h)
{
    if (h->base_sequence < 0) { return -1; }
    uint32_t sum = (uint32_t)h->base_sequence + (uint32_t)h->last_offset_delta;
    return (int32_t)(sum & INT32_MAX); /* 2^31 becomes 0 */
}

enum err batch_peek(struct slice bytes, struct batch_header *out)
{
    *out = (struct batch_header){.magic = -1, .producer_id = BATCH_NO_PRODUCER};
    if (bytes.size <= BATCH_AT_MAGIC) { return ERR_RANGE; }
    const uint8_t *p = bytes.at;
    out->base_offset = (int64_t)batch_get64(p + BATCH_AT_BASE_OFFSET);
    out->length = (int32_t)batch_get32(p + BATCH_AT_LENGTH);
    out->magic = (int8_t)p[BATCH_AT_MAGIC];
    if (out->magic != BATCH_MAGIC) { return ERR_UNSUPPORTED; }
    if (out->length < BATCH_HEADER_SIZE - BATCH_LENGTH_OVERHEAD ||
        out->length > INT32_MAX - BATCH_LENGTH_OVERHEAD) {
        return ERR_MALFORMED;
    }
    if (bytes.size < BATCH_HEADER_SIZE) { return ERR_RANGE; }
    out->leader_epoch = (int32_t)batch_get32(p + BATCH_AT_LEADER_EPOCH);
    out->crc = batch_get32(p + BATCH_AT_CRC);
    out->attributes = (int16_t)batch_get16(p + BATCH_AT_ATTRIBUTES);
    out->last_offset_delta = (int32_t)batch_get32(p + BATCH_AT_LAST_OFFSET_DELTA);
    out->base_timestamp = (int64_t)batch_get64(p + BATCH_AT_BASE_TIMESTAMP);
    out->max_timestamp = (int64_t)batch_get64(p + BATCH_AT_MAX_TIMESTAMP);
    out->producer_id = (int64_t)batch_get64(p + BATCH_AT_PRODUCER_ID);
    out->producer_epoch = (int16_t)batch_get16(p + BATCH_AT_PRODUCER_EPOCH);
    out->base_sequence = (int32_t)batch_get32(p + BATCH_AT_BASE_SEQUENCE);
    out->records_count = (int32_t)batch_get32(p + BATCH_AT_RECORDS_COUNT);
    return ERR_OK;
}

void batch_put_header(uint8_t *p, const struct batch_header *h)
{
    batch_put64(p + BATCH_AT_BASE_OFFSET, (uint64_t)h->base_offset);
    batch_put32(p + BATCH_AT_LENGTH, (uint32_t)h->length);
    batch_put32(p + BATCH_AT_LEADER_EPOCH, (uint32_t)h->leader_epoch);
    p[BATCH_AT_MAGIC] = (uint8_t)h->magic;
    batch_put16(p + BATCH_AT_ATTRIBUTES, (uint16_t)h->attributes);
    batch_put32(p + BATCH_AT_LAST_OFFSET_DELTA, (uint32_t)h->last_offset_delta);
    batch_put64(p + BATCH_AT_BASE_TIMESTAMP, (uint64_t)h->base_timestamp);
    batch_put64(p + BATCH_AT_MAX_TIMESTAMP, (uint64_t)h->max_timestamp);
    batch_put64(p + BATCH_AT_PRODUCER_ID, (uint64_t)h->producer_id);
    batch_put16(p + BATCH_AT_PRODUCER_EPOCH, (uint16_t)h->producer_epoch);
    batch_put32(p + BATCH_AT_BASE_SEQUENCE, (uint32_t)h->base_sequence);
    batch_put32(p + BATCH_AT_RECORDS_COUNT, (uint32_t)h->records_count);
}

void batch_put_crc(struct mslice batch)
{
    uint32_t crc =
        crc32c(0, batch.at + BATCH_AT_ATTRIBUTES, batch.size - (size_t)BATCH_AT_ATTRIBUTES);
    batch_put32(batch.at + BATCH_AT_CRC, crc);
}

enum err batch_check_crc(struct slice bytes)
{
    struct batch_header h;
    enum err e = batch_peek(bytes, &h);
    if (e) { return e; }
    if (bytes.size < batch_size(&h)) { return ERR_RANGE; }
    uint32_t crc =
        crc32c(0, bytes.at + BATCH_AT_ATTRIBUTES, batch_size(&h) - (size_t)BATCH_AT_ATTRIBUTES);
    return crc == h.crc ? ERR_OK : ERR_CORRUPT;
}

void batch_set_base_offset(uint8_t *batch, int64_t base_offset)
{
    batch_put64(batch + BATCH_AT_BASE_OFFSET, (uint64_t)base_offset);
}

void batch_set_leader_epoch(uint8_t *batch, int32_t leader_epoch)
{
    batch_put32(batch + BATCH_AT_LEADER_EPOCH, (uint32_t)leader_epoch);
}

void batch_set_max_timestamp(struct mslice batch, bool log_append_time, int64_t max_timestamp)
{
    CHECK(batch.size >= BATCH_HEADER_SIZE);
    unsigned attributes = batch_get16(batch.at + BATCH_AT_ATTRIBUTES);
    attributes = log_append_time ? attributes | BATCH_LOG_APPEND_TIME
                                 : attributes & ~(unsigned)BATCH_LOG_APPEND_TIME;
    batch_put16(batch.at + BATCH_AT_ATTRIBUTES, (uint16_t)attributes);
    batch_put64(batch.at + BATCH_AT_MAX_TIMESTAMP, (uint64_t)max_timestamp);
    batch_put_crc(batch);
}
