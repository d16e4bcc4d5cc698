/* describe_log_dirs.c - DescribeLogDirs (35): where the replicas are and how large they are. On a
 * handler: it asks the file system. */
#include "api/api_int.h"

#include "wire/gen/describe_log_dirs_request.h"
#include "wire/gen/describe_log_dirs_response.h"

struct dir_walk {
    const struct describe_log_dirs_request *q;
    struct describe_log_dirs_response_describe_log_dirs_result *out;
    struct arena *arena;
    size_t topics_max;
    bool has_failed;
};

static bool is_asked(const struct describe_log_dirs_request *q, const struct log *log)
{
    if (q->topics == NULL) { return true; }
    for (size_t i = 0; i < q->topics_count; i++) {
        if (!slice_eq_str(q->topics[i].topic, log_topic(log))) { continue; }
        for (size_t k = 0; k < q->topics[i].partitions_count; k++) {
            if (q->topics[i].partitions[k] == log_partition(log)) { return true; }
        }
    }
    return false;
}

/* One row a replica: a topic may show several times, each with one partition; clients merge them.
 */
static void add_log(void *ctx, struct log *log)
{
    struct dir_walk *w = ctx;
    if (w->has_failed || w->out->topics_count == w->topics_max || !is_asked(w->q, log)) { return; }
    struct arena *a = w->arena;
    struct describe_log_dirs_response_describe_log_dirs_topic *t =
        &w->out->topics[w->out->topics_count];
    a->limit += sizeof *t->partitions + 320;
    t->name = slice_str(arena_strndup(a, log_topic(log), strlen(log_topic(log))));
    t->partitions = arena_alloc(a, sizeof *t->partitions);
    w->has_failed = !t->name.at || !t->partitions;
    if (w->has_failed) { return; }
    t->partitions_count = 1;
    t->partitions[0].partition_index = log_partition(log);
    t->partitions[0].partition_size = (int64_t)log_size_bytes(log);
    w->out->topics_count++;
}

static bool describe_dir(struct api_call *call, const struct describe_log_dirs_request *q,
                         struct logdir *dir,
                         struct describe_log_dirs_response_describe_log_dirs_result *out)
{
    struct arena *a = call->req->arena;
    struct dir_walk w = {.q = q, .out = out, .arena = a};
    uint64_t free_bytes, used = 0;
    describe_log_dirs_response_describe_log_dirs_result_init(out);
    out->log_dir = slice_str(logdir_path(dir));
    if (logdir_is_offline(dir)) {
        out->error_code = KAFKA_KAFKA_STORAGE_ERROR;
        return true;
    }
    size_t max = logdir_logs_count(dir) + 64; /* some may be created meanwhile */
    w.topics_max = max;
    a->limit += max * sizeof *out->topics;
    out->topics = arena_array(a, max, sizeof *out->topics);
    if (!out->topics) { return false; }
    logdir_each(dir, add_log, &w);
    for (size_t i = 0; i < out->topics_count; i++) {
        used += (uint64_t)out->topics[i].partitions[0].partition_size;
    }
    if (sys_fs_free(call->api->options.sys, logdir_path(dir), &free_bytes) == ERR_OK) {
        out->usable_bytes = (int64_t)free_bytes;
        out->total_bytes = (int64_t)(free_bytes + used);
    }
    return !w.has_failed;
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
    for (size_t i = 0; i < count; i++) {
        if (!describe_dir(call, &q, replica_dir(call->api->options.replicas, i), &m.results[i])) {
            return NET_CLOSE;
        }
    }
    return API_ANSWER(call, describe_log_dirs_response, &m);
}
