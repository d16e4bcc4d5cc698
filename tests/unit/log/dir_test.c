/* dir_test.c - a data directory: identity, creation and deletion, clean and unclean stops,
 * flushing, retention, idle logs, failure. */
#include "fixture.h"

#include <sys/stat.h>

static bool no_removals(struct fixture *f)
{
    sys_mutex_lock(&f->dir->keeper.lock);
    bool none = list_is_empty(&f->dir->keeper.removals);
    sys_mutex_unlock(&f->dir->keeper.lock);
    return none;
}

/* Waits for a condition that another task brings about. */
#define WAIT_FOR(cond)                                                                             \
    do {                                                                                           \
        for (int i_ = 0; i_ < 2000 && !(cond); i_++) {                                             \
            usleep(1000);                                                                          \
        }                                                                                          \
        assert_true(cond);                                                                         \
    } while (0)

/* C77 */
static void test_names_that_leave_the_directory_are_refused(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    char longest[251];
    memset(longest, 'a', sizeof longest);
    longest[250] = '\0';
    const char *const bad[] = {"", ".", "..", "a b", "a/b", "../x", "\xc3\xbc", longest};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct log *log = NULL;
        struct logdir_create_options o = {.topic = bad[i], .config = f->options.config};
        assert_int_equal(logdir_create_log(f->dir, &o, &log), ERR_INVALID);
        assert_null(log);
    }
    longest[249] = '\0';
    struct log *log = fixture_create(f, longest);
    fixture_fill(f, log, 3);
    assert_int_equal(logdir_delete_log(f->dir, log), ERR_OK);
    log_unref(log);
    log = fixture_create(f, "a.b_c-1");
    struct logdir_create_options o = {.topic = "a.b_c-1", .config = f->options.config};
    struct log *again = NULL;
    assert_int_equal(logdir_create_log(f->dir, &o, &again), ERR_EXISTS);
    log_unref(log);
    char topic[LOG_TOPIC_NAME_LEN_MAX + 1];
    int32_t partition = 0;
    assert_true(log_parse_dir_name("a-b-12", topic, &partition));
    assert_string_equal(topic, "a-b");
    assert_int_equal(partition, 12);
    assert_false(log_parse_dir_name("a-012", topic, &partition));
    assert_false(log_parse_dir_name("a-99999999999", topic, &partition));
    assert_false(log_parse_dir_name("a-", topic, &partition));
    assert_false(log_parse_dir_name("-1", topic, &partition));
    assert_false(log_parse_dir_name("x-1.0123-delete", topic, &partition));
}

static void test_a_directory_belongs_to_one_process_cluster_and_node(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct logdir *other = NULL;
    struct logdir_options o = f->options;
    o.path = f->path;
    o.cluster_id = "cluster-of-tests";
    assert_int_equal(logdir_open(f->sys, &o, &other), ERR_BUSY);
    struct uuid id = f->dir->identity.directory_id;
    assert_string_equal(f->dir->identity.cluster_id, "cluster-of-tests");
    fixture_close(f, true);
    o.cluster_id = "another";
    assert_int_equal(logdir_open(f->sys, &o, &other), ERR_INVALID);
    o.cluster_id = "cluster-of-tests";
    o.node_id = 2;
    assert_int_equal(logdir_open(f->sys, &o, &other), ERR_INVALID);
    struct logdir_identity found;
    assert_int_equal(logdir_identity(f->sys, f->path, &found), ERR_OK);
    assert_int_equal(found.node_id, 1);
    assert_true(uuid_eq(found.directory_id, id));
    fixture_shell("echo nonsense > '%s/meta.properties'", f->path);
    o.node_id = 1;
    assert_int_equal(logdir_open(f->sys, &o, &other), ERR_INVALID);
    assert_null(other);
}

