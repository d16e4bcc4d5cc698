/* file_test.c - files and names on the real file system, in a directory that the test makes. */
#include "base/check.h"
#include "sys/sys_int.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    struct sys *sys;
    char dir[64];
    char path[128];
};

static const char *at(struct place *p, const char *name)
{
    (void)snprintf(p->path, sizeof p->path, "%s/%s", p->dir, name);
    return p->path;
}

static enum err wipe(void *ctx, const char *name, bool is_dir)
{
    struct place *p = ctx;
    return is_dir ? sys_dir_remove(p->sys, at(p, name)) : sys_path_unlink(p->sys, at(p, name));
}

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    if (!p) { return -1; }
    p->sys = sys_create();
    (void)snprintf(p->dir, sizeof p->dir, "/tmp/barnabas-sys-XXXXXX");
    *state = p;
    return p->sys && mkdtemp(p->dir) ? 0 : -1;
}

static int teardown(void **state)
{
    struct place *p = *state;
    enum err e = sys_dir_list(p->sys, p->dir, wipe, p);
    if (!e) { e = sys_dir_remove(p->sys, p->dir); }
    sys_destroy(p->sys);
    free(p);
    return (int)e;
}

static struct sys_file *opened(struct place *p, const char *name, unsigned flags)
{
    struct sys_file *f;
    assert_int_equal(sys_file_open(p->sys, at(p, name), flags, &f), ERR_OK);
    return f;
}

static void put(struct sys_file *f, const char *text, uint64_t pos)
{
    struct sys_iov iov = {.at = text, .size = strlen(text)};
    size_t written;
    assert_int_equal(sys_file_write(f, &iov, 1, pos, &written), ERR_OK);
    assert_int_equal(written, strlen(text));
}

static void test_writes_gather_and_reads_end_at_the_end(void **state)
{
    struct place *p = *state;
    struct sys_file *f = opened(p, "a", SYS_WRITE | SYS_CREATE | SYS_EXCLUSIVE);
    struct sys_iov iov[3] = {
        {.at = "one", .size = 3}, {.at = "", .size = 0}, {.at = "two", .size = 3}};
    size_t moved;
    assert_int_equal(sys_file_write(f, iov, 3, 2, &moved), ERR_OK);
    assert_int_equal(moved, 6);
    char buf[16];
    assert_int_equal(sys_file_read(f, buf, sizeof buf, 0, &moved), ERR_OK);
    assert_int_equal(moved, 8);
    assert_memory_equal(buf, "\0\0onetwo", 8);
    assert_int_equal(sys_file_read(f, buf, sizeof buf, 100, &moved), ERR_OK);
    assert_int_equal(moved, 0);
    assert_int_equal(sys_file_write(f, iov, 0, 0, &moved), ERR_OK);
    assert_int_equal(sys_file_sync(f), ERR_OK);
    sys_file_unref(f);
}

static void test_more_pieces_than_one_call_takes_arrive_in_order(void **state)
{
    struct place *p = *state;
    struct sys_file *f = opened(p, "many", SYS_WRITE | SYS_CREATE);
    static uint8_t bytes[3000 * 7];
    static struct sys_iov iov[3000];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    }
    for (size_t i = 0; i < 3000; i++) {
        iov[i] = (struct sys_iov){.at = bytes + i * 7, .size = 7};
    }
    size_t moved;
    assert_int_equal(sys_file_write(f, iov, 3000, 0, &moved), ERR_OK);
    assert_int_equal(moved, sizeof bytes);
    static uint8_t back[sizeof bytes];
    assert_int_equal(sys_file_read(f, back, sizeof back, 0, &moved), ERR_OK);
    assert_memory_equal(back, bytes, sizeof bytes);
    sys_file_unref(f);
}

/* The file size limit makes the kernel write short first, then refuse: as a full disk does. */
static void test_a_short_write_says_how_much_is_there(void **state)
{
    struct place *p = *state;
    struct sys_file *f = opened(p, "full", SYS_WRITE | SYS_CREATE);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 10;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct sys_iov iov[2] = {{.at = "123456", .size = 6}, {.at = "abcdefgh", .size = 8}};
    size_t moved;
    enum err e = sys_file_write(f, iov, 2, 0, &moved);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(e, ERR_NOSPACE);
    assert_int_equal(moved, 10);
    char buf[16];
    assert_int_equal(sys_file_read(f, buf, sizeof buf, 0, &moved), ERR_OK);
    assert_int_equal(moved, 10);
    assert_memory_equal(buf, "123456abcd", 10);
    sys_file_unref(f);
}

