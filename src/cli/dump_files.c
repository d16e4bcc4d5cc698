/* dump_files.c - the small files beside the segments: indexes, producers, epochs, checkpoints.
 *
 * Place:      cli/, private to dump-log.
 * Thread:     main.
 * Format:     docs/STORAGE.md. Indexes: 8 bytes (relative offset, position) or 12 (time, relative
 *             offset) an entry; a file that Kafka has open ends in zeros that it reserved. */
#include "cli/dump.h"

#include "base/mem.h"
#include "log/epochs.h"
#include "log/log.h"
#include "log/producer.h"
#include "wire/gen/aborted_txn.h"
#include "wire/reader.h"

#include <inttypes.h>
#include <stdlib.h>

#define INDEX_ENTRY_SIZE 8u
#define TIME_ENTRY_SIZE 12u
#define ABORTED_ENTRY_SIZE 34u

/* Reads the whole file. False: said. */
static bool read_whole(struct dump *d)
{
    if (d->size <= DUMP_BYTES_MAX) { return dump_read(d, 0, (size_t)d->size); }
    dump_problem(d, 0, "the file is too long");
    return false;
}

/* Kafka makes its text files empty and fills them later. */
static bool is_unwritten(struct dump *d)
{
    if (d->size > 0) { return false; }
    dump_emit(d, "unwritten", json_object());
    return true;
}

/* Whole entries of the file; what is left behind them is a problem. */
static size_t entries_of(struct dump *d, size_t entry_size)
{
    size_t count = d->bytes.size / entry_size, left = d->bytes.size % entry_size;
    if (left) { dump_problem(d, count * entry_size, "%zu bytes at the end are no entry", left); }
    return count;
}

static bool is_zero(const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (at[i]) { return false; }
    }
    return true;
}

/* From here on all is zero: entry i begins the reserved tail (the first entry may be zero itself).
 */
static bool is_tail(struct dump *d, size_t i, size_t entry_size)
{
    const uint8_t *at = d->bytes.at + i * entry_size;
    size_t left = d->bytes.size - i * entry_size;
    if (!is_zero(at, entry_size) || !is_zero(at, left)) { return false; }
    if (i == 0 && left == entry_size) { return false; }
    dump_emit(d, "reserved",
              json_pack("{s:I, s:I}", "position", (json_int_t)(i * entry_size), "bytes",
                        (json_int_t)left));
    return true;
}

/* ---- indexes ---- */

/* The segment beside an index; NULL when it is not there. */
static struct sys_file *open_segment(struct dump *d, uint64_t *size)
{
    char path[DUMP_PATH_SIZE];
    struct sys_file *f = NULL;
    const char *dot = strstr(d->name, ".index");
    if (!dot) { return NULL; }
    int n = snprintf(path, sizeof path, "%.*s.log%s", (int)(dot - d->path), d->path, dot + 6);
    if (n < 0 || (size_t)n >= sizeof path) { return NULL; }
    if (sys_file_open(d->sys, path, SYS_READ, &f)) { return NULL; }
    if (sys_file_size(f, size)) {
        sys_file_unref(f);
        return NULL;
    }
    return f;
}

/* Whether a batch begins at pos that can hold the offset. */
static bool points_at_batch(struct sys_file *segment, uint64_t segment_size, uint64_t pos,
                            int64_t offset)
{
    uint8_t head[BATCH_HEADER_SIZE];
    size_t got = 0;
    struct batch_header h;
    if (pos >= segment_size) { return false; }
    if (sys_file_read(segment, head, sizeof head, pos, &got) || got < sizeof head) { return false; }
    return !batch_peek(slice_of(head, got), &h) && h.base_offset <= offset;
}

void dump_index(struct dump *d)
{
    if (!read_whole(d)) { return; }
    int64_t base = dump_base_offset(d);
    uint64_t segment_size = 0;
    struct sys_file *segment = base < 0 ? NULL : open_segment(d, &segment_size);
    size_t count = entries_of(d, INDEX_ENTRY_SIZE);
    uint32_t last_offset = 0, last_pos = 0;
    for (size_t i = 0; i < count && !is_tail(d, i, INDEX_ENTRY_SIZE); i++) {
        struct wire_reader r;
        wire_reader_init(&r, slice_of(d->bytes.at + i * INDEX_ENTRY_SIZE, INDEX_ENTRY_SIZE));
        uint32_t relative = wire_u32(&r), pos = wire_u32(&r);
        int64_t offset = (base < 0 ? 0 : base) + relative;
        dump_emit(
            d, "entry",
            json_pack("{s:I, s:I}", "offset", (json_int_t)offset, "position", (json_int_t)pos));
        if (i > 0 && (relative <= last_offset || pos <= last_pos)) {
            dump_problem(d, i * INDEX_ENTRY_SIZE, "entries do not rise");
        }
        if (segment && !points_at_batch(segment, segment_size, pos, offset)) {
            dump_problem(d, i * INDEX_ENTRY_SIZE,
                         "no batch for offset %" PRId64 " begins at %" PRIu32 " of the segment",
                         offset, pos);
        }
        last_offset = relative;
        last_pos = pos;
    }
    sys_file_unref(segment);
}

