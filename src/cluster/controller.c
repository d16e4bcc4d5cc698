/* controller.c - the controller's task: what waits together is decided in order, synced once,
 * published once. */
#include "cluster/controller_int.h"

#include "base/check.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

#define CONTROLLER_LOGGER "org.apache.kafka.controller.QuorumController"
#define CONTROLLER_RECORDS_BYTES_MAX ((size_t)48 << 20)

struct controller {
    struct controller_options options;
    struct journal *journal;
    struct meta_image *image; /* the newest; also published */
    struct sys_task *task;
    struct sys_mailbox inbox;
    struct uuid incarnation;
    int64_t broker_epoch;
};

/* ---- one round ---- */

/* What a round will do after its sync, in order. */
struct round_effect {
    enum controller_kind kind;
    struct meta_topic *topic; /* a reference */
    int32_t from; /* its first partition that was made */
    enum meta_resource resource;
    struct slice name; /* in the request's memory */
};

struct round {
    struct controller *c;
    struct deciding d;
    struct round_effect *effects;
    size_t effects_count, effects_max;
    bool has_deletions;
};

static enum err round_add_effect(struct round *r, const struct controller_mutation *m,
                                 const struct meta_topic *topic, int32_t from)
{
    if (r->effects_count == r->effects_max) {
        size_t max = r->effects_max ? r->effects_max * 2 : 16;
        struct round_effect *effects = mem_realloc(r->effects, max * sizeof *effects);
        if (!effects) { return ERR_NOMEM; }
        r->effects = effects;
        r->effects_max = max;
    }
    r->effects[r->effects_count++] = (struct round_effect){
        m->kind, topic ? controller_topic_ref(topic) : NULL, from, m->resource, m->name};
    r->has_deletions = r->has_deletions || m->kind == CONTROLLER_DELETE_TOPIC;
    return ERR_OK;
}

/* Takes back the replicas of creations that will not be shown, from effect 'from' on. */
static void round_undo(struct round *r, size_t from)
{
    const struct controller_hooks *h = &r->c->options.hooks;
    while (r->effects_count > from) {
        struct round_effect *e = &r->effects[--r->effects_count];
        bool is_creation =
            e->kind == CONTROLLER_CREATE_TOPIC || e->kind == CONTROLLER_CREATE_PARTITIONS;
        if (is_creation && h->on_partitions_undone) {
            h->on_partitions_undone(h->ctx, e->topic, e->from);
        }
        controller_topic_unref(e->topic);
    }
}

/* The replicas come before the image that shows them. */
static enum err round_make_replicas(struct round *r, const struct controller_mutation *m,
                                    int32_t from)
{
    const struct controller_hooks *h = &r->c->options.hooks;
    const struct meta_topic *topic = meta_topic_by_id(r->d.image, m->id);
    CHECK(topic != NULL);
    enum err e = round_add_effect(r, m, topic, from);
    if (!e && h->on_partitions_added) {
        e = h->on_partitions_added(h->ctx, r->d.image, topic, from);
    }
    return e;
}

/* Decides one mutation on the round's image and does what must come before the image. */
static enum err round_mutate(struct round *r, struct controller_mutation *m, bool is_dry_run)
{
    const struct meta_topic *before = meta_topic_by_id(r->d.image, m->id);
    int32_t from = before ? meta_topic_partitions_count(before) : 0;
    struct meta_topic *held =
        m->kind == CONTROLLER_DELETE_TOPIC && before ? controller_topic_ref(before) : NULL;
    enum err e = controller_decide(&r->d, m);
    if (!e && !is_dry_run) {
        switch (m->kind) {
        case CONTROLLER_CREATE_TOPIC:
            e = round_make_replicas(r, m, 0);
            break;
        case CONTROLLER_CREATE_PARTITIONS:
            e = round_make_replicas(r, m, from);
            break;
        case CONTROLLER_DELETE_TOPIC:
            e = round_add_effect(r, m, held, 0);
            break;
        case CONTROLLER_ALTER_CONFIG:
            e = round_add_effect(r, m, NULL, 0);
            break;
        case CONTROLLER_PRODUCER_IDS:
            break;
        }
    }
    controller_topic_unref(held);
    return e;
}