static void test_a_clean_stop_is_read_from_the_manifest_alone(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 3000;
    fixture_open(f);
    for (int t = 0; t < 20; t++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", t);
        struct log *log = fixture_create(f, name);
        for (int i = 0; i < t * 5; i++) {
            fixture_append(
                f, log,
                (struct fixture_batch){
                    .count = 2, .leader_epoch = i / 10, .producer_id = t, .sequence = i * 2});
        }
        log_set_hw(log, log_leo(log));
        log_unref(log);
    }
    fixture_close(f, true);
    fixture_open(f);
    const struct logdir_load_stats *s = &f->dir->stats;
    assert_true(s->was_clean);
    assert_int_equal(s->broker_epoch, 7);
    assert_int_equal(s->logs_count, 20);
    assert_int_equal(s->logs_scanned_count, 0);
    for (int t = 0; t < 20; t++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", t);
        struct log *log = fixture_find(f, name);
        assert_null(log->warm); /* nothing was opened */
        assert_true(uuid_eq(log_topic_id(log), f->topic_id));
        assert_int_equal(log_leo(log), t * 10);
        assert_int_equal(log_synced(log), t * 10);
        assert_int_equal(log_hw(log), t * 10);
        assert_int_equal(fixture_read_all(log, 500), t * 10);
        if (t > 0) {
            struct fixture_batch b = {.count = 2, .producer_id = t, .sequence = (t * 5 - 1) * 2};
            assert_true(fixture_append(f, log, b).is_duplicate);
            b.sequence += 2;
            assert_int_equal(fixture_append(f, log, b).first_offset, t * 10);
        }
        log_unref(log);
    }
    /* [DIR-2]: a crash now is a crash. */
    fixture_close(f, false);
    fixture_open(f);
    assert_false(f->dir->stats.was_clean);
    struct log *log = fixture_find(f, "t3");
    assert_int_equal(log_leo(log), 32);
    log_unref(log);
}

static void test_files_that_changed_behind_the_manifest_are_noticed(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 20);
    uint64_t size = log->segments[0].size / 20;
    log_unref(log);
    fixture_close(f, true);
    fixture_shell("truncate -s -%llu '%s/t-0/00000000000000000000.log'",
                  (unsigned long long)size / 2, f->path);
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(log_leo(log), 20);
    struct log_slice s;
    assert_int_equal(fixture_read_at(log, 0, 100000, true, &s), ERR_OK);
    assert_int_equal(s.offset_next, 19);
    log_slice_release(&s);
    assert_int_equal(log_leo(log), 19);
    assert_int_equal(fixture_append(f, log, (struct fixture_batch){0}).first_offset, 19);
    log_unref(log);
}

static void test_group_policy_publishes_synced_after_a_sync(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_append(f, log, (struct fixture_batch){.count = 3});
    WAIT_FOR(atomic_load(&f->synced) == 3);
    assert_int_equal(log_synced(log), 3);
    const struct flusher *c = f->dir->flusher;
    assert_int_equal(c->file_syncs, 2); /* the segment's and partition.metadata's */
    assert_int_equal(c->dir_syncs, 2); /* the partition's and the one above: names count */
    assert_int_equal(c->fs_syncs, 0);
    fixture_append(f, log, (struct fixture_batch){.count = 3});
    WAIT_FOR(log_synced(log) == 6);
    assert_int_equal(c->file_syncs, 3);
    assert_int_equal(c->dir_syncs, 2);
    /* Many dirty files share one syncfs. */
    struct log *logs[16];
    for (int i = 0; i < 16; i++) {
        char name[16];
        snprintf(name, sizeof name, "u%d", i);
        logs[i] = fixture_create(f, name);
        fixture_append(f, logs[i], (struct fixture_batch){0});
    }
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(log_synced(logs[i]), 1);
        log_unref(logs[i]);
    }
    log_unref(log);
}

static void test_directories_of_one_device_share_a_flusher(void **state)
{
    struct fixture *f = *state, g;
    f->options.flush_policy = LOG_FLUSH_WINDOW; /* nothing is flushed before it is asked for */
    fixture_open(f);
    fixture_open_peer(f, &g);
    assert_ptr_equal(f->dir->flusher, g.dir->flusher);
    struct log *logs[8];
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        logs[i] = fixture_create(i % 2 ? f : &g, name);
    }
    for (int i = 0; i < 8; i++) {
        fixture_append(f, logs[i], (struct fixture_batch){.count = 2});
    }
    flusher_wait(g.dir->flusher);
    assert_int_equal(g.dir->flusher->flushes, 1); /* of both directories, by one syncfs */
    assert_int_equal(g.dir->flusher->fs_syncs, 1);
    assert_int_equal(g.dir->flusher->file_syncs, 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(log_synced(logs[i]), 2);
        log_unref(logs[i]);
    }
    assert_int_equal(atomic_load(&f->synced), 2);
    assert_int_equal(atomic_load(&g.synced), 2);
    WAIT_FOR(!marks_is_unsynced(&f->dir->marks) && !marks_has_pending(&f->dir->marks));
    WAIT_FOR(!marks_is_unsynced(&g.dir->marks) && !marks_has_pending(&g.dir->marks));
    /* One leaves; the other goes on and its flusher ends with it. */
    fixture_close(f, true);
    struct log *log = fixture_find(&g, "t0");
    fixture_append(f, log, (struct fixture_batch){.count = 2});
    assert_int_equal(logdir_flush(g.dir), ERR_OK);
    assert_int_equal(log_synced(log), 4);
    log_unref(log);
    fixture_close(&g, true);
    fixture_open(f);
    assert_true(f->dir->stats.was_clean);
    assert_int_equal(logdir_logs_count(f->dir), 4);
    fixture_open_peer(f, &g);
    assert_true(g.dir->stats.was_clean);
    assert_int_equal(logdir_logs_count(g.dir), 4);
    fixture_close(&g, false);
}

