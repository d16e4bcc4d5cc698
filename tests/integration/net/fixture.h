/* fixture.h - a net over loopback with a made-up API, and a blocking client.
 *
 * Place:   included by the integration tests of net/, one program each. It brings its own heap
 *          (instead of base/mem.c), which counts bytes and calls.
 * Frame:   key int16, version int16, correlation int32, payload. Answer: correlation, payload. */
#ifndef TESTS_NET_FIXTURE_H
#define TESTS_NET_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "net/net.h"
#include "purgatory/purgatory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define FIX static __attribute__((unused))

/* ---- the heap ---- */

static _Atomic uint64_t heap_calls;
static _Atomic int64_t heap_bytes;

static void *heap_note(void *p)
{
    if (p) {
        atomic_fetch_add(&heap_calls, 1);
        atomic_fetch_add(&heap_bytes, (int64_t)malloc_usable_size(p));
    }
    return p;
}

void *mem_alloc(size_t size)
{
    return heap_note(malloc(size ? size : 1));
}

void *mem_zalloc(size_t size)
{
    return heap_note(calloc(1, size ? size : 1));
}

void *mem_array(size_t count, size_t size)
{
    return heap_note(calloc(count ? count : 1, size ? size : 1));
}

void *mem_realloc(void *p, size_t size)
{
    size_t before = p ? malloc_usable_size(p) : 0;
    void *q = realloc(p, size);
    if (q) { atomic_fetch_sub(&heap_bytes, (int64_t)before); }
    return heap_note(q);
}

void mem_free(void *p)
{
    if (p) { atomic_fetch_sub(&heap_bytes, (int64_t)malloc_usable_size(p)); }
    free(p);
}

/* ---- the API ---- */

enum fake_key {
    FAKE_ECHO,
    FAKE_PARK, /* until FAKE_RELEASE */
    FAKE_HOLD, /* the same, blocks its connection */
    FAKE_RELEASE, /* answers the parked ones, last first */
    FAKE_SLOW,
    FAKE_BLOCK, /* payload int32: ms that the thread is stuck */
    FAKE_FILE, /* payload: (uint32 pos, uint32 size) each: bytes "<", slice, bytes ">" */
    FAKE_NONE,
    FAKE_CLOSE,
    FAKE_THROTTLE, /* payload int32 ms */
    FAKE_LAST, /* close_after */
    FAKE_WAIT, /* payload int32 ms: a delayed operation that expires then */
    FAKE_BIG, /* payload int32: bytes to answer */
    FAKE_EMPTY, /* an answer without a byte, as when memory is short */
    FAKE_SLOW_WAIT, /* as FAKE_WAIT, from a handler */
    FAKE_STAGE, /* staged; payload: what flush() does, "slow", "close", "empty" or an echo */
};

struct fake_op {
    struct purg_op op; /* first */
    struct fake *f;
    struct net_request *req;
    struct purg_watch_node node;
    int32_t correlation;
};

struct fake {
    struct sys *sys;
    struct net *net;
    struct purgatory *purgatory;
    struct sys_file *file;
    struct logger logger;
    char line[1000]; /* last warning; read after net_stop or when nothing runs */
    _Atomic int lines;
    struct net_request *parked[128]; /* owner's thread; only with one processor */
    size_t parked_count;
    _Atomic int handled;
    _Atomic int on_handler;
    _Atomic int cancelled;
    _Atomic int closed;
    _Atomic int dropped;
    _Atomic int released; /* file slices */
    _Atomic int flushes;
    _Atomic int staged_most; /* in one flush */
    _Atomic int last_reason; /* of the last delayed operation */
    _Atomic uint64_t order; /* correlations in the order of running, 8 bits each */
};

static int32_t fake_i32(const uint8_t *at)
{
    uint32_t be;
    memcpy(&be, at, sizeof be);
    return (int32_t)ntohl(be);
}

static int32_t fake_correlation(const struct net_request *req)
{
    return fake_i32(req->frame.at + 4);
}

static void fake_answer(struct net_request *req, int32_t correlation, struct slice body)
{
    struct wire_writer w;
    wire_writer_init_buf(&w, &req->answer.buf);
    wire_put_i32(&w, correlation);
    wire_put_raw(&w, body);
    CHECK(wire_writer_finish(&w) == ERR_OK);
}

static void fake_on_released(void *ctx)
{
    atomic_fetch_add((_Atomic int *)ctx, 1);
}

