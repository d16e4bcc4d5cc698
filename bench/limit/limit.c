/* limit.c - bench_limit: the least that a broker must do, as the physical limit to compare with.
 *
 * Place:      bench/limit; a server for bench_wire alone, one thread and an epoll loop.
 * Work:       produce: receive what has arrived, check each batch's CRC32C, one pwritev for all of
 *             it, one send for all answers. Fetch: header, then sendfile. --sync: fdatasync once a
 *             loop turn before that turn's answers leave. Long polls: one recv and one send a
 *             poll; while they expire the loop turns once a millisecond, so that they share their
 *             turns. No look at the records, no index, no replicas, no recovery: nothing here may
 *             be taken for a broker.
 * Limits:     the topics of one leg at a time; all batches of a partition have one size (bench_wire
 *             sends one batch again and again), so an offset's place in its file is arithmetic; all
 *             fetches of a leg wait equally long, so their deadlines come in order.
 * Failure:    anything unexpected ends the program with a line that says what. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <isa-l.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    IN_BYTES = 1024 * 1024,
    OUT_BYTES = 64 * 1024,
    ANSWER_MAX = 256,
    PARTS_MAX = 1024,
    CONNS_MAX = 16384,
    NAME_MAX_BYTES = 80,
    EVENTS_MAX = 256,
    GATHER_MAX = 256,
    RESERVE_BYTES = 16 * 1024 * 1024,
    BATCH_HEAD_BYTES = 61,
    TICK_NS = 1000000,
};

struct part {
    char topic[NAME_MAX_BYTES];
    int32_t index;
    int fd;
    int64_t size;
    int64_t reserved;
    int64_t end; /* next offset */
    uint32_t batch_size;
    uint32_t batch_records;
    bool dirty;
};

struct conn {
    int fd;
    size_t in_size;
    size_t out_size;
    uint8_t *in; /* a request that is not whole; made when needed, like out */
    uint8_t *out;
    /* A fetch answer's records that still have to leave. */
    struct part *send_part;
    off_t send_pos;
    size_t send_left;
    /* A fetch that waits for records. */
    struct part *parked_part;
    int32_t parked_correlation;
    int64_t parked_until_ns;
    struct conn *parked_next;
    struct conn *parked_prev;
};

struct server {
    const char *dir;
    bool sync;
    int epoll_fd;
    struct part parts[PARTS_MAX];
    uint32_t parts_count;
    struct conn *conns[CONNS_MAX];
    uint32_t conns_count;
    struct conn *parked_first;
    struct conn *parked_last;
    int64_t now_ns;
    /* Batches of this read, all of one partition. */
    struct part *part;
    struct iovec batches[GATHER_MAX];
    int batches_count;
    /* For connections that have nothing left over: it stays in the cache. */
    uint8_t in[IN_BYTES];
    uint8_t out[OUT_BYTES];
};

struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

static _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench_limit: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t get(struct reader *r, unsigned width)
{
    if ((size_t)(r->end - r->at) < width) { die("a request is cut short"); }
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++) {
        value = (value << 8) | *r->at++;
    }
    return value;
}

static void skip(struct reader *r, size_t size)
{
    if ((size_t)(r->end - r->at) < size) { die("a request is cut short"); }
    r->at += size;
}

static void get_name(struct reader *r, char *out)
{
    size_t len = get(r, 2);
    if (len >= NAME_MAX_BYTES) { die("a topic name of %zu bytes", len); }
    const uint8_t *at = r->at;
    skip(r, len);
    memcpy(out, at, len);
    out[len] = '\0';
}

static void put(struct conn *c, uint64_t value, unsigned width)
{
    if (c->out_size + width > OUT_BYTES) { die("answers outgrew their buffer"); }
    if (!c->out) { c->out = malloc(OUT_BYTES); }
    if (!c->out) { die("no memory"); }
    for (unsigned i = 0; i < width; i++) {
        c->out[c->out_size++] = (uint8_t)(value >> (8U * (width - 1U - i)));
    }
}

