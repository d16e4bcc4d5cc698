/* controller_test.c - the controller on a device that is slow, full, or fails.
 *
 * The device is this program's own fdatasync(), which only the metadata log calls here. */
#include "unit/cluster/fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t device_moved = PTHREAD_COND_INITIALIZER;
static bool device_is_held, device_fails;
static int device_waiting, device_syncs;

int fdatasync(int fd)
{
    (void)fd;
    pthread_mutex_lock(&device_lock);
    device_syncs++;
    device_waiting++;
    pthread_cond_broadcast(&device_moved);
    while (device_is_held) {
        pthread_cond_wait(&device_moved, &device_lock);
    }
    device_waiting--;
    bool fails = device_fails;
    pthread_mutex_unlock(&device_lock);
    errno = fails ? EIO : 0;
    return fails ? -1 : 0;
}

static void device(bool is_held, bool fails)
{
    pthread_mutex_lock(&device_lock);
    device_is_held = is_held;
    device_fails = fails;
    pthread_cond_broadcast(&device_moved);
    pthread_mutex_unlock(&device_lock);
}

static int syncs(void)
{
    pthread_mutex_lock(&device_lock);
    int n = device_syncs;
    pthread_mutex_unlock(&device_lock);
    return n;
}

/* Until the controller stands at the held device. */
static void await_device(void)
{
    pthread_mutex_lock(&device_lock);
    while (device_waiting == 0) {
        pthread_cond_wait(&device_moved, &device_lock);
    }
    pthread_mutex_unlock(&device_lock);
}

static int teardown(void **state)
{
    device(false, false);
    return fixture_teardown(state);
}

/* [CTL-2] */
static void test_requests_that_wait_together_share_one_sync(void **state)
{
    enum { COUNT = 30 };
    struct fixture *f = *state;
    struct controller_mutation m[COUNT], first = create_of("first", 1);
    static struct asked asked[COUNT], alone;
    char names[COUNT][16];
    int before = syncs();
    device(true, false);
    ask_begin(f, &alone, &first, 1, false);
    await_device();
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        m[i] = create_of(names[i], 1);
        ask_begin(f, &asked[i], &m[i], 1, false);
    }
    device(false, false);
    ask_end(f, &alone);
    for (int i = 0; i < COUNT; i++) {
        ask_end(f, &asked[i]);
        assert_int_equal(m[i].result, ERR_OK);
    }
    assert_int_equal(syncs() - before, 2);
}

/* Both have the same name on disk: the old replicas are gone before the new ones come. */
static void test_a_topic_that_replaces_another_waits_for_its_removal(void **state)
{
    struct fixture *f = *state;
    struct uuid id = create(f, "name", 1);
    struct controller_mutation first = create_of("first", 1), again = create_of("name", 2);
    struct controller_mutation gone = {.kind = CONTROLLER_DELETE_TOPIC, .id = id};
    static struct asked asked[3];
    f->trace[0] = '\0';
    int before = syncs();
    device(true, false);
    ask_begin(f, &asked[0], &first, 1, false);
    await_device();
    ask_begin(f, &asked[1], &gone, 1, false);
    ask_begin(f, &asked[2], &again, 1, false);
    device(false, false);
    for (int i = 0; i < 3; i++) {
        ask_end(f, &asked[i]);
    }
    assert_int_equal(gone.result, ERR_OK);
    assert_int_equal(again.result, ERR_OK);
    assert_string_equal(f->trace,
                        "add first 0-1 hidden; remove name hidden; add name 0-2 hidden; ");
    assert_int_equal(syncs() - before, 3);
    assert_int_equal(partitions_of(f, "name"), 2);
}

