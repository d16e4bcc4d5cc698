/* epochs_fuzz.c - a leader-epoch-checkpoint file.
 *
 * Oracles: what is accepted rises strictly and is written so that it reads the same; lookups agree
 * with the entries; what is refused leaves nothing. */
#include "fuzz/fuzz.h"
#include "log/epochs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct epochs e;
    struct epochs f;
    struct wire_buf out;
    epochs_init(&e);
    epochs_init(&f);
    wire_buf_init(&out, (size_t)1 << 26);
    enum err err = epochs_decode(&e, slice_of(data, size));
    CHECK(err == ERR_OK || e.count == 0);
    if (!err) {
        err = epochs_encode(&e, &out);
        CHECK(!err);
        err = epochs_decode(&f, wire_buf_slice(&out));
        CHECK(!err && f.count == e.count);
        for (uint32_t i = 0; i < e.count; i++) {
            const struct epoch_entry *x = epochs_at(&e, i);
            CHECK(x->epoch == epochs_at(&f, i)->epoch && x->start == epochs_at(&f, i)->start);
            CHECK(i == 0 || x->epoch > epochs_at(&e, i - 1)->epoch);
            CHECK(i == 0 || x->start > epochs_at(&e, i - 1)->start);
            CHECK(epochs_of_offset(&e, x->start) == x->epoch);
            CHECK(epochs_end_of(&e, x->epoch, INT64_MAX).epoch == x->epoch);
        }
        (void)epochs_truncate_start(&e, 1000);
        (void)epochs_truncate_end(&e, 2000);
    }
    epochs_fini(&e);
    epochs_fini(&f);
    wire_buf_fini(&out);
    return 0;
}
