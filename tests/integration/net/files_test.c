/* files_test.c - answers with slices of files. */
#include "integration/net/fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#define FILE_SIZE ((size_t)4 << 20)

static uint8_t file_byte(size_t pos)
{
    return (uint8_t)(pos * 7 + (pos >> 9));
}

static void make_file(struct fake *f, char path[64])
{
    (void)snprintf(path, 64, "/var/tmp/net_files_%d", (int)getpid());
    uint8_t *bytes = malloc(FILE_SIZE);
    assert_non_null(bytes);
    for (size_t i = 0; i < FILE_SIZE; i++) {
        bytes[i] = file_byte(i);
    }
    assert_int_equal(sys_file_open(f->sys, path, SYS_WRITE | SYS_CREATE | SYS_TRUNCATE, &f->file),
                     ERR_OK);
    size_t written;
    struct sys_iov iov = {bytes, FILE_SIZE};
    assert_int_equal(sys_file_write(f->file, &iov, 1, 0, &written), ERR_OK);
    free(bytes);
}

static void start(struct fake *f, char path[64])
{
    struct net_config c;
    fake_config(&c);
    fake_start(f, &c);
    make_file(f, path);
}

static void send_slices(int fd, int32_t correlation, const uint32_t *at, size_t count)
{
    uint32_t be[32];
    assert_true(count * 2 <= COUNT_OF(be));
    for (size_t i = 0; i < count * 2; i++) {
        be[i] = htonl(at[i]);
    }
    client_send(fd, FAKE_FILE, correlation, be, count * 8);
}

static void expect_slices(int fd, int32_t correlation, const uint32_t *at, size_t count)
{
    uint8_t *got = malloc(FILE_SIZE * 2);
    assert_non_null(got);
    int32_t seen;
    ssize_t size = client_answer(fd, &seen, got, FILE_SIZE * 2);
    assert_int_equal(seen, correlation);
    size_t pos = 0;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(got[pos++], '<');
        for (size_t k = 0; k < at[i * 2 + 1]; k++) {
            if (got[pos + k] != file_byte(at[i * 2] + k)) { fail_msg("slice %zu byte %zu", i, k); }
        }
        pos += at[i * 2 + 1];
        assert_int_equal(got[pos++], '>');
    }
    assert_int_equal(size, pos);
    free(got);
}

static void test_slices_of_all_sizes_leave_between_bytes(void **state)
{
    (void)state;
    static const uint32_t slices[] = {5,      1,      0,     0, 100, 16383, 7,       16384, 4096,
                                      100000, 300000, 40000, 9, 10,  0,     4194304, 1,     262144};
    struct fake f;
    char path[64];
    start(&f, path);
    int fd = client_open(&f, 0);
    for (int32_t i = 0; i < 5; i++) {
        send_slices(fd, i, slices, COUNT_OF(slices) / 2);
        client_send(fd, FAKE_ECHO, 100 + i, "between", 7);
    }
    for (int32_t i = 0; i < 5; i++) {
        expect_slices(fd, i, slices, COUNT_OF(slices) / 2);
        client_expect(fd, 100 + i, "between");
    }
    WAIT_FOR(atomic_load(&f.released) == 5 * (int)COUNT_OF(slices) / 2);
    close(fd);
    (void)unlink(path);
    fake_stop(&f);
}

/* The large one by sendfile in pieces of 256 KiB, the small one copied into one send. */
static void test_large_slices_leave_by_sendfile_and_small_ones_are_copied(void **state)
{
    (void)state;
    struct fake f;
    char path[64];
    start(&f, path);
    int fd = client_open(&f, 0);
    uint32_t large[] = {0, 1 << 20}, small[] = {50, 16383};
    send_slices(fd, 1, large, 1);
    expect_slices(fd, 1, large, 1);
    WAIT_FOR(fake_counters(&f).file_bytes == 1 << 20); /* counted once the call has returned */
    struct net_counters a = fake_counters(&f);
    assert_true(a.file_pieces >= 4);
    assert_int_equal(a.copied_bytes, 0);
    send_slices(fd, 2, small, 1);
    expect_slices(fd, 2, small, 1);
    WAIT_FOR(fake_counters(&f).copied_bytes == 16383);
    struct net_counters b = fake_counters(&f);
    assert_int_equal(b.file_bytes, 1 << 20);
    assert_int_equal(b.send_calls - a.send_calls, 1);
    close(fd);
    (void)unlink(path);
    fake_stop(&f);
}

