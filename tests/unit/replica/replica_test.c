/* replica_test.c - partitions over real directories: the high watermark under each flush policy,
 * what delayed operations wait for, and what a start makes of what it finds. */
#include "base/check.h"
#include "base/mem.h"
#include "log/log_int.h"
#include "meta/records.h"
#include "replica/delayed.h"
#include "wire/batch.h"
#include "wire/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW_MS 1700000000000LL

struct fixture {
    struct sys *sys;
    char root[256];
    char dir[300];
    struct config_set statics;
    struct meta_publisher publisher;
    struct meta_image *image; /* the newest; a reference */
    struct purg_env env;
    struct replica_manager *m;
    struct codec_scratch *scratch;
    struct wire_buf buf;
};

static int setup(void **state)
{
    struct fixture *f = mem_new(struct fixture);
    assert_non_null(f);
    const char *tmp = getenv("TMPDIR");
    snprintf(f->root, sizeof f->root, "%s/bb-replica-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->root));
    snprintf(f->dir, sizeof f->dir, "%s/data", f->root);
    f->sys = sys_create();
    f->scratch = codec_scratch_create();
    assert_true(f->sys && f->scratch);
    config_set_init(&f->statics);
    wire_buf_init(&f->buf, 1u << 20);
    f->env = purg_env_pthread();
    f->image = meta_create();
    meta_publisher_init(&f->publisher, meta_ref(f->image));
    *state = f;
    return 0;
}

static void start(struct fixture *f, enum log_flush_policy policy)
{
    struct replica_options o = {.sys = f->sys,
                                .statics = &f->statics,
                                .publisher = &f->publisher,
                                .node_id = 1,
                                .flush_policy = policy,
                                .purg_env = &f->env};
    assert_int_equal(replica_create(&o, &f->m), ERR_OK);
    assert_int_equal(replica_open_dir(f->m, f->dir, "cluster-of-tests"), ERR_OK);
}

static void stop(struct fixture *f)
{
    replica_destroy(f->m, true, 1);
    f->m = NULL;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[300];
    if (f->m) { stop(f); }
    meta_unref(f->image);
    meta_publisher_fini(&f->publisher);
    config_set_fini(&f->statics);
    codec_scratch_destroy(f->scratch);
    wire_buf_fini(&f->buf);
    sys_destroy(f->sys);
    snprintf(command, sizeof command, "rm -rf '%s'", f->root);
    assert_int_equal(system(command), 0);
    mem_free(f);
    return 0;
}

static void apply(struct fixture *f, enum err written)
{
    assert_int_equal(written, ERR_OK);
    assert_int_equal(meta_apply(&f->image, wire_buf_slice(&f->buf), f->image->offset + 1), ERR_OK);
    f->buf.size = 0;
}

/* The topic in the image; its replicas are not made. */
static const struct meta_topic *put_topic(struct fixture *f, const char *name, uint8_t id,
                                          int32_t partitions)
{
    int32_t nodes[1] = {1};
    struct uuid uuid = {{id, 7}};
    f->buf.size = 0;
    apply(f, record_topic(&f->buf, slice_str(name), uuid));
    for (int32_t i = 0; i < partitions; i++) {
        struct meta_partition p = {.index = i,
                                   .leader = 1,
                                   .leader_epoch = 2,
                                   .replicas_count = 1,
                                   .isr_count = 1,
                                   .replicas = nodes,
                                   .isr = nodes};
        apply(f, record_partition(&f->buf, uuid, &p, (struct uuid){0}));
    }
    return meta_topic(f->image, slice_str(name));
}

/* A topic with one partition that is served; gives a reference to the partition. */
static struct partition *make(struct fixture *f, const char *name, uint8_t id)
{
    const struct meta_topic *t = put_topic(f, name, id, 1);
    assert_int_equal(replica_add_partitions(f->m, f->image, t, 0), ERR_OK);
    struct partition *p = replica_find(f->m, t->id, 0);
    assert_non_null(p);
    return p;
}

static enum err append_one(struct partition *p, struct log_append_args *args,
                           struct log_append_result *result)
{
    partition_append(p, &args, &result, 1);
    return result->err;
}

static void append(struct fixture *f, struct partition *p, int records)
{
    struct batch_build_record r[16];
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    assert_true(records <= 16);
    for (int i = 0; i < records; i++) {
        r[i] = (struct batch_build_record){.timestamp = NOW_MS, .value = SLICE_LIT("value")};
    }
    f->buf.size = 0;
    assert_int_equal(batch_build(&o, r, (size_t)records, f->scratch, &f->buf), ERR_OK);
    struct log_append_args args = {.records = {f->buf.at, f->buf.size},
                                   .now_ms = NOW_MS,
                                   .zstd_allowed = true,
                                   .may_block = true,
                                   .scratch = f->scratch};
    struct log_append_result result;
    assert_int_equal(append_one(p, &args, &result), ERR_OK);
    partition_advance(p, NULL);
}

/* ---- the high watermark */

static void test_under_os_what_was_appended_is_readable_at_once(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    struct partition *p = make(f, "t", 1);
    assert_int_equal(partition_hw(p), 0);
    append(f, p, 3);
    assert_int_equal(partition_hw(p), 3);
    assert_int_equal(partition_lso(p), 3);
    assert_int_equal(log_hw(p->log), 3);
    partition_unref(p);
}

/* [REP-3]; the flush moves it without anybody asking. */
static void test_under_group_what_is_readable_is_synced(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_GROUP);
    struct partition *p = make(f, "t", 1);
    for (int i = 0; i < 20; i++) {
        append(f, p, 2);
        int64_t hw = partition_hw(p); /* read first: synced only grows */
        assert_true(hw <= log_synced(p->log));
    }
    replica_flush(f->m);
    assert_int_equal(partition_hw(p), 40);
    assert_int_equal(log_synced(p->log), 40);
    partition_unref(p);
}

