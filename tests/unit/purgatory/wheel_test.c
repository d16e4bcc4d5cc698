/* wheel_test.c - the timing wheel against a sorted list, in virtual time. */
#include "purg_test.h"
#include "purgatory/wheel_int.h"

#define TIMERS_MAX 300
#ifdef __SANITIZE_THREAD__ /* it has nothing to find here: one thread */
#define STEPS 400
#else
#define STEPS 4000
#endif

struct entry {
    struct purg_timer timer; /* first: entry and timer are one address */
    uint64_t tick; /* when the oracle says */
    uint32_t fired; /* since it was added */
    bool is_listed;
    bool is_new; /* added by a callback of this advance, so perhaps for a tick that has passed */
};

/* The world of one property run: a wheel, and the sorted list that says what it must do. */
struct world {
    struct test_env env;
    struct purg_wheel wheel;
    struct entry entries[TIMERS_MAX];
    struct entry *sorted[TIMERS_MAX]; /* by tick */
    size_t sorted_count;
    uint64_t tick_ns;
    uint64_t now_ns;
    uint64_t start_tick; /* the wheel's when this advance began */
    uint64_t last_tick; /* of what fired in this advance */
    size_t added, removed; /* by callbacks of this advance */
    uint64_t seed;
};

static struct world *world_now; /* for callbacks */

static void oracle_remove(struct world *w, struct entry *entry)
{
    size_t i = 0;
    while (w->sorted[i] != entry) {
        i++;
    }
    w->sorted_count--;
    memmove(&w->sorted[i], &w->sorted[i + 1], (w->sorted_count - i) * sizeof w->sorted[0]);
    entry->is_listed = false;
}

static void oracle_add(struct world *w, struct entry *entry, uint64_t deadline_ns)
{
    entry->tick = deadline_ns / w->tick_ns + (deadline_ns % w->tick_ns != 0);
    size_t i = w->sorted_count++;
    while (i > 0 && w->sorted[i - 1]->tick > entry->tick) {
        w->sorted[i] = w->sorted[i - 1];
        i--;
    }
    w->sorted[i] = entry;
    entry->is_listed = true;
    entry->is_new = false;
    entry->fired = 0;
}

static struct entry *random_change(struct world *w);

static void on_due(struct purg_timer *timer, uint64_t now_ns)
{
    struct world *w = world_now;
    struct entry *entry = (struct entry *)(void *)timer;
    assert_int_equal(now_ns, w->now_ns);
    assert_true(entry->is_listed);
    assert_true(timer->deadline_ns <= w->now_ns); /* [WHL-1] never early */
    assert_false(purg_timer_is_added(timer));
    assert_int_equal(++entry->fired, 1); /* [WHL-3] */
    if (!entry->is_new) {
        assert_true(w->last_tick <= w->start_tick || entry->tick >= w->last_tick); /* in order */
        w->last_tick = entry->tick;
    }
    oracle_remove(w, entry);
    if (test_random(&w->seed) % 4) { return; }
    size_t before = w->sorted_count;
    struct entry *changed = random_change(w); /* perhaps another one that is due */
    if (w->sorted_count > before) {
        changed->is_new = true;
        w->added++;
    } else if (w->sorted_count < before) {
        w->removed++;
    }
}

/* From 0 to 2^62, all magnitudes alike. */
static uint64_t random_delay(struct world *w)
{
    uint64_t bits = test_random(&w->seed) % 63;
    return test_random(&w->seed) & (((uint64_t)1 << bits) - 1);
}

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX - 1 : a + b;
}

static void check_against_oracle(struct world *w)
{
    assert_int_equal(purg_wheel_count(&w->wheel), w->sorted_count);
    uint64_t next_ns = purg_wheel_next_ns(&w->wheel);
    uint64_t now_tick = w->now_ns / w->tick_ns;
    if (w->sorted_count == 0) {
        assert_true(next_ns == PURG_NEVER);
        return;
    }
    uint64_t tick = w->sorted[0]->tick;
    if (tick > UINT64_MAX / w->tick_ns) {
        assert_true(next_ns == PURG_NEVER); /* beyond the clock */
    } else if (tick <= now_tick) {
        assert_true(next_ns <= w->now_ns);
    } else {
        assert_true(next_ns > w->now_ns && next_ns <= tick * w->tick_ns); /* [WHL-2] */
    }
}

static void advance(struct world *w, uint64_t now_ns, size_t budget)
{
    w->now_ns = now_ns > w->now_ns ? now_ns : w->now_ns;
    w->start_tick = w->wheel.tick;
    w->last_tick = 0;
    w->added = w->removed = 0;
    for (size_t i = 0; i < w->sorted_count; i++) {
        w->sorted[i]->is_new = false;
    }
    size_t before = w->sorted_count;
    size_t fired = purg_wheel_advance(&w->wheel, w->now_ns, budget);
    assert_int_equal(before + w->added - w->removed - w->sorted_count, fired);
    if (fired < budget) { /* all that is due has fired */
        assert_true(w->sorted_count == 0 || w->sorted[0]->tick > w->now_ns / w->tick_ns);
        check_against_oracle(w);
    }
}

