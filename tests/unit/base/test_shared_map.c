/* SPDX-License-Identifier: MIT
 *
 * The shared map: single steps, order, references that outlive their entry, several threads, and
 * failing allocations. */
#include "base/map.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "support/fail_alloc.h"

struct thing {
    struct shared_value value;
    unsigned number;
    char name[16];
};

static void thing_destroy(struct shared_value *value)
{
    mem_free(value);
}

static struct thing *thing_create(const char *name, unsigned number)
{
    struct thing *t = mem_zalloc(sizeof(*t));
    if (t) {
        snprintf(t->name, sizeof(t->name), "%s", name);
        t->number = number;
        t->value = (struct shared_value){tidings_str(t->name), thing_destroy, 1};
    }
    return t;
}

static struct shared_map *new_map(void)
{
    struct tidings_error err = {0, ""};
    struct shared_map *s = shared_map_create(&err);
    assert_non_null(s);
    return s;
}

static int answer(void *user, const struct shared_value *old)
{
    (void)old;
    return *(int *)user;
}

static int put(struct shared_map *s, const char *name, unsigned number)
{
    int decision = SHARED_MAP_REPLACE;
    struct thing *t = thing_create(name, number);
    if (!t) {
        return TIDINGS_E_NOMEM;
    }
    int rc = shared_map_update(s, tidings_str(name), &t->value, answer, &decision);
    shared_value_unref(&t->value);
    return rc;
}

static int decide(struct shared_map *s, const char *name, int decision)
{
    return shared_map_update(s, tidings_str(name), NULL, answer, &decision);
}

static unsigned number_of(struct shared_map *s, const char *name)
{
    struct shared_value *v = shared_map_find(s, tidings_str(name));
    unsigned n = v ? ((struct thing *)v)->number : 0;
    shared_value_unref(v);
    return n;
}

static void entry_is_found_until_removed(void **state)
{
    (void)state;
    struct shared_map *s = new_map();
    assert_null(shared_map_find(s, STR("a")));
    assert_int_equal(put(s, "a", 1), SHARED_MAP_REPLACE);
    assert_int_equal(put(s, "a", 2), SHARED_MAP_REPLACE);
    assert_int_equal(number_of(s, "a"), 2);
    assert_int_equal(decide(s, "a", SHARED_MAP_KEEP), SHARED_MAP_KEEP);
    assert_int_equal(decide(s, "a", TIDINGS_E_BUSY), TIDINGS_E_BUSY);
    assert_int_equal(number_of(s, "a"), 2);
    assert_int_equal(decide(s, "a", SHARED_MAP_REMOVE), SHARED_MAP_REMOVE);
    assert_int_equal(decide(s, "a", SHARED_MAP_REMOVE), SHARED_MAP_REMOVE);
    assert_int_equal(number_of(s, "a"), 0);
    shared_map_destroy(s);
    shared_map_destroy(NULL);
}

static void keys_ascend_in_any_insertion_order(void **state)
{
    (void)state;
    struct shared_map *s = new_map();
    for (unsigned i = 0; i < 500; i++) {
        char name[16];
        snprintf(name, sizeof(name), "k%03u", i * 7 % 500);
        put(s, name, i + 1);
    }
    struct shared_value *v = shared_map_next(s, STR_EMPTY);
    for (unsigned i = 0; i < 500; i++) {
        char name[16];
        snprintf(name, sizeof(name), "k%03u", i);
        assert_true(str_eq(v->key, tidings_str(name)));
        struct shared_value *next = shared_map_next(s, v->key);
        shared_value_unref(v);
        v = next;
    }
    assert_null(v);
    v = shared_map_next(s, STR("k0105")); /* missing: the first one after it */
    assert_true(str_eq(v->key, STR("k011")));
    shared_value_unref(v);
    shared_map_destroy(s);
}

static void value_outlives_its_entry(void **state)
{
    (void)state;
    struct shared_map *s = new_map();
    put(s, "a", 1);
    struct shared_value *v = shared_map_find(s, STR("a"));
    put(s, "a", 2);
    shared_map_destroy(s);
    assert_int_equal(((struct thing *)v)->number, 1);
    shared_value_unref(v);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define THREADS 4u
#define ROUNDS 2000u

struct counting {
    struct shared_map *shared;
    struct thing *fresh;
};

static int count_up(void *user, const struct shared_value *old)
{
    struct counting *c = user;
    c->fresh->number = old ? ((const struct thing *)old)->number + 1 : 1;
    return SHARED_MAP_REPLACE;
}

static void *count(void *arg)
{
    struct shared_map *s = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct counting c = {s, thing_create("n", 0)};
        shared_map_update(s, STR("n"), &c.fresh->value, count_up, &c);
        shared_value_unref(&c.fresh->value);
        shared_value_unref(shared_map_next(s, STR_EMPTY));
        shared_value_unref(shared_map_find(s, STR("n")));
    }
    return NULL;
}

static void concurrent_steps_are_never_lost(void **state)
{
    (void)state;
    struct shared_map *s = new_map();
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count, s), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(number_of(s, "n"), THREADS * ROUNDS);
    shared_map_destroy(s);
}

static void failed_allocation_changes_nothing_and_leaks_nothing(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct tidings_error err = {0, ""};
        fail_alloc_start(n);
        struct shared_map *s = shared_map_create(&err);
        if (s) {
            int rc = 0;
            for (unsigned i = 0; i < 20 && rc >= 0; i++) {
                char name[16];
                snprintf(name, sizeof(name), "%u", i);
                rc = put(s, name, i + 1);
                assert_int_equal(number_of(s, name), rc < 0 ? 0 : i + 1);
            }
            assert_true(rc == SHARED_MAP_REPLACE || rc == TIDINGS_E_NOMEM);
        }
        shared_map_destroy(s);
        reached = fail_alloc_stop();
        assert_int_equal(fail_alloc_live(), 0);
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry_is_found_until_removed),
        cmocka_unit_test(keys_ascend_in_any_insertion_order),
        cmocka_unit_test(value_outlives_its_entry),
        cmocka_unit_test(concurrent_steps_are_never_lost),
        cmocka_unit_test(failed_allocation_changes_nothing_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
