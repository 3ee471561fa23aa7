/* SPDX-License-Identifier: MIT
 *
 * The hub: registration from any thread, duplicate and missing URIs, mounts, and the source of a
 * URI. For equal numbers on all workers see engine/delivery/test_announce.c.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/fail_alloc.h"
#include "support/harness_delivery.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct harness b;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    b.worker_count = 2;
    b.options.list_changed = false; /* so that changes have consecutive numbers */
    harness_start_delivery(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    harness_stop_delivery(&b);
    return 0;
}

static void read_nothing(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    tidings_read_done(read, 0, NULL);
}

static struct catalog_entry *entry(const char *uri, bool is_template, struct tidings_error *err)
{
    struct tidings_resource about = {0};
    about.uri = tidings_str(uri);
    about.name = STR("n");
    return catalog_entry_create(&about, is_template, read_nothing, NULL, err);
}

static void registered_uri_stays_taken_until_removal(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    for (int i = 0; i < 2; i++) {
        const char *uri = i ? "t://{x}" : "app:1";
        assert_int_equal(hub_add_entry(b.hub, entry(uri, i, &err), &err), 0);
        assert_int_equal(hub_add_entry(b.hub, entry(uri, i, &err), &err), TIDINGS_E_EXISTS);
        assert_non_null(strstr(err.text, uri));
        assert_int_equal(hub_remove_entry(b.hub, tidings_str(uri), &err), 0);
        assert_int_equal(hub_remove_entry(b.hub, tidings_str(uri), &err), TIDINGS_E_NOTFOUND);
        assert_int_equal(hub_add_entry(b.hub, entry(uri, i, &err), &err), 0);
    }
    assert_null(entry("t://{", true, &err));
    assert_true(err.text[0] != '\0');
}

/* ---- from other threads ---------------------------------------------------------------------- */

static struct {
    int added[4], removed, missing;
    bool done; /* atomic */
} outcome;

static void *register_things(void *arg)
{
    (void)arg;
    struct tidings_error err = {0};
    static const char *const uris[] = {"app:1", "app:2", "app:1", "app:3"};
    for (size_t i = 0; i < COUNT(uris); i++) {
        outcome.added[i] = hub_add_entry(b.hub, entry(uris[i], false, &err), &err);
    }
    outcome.removed = hub_remove_entry(b.hub, STR("app:3"), &err);
    outcome.missing = hub_remove_entry(b.hub, STR("app:4"), &err);
    __atomic_store_n(&outcome.done, true, __ATOMIC_SEQ_CST);
    return NULL;
}

static bool is_done(void *user)
{
    (void)user;
    return __atomic_load_n(&outcome.done, __ATOMIC_SEQ_CST);
}

static void registration_from_another_thread_waits_for_the_result(void **state)
{
    (void)state;
    memset(&outcome, 0, sizeof(outcome));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, register_things, NULL), 0);
    harness_until(&b, is_done, NULL);
    pthread_join(thread, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(outcome.added[0], 0);
    assert_int_equal(outcome.added[1], 0);
    assert_int_equal(outcome.added[2], TIDINGS_E_EXISTS);
    assert_int_equal(outcome.added[3], 0);
    assert_int_equal(outcome.removed, 0);
    assert_int_equal(outcome.missing, TIDINGS_E_NOTFOUND);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(b.worker[i]->catalog->resources.count, 2);
    }
}

/* ---- mounts ---------------------------------------------------------------------------------- */

static unsigned opened, closed;

static int open_well(struct tidings_provider *p, struct tidings_str config,
                     struct tidings_error *err)
{
    (void)p;
    (void)err;
    opened++;
    assert_true(str_eq(config, STR("cfg")));
    return 0;
}

static int open_badly(struct tidings_provider *p, struct tidings_str config,
                      struct tidings_error *err)
{
    (void)p;
    (void)config;
    opened++;
    return tidings_fail(err, TIDINGS_E_IO, "no such directory");
}

static void read_not(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    (void)p;
    (void)uri;
    tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
}

static void watch(struct tidings_provider *p, struct tidings_watch *w, struct tidings_str uri)
{
    (void)p;
    (void)uri;
    tidings_watch_done(w, 0, NULL);
}

static void close_it(struct tidings_provider *p)
{
    (void)p;
    closed++;
}

#define GOOD .abi = TIDINGS_PROVIDER_ABI, .name = "p", .open = open_well, .read = read_not

static const struct tidings_provider_ops good_ops = {GOOD, .close = close_it};

static void incomplete_table_is_refused(void **state)
{
    (void)state;
    static const struct tidings_provider_ops bad[] = {
        {GOOD}, /* no close */
        {.abi = TIDINGS_PROVIDER_ABI, .name = "p", .open = open_well, .close = close_it},
        {.abi = TIDINGS_PROVIDER_ABI, .name = "p", .read = read_not, .close = close_it},
        {.abi = 0, .name = "p", .open = open_well, .read = read_not, .close = close_it},
        {.abi = 99, .name = "p", .open = open_well, .read = read_not, .close = close_it},
        {.abi = TIDINGS_PROVIDER_ABI, .open = open_well, .read = read_not, .close = close_it},
        {GOOD, .close = close_it, .watch = watch}, /* without unwatch */
    };
    opened = closed = 0;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct tidings_error err = {0};
        assert_true(hub_mount(b.hub, &bad[i], STR("p://"), STR("cfg"), NULL, &err) < 0);
        assert_true(err.text[0] != '\0');
    }
    assert_int_equal(opened + closed, 0);
}