/* Adds a timer, or removes one; two in three are additions, as long as there are any to add. */
static struct entry *random_change(struct world *w)
{
    struct entry *entry = &w->entries[test_random(&w->seed) % TIMERS_MAX];
    if (test_random(&w->seed) % 3 == 0) {
        assert_int_equal(purg_timer_remove(&w->wheel, &entry->timer), entry->is_listed);
        if (entry->is_listed) { oracle_remove(w, entry); }
    } else if (!entry->is_listed) {
        uint64_t deadline_ns = saturating_add(w->now_ns, random_delay(w));
        if (test_random(&w->seed) % 16 == 0) { deadline_ns = w->now_ns / 2; /* past */ }
        purg_timer_add(&w->wheel, &entry->timer, deadline_ns);
        oracle_add(w, entry, deadline_ns);
    }
    return entry;
}

static void random_step(struct world *w)
{
    uint64_t next_ns;
    switch (test_random(&w->seed) % 10) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        random_change(w);
        break;
    case 6: /* exactly as the wheel asks, so nothing is late by a tick */
    case 7:
        next_ns = purg_wheel_next_ns(&w->wheel);
        if (next_ns != PURG_NEVER) { advance(w, next_ns, SIZE_MAX); }
        break;
    case 8:
        advance(w, saturating_add(w->now_ns, random_delay(w) >> 20), 1 + w->seed % 7);
        break;
    default:
        advance(w, saturating_add(w->now_ns, random_delay(w) >> (w->seed % 40)), SIZE_MAX);
    }
}

static void world_start(struct world *w, uint64_t seed)
{
    static const uint64_t ticks[] = {1, 7, 1000, 1000000, 1000003, 250000000};
    *w = (struct world){.seed = seed};
    struct purg_env env = test_env_table(&w->env);
    w->tick_ns = ticks[seed % (sizeof ticks / sizeof ticks[0])];
    w->now_ns = seed % 3 == 0 ? 0 : random_delay(w);
    struct purg_wheel_options options = {
        .tick_ns = w->tick_ns, .slots = 8u << (test_random(&w->seed) % 4), .start_ns = w->now_ns};
    assert_true(purg_wheel_init(&w->wheel, &env, &options));
    for (size_t i = 0; i < TIMERS_MAX; i++) {
        purg_timer_init(&w->entries[i].timer, on_due);
    }
    world_now = w;
}

static void world_end(struct world *w)
{
    size_t count = 0;
    while (purg_wheel_take_any(&w->wheel)) {
        count++;
    }
    assert_int_equal(count, w->sorted_count);
    assert_true(purg_wheel_next_ns(&w->wheel) == PURG_NEVER);
    purg_wheel_fini(&w->wheel);
    assert_int_equal(w->env.bytes_used, 0);
}

static void test_wheel_does_what_a_sorted_list_does(void **state)
{
    (void)state;
    static struct world w;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world_start(&w, seed);
        for (int i = 0; i < STEPS; i++) {
            random_step(&w);
        }
        /* And many at a time, so that slots of higher levels are full when they are moved. */
        for (int i = 0; i < STEPS; i++) {
            random_change(&w);
        }
        for (int i = 0; i < STEPS / 20; i++) {
            advance(&w, saturating_add(w.now_ns, random_delay(&w) >> 8), 1 + w.seed % 50);
        }
        world_end(&w);
    }
}

/* Every level there can be is used, and memory is gone as soon as the wheel is made. */
static void test_adding_needs_no_memory(void **state)
{
    (void)state;
    static struct world w;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        world_start(&w, seed);
        w.env.allocs_left = 0;
        for (int i = 0; i < STEPS; i++) {
            random_step(&w);
        }
        world_end(&w);
    }
}

static void check_tick_length(uint64_t tick_ns, uint64_t *seed)
{
    struct test_env env_state;
    struct purg_env env = test_env_table(&env_state);
    struct purg_wheel wheel;
    assert_true(purg_wheel_init(&wheel, &env, &(struct purg_wheel_options){.tick_ns = tick_ns}));
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t most = i < 100 ? PURG_WHEEL_NEAR_NS >> i % 62 : PURG_WHEEL_NEAR_NS - i;
        uint64_t whole = test_random(seed) % (most / tick_ns + 1) * tick_ns;
        const uint64_t times[] = {most, whole, whole + 1, whole > 0 ? whole - 1 : 0};
        for (size_t t = 0; t < 4 && tick_ns <= PURG_WHEEL_NEAR_NS; t++) {
            if (times[t] == 0 || times[t] > PURG_WHEEL_NEAR_NS) { continue; }
            uint64_t tick = times[t] / tick_ns + (times[t] % tick_ns != 0);
            assert_int_equal(purg_wheel_near_tick(&wheel, times[t]), tick);
        }
    }
    purg_wheel_fini(&wheel);
}

