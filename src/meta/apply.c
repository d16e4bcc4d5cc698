/* apply.c - one metadata record in, a new version of the image out. */
#include "meta/image_int.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/mem.h"
#include "wire/gen/config_record.h"
#include "wire/gen/feature_level_record.h"
#include "wire/gen/no_op_record.h"
#include "wire/gen/partition_change_record.h"
#include "wire/gen/partition_record.h"
#include "wire/gen/producer_ids_record.h"
#include "wire/gen/register_broker_record.h"
#include "wire/gen/remove_topic_record.h"
#include "wire/gen/topic_record.h"
#include "wire/gen/unregister_broker_record.h"
#include "wire/reader.h"

#include <stdio.h>

#define META_FRAME_VERSION 1
#define META_TOPIC_NAME_SIZE_MAX 249
#define META_ENDPOINTS_MAX 32

/* Replaces *root by the tree with key -> value; takes over the reference to value. */
static enum err root_put(const struct tree_type *type, struct tree_node **root, struct slice key,
                         void *value)
{
    struct tree_node *next;
    enum err e = tree_put(type, *root, key, value, &next);
    if (e) { return e; }
    tree_unref(type, *root);
    *root = next;
    return ERR_OK;
}

static enum err root_remove(const struct tree_type *type, struct tree_node **root, struct slice key)
{
    struct tree_node *next;
    enum err e = tree_remove(type, *root, key, &next);
    if (e) { return e; }
    tree_unref(type, *root);
    *root = next;
    return ERR_OK;
}

static struct slice uuid_slice(const struct uuid *u)
{
    return slice_of(u->b, sizeof u->b);
}

/* ---- topics and partitions ---- */

/* Shows the topic under both keys, [META-1]; takes over the reference. */
static enum err image_put_topic(struct meta_image *image, struct meta_topic *topic)
{
    struct uuid id = topic->id;
    meta_topic_type.ref(topic);
    enum err e = root_put(&meta_topic_type, &image->topics, slice_str(topic->name), topic);
    if (e) {
        meta_topic_type.unref(topic);
        return e;
    }
    return root_put(&meta_topic_type, &image->topics_by_id, uuid_slice(&id), topic);
}

