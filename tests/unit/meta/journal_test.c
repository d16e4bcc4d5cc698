/* journal_test.c - what was appended is there after the next start; what a crash tore is cut; any
 * other damage stops the start. */
#include "base/mem.h"
#include "meta/journal.h"
#include "meta/records.h"
#include "wire/batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW_MS 1700000000000LL

struct fixture {
    struct sys *sys;
    char dir[256];
    struct journal *j;
    struct meta_image *image;
    struct wire_buf buf;
};

static int setup(void **state)
{
    struct fixture *f = mem_new(struct fixture);
    assert_non_null(f);
    const char *tmp = getenv("TMPDIR");
    snprintf(f->dir, sizeof f->dir, "%s/bb-meta-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    f->sys = sys_create();
    assert_non_null(f->sys);
    wire_buf_init(&f->buf, 1u << 20);
    *state = f;
    return 0;
}

static void shut(struct fixture *f)
{
    journal_close(f->j);
    meta_unref(f->image);
    f->j = NULL;
    f->image = NULL;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[300];
    shut(f);
    sys_destroy(f->sys);
    wire_buf_fini(&f->buf);
    snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    assert_int_equal(system(command), 0);
    mem_free(f);
    return 0;
}

static enum err open_again(struct fixture *f)
{
    shut(f);
    struct journal_options o = {.sys = f->sys, .dir = f->dir, .snapshot_bytes = 1000};
    return journal_open(&o, &f->j, &f->image);
}

/* One topic as one append; the image follows. */
static void append(struct fixture *f, const char *name, uint8_t id)
{
    int64_t first;
    struct uuid uuid = {{id}};
    f->buf.size = 0;
    assert_int_equal(record_topic(&f->buf, slice_str(name), uuid), ERR_OK);
    struct slice record = wire_buf_slice(&f->buf);
    assert_int_equal(journal_append(f->j, &record, 1, NOW_MS, &first), ERR_OK);
    assert_int_equal(first, f->image->offset + 1);
    assert_int_equal(meta_apply(&f->image, record, first), ERR_OK);
}

static void path_of(const struct fixture *f, const char *name, char path[400])
{
    snprintf(path, 400, "%s/__cluster_metadata-0/%s", f->dir, name);
}

static bool exists(const struct fixture *f, const char *name)
{
    char path[400];
    path_of(f, name, path);
    FILE *file = fopen(path, "r");
    if (file) { fclose(file); }
    return file != NULL;
}

static long file_size(const struct fixture *f, const char *name)
{
    char path[400];
    path_of(f, name, path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    fclose(file);
    return size;
}

/* Changes one byte, or cuts the file there when cut is set. */
static void damage(const struct fixture *f, const char *name, long pos, bool cut)
{
    char path[400], command[500];
    path_of(f, name, path);
    if (cut) {
        snprintf(command, sizeof command, "truncate -s %ld '%s'", pos, path);
        assert_int_equal(system(command), 0);
        return;
    }
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, pos, SEEK_SET), 0);
    int c = fgetc(file);
    assert_int_equal(fseek(file, pos, SEEK_SET), 0);
    assert_int_not_equal(fputc(c ^ 0x55, file), EOF);
    assert_int_equal(fclose(file), 0);
}

#define LOG0 "00000000000000000000.log"

static void test_a_fresh_directory_is_empty(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(f->image->offset, -1);
    assert_false(journal_wants_snapshot(f->j));
}

static void test_appends_are_there_after_the_next_start(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_again(f), ERR_OK);
    append(f, "a", 1);
    append(f, "b", 2);
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(f->image->offset, 1);
    assert_non_null(meta_topic(f->image, SLICE_LIT("a")));
    append(f, "c", 3);
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(tree_count(f->image->topics), 3);
}

static void test_records_of_one_append_have_consecutive_offsets(void **state)
{
    struct fixture *f = *state;
    struct slice records[3];
    int64_t first;
    assert_int_equal(open_again(f), ERR_OK);
    append(f, "a", 1);
    f->buf.size = 0;
    size_t at[4] = {0};
    for (uint8_t i = 0; i < 3; i++) {
        char name[2] = {(char)('x' + i)};
        struct uuid id = {{(uint8_t)(10 + i)}};
        assert_int_equal(record_topic(&f->buf, slice_str(name), id), ERR_OK);
        at[i + 1] = f->buf.size;
    }
    for (size_t i = 0; i < 3; i++) {
        records[i] = slice_of(f->buf.at + at[i], at[i + 1] - at[i]);
    }
    assert_int_equal(journal_append(f->j, records, 3, NOW_MS, &first), ERR_OK);
    assert_int_equal(first, 1);
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(f->image->offset, 3);
}