static void test_the_watermark_is_there_after_a_restart(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_GROUP);
    struct partition *p = make(f, "t", 1);
    append(f, p, 5);
    partition_unref(p);
    stop(f);
    start(f, LOG_FLUSH_GROUP);
    assert_int_equal(replica_load(f->m, f->image), ERR_OK);
    p = replica_find(f->m, meta_topic(f->image, SLICE_LIT("t"))->id, 0);
    assert_non_null(p);
    assert_int_equal(partition_hw(p), 5);
    assert_int_equal(partition_leader_epoch(p), 2);
    assert_int_equal(partition_state(p), PARTITION_ONLINE);
    partition_unref(p);
}

/* ---- delayed operations; only what completes them, no owner runs */

static bool is_complete(const struct purg_op_type *type, struct purg_op *op)
{
    return type->try_complete(op);
}

/* The references that the items hold. */
static void drop_produce(struct delayed_produce *d)
{
    for (size_t i = 0; i < d->items_count; i++) {
        partition_unref(d->items[i].partition);
    }
}

static void drop_fetch(struct delayed_fetch *d)
{
    for (size_t i = 0; i < d->items_count; i++) {
        partition_unref(d->items[i].partition);
    }
}

static void test_a_produce_waits_for_the_watermark_of_each_partition(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    struct partition *a = make(f, "a", 1), *b = make(f, "b", 2);
    struct delayed_produce_item items[] = {{a, 2}, {b, 1}};
    struct delayed_produce d = {.items = items, .items_count = 2};
    assert_false(is_complete(&delayed_produce_type, &d.op));
    append(f, a, 2);
    assert_true(delayed_produce_is_acked(&items[0]));
    assert_false(is_complete(&delayed_produce_type, &d.op));
    append(f, b, 1);
    assert_true(is_complete(&delayed_produce_type, &d.op));
    drop_produce(&d);
}