void dump_time_index(struct dump *d)
{
    if (!read_whole(d)) { return; }
    int64_t base = dump_base_offset(d), last_time = INT64_MIN;
    uint32_t last_offset = 0;
    size_t count = entries_of(d, TIME_ENTRY_SIZE);
    for (size_t i = 0; i < count && !is_tail(d, i, TIME_ENTRY_SIZE); i++) {
        struct wire_reader r;
        wire_reader_init(&r, slice_of(d->bytes.at + i * TIME_ENTRY_SIZE, TIME_ENTRY_SIZE));
        int64_t timestamp = wire_i64(&r);
        uint32_t relative = wire_u32(&r);
        dump_emit(d, "entry",
                  json_pack("{s:I, s:I}", "timestamp", (json_int_t)timestamp, "offset",
                            (json_int_t)((base < 0 ? 0 : base) + relative)));
        if (i > 0 && (timestamp <= last_time || relative < last_offset)) {
            dump_problem(d, i * TIME_ENTRY_SIZE, "entries do not rise");
        }
        last_time = timestamp;
        last_offset = relative;
    }
}

void dump_aborted(struct dump *d)
{
    if (!read_whole(d)) { return; }
    size_t count = entries_of(d, ABORTED_ENTRY_SIZE);
    for (size_t i = 0; i < count; i++) {
        struct wire_reader r;
        struct arena arena;
        struct aborted_txn t;
        wire_reader_init(&r, slice_of(d->bytes.at + i * ABORTED_ENTRY_SIZE, ABORTED_ENTRY_SIZE));
        arena_init(&arena, 1024, WIRE_DECODE_BUDGET(ABORTED_ENTRY_SIZE));
        int16_t version = wire_i16(&r);
        if (version != 0 || aborted_txn_decode(&r, version, &arena, &t)) {
            dump_problem(d, i * ABORTED_ENTRY_SIZE, "version 0 was expected, found %d", version);
            arena_fini(&arena);
            return;
        }
        dump_emit(d, "aborted",
                  json_pack("{s:I, s:I, s:I, s:I}", "producer_id", (json_int_t)t.producer_id,
                            "first_offset", (json_int_t)t.first_offset, "last_offset",
                            (json_int_t)t.last_offset, "last_stable_offset",
                            (json_int_t)t.last_stable_offset));
        arena_fini(&arena);
    }
}

/* ---- producers, epochs ---- */

void dump_snapshot(struct dump *d)
{
    if (!read_whole(d)) { return; }
    struct producers producers;
    producers_init(&producers, PRODUCERS_COUNT_MAX);
    enum err e = producers_snapshot_decode(&producers, wire_buf_slice(&d->bytes), 0, -1);
    if (e) { dump_problem(d, 0, "the producers cannot be read: %s", err_name(e)); }
    for (uint32_t i = 0; !e && i < producers.count; i++) {
        const struct producer_entry *p = &producers.entries[i];
        json_t *out = json_pack("{s:I, s:i, s:I, s:i}", "producer_id", (json_int_t)p->producer_id,
                                "epoch", p->epoch, "last_timestamp", (json_int_t)p->last_timestamp,
                                "coordinator_epoch", p->coordinator_epoch);
        if (out && p->batches_count) {
            const struct producer_batch *b = &p->batches[p->batches_count - 1];
            json_object_set_new(out, "last_sequence", json_integer(b->last_sequence));
            json_object_set_new(out, "last_offset", json_integer(b->last_offset));
            json_object_set_new(out, "offset_delta", json_integer(b->offset_delta));
        }
        if (out && p->txn_first_offset >= 0) {
            json_object_set_new(out, "transaction_first_offset", json_integer(p->txn_first_offset));
        }
        dump_emit(d, "producer", out);
    }
    producers_fini(&producers);
}