static void test_os_policy_leaves_syncing_to_rolls_and_stops(void **state)
{
    struct fixture *f = *state;
    f->options.flush_policy = LOG_FLUSH_OS;
    f->options.config.segment_bytes = 2000;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 5);
    flusher_wait(f->dir->flusher);
    assert_int_equal(log_synced(log), 0);
    fixture_fill(f, log, 20); /* rolls */
    WAIT_FOR(log_synced(log) > 0);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    assert_int_equal(log_synced(log), 20);
    log_unref(log);
}

static void test_window_policy_obeys_flush_messages(void **state)
{
    struct fixture *f = *state;
    f->options.flush_policy = LOG_FLUSH_WINDOW;
    f->options.config.flush_messages = 10;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 9);
    flusher_post(f->dir->flusher, NULL);
    assert_int_equal(f->dir->flusher->flushes, 0);
    fixture_fill(f, log, 10);
    WAIT_FOR(log_synced(log) == 10);
    struct log_config config = f->options.config;
    config.flush_messages = INT64_MAX;
    config.flush_ms = 1;
    log_set_config(log, &config);
    fixture_fill(f, log, 11);
    WAIT_FOR(log_synced(log) == 11);
    log_unref(log);
}

static void test_marks_reach_the_file_when_writing_stops(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 12);
    WAIT_FOR(log_synced(log) == 12);
    WAIT_FOR(!marks_has_pending(&f->dir->marks) && !marks_is_unsynced(&f->dir->marks));
    log_unref(log);
    fixture_close(f, false);
    struct map marks;
    assert_int_equal(marks_read(f->sys, f->path, &marks), ERR_OK);
    const struct mark_state *s = marks_state(&marks, f->topic_id, 0);
    assert_non_null(s);
    assert_int_equal(s->mark.offset, 12);
    marks_states_fini(&marks);
    /* The next crash finds the log folded and scans nothing. */
    fixture_open(f);
    assert_int_equal(f->dir->stats.logs_scanned_count, 1);
    fixture_close(f, false);
    fixture_open(f);
    assert_int_equal(f->dir->stats.logs_scanned_count, 0);
    log = fixture_find(f, "t");
    assert_int_equal(fixture_read_all(log, 1000), 12);
    log_unref(log);
}

/* C76 */
static void test_a_trimmed_start_survives_every_kind_of_stop(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    for (int i = 0; i < 10; i++) {
        fixture_append(f, log, (struct fixture_batch){.count = 10});
    }
    log_set_hw(log, 100);
    const int64_t to[] = {0, 35, 20, 35};
    const int64_t start[] = {0, 35, 35, 35};
    for (size_t i = 0; i < COUNT_OF(to); i++) {
        assert_int_equal(log_set_start(log, to[i]), ERR_OK);
        assert_int_equal(log_start_offset(log), start[i]);
    }
    assert_int_equal(log_set_start(log, 150), ERR_RANGE);
    for (int round = 0; round < 4; round++) {
        struct log_slice s;
        assert_int_equal(fixture_read_at(log, 35, 1, true, &s), ERR_OK);
        assert_int_equal(s.offset_first, 30);
        log_slice_release(&s);
        assert_int_equal(fixture_read_at(log, 30, 1, true, &s), ERR_RANGE);
        log_unref(log);
        fixture_close(f, round % 2);
        fixture_open(f);
        log = fixture_find(f, "t");
        assert_int_equal(log_start_offset(log), 35);
    }
    log_set_hw(log, 100);
    assert_int_equal(log_set_start(log, 100), ERR_OK);
    log_unref(log);
    fixture_close(f, false);
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(log_start_offset(log), 100);
    assert_int_equal(fixture_append(f, log, (struct fixture_batch){0}).first_offset, 100);
    log_unref(log);
}

