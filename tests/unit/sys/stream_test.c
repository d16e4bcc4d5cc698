/* stream_test.c - listeners, plain streams and pollers over the loopback. No task runs: the test
 * polls, so each step is in its hands. */
#include "base/check.h"
#include "sys/sys_int.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { LISTENER = 1, SERVER = 2, CLIENT = 3 };

struct net {
    struct sys *sys;
    struct sys_poller *poller;
    struct sys_listener *listener;
    struct sys_stream *client;
    struct sys_stream *server;
    char peer[SYS_ADDRESS_SIZE];
};

/* Polls until the token is ready in one of the ways asked for; false when it does not come. */
static bool ready(struct net *n, uint64_t token, unsigned interest)
{
    for (int round = 0; round < 2000; round++) {
        struct sys_poll_event events[8];
        size_t count = sys_poller_events(n->poller, events, COUNT_OF(events));
        for (size_t i = 0; i < count; i++) {
            if (events[i].token == token && events[i].ready & interest) { return true; }
        }
        if (count == 0) { sys_poller_sleep(n->poller, sys_clock_ns() + SYS_MS); }
    }
    return false;
}

static int setup(void **state)
{
    struct net *n = calloc(1, sizeof *n);
    if (!n) { return -1; }
    *state = n;
    n->sys = sys_create();
    enum err e = sys_poller_create(n->sys, &n->poller);
    if (!e) { e = sys_listen(n->sys, "127.0.0.1", 0, 16, &n->listener); }
    if (!e) { e = sys_poller_add_listener(n->poller, n->listener, LISTENER); }
    if (!e) { e = sys_connect(n->sys, "127.0.0.1", sys_listener_port(n->listener), &n->client); }
    if (!e) { e = ready(n, LISTENER, SYS_READABLE) ? ERR_OK : ERR_AGAIN; }
    if (!e) { e = sys_accept(n->listener, &n->server, n->peer); }
    if (!e) { e = sys_poller_add(n->poller, n->server, SERVER, SYS_READABLE); }
    if (!e) { e = sys_poller_add(n->poller, n->client, CLIENT, SYS_READABLE); }
    return (int)e;
}

static void hang_up(struct net *n, struct sys_stream **s)
{
    if (*s) { sys_poller_remove(n->poller, *s); }
    sys_stream_close(*s);
    *s = NULL;
}

static int teardown(void **state)
{
    struct net *n = *state;
    hang_up(n, &n->client);
    hang_up(n, &n->server);
    sys_poller_remove_listener(n->poller, n->listener);
    sys_listener_close(n->listener);
    sys_poller_destroy(n->poller);
    sys_destroy(n->sys);
    free(n);
    return 0;
}

static int nodelay_of(struct sys_stream *s)
{
    int value = 0;
    socklen_t size = sizeof value;
    assert_int_equal(getsockopt(sys_plain_of(s)->fd, IPPROTO_TCP, TCP_NODELAY, &value, &size), 0);
    return value;
}

static void test_bytes_travel_and_nothing_is_again(void **state)
{
    struct net *n = *state;
    char buf[16];
    size_t moved = 1;
    assert_string_equal(n->peer, "127.0.0.1");
    assert_int_equal(nodelay_of(n->server), 1);
    assert_int_equal(nodelay_of(n->client), 1);
    assert_int_equal(sys_stream_recv(n->server, buf, sizeof buf, &moved), ERR_AGAIN);
    assert_int_equal(moved, 0);
    struct sys_iov iov[2] = {{.at = "he", .size = 2}, {.at = "llo", .size = 3}};
    assert_int_equal(sys_stream_sendv(n->client, iov, 2, false, &moved), ERR_OK);
    assert_int_equal(moved, 5);
    assert_true(ready(n, SERVER, SYS_READABLE));
    assert_int_equal(sys_stream_recv(n->server, buf, sizeof buf, &moved), ERR_OK);
    assert_int_equal(moved, 5);
    assert_memory_equal(buf, "hello", 5);
    struct sys_stream *none;
    assert_int_equal(sys_accept(n->listener, &none, n->peer), ERR_AGAIN);
}

