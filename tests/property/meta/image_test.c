/* image_test.c - long random sequences of records against a model that is too simple to be wrong.
 *
 * After each record the image says what the model says; what the model refuses, the image refuses
 * and stays the very same; images that were kept on the way never change; a dump rebuilds it. */
#include "base/mem.h"
#include "meta/image.h"
#include "meta/records.h"
#include "wire/gen/partition_change_record.h"
#include "wire/gen/unregister_broker_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NAMES = 6, IDS = 8, PARTITIONS = 5, KEYS = 3, RESOURCES = 3, BROKERS = 3, FEATURES = 2 };
enum { STEPS = 4000, SEEDS = 20, SNAPSHOTS = 8 };

/* ---- the model ---- */

struct model_partition {
    int32_t leader, leader_epoch, partition_epoch, isr_count;
};

struct model_topic {
    bool exists;
    int name;
    int32_t partitions_count;
    struct model_partition partitions[PARTITIONS];
};

struct model {
    struct model_topic topics[IDS];
    int configs[2][NAMES + RESOURCES][KEYS]; /* by type and resource: 0 none, else the value */
    int brokers[BROKERS]; /* 0 none, else the epoch */
    int features[FEATURES]; /* 0 none */
    int64_t producer_id_next;
};

static int topic_named(const struct model *m, int name)
{
    for (int i = 0; i < IDS; i++) {
        if (m->topics[i].exists && m->topics[i].name == name) { return i; }
    }
    return -1;
}

static const char *const topic_names[NAMES] = {"a", "ab", "b", "orders", "orders.", "zz"};
static const char *const broker_names[RESOURCES] = {"", "1", "10"};
static const char *const keys[KEYS] = {"segment.ms", "retention.ms", "cleanup.policy"};
static const char *const features[FEATURES] = {"metadata.version", "group.version"};

static struct uuid id_of(int n)
{
    struct uuid id = {{(uint8_t)(n + 1), 7}};
    return id;
}

static const char *resource_of(int type, int n)
{
    return type == 0 ? topic_names[n] : broker_names[n];
}

static enum meta_resource type_of(int type)
{
    return type == 0 ? META_RESOURCE_TOPIC : META_RESOURCE_BROKER;
}

/* ---- random records ---- */

struct run {
    uint64_t state;
    struct meta_image *image;
    struct model model;
    struct wire_buf buf;
    struct meta_image *kept[SNAPSHOTS];
    struct model kept_models[SNAPSHOTS];
    unsigned refused;
};

static int pick(struct run *r, int below)
{
    r->state ^= r->state << 13; /* xorshift */
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return (int)(r->state % (uint64_t)below);
}

static void frame(struct wire_writer *w, struct wire_buf *buf, uint32_t key)
{
    wire_writer_init_buf(w, buf);
    wire_put_uvarint(w, 1);
    wire_put_uvarint(w, key);
    wire_put_uvarint(w, 0);
}

/* Each writes a record to r->buf, changes the model, and says whether the model takes it. */

static bool make_topic(struct run *r)
{
    int id = pick(r, IDS), name = pick(r, NAMES);
    assert_int_equal(record_topic(&r->buf, slice_str(topic_names[name]), id_of(id)), ERR_OK);
    if (r->model.topics[id].exists || topic_named(&r->model, name) >= 0) { return false; }
    r->model.topics[id] = (struct model_topic){.exists = true, .name = name};
    return true;
}

static bool make_removal(struct run *r)
{
    int id = pick(r, IDS);
    struct model_topic *t = &r->model.topics[id];
    assert_int_equal(record_remove_topic(&r->buf, id_of(id)), ERR_OK);
    if (!t->exists) { return false; }
    memset(r->model.configs[0][t->name], 0, sizeof r->model.configs[0][t->name]);
    t->exists = false;
    return true;
}

