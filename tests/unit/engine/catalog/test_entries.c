/* SPDX-License-Identifier: MIT
 *
 * Snapshots of registered entries, compared with a sorted list under random additions and removals.
 * Old snapshots do not change, and a failed allocation loses nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/catalog/catalog.h"
#include "support/fail_alloc.h"

enum { NAMES = 2000 };

static struct catalog_entry *entries[NAMES];

static struct catalog_entry *entry(unsigned n)
{
    char uri[32];
    struct tidings_resource about = {0};
    (void)snprintf(uri, sizeof uri, "x:///%04u", n);
    about.uri = about.name = tidings_str(uri);
    struct catalog_entry *e = catalog_entry_create(&about, false, NULL, NULL, NULL);
    assert_non_null(e);
    return e;
}

/* Exactly the URIs with a set bit, in order, each findable, from any start. */
static void assert_holds(const struct entries *e, const bool *present)
{
    struct entries_position at = entries_after(e, STR_EMPTY);
    size_t count = 0;
    for (unsigned n = 0; n < NAMES; n++) {
        assert_ptr_equal(entries_find(e, entries[n]->about->uri), present[n] ? entries[n] : NULL);
        if (present[n]) {
            assert_ptr_equal(entries_next(e, &at), entries[n]);
            count++;
        }
    }
    assert_null(entries_next(e, &at));
    assert_int_equal(e->count, count);
    for (unsigned n = 0; n < NAMES; n += 97) {
        struct entries_position after = entries_after(e, entries[n]->about->uri);
        unsigned next = n + 1;
        while (next < NAMES && !present[next]) {
            next++;
        }
        assert_ptr_equal(entries_next(e, &after), next < NAMES ? entries[next] : NULL);
    }
}

static void entries_equal_a_sorted_list_after_random_changes(void **state)
{
    (void)state;
    static bool present[NAMES], then[NAMES];
    struct entries e = {0}, old = {0}, next;
    uint64_t seed = 7;
    fail_alloc_start(0);
    for (unsigned n = 0; n < NAMES; n++) {
        entries[n] = entry(n);
        present[n] = false;
    }
    for (unsigned round = 0; round < 12000; round++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned n = (unsigned)(seed >> 33) % NAMES;
        /* Grows to most of them, then shrinks to few. */
        bool add = round < 6000 ? !present[n] : false;
        struct tidings_str remove = round >= 6000 ? entries[n]->about->uri : STR_EMPTY;
        assert_int_equal(entries_derive(&next, &e, add ? entries[n] : NULL, remove), 0);
        present[n] = round < 6000;
        entries_deinit(&e);
        e = next;
        if (round == 5000) {
            assert_int_equal(entries_derive(&old, &e, NULL, STR_EMPTY), 0);
            memcpy(then, present, sizeof then);
        }
        if (round % 1000 == 0) {
            assert_holds(&e, present);
        }
    }
    assert_holds(&e, present);
    assert_holds(&old, then);
    entries_deinit(&e);
    entries_deinit(&old);
    entries_deinit(&old);
    for (unsigned n = 0; n < NAMES; n++) {
        catalog_entry_unref(entries[n]);
    }
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

static void failed_allocation_leaves_entries_unchanged(void **state)
{
    (void)state;
    fail_alloc_start(0);
    struct entries e = {0}, next;
    struct catalog_entry *all[ENTRIES_LEAF + 1];
    for (unsigned n = 0; n <= ENTRIES_LEAF; n++) {
        all[n] = entry(n);
    }
    for (unsigned n = 0; n < ENTRIES_LEAF; n++) {
        assert_int_equal(entries_derive(&next, &e, all[n], STR_EMPTY), 0);
        entries_deinit(&e);
        e = next;
    }
    bool reached = true;
    for (long n = 1; reached; n++) {
        fail_alloc_start(n);
        int rc = entries_derive(&next, &e, all[ENTRIES_LEAF], STR_EMPTY); /* cuts the leaf in two */
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        assert_int_equal(next.count, reached ? 0 : ENTRIES_LEAF + 1);
        entries_deinit(&next);
    }
    entries_deinit(&e);
    for (unsigned n = 0; n <= ENTRIES_LEAF; n++) {
        catalog_entry_unref(all[n]);
    }
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_equal_a_sorted_list_after_random_changes),
        cmocka_unit_test(failed_allocation_leaves_entries_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
