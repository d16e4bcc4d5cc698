/* model_test.c - random schedules of everything at once against a plain model, in virtual time.
 *
 * The model is an array: which operation is parked, on what, until when. After each move it is
 * compared with the library: who ended, why, when, how often, and what the counters say. Every
 * other schedule is driven: each owner steps exactly when it asked to, and the model says which
 * operation must expire next, within a tick, as a list sorted by deadline would. */
#include "purg_test.h"

#define OPS 400
#define KEYS 40
#define KEYS_PER_OP 5
#define OWNERS 2
#ifdef __SANITIZE_THREAD__ /* it has nothing to find here: one thread */
#define MOVES 3000
#else
#define MOVES 30000
#endif
#define TICK_NS 1000u

enum phase { FREE, PARKED, ENDED };

struct model_op {
    struct purg_op op; /* first */
    struct purg_watch_node nodes[KEYS_PER_OP];
    uint64_t keys[KEYS_PER_OP];
    size_t keys_count;
    size_t owner;
    uint64_t deadline_ns;
    uint64_t target; /* complete when the clock of events of its first key reaches it */
    enum phase phase;
    enum purg_reason reason; /* expected when ENDED */
};

struct model {
    struct test_env env;
    struct purgatory *purgatory;
    struct purg_owner *owners[OWNERS];
    struct model_op ops[OPS];
    uint64_t events[KEYS]; /* happened so far */
    uint64_t now_ns;
    uint64_t expirations;
    uint64_t seed;
    uint64_t expired_tick_ns; /* of what expired last, rounded up */
    bool is_stepping;
    bool is_driven;
};

static struct model m;

static uint64_t below(uint64_t limit)
{
    return test_random(&m.seed) % limit;
}

static struct purg_key key_of(uint64_t number)
{
    return (struct purg_key){.hi = number, .lo = 1, .sub = number};
}

static bool op_try(struct purg_op *op)
{
    const struct model_op *it = (struct model_op *)(void *)op;
    assert_int_equal(m.env.locks_held, 0);
    return m.events[it->keys[0]] >= it->target;
}

static uint64_t tick_up(uint64_t ns)
{
    return (ns + TICK_NS - 1) / TICK_NS * TICK_NS;
}

static void op_complete(struct purg_op *op, enum purg_reason reason)
{
    struct model_op *it = (struct model_op *)(void *)op;
    assert_true(m.is_stepping);
    if (reason == PURG_EXPIRED) { /* nobody else said so: then it is due, and was parked */
        assert_int_equal(it->phase, PARKED);
        assert_true(it->deadline_ns <= m.now_ns); /* never early */
        if (m.is_driven) {
            assert_true(m.now_ns - it->deadline_ns < TICK_NS);
            assert_true(tick_up(it->deadline_ns) >= m.expired_tick_ns); /* in order */
            m.expired_tick_ns = tick_up(it->deadline_ns);
        }
        m.expirations++;
    } else {
        assert_int_equal(it->phase, ENDED); /* once */
        assert_int_equal(it->reason, reason);
    }
    it->phase = FREE;
}

static const struct purg_op_type op_type = {"model", op_try, op_complete};

static bool watches(const struct model_op *it, uint64_t key)
{
    for (size_t i = 0; i < it->keys_count; i++) {
        if (it->keys[i] == key) { return true; }
    }
    return false;
}

static struct purg_owner *some_self(void)
{
    uint64_t i = below(OWNERS + 1);
    return i < OWNERS ? m.owners[i] : NULL;
}

static void move_park(struct model_op *it)
{
    struct purg_key keys[KEYS_PER_OP];
    it->keys_count = 1 + below(KEYS_PER_OP);
    for (size_t i = 0; i < it->keys_count; i++) {
        it->keys[i] = below(KEYS); /* the same one twice is allowed */
        keys[i] = key_of(it->keys[i]);
    }
    it->owner = below(OWNERS);
    it->target = m.events[it->keys[0]] + below(4);
    uint64_t delay_ns = below((uint64_t)1 << (1 + below(26)));
    it->deadline_ns = below(16) == 0 ? PURG_NEVER : m.now_ns + delay_ns;
    purg_op_init(&it->op, &op_type, m.owners[it->owner]);
    enum purg_outcome outcome = purg_try_complete_else_watch(
        m.purgatory, some_self(), &it->op, it->nodes, keys, it->keys_count, it->deadline_ns);
    bool is_complete = m.events[it->keys[0]] >= it->target;
    assert_int_equal(outcome, is_complete ? PURG_DONE : PURG_PARKED);
    it->phase = is_complete ? FREE : PARKED;
}