static struct delayed_fetch_item fetch_item(struct partition *p, int64_t offset)
{
    return (struct delayed_fetch_item){
        .partition = p, .offset = offset, .bytes_max = 1 << 20, .current_leader_epoch = -1};
}

static void test_a_fetch_waits_for_its_bytes_over_all_partitions(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    struct partition *a = make(f, "a", 1), *b = make(f, "b", 2);
    struct delayed_fetch_item items[] = {fetch_item(a, 0), fetch_item(b, 0)};
    struct delayed_fetch d = {.items = items, .items_count = 2, .bytes_min = 1};
    assert_false(is_complete(&delayed_fetch_type, &d.op));
    append(f, b, 1);
    assert_true(is_complete(&delayed_fetch_type, &d.op));
    size_t one = log_bytes_between(b->log, 0, 1, 1 << 20);
    assert_true(one > 1);
    d.bytes_min = (int64_t)one + 1;
    assert_false(is_complete(&delayed_fetch_type, &d.op));
    append(f, a, 1);
    assert_true(is_complete(&delayed_fetch_type, &d.op));
    drop_fetch(&d);
}

static void test_a_fetch_does_not_count_what_is_not_readable(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    struct partition *p = make(f, "t", 1);
    append(f, p, 1);
    struct delayed_fetch_item item = fetch_item(p, 1);
    struct delayed_fetch d = {.items = &item, .items_count = 1, .bytes_min = 1};
    assert_false(is_complete(&delayed_fetch_type, &d.op));
    struct batch_build_record r = {.timestamp = NOW_MS, .value = SLICE_LIT("v")};
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    f->buf.size = 0;
    assert_int_equal(batch_build(&o, &r, 1, NULL, &f->buf), ERR_OK);
    struct log_append_args args = {.records = {f->buf.at, f->buf.size},
                                   .now_ms = NOW_MS,
                                   .may_block = true,
                                   .scratch = f->scratch};
    struct log_append_result result;
    assert_int_equal(append_one(p, &args, &result), ERR_OK);
    assert_false(is_complete(&delayed_fetch_type, &d.op)); /* the watermark was not moved yet */
    partition_advance(p, NULL);
    assert_true(is_complete(&delayed_fetch_type, &d.op));
    drop_fetch(&d);
}

static void test_what_is_not_data_ends_a_fetch_too(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    struct partition *p = make(f, "t", 1);
    append(f, p, 4);
    append(f, p, 4);
    struct delayed_fetch_item item = fetch_item(p, 8);
    struct delayed_fetch d = {.items = &item, .items_count = 1, .bytes_min = 1};
    assert_false(is_complete(&delayed_fetch_type, &d.op));
    item.offset = 9; /* beyond the end */
    assert_true(is_complete(&delayed_fetch_type, &d.op));
    item.offset = 8;
    item.current_leader_epoch = 2;
    assert_false(is_complete(&delayed_fetch_type, &d.op));
    item.current_leader_epoch = 1;
    assert_true(is_complete(&delayed_fetch_type, &d.op));
    item.current_leader_epoch = -1;
    d.bytes_min = 1 << 20;
    item.offset = 2;
    assert_false(is_complete(&delayed_fetch_type, &d.op));
    assert_int_equal(log_set_start(p->log, 4), ERR_OK); /* below the start now */
    assert_true(is_complete(&delayed_fetch_type, &d.op));
    drop_fetch(&d);
}

/* ---- states */

