/* journal_test.c - the metadata log on a disk that is full, that fails, that was torn anywhere, and
 * of which any byte has changed.
 *
 * What fails is this program's own fdatasync(), fsync(), open(), rename() and unlink(); the full
 * disk is a limit on file sizes. */
#include "base/mem.h"
#include "meta/journal.h"
#include "meta/records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOW_MS 1700000000000LL
#define LOG0 "00000000000000000000.log"

static bool syncs_fail;
static int syncs_count;

/* Not the device's own: the log is opened a thousand times here, and no power fails. */
int fdatasync(int fd)
{
    (void)fd;
    syncs_count++;
    if (!syncs_fail) { return 0; }
    errno = EIO;
    return -1;
}

enum call { CALL_OPEN, CALL_RENAME, CALL_FSYNC, CALL_UNLINK, CALLS_COUNT };

static struct {
    enum call call;
    int left; /* of these calls, until one fails; 0: none does */
    int code;
    bool has_failed;
} fault;
static int fsyncs_count;

static bool fails(enum call call)
{
    if (fault.call != call || fault.left == 0 || --fault.left > 0) { return false; }
    fault.has_failed = true;
    errno = fault.code;
    return true;
}

int fsync(int fd)
{
    (void)fd;
    if (fails(CALL_FSYNC)) { return -1; }
    fsyncs_count++;
    return 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    return fails(CALL_OPEN) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int rename(const char *from, const char *to)
{
    return fails(CALL_RENAME) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    return fails(CALL_UNLINK) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

struct fixture {
    struct sys *sys;
    char dir[256];
    char path[400]; /* of LOG0 */
    struct logger logger;
    char line[1000]; /* the last one logged */
    struct journal *j;
    struct meta_image *image;
    struct wire_buf buf;
    uint8_t *kept; /* LOG0 as it was */
    size_t kept_size;
};

static void on_line(void *ctx, enum logger_level level, const char *line)
{
    struct fixture *f = ctx;
    (void)level;
    snprintf(f->line, sizeof f->line, "%s", line);
}

static int64_t on_time(void *ctx)
{
    (void)ctx;
    return NOW_MS;
}

static int setup(void **state)
{
    struct fixture *f = mem_new(struct fixture);
    assert_non_null(f);
    const char *tmp = getenv("TMPDIR");
    snprintf(f->dir, sizeof f->dir, "%s/bb-meta-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof f->path, "%s/__cluster_metadata-0/%s", f->dir, LOG0);
    f->sys = sys_create();
    assert_non_null(f->sys);
    wire_buf_init(&f->buf, 1u << 20);
    f->logger = (struct logger){LOG_WARN, on_line, on_time, f};
    syncs_fail = false;
    fault.left = 0;
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
    syncs_fail = false;
    shut(f);
    sys_destroy(f->sys);
    wire_buf_fini(&f->buf);
    mem_free(f->kept);
    snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    assert_int_equal(system(command), 0);
    mem_free(f);
    return 0;
}

static enum err open_again(struct fixture *f)
{
    shut(f);
    f->line[0] = '\0';
    struct journal_options o = {
        .sys = f->sys, .logger = &f->logger, .dir = f->dir, .snapshot_bytes = 1u << 20};
    return journal_open(&o, &f->j, &f->image);
}

/* One topic as one append; the image follows when it succeeds. */
static enum err append(struct fixture *f, const char *name, uint8_t id)
{
    int64_t first;
    struct uuid uuid = {{id}};
    f->buf.size = 0;
    assert_int_equal(record_topic(&f->buf, slice_str(name), uuid), ERR_OK);
    struct slice record = wire_buf_slice(&f->buf);
    enum err e = journal_append(f->j, &record, 1, NOW_MS, &first);
    if (e) {
        assert_int_equal(first, -1);
        return e;
    }
    assert_int_equal(first, f->image->offset + 1);
    assert_int_equal(meta_apply(&f->image, record, first), ERR_OK);
    return ERR_OK;
}

/* Reads LOG0 whole. */
static void keep(struct fixture *f)
{
    FILE *in = fopen(f->path, "r");
    assert_non_null(in);
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    f->kept_size = (size_t)ftell(in);
    rewind(in);
    mem_free(f->kept);
    f->kept = mem_alloc(f->kept_size);
    assert_non_null(f->kept);
    assert_int_equal(fread(f->kept, 1, f->kept_size, in), f->kept_size);
    fclose(in);
}

static size_t size_now(struct fixture *f)
{
    keep(f);
    return f->kept_size;
}

/* Makes LOG0 the first bytes of what was kept, one of them changed (SIZE_MAX: none). */
static void put_back(struct fixture *f, size_t size, size_t changed, uint8_t change)
{
    FILE *out = fopen(f->path, "w");
    assert_non_null(out);
    if (changed < size) { f->kept[changed] ^= change; }
    assert_int_equal(fwrite(f->kept, 1, size, out), size);
    if (changed < size) { f->kept[changed] ^= change; }
    assert_int_equal(fclose(out), 0);
}

/* Three appends; sizes[i] is the file's size after i of them. */
static void three(struct fixture *f, size_t sizes[4])
{
    static const char *const names[] = {"first", "second-of-three", "third"};
    assert_int_equal(open_again(f), ERR_OK);
    sizes[0] = 0;
    for (uint8_t i = 0; i < 3; i++) {
        assert_int_equal(append(f, names[i], (uint8_t)(i + 1)), ERR_OK);
        sizes[i + 1] = size_now(f);
    }
    shut(f);
}

/* Whatever the length that a crash left, what was whole is there and the next append follows it. */
static void test_a_log_may_be_torn_at_every_length(void **state)
{
    struct fixture *f = *state;
    size_t sizes[4];
    three(f, sizes);
    for (size_t size = 0; size <= sizes[3]; size++) {
        int64_t whole = size >= sizes[3] ? 3 : size >= sizes[2] ? 2 : size >= sizes[1] ? 1 : 0;
        put_back(f, size, SIZE_MAX, 0);
        if (open_again(f)) { fail_msg("cut at %zu: %s", size, f->line); }
        assert_int_equal(f->image->offset, whole - 1);
        assert_int_equal(f->line[0] != '\0', size != sizes[whole]); /* said when cut */
        assert_int_equal(append(f, "next", 9), ERR_OK);
        assert_int_equal(open_again(f), ERR_OK);
        assert_int_equal(f->image->offset, whole);
        assert_string_equal(f->line, "");
    }
}

/* A page that did not reach the device reads as zeros. */
static void test_a_tail_of_zeros_is_torn(void **state)
{
    struct fixture *f = *state;
    size_t sizes[4];
    three(f, sizes);
    size_t end = sizes[3];
    while (f->kept[end - 1] == 0) { /* zeros as they were written change nothing */
        end--;
    }
    for (size_t from = sizes[2]; from < end; from++) {
        uint8_t saved[512];
        size_t size = sizes[3] - from;
        assert_true(size <= sizeof saved);
        memcpy(saved, f->kept + from, size);
        memset(f->kept + from, 0, size);
        put_back(f, sizes[3], SIZE_MAX, 0);
        memcpy(f->kept + from, saved, size);
        if (open_again(f)) { fail_msg("zeros from %zu: %s", from, f->line); }
        assert_int_equal(f->image->offset, 1);
        assert_non_null(strstr(f->line, "interrupted"));
    }
}

/* The epoch that stands outside of the checksum carries nothing here. */
static bool is_epoch(size_t pos, size_t from)
{
    return pos >= from + 12 && pos < from + 16;
}

/* No byte of what was acknowledged can change without the start being refused: also not a length,
 * which makes the batch look unfinished. */
static void test_damage_before_the_last_append_is_refused_wherever_it_is(void **state)
{
    static const uint8_t changes[] = {0x01, 0x80, 0xff};
    struct fixture *f = *state;
    size_t sizes[4];
    three(f, sizes);
    for (size_t pos = 0; pos < sizes[2]; pos++) {
        if (is_epoch(pos, 0) || is_epoch(pos, sizes[1])) { continue; }
        for (size_t i = 0; i < sizeof changes; i++) {
            put_back(f, sizes[3], pos, changes[i]);
            enum err e = open_again(f);
            if (e != ERR_CORRUPT) { fail_msg("byte %zu ^ %02x: %d", pos, changes[i], e); }
            assert_null(f->j);
            assert_null(f->image);
            assert_non_null(strstr(f->line, LOG0));
            assert_non_null(strstr(f->line, "damaged at position"));
            assert_int_equal(size_now(f), sizes[3]); /* nothing was cut */
            f->kept[pos] ^= changes[i];
        }
    }
    put_back(f, sizes[3], SIZE_MAX, 0);
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(f->image->offset, 2);
}

/* What may be a torn append is never taken for a whole one. */
static void test_a_changed_byte_of_the_last_append_is_never_applied(void **state)
{
    struct fixture *f = *state;
    size_t sizes[4];
    three(f, sizes);
    for (size_t pos = sizes[2]; pos < sizes[3]; pos++) {
        if (is_epoch(pos, sizes[2])) { continue; }
        put_back(f, sizes[3], pos, 0x10);
        enum err e = open_again(f);
        if (e) {
            assert_int_equal(e, ERR_CORRUPT); /* another offset than expected */
            continue;
        }
        assert_int_equal(f->image->offset, 1);
    }
}

static void limit_files(rlim_t size)
{
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static void test_a_full_disk_refuses_one_append_and_leaves_nothing_of_it(void **state)
{
    struct fixture *f = *state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(append(f, "a", 1), ERR_OK);
    size_t size = size_now(f);
    limit_files(size + 20);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(append(f, "b", 2), ERR_NOSPACE);
        assert_int_equal(size_now(f), size);
    }
    limit_files(RLIM_INFINITY);
    assert_int_equal(append(f, "c", 3), ERR_OK); /* there is room again */
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(f->image->offset, 1);
    assert_non_null(meta_topic(f->image, SLICE_LIT("c")));
    assert_null(meta_topic(f->image, SLICE_LIT("b")));
}

/* A second sync may say yes while the bytes are gone: it is not asked. */
static void test_after_a_failed_sync_nothing_is_written_again(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(append(f, "a", 1), ERR_OK);
    syncs_fail = true;
    assert_int_equal(append(f, "b", 2), ERR_IO);
    assert_non_null(strstr(f->line, "failed"));
    syncs_fail = false;
    int before = syncs_count;
    size_t size = size_now(f);
    assert_int_equal(append(f, "c", 3), ERR_IO);
    assert_false(journal_wants_snapshot(f->j));
    assert_int_equal(journal_snapshot(f->j, f->image, NOW_MS), ERR_IO);
    assert_int_equal(syncs_count, before);
    assert_int_equal(size_now(f), size);
    assert_int_equal(open_again(f), ERR_OK); /* the next start trusts what it reads */
    assert_non_null(meta_topic(f->image, SLICE_LIT("a")));
    assert_null(meta_topic(f->image, SLICE_LIT("c")));
}

/* What was written and not synced when the process was killed is not applied before it is. */
static void test_what_is_replayed_is_synced_first(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(append(f, "a", 1), ERR_OK);
    shut(f);
    syncs_fail = true;
    assert_int_equal(open_again(f), ERR_IO);
    syncs_fail = false;
    assert_int_equal(open_again(f), ERR_OK);
    assert_non_null(meta_topic(f->image, SLICE_LIT("a")));
}

static void test_a_snapshot_that_cannot_be_written_leaves_the_log(void **state)
{
    struct fixture *f = *state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(open_again(f), ERR_OK);
    for (uint8_t i = 0; i < 50; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(append(f, name, (uint8_t)(i + 1)), ERR_OK);
    }
    size_t size = size_now(f);
    limit_files(100);
    assert_int_not_equal(journal_snapshot(f->j, f->image, NOW_MS), ERR_OK);
    limit_files(RLIM_INFINITY);
    assert_int_equal(size_now(f), size);
    assert_int_equal(append(f, "goes-on", 99), ERR_OK);
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(tree_count(f->image->topics), 51);
    assert_int_equal(journal_snapshot(f->j, f->image, NOW_MS), ERR_OK);
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(tree_count(f->image->topics), 51);
}

static void remove_file(const struct fixture *f, const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/__cluster_metadata-0/%s", f->dir, name);
    (void)unlink(path);
}

#define LOG2 "00000000000000000002.log"
#define SNAPSHOT2 "00000000000000000002-0000000001.checkpoint"

/* What a power cut takes with it while no sync covers it. */
enum { LOSE_SNAPSHOT = 1, LOSE_LOG = 2, LOSE_ANY = 3 };

/* One call fails within a snapshot; two more appends, and what was acknowledged is there after a
 * crash and after the starts behind it. False: there are not so many calls. */
static bool snapshot_with_fault(struct fixture *f, enum call call, int nth, int code, unsigned lose)
{
    assert_int_equal(open_again(f), ERR_OK);
    assert_int_equal(append(f, "a", 1), ERR_OK);
    assert_int_equal(append(f, "b", 2), ERR_OK);
    int syncs = fsyncs_count;
    fault.call = call;
    fault.code = code;
    fault.left = nth;
    fault.has_failed = false;
    (void)!journal_snapshot(f->j, f->image, NOW_MS);
    fault.left = 0;
    if (!fault.has_failed) { return false; }
    static const char *const names[] = {"a", "b", "c", "d"};
    bool was_acked[4] = {true, true, false, false};
    for (uint8_t i = 2; i < 4; i++) {
        was_acked[i] = append(f, names[i], (uint8_t)(i + 1)) == ERR_OK;
    }
    if (code != EIO) { assert_true(was_acked[2] && was_acked[3]); } /* that passes */
    if (fsyncs_count == syncs) {
        if (lose & LOSE_SNAPSHOT) { remove_file(f, SNAPSHOT2); }
        if (lose & LOSE_LOG) { remove_file(f, LOG2); }
    }
    for (int starts = 0; starts < 3; starts++) {
        if (open_again(f)) { fail_msg("call %d, the %d.: %s", call, nth, f->line); }
        for (size_t i = 0; i < 4; i++) {
            if (was_acked[i] && !meta_topic(f->image, slice_str(names[i]))) {
                fail_msg("call %d, the %d. with %d: start %d lost %s", call, nth, code, starts,
                         names[i]);
            }
        }
        if (starts == 1) { assert_int_equal(journal_snapshot(f->j, f->image, NOW_MS), ERR_OK); }
        char name[8];
        snprintf(name, sizeof name, "n%d", starts);
        assert_int_equal(append(f, name, (uint8_t)(20 + starts)), ERR_OK);
    }
    return true;
}

static void test_a_snapshot_that_fails_at_any_step_loses_nothing(void **state)
{
    static const struct {
        enum call call;
        int code, least; /* how many of these calls a snapshot makes */
    } cases[] = {{CALL_OPEN, EMFILE, 3},   {CALL_OPEN, EIO, 3},   {CALL_OPEN, ENOSPC, 3},
                 {CALL_RENAME, ENOSPC, 1}, {CALL_RENAME, EIO, 1}, {CALL_FSYNC, EIO, 1},
                 {CALL_UNLINK, EIO, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (unsigned lose = 0; lose <= LOSE_ANY; lose++) {
            int nth = 1;
            while (snapshot_with_fault(*state, cases[i].call, nth, cases[i].code, lose)) {
                nth++;
                teardown(state);
                setup(state);
            }
            assert_true(nth > cases[i].least);
            teardown(state);
            setup(state);
        }
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_log_may_be_torn_at_every_length),
        CASE(test_a_tail_of_zeros_is_torn),
        CASE(test_damage_before_the_last_append_is_refused_wherever_it_is),
        CASE(test_a_changed_byte_of_the_last_append_is_never_applied),
        CASE(test_a_full_disk_refuses_one_append_and_leaves_nothing_of_it),
        CASE(test_after_a_failed_sync_nothing_is_written_again),
        CASE(test_what_is_replayed_is_synced_first),
        CASE(test_a_snapshot_that_cannot_be_written_leaves_the_log),
        CASE(test_a_snapshot_that_fails_at_any_step_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