static bool make_partition(struct run *r)
{
    int id = pick(r, IDS);
    struct model_topic *t = &r->model.topics[id];
    int32_t nodes[1] = {1}, index = pick(r, PARTITIONS);
    if (t->exists && pick(r, 2)) { index = t->partitions_count; }
    struct meta_partition p = {.index = index,
                               .leader = pick(r, 3),
                               .leader_epoch = pick(r, 5),
                               .replicas_count = 1,
                               .isr_count = 1,
                               .replicas = nodes,
                               .isr = nodes};
    assert_int_equal(record_partition(&r->buf, id_of(id), &p, (struct uuid){0}), ERR_OK);
    if (!t->exists || index != t->partitions_count) { return false; }
    assert_true(index < PARTITIONS); /* make_room() */
    t->partitions[t->partitions_count++] = (struct model_partition){
        .leader = p.leader, .leader_epoch = p.leader_epoch, .isr_count = 1};
    return true;
}

static bool make_change(struct run *r)
{
    struct partition_change_record c;
    struct wire_writer w;
    int32_t isr[2] = {1, 2};
    int id = pick(r, IDS);
    struct model_topic *t = &r->model.topics[id];
    partition_change_record_init(&c);
    c.topic_id = id_of(id);
    c.partition_id = pick(r, PARTITIONS + 1) - 1;
    bool has_leader = pick(r, 2), has_isr = pick(r, 2);
    if (has_leader) { c.leader = pick(r, 3) - 1; }
    if (has_isr) {
        c.isr = isr;
        c.isr_count = (size_t)pick(r, 2) + 1;
    }
    frame(&w, &r->buf, PARTITION_CHANGE_RECORD_KEY);
    assert_int_equal(partition_change_record_encode(&w, 0, &c), ERR_OK);
    assert_int_equal(wire_writer_finish(&w), ERR_OK);
    if (!t->exists || c.partition_id < 0 || c.partition_id >= t->partitions_count) { return false; }
    struct model_partition *p = &t->partitions[c.partition_id];
    p->partition_epoch++;
    if (has_leader) {
        p->leader = c.leader;
        p->leader_epoch++;
    }
    if (has_isr) { p->isr_count = (int32_t)c.isr_count; }
    return true;
}

static bool make_config(struct run *r)
{
    int type = pick(r, 2), n = pick(r, type == 0 ? NAMES : RESOURCES), key = pick(r, KEYS);
    int value = pick(r, 5); /* 0 removes */
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    assert_int_equal(record_config(&r->buf, type_of(type), slice_str(resource_of(type, n)),
                                   slice_str(keys[key]), value ? slice_str(text) : SLICE_NULL),
                     ERR_OK);
    r->model.configs[type][n][key] = value;
    return true;
}

static bool make_broker(struct run *r)
{
    int id = pick(r, BROKERS);
    if (pick(r, 3) == 0) {
        struct unregister_broker_record u;
        struct wire_writer w;
        unregister_broker_record_init(&u);
        u.broker_id = id;
        frame(&w, &r->buf, UNREGISTER_BROKER_RECORD_KEY);
        assert_int_equal(unregister_broker_record_encode(&w, 0, &u), ERR_OK);
        assert_int_equal(wire_writer_finish(&w), ERR_OK);
        bool was_there = r->model.brokers[id] != 0;
        r->model.brokers[id] = 0;
        return was_there;
    }
    char name[] = "PLAINTEXT", host[] = "127.0.0.1";
    struct meta_endpoint e = {.name = name, .host = host, .port = 9092};
    struct meta_broker b = {
        .id = id, .epoch = 1 + pick(r, 1000), .endpoints_count = 1, .endpoints = &e};
    assert_int_equal(record_broker(&r->buf, &b, id_of(99)), ERR_OK);
    r->model.brokers[id] = (int)b.epoch;
    return true;
}

static bool make_other(struct run *r)
{
    if (pick(r, 2)) {
        int n = pick(r, FEATURES);
        int16_t level = (int16_t)pick(r, 4);
        assert_int_equal(record_feature(&r->buf, slice_str(features[n]), level), ERR_OK);
        r->model.features[n] = level;
        return true;
    }
    int64_t next = r->model.producer_id_next + pick(r, 30) - 10;
    if (next < 0) { next = 0; }
    assert_int_equal(record_producer_ids(&r->buf, 1, 5, next), ERR_OK);
    if (next < r->model.producer_id_next) { return false; }
    r->model.producer_id_next = next;
    return true;
}

