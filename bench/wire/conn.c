/* conn.c - see conn.h. */
#include "conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { GATHER_MAX = 32, SKIP_BY_KERNEL_BYTES = 2048 };

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int connect_port(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) { die("socket: %s", strerror(errno)); }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        die("connect to port %u: %s", port, strerror(errno));
    }
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
        die("TCP_NODELAY: %s", strerror(errno));
    }
    return fd;
}

void conn_open(struct conn *c, uint32_t index, uint16_t port, uint32_t depth)
{
    *c = (struct conn){.index = index, .depth = depth};
    c->fd = connect_port(port);
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0) { die("O_NONBLOCK: %s", strerror(errno)); }
    c->ring = calloc(depth, sizeof *c->ring);
    if (!c->ring) { die("no memory for connection %u", index); }
}

void conn_close(struct conn *c)
{
    close(c->fd);
    free(c->ring);
    *c = (struct conn){.fd = -1};
}

static struct request *conn_slot(struct conn *c, uint32_t place)
{
    return &c->ring[(c->first + place) % c->depth];
}

struct request *conn_request(struct conn *c)
{
    if (c->count == c->depth) { return NULL; }
    struct request *q = conn_slot(c, c->count);
    q->correlation = c->correlation_next;
    q->body = NULL;
    q->body_size = 0;
    c->correlation_next = (c->correlation_next + 1) & 0x3fffffff;
    c->count++;
    c->unsent++;
    return q;
}

/* Puts what is left of a request after its first 'skip' bytes into at most two vectors. */
static int request_vectors(struct request *q, uint32_t skip, struct iovec *out)
{
    int count = 0;
    if (skip < q->head_size) {
        out[count++] = (struct iovec){q->head + skip, q->head_size - skip};
        skip = 0;
    } else {
        skip -= q->head_size;
    }
    if (skip < q->body_size) {
        union {
            const uint8_t *in;
            void *out;
        } body = {.in = q->body + skip}; /* sendmsg() only reads through it */
        out[count++] = (struct iovec){body.out, q->body_size - skip};
    }
    return count;
}

static void conn_sent(struct conn *c, size_t bytes)
{
    while (bytes > 0) {
        struct request *q = conn_slot(c, c->count - c->unsent);
        size_t left = q->head_size + q->body_size - c->sent_bytes;
        if (bytes < left) {
            c->sent_bytes += (uint32_t)bytes;
            return;
        }
        bytes -= left;
        c->sent_bytes = 0;
        c->unsent--;
    }
}

void conn_flush(struct conn *c)
{
    while (c->unsent > 0) {
        struct iovec vectors[2 * GATHER_MAX];
        int count = 0;
        uint32_t gather = c->unsent < GATHER_MAX ? c->unsent : GATHER_MAX;
        for (uint32_t i = 0; i < gather; i++) {
            struct request *q = conn_slot(c, c->count - c->unsent + i);
            count += request_vectors(q, i == 0 ? c->sent_bytes : 0, vectors + count);
        }
        struct msghdr message = {.msg_iov = vectors, .msg_iovlen = (size_t)count};
        ssize_t sent = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno == EAGAIN) { return; } /* the next writable edge goes on */
            if (errno == EINTR) { continue; }
            die("connection %u: send: %s", c->index, strerror(errno));
        }
        conn_sent(c, (size_t)sent);
    }
}

static void conn_answered(struct conn *c, conn_on_answer *on_answer, void *context, int64_t now)
{
    const uint8_t *head = c->head + FRAME_SIZE_PREFIX;
    size_t head_size = c->head_have - FRAME_SIZE_PREFIX;
    if (c->count == c->unsent) { die("connection %u: an answer nobody asked for", c->index); }
    const struct request *q = conn_slot(c, 0);
    uint32_t correlation = 0;
    for (size_t i = 0; i < 4 && i < head_size; i++) {
        correlation = (correlation << 8) | head[i];
    }
    if (correlation != (uint32_t)q->correlation) {
        die("connection %u: answer %u where %d was next", c->index, correlation, q->correlation);
    }
    struct request done = *q; /* the callback may reuse the slot and the head */
    uint8_t copy[CONN_ANSWER_HEAD_MAX];
    memcpy(copy, head, head_size);
    struct answer a = {
        .head = copy,
        .head_size = head_size,
        .frame_size = c->frame_size,
        .request = &done,
        .now_ns = now,
    };
    c->first = (c->first + 1) % c->depth;
    c->count--;
    c->head_have = 0;
    c->frame_size = 0;
    on_answer(context, c, &a);
}

static size_t conn_take_head(struct conn *c, const uint8_t *at, size_t size, size_t want)
{
    size_t part = want - c->head_have;
    if (part > size) { part = size; }
    memcpy(c->head + c->head_have, at, part);
    c->head_have += (uint32_t)part;
    return part;
}