/* What an event of a key has to end now. */
static size_t end_by_event(uint64_t key)
{
    size_t count = 0;
    for (size_t i = 0; i < OPS; i++) {
        struct model_op *it = &m.ops[i];
        if (it->phase == PARKED && watches(it, key) && m.events[it->keys[0]] >= it->target) {
            it->phase = ENDED;
            it->reason = PURG_EVENT;
            count++;
        }
    }
    return count;
}

static void move_event(void)
{
    uint64_t key = below(KEYS);
    m.events[key] += below(2);
    size_t count = end_by_event(key);
    assert_int_equal(purg_check(m.purgatory, some_self(), key_of(key)), count);
}

static void move_events(void)
{
    struct purg_key keys[20];
    size_t keys_count = below(20);
    uint64_t numbers[20];
    for (size_t i = 0; i < keys_count; i++) {
        numbers[i] = below(KEYS);
        m.events[numbers[i]] += below(2);
        keys[i] = key_of(numbers[i]);
    }
    size_t count = 0;
    for (size_t i = 0; i < keys_count; i++) { /* after all of them have come */
        count += end_by_event(numbers[i]);
    }
    assert_int_equal(purg_check_many(m.purgatory, some_self(), keys, keys_count), count);
}

static void move_cancel_key(void)
{
    uint64_t key = below(KEYS);
    size_t count = 0;
    for (size_t i = 0; i < OPS; i++) {
        if (m.ops[i].phase == PARKED && watches(&m.ops[i], key)) {
            m.ops[i].phase = ENDED;
            m.ops[i].reason = PURG_CANCELLED;
            count++;
        }
    }
    assert_int_equal(purg_cancel_key(m.purgatory, some_self(), key_of(key), PURG_CANCELLED), count);
}

static void move_cancel(struct model_op *it)
{
    assert_int_equal(purg_op_is_parked(&it->op), it->phase == PARKED);
    assert_int_equal(purg_op_cancel(&it->op, some_self(), PURG_CANCELLED), it->phase == PARKED);
    if (it->phase == PARKED) {
        it->phase = ENDED;
        it->reason = PURG_CANCELLED;
    }
}

/* One owner's turn: afterwards nothing of it is ended or due. */
static void move_step(size_t owner)
{
    m.is_stepping = true;
    uint64_t next_ns;
    do {
        next_ns = purg_owner_step(m.owners[owner], m.now_ns);
    } while (next_ns == 0);
    m.is_stepping = false;
    size_t count = 0;
    for (size_t i = 0; i < OPS; i++) {
        const struct model_op *it = &m.ops[i];
        if (it->owner != owner || it->phase == FREE) { continue; }
        count++;
        assert_int_equal(it->phase, PARKED);
        if (it->deadline_ns != PURG_NEVER) {
            assert_true(tick_up(it->deadline_ns) > m.now_ns); /* late by less than a tick */
            assert_true(next_ns <= tick_up(it->deadline_ns));
        }
    }
    assert_int_equal(purg_owner_count(m.owners[owner]), count);
    assert_int_equal(purg_owner_is_idle(m.owners[owner]), count == 0);
    assert_int_equal(purg_owner_next_ns(m.owners[owner]), next_ns);
}

/* The first deadline of an owner's operations, rounded up. */
static uint64_t first_due(size_t owner)
{
    uint64_t first_ns = PURG_NEVER;
    for (size_t i = 0; i < OPS; i++) {
        const struct model_op *it = &m.ops[i];
        if (it->owner == owner && it->phase == PARKED && it->deadline_ns != PURG_NEVER &&
            tick_up(it->deadline_ns) < first_ns) {
            first_ns = tick_up(it->deadline_ns);
        }
    }
    return first_ns;
}

