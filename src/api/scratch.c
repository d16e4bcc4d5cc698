/* scratch.c - compression contexts for whoever runs a request: a few kept, taken and given without
 * a lock. */
#include "api/api_int.h"

#include "wire/codec.h"

struct codec_scratch *api_scratch_take(struct api *api)
{
    for (size_t i = 0; i < API_SCRATCHES; i++) {
        struct codec_scratch *s =
            atomic_exchange_explicit(&api->scratches[i], NULL, memory_order_acquire);
        if (s) { return s; }
    }
    return codec_scratch_create();
}

void api_scratch_give(struct api *api, struct codec_scratch *s)
{
    if (!s) { return; }
    for (size_t i = 0; i < API_SCRATCHES; i++) {
        struct codec_scratch *empty = NULL;
        /* Release: pairs with the acquire in api_scratch_take(). */
        if (atomic_compare_exchange_strong_explicit(&api->scratches[i], &empty, s,
                                                    memory_order_release, memory_order_relaxed)) {
            return;
        }
    }
    codec_scratch_destroy(s);
}

void api_scratches_destroy(struct api *api)
{
    for (size_t i = 0; i < API_SCRATCHES; i++) {
        codec_scratch_destroy(atomic_exchange(&api->scratches[i], NULL));
    }
}
