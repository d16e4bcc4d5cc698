/* fixture.h - a controller over a directory of its own, hooks that write down what they are told,
 * and a way to wait for an answer.
 *
 * Place:      tests of cluster/.
 * Thread:     the test's and the controller's; the trace is read only between answers. */
#ifndef TESTS_CLUSTER_FIXTURE_H
#define TESTS_CLUSTER_FIXTURE_H

#include "base/check.h"
#include "base/mem.h"
#include "cluster/controller.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    struct sys *sys;
    char dir[256];
    struct config_set statics;
    struct meta_publisher publisher;
    struct controller *c;
    char trace[4096]; /* one word for each call of a hook */
    enum err refuse; /* what on_partitions_added answers */
};

struct asked {
    struct controller_request request; /* first */
    struct sys *sys;
    _Atomic int is_done;
};

static inline void note(struct fixture *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static inline void note(struct fixture *f, const char *fmt, ...)
{
    size_t len = strlen(f->trace);
    va_list args;
    va_start(args, fmt);
    vsnprintf(f->trace + len, sizeof f->trace - len, fmt, args);
    va_end(args);
}

/* A hook that runs before the image is published must not see the topic there, and the reverse. */
static inline const char *where(struct fixture *f, const struct meta_topic *topic)
{
    struct meta_image *image = meta_latest(&f->publisher);
    bool is_shown = meta_topic_by_id(image, topic->id) != NULL;
    meta_unref(image);
    return is_shown ? "shown" : "hidden";
}

static inline enum err hook_added(void *ctx, const struct meta_image *next,
                                  const struct meta_topic *topic, int32_t from)
{
    struct fixture *f = ctx;
    assert_non_null(meta_topic_by_id(next, topic->id));
    note(f, "add %s %d-%d %s; ", topic->name, from, meta_topic_partitions_count(topic),
         where(f, topic));
    return f->refuse;
}

static inline void hook_removed(void *ctx, const struct meta_topic *topic)
{
    struct fixture *f = ctx;
    note(f, "remove %s %s; ", topic->name, where(f, topic));
}

static inline void hook_undone(void *ctx, const struct meta_topic *topic, int32_t from)
{
    struct fixture *f = ctx;
    note(f, "undo %s %d-%d %s; ", topic->name, from, meta_topic_partitions_count(topic),
         where(f, topic));
}

static inline void hook_config(void *ctx, const struct meta_image *image, enum meta_resource type,
                               struct slice name)
{
    struct fixture *f = ctx;
    char text[64];
    (void)image;
    note(f, "config %d/%s; ", type, slice_print(name, text, sizeof text));
}

static inline enum err fixture_open(struct fixture *f)
{
    struct controller_options o = {.sys = f->sys,
                                   .metadata_dir = f->dir,
                                   .node_id = 1,
                                   .statics = &f->statics,
                                   .snapshot_bytes = 1u << 20,
                                   .publisher = &f->publisher,
                                   .hooks = {.ctx = f,
                                             .on_partitions_added = hook_added,
                                             .on_partitions_undone = hook_undone,
                                             .on_topic_removed = hook_removed,
                                             .on_config_changed = hook_config}};
    meta_publisher_init(&f->publisher, meta_create());
    enum err e = controller_create(&o, &f->c);
    char name[] = "PLAINTEXT", host[] = "127.0.0.1";
    struct meta_endpoint endpoint = {.name = name, .host = host, .port = 9092};
    return e ? e : controller_start(f->c, &endpoint, 1, "rack-1");
}

static inline void fixture_shut(struct fixture *f)
{
    if (!f->c) { return; }
    controller_stop(f->c);
    controller_destroy(f->c);
    meta_publisher_fini(&f->publisher);
    f->c = NULL;
}

static inline int fixture_setup(void **state)
{
    struct fixture *f = mem_new(struct fixture);
    assert_non_null(f);
    const char *tmp = getenv("TMPDIR");
    snprintf(f->dir, sizeof f->dir, "%s/bb-cluster-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    f->sys = sys_create();
    assert_non_null(f->sys);
    config_set_init(&f->statics);
    assert_int_equal(fixture_open(f), ERR_OK);
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    char command[300];
    fixture_shut(f);
    sys_destroy(f->sys);
    config_set_fini(&f->statics);
    snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    assert_int_equal(system(command), 0);
    mem_free(f);
    return 0;
}

static inline void on_done(struct controller_request *request)
{
    struct asked *a = CONTAINER_OF(request, struct asked, request);
    sys_signal_flag(a->sys, &a->is_done, 1);
}

static inline void ask_begin(struct fixture *f, struct asked *a, struct controller_mutation *m,
                             size_t count, bool is_dry_run)
{
    *a = (struct asked){.request = {.mutations = m,
                                    .mutations_count = count,
                                    .is_dry_run = is_dry_run,
                                    .done = on_done},
                        .sys = f->sys};
    controller_submit(f->c, &a->request);
}

static inline void ask_end(struct fixture *f, struct asked *a)
{
    assert_true(sys_wait_flag(f->sys, &a->is_done, sys_mono_ns(f->sys) + 20000 * SYS_MS));
}

/* Several mutations as one request; waits until they are carried out. */
static inline void ask(struct fixture *f, struct controller_mutation *m, size_t count,
                       bool is_dry_run)
{
    struct asked a;
    ask_begin(f, &a, m, count, is_dry_run);
    ask_end(f, &a);
}

static inline struct controller_mutation create_of(const char *name, int32_t partitions)
{
    return (struct controller_mutation){
        .kind = CONTROLLER_CREATE_TOPIC, .name = slice_str(name), .partitions_count = partitions};
}

/* Creates the topic and returns its id. */
static inline struct uuid create(struct fixture *f, const char *name, int32_t partitions)
{
    struct controller_mutation m = create_of(name, partitions);
    ask(f, &m, 1, false);
    assert_int_equal(m.result, ERR_OK);
    return m.id;
}

static inline struct controller_mutation alter_of(enum meta_resource type, const char *name,
                                                  const struct controller_config *configs,
                                                  size_t count)
{
    return (struct controller_mutation){.kind = CONTROLLER_ALTER_CONFIG,
                                        .resource = type,
                                        .name = slice_str(name),
                                        .configs = configs,
                                        .configs_count = count};
}

/* The override as the newest image has it; "-" when there is none. Into buf. */
static inline const char *override_of(struct fixture *f, enum meta_resource type, const char *name,
                                      const char *key, char buf[256])
{
    struct meta_image *image = meta_latest(&f->publisher);
    const char *text = meta_config(image, type, slice_str(name), slice_str(key));
    snprintf(buf, 256, "%s", text ? text : "-");
    meta_unref(image);
    return buf;
}

static inline struct uuid topic_id(struct fixture *f, const char *name)
{
    struct meta_image *image = meta_latest(&f->publisher);
    const struct meta_topic *t = meta_topic(image, slice_str(name));
    assert_non_null(t);
    struct uuid id = t ? t->id : (struct uuid){0};
    meta_unref(image);
    return id;
}

static inline int32_t partitions_of(struct fixture *f, const char *name)
{
    struct meta_image *image = meta_latest(&f->publisher);
    const struct meta_topic *t = meta_topic(image, slice_str(name));
    int32_t count = t ? meta_topic_partitions_count(t) : -1;
    meta_unref(image);
    return count;
}

#endif
