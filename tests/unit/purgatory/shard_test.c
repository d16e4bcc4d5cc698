/* shard_test.c - the lists behind the keys: many keys, equal hashes, no memory; in virtual time.
 *
 * One shard, so that all keys meet. What a check must end is kept beside it, key by key. */
#include "purg_test.h"
#include "purgatory/shard_int.h"

#define KEYS 600u
#define ITEMS 2000u

struct item {
    struct purg_op op; /* first: item and op are one address */
    struct purg_watch_node nodes[3];
    bool is_ready;
    bool is_parked;
    uint64_t order; /* of completion */
};

static struct test_env env_state;
static struct purg_env env;
static struct purgatory *purgatory;
static struct purg_owner *owner;
static uint64_t order_next;
static bool is_crowded; /* more keys pass a group than its count can tell */
static struct item items[ITEMS];

static struct purg_key key_of(uint64_t number)
{
    return (struct purg_key){.hi = number % 3, .lo = number, .sub = 1};
}

static bool item_try(struct purg_op *op)
{
    return ((struct item *)(void *)op)->is_ready;
}

static void item_complete(struct purg_op *op, enum purg_reason reason)
{
    struct item *it = (struct item *)(void *)op;
    assert_true(reason == PURG_EVENT || reason == PURG_CANCELLED);
    assert_true(it->is_parked);
    it->is_parked = false;
    it->order = order_next++;
}

static const struct purg_op_type item_type = {"item", item_try, item_complete};

static uint64_t hash_all_one(struct purg_key key)
{
    (void)key;
    return 0x1234567890abcdefu;
}

/* Few groups, few tags: keys meet in the same group and with the same tag. */
static uint64_t hash_few(struct purg_key key)
{
    return (key.lo % 5) << 56 | (key.lo / 7) % 4;
}

static void world_start(uint64_t (*hash)(struct purg_key key))
{
    env = test_env_table(&env_state);
    purgatory = purg_create(&env, &(struct purg_options){.shards = 1, .hash = hash});
    owner = purg_owner_create(&env, &(struct purg_owner_options){.start_ns = 0});
    assert_non_null(purgatory);
    assert_non_null(owner);
    order_next = 0;
    is_crowded = hash == hash_all_one;
    memset(items, 0, sizeof items);
}

/* Everything goes, and takes its memory with it. */
static void world_end(void)
{
    purg_owner_shutdown(owner);
    assert_int_equal(purg_size(purgatory), 0);
    const struct shard *shard = &purgatory->shards[0];
    assert_int_equal(shard->table_keys_count, 0);
    assert_int_equal(shard->tags, 0);
    assert_null(shard->spilled);
    for (uint32_t g = 0; shard->groups && g <= shard->groups_mask; g++) {
        uint64_t passed = shard->groups[g].tags >> 56;
        assert_true(passed == 0 || (is_crowded && passed == 255)); /* [SHD-2] */
        assert_int_equal(shard->groups[g].tags << 8, 0);
    }
    assert_true(purg_owner_is_idle(owner));
    purg_owner_destroy(owner);
    purg_destroy(purgatory);
    assert_int_equal(env_state.bytes_used, 0);
}

static void park(struct item *it, const uint64_t *numbers, size_t count)
{
    struct purg_key keys[3];
    for (size_t i = 0; i < count; i++) {
        keys[i] = key_of(numbers[i]);
    }
    memset(it, 0xa5, sizeof *it); /* memory of the caller may hold anything */
    it->is_ready = false;
    it->is_parked = true;
    purg_op_init(&it->op, &item_type, owner);
    assert_int_equal(
        purg_try_complete_else_watch(purgatory, owner, &it->op, it->nodes, keys, count, PURG_NEVER),
        PURG_PARKED);
}

static void step(void)
{
    assert_true(purg_owner_step(owner, 0) == PURG_NEVER);
}

/* Keys come and go at random; each check ends the one operation of its key, if there is one. */
static void churn(uint64_t (*hash)(struct purg_key key), size_t allocs, uint64_t seed)
{
    world_start(hash);
    env_state.allocs_left = allocs;
    size_t parked = 0;
    for (int turn = 0; turn < 20000; turn++) {
        uint64_t number = test_random(&seed) % KEYS;
        struct item *it = &items[number];
        if (it->is_parked) {
            assert_int_equal(purg_check(purgatory, owner, key_of(number)), 0);
            it->is_ready = true;
            assert_int_equal(purg_check(purgatory, owner, key_of(number)), 1);
            step();
            assert_false(it->is_parked);
            parked--;
        } else if (test_random(&seed) % 3) {
            park(it, &number, 1);
            parked++;
        } else {
            assert_int_equal(purg_check(purgatory, owner, key_of(number)), 0);
        }
        assert_int_equal(purg_size(purgatory), parked);
        if (turn == 10000) { env_state.allocs_left = SIZE_MAX; } /* memory comes back */
    }
    for (uint64_t number = 0; number < KEYS; number++) {
        size_t expected = items[number].is_parked;
        assert_int_equal(purg_cancel_key(purgatory, owner, key_of(number), PURG_CANCELLED),
                         expected);
    }
    step();
    world_end();
}

