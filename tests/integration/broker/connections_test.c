/* connections_test.c - what ten thousand connections cost that have nothing to say. */
#include "integration/broker/fixture.h"

#include "wire/gen/api_versions_request.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define CONNECTIONS 10000
#define COST_MAX 4096 /* bytes of memory each, the kernel's not counted */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

static bool raise_descriptors(void)
{
    const rlim_t needed = CONNECTIONS + 200;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur >= needed) { return true; }
    if (limit.rlim_max < needed) { limit.rlim_max = needed; }
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* Resident bytes of this process without what it maps from files. */
static int64_t resident_bytes(void)
{
    long long pages, resident, shared;
    FILE *in = fopen("/proc/self/statm", "r");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%lld %lld %lld", &pages, &resident, &shared), 3);
    fclose(in);
    return (int64_t)(resident - shared) * sysconf(_SC_PAGESIZE);
}

static void await_connections(const struct fixture *f, uint64_t count)
{
    while (fx_counters(f).connections != count) {
        sched_yield();
    }
}

static void encode_greeting(struct client *c)
{
    struct api_versions_request q;
    api_versions_request_init(&q);
    q.client_software_name = SLICE_LIT("idle");
    q.client_software_version = SLICE_LIT("1");
    client_encode(c, API_VERSIONS_REQUEST_KEY, 3, &q);
}

/* One request as every client sends it first, so that no connection is as it was at its birth. */
static bool greet(int fd, struct slice request)
{
    uint8_t answer[4096];
    uint32_t be = 0;
    return send(fd, request.at, request.size, MSG_NOSIGNAL) == (ssize_t)request.size &&
           recv(fd, &be, sizeof be, MSG_WAITALL) == sizeof be && ntohl(be) <= sizeof answer &&
           recv(fd, answer, ntohl(be), MSG_WAITALL) == (ssize_t)ntohl(be);
}

/* The clients' ends are descriptors of another process. It is told a port, opens and greets them
 * all, says so, and goes with them when it is told to. */
struct crowd {
    pid_t pid;
    int to, from;
};

static void crowd_main(int in, int out, struct slice request)
{
    uint16_t port;
    char byte = 1;
    if (read(in, &port, sizeof port) != sizeof port) { _exit(1); }
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) || !greet(fd, request)) {
            _exit(2);
        }
    }
    if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1) { _exit(3); }
    _exit(0);
}

/* Before the broker has threads. */
static void crowd_start(struct crowd *crowd, struct slice request)
{
    int to[2], from[2];
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    crowd->pid = fork();
    assert_true(crowd->pid >= 0);
    if (crowd->pid == 0) {
        close(to[1]);
        close(from[0]);
        crowd_main(to[0], from[1], request);
    }
    close(to[0]);
    close(from[1]);
    crowd->to = to[1];
    crowd->from = from[0];
}

static void crowd_connect(const struct crowd *crowd, uint16_t port)
{
    char byte;
    assert_int_equal(write(crowd->to, &port, sizeof port), sizeof port);
    if (read(crowd->from, &byte, 1) != 1) { fail_msg("the clients did not connect"); }
}

static void crowd_leave(struct crowd *crowd)
{
    int status;
    char byte = 1;
    assert_int_equal(write(crowd->to, &byte, 1), 1);
    assert_int_equal(waitpid(crowd->pid, &status, 0), crowd->pid);
    assert_int_equal(status, 0);
    close(crowd->to);
    close(crowd->from);
}

static void test_an_idle_connection_costs_little(void **state)
{
    struct fixture *f = *state;
    struct client c = {0};
    struct crowd crowd;
    if (!raise_descriptors()) {
        print_message("SKIPPED: %d connections need %d descriptors, and the limit is lower\n",
                      CONNECTIONS, CONNECTIONS + 200);
        skip();
    }
    wire_buf_init(&c.out, 4096);
    encode_greeting(&c);
    crowd_start(&crowd, wire_buf_slice(&c.out));
    sys_descriptors_max(f->sys);
    fx_start(f);
    c.fd = client_connect(broker_port(f->broker));
    assert_true(greet(c.fd, wire_buf_slice(&c.out))); /* pools are warm */
    int64_t heap = atomic_load(&heap_bytes), resident = resident_bytes();
    crowd_connect(&crowd, broker_port(f->broker));
    await_connections(f, CONNECTIONS + 1);
    int64_t heap_each = (atomic_load(&heap_bytes) - heap) / CONNECTIONS;
    int64_t resident_each = (resident_bytes() - resident) / CONNECTIONS;
    print_message("a connection: %d bytes of heap, %d resident\n", (int)heap_each,
                  (int)resident_each);
    assert_true(heap_each <= COST_MAX);
    if (!IS_SANITIZED) { assert_true(resident_each <= COST_MAX); }
    assert_true(greet(c.fd, wire_buf_slice(&c.out)));
    crowd_leave(&crowd);
    await_connections(f, 1);
    assert_true(greet(c.fd, wire_buf_slice(&c.out)));
    close(c.fd);
    wire_buf_fini(&c.out);
}

/* As many connections again cost nothing more: what they used was given back. */
static void test_connections_that_come_and_go_leave_nothing(void **state)
{
    enum { ROUNDS = 10, COUNT = 200, SLACK = 64 << 10 };
    struct fixture *f = *state;
    int fds[COUNT];
    int64_t after[ROUNDS];
    struct client c;
    fx_start(f);
    client_open(&c, f);
    encode_greeting(&c);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < COUNT; i++) {
            fds[i] = client_connect(broker_port(f->broker));
            assert_true(fds[i] >= 0);
            assert_true(greet(fds[i], wire_buf_slice(&c.out)));
        }
        for (int i = 0; i < COUNT; i++) {
            close(fds[i]);
        }
        await_connections(f, 1);
        after[r] = atomic_load(&heap_bytes);
    }
    /* Pools may be caught a little fuller; what leaks grows with each round. */
    assert_true(after[ROUNDS - 1] - after[1] < SLACK);
    client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_an_idle_connection_costs_little),
        CASE(test_connections_that_come_and_go_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
