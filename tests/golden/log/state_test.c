/* state_test.c - a producer snapshot and an epoch file that Kafka 4.4 wrote, read here and written
 * again byte for byte.
 *
 * The files come from tests/golden/java-records/Records.java. "--write DIR" writes such files for
 * "Records.java check DIR": the other direction. */
#include "log/epochs.h"
#include "log/producer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define BASE_TIME 1700000000000

static uint8_t bytes[4096];

static struct slice load(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/data/records/%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    return slice_of(bytes, size);
}

static void test_snapshot_of_kafka_is_understood_and_written_again(void **state)
{
    (void)state;
    struct slice file = load("producers.snapshot");
    struct producers p;
    producers_init(&p, 100);
    assert_int_equal(producers_snapshot_decode(&p, file, 0, -1), ERR_OK);
    assert_int_equal(p.count, 5);
    for (int i = 0; i < 5; i++) {
        const struct producer_entry *e = producers_find(&p, 4000 + i);
        assert_non_null(e);
        assert_int_equal(e->epoch, i);
        assert_int_equal(e->last_timestamp, BASE_TIME + i);
        assert_int_equal(e->coordinator_epoch, i == 4 ? 12 : -1);
        assert_int_equal(e->txn_first_offset, i == 3 ? 77 : -1);
        assert_int_equal(e->batches_count, i == 2 ? 0 : 1);
        if (i == 2) { continue; }
        assert_int_equal(e->batches[0].last_sequence, 10 * i + 5);
        assert_int_equal(e->batches[0].last_offset, 100 * i + 50);
        assert_int_equal(e->batches[0].offset_delta, i);
    }
    struct wire_buf again;
    wire_buf_init(&again, 4096);
    assert_int_equal(producers_snapshot_encode(&p, &again), ERR_OK);
    assert_true(slice_eq(file, wire_buf_slice(&again)));
    wire_buf_fini(&again);
    producers_fini(&p);
}

static void test_epoch_file_of_kafka_is_understood_and_written_again(void **state)
{
    (void)state;
    struct slice file = load("leader-epoch-checkpoint");
    struct epochs e;
    epochs_init(&e);
    assert_int_equal(epochs_decode(&e, file), ERR_OK);
    assert_int_equal(e.count, 3);
    assert_int_equal(epochs_at(&e, 1)->epoch, 3);
    assert_int_equal(epochs_at(&e, 1)->start, 17);
    assert_int_equal(epochs_latest(&e), 2147483647);
    struct wire_buf again;
    wire_buf_init(&again, 4096);
    assert_int_equal(epochs_encode(&e, &again), ERR_OK);
    assert_true(slice_eq(file, wire_buf_slice(&again)));
    wire_buf_fini(&again);
    epochs_fini(&e);
}

static int write_file(const char *dir, const char *name, const struct wire_buf *b)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    return f && fwrite(b->at, 1, b->size, f) == b->size && fclose(f) == 0 ? 0 : 1;
}

static int write_all(const char *dir)
{
    struct producers p;
    struct wire_buf out;
    producers_init(&p, 100);
    wire_buf_init(&out, 4096);
    int64_t offset = 0;
    for (int i = 0; i < 2; i++) {
        struct batch_header h = {
            .base_offset = offset,
            .producer_id = 1 + i,
            .producer_epoch = (int16_t)i,
            .last_offset_delta = 9 + 5 * i,
            .max_timestamp = BASE_TIME + i,
        };
        offset += h.last_offset_delta + 1;
        if (producers_add(&p, &h) != ERR_OK) { return 1; }
    }
    if (producers_snapshot_encode(&p, &out) != ERR_OK) { return 1; }
    int failed = write_file(dir, "00000000000000000025.snapshot", &out);
    struct epochs e;
    bool changed = false;
    epochs_init(&e);
    out.size = 0;
    if (epochs_assign(&e, 0, 0, &changed) != ERR_OK ||
        epochs_assign(&e, 3, 17, &changed) != ERR_OK || epochs_encode(&e, &out) != ERR_OK) {
        return 1;
    }
    failed |= write_file(dir, "leader-epoch-checkpoint", &out);
    producers_fini(&p);
    epochs_fini(&e);
    wire_buf_fini(&out);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0) { return write_all(argv[2]); }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_of_kafka_is_understood_and_written_again),
        cmocka_unit_test(test_epoch_file_of_kafka_is_understood_and_written_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