static void test_open_flags_do_what_they_say(void **state)
{
    struct place *p = *state;
    struct sys_file *f;
    assert_int_equal(sys_file_open(p->sys, at(p, "b"), SYS_WRITE, &f), ERR_NOTFOUND);
    assert_null(f);
    f = opened(p, "b", SYS_WRITE | SYS_CREATE);
    put(f, "hello", 0);
    sys_file_unref(f);
    assert_int_equal(sys_file_open(p->sys, at(p, "b"), SYS_WRITE | SYS_CREATE | SYS_EXCLUSIVE, &f),
                     ERR_EXISTS);
    f = opened(p, "b", SYS_READ);
    struct sys_iov iov = {.at = "x", .size = 1};
    size_t moved;
    assert_int_not_equal(sys_file_write(f, &iov, 1, 0, &moved), ERR_OK);
    sys_file_unref(f);
    f = opened(p, "b", SYS_WRITE | SYS_TRUNCATE);
    uint64_t size = 1;
    assert_int_equal(sys_file_size(f, &size), ERR_OK);
    assert_int_equal(size, 0);
    sys_file_unref(f);
    assert_int_equal(sys_file_open(p->sys, at(p, "b/c"), SYS_READ, &f), ERR_NOTFOUND);
}

static void test_a_reference_keeps_a_deleted_file_readable(void **state)
{
    struct place *p = *state;
    struct sys_file *f = opened(p, "gone", SYS_WRITE | SYS_CREATE);
    struct sys_file *again = sys_file_ref(f);
    put(f, "still", 0);
    assert_int_equal(sys_path_unlink(p->sys, at(p, "gone")), ERR_OK);
    sys_file_unref(f);
    char buf[5];
    size_t moved;
    assert_int_equal(sys_file_read(again, buf, sizeof buf, 0, &moved), ERR_OK);
    assert_memory_equal(buf, "still", 5);
    sys_file_unref(again);
    sys_file_unref(NULL);
}

static void test_reserved_space_leaves_the_size_and_truncate_gives_it_back(void **state)
{
    struct place *p = *state;
    struct sys_file *f = opened(p, "r", SYS_WRITE | SYS_CREATE);
    put(f, "hello", 0);
    enum err e = sys_file_reserve(f, 0, 1 << 20);
    if (e == ERR_UNSUPPORTED) {
        sys_file_unref(f);
        skip();
    }
    assert_int_equal(e, ERR_OK);
    struct sys_stat st;
    assert_int_equal(sys_path_stat(p->sys, at(p, "r"), &st), ERR_OK);
    assert_int_equal(st.size, 5);
    assert_true(st.allocated >= 1 << 20);
    assert_true(st.device == sys_file_device(f));
    assert_false(st.is_dir);
    assert_true(st.modified_ms > 1600000000000);
    assert_int_equal(sys_file_truncate(f, 5), ERR_OK);
    assert_int_equal(sys_path_stat(p->sys, at(p, "r"), &st), ERR_OK);
    assert_true(st.allocated < 1 << 20);
    sys_file_unref(f);
}

static void test_what_was_just_written_is_warm(void **state)
{
    struct place *p = *state;
    struct sys_file *f = opened(p, "w", SYS_WRITE | SYS_CREATE);
    put(f, "hello", 0);
    put(f, "world", 100000);
    assert_true(sys_file_is_warm(f, 0, 100005));
    assert_true(sys_file_is_warm(f, 7, 0));
    assert_true(sys_file_is_warm(f, 1 << 30, 10)); /* past the end: nothing to wait for */
    assert_int_equal(sys_file_warm(f, 0, 100005), ERR_OK);
    assert_int_equal(sys_file_warm(f, 0, 1 << 30), ERR_OK);
    sys_file_unref(f);
}

struct names {
    char text[256];
    int left;
};

static enum err note(void *ctx, const char *name, bool is_dir)
{
    struct names *n = ctx;
    size_t used = strlen(n->text);
    (void)snprintf(n->text + used, sizeof n->text - used, "%s%s ", name, is_dir ? "/" : "");
    return --n->left == 0 ? ERR_LIMIT : ERR_OK;
}

