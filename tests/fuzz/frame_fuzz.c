/* frame_fuzz.c - a byte stream cut into frames, as a processor cuts it.
 *
 * Oracles: a frame's size is within the limit whatever the bytes say; the verdict on a prefix never
 * changes when more bytes come; foreign protocols are no valid frames under the usual limit. */
#include "fuzz/fuzz.h"
#include "net/net_int.h"

#define FRAME_MAX ((size_t)100 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 0;
    while (at < size) {
        size_t frame = 0;
        size_t have = size - at;
        enum net_frame_verdict v = net_frame_size(data + at, have, FRAME_MAX, &frame);
        const char *foreign = net_frame_foreign(data + at, have);
        CHECK((v == NET_FRAME_SHORT) == (have < 4));
        if (v != NET_FRAME_OK) {
            CHECK(frame == 0);
            break;
        }
        CHECK(!foreign);
        CHECK(frame >= NET_FRAME_BYTES_MIN && frame <= FRAME_MAX);
        size_t same = 0;
        CHECK(net_frame_size(data + at, 4, FRAME_MAX, &same) == v && same == frame);
        CHECK(net_frame_size(data + at, have, frame - 1, &same) == NET_FRAME_BAD);
        if (frame > have - 4) { break; }
        at += 4 + frame;
    }
    return 0;
}
