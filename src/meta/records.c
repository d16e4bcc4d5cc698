/* records.c - metadata records as bytes, and an image as the records that rebuild it. */
#include "meta/records.h"

#include "base/mem.h"
#include "wire/gen/config_record.h"
#include "wire/gen/feature_level_record.h"
#include "wire/gen/partition_record.h"
#include "wire/gen/producer_ids_record.h"
#include "wire/gen/register_broker_record.h"
#include "wire/gen/remove_topic_record.h"
#include "wire/gen/topic_record.h"

#include <stdlib.h>

#define META_FRAME_VERSION 1
#define META_RECORD_SIZE_MAX ((size_t)1 << 20)

static void frame_begin(struct wire_writer *w, struct wire_buf *buf, uint32_t key, int version)
{
    wire_writer_init_buf(w, buf);
    wire_put_uvarint(w, META_FRAME_VERSION);
    wire_put_uvarint(w, key);
    wire_put_uvarint(w, (uint32_t)version);
}

static enum err frame_end(struct wire_writer *w, enum err e)
{
    enum err written = wire_writer_finish(w);
    return e ? e : written;
}

enum err record_topic(struct wire_buf *buf, struct slice name, struct uuid id)
{
    struct wire_writer w;
    struct topic_record m;
    topic_record_init(&m);
    m.name = name;
    m.topic_id = id;
    frame_begin(&w, buf, TOPIC_RECORD_KEY, 0);
    return frame_end(&w, topic_record_encode(&w, 0, &m));
}

enum err record_partition(struct wire_buf *buf, struct uuid topic_id,
                          const struct meta_partition *p, struct uuid directory)
{
    struct wire_writer w;
    struct partition_record m;
    struct uuid directories[META_REPLICAS_MAX];
    partition_record_init(&m);
    m.partition_id = p->index;
    m.topic_id = topic_id;
    m.replicas = p->replicas;
    m.replicas_count = p->replicas_count;
    m.isr = p->isr;
    m.isr_count = p->isr_count;
    m.leader = p->leader;
    m.leader_epoch = p->leader_epoch;
    m.partition_epoch = p->partition_epoch;
    for (size_t i = 0; i < p->replicas_count; i++) {
        directories[i] = directory;
    }
    m.directories = directories;
    m.directories_count = p->replicas_count;
    frame_begin(&w, buf, PARTITION_RECORD_KEY, 1);
    return frame_end(&w, partition_record_encode(&w, 1, &m));
}

enum err record_remove_topic(struct wire_buf *buf, struct uuid id)
{
    struct wire_writer w;
    struct remove_topic_record m;
    remove_topic_record_init(&m);
    m.topic_id = id;
    frame_begin(&w, buf, REMOVE_TOPIC_RECORD_KEY, 0);
    return frame_end(&w, remove_topic_record_encode(&w, 0, &m));
}

enum err record_config(struct wire_buf *buf, enum meta_resource type, struct slice name,
                       struct slice key, struct slice value)
{
    struct wire_writer w;
    struct config_record m;
    config_record_init(&m);
    m.resource_type = (int8_t)type;
    m.resource_name = name;
    m.name = key;
    m.value = value;
    frame_begin(&w, buf, CONFIG_RECORD_KEY, 0);
    return frame_end(&w, config_record_encode(&w, 0, &m));
}

enum err record_producer_ids(struct wire_buf *buf, int32_t broker_id, int64_t broker_epoch,
                             int64_t next_id)
{
    struct wire_writer w;
    struct producer_ids_record m;
    producer_ids_record_init(&m);
    m.broker_id = broker_id;
    m.broker_epoch = broker_epoch;
    m.next_producer_id = next_id;
    frame_begin(&w, buf, PRODUCER_IDS_RECORD_KEY, 0);
    return frame_end(&w, producer_ids_record_encode(&w, 0, &m));
}

