/* SPDX-License-Identifier: MIT
 *
 * Which announcements merge with an earlier announcement, and which never do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/hub_announce.h"

#define X "app:///x"

static struct hub_merge merge;

/* A sent announcement. */
static struct hub_merge_key sent;

/* Returns false if the change merged with a waiting one. */
static bool announce(struct tidings_change change)
{
    struct hub_merge_key mark = hub_merge_key(&merge, &change);
    if (hub_merge_find(&mark) || !hub_merge_begin(&merge, &mark, &change)) {
        return false;
    }
    sent = mark;
    return true;
}

static bool update(const char *uri)
{
    return announce((struct tidings_change){.uri = tidings_str(uri)});
}

static int setup(void **state)
{
    (void)state;
    return hub_merge_init(&merge);
}

static int teardown(void **state)
{
    (void)state;
    hub_merge_deinit(&merge);
    return 0;
}

static void equal_announcement_merges_into_the_waiting_one(void **state)
{
    (void)state;
    assert_true(update(X));
    assert_false(update(X));
    assert_false(update(X));
    hub_merge_end(&sent);
    assert_true(update(X));
    assert_false(update(X));
}

static void concurrent_equal_announcements_merge(void **state)
{
    (void)state;
    struct tidings_change change = {.uri = STR(X)};
    struct hub_merge_key a = hub_merge_key(&merge, &change), b = a;
    assert_false(hub_merge_find(&a));
    assert_false(hub_merge_find(&b));
    assert_true(hub_merge_begin(&merge, &a, &change));
    assert_false(hub_merge_begin(&merge, &b, &change));
}

static void announcements_that_differ_do_not_merge(void **state)
{
    (void)state;
    const struct tidings_change others[] = {
        {.uri = STR(X)},
        {.uri = STR(X), .metadata = STR("{\"a\":1}")},
        {.uri = STR(X), .metadata = STR("{\"a\":2}")},
        {.uri = STR(X), .etag = STR("1")},
        {.uri = STR(X), .origin = STR("1")},
        {.uri = STR(X), .checksum = STR("1")},
        {.uri = STR(X), .target = STR("1")},
        {.uri = STR(X), .from = STR("1")},
        {.uri = STR(X), .modified_ms = 5},
        {.uri = STR(X), .size = 5},
        {.uri = STR(X), .has_size = true},
        {.uri = STR(X), .has_size = true, .size = 5},
        {.uri = STR(X), .kind = TIDINGS_CHANGE_CREATED},
        {.uri = STR(X), .kind = TIDINGS_CHANGE_DELETED},
    };
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
            bool is_update = others[i].kind == TIDINGS_CHANGE_UPDATED;
            assert_true(announce(others[i]));
            assert_int_equal(announce(others[i]), !is_update);
        }
    }
}

static void announcements_do_not_merge_across_later_ones(void **state)
{
    (void)state;
    assert_true(update(X));
    struct hub_merge_key before = sent;
    assert_true(announce((struct tidings_change){.uri = STR(X), .kind = TIDINGS_CHANGE_DELETED}));
    assert_true(update(X)); /* otherwise it would be sent before the deletion */
    assert_false(update(X));
    hub_merge_end(&before); /* the first of them is sent */
    assert_true(update(X));
    assert_true(announce((struct tidings_change){
        .uri = STR("app:///y"), .from = STR(X), .kind = TIDINGS_CHANGE_MOVED}));
    assert_true(update(X));
}

static void uris_beyond_the_slots_merge_less_but_never_into_others(void **state)
{
    (void)state;
    char uri[32];
    for (unsigned i = 0; i < 2 * HUB_MERGE_SLOTS; i++) {
        snprintf(uri, sizeof(uri), "app:///%u", i);
        assert_true(update(uri));
        assert_false(update(uri));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        TEST(equal_announcement_merges_into_the_waiting_one),
        TEST(concurrent_equal_announcements_merge),
        TEST(announcements_that_differ_do_not_merge),
        TEST(announcements_do_not_merge_across_later_ones),
        TEST(uris_beyond_the_slots_merge_less_but_never_into_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
