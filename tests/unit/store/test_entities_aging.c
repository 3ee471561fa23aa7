/* SPDX-License-Identifier: MIT
 *
 * Versions that expire by age without a further write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "store/entities.h"
#include "store/memory_store.h"

#define ENTITIES 150 /* more than one step checks */

static struct entities *e;
static struct arena arena;
static struct tidings_error err;

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &root, NULL), 0);
    return root;
}

static void add_type(const char *name, const char *options)
{
    struct entity_type_spec spec = {tidings_str(name), STR("1"), STR(""), parse("{}"), NULL, NULL};
    spec.options = options ? parse(options) : NULL;
    assert_int_equal(entities_begin(e, &err), 0);
    assert_int_equal(entities_add_type(e, &spec, &err), 0);
    assert_int_equal(entities_commit(e, &err), 0);
    jv_unref(spec.schema);
    jv_unref(spec.options);
}

static void put(const char *type, const char *id, const char *value, int64_t at)
{
    struct entity_write w = {.id = tidings_str(id),
                             .type = tidings_str(type),
                             .type_version = STR("1"),
                             .value = parse(value),
                             .changed_by = STR("[]"),
                             .baseline = TIMELINE_NEVER,
                             .valid_from = TIMELINE_NEVER};
    const struct entity_transaction t = {.writes = &w, .count = 1, .key = STR(""), .now = at};
    struct entity_done done;
    struct entity_problem problem;
    assert_int_equal(entities_begin(e, &err), 0);
    assert_int_equal(entities_transact(e, &t, &arena, &done, &problem, &err), 0);
    assert_int_equal(entities_commit(e, &err), 0);
    jv_unref(w.value);
    arena_reset(&arena);
}

static bool count(void *user, const struct entity_version *v)
{
    (void)v;
    ++*(int *)user;
    return true;
}

static int versions_of(const char *id)
{
    int n = 0;
    assert_int_equal(entities_history(e, tidings_str(id), TIMELINE_NEVER, count, &n, &err), 0);
    return n;
}

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 1u << 20);
    return entities_open(memory_store_create(&err), &e, &err);
}

static int teardown(void **state)
{
    (void)state;
    entities_close(e);
    arena_deinit(&arena);
    return 0;
}

static void all_entities_are_checked_and_only_aged_versions_removed(void **state)
{
    (void)state;
    char id[16];
    add_type("Young", "{\"maxAgeMs\":60000}");
    add_type("Old", NULL);
    for (int i = 0; i < ENTITIES; i++) {
        snprintf(id, sizeof id, "e%d", i);
        put(i % 2 ? "Young" : "Old", id, "1", 5000); /* 50 years ago */
        put(i % 2 ? "Young" : "Old", id, "2", 5001);
        put(i % 2 ? "Young" : "Old", id, "3", 5002);
    }
    int rounds = 0, rc = 1;
    for (; rc == 1; rounds++) {
        rc = entities_idle(e, &err);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(rounds, 3);
    for (int i = 0; i < ENTITIES; i++) {
        struct entity_version v;
        snprintf(id, sizeof id, "e%d", i);
        assert_int_equal(versions_of(id), i % 2 ? 1 : 3);
        assert_int_equal(entities_find(e, tidings_str(id), TIMELINE_FOREVER, &arena, &v, &err), 1);
        assert_int_equal(v.from, 5002);
        arena_reset(&arena);
    }
    put("Young", "e1", "4", 5003);
    assert_int_equal(versions_of("e1"), 2);
    assert_int_equal(entities_idle(e, &err), 0); /* no second run immediately */
    assert_int_equal(versions_of("e1"), 2);
}

static void needed_version_is_kept_at_any_age(void **state)
{
    (void)state;
    add_type("Young", "{\"maxAgeMs\":60000}");
    for (int i = 0; i < 4; i++) {
        put("Young", "x", i % 2 ? "1" : "2", 5000 + i);
    }
    assert_int_equal(entities_hold(e, STR("x"), 5001), 0);
    put("Young", "x", "3", 5004);
    assert_int_equal(entities_idle(e, &err), 0);
    assert_int_equal(versions_of("x"), 4);
    entities_release(e, STR("x"), 5001);
}

static void young_versions_are_kept(void **state)
{
    (void)state;
    add_type("Young", "{\"maxAgeMs\":60000}");
    int64_t far = INT64_C(4102444800000); /* 2100 */
    put("Young", "x", "1", far);
    put("Young", "x", "2", far + 1);
    assert_int_equal(entities_idle(e, &err), 0);
    assert_int_equal(versions_of("x"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_entities_are_checked_and_only_aged_versions_removed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(needed_version_is_kept_at_any_age, setup, teardown),
        cmocka_unit_test_setup_teardown(young_versions_are_kept, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
