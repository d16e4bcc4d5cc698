/* request_fuzz.c - what a client sends behind the four bytes of size: header, then the body of
 * whatever API and version the header names. */
#include "base/arena.h"
#include "fuzz/fuzz.h"
#include "fuzz/message_oracle.h"
#include "wire/gen/request_header.h"
#include "wire/reader.h"

static const struct wire_message *find_request(int16_t key)
{
    for (size_t i = 0; i < wire_messages_count; i++) {
        if (wire_messages[i].kind == WIRE_REQUEST && wire_messages[i].key == key) {
            return &wire_messages[i];
        }
    }
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_reader r;
    wire_reader_init(&r, slice_of(data, size));
    int16_t key = wire_i16(&r);
    int16_t version = wire_i16(&r);
    const struct wire_api *api = r.bad ? NULL : wire_api_find(key);
    if (!api || version < api->version_min || version > api->version_max) { return 0; }
    struct arena a;
    struct request_header h;
    size_t budget = WIRE_DECODE_BUDGET(size);
    arena_init(&a, 4096, budget);
    wire_reader_init(&r, slice_of(data, size));
    enum err e = request_header_decode(&r, wire_api_request_header_version(api, version), &a, &h);
    CHECK(a.total <= budget);
    if (!e) {
        const struct wire_message *msg = find_request(key);
        CHECKF(msg, "%s has no request", api->name);
        message_oracle(msg, version, slice_of(r.at, wire_left(&r)));
    }
    arena_fini(&a);
    return 0;
}