static void provider_that_does_not_open_is_closed_and_named(void **state)
{
    (void)state;
    static const struct tidings_provider_ops ops = {.abi = TIDINGS_PROVIDER_ABI,
                                                    .name = "disk",
                                                    .open = open_badly,
                                                    .read = read_not,
                                                    .close = close_it};
    struct tidings_error err = {0};
    opened = closed = 0;
    assert_int_equal(hub_mount(b.hub, &ops, STR("p:///"), STR_EMPTY, NULL, &err), TIDINGS_E_IO);
    assert_int_equal(opened, 1);
    assert_int_equal(closed, 1);
    assert_non_null(strstr(err.text, "disk"));
    assert_non_null(strstr(err.text, "p:///"));
    assert_non_null(strstr(err.text, "no such directory"));
    struct catalog *c = hub_catalog(b.hub);
    assert_int_equal(c->mount_count, 0);
    catalog_unref(c);
}

static void longest_prefix_wins_after_registered_uris(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    static const char *const prefixes[] = {"p:///a/", "p:///", "p:///a/b/"};
    opened = closed = 0;
    for (size_t i = 0; i < COUNT(prefixes); i++) {
        assert_int_equal(
            hub_mount(b.hub, &good_ops, tidings_str(prefixes[i]), STR("cfg"), NULL, &err), 0);
    }
    assert_int_equal(hub_mount(b.hub, &good_ops, STR("p:///"), STR("cfg"), NULL, &err),
                     TIDINGS_E_EXISTS);
    harness_add(&b, "p:///a/b/one");
    harness_add_template(&b, "p:///{x}");
    harness_add_template(&b, "q:///{x}/y");
    static const struct {
        const char *uri, *prefix; /* prefix NULL: an entry; "": nowhere */
    } rows[] = {
        {"p:///a/b/c", "p:///a/b/"},
        {"p:///a/c", "p:///a/"},
        {"p:///c", "p:///"},
        {"p:///a/b/", "p:///a/b/"},
        {"p:///a/b/one", NULL},
        {"q:///z/y", NULL},
        {"q:///z", ""},
        {"r:1", ""},
    };
    struct catalog *c = hub_catalog(b.hub);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct arena arena;
        struct catalog_hit hit;
        arena_init(&arena, 65536);
        bool found = catalog_find(c, tidings_str(rows[i].uri), &arena, &hit);
        if (!rows[i].prefix) {
            assert_true(found && hit.entry && !hit.provider);
        } else if (rows[i].prefix[0] == '\0') {
            assert_false(found);
        } else {
            assert_true(found && hit.provider && !hit.entry);
            assert_true(str_eq(hit.provider->prefix, tidings_str(rows[i].prefix)));
        }
        arena_deinit(&arena);
    }
    assert_true(catalog_has_scheme(c, STR("p")));
    assert_true(catalog_has_scheme(c, STR("q")));
    assert_false(catalog_has_scheme(c, STR("r")));
    assert_false(catalog_has_scheme(c, STR("")));
    catalog_unref(c);
}

static void old_snapshot_stays_unchanged(void **state)
{
    (void)state;
    harness_add(&b, "app:1");
    struct catalog *before = hub_catalog(b.hub);
    harness_remove(&b, "app:1");
    harness_add(&b, "app:2");
    assert_non_null(entries_find(&before->resources, STR("app:1")));
    assert_null(entries_find(&before->resources, STR("app:2")));
    assert_int_equal(before->resources.count, 1);
    catalog_unref(before);
}

static void registration_survives_any_failed_allocation(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        fail_alloc_start(0);
        long before = fail_alloc_live();
        harness_init(&b);
        harness_start_delivery(&b);
        struct tidings_error err = {0};
        fail_alloc_start(n);
        struct catalog_entry *e = entry("t://{x}/y", true, &err);
        int rc = e ? hub_add_entry(b.hub, e, &err) : TIDINGS_E_NOMEM;
        reached = fail_alloc_stop();
        assert_true(rc == 0 || rc == TIDINGS_E_NOMEM);
        struct catalog *c = hub_catalog(b.hub);
        assert_int_equal(c->templates.count, rc == 0);
        catalog_unref(c);
        harness_run_until_idle(&b);
        harness_stop_delivery(&b);
        assert_int_equal(fail_alloc_live(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(registered_uri_stays_taken_until_removal),
        TEST(registration_from_another_thread_waits_for_the_result),
        TEST(incomplete_table_is_refused),
        TEST(provider_that_does_not_open_is_closed_and_named),
        TEST(longest_prefix_wins_after_registered_uris),
        TEST(old_snapshot_stays_unchanged),
        cmocka_unit_test(registration_survives_any_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
