/* image.c - reading images, their reference counts, and handing the newest to every task. */
#include "meta/image_int.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdio.h>

/* ---- values ---- */

static void partition_ref(void *value)
{
    struct meta_partition *p = value;
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}

static void partition_unref(void *value)
{
    struct meta_partition *p = value;
    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1) { mem_free(p); }
}

const struct tree_type meta_partition_type = {partition_ref, partition_unref};

static void topic_ref(void *value)
{
    struct meta_topic *t = value;
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
}

static void topic_unref(void *value)
{
    struct meta_topic *t = value;
    if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) { return; }
    tree_unref(&meta_partition_type, t->partitions);
    mem_free(t->name);
    mem_free(t);
}

const struct tree_type meta_topic_type = {topic_ref, topic_unref};

void meta_topic_ref(struct meta_topic *topic)
{
    topic_ref(topic);
}

void meta_topic_unref(struct meta_topic *topic)
{
    topic_unref(topic);
}

static void config_ref(void *value)
{
    struct meta_config *c = value;
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

static void config_unref(void *value)
{
    struct meta_config *c = value;
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) { return; }
    mem_free(c->value);
    mem_free(c);
}

const struct tree_type meta_config_type = {config_ref, config_unref};

static void broker_ref(void *value)
{
    struct meta_broker *b = value;
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
}

void meta_broker_unref(void *value)
{
    struct meta_broker *b = value;
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) { return; }
    for (size_t i = 0; i < b->endpoints_count; i++) {
        mem_free(b->endpoints[i].name);
        mem_free(b->endpoints[i].host);
    }
    mem_free(b->endpoints);
    mem_free(b->rack);
    mem_free(b);
}

const struct tree_type meta_broker_type = {broker_ref, meta_broker_unref};

/* ---- images ---- */

struct meta_image *meta_create(void)
{
    struct meta_image *image = mem_new(struct meta_image);
    if (!image) { return NULL; }
    atomic_init(&image->refs, 1);
    image->offset = -1;
    return image;
}

struct meta_image *meta_ref(struct meta_image *image)
{
    atomic_fetch_add_explicit(&image->refs, 1, memory_order_relaxed);
    return image;
}

void meta_unref(struct meta_image *image)
{
    if (!image || atomic_fetch_sub_explicit(&image->refs, 1, memory_order_acq_rel) != 1) { return; }
    tree_unref(&meta_topic_type, image->topics);
    tree_unref(&meta_topic_type, image->topics_by_id);
    tree_unref(&meta_config_type, image->configs);
    tree_unref(&meta_broker_type, image->brokers);
    tree_unref(&meta_config_type, image->features);
    mem_free(image);
}

struct meta_image *meta_copy(const struct meta_image *image)
{
    struct meta_image *copy = meta_create();
    if (!copy) { return NULL; }
    copy->offset = image->offset;
    copy->topics = tree_ref(image->topics);
    copy->topics_by_id = tree_ref(image->topics_by_id);
    copy->configs = tree_ref(image->configs);
    copy->brokers = tree_ref(image->brokers);
    copy->features = tree_ref(image->features);
    copy->producer_id_next = image->producer_id_next;
    copy->partitions_count = image->partitions_count;
    return copy;
}

struct slice meta_key_i32(int32_t v, uint8_t buf[4])
{
    uint32_t u = (uint32_t)v;
    buf[0] = (uint8_t)(u >> 24);
    buf[1] = (uint8_t)(u >> 16);
    buf[2] = (uint8_t)(u >> 8);
    buf[3] = (uint8_t)u;
    return slice_of(buf, 4);
}

const struct meta_topic *meta_topic(const struct meta_image *image, struct slice name)
{
    return tree_get(image->topics, name);
}

const struct meta_topic *meta_topic_by_id(const struct meta_image *image, struct uuid id)
{
    return tree_get(image->topics_by_id, slice_of(id.b, sizeof id.b));
}

const struct meta_partition *meta_topic_partition(const struct meta_topic *topic, int32_t index)
{
    uint8_t buf[4];
    return index < 0 ? NULL : tree_get(topic->partitions, meta_key_i32(index, buf));
}

int32_t meta_topic_partitions_count(const struct meta_topic *topic)
{
    return (int32_t)tree_count(topic->partitions);
}

const struct meta_broker *meta_broker(const struct meta_image *image, int32_t id)
{
    uint8_t buf[4];
    return id < 0 ? NULL : tree_get(image->brokers, meta_key_i32(id, buf));
}

const struct meta_endpoint *meta_broker_endpoint(const struct meta_broker *b, struct slice listener)
{
    for (size_t i = 0; i < b->endpoints_count; i++) {
        if (slice_eq_str(listener, b->endpoints[i].name)) { return &b->endpoints[i]; }
    }
    return NULL;
}

