/* stream.c - plain TCP streams and listeners, all non-blocking.
 *
 * Thread:     the owner task's.
 * Failure:    ERR_AGAIN when nothing can move; ERR_CLOSED when the peer is gone. Out of descriptors
 *             at accept is ERR_LIMIT and the connection waits in the backlog. */
#include "base/check.h"
#include "base/mem.h"
#include "sys/sys_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

static enum err sys_plain_recv(struct sys_stream *s, void *buf, size_t size, size_t *moved)
{
    *moved = 0;
    CHECK(size > 0);
    ssize_t n;
    do {
        n = recv(sys_plain_of(s)->fd, buf, size, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0) { return sys_err(errno); }
    if (n == 0) { return ERR_CLOSED; }
    *moved = (size_t)n;
    return ERR_OK;
}

static enum err sys_plain_sendv(struct sys_stream *s, const struct sys_iov *iov, size_t iov_count,
                                bool more, size_t *moved)
{
    *moved = 0;
    /* The kernel only reads what it sends; its structure has no const. */
    union {
        const struct sys_iov *ours;
        struct iovec *theirs;
    } pieces = {.ours = iov};
    struct msghdr msg = {.msg_iov = pieces.theirs,
                         .msg_iovlen = iov_count < IOV_MAX ? iov_count : IOV_MAX};
    int fd = sys_plain_of(s)->fd, flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
    ssize_t n;
    do {
        n = iov_count == 1 ? send(fd, iov->at, iov->size, flags) : sendmsg(fd, &msg, flags);
    } while (n < 0 && errno == EINTR);
    if (n < 0) { return sys_err(errno); }
    *moved = (size_t)n;
    return ERR_OK;
}

static enum err sys_plain_send_file(struct sys_stream *s, struct sys_file *f, uint64_t pos,
                                    size_t size, size_t *moved)
{
    *moved = 0;
    off_t at = (off_t)pos;
    ssize_t n;
    do {
        n = sendfile(sys_plain_of(s)->fd, f->fd, &at, size);
    } while (n < 0 && errno == EINTR);
    if (n < 0) { return sys_err(errno); }
    *moved = (size_t)n;
    return ERR_OK;
}

static unsigned sys_plain_wants(const struct sys_stream *s)
{
    (void)s;
    return 0;
}

static void sys_plain_close(struct sys_stream *s)
{
    struct sys_plain *plain = sys_plain_of(s);
    (void)close(plain->fd);
    mem_free(plain);
}

static const struct sys_stream_ops sys_plain_ops = {
    .recv = sys_plain_recv,
    .sendv = sys_plain_sendv,
    .send_file = sys_plain_send_file,
    .wants = sys_plain_wants,
    .close = sys_plain_close,
};

struct sys_plain *sys_plain_of(struct sys_stream *s)
{
    CHECK(s->ops == &sys_plain_ops);
    return CONTAINER_OF(s, struct sys_plain, stream);
}

/* Takes fd in, also on failure. */
static enum err sys_plain_wrap(int fd, struct sys_stream **out)
{
    struct sys_plain *plain = mem_new(struct sys_plain);
    if (!plain) {
        (void)close(fd);
        return ERR_NOMEM;
    }
    plain->stream.ops = &sys_plain_ops;
    plain->fd = fd;
    *out = &plain->stream;
    return ERR_OK;
}

static enum err sys_set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) < 0 ? sys_err(errno) : ERR_OK;
}

/* A name or an address (NULL: all interfaces) to socket addresses; freeaddrinfo() by the caller. */
static enum err sys_resolve(const char *host, uint16_t port, int flags, struct addrinfo **out)
{
    *out = NULL;
    char service[8];
    (void)snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    switch (getaddrinfo(host, service, &hints, out)) {
    case 0:
        return ERR_OK;
    case EAI_MEMORY:
        return ERR_NOMEM;
    case EAI_AGAIN:
        return ERR_AGAIN;
    default:
        return ERR_NOTFOUND;
    }
}

union sys_address {
    struct sockaddr_in6 six; /* first: the largest, so that an initialiser clears all */
    struct sockaddr_in four;
    struct sockaddr any;
};

static uint16_t sys_bound_port(int fd)
{
    union sys_address addr = {0};
    socklen_t size = sizeof addr;
    if (getsockname(fd, &addr.any, &size) < 0) { return 0; }
    return ntohs(addr.any.sa_family == AF_INET6 ? addr.six.sin6_port : addr.four.sin_port);
}

static enum err sys_listen_on(const struct addrinfo *at, unsigned backlog, int *out)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) { return sys_err(errno); }
    enum err e = sys_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (e) { goto fail; }
    /* Accepted sockets inherit it: no call for each. */
    e = sys_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (e) { goto fail; }
    if (at->ai_family == AF_INET6) {
        e = sys_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
        if (e) { goto fail; }
    }
    if (bind(fd, at->ai_addr, at->ai_addrlen) < 0) {
        e = sys_err(errno);
        goto fail;
    }
    if (listen(fd, backlog < INT_MAX ? (int)backlog : INT_MAX) < 0) {
        e = sys_err(errno);
        goto fail;
    }
    *out = fd;
    return ERR_OK;
