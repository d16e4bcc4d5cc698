/* frame.h - the few Kafka frames the load generator speaks, written by hand.
 *
 * Place:      bench/wire. Shares no code with the broker on purpose: a mistake in the broker's
 *             codec must not cancel itself out here. Versions: the newest without compact
 *             encodings, understood by Kafka 4.4 and by Barnabas: Produce 7, Fetch 11, ListOffsets
 *             1, Metadata 1, CreateTopics 4, DeleteTopics 3.
 * Ownership:  writers fill the caller's buffer; readers borrow it.
 * Failure:    a writer ends the program when its buffer is too small (our bug). A reader that runs
 *             over the end goes bad, yields zeros, and the answer_* function returns false. */
#ifndef BENCH_WIRE_FRAME_H
#define BENCH_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOPIC_NAME_MAX = 80,
    FRAME_SIZE_PREFIX = 4,
    BATCH_HEAD_BYTES = 61,
    FRAME_BYTES_MAX = 100 * 1024 * 1024, /* more than any broker's answer here can be */
};

/* Prints to stderr and ends the program with status 1. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct writer {
    uint8_t *at;
    size_t size;
    size_t size_max;
};

struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};

struct target {
    char topic[TOPIC_NAME_MAX];
    int32_t partition;
};

/* One record batch (magic 2, no compression, no producer id), built once and sent many times. */
struct batch {
    uint8_t *at;
    uint32_t size;
    uint32_t records;
};

struct produce_answer {
    int32_t correlation;
    int16_t error;
    int64_t base_offset;
};

struct fetch_answer {
    int32_t correlation;
    int16_t error; /* of the whole answer or of its partition */
    int64_t high_watermark;
    uint32_t records_size;
    size_t records_pos; /* in the frame, after its size prefix */
};

struct fetch_args {
    int32_t correlation;
    const struct target *target;
    int64_t offset;
    int32_t wait_ms;
    int32_t bytes_min;
    int32_t bytes_max;
};

uint32_t crc32c(const uint8_t *at, size_t size);

/* As many records of 'value_bytes' as fit into 'batch_bytes', at least one. */
struct batch batch_build(uint32_t batch_bytes, uint32_t value_bytes, int64_t now_ms);

/* Checks that 'at' starts with whole batches equal to 'want' but for offset and leader epoch, with
 * consecutive offsets from 'offset' and correct sums. Returns their count, -1 if one is wrong. */
int64_t batch_check_run(const struct batch *want, const uint8_t *at, size_t size, int64_t offset);

/* All return the number of bytes written, size prefix included. */
size_t frame_produce_head(uint8_t *out, size_t out_max, int32_t correlation, int16_t acks,
                          const struct target *target, uint32_t records_size);
size_t frame_fetch(uint8_t *out, size_t out_max, const struct fetch_args *args);
size_t frame_metadata(uint8_t *out, size_t out_max, int32_t correlation);
size_t frame_list_offset(uint8_t *out, size_t out_max, int32_t correlation,
                         const struct target *target);
size_t frame_create_topic(uint8_t *out, size_t out_max, int32_t correlation, const char *topic,
                          int32_t partitions_count);
size_t frame_delete_topic(uint8_t *out, size_t out_max, int32_t correlation, const char *topic);

/* 'frame' follows the size prefix. For answer_fetch it may be only the frame's beginning, up to
 * the records. */
bool answer_produce(const uint8_t *frame, size_t size, struct produce_answer *out);
bool answer_fetch(const uint8_t *frame, size_t size, struct fetch_answer *out);
bool answer_metadata(const uint8_t *frame, size_t size, int32_t *brokers_count);
bool answer_list_offset(const uint8_t *frame, size_t size, int16_t *error, int64_t *offset);
bool answer_topic_error(const uint8_t *frame, size_t size, int16_t *error);

#endif