static void put_name(struct conn *c, const char *name)
{
    size_t len = strlen(name);
    put(c, len, 2);
    memcpy(c->out + c->out_size, name, len);
    c->out_size += len;
}

static struct part *find_part(struct server *s, const char *topic, int32_t index)
{
    for (uint32_t i = 0; i < s->parts_count; i++) {
        struct part *p = &s->parts[i];
        if (p->index == index && strcmp(p->topic, topic) == 0) { return p; }
    }
    die("there is no partition %s-%d", topic, index);
}

static void create_topic(struct server *s, struct conn *c, struct reader *r)
{
    char topic[NAME_MAX_BYTES];
    (void)get(r, 4);
    get_name(r, topic);
    uint32_t count = (uint32_t)get(r, 4);
    if (s->parts_count + count > PARTS_MAX) { die("more than %d partitions", PARTS_MAX); }
    for (uint32_t i = 0; i < count; i++) {
        struct part *p = &s->parts[s->parts_count++];
        *p = (struct part){.index = (int32_t)i};
        memcpy(p->topic, topic, sizeof topic);
        char path[512];
        snprintf(path, sizeof path, "%s/%s-%u", s->dir, topic, i);
        p->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (p->fd < 0) { die("%s: %s", path, strerror(errno)); }
    }
    put(c, 0, 4);
    put(c, 1, 4);
    put_name(c, topic);
    put(c, 0, 2);
    put(c, 0xffff, 2);
}

static void delete_topic(struct server *s, struct conn *c, struct reader *r)
{
    char topic[NAME_MAX_BYTES];
    (void)get(r, 4);
    get_name(r, topic);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->parts_count; i++) {
        struct part *p = &s->parts[i];
        if (strcmp(p->topic, topic) != 0) {
            s->parts[kept++] = *p;
            continue;
        }
        char path[512];
        snprintf(path, sizeof path, "%s/%s-%d", s->dir, topic, p->index);
        close(p->fd);
        unlink(path);
    }
    s->parts_count = kept;
    put(c, 0, 4);
    put(c, 1, 4);
    put_name(c, topic);
    put(c, 0, 2);
}

static struct part *read_target(struct server *s, struct reader *r)
{
    char topic[NAME_MAX_BYTES];
    if (get(r, 4) != 1) { die("not one topic"); }
    get_name(r, topic);
    if (get(r, 4) != 1) { die("not one partition"); }
    return find_part(s, topic, (int32_t)get(r, 4));
}

static void list_offset(struct server *s, struct conn *c, struct reader *r)
{
    skip(r, 4);
    struct part *p = read_target(s, r);
    put(c, 1, 4);
    put_name(c, p->topic);
    put(c, 1, 4);
    put(c, (uint32_t)p->index, 4);
    put(c, 0, 2);
    put(c, UINT64_MAX, 8);
    put(c, (uint64_t)p->end, 8);
}

static void metadata(struct conn *c)
{
    put(c, 1, 4);
    put(c, 1, 4);
    put_name(c, "127.0.0.1");
    put(c, 0, 4);
    put(c, 0xffff, 2);
    put(c, 1, 4);
    put(c, 0, 4);
}

/* Writes the batches that one read brought, all at once. */
static void append_gathered(struct server *s)
{
    struct part *p = s->part;
    struct iovec *at = s->batches;
    int count = s->batches_count;
    while (count > 0) {
        if (p->size + IN_BYTES > p->reserved) {
            (void)fallocate(p->fd, FALLOC_FL_KEEP_SIZE, p->reserved, RESERVE_BYTES);
            p->reserved += RESERVE_BYTES;
        }
        ssize_t wrote = pwritev(p->fd, at, count, p->size);
        if (wrote <= 0) { die("pwritev: %s", strerror(errno)); }
        p->size += wrote;
        for (; count > 0 && (size_t)wrote >= at->iov_len; at++, count--) {
            wrote -= (ssize_t)at->iov_len;
        }
        if (count > 0) {
            at->iov_base = (uint8_t *)at->iov_base + wrote;
            at->iov_len -= (size_t)wrote;
        }
    }
    s->batches_count = 0;
    if (p) { p->dirty = true; }
}