fail:
    (void)close(fd);
    return e;
}

/* All interfaces means [::] with IPv4 mapped in, so the IPv6 address is tried first then. */
static enum err sys_listen_first(const struct addrinfo *list, bool wildcard, unsigned backlog,
                                 int *out)
{
    enum err e = ERR_NOTFOUND;
    for (int round = 0; round < 2; round++) {
        for (const struct addrinfo *at = list; at; at = at->ai_next) {
            bool early = !wildcard || at->ai_family == AF_INET6;
            if (early != (round == 0)) { continue; }
            e = sys_listen_on(at, backlog, out);
            if (!e || e == ERR_BUSY) { return e; }
        }
    }
    return e;
}

enum err sys_listen(struct sys *sys, const char *host, uint16_t port, unsigned backlog,
                    struct sys_listener **out)
{
    (void)sys;
    *out = NULL;
    bool wildcard = !host || !*host;
    struct addrinfo *list;
    enum err e = sys_resolve(wildcard ? NULL : host, port, AI_PASSIVE, &list);
    if (e) { return e; }
    int fd = -1;
    e = sys_listen_first(list, wildcard, backlog, &fd);
    freeaddrinfo(list);
    if (e) { return e; }
    struct sys_listener *l = mem_new(struct sys_listener);
    if (!l) {
        (void)close(fd);
        return ERR_NOMEM;
    }
    l->fd = fd;
    l->port = sys_bound_port(fd);
    *out = l;
    return ERR_OK;
}

enum err sys_listener_buffers(struct sys_listener *l, int send_bytes, int receive_bytes)
{
    enum err e = send_bytes < 0 ? ERR_OK : sys_set_option(l->fd, SOL_SOCKET, SO_SNDBUF, send_bytes);
    if (e || receive_bytes < 0) { return e; }
    return sys_set_option(l->fd, SOL_SOCKET, SO_RCVBUF, receive_bytes);
}

uint16_t sys_listener_port(const struct sys_listener *l)
{
    return l->port;
}

int sys_listener_descriptor(const struct sys_listener *l)
{
    return l->fd;
}

void sys_listener_close(struct sys_listener *l)
{
    if (!l) { return; }
    (void)close(l->fd);
    mem_free(l);
}

static void sys_peer_text(const union sys_address *addr, char peer[SYS_ADDRESS_SIZE])
{
    const void *bytes = &addr->four.sin_addr;
    int family = addr->any.sa_family;
    if (family == AF_INET6) {
        const struct in6_addr *six = &addr->six.sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(six);
        bytes = mapped ? (const void *)(six->s6_addr + 12) : (const void *)six;
        family = mapped ? AF_INET : AF_INET6;
    }
    if (!inet_ntop(family, bytes, peer, SYS_ADDRESS_SIZE)) { peer[0] = '\0'; }
}

/* Errors of a connection that died in the backlog: the next one is tried. */
static bool sys_accept_died(int code)
{
    return code == EINTR || code == ECONNABORTED || code == EPROTO || code == ENETDOWN ||
           code == ENOPROTOOPT || code == EHOSTDOWN || code == ENONET || code == EHOSTUNREACH ||
           code == ENETUNREACH || code == EPERM;
}

enum err sys_accept(struct sys_listener *l, struct sys_stream **out, char peer[SYS_ADDRESS_SIZE])
{
    *out = NULL;
    peer[0] = '\0';
    union sys_address addr = {0};
    int fd;
    do {
        socklen_t size = sizeof addr;
        fd = accept4(l->fd, &addr.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && sys_accept_died(errno));
    if (fd < 0) { return errno == ENOMEM ? ERR_LIMIT : sys_err(errno); }
    sys_peer_text(&addr, peer);
    return sys_plain_wrap(fd, out);
}

static enum err sys_connect_to(const struct addrinfo *at, int *out)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) { return sys_err(errno); }
    enum err e = sys_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (e) { goto fail; }
    int rc = connect(fd, at->ai_addr, at->ai_addrlen);
    /* EINTR: the connect goes on by itself. */
    if (rc < 0 && errno != EINPROGRESS && errno != EINTR) {
        e = sys_err(errno);
        goto fail;
    }
    *out = fd;
    return ERR_OK;
fail:
    (void)close(fd);
    return e;
}

enum err sys_connect(struct sys *sys, const char *host, uint16_t port, struct sys_stream **out)
{
    (void)sys;
    *out = NULL;
    struct addrinfo *list;
    enum err e = sys_resolve(host, port, 0, &list);
    if (e) { return e; }
    int fd = -1;
    e = ERR_NOTFOUND;
    for (const struct addrinfo *at = list; at; at = at->ai_next) {
        e = sys_connect_to(at, &fd);
        if (!e) { break; }
    }
    freeaddrinfo(list);
    return e ? e : sys_plain_wrap(fd, out);
}

void sys_hostname(struct sys *sys, char *buf, size_t size)
{
    (void)sys;
    CHECK(size > 0);
    /* The name server is not asked: it may be slow, and a start does not wait for it. */
    if (gethostname(buf, size) < 0) { (void)snprintf(buf, size, "localhost"); }
    buf[size - 1] = '\0';
}
