/* SPDX-License-Identifier: MIT
 *
 * Windows: a throttle with a trailing edge, and the queue of due windows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/outbox.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "store/change.h"
#include "support/fail_alloc.h"

#define MAX 100u

static const struct outbox_as updated = {.kind = TIDINGS_CHANGE_UPDATED};

static struct windows all;
static uint64_t seq;

static int begin(void **state)
{
    (void)state;
    fail_alloc_start(0);
    windows_init(&all);
    seq = 0;
    return 0;
}

static int nothing_is_left(void **state)
{
    (void)state;
    windows_deinit(&all);
    return fail_alloc_live() == 0 ? 0 : -1;
}

static enum window_result offer_max(struct subscription *sub, uint64_t now, const char *uri,
                                    size_t max)
{
    struct tidings_change from = {.uri = tidings_str(uri)};
    struct change *c = change_create(&from, 1, ++seq);
    assert_non_null(c);
    enum window_result r = window_enqueue(&all, &sub->window, now, sub, c, updated, max);
    change_unref(c);
    return r;
}

static enum window_result offer(struct subscription *sub, uint64_t now, const char *uri)
{
    return offer_max(sub, now, uri, MAX);
}

/* Drops the changes of a due window. */
static size_t take(struct window *w)
{
    struct outbox *held = w->deferred;
    assert_non_null(held);
    size_t n = held->count;
    w->deferred = NULL;
    outbox_deinit(held);
    fail_alloc_release(held);
    return n;
}

static void changes_pass_at_once_without_a_period(void **state)
{
    (void)state;
    struct subscription sub = {0};
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(offer(&sub, 5, "x:1"), WINDOW_PASS);
    }
    assert_int_equal(windows_next(&all), UINT64_MAX);
    assert_null(windows_due(&all, UINT64_MAX));
    assert_int_equal(window_first_seq(&sub.window), 0);
}

static void first_change_passes_and_the_rest_waits_for_window_end(void **state)
{
    (void)state;
    struct subscription sub = {.window = {.period_ms = 100}};
    assert_int_equal(offer(&sub, 1000, "x:1"), WINDOW_PASS);
    assert_int_equal(offer(&sub, 1001, "x:1"), WINDOW_DEFERRED);
    assert_int_equal(offer(&sub, 1099, "x:1"), WINDOW_DEFERRED);
    assert_int_equal(offer(&sub, 1099, "x:2"), WINDOW_DEFERRED);
    assert_int_equal(windows_next(&all), 1100);
    assert_int_equal(window_first_seq(&sub.window), 2);
    assert_null(windows_due(&all, 1099));
    struct window *w = windows_due(&all, 1100);
    assert_ptr_equal(w, &sub.window);
    const struct outbox_item *first = outbox_first(w->deferred);
    assert_int_equal(first->merged, 2); /* the newest change of x:1 replaces both */
    assert_int_equal(first->change->seq, 3);
    assert_int_equal(first->first_seq, 2);
    assert_int_equal(take(w), 2);
    assert_null(windows_due(&all, 5000));
    assert_int_equal(sub.queued, 0);
}

static void quiet_stream_receives_the_next_change_at_once(void **state)
{
    (void)state;
    struct subscription sub = {.window = {.period_ms = 100}};
    assert_int_equal(offer(&sub, 1000, "x:1"), WINDOW_PASS);
    assert_int_equal(offer(&sub, 1100, "x:1"), WINDOW_PASS);
    assert_int_equal(offer(&sub, 1150, "x:1"), WINDOW_DEFERRED);
    assert_int_equal(take(windows_due(&all, 1200)), 1);
    /* The update at 1200 began a period. */
    assert_int_equal(offer(&sub, 1299, "x:1"), WINDOW_DEFERRED);
    assert_int_equal(take(windows_due(&all, 1300)), 1);
    assert_int_equal(offer(&sub, 1400, "x:1"), WINDOW_PASS);
}

static void busy_stream_receives_one_update_per_period(void **state)
{
    (void)state;
    struct subscription sub = {.window = {.period_ms = 100}};
    unsigned told = 0, merged = 0;
    for (uint64_t now = 0; now <= 1000; now++) { /* a change every millisecond: never quiet */
        struct window *w = windows_due(&all, now);
        if (w) {
            merged += outbox_first(w->deferred)->merged;
            told += (unsigned)take(w);
        }
        bool passed = offer(&sub, now, "x:1") == WINDOW_PASS;
        told += passed;
        merged += passed;
    }
    assert_int_equal(told, 11); /* at 0, 100, …, 1000 */
    assert_int_equal(merged + outbox_first(sub.window.deferred)->merged, 1001);
    window_clear(&all, &sub.window);
}