/* Wherever the last append was cut, the earlier ones are there and the next one follows them. */
static void test_a_torn_tail_is_cut(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_again(f), ERR_OK);
    append(f, "a", 1);
    long whole = file_size(f, LOG0);
    append(f, "b", 2);
    long end = file_size(f, LOG0);
    for (long size = end - 1; size > whole; size -= 7) {
        damage(f, LOG0, size, true);
        assert_int_equal(open_again(f), ERR_OK);
        assert_int_equal(f->image->offset, 0);
        assert_int_equal(file_size(f, LOG0), whole);
        append(f, "b", 2);
        assert_int_equal(file_size(f, LOG0), end);
    }
    damage(f, LOG0, end - 3, false); /* whole, but not what was written: the same crash */
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(f->image->offset, 0);
}

static void test_damage_before_the_tail_stops_the_start(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_again(f), ERR_OK);
    append(f, "a", 1);
    long first = file_size(f, LOG0);
    append(f, "b", 2);
    append(f, "c", 3);
    damage(f, LOG0, first - 3, false);
    assert_int_equal(open_again(f), ERR_CORRUPT);
    assert_null(f->j);
    assert_null(f->image);
}

static void snapshot(struct fixture *f)
{
    assert_int_equal(journal_snapshot(f->j, f->image, NOW_MS), ERR_OK);
}

static void test_a_snapshot_replaces_the_log(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_again(f), ERR_OK);
    for (uint8_t i = 0; !journal_wants_snapshot(f->j); i++) {
        char name[8];
        snprintf(name, sizeof name, "t%02d", i);
        append(f, name, (uint8_t)(i + 1));
    }
    size_t topics = tree_count(f->image->topics);
    snapshot(f);
    assert_false(journal_wants_snapshot(f->j));
    assert_false(exists(f, LOG0));
    append(f, "behind", 200);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_again(f), ERR_OK);
        assert_int_equal(tree_count(f->image->topics), topics + 1);
        assert_int_equal(f->image->offset, (int64_t)topics);
        if (i == 0) { snapshot(f); }
    }
}

/* A crash between the snapshot and the removal of what it replaced. */
static void test_what_a_snapshot_replaced_is_removed_at_the_next_start(void **state)
{
    struct fixture *f = *state;
    char command[900], from[400];
    assert_int_equal(open_again(f), ERR_OK);
    append(f, "a", 1);
    append(f, "b", 2);
    path_of(f, LOG0, from);
    snprintf(command, sizeof command, "cp '%s' '%s.kept'", from, from);
    assert_int_equal(system(command), 0);
    snapshot(f);
    append(f, "c", 3);
    snprintf(command, sizeof command, "mv '%s.kept' '%s'", from, from);
    assert_int_equal(system(command), 0);
    path_of(f, "00000000000000000001-0000000001.checkpoint.part", from);
    snprintf(command, sizeof command, "echo torn > '%s'", from);
    assert_int_equal(system(command), 0);
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(f->image->offset, 2);
    assert_int_equal(tree_count(f->image->topics), 3);
    assert_false(exists(f, LOG0));
    assert_false(exists(f, "00000000000000000001-0000000001.checkpoint.part"));
}

/* What an early version left when it had named its snapshot and could not open the file behind it:
 * the old one went on. The new one may be there, empty; the snapshot's name may be lost. */
