/* SPDX-License-Identifier: MIT
 *
 * Recently followed versions: any thread finds them, whole, and never older than the last read or
 * write. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "store/entity_cache.h"

static struct entity_recent *create(void)
{
    struct entity_recent *r = NULL;
    struct tidings_error err;
    assert_int_equal(entity_recent_create(&r, &err), 0);
    return r;
}

static void put(struct entity_recent *r, const char *id, int64_t from, struct tidings_str value)
{
    const struct entity_version v = {.id = tidings_str(id),
                                     .from = from,
                                     .to = TIMELINE_FOREVER,
                                     .type = STR("T"),
                                     .type_version = STR("1"),
                                     .value = value,
                                     .changed_by = STR("[]")};
    entity_recent_put(r, &v);
}

/* Its start time; -1: not found. */
static int64_t find(struct entity_recent *r, const char *id)
{
    const struct recent_version *one = entity_recent_find(r, tidings_str(id));
    int64_t from = one ? one->v.from : -1;
    recent_version_unref(one);
    return from;
}

static void only_the_newest_version_is_found(void **state)
{
    (void)state;
    struct entity_recent *r = create();
    assert_int_equal(find(r, "x"), -1);
    put(r, "x", 5, STR("{\"n\":5}"));
    const struct recent_version *held = entity_recent_find(r, STR("x"));
    assert_true(held && str_eq(held->v.value, STR("{\"n\":5}")) && str_eq(held->v.type, STR("T")));
    put(r, "x", 6, STR("6"));
    assert_int_equal(find(r, "x"), 6);
    entity_recent_drop(r, STR("x"), 6); /* that version was read */
    entity_recent_drop(r, STR("y"), 9);
    assert_int_equal(find(r, "x"), 6);
    entity_recent_drop(r, STR("x"), 7); /* a newer version was read */
    assert_int_equal(find(r, "x"), -1);
    put(r, "x", 8, STR("8"));
    put(r, "y", 8, STR("8"));
    entity_recent_clear(r);
    assert_int_equal(find(r, "x"), -1);
    assert_int_equal(find(r, "y"), -1);
    /* A version stays valid until its holder releases it. */
    assert_true(str_eq(held->v.value, STR("{\"n\":5}")));
    recent_version_unref(held);
    entity_recent_destroy(r);
}

static void recent_versions_are_limited(void **state)
{
    (void)state;
    struct entity_recent *r = create();
    char id[16], *large = mem_alloc(RECENT_BYTES + 1);
    unsigned found = 0;
    memset(large, '1', RECENT_BYTES + 1);
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(id, sizeof id, "e%d", i);
        put(r, id, i + 1, STR("1"));
    }
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(id, sizeof id, "e%d", i);
        found += find(r, id) == i + 1;
    }
    assert_true(found > 0 && found <= RECENT_COUNT);
    put(r, "x", 1, STR("1"));
    put(r, "x", 2, tidings_strn(large, RECENT_BYTES + 1));
    assert_int_equal(find(r, "x"), -1); /* nor the earlier ones */
    mem_free(large);
    entity_recent_destroy(r);
}

static void lookup_finds_nothing_without_a_table(void **state)
{
    (void)state;
    put(NULL, "x", 1, STR("1"));
    entity_recent_drop(NULL, STR("x"), 2);
    entity_recent_clear(NULL);
    assert_int_equal(find(NULL, "x"), -1);
    entity_recent_destroy(NULL);
    recent_version_unref(NULL);
}

struct reading {
    struct entity_recent *r;
    bool *ends;
    unsigned bad;
};

static void *read_all_the_time(void *user)
{
    struct reading *reading = user;
    int64_t newest = 0;
    while (!__atomic_load_n(reading->ends, __ATOMIC_ACQUIRE)) {
        const struct recent_version *one = entity_recent_find(reading->r, STR("x"));
        int64_t n = 0;
        if (one) {
            reading->bad += !str_to_i64(one->v.value, &n) || n != one->v.from || n < newest;
            newest = n;
        }
        recent_version_unref(one);
    }
    return NULL;
}

static void concurrent_readers_get_whole_versions_in_order(void **state)
{
    (void)state;
    struct entity_recent *r = create();
    bool ends = false;
    struct reading readings[2] = {{.r = r, .ends = &ends}, {.r = r, .ends = &ends}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_all_the_time, &readings[i]), 0);
    }
    for (int64_t i = 1; i <= 20000; i++) {
        char value[24];
        (void)snprintf(value, sizeof value, "%lld", (long long)i);
        put(r, "x", i, tidings_str(value));
        if (i % 7 == 0) {
            entity_recent_drop(r, STR("x"), TIMELINE_FOREVER);
        }
    }
    __atomic_store_n(&ends, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(readings[i].bad, 0);
    }
    entity_recent_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_newest_version_is_found),
        cmocka_unit_test(recent_versions_are_limited),
        cmocka_unit_test(lookup_finds_nothing_without_a_table),
        cmocka_unit_test(concurrent_readers_get_whole_versions_in_order),
    };
    return cmocka_run_group_tests_name("recent versions", tests, NULL, NULL);
}
