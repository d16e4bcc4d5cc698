/* decide.c - what each mutation means for the newest image. */
#include "cluster/controller_int.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdio.h>

#define DECIDE_BYTES_MAX ((size_t)60 << 20)
#define DECIDE_VALUE_SIZE_MAX 65536

/* ---- the growing image ---- */

enum err deciding_init(struct deciding *d, struct meta_image *image, struct sys *sys,
                       int32_t node_id, int64_t broker_epoch, const struct config_set *statics)
{
    *d = (struct deciding){.sys = sys,
                           .node_id = node_id,
                           .broker_epoch = broker_epoch,
                           .statics = statics,
                           .image = meta_ref(image)};
    wire_buf_init(&d->bytes, DECIDE_BYTES_MAX);
    return ERR_OK;
}

void deciding_fini(struct deciding *d)
{
    meta_unref(d->image);
    wire_buf_fini(&d->bytes);
    mem_free(d->records);
    *d = (struct deciding){0};
}

struct deciding_mark deciding_mark(const struct deciding *d)
{
    return (struct deciding_mark){meta_ref(d->image), d->bytes.size, d->records_count};
}

void deciding_restore(struct deciding *d, const struct deciding_mark *mark)
{
    meta_unref(d->image);
    d->image = meta_ref(mark->image);
    d->bytes.size = mark->bytes;
    d->records_count = mark->records_count;
}

void deciding_mark_fini(struct deciding_mark *mark)
{
    meta_unref(mark->image);
    mark->image = NULL;
}

void deciding_point_records(struct deciding *d)
{
    size_t at = 0;
    for (size_t i = 0; i < d->records_count; i++) {
        d->records[i].at = d->bytes.at + at;
        at += d->records[i].size;
    }
    CHECK(at == d->bytes.size);
}

/* The record that was just written to d->bytes behind 'from' becomes part of the image. */
static enum err deciding_add(struct deciding *d, size_t from)
{
    if (d->records_count == d->records_max) {
        size_t max = d->records_max ? d->records_max * 2 : 64;
        struct slice *records = mem_realloc(d->records, max * sizeof *records);
        if (!records) { return ERR_NOMEM; }
        d->records = records;
        d->records_max = max;
    }
    struct slice record = slice_of(d->bytes.at + from, d->bytes.size - from);
    enum err e = meta_apply(&d->image, record, d->image->offset + 1);
    if (e) { return e; }
    d->records[d->records_count++] = record;
    return ERR_OK;
}

/* ---- topics ---- */

struct meta_topic *controller_topic_ref(const struct meta_topic *topic)
{
    /* References are the only thing that changes in a shared value. */
    union {
        const struct meta_topic *in;
        struct meta_topic *out;
    } u = {.in = topic};
    meta_topic_ref(u.out);
    return u.out;
}

void controller_topic_unref(struct meta_topic *topic)
{
    if (topic) { meta_topic_unref(topic); }
}

/* Ids zero and one have meanings of their own; a leading '-' would look like an option to tools. */
static struct uuid decide_new_id(struct deciding *d)
{
    static const struct uuid one = {{[15] = 1}};
    for (;;) {
        struct uuid id;
        char text[UUID_TEXT_SIZE];
        sys_random(d->sys, &id, sizeof id);
        id.b[6] = (uint8_t)((id.b[6] & 0x0f) | 0x40); /* version 4, RFC 9562 */
        id.b[8] = (uint8_t)((id.b[8] & 0x3f) | 0x80);
        if (!uuid_is_zero(id) && !uuid_eq(id, one) && uuid_format(id, text)[0] != '-' &&
            !meta_topic_by_id(d->image, id)) {
            return id;
        }
    }
}

static enum err decide_partitions(struct deciding *d, struct uuid id, int32_t from, int32_t to)
{
    int32_t nodes[1] = {d->node_id};
    enum err e = ERR_OK;
    for (int32_t i = from; i < to && !e; i++) {
        struct meta_partition p = {.index = i,
                                   .leader = d->node_id,
                                   .replicas_count = 1,
                                   .isr_count = 1,
                                   .replicas = nodes,
                                   .isr = nodes};
        size_t at = d->bytes.size;
        e = record_partition(&d->bytes, id, &p, (struct uuid){0});
        if (!e) { e = deciding_add(d, at); }
    }
    return e;
}