static void test_keys_that_come_and_go_are_found(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        churn(NULL, SIZE_MAX, seed);
    }
}

/* Around the number of keys that a shard's line has slots for, to and fro. */
static void test_few_keys_lie_beside_the_lock_also_after_many(void **state)
{
    (void)state;
    world_start(NULL);
    const struct shard *shard = &purgatory->shards[0];
    for (uint64_t count = 1; count <= 20; count++) {
        for (uint64_t i = 0; i < count; i++) {
            park(&items[i], &i, 1);
            assert_int_equal(shard->table_keys_count,
                             i < SHARD_SLOTS_FIRST ? 0 : i + 1 - SHARD_SLOTS_FIRST);
        }
        for (uint64_t n = 0; n < count; n++) {
            uint64_t i = (n + count / 2) % count;
            items[i].is_ready = true;
            assert_int_equal(purg_check(purgatory, owner, key_of(i)), 1);
        }
        assert_int_equal(shard->table_keys_count, 0);
        step();
    }
    world_end();
}

/* In a table of many keys: else each look would be into both. */
static void test_slots_beside_the_lock_stay_free_while_keys_are_many(void **state)
{
    (void)state;
    world_start(NULL);
    const struct shard *shard = &purgatory->shards[0];
    for (uint64_t i = 0; i < 20; i++) {
        park(&items[i], &i, 1);
    }
    for (uint64_t i = 0; i < 20; i++) {
        items[i].is_ready = true;
        assert_int_equal(purg_check(purgatory, owner, key_of(i)), 1);
        uint64_t next = 20 + i;
        park(&items[next], &next, 1);
    }
    assert_int_equal(shard->tags, 0);
    assert_int_equal(shard->table_keys_count, 20);
    for (uint64_t i = 20; i < 40; i++) {
        assert_int_equal(purg_cancel_key(purgatory, owner, key_of(i), PURG_CANCELLED), 1);
    }
    step();
    world_end();
}

/* The table is full and cannot grow. */
static void test_a_free_slot_beside_the_lock_is_used_before_spilling(void **state)
{
    (void)state;
    world_start(NULL);
    const struct shard *shard = &purgatory->shards[0];
    env_state.allocs_left = 1;
    uint64_t count = 0;
    do {
        park(&items[count], &count, 1);
        count++;
    } while (count <= SHARD_SLOTS_FIRST ||
             shard->table_keys_count < GROUP_SLOTS * (shard->groups_mask + 1));
    items[0].is_ready = true;
    assert_int_equal(purg_check(purgatory, owner, key_of(0)), 1);
    park(&items[count], &count, 1);
    assert_null(shard->spilled);
    count++;
    for (uint64_t i = 1; i < count; i++) {
        assert_int_equal(purg_cancel_key(purgatory, owner, key_of(i), PURG_CANCELLED), 1);
    }
    step();
    world_end();
}

static void test_keys_of_few_hashes_are_told_apart(void **state)
{
    (void)state;
    churn(hash_few, SIZE_MAX, 7);
    churn(hash_all_one, SIZE_MAX, 8); /* also: more pass a full group than its count can tell */
}

static void test_keys_without_memory_are_found(void **state)
{
    (void)state;
    for (size_t allocs = 0; allocs <= 4; allocs++) {
        churn(NULL, allocs, 10 + allocs);
        churn(hash_all_one, allocs, 20 + allocs);
    }
}

/* Watchers of several keys, among each other in one ring, each key with more than a walk treats at
 * once: each check ends its own, oldest first. */