static void test_a_closed_peer_shows_as_closed(void **state)
{
    struct net *n = *state;
    hang_up(n, &n->client);
    assert_true(ready(n, SERVER, SYS_READABLE));
    char buf[4];
    size_t moved = 1;
    assert_int_equal(sys_stream_recv(n->server, buf, sizeof buf, &moved), ERR_CLOSED);
    assert_int_equal(moved, 0);
    /* No signal may end the test here: the second send meets a reset. */
    struct sys_iov iov = {.at = "x", .size = 1};
    enum err e = ERR_OK;
    for (int i = 0; i < 2000 && !e; i++) {
        e = sys_stream_sendv(n->server, &iov, 1, false, &moved);
        if (!e) { (void)ready(n, SERVER, SYS_WRITABLE); }
    }
    assert_int_equal(e, ERR_CLOSED);
}

static void test_a_full_socket_is_again_until_the_peer_reads(void **state)
{
    struct net *n = *state;
    static char block[65536];
    struct sys_iov iov = {.at = block, .size = sizeof block};
    size_t moved, sent = 0, got = 0;
    enum err e;
    while (!(e = sys_stream_sendv(n->client, &iov, 1, false, &moved))) {
        sent += moved;
        assert_true(sent < (size_t)1 << 30);
    }
    assert_int_equal(e, ERR_AGAIN);
    while (got < sent) {
        assert_true(ready(n, SERVER, SYS_READABLE));
        assert_int_equal(sys_stream_recv(n->server, block, sizeof block, &moved), ERR_OK);
        got += moved;
    }
    assert_int_equal(sys_poller_set(n->poller, n->client, CLIENT, SYS_WRITABLE), ERR_OK);
    assert_true(ready(n, CLIENT, SYS_WRITABLE));
}

static void test_a_file_leaves_by_the_stream_and_a_short_one_is_seen(void **state)
{
    struct net *n = *state;
    char path[] = "/tmp/barnabas-stream-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    struct sys_file *f;
    assert_int_equal(sys_file_open(n->sys, path, SYS_WRITE, &f), ERR_OK);
    assert_int_equal(sys_path_unlink(n->sys, path), ERR_OK);
    struct sys_iov text = {.at = "0123456789", .size = 10};
    struct sys_iov head = {.at = "head", .size = 4};
    size_t moved;
    char buf[32];
    assert_int_equal(sys_file_write(f, &text, 1, 0, &moved), ERR_OK);
    assert_int_equal(sys_stream_sendv(n->server, &head, 1, true, &moved), ERR_OK);
    assert_int_equal(sys_stream_send_file(n->server, f, 2, 6, &moved), ERR_OK);
    assert_int_equal(moved, 6);
    size_t got = 0;
    while (got < 10) {
        assert_true(ready(n, CLIENT, SYS_READABLE));
        assert_int_equal(sys_stream_recv(n->client, buf + got, sizeof buf - got, &moved), ERR_OK);
        got += moved;
    }
    assert_int_equal(got, 10);
    assert_memory_equal(buf, "head234567", 10);
    assert_int_equal(sys_stream_send_file(n->server, f, 10, 6, &moved), ERR_OK);
    assert_int_equal(moved, 0);
    sys_file_unref(f);
}

static void test_interest_and_removal_are_obeyed(void **state)
{
    struct net *n = *state;
    struct sys_iov iov = {.at = "x", .size = 1};
    size_t moved;
    assert_int_equal(sys_stream_sendv(n->client, &iov, 1, false, &moved), ERR_OK);
    assert_true(ready(n, SERVER, SYS_READABLE));
    assert_true(ready(n, SERVER, SYS_READABLE)); /* level-triggered */
    assert_int_equal(sys_poller_set(n->poller, n->server, SERVER, 0), ERR_OK);
    struct sys_poll_event event;
    assert_int_equal(sys_poller_events(n->poller, &event, 1), 0);
    assert_int_equal(sys_poller_set(n->poller, n->server, SERVER, SYS_READABLE), ERR_OK);
    assert_true(ready(n, SERVER, SYS_READABLE));
    sys_poller_remove(n->poller, n->server);
    assert_int_equal(sys_poller_events(n->poller, &event, 1), 0);
}

/* Two streams are ready, one event is asked for, the other stream is removed: its event that waits
 * in the poller must not come out. */
