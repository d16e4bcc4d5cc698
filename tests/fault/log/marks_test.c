/* marks_test.c - a fold of the synced marks that fails at any of its steps: a mark that is durable
 * afterwards stands in the file that has the name.
 *
 * What fails is this program's own open(), rename(), fsync() and fdatasync(). */
#include "unit/log/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

enum call { CALL_OPEN, CALL_RENAME, CALL_FSYNC, CALL_FDATASYNC };

static struct {
    enum call call;
    int left; /* of these calls, until one fails; 0: none does */
    int code;
    bool has_failed;
} fault;
static bool is_name_dirty; /* a rename, and no sync of a directory since */

static bool fails(enum call call)
{
    if (fault.call != call || fault.left == 0 || --fault.left > 0) { return false; }
    fault.has_failed = true;
    errno = fault.code;
    return true;
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
    if (fails(CALL_RENAME)) { return -1; }
    is_name_dirty = true;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int fsync(int fd)
{
    (void)fd;
    if (fails(CALL_FSYNC)) { return -1; }
    is_name_dirty = false;
    return 0;
}

int fdatasync(int fd)
{
    (void)fd;
    return fails(CALL_FDATASYNC) ? -1 : 0;
}

static int setup(void **state)
{
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fault.left = 0;
    fixture_init(f);
    assert_int_equal(sys_dir_create(f->sys, f->path), ERR_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fault.left = 0;
    fixture_fini(*state);
    free(*state);
    return 0;
}

static struct mark_entry entry(const struct fixture *f, enum mark_kind kind, int64_t offset)
{
    return (struct mark_entry){
        .topic_id = f->topic_id, .kind = kind, .mark = {.offset = offset}, .hw = offset};
}

/* False: a fold makes not so many of these calls. */
static bool fold_with_fault(struct fixture *f, enum call call, int nth, int code)
{
    struct marks m;
    marks_init(&m, f->sys, f->path);
    assert_int_equal(marks_open(&m), ERR_OK);
    struct mark_entry synced = entry(f, MARK_SYNCED, 100), fold = entry(f, MARK_FOLD, 100),
                      lowered = entry(f, MARK_LOWERED, 50);
    assert_int_equal(marks_put(&m, &synced, true), ERR_OK);
    fault.call = call;
    fault.code = code;
    fault.has_failed = false;
    fault.left = nth;
    enum err e = marks_fold(&m, &fold, 1, marks_generation(&m));
    fault.left = 0;
    bool has_failed = fault.has_failed;
    assert_int_equal(e != ERR_OK, has_failed);
    /* What takes the directory offline apart, the marks go on. */
    if (e != ERR_IO) {
        struct map states;
        assert_int_equal(marks_put(&m, &lowered, true), ERR_OK);
        assert_false(is_name_dirty);
        assert_int_equal(marks_read(f->sys, f->path, &states), ERR_OK);
        const struct mark_state *s = marks_state(&states, f->topic_id, 0);
        assert_non_null(s);
        if (s->mark.offset != 50) { fail_msg("call %d, the %d.: mark lost", call, nth); }
        marks_states_fini(&states);
    }
    marks_fini(&m);
    return has_failed;
}

static void test_a_durable_mark_behind_a_failed_fold_is_read(void **state)
{
    static const struct {
        enum call call;
        int code, least;
    } cases[] = {{CALL_OPEN, EMFILE, 2},
                 {CALL_RENAME, ENOSPC, 1},
                 {CALL_FDATASYNC, EIO, 1},
                 {CALL_FSYNC, EIO, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int nth = 1;
        while (fold_with_fault(*state, cases[i].call, nth, cases[i].code)) {
            nth++;
        }
        assert_true(nth > cases[i].least);
    }
}

/* A name that a fold could not sync is synced with the marks, as soon as there is a descriptor. */
static void test_marks_without_a_descriptor_are_synced_later(void **state)
{
    struct fixture *f = *state;
    struct marks m;
    marks_init(&m, f->sys, f->path);
    assert_int_equal(marks_open(&m), ERR_OK);
    struct mark_entry synced = entry(f, MARK_SYNCED, 100);
    assert_int_equal(marks_put(&m, &synced, false), ERR_OK);
    is_name_dirty = true;
    fault.call = CALL_OPEN;
    fault.code = EMFILE;
    fault.left = 1;
    assert_int_equal(marks_sync(&m), ERR_LIMIT);
    assert_true(marks_is_unsynced(&m));
    assert_int_equal(marks_sync(&m), ERR_OK);
    assert_false(marks_is_unsynced(&m));
    assert_false(is_name_dirty);
    marks_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_durable_mark_behind_a_failed_fold_is_read, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_marks_without_a_descriptor_are_synced_later, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