static enum net_verdict fake_file(struct fake *f, struct net_request *req)
{
    struct wire_writer w;
    wire_writer_init_buf(&w, &req->answer.buf);
    wire_put_i32(&w, fake_correlation(req));
    for (size_t i = 8; i + 8 <= req->frame.size; i += 8) {
        wire_put_u8(&w, '<');
        uint32_t pos = (uint32_t)fake_i32(req->frame.at + i);
        uint32_t size = (uint32_t)fake_i32(req->frame.at + i + 4);
        CHECK(net_answer_add_file(req, w.pos, f->file, pos, size, fake_on_released, &f->released) ==
              ERR_OK);
        wire_put_u8(&w, '>');
    }
    CHECK(wire_writer_finish(&w) == ERR_OK);
    return NET_ANSWERED;
}

static bool fake_op_try(struct purg_op *op)
{
    (void)op;
    return false;
}

static void fake_op_complete(struct purg_op *op, enum purg_reason reason)
{
    struct fake_op *o = CONTAINER_OF(op, struct fake_op, op);
    atomic_store(&o->f->last_reason, (int)reason);
    CHECK(net_request_resume(o->req) == ERR_OK);
    fake_answer(o->req, o->correlation, SLICE_LIT("late"));
    o->req->answer.in_vain = reason == PURG_EXPIRED;
    net_answer_later(o->req);
}

static const struct purg_op_type fake_op_type = {
    .name = "fake", .try_complete = fake_op_try, .on_complete = fake_op_complete};

static enum net_verdict fake_wait(struct fake *f, struct net_request *req, uint64_t now_ns)
{
    struct fake_op *o = arena_alloc(req->park_arena, sizeof *o);
    CHECK(o != NULL);
    o->f = f;
    o->req = req;
    o->correlation = fake_correlation(req);
    uint64_t deadline = now_ns + (uint64_t)fake_i32(req->frame.at + 8) * SYS_MS;
    req->op = o;
    net_request_release(req);
    purg_op_init(&o->op, &fake_op_type, req->owner);
    struct purg_key key = {1, 2, 3};
    enum purg_outcome out =
        purg_try_complete_else_watch(f->purgatory, req->self, &o->op, &o->node, &key, 1, deadline);
    CHECK(out == PURG_PARKED);
    return NET_PARKED_PASS;
}

static void fake_release(struct fake *f)
{
    while (f->parked_count) {
        struct net_request *req = f->parked[--f->parked_count];
        int32_t correlation = (int32_t)(intptr_t)req->op;
        if (!req->frame.at) { CHECK(net_request_resume(req) == ERR_OK); }
        fake_answer(req, correlation, SLICE_LIT("parked"));
        net_answer_later(req);
    }
}

