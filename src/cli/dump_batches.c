/* dump_batches.c - segments and metadata snapshots: batches, records, metadata records.
 *
 * Place:      cli/, private to dump-log.
 * Thread:     main.
 * Failure:    a batch whose bytes are wrong is reported and stepped over; where no batch begins,
 *             the rest of the file is given up, since nothing says where the next one would
 *             begin. */
#include "cli/dump.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/mem.h"
#include "wire/message.h"
#include "wire/reader.h"
#include "wire/text.h"

#include <inttypes.h>

#define METADATA_TEXT_SIZE ((size_t)1 << 20)

/* ---- metadata records ---- */

static const struct wire_message *find_message(enum wire_message_kind kind, int key,
                                               const char *name)
{
    for (size_t i = 0; i < wire_messages_count; i++) {
        const struct wire_message *m = &wire_messages[i];
        if (name ? strcmp(m->name, name) == 0 : m->kind == kind && m->key == key) { return m; }
    }
    return NULL;
}

/* Decodes body as m in the version and puts "type", "version" and "data" into object. */
static const char *add_message(const struct dump *d, json_t *object, const struct wire_message *m,
                               int version, struct slice body)
{
    json_object_set_new(object, "type", json_string(m->name));
    json_object_set_new(object, "version", json_integer(version));
    if (version < m->version_min || version > m->version_max) { return "unknown version"; }
    struct arena arena;
    struct wire_reader r;
    arena_init(&arena, 4096, WIRE_DECODE_BUDGET(body.size));
    wire_reader_init(&r, body);
    void *decoded = mem_zalloc(m->size);
    char *text = mem_alloc(METADATA_TEXT_SIZE);
    const char *problem = NULL;
    if (!decoded || !text) {
        problem = "no memory";
    } else if (m->decode(&r, version, &arena, decoded)) {
        problem = "it cannot be decoded";
    } else {
        struct wire_text t;
        wire_text_init(&t, text, METADATA_TEXT_SIZE);
        t.reveal = d->is_revealing;
        m->print(&t, version, decoded);
        json_t *data = json_loads(text, JSON_DECODE_ANY, NULL);
        json_object_set_new(object, "data", data ? data : json_string(text));
    }
    mem_free(decoded);
    mem_free(text);
    arena_fini(&arena);
    return problem;
}

/* A control record's key is version and type. Its value is a message whose first field is its own
 * version. */
static const char *add_control(const struct dump *d, json_t *object, const struct batch_record *r)
{
    static const char *const names[] = {
        [2] = "LeaderChangeMessage", [3] = "SnapshotHeaderRecord", [4] = "SnapshotFooterRecord",
        [5] = "KRaftVersionRecord",  [6] = "VotersRecord",
    };
    if (r->key.size < 4 || r->value.size < 2) { return "a control record is too short"; }
    int type = r->key.at[2] << 8 | r->key.at[3];
    int version = r->value.at[0] << 8 | r->value.at[1];
    json_object_set_new(object, "control", json_integer(type));
    bool is_known = type < (int)COUNT_OF(names) && names[type];
    const struct wire_message *m = is_known ? find_message(WIRE_DATA, 0, names[type]) : NULL;
    if (!m) { return NULL; } /* markers of transactions: their value is not of the metadata log */
    return add_message(d, object, m, version, r->value);
}

/* Frame version, type and version as varints, then the message. */
static const char *add_metadata(const struct dump *d, json_t *object, const struct batch_record *r)
{
    struct wire_reader reader;
    wire_reader_init(&reader, r->value);
    uint32_t frame = wire_uvarint(&reader), type = wire_uvarint(&reader),
             version = wire_uvarint(&reader);
    if (reader.bad) { return "a metadata record is too short"; }
    if (frame != 1) { return "a frame version other than 1"; }
    const struct wire_message *m =
        type <= INT16_MAX ? find_message(WIRE_METADATA, (int)type, NULL) : NULL;
    if (!m || version > INT16_MAX) {
        json_object_set_new(object, "type", json_integer(type));
        return "an unknown type of metadata record";
    }
    struct slice body = slice_of(reader.at, (size_t)(reader.end - reader.at));
    return add_message(d, object, m, (int)version, body);
}

void dump_metadata_record(struct dump *d, json_t *object, const struct batch_record *r,
                          bool is_control, uint64_t pos)
{
    const char *problem = is_control ? add_control(d, object, r) : add_metadata(d, object, r);
    if (problem) { dump_problem(d, pos, "record at offset %" PRId64 ": %s", r->offset, problem); }
}

/* ---- records ---- */

static json_t *headers_of(const struct batch_record *r)
{
    json_t *out = json_array();
    struct slice left = r->headers, key, value;
    while (out && batch_header_next(&left, &key, &value)) {
        json_t *row = json_object();
        json_set_bytes(row, "key", key);
        json_set_bytes(row, "value", value);
        json_array_append_new(out, row);
    }
    return out;
}

