/* fuzz.h - what every fuzz target is: one function that takes bytes.
 *
 * Built by clang with BARNABAS_FUZZ it is linked with libFuzzer; in all other builds with replay.c,
 * which runs the committed corpus as a test. Oracles are CHECKs. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include "base/check.h"
#include "base/slice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