/* Lets time pass up to 'target_ns', with each step when it is asked for. */
static void drive(uint64_t target_ns)
{
    for (;;) {
        size_t owner = 0;
        uint64_t next_ns = PURG_NEVER;
        for (size_t i = 0; i < OWNERS; i++) {
            uint64_t own_ns = purg_owner_next_ns(m.owners[i]);
            if (own_ns < next_ns) {
                next_ns = own_ns;
                owner = i;
            }
        }
        if (next_ns > target_ns) { return; }
        m.now_ns = next_ns > m.now_ns ? next_ns : m.now_ns;
        uint64_t due_ns = first_due(owner);
        uint64_t before = m.expirations;
        move_step(owner);
        assert_int_equal(m.expirations > before, due_ns <= m.now_ns);
    }
}

static void check_counters(void)
{
    size_t size = 0;
    size_t delayed = 0;
    for (size_t i = 0; i < OPS; i++) {
        if (m.ops[i].phase == PARKED) {
            size += m.ops[i].keys_count;
            delayed++;
        }
    }
    assert_int_equal(purg_size(m.purgatory), size);
    assert_int_equal(purg_delayed(m.purgatory), delayed);
    assert_int_equal(purg_expirations(m.purgatory), m.expirations);
}

static void move(void)
{
    struct model_op *it = &m.ops[below(OPS)];
    switch (below(10)) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (it->phase == FREE) { move_park(it); }
        break;
    case 4:
    case 5:
        move_event();
        break;
    case 6:
        move_events();
        break;
    case 7:
        move_cancel(it);
        break;
    case 8:
        if (below(8) == 0) { move_cancel_key(); }
        break;
    default: {
        uint64_t target_ns = m.now_ns + below((uint64_t)1 << below(22));
        if (m.is_driven) { drive(target_ns); }
        m.now_ns = target_ns;
        move_step(below(OWNERS));
    }
    }
    check_counters();
}

static uint64_t hash_all_alike(struct purg_key key)
{
    return key.lo;
}

static void run(uint64_t seed, struct purg_options options, size_t tables_max)
{
    memset(&m, 0, sizeof m);
    m.seed = seed;
    m.is_driven = seed % 2 == 0;
    struct purg_env env = test_env_table(&m.env);
    m.purgatory = purg_create(&env, &options);
    assert_non_null(m.purgatory);
    for (size_t i = 0; i < OWNERS; i++) {
        m.owners[i] = purg_owner_create(
            &env, &(struct purg_owner_options){.tick_ns = TICK_NS, .slots = 16, .step_max = 7});
        assert_non_null(m.owners[i]);
    }
    m.env.allocs_left = tables_max;
    for (size_t i = 0; i < OPS; i++) {
        purg_op_init(&m.ops[i].op, &op_type, m.owners[0]);
    }
    for (int i = 0; i < MOVES; i++) {
        move();
    }
    for (size_t i = 0; i < OPS; i++) {
        if (m.ops[i].phase == PARKED) {
            m.ops[i].phase = ENDED;
            m.ops[i].reason = PURG_SHUTDOWN;
        }
    }
    for (size_t i = 0; i < OWNERS; i++) {
        purg_owner_shutdown(m.owners[i]);
        move_step(i);
        assert_true(purg_owner_is_idle(m.owners[i]));
        purg_owner_destroy(m.owners[i]);
    }
    check_counters();
    purg_destroy(m.purgatory);
    assert_int_equal(m.env.bytes_used, 0);
}

static void test_random_schedules_agree_with_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        run(seed, (struct purg_options){.shards = 1u << (seed % 4)}, SIZE_MAX);
    }
}

static void test_keys_that_collide_are_told_apart(void **state)
{
    (void)state;
    run(101, (struct purg_options){.shards = 4, .hash = hash_all_alike}, SIZE_MAX);
}

/* No table can grow, or only the first ones. */
static void test_parking_needs_no_memory(void **state)
{
    (void)state;
    run(201, (struct purg_options){.shards = 1}, 0);
    run(202, (struct purg_options){.shards = 1}, 2);
}

