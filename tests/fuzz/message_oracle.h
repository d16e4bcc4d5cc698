/* message_oracle.h - what must hold for the bytes of any message of any version. */
#ifndef TESTS_FUZZ_MESSAGE_ORACLE_H
#define TESTS_FUZZ_MESSAGE_ORACLE_H

#include "base/slice.h"
#include "wire/message.h"

/* Decodes within the budget of 8 times the size plus 64 KiB; when accepted, encodes to what it
 * measures, decodes again and encodes to the same bytes; prints. */
void message_oracle(const struct wire_message *msg, int version, struct slice bytes);

#endif