static void test_names_are_listed_sorted_and_the_visitor_can_stop(void **state)
{
    struct place *p = *state;
    const char *const files[] = {"10", "b", "a", "2"};
    for (size_t i = 0; i < 4; i++) {
        sys_file_unref(opened(p, files[i], SYS_WRITE | SYS_CREATE));
    }
    assert_int_equal(sys_dir_create(p->sys, at(p, "aa")), ERR_OK);
    assert_int_equal(sys_dir_create(p->sys, at(p, "aa")), ERR_EXISTS);
    struct names n = {.left = 100};
    assert_int_equal(sys_dir_list(p->sys, p->dir, note, &n), ERR_OK);
    assert_string_equal(n.text, "10 2 a aa/ b ");
    n = (struct names){.left = 2};
    assert_int_equal(sys_dir_list(p->sys, p->dir, note, &n), ERR_LIMIT);
    assert_string_equal(n.text, "10 2 ");
    assert_int_equal(sys_dir_list(p->sys, at(p, "nowhere"), note, &n), ERR_NOTFOUND);
}

static void test_names_move_and_go(void **state)
{
    struct place *p = *state;
    char to[128];
    sys_file_unref(opened(p, "from", SYS_WRITE | SYS_CREATE));
    (void)snprintf(to, sizeof to, "%s/to", p->dir);
    assert_int_equal(sys_path_rename(p->sys, at(p, "from"), to), ERR_OK);
    struct sys_stat st;
    assert_int_equal(sys_path_stat(p->sys, at(p, "from"), &st), ERR_NOTFOUND);
    assert_int_equal(sys_path_stat(p->sys, to, &st), ERR_OK);
    assert_int_equal(sys_dir_sync(p->sys, p->dir), ERR_OK);
    assert_int_equal(sys_parent_sync(p->sys, to), ERR_OK);
    assert_int_equal(sys_parent_sync(p->sys, "relative"), ERR_OK);
    assert_int_equal(sys_parent_sync(p->sys, "/tmp//"), ERR_OK);
    assert_int_equal(sys_parent_sync(p->sys, "/tmp/not-there/x"), ERR_NOTFOUND);
    assert_int_equal(sys_fs_sync(p->sys, p->dir), ERR_OK);
    assert_int_equal(sys_fs_sync(p->sys, p->dir), ERR_OK); /* by the descriptor that was kept */
    uint64_t bytes = 0;
    assert_int_equal(sys_fs_free(p->sys, p->dir, &bytes), ERR_OK);
    assert_true(bytes > 0);
    assert_int_equal(sys_dir_create(p->sys, at(p, "d")), ERR_OK);
    sys_file_unref(opened(p, "d/x", SYS_WRITE | SYS_CREATE));
    assert_int_equal(sys_dir_remove(p->sys, at(p, "d")), ERR_EXISTS);
    assert_int_equal(sys_path_unlink(p->sys, at(p, "d/x")), ERR_OK);
    assert_int_equal(sys_dir_remove(p->sys, at(p, "d")), ERR_OK);
    assert_int_equal(sys_path_unlink(p->sys, at(p, "d")), ERR_NOTFOUND);
}

static void test_a_lock_file_is_held_once(void **state)
{
    struct place *p = *state;
    struct sys_file *first, *second;
    assert_int_equal(sys_lock_take(p->sys, at(p, ".lock"), &first), ERR_OK);
    assert_int_equal(sys_lock_take(p->sys, at(p, ".lock"), &second), ERR_BUSY);
    assert_null(second);
    sys_file_unref(first);
    assert_int_equal(sys_lock_take(p->sys, at(p, ".lock"), &second), ERR_OK);
    sys_file_unref(second);
}

static void test_a_device_is_slow_while_a_call_hangs_and_until_ten_quick_ones(void **state)
{
    struct place *p = *state;
    struct sys_device *d = sys_device_of(p->sys, 77);
    assert_non_null(d);
    assert_false(sys_device_is_slow(p->sys, 77));
    assert_false(sys_device_is_slow(p->sys, 78));
    struct sys_stamp hanging = sys_device_begin(d);
    /* As if it had begun long ago. */
    hanging.started_ns -= 6 * SYS_MS;
    atomic_store(&d->started_ns[hanging.slot], hanging.started_ns);
    assert_true(sys_device_is_slow(p->sys, 77));
    sys_device_end(d, hanging);
    for (int i = 0; i < 10; i++) {
        assert_true(sys_device_is_slow(p->sys, 77));
        struct sys_stamp quick = sys_device_begin(d);
        quick.started_ns = sys_clock_ns(); /* whatever else the machine does meanwhile */
        sys_device_end(d, quick);
    }
    assert_false(sys_device_is_slow(p->sys, 77));
}