static void produce(struct server *s, struct conn *c, struct reader *r)
{
    skip(r, 2 + 2 + 4);
    struct part *p = read_target(s, r);
    uint32_t size = (uint32_t)get(r, 4);
    if (size < BATCH_HEAD_BYTES || size != (size_t)(r->end - r->at)) { die("a batch cut short"); }
    const uint8_t *batch = r->at;
    struct reader head = {.at = batch + 17, .end = r->end};
    uint32_t sum = (uint32_t)get(&head, 4);
    union {
        const uint8_t *in;
        unsigned char *out;
        void *base;
    } bytes = {.in = batch + 21};
    uint32_t real = ~crc32_iscsi(bytes.out, (int)(size - 21), ~0U);
    if (sum != real) { die("a batch with a wrong sum"); }
    head.at = batch + 57;
    p->batch_records = (uint32_t)get(&head, 4);
    p->batch_size = size;
    if (s->batches_count == GATHER_MAX || (s->batches_count > 0 && s->part != p)) {
        append_gathered(s);
    }
    s->part = p;
    bytes.in = batch;
    for (unsigned i = 0; i < 8; i++) { /* the sum does not cover the offset */
        bytes.out[i] = (uint8_t)((uint64_t)p->end >> (8U * (7U - i)));
    }
    s->batches[s->batches_count++] = (struct iovec){bytes.base, size};
    put(c, 1, 4);
    put_name(c, p->topic);
    put(c, 1, 4);
    put(c, (uint32_t)p->index, 4);
    put(c, 0, 2);
    put(c, (uint64_t)p->end, 8);
    put(c, UINT64_MAX, 8);
    put(c, 0, 8);
    put(c, 0, 4);
    p->end += p->batch_records;
}

/* All of a Fetch answer but its records, which are 'size' bytes. */
static void put_fetch_answer(struct conn *c, struct part *p, int32_t correlation, size_t size)
{
    size_t at = c->out_size;
    put(c, 0, 4);
    put(c, (uint32_t)correlation, 4);
    put(c, 0, 4 + 2);
    put(c, 0, 4);
    put(c, 1, 4);
    put_name(c, p->topic);
    put(c, 1, 4);
    put(c, (uint32_t)p->index, 4);
    put(c, 0, 2);
    put(c, (uint64_t)p->end, 8);
    put(c, (uint64_t)p->end, 8);
    put(c, 0, 8);
    put(c, UINT32_MAX, 4);
    put(c, UINT32_MAX, 4);
    put(c, size, 4);
    size_t end = c->out_size;
    c->out_size = at;
    put(c, end - at - 4 + size, 4);
    c->out_size = end;
}

static void answer_fetch(struct conn *c, struct part *p, int32_t correlation, int64_t offset,
                         uint32_t bytes_max)
{
    int64_t pos = p->batch_records ? offset / p->batch_records * p->batch_size : 0;
    size_t size = (size_t)(p->end / p->batch_records * p->batch_size - pos);
    if (size > bytes_max) { size = bytes_max - bytes_max % p->batch_size; }
    if (size == 0) { size = p->batch_size; }
    put_fetch_answer(c, p, correlation, size);
    c->send_part = p;
    c->send_pos = pos;
    c->send_left = size;
}

static void park(struct server *s, struct conn *c)
{
    c->parked_next = NULL;
    c->parked_prev = s->parked_last;
    if (s->parked_last) {
        s->parked_last->parked_next = c;
    } else {
        s->parked_first = c;
    }
    s->parked_last = c;
}

static void unpark(struct server *s, struct conn *c)
{
    if (!c->parked_part) { return; }
    c->parked_part = NULL;
    if (c->parked_next) {
        c->parked_next->parked_prev = c->parked_prev;
    } else {
        s->parked_last = c->parked_prev;
    }
    if (c->parked_prev) {
        c->parked_prev->parked_next = c->parked_next;
    } else {
        s->parked_first = c->parked_next;
    }
}

