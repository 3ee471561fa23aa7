/* SPDX-License-Identifier: MIT
 *
 * Cursors of other nodes: the local number of each cursor, the cursors that are rejected after the
 * store lost data, and how a node detects the loss. */
#include "cluster/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fail_alloc.h"

#define CLUSTER 77u
#define OURS 1u
#define THEIRS 2u
#define FIRST 100u

static int set_up(void **state)
{
    struct incarnations *r = NULL;
    if (incarnations_create(CLUSTER, OURS, FIRST, &r, NULL) < 0) {
        return -1;
    }
    incarnations_add(r, THEIRS, INCARNATION_LIVES);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    incarnations_destroy(*state);
    return 0;
}

/* A change announced here with that number. */
static void tell(struct incarnations *r, uint64_t number, uint64_t position)
{
    incarnations_follow(r, position, true);
    incarnations_map_position(r, number, position);
}

static uint64_t number_at(struct incarnations *r, uint64_t position)
{
    uint64_t number = UINT64_MAX;
    assert_int_equal(incarnations_resume(r, THEIRS, position, true, &number), INCARNATIONS_GOOD);
    return number;
}

static enum incarnations_answer ask(struct incarnations *r, uint64_t position, bool is_durable)
{
    uint64_t number = 0;
    return incarnations_resume(r, THEIRS, position, is_durable, &number);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void numbers_up_to_the_first_are_positions(void **state)
{
    assert_int_equal(number_at(*state, 0), 0);
    assert_int_equal(number_at(*state, 99), 99);
    assert_int_equal(number_at(*state, FIRST), FIRST);
    incarnations_follow(*state, FIRST + 5,
                        false); /* no resource; the numbers after FIRST belong to others */
    assert_int_equal(number_at(*state, FIRST + 3), FIRST);
}

static void position_maps_to_the_newest_change_up_to_it(void **state)
{
    struct incarnations *r = *state;
    tell(r, 105, 101);
    tell(r, 106, 102);
    tell(r, 110, 103);
    tell(r, 111, 107); /* the rows between are not announced */
    assert_int_equal(number_at(r, 100), 100);
    assert_int_equal(number_at(r, 101), 105);
    assert_int_equal(number_at(r, 102), 106);
    assert_int_equal(number_at(r, 103), 110);
    assert_int_equal(number_at(r, 106), 110);
    assert_int_equal(number_at(r, 107), 111);
    incarnations_follow(r, 109, false);
    assert_int_equal(number_at(r, 109), 111);
}

/* If there are more marks than the limit, an answer is never too high, and it is exact near the
 * end. */
static void numbers_beyond_the_bound_are_lower_never_higher(void **state)
{
    struct incarnations *r = *state;
    const uint64_t count = 5 * INCARNATIONS_POSITIONS_MAX;
    for (uint64_t i = 1; i <= count; i++) {
        tell(r, FIRST + 3 * i, FIRST + 2 * i);
        /* the newest is always exact */
        assert_int_equal(number_at(r, FIRST + 2 * i), FIRST + 3 * i);
    }
    uint64_t before = 0;
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t number = number_at(r, FIRST + 2 * i);
        assert_true(number <= FIRST + 3 * i && number >= before);
        assert_true(i + INCARNATIONS_POSITIONS_MAX / 4 < count || number == FIRST + 3 * i);
        assert_true(i < 100 || number > FIRST);
        before = number;
    }
}

/* A client with the higher position would have skipped it. */
static void late_position_lowers_earlier_answers(void **state)
{
    struct incarnations *r = *state;
    for (uint64_t i = 1; i <= 5; i++) {
        tell(r, 100 + i, 100 + i);
    }
    tell(r, 110, 108);
    tell(r, 111, 104);
    assert_int_equal(number_at(r, 103), 103);
    assert_int_equal(number_at(r, 104), 103);
    assert_int_equal(number_at(r, 108), 103);
    tell(r, 112, 107);
    assert_int_equal(number_at(r, 108), 103);
    tell(r, 113, 109);
    assert_int_equal(number_at(r, 108), 103);
    assert_int_equal(number_at(r, 109), 113);
}

