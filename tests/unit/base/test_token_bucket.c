/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rate.h"

static void burst_passes_and_then_one_per_interval(void **state)
{
    (void)state;
    const struct token_bucket_rule rule = {.count = 20, .burst = 3, .period_ms = 1000};
    struct token_bucket b = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(token_bucket_take(&b, &rule, 5000), 0);
    }
    assert_int_equal(token_bucket_take(&b, &rule, 5000), 50);
    assert_int_equal(token_bucket_take(&b, &rule, 5049), 1);
    assert_int_equal(token_bucket_take(&b, &rule, 5050), 0);
    assert_int_equal(token_bucket_take(&b, &rule, 5050), 50);
}

static void unused_tokens_are_saved_up_to_the_burst(void **state)
{
    (void)state;
    const struct token_bucket_rule rule = {.count = 2, .burst = 4, .period_ms = 1000};
    struct token_bucket b = {0};
    unsigned taken = 0;
    assert_true(token_bucket_is_full(&b, &rule, 0));
    while (token_bucket_take(&b, &rule, 1000) == 0) {
        taken++;
    }
    assert_int_equal(taken, 4);
    assert_false(token_bucket_is_full(&b, &rule, 2999));
    assert_true(token_bucket_is_full(&b, &rule, 3000));
    for (taken = 0; token_bucket_take(&b, &rule, 1000000) == 0; taken++) {
    }
    assert_int_equal(taken, 4);
}

static void bucket_without_a_count_is_unlimited(void **state)
{
    (void)state;
    const struct token_bucket_rule rule = {.period_ms = 1000};
    struct token_bucket b = {0};
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(token_bucket_take(&b, &rule, 7), 0);
    }
    assert_true(token_bucket_is_full(&b, &rule, 7));
}

/* Three per second is a third of a second each, which is not a whole number of milliseconds. */
static void rounding_loses_no_token_in_a_year(void **state)
{
    (void)state;
    const struct token_bucket_rule rule = {.count = 3, .burst = 2, .period_ms = 1000};
    struct token_bucket b = {0};
    uint64_t now = 1000, taken = 0;
    while (taken < 3000000) {
        uint64_t wait = token_bucket_take(&b, &rule, now);
        taken += wait == 0;
        now += wait;
    }
    assert_in_range(now, 999999000, 1000001000);
}

static void largest_rule_does_not_overflow_in_half_a_century(void **state)
{
    (void)state;
    const struct token_bucket_rule rule = {
        .count = BUCKET_COUNT_MAX, .burst = BUCKET_COUNT_MAX, .period_ms = 60000};
    uint64_t now = UINT64_C(50) * 365 * 24 * 3600 * 1000;
    struct token_bucket b = {0};
    for (uint32_t i = 0; i < BUCKET_COUNT_MAX; i++) {
        assert_int_equal(token_bucket_take(&b, &rule, now), 0);
    }
    assert_int_not_equal(token_bucket_take(&b, &rule, now), 0);
    assert_int_equal(token_bucket_take(&b, &rule, now + 1), 0);
}

/* The same algorithm in its simplest form: tokens in units of 1/count ms, refilled by the clock. */
struct model {
    uint64_t level, at_ms;
    bool is_known;
};

static uint64_t model_take(struct model *m, const struct token_bucket_rule *rule, uint64_t now)
{
    uint64_t full = (uint64_t)rule->burst * rule->period_ms;
    uint64_t gained = m->is_known ? (now - m->at_ms) * rule->count : full;
    m->level = m->level + gained < full ? m->level + gained : full;
    m->at_ms = now;
    m->is_known = true;
    if (m->level < rule->period_ms) {
        return (rule->period_ms - m->level + rule->count - 1) / rule->count;
    }
    m->level -= rule->period_ms;
    return 0;
}

static void random_use_matches_model(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 200; round++) {
        struct token_bucket_rule rule = {.count = 1u + (uint32_t)rand() % 1000,
                                         .burst = 1u + (uint32_t)rand() % 50,
                                         .period_ms = rand() % 2 ? 1000 : 60000};
        struct token_bucket b = {0};
        struct model m = {0};
        uint64_t now = (uint64_t)rand();
        for (int i = 0; i < 2000; i++) {
            uint64_t expected = model_take(&m, &rule, now);
            assert_int_equal(token_bucket_take(&b, &rule, now), expected);
            assert_int_equal(token_bucket_is_full(&b, &rule, now),
                             m.level == (uint64_t)rule.burst * rule.period_ms);
            switch (rand() % 4) {
            case 0:
                now += expected; /* after the returned wait */
                break;
            case 1:
                now += (uint64_t)rand() % 100;
                break;
            case 2:
                now += (uint64_t)rand() % 20000;
                break;
            default:
                break;
            }
        }
    }
}

#define THREADS 4

struct taker {
    struct token_bucket *bucket;
    const struct token_bucket_rule *rule;
    unsigned taken;
};

static void *take_all(void *arg)
{
    struct taker *t = arg;
    for (int i = 0; i < 20000; i++) {
        t->taken += token_bucket_take(t->bucket, t->rule, 1000) == 0;
    }
    return NULL;
}

static void threads_together_get_exactly_the_burst(void **state)
{
    (void)state;
    const struct token_bucket_rule rule = {.count = 10, .burst = 30000, .period_ms = 1000};
    struct token_bucket b = {0};
    struct taker takers[THREADS];
    pthread_t threads[THREADS];
    unsigned taken = 0;
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (struct taker){&b, &rule, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, take_all, &takers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        taken += takers[i].taken;
    }
    assert_int_equal(taken, 30000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(burst_passes_and_then_one_per_interval),
        cmocka_unit_test(unused_tokens_are_saved_up_to_the_burst),
        cmocka_unit_test(bucket_without_a_count_is_unlimited),
        cmocka_unit_test(rounding_loses_no_token_in_a_year),
        cmocka_unit_test(largest_rule_does_not_overflow_in_half_a_century),
        cmocka_unit_test(random_use_matches_model),
        cmocka_unit_test(threads_together_get_exactly_the_burst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
