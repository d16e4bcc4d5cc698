/* fixture.h - a whole broker in this process, and clients that speak messages over plain sockets.
 *
 * Place:   included by the integration tests of broker/, one program each. It brings its own heap
 *          (instead of base/mem.c), which counts, its own pwritev(), which counts too, and its own
 *          fdatasync() and syncfs(), which a test can hold: what waits for a device then waits for
 *          the test. The metadata log is not held.
 * Thread:  clients belong to the test's thread; nothing sleeps, answers are waited for by recv().
 */
#ifndef TESTS_BROKER_FIXTURE_H
#define TESTS_BROKER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/mem.h"
#include "broker/broker.h"
#include "replica/replica.h"
#include "wire/batch.h"
#include "wire/gen/apis.h"
#include "wire/gen/create_topics_request.h"
#include "wire/gen/create_topics_response.h"
#include "wire/gen/delete_topics_request.h"
#include "wire/gen/delete_topics_response.h"
#include "wire/gen/fetch_request.h"
#include "wire/gen/fetch_response.h"
#include "wire/gen/list_offsets_request.h"
#include "wire/gen/list_offsets_response.h"
#include "wire/gen/produce_request.h"
#include "wire/gen/produce_response.h"
#include "wire/gen/request_header.h"
#include "wire/gen/response_header.h"
#include "wire/reader.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
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

/* ---- the gate in front of the device ---- */

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static bool gate_is_shut;
static int gate_waiting;

static void gate_pass(int fd)
{
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (strstr(path, "__cluster_metadata")) { return; }
    pthread_mutex_lock(&gate_lock);
    gate_waiting++;
    pthread_cond_broadcast(&gate_moved);
    while (gate_is_shut) {
        pthread_cond_wait(&gate_moved, &gate_lock);
    }
    gate_waiting--;
    pthread_mutex_unlock(&gate_lock);
}

int fdatasync(int fd)
{
    gate_pass(fd);
    return (int)syscall(SYS_fdatasync, fd);
}

int syncfs(int fd)
{
    gate_pass(fd);
    return (int)syscall(SYS_syncfs, fd);
}

static _Atomic uint64_t writes; /* calls of pwritev() */

ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t pos)
{
    atomic_fetch_add(&writes, 1);
    return (ssize_t)syscall(SYS_pwritev, fd, iov, count, pos, 0);
}

FIX void gate_set(bool is_shut)
{
    pthread_mutex_lock(&gate_lock);
    gate_is_shut = is_shut;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate_lock);
}

/* Waits until somebody stands at the shut gate. */
FIX void gate_await(void)
{
    pthread_mutex_lock(&gate_lock);
    while (gate_waiting == 0) {
        pthread_cond_wait(&gate_moved, &gate_lock);
    }
    pthread_mutex_unlock(&gate_lock);
}

/* ---- the broker ---- */

struct fixture {
    struct sys *sys;
    char root[256];
    struct config_set set;
    struct broker *broker;
};

FIX void fx_put(struct fixture *f, const char *key, const char *value)
{
    assert_int_equal(config_set_put(&f->set, slice_str(key), slice_str(value)), ERR_OK);
}

FIX void fx_start(struct fixture *f)
{
    char message[BROKER_MESSAGE_SIZE];
    struct broker_options o = {.sys = f->sys, .statics = &f->set};
    if (broker_start(&o, &f->broker, message)) { fail_msg("%s", message); }
}

FIX void fx_stop(struct fixture *f)
{
    broker_stop(f->broker, 20000);
    f->broker = NULL;
}