static void cursor_ahead_of_this_node_waits(void **state)
{
    struct incarnations *r = *state;
    tell(r, 105, 101);
    uint64_t number = 0;
    assert_int_equal(incarnations_resume(r, THEIRS, 102, true, &number), INCARNATIONS_AHEAD);
    assert_int_equal(number, 105);
    assert_int_equal(ask(r, 101 + INCARNATIONS_AHEAD_MAX, true), INCARNATIONS_AHEAD);
    assert_int_equal(ask(r, 102 + INCARNATIONS_AHEAD_MAX, true), INCARNATIONS_REFUSED);
    incarnations_follow(r, 102, true);
    assert_int_equal(number_at(r, 102), 105);
    assert_int_equal(incarnations_followed(r), 102);
    incarnations_follow(r, 101, true);
    assert_int_equal(incarnations_followed(r), 102);
}

/* ---- incarnations ---------------------------------------------------------------------------- */

static void cursors_are_valid_only_within_known_incarnations(void **state)
{
    struct incarnations *r = *state;
    uint64_t number = 0;
    assert_int_equal(incarnations_resume(r, 3, 50, true, &number), INCARNATIONS_REFUSED);
    incarnations_add(r, 3, 60);
    assert_int_equal(incarnations_resume(r, 3, 60, true, &number), INCARNATIONS_GOOD);
    assert_int_equal(incarnations_resume(r, 3, 61, true, &number), INCARNATIONS_REFUSED);
    incarnations_add(r, 3, INCARNATION_LIVES); /* it counted as dead */
    assert_int_equal(incarnations_resume(r, 3, 61, true, &number), INCARNATIONS_GOOD);
    assert_int_equal(incarnations_resume(r, OURS, 61, true, &number), INCARNATIONS_GOOD);
}

static void oldest_incarnations_are_forgotten(void **state)
{
    struct incarnations *r = *state;
    uint64_t number = 0;
    for (uint64_t i = 3; i <= INCARNATIONS_MAX; i++) {
        incarnations_add(r, i, INCARNATION_LIVES);
    }
    assert_int_equal(incarnations_resume(r, OURS, 1, true, &number), INCARNATIONS_GOOD);
    incarnations_add(r, INCARNATIONS_MAX + 1, INCARNATION_LIVES);
    incarnations_add(r, INCARNATIONS_MAX + 2, INCARNATION_LIVES);
    assert_int_equal(incarnations_resume(r, OURS, 1, true, &number), INCARNATIONS_REFUSED);
    assert_int_equal(incarnations_resume(r, THEIRS, 1, true, &number), INCARNATIONS_REFUSED);
    assert_int_equal(incarnations_resume(r, 3, 1, true, &number), INCARNATIONS_GOOD);
    assert_int_equal(incarnations_resume(r, INCARNATIONS_MAX + 2, 1, true, &number),
                     INCARNATIONS_GOOD);
}

/* ---- breaks ---------------------------------------------------------------------------------- */

static void durable_changes_continue_from_kept_state_after_a_crash(void **state)
{
    struct incarnations *r = *state;
    tell(r, 101, 150);
    incarnations_add_loss(r, &(struct data_loss){.kept = 120, .began = 1000});
    tell(r, 102, 1000);
    assert_int_equal(ask(r, 120, true), INCARNATIONS_GOOD);
    assert_int_equal(ask(r, 121, true), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 999, true), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 1000, true), INCARNATIONS_GOOD);
    assert_int_equal(ask(r, 120, false), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 999, false), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 1000, false), INCARNATIONS_GOOD);
}

static void earlier_cursors_are_rejected_after_a_data_loss(void **state)
{
    struct incarnations *r = *state;
    incarnations_add_loss(r, &(struct data_loss){.kept = 120, .began = 1000, .is_lossy = true});
    tell(r, 101, 1001);
    assert_int_equal(ask(r, 50, true), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 999, true), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 1000, true), INCARNATIONS_GOOD);
    assert_int_equal(ask(r, 50, false), INCARNATIONS_REFUSED);
}

/* Two losses while a client was disconnected, even if this node learns of them in another order. */
static void every_later_data_loss_counts(void **state)
{
    struct incarnations *r = *state;
    incarnations_add_loss(r, &(struct data_loss){.kept = 2000, .began = 3000});
    incarnations_add_loss(r, &(struct data_loss){.kept = 120, .began = 1000});
    incarnations_add_loss(r, &(struct data_loss){.kept = 120, .began = 1000});
    incarnations_follow(r, 3000, true);
    assert_int_equal(ask(r, 120, true), INCARNATIONS_GOOD);
    assert_int_equal(ask(r, 130, true), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 1500, true), INCARNATIONS_GOOD);
    assert_int_equal(ask(r, 1500, false), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 2500, true), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 3000, false), INCARNATIONS_GOOD);
    incarnations_add_loss(r, &(struct data_loss){.kept = 3500, .began = 4000, .is_lossy = true});
    incarnations_follow(r, 4000, true);
    assert_int_equal(ask(r, 120, true), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 3200, true), INCARNATIONS_REFUSED);
}