static void fake_block(int32_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static enum net_verdict fake_big(struct net_request *req)
{
    size_t size = (size_t)fake_i32(req->frame.at + 8);
    CHECK(wire_buf_reserve(&req->answer.buf, size + 4) == ERR_OK);
    struct wire_writer w;
    wire_writer_init_buf(&w, &req->answer.buf);
    wire_put_i32(&w, fake_correlation(req));
    uint8_t *p = wire_put(&w, size);
    CHECK(p != NULL);
    memset(p, 'b', size);
    CHECK(wire_writer_finish(&w) == ERR_OK);
    return NET_ANSWERED;
}

static void fake_note(struct fake *f, const struct net_request *req)
{
    atomic_fetch_add(&f->handled, 1);
    uint64_t last = (uint64_t)(fake_correlation(req) & 0xff);
    atomic_store(&f->order, atomic_load(&f->order) << 8 | last);
    if (req->on_handler) { atomic_fetch_add(&f->on_handler, 1); }
}

static bool fake_says(const struct net_request *req, const char *word)
{
    return slice_eq_str(slice_of(req->frame.at + 8, req->frame.size - 8), word);
}

static void fake_flush(void *ctx, const struct net_turn *turn, uint64_t now_ns)
{
    struct fake *f = ctx;
    const struct net_conn *slow = NULL;
    int count = 0;
    (void)now_ns;
    for (struct net_request *req = turn->first; req; req = req->turn_next, count++) {
        if (req->conn == slow || fake_says(req, "slow")) {
            slow = req->conn;
            req->op = f;
            req->verdict = NET_SLOW;
            continue;
        }
        fake_note(f, req);
        req->verdict = fake_says(req, "close") ? NET_CLOSE : NET_ANSWERED;
        if (fake_says(req, "close") || fake_says(req, "empty")) { continue; }
        fake_answer(req, fake_correlation(req), slice_of(req->frame.at + 8, req->frame.size - 8));
    }
    CHECK(turn->count == (size_t)count && count > 0);
    atomic_fetch_add(&f->flushes, 1);
    if (count > atomic_load(&f->staged_most)) { atomic_store(&f->staged_most, count); }
}

static enum net_verdict fake_handle(void *ctx, struct net_request *req, uint64_t now_ns)
{
    struct fake *f = ctx;
    const uint8_t *at = req->frame.at;
    enum fake_key key = (enum fake_key)(at[0] << 8 | at[1]);
    int32_t correlation = fake_correlation(req);
    struct slice payload = slice_of(at + 8, req->frame.size - 8);
    if (key == FAKE_STAGE && !req->on_handler) { return NET_STAGED; }
    if (req->behind_staged) { return NET_FLUSH_FIRST; }
    if ((key == FAKE_SLOW || key == FAKE_SLOW_WAIT) && !req->on_handler) {
        CHECK(req->op == NULL);
        req->op = f;
        return NET_SLOW;
    }
    CHECK(req->op == NULL || req->op == f); /* not asked before, if a handler had it at once */
    fake_note(f, req);
    switch (key) {
    case FAKE_ECHO:
    case FAKE_STAGE:
    case FAKE_SLOW:
        break;
    case FAKE_PARK:
    case FAKE_HOLD:
        CHECK(f->parked_count < COUNT_OF(f->parked));
        f->parked[f->parked_count++] = req;
        req->op = (void *)(intptr_t)correlation;
        if (key == FAKE_HOLD) { return NET_PARKED_HOLD; }
        net_request_release(req);
        return NET_PARKED_PASS;
    case FAKE_RELEASE:
        fake_release(f);
        break;
    case FAKE_BLOCK:
        fake_block(fake_i32(at + 8));
        break;
    case FAKE_FILE:
        return fake_file(f, req);
    case FAKE_NONE:
        return NET_NONE;
    case FAKE_CLOSE:
        return NET_CLOSE;
    case FAKE_THROTTLE:
        req->answer.throttle_ms = fake_i32(at + 8);
        break;
    case FAKE_LAST:
        req->answer.close_after = true;
        break;
    case FAKE_WAIT:
    case FAKE_SLOW_WAIT:
        return fake_wait(f, req, now_ns);
    case FAKE_BIG:
        return fake_big(req);
    case FAKE_EMPTY:
        return NET_ANSWERED;
    }
    fake_answer(req, correlation, payload);
    return NET_ANSWERED;
}

static void fake_on_cancel(void *ctx, struct net_request *req)
{
    struct fake *f = ctx;
    atomic_fetch_add(&f->cancelled, 1);
    for (size_t i = 0; i < f->parked_count; i++) {
        if (f->parked[i] == req) {
            f->parked[i] = f->parked[--f->parked_count];
            net_answer_later(req);
            return;
        }
    }
    struct fake_op *o = req->op;
    (void)purg_op_cancel(&o->op, req->owner, PURG_CANCELLED);
}

static void fake_on_drop(void *ctx, struct net_request *req)
{
    struct fake *f = ctx;
    CHECK(req->op == f);
    atomic_fetch_add(&f->dropped, 1);
}

static void fake_on_close(void *ctx, struct net_conn *conn)
{
    struct fake *f = ctx;
    (void)conn;
    atomic_fetch_add(&f->closed, 1);
}

static void fake_log(void *ctx, enum logger_level level, const char *line)
{
    struct fake *f = ctx;
    if (level < LOG_WARN) { return; }
    (void)snprintf(f->line, sizeof f->line, "%s", line);
    atomic_fetch_add(&f->lines, 1);
}

static int64_t fake_wall(void *ctx)
{
    (void)ctx;
    return 0;
}

FIX const struct net_listener_config fake_listener = {.name = "PLAINTEXT", .host = "127.0.0.1"};

/* One processor, two handlers; the test changes what it wants before fake_start(). */
FIX void fake_config(struct net_config *c)
{
    net_config_init(c);
    c->listeners = &fake_listener;
    c->listeners_count = 1;
    c->processors_count = 1;
    c->handlers_count = 2;
    c->readers_count = 1;
    c->purg_env = purg_env_pthread();
}

FIX void fake_start(struct fake *f, struct net_config *c)
{
    memset(f, 0, sizeof *f);
    f->sys = sys_create();
    assert_non_null(f->sys);
    f->logger =
        (struct logger){.level_min = LOG_INFO, .write = fake_log, .wall_ms = fake_wall, .ctx = f};
    c->logger = &f->logger;
    struct purg_env env = purg_env_pthread();
    struct purg_options options = {.shards = 8};
    f->purgatory = purg_create(&env, &options);
    assert_non_null(f->purgatory);
    struct net_api api = {.ctx = f,
                          .handle = fake_handle,
                          .flush = fake_flush,
                          .on_cancel = fake_on_cancel,
                          .on_drop = fake_on_drop,
                          .on_close = fake_on_close};
    assert_int_equal(net_start(f->sys, c, &api, &f->net), ERR_OK);
}

FIX void fake_stop(struct fake *f)
{
    net_stop(f->net);
    purg_destroy(f->purgatory);
    sys_file_unref(f->file);
    sys_destroy(f->sys);
}

FIX struct net_counters fake_counters(struct fake *f)
{
    struct net_counters c;
    net_counters_get(f->net, &c);
    return c;
}

/* Waits up to 10 s for a condition of another thread. */
#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        for (int wait_left = 10000; !(condition) && wait_left > 0; wait_left--) {                  \
            fake_block(1);                                                                         \
        }                                                                                          \
        assert_true(condition);                                                                    \
    } while (0)

