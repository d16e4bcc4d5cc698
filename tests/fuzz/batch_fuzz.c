/* batch_fuzz.c - one record batch: validated, walked, searched, rewritten.
 *
 * Input: a byte of flags (struct below), then the batch. Oracles: an accepted batch walks to as
 * many records as it says and the facts are those of its records; rewritten it holds the same and
 * is valid again; bytes that were refused can still be walked without harm. */
#include "base/crc32c.h"
#include "fuzz/fuzz.h"
#include "wire/batch.h"

#include <stdlib.h>

#define OUT_MAX ((uint64_t)1 << 20)

enum {
    FLAG_REPAIR = 1, /* length, magic and checksum are made right first */
    FLAG_APPEND_TIME = 2,
    FLAG_KEYS = 4,
    FLAG_FORCE = 8, /* rewrite to codec flags >> 4 */
};

static struct codec_scratch *scratch;
static struct wire_buf plain;
static struct wire_buf rewritten;

static void put_u32(uint8_t *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}

static void repair(uint8_t *at, size_t size)
{
    if (size < BATCH_HEADER_SIZE) { return; }
    put_u32(at + 8, (uint32_t)size - 12);
    at[16] = BATCH_MAGIC;
    put_u32(at + 17, crc32c(0, at + 21, size - 21));
}

struct seen {
    uint64_t bytes;
    int64_t max;
    int64_t max_offset;
    int32_t count;
    enum err err;
};

static struct seen walk(struct slice batch)
{
    struct seen s = {.max = BATCH_NO_TIME, .max_offset = 0};
    struct batch_iter it;
    struct batch_record r;
    s.err = batch_iter_open(&it, scratch, batch, OUT_MAX, &plain);
    if (s.err) { return s; }
    while (batch_iter_next(&it, &r)) {
        struct slice key;
        struct slice value;
        uint32_t headers = 0;
        while (batch_header_next(&r.headers, &key, &value)) {
            headers++;
        }
        CHECK(headers == r.headers_count);
        if (r.timestamp > s.max) {
            s.max = r.timestamp;
            s.max_offset = r.offset;
        }
        s.bytes += r.size;
        s.count++;
    }
    s.err = it.err;
    return s;
}

static void check_accepted(const struct batch_rules *rules, struct slice batch,
                           struct batch_facts *f)
{
    struct seen s = walk(batch);
    CHECK(s.err == ERR_OK);
    CHECK(s.count == f->header.records_count);
    CHECK(s.bytes == f->records_bytes);
    if (!rules->log_append_time) {
        CHECK(s.max == f->max_timestamp);
        CHECK(s.max < 0 || s.max_offset == f->max_timestamp_delta);
        struct batch_found found;
        enum err e = batch_find_max_time(scratch, batch, &found);
        CHECK(s.max < 0 || (e == ERR_OK && found.offset == s.max_offset));
        e = batch_find_time(scratch, batch, s.max, 0, &found);
        CHECK(s.max < 0 || (e == ERR_OK && found.timestamp == s.max));
    }
    if (!f->recompress) {
        CHECK(batch_check_crc(batch) == ERR_OK);
        return;
    }
    enum batch_reject r = batch_recompress(rules, scratch, batch, f, &rewritten);
    CHECK(r == BATCH_OK);
    struct slice made = wire_buf_slice(&rewritten);
    CHECK(batch_check_crc(made) == ERR_OK);
    struct seen again = walk(made);
    CHECK(again.err == ERR_OK && again.count == s.count && again.bytes == s.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!scratch) {
        scratch = codec_scratch_create();
        wire_buf_init(&plain, 4 * OUT_MAX);
        wire_buf_init(&rewritten, 4 * OUT_MAX);
    }
    if (size < 1) { return 0; }
    unsigned flags = data[0];
    size -= 1;
    uint8_t *batch = malloc(size ? size : 1);
    CHECK(scratch && batch);
    memcpy(batch, data + 1, size);
    if (flags & FLAG_REPAIR) { repair(batch, size); }
    struct batch_rules rules = {
        .now_ms = 1700000000000,
        .time_before_max_ms = INT64_MAX,
        .time_after_max_ms = INT64_MAX,
        .decompressed_bytes_max = OUT_MAX,
        .log_append_time = (flags & FLAG_APPEND_TIME) != 0,
        .keys_required = (flags & FLAG_KEYS) != 0,
        .zstd_allowed = true,
        .transactional_allowed = true,
        .control_allowed = true,
        .codec_forced = (flags & FLAG_FORCE) != 0,
        .codec = (enum codec)((flags >> 4) % CODEC_COUNT),
        .level = CODEC_LEVEL_DEFAULT,
    };
    struct batch_facts f;
    enum batch_reject r = batch_validate(&rules, scratch, (struct mslice){batch, size}, &f);
    CHECK((f.message == NULL) == (r == BATCH_OK));
    if (r == BATCH_OK) {
        check_accepted(&rules, slice_of(batch, size), &f);
    } else {
        struct batch_found found;
        (void)walk(slice_of(batch, size));
        err_ignore(batch_find_time(scratch, slice_of(batch, size), 5, 0, &found), "bad bytes");
    }
    free(batch);
    return 0;
}