static void test_a_removed_topic_ends_what_waits_for_it(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    struct partition *p = make(f, "t", 1);
    struct uuid id = p->topic_id;
    struct delayed_fetch_item item = fetch_item(partition_ref(p), 0);
    struct delayed_fetch fetch = {.items = &item, .items_count = 1, .bytes_min = 1};
    struct delayed_produce_item wanted = {partition_ref(p), 100};
    struct delayed_produce produce = {.items = &wanted, .items_count = 1};
    assert_false(is_complete(&delayed_fetch_type, &fetch.op));
    assert_false(is_complete(&delayed_produce_type, &produce.op));
    replica_remove_partitions(f->m, meta_topic(f->image, SLICE_LIT("t")), 0);
    assert_int_equal(partition_state(p), PARTITION_DELETED);
    assert_true(is_complete(&delayed_fetch_type, &fetch.op));
    assert_true(is_complete(&delayed_produce_type, &produce.op));
    assert_false(delayed_produce_is_acked(&wanted)); /* it ended, it was not acknowledged */
    assert_null(replica_find(f->m, id, 0));
    assert_int_equal(replica_partitions_count(f->m), 0);
    drop_fetch(&fetch);
    drop_produce(&produce);
    partition_unref(p);
}

/* Stands in the flusher's way, as a device does that takes its time. */
struct obstacle {
    struct sys *sys;
    struct log *log;
    _Atomic int held, go;
};

static uint64_t obstacle_step(void *ctx, uint64_t now_ns)
{
    struct obstacle *o = ctx;
    (void)now_ns;
    if (atomic_load(&o->held)) { return SYS_NEVER; }
    log_lock(o->log);
    sys_signal_flag(o->sys, &o->held, 1);
    while (!sys_wait_flag(o->sys, &o->go, SYS_NEVER)) {}
    log_unlock(o->log);
    return SYS_NEVER;
}

static void test_a_removal_waits_for_no_flush_under_way(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_GROUP);
    struct partition *busy = make(f, "busy", 1), *p = make(f, "t", 2);
    struct obstacle o = {.sys = f->sys, .log = busy->log};
    struct sys_task *task = NULL;
    struct sys_task_options options = {.name = "obstacle", .step = obstacle_step, .ctx = &o};
    assert_int_equal(sys_task_start(f->sys, &options, &task), ERR_OK);
    while (!sys_wait_flag(f->sys, &o.held, SYS_NEVER)) {}
    log_mark_dirty(busy->log, true); /* the flusher runs into it */
    replica_remove_partitions(f->m, meta_topic(f->image, SLICE_LIT("t")), 0);
    assert_int_equal(partition_state(p), PARTITION_DELETED);
    assert_int_equal(replica_partitions_count(f->m), 1);
    partition_unref(p);
    sys_signal_flag(f->sys, &o.go, 1);
    sys_task_stop(task);
    partition_unref(busy);
}

/* Partitions that were made for a mutation that failed: the topic's others stay as they are. */
static void test_only_the_new_partitions_are_taken_back(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    const struct meta_topic *t = put_topic(f, "t", 1, 5);
    struct uuid id = t->id;
    for (int i = 0; i < 2; i++) { /* taken back, they can be made again */
        assert_int_equal(replica_add_partitions(f->m, f->image, t, i ? 3 : 0), ERR_OK);
        assert_int_equal(replica_partitions_count(f->m), 5);
        struct partition *p = replica_find(f->m, id, 4), *kept = replica_find(f->m, id, 2);
        append(f, kept, 2);
        replica_remove_partitions(f->m, t, 3);
        assert_int_equal(partition_state(p), PARTITION_DELETED);
        assert_int_equal(partition_state(kept), PARTITION_ONLINE);
        assert_int_equal(partition_hw(kept), 2 * (i + 1));
        assert_int_equal(replica_partitions_count(f->m), 3);
        assert_int_equal(logdir_logs_count(replica_dir(f->m, 0)), 3);
        partition_unref(p);
        partition_unref(kept);
    }
}

