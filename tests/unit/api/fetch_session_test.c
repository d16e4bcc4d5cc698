/* fetch_session_test.c - what a session remembers, which epochs it takes, and who makes room. */
#include "api/fetch_session.h"
#include "base/check.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define VERSION 12 /* topics by name; 13 and later by id */

struct fixture {
    struct sys *sys;
    struct fetch_sessions *all;
    struct arena arena;
    struct fetch_context context;
    uint64_t now_ns;
    bool out_of_memory;
    bool has_no_room;
    size_t wants_most; /* as foretold */
};

static int setup(void **state)
{
    struct fixture *f = mem_new(struct fixture);
    assert_non_null(f);
    f->sys = sys_create();
    f->all = fetch_sessions_create(f->sys, 2);
    assert_non_null(f->all);
    arena_init(&f->arena, 1024, 1u << 20);
    f->now_ns = 1;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    fetch_sessions_destroy(f->all);
    fetch_sessions_destroy(NULL);
    arena_fini(&f->arena);
    sys_destroy(f->sys);
    mem_free(f);
    return 0;
}

/* A request for partitions first to first + count - 1 of "t", each from its index as offset. */
static enum kafka_error ask(struct fixture *f, int16_t version, int32_t id, int32_t epoch,
                            int32_t first, size_t count)
{
    struct fetch_request m;
    struct fetch_request_fetch_topic t;
    struct fetch_request_fetch_partition p[8];
    assert_true(count <= 8);
    fetch_request_init(&m);
    fetch_request_fetch_topic_init(&t);
    t.topic = version >= 13 ? SLICE_NULL : SLICE_LIT("t");
    if (version >= 13) { t.topic_id.b[0] = 1; }
    for (size_t i = 0; i < count; i++) {
        fetch_request_fetch_partition_init(&p[i]);
        p[i].partition = first + (int32_t)i;
        p[i].fetch_offset = p[i].partition;
        p[i].partition_max_bytes = 1000;
    }
    t.partitions = p;
    t.partitions_count = count;
    m.topics = &t;
    m.topics_count = count ? 1 : 0;
    m.session_id = id;
    m.session_epoch = epoch;
    f->wants_most = fetch_session_wants(f->all, &m);
    return fetch_session_begin(f->all, &m, version, f->now_ns, f->has_no_room ? NULL : &f->arena,
                               &f->context, &f->out_of_memory);
}

static enum kafka_error forget(struct fixture *f, int32_t id, int32_t epoch, int32_t partition)
{
    struct fetch_request m;
    struct fetch_request_forgotten_topic t = {
        .topic = SLICE_LIT("t"), .partitions = &partition, .partitions_count = 1};
    fetch_request_init(&m);
    m.forgotten_topics_data = &t;
    m.forgotten_topics_data_count = 1;
    m.session_id = id;
    m.session_epoch = epoch;
    return fetch_session_begin(f->all, &m, VERSION, f->now_ns, &f->arena, &f->context,
                               &f->out_of_memory);
}

static int32_t open_session(struct fixture *f, int32_t first, size_t count)
{
    assert_int_equal(ask(f, VERSION, 0, 0, first, count), KAFKA_NONE);
    return f->context.session_id;
}

/* "0 1 2": what is wanted, in order. */
static void expect_wants(struct fixture *f, const char *wanted)
{
    char text[128] = "";
    for (size_t i = 0; i < f->context.wants_count; i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "%s%d", i ? " " : "", f->context.wants[i].index);
    }
    assert_string_equal(text, wanted);
}

static bool sent(struct fixture *f, size_t index, struct fetch_sent s)
{
    return fetch_session_sent(f->all, &f->context, &f->context.wants[index], &s);
}

static void test_without_a_session_the_request_says_all(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(ask(f, VERSION, 0, -1, 3, 2), KAFKA_NONE);
    assert_int_equal(f->context.session_id, 0);
    assert_false(f->context.is_incremental);
    expect_wants(f, "3 4");
    assert_true(sent(f, 0, (struct fetch_sent){.hw = 5}));
    assert_int_equal(ask(f, 6, 9, 9, 0, 1), KAFKA_NONE); /* 6 knows no sessions */
    assert_int_equal(f->context.session_id, 0);
    assert_int_equal(fetch_sessions_count(f->all), 0);
}