static void emit_record(struct dump *d, const struct batch_header *h, const struct batch_record *r,
                        bool is_metadata, uint64_t pos)
{
    json_t *out = json_pack("{s:I, s:I}", "offset", (json_int_t)r->offset, "timestamp",
                            (json_int_t)r->timestamp);
    if (out && is_metadata) {
        dump_metadata_record(d, out, r, batch_is_control(h), pos);
    } else if (out) {
        if (r->headers_count) { json_object_set_new(out, "headers", headers_of(r)); }
        json_set_bytes(out, "key", r->key);
        json_set_bytes(out, "value", r->value);
    }
    dump_emit(d, "record", out);
}

static void dump_records(struct dump *d, const struct batch_header *h, bool is_metadata,
                         uint64_t pos)
{
    struct batch_iter it;
    struct batch_record record;
    enum err e =
        batch_iter_open(&it, d->scratch, wire_buf_slice(&d->bytes), DUMP_BYTES_MAX, &d->plain);
    if (!e) {
        while (batch_iter_next(&it, &record)) {
            emit_record(d, h, &record, is_metadata, pos);
        }
        e = it.err;
    }
    if (e) { dump_problem(d, pos, "the records cannot be read: %s", err_name(e)); }
}

/* ---- batches ---- */

static void emit_batch(struct dump *d, const struct batch_header *h, uint64_t pos, bool is_sound)
{
    unsigned codec = batch_codec_bits(h);
    json_t *out =
        json_pack("{s:I, s:I, s:I, s:i, s:I, s:s, s:s, s:i}", "position", (json_int_t)pos, "offset",
                  (json_int_t)h->base_offset, "last_offset", (json_int_t)batch_last_offset(h),
                  "records", h->records_count, "bytes", (json_int_t)batch_size(h), "codec",
                  codec < CODEC_COUNT ? codec_name((enum codec)codec) : "unknown", "crc",
                  is_sound ? "ok" : "bad", "leader_epoch", h->leader_epoch);
    if (out) {
        json_object_set_new(out, "time_type",
                            json_string(batch_is_log_append_time(h) ? "append" : "create"));
        json_object_set_new(out, "max_timestamp", json_integer(h->max_timestamp));
        if (batch_has_producer(h)) {
            json_object_set_new(out, "producer_id", json_integer(h->producer_id));
            json_object_set_new(out, "producer_epoch", json_integer(h->producer_epoch));
            json_object_set_new(out, "sequence", json_integer(h->base_sequence));
        }
        if (batch_is_transactional(h)) { json_object_set_new(out, "transactional", json_true()); }
        if (batch_is_control(h)) { json_object_set_new(out, "control", json_true()); }
    }
    dump_emit(d, "batch", out);
}

/* The header at pos. False: the rest of the file is given up, said. */
static bool peek(struct dump *d, uint64_t pos, struct batch_header *h)
{
    uint64_t left = d->size - pos;
    if (left < BATCH_HEADER_SIZE) {
        dump_problem(d, pos, "%" PRIu64 " bytes at the end are too few for a batch", left);
        return false;
    }
    if (!dump_read(d, pos, BATCH_HEADER_SIZE)) { return false; }
    enum err e = batch_peek(wire_buf_slice(&d->bytes), h);
    const char *what = NULL;
    if (e == ERR_UNSUPPORTED) {
        what = "a batch of message format v0 or v1, or no batch";
    } else if (e) {
        what = "no batch begins here";
    } else if (batch_size(h) > left) {
        what = "the batch is longer than the rest of the file";
    } else if (batch_size(h) > DUMP_BYTES_MAX) {
        what = "the batch is too long";
    }
    if (!what) { return true; }
    dump_problem(d, pos, "%s; %" PRIu64 " bytes are not read", what, left);
    return false;
}

void dump_batches(struct dump *d)
{
    bool is_metadata = d->is_metadata || strcmp(d->folder, "__cluster_metadata-0") == 0;
    bool is_snapshot = strstr(d->name, ".checkpoint") != NULL;
    int64_t next = is_snapshot ? 0 : dump_base_offset(d);
    uint64_t pos = 0;
    struct batch_header h;
    while (pos < d->size && peek(d, pos, &h)) {
        if (!dump_read(d, pos, batch_size(&h))) { return; }
        bool is_sound = batch_check_crc(wire_buf_slice(&d->bytes)) == ERR_OK;
        emit_batch(d, &h, pos, is_sound);
        if (!is_sound) {
            dump_problem(d, pos, "the CRC of the batch at offset %" PRId64 " does not match",
                         h.base_offset);
        } else if (h.base_offset < next) {
            dump_problem(d, pos,
                         "offset %" PRId64 " follows where at least %" PRId64 " was expected",
                         h.base_offset, next);
        }
        if (is_sound && (d->is_deep || is_metadata)) { dump_records(d, &h, is_metadata, pos); }
        if (is_sound && batch_last_offset(&h) < INT64_MAX) { next = batch_last_offset(&h) + 1; }
        pos += batch_size(&h);
    }
}
