/* repeats.c - what a request names more than once, in the order of n log n however large it is. */
#include "api/api_int.h"

#include "base/check.h"

#include <stdlib.h>

static int key_order(const void *a, const void *b, void *ctx)
{
    const struct api_key *keys = ctx;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct api_key *x = &keys[i], *y = &keys[k];
    int order = (x->kind > y->kind) - (x->kind < y->kind);
    if (!order) { order = slice_cmp(x->text, y->text); }
    return order ? order : (i > k) - (i < k); /* the first of its like leads */
}

static bool is_same(const struct api_key *a, const struct api_key *b)
{
    return a->kind != API_KEY_NONE && a->kind == b->kind && slice_eq(a->text, b->text);
}

const struct api_place *api_places(struct arena *a, struct api_key *keys, size_t count)
{
    CHECK(count < UINT32_MAX);
    a->limit += count * (sizeof(uint32_t) + sizeof(struct api_place)) + 64;
    uint32_t *order = arena_array(a, count, sizeof *order);
    struct api_place *places = arena_array(a, count, sizeof *places);
    if (!order || !places) { return NULL; }
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    qsort_r(order, count, sizeof *order, key_order, keys);
    for (size_t i = 0; i < count; i++) {
        struct api_place *p = &places[order[i]];
        p->first = order[i];
        if (i == 0 || !is_same(&keys[order[i - 1]], &keys[order[i]])) { continue; }
        p->first = places[order[i - 1]].first;
        p->is_repeated = places[p->first].is_repeated = true;
    }
    return places;
}
