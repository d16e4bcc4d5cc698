/* repair.h - makes magic and checksums of record batches right, so that fuzzing gets further. */
#ifndef TESTS_FUZZ_REPAIR_H
#define TESTS_FUZZ_REPAIR_H

#include "base/crc32c.h"
#include "wire/batch.h"

#include <string.h>

/* Follows the lengths of the batches at 'at', as far as they make sense. */
static inline void repair(uint8_t *at, size_t size)
{
    while (size >= BATCH_HEADER_SIZE) {
        uint32_t length =
            (uint32_t)at[8] << 24 | (uint32_t)at[9] << 16 | (uint32_t)at[10] << 8 | at[11];
        if (length < BATCH_HEADER_SIZE - 12 || length > size - 12) { return; }
        at[16] = BATCH_MAGIC;
        uint32_t crc = __builtin_bswap32(crc32c(0, at + 21, length + 12 - 21));
        memcpy(at + 17, &crc, sizeof crc);
        at += length + 12;
        size -= length + 12;
    }
}

#endif