/* Case C25: operations over many keys of which one is busy. Where completed ones stayed linked
 * under the quiet keys, memory would rise and the count would not return to zero. */
#define QUIET_KEYS 500
#define WIDE_OPS 20
#define ROUNDS 100

struct wide_op {
    struct purg_op op; /* first */
    struct purg_watch_node nodes[QUIET_KEYS];
    size_t completions;
};

static bool wide_try(struct purg_op *op)
{
    (void)op;
    return m.events[0] % 2 == 1;
}

static void wide_complete(struct purg_op *op, enum purg_reason reason)
{
    (void)reason;
    ((struct wide_op *)(void *)op)->completions++;
}

static const struct purg_op_type wide_type = {"wide", wide_try, wide_complete};

/* One round: all are parked, and end in the way that is this round's. */
static void wide_round(struct wide_op *ops, const struct purg_key *keys, size_t round)
{
    for (size_t i = 0; i < WIDE_OPS; i++) {
        purg_op_init(&ops[i].op, &wide_type, m.owners[0]);
        assert_int_equal(purg_try_complete_else_watch(m.purgatory, m.owners[0], &ops[i].op,
                                                      ops[i].nodes, keys, QUIET_KEYS,
                                                      m.now_ns + TICK_NS),
                         PURG_PARKED);
    }
    assert_int_equal(purg_size(m.purgatory), WIDE_OPS * QUIET_KEYS);
    switch (round % 4) {
    case 0:
        m.events[0]++;
        assert_int_equal(purg_check(m.purgatory, m.owners[0], keys[0]), WIDE_OPS);
        m.events[0]++;
        break;
    case 1:
        assert_int_equal(purg_cancel_key(m.purgatory, NULL, keys[round], PURG_CANCELLED), WIDE_OPS);
        break;
    case 2:
        for (size_t i = 0; i < WIDE_OPS; i++) {
            assert_true(purg_op_cancel(&ops[i].op, m.owners[0], PURG_CANCELLED));
        }
        break;
    default:
        m.now_ns += 2 * TICK_NS; /* all expire */
    }
    if (round % 4 != 3) { assert_int_equal(purg_size(m.purgatory), 0); /* before any step */ }
    purg_owner_step(m.owners[0], m.now_ns);
    assert_int_equal(purg_size(m.purgatory), 0);
    assert_int_equal(purg_delayed(m.purgatory), 0);
    assert_true(purg_owner_is_idle(m.owners[0]));
}

static void test_completed_operations_leave_nothing_under_quiet_keys_c25(void **state)
{
    (void)state;
    static struct wide_op ops[WIDE_OPS];
    static struct purg_key keys[QUIET_KEYS];
    memset(&m, 0, sizeof m);
    struct purg_env env = test_env_table(&m.env);
    for (size_t i = 0; i < QUIET_KEYS; i++) {
        keys[i] = key_of(i);
    }
    m.purgatory = purg_create(&env, &(struct purg_options){.shards = 16});
    m.owners[0] = purg_owner_create(&env, &(struct purg_owner_options){.tick_ns = TICK_NS});
    assert_non_null(m.purgatory);
    assert_non_null(m.owners[0]);
    size_t bytes = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        wide_round(ops, keys, round);
        if (round == 0) { bytes = m.env.bytes_used; }
        assert_int_equal(m.env.bytes_used, bytes);
    }
    for (size_t i = 0; i < WIDE_OPS; i++) {
        assert_int_equal(ops[i].completions, ROUNDS);
    }
    assert_int_equal(purg_expirations(m.purgatory), WIDE_OPS * ROUNDS / 4);
    purg_owner_destroy(m.owners[0]);
    purg_destroy(m.purgatory);
    assert_int_equal(m.env.bytes_used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_schedules_agree_with_the_model),
        cmocka_unit_test(test_keys_that_collide_are_told_apart),
        cmocka_unit_test(test_parking_needs_no_memory),
        cmocka_unit_test(test_completed_operations_leave_nothing_under_quiet_keys_c25),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