/* [CTL-1] */
static void test_nothing_is_seen_before_it_is_on_the_device(void **state)
{
    struct fixture *f = *state;
    struct controller_mutation m = create_of("slow", 2);
    static struct asked asked;
    device(true, false);
    ask_begin(f, &asked, &m, 1, false);
    await_device();
    assert_int_equal(partitions_of(f, "slow"), -1);
    assert_int_equal(atomic_load(&asked.is_done), 0);
    device(false, false);
    ask_end(f, &asked);
    assert_int_equal(m.result, ERR_OK);
    assert_int_equal(partitions_of(f, "slow"), 2);
}

static void test_what_asks_for_nothing_waits_for_no_device(void **state)
{
    struct fixture *f = *state;
    create(f, "there", 1);
    int before = syncs();
    struct controller_mutation m[] = {create_of("there", 1), create_of("bad", 0)};
    ask(f, m, 2, false);
    assert_int_equal(m[0].result, ERR_EXISTS);
    struct controller_mutation dry = create_of("dry", 1);
    ask(f, &dry, 1, true);
    assert_int_equal(dry.result, ERR_OK);
    assert_int_equal(syncs(), before);
}

static void test_after_a_failed_sync_everything_is_refused_and_reads_go_on(void **state)
{
    struct fixture *f = *state;
    create(f, "kept", 1);
    f->trace[0] = '\0';
    device(false, true);
    struct controller_mutation m[] = {create_of("lost", 2), create_of("kept", 1)};
    ask(f, m, 2, false);
    assert_int_equal(m[0].result, ERR_IO);
    assert_int_equal(m[1].result, ERR_EXISTS); /* its own reason, as it was decided */
    assert_string_equal(f->trace, "add lost 0-2 hidden; undo lost 0-2 hidden; ");
    device(false, false); /* the device says yes again, and is not believed */
    int before = syncs();
    struct controller_mutation later[] = {create_of("later", 1), {.kind = CONTROLLER_PRODUCER_IDS}};
    for (size_t i = 0; i < 2; i++) {
        ask(f, &later[i], 1, false);
        assert_int_equal(later[i].result, ERR_IO);
    }
    struct controller_mutation dry = create_of("dry", 1);
    ask(f, &dry, 1, true);
    assert_int_equal(dry.result, ERR_OK); /* needs no device */
    assert_int_equal(syncs(), before);
    assert_int_equal(partitions_of(f, "kept"), 1);
    assert_int_equal(partitions_of(f, "lost"), -1);
    assert_int_equal(partitions_of(f, "later"), -1);
    fixture_shut(f);
    assert_int_equal(fixture_open(f), ERR_OK);
    assert_int_equal(partitions_of(f, "kept"), 1);
    assert_int_equal(partitions_of(f, "later"), -1);
    create(f, "later", 1);
}

static void limit_files(rlim_t size)
{
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static void test_a_full_disk_refuses_until_there_is_room(void **state)
{
    struct fixture *f = *state;
    signal(SIGXFSZ, SIG_IGN);
    create(f, "kept", 1);
    f->trace[0] = '\0';
    limit_files(1);
    struct controller_mutation m = create_of("full", 2);
    ask(f, &m, 1, false);
    limit_files(RLIM_INFINITY);
    assert_int_equal(m.result, ERR_NOSPACE);
    assert_int_equal(partitions_of(f, "full"), -1);
    assert_string_equal(f->trace, "add full 0-2 hidden; undo full 0-2 hidden; ");
    create(f, "full", 2);
    fixture_shut(f);
    assert_int_equal(fixture_open(f), ERR_OK);
    assert_int_equal(partitions_of(f, "full"), 2);
    assert_int_equal(partitions_of(f, "kept"), 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_requests_that_wait_together_share_one_sync),
        CASE(test_a_topic_that_replaces_another_waits_for_its_removal),
        CASE(test_nothing_is_seen_before_it_is_on_the_device),
        CASE(test_what_asks_for_nothing_waits_for_no_device),
        CASE(test_after_a_failed_sync_everything_is_refused_and_reads_go_on),
        CASE(test_a_full_disk_refuses_until_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