static void test_ticks_by_multiplication_are_exact(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (uint32_t bits = 0; bits < 64; bits++) {
        uint64_t power = (uint64_t)1 << bits;
        check_tick_length(power, &seed);
        check_tick_length(power + 1, &seed);
        check_tick_length(power > 1 ? power - 1 : 1, &seed);
        check_tick_length(power + test_random(&seed) % power, &seed);
    }
    check_tick_length(1000000, &seed);
    check_tick_length(UINT64_MAX, &seed);
}

static void test_list_of_a_deadline_is_where_its_timer_goes(void **state)
{
    (void)state;
    static struct world w;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        world_start(&w, seed);
        struct purg_timer *timer = &w.entries[0].timer;
        for (int i = 0; i < STEPS; i++) {
            uint64_t deadline_ns = saturating_add(w.now_ns, random_delay(&w));
            purg_timer_add(&w.wheel, timer, deadline_ns);
            purg_timer_prefetch(timer);
            if (deadline_ns <= PURG_WHEEL_NEAR_NS) {
                assert_ptr_equal(timer->link.next, purg_wheel_near_list(&w.wheel, deadline_ns));
            }
            assert_true(purg_timer_remove(&w.wheel, timer));
            advance(&w, saturating_add(w.now_ns, random_delay(&w) >> 20), SIZE_MAX);
        }
        world_end(&w);
    }
}

#define EVEN_PER_TICK 100
#define EVEN_TICKS 400

static void on_due_nothing(struct purg_timer *timer, uint64_t now_ns)
{
    assert_true(timer->deadline_ns <= now_ns);
}

/* At an even rate a slot of level 1 is empty when the clock comes to it, so no tick has to move
 * thousands of timers before it fires its own. */
static void test_slots_are_emptied_before_the_clock_comes_to_them(void **state)
{
    (void)state;
    static struct world w;
    static struct purg_timer timers[EVEN_TICKS * EVEN_PER_TICK];
    world_start(&w, 3); /* tick 1 ms, clock at 0 */
    uint64_t slots = (w.wheel.level_mask + 1) / 2;
    for (uint64_t i = 0; i < EVEN_TICKS * EVEN_PER_TICK; i++) {
        purg_timer_init(&timers[i], on_due_nothing);
        purg_timer_add(&w.wheel, &timers[i], (1 + i % EVEN_TICKS) * 1000000);
    }
    uint64_t slots_filled = 0;
    for (uint64_t tick = 1; tick <= EVEN_TICKS; tick++) {
        const struct purg_link *level = w.wheel.levels[1].slots;
        const struct purg_link *slot = &level[tick / slots & w.wheel.level_mask];
        if (tick % slots == 0) { assert_ptr_equal(slot, slot->next); }
        slot = &level[(tick / slots + 2) & w.wheel.level_mask];
        slots_filled += slot->next != slot;
        assert_int_equal(purg_wheel_advance(&w.wheel, tick * 1000000, SIZE_MAX), EVEN_PER_TICK);
    }
    assert_true(slots_filled > 0);
    world_end(&w);
}

static void test_timer_driven_by_next_fires_at_its_tick(void **state)
{
    (void)state;
    static struct world w;
    world_start(&w, 3); /* tick 1 ms, clock at 0 */
    assert_int_equal(w.tick_ns, 1000000);
    uint64_t deadline_ns = 7ull * 86400 * 1000000000 + 12345; /* a week: four levels up */
    purg_timer_add(&w.wheel, &w.entries[0].timer, deadline_ns);
    oracle_add(&w, &w.entries[0], deadline_ns);
    int turns = 0;
    while (w.sorted_count > 0) {
        advance(&w, purg_wheel_next_ns(&w.wheel), SIZE_MAX);
        assert_true(++turns <= 22);
    }
    assert_true(w.now_ns >= deadline_ns && w.now_ns - deadline_ns < 1000000);
    world_end(&w);
}

static void on_due_adds_again(struct purg_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    purg_timer_add(&world_now->wheel, timer, 0);
}

static void test_budget_bounds_a_timer_that_adds_itself_again(void **state)
{
    (void)state;
    static struct world w;
    world_start(&w, 3);
    struct purg_timer timer;
    purg_timer_init(&timer, on_due_adds_again);
    purg_timer_add(&w.wheel, &timer, 0);
    assert_int_equal(purg_wheel_advance(&w.wheel, 5, 9), 9);
    assert_int_equal(purg_wheel_next_ns(&w.wheel), 0);
    assert_true(purg_timer_remove(&w.wheel, &timer));
    assert_false(purg_timer_remove(&w.wheel, &timer));
    world_end(&w);
}