static void fetch(struct server *s, struct conn *c, struct reader *r, int32_t correlation)
{
    skip(r, 4);
    int64_t wait_ns = (int64_t)get(r, 4) * 1000000;
    skip(r, 4 + 4 + 1 + 4 + 4);
    struct part *p = read_target(s, r);
    skip(r, 4);
    int64_t offset = (int64_t)get(r, 8);
    skip(r, 8);
    uint32_t bytes_max = (uint32_t)get(r, 4);
    if (offset < p->end) {
        answer_fetch(c, p, correlation, offset, bytes_max);
    } else {
        c->parked_part = p;
        c->parked_correlation = correlation;
        c->parked_until_ns = s->now_ns + wait_ns;
        park(s, c);
    }
}

/* One request after its size prefix. A fetch writes its own frame: its records follow later. */
static void request(struct server *s, struct conn *c, const uint8_t *at, size_t size)
{
    struct reader r = {.at = at, .end = at + size};
    uint32_t api = (uint32_t)get(&r, 2);
    skip(&r, 2);
    int32_t correlation = (int32_t)get(&r, 4);
    skip(&r, get(&r, 2));
    if (api == 1) {
        fetch(s, c, &r, correlation);
        return;
    }
    size_t start = c->out_size;
    put(c, 0, 4);
    put(c, (uint32_t)correlation, 4);
    switch (api) {
    case 0:
        produce(s, c, &r);
        break;
    case 2:
        list_offset(s, c, &r);
        break;
    case 3:
        metadata(c);
        break;
    case 19:
        create_topic(s, c, &r);
        break;
    case 20:
        delete_topic(s, c, &r);
        break;
    default:
        die("no such request: %u", api);
    }
    size_t end = c->out_size;
    c->out_size = start;
    put(c, end - start - 4, 4);
    c->out_size = end;
}

static void flush_out(struct conn *c)
{
    if (c->out_size > 0) {
        int more = c->send_left > 0 ? MSG_MORE : 0;
        ssize_t sent = send(c->fd, c->out, c->out_size, MSG_NOSIGNAL | MSG_DONTWAIT | more);
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) { sent = (ssize_t)c->out_size; }
        if (sent < 0 && errno != EAGAIN) { die("send: %s", strerror(errno)); }
        if (sent > 0) {
            memmove(c->out, c->out + sent, c->out_size - (size_t)sent);
            c->out_size -= (size_t)sent;
        }
        if (c->out_size > 0) { return; }
    }
    while (c->send_left > 0) {
        ssize_t sent = sendfile(c->fd, c->send_part->fd, &c->send_pos, c->send_left);
        if (sent < 0 && errno == EAGAIN) { return; }
        if (sent <= 0) { die("sendfile: %s", sent ? strerror(errno) : "the file is short"); }
        c->send_left -= (size_t)sent;
    }
}

/* False when the peer has gone. */
static bool receive(struct server *s, struct conn *c)
{
    if (c->send_left > 0 || c->out_size > 0) { return true; }
    uint8_t *in = c->in_size > 0 ? c->in : s->in;
    ssize_t got = recv(c->fd, in + c->in_size, IN_BYTES - c->in_size, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) { return true; }
    if (got <= 0) { return false; }
    c->in_size += (size_t)got;
    size_t at = 0;
    while (c->in_size - at >= 4 && c->send_left == 0) {
        struct reader r = {.at = in + at, .end = in + c->in_size};
        size_t size = get(&r, 4);
        if (size > IN_BYTES - 4) { die("a request of %zu bytes", size); }
        if (c->in_size - at < size + 4) { break; }
        request(s, c, r.at, size);
        at += size + 4;
    }
    if (s->batches_count > 0) { append_gathered(s); }
    c->in_size -= at;
    if (c->in_size == 0) { return true; }
    if (!c->in) { c->in = malloc(IN_BYTES); }
    if (!c->in) { die("no memory"); }
    memmove(c->in, in + at, c->in_size);
    return true;
}

static void accept_one(struct server *s, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) { return; }
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct conn *c = calloc(1, sizeof *c);
    if (!c || s->conns_count == CONNS_MAX) { die("too many connections"); }
    c->fd = fd;
    s->conns[s->conns_count++] = c;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) { die("epoll_ctl"); }
}