/* [CTL-3]: a mutation that fails leaves no trace in the round; a dry run leaves none in any case.
 */
static void round_request(struct round *r, struct controller_request *request)
{
    struct deciding_mark start = deciding_mark(&r->d);
    for (size_t i = 0; i < request->mutations_count; i++) {
        struct controller_mutation *m = &request->mutations[i];
        struct deciding_mark mark = deciding_mark(&r->d);
        size_t effects = r->effects_count;
        m->result = round_mutate(r, m, request->is_dry_run);
        if (m->result) {
            round_undo(r, effects);
            deciding_restore(&r->d, &mark);
        }
        deciding_mark_fini(&mark);
    }
    if (request->is_dry_run) { deciding_restore(&r->d, &start); }
    deciding_mark_fini(&start);
}

/* Syncs the round's records. On failure everything it would have done is taken back. */
static enum err round_commit(struct round *r)
{
    struct controller *c = r->c;
    int64_t first;
    if (r->d.records_count == 0) { return ERR_OK; }
    deciding_point_records(&r->d);
    enum err e = journal_append(c->journal, r->d.records, r->d.records_count,
                                sys_wall_ms(c->options.sys), &first);
    if (e) {
        round_undo(r, 0);
        return e;
    }
    CHECK(first == c->image->offset + 1);
    CHECK(r->d.image->offset == first + (int64_t)r->d.records_count - 1);
    meta_unref(c->image);
    c->image = meta_ref(r->d.image);
    meta_publish(c->options.publisher, meta_ref(c->image)); /* [CTL-1] */
    return ERR_OK;
}

/* The image is published: what must come after it. */
static void round_finish(struct round *r)
{
    const struct controller_hooks *h = &r->c->options.hooks;
    for (size_t i = 0; i < r->effects_count; i++) {
        struct round_effect *e = &r->effects[i];
        if (e->kind == CONTROLLER_DELETE_TOPIC && h->on_topic_removed) {
            h->on_topic_removed(h->ctx, e->topic);
        } else if (e->kind == CONTROLLER_ALTER_CONFIG && h->on_config_changed) {
            h->on_config_changed(h->ctx, r->c->image, e->resource, e->name);
        }
        controller_topic_unref(e->topic);
    }
    r->effects_count = 0;
}

static void round_answer(struct controller_request *request, enum err committed)
{
    for (size_t i = 0; i < request->mutations_count; i++) {
        if (committed && !request->mutations[i].result && !request->is_dry_run) {
            request->mutations[i].result = committed;
        }
    }
    request->done(request);
}

/* The logs of a deleted topic go after the round, those of a new one come within it, and both may
 * have the same name: the new one waits for the next round. */
static bool round_must_end(const struct round *r, const struct controller_request *request)
{
    for (size_t i = 0; r->has_deletions && i < request->mutations_count; i++) {
        if (request->mutations[i].kind == CONTROLLER_CREATE_TOPIC) { return true; }
    }
    return false;
}

/* Carries out requests from first on, before end. The first that has to wait for another round. */
static struct sys_msg *controller_round(struct controller *c, struct sys_msg *first,
                                        struct sys_msg *end)
{
    struct round r = {.c = c};
    enum err e = deciding_init(&r.d, c->image, c->options.sys, c->options.node_id, c->broker_epoch,
                               c->options.statics);
    for (struct sys_msg *m = first; m != end && !e; m = m->next) {
        struct controller_request *request = CONTAINER_OF(m, struct controller_request, msg);
        if (round_must_end(&r, request)) {
            end = m;
            break;
        }
        round_request(&r, request);
    }
    if (!e) { e = round_commit(&r); }
    if (!e) { round_finish(&r); }
    for (struct sys_msg *m = first; m != end;) {
        struct sys_msg *next = m->next; /* done() takes the memory back */
        struct controller_request *request = CONTAINER_OF(m, struct controller_request, msg);
        m = next;
        round_answer(request, e);
    }
    deciding_fini(&r.d);
    mem_free(r.effects);
    if (journal_wants_snapshot(c->journal)) {
        err_ignore(journal_snapshot(c->journal, c->image, sys_wall_ms(c->options.sys)),
                   "logged; the log files stay and are replayed instead");
    }
    return end;
}

