/* fixture.h - all that stands below api/, wired as the broker wires it, and a client that speaks
 * messages: it sends a struct, takes a struct, and shows answers as JSON.
 *
 * Place:      tests of api/.
 * Thread:     the test's own; controller, processors and handlers run behind it. Answers are read
 *             to the last byte: a byte too many or too few fails the test. */
#ifndef TESTS_API_FIXTURE_H
#define TESTS_API_FIXTURE_H

#include "api/api_int.h"
#include "base/check.h"
#include "base/mem.h"
#include "wire/batch.h"
#include "wire/codec.h"
#include "wire/gen/apis.h"
#include "wire/gen/create_topics_request.h"
#include "wire/gen/create_topics_response.h"
#include "wire/gen/produce_request.h"
#include "wire/gen/produce_response.h"
#include "wire/gen/request_header.h"
#include "wire/gen/response_header.h"
#include "wire/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define NOW_MS 1700000000000LL
#define CLUSTER "cluster-of-tests"

struct fixture {
    struct sys *sys;
    char root[256];
    struct config_set statics;
    struct meta_publisher publisher;
    struct controller *controller;
    struct replica_manager *replicas;
    struct api *api;
    struct net *net;
    struct purg_env env;
    int fd;
    int32_t correlation;
    struct wire_buf out; /* the request */
    uint8_t *in; /* the answer; decoded messages borrow from it */
    struct arena arena; /* of decoded answers */
    char json[1 << 16];
};

static inline enum err fx_added(void *ctx, const struct meta_image *next,
                                const struct meta_topic *topic, int32_t from)
{
    struct fixture *f = ctx;
    return replica_add_partitions(f->replicas, next, topic, from);
}

static inline void fx_removed(void *ctx, const struct meta_topic *topic)
{
    struct fixture *f = ctx;
    replica_remove_partitions(f->replicas, topic, 0);
}

static inline void fx_undone(void *ctx, const struct meta_topic *topic, int32_t from)
{
    struct fixture *f = ctx;
    replica_remove_partitions(f->replicas, topic, from);
}

static inline void fx_config(void *ctx, const struct meta_image *image, enum meta_resource type,
                             struct slice name)
{
    struct fixture *f = ctx;
    replica_config_changed(f->replicas, image, type, name);
}

static inline int fx_connect(struct fixture *f)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(net_port(f->net, 0))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    struct timeval limit = {.tv_sec = 20};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return fd;
}

static inline void fx_start(struct fixture *f)
{
    char dir[300];
    snprintf(dir, sizeof dir, "%s/data", f->root);
    meta_publisher_init(&f->publisher, meta_create());
    struct replica_options ro = {.sys = f->sys,
                                 .statics = &f->statics,
                                 .publisher = &f->publisher,
                                 .node_id = 1,
                                 .flush_policy = LOG_FLUSH_OS, /* readable at once */
                                 .purg_env = &f->env};
    assert_int_equal(replica_create(&ro, &f->replicas), ERR_OK);
    assert_int_equal(replica_open_dir(f->replicas, dir, CLUSTER), ERR_OK);
    struct controller_options co = {.sys = f->sys,
                                    .metadata_dir = dir,
                                    .node_id = 1,
                                    .statics = &f->statics,
                                    .snapshot_bytes = 1u << 20,
                                    .publisher = &f->publisher,
                                    .hooks = {.ctx = f,
                                              .on_partitions_added = fx_added,
                                              .on_partitions_undone = fx_undone,
                                              .on_topic_removed = fx_removed,
                                              .on_config_changed = fx_config}};
    assert_int_equal(controller_create(&co, &f->controller), ERR_OK);
    struct api_options ao = {.sys = f->sys,
                             .statics = &f->statics,
                             .publisher = &f->publisher,
                             .replicas = f->replicas,
                             .controller = f->controller,
                             .purg_env = &f->env,
                             .node_id = 1,
                             .cluster_id = CLUSTER};
    assert_int_equal(api_create(&ao, &f->api), ERR_OK);
    struct net_listener_config listener = {.name = "PLAINTEXT", .host = "127.0.0.1"};
    struct net_config nc;
    net_config_init(&nc);
    nc.listeners = &listener;
    nc.listeners_count = 1;
    nc.processors_count = 1;
    nc.handlers_count = 2;
    nc.readers_count = 1;
    nc.purg_env = f->env;
    assert_int_equal(net_start(f->sys, &nc, api_table(f->api), &f->net), ERR_OK);
    char name[] = "PLAINTEXT", host[] = "127.0.0.1";
    struct meta_endpoint endpoint = {.name = name, .host = host, .port = net_port(f->net, 0)};
    assert_int_equal(controller_start(f->controller, &endpoint, 1, "rack-1"), ERR_OK);
    api_open(f->api);
    f->fd = fx_connect(f);
}