static void test_long_lists_without_memory_are_walked_in_order(void **state)
{
    (void)state;
    for (size_t allocs = 0; allocs <= 1; allocs++) {
        world_start(NULL);
        env_state.allocs_left = allocs;
        size_t keys = 20;
        size_t each = ITEMS / keys;
        for (size_t i = 0; i < ITEMS; i++) {
            park(&items[i], (uint64_t[]){i % keys}, 1);
            items[i].is_ready = i / keys % 2; /* every other one */
        }
        for (uint64_t number = 0; number < keys; number++) {
            uint64_t first = order_next;
            assert_int_equal(purg_check(purgatory, owner, key_of(number)), each / 2);
            step();
            for (size_t i = 0; i < each; i++) {
                const struct item *it = &items[i * keys + number];
                assert_int_equal(it->is_parked, i % 2 == 0);
                if (i % 2) { assert_int_equal(it->order, first + i / 2); }
            }
        }
        assert_int_equal(purg_size(purgatory), ITEMS / 2);
        for (uint64_t number = 0; number < keys; number++) {
            assert_int_equal(purg_cancel_key(purgatory, owner, key_of(number), PURG_CANCELLED),
                             each / 2);
        }
        step();
        world_end();
    }
}

/* Ends of a ring in any order: first, last, middle, only. */
static void test_watchers_leave_a_list_in_any_order(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (size_t allocs = 0; allocs <= 1; allocs++) {
        world_start(allocs ? NULL : hash_all_one);
        env_state.allocs_left = allocs ? SIZE_MAX : 0;
        for (int turn = 0; turn < 3000; turn++) {
            struct item *it = &items[test_random(&seed) % 12];
            if (it->is_parked) {
                assert_true(purg_op_cancel(&it->op, owner, PURG_CANCELLED));
                step();
            } else {
                park(it, (uint64_t[]){test_random(&seed) % 6, 2, 3}, 3);
            }
        }
        size_t parked = 0;
        for (size_t i = 0; i < 12; i++) {
            parked += items[i].is_parked;
        }
        assert_int_equal(purg_delayed(purgatory), parked);
        assert_int_equal(purg_cancel_key(purgatory, owner, key_of(2), PURG_CANCELLED), parked);
        step();
        world_end();
    }
}

static void test_many_keys_are_checked_with_one_call(void **state)
{
    (void)state;
    for (size_t allocs = 0; allocs <= 1; allocs++) {
        world_start(NULL);
        env_state.allocs_left = allocs ? SIZE_MAX : 0;
        struct purg_key keys[100];
        for (uint64_t i = 0; i < 100; i++) {
            keys[i] = key_of(i / 2 * 2); /* each twice; nobody watches odd ones */
            purg_prefetch(purgatory, &keys[i], 1);
        }
        purg_prefetch(purgatory, keys, 0); /* hints change nothing */
        purg_prefetch(purgatory, keys, 100);
        assert_int_equal(purg_check_many(purgatory, owner, keys, 100), 0); /* nobody yet */
        for (uint64_t i = 0; i < 90; i++) { /* one to three keys, some shared */
            park(&items[i], (uint64_t[]){i, i + 1, 2}, 1 + i % 3);
            items[i].is_ready = i % 4 != 3;
        }
        assert_int_equal(purg_check_many(purgatory, owner, keys, 0), 0);
        size_t ended = purg_check_many(purgatory, owner, keys, 100);
        step();
        size_t gone = 0;
        for (uint64_t i = 0; i < 90; i++) {
            bool has_even_key = i % 2 == 0 || i % 3 > 0;
            assert_int_equal(items[i].is_parked, !(has_even_key && items[i].is_ready));
            gone += !items[i].is_parked;
        }
        assert_int_equal(ended, gone);
        for (uint64_t i = 0; i < 90; i++) {
            if (items[i].is_parked) { purg_op_cancel(&items[i].op, owner, PURG_CANCELLED); }
        }
        step();
        world_end();
    }
}

/* While there was no room a key's nodes spilled; later ones have a slot. The oldest go first. */
static void test_key_in_both_rings_is_walked_oldest_first(void **state)
{
    (void)state;
    world_start(NULL);
    env_state.allocs_left = 0;
    for (uint64_t i = 0; i < SHARD_SLOTS_FIRST; i++) {
        park(&items[i], &i, 1);
    }
    uint64_t number = 77;
    for (size_t i = 10; i < 60; i++) { /* spilled */
        park(&items[i], &number, 1);
    }
    assert_int_equal(purg_cancel_key(purgatory, owner, key_of(0), PURG_CANCELLED), 1);
    for (size_t i = 60; i < 110; i++) { /* in the slot that became free */
        park(&items[i], &number, 1);
    }
    step();
    uint64_t first = order_next;
    for (size_t i = 10; i < 110; i++) {
        items[i].is_ready = true;
    }
    assert_int_equal(purg_check(purgatory, owner, key_of(number)), 100);
    step();
    for (size_t i = 10; i < 110; i++) {
        assert_int_equal(items[i].order, first + i - 10);
    }
    assert_int_equal(purg_cancel_key(purgatory, owner, key_of(1), PURG_CANCELLED), 1);
    assert_int_equal(purg_cancel_key(purgatory, owner, key_of(2), PURG_CANCELLED), 1);
    step();
    world_end();
}