static void test_without_room_nothing_is_listed_and_a_session_goes_on(void **state)
{
    struct fixture *f = *state;
    int32_t id = open_session(f, 0, 3);
    f->has_no_room = true;
    assert_int_equal(ask(f, VERSION, id, 1, 3, 1), KAFKA_NONE);
    assert_int_equal(f->context.session_id, id);
    assert_int_equal(f->context.wants_count, 0);
    assert_int_equal(ask(f, VERSION, 0, 0, 0, 3), KAFKA_NONE); /* none is begun */
    assert_int_equal(f->context.session_id, 0);
    assert_int_equal(f->context.wants_count, 0);
    assert_int_equal(fetch_sessions_count(f->all), 1);
    f->has_no_room = false;
    assert_int_equal(ask(f, VERSION, id, 2, 0, 0), KAFKA_NONE);
    expect_wants(f, "0 1 2 3"); /* what was asked meanwhile is not lost */
    assert_int_equal(f->wants_most, 4);
}

static void test_a_session_remembers_what_is_not_named_again(void **state)
{
    struct fixture *f = *state;
    int32_t id = open_session(f, 0, 3);
    assert_true(id > 0);
    assert_false(f->context.is_incremental);
    assert_int_equal(ask(f, VERSION, id, 1, 0, 0), KAFKA_NONE);
    assert_true(f->context.is_incremental);
    assert_int_equal(f->context.session_id, id);
    expect_wants(f, "0 1 2");
    assert_true(slice_eq_str(f->context.wants[2].topic, "t"));
    assert_int_equal(ask(f, VERSION, id, 2, 5, 2), KAFKA_NONE); /* two more */
    expect_wants(f, "0 1 2 5 6");
    assert_int_equal(forget(f, id, 3, 1), KAFKA_NONE);
    expect_wants(f, "0 2 5 6");
    assert_int_equal(forget(f, id, 4, 99), KAFKA_NONE); /* never was there */
    expect_wants(f, "0 2 5 6");
}