static void late_timer_sends_held_changes_before_newer_ones(void **state)
{
    (void)state;
    struct subscription sub = {.window = {.period_ms = 100}};
    assert_int_equal(offer(&sub, 0, "x:1"), WINDOW_PASS);
    assert_int_equal(offer(&sub, 50, "x:1"), WINDOW_DEFERRED);
    /* The period is over but the timer has not run yet: passing would overtake. */
    assert_int_equal(offer(&sub, 150, "x:2"), WINDOW_DEFERRED);
    assert_int_equal(take(windows_due(&all, 160)), 2);
}

static void early_period_end_keeps_the_order(void **state)
{
    (void)state;
    struct subscription sub = {.window = {.period_ms = 100}};
    assert_int_equal(offer(&sub, 0, "x:1"), WINDOW_PASS);
    assert_int_equal(offer(&sub, 1, "x:1"), WINDOW_DEFERRED);
    sub.window.period_ms = 0; /* the application lifted the limit */
    assert_int_equal(offer(&sub, 2, "x:1"), WINDOW_DEFERRED);
    assert_int_equal(take(windows_due(&all, 1000)), 1);
    assert_int_equal(offer(&sub, 1001, "x:1"), WINDOW_PASS);
}

static void gathering_window_delays_the_first_change_too(void **state)
{
    (void)state;
    struct subscription sub = {.window = {.period_ms = 100}, .gather_ms = 100};
    assert_int_equal(offer(&sub, 1000, "x:1"), WINDOW_DEFERRED);
    assert_int_equal(offer(&sub, 1099, "x:1"), WINDOW_DEFERRED); /* does not prolong the wait */
    assert_null(windows_due(&all, 1099));
    assert_int_equal(outbox_first(sub.window.deferred)->merged, 2);
    assert_int_equal(take(windows_due(&all, 1100)), 1);
    /* After a quiet time the next one waits again. */
    assert_int_equal(offer(&sub, 5000, "x:1"), WINDOW_DEFERRED);
    assert_int_equal(take(windows_due(&all, 5100)), 1);
    assert_null(windows_due(&all, 9999));
}

static void gathering_and_rate_wait_for_the_later_of_both(void **state)
{
    (void)state;
    struct subscription sub = {.window = {.period_ms = 1000}, .gather_ms = 100};
    assert_int_equal(offer(&sub, 1000, "x:1"), WINDOW_DEFERRED);
    assert_int_equal(take(windows_due(&all, 1100)), 1);
    assert_int_equal(offer(&sub, 1150, "x:1"), WINDOW_DEFERRED); /* the rate: not before 2100 */
    assert_null(windows_due(&all, 2099));
    assert_int_equal(take(windows_due(&all, 2100)), 1);
    assert_int_equal(offer(&sub, 3050, "x:1"), WINDOW_DEFERRED); /* gathering: not before 3150 */
    assert_null(windows_due(&all, 3149));
    assert_int_equal(take(windows_due(&all, 3150)), 1);
    assert_int_equal(offer(&sub, 9000, "x:1"), WINDOW_DEFERRED);
    window_clear(&all, &sub.window);
}

#define MANY 200u

/* Zeroed subscriptions; their flexible member prevents an array, so each is allocated. */
static struct subscription **many_subscriptions(void)
{
    static _Alignas(struct subscription) char room[MANY][sizeof(struct subscription)];
    static struct subscription *subs[MANY];
    memset(room, 0, sizeof(room));
    for (unsigned i = 0; i < MANY; i++) {
        subs[i] = (struct subscription *)room[i];
    }
    return subs;
}

static void due_windows_are_returned_by_end_time(void **state)
{
    (void)state;
    struct subscription **subs = many_subscriptions();
    uint64_t random = 12345;
    for (unsigned i = 0; i < MANY; i++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        subs[i]->window.period_ms = 1 + (uint32_t)(random >> 33) % 500;
        assert_int_equal(offer(subs[i], 1000, "x:1"), WINDOW_PASS);
        assert_int_equal(offer(subs[i], 1000, "x:1"), WINDOW_DEFERRED);
    }
    /* Some are removed from the middle. */
    for (unsigned i = 0; i < MANY; i += 3) {
        window_clear(&all, &subs[i]->window);
        window_clear(&all, &subs[i]->window); /* a second removal does nothing */
        assert_int_equal(subs[i]->queued, 0);
    }
    uint64_t last = 0;
    unsigned n = 0;
    while (all.count > 0) {
        uint64_t next = windows_next(&all);
        assert_true(next >= last);
        assert_null(windows_due(&all, next - 1));
        struct window *w = windows_due(&all, next);
        assert_non_null(w);
        assert_int_equal(w->index, 0);
        assert_int_equal(w->open_ms, next + w->period_ms);
        assert_int_equal(take(w), 1);
        last = next;
        n++;
    }
    assert_int_equal(n, MANY - (MANY + 2) / 3);
    assert_null(all.heap);
}