/* What a try does meanwhile: once, from inside. */
static void (*meanwhile)(void);

static bool busy_try(struct purg_op *op)
{
    if (meanwhile) {
        void (*now)(void) = meanwhile;
        meanwhile = NULL;
        now();
    }
    return ((struct item *)(void *)op)->is_ready;
}

static const struct purg_op_type busy_type = {"busy", busy_try, item_complete};

static void park_busy(struct item *it, const uint64_t *numbers, size_t count)
{
    struct purg_key keys[3];
    for (size_t i = 0; i < count; i++) {
        keys[i] = key_of(numbers[i]);
    }
    it->is_parked = true;
    purg_op_init(&it->op, &busy_type, owner);
    assert_int_equal(
        purg_try_complete_else_watch(purgatory, NULL, &it->op, it->nodes, keys, count, PURG_NEVER),
        PURG_PARKED);
}

static void park_many_keys(void)
{
    for (uint64_t i = 200; i < 500; i++) {
        park(&items[i], &i, 1);
    }
}

/* The walk's markers are linked while the table moves. */
static void test_table_grows_in_the_middle_of_a_walk(void **state)
{
    (void)state;
    world_start(NULL);
    for (size_t i = 0; i < 100; i++) {
        park_busy(&items[i], (uint64_t[]){7}, 1);
        items[i].is_ready = i % 2;
    }
    assert_true(purg_owner_step(owner, 0) == PURG_NEVER);
    meanwhile = park_many_keys;
    assert_int_equal(purg_check(purgatory, owner, key_of(7)), 50);
    assert_null(meanwhile);
    step();
    assert_int_equal(purg_size(purgatory), 350);
    for (uint64_t i = 200; i < 500; i++) {
        items[i].is_ready = true;
        assert_int_equal(purg_check(purgatory, owner, key_of(i)), 1);
    }
    assert_int_equal(purg_cancel_key(purgatory, owner, key_of(7), PURG_CANCELLED), 50);
    step();
    world_end();
}

static void end_the_others(void)
{
    assert_true(purg_op_cancel(&items[1].op, NULL, PURG_CANCELLED));
    items[2].is_ready = true;
    assert_int_equal(purg_check(purgatory, NULL, key_of(12)), 0); /* its holder tries it */
    struct purg_key keys[2] = {key_of(0), key_of(13)};
    assert_int_equal(purg_check_many(purgatory, NULL, keys, 2), 1);
}

/* Operations with several keys are held together; each still ends once, for the first reason. */
static void test_operations_of_one_call_may_end_each_other(void **state)
{
    (void)state;
    world_start(NULL);
    for (uint64_t i = 0; i < 4; i++) {
        park_busy(&items[i], (uint64_t[]){i, 10 + i}, 2);
    }
    step();
    items[3].is_ready = true;
    struct purg_key keys[3] = {key_of(0), key_of(1), key_of(2)};
    meanwhile = end_the_others;
    assert_int_equal(purg_check_many(purgatory, owner, keys, 3), 1); /* items[2] */
    step();
    assert_true(items[0].is_parked);
    assert_false(items[1].is_parked);
    assert_false(items[2].is_parked);
    assert_false(items[3].is_parked);
    assert_true(purg_op_cancel(&items[0].op, owner, PURG_CANCELLED));
    step();
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_that_come_and_go_are_found),
        cmocka_unit_test(test_few_keys_lie_beside_the_lock_also_after_many),
        cmocka_unit_test(test_slots_beside_the_lock_stay_free_while_keys_are_many),
        cmocka_unit_test(test_a_free_slot_beside_the_lock_is_used_before_spilling),
        cmocka_unit_test(test_keys_of_few_hashes_are_told_apart),
        cmocka_unit_test(test_keys_without_memory_are_found),
        cmocka_unit_test(test_long_lists_without_memory_are_walked_in_order),
        cmocka_unit_test(test_watchers_leave_a_list_in_any_order),
        cmocka_unit_test(test_many_keys_are_checked_with_one_call),
        cmocka_unit_test(test_key_in_both_rings_is_walked_oldest_first),
        cmocka_unit_test(test_table_grows_in_the_middle_of_a_walk),
        cmocka_unit_test(test_operations_of_one_call_may_end_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