static void test_a_log_that_went_on_behind_its_snapshot_is_read(void **state)
{
    struct fixture *f = *state;
    const char *next = "00000000000000000002.log";
    char command[2100], old[400], new[400];
    path_of(f, LOG0, old);
    path_of(f, next, new);
    for (int variant = 0; variant < 3; variant++) {
        assert_int_equal(open_again(f), ERR_OK);
        append(f, "a", 1);
        append(f, "b", 2);
        snprintf(command, sizeof command, "cp '%s' '%s.kept'", old, old);
        assert_int_equal(system(command), 0);
        snapshot(f);
        append(f, "c", 3);
        shut(f);
        snprintf(command, sizeof command, "cat '%s.kept' '%s' > '%s' && rm '%s' '%s.kept'", old,
                 new, old, new, old);
        assert_int_equal(system(command), 0);
        if (variant > 0) { damage(f, next, 0, true); }
        if (variant > 1) {
            char path[400];
            path_of(f, "00000000000000000002-0000000001.checkpoint", path);
            assert_int_equal(remove(path), 0);
        }
        for (uint8_t i = 0; i < 3; i++) {
            char name[2] = {(char)('d' + i)};
            assert_int_equal(open_again(f), ERR_OK);
            assert_int_equal(f->image->offset, 2 + i);
            assert_int_equal(tree_count(f->image->topics), (size_t)3 + i);
            append(f, name, (uint8_t)(4 + i));
        }
        /* Torn, it is cut as any other. */
        damage(f, LOG0, file_size(f, LOG0) - 1, true);
        assert_int_equal(open_again(f), ERR_OK);
        assert_int_equal(f->image->offset, 4);
        snapshot(f);
        assert_false(exists(f, LOG0));
        assert_false(exists(f, next));
        assert_int_equal(open_again(f), ERR_OK);
        assert_int_equal(tree_count(f->image->topics), 5);
        shut(f);
        snprintf(command, sizeof command, "rm -r '%s/__cluster_metadata-0'", f->dir);
        assert_int_equal(system(command), 0);
    }
}

static void test_a_damaged_snapshot_stops_the_start(void **state)
{
    struct fixture *f = *state;
    const char *name = "00000000000000000001-0000000001.checkpoint";
    assert_int_equal(open_again(f), ERR_OK);
    append(f, "a", 1);
    snapshot(f);
    assert_true(exists(f, name));
    damage(f, name, file_size(f, name) - 1, true);
    assert_int_equal(open_again(f), ERR_CORRUPT);
    damage(f, name, 0, true); /* nothing is left that could be wrong */
    assert_int_equal(open_again(f), ERR_CORRUPT);
}

/* Where each batch of a file begins; how many there are. */
static size_t batches_of(const struct fixture *f, const char *name, long at[8])
{
    char path[400];
    uint8_t head[12];
    size_t count = 0;
    path_of(f, name, path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    long pos = 0;
    while (count < 8 && fseek(file, pos, SEEK_SET) == 0 && fread(head, sizeof head, 1, file) == 1) {
        at[count++] = pos;
        pos += 12 + ((long)head[8] << 24 | head[9] << 16 | head[10] << 8 | head[11]);
    }
    fclose(file);
    return count;
}

/* Cut between two batches it holds nothing wrong: its end tells. */
static void test_a_snapshot_without_its_end_stops_the_start(void **state)
{
    struct fixture *f = *state;
    const char *name = "00000000000000000001-0000000001.checkpoint";
    char path[400], command[1300];
    long at[8];
    assert_int_equal(open_again(f), ERR_OK);
    append(f, "a", 1);
    snapshot(f);
    assert_int_equal(batches_of(f, name, at), 3); /* header, records, footer */
    path_of(f, name, path);
    snprintf(command, sizeof command, "cp '%s' '%s.whole'", path, path);
    assert_int_equal(system(command), 0);
    for (int i = 2; i > 0; i--) {
        damage(f, name, at[i], true);
        assert_int_equal(open_again(f), ERR_CORRUPT);
    }
    /* Nor does anything stand behind the end. */
    snprintf(command, sizeof command, "cat '%s.whole' '%s.whole' > '%s'", path, path, path);
    assert_int_equal(system(command), 0);
    assert_int_equal(open_again(f), ERR_CORRUPT);
    /* What an early version wrote has neither header nor end. */
    snprintf(command, sizeof command,
             "dd if='%s.whole' of='%s' bs=1 skip=%ld count=%ld status=none", path, path, at[1],
             at[2] - at[1]);
    assert_int_equal(system(command), 0);
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(tree_count(f->image->topics), 1);
    /* An end alone is none. */
    snprintf(command, sizeof command, "dd if='%s.whole' of='%s' bs=1 skip=%ld status=none", path,
             path, at[1]);
    assert_int_equal(system(command), 0);
    assert_int_equal(open_again(f), ERR_CORRUPT);
}

static void put_controls(struct wire_buf *out, const uint8_t *types, size_t count)
{
    struct batch_build_record records[4];
    uint8_t keys[4][4];
    for (size_t i = 0; i < count; i++) {
        memcpy(keys[i], (uint8_t[]){0, 0, 0, types[i]}, 4);
        records[i] = (struct batch_build_record){
            .timestamp = NOW_MS, .key = slice_of(keys[i], 4), .value = SLICE_LIT("any")};
    }
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    o.control = true;
    assert_int_equal(batch_build(&o, records, count, NULL, out), ERR_OK);
}

/* Kafka puts its version and voters behind the header, in one batch. */
static void test_a_snapshot_of_kafka_is_read(void **state)
{
    struct fixture *f = *state;
    static const struct {
        uint8_t first[3], last;
        enum err err;
    } cases[] = {{{3, 5, 6}, 4, ERR_OK},      {{3, 5, 6}, 5, ERR_CORRUPT}, /* no end */
                 {{3, 3, 6}, 4, ERR_CORRUPT}, {{3, 5, 4}, 4, ERR_CORRUPT},
                 {{3, 5, 2}, 4, ERR_CORRUPT}, {{5, 6, 6}, 4, ERR_CORRUPT}};
    struct wire_buf out;
    wire_buf_init(&out, 1u << 20);
    assert_int_equal(open_again(f), ERR_OK); /* makes the directory */
    shut(f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[400];
        struct batch_build_options o = BATCH_BUILD_PLAIN;
        f->buf.size = out.size = 0;
        put_controls(&out, cases[i].first, 3);
        assert_int_equal(record_topic(&f->buf, SLICE_LIT("a"), (struct uuid){{1}}), ERR_OK);
        struct batch_build_record record = {.timestamp = NOW_MS, .value = wire_buf_slice(&f->buf)};
        assert_int_equal(batch_build(&o, &record, 1, NULL, &out), ERR_OK);
        put_controls(&out, &cases[i].last, 1);
        path_of(f, "00000000000000000007-0000000001.checkpoint", path);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(out.at, out.size, 1, file), 1);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(open_again(f), cases[i].err);
        if (!cases[i].err) { assert_int_equal(f->image->offset, 6); }
    }
    wire_buf_fini(&out);
}