static void drop(struct server *s, struct conn *c)
{
    for (uint32_t i = 0; i < s->conns_count; i++) {
        if (s->conns[i] == c) { s->conns[i] = s->conns[--s->conns_count]; }
    }
    unpark(s, c);
    close(c->fd);
    free(c->in);
    free(c->out);
    free(c);
}

static void answer_turn(struct server *s, struct conn **touched, int count)
{
    bool appended = false;
    for (uint32_t i = 0; i < s->parts_count; i++) {
        struct part *p = &s->parts[i];
        if (!p->dirty) { continue; }
        if (s->sync && fdatasync(p->fd) != 0) { die("fdatasync: %s", strerror(errno)); }
        p->dirty = false;
        appended = true;
    }
    for (uint32_t i = 0; appended && i < s->conns_count; i++) {
        struct conn *c = s->conns[i];
        struct part *p = c->parked_part;
        if (!p || p->end == 0) { continue; }
        /* bench_wire waits at the end and publishes one batch: that is what is new. */
        unpark(s, c);
        answer_fetch(c, p, c->parked_correlation, p->end - p->batch_records, IN_BYTES);
        flush_out(c);
    }
    for (int i = 0; i < count; i++) {
        struct conn *c = touched[i];
        flush_out(c);
        bool waits = c->send_left > 0 || c->out_size > 0;
        struct epoll_event event = {.events = waits ? EPOLLOUT : EPOLLIN, .data.ptr = c};
        if (waits || c->send_part) { (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, c->fd, &event); }
        if (!waits) { c->send_part = NULL; }
    }
}

/* True: there were some, so their clients ask again soon. */
static bool answer_expired(struct server *s)
{
    int64_t now = now_ns();
    bool any = false;
    while (s->parked_first && s->parked_first->parked_until_ns <= now) {
        struct conn *c = s->parked_first;
        struct part *p = c->parked_part;
        uint8_t *own = c->out;
        unpark(s, c);
        c->out = s->out;
        put_fetch_answer(c, p, c->parked_correlation, 0);
        flush_out(c);
        if (c->out_size > 0) { die("a long poll's answer does not fit into its socket"); }
        c->out = own;
        any = true;
    }
    return any;
}

static int wait_events(struct server *s, struct epoll_event *events)
{
    if (!s->parked_first) { return epoll_wait(s->epoll_fd, events, EVENTS_MAX, -1); }
    int64_t left = s->parked_first->parked_until_ns - now_ns();
    left = (left > 0 ? left + TICK_NS - 1 : 0) / TICK_NS * TICK_NS;
    struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    return epoll_pwait2(s->epoll_fd, events, EVENTS_MAX, &timeout, NULL);
}

static _Noreturn void serve(struct server *s, int listener)
{
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        struct conn *touched[EVENTS_MAX];
        int touched_count = 0;
        int count = wait_events(s, events);
        if (count < 0 && errno != EINTR) { die("epoll_wait: %s", strerror(errno)); }
        s->now_ns = now_ns();
        for (int i = 0; i < count; i++) {
            struct conn *c = events[i].data.ptr;
            if (!c) {
                accept_one(s, listener);
            } else if ((events[i].events & (EPOLLHUP | EPOLLERR)) || !receive(s, c)) {
                drop(s, c);
            } else {
                touched[touched_count++] = c;
            }
        }
        answer_turn(s, touched, touched_count);
        if (answer_expired(s)) { nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL); }
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) { die("bench_limit PORT DIR [--sync]"); }
    struct server *s = calloc(1, sizeof *s);
    if (!s) { die("no memory"); }
    s->dir = argv[2];
    s->sync = argc > 3 && strcmp(argv[3], "--sync") == 0;
    struct rlimit limit = {.rlim_cur = CONNS_MAX + 64, .rlim_max = CONNS_MAX + 64};
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10)),
    };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 1024) != 0) {
        die("port %s: %s", argv[1], strerror(errno));
    }
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (s->epoll_fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, listener, &event) != 0) {
        die("epoll: %s", strerror(errno));
    }
    serve(s, listener);
}