static void conn_read_size(struct conn *c)
{
    uint32_t size = 0;
    for (size_t i = 0; i < FRAME_SIZE_PREFIX; i++) {
        size = (size << 8) | c->head[i];
    }
    if (size < 4 || size > FRAME_BYTES_MAX) { die("an answer of %u bytes", size); }
    c->frame_size = size;
    c->skip_left = size > CONN_ANSWER_HEAD_MAX ? size - CONN_ANSWER_HEAD_MAX : 0;
}

static void conn_feed(struct conn *c, const uint8_t *at, size_t size, conn_on_answer *on_answer,
                      void *context, int64_t now)
{
    while (size > 0) {
        size_t part;
        if (c->frame_size == 0) {
            part = conn_take_head(c, at, size, FRAME_SIZE_PREFIX);
            if (c->head_have == FRAME_SIZE_PREFIX) { conn_read_size(c); }
        } else {
            size_t head_want = FRAME_SIZE_PREFIX + (c->frame_size < CONN_ANSWER_HEAD_MAX
                                                        ? c->frame_size
                                                        : (size_t)CONN_ANSWER_HEAD_MAX);
            if (c->head_have < head_want) {
                part = conn_take_head(c, at, size, head_want);
            } else {
                part = size < c->skip_left ? size : c->skip_left;
                c->skip_left -= (uint32_t)part;
            }
            if (c->head_have == head_want && c->skip_left == 0) {
                conn_answered(c, on_answer, context, now);
            }
        }
        at += part;
        size -= part;
    }
}

/* The bulk of a fetch answer is dropped inside the kernel: the broker is measured, not a copy. */
static ssize_t conn_recv(struct conn *c, uint8_t *scratch, size_t *asked)
{
    size_t have_head = FRAME_SIZE_PREFIX + (size_t)CONN_ANSWER_HEAD_MAX;
    if (c->head_have == have_head && c->skip_left >= SKIP_BY_KERNEL_BYTES) {
        *asked = c->skip_left;
        return recv(c->fd, NULL, c->skip_left, MSG_TRUNC | MSG_DONTWAIT);
    }
    *asked = CONN_SCRATCH_BYTES;
    if (c->frame_size == 0 && c->depth == 1) { *asked = SKIP_BY_KERNEL_BYTES; }
    return recv(c->fd, scratch, *asked, MSG_DONTWAIT);
}

void conn_receive(struct conn *c, conn_on_answer *on_answer, void *context)
{
    uint8_t scratch[CONN_SCRATCH_BYTES];
    for (;;) {
        size_t asked = 0;
        bool by_kernel = c->skip_left >= SKIP_BY_KERNEL_BYTES &&
                         c->head_have == FRAME_SIZE_PREFIX + CONN_ANSWER_HEAD_MAX;
        ssize_t got = conn_recv(c, scratch, &asked);
        if (got < 0 && errno == EINTR) { continue; }
        if (got < 0 && errno == EAGAIN) { return; }
        if (got < 0) { die("connection %u: recv: %s", c->index, strerror(errno)); }
        if (got == 0) { die("connection %u: closed by the broker", c->index); }
        if (by_kernel) {
            c->skip_left -= (uint32_t)got;
            if (c->skip_left == 0) { conn_answered(c, on_answer, context, now_ns()); }
        } else {
            conn_feed(c, scratch, (size_t)got, on_answer, context, now_ns());
        }
        if ((size_t)got < asked) { return; }
    }
}

static void read_whole(int fd, uint8_t *at, size_t size)
{
    while (size > 0) {
        ssize_t got = recv(fd, at, size, MSG_WAITALL);
        if (got < 0 && errno == EINTR) { continue; }
        if (got <= 0) { die("the broker closed the connection instead of answering"); }
        at += got;
        size -= (size_t)got;
    }
}

uint8_t *conn_ask(int fd, const uint8_t *frame, size_t size, size_t *answer_size)
{
    while (size > 0) {
        ssize_t sent = send(fd, frame, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) { continue; }
        if (sent < 0) { die("send: %s", strerror(errno)); }
        frame += sent;
        size -= (size_t)sent;
    }
    uint8_t prefix[FRAME_SIZE_PREFIX];
    read_whole(fd, prefix, sizeof prefix);
    uint32_t whole = ((uint32_t)prefix[0] << 24) | ((uint32_t)prefix[1] << 16) |
                     ((uint32_t)prefix[2] << 8) | prefix[3];
    if (whole < 4 || whole > FRAME_BYTES_MAX) { die("an answer of %u bytes", whole); }
    uint8_t *answer = malloc(whole);
    if (!answer) { die("no memory for an answer of %u bytes", whole); }
    read_whole(fd, answer, whole);
    *answer_size = whole;
    return answer;
}