/* Its removal failed: what it holds is not the new topic's. */
static void test_a_snapshot_holds_every_partition_and_what_the_gone_ones_counted(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    const int32_t many = 2 * REPLICA_SNAPSHOT_STEP + 3;
    const struct meta_topic *t = put_topic(f, "t", 1, many);
    assert_int_equal(replica_add_partitions(f->m, f->image, t, 0), ERR_OK);
    struct partition *p = replica_find(f->m, t->id, many - 1);
    partition_count(&p->counters.bytes_in, 70);
    partition_unref(p);
    struct replica_snapshot s;
    assert_int_equal(replica_snapshot_take(f->m, &s), ERR_OK);
    assert_int_equal(s.count, many);
    for (int32_t i = 0; i < many; i++) {
        assert_int_equal(s.partitions[i]->index, i);
    }
    assert_int_equal(partition_counted(&s.gone.bytes_in), 0);
    replica_remove_partitions(f->m, t, many - 2); /* the snapshot still has them */
    assert_int_equal(partition_state(s.partitions[many - 1]), PARTITION_DELETED);
    replica_snapshot_drop(&s);
    replica_snapshot_drop(&s);
    assert_int_equal(replica_snapshot_take(f->m, &s), ERR_OK);
    assert_int_equal(s.count, many - 2);
    assert_int_equal(partition_counted(&s.gone.bytes_in), 70);
    replica_snapshot_drop(&s);
}

static void test_the_log_of_an_older_topic_is_never_taken_for_a_new_one(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    struct partition *old = make(f, "t", 1);
    append(f, old, 3);
    f->buf.size = 0;
    apply(f, record_remove_topic(&f->buf, old->topic_id));
    const struct meta_topic *t = put_topic(f, "t", 2, 1);
    assert_int_equal(replica_add_partitions(f->m, f->image, t, 0), ERR_BUSY);
    assert_null(replica_find(f->m, t->id, 0));
    partition_unref(old);
    stop(f);
    start(f, LOG_FLUSH_OS);
    assert_int_equal(replica_load(f->m, f->image), ERR_OK);
    struct partition *p = replica_find(f->m, t->id, 0);
    assert_non_null(p);
    assert_int_equal(partition_hw(p), 0); /* the older one was set aside */
    partition_unref(p);
}

static void test_a_stopping_broker_ends_what_waits(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    struct partition *p = make(f, "t", 1);
    struct delayed_produce_item wanted = {partition_ref(p), 1};
    struct delayed_produce d = {.items = &wanted, .items_count = 1};
    replica_stop_partitions(f->m);
    assert_int_equal(partition_state(p), PARTITION_STOPPING);
    assert_true(is_complete(&delayed_produce_type, &d.op));
    drop_produce(&d);
    partition_unref(p);
}

static void test_a_deleted_topics_name_is_free_for_another(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    struct partition *p = make(f, "t", 1);
    append(f, p, 3);
    partition_unref(p);
    struct uuid id = meta_topic(f->image, SLICE_LIT("t"))->id;
    replica_remove_partitions(f->m, meta_topic(f->image, SLICE_LIT("t")), 0);
    f->buf.size = 0;
    apply(f, record_remove_topic(&f->buf, id));
    p = make(f, "t", 2);
    assert_int_equal(log_leo(p->log), 0);
    partition_unref(p);
}

/* ---- start */

static void test_a_partition_without_a_log_gets_an_empty_one(void **state)
{
    struct fixture *f = *state;
    put_topic(f, "t", 1, 3);
    start(f, LOG_FLUSH_GROUP);
    assert_int_equal(replica_load(f->m, f->image), ERR_OK);
    assert_int_equal(replica_partitions_count(f->m), 3);
    assert_int_equal(logdir_logs_count(replica_dir(f->m, 0)), 3);
}

static bool has_entry(const struct fixture *f, const char *pattern)
{
    char command[700];
    snprintf(command, sizeof command, "ls -d '%s'/%s >/dev/null 2>&1", f->dir, pattern);
    return system(command) == 0;
}

