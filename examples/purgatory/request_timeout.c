/* request_timeout.c - an epoll server whose requests wait for an event, with a time limit each.
 *
 * The server keeps numbered slots. Clients send lines over TCP:
 *
 *     set <slot> <word>   answers "ok"
 *     get <slot>          answers "value <word>"; while the slot is empty it waits, and after
 *                         TIMEOUT_MS answers "timeout"
 *
 * One thread, one epoll loop, one purg_owner. The loop's turn ends with purg_owner_step(), which
 * answers what has ended and says how long epoll_wait() may sleep: there is no timerfd and no
 * timer thread. A connection has one delayed operation; when its client goes away while it waits
 * the operation is cancelled, and the connection is free again when the operation is back.
 *
 * main() starts the server on a thread and plays the clients. */
#include <purgatory/purgatory.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLOTS = 16, WORD_SIZE = 32, LINE_SIZE = 64, TIMEOUT_MS = 50, CLIENTS = 8 };

struct connection {
    struct purg_op op; /* first: connection and op are one address */
    struct purg_watch_node node;
    struct server *server; /* NULL: not in use */
    int fd; /* -1: the client is gone */
    bool is_waiting; /* 'op' and 'node' are lent, from parking until get_complete() */
    size_t slot; /* that it waits for */
    size_t used; /* of the line */
    char line[LINE_SIZE];
};

struct server {
    int listen_fd, epoll_fd;
    int stop_fd[2]; /* a pipe: a byte ends the loop */
    struct purg_env env;
    struct purgatory *purgatory;
    struct purg_owner *owner;
    char slots[SLOTS][WORD_SIZE]; /* "" is empty */
    struct connection connections[CLIENTS];
};

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static struct purg_key slot_key(size_t slot)
{
    return (struct purg_key){.lo = slot};
}

static void answer(struct connection *conn, const char *what, const char *word)
{
    char line[LINE_SIZE];
    int size = snprintf(line, sizeof line, "%s%s\n", what, word);
    if (conn->fd >= 0 && send(conn->fd, line, (size_t)size, MSG_NOSIGNAL) < 0) { perror("send"); }
}

static void connection_end(struct connection *conn)
{
    if (conn->fd >= 0) { close(conn->fd); } /* which also takes it out of epoll */
    conn->server = NULL;
}

static bool get_try(struct purg_op *op)
{
    const struct connection *conn = (const struct connection *)op;
    return conn->server->slots[conn->slot][0] != '\0';
}

static void get_complete(struct purg_op *op, enum purg_reason reason)
{
    struct connection *conn = (struct connection *)op;
    conn->is_waiting = false;
    if (reason == PURG_EVENT) { answer(conn, "value ", conn->server->slots[conn->slot]); }
    if (reason == PURG_EXPIRED) { answer(conn, "timeout", ""); }
    if (reason == PURG_SHUTDOWN) { answer(conn, "closing", ""); }
    if (conn->fd < 0) { connection_end(conn); } /* on_gone() waited for us */
}

static const struct purg_op_type get_type = {"get", get_try, get_complete};

static void on_get(struct connection *conn, size_t slot)
{
    struct server *server = conn->server;
    struct purg_key key = slot_key(slot);
    uint64_t deadline_ns = server->env.now_ns(server->env.ctx) + TIMEOUT_MS * 1000000ull;
    conn->slot = slot;
    purg_op_init(&conn->op, &get_type, server->owner);
    if (purg_try_complete_else_watch(server->purgatory, server->owner, &conn->op, &conn->node, &key,
                                     1, deadline_ns) == PURG_PARKED) {
        conn->is_waiting = true;
    } else {
        get_complete(&conn->op, PURG_EVENT); /* the slot was not empty */
    }
}

static void on_line(struct connection *conn)
{
    struct server *server = conn->server;
    size_t slot;
    char word[WORD_SIZE];
    if (sscanf(conn->line, "set %zu %31s", &slot, word) == 2 && slot < SLOTS) {
        strcpy(server->slots[slot], word); /* publish, then tell */
        purg_check(server->purgatory, server->owner, slot_key(slot));
        answer(conn, "ok", "");
    } else if (sscanf(conn->line, "get %zu", &slot) == 1 && slot < SLOTS) {
        on_get(conn, slot);
    } else {
        answer(conn, "what?", "");
    }
}

/* The client is gone. While an operation waits its memory is lent, so it is ended first. */
static void on_gone(struct connection *conn)
{
    if (!conn->is_waiting) {
        connection_end(conn);
        return;
    }
    close(conn->fd);
    conn->fd = -1;
    /* False when something else has just ended it: get_complete() follows in either case. */
    purg_op_cancel(&conn->op, conn->server->owner, PURG_CANCELLED);
}

static void on_readable(struct connection *conn)
{
    ssize_t got = read(conn->fd, conn->line + conn->used, LINE_SIZE - 1 - conn->used);
    /* One request at a time: who sends another while one waits is not served. */
    if (got <= 0 || conn->is_waiting) {
        on_gone(conn);
        return;
    }
    conn->used += (size_t)got;
    conn->line[conn->used] = '\0';
    if (conn->line[conn->used - 1] == '\n' || conn->used == LINE_SIZE - 1) {
        conn->used = 0;
        on_line(conn);
    }
}