static void on_due_kills_neighbour(struct purg_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct purg_timer *pair = timer - (timer->deadline_ns & 1);
    assert_true(purg_timer_remove(&world_now->wheel, timer == pair ? pair + 1 : pair));
}

static void test_timer_removed_by_another_of_its_tick_does_not_fire(void **state)
{
    (void)state;
    static struct world w;
    world_start(&w, 3);
    struct purg_timer pair[2];
    for (uint64_t i = 0; i < 2; i++) {
        purg_timer_init(&pair[i], on_due_kills_neighbour);
        purg_timer_add(&w.wheel, &pair[i], 1999998 + i);
    }
    assert_int_equal(purg_wheel_advance(&w.wheel, 2000000, SIZE_MAX), 1);
    assert_int_equal(purg_wheel_count(&w.wheel), 0);
    world_end(&w);
}

static void test_never_and_unreachable_deadlines_do_not_fire(void **state)
{
    (void)state;
    static struct world w;
    world_start(&w, 3);
    purg_timer_add(&w.wheel, &w.entries[0].timer, PURG_NEVER);
    purg_timer_add(&w.wheel, &w.entries[1].timer, UINT64_MAX - 1);
    assert_true(purg_wheel_next_ns(&w.wheel) == PURG_NEVER);
    assert_int_equal(purg_wheel_advance(&w.wheel, UINT64_MAX, SIZE_MAX), 0);
    assert_int_equal(purg_wheel_count(&w.wheel), 2);
    assert_true(purg_timer_remove(&w.wheel, &w.entries[0].timer));
    assert_ptr_equal(purg_wheel_take_any(&w.wheel), &w.entries[1].timer);
    world_end(&w);
}

static void refuse_slots(uint32_t slots)
{
    static struct world w;
    struct purg_env env = test_env_table(&w.env);
    struct purg_wheel_options options = {.slots = slots};
    expect_assert_failure(assert_false(purg_wheel_init(&w.wheel, &env, &options)));
}

static void test_clock_that_goes_back_stands_still(void **state)
{
    (void)state;
    static struct world w;
    world_start(&w, 3);
    assert_int_equal(purg_wheel_advance(&w.wheel, 50000000, SIZE_MAX), 0);
    assert_int_equal(purg_wheel_advance(&w.wheel, 10000000, SIZE_MAX), 0);
    purg_timer_add(&w.wheel, &w.entries[0].timer, 30000000);
    assert_int_equal(purg_wheel_next_ns(&w.wheel), 0);
    assert_true(purg_timer_remove(&w.wheel, &w.entries[0].timer));
    world_end(&w);
}

static void test_misuse_of_the_wheel_is_reported(void **state)
{
    (void)state;
    static struct world w;
    world_start(&w, 3);
    purg_timer_add(&w.wheel, &w.entries[0].timer, 10);
    expect_assert_failure(purg_timer_add(&w.wheel, &w.entries[0].timer, 20));
    expect_assert_failure(purg_wheel_fini(&w.wheel));
    expect_assert_failure((void)purg_wheel_advance(&w.wheel, 0, 0));
    assert_true(purg_timer_remove(&w.wheel, &w.entries[0].timer));
    world_end(&w);
    refuse_slots(4);
    refuse_slots(12);
    refuse_slots(65);
    refuse_slots(128);
}

static void test_wheel_without_memory_is_refused(void **state)
{
    (void)state;
    static struct world w;
    struct purg_env env = test_env_table(&w.env);
    w.env.allocs_left = 0;
    assert_false(purg_wheel_init(&w.wheel, &env, &(struct purg_wheel_options){.slots = 64}));
    purg_wheel_fini(&w.wheel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wheel_does_what_a_sorted_list_does),
        cmocka_unit_test(test_adding_needs_no_memory),
        cmocka_unit_test(test_ticks_by_multiplication_are_exact),
        cmocka_unit_test(test_list_of_a_deadline_is_where_its_timer_goes),
        cmocka_unit_test(test_slots_are_emptied_before_the_clock_comes_to_them),
        cmocka_unit_test(test_timer_driven_by_next_fires_at_its_tick),
        cmocka_unit_test(test_budget_bounds_a_timer_that_adds_itself_again),
        cmocka_unit_test(test_timer_removed_by_another_of_its_tick_does_not_fire),
        cmocka_unit_test(test_never_and_unreachable_deadlines_do_not_fire),
        cmocka_unit_test(test_clock_that_goes_back_stands_still),
        cmocka_unit_test(test_misuse_of_the_wheel_is_reported),
        cmocka_unit_test(test_wheel_without_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