/* [FS-1] */
static void test_epochs_rise_one_by_one(void **state)
{
    struct fixture *f = *state;
    int32_t id = open_session(f, 0, 1);
    assert_int_equal(ask(f, VERSION, id, 2, 0, 0), KAFKA_INVALID_FETCH_SESSION_EPOCH);
    assert_int_equal(ask(f, VERSION, id, 1, 0, 0), KAFKA_NONE);
    assert_int_equal(ask(f, VERSION, id, 1, 0, 0), KAFKA_INVALID_FETCH_SESSION_EPOCH);
    assert_int_equal(ask(f, VERSION, id, 2, 0, 0), KAFKA_NONE);
    assert_int_equal(ask(f, VERSION, id + 1, 1, 0, 0), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
    assert_int_equal(ask(f, 13, id, 3, 0, 0), KAFKA_FETCH_SESSION_TOPIC_ID_ERROR);
    assert_int_equal(ask(f, VERSION, id, 3, 0, 0), KAFKA_NONE); /* the refusals took no epoch */
}

/* 0 and -1 mean something else: an epoch that went round skips them. */
static void test_an_epoch_goes_round_to_1(void **state)
{
    (void)state;
    assert_int_equal(fetch_session_next_epoch(1), 2);
    assert_int_equal(fetch_session_next_epoch(INT32_MAX - 1), INT32_MAX);
    assert_int_equal(fetch_session_next_epoch(INT32_MAX), 1);
}

/* [FS-2] */
static void test_a_partition_is_in_a_session_once(void **state)
{
    struct fixture *f = *state;
    int32_t id = open_session(f, 0, 3);
    assert_int_equal(ask(f, VERSION, id, 1, 1, 3), KAFKA_NONE);
    expect_wants(f, "0 1 2 3");
}

/* Epochs other than 0 say that there was a session. */
static void test_a_session_that_never_was_is_not_found(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(ask(f, VERSION, 0, 1, 0, 1), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
    assert_int_equal(ask(f, VERSION, 77, 5, 0, 1), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
    assert_int_equal(ask(f, VERSION, 77, -1, 0, 1), KAFKA_NONE); /* ends nothing, reads once */
    assert_int_equal(f->context.session_id, 0);
    expect_wants(f, "0");
}

static void test_epoch_0_begins_anew_and_minus_1_ends(void **state)
{
    struct fixture *f = *state;
    int32_t id = open_session(f, 0, 2);
    assert_int_equal(ask(f, VERSION, id, 0, 7, 1), KAFKA_NONE);
    int32_t next = f->context.session_id;
    assert_true(next > 0 && next != id);
    expect_wants(f, "7");
    assert_int_equal(fetch_sessions_count(f->all), 1);
    assert_int_equal(ask(f, VERSION, next, -1, 7, 1), KAFKA_NONE);
    assert_int_equal(f->context.session_id, 0);
    assert_int_equal(fetch_sessions_count(f->all), 0);
    assert_int_equal(ask(f, VERSION, next, 1, 0, 0), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
}

static void test_an_incremental_answer_shows_what_changed(void **state)
{
    struct fixture *f = *state;
    int32_t id = open_session(f, 0, 1);
    assert_true(sent(f, 0, (struct fetch_sent){.hw = 5})); /* the first answer shows all */
    const struct {
        struct fetch_sent sent;
        bool is_shown;
    } cases[] = {
        {{.hw = 5}, false},
        {{.hw = 6}, true},
        {{.hw = 6}, false},
        {{.hw = 6, .log_start = 1}, true},
        {{.hw = 6, .log_start = 1, .has_records = true}, true},
        {{.hw = 6, .log_start = 1, .has_divergence = true}, true},
        {{.error = KAFKA_OFFSET_OUT_OF_RANGE, .hw = -1}, true},
        {{.error = KAFKA_OFFSET_OUT_OF_RANGE, .hw = -1}, true}, /* errors come each time */
        {{.hw = 6, .log_start = 1}, true}, /* it is well again */
        {{.hw = 6, .log_start = 1}, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(ask(f, VERSION, id, (int32_t)i + 1, 0, 0), KAFKA_NONE);
        assert_int_equal(sent(f, 0, cases[i].sent), cases[i].is_shown);
    }
}

static void test_who_got_records_comes_last_next_time(void **state)
{
    struct fixture *f = *state;
    int32_t id = open_session(f, 0, 3);
    sent(f, 0, (struct fetch_sent){.hw = 1, .has_records = true});
    assert_int_equal(ask(f, VERSION, id, 1, 0, 0), KAFKA_NONE);
    expect_wants(f, "1 2 0");
}

static void test_a_full_cache_gives_up_only_what_nobody_uses(void **state)
{
    struct fixture *f = *state;
    int32_t first = open_session(f, 0, 1), second = open_session(f, 1, 1);
    assert_true(first > 0 && second > 0);
    assert_int_equal(open_session(f, 2, 1), 0); /* no room: a fetch without a session */
    expect_wants(f, "2");
    f->now_ns += 60000 * SYS_MS;
    assert_int_equal(ask(f, VERSION, first, 1, 0, 0), KAFKA_NONE); /* in use */
    f->now_ns += 61000 * SYS_MS; /* more than two minutes since the second was used */
    assert_true(open_session(f, 2, 1) > 0);
    assert_int_equal(ask(f, VERSION, second, 1, 0, 0), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
    assert_int_equal(ask(f, VERSION, first, 2, 0, 0), KAFKA_NONE);
}

static void test_a_spent_arena_closes_the_session(void **state)
{
    struct fixture *f = *state;
    int32_t id = open_session(f, 0, 4);
    f->arena.bad = true; /* as when memory cannot be had */
    ask(f, VERSION, id, 1, 0, 0);
    assert_true(f->out_of_memory);
    assert_int_equal(fetch_sessions_count(f->all), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* A request for count partitions of "t" with an arena of its own. */
static int32_t ask_many(struct fixture *f, int32_t id, int32_t epoch, int32_t first, size_t count)
{
    struct fetch_request m;
    struct fetch_request_fetch_topic t;
    struct arena arena;
    arena_init(&arena, 1024, (size_t)1 << 30);
    fetch_request_init(&m);
    fetch_request_fetch_topic_init(&t);
    t.topic = SLICE_LIT("t");
    t.partitions = arena_array(&arena, count, sizeof *t.partitions);
    t.partitions_count = count;
    assert_non_null(t.partitions);
    for (size_t i = 0; i < count; i++) {
        fetch_request_fetch_partition_init(&t.partitions[i]);
        t.partitions[i].partition = first + (int32_t)i;
    }
    m.topics = &t;
    m.topics_count = 1;
    m.session_id = id;
    m.session_epoch = epoch;
    assert_int_equal(
        fetch_session_begin(f->all, &m, VERSION, f->now_ns, &arena, &f->context, &f->out_of_memory),
        KAFKA_NONE);
    arena_fini(&arena);
    return f->context.session_id;
}

static void test_partitions_are_bounded_in_one_session_and_in_all(void **state)
{
    (void)state;
    struct fixture f = {.sys = sys_create(), .now_ns = 1};
    f.all = fetch_sessions_create(f.sys, 1000);
    assert_non_null(f.all);
    assert_int_equal(ask_many(&f, 0, 0, 0, FETCH_SESSION_PARTITIONS_MAX + 1), 0);
    assert_false(f.out_of_memory); /* it fetches without a session */
    assert_int_equal(fetch_sessions_partitions(f.all), 0);
    int32_t id = 0;
    size_t full = FETCH_SESSIONS_PARTITIONS_MAX / FETCH_SESSION_PARTITIONS_MAX;
    for (size_t i = 0; i < full; i++) {
        id = ask_many(&f, 0, 0, 0, FETCH_SESSION_PARTITIONS_MAX);
        assert_int_not_equal(id, 0);
    }
    assert_int_equal(fetch_sessions_partitions(f.all), FETCH_SESSIONS_PARTITIONS_MAX);
    assert_int_equal(ask_many(&f, 0, 0, 0, 1), 0); /* nobody makes room */
    ask_many(&f, id, 1, (int32_t)FETCH_SESSION_PARTITIONS_MAX, 1);
    assert_true(f.out_of_memory); /* one that grows too large is closed */
    assert_int_equal(fetch_sessions_count(f.all), full - 1);
    assert_int_not_equal(ask_many(&f, 0, 0, 0, 1), 0);
    f.now_ns += (uint64_t)121000 * SYS_MS; /* idle ones make room */
    for (size_t i = 0; i < 2; i++) {
        assert_int_not_equal(ask_many(&f, 0, 0, 0, FETCH_SESSION_PARTITIONS_MAX), 0);
    }
    fetch_sessions_destroy(f.all);
    sys_destroy(f.sys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_without_a_session_the_request_says_all),
        CASE(test_without_room_nothing_is_listed_and_a_session_goes_on),
        CASE(test_a_session_remembers_what_is_not_named_again),
        CASE(test_epochs_rise_one_by_one),
        CASE(test_an_epoch_goes_round_to_1),
        CASE(test_a_partition_is_in_a_session_once),
        CASE(test_a_session_that_never_was_is_not_found),
        CASE(test_epoch_0_begins_anew_and_minus_1_ends),
        CASE(test_an_incremental_answer_shows_what_changed),
        CASE(test_who_got_records_comes_last_next_time),
        CASE(test_a_full_cache_gives_up_only_what_nobody_uses),
        CASE(test_a_spent_arena_closes_the_session),
        cmocka_unit_test(test_partitions_are_bounded_in_one_session_and_in_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