static void test_more_calls_and_devices_than_slots_are_only_unstamped(void **state)
{
    struct place *p = *state;
    struct sys_stamp stamps[SYS_DEVICE_CALLS_MAX + 2];
    struct sys_device *d = sys_device_of(p->sys, 5);
    for (size_t i = 0; i < COUNT_OF(stamps); i++) {
        stamps[i] = sys_device_begin(d);
    }
    assert_int_equal(stamps[SYS_DEVICE_CALLS_MAX].slot, SYS_DEVICE_CALLS_MAX);
    for (size_t i = 0; i < COUNT_OF(stamps); i++) {
        sys_device_end(d, stamps[i]);
    }
    for (uint64_t id = 100; id < 100 + SYS_DEVICES_MAX; id++) {
        struct sys_device *one = sys_device_of(p->sys, id);
        sys_device_end(one, sys_device_begin(one));
    }
    assert_null(sys_device_of(p->sys, 999));
    assert_ptr_equal(sys_device_of(p->sys, 5), d);
}

static void test_errno_becomes_ours(void **state)
{
    (void)state;
    assert_int_equal(sys_err(EIO), ERR_IO);
    assert_int_equal(sys_err(EROFS), ERR_IO);
    assert_int_equal(sys_err(ENOSPC), ERR_NOSPACE);
    assert_int_equal(sys_err(EDQUOT), ERR_NOSPACE);
    assert_int_equal(sys_err(EMFILE), ERR_LIMIT);
    assert_int_equal(sys_err(EPIPE), ERR_CLOSED);
    assert_int_equal(sys_err(12345), ERR_IO);
}

static void test_the_process_knows_itself(void **state)
{
    struct place *p = *state;
    assert_true(sys_resident_bytes(p->sys) > 100000);
    assert_true(sys_cpu_count(p->sys) >= 1);
    assert_true(sys_descriptors_max(p->sys) >= 64);
    char name[128];
    sys_hostname(p->sys, name, sizeof name);
    assert_true(strlen(name) > 0);
    assert_true(sys_wall_ms(p->sys) > 1600000000000);
    assert_true(sys_random_u64(p->sys) != sys_random_u64(p->sys));
}

/* One line, one write, newline added. */
static void test_the_logger_writes_lines_to_standard_output(void **state)
{
    struct place *p = *state;
    int fds[2], saved = dup(STDOUT_FILENO);
    assert_int_equal(pipe(fds), 0);
    (void)fflush(stdout);
    assert_true(dup2(fds[1], STDOUT_FILENO) >= 0);
    log_info(sys_logger(p->sys), "kafka.server.KafkaServer", "started");
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    char buf[256];
    ssize_t n = read(fds[0], buf, sizeof buf - 1);
    assert_true(n > 0);
    buf[n] = '\0';
    assert_non_null(strstr(buf, "] INFO started (kafka.server.KafkaServer)\n"));
    (void)close(saved);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(test_writes_gather_and_reads_end_at_the_end),
        IN_PLACE(test_more_pieces_than_one_call_takes_arrive_in_order),
        IN_PLACE(test_a_short_write_says_how_much_is_there),
        IN_PLACE(test_open_flags_do_what_they_say),
        IN_PLACE(test_a_reference_keeps_a_deleted_file_readable),
        IN_PLACE(test_reserved_space_leaves_the_size_and_truncate_gives_it_back),
        IN_PLACE(test_what_was_just_written_is_warm),
        IN_PLACE(test_names_are_listed_sorted_and_the_visitor_can_stop),
        IN_PLACE(test_names_move_and_go),
        IN_PLACE(test_a_lock_file_is_held_once),
        IN_PLACE(test_a_device_is_slow_while_a_call_hangs_and_until_ten_quick_ones),
        IN_PLACE(test_more_calls_and_devices_than_slots_are_only_unstamped),
        IN_PLACE(test_errno_becomes_ours),
        IN_PLACE(test_the_process_knows_itself),
        IN_PLACE(test_the_logger_writes_lines_to_standard_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