static void test_a_slice_that_comes_up_short_closes_the_connection(void **state)
{
    (void)state;
    struct fake f;
    char path[64];
    start(&f, path);
    uint32_t beyond[][2] = {{FILE_SIZE - 100, 200},
                            {FILE_SIZE - 100, 100000},
                            {FILE_SIZE + 5, 20},
                            {FILE_SIZE + 5, 50000}};
    for (size_t i = 0; i < COUNT_OF(beyond); i++) {
        int fd = client_open(&f, 0);
        send_slices(fd, 1, beyond[i], 1);
        uint8_t *got = malloc(200000);
        int32_t correlation;
        assert_int_equal(client_answer(fd, &correlation, got, 200000), -1);
        free(got);
        close(fd);
    }
    WAIT_FOR(fake_counters(&f).closed[NET_CLOSED_FILE] == COUNT_OF(beyond));
    WAIT_FOR(atomic_load(&f.released) == (int)COUNT_OF(beyond));
    (void)unlink(path);
    fake_stop(&f);
}

/* A reader warms what is not in memory; the processor's own reads find it there. */
static void test_cold_pieces_are_warmed_by_a_reader(void **state)
{
    (void)state;
    struct fake f;
    char path[64];
    start(&f, path);
    assert_int_equal(sys_file_sync(f.file), ERR_OK);
    int raw = open(path, O_RDONLY);
    assert_true(raw >= 0);
    assert_int_equal(posix_fadvise(raw, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(raw);
    if (sys_file_is_warm(f.file, 1 << 20, 65536)) {
        (void)unlink(path);
        fake_stop(&f);
        skip(); /* this file system keeps its pages */
    }
    int fd = client_open(&f, 0), other = client_open(&f, 0);
    uint32_t slices[] = {1 << 20, 1 << 20, 10, 5000};
    send_slices(fd, 1, slices, 2);
    client_send(other, FAKE_ECHO, 2, "meanwhile", 9);
    client_expect(other, 2, "meanwhile");
    expect_slices(fd, 1, slices, 2);
    struct net_counters c = fake_counters(&f);
    assert_true(c.cold_pieces >= 1);
    send_slices(fd, 3, slices, 2);
    expect_slices(fd, 3, slices, 2);
    assert_int_equal(fake_counters(&f).cold_pieces, c.cold_pieces);
    close(fd);
    close(other);
    (void)unlink(path);
    fake_stop(&f);
}

/* The slice is given back although the peer never took it; a closed connection may have a piece
 * with a reader. */
static void test_slices_of_a_closed_connection_are_released(void **state)
{
    (void)state;
    struct fake f;
    char path[64];
    start(&f, path);
    uint32_t all[] = {0, FILE_SIZE, 0, FILE_SIZE};
    for (int i = 0; i < 10; i++) {
        int raw = open(path, O_RDONLY);
        assert_int_equal(posix_fadvise(raw, 0, 0, POSIX_FADV_DONTNEED), 0);
        close(raw);
        int fd = client_open(&f, 0);
        send_slices(fd, 1, all, 2);
        WAIT_FOR(atomic_load(&f.handled) == i + 1);
        struct linger hard = {.l_onoff = 1};
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
        close(fd);
    }
    WAIT_FOR(atomic_load(&f.closed) == 10);
    WAIT_FOR(atomic_load(&f.released) == 20);
    (void)unlink(path);
    fake_stop(&f);
}

/* More unsent than allowed: nothing more is read until the peer has taken it. */
static void test_a_connection_with_much_unsent_is_not_read(void **state)
{
    (void)state;
    struct fake f;
    struct net_config c;
    fake_config(&c);
    c.output_bytes_max = 1 << 20;
    fake_start(&f, &c);
    int fd = client_open(&f, 0);
    for (int i = 0; i < 40; i++) {
        client_send_i32(fd, FAKE_BIG, i, 4 << 20);
    }
    fake_block(200);
    assert_true(atomic_load(&f.handled) < 10); /* the kernel holds some */
    uint8_t *got = malloc(4 << 20);
    assert_non_null(got);
    for (int i = 0; i < 40; i++) {
        int32_t correlation;
        assert_int_equal(client_answer(fd, &correlation, got, 4 << 20), 4 << 20);
        assert_int_equal(correlation, i);
    }
    free(got);
    assert_int_equal(atomic_load(&f.handled), 40);
    close(fd);
    fake_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_of_all_sizes_leave_between_bytes),
        cmocka_unit_test(test_large_slices_leave_by_sendfile_and_small_ones_are_copied),
        cmocka_unit_test(test_a_slice_that_comes_up_short_closes_the_connection),
        cmocka_unit_test(test_cold_pieces_are_warmed_by_a_reader),
        cmocka_unit_test(test_slices_of_a_closed_connection_are_released),
        cmocka_unit_test(test_a_connection_with_much_unsent_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
