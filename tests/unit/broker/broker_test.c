/* broker_test.c - a broker starts, keeps its identity, stops, and says why it does not start. */
#include "base/check.h"
#include "base/mem.h"
#include "broker/broker.h"
#include "broker/purg_env.h"
#include "cluster/controller.h"
#include "purgatory/purgatory.h"
#include "replica/replica.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static _Atomic int altered;

struct fixture {
    struct sys *sys;
    char root[256];
    struct config_set set;
    char message[BROKER_MESSAGE_SIZE];
};

static void put(struct fixture *f, const char *key, const char *value)
{
    assert_int_equal(config_set_put(&f->set, slice_str(key), slice_str(value)), ERR_OK);
}

/* log.dirs: names below the root, with commas. */
static void put_dirs(struct fixture *f, const char *first, const char *second)
{
    char text[700];
    snprintf(text, sizeof text, "%s/%s%s%s%s%s", f->root, first, second ? "," : "",
             second ? f->root : "", second ? "/" : "", second ? second : "");
    put(f, "log.dirs", text);
}

static int setup(void **state)
{
    struct fixture *f = mem_new(struct fixture);
    assert_non_null(f);
    const char *tmp = getenv("TMPDIR");
    snprintf(f->root, sizeof f->root, "%s/bb-broker-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->root));
    f->sys = sys_create();
    config_set_init(&f->set);
    put(f, "listeners", "PLAINTEXT://127.0.0.1:0");
    put(f, "num.network.threads", "1");
    put(f, "num.io.threads", "1");
    put_dirs(f, "data", NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[300];
    config_set_fini(&f->set);
    sys_destroy(f->sys);
    snprintf(command, sizeof command, "rm -rf '%s'", f->root);
    assert_int_equal(system(command), 0);
    mem_free(f);
    return 0;
}

static enum err start(struct fixture *f, struct broker **out)
{
    struct broker_options o = {.sys = f->sys, .statics = &f->set};
    return broker_start(&o, out, f->message);
}

static struct broker *start_well(struct fixture *f)
{
    struct broker *b;
    enum err e = start(f, &b);
    if (e) { fail_msg("%s", f->message); }
    return b;
}

static void refuse(struct fixture *f, const char *says)
{
    struct broker *b;
    assert_int_not_equal(start(f, &b), ERR_OK);
    assert_null(b);
    if (!strstr(f->message, says)) { fail_msg("'%s' should say '%s'", f->message, says); }
}

/* One line of a meta.properties. */
static void identity(struct fixture *f, const char *dir, struct logdir_identity *out)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", f->root, dir);
    assert_int_equal(logdir_identity(f->sys, path, out), ERR_OK);
}

static void test_a_broker_starts_and_stops_and_keeps_its_identity(void **state)
{
    struct fixture *f = *state;
    struct logdir_identity first, second;
    for (int i = 0; i < 3; i++) {
        struct broker *b = start_well(f);
        assert_true(broker_port(b) > 0);
        assert_non_null(broker_net(b));
        assert_int_equal(replica_partitions_count(broker_replicas(b)), 0);
        broker_stop(b, 1000);
        identity(f, "data", i ? &second : &first);
        if (i) { assert_string_equal(first.cluster_id, second.cluster_id); }
    }
    assert_int_equal(first.node_id, 1);
    assert_int_not_equal(first.cluster_id[0], '-');
    broker_stop(NULL, 0);
}

static void test_a_directory_serves_one_broker(void **state)
{
    struct fixture *f = *state;
    struct broker *b = start_well(f);
    refuse(f, "another broker uses it");
    broker_stop(b, 1000);
    broker_stop(start_well(f), 1000); /* the refused start broke nothing */
}

static void test_a_port_in_use_is_said(void **state)
{
    struct fixture *f = *state;
    char text[64];
    struct broker *b = start_well(f);
    snprintf(text, sizeof text, "PLAINTEXT://127.0.0.1:%u", broker_port(b));
    put(f, "listeners", text);
    put_dirs(f, "other", NULL);
    refuse(f, "port is in use");
    broker_stop(b, 1000);
    broker_stop(start_well(f), 1000);
}

static void test_a_directory_of_another_node_is_refused(void **state)
{
    struct fixture *f = *state;
    broker_stop(start_well(f), 1000);
    put(f, "node.id", "2");
    refuse(f, "belongs to node.id 1");
}

static void test_the_older_name_of_the_node_id_counts_alone_or_alike(void **state)
{
    struct fixture *f = *state;
    struct logdir_identity found;
    put(f, "broker.id", "7");
    broker_stop(start_well(f), 1000);
    identity(f, "data", &found);
    assert_int_equal(found.node_id, 7);
    put(f, "node.id", "7");
    broker_stop(start_well(f), 1000);
    put(f, "node.id", "8");
    refuse(f, "expected 8 as in node.id");
    put(f, "node.id", "-1");
    put(f, "broker.id", "-1");
    refuse(f, "expected 0 or more");
}

static void test_directories_of_two_clusters_are_refused(void **state)
{
    struct fixture *f = *state;
    broker_stop(start_well(f), 1000);
    put_dirs(f, "more", NULL);
    broker_stop(start_well(f), 1000);
    put_dirs(f, "data", "more");
    refuse(f, "belongs to cluster");
}

static void test_a_new_directory_joins_the_cluster_of_the_others(void **state)
{
    struct fixture *f = *state;
    struct logdir_identity first, second;
    broker_stop(start_well(f), 1000);
    put_dirs(f, "data", "more");
    broker_stop(start_well(f), 1000);
    identity(f, "data", &first);
    identity(f, "more", &second);
    assert_string_equal(first.cluster_id, second.cluster_id);
    assert_false(uuid_eq(first.directory_id, second.directory_id));
}

static void test_a_damaged_identity_is_said_with_its_line(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"version=1\\ncluster.id=abc\\0def\\nnode.id=1\\n",
         " line 2: expected text, not a zero byte"},
        {"\\0", " line 1: expected text, not a zero byte"},
        {"#\\n\\nversion=2\\ncluster.id=a\\nnode.id=1\\n",
         " line 3: expected version=0 or version=1"},
        {"cluster.id=a\\nnode.id=1\\n", "meta.properties: expected version=0 or version=1"},
        {"version=1\\ncluster.id=\\nnode.id=1\\n", " line 2: expected cluster.id=ID"},
        {"version=1\\nnode.id=1\\n", "meta.properties: expected cluster.id=ID"},
        {"version=1\\ncluster.id=a\\nnode.id=x\\n", " line 3: expected node.id=N"},
        {"version=1\\ncluster.id=a\\n", "meta.properties: expected node.id=N"},
        {"directory.id=x\\nversion=1\\ncluster.id=a\\nnode.id=1\\n",
         " line 1: expected directory.id"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char command[700];
        snprintf(command, sizeof command,
                 "mkdir -p '%s/data'; printf '%s' >'%s/data/meta.properties'", f->root,
                 cases[i].text, f->root);
        assert_int_equal(system(command), 0);
        refuse(f, cases[i].says);
    }
    snprintf(f->message, sizeof f->message, "%s/data/__cluster_metadata-0", f->root);
    assert_int_equal(access(f->message, F_OK), -1); /* nothing was done there */
}

