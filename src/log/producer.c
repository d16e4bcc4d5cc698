/* producer.c - see producer.h.
 *
 * Entries are dense; an open-addressing table of 32-bit indexes finds them by producer id (linear
 * probing, load at most one half, removal closes the gap by shifting back). The order of entries
 * depends on the order of calls only, so simulated runs repeat. */
#include "log/producer.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/map.h"
#include "base/mem.h"
#include "wire/reader.h"

#define SLOTS_COUNT_MIN 8u
#define SNAPSHOT_VERSION 1
#define SNAPSHOT_HEADER_SIZE 6u /* version, CRC: what the CRC does not cover */
#define SNAPSHOT_ENTRY_SIZE 46u

_Static_assert(sizeof(struct producer_entry) <= 184, "with its hash slots a producer takes 192");

void producers_init(struct producers *p, uint32_t count_max)
{
    CHECK(count_max > 0 && count_max <= 1u << 30);
    *p = (struct producers){.count_max = count_max};
}

void producers_fini(struct producers *p)
{
    mem_free(p->entries);
    mem_free(p->slots);
    *p = (struct producers){.count_max = p->count_max};
}

void producers_clear(struct producers *p)
{
    producers_fini(p);
}

static uint32_t slot_home(const struct producers *p, int64_t producer_id)
{
    return (uint32_t)hash_u64((uint64_t)producer_id) & (p->slots_count - 1);
}

/* The slot that holds the id, or the empty one where it belongs. */
static uint32_t slot_find(const struct producers *p, int64_t producer_id)
{
    uint32_t s = slot_home(p, producer_id);
    while (p->slots[s] != 0 && p->entries[p->slots[s] - 1].producer_id != producer_id) {
        s = (s + 1) & (p->slots_count - 1);
    }
    return s;
}

static struct producer_entry *find(const struct producers *p, int64_t producer_id)
{
    if (p->count == 0) { return NULL; }
    uint32_t i = p->slots[slot_find(p, producer_id)];
    return i ? &p->entries[i - 1] : NULL;
}

const struct producer_entry *producers_find(const struct producers *p, int64_t producer_id)
{
    return find(p, producer_id);
}

static enum err grow_slots(struct producers *p, uint32_t count)
{
    uint32_t want = p->slots_count ? p->slots_count : SLOTS_COUNT_MIN;
    while (want < count * 2) {
        want *= 2;
    }
    if (want == p->slots_count) { return ERR_OK; }
    uint32_t *slots = mem_array(want, sizeof *slots);
    if (!slots) { return ERR_NOMEM; }
    mem_free(p->slots);
    p->slots = slots;
    p->slots_count = want;
    for (uint32_t i = 0; i < p->count; i++) {
        p->slots[slot_find(p, p->entries[i].producer_id)] = i + 1;
    }
    return ERR_OK;
}

/* Room for count producers in all. */
static enum err reserve(struct producers *p, uint32_t count)
{
    if (count > p->count_max) { return ERR_LIMIT; }
    if (count > p->capacity) {
        uint32_t want = p->capacity < 2 ? p->capacity + 1 : p->capacity + p->capacity / 2;
        if (want < count) { want = count; }
        if (want > p->count_max) { want = p->count_max; }
        struct producer_entry *e = mem_realloc(p->entries, want * sizeof *e);
        if (!e) { return ERR_NOMEM; }
        p->entries = e;
        p->capacity = want;
    }
    return grow_slots(p, count);
}

static enum err find_or_add(struct producers *p, int64_t producer_id, struct producer_entry **out)
{
    *out = find(p, producer_id);
    if (*out) { return ERR_OK; }
    enum err e = reserve(p, p->count + 1);
    if (e) { return e; }
    p->entries[p->count] = (struct producer_entry){
        .producer_id = producer_id,
        .last_timestamp = BATCH_NO_TIME,
        .txn_first_offset = -1,
        .coordinator_epoch = -1,
        .epoch = -1,
    };
    p->slots[slot_find(p, producer_id)] = p->count + 1;
    *out = &p->entries[p->count++];
    return ERR_OK;
}

/* Empties a slot and pulls later members of its run into the gap. */
static void slot_clear(struct producers *p, uint32_t gap)
{
    uint32_t mask = p->slots_count - 1;
    for (uint32_t s = (gap + 1) & mask; p->slots[s] != 0; s = (s + 1) & mask) {
        uint32_t home = slot_home(p, p->entries[p->slots[s] - 1].producer_id);
        if (((s - home) & mask) >= ((s - gap) & mask)) {
            p->slots[gap] = p->slots[s];
            gap = s;
        }
    }
    p->slots[gap] = 0;
}

static void remove_at(struct producers *p, uint32_t i)
{
    slot_clear(p, slot_find(p, p->entries[i].producer_id));
    uint32_t last = p->count - 1;
    if (i != last) {
        p->slots[slot_find(p, p->entries[last].producer_id)] = i + 1;
        p->entries[i] = p->entries[last];
    }
    p->count = last;
}