static enum err decide_config_record(struct deciding *d, const struct controller_mutation *m,
                                     struct slice key, struct slice value)
{
    size_t at = d->bytes.size;
    enum meta_resource resource =
        m->kind == CONTROLLER_ALTER_CONFIG ? m->resource : META_RESOURCE_TOPIC;
    enum err e = record_config(&d->bytes, resource, m->name, key, value);
    return e ? e : deciding_add(d, at);
}

static enum err decide_create_topic(struct deciding *d, struct controller_mutation *m)
{
    if (meta_topic(d->image, m->name)) { return ERR_EXISTS; }
    if (m->partitions_count < 1 || m->partitions_count > META_PARTITIONS_PER_TOPIC_MAX) {
        return ERR_LIMIT;
    }
    m->id = decide_new_id(d);
    size_t at = d->bytes.size;
    enum err e = record_topic(&d->bytes, m->name, m->id);
    if (!e) { e = deciding_add(d, at); }
    if (!e) { e = decide_partitions(d, m->id, 0, m->partitions_count); }
    for (size_t i = 0; i < m->configs_count && !e; i++) {
        e = decide_config_record(d, m, m->configs[i].key, m->configs[i].value);
    }
    return e;
}

static enum err decide_delete_topic(struct deciding *d, struct controller_mutation *m)
{
    if (!meta_topic_by_id(d->image, m->id)) { return ERR_NOTFOUND; }
    size_t at = d->bytes.size;
    enum err e = record_remove_topic(&d->bytes, m->id);
    return e ? e : deciding_add(d, at);
}

static enum err decide_create_partitions(struct deciding *d, struct controller_mutation *m)
{
    const struct meta_topic *topic = meta_topic_by_id(d->image, m->id);
    if (!topic) { return ERR_NOTFOUND; }
    int32_t from = meta_topic_partitions_count(topic);
    if (m->partitions_count <= from) { return ERR_RANGE; }
    if (m->partitions_count > META_PARTITIONS_PER_TOPIC_MAX) { return ERR_LIMIT; }
    return decide_partitions(d, m->id, from, m->partitions_count);
}

/* ---- configurations ---- */

static enum err decide_one_config(struct deciding *d, struct controller_mutation *m,
                                  const struct controller_config *c)
{
    const struct config_def *def =
        m->resource == META_RESOURCE_TOPIC ? config_topic_def(c->key) : config_broker_def(c->key);
    if (!def) {
        snprintf(m->message, sizeof m->message, "Unknown configuration");
        return ERR_INVALID;
    }
    if (c->op == CONTROLLER_CONFIG_DELETE) {
        return meta_config(d->image, m->resource, m->name, c->key)
                   ? decide_config_record(d, m, c->key, SLICE_NULL)
                   : ERR_OK;
    }
    char *buf = mem_alloc(DECIDE_VALUE_SIZE_MAX + 1);
    if (!buf) { return ERR_NOMEM; }
    struct slice value = c->value;
    enum err e = value.size > DECIDE_VALUE_SIZE_MAX / 2 ? ERR_LIMIT : ERR_OK;
    if (!e && c->op != CONTROLLER_CONFIG_SET) {
        struct config_scope scope = {d->statics, d->image, d->node_id};
        struct config_value old;
        if (m->resource == META_RESOURCE_TOPIC) {
            config_topic_value(&scope, m->name, def, &old);
        } else {
            config_broker_value(&scope, def, &old);
        }
        struct slice list = slice_str(old.text);
        if (list.size + value.size + 1 > DECIDE_VALUE_SIZE_MAX) {
            e = ERR_LIMIT;
        } else if (c->op == CONTROLLER_CONFIG_APPEND) {
            e = config_list_add(list, value, buf);
        } else {
            e = config_list_subtract(list, value, buf);
        }
        if (!e) { value = slice_str(buf); }
    }
    if (!e) { e = config_check(def, value, m->message); }
    if (!e) {
        char *normal = mem_alloc(value.size + 1);
        e = normal ? ERR_OK : ERR_NOMEM;
        if (!e) { e = config_normalize(def, value, normal); }
        if (!e) { e = decide_config_record(d, m, c->key, slice_str(normal)); }
        mem_free(normal);
    }
    mem_free(buf);
    return e;
}