/* One file's tests share one broker; setup of the group. What statics hold must be put before. */
static inline struct fixture *fx_create(void)
{
    struct fixture *f = mem_new(struct fixture);
    assert_non_null(f);
    const char *tmp = getenv("TMPDIR");
    snprintf(f->root, sizeof f->root, "%s/bb-api-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->root));
    f->sys = sys_create();
    assert_non_null(f->sys);
    f->env = purg_env_pthread();
    config_set_init(&f->statics);
    wire_buf_init(&f->out, 64u << 20);
    arena_init(&f->arena, 4096, 64u << 20);
    return f;
}

static inline int fx_teardown(void **state)
{
    struct fixture *f = *state;
    char command[300];
    close(f->fd);
    controller_stop(f->controller);
    net_stop(f->net);
    api_destroy(f->api);
    controller_destroy(f->controller);
    replica_destroy(f->replicas, true, 1);
    meta_publisher_fini(&f->publisher);
    config_set_fini(&f->statics);
    wire_buf_fini(&f->out);
    arena_fini(&f->arena);
    mem_free(f->in);
    sys_destroy(f->sys);
    snprintf(command, sizeof command, "rm -rf '%s'", f->root);
    assert_int_equal(system(command), 0);
    mem_free(f);
    return 0;
}

static inline int fx_setup(void **state)
{
    struct fixture *f = fx_create();
    fx_start(f);
    *state = f;
    return 0;
}

/* ---- the client */

static inline const struct wire_api *fx_api(int16_t key)
{
    const struct wire_api *api = wire_api_find(key);
    CHECK(api != NULL);
    return api;
}

static inline const struct wire_message *fx_message(int16_t key, enum wire_message_kind kind)
{
    for (size_t i = 0; i < wire_messages_count; i++) {
        if (wire_messages[i].kind == kind && wire_messages[i].key == key) {
            return &wire_messages[i];
        }
    }
    CHECKF(false, "no message of API %d", key);
}

static inline void fx_write(struct fixture *f, struct slice bytes)
{
    while (bytes.size) {
        ssize_t n = send(f->fd, bytes.at, bytes.size, MSG_NOSIGNAL);
        assert_true(n > 0);
        bytes = slice_sub(bytes, (size_t)n, bytes.size);
    }
}

static inline void fx_send(struct fixture *f, int16_t key, int16_t version, const void *request)
{
    const struct wire_api *api = fx_api(key);
    struct wire_writer w;
    struct request_header h;
    request_header_init(&h);
    h.request_api_key = key;
    h.request_api_version = version;
    h.correlation_id = ++f->correlation;
    h.client_id = SLICE_LIT("test");
    f->out.size = 0;
    wire_writer_init_buf(&w, &f->out);
    struct wire_frame frame = wire_frame_begin(&w);
    assert_int_equal(request_header_encode(&w, wire_api_request_header_version(api, version), &h),
                     ERR_OK);
    assert_int_equal(fx_message(key, WIRE_REQUEST)->encode(&w, version, request), ERR_OK);
    wire_frame_end(&w, frame);
    assert_int_equal(wire_writer_finish(&w), ERR_OK);
    fx_write(f, wire_buf_slice(&f->out));
}

static inline bool fx_read(struct fixture *f, void *at, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = recv(f->fd, (uint8_t *)at + done, size - done, 0);
        if (n == 0) { return false; }
        if (n < 0) { return false; } /* reset, or no answer in 20 s */
        done += (size_t)n;
    }
    return true;
}