/* A log of another topic id under a known name is not the topic's. */
static void test_a_log_that_the_metadata_does_not_know_is_set_aside(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_GROUP);
    struct partition *p = make(f, "t", 1);
    append(f, p, 3);
    partition_unref(p);
    p = make(f, "kept", 5);
    append(f, p, 2);
    partition_unref(p);
    stop(f);
    f->buf.size = 0;
    apply(f, record_remove_topic(&f->buf, meta_topic(f->image, SLICE_LIT("t"))->id));
    put_topic(f, "t", 9, 1);
    start(f, LOG_FLUSH_GROUP);
    assert_int_equal(replica_load(f->m, f->image), ERR_OK);
    assert_true(has_entry(f, "t-0.*-stray"));
    p = replica_find(f->m, meta_topic(f->image, SLICE_LIT("t"))->id, 0);
    assert_int_equal(log_leo(p->log), 0);
    partition_unref(p);
    p = replica_find(f->m, meta_topic(f->image, SLICE_LIT("kept"))->id, 0);
    assert_int_equal(log_leo(p->log), 2);
    partition_unref(p);
}

/* An empty image beside full directories is a lost metadata log, not an order to drop all. */
static void test_logs_without_any_metadata_stop_the_start(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_GROUP);
    partition_unref(make(f, "t", 1));
    stop(f);
    meta_unref(f->image);
    f->image = meta_create();
    start(f, LOG_FLUSH_GROUP);
    assert_int_equal(replica_load(f->m, f->image), ERR_CORRUPT);
    assert_false(has_entry(f, "*-stray"));
    assert_true(has_entry(f, "t-0"));
}

static void test_partitions_spread_over_the_directories(void **state)
{
    struct fixture *f = *state;
    char second[400];
    snprintf(second, sizeof second, "%s/more", f->root);
    start(f, LOG_FLUSH_GROUP);
    assert_int_equal(replica_open_dir(f->m, second, "cluster-of-tests"), ERR_OK);
    assert_int_equal(replica_dirs_count(f->m), 2);
    const struct meta_topic *t = put_topic(f, "t", 1, 10);
    assert_int_equal(replica_add_partitions(f->m, f->image, t, 0), ERR_OK);
    assert_int_equal(logdir_logs_count(replica_dir(f->m, 0)), 5);
    assert_int_equal(logdir_logs_count(replica_dir(f->m, 1)), 5);
    stop(f);
    start(f, LOG_FLUSH_GROUP);
    assert_int_equal(replica_open_dir(f->m, second, "cluster-of-tests"), ERR_OK);
    assert_int_equal(replica_load(f->m, f->image), ERR_OK); /* each found where it is */
    assert_int_equal(replica_partitions_count(f->m), 10);
    assert_int_equal(logdir_logs_count(replica_dir(f->m, 0)), 5);
}

static void start_two(struct fixture *f, const char *second)
{
    start(f, LOG_FLUSH_GROUP);
    assert_int_equal(replica_open_dir(f->m, second, "cluster-of-tests"), ERR_OK);
}

/* "t" with three records, in f->dir. */
static void make_in_first(struct fixture *f, char second[400])
{
    snprintf(second, 400, "%s/more", f->root);
    start_two(f, second);
    struct partition *p = make(f, "t", 1);
    append(f, p, 3);
    partition_unref(p);
    stop(f);
    assert_true(has_entry(f, "t-0"));
}

static void test_a_partition_in_two_directories_stops_the_start(void **state)
{
    struct fixture *f = *state;
    char second[400], command[1200];
    make_in_first(f, second);
    snprintf(command, sizeof command, "cp -r '%s/t-0' '%s'", f->dir, second);
    assert_int_equal(system(command), 0);
    for (int i = 0; i < 2; i++) { /* the second time without manifests */
        start_two(f, second);
        assert_int_equal(replica_load(f->m, f->image), ERR_EXISTS);
        replica_destroy(f->m, false, 1);
        f->m = NULL;
    }
    snprintf(command, sizeof command, "rm -r '%s/t-0' && mv '%s/t-0' '%s'", f->dir, second, f->dir);
    assert_int_equal(system(command), 0);
    start_two(f, second);
    assert_int_equal(replica_load(f->m, f->image), ERR_OK);
    struct partition *p = replica_find(f->m, meta_topic(f->image, SLICE_LIT("t"))->id, 0);
    assert_int_equal(log_leo(p->log), 3);
    partition_unref(p);
}