static bool make_record(struct run *r)
{
    switch (pick(r, 10)) {
    case 0:
    case 1:
        return make_topic(r);
    case 2:
        return make_removal(r);
    case 3:
    case 4:
        return make_partition(r);
    case 5:
        return make_change(r);
    case 6:
    case 7:
        return make_config(r);
    case 8:
        return make_broker(r);
    default:
        return make_other(r);
    }
}

/* ---- comparing ---- */

static bool count_topic(void *ctx, const struct meta_topic *t)
{
    (void)t;
    ++*(int *)ctx;
    return true;
}

static size_t check_topic(const struct meta_image *image, const struct model *m, int id)
{
    const struct model_topic *want = &m->topics[id];
    const struct meta_topic *t = meta_topic_by_id(image, id_of(id));
    assert_int_equal(t != NULL, want->exists);
    if (!t) { return 0; }
    assert_string_equal(t->name, topic_names[want->name]);
    assert_ptr_equal(t, meta_topic(image, slice_str(t->name))); /* [META-1] */
    assert_int_equal(meta_topic_partitions_count(t), want->partitions_count);
    for (int32_t i = 0; i < want->partitions_count; i++) {
        const struct meta_partition *p = meta_topic_partition(t, i); /* [META-2] */
        assert_non_null(p);
        assert_int_equal(p->index, i);
        assert_int_equal(p->leader, want->partitions[i].leader);
        assert_int_equal(p->leader_epoch, want->partitions[i].leader_epoch);
        assert_int_equal(p->partition_epoch, want->partitions[i].partition_epoch);
        assert_int_equal(p->isr_count, want->partitions[i].isr_count);
        assert_int_equal(p->replicas_count, 1);
    }
    assert_null(meta_topic_partition(t, want->partitions_count));
    return (size_t)want->partitions_count;
}

static void check_configs(const struct meta_image *image, const struct model *m)
{
    for (int type = 0; type < 2; type++) {
        for (int n = 0; n < (type == 0 ? NAMES : RESOURCES); n++) {
            for (int k = 0; k < KEYS; k++) {
                const char *text = meta_config(image, type_of(type),
                                               slice_str(resource_of(type, n)), slice_str(keys[k]));
                assert_int_equal(text ? atoi(text) : 0, m->configs[type][n][k]);
            }
        }
    }
}

static void check(const struct meta_image *image, const struct model *m)
{
    size_t partitions = 0;
    int topics = 0, seen = 0;
    for (int id = 0; id < IDS; id++) {
        partitions += check_topic(image, m, id);
        topics += m->topics[id].exists;
    }
    meta_each_topic(image, SLICE_NULL, count_topic, &seen);
    assert_int_equal(seen, topics);
    assert_int_equal(tree_count(image->topics_by_id), topics);
    assert_int_equal(image->partitions_count, partitions);
    check_configs(image, m);
    for (int i = 0; i < BROKERS; i++) {
        const struct meta_broker *b = meta_broker(image, i);
        assert_int_equal(b ? b->epoch : 0, m->brokers[i]);
    }
    for (int i = 0; i < FEATURES; i++) {
        const struct meta_config *c = tree_get(image->features, slice_str(features[i]));
        assert_int_equal(c ? atoi(c->value) : 0, m->features[i]);
    }
    assert_int_equal(image->producer_id_next, m->producer_id_next);
}

/* ---- the runs ---- */

static enum err collect(void *ctx, struct slice record)
{
    struct meta_image **image = ctx;
    return meta_apply(image, record, (*image)->offset + 1);
}

static void check_dump(const struct meta_image *image, const struct model *m)
{
    struct meta_image *copy = meta_create();
    assert_non_null(copy);
    assert_int_equal(meta_dump(image, collect, &copy), ERR_OK);
    check(copy, m);
    meta_unref(copy);
}