static void test_retention_removes_whole_segments_below_the_high_watermark(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 1500;
    f->options.config.retention_bytes = 5000;
    f->options.config.file_delete_delay_ms = 0;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 100);
    uint32_t before = log->segments_count;
    size_t deleted = 0;
    assert_int_equal(log_retention_step(log, NOW_MS, &deleted), ERR_OK);
    assert_int_equal(deleted, 0); /* the high watermark is 0 */
    log_set_hw(log, 100);
    assert_int_equal(log_retention_step(log, NOW_MS, &deleted), ERR_OK);
    assert_true(deleted > 4);
    assert_int_equal(log->segments_count, before - deleted);
    assert_true(log_size_bytes(log) >= 5000 && log_size_bytes(log) < 6500);
    int64_t start = log_start_offset(log);
    assert_int_equal(start, log->segments[0].base);
    assert_int_equal(fixture_read_all(log, 1000), 100 - start);
    WAIT_FOR(no_removals(f));
    log_unref(log);
    fixture_close(f, false);
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(log_start_offset(log), start);
    log_unref(log);
}

/* C68 */
static void test_retention_by_time_takes_the_active_segment_too(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    struct log_config c = f->options.config;
    c.retention_ms = 3000;
    log_set_config(log, &c);
    fixture_append(f, log, (struct fixture_batch){.count = 5});
    log_set_hw(log, 5);
    size_t deleted = 0;
    assert_int_equal(log_retention_step(log, NOW_MS + 3000, &deleted), ERR_OK);
    assert_int_equal(deleted, 0);
    assert_int_equal(log_retention_step(log, NOW_MS + 3005, &deleted), ERR_OK);
    assert_int_equal(deleted, 1);
    assert_int_equal(log_start_offset(log), 5);
    assert_int_equal(log_leo(log), 5);
    assert_int_equal(fixture_append(f, log, (struct fixture_batch){.time = 1}).first_offset, 5);
    c.retention_ms = -1;
    c.retention_bytes = -1;
    log_set_config(log, &c);
    log_set_hw(log, 6);
    assert_int_equal(log_retention_step(log, NOW_MS, &deleted), ERR_OK);
    assert_int_equal(deleted, 0);
    c.retention_bytes = 0;
    log_set_config(log, &c);
    assert_int_equal(log_retention_step(log, NOW_MS, &deleted), ERR_OK);
    assert_int_equal(deleted, 0); /* only closed segments go by size */
    log_unref(log);
}

static void test_an_idle_log_keeps_no_descriptor_and_comes_back(void **state)
{
    struct fixture *f = *state;
    f->options.config.segment_bytes = 3000;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    for (int i = 0; i < 50; i++) {
        fixture_append(f, log,
                       (struct fixture_batch){.producer_id = 4, .sequence = i, .value_size = 80});
    }
    assert_int_equal(fixture_read_all(log, 100), 50);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    assert_false(log_idle_step(log)); /* it was used */
    assert_true(log_idle_step(log));
    assert_null(log->warm);
    for (uint32_t i = 0; i < log->segments_count; i++) {
        assert_null(log->segments[i].file);
        assert_null(log->segments[i].index_file);
    }
    assert_true(sizeof *log + log->segments_capacity * sizeof *log->segments <= 1200);
    struct log_read_args a = {.offset = 49, .offset_max = 50, .bytes_max = 1000, .min_one = true};
    struct log_slice s;
    assert_int_equal(log_read(log, &a, &s), ERR_AGAIN);
    assert_int_equal(fixture_read_all(log, 100), 50);
    struct fixture_batch b = {.producer_id = 4, .sequence = 49, .value_size = 80};
    assert_true(fixture_append(f, log, b).is_duplicate);
    b.sequence = 50;
    assert_int_equal(fixture_append(f, log, b).first_offset, 50);
    log_unref(log);
}

static void test_a_stray_log_is_kept_under_another_name(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 3);
    assert_int_equal(logdir_stray_log(f->dir, log), ERR_OK);
    log_unref(log);
    assert_null(logdir_find(f->dir, "t", 0));
    fixture_close(f, true);
    fixture_open(f);
    assert_int_equal(logdir_logs_count(f->dir), 0);
    fixture_shell("test -s '%s'/t-0.*-stray/00000000000000000000.log", f->path);
}

