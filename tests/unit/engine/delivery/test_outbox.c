/* SPDX-License-Identifier: MIT
 *
 * The outbox: order, merging in place, its bound, removal, and that it releases all memory.
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

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX 1000u

static const struct outbox_as updated = {.kind = TIDINGS_CHANGE_UPDATED};

static int count_allocations(void **state)
{
    (void)state;
    fail_alloc_start(0);
    return 0;
}

static int nothing_is_left(void **state)
{
    (void)state;
    return fail_alloc_live() == 0 ? 0 : -1;
}

static enum outbox_result push(struct outbox *o, struct subscription *sub, const char *uri,
                               enum tidings_change_kind kind, uint64_t seq, size_t max)
{
    struct tidings_change from = {.uri = tidings_str(uri), .kind = kind};
    struct change *c = change_create(&from, 1, seq);
    assert_non_null(c);
    enum outbox_result r = outbox_push(o, sub, c, (struct outbox_as){.kind = kind}, max);
    change_unref(c);
    return r;
}

static void kinds_merge_according_to_the_table(void **state)
{
    (void)state;
    const enum tidings_change_kind u = TIDINGS_CHANGE_UPDATED, c = TIDINGS_CHANGE_CREATED,
                                   d = TIDINGS_CHANGE_DELETED;
    const enum tidings_change_kind rows[][3] = {
        {u, u, u}, {u, c, u}, {u, d, d}, {c, u, c}, {c, c, c},
        {c, d, d}, {d, u, u}, {d, c, u}, {d, d, d},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(outbox_merge_kind(rows[i][0], rows[i][1]), rows[i][2]);
    }
}

static void queue_returns_changes_in_order(void **state)
{
    (void)state;
    struct outbox o;
    struct subscription a = {0}, b = {0};
    outbox_init(&o);
    uint64_t in = 0, out = 0;
    /* Grow, shrink and wrap around the ring several times. */
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 7 + round % 5; i++) {
            char uri[32];
            in++;
            snprintf(uri, sizeof(uri), "x:%llu", (unsigned long long)in);
            assert_int_equal(push(&o, in % 2 ? &a : &b, uri, TIDINGS_CHANGE_UPDATED, in, MAX),
                             OUTBOX_ADDED);
        }
        for (unsigned i = 0; i < 5 + round % 7 && o.count > 0; i++) {
            struct outbox_item *item = outbox_first(&o);
            assert_int_equal(item->change->seq, ++out);
            assert_int_equal(item->first_seq, out);
            assert_ptr_equal(item->sub, out % 2 ? &a : &b);
            assert_int_equal(item->merged, 1);
            outbox_pop(&o);
        }
    }
    while (outbox_first(&o)) {
        assert_int_equal(outbox_first(&o)->change->seq, ++out);
        outbox_pop(&o);
    }
    assert_int_equal(in, out);
    assert_int_equal(a.queued, 0);
    assert_int_equal(b.queued, 0);
    outbox_deinit(&o);
}

static void second_change_merges_in_the_place_of_the_first(void **state)
{
    (void)state;
    struct outbox o;
    struct subscription a = {0}, b = {0};
    outbox_init(&o);
    assert_int_equal(push(&o, &a, "x:1", TIDINGS_CHANGE_CREATED, 1, MAX), OUTBOX_ADDED);
    assert_int_equal(push(&o, &a, "x:2", TIDINGS_CHANGE_UPDATED, 2, MAX), OUTBOX_ADDED);
    assert_int_equal(push(&o, &b, "x:1", TIDINGS_CHANGE_UPDATED, 3, MAX), OUTBOX_ADDED);
    assert_int_equal(push(&o, &a, "x:1", TIDINGS_CHANGE_UPDATED, 4, MAX), OUTBOX_MERGED);
    assert_int_equal(push(&o, &a, "x:1", TIDINGS_CHANGE_UPDATED, 5, MAX), OUTBOX_MERGED);
    assert_int_equal(a.queued, 2);
    assert_int_equal(b.queued, 1);
    struct outbox_item *item = outbox_first(&o);
    assert_ptr_equal(item->sub, &a);
    assert_int_equal(item->change->seq, 5);
    assert_int_equal(item->first_seq, 1);
    assert_int_equal(item->merged, 3);
    assert_int_equal(item->kind, TIDINGS_CHANGE_CREATED);
    outbox_pop(&o);
    assert_int_equal(outbox_first(&o)->change->seq, 2);
    outbox_pop(&o);
    item = outbox_first(&o); /* the other subscription's own */
    assert_ptr_equal(item->sub, &b);
    assert_int_equal(item->change->seq, 3);
    assert_int_equal(item->merged, 1);
    outbox_pop(&o);
    assert_null(outbox_first(&o));
    /* A change that was sent does not merge. */
    assert_int_equal(push(&o, &a, "x:1", TIDINGS_CHANGE_UPDATED, 6, MAX), OUTBOX_ADDED);
    outbox_deinit(&o);
}