/* Requests that may join one round: until their records could pass the largest batch. */
static uint64_t controller_step(void *ctx, uint64_t now_ns)
{
    (void)now_ns;
    struct controller *c = ctx;
    struct sys_msg *first = sys_mailbox_take(&c->inbox);
    while (first) {
        size_t weight = 0;
        struct sys_msg *end = first;
        while (end) {
            weight += controller_weight(CONTAINER_OF(end, struct controller_request, msg));
            if (end != first && weight > CONTROLLER_RECORDS_BYTES_MAX) { break; }
            end = end->next;
        }
        first = controller_round(c, first, end);
    }
    return SYS_NEVER;
}

/* ---- life ---- */

enum err controller_create(const struct controller_options *options, struct controller **out)
{
    *out = NULL;
    struct controller *c = mem_new(struct controller);
    if (!c) { return ERR_NOMEM; }
    c->options = *options;
    c->broker_epoch = -1;
    sys_mailbox_init(&c->inbox);
    sys_random(options->sys, &c->incarnation, sizeof c->incarnation);
    struct journal_options jo = {.sys = options->sys,
                                 .logger = options->logger,
                                 .dir = options->metadata_dir,
                                 .snapshot_bytes = options->snapshot_bytes};
    enum err e = journal_open(&jo, &c->journal, &c->image);
    if (e) {
        controller_destroy(c);
        return e;
    }
    meta_publish(options->publisher, meta_ref(c->image));
    *out = c;
    return ERR_OK;
}

/* The record of this broker; its offset becomes the broker epoch, as in Kafka. */
static enum err controller_register(struct controller *c, const struct meta_endpoint *endpoints,
                                    size_t endpoints_count, const char *rack)
{
    struct deciding d;
    enum err e =
        deciding_init(&d, c->image, c->options.sys, c->options.node_id, -1, c->options.statics);
    if (!e) {
        e = controller_decide_registration(&d, endpoints, endpoints_count, rack, c->incarnation);
    }
    int64_t first = -1;
    if (!e) {
        deciding_point_records(&d);
        e = journal_append(c->journal, d.records, d.records_count, sys_wall_ms(c->options.sys),
                           &first);
    }
    if (!e) {
        c->broker_epoch = first;
        meta_unref(c->image);
        c->image = meta_ref(d.image);
        meta_publish(c->options.publisher, meta_ref(c->image));
    }
    deciding_fini(&d);
    return e;
}

enum err controller_start(struct controller *c, const struct meta_endpoint *endpoints,
                          size_t endpoints_count, const char *rack)
{
    enum err e = controller_register(c, endpoints, endpoints_count, rack);
    if (e) { return e; }
    struct sys_task_options task = {.name = "controller", .step = controller_step, .ctx = c};
    e = sys_task_start(c->options.sys, &task, &c->task);
    if (e) { return e; }
    log_info(c->options.logger, CONTROLLER_LOGGER,
             "Broker %" PRId32 " registered with epoch %" PRId64 "; %zu topics, %zu partitions",
             c->options.node_id, c->broker_epoch, tree_count(c->image->topics),
             c->image->partitions_count);
    return ERR_OK;
}

void controller_submit(struct controller *c, struct controller_request *request)
{
    CHECK(request->mutations_count <= CONTROLLER_MUTATIONS_MAX);
    if (sys_mailbox_post(&c->inbox, &request->msg)) { sys_task_wake(c->task); }
}

int64_t controller_broker_epoch(const struct controller *c)
{
    return c->broker_epoch;
}

void controller_stop(struct controller *c)
{
    sys_task_stop(c->task);
    c->task = NULL;
    /* Submitted after the last step: refused. Nobody submits any more once the network is stopped.
     */
    struct sys_msg *m = sys_mailbox_take(&c->inbox);
    while (m) {
        struct controller_request *request = CONTAINER_OF(m, struct controller_request, msg);
        m = m->next;
        for (size_t i = 0; i < request->mutations_count; i++) {
            request->mutations[i].result = ERR_CLOSED;
        }
        request->done(request);
    }
}

void controller_destroy(struct controller *c)
{
    if (!c) { return; }
    CHECK(c->task == NULL);
    journal_close(c->journal);
    meta_unref(c->image);
    mem_free(c);
}
