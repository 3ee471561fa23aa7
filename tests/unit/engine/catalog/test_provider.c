/* SPDX-License-Identifier: MIT
 *
 * Accepted and rejected tables of provider operations.
 */
#include "engine/catalog/provider.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/catalog/catalog.h"

static unsigned opened, closed;

static int open_it(struct tidings_provider *p, struct tidings_str config, struct tidings_error *err)
{
    (void)p;
    opened++;
    return str_eq(config, STR("bad")) ? tidings_fail(err, TIDINGS_E_IO, "cannot") : 0;
}

static void read_it(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    (void)p;
    (void)read;
    (void)uri;
}

static void watch_it(struct tidings_provider *p, struct tidings_watch *watch,
                     struct tidings_str uri)
{
    (void)p;
    (void)watch;
    (void)uri;
}

static void close_it(struct tidings_provider *p)
{
    (void)p;
    closed++;
}

static struct tidings_provider_ops table(void)
{
    return (struct tidings_provider_ops){
        .abi = TIDINGS_PROVIDER_ABI,
        .name = "mine",
        .size = 16,
        .open = open_it,
        .read = read_it,
        .close = close_it,
    };
}

static int create(const struct tidings_provider_ops *ops, const char *config,
                  struct tidings_error *err)
{
    struct tidings_provider *p = NULL;
    opened = closed = 0;
    int rc = provider_create(ops, NULL, STR("mine:///"), tidings_str(config), &p, err);
    provider_destroy(p);
    assert_int_equal(opened, closed);
    return rc;
}

static void provider_tables_up_to_current_version_are_accepted(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct tidings_provider_ops ops = table();
    for (ops.abi = 1; ops.abi <= TIDINGS_PROVIDER_ABI; ops.abi++) {
        assert_int_equal(create(&ops, "", &err), 0);
        assert_int_equal(opened, 1);
    }
}

static void members_missing_in_older_table_are_null(void **state)
{
    (void)state;
    struct tidings_provider_ops ops = table(), room;
    size_t bytes = offsetof(struct tidings_provider_ops, query);
    memset(&room, 0xff, sizeof(room));
    char *older = malloc(bytes); /* exact size: a sanitizer detects reads beyond it */
    assert_non_null(older);
    memcpy(older, &ops, bytes);
    const struct tidings_provider_ops *whole =
        provider_table((const struct tidings_provider_ops *)(void *)older, bytes, &room);
    assert_ptr_equal(whole, &room);
    assert_ptr_equal(whole->close, close_it);
    assert_null(whole->query);
    free(older);
    assert_ptr_equal(provider_table(&ops, sizeof(ops), &room), &ops);
}

static void newer_table_is_refused_with_both_versions(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct tidings_provider_ops ops = table();
    char expected[96];
    ops.abi = TIDINGS_PROVIDER_ABI + 1;
    snprintf(expected, sizeof(expected),
             "provider 'mine' was built for interface %u, this library has %u", ops.abi,
             TIDINGS_PROVIDER_ABI);
    assert_int_equal(create(&ops, "", &err), TIDINGS_E_UNSUPPORTED);
    assert_string_equal(err.text, expected);
    assert_int_equal(opened, 0);
    ops.abi = 0; /* not set by the program */
    assert_int_equal(create(&ops, "", &err), TIDINGS_E_UNSUPPORTED);
}

static void table_without_required_members_is_refused(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct tidings_provider_ops ops[4];
    for (size_t i = 0; i < 4; i++) {
        ops[i] = table();
    }
    ops[0].open = NULL;
    ops[1].read = NULL;
    ops[2].close = NULL;
    ops[3].watch = watch_it; /* and no unwatch */
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(create(&ops[i], "", &err), TIDINGS_E_INVALID);
        assert_int_equal(opened, 0);
    }
    assert_int_equal(create(NULL, "", &err), TIDINGS_E_INVALID);
}

static void provider_that_cannot_open_is_closed_and_named(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct tidings_provider_ops ops = table();
    assert_int_equal(create(&ops, "bad", &err), TIDINGS_E_IO);
    assert_string_equal(err.text, "mine provider at 'mine:///': cannot");
}

static void alias_maps_to_paths_below_prefix(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
        bool is_pattern;
    } rows[] = {
        {"/mine/a%41", "mine:///aA", false}, {"/mine/", "mine:///", false},
        {"mine:///x", "mine:///x", false},   {"/mine/*", "mine:///*", true},
        {"/other/x", NULL, false},           {"/mine", NULL, false},
        {"/mine/../x", NULL, false},         {"", NULL, false},
    };
    struct tidings_provider_ops ops = table();
    struct tidings_provider *p = NULL;
    ops.alias = "/mine/";
    assert_int_equal(provider_create(&ops, NULL, STR("mine:///"), STR_EMPTY, &p, NULL), 0);
    struct catalog *c = catalog_derive(NULL, NULL, p, STR_EMPTY);
    assert_non_null(c);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out;
        buf_init(&out, 4096);
        int rc = catalog_canonical(c, tidings_str(rows[i].in), rows[i].is_pattern, &out, NULL);
        assert_int_equal(rc, rows[i].out ? 0 : TIDINGS_E_INVALID);
        if (rows[i].out) {
            assert_string_equal(out.ptr, rows[i].out);
        }
        buf_deinit(&out);
    }
    catalog_unref(c);
    provider_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(provider_tables_up_to_current_version_are_accepted),
        cmocka_unit_test(members_missing_in_older_table_are_null),
        cmocka_unit_test(newer_table_is_refused_with_both_versions),
        cmocka_unit_test(table_without_required_members_is_refused),
        cmocka_unit_test(provider_that_cannot_open_is_closed_and_named),
        cmocka_unit_test(alias_maps_to_paths_below_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