static void replayed_change_stays_marked_after_a_merge(void **state)
{
    (void)state;
    struct outbox o, held;
    struct subscription a = {0};
    const struct outbox_as caught_up = {.kind = TIDINGS_CHANGE_UPDATED, .caught_up = true};
    struct tidings_change from = {.uri = TIDINGS_STR("x:1")};
    struct change *old = change_create(&from, 1, 1), *new = change_create(&from, 1, 2);
    outbox_init(&o);
    outbox_init(&held);
    assert_int_equal(outbox_push(&held, &a, old, caught_up, MAX), OUTBOX_ADDED);
    assert_true(outbox_take(&o, &held, 0, MAX));
    assert_true(outbox_first(&o)->caught_up);
    assert_int_equal(outbox_push(&o, &a, new, updated, MAX), OUTBOX_MERGED);
    assert_true(outbox_first(&o)->caught_up);
    assert_int_equal(outbox_first(&o)->merged, 2);
    outbox_pop(&o);
    assert_int_equal(outbox_push(&o, &a, new, updated, MAX), OUTBOX_ADDED);
    assert_false(outbox_first(&o)->caught_up); /* a live change is not marked */
    change_unref(old);
    change_unref(new);
    outbox_deinit(&held);
    outbox_deinit(&o);
}

static void queued_change_is_due_since_its_number_or_window_end(void **state)
{
    (void)state;
    struct outbox o, held;
    struct subscription a = {0}, strict = {.is_strict = true};
    const struct outbox_as row = {.kind = TIDINGS_CHANGE_UPDATED, .caught_up = true, .due = 70};
    struct tidings_change x = {.uri = STR("x:1")}, y = {.uri = STR("x:2")};
    struct change *c = change_create(&x, 1, 1), *d = change_create(&x, 1, 2);
    struct change *e = change_create(&y, 1, 3);
    c->numbered_us = 5012;
    d->numbered_us = 900000;
    e->numbered_us = 1000;
    outbox_init(&o);
    outbox_init(&held);
    for (unsigned i = 0; i < 2; i++) { /* merged changes wait since the first of them */
        struct subscription *sub = i == 0 ? &a : &strict;
        assert_int_equal(outbox_push(&o, sub, c, updated, MAX), OUTBOX_ADDED);
        assert_int_equal(outbox_waited(outbox_first(&o), 6013), 1001); /* to the microsecond */
        assert_int_equal(outbox_waited(outbox_first(&o), 4000), 0);
        assert_int_equal(outbox_push(&o, sub, d, updated, MAX), OUTBOX_MERGED);
        assert_int_equal(outbox_waited(outbox_first(&o), 1000000), 995000);
        outbox_pop(&o);
    }
    /* A change held by a window waits since the window released it, whatever its age. */
    assert_int_equal(outbox_push(&held, &a, c, updated, MAX), OUTBOX_ADDED);
    assert_int_equal(outbox_push(&held, &a, d, updated, MAX), OUTBOX_MERGED);
    assert_int_equal(outbox_push(&held, &a, e, updated, MAX), OUTBOX_ADDED);
    assert_true(outbox_take(&o, &held, 20000, MAX));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(outbox_waited(outbox_first(&o), 2000400), 400);
        outbox_pop(&o);
    }
    assert_int_equal(outbox_push(&o, &a, e, row, MAX), OUTBOX_ADDED);
    assert_int_equal(outbox_waited(outbox_first(&o), 8000), 1000);
    outbox_pop(&o);
    assert_int_equal(outbox_push_initial(&o, &a, e, 60, MAX), OUTBOX_ADDED);
    assert_int_equal(outbox_waited(outbox_first(&o), 8000), 2000);
    outbox_deinit(&held);
    outbox_deinit(&o);
    change_unref(c);
    change_unref(d);
    change_unref(e);
}