enum err record_broker(struct wire_buf *buf, const struct meta_broker *b, struct uuid incarnation)
{
    struct wire_writer w;
    struct register_broker_record m;
    register_broker_record_init(&m);
    m.broker_id = b->id;
    m.incarnation_id = incarnation;
    m.broker_epoch = b->epoch;
    m.fenced = b->is_fenced;
    m.rack = slice_str(b->rack);
    m.end_points = mem_array(b->endpoints_count, sizeof *m.end_points);
    if (!m.end_points) { return ERR_NOMEM; }
    m.end_points_count = b->endpoints_count;
    for (size_t i = 0; i < b->endpoints_count; i++) {
        m.end_points[i].name = slice_str(b->endpoints[i].name);
        m.end_points[i].host = slice_str(b->endpoints[i].host);
        m.end_points[i].port = b->endpoints[i].port;
        m.end_points[i].security_protocol = b->endpoints[i].security_protocol;
    }
    frame_begin(&w, buf, REGISTER_BROKER_RECORD_KEY, 3);
    enum err e = frame_end(&w, register_broker_record_encode(&w, 3, &m));
    mem_free(m.end_points);
    return e;
}

enum err record_feature(struct wire_buf *buf, struct slice name, int16_t level)
{
    struct wire_writer w;
    struct feature_level_record m;
    feature_level_record_init(&m);
    m.name = name;
    m.feature_level = level;
    frame_begin(&w, buf, FEATURE_LEVEL_RECORD_KEY, 0);
    return frame_end(&w, feature_level_record_encode(&w, 0, &m));
}

/* ---- dump ---- */

struct dump {
    struct wire_buf buf;
    enum err (*emit)(void *ctx, struct slice record);
    void *ctx;
    const struct meta_topic *topic;
    enum err err;
};

static bool dump_emit(struct dump *d, enum err e)
{
    if (!e) { e = d->emit(d->ctx, wire_buf_slice(&d->buf)); }
    d->buf.size = 0;
    d->err = e;
    return !e;
}

static bool dump_partition(void *ctx, const struct meta_partition *p)
{
    struct dump *d = ctx;
    return dump_emit(d, record_partition(&d->buf, d->topic->id, p, (struct uuid){0}));
}

static bool dump_topic(void *ctx, const struct meta_topic *topic)
{
    struct dump *d = ctx;
    d->topic = topic;
    if (!dump_emit(d, record_topic(&d->buf, slice_str(topic->name), topic->id))) { return false; }
    meta_each_partition(topic, 0, dump_partition, d);
    return !d->err;
}

static bool dump_broker(void *ctx, const struct meta_broker *b)
{
    struct dump *d = ctx;
    return dump_emit(d, record_broker(&d->buf, b, (struct uuid){0}));
}

/* The key is type, name, zero byte, configuration key: meta_config_key(). */
static bool dump_config(void *ctx, struct slice key, void *value)
{
    struct dump *d = ctx;
    const struct meta_config *c = value;
    const uint8_t *end = memchr(key.at + 1, 0, key.size - 1);
    struct slice name = slice_of(key.at + 1, (size_t)(end - key.at) - 1);
    struct slice config = slice_of(end + 1, key.size - name.size - 2);
    return dump_emit(d, record_config(&d->buf, (enum meta_resource)key.at[0], name, config,
                                      slice_str(c->value)));
}

static bool dump_feature(void *ctx, struct slice key, void *value)
{
    struct dump *d = ctx;
    const struct meta_config *c = value;
    return dump_emit(d, record_feature(&d->buf, key, (int16_t)atoi(c->value)));
}

enum err meta_dump(const struct meta_image *image, enum err (*emit)(void *ctx, struct slice record),
                   void *ctx)
{
    struct dump d = {.emit = emit, .ctx = ctx};
    wire_buf_init(&d.buf, META_RECORD_SIZE_MAX);
    tree_each(image->features, SLICE_NULL, dump_feature, &d);
    if (!d.err) { meta_each_broker(image, dump_broker, &d); }
    if (!d.err) { meta_each_topic(image, SLICE_NULL, dump_topic, &d); }
    if (!d.err) { tree_each(image->configs, SLICE_NULL, dump_config, &d); }
    if (!d.err && image->producer_id_next > 0) {
        dump_emit(&d, record_producer_ids(&d.buf, -1, -1, image->producer_id_next));
    }
    wire_buf_fini(&d.buf);
    return d.err;
}