static void keep(struct run *r, int step)
{
    int slot = step / (STEPS / SNAPSHOTS);
    if (step % (STEPS / SNAPSHOTS) || slot >= SNAPSHOTS) { return; }
    r->kept[slot] = meta_ref(r->image);
    r->kept_models[slot] = r->model;
    check_dump(r->image, &r->model);
}

static void one_step(struct run *r)
{
    struct model before = r->model;
    r->buf.size = 0;
    bool is_taken = make_record(r);
    struct meta_image *old = r->image;
    if (!is_taken && memcmp(&before, &r->model, sizeof before) != 0) {
        fail_msg("a refused record changed the model");
    }
    enum err e = meta_apply(&r->image, wire_buf_slice(&r->buf), old->offset + 1);
    assert_int_equal(e, is_taken ? ERR_OK : ERR_MALFORMED);
    if (!is_taken) {
        assert_ptr_equal(r->image, old);
        r->refused++;
    }
    check(r->image, &r->model);
}

/* The sixth partition would be right, but the model has no room: such a topic is removed first. */
static bool has_room(const struct model *m)
{
    for (int i = 0; i < IDS; i++) {
        if (m->topics[i].exists && m->topics[i].partitions_count == PARTITIONS) { return false; }
    }
    return true;
}

static void make_room(struct run *r)
{
    for (int i = 0; i < IDS; i++) {
        struct model_topic *t = &r->model.topics[i];
        if (!t->exists || t->partitions_count < PARTITIONS) { continue; }
        r->buf.size = 0;
        assert_int_equal(record_remove_topic(&r->buf, id_of(i)), ERR_OK);
        assert_int_equal(meta_apply(&r->image, wire_buf_slice(&r->buf), r->image->offset + 1),
                         ERR_OK);
        memset(r->model.configs[0][t->name], 0, sizeof r->model.configs[0][t->name]);
        t->exists = false;
    }
}

static void test_images_say_what_the_model_says(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct run *r = mem_new(struct run);
        assert_non_null(r);
        r->state = seed * 0x9e3779b97f4a7c15u;
        r->image = meta_create();
        wire_buf_init(&r->buf, 1u << 20);
        for (int step = 0; step < STEPS; step++) {
            keep(r, step);
            one_step(r);
            if (!has_room(&r->model)) { make_room(r); }
        }
        for (int i = 0; i < SNAPSHOTS; i++) {
            check(r->kept[i], &r->kept_models[i]);
            meta_unref(r->kept[i]);
        }
        check_dump(r->image, &r->model);
        assert_true(r->refused > STEPS / 20 && r->refused < STEPS * 3 / 4);
        meta_unref(r->image);
        wire_buf_fini(&r->buf);
        mem_free(r);
    }
}

/* Any bytes at all: refused or taken, but never a crash, and a refusal leaves the image. */
static void test_bytes_in_disorder_never_hurt(void **state)
{
    (void)state;
    struct run *r = mem_new(struct run);
    assert_non_null(r);
    r->state = 42;
    r->image = meta_create();
    wire_buf_init(&r->buf, 1u << 20);
    for (int i = 0; i < 60000; i++) {
        r->buf.size = 0;
        (void)make_record(r);
        for (int n = pick(r, 3) + 1; n > 0; n--) {
            r->buf.at[pick(r, (int)r->buf.size)] = (uint8_t)pick(r, 256);
        }
        if (pick(r, 4) == 0) { r->buf.size = (size_t)pick(r, (int)r->buf.size + 1); }
        struct meta_image *old = r->image;
        if (meta_apply(&r->image, wire_buf_slice(&r->buf), i)) { assert_ptr_equal(old, r->image); }
        if (tree_count(r->image->topics) > 200) {
            meta_unref(r->image);
            r->image = meta_create();
        }
        r->model = (struct model){0};
    }
    meta_unref(r->image);
    wire_buf_fini(&r->buf);
    mem_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images_say_what_the_model_says),
        cmocka_unit_test(test_bytes_in_disorder_never_hurt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
