/* SPDX-License-Identifier: MIT
 *
 * The hash table, compared with a plain array. */
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/fail_alloc.h"

enum { KEYS = 500 };

struct entry {
    char key[24];
    bool is_in;
};
static struct entry entries[KEYS];

static struct tidings_str key_of(const struct entry *e)
{
    return tidings_str(e->key);
}

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(entries[i].key, sizeof entries[i].key, "file:///n/%d", i);
        entries[i].is_in = false;
    }
    return 0;
}

static void empty_map_contains_nothing(void **state)
{
    (void)state;
    struct map m;
    size_t pos = 0;
    map_init(&m);
    assert_null(map_find(&m, STR("a")));
    assert_null(map_remove(&m, STR("a")));
    assert_null(map_next(&m, &pos));
    map_deinit(&m);
}

static void put_replaces_value_and_key(void **state)
{
    (void)state;
    struct map m;
    int one = 1, two = 2;
    void *old = &m;
    char key_a[] = "k", key_b[] = "k";
    map_init(&m);
    assert_int_equal(map_put(&m, tidings_str(key_a), &one, &old), 0);
    assert_null(old);
    assert_int_equal(map_put(&m, tidings_str(key_b), &two, &old), 0);
    assert_ptr_equal(old, &one);
    key_a[0] = 'x'; /* the first slice may be freed now */
    assert_ptr_equal(map_find(&m, STR("k")), &two);
    assert_int_equal(m.count, 1);
    assert_int_equal(map_put(&m, tidings_strn(NULL, 0), &one, NULL), 0);
    assert_ptr_equal(map_find(&m, STR("")), &one);
    map_deinit(&m);
}

static void check_all(const struct map *m)
{
    size_t expected = 0, seen = 0, pos = 0;
    for (int i = 0; i < KEYS; i++) {
        void *want = entries[i].is_in ? &entries[i] : NULL;
        assert_ptr_equal(map_find(m, key_of(&entries[i])), want);
        expected += entries[i].is_in;
    }
    for (struct entry *e; (e = map_next(m, &pos));) {
        assert_true(e->is_in);
        seen++;
    }
    assert_int_equal(seen, expected);
    assert_int_equal(m->count, expected);
}

static void random_puts_and_removes_match_an_array(void **state)
{
    (void)state;
    struct map m;
    uint32_t x = 7;
    map_init(&m);
    for (int step = 0; step < 20000; step++) {
        x = x * 1664525u + 1013904223u;
        struct entry *e = &entries[(x >> 8) % KEYS];
        bool growing = step % 8000 < 4000;
        if ((x >> 24) % 4 < (growing ? 3u : 1u)) {
            void *old;
            assert_int_equal(map_put(&m, key_of(e), e, &old), 0);
            assert_ptr_equal(old, e->is_in ? e : NULL);
            e->is_in = true;
        } else {
            assert_ptr_equal(map_remove(&m, key_of(e)), e->is_in ? e : NULL);
            e->is_in = false;
        }
        if (step % 500 == 0) {
            check_all(&m);
        }
    }
    check_all(&m);
    map_deinit(&m);
}

static void map_shrinks_and_owns_nothing_when_empty(void **state)
{
    (void)state;
    struct map m;
    fail_alloc_start(0);
    map_init(&m);
    for (int i = 0; i < KEYS; i++) {
        assert_int_equal(map_put(&m, key_of(&entries[i]), &entries[i], NULL), 0);
    }
    size_t largest = m.cap;
    for (int i = 0; i < KEYS; i++) {
        assert_true(m.cap <= 8 || m.cap <= m.count * 8);
        assert_ptr_equal(map_remove(&m, key_of(&entries[i])), &entries[i]);
    }
    assert_true(largest > KEYS);
    assert_int_equal(m.cap, 0);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

static void maps_have_different_seeds(void **state)
{
    (void)state;
    struct map a, b;
    int v;
    map_init(&a);
    map_init(&b);
    assert_int_equal(map_put(&a, STR("k"), &v, NULL), 0);
    assert_int_equal(map_put(&b, STR("k"), &v, NULL), 0);
    assert_true(a.seed != b.seed);
    map_deinit(&a);
    map_deinit(&b);
}

static void failed_allocation_leaves_the_map_unchanged(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct map m;
        map_init(&m);
        (void)setup(NULL);
        fail_alloc_start(n);
        int rc = 0;
        for (int i = 0; i < KEYS && rc == 0; i++) {
            rc = map_put(&m, key_of(&entries[i]), &entries[i], NULL);
            entries[i].is_in = rc == 0;
        }
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        check_all(&m);
        for (int i = 0; i < KEYS; i++) { /* a failed shrink is not reported to the caller */
            fail_alloc_start(1);
            assert_ptr_equal(map_remove(&m, key_of(&entries[i])),
                             entries[i].is_in ? &entries[i] : NULL);
        }
        map_deinit(&m);
        assert_int_equal(fail_alloc_live(), 0);
        assert_true(n < 100);
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(empty_map_contains_nothing, setup),
        cmocka_unit_test_setup(put_replaces_value_and_key, setup),
        cmocka_unit_test_setup(random_puts_and_removes_match_an_array, setup),
        cmocka_unit_test_setup(map_shrinks_and_owns_nothing_when_empty, setup),
        cmocka_unit_test_setup(maps_have_different_seeds, setup),
        cmocka_unit_test_setup(failed_allocation_leaves_the_map_unchanged, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
