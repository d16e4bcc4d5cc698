/* word_test.c - sleeping on a word of another library's lock. */
#include "sys/sys.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ROUNDS 2000

static _Atomic(uint32_t) word;

/* Waits until the word is no longer 'value', then sets it to 'to' and wakes the other. */
static void pass_on(uint32_t value, uint32_t to)
{
    while (atomic_load(&word) == value) {
        sys_word_wait(&word, value);
    }
    atomic_store(&word, to);
    sys_word_wake(&word);
}

static void *other_main(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        pass_on(1, 1);
    }
    return NULL;
}

/* Two threads hand a word to and fro. A wait that does not end, or a wake that wakes nobody, stops
 * them for good. */
static void test_who_sleeps_on_a_word_is_woken(void **state)
{
    (void)state;
    pthread_t other;
    atomic_store(&word, 1);
    assert_int_equal(pthread_create(&other, NULL, other_main, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        atomic_store(&word, 2); /* the other's turn */
        sys_word_wake(&word);
        while (atomic_load(&word) == 2) {
            sys_word_wait(&word, 2);
        }
        if (i % 8 == 0) { sched_yield(); } /* so that the other one sleeps, too */
    }
    assert_int_equal(pthread_join(other, NULL), 0);
}

static void test_a_word_that_has_changed_is_not_waited_for(void **state)
{
    (void)state;
    atomic_store(&word, 3);
    sys_word_wait(&word, 4);
    assert_int_equal(atomic_load(&word), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_sleeps_on_a_word_is_woken),
        cmocka_unit_test(test_a_word_that_has_changed_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