static void newest_data_loss_is_found_in_any_order(void **state)
{
    struct incarnations *r = *state;
    assert_int_equal(incarnations_newest_loss(r), 0);
    incarnations_add_loss(r, &(struct data_loss){.kept = 300, .began = 3000});
    incarnations_add_loss(r, &(struct data_loss){.kept = 200, .began = 2000, .is_lossy = true});
    assert_int_equal(incarnations_newest_loss(r), 3000);
}

static void cursors_from_before_oldest_data_loss_are_refused(void **state)
{
    struct incarnations *r = *state;
    for (uint64_t i = 1; i <= INCARNATIONS_LOSSES_MAX; i++) {
        incarnations_add_loss(r,
                              &(struct data_loss){.kept = 1000 * i + 10, .began = 1000 * (i + 1)});
    }
    incarnations_follow(r, 1000 * (INCARNATIONS_LOSSES_MAX + 2), true);
    assert_int_equal(ask(r, 1010, true), INCARNATIONS_GOOD);
    incarnations_add_loss(r, &(struct data_loss){.kept = 1000 * (INCARNATIONS_LOSSES_MAX + 1) + 10,
                                                 .began = 1000 * (INCARNATIONS_LOSSES_MAX + 2)});
    assert_int_equal(ask(r, 1010, true), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 1999, true), INCARNATIONS_REFUSED);
    assert_int_equal(ask(r, 2000, true), INCARNATIONS_GOOD);
    incarnations_add_loss(r, &(struct data_loss){.kept = 1, .began = 2000}); /* known before */
    assert_int_equal(ask(r, 3000, true), INCARNATIONS_GOOD);
}

/* ---- the state of the store ------------------------------------------------------------------ */

#define HERE                                                                                       \
    {                                                                                              \
        .cluster = CLUSTER, .server = 5, .recorded = 5, .has_crash_mark = true, .position = FIRST  \
    }

static void unchanged_store_state_changes_nothing(void **state)
{
    struct store_state s = HERE;
    struct data_loss b = {.kept = 4711};
    assert_int_equal(incarnations_check(*state, &s, 9, &b), STORE_SAME);
    assert_int_equal(incarnations_check(NULL, &s, 9, &b), STORE_SAME);
    s.position += 1000000;
    assert_int_equal(incarnations_check(*state, &s, 9, &b), STORE_SAME);
    assert_int_equal(b.kept, 4711);
    s.cluster++;
    s.has_crash_mark = false;
    assert_int_equal(incarnations_check(*state, &s, 9, &b), STORE_OTHER);
}

static void crash_is_detected_by_the_mark(void **state)
{
    struct incarnations *r = *state;
    struct store_state s = HERE;
    struct data_loss b = {0};
    s.has_crash_mark = false;
    s.position = 105;
    incarnations_follow(r, 110, false); /* the crash lost the announcements */
    assert_int_equal(incarnations_check(r, &s, 9, &b), STORE_CRASHED);
    assert_int_equal(b.kept, 105);
    assert_true(b.began == 110 + INCARNATIONS_JUMP + 9);
    assert_false(b.is_lossy);
    assert_int_equal(incarnations_check(NULL, &s, UINT64_MAX, &b), STORE_CRASHED);
    assert_true(b.began == 105 + INCARNATIONS_JUMP + INCARNATIONS_JUMP - 1);
    incarnations_follow(r, 106, true); /* reported as written to disk */
    assert_int_equal(incarnations_check(r, &s, 9, &b), STORE_WENT_BACK);
    assert_true(b.is_lossy);
}

static void server_takeover_counts_as_possible_data_loss(void **state)
{
    struct store_state s = HERE;
    struct data_loss b = {0};
    s.server = 6;
    s.position = 1000;
    assert_int_equal(incarnations_check(*state, &s, 9, &b), STORE_REPLACED);
    assert_int_equal(b.kept, 1000);
    assert_true(b.is_lossy);
    assert_int_equal(incarnations_check(NULL, &s, 9, &b), STORE_REPLACED);
}