static void test_wrong_settings_are_said(void **state)
{
    struct fixture *f = *state;
    put(f, "listeners", "nonsense");
    refuse(f, "listeners");
    put(f, "listeners", "SSL://127.0.0.1:0");
    refuse(f, "listeners");
    put(f, "listeners", "PLAINTEXT://127.0.0.1:0");
    put(f, "log.dirs", ",");
    refuse(f, "log.dirs");
}

/* ---- dynamic values */

static void on_done(struct controller_request *request)
{
    sys_signal_flag(((struct fixture *)request->ctx)->sys, &altered, 1);
}

/* Sets a broker value in the metadata, as a client would have before the broker was stopped. */
static void alter(struct fixture *f, const char *key, const char *value)
{
    struct meta_publisher publisher;
    struct controller *c;
    char dir[300];
    snprintf(dir, sizeof dir, "%s/data", f->root);
    meta_publisher_init(&publisher, meta_create());
    struct controller_options o = {.sys = f->sys,
                                   .metadata_dir = dir,
                                   .node_id = 1,
                                   .statics = &f->set,
                                   .snapshot_bytes = 1u << 20,
                                   .publisher = &publisher};
    assert_int_equal(controller_create(&o, &c), ERR_OK);
    assert_int_equal(controller_start(c, NULL, 0, NULL), ERR_OK);
    struct controller_config config = {slice_str(key), slice_str(value), CONTROLLER_CONFIG_SET};
    struct controller_mutation m = {.kind = CONTROLLER_ALTER_CONFIG,
                                    .resource = META_RESOURCE_BROKER,
                                    .name = SLICE_LIT(""),
                                    .configs = &config,
                                    .configs_count = 1};
    struct controller_request request = {
        .mutations = &m, .mutations_count = 1, .done = on_done, .ctx = f};
    atomic_store(&altered, 0);
    controller_submit(c, &request);
    assert_true(sys_wait_flag(f->sys, &altered, sys_mono_ns(f->sys) + 20000 * SYS_MS));
    assert_int_equal(m.result, ERR_OK);
    controller_stop(c);
    controller_destroy(c);
    meta_publisher_fini(&publisher);
}

