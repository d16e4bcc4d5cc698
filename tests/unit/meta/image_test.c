/* image_test.c - records make images; wrong ones change nothing; old images stay as they were. */
#include "base/mem.h"
#include "meta/image.h"
#include "meta/records.h"
#include "wire/gen/partition_change_record.h"
#include "wire/gen/unregister_broker_record.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct making {
    struct meta_image *image;
    struct wire_buf buf;
};

static int setup(void **state)
{
    struct making *m = mem_new(struct making);
    assert_non_null(m);
    m->image = meta_create();
    assert_non_null(m->image);
    wire_buf_init(&m->buf, 1u << 20);
    *state = m;
    return 0;
}

static int teardown(void **state)
{
    struct making *m = *state;
    meta_unref(m->image);
    wire_buf_fini(&m->buf);
    mem_free(m);
    return 0;
}

static struct uuid id_of(uint8_t n)
{
    struct uuid id = {{n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
    return id;
}

/* Applies what was just written to m->buf. */
static enum err apply(struct making *m, enum err written)
{
    assert_int_equal(written, ERR_OK);
    enum err e = meta_apply(&m->image, wire_buf_slice(&m->buf), m->image->offset + 1);
    m->buf.size = 0;
    return e;
}

static enum err put_topic(struct making *m, const char *name, uint8_t id)
{
    return apply(m, record_topic(&m->buf, slice_str(name), id_of(id)));
}

static enum err put_partition(struct making *m, uint8_t topic, int32_t index)
{
    int32_t nodes[1] = {1};
    struct meta_partition p = {.index = index,
                               .leader = 1,
                               .leader_epoch = 3,
                               .replicas_count = 1,
                               .isr_count = 1,
                               .replicas = nodes,
                               .isr = nodes};
    return apply(m, record_partition(&m->buf, id_of(topic), &p, (struct uuid){0}));
}

static enum err put_config(struct making *m, enum meta_resource type, const char *name,
                           const char *key, const char *value)
{
    return apply(m,
                 record_config(&m->buf, type, slice_str(name), slice_str(key), slice_str(value)));
}

static const char *config(const struct making *m, const char *topic, const char *key)
{
    return meta_config(m->image, META_RESOURCE_TOPIC, slice_str(topic), slice_str(key));
}

static void test_a_topic_is_found_by_name_and_by_id(void **state)
{
    struct making *m = *state;
    assert_int_equal(put_topic(m, "orders", 1), ERR_OK);
    assert_int_equal(put_partition(m, 1, 0), ERR_OK);
    assert_int_equal(put_partition(m, 1, 1), ERR_OK);
    const struct meta_topic *t = meta_topic(m->image, SLICE_LIT("orders"));
    assert_non_null(t);
    assert_ptr_equal(t, meta_topic_by_id(m->image, id_of(1)));
    assert_int_equal(meta_topic_partitions_count(t), 2);
    assert_int_equal(m->image->partitions_count, 2);
    assert_int_equal(meta_topic_partition(t, 1)->leader_epoch, 3);
    assert_null(meta_topic_partition(t, 2));
    assert_null(meta_topic_partition(t, -1));
    assert_null(meta_topic(m->image, SLICE_LIT("order")));
    assert_int_equal(m->image->offset, 2);
}

static void test_a_record_that_makes_no_sense_changes_nothing(void **state)
{
    struct making *m = *state;
    assert_int_equal(put_topic(m, "orders", 1), ERR_OK);
    assert_int_equal(put_partition(m, 1, 0), ERR_OK);
    struct meta_image *before = m->image;
    assert_int_equal(put_topic(m, "orders", 2), ERR_MALFORMED); /* the name is taken */
    assert_int_equal(put_topic(m, "other", 1), ERR_MALFORMED); /* the id is taken */
    assert_int_equal(put_topic(m, "", 3), ERR_MALFORMED);
    assert_int_equal(put_partition(m, 1, 0), ERR_MALFORMED); /* twice */
    assert_int_equal(put_partition(m, 1, 2), ERR_MALFORMED); /* a gap, [META-2] */
    assert_int_equal(put_partition(m, 9, 0), ERR_MALFORMED); /* no such topic */
    assert_int_equal(apply(m, record_remove_topic(&m->buf, id_of(9))), ERR_MALFORMED);
    assert_int_equal(put_config(m, META_RESOURCE_TOPIC, "orders", "", "1"), ERR_MALFORMED);
    assert_ptr_equal(before, m->image);
}

static void test_bytes_that_are_no_record_are_refused(void **state)
{
    struct making *m = *state;
    const struct {
        uint8_t bytes[8];
        size_t size;
        enum err err;
    } cases[] = {
        {{0}, 0, ERR_MALFORMED},
        {{1}, 1, ERR_MALFORMED}, /* only the frame's version */
        {{2, 2, 0, 0}, 4, ERR_MALFORMED}, /* an unknown frame */
        {{1, 99, 0, 0}, 4, ERR_UNSUPPORTED}, /* an unknown type */
        {{1, 2, 0, 0xff, 0xff}, 5, ERR_MALFORMED}, /* a topic cut short */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(meta_apply(&m->image, slice_of(cases[i].bytes, cases[i].size), 0),
                         cases[i].err);
    }
    assert_int_equal(record_topic(&m->buf, SLICE_LIT("t"), id_of(1)), ERR_OK);
    for (size_t size = 0; size < m->buf.size; size++) {
        assert_int_not_equal(meta_apply(&m->image, slice_of(m->buf.at, size), 0), ERR_OK);
    }
    assert_int_equal(wire_buf_reserve(&m->buf, m->buf.size + 1), ERR_OK);
    m->buf.at[m->buf.size++] = 0; /* a byte too many */
    assert_int_equal(meta_apply(&m->image, wire_buf_slice(&m->buf), 0), ERR_MALFORMED);
    assert_int_equal(m->image->offset, -1);
}

static void test_an_old_image_stays_as_it_was(void **state)
{
    struct making *m = *state;
    assert_int_equal(put_topic(m, "orders", 1), ERR_OK);
    assert_int_equal(put_config(m, META_RESOURCE_TOPIC, "orders", "segment.ms", "5"), ERR_OK);
    struct meta_image *old = meta_ref(m->image);
    assert_int_equal(put_partition(m, 1, 0), ERR_OK);
    assert_int_equal(put_config(m, META_RESOURCE_TOPIC, "orders", "segment.ms", "6"), ERR_OK);
    assert_int_equal(apply(m, record_remove_topic(&m->buf, id_of(1))), ERR_OK);
    assert_null(meta_topic(m->image, SLICE_LIT("orders")));
    assert_int_equal(m->image->partitions_count, 0);
    const struct meta_topic *t = meta_topic(old, SLICE_LIT("orders"));
    assert_non_null(t);
    assert_int_equal(meta_topic_partitions_count(t), 0);
    assert_string_equal(
        meta_config(old, META_RESOURCE_TOPIC, SLICE_LIT("orders"), SLICE_LIT("segment.ms")), "5");
    meta_unref(old);
}

static void test_overrides_go_with_their_topic_and_with_no_other(void **state)
{
    struct making *m = *state;
    assert_int_equal(put_topic(m, "a", 1), ERR_OK);
    assert_int_equal(put_topic(m, "ab", 2), ERR_OK);
    assert_int_equal(put_config(m, META_RESOURCE_TOPIC, "a", "segment.ms", "1"), ERR_OK);
    assert_int_equal(put_config(m, META_RESOURCE_TOPIC, "a", "retention.ms", "2"), ERR_OK);
    assert_int_equal(put_config(m, META_RESOURCE_TOPIC, "ab", "segment.ms", "3"), ERR_OK);
    assert_int_equal(put_config(m, META_RESOURCE_BROKER, "a", "segment.ms", "4"), ERR_OK);
    assert_int_equal(apply(m, record_remove_topic(&m->buf, id_of(1))), ERR_OK);
    assert_null(config(m, "a", "segment.ms"));
    assert_null(config(m, "a", "retention.ms"));
    assert_string_equal(config(m, "ab", "segment.ms"), "3");
    assert_string_equal(
        meta_config(m->image, META_RESOURCE_BROKER, SLICE_LIT("a"), SLICE_LIT("segment.ms")), "4");
    assert_int_equal(put_config(m, META_RESOURCE_TOPIC, "ab", "segment.ms", NULL), ERR_OK);
    assert_null(config(m, "ab", "segment.ms"));
}

static bool count_config(void *ctx, struct slice key, const char *value)
{
    (void)key;
    (void)value;
    ++*(int *)ctx;
    return true;
}

static void test_a_walk_over_overrides_sees_one_resource(void **state)
{
    struct making *m = *state;
    int count = 0;
    assert_int_equal(put_config(m, META_RESOURCE_BROKER, "", "message.max.bytes", "1"), ERR_OK);
    assert_int_equal(put_config(m, META_RESOURCE_BROKER, "1", "message.max.bytes", "2"), ERR_OK);
    assert_int_equal(put_config(m, META_RESOURCE_BROKER, "1", "max.connections", "3"), ERR_OK);
    assert_int_equal(put_config(m, META_RESOURCE_BROKER, "10", "max.connections", "4"), ERR_OK);
    meta_each_config(m->image, META_RESOURCE_BROKER, SLICE_LIT("1"), count_config, &count);
    assert_int_equal(count, 2);
    meta_each_config(m->image, META_RESOURCE_BROKER, SLICE_LIT(""), count_config, &count);
    assert_int_equal(count, 3);
}

static enum err change(struct making *m, const struct partition_change_record *r)
{
    struct wire_writer w;
    wire_writer_init_buf(&w, &m->buf);
    wire_put_uvarint(&w, 1);
    wire_put_uvarint(&w, PARTITION_CHANGE_RECORD_KEY);
    wire_put_uvarint(&w, 0);
    enum err e = partition_change_record_encode(&w, 0, r);
    return apply(m, e ? e : wire_writer_finish(&w));
}

static void test_a_leader_that_is_named_begins_an_epoch(void **state)
{
    struct making *m = *state;
    struct partition_change_record r;
    assert_int_equal(put_topic(m, "orders", 1), ERR_OK);
    assert_int_equal(put_partition(m, 1, 0), ERR_OK);
    partition_change_record_init(&r);
    r.topic_id = id_of(1);
    r.partition_id = 0;
    int32_t isr[2] = {1, 2};
    r.isr = isr;
    r.isr_count = 2;
    assert_int_equal(change(m, &r), ERR_OK);
    const struct meta_topic *t = meta_topic(m->image, SLICE_LIT("orders"));
    assert_int_equal(meta_topic_partition(t, 0)->leader_epoch, 3); /* the leader stayed */
    assert_int_equal(meta_topic_partition(t, 0)->isr_count, 2);
    assert_int_equal(meta_topic_partition(t, 0)->partition_epoch, 1);
    r.leader = 1;
    assert_int_equal(change(m, &r), ERR_OK);
    t = meta_topic(m->image, SLICE_LIT("orders"));
    assert_int_equal(meta_topic_partition(t, 0)->leader_epoch, 4);
    r.partition_id = 7;
    assert_int_equal(change(m, &r), ERR_MALFORMED);
}

static enum err put_broker(struct making *m, int32_t id, bool is_fenced)
{
    char name[] = "PLAINTEXT", host[] = "127.0.0.1", rack[] = "r1";
    struct meta_endpoint e = {.name = name, .host = host, .port = 9092};
    struct meta_broker b = {.id = id,
                            .epoch = 5,
                            .rack = rack,
                            .is_fenced = is_fenced,
                            .endpoints_count = 1,
                            .endpoints = &e};
    return apply(m, record_broker(&m->buf, &b, id_of(7)));
}

static void test_brokers_come_and_go(void **state)
{
    struct making *m = *state;
    assert_int_equal(put_broker(m, 1, false), ERR_OK);
    const struct meta_broker *b = meta_broker(m->image, 1);
    assert_non_null(b);
    assert_int_equal(b->epoch, 5);
    assert_string_equal(b->rack, "r1");
    assert_int_equal(meta_broker_endpoint(b, SLICE_LIT("PLAINTEXT"))->port, 9092);
    assert_null(meta_broker_endpoint(b, SLICE_LIT("SSL")));
    assert_null(meta_broker(m->image, -1));
    assert_int_equal(put_broker(m, -1, false), ERR_MALFORMED);
    assert_int_equal(put_broker(m, 1, true), ERR_OK); /* registers anew */
    assert_true(meta_broker(m->image, 1)->is_fenced);
    struct wire_writer w;
    struct unregister_broker_record r;
    unregister_broker_record_init(&r);
    r.broker_id = 1;
    for (int i = 0; i < 2; i++) {
        wire_writer_init_buf(&w, &m->buf);
        wire_put_uvarint(&w, 1);
        wire_put_uvarint(&w, UNREGISTER_BROKER_RECORD_KEY);
        wire_put_uvarint(&w, 0);
        enum err e = unregister_broker_record_encode(&w, 0, &r);
        assert_int_equal(apply(m, e ? e : wire_writer_finish(&w)), i ? ERR_MALFORMED : ERR_OK);
    }
    assert_null(meta_broker(m->image, 1));
}

static void test_producer_ids_never_go_back(void **state)
{
    struct making *m = *state;
    assert_int_equal(apply(m, record_producer_ids(&m->buf, 1, 5, 2000)), ERR_OK);
    assert_int_equal(apply(m, record_producer_ids(&m->buf, 1, 5, 1000)), ERR_MALFORMED);
    assert_int_equal(m->image->producer_id_next, 2000);
}

static enum err collect(void *ctx, struct slice record)
{
    struct making *copy = ctx;
    return meta_apply(&copy->image, record, copy->image->offset + 1);
}

static enum err append(void *ctx, struct slice record)
{
    struct wire_buf *buf = ctx;
    enum err e = wire_buf_reserve(buf, buf->size + record.size);
    if (e) { return e; }
    memcpy(buf->at + buf->size, record.at, record.size);
    buf->size += record.size;
    return ERR_OK;
}

/* A dump applied to nothing gives an image with the same dump. */
static void test_a_dump_rebuilds_the_image(void **state)
{
    struct making *m = *state;
    struct making copy = {.image = meta_create()};
    struct wire_buf one, two;
    assert_int_equal(put_broker(m, 1, false), ERR_OK);
    for (uint8_t t = 1; t < 20; t++) {
        char name[16] = {(char)('a' + t % 7), (char)('a' + t)};
        assert_int_equal(put_topic(m, name, t), ERR_OK);
        for (int32_t i = 0; i < t; i++) {
            assert_int_equal(put_partition(m, t, i), ERR_OK);
        }
        assert_int_equal(put_config(m, META_RESOURCE_TOPIC, name, "segment.ms", "900000"), ERR_OK);
    }
    assert_int_equal(put_config(m, META_RESOURCE_BROKER, "", "max.connections", "9"), ERR_OK);
    assert_int_equal(apply(m, record_producer_ids(&m->buf, 1, 5, 3000)), ERR_OK);
    assert_int_equal(apply(m, record_feature(&m->buf, SLICE_LIT("metadata.version"), 29)), ERR_OK);
    assert_int_equal(meta_dump(m->image, collect, &copy), ERR_OK);
    wire_buf_init(&one, 1u << 20);
    wire_buf_init(&two, 1u << 20);
    assert_int_equal(meta_dump(m->image, append, &one), ERR_OK);
    assert_int_equal(meta_dump(copy.image, append, &two), ERR_OK);
    assert_int_equal(one.size, two.size);
    assert_memory_equal(one.at, two.at, one.size);
    assert_int_equal(copy.image->partitions_count, m->image->partitions_count);
    assert_int_equal(copy.image->producer_id_next, 3000);
    wire_buf_fini(&one);
    wire_buf_fini(&two);
    meta_unref(copy.image);
}

static enum err stop_at_third(void *ctx, struct slice record)
{
    (void)record;
    return ++*(int *)ctx == 3 ? ERR_LIMIT : ERR_OK;
}

static void test_a_dump_stops_at_the_first_error(void **state)
{
    struct making *m = *state;
    int count = 0;
    assert_int_equal(put_topic(m, "orders", 1), ERR_OK);
    for (int32_t i = 0; i < 9; i++) {
        assert_int_equal(put_partition(m, 1, i), ERR_OK);
    }
    assert_int_equal(meta_dump(m->image, stop_at_third, &count), ERR_LIMIT);
    assert_int_equal(count, 3);
}

static void test_the_latest_is_what_was_published(void **state)
{
    struct making *m = *state;
    struct meta_publisher p;
    meta_publisher_init(&p, meta_ref(m->image));
    struct meta_image *before = meta_latest(&p);
    assert_int_equal(put_topic(m, "orders", 1), ERR_OK);
    meta_publish(&p, meta_ref(m->image));
    struct meta_image *latest = meta_latest(&p);
    assert_ptr_equal(latest, m->image);
    assert_null(meta_topic(before, SLICE_LIT("orders"))); /* who held the old one still does */
    meta_unref(before);
    meta_unref(latest);
    meta_publisher_fini(&p);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_topic_is_found_by_name_and_by_id),
        CASE(test_a_record_that_makes_no_sense_changes_nothing),
        CASE(test_bytes_that_are_no_record_are_refused),
        CASE(test_an_old_image_stays_as_it_was),
        CASE(test_overrides_go_with_their_topic_and_with_no_other),
        CASE(test_a_walk_over_overrides_sees_one_resource),
        CASE(test_a_leader_that_is_named_begins_an_epoch),
        CASE(test_brokers_come_and_go),
        CASE(test_producer_ids_never_go_back),
        CASE(test_a_dump_rebuilds_the_image),
        CASE(test_a_dump_stops_at_the_first_error),
        CASE(test_the_latest_is_what_was_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