/* ---- the client ---- */

FIX int client_open(struct fake *f, size_t listener)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(net_port(f->net, listener))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    struct timeval limit = {.tv_sec = 20};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return fd;
}

FIX void client_write(int fd, const void *at, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = send(fd, (const uint8_t *)at + done, size - done, MSG_NOSIGNAL);
        assert_true(n > 0);
        done += (size_t)n;
    }
}

/* Appends a frame; returns the new size. */
FIX size_t client_frame(uint8_t *buf, size_t at, enum fake_key key, int32_t correlation,
                        const void *payload, size_t size)
{
    uint32_t be = htonl((uint32_t)(8 + size));
    memcpy(buf + at, &be, 4);
    uint16_t k = htons((uint16_t)key);
    memcpy(buf + at + 4, &k, 2);
    memset(buf + at + 6, 0, 2);
    be = htonl((uint32_t)correlation);
    memcpy(buf + at + 8, &be, 4);
    if (size) { memcpy(buf + at + 12, payload, size); }
    return at + 12 + size;
}

FIX void client_send(int fd, enum fake_key key, int32_t correlation, const void *payload,
                     size_t size)
{
    uint8_t small[256];
    uint8_t *buf = size + 12 <= sizeof small ? small : malloc(size + 12);
    assert_non_null(buf);
    client_write(fd, buf, client_frame(buf, 0, key, correlation, payload, size));
    if (buf != small) { free(buf); }
}

FIX void client_send_i32(int fd, enum fake_key key, int32_t correlation, int32_t value)
{
    uint32_t be = htonl((uint32_t)value);
    client_send(fd, key, correlation, &be, 4);
}

/* True: size bytes have come. False: the other side closed. */
FIX bool client_read(int fd, void *at, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = recv(fd, (uint8_t *)at + done, size - done, 0);
        if (n < 0 && errno == ECONNRESET) { return false; }
        assert_true(n >= 0); /* EAGAIN: the answer did not come in time */
        if (n == 0) { return false; }
        done += (size_t)n;
    }
    return true;
}

/* The next answer; its payload's size. -1: closed. */
FIX ssize_t client_answer(int fd, int32_t *correlation, uint8_t *payload, size_t payload_max)
{
    uint8_t head[8];
    if (!client_read(fd, head, sizeof head)) { return -1; }
    int32_t size = fake_i32(head) - 4;
    *correlation = fake_i32(head + 4);
    assert_true(size >= 0 && (size_t)size <= payload_max);
    if (!client_read(fd, payload, (size_t)size)) { return -1; }
    return size;
}

FIX void client_expect(int fd, int32_t correlation, const char *text)
{
    uint8_t payload[256];
    int32_t got;
    ssize_t size = client_answer(fd, &got, payload, sizeof payload);
    assert_int_equal(size, strlen(text));
    assert_int_equal(got, correlation);
    assert_memory_equal(payload, text, (size_t)size);
}

FIX void client_expect_closed(int fd)
{
    uint8_t b;
    assert_false(client_read(fd, &b, 1));
    close(fd);
}

/* Whether something can be read within ms. */
FIX bool client_has(int fd, int ms)
{
    struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, &set, NULL, NULL, &limit) == 1;
}

#endif