static void counter_that_decreased_is_detected_by_nodes_that_saw_it(void **state)
{
    struct incarnations *r = *state;
    struct store_state s = HERE;
    struct data_loss b = {0};
    s.position = FIRST - 1;
    assert_int_equal(incarnations_check(r, &s, 9, &b), STORE_WENT_BACK);
    assert_true(b.is_lossy && b.kept == FIRST - 1 && b.began > FIRST);
    assert_int_equal(incarnations_check(NULL, &s, 9, &b), STORE_SAME);
    s.position = FIRST;
    incarnations_follow(r, FIRST + 1, false);
    assert_int_equal(incarnations_check(r, &s, 9, &b), STORE_WENT_BACK);
}

/* The other nodes saw a crash, but not the loss of a durable change that this node had followed. */
static void loss_unseen_by_other_nodes_is_reported(void **state)
{
    struct incarnations *r = *state;
    const struct data_loss theirs[] = {{.kept = 90, .began = 5000}};
    struct store_state s = HERE;
    struct data_loss b = {0};
    s.data_losses = theirs;
    s.data_loss_count = 1;
    s.position = 5010;
    assert_int_equal(incarnations_check(r, &s, 9, &b), STORE_WENT_BACK);
    assert_true(b.is_lossy && b.kept == 5010 && b.began == 5010 + INCARNATIONS_JUMP + 9);
    s.has_crash_mark = false;
    assert_int_equal(incarnations_check(r, &s, 9, &b), STORE_WENT_BACK);

    s.has_crash_mark = true;
    const struct data_loss lossy[] = {{.kept = 90, .began = 5000, .is_lossy = true}};
    s.data_losses = lossy;
    assert_int_equal(incarnations_check(r, &s, 9, &b), STORE_SAME);
    const struct data_loss fine[] = {{.kept = FIRST, .began = 5000}};
    s.data_losses = fine;
    assert_int_equal(incarnations_check(r, &s, 9, &b), STORE_SAME);
    s.data_losses = theirs; /* this node was present before */
    incarnations_add_loss(r, theirs);
    assert_int_equal(incarnations_check(r, &s, 9, &b), STORE_SAME);
}

static void exhausted_positions_are_reported(void **state)
{
    struct store_state s = HERE;
    struct data_loss b = {0};
    s.has_crash_mark = false;
    s.position = INCARNATIONS_POSITION_MAX;
    assert_int_equal(incarnations_check(*state, &s, UINT64_MAX, &b), STORE_CRASHED);
    assert_true(b.began < INT64_MAX);
    s.position++;
    assert_int_equal(incarnations_check(*state, &s, 9, &b), STORE_OTHER);
}

static void lost_announcements_are_detected(void **state)
{
    struct incarnations *r = *state;
    assert_false(incarnations_miss(r, FIRST));
    assert_true(incarnations_miss(r, FIRST + 1));
    incarnations_follow(r, FIRST + 1, false);
    assert_false(incarnations_miss(r, FIRST + 1));
}

static void creation_fails_without_memory(void **state)
{
    (void)state;
    struct incarnations *r = NULL;
    struct tidings_error err = {0};
    fail_alloc_start(1);
    assert_int_equal(incarnations_create(CLUSTER, OURS, FIRST, &r, &err), TIDINGS_E_NOMEM);
    assert_true(fail_alloc_stop());
    assert_int_equal(fail_alloc_live(), 0);
    incarnations_destroy(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_up_to_the_first_are_positions),
        TEST(position_maps_to_the_newest_change_up_to_it),
        TEST(numbers_beyond_the_bound_are_lower_never_higher),
        TEST(late_position_lowers_earlier_answers),
        TEST(cursor_ahead_of_this_node_waits),
        TEST(cursors_are_valid_only_within_known_incarnations),
        TEST(oldest_incarnations_are_forgotten),
        TEST(durable_changes_continue_from_kept_state_after_a_crash),
        TEST(earlier_cursors_are_rejected_after_a_data_loss),
        TEST(every_later_data_loss_counts),
        TEST(newest_data_loss_is_found_in_any_order),
        TEST(cursors_from_before_oldest_data_loss_are_refused),
        TEST(unchanged_store_state_changes_nothing),
        TEST(crash_is_detected_by_the_mark),
        TEST(server_takeover_counts_as_possible_data_loss),
        TEST(counter_that_decreased_is_detected_by_nodes_that_saw_it),
        TEST(loss_unseen_by_other_nodes_is_reported),
        TEST(exhausted_positions_are_reported),
        TEST(lost_announcements_are_detected),
        cmocka_unit_test(creation_fails_without_memory),
    };
    return cmocka_run_group_tests_name("runs", tests, NULL, NULL);
}