static void merge_counter_saturates(void **state)
{
    (void)state;
    struct outbox o;
    struct subscription a = {0};
    outbox_init(&o);
    assert_int_equal(push(&o, &a, "x:1", TIDINGS_CHANGE_MOVED, 1, MAX), OUTBOX_ADDED);
    assert_int_equal(outbox_first(&o)->kind, TIDINGS_CHANGE_MOVED);
    outbox_first(&o)->merged = OUTBOX_MERGED_MAX - 1;
    for (uint64_t seq = 2; seq < 5; seq++) {
        assert_int_equal(push(&o, &a, "x:1", TIDINGS_CHANGE_DELETED, seq, MAX), OUTBOX_MERGED);
        assert_int_equal(outbox_first(&o)->merged, OUTBOX_MERGED_MAX);
        assert_int_equal(outbox_first(&o)->kind, TIDINGS_CHANGE_DELETED);
    }
    outbox_deinit(&o);
}

static void strict_subscription_merges_in_the_place_of_the_newer_change(void **state)
{
    (void)state;
    static const uint64_t order[] = {2, 3, 5, 6};
    struct outbox o;
    struct subscription a = {.is_strict = true}, b = {0};
    outbox_init(&o);
    assert_int_equal(push(&o, &a, "x:1", TIDINGS_CHANGE_CREATED, 1, 4), OUTBOX_ADDED);
    assert_int_equal(push(&o, &a, "x:2", TIDINGS_CHANGE_UPDATED, 2, 4), OUTBOX_ADDED);
    assert_int_equal(push(&o, &b, "x:1", TIDINGS_CHANGE_UPDATED, 3, 4), OUTBOX_ADDED);
    assert_int_equal(push(&o, &a, "x:1", TIDINGS_CHANGE_UPDATED, 4, 4), OUTBOX_MERGED);
    assert_int_equal(push(&o, &a, "x:3", TIDINGS_CHANGE_UPDATED, 5, 4), OUTBOX_ADDED);
    assert_int_equal(push(&o, &a, "x:1", TIDINGS_CHANGE_UPDATED, 6, 4), OUTBOX_MERGED);
    assert_int_equal(a.queued, 3);
    for (size_t i = 0; i < COUNT(order); i++) {
        struct outbox_item *item = outbox_first(&o);
        assert_int_equal(item->change->seq, order[i]);
        assert_int_equal(item->first_seq, order[i]);
        assert_int_equal(item->merged, order[i] == 6 ? 3 : 1);
        assert_int_equal(item->kind,
                         order[i] == 6 ? TIDINGS_CHANGE_CREATED : TIDINGS_CHANGE_UPDATED);
        outbox_pop(&o);
    }
    assert_int_equal(a.queued, 0);
    outbox_deinit(&o);
}

static void full_queue_rejects_changes_but_still_merges(void **state)
{
    (void)state;
    struct outbox o;
    struct subscription a = {0};
    outbox_init(&o);
    assert_int_equal(push(&o, &a, "x:1", TIDINGS_CHANGE_UPDATED, 1, 2), OUTBOX_ADDED);
    assert_int_equal(push(&o, &a, "x:2", TIDINGS_CHANGE_UPDATED, 2, 2), OUTBOX_ADDED);
    assert_int_equal(push(&o, &a, "x:3", TIDINGS_CHANGE_UPDATED, 3, 2), OUTBOX_FULL);
    assert_int_equal(o.count, 2);
    assert_int_equal(a.queued, 2);
    assert_int_equal(push(&o, &a, "x:2", TIDINGS_CHANGE_UPDATED, 4, 2), OUTBOX_MERGED);
    outbox_deinit(&o);
    assert_int_equal(a.queued, 0);
}