/* Not started yet: a test may put more before fx_start(). */
FIX int fx_setup(void **state)
{
    struct fixture *f = mem_new(struct fixture);
    assert_non_null(f);
    const char *tmp = getenv("TMPDIR");
    char dir[300];
    snprintf(f->root, sizeof f->root, "%s/bb-broker-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->root));
    snprintf(dir, sizeof dir, "%s/data", f->root);
    f->sys = sys_create();
    assert_non_null(f->sys);
    config_set_init(&f->set);
    fx_put(f, "listeners", "PLAINTEXT://127.0.0.1:0");
    fx_put(f, "num.network.threads", "1");
    fx_put(f, "num.io.threads", "2");
    fx_put(f, "log.dirs", dir);
    *state = f;
    return 0;
}

FIX int fx_teardown(void **state)
{
    struct fixture *f = *state;
    char command[300];
    gate_set(false);
    broker_stop(f->broker, 20000);
    config_set_fini(&f->set);
    sys_destroy(f->sys);
    snprintf(command, sizeof command, "rm -rf '%s'", f->root);
    assert_int_equal(system(command), 0);
    mem_free(f);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)

FIX struct net_counters fx_counters(const struct fixture *f)
{
    struct net_counters c;
    net_counters_get(broker_net(f->broker), &c);
    return c;
}

/* Gives way until as many requests are parked as asked: they wait on the broker's side then. */
FIX void fx_await_parked(const struct fixture *f, uint64_t count)
{
    while (fx_counters(f).parked < count) {
        sched_yield();
    }
}

/* ---- clients ---- */

struct client {
    int fd;
    int32_t correlation;
    struct wire_buf out; /* the request */
    uint8_t *in; /* the answer; decoded messages borrow from it */
    struct arena arena; /* of decoded answers */
};

FIX int client_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
        close(fd);
        return -1;
    }
    return fd;
}

FIX void client_open(struct client *c, const struct fixture *f)
{
    *c = (struct client){.fd = client_connect(broker_port(f->broker))};
    assert_true(c->fd >= 0);
    struct timeval limit = {.tv_sec = 20};
    int on = 1;
    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    wire_buf_init(&c->out, 64u << 20);
    arena_init(&c->arena, 4096, 64u << 20);
}

FIX void client_close(struct client *c)
{
    close(c->fd);
    wire_buf_fini(&c->out);
    arena_fini(&c->arena);
    mem_free(c->in);
}

static const struct wire_message *message_of(int16_t key, enum wire_message_kind kind)
{
    for (size_t i = 0; i < wire_messages_count; i++) {
        if (wire_messages[i].kind == kind && wire_messages[i].key == key) {
            return &wire_messages[i];
        }
    }
    fail_msg("no message of API %d", key);
    abort();
}

static const struct wire_api *api_of(int16_t key)
{
    const struct wire_api *api = wire_api_find(key);
    CHECK(api != NULL);
    return api;
}

/* Adds a framed request to c->out. */
FIX void client_encode(struct client *c, int16_t key, int16_t version, const void *request)
{
    const struct wire_api *api = api_of(key);
    struct wire_writer w;
    struct request_header h;
    request_header_init(&h);
    h.request_api_key = key;
    h.request_api_version = version;
    h.correlation_id = ++c->correlation;
    h.client_id = SLICE_LIT("test");
    wire_writer_init_buf(&w, &c->out);
    struct wire_frame frame = wire_frame_begin(&w);
    assert_int_equal(request_header_encode(&w, wire_api_request_header_version(api, version), &h),
                     ERR_OK);
    assert_int_equal(message_of(key, WIRE_REQUEST)->encode(&w, version, request), ERR_OK);
    wire_frame_end(&w, frame);
    assert_int_equal(wire_writer_finish(&w), ERR_OK);
}

/* Sends what was encoded, and empties c->out. */
FIX void client_flush(struct client *c)
{
    struct slice bytes = wire_buf_slice(&c->out);
    while (bytes.size) {
        ssize_t n = send(c->fd, bytes.at, bytes.size, MSG_NOSIGNAL);
        assert_true(n > 0);
        bytes = slice_sub(bytes, (size_t)n, bytes.size);
    }
    c->out.size = 0;
}

FIX void client_send(struct client *c, int16_t key, int16_t version, const void *request)
{
    client_encode(c, key, version, request);
    client_flush(c);
}

/* False at the end of the stream. */
FIX bool client_read(struct client *c, void *at, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = recv(c->fd, (uint8_t *)at + done, size - done, 0);
        if (n < 0) { fail_msg("no answer: %s", strerror(errno)); }
        if (n == 0) { return false; }
        done += (size_t)n;
    }
    return true;
}

