/* SPDX-License-Identifier: MIT
 *
 * What of a page is followed: rows in a row, up to where the store is; the rest is read of more
 * tables.
 */
#include "cluster/follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX 4

static uint64_t position_of(void *rows, size_t i)
{
    const uint64_t *positions = rows;
    return positions[i];
}

/* After 10, where the store is at 13. */
static size_t follow(struct page_reader *r, uint64_t *positions, size_t count, bool is_missed,
                     bool *ret_last)
{
    const struct page page = {count, MAX, 13, is_missed, position_of, positions};
    return page_followable(r, &page, 10, ret_last);
}

static void rows_in_a_row_up_to_where_the_store_is_are_all(void **state)
{
    (void)state;
    struct page_reader r = {PAGE_ENTITIES, 0};
    bool is_last = false;
    assert_int_equal(follow(&r, (uint64_t[]){11, 12, 13}, 3, false, &is_last), 3);
    assert_true(is_last);
    assert_int_equal(r.tables, PAGE_ENTITIES);
    /* and beyond: it was committed since */
    assert_int_equal(follow(&r, (uint64_t[]){11, 12, 13, 14}, 4, false, &is_last), 4);
    assert_false(is_last); /* there may be more */
    assert_int_equal(r.tables, PAGE_ENTITIES);
}

static void what_is_missing_is_read_of_more_tables(void **state)
{
    (void)state;
    uint64_t gap[] = {11, 13}, end[] = {11, 12}, later[] = {12, 13}, earlier[] = {10, 11};
    bool is_last = true;
    struct page_reader r = {PAGE_ENTITIES, 0};
    assert_int_equal(follow(&r, gap, 2, false, &is_last), 1);
    assert_false(is_last);
    assert_int_equal(r.tables, PAGE_RECENT);
    assert_int_equal(follow(&r, end, 2, false, &is_last), 2);
    assert_false(is_last);
    assert_int_equal(r.tables, PAGE_ALL);
    r.tables = PAGE_ENTITIES;
    assert_int_equal(follow(&r, later, 2, false, &is_last), 0);
    assert_int_equal(follow(&r, earlier, 2, false, &is_last), 0);
    r.tables = PAGE_ENTITIES;
    assert_int_equal(follow(&r, NULL, 0, false, &is_last), 0);
    assert_int_equal(r.tables, PAGE_RECENT);
    /* of all tables nothing is missing, also where positions are */
    r.tables = PAGE_ALL;
    assert_int_equal(follow(&r, gap, 2, false, &is_last), 2);
    assert_true(is_last);
}

/* A run that begins and those that it ends have one position. */
static void rows_of_one_position_are_followed_together(void **state)
{
    (void)state;
    struct page_reader r = {PAGE_ALL, 0};
    bool is_last = true;
    assert_int_equal(follow(&r, (uint64_t[]){11, 12, 13, 13}, 4, false, &is_last), 2);
    assert_false(is_last); /* of a full page the last may go on in the next one */
    assert_int_equal(follow(&r, (uint64_t[]){11, 13, 13}, 3, false, &is_last), 3);
    assert_true(is_last);
    assert_int_equal(follow(&r, (uint64_t[]){13, 13, 13, 13}, 4, false, &is_last), 4);
    assert_false(is_last);
}

static void what_was_forgotten_is_told_by_who_reads_all(void **state)
{
    (void)state;
    struct page_reader r = {PAGE_ENTITIES, 0};
    bool is_last = true;
    assert_int_equal(follow(&r, (uint64_t[]){11, 12, 13}, 3, true, &is_last), 0);
    assert_false(is_last);
    assert_int_equal(r.tables, PAGE_ALL);
}

static void fewer_tables_are_read_after_a_while(void **state)
{
    (void)state;
    struct page_reader r = {PAGE_ENTITIES, 0};
    bool is_last = false;
    (void)follow(&r, NULL, 0, true, &is_last);
    for (int i = 0; i < 16; i++) {
        page_choose(&r, PAGE_ENTITIES);
        assert_int_equal(r.tables, PAGE_ALL);
    }
    page_choose(&r, PAGE_ENTITIES);
    assert_int_equal(r.tables, PAGE_ENTITIES);
    (void)follow(&r, NULL, 0, true, &is_last);
    for (int i = 0; i < 10; i++) {
        page_choose(&r, PAGE_ENTITIES);
    }
    page_choose(&r, PAGE_ALL); /* it was needed */
    for (int i = 0; i < 16; i++) {
        page_choose(&r, PAGE_RECENT);
        assert_int_equal(r.tables, PAGE_ALL);
    }
    page_choose(&r, PAGE_RECENT);
    assert_int_equal(r.tables, PAGE_RECENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_a_row_up_to_where_the_store_is_are_all),
        cmocka_unit_test(what_is_missing_is_read_of_more_tables),
        cmocka_unit_test(rows_of_one_position_are_followed_together),
        cmocka_unit_test(what_was_forgotten_is_told_by_who_reads_all),
        cmocka_unit_test(fewer_tables_are_read_after_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