/* Whether the broker keeps a connection open for a moment. */
static bool is_accepted(struct broker *b)
{
    uint8_t byte;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(broker_port(b))};
    struct timeval limit = {.tv_usec = 300000};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    bool is_open = recv(fd, &byte, 1, 0) < 0 && errno == EAGAIN;
    close(fd);
    return is_open;
}

static void test_values_that_were_changed_while_running_hold_after_a_restart(void **state)
{
    struct fixture *f = *state;
    struct broker *b = start_well(f);
    assert_true(is_accepted(b));
    broker_stop(b, 1000);
    alter(f, "max.connections.per.ip", "0");
    b = start_well(f);
    assert_false(is_accepted(b));
    broker_stop(b, 1000);
}

/* ---- libpurgatory over sys */

static int completed;

static bool never(struct purg_op *op)
{
    (void)op;
    return false;
}

static void count(struct purg_op *op, enum purg_reason reason)
{
    (void)op;
    completed += reason == PURG_EXPIRED;
}

static void test_delayed_operations_run_on_the_clock_of_sys(void **state)
{
    struct fixture *f = *state;
    static const struct purg_op_type type = {
        .name = "test", .try_complete = never, .on_complete = count};
    struct purg_env env = broker_purg_env(f->sys);
    uint64_t now = sys_mono_ns(f->sys);
    assert_true(env.now_ns(env.ctx) >= now);
    struct purg_owner_options options = {.start_ns = now};
    struct purg_owner *owner = purg_owner_create(&env, &options);
    struct purgatory *purgatory = purg_create(&env, &(struct purg_options){.shards = 4});
    assert_true(owner && purgatory);
    struct purg_op op;
    struct purg_watch_node node;
    struct purg_key key = {1, 2, 3};
    purg_op_init(&op, &type, owner);
    assert_int_equal(
        purg_try_complete_else_watch(purgatory, owner, &op, &node, &key, 1, now + 50 * SYS_MS),
        PURG_PARKED);
    purg_owner_step(owner, now + 10 * SYS_MS);
    assert_int_equal(completed, 0);
    purg_owner_step(owner, now + 60 * SYS_MS);
    assert_int_equal(completed, 1);
    purg_destroy(purgatory);
    purg_owner_destroy(owner);
    for (size_t align = 8; align <= 4096; align *= 2) {
        void *p = env.alloc(env.ctx, 100, align);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        memset(p, 1, 100);
        env.free(env.ctx, p, 100);
    }
    env.free(env.ctx, NULL, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_broker_starts_and_stops_and_keeps_its_identity),
        CASE(test_a_directory_serves_one_broker),
        CASE(test_a_port_in_use_is_said),
        CASE(test_a_directory_of_another_node_is_refused),
        CASE(test_the_older_name_of_the_node_id_counts_alone_or_alike),
        CASE(test_directories_of_two_clusters_are_refused),
        CASE(test_a_new_directory_joins_the_cluster_of_the_others),
        CASE(test_a_damaged_identity_is_said_with_its_line),
        CASE(test_wrong_settings_are_said),
        CASE(test_values_that_were_changed_while_running_hold_after_a_restart),
        CASE(test_delayed_operations_run_on_the_clock_of_sys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