static void random_windows_keep_the_order(void **state)
{
    (void)state;
    struct subscription **subs = many_subscriptions();
    uint64_t random = 99, now = 1;
    for (unsigned step = 0; step < 20000; step++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        struct subscription *sub = subs[(random >> 20) % MANY];
        if (sub->window.period_ms == 0) {
            sub->window.period_ms = 1 + (uint32_t)(random >> 40) % 100;
        }
        switch ((random >> 12) % 4) {
        case 0:
            window_clear(&all, &sub->window);
            break;
        case 1:
            now++;
            break;
        default:
            (void)offer(sub, now, "x:1");
        }
        struct window *w;
        while ((w = windows_due(&all, now)) != NULL) {
            (void)take(w);
        }
        uint64_t least = UINT64_MAX;
        for (unsigned i = 0; i < MANY; i++) {
            if (subs[i]->window.deferred && subs[i]->window.open_ms < least) {
                least = subs[i]->window.open_ms;
            }
        }
        assert_int_equal(windows_next(&all), least);
    }
    for (unsigned i = 0; i < MANY; i++) {
        window_clear(&all, &subs[i]->window);
    }
}

static void overflow_is_reported(void **state)
{
    (void)state;
    struct subscription sub = {.window = {.period_ms = 100}};
    assert_int_equal(offer_max(&sub, 0, "x:1", 2), WINDOW_PASS);
    assert_int_equal(offer_max(&sub, 0, "x:1", 2), WINDOW_DEFERRED);
    assert_int_equal(offer_max(&sub, 0, "x:2", 2), WINDOW_DEFERRED);
    assert_int_equal(offer_max(&sub, 0, "x:3", 2), WINDOW_FULL);
    assert_int_equal(offer_max(&sub, 0, "x:2", 2), WINDOW_DEFERRED); /* merges */
    window_clear(&all, &sub.window);
    assert_int_equal(sub.queued, 0);
}

static void window_is_full_without_memory_and_leaks_nothing(void **state)
{
    (void)state;
    unsigned failures = 0;
    for (long n = 1;; n++) {
        struct subscription sub = {.window = {.period_ms = 100, .open_ms = 500}};
        struct tidings_change from = {.uri = STR("x:1")};
        struct change *c = change_create(&from, 1, ++seq);
        assert_non_null(c);
        fail_alloc_start(n);
        enum window_result r = window_enqueue(&all, &sub.window, 10, &sub, c, updated, MAX);
        bool reached = fail_alloc_stop();
        assert_int_equal(r, reached ? WINDOW_FULL : WINDOW_DEFERRED);
        failures += reached;
        window_clear(&all, &sub.window);
        assert_int_equal(sub.queued, 0);
        change_unref(c);
        windows_deinit(&all);
        assert_int_equal(fail_alloc_live(), 0);
        if (!reached) {
            break;
        }
    }
    assert_true(failures >= 2);
}

int main(void)
{
#define WITH_COUNT(test) cmocka_unit_test_setup_teardown(test, begin, nothing_is_left)
    const struct CMUnitTest tests[] = {
        WITH_COUNT(changes_pass_at_once_without_a_period),
        WITH_COUNT(first_change_passes_and_the_rest_waits_for_window_end),
        WITH_COUNT(quiet_stream_receives_the_next_change_at_once),
        WITH_COUNT(busy_stream_receives_one_update_per_period),
        WITH_COUNT(gathering_window_delays_the_first_change_too),
        WITH_COUNT(gathering_and_rate_wait_for_the_later_of_both),
        WITH_COUNT(late_timer_sends_held_changes_before_newer_ones),
        WITH_COUNT(early_period_end_keeps_the_order),
        WITH_COUNT(due_windows_are_returned_by_end_time),
        WITH_COUNT(random_windows_keep_the_order),
        WITH_COUNT(overflow_is_reported),
        WITH_COUNT(window_is_full_without_memory_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
