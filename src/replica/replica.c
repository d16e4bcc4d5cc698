/* replica.c - the table of partitions, the directories behind it, and how the high watermark moves.
 */
#include "replica/replica.h"

#include "base/check.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

#define REPLICA_LOGGER "kafka.server.ReplicaManager"
#define REPLICA_DIRS_MAX 64
#define REPLICA_PATH_SIZE 4096

struct replica_manager {
    struct replica_options options;
    struct logdir *dirs[REPLICA_DIRS_MAX];
    size_t dirs_count;
    struct sys_mutex lock; /* guards table; rank SYS_RANK_REPLICAS; held for look-ups only */
    struct map table; /* topic id and index -> struct partition, one reference each */
    struct partition_counters gone; /* of removed partitions; guarded by lock */
    uint64_t removals; /* guarded by lock */
    struct purgatory *produce, *fetch;
};

#define PARTITION_KEY_SIZE 20

static struct slice table_key(struct uuid id, int32_t index, uint8_t buf[PARTITION_KEY_SIZE])
{
    memcpy(buf, id.b, sizeof id.b);
    memcpy(buf + sizeof id.b, &index, sizeof index);
    return slice_of(buf, PARTITION_KEY_SIZE);
}

/* ---- partitions ---- */

struct partition *partition_ref(struct partition *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void partition_unref(struct partition *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) { return; }
    log_unref(p->log);
    mem_free(p);
}

struct partition *replica_find(struct replica_manager *m, struct uuid topic_id, int32_t index)
{
    uint8_t buf[PARTITION_KEY_SIZE];
    struct slice key = table_key(topic_id, index, buf);
    sys_mutex_lock(&m->lock);
    struct partition *p = map_get(&m->table, key);
    if (p) { partition_ref(p); }
    sys_mutex_unlock(&m->lock);
    return p;
}

void partition_append(struct partition *p, struct log_append_args *const args[],
                      struct log_append_result *const out[], size_t count)
{
    int32_t epoch = partition_leader_epoch(p);
    for (size_t i = 0; i < count; i++) {
        args[i]->leader_epoch = epoch;
    }
    log_append(p->log, args, out, count);
}

void replica_wake(struct replica_manager *m, struct purg_owner *self, const struct purg_key *keys,
                  size_t count)
{
    purg_check_many(m->fetch, self, keys, count);
    purg_check_many(m->produce, self, keys, count);
}

void partition_check(struct partition *p, struct purg_owner *self)
{
    struct purg_key key = partition_key(p);
    replica_wake(p->manager, self, &key, 1);
}