/* Receives the answer with that correlation id, the next one. */
FIX void client_receive(struct client *c, int16_t key, int16_t version, int32_t correlation,
                        void *response)
{
    const struct wire_api *api = api_of(key);
    uint32_t be;
    if (!client_read(c, &be, sizeof be)) { fail_msg("%s: the connection closed", api->name); }
    size_t size = ntohl(be);
    mem_free(c->in);
    c->in = mem_alloc(size);
    assert_non_null(c->in);
    assert_true(client_read(c, c->in, size));
    struct wire_reader r;
    struct response_header h;
    arena_reset(&c->arena);
    wire_reader_init(&r, slice_of(c->in, size));
    int header = wire_api_response_header_version(api, version);
    assert_int_equal(response_header_decode(&r, (int16_t)header, &c->arena, &h), ERR_OK);
    assert_int_equal(h.correlation_id, correlation);
    enum err e = message_of(key, WIRE_RESPONSE)->decode(&r, version, &c->arena, response);
    if (e || wire_left(&r)) { fail_msg("%s version %d cannot be read", api->name, version); }
}

FIX void client_call(struct client *c, int16_t key, int16_t version, const void *request,
                     void *response)
{
    client_send(c, key, version, request);
    client_receive(c, key, version, c->correlation, response);
}

/* ---- what most tests say ---- */

#define PRODUCE_VERSION 9
#define FETCH_VERSION 12 /* the last with names */

/* Creates the topic, with one override if key is given; its id. */
FIX struct uuid client_create_topic(struct client *c, const char *name, int32_t partitions,
                                    const char *key, const char *value)
{
    struct create_topics_request q;
    struct create_topics_response m;
    struct create_topics_request_creatable_topic t;
    struct create_topics_request_creatable_topic_config one;
    create_topics_request_init(&q);
    create_topics_request_creatable_topic_init(&t);
    create_topics_request_creatable_topic_config_init(&one);
    one.name = slice_str(key);
    one.value = slice_str(value);
    t.name = slice_str(name);
    t.num_partitions = partitions;
    t.replication_factor = 1;
    t.configs = &one;
    t.configs_count = key ? 1 : 0;
    q.topics = &t;
    q.topics_count = 1;
    q.timeout_ms = 20000;
    client_call(c, CREATE_TOPICS_REQUEST_KEY, 7, &q, &m);
    assert_int_equal(m.topics_count, 1);
    assert_int_equal(m.topics[0].error_code, 0);
    return m.topics[0].topic_id;
}

FIX void client_send_delete(struct client *c, const char *name)
{
    struct delete_topics_request q;
    struct slice topic = slice_str(name);
    delete_topics_request_init(&q);
    q.topic_names = &topic;
    q.topic_names_count = 1;
    q.timeout_ms = 20000;
    client_send(c, DELETE_TOPICS_REQUEST_KEY, 5, &q);
}

FIX void client_receive_delete(struct client *c)
{
    struct delete_topics_response m;
    client_receive(c, DELETE_TOPICS_REQUEST_KEY, 5, c->correlation, &m);
    assert_int_equal(m.responses_count, 1);
    assert_int_equal(m.responses[0].error_code, 0);
}

/* One record as a batch. */
FIX void make_batch(struct wire_buf *out, struct slice value)
{
    struct batch_build_record r = {.timestamp = 1700000000000, .value = value};
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    wire_buf_init(out, 64u << 20);
    assert_int_equal(batch_build(&o, &r, 1, NULL, out), ERR_OK);
}

/* Adds a Produce of one batch to c->out. */
FIX void client_encode_produce(struct client *c, const char *topic, int32_t index, int16_t acks,
                               struct slice batch)
{
    struct produce_request q;
    struct produce_request_topic_produce_data t;
    struct produce_request_partition_produce_data p;
    produce_request_init(&q);
    produce_request_topic_produce_data_init(&t);
    produce_request_partition_produce_data_init(&p);
    p.index = index;
    p.records = batch;
    t.name = slice_str(topic);
    t.partition_data = &p;
    t.partition_data_count = 1;
    q.acks = acks;
    q.timeout_ms = 20000;
    q.topic_data = &t;
    q.topic_data_count = 1;
    client_encode(c, PRODUCE_REQUEST_KEY, PRODUCE_VERSION, &q);
}