static void test_an_event_of_a_removed_stream_is_forgotten(void **state)
{
    struct net *n = *state;
    struct sys_iov iov = {.at = "x", .size = 1};
    size_t moved;
    assert_int_equal(sys_stream_sendv(n->client, &iov, 1, false, &moved), ERR_OK);
    assert_int_equal(sys_stream_sendv(n->server, &iov, 1, false, &moved), ERR_OK);
    assert_true(ready(n, SERVER, SYS_READABLE));
    assert_true(ready(n, CLIENT, SYS_READABLE));
    n->poller->ready_count = n->poller->ready_next = 0;
    struct sys_poll_event event;
    assert_int_equal(sys_poller_events(n->poller, &event, 1), 1);
    struct sys_stream *other = event.token == SERVER ? n->client : n->server;
    sys_poller_remove(n->poller, other);
    n->poller->owned = n->poller->polled = true; /* as in a task's step */
    assert_int_equal(sys_poller_events(n->poller, &event, 1), 0);
    n->poller->owned = false;
}

static void say(struct sys_stream *s)
{
    struct sys_iov iov = {.at = "x", .size = 1};
    size_t moved;
    assert_int_equal(sys_stream_sendv(s, &iov, 1, false, &moved), ERR_OK);
}

static void hear(struct sys_stream *s)
{
    char buf[4];
    size_t moved;
    assert_int_equal(sys_stream_recv(s, buf, sizeof buf, &moved), ERR_OK);
}

static size_t look(struct net *n)
{
    struct sys_poll_event events[8];
    return sys_poller_events(n->poller, events, COUNT_OF(events));
}

static void make_patient(struct net *n)
{
    unsigned patient = SYS_READABLE | SYS_PATIENT;
    assert_int_equal(sys_poller_set(n->poller, n->server, SERVER, patient), ERR_OK);
    assert_int_equal(sys_poller_set(n->poller, n->client, CLIENT, patient), ERR_OK);
    assert_true(n->poller->patient_armed);
}

/* [SYS-8] the first ends the sleep; those that follow it within half a millisecond do not. */
static void test_patient_streams_are_told_together(void **state)
{
    struct net *n = *state;
    make_patient(n);
    say(n->client);
    sys_poller_sleep(n->poller, SYS_NEVER);
    assert_true(ready(n, SERVER, SYS_READABLE));
    assert_false(n->poller->patient_armed);
    hear(n->server);
    say(n->client);
    say(n->server);
    n->poller->patient_ns = sys_clock_ns() + 3600 * 1000 * SYS_MS; /* looked at just now */
    assert_int_equal(look(n), 0);
    n->poller->patient_ns = sys_clock_ns() - SYS_PATIENCE_NS / 2;
    assert_int_equal(look(n), 2);
    hear(n->server);
    hear(n->client);
}

/* [SYS-8] what comes while the set is not armed ends a sleep in time; once nothing came, the next
 * one ends a sleep without end. */
static void test_no_patient_stream_is_forgotten(void **state)
{
    struct net *n = *state;
    make_patient(n);
    say(n->client);
    assert_true(ready(n, SERVER, SYS_READABLE));
    hear(n->server);
    say(n->client);
    while (look(n) == 0) { /* the look is a sleep away, not more */
        sys_poller_sleep(n->poller, SYS_NEVER);
    }
    hear(n->server);
    while (!n->poller->patient_armed) {
        sys_poller_sleep(n->poller, SYS_NEVER);
        assert_int_equal(look(n), 0);
    }
    say(n->client);
    sys_poller_sleep(n->poller, SYS_NEVER);
    assert_true(ready(n, SERVER, SYS_READABLE));
}

static void test_patience_ends_and_removal_ends_it_too(void **state)
{
    struct net *n = *state;
    make_patient(n);
    say(n->client);
    assert_true(ready(n, SERVER, SYS_READABLE));
    n->poller->patient_ns = sys_clock_ns() + 3600 * 1000 * SYS_MS;
    assert_int_equal(look(n), 0);
    assert_int_equal(sys_poller_set(n->poller, n->server, SERVER, SYS_READABLE), ERR_OK);
    assert_int_equal(look(n), 1);
    assert_int_equal(sys_poller_set(n->poller, n->server, SERVER, SYS_READABLE | SYS_PATIENT),
                     ERR_OK);
    n->poller->patient_ns = 0;
    sys_poller_remove(n->poller, n->server);
    assert_int_equal(look(n), 0);
    assert_true(n->poller->patient_armed);
}

