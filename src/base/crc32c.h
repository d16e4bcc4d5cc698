/* crc32c.h - CRC-32C (Castagnoli) of record batches and of our own files, by ISA-L. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of the bytes; chain by passing the previous result, start with 0. */
uint32_t crc32c(uint32_t crc, const void *at, size_t size);

#endif