/* The answer to the Produce with that correlation id; the error code. */
FIX int client_receive_produce(struct client *c, int32_t correlation, int64_t *offset)
{
    struct produce_response m;
    client_receive(c, PRODUCE_REQUEST_KEY, PRODUCE_VERSION, correlation, &m);
    assert_int_equal(m.responses_count, 1);
    assert_int_equal(m.responses[0].partition_responses_count, 1);
    *offset = m.responses[0].partition_responses[0].base_offset;
    return m.responses[0].partition_responses[0].error_code;
}

/* One record, acknowledged; its offset. */
FIX int64_t client_produce(struct client *c, const char *topic, int32_t index, int16_t acks,
                           struct slice value)
{
    struct wire_buf batch;
    int64_t offset;
    make_batch(&batch, value);
    client_encode_produce(c, topic, index, acks, wire_buf_slice(&batch));
    wire_buf_fini(&batch);
    client_flush(c);
    assert_int_equal(client_receive_produce(c, c->correlation, &offset), 0);
    return offset;
}

FIX void client_send_fetch(struct client *c, const char *topic, int32_t index, int64_t offset,
                           int32_t wait_ms)
{
    struct fetch_request q;
    struct fetch_request_fetch_topic t;
    struct fetch_request_fetch_partition p;
    fetch_request_init(&q);
    fetch_request_fetch_topic_init(&t);
    fetch_request_fetch_partition_init(&p);
    p.partition = index;
    p.fetch_offset = offset;
    p.partition_max_bytes = 64 << 20;
    t.topic = slice_str(topic);
    t.partitions = &p;
    t.partitions_count = 1;
    q.max_wait_ms = wait_ms;
    q.min_bytes = 1;
    q.topics = &t;
    q.topics_count = 1;
    client_send(c, FETCH_REQUEST_KEY, FETCH_VERSION, &q);
}

/* The only partition of the answer; borrowed until the next receive. */
FIX const struct fetch_response_partition_data *client_receive_fetch(struct client *c)
{
    struct fetch_response m;
    client_receive(c, FETCH_REQUEST_KEY, FETCH_VERSION, c->correlation, &m);
    assert_int_equal(m.error_code, 0);
    assert_int_equal(m.responses_count, 1);
    assert_int_equal(m.responses[0].partitions_count, 1);
    return &m.responses[0].partitions[0];
}

/* A round trip. */
FIX void client_ask_nothing(struct client *c)
{
    struct list_offsets_request q;
    struct list_offsets_response m;
    list_offsets_request_init(&q);
    q.replica_id = -1;
    client_call(c, LIST_OFFSETS_REQUEST_KEY, 6, &q, &m);
    assert_int_equal(m.topics_count, 0);
}

/* Timestamp -1: the end; -2: the start. */
FIX int64_t client_offset(struct client *c, const char *topic, int32_t index, int64_t timestamp)
{
    struct list_offsets_request q;
    struct list_offsets_response m;
    struct list_offsets_request_list_offsets_topic t;
    struct list_offsets_request_list_offsets_partition p;
    list_offsets_request_init(&q);
    list_offsets_request_list_offsets_topic_init(&t);
    list_offsets_request_list_offsets_partition_init(&p);
    p.partition_index = index;
    p.timestamp = timestamp;
    t.name = slice_str(topic);
    t.partitions = &p;
    t.partitions_count = 1;
    q.replica_id = -1;
    q.topics = &t;
    q.topics_count = 1;
    client_call(c, LIST_OFFSETS_REQUEST_KEY, 6, &q, &m);
    assert_int_equal(m.topics[0].partitions[0].error_code, 0);
    return m.topics[0].partitions[0].offset;
}

#endif