/* The manifest of the directory that it left still names it, whichever is opened first. */
static void test_a_partition_that_was_moved_is_found_where_it_is(void **state)
{
    struct fixture *f = *state;
    char second[400], command[1200];
    make_in_first(f, second);
    for (size_t i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "mv '%s/t-0' '%s'", i ? second : f->dir,
                 i ? f->dir : second);
        assert_int_equal(system(command), 0);
        start_two(f, second);
        assert_int_equal(replica_load(f->m, f->image), ERR_OK);
        assert_int_equal(logdir_logs_count(replica_dir(f->m, i)), 0);
        assert_int_equal(logdir_logs_count(replica_dir(f->m, 1 - i)), 1);
        replica_flush(f->m); /* no mark speaks of it here */
        struct partition *p = replica_find(f->m, meta_topic(f->image, SLICE_LIT("t"))->id, 0);
        assert_int_equal(partition_hw(p), 3 + (int64_t)i);
        append(f, p, 1);
        partition_unref(p);
        stop(f);
    }
    assert_false(has_entry(f, "*-stray"));
}

/* ---- configuration */

static void put_config(struct fixture *f, enum meta_resource type, const char *name,
                       const char *key, const char *value)
{
    f->buf.size = 0;
    apply(f, record_config(&f->buf, type, slice_str(name), slice_str(key), slice_str(value)));
}

static void test_a_logs_configuration_is_the_topics(void **state)
{
    struct fixture *f = *state;
    struct log_config c;
    struct config_scope scope = {&f->statics, NULL, 1};
    assert_int_equal(config_set_put(&f->statics, SLICE_LIT("log.retention.hours"), SLICE_LIT("2")),
                     ERR_OK);
    put_config(f, META_RESOURCE_BROKER, "", "message.max.bytes", "777");
    put_config(f, META_RESOURCE_TOPIC, "t", "segment.bytes", "2097152");
    put_config(f, META_RESOURCE_TOPIC, "t", "compression.type", "zstd");
    put_config(f, META_RESOURCE_TOPIC, "t", "cleanup.policy", "compact");
    put_config(f, META_RESOURCE_TOPIC, "t", "message.timestamp.type", "LogAppendTime");
    scope.image = f->image;
    replica_log_config(&scope, SLICE_LIT("t"), &c);
    assert_int_equal(c.retention_ms, 7200000);
    assert_int_equal(c.max_message_bytes, 777);
    assert_int_equal(c.segment_bytes, 2097152);
    assert_int_equal(c.compression_codec, CODEC_ZSTD);
    assert_int_equal(c.cleanup, LOG_CLEANUP_COMPACT);
    assert_true(c.timestamp_is_append_time);
    replica_log_config(&scope, SLICE_LIT("other"), &c);
    assert_int_equal(c.segment_bytes, 1073741824);
    assert_int_equal(c.compression_codec, LOG_CODEC_PRODUCER);
    assert_int_equal(c.cleanup, LOG_CLEANUP_DELETE);
    assert_false(c.timestamp_is_append_time);
}

/* Whether a batch of some 500 bytes is refused as too large. */
static bool is_too_large(struct fixture *f, struct partition *p)
{
    static const char text[500] = "x";
    struct batch_build_record r = {.timestamp = NOW_MS, .value = slice_of(text, sizeof text)};
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    f->buf.size = 0;
    assert_int_equal(batch_build(&o, &r, 1, NULL, &f->buf), ERR_OK);
    struct log_append_args args = {.records = {f->buf.at, f->buf.size},
                                   .now_ms = NOW_MS,
                                   .may_block = true,
                                   .scratch = f->scratch};
    struct log_append_result result;
    return append_one(p, &args, &result) != ERR_OK;
}

