/* adopt_test.c - a directory that Apache Kafka 4.4 wrote is served, and what we write into side
 * files is what Kafka would have written. */
#include "unit/log/fixture.h"

#define GOLDEN "tests/golden/log/kafka-4.4.0"
#define KAFKA_RECORDS 500

enum stop { STOP_CLEAN, STOP_CRASH, STOP_CRASH_PREALLOCATED };

/* A data directory around the golden partition, as Kafka's stop leaves it. */
static void place(struct fixture *f, enum stop stop)
{
    fixture_shell("rm -rf '%s' && mkdir -p '%s' && cp -r " GOLDEN " '%s/gold-0' && "
                  "rm '%s/gold-0/README.md' && mkdir '%s/__cluster_metadata-0'",
                  f->path, f->path, f->path, f->path, f->path);
    fixture_shell("printf '#\\nnode.id=1\\ndirectory.id=a9VThp8tTyzf5P9-2_guSA\\nversion=1\\n"
                  "cluster.id=cluster-of-tests\\n' > '%s/meta.properties'",
                  f->path);
    fixture_shell("cd '%s' && printf '0\\n1\\ngold 0 %d\\n' | tee " LOGDIR_RECOVERY_POINTS
                  " > " LOGDIR_HIGH_WATERMARKS,
                  f->path, stop == STOP_CLEAN ? KAFKA_RECORDS : 400);
    if (stop == STOP_CLEAN) {
        fixture_shell("printf '{\"version\":0,\"brokerEpoch\":14}' > '%s/" LOGDIR_MARKER "'",
                      f->path);
    } else {
        fixture_shell("rm '%s/gold-0/00000000000000000500.snapshot'", f->path);
    }
    if (stop == STOP_CRASH_PREALLOCATED) {
        fixture_shell("truncate -s 10485760 '%s/gold-0/00000000000000000400.index'; "
                      "truncate -s 10485756 '%s/gold-0/00000000000000000400.timeindex'",
                      f->path, f->path);
    }
}

static void check(struct fixture *f)
{
    char id[UUID_TEXT_SIZE];
    assert_int_equal(logdir_logs_count(f->dir), 1);
    struct log *log = fixture_find(f, "gold");
    assert_string_equal(uuid_format(log_topic_id(log), id), "mdEOCJ46T3KemLgDm7MybQ");
    assert_int_equal(log_leo(log), KAFKA_RECORDS);
    for (size_t max = 1; max < 100000; max = max * 3 + 50) {
        assert_int_equal(fixture_read_all(log, max), KAFKA_RECORDS);
    }
    /* Every time finds the first record that is at least as late. */
    struct log_time_offset first, last;
    assert_int_equal(log_offset_by_time(log, 0, INT64_MAX, &first), ERR_OK);
    assert_int_equal(first.offset, 0);
    assert_int_equal(log_offset_of_max_time(log, &last), ERR_OK);
    assert_true(last.offset >= 400 && last.offset < KAFKA_RECORDS);
    int64_t before = 0;
    for (int64_t t = first.timestamp; t <= last.timestamp; t += 97) {
        struct log_time_offset at;
        assert_int_equal(log_offset_by_time(log, t, INT64_MAX, &at), ERR_OK);
        assert_true(at.timestamp >= t && at.offset >= before);
        before = at.offset;
    }
    int32_t epoch = 0;
    int64_t end = 0;
    struct log_epoch_args args = {.may_block = true};
    assert_int_equal(log_epoch_end_offset(log, &args, &epoch, &end), ERR_OK);
    assert_int_equal(end, KAFKA_RECORDS);
    /* Five idempotent producers, the last sequence of each. */
    const struct producers *p = &log->warm->producers;
    assert_int_equal(p->count, 5);
    for (uint32_t i = 0; i < p->count; i++) {
        const struct producer_entry *n = &p->entries[i];
        assert_true(n->batches_count > 0);
        assert_int_equal(n->batches[n->batches_count - 1].last_sequence, 99);
        struct fixture_batch b = {
            .producer_id = n->producer_id, .producer_epoch = n->epoch, .sequence = 100};
        assert_int_equal(fixture_append(f, log, b).first_offset, KAFKA_RECORDS + (int64_t)i);
    }
    log_unref(log);
}

static void test_what_kafka_wrote_is_served(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f);
    for (int stop = STOP_CLEAN; stop <= STOP_CRASH_PREALLOCATED; stop++) {
        place(f, (enum stop)stop);
        fixture_open(f);
        assert_false(f->dir->stats.was_clean); /* the manifest is not Kafka's */
        check(f);
        fixture_close(f, true);
        fixture_open(f);
        struct log *log = fixture_find(f, "gold");
        assert_int_equal(fixture_read_all(log, 4000), KAFKA_RECORDS + 5);
        log_unref(log);
        fixture_close(f, false);
    }
    fixture_fini(f);
    free(f);
}

/* Index, time index and producer snapshot come out byte for byte as Kafka made them. */
static void test_side_files_are_kafkas_byte_for_byte(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f);
    f->options.config.index_interval_bytes = 512;
    place(f, STOP_CLEAN);
    fixture_shell("cd '%s' && rm gold-0/*index gold-0/*.snapshot gold-0/leader-epoch-checkpoint "
                  ".kafka_cleanshutdown " LOGDIR_RECOVERY_POINTS,
                  f->path);
    fixture_open(f);
    struct log *log = fixture_find(f, "gold");
    assert_int_equal(fixture_read_all(log, 4000), KAFKA_RECORDS);
    log_unref(log);
    fixture_close(f, true);
    fixture_shell("for x in '%s'/gold-0/*index '%s'/gold-0/leader-epoch-checkpoint; do "
                  "cmp $x " GOLDEN "/$(basename $x) || exit 1; done",
                  f->path, f->path);
    fixture_shell("test $(ls '%s'/gold-0/*index | wc -l) = 10", f->path);
    fixture_fini(f);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_kafka_wrote_is_served),
        cmocka_unit_test(test_side_files_are_kafkas_byte_for_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