/* Gives memory back when the table has become much too large. */
static void shrink(struct producers *p)
{
    if (p->count == 0) {
        producers_clear(p);
    } else if (p->capacity > 1024 && p->count < p->capacity / 4) {
        struct producer_entry *e = mem_realloc(p->entries, p->count * sizeof *e);
        if (!e) { return; }
        p->entries = e;
        p->capacity = p->count;
    }
}

static int32_t sequence_next(int32_t sequence)
{
    return sequence == INT32_MAX ? 0 : sequence + 1;
}

static int32_t first_sequence(const struct producer_batch *b)
{
    uint32_t first = ((uint32_t)b->last_sequence - (uint32_t)b->offset_delta) & INT32_MAX;
    return (int32_t)first;
}

/* [PRO-1] */
static bool find_duplicate(const struct producer_entry *e, const struct batch_header *h,
                           struct producer_duplicate *dup)
{
    int32_t last = batch_last_sequence(h);
    for (uint32_t i = e->batches_count; i-- > 0;) {
        const struct producer_batch *b = &e->batches[i];
        if (b->last_sequence == last && first_sequence(b) == h->base_sequence) {
            *dup = (struct producer_duplicate){b->last_offset - b->offset_delta, b->last_offset,
                                               b->timestamp};
            return true;
        }
    }
    return false;
}

enum err producers_check(struct producers *p, const struct batch_header *h,
                         struct producer_duplicate *dup)
{
    *dup = (struct producer_duplicate){-1, -1, BATCH_NO_TIME};
    const struct producer_entry *e = find(p, h->producer_id);
    if (!e) {
        if (batch_is_transactional(h) && h->base_sequence != 0) {
            return ERR_OUT_OF_ORDER; /* [PRO-4] */
        }
        return reserve(p, p->count + 1);
    }
    if (h->producer_epoch < e->epoch) { return ERR_FENCED; }
    if (h->producer_epoch > e->epoch) {
        bool fresh = e->epoch < 0; /* [PRO-3], and [PRO-4] for what only a marker has named */
        return h->base_sequence == 0 || fresh ? ERR_OK : ERR_OUT_OF_ORDER;
    }
    if (find_duplicate(e, h, dup)) { return ERR_DUPLICATE; }
    int32_t expected = 0;
    if (e->batches_count > 0) {
        expected = sequence_next(e->batches[e->batches_count - 1].last_sequence); /* [PRO-2] */
    }
    return h->base_sequence == expected ? ERR_OK : ERR_OUT_OF_ORDER;
}

enum err producers_add(struct producers *p, const struct batch_header *h)
{
    if (!batch_has_producer(h)) { return ERR_OK; }
    struct producer_entry *e = NULL;
    enum err err = find_or_add(p, h->producer_id, &e);
    if (err) { return err; }
    if (h->producer_epoch != e->epoch) {
        e->epoch = h->producer_epoch;
        e->batches_count = 0;
    }
    e->last_timestamp = h->max_timestamp;
    if (batch_is_control(h)) { return ERR_OK; } /* a marker has no sequence */
    if (e->batches_count == PRODUCER_WINDOW) {
        memmove(e->batches, e->batches + 1, (PRODUCER_WINDOW - 1) * sizeof e->batches[0]);
        e->batches_count--;
    }
    e->batches[e->batches_count++] = (struct producer_batch){
        .last_offset = batch_last_offset(h),
        .timestamp = h->max_timestamp,
        .last_sequence = batch_last_sequence(h),
        .offset_delta = h->last_offset_delta,
    };
    return ERR_OK;
}

static void merge_entry(struct producer_entry *e, const struct producer_entry *older)
{
    e->txn_first_offset = older->txn_first_offset;
    e->coordinator_epoch = older->coordinator_epoch;
    if (e->epoch != older->epoch || older->batches_count == 0) { return; }
    const struct producer_batch *b = &older->batches[older->batches_count - 1];
    bool is_missing = e->batches_count == 0 || e->batches[0].last_offset > b->last_offset;
    if (!is_missing || e->batches_count == PRODUCER_WINDOW) { return; }
    memmove(e->batches + 1, e->batches, e->batches_count * sizeof e->batches[0]);
    e->batches[0] = *b;
    e->batches_count++;
}

enum err producers_merge_older(struct producers *p, const struct producers *older)
{
    for (uint32_t i = 0; i < older->count; i++) {
        struct producer_entry *e = find(p, older->entries[i].producer_id);
        if (e) {
            merge_entry(e, &older->entries[i]);
            continue;
        }
        enum err err = find_or_add(p, older->entries[i].producer_id, &e);
        if (err) { return err; }
        *e = older->entries[i];
    }
    return ERR_OK;
}

static bool is_expired(int64_t last_timestamp, int64_t now_ms, int64_t expiration_ms)
{
    int64_t age = 0;
    if (__builtin_sub_overflow(now_ms, last_timestamp, &age)) { return last_timestamp < 0; }
    return age >= expiration_ms;
}