enum err meta_config_key(enum meta_resource type, struct slice name, struct slice key,
                         uint8_t buf[META_CONFIG_KEY_SIZE], struct slice *out)
{
    if (name.size + key.size + 2 > META_CONFIG_KEY_SIZE) { return ERR_LIMIT; }
    buf[0] = (uint8_t)type;
    if (name.size) { memcpy(buf + 1, name.at, name.size); }
    buf[1 + name.size] = 0; /* no name holds a zero byte, so resources do not mix */
    if (key.size) { memcpy(buf + 2 + name.size, key.at, key.size); }
    *out = slice_of(buf, 2 + name.size + key.size);
    return ERR_OK;
}

const char *meta_config(const struct meta_image *image, enum meta_resource type, struct slice name,
                        struct slice key)
{
    uint8_t buf[META_CONFIG_KEY_SIZE];
    struct slice at;
    if (meta_config_key(type, name, key, buf, &at)) { return NULL; }
    const struct meta_config *c = tree_get(image->configs, at);
    return c ? c->value : NULL;
}

/* ---- walks ---- */

struct visit_topic {
    bool (*visit)(void *ctx, const struct meta_topic *topic);
    void *ctx;
};

static bool on_topic(void *ctx, struct slice key, void *value)
{
    (void)key;
    struct visit_topic *v = ctx;
    return v->visit(v->ctx, value);
}

size_t meta_topics_count(const struct meta_image *image)
{
    return tree_count(image->topics);
}

void meta_each_topic(const struct meta_image *image, struct slice from_name,
                     bool (*visit)(void *ctx, const struct meta_topic *topic), void *ctx)
{
    tree_each(image->topics, from_name, on_topic, &(struct visit_topic){visit, ctx});
}

struct visit_partition {
    bool (*visit)(void *ctx, const struct meta_partition *p);
    void *ctx;
};

static bool on_partition(void *ctx, struct slice key, void *value)
{
    (void)key;
    struct visit_partition *v = ctx;
    return v->visit(v->ctx, value);
}

void meta_each_partition(const struct meta_topic *topic, int32_t from,
                         bool (*visit)(void *ctx, const struct meta_partition *p), void *ctx)
{
    uint8_t buf[4];
    tree_each(topic->partitions, meta_key_i32(from < 0 ? 0 : from, buf), on_partition,
              &(struct visit_partition){visit, ctx});
}

struct visit_broker {
    bool (*visit)(void *ctx, const struct meta_broker *b);
    void *ctx;
};

static bool on_broker(void *ctx, struct slice key, void *value)
{
    (void)key;
    struct visit_broker *v = ctx;
    return v->visit(v->ctx, value);
}

void meta_each_broker(const struct meta_image *image,
                      bool (*visit)(void *ctx, const struct meta_broker *b), void *ctx)
{
    tree_each(image->brokers, SLICE_NULL, on_broker, &(struct visit_broker){visit, ctx});
}

struct visit_config {
    bool (*visit)(void *ctx, struct slice key, const char *value);
    void *ctx;
    struct slice prefix;
};

static bool on_config(void *ctx, struct slice key, void *value)
{
    struct visit_config *v = ctx;
    if (!slice_eq(slice_sub(key, 0, v->prefix.size), v->prefix)) { return false; }
    const struct meta_config *c = value;
    return v->visit(v->ctx, slice_sub(key, v->prefix.size, key.size), c->value);
}

void meta_each_config(const struct meta_image *image, enum meta_resource type, struct slice name,
                      bool (*visit)(void *ctx, struct slice key, const char *value), void *ctx)
{
    uint8_t buf[META_CONFIG_KEY_SIZE];
    struct slice prefix;
    if (meta_config_key(type, name, SLICE_NULL, buf, &prefix)) { return; }
    tree_each(image->configs, prefix, on_config, &(struct visit_config){visit, ctx, prefix});
}

/* ---- publication ---- */

void meta_publisher_init(struct meta_publisher *p, struct meta_image *image) NO_THREAD_SAFETY
{
    sys_mutex_init(&p->lock, SYS_RANK_META);
    p->image = image;
}

void meta_publisher_fini(struct meta_publisher *p) NO_THREAD_SAFETY
{
    meta_unref(p->image);
    p->image = NULL;
    sys_mutex_fini(&p->lock);
}

void meta_publish(struct meta_publisher *p, struct meta_image *image)
{
    sys_mutex_lock(&p->lock);
    struct meta_image *old = p->image;
    CHECK(!old || image->offset >= old->offset); /* [META-3] */
    p->image = image;
    sys_mutex_unlock(&p->lock);
    meta_unref(old);
}

struct meta_image *meta_latest(struct meta_publisher *p)
{
    sys_mutex_lock(&p->lock);
    struct meta_image *image = meta_ref(p->image);
    sys_mutex_unlock(&p->lock);
    return image;
}
