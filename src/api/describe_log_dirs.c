/* describe_log_dirs.c - DescribeLogDirs (35): where the replicas are and how large they are. On a
 * handler: it asks the file system. */
#include "api/api_int.h"

#include "wire/gen/describe_log_dirs_request.h"
#include "wire/gen/describe_log_dirs_response.h"

#include <stdlib.h>

/* One replica, copied: the log is borrowed for the visit only. */
struct dir_row {
    const char *topic;
    int64_t size;
    int32_t partition;
};

/* A partition that is asked for. */
struct dir_asked {
    struct slice topic;
    int32_t partition;
};

struct dir_walk {
    const struct dir_asked *asked; /* in order; NULL: all */
    size_t asked_count;
    struct arena *arena;
    struct dir_row *rows;
    size_t count, max;
    bool has_failed;
};

static int asked_order(const void *a, const void *b)
{
    const struct dir_asked *x = a, *y = b;
    int by_topic = slice_cmp(x->topic, y->topic);
    return by_topic ? by_topic : (x->partition > y->partition) - (x->partition < y->partition);
}

/* What is asked for, in order, into w. False without memory. */
static bool take_asked(struct dir_walk *w, const struct describe_log_dirs_request *q)
{
    if (q->topics == NULL) { return true; }
    size_t count = 0;
    for (size_t i = 0; i < q->topics_count; i++) {
        count += q->topics[i].partitions_count;
    }
    w->arena->limit += count * sizeof *w->asked + 64;
    struct dir_asked *all = arena_array(w->arena, count, sizeof *all);
    if (!all) { return false; }
    for (size_t i = 0; i < q->topics_count; i++) {
        for (size_t k = 0; k < q->topics[i].partitions_count; k++) {
            all[w->asked_count++] =
                (struct dir_asked){q->topics[i].topic, q->topics[i].partitions[k]};
        }
    }
    qsort(all, count, sizeof *all, asked_order);
    w->asked = all;
    return true;
}

static bool is_asked(const struct dir_walk *w, const struct log *log)
{
    struct dir_asked one = {slice_str(log_topic(log)), log_partition(log)};
    return !w->asked || bsearch(&one, w->asked, w->asked_count, sizeof one, asked_order) != NULL;
}

static void add_log(void *ctx, struct log *log)
{
    struct dir_walk *w = ctx;
    if (w->has_failed || w->count == w->max || !is_asked(w, log)) { return; }
    size_t size = strlen(log_topic(log));
    w->arena->limit += size + 64;
    const char *topic = arena_strndup(w->arena, log_topic(log), size);
    w->has_failed = !topic;
    if (!topic) { return; }
    w->rows[w->count++] = (struct dir_row){topic, (int64_t)log_size_bytes(log), log_partition(log)};
}

static int row_order(const void *a, const void *b)
{
    const struct dir_row *x = a, *y = b;
    int by_topic = strcmp(x->topic, y->topic);
    return by_topic ? by_topic : (x->partition > y->partition) - (x->partition < y->partition);
}

/* The rows as topics with partitions: clients keep one entry a topic, the last they read. */
static bool group_rows(struct dir_walk *w,
                       struct describe_log_dirs_response_describe_log_dirs_result *out)
{
    struct describe_log_dirs_response_describe_log_dirs_partition *parts;
    w->arena->limit += w->count * (sizeof *out->topics + sizeof *parts) + 128;
    out->topics = arena_array(w->arena, w->count, sizeof *out->topics);
    parts = arena_array(w->arena, w->count, sizeof *parts);
    if (!out->topics || !parts) { return false; }
    qsort(w->rows, w->count, sizeof *w->rows, row_order);
    for (size_t i = 0; i < w->count; i++) {
        const struct dir_row *r = &w->rows[i];
        parts[i].partition_index = r->partition;
        parts[i].partition_size = r->size;
        if (i == 0 || strcmp(r->topic, w->rows[i - 1].topic) != 0) {
            out->topics[out->topics_count].name = slice_str(r->topic);
            out->topics[out->topics_count++].partitions = &parts[i];
        }
        out->topics[out->topics_count - 1].partitions_count++;
    }
    return true;
}

static bool describe_dir(struct api_call *call, struct dir_walk w, struct logdir *dir,
                         struct describe_log_dirs_response_describe_log_dirs_result *out)
{
    struct sys *sys = call->api->options.sys;
    uint64_t free_bytes, total;
    describe_log_dirs_response_describe_log_dirs_result_init(out);
    out->log_dir = slice_str(logdir_path(dir));
    if (logdir_is_offline(dir)) {
        out->error_code = KAFKA_KAFKA_STORAGE_ERROR;
        return true;
    }
    w.max = logdir_logs_count(dir) + 64; /* some may be created meanwhile */
    w.arena->limit += w.max * sizeof *w.rows;
    w.rows = arena_array(w.arena, w.max, sizeof *w.rows);
    if (!w.rows) { return false; }
    logdir_each(dir, add_log, &w);
    if (sys_fs_free(sys, logdir_path(dir), &free_bytes) == ERR_OK &&
        sys_fs_total(sys, logdir_path(dir), &total) == ERR_OK) {
        out->usable_bytes = free_bytes < INT64_MAX ? (int64_t)free_bytes : INT64_MAX;
        out->total_bytes = total < INT64_MAX ? (int64_t)total : INT64_MAX;
    }
    return !w.has_failed && group_rows(&w, out);
}

enum net_verdict api_describe_log_dirs(struct api_call *call)
{
    struct describe_log_dirs_request q;
    struct describe_log_dirs_response m;
    struct arena *a = call->req->arena;
    if (!call->req->on_handler) { return NET_SLOW; }
    if (!API_DECODE(call, describe_log_dirs_request, &q)) { return NET_CLOSE; }
    describe_log_dirs_response_init(&m);
    size_t count = replica_dirs_count(call->api->options.replicas);
    m.results = arena_array(a, count, sizeof *m.results);
    if (!m.results) { return NET_CLOSE; }
    m.results_count = count;
    struct dir_walk w = {.arena = a};
    if (!take_asked(&w, &q)) { return NET_CLOSE; }
    for (size_t i = 0; i < count; i++) {
        if (!describe_dir(call, w, replica_dir(call->api->options.replicas, i), &m.results[i])) {
            return NET_CLOSE;
        }
    }
    return API_ANSWER(call, describe_log_dirs_response, &m);
}
