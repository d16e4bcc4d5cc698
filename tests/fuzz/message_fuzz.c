/* message_fuzz.c - the bytes of every message: requests, responses, keys and values of internal
 * topics, metadata records.
 *
 * Input: two bytes for the message, one for the version, then its bytes. */
#include "fuzz/fuzz.h"
#include "fuzz/message_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) { return 0; }
    size_t index = ((size_t)data[0] << 8 | data[1]) % wire_messages_count;
    const struct wire_message *msg = &wire_messages[index];
    if (msg->version_max < msg->version_min) { return 0; }
    int version = msg->version_min + data[2] % (msg->version_max - msg->version_min + 1);
    message_oracle(msg, version, slice_of(data + 3, size - 3));
    return 0;
}