/* Receives the answer to the last request. False: the connection was closed instead. */
static inline bool fx_receive(struct fixture *f, int16_t key, int16_t version, void *response)
{
    const struct wire_api *api = fx_api(key);
    uint32_t be;
    if (!fx_read(f, &be, sizeof be)) { return false; }
    size_t size = ntohl(be);
    mem_free(f->in);
    f->in = mem_alloc(size);
    assert_non_null(f->in);
    assert_true(fx_read(f, f->in, size));
    struct wire_reader r;
    struct response_header h;
    arena_reset(&f->arena);
    wire_reader_init(&r, slice_of(f->in, size));
    assert_int_equal(
        response_header_decode(&r, wire_api_response_header_version(api, version), &f->arena, &h),
        ERR_OK);
    assert_int_equal(h.correlation_id, f->correlation);
    const struct wire_message *m = fx_message(key, WIRE_RESPONSE);
    if (m->decode(&r, version, &f->arena, response) || wire_left(&r)) {
        fail_msg("%s version %d cannot be read", api->name, version);
    }
    struct wire_text text;
    wire_text_init(&text, f->json, sizeof f->json);
    m->print(&text, version, response);
    return true;
}

/* One request and its answer; f->json shows it too. */
static inline void fx_call(struct fixture *f, int16_t key, int16_t version, const void *request,
                           void *response)
{
    fx_send(f, key, version, request);
    if (!fx_receive(f, key, version, response)) {
        fail_msg("%s version %d closed the connection", fx_api(key)->name, version);
    }
}

static inline void fx_expect_closed(struct fixture *f)
{
    uint8_t byte;
    assert_false(fx_read(f, &byte, 1));
    close(f->fd);
    f->fd = fx_connect(f);
}

/* ---- what most tests need */

static inline void fx_create_topic(struct fixture *f, const char *name, int32_t partitions,
                                   const char *key, const char *value)
{
    struct create_topics_request q;
    struct create_topics_response m;
    struct create_topics_request_creatable_topic t;
    struct create_topics_request_creatable_topic_config c;
    create_topics_request_init(&q);
    create_topics_request_creatable_topic_init(&t);
    create_topics_request_creatable_topic_config_init(&c);
    c.name = slice_str(key);
    c.value = slice_str(value);
    t.name = slice_str(name);
    t.num_partitions = partitions;
    t.replication_factor = 1;
    t.configs = &c;
    t.configs_count = key ? 1 : 0;
    q.topics = &t;
    q.topics_count = 1;
    q.timeout_ms = 20000;
    fx_call(f, WIRE_API_CREATE_TOPICS, 7, &q, &m);
    assert_int_equal(m.topics_count, 1);
    if (m.topics[0].error_code) { fail_msg("%s", f->json); }
}

/* Records with the times given, one batch; the first offset. */
static inline int64_t fx_produce(struct fixture *f, const char *topic, const int64_t *times,
                                 size_t count)
{
    struct batch_build_record r[32];
    struct batch_build_options o = BATCH_BUILD_PLAIN;
    struct wire_buf records;
    assert_true(count <= 32);
    for (size_t i = 0; i < count; i++) {
        r[i] = (struct batch_build_record){.timestamp = times[i], .value = SLICE_LIT("v")};
    }
    wire_buf_init(&records, 1u << 20);
    assert_int_equal(batch_build(&o, r, count, NULL, &records), ERR_OK);
    struct produce_request q;
    struct produce_response m;
    struct produce_request_topic_produce_data t;
    struct produce_request_partition_produce_data p;
    produce_request_init(&q);
    produce_request_topic_produce_data_init(&t);
    produce_request_partition_produce_data_init(&p);
    p.records = wire_buf_slice(&records);
    t.name = slice_str(topic);
    t.partition_data = &p;
    t.partition_data_count = 1;
    q.acks = 1;
    q.timeout_ms = 20000;
    q.topic_data = &t;
    q.topic_data_count = 1;
    fx_call(f, WIRE_API_PRODUCE, 9, &q, &m);
    wire_buf_fini(&records);
    if (m.responses[0].partition_responses[0].error_code) { fail_msg("%s", f->json); }
    return m.responses[0].partition_responses[0].base_offset;
}

#endif