/* Raises *hw to target; false when it was there already, [REP-1]. */
static bool hw_raise(_Atomic int64_t *hw, int64_t target)
{
    int64_t old = atomic_load_explicit(hw, memory_order_relaxed);
    while (old < target) {
        if (atomic_compare_exchange_weak_explicit(hw, &old, target, memory_order_release,
                                                  memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

bool partition_raise(struct partition *p)
{
    /* [REP-3]: under group only what is on the device is readable and acknowledged. */
    bool is_group = p->manager->options.flush_policy == LOG_FLUSH_GROUP;
    int64_t target = is_group ? log_synced(p->log) : log_leo(p->log);
    /* The log first: who saw the partition's may at once delete up to it. */
    log_set_hw(p->log, target);
    return hw_raise(&p->hw, target);
}

void partition_advance(struct partition *p, struct purg_owner *self)
{
    if (partition_raise(p)) { partition_check(p, self); }
}

static void partition_set_state(struct partition *p, enum partition_state state)
{
    atomic_store_explicit(&p->state, state, memory_order_release);
}

/* State first, then cancel: whoever parks meanwhile sees the state at its second try. */
static void partition_end(struct partition *p, enum partition_state state)
{
    partition_set_state(p, state);
    purg_cancel_key(p->manager->fetch, NULL, partition_key(p), PURG_CANCELLED);
    purg_cancel_key(p->manager->produce, NULL, partition_key(p), PURG_CANCELLED);
}

/* ---- callbacks of the directories: no lock held; flusher, keeper, or who moved a start ---- */

/* A reference, so that a removal need not wait for callbacks under way; NULL once it is gone. */
static struct partition *partition_of(struct replica_manager *m, const struct log *log)
{
    return replica_find(m, log_topic_id(log), log_partition(log));
}

static void on_synced(void *ctx, struct log *log, int64_t synced)
{
    (void)synced;
    struct partition *p = partition_of(ctx, log);
    if (p) { partition_advance(p, NULL); }
    partition_unref(p);
}

static void on_start_moved(void *ctx, struct log *log, int64_t start)
{
    struct partition *p = partition_of(ctx, log);
    if (!p) { return; }
    /* DeleteRecords and retention stay below the watermark; a log that starts beyond it was reset.
     */
    log_set_hw(log, start);
    hw_raise(&p->hw, start);
    partition_check(p, NULL);
    partition_unref(p);
}

struct offline_walk {
    struct replica_manager *m;
    size_t count;
};

static void on_offline_log(void *ctx, struct log *log)
{
    struct offline_walk *w = ctx;
    struct partition *p = partition_of(w->m, log);
    if (p && partition_state(p) == PARTITION_ONLINE) {
        partition_end(p, PARTITION_OFFLINE);
        w->count++;
    }
    partition_unref(p);
}

static void on_offline(void *ctx, struct logdir *dir, enum err cause)
{
    struct offline_walk w = {.m = ctx};
    logdir_each(dir, on_offline_log, &w);
    log_error(w.m->options.logger, REPLICA_LOGGER,
              "Log directory %s failed (%s): %zu partitions are offline until the next start",
              logdir_path(dir), err_name(cause), w.count);
}

/* ---- life ---- */

enum err replica_create(const struct replica_options *options, struct replica_manager **out)
{
    *out = NULL;
    struct replica_manager *m = mem_new(struct replica_manager);
    if (!m) { return ERR_NOMEM; }
    m->options = *options;
    sys_mutex_init(&m->lock, SYS_RANK_REPLICAS);
    map_init(&m->table);
    m->produce = purg_create(options->purg_env, &(struct purg_options){0});
    m->fetch = purg_create(options->purg_env, &(struct purg_options){0});
    if (!m->produce || !m->fetch) {
        replica_destroy(m, false, -1);
        return ERR_NOMEM;
    }
    *out = m;
    return ERR_OK;
}

enum err replica_open_dir(struct replica_manager *m, const char *path, const char *cluster_id)
{
    if (m->dirs_count == REPLICA_DIRS_MAX) { return ERR_LIMIT; }
    struct config_scope scope = {m->options.statics, NULL, m->options.node_id};
    struct logdir_options options = {
        .path = path,
        .cluster_id = cluster_id,
        .node_id = m->options.node_id,
        .flush_policy = m->options.flush_policy,
        .recovery_threads = (int32_t)config_broker_i64(&scope, "num.recovery.threads.per.data.dir"),
        .retention_check_ms = config_broker_i64(&scope, "log.retention.check.interval.ms"),
        .checkpoint_ms = config_broker_i64(&scope, "log.flush.offset.checkpoint.interval.ms"),
        .logger = m->options.logger,
        .peers = m->dirs,
        .peers_count = m->dirs_count,
        .callbacks = {m, on_synced, on_offline, on_start_moved},
    };
    replica_log_config(&scope, SLICE_NULL, &options.config);
    enum err e = logdir_open(m->options.sys, &options, &m->dirs[m->dirs_count]);
    if (!e) { m->dirs_count++; }
    return e;
}

static enum err partition_make(struct replica_manager *m, const struct meta_topic *topic,
                               const struct meta_partition *mp, struct log *log)
{
    uint8_t buf[PARTITION_KEY_SIZE];
    struct partition *p = mem_new(struct partition);
    if (!p) { return ERR_NOMEM; }
    atomic_init(&p->refs, 1);
    atomic_init(&p->state, PARTITION_ONLINE);
    atomic_init(&p->leader_epoch, mp->leader_epoch);
    bool is_group = m->options.flush_policy == LOG_FLUSH_GROUP;
    int64_t end = is_group ? log_synced(log) : log_leo(log);
    int64_t start = log_start_offset(log);
    atomic_init(&p->hw, end > start ? end : start);
    p->index = mp->index;
    p->topic_id = topic->id;
    p->log = log_ref(log);
    p->manager = m;
    enum err e = log_assign_epoch(log, mp->leader_epoch);
    if (e) {
        partition_unref(p);
        return e;
    }
    log_set_hw(log, partition_hw(p));
    sys_mutex_lock(&m->lock);
    e = map_put(&m->table, table_key(p->topic_id, p->index, buf), p, NULL);
    sys_mutex_unlock(&m->lock);
    if (e) {
        partition_unref(p);
        return e;
    }
    partition_advance(p, NULL); /* a flush that ended before found nobody to tell */
    return ERR_OK;
}

/* The online directory with the fewest logs. */
static struct logdir *dir_choose(struct replica_manager *m)
{
    struct logdir *best = NULL;
    size_t best_count = SIZE_MAX;
    for (size_t i = 0; i < m->dirs_count; i++) {
        size_t count = logdir_logs_count(m->dirs[i]);
        if (!logdir_is_offline(m->dirs[i]) && count < best_count) {
            best = m->dirs[i];
            best_count = count;
        }
    }
    return best;
}

static struct log *dirs_find(struct replica_manager *m, const char *topic, int32_t index)
{
    for (size_t i = 0; i < m->dirs_count; i++) {
        struct log *log = logdir_find(m->dirs[i], topic, index);
        if (log) { return log; }
    }
    return NULL;
}

struct add_walk {
    struct replica_manager *m;
    const struct meta_topic *topic;
    struct log_config config; /* of the topic: the same for all its logs */
    enum err err;
};

static bool add_partition(void *ctx, const struct meta_partition *mp)
{
    struct add_walk *w = ctx;
    struct log *log = dirs_find(w->m, w->topic->name, mp->index);
    struct logdir *made_in = NULL;
    if (log && !uuid_eq(log_topic_id(log), w->topic->id)) {
        w->err =
            ERR_BUSY; /* of an older topic, whose removal failed: the next start sets it aside */
    } else if (log) {
        log_set_config(log, &w->config);
    } else {
        struct logdir *dir = dir_choose(w->m);
        struct logdir_create_options options = {.topic = w->topic->name,
                                                .topic_id = w->topic->id,
                                                .partition = mp->index,
                                                .config = w->config};
        w->err = dir ? logdir_create_log(dir, &options, &log) : ERR_OFFLINE;
        made_in = dir;
    }
    if (!w->err) {
        w->err = partition_make(w->m, w->topic, mp, log);
        if (w->err && made_in) { err_ignore(logdir_delete_log(made_in, log), "undoing"); }
    }
    log_unref(log);
    return !w->err;
}

enum err replica_add_partitions(struct replica_manager *m, const struct meta_image *next,
                                const struct meta_topic *topic, int32_t from)
{
    struct add_walk w = {.m = m, .topic = topic};
    struct config_scope scope = {m->options.statics, next, m->options.node_id};
    replica_log_config(&scope, slice_str(topic->name), &w.config);
    meta_each_partition(topic, from, add_partition, &w);
    if (w.err) {
        log_error(m->options.logger, REPLICA_LOGGER, "Creating the logs of topic %s failed: %s",
                  topic->name, err_name(w.err));
    }
    return w.err;
}

static bool is_known(const struct meta_image *image, const struct log *log)
{
    const struct meta_topic *topic = meta_topic_by_id(image, log_topic_id(log));
    return topic && slice_eq_str(slice_str(log_topic(log)), topic->name) &&
           meta_topic_partition(topic, log_partition(log));
}

struct load_walk {
    struct replica_manager *m;
    const struct meta_image *image;
    struct logdir *dir;
    enum err err;
};

/* One without a directory is forgotten alone. */
static void set_aside(struct load_walk *w, struct logdir *dir, struct log *log)
{
    enum err e = logdir_stray_log(dir, log);
    if (e && e != ERR_NOTFOUND && !w->err) { w->err = e; }
}

static void load_log(void *ctx, struct log *log)
{
    struct load_walk *w = ctx;
    if (is_known(w->image, log)) { return; }
    log_warn(w->m->options.logger, REPLICA_LOGGER,
             "The metadata does not know %s-%" PRId32 " in %s: set aside as stray", log_topic(log),
             log_partition(log), logdir_path(w->dir));
    set_aside(w, w->dir, log);
}

static bool is_gone(struct load_walk *w, const struct logdir *dir, const struct log *log)
{
    char path[REPLICA_PATH_SIZE];
    struct sys_stat st;
    int n = snprintf(path, sizeof path, "%s/%s-%" PRId32, logdir_path(dir), log_topic(log),
                     log_partition(log));
    CHECKF(n > 0 && (size_t)n < sizeof path, "n=%d", n); /* dir.h limits the directory's */
    return sys_path_stat(w->m->options.sys, path, &st) == ERR_NOTFOUND;
}

/* Nobody knows which of two is the newer one. An entry of a clean manifest whose directory was
 * moved while the broker was stopped is none. */
static void load_twin(void *ctx, struct log *log)
{
    struct load_walk *w = ctx;
    const char *topic = log_topic(log);
    int32_t index = log_partition(log);
    for (size_t i = 0; w->m->dirs[i] != w->dir; i++) {
        struct logdir *dir = w->m->dirs[i];
        struct log *other = logdir_find(dir, topic, index);
        if (!other) { continue; }
        struct logdir *left = is_gone(w, dir, other)    ? dir
                              : is_gone(w, w->dir, log) ? w->dir
                                                        : NULL;
        if (left) {
            log_info(w->m->options.logger, REPLICA_LOGGER,
                     "%s-%" PRId32 " was moved away from %s while the broker was stopped", topic,
                     index, logdir_path(left));
            set_aside(w, left, left == dir ? other : log);
        } else {
            log_error(w->m->options.logger, REPLICA_LOGGER,
                      "%s-%" PRId32 " is in two directories, %s and %s. The broker does not start: "
                      "move the one away that is not to be served",
                      topic, index, logdir_path(dir), logdir_path(w->dir));
            w->err = ERR_EXISTS;
        }
        log_unref(other);
    }
}

static bool load_topic(void *ctx, const struct meta_topic *topic)
{
    struct load_walk *w = ctx;
    w->err = replica_add_partitions(w->m, w->image, topic, 0);
    return !w->err;
}

/* Logs without a single metadata record: the metadata log was lost, and every partition would be
 * set aside. */
static bool has_lost_metadata(const struct replica_manager *m, const struct meta_image *image)
{
    size_t logs_count = 0;
    for (size_t i = 0; i < m->dirs_count; i++) {
        logs_count += logdir_logs_count(m->dirs[i]);
    }
    if (image->offset >= 0 || logs_count == 0) { return false; }
    log_error(m->options.logger, REPLICA_LOGGER,
              "The metadata log is empty, but there are %zu partitions on disk. The broker does "
              "not start: restore __cluster_metadata-0, or move the partitions away",
              logs_count);
    return true;
}

enum err replica_load(struct replica_manager *m, const struct meta_image *image)
{
    struct load_walk w = {.m = m, .image = image};
    if (has_lost_metadata(m, image)) { return ERR_CORRUPT; }
    for (size_t i = 0; i < m->dirs_count && !w.err; i++) {
        w.dir = m->dirs[i];
        logdir_each(m->dirs[i], load_log, &w);
        logdir_each(m->dirs[i], load_twin, &w);
    }
    if (!w.err) { meta_each_topic(image, SLICE_NULL, load_topic, &w); }
    return w.err;
}

/* ---- removal ---- */

static struct partition *table_take(struct replica_manager *m, struct uuid id, int32_t index)
{
    uint8_t buf[PARTITION_KEY_SIZE];
    struct slice key = table_key(id, index, buf);
    sys_mutex_lock(&m->lock);
    struct partition *p = map_remove(&m->table, key);
    if (p) { partition_counters_add(&m->gone, &p->counters); }
    m->removals++;
    sys_mutex_unlock(&m->lock);
    return p;
}

static struct logdir *dir_of(struct replica_manager *m, struct log *log)
{
    for (size_t i = 0; i < m->dirs_count; i++) {
        struct log *found = logdir_find(m->dirs[i], log_topic(log), log_partition(log));
        log_unref(found);
        if (found == log) { return m->dirs[i]; }
    }
    return NULL;
}

static void partition_delete_log(struct replica_manager *m, struct partition *p)
{
    struct logdir *dir = dir_of(m, p->log);
    enum err e = dir ? logdir_delete_log(dir, p->log) : ERR_OK;
    if (e) {
        log_error(m->options.logger, REPLICA_LOGGER, "Deleting %s-%" PRId32 " failed: %s",
                  log_topic(p->log), p->index, err_name(e));
    }
}

/* Waits for no flush under way: whoever works with a partition holds a reference of its own. */
void replica_remove_partitions(struct replica_manager *m, const struct meta_topic *topic,
                               int32_t from)
{
    for (int32_t i = from; i < meta_topic_partitions_count(topic); i++) {
        struct partition *p = table_take(m, topic->id, i);
        if (!p) { continue; }
        partition_end(p, PARTITION_DELETED);
        partition_delete_log(m, p);
        partition_unref(p);
    }
}

/* ---- walks ---- */

void replica_snapshot_drop(struct replica_snapshot *s)
{
    for (size_t i = 0; i < s->count; i++) {
        partition_unref(s->partitions[i]);
    }
    mem_free(s->partitions);
    *s = (struct replica_snapshot){0};
}

/* Takes up to step_max more. False: there are more, or (then nothing is held any more) one was
 * removed since the first step, which moves others within the table. */
static bool snapshot_step(struct replica_manager *m, struct replica_snapshot *s, size_t capacity,
                          size_t step_max, uint64_t *removals)
{
    sys_mutex_lock(&m->lock);
    size_t end = m->table.count < capacity ? m->table.count : capacity;
    if (s->count == 0) { *removals = m->removals; }
    bool is_same = *removals == m->removals;
    for (size_t n = 0; is_same && n < step_max && s->count < end; n++) {
        s->partitions[s->count] = partition_ref(m->table.entries[s->count].value);
        s->count++;
    }
    bool is_complete = is_same && s->count >= end;
    if (is_complete) { partition_counters_add(&s->gone, &m->gone); }
    sys_mutex_unlock(&m->lock);
    while (!is_same && s->count) {
        partition_unref(s->partitions[--s->count]);
    }
    return is_complete;
}

enum err replica_snapshot_take(struct replica_manager *m, struct replica_snapshot *out)
{
    *out = (struct replica_snapshot){0};
    uint64_t removals = 0;
    size_t capacity = replica_partitions_count(m) + 1; /* what is added meanwhile may be missing */
    out->partitions = mem_array(capacity, sizeof(struct partition *));
    if (!out->partitions) { return ERR_NOMEM; }
    size_t steps_max = 4 * (capacity / REPLICA_SNAPSHOT_STEP + 1); /* then in one go */
    for (size_t n = 0;; n++) {
        size_t step = n < steps_max ? REPLICA_SNAPSHOT_STEP : SIZE_MAX;
        if (snapshot_step(m, out, capacity, step, &removals)) { return ERR_OK; }
    }
}

void replica_each(struct replica_manager *m, void (*visit)(void *ctx, struct partition *p),
                  void *ctx)
{
    struct replica_snapshot all;
    if (replica_snapshot_take(m, &all)) { return; }
    for (size_t i = 0; i < all.count; i++) {
        visit(ctx, all.partitions[i]);
    }
    replica_snapshot_drop(&all);
}

static void config_partition(void *ctx, struct partition *p)
{
    const struct config_scope *scope = ctx;
    struct log_config config;
    replica_log_config(scope, slice_str(log_topic(p->log)), &config);
    log_set_config(p->log, &config);
}

void replica_config_changed(struct replica_manager *m, const struct meta_image *image,
                            enum meta_resource type, struct slice name)
{
    struct config_scope scope = {m->options.statics, image, m->options.node_id};
    if (type == META_RESOURCE_BROKER) {
        replica_each(m, config_partition, &scope);
        return;
    }
    const struct meta_topic *topic = meta_topic(image, name);
    int32_t count = topic ? meta_topic_partitions_count(topic) : 0;
    for (int32_t i = 0; i < count; i++) {
        struct partition *p = replica_find(m, topic->id, i);
        if (p) { config_partition(&scope, p); }
        partition_unref(p);
    }
}

static void stop_partition(void *ctx, struct partition *p)
{
    (void)ctx;
    if (partition_state(p) == PARTITION_ONLINE) { partition_end(p, PARTITION_STOPPING); }
}

void replica_stop_partitions(struct replica_manager *m)
{
    replica_each(m, stop_partition, NULL);
}

void replica_flush(struct replica_manager *m)
{
    for (size_t i = 0; i < m->dirs_count; i++) {
        err_ignore(logdir_flush(m->dirs[i]), "an offline directory was reported by on_offline");
    }
}

void replica_destroy(struct replica_manager *m, bool is_clean, int64_t broker_epoch)
{
    if (!m) { return; }
    /* From here on callbacks of the directories find nobody. */
    sys_mutex_lock(&m->lock);
    struct map table = m->table;
    map_init(&m->table);
    sys_mutex_unlock(&m->lock);
    for (size_t i = 0; i < table.count; i++) {
        partition_unref(table.entries[i].value);
    }
    map_fini(&table);
    for (size_t i = 0; i < m->dirs_count; i++) {
        logdir_close(m->dirs[i], &(struct logdir_close_options){is_clean, broker_epoch});
    }
    map_fini(&m->table);
    purg_destroy(m->produce);
    purg_destroy(m->fetch);
    sys_mutex_fini(&m->lock);
    mem_free(m);
}

/* ---- shared parts ---- */

size_t replica_partitions_count(struct replica_manager *m)
{
    sys_mutex_lock(&m->lock);
    size_t count = m->table.count;
    sys_mutex_unlock(&m->lock);
    return count;
}

struct purgatory *replica_produce_purgatory(struct replica_manager *m)
{
    return m->produce;
}

struct purgatory *replica_fetch_purgatory(struct replica_manager *m)
{
    return m->fetch;
}

size_t replica_dirs_count(const struct replica_manager *m)
{
    return m->dirs_count;
}

struct logdir *replica_dir(const struct replica_manager *m, size_t index)
{
    return m->dirs[index];
}
