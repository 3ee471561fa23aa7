/* SPDX-License-Identifier: MIT
 *
 * Aliases: the strings that stand for URIs below a prefix, and the ones that do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/uri.h"
#include "support/fail_alloc.h"

static const struct uri_alias aliases[] = {
    {{"/entity/", 8}, {"entity:///", 10}},
    {{"https://example.org/u1/entity/", 30}, {"entity:///", 10}},
};

static const struct uri_alias *find_in_table(const void *user, struct tidings_str in)
{
    (void)user;
    return uri_alias_find(aliases, 2, in);
}

static void assert_means(const char *in, bool is_pattern, const char *expected, int alias)
{
    struct buf out;
    struct tidings_error err = {0};
    const struct uri_alias *used = &aliases[0];
    buf_init(&out, URI_MAX * 3);
    int rc =
        uri_alias_canonical(tidings_str(in), is_pattern, find_in_table, NULL, &out, &used, &err);
    if (!expected) {
        assert_true(rc < 0 && err.text[0]);
    } else if (rc < 0 || !str_eq(buf_str(&out), tidings_str(expected))) {
        fail_msg("'%s' is '%.*s' (%s), not '%s'", in, STR_ARG(buf_str(&out)), err.text, expected);
    }
    assert_ptr_equal(used, alias < 0 ? NULL : &aliases[alias]);
    buf_deinit(&out);
}

static void alias_expands_to_a_uri_below_its_prefix(void **state)
{
    (void)state;
    assert_means("/entity/T@1/a", false, "entity:///T@1/a", 0);
    assert_means("/entity/", false, "entity:///", 0);
    assert_means("entity:///T@1/a", false, "entity:///T@1/a", -1);
    assert_means("https://example.org/u1/entity/T@1/a", false, "entity:///T@1/a", 1);
    assert_means("https://example.org/u1/entity/", false, "entity:///", 1);
    assert_means("HTTPS://Example.ORG/%751/entity/T%401/%61", false, "entity:///T@1/a", 1);
    assert_means("https://example.org/u1/entity/T@1/?parent=p", false, "entity:///T@1/?parent=p",
                 1);
    assert_means("https://example.org/u1/entity/T@*/{id}", true, "entity:///T@*/{id}", 1);
    assert_means("/entity/**", true, "entity:///**", 0);
}

static void other_strings_are_not_expanded(void **state)
{
    (void)state;
    assert_means("https://example.org/u1/entity", false, "https://example.org/u1/entity", -1);
    assert_means("https://example.org/u1/entityx/a", false, "https://example.org/u1/entityx/a", -1);
    assert_means("https://example.org:443/u1/entity/a", false,
                 "https://example.org:443/u1/entity/a", -1);
    assert_means("http://example.org/u1/entity/a", false, "http://example.org/u1/entity/a", -1);
    assert_means("https://u@example.org/u1/entity/a", false, NULL, -1);
    assert_means("https://example.org/u1/x/../entity/a", false, NULL, -1);
    assert_means("https://example.org/u1/entity/%2e%2e/a", false, NULL, -1);
    assert_means("https://example.org/u1/entity/a#b", false, NULL, -1);
    assert_means("/elsewhere/a", false, NULL, -1);
    assert_means("", false, NULL, -1);
}

static void failed_allocation_is_reported(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached || n < 16; n++) {
        struct buf out;
        struct tidings_error err = {0};
        buf_init(&out, URI_MAX * 3);
        fail_alloc_start((n + 1) / 2);
        int rc =
            uri_alias_canonical(n % 2 ? STR("app:///a") : STR("https://example.org/u1/entity/a"),
                                false, find_in_table, NULL, &out, NULL, &err);
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        assert_int_equal(err.code, rc);
        buf_deinit(&out);
        assert_int_equal(fail_alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alias_expands_to_a_uri_below_its_prefix),
        cmocka_unit_test(other_strings_are_not_expanded),
        cmocka_unit_test(failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