void dump_epochs(struct dump *d)
{
    if (is_unwritten(d) || !read_whole(d)) { return; }
    struct epochs epochs;
    epochs_init(&epochs);
    enum err e = epochs_decode(&epochs, wire_buf_slice(&d->bytes));
    if (e) { dump_problem(d, 0, "the epochs cannot be read: %s", err_name(e)); }
    for (uint32_t i = 0; !e && i < epochs.count; i++) {
        const struct epoch_entry *entry = epochs_at(&epochs, i);
        dump_emit(d, "epoch",
                  json_pack("{s:i, s:I}", "epoch", entry->epoch, "start_offset",
                            (json_int_t)entry->start));
    }
    epochs_fini(&epochs);
}

/* ---- text files ---- */

/* The next line of text, without its end. False at the end of the file. */
static bool next_line(struct slice *left, struct slice *line)
{
    if (left->size == 0) { return false; }
    const uint8_t *end = memchr(left->at, '\n', left->size);
    size_t size = end ? (size_t)(end - left->at) : left->size;
    *line = slice_of(left->at, size);
    *left = slice_sub(*left, size + (end != NULL), left->size);
    return true;
}

/* A whole line as a number. */
static bool line_number(struct slice line, int64_t *out)
{
    char text[24], *end = NULL;
    if (line.size == 0 || line.size >= sizeof text) { return false; }
    memcpy(text, line.at, line.size);
    text[line.size] = '\0';
    *out = strtoll(text, &end, 10);
    return *end == '\0' && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
}

/* "<topic> <partition> <offset>" */
static bool emit_checkpoint_line(struct dump *d, struct slice line)
{
    const uint8_t *first = memchr(line.at, ' ', line.size);
    if (!first) { return false; }
    struct slice topic = slice_of(line.at, (size_t)(first - line.at));
    struct slice rest = slice_sub(line, topic.size + 1, line.size);
    const uint8_t *second = memchr(rest.at, ' ', rest.size);
    if (!second || !log_topic_name_is_valid(topic)) { return false; }
    size_t size = (size_t)(second - rest.at);
    int64_t partition, offset;
    if (!line_number(slice_sub(rest, 0, size), &partition) ||
        !line_number(slice_sub(rest, size + 1, rest.size), &offset)) {
        return false;
    }
    dump_emit(d, "checkpoint",
              json_pack("{s:o, s:I, s:I}", "topic", json_text(topic), "partition",
                        (json_int_t)partition, "offset", (json_int_t)offset));
    return true;
}

void dump_checkpoint(struct dump *d)
{
    if (is_unwritten(d) || !read_whole(d)) { return; }
    struct slice left = wire_buf_slice(&d->bytes), line;
    int64_t version = -1, count = -1, seen = 0;
    if (!next_line(&left, &line) || !line_number(line, &version) || version != 0) {
        dump_problem(d, 0, "version 0 was expected");
        return;
    }
    if (!next_line(&left, &line) || !line_number(line, &count) || count < 0) {
        dump_problem(d, 2, "a number of lines was expected");
        return;
    }
    while (next_line(&left, &line)) {
        if (!emit_checkpoint_line(d, line)) {
            dump_problem(d, (uint64_t)(line.at - d->bytes.at),
                         "topic, partition and offset were expected");
            return;
        }
        seen++;
    }
    if (seen != count) {
        dump_problem(d, d->size, "%" PRId64 " lines were promised, %" PRId64 " found", count, seen);
    }
}

/* "key=value" or "key: value"; comments and empty lines are passed over. */
void dump_properties(struct dump *d)
{
    if (!read_whole(d)) { return; }
    struct slice left = wire_buf_slice(&d->bytes), line;
    json_t *out = json_object();
    while (out && next_line(&left, &line)) {
        if (line.size == 0 || line.at[0] == '#') { continue; }
        size_t at = 0;
        while (at < line.size && line.at[at] != '=' && line.at[at] != ':') {
            at++;
        }
        struct slice value = slice_sub(line, at + 1, line.size);
        while (value.size && value.at[0] == ' ') {
            value = slice_sub(value, 1, value.size);
        }
        char key[64];
        slice_print(slice_sub(line, 0, at), key, sizeof key);
        if (at == line.size || at == 0) {
            dump_problem(d, (uint64_t)(line.at - d->bytes.at), "key and value were expected");
            continue;
        }
        json_set_bytes(out, key, value);
    }
    dump_emit(d, "properties", out);
}