/* Names that are not exactly those of a log file or snapshot are somebody else's. */
static void test_files_of_other_names_are_left_alone(void **state)
{
    static const char *const names[] = {
        "0.log",
        "backup.log",
        "0000000000000000000x.log",
        "00000000000000000001.log.old",
        "00000000000000000000-1.log",
        "99999999999999999999.log",
        "x0000000000000000009-0000000001.checkpoint",
        "00000000000000000009-000000000x.checkpoint",
        "00000000000000000009-9999999999.checkpoint",
        "00000000000000000009.checkpoint",
        "old.checkpoint.part",
        "quorum-state",
    };
    struct fixture *f = *state;
    assert_int_equal(open_again(f), ERR_OK);
    append(f, "a", 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[400], command[500];
        path_of(f, names[i], path);
        snprintf(command, sizeof command, "echo nonsense > '%s'", path);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(f->image->offset, 0);
    snapshot(f);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(exists(f, names[i]));
    }
}

static void test_a_missing_log_file_stops_the_start(void **state)
{
    struct fixture *f = *state;
    char command[900], from[400], to[400];
    assert_int_equal(open_again(f), ERR_OK);
    append(f, "a", 1);
    path_of(f, LOG0, from);
    path_of(f, "00000000000000000005.log", to);
    snprintf(command, sizeof command, "mv '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
    assert_int_equal(open_again(f), ERR_CORRUPT);
    damage(f, "00000000000000000005.log", 0, true); /* empty, its name says the same */
    assert_int_equal(open_again(f), ERR_CORRUPT);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_fresh_directory_is_empty),
        CASE(test_appends_are_there_after_the_next_start),
        CASE(test_records_of_one_append_have_consecutive_offsets),
        CASE(test_a_torn_tail_is_cut),
        CASE(test_damage_before_the_tail_stops_the_start),
        CASE(test_a_snapshot_replaces_the_log),
        CASE(test_what_a_snapshot_replaced_is_removed_at_the_next_start),
        CASE(test_a_log_that_went_on_behind_its_snapshot_is_read),
        CASE(test_a_damaged_snapshot_stops_the_start),
        CASE(test_a_snapshot_without_its_end_stops_the_start),
        CASE(test_a_snapshot_of_kafka_is_read),
        CASE(test_files_of_other_names_are_left_alone),
        CASE(test_a_missing_log_file_stops_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