static void test_a_failed_directory_answers_offline_and_says_so_once(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 3);
    logdir_fail(f->dir, ERR_IO);
    assert_true(sys_wait_flag(f->sys, &f->offline, sys_mono_ns(f->sys) + 5000 * SYS_MS));
    struct log_append_result r = fixture_append(f, log, (struct fixture_batch){.expect_error = 1});
    assert_int_equal(r.err, ERR_OFFLINE);
    assert_int_equal(r.reject, LOG_REJECT_STORAGE);
    struct log_slice s;
    assert_int_equal(fixture_read_at(log, 0, 100, true, &s), ERR_OFFLINE);
    assert_int_equal(logdir_flush(f->dir), ERR_OFFLINE);
    log_unref(log);
    fixture_close(f, true); /* no marker is written */
    fixture_shell("test ! -e '%s/" LOGDIR_MARKER "'", f->path);
}

static void test_a_directory_without_partition_metadata_or_with_leftovers_opens(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 5);
    log_unref(log);
    fixture_close(f, false);
    fixture_shell("cd '%s' && rm t-0/partition.metadata && : > t-0/00000000000000000000.log.deleted"
                  " && mkdir -p x-1.abc-delete/ y-3.abc-stray lost+found && : > x-1.abc-delete/f",
                  f->path);
    fixture_open(f);
    assert_int_equal(logdir_logs_count(f->dir), 1);
    log = fixture_find(f, "t");
    assert_int_equal(log_leo(log), 5);
    assert_true(uuid_is_zero(log_topic_id(log)));
    WAIT_FOR(no_removals(f));
    log_unref(log);
    fixture_close(f, true);
    fixture_shell("test ! -e '%s/x-1.abc-delete' -a -e '%s/y-3.abc-stray'", f->path, f->path);
}

/* Whose records they are nobody knows: an empty log must not take their place. Nothing is changed,
 * the marks neither. */
static void test_a_damaged_partition_metadata_stops_the_start(void **state)
{
    static const char *const damages[] = {
        "sed -i 's/topic_id/topic-id/'", "sed -i 's/topic_id: ./topic_id: !/'", "truncate -s 40",
        "sed -i 's/topic_id: .*/topic_id: AAAAAAAAAAAAAAAAAAAAAA/'"};
    struct fixture *f = *state;
    fixture_open(f);
    struct log *log = fixture_create(f, "t");
    fixture_fill(f, log, 50);
    log_unref(log);
    assert_int_equal(logdir_flush(f->dir), ERR_OK);
    fixture_close(f, false);
    fixture_shell("cd '%s' && cp t-0/partition.metadata .. && cp synced-marks ..", f->path);
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        fixture_shell("cd '%s' && %s t-0/partition.metadata", f->path, damages[i]);
        f->options.path = f->path;
        assert_int_equal(logdir_open(f->sys, &f->options, &f->dir), ERR_MALFORMED);
        fixture_shell("cd '%s' && cmp synced-marks ../synced-marks", f->path);
        fixture_shell("cd '%s' && cp ../partition.metadata t-0", f->path);
    }
    fixture_open(f);
    log = fixture_find(f, "t");
    assert_int_equal(fixture_read_all(log, 1000), 50);
    log_unref(log);
    fixture_close(f, false);
    /* What a crash makes of one that was never synced. */
    for (int size = 0; size < 50; size += 44) {
        fixture_shell("cd '%s/t-0' && : > partition.metadata && truncate -s %d partition.metadata",
                      f->path, size);
        fixture_open(f);
        log = fixture_find(f, "t");
        assert_true(uuid_is_zero(log_topic_id(log)));
        log_unref(log);
        fixture_close(f, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        T(test_names_that_leave_the_directory_are_refused),
        T(test_a_directory_belongs_to_one_process_cluster_and_node),
        T(test_a_clean_stop_is_read_from_the_manifest_alone),
        T(test_files_that_changed_behind_the_manifest_are_noticed),
        T(test_group_policy_publishes_synced_after_a_sync),
        T(test_directories_of_one_device_share_a_flusher),
        T(test_os_policy_leaves_syncing_to_rolls_and_stops),
        T(test_window_policy_obeys_flush_messages),
        T(test_marks_reach_the_file_when_writing_stops),
        T(test_a_trimmed_start_survives_every_kind_of_stop),
        T(test_retention_removes_whole_segments_below_the_high_watermark),
        T(test_retention_by_time_takes_the_active_segment_too),
        T(test_an_idle_log_keeps_no_descriptor_and_comes_back),
        T(test_a_stray_log_is_kept_under_another_name),
        T(test_a_failed_directory_answers_offline_and_says_so_once),
        T(test_a_directory_without_partition_metadata_or_with_leftovers_opens),
        T(test_a_damaged_partition_metadata_stops_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