/* [SYS-8] one in a while costs no timer; the second within a millisecond is the begin of many. */
static void test_a_lone_patient_stream_ends_each_sleep(void **state)
{
    struct net *n = *state;
    make_patient(n);
    for (int round = 0; round < 3; round++) {
        n->poller->patient_woke_ns = 0;
        say(n->client);
        assert_true(ready(n, SERVER, SYS_READABLE));
        assert_false(n->poller->patient_armed);
        hear(n->server);
        sys_poller_sleep(n->poller, 0);
        assert_true(n->poller->patient_armed);
        assert_int_equal(look(n), 0);
    }
    n->poller->patient_woke_ns = sys_clock_ns() + 3600 * 1000 * SYS_MS;
    say(n->client);
    assert_true(ready(n, SERVER, SYS_READABLE));
    hear(n->server);
    sys_poller_sleep(n->poller, 0);
    assert_false(n->poller->patient_armed);
}

/* Bounded also when more are ready than one call brings, and when they stay so. */
static void test_a_turn_looks_at_patient_streams_once(void **state)
{
    struct net *n = *state;
    make_patient(n);
    say(n->client);
    sys_poller_sleep(n->poller, SYS_NEVER);
    n->poller->owned = true; /* as in a task's step */
    assert_int_equal(look(n), 1);
    n->poller->patient_ns = 0;
    assert_int_equal(look(n), 0);
    n->poller->owned = false;
}

static void test_a_refused_connection_shows_at_the_first_send(void **state)
{
    struct net *n = *state;
    struct sys_listener *l;
    assert_int_equal(sys_listen(n->sys, "127.0.0.1", 0, 1, &l), ERR_OK);
    uint16_t port = sys_listener_port(l);
    sys_listener_close(l);
    struct sys_stream *s;
    enum err e = sys_connect(n->sys, "127.0.0.1", port, &s);
    if (!e) {
        assert_int_equal(sys_poller_add(n->poller, s, 9, SYS_WRITABLE), ERR_OK);
        assert_true(ready(n, 9, SYS_WRITABLE));
        struct sys_iov iov = {.at = "x", .size = 1};
        size_t moved;
        e = sys_stream_sendv(s, &iov, 1, false, &moved);
        sys_poller_remove(n->poller, s);
        sys_stream_close(s);
    }
    assert_int_equal(e, ERR_CLOSED);
}

static void test_a_port_in_use_is_busy_and_a_bad_host_is_not_found(void **state)
{
    struct net *n = *state;
    struct sys_listener *l;
    assert_int_equal(sys_listen(n->sys, "127.0.0.1", sys_listener_port(n->listener), 16, &l),
                     ERR_BUSY);
    assert_null(l);
    assert_int_not_equal(sys_listen(n->sys, "999.999.999.999", 0, 16, &l), ERR_OK);
}

static void test_all_interfaces_take_ipv4_and_tell_it_plainly(void **state)
{
    struct net *n = *state;
    struct sys_listener *l;
    assert_int_equal(sys_listen(n->sys, "", 0, 16, &l), ERR_OK);
    assert_int_equal(sys_poller_add_listener(n->poller, l, 9), ERR_OK);
    struct sys_stream *c, *s;
    char peer[SYS_ADDRESS_SIZE];
    assert_int_equal(sys_connect(n->sys, "localhost", sys_listener_port(l), &c), ERR_OK);
    assert_true(ready(n, 9, SYS_READABLE));
    assert_int_equal(sys_accept(l, &s, peer), ERR_OK);
    assert_true(strcmp(peer, "127.0.0.1") == 0 || strcmp(peer, "::1") == 0);
    sys_stream_close(c);
    sys_stream_close(s);
    sys_poller_remove_listener(n->poller, l);
    sys_listener_close(l);
}

#define ON_NET(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_NET(test_bytes_travel_and_nothing_is_again),
        ON_NET(test_a_closed_peer_shows_as_closed),
        ON_NET(test_a_full_socket_is_again_until_the_peer_reads),
        ON_NET(test_a_file_leaves_by_the_stream_and_a_short_one_is_seen),
        ON_NET(test_interest_and_removal_are_obeyed),
        ON_NET(test_an_event_of_a_removed_stream_is_forgotten),
        ON_NET(test_patient_streams_are_told_together),
        ON_NET(test_no_patient_stream_is_forgotten),
        ON_NET(test_patience_ends_and_removal_ends_it_too),
        ON_NET(test_a_turn_looks_at_patient_streams_once),
        ON_NET(test_a_lone_patient_stream_ends_each_sleep),
        ON_NET(test_a_refused_connection_shows_at_the_first_send),
        ON_NET(test_a_port_in_use_is_busy_and_a_bad_host_is_not_found),
        ON_NET(test_all_interfaces_take_ipv4_and_tell_it_plainly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
