/* SPDX-License-Identifier: MIT
 *
 * Cached facts about skill files: by etag, within bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/method_skills.h"
#include "engine/worker.h"

static struct worker worker;

static int setup(void **state)
{
    (void)state;
    memset(&worker, 0, sizeof(worker));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    skill_cache_deinit(&worker);
    return 0;
}

static void put(const char *uri, const char *etag, uint64_t size, const char *front)
{
    struct skill_fact fact = {.uri = tidings_str(uri),
                              .etag = tidings_str(etag),
                              .front = tidings_str(front),
                              .size = size};
    snprintf(fact.digest, sizeof(fact.digest), "sha256:%s", uri);
    skill_cache_put(&worker, &fact);
}

static void facts_are_found_only_under_their_etag(void **state)
{
    (void)state;
    assert_null(skill_cache_find(&worker, STR("u"), STR("1")));
    put("u", "1", 7, "{\"name\":\"x\"}");
    const struct skill_fact *fact = skill_cache_find(&worker, STR("u"), STR("1"));
    assert_non_null(fact);
    assert_int_equal(fact->size, 7);
    assert_string_equal(fact->digest, "sha256:u");
    assert_true(str_eq(fact->front, STR("{\"name\":\"x\"}")));
    assert_null(skill_cache_find(&worker, STR("u"), STR("2")));
    assert_null(skill_cache_find(&worker, STR("v"), STR("1")));
    put("u", "2", 8, "");
    assert_null(skill_cache_find(&worker, STR("u"), STR("1")));
    assert_int_equal(skill_cache_find(&worker, STR("u"), STR("2"))->size, 8);
}

static void weak_and_missing_etags_are_never_found(void **state)
{
    (void)state;
    put("u", "W/1", 7, "");
    put("v", "", 7, "");
    assert_null(skill_cache_find(&worker, STR("u"), STR("W/1")));
    assert_null(skill_cache_find(&worker, STR("v"), STR("")));
}

static void errors_are_logged_once(void **state)
{
    (void)state;
    assert_false(skill_cache_said(&worker, STR("u"), STR("why")));
    assert_true(skill_cache_said(&worker, STR("u"), STR("why")));
    assert_null(skill_cache_find(&worker, STR("u"), STR("why")));
    assert_false(skill_cache_said(&worker, STR("u"), STR("something else")));
}

static void log_state_and_file_facts_are_independent(void **state)
{
    (void)state;
    put("u", "1", 7, "");
    assert_false(skill_cache_said(&worker, STR("u"), STR("why")));
    assert_non_null(skill_cache_find(&worker, STR("u"), STR("1")));
    put("u", "1", 7, "");
    assert_true(skill_cache_said(&worker, STR("u"), STR("why")));
}

static void replaced_facts_do_not_count(void **state)
{
    (void)state;
    static char front[1u << 20];
    memset(front, 'x', sizeof(front) - 1);
    put("u", "1", 7, "");
    for (unsigned i = 0; i < 10; i++) {
        put("v", i % 2 ? "1" : "2", 7, front);
    }
    assert_non_null(skill_cache_find(&worker, STR("u"), STR("1")));
}

static void cache_stays_within_its_bounds(void **state)
{
    (void)state;
    char uri[32];
    size_t found = 0;
    for (unsigned i = 0; i < SKILL_CACHE_FILES + 10; i++) {
        snprintf(uri, sizeof(uri), "u%u", i);
        put(uri, "1", i, "");
    }
    for (unsigned i = 0; i < SKILL_CACHE_FILES + 10; i++) {
        snprintf(uri, sizeof(uri), "u%u", i);
        found += skill_cache_find(&worker, tidings_str(uri), STR("1")) != NULL;
    }
    assert_int_equal(found, 10);
    static char front[1u << 20];
    memset(front, 'x', sizeof(front) - 1);
    for (unsigned i = 0; i < 10; i++) {
        snprintf(uri, sizeof(uri), "f%u", i);
        put(uri, "1", i, front);
    }
    found = 0;
    for (unsigned i = 0; i < 10; i++) {
        snprintf(uri, sizeof(uri), "f%u", i);
        found += skill_cache_find(&worker, tidings_str(uri), STR("1")) != NULL;
    }
    assert_true(found >= 1 && found <= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(facts_are_found_only_under_their_etag, setup, teardown),
        cmocka_unit_test_setup_teardown(weak_and_missing_etags_are_never_found, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_are_logged_once, setup, teardown),
        cmocka_unit_test_setup_teardown(log_state_and_file_facts_are_independent, setup, teardown),
        cmocka_unit_test_setup_teardown(replaced_facts_do_not_count, setup, teardown),
        cmocka_unit_test_setup_teardown(cache_stays_within_its_bounds, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