static struct meta_topic *topic_make(struct slice name, struct uuid id,
                                     struct tree_node *partitions)
{
    struct meta_topic *t = mem_new(struct meta_topic);
    char *copy = mem_strndup((const char *)name.at, name.size);
    if (!t || !copy) {
        mem_free(t);
        mem_free(copy);
        tree_unref(&meta_partition_type, partitions);
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->id = id;
    t->name = copy;
    t->partitions = partitions;
    return t;
}

static enum err apply_topic(struct meta_image *image, struct wire_reader *r, int version,
                            struct arena *a)
{
    struct topic_record m;
    enum err e = topic_record_decode(r, version, a, &m);
    if (e) { return e; }
    if (m.name.size == 0 || m.name.size > META_TOPIC_NAME_SIZE_MAX || uuid_is_zero(m.topic_id) ||
        memchr(m.name.at, 0, m.name.size) || meta_topic(image, m.name) ||
        meta_topic_by_id(image, m.topic_id)) {
        return ERR_MALFORMED;
    }
    struct meta_topic *t = topic_make(m.name, m.topic_id, NULL);
    return t ? image_put_topic(image, t) : ERR_NOMEM;
}

static struct meta_partition *partition_make(int32_t index, const int32_t *replicas,
                                             size_t replicas_count, const int32_t *isr,
                                             size_t isr_count)
{
    struct meta_partition *p =
        mem_zalloc(sizeof *p + (replicas_count + isr_count) * sizeof(int32_t));
    if (!p) { return NULL; }
    atomic_init(&p->refs, 1);
    p->index = index;
    p->replicas_count = (uint32_t)replicas_count;
    p->isr_count = (uint32_t)isr_count;
    p->replicas = (int32_t *)(void *)(p + 1);
    p->isr = p->replicas + replicas_count;
    if (replicas_count) { memcpy(p->replicas, replicas, replicas_count * sizeof(int32_t)); }
    if (isr_count) { memcpy(p->isr, isr, isr_count * sizeof(int32_t)); }
    return p;
}

/* A new version of the topic with this partition; takes over the reference to p. */
static enum err image_put_partition(struct meta_image *image, const struct meta_topic *topic,
                                    struct meta_partition *p)
{
    uint8_t buf[4];
    struct tree_node *partitions;
    enum err e = tree_put(&meta_partition_type, topic->partitions, meta_key_i32(p->index, buf), p,
                          &partitions);
    if (e) { return e; }
    struct meta_topic *t = topic_make(slice_str(topic->name), topic->id, partitions);
    return t ? image_put_topic(image, t) : ERR_NOMEM;
}

static enum err apply_partition(struct meta_image *image, struct wire_reader *r, int version,
                                struct arena *a)
{
    struct partition_record m;
    enum err e = partition_record_decode(r, version, a, &m);
    if (e) { return e; }
    const struct meta_topic *topic = meta_topic_by_id(image, m.topic_id);
    if (!topic || m.partition_id != meta_topic_partitions_count(topic) || /* [META-2] */
        m.partition_id >= META_PARTITIONS_PER_TOPIC_MAX || m.replicas_count == 0 ||
        m.replicas_count > META_REPLICAS_MAX || m.isr_count > META_REPLICAS_MAX ||
        m.leader_epoch < 0 || m.partition_epoch < 0) {
        return ERR_MALFORMED;
    }
    struct meta_partition *p =
        partition_make(m.partition_id, m.replicas, m.replicas_count, m.isr, m.isr_count);
    if (!p) { return ERR_NOMEM; }
    p->leader = m.leader;
    p->leader_epoch = m.leader_epoch;
    p->partition_epoch = m.partition_epoch;
    e = image_put_partition(image, topic, p);
    if (!e) { image->partitions_count++; }
    return e;
}

static enum err apply_partition_change(struct meta_image *image, struct wire_reader *r, int version,
                                       struct arena *a)
{
    struct partition_change_record m;
    enum err e = partition_change_record_decode(r, version, a, &m);
    if (e) { return e; }
    const struct meta_topic *topic = meta_topic_by_id(image, m.topic_id);
    const struct meta_partition *old = topic ? meta_topic_partition(topic, m.partition_id) : NULL;
    if (!old || m.isr_count > META_REPLICAS_MAX || m.replicas_count > META_REPLICAS_MAX ||
        (m.replicas && m.replicas_count == 0) || old->leader_epoch == INT32_MAX ||
        old->partition_epoch == INT32_MAX) {
        return ERR_MALFORMED;
    }
    struct meta_partition *p =
        partition_make(old->index, m.replicas ? m.replicas : old->replicas,
                       m.replicas ? m.replicas_count : old->replicas_count,
                       m.isr ? m.isr : old->isr, m.isr ? m.isr_count : old->isr_count);
    if (!p) { return ERR_NOMEM; }
    /* A leader given, even the same one, begins a new leader epoch. -2: unchanged. */
    p->leader = m.leader == -2 ? old->leader : m.leader;
    p->leader_epoch = old->leader_epoch + (m.leader == -2 ? 0 : 1);
    p->partition_epoch = old->partition_epoch + 1;
    return image_put_partition(image, topic, p);
}

struct config_keys {
    struct arena *arena;
    struct slice *keys;
    size_t count;
    size_t count_max;
};

static bool collect_config(void *ctx, struct slice key, const char *value)
{
    (void)value;
    struct config_keys *c = ctx;
    if (c->count == c->count_max) { return false; }
    c->keys[c->count++] = key;
    return true;
}

#define META_CONFIGS_PER_RESOURCE_MAX 1024

/* All overrides of a topic go with it. */
static enum err image_remove_configs(struct meta_image *image, struct slice topic, struct arena *a)
{
    struct config_keys c = {.arena = a, .count_max = META_CONFIGS_PER_RESOURCE_MAX};
    c.keys = arena_array(a, c.count_max, sizeof *c.keys);
    if (!c.keys) { return ERR_NOMEM; }
    /* The keys borrow from the tree, so the old version is held until they are gone. */
    struct tree_node *hold = tree_ref(image->configs);
    meta_each_config(image, META_RESOURCE_TOPIC, topic, collect_config, &c);
    enum err e = ERR_OK;
    for (size_t i = 0; i < c.count && !e; i++) {
        uint8_t buf[META_CONFIG_KEY_SIZE];
        struct slice at;
        e = meta_config_key(META_RESOURCE_TOPIC, topic, c.keys[i], buf, &at);
        if (!e) { e = root_remove(&meta_config_type, &image->configs, at); }
    }
    tree_unref(&meta_config_type, hold);
    return e;
}

static enum err apply_remove_topic(struct meta_image *image, struct wire_reader *r, int version,
                                   struct arena *a)
{
    struct remove_topic_record m;
    enum err e = remove_topic_record_decode(r, version, a, &m);
    if (e) { return e; }
    const struct meta_topic *topic = meta_topic_by_id(image, m.topic_id);
    if (!topic) { return ERR_MALFORMED; }
    struct slice name =
        slice_of(arena_strndup(a, topic->name, strlen(topic->name)), strlen(topic->name));
    if (!name.at) { return ERR_NOMEM; }
    image->partitions_count -= tree_count(topic->partitions);
    e = root_remove(&meta_topic_type, &image->topics, name);
    if (!e) { e = root_remove(&meta_topic_type, &image->topics_by_id, uuid_slice(&m.topic_id)); }
    if (!e) { e = image_remove_configs(image, name, a); }
    return e;
}

/* ---- configurations, features, ids ---- */

/* Takes the text over as a value. */
static enum err root_put_text(struct tree_node **root, struct slice key, struct slice text)
{
    struct meta_config *c = mem_new(struct meta_config);
    char *copy = mem_strndup((const char *)text.at, text.size);
    if (!c || !copy) {
        mem_free(c);
        mem_free(copy);
        return ERR_NOMEM;
    }
    atomic_init(&c->refs, 1);
    c->value = copy;
    return root_put(&meta_config_type, root, key, c);
}

static enum err apply_config(struct meta_image *image, struct wire_reader *r, int version,
                             struct arena *a)
{
    struct config_record m;
    uint8_t buf[META_CONFIG_KEY_SIZE];
    struct slice key;
    enum err e = config_record_decode(r, version, a, &m);
    if (e) { return e; }
    if ((m.resource_type != META_RESOURCE_TOPIC && m.resource_type != META_RESOURCE_BROKER) ||
        (m.resource_name.size && memchr(m.resource_name.at, 0, m.resource_name.size)) ||
        m.name.size == 0 || (m.value.size && memchr(m.value.at, 0, m.value.size))) {
        return ERR_MALFORMED;
    }
    e = meta_config_key((enum meta_resource)m.resource_type, m.resource_name, m.name, buf, &key);
    if (e) { return ERR_MALFORMED; }
    return slice_is_null(m.value) ? root_remove(&meta_config_type, &image->configs, key)
                                  : root_put_text(&image->configs, key, m.value);
}

static enum err apply_feature(struct meta_image *image, struct wire_reader *r, int version,
                              struct arena *a)
{
    struct feature_level_record m;
    char text[8];
    enum err e = feature_level_record_decode(r, version, a, &m);
    if (e) { return e; }
    if (m.name.size == 0) { return ERR_MALFORMED; }
    if (m.feature_level == 0) { return root_remove(&meta_config_type, &image->features, m.name); }
    snprintf(text, sizeof text, "%d", m.feature_level);
    return root_put_text(&image->features, m.name, slice_str(text));
}

static enum err apply_producer_ids(struct meta_image *image, struct wire_reader *r, int version,
                                   struct arena *a)
{
    struct producer_ids_record m;
    enum err e = producer_ids_record_decode(r, version, a, &m);
    if (e) { return e; }
    if (m.next_producer_id < image->producer_id_next) { return ERR_MALFORMED; }
    image->producer_id_next = m.next_producer_id;
    return ERR_OK;
}

/* ---- brokers ---- */

static struct meta_broker *broker_make(const struct register_broker_record *m)
{
    struct meta_broker *b = mem_new(struct meta_broker);
    if (!b) { return NULL; }
    atomic_init(&b->refs, 1);
    b->id = m->broker_id;
    b->epoch = m->broker_epoch;
    b->is_fenced = m->fenced;
    b->endpoints = mem_array(m->end_points_count, sizeof *b->endpoints);
    if (!b->endpoints) { goto fail; }
    b->endpoints_count = m->end_points_count;
    for (size_t i = 0; i < m->end_points_count; i++) {
        struct meta_endpoint *to = &b->endpoints[i];
        to->name = mem_strndup((const char *)m->end_points[i].name.at, m->end_points[i].name.size);
        to->host = mem_strndup((const char *)m->end_points[i].host.at, m->end_points[i].host.size);
        to->port = m->end_points[i].port;
        to->security_protocol = m->end_points[i].security_protocol;
        if (!to->name || !to->host) { goto fail; }
    }
    if (m->rack.at) {
        b->rack = mem_strndup((const char *)m->rack.at, m->rack.size);
        if (!b->rack) { goto fail; }
    }
    return b;
fail:
    meta_broker_unref(b);
    return NULL;
}

static enum err apply_register_broker(struct meta_image *image, struct wire_reader *r, int version,
                                      struct arena *a)
{
    struct register_broker_record m;
    uint8_t buf[4];
    enum err e = register_broker_record_decode(r, version, a, &m);
    if (e) { return e; }
    if (m.broker_id < 0 || m.end_points_count > META_ENDPOINTS_MAX) { return ERR_MALFORMED; }
    struct meta_broker *b = broker_make(&m);
    if (!b) { return ERR_NOMEM; }
    return root_put(&meta_broker_type, &image->brokers, meta_key_i32(m.broker_id, buf), b);
}

static enum err apply_unregister_broker(struct meta_image *image, struct wire_reader *r,
                                        int version, struct arena *a)
{
    struct unregister_broker_record m;
    uint8_t buf[4];
    enum err e = unregister_broker_record_decode(r, version, a, &m);
    if (e) { return e; }
    if (!meta_broker(image, m.broker_id)) { return ERR_MALFORMED; }
    return root_remove(&meta_broker_type, &image->brokers, meta_key_i32(m.broker_id, buf));
}

static enum err apply_no_op(struct meta_image *image, struct wire_reader *r, int version,
                            struct arena *a)
{
    (void)image;
    struct no_op_record m;
    return no_op_record_decode(r, version, a, &m);
}

/* ---- dispatch ---- */

static const struct {
    uint32_t key;
    enum err (*apply)(struct meta_image *image, struct wire_reader *r, int version,
                      struct arena *a);
} meta_appliers[] = {
    {REGISTER_BROKER_RECORD_KEY, apply_register_broker},
    {UNREGISTER_BROKER_RECORD_KEY, apply_unregister_broker},
    {TOPIC_RECORD_KEY, apply_topic},
    {PARTITION_RECORD_KEY, apply_partition},
    {CONFIG_RECORD_KEY, apply_config},
    {PARTITION_CHANGE_RECORD_KEY, apply_partition_change},
    {REMOVE_TOPIC_RECORD_KEY, apply_remove_topic},
    {FEATURE_LEVEL_RECORD_KEY, apply_feature},
    {PRODUCER_IDS_RECORD_KEY, apply_producer_ids},
    {NO_OP_RECORD_KEY, apply_no_op},
};

enum err meta_apply(struct meta_image **image, struct slice record, int64_t offset)
{
    struct wire_reader r;
    wire_reader_init(&r, record);
    uint32_t frame = wire_uvarint(&r);
    uint32_t key = wire_uvarint(&r);
    uint32_t version = wire_uvarint(&r);
    if (r.bad || frame != META_FRAME_VERSION || version > INT16_MAX) { return ERR_MALFORMED; }
    struct arena arena;
    arena_init(&arena, 4096, WIRE_DECODE_BUDGET(record.size));
    struct meta_image *next = meta_copy(*image);
    enum err e = next ? ERR_UNSUPPORTED : ERR_NOMEM;
    for (size_t i = 0; next && i < COUNT_OF(meta_appliers); i++) {
        if (meta_appliers[i].key == key) {
            e = meta_appliers[i].apply(next, &r, (int)version, &arena);
            if (!e && wire_left(&r) != 0) { e = ERR_MALFORMED; }
            break;
        }
    }
    arena_fini(&arena);
    if (e) {
        meta_unref(next);
        return e;
    }
    next->offset = offset;
    meta_unref(*image);
    *image = next;
    return ERR_OK;
}