static void on_connect(struct server *server)
{
    int fd = accept(server->listen_fd, NULL, NULL);
    struct connection *conn = server->connections;
    while (conn < server->connections + CLIENTS && conn->server) {
        conn++;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    if (fd < 0 || conn == server->connections + CLIENTS ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        if (fd >= 0) { close(fd); }
        return;
    }
    *conn = (struct connection){.server = server, .fd = fd};
}

/* What purg_owner_step() returned, in epoll's terms: rounded up, so that it is not woken early. */
static int sleep_ms(uint64_t next_ns, uint64_t now_ns)
{
    if (next_ns == PURG_NEVER) { return -1; }
    if (next_ns <= now_ns) { return 0; }
    uint64_t ms = (next_ns - now_ns + 999999) / 1000000;
    return ms < 1000000 ? (int)ms : 1000000;
}

static void *server_main(void *arg)
{
    struct server *server = arg;
    bool is_stopping = false;
    while (!is_stopping) {
        /* Last in the turn: what the turn has ended is answered, and nothing changes after. */
        uint64_t now_ns = server->env.now_ns(server->env.ctx);
        uint64_t next_ns = purg_owner_step(server->owner, now_ns);
        struct epoll_event events[CLIENTS];
        int count = epoll_wait(server->epoll_fd, events, CLIENTS, sleep_ms(next_ns, now_ns));
        if (count < 0 && errno != EINTR) { die("epoll_wait"); }
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == &server->listen_fd) {
                on_connect(server);
            } else if (events[i].data.ptr == &server->stop_fd) {
                is_stopping = true;
            } else {
                on_readable(events[i].data.ptr);
            }
        }
    }
    purg_owner_shutdown(server->owner); /* ends whoever waits; the steps answer */
    while (!purg_owner_is_idle(server->owner)) {
        purg_owner_step(server->owner, server->env.now_ns(server->env.ctx));
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        if (server->connections[i].server) { connection_end(&server->connections[i]); }
    }
    return NULL;
}

static void server_watch(struct server *server, int fd, void *ptr)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = ptr};
    if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) { die("epoll_ctl"); }
}

/* Listens on a free port of 127.0.0.1, which is returned. */
static struct sockaddr_in server_init(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *server = (struct server){.env = purg_env_pthread()};
    server->purgatory = purg_create(&server->env, &(struct purg_options){.shards = 1});
    /* No 'wake': all events come from the loop's own thread. */
    struct purg_owner_options options = {.start_ns = server->env.now_ns(server->env.ctx)};
    server->owner = purg_owner_create(&server->env, &options);
    if (!server->purgatory || !server->owner) { die("libpurgatory"); }
    server->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    server->epoll_fd = epoll_create1(0);
    if (server->listen_fd < 0 || server->epoll_fd < 0 || pipe(server->stop_fd) != 0 ||
        bind(server->listen_fd, (struct sockaddr *)&address, size) != 0 ||
        listen(server->listen_fd, 16) != 0 ||
        getsockname(server->listen_fd, (struct sockaddr *)&address, &size) != 0) {
        die("socket");
    }
    server_watch(server, server->listen_fd, &server->listen_fd);
    server_watch(server, server->stop_fd[0], &server->stop_fd);
    return address;
}

static FILE *client_connect(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) { die("connect"); }
    FILE *stream = fdopen(fd, "r+");
    if (!stream) { die("fdopen"); }
    setvbuf(stream, NULL, _IONBF, 0);
    return stream;
}

static void expect(FILE *client, const char *want)
{
    char got[LINE_SIZE] = "";
    if (!fgets(got, sizeof got, client)) { got[0] = '\0'; }
    printf("%s", got);
    if (strcmp(got, want) != 0) {
        fprintf(stderr, "expected %s", want);
        exit(1);
    }
}

int main(void)
{
    static struct server server;
    struct sockaddr_in address = server_init(&server);
    pthread_t thread;
    if (pthread_create(&thread, NULL, server_main, &server) != 0) { die("pthread_create"); }
    FILE *reader = client_connect(&address);
    FILE *writer = client_connect(&address);

    fputs("get 1\n", reader); /* in either order of arrival the reader gets it */
    fputs("set 1 hello\n", writer);
    expect(writer, "ok\n");
    expect(reader, "value hello\n");

    uint64_t asked_ns = server.env.now_ns(NULL);
    fputs("get 2\n", reader);
    expect(reader, "timeout\n");
    if (server.env.now_ns(NULL) - asked_ns < TIMEOUT_MS * 1000000ull) { return 1; }

    fputs("get 3\n", reader);
    fclose(reader); /* goes away without its answer */
    fputs("set 3 world\n", writer); /* so this answers nobody */
    expect(writer, "ok\n");

    if (write(server.stop_fd[1], "x", 1) != 1) { die("write"); }
    pthread_join(thread, NULL);
    expect(writer, ""); /* closed */
    fclose(writer);
    size_t left = purg_size(server.purgatory);
    purg_owner_destroy(server.owner);
    purg_destroy(server.purgatory);
    printf("%zu operations left\n", left);
    return left == 0 ? 0 : 1;
}