uint32_t producers_expire(struct producers *p, int64_t now_ms, int64_t expiration_ms,
                          uint32_t scan_max)
{
    uint32_t removed = 0;
    uint32_t scan = scan_max < p->count ? scan_max : p->count;
    if (p->expire_next >= p->count) { p->expire_next = 0; }
    for (; scan > 0 && p->count > 0; scan--) {
        uint32_t i = p->expire_next;
        const struct producer_entry *e = &p->entries[i];
        if (e->txn_first_offset < 0 && is_expired(e->last_timestamp, now_ms, expiration_ms)) {
            remove_at(p, i); /* the last entry is now here, and not yet looked at */
            removed++;
        } else {
            p->expire_next++;
        }
        if (p->expire_next >= p->count) { p->expire_next = 0; }
    }
    if (removed > 0) { shrink(p); }
    return removed;
}

size_t producers_snapshot_size(const struct producers *p)
{
    return SNAPSHOT_HEADER_SIZE + 4u + (size_t)p->count * SNAPSHOT_ENTRY_SIZE;
}

enum err producers_snapshot_encode(const struct producers *p, struct wire_buf *out)
{
    const size_t start = out->size;
    struct wire_writer w;
    wire_writer_init_buf(&w, out);
    wire_put_i16(&w, SNAPSHOT_VERSION);
    wire_put_u32(&w, 0);
    wire_put_u32(&w, p->count);
    for (uint32_t i = 0; i < p->count; i++) {
        const struct producer_entry *e = &p->entries[i];
        struct producer_batch last = {-1, BATCH_NO_TIME, -1, 0};
        if (e->batches_count > 0) { last = e->batches[e->batches_count - 1]; }
        wire_put_i64(&w, e->producer_id);
        wire_put_i16(&w, e->epoch);
        wire_put_i32(&w, last.last_sequence);
        wire_put_i64(&w, last.last_offset);
        wire_put_i32(&w, last.offset_delta);
        wire_put_i64(&w, e->last_timestamp);
        wire_put_i32(&w, e->coordinator_epoch);
        wire_put_i64(&w, e->txn_first_offset);
    }
    enum err e = wire_writer_finish(&w);
    if (e) { return e; }
    uint8_t *at = out->at + start;
    uint32_t crc = crc32c(0, at + SNAPSHOT_HEADER_SIZE, out->size - start - SNAPSHOT_HEADER_SIZE);
    crc = __builtin_bswap32(crc);
    memcpy(at + 2, &crc, sizeof crc);
    return ERR_OK;
}

static enum err decode_entry(struct producers *p, struct wire_reader *r, int64_t now_ms,
                             int64_t expiration_ms)
{
    struct producer_entry e = {.producer_id = wire_i64(r), .epoch = wire_i16(r)};
    struct producer_batch b = {.last_sequence = wire_i32(r)};
    b.last_offset = wire_i64(r);
    b.offset_delta = wire_i32(r);
    e.last_timestamp = b.timestamp = wire_i64(r);
    e.coordinator_epoch = wire_i32(r);
    e.txn_first_offset = wire_i64(r);
    if (r->bad || e.producer_id < 0 || b.offset_delta < 0 || b.last_sequence < -1 ||
        (b.last_offset >= 0 && b.offset_delta > b.last_offset)) {
        return ERR_MALFORMED;
    }
    bool open = e.txn_first_offset >= 0;
    if (!open && expiration_ms >= 0 && is_expired(e.last_timestamp, now_ms, expiration_ms)) {
        return ERR_OK;
    }
    if (b.last_offset >= 0 && b.last_sequence >= 0) {
        e.batches[0] = b;
        e.batches_count = 1;
    }
    struct producer_entry *to = NULL;
    uint32_t before = p->count;
    enum err err = find_or_add(p, e.producer_id, &to);
    if (err) { return err; }
    if (p->count == before) { return ERR_MALFORMED; } /* twice the same producer */
    *to = e;
    return ERR_OK;
}

enum err producers_snapshot_decode(struct producers *p, struct slice file, int64_t now_ms,
                                   int64_t expiration_ms)
{
    producers_clear(p);
    struct wire_reader r;
    wire_reader_init(&r, file);
    int16_t version = wire_i16(&r);
    uint32_t crc = wire_u32(&r);
    if (r.bad) { return ERR_MALFORMED; }
    if (version != SNAPSHOT_VERSION) { return ERR_UNSUPPORTED; }
    struct slice rest = slice_sub(file, SNAPSHOT_HEADER_SIZE, file.size);
    if (crc32c(0, rest.at, rest.size) != crc) { return ERR_CORRUPT; }
    uint32_t count = wire_u32(&r);
    if (r.bad || wire_left(&r) != (size_t)count * SNAPSHOT_ENTRY_SIZE) { return ERR_MALFORMED; }
    for (uint32_t i = 0; i < count; i++) {
        enum err e = decode_entry(p, &r, now_ms, expiration_ms);
        if (e) {
            producers_clear(p);
            return e;
        }
    }
    return ERR_OK;
}
