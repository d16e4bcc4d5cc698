/* snapshot_fuzz.c - a producer snapshot file.
 *
 * Input: the file; a first byte of 1 has its checksum made right. Oracles: what is accepted encodes
 * and decodes to the same; the table finds every producer; what is refused leaves nothing. */
#include "base/crc32c.h"
#include "fuzz/fuzz.h"
#include "log/producer.h"

#include <stdlib.h>

static void check_same(const struct producers *a, const struct producers *b)
{
    CHECK(a->count == b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        const struct producer_entry *x = &a->entries[i];
        const struct producer_entry *y = producers_find(b, x->producer_id);
        CHECK(y && producers_find(a, x->producer_id) == x);
        CHECK(x->epoch == y->epoch && x->last_timestamp == y->last_timestamp);
        CHECK(x->batches_count == y->batches_count);
        CHECK(x->txn_first_offset == y->txn_first_offset);
        CHECK(x->coordinator_epoch == y->coordinator_epoch);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) { return 0; }
    size_t file_size = size - 1;
    uint8_t *file = malloc(file_size ? file_size : 1);
    CHECK(file != NULL);
    memcpy(file, data + 1, file_size);
    if (data[0] == 1 && file_size >= 6) {
        uint32_t crc = __builtin_bswap32(crc32c(0, file + 6, file_size - 6));
        memcpy(file + 2, &crc, sizeof crc);
    }
    struct producers a;
    struct producers b;
    producers_init(&a, 100000);
    producers_init(&b, 100000);
    enum err e = producers_snapshot_decode(&a, slice_of(file, file_size), 0, -1);
    CHECK(e == ERR_OK || a.count == 0);
    if (!e) {
        struct wire_buf out;
        wire_buf_init(&out, (size_t)1 << 26);
        e = producers_snapshot_encode(&a, &out);
        CHECK(!e && out.size == producers_snapshot_size(&a) && out.size == file_size);
        e = producers_snapshot_decode(&b, wire_buf_slice(&out), 0, -1);
        CHECK(!e);
        check_same(&a, &b);
        wire_buf_fini(&out);
        (void)producers_expire(&a, 1700000000000, 1000, 1000);
        CHECK(a.count <= b.count);
    }
    producers_fini(&a);
    producers_fini(&b);
    free(file);
    return 0;
}