/* AlterConfigs: the overrides that were not named are dropped. */
struct replace {
    struct deciding *d;
    const struct controller_mutation *m;
    enum err err;
};

static bool drop_unnamed(void *ctx, struct slice key, const char *value)
{
    (void)value;
    struct replace *r = ctx;
    for (size_t i = 0; i < r->m->configs_count; i++) {
        if (slice_eq(r->m->configs[i].key, key)) { return true; }
    }
    r->err = decide_config_record(r->d, r->m, key, SLICE_NULL);
    return !r->err;
}

static enum err decide_alter_config(struct deciding *d, struct controller_mutation *m)
{
    if (m->resource == META_RESOURCE_TOPIC && !meta_topic(d->image, m->name)) {
        return ERR_NOTFOUND;
    }
    enum err e = ERR_OK;
    if (m->replaces_all) {
        struct replace r = {d, m, ERR_OK};
        struct meta_image *walked = meta_ref(d->image); /* changes under the walk */
        meta_each_config(walked, m->resource, m->name, drop_unnamed, &r);
        meta_unref(walked);
        e = r.err;
    }
    for (size_t i = 0; i < m->configs_count && !e; i++) {
        e = decide_one_config(d, m, &m->configs[i]);
    }
    return e;
}

static enum err decide_producer_ids(struct deciding *d, struct controller_mutation *m)
{
    int64_t first = d->image->producer_id_next;
    if (first > INT64_MAX - CONTROLLER_PRODUCER_IDS_COUNT) { return ERR_LIMIT; }
    size_t at = d->bytes.size;
    enum err e = record_producer_ids(&d->bytes, d->node_id, d->broker_epoch,
                                     first + CONTROLLER_PRODUCER_IDS_COUNT);
    if (!e) { e = deciding_add(d, at); }
    if (!e) { m->producer_id_first = first; }
    return e;
}

enum err controller_decide(struct deciding *d, struct controller_mutation *m)
{
    m->message[0] = '\0';
    switch (m->kind) {
    case CONTROLLER_CREATE_TOPIC:
        return decide_create_topic(d, m);
    case CONTROLLER_DELETE_TOPIC:
        return decide_delete_topic(d, m);
    case CONTROLLER_CREATE_PARTITIONS:
        return decide_create_partitions(d, m);
    case CONTROLLER_ALTER_CONFIG:
        return decide_alter_config(d, m);
    case CONTROLLER_PRODUCER_IDS:
        return decide_producer_ids(d, m);
    }
    return ERR_INVALID;
}

enum err controller_decide_registration(struct deciding *d, const struct meta_endpoint *endpoints,
                                        size_t endpoints_count, const char *rack,
                                        struct uuid incarnation)
{
    union {
        const struct meta_endpoint *in;
        struct meta_endpoint *out;
    } borrowed = {.in = endpoints};
    union {
        const char *in;
        char *out;
    } text = {.in = rack};
    struct meta_broker b = {.id = d->node_id,
                            .epoch = d->image->offset + 1,
                            .rack = text.out,
                            .endpoints = borrowed.out,
                            .endpoints_count = endpoints_count};
    size_t at = d->bytes.size;
    enum err e = record_broker(&d->bytes, &b, incarnation);
    return e ? e : deciding_add(d, at);
}

size_t controller_weight(const struct controller_request *request)
{
    size_t weight = 0;
    for (size_t i = 0; i < request->mutations_count; i++) {
        const struct controller_mutation *m = &request->mutations[i];
        weight += 64 + m->name.size;
        if (m->partitions_count > 0) { weight += (size_t)m->partitions_count * 96; }
        for (size_t k = 0; k < m->configs_count; k++) {
            weight += 32 + m->name.size + m->configs[k].key.size + m->configs[k].value.size;
        }
    }
    return weight;
}
