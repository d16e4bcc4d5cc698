/* properties_fuzz.c - a server.properties file.
 *
 * Oracles: a refusal always has a message; what was accepted can be parsed a second time. */
#include "broker/properties.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char message[PROPERTIES_MESSAGE_SIZE] = "";
    for (int round = 0; round < 2; round++) {
        struct config_set set;
        config_set_init(&set);
        enum err e = properties_parse(slice_of(data, size), "fuzz.properties", NULL, &set, message);
        CHECK(e == ERR_OK || message[0] != '\0');
        CHECK(memchr(message, '\0', sizeof message) != NULL);
        config_set_fini(&set);
        if (e) { break; }
    }
    return 0;
}
