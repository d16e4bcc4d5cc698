/* bytes.h - Kafka's wire by hand: what the checker writes and reads.
 *
 * Place:   sim/broker. Nothing of src/wire is used here, so that one mistake does not hide the
 * other: only versions without compact types, only batches without compression. */
#ifndef BROKER_BYTES_H
#define BROKER_BYTES_H

#include "base/slice.h"

#include <stdbool.h>

/* Grows as needed; zeroed it is empty. C allocator. */
struct bytes {
    uint8_t *at;
    size_t size;
    size_t capacity;
};

void bytes_free(struct bytes *b);
void bytes_put(struct bytes *b, const void *data, size_t size);
void bytes_drop(struct bytes *b, size_t size); /* from the front */
void bytes_int(struct bytes *b, int64_t value, size_t size); /* big-endian */
void bytes_text(struct bytes *b, const char *text); /* int16 length; NULL: null */

/* Reads; once something is missing it stays bad and yields zeros. */
struct look {
    const uint8_t *at;
    size_t left;
    bool bad;
};

int64_t look_int(struct look *l, size_t size);
int64_t look_varint(struct look *l); /* zigzag */
struct slice look_bytes(struct look *l, int64_t size); /* negative: null */
struct slice look_text(struct look *l);

/* ---- records ---- */

struct sim_record {
    uint32_t producer; /* of the harness; unique in a run */
    uint64_t number; /* rises by one with each record of a producer */
};

#define RECORD_FILL_MAX 300

/* What a record takes in a batch at least. */
size_t record_size_min(struct sim_record r);

struct sim_batch {
    int64_t base_offset;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    uint32_t count;
    struct sim_record first; /* the others follow in number */
    bool is_rotten; /* the CRC does not match: only base_offset and count are set */
};

/* One batch with records first.number, first.number + 1, ... */
void batch_put(struct bytes *out, const struct sim_batch *b, int64_t now_ms);

/* Reads one whole batch: framing, and that each record is what its producer wrote. False at the end
 * (nothing or only a part of a batch is left). CHECKs what may never be served. */
bool batch_look(struct look *l, struct sim_batch *out);

#endif