static void queue_is_full_without_memory(void **state)
{
    (void)state;
    struct outbox o;
    struct subscription a = {0};
    struct tidings_change from = {.uri = STR("x:1")}, next = {.uri = STR("x:2")};
    struct change *c = change_create(&from, 1, 1);
    struct change *d = change_create(&next, 1, 2);
    outbox_init(&o);
    fail_alloc_start(1);
    assert_int_equal(outbox_push(&o, &a, c, updated, MAX), OUTBOX_ADDED);
    assert_false(fail_alloc_stop()); /* one entry needs no memory */
    fail_alloc_start(1);
    assert_int_equal(outbox_push(&o, &a, d, updated, MAX), OUTBOX_FULL);
    assert_true(fail_alloc_stop());
    assert_int_equal(a.queued, 1);
    assert_ptr_equal(outbox_first(&o)->change, c);
    outbox_deinit(&o);
    change_unref(c);
    change_unref(d);
}

static void queue_keeps_the_order_when_a_subscription_is_removed(void **state)
{
    (void)state;
    struct outbox o;
    struct subscription first = {0}, second = {0}, third = {0};
    struct subscription *subs[] = {&first, &second, &third};
    outbox_init(&o);
    /* Start in the middle of the ring. */
    for (unsigned i = 0; i < 3; i++) {
        push(&o, subs[0], "x:0", TIDINGS_CHANGE_UPDATED, 1, MAX);
        push(&o, subs[1], "x:0", TIDINGS_CHANGE_UPDATED, 1, MAX);
        outbox_pop(&o);
        outbox_remove(&o, subs[1]);
    }
    for (uint64_t i = 1; i <= 30; i++) {
        char uri[32];
        snprintf(uri, sizeof(uri), "x:%llu", (unsigned long long)i);
        push(&o, subs[i % 3], uri, TIDINGS_CHANGE_UPDATED, i, MAX);
    }
    outbox_remove(&o, subs[1]);
    assert_int_equal(subs[1]->queued, 0);
    assert_int_equal(subs[0]->queued, 10);
    assert_int_equal(o.count, 20);
    uint64_t last = 0;
    while (outbox_first(&o)) {
        uint64_t seq = outbox_first(&o)->change->seq;
        assert_true(seq > last && seq % 3 != 1);
        last = seq;
        outbox_pop(&o);
    }
    outbox_deinit(&o);
}

static void empty_queue_holds_no_memory(void **state)
{
    (void)state;
    struct outbox o;
    struct subscription a = {0};
    outbox_init(&o);
    for (uint64_t i = 1; i <= 100; i++) {
        char uri[32];
        snprintf(uri, sizeof(uri), "x:%llu", (unsigned long long)i);
        push(&o, &a, uri, TIDINGS_CHANGE_UPDATED, i, MAX);
    }
    assert_true(fail_alloc_live() > 100);
    while (outbox_first(&o)) {
        outbox_pop(&o);
    }
    assert_int_equal(fail_alloc_live(), 0);
    push(&o, &a, "x:1", TIDINGS_CHANGE_UPDATED, 101, MAX);
    outbox_remove(&o, NULL);
    assert_int_equal(fail_alloc_live(), 0);
    assert_int_equal(a.queued, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_merge_according_to_the_table),
        cmocka_unit_test_setup_teardown(queue_returns_changes_in_order, count_allocations,
                                        nothing_is_left),
        cmocka_unit_test_setup_teardown(second_change_merges_in_the_place_of_the_first,
                                        count_allocations, nothing_is_left),
        cmocka_unit_test_setup_teardown(replayed_change_stays_marked_after_a_merge,
                                        count_allocations, nothing_is_left),
        cmocka_unit_test_setup_teardown(queued_change_is_due_since_its_number_or_window_end,
                                        count_allocations, nothing_is_left),
        cmocka_unit_test_setup_teardown(merge_counter_saturates, count_allocations,
                                        nothing_is_left),
        cmocka_unit_test_setup_teardown(strict_subscription_merges_in_the_place_of_the_newer_change,
                                        count_allocations, nothing_is_left),
        cmocka_unit_test_setup_teardown(full_queue_rejects_changes_but_still_merges,
                                        count_allocations, nothing_is_left),
        cmocka_unit_test_setup_teardown(queue_is_full_without_memory, count_allocations,
                                        nothing_is_left),
        cmocka_unit_test_setup_teardown(queue_keeps_the_order_when_a_subscription_is_removed,
                                        count_allocations, nothing_is_left),
        cmocka_unit_test_setup_teardown(empty_queue_holds_no_memory, count_allocations,
                                        nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