static void test_a_changed_configuration_takes_effect_on_what_runs(void **state)
{
    struct fixture *f = *state;
    start(f, LOG_FLUSH_OS);
    struct partition *p = make(f, "t", 1), *other = make(f, "u", 2);
    put_config(f, META_RESOURCE_TOPIC, "t", "max.message.bytes", "100");
    assert_false(is_too_large(f, p)); /* not told yet */
    replica_config_changed(f->m, f->image, META_RESOURCE_TOPIC, SLICE_LIT("t"));
    assert_true(is_too_large(f, p));
    assert_false(is_too_large(f, other));
    put_config(f, META_RESOURCE_BROKER, "", "message.max.bytes", "100");
    replica_config_changed(f->m, f->image, META_RESOURCE_BROKER, SLICE_LIT(""));
    assert_true(is_too_large(f, other));
    partition_unref(p);
    partition_unref(other);
}

/* A small batch that would unpack to more than max.decompressed.message.bytes. */
static void test_the_limit_of_decompressed_bytes_reaches_the_log(void **state)
{
    struct fixture *f = *state;
    static const char zeros[100000];
    start(f, LOG_FLUSH_OS);
    struct partition *p = make(f, "t", 1);
    struct batch_build_record r = {.timestamp = NOW_MS, .value = slice_of(zeros, sizeof zeros)};
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    o.codec = CODEC_GZIP;
    for (int i = 0; i < 2; i++) {
        f->buf.size = 0;
        assert_int_equal(batch_build(&o, &r, 1, f->scratch, &f->buf), ERR_OK);
        assert_true(f->buf.size < 2000);
        struct log_append_args args = {.records = {f->buf.at, f->buf.size},
                                       .now_ms = NOW_MS,
                                       .may_block = true,
                                       .scratch = f->scratch};
        struct log_append_result result;
        enum err e = append_one(p, &args, &result);
        assert_int_equal(e == ERR_OK, i == 0);
        put_config(f, META_RESOURCE_TOPIC, "t", "max.decompressed.message.bytes", "50000");
        replica_config_changed(f->m, f->image, META_RESOURCE_TOPIC, SLICE_LIT("t"));
    }
    partition_unref(p);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_under_os_what_was_appended_is_readable_at_once),
        CASE(test_under_group_what_is_readable_is_synced),
        CASE(test_the_watermark_is_there_after_a_restart),
        CASE(test_a_produce_waits_for_the_watermark_of_each_partition),
        CASE(test_a_fetch_waits_for_its_bytes_over_all_partitions),
        CASE(test_a_fetch_does_not_count_what_is_not_readable),
        CASE(test_what_is_not_data_ends_a_fetch_too),
        CASE(test_a_removed_topic_ends_what_waits_for_it),
        CASE(test_a_removal_waits_for_no_flush_under_way),
        CASE(test_only_the_new_partitions_are_taken_back),
        CASE(test_a_snapshot_holds_every_partition_and_what_the_gone_ones_counted),
        CASE(test_the_log_of_an_older_topic_is_never_taken_for_a_new_one),
        CASE(test_a_stopping_broker_ends_what_waits),
        CASE(test_a_deleted_topics_name_is_free_for_another),
        CASE(test_a_partition_without_a_log_gets_an_empty_one),
        CASE(test_a_log_that_the_metadata_does_not_know_is_set_aside),
        CASE(test_logs_without_any_metadata_stop_the_start),
        CASE(test_partitions_spread_over_the_directories),
        CASE(test_a_partition_in_two_directories_stops_the_start),
        CASE(test_a_partition_that_was_moved_is_found_where_it_is),
        CASE(test_a_logs_configuration_is_the_topics),
        CASE(test_a_changed_configuration_takes_effect_on_what_runs),
        CASE(test_the_limit_of_decompressed_bytes_reaches_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
