/* SPDX-License-Identifier: MIT
 *
 * Principals: equality, and the names that are refused. engine/test_access.c tests that none
 * outlives its holders. */
#include "security/principal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/access_worker.h"

static struct access_worker w;

static int begin(void **state)
{
    (void)state;
    access_worker_start(&w);
    return 0;
}

static int end(void **state)
{
    (void)state;
    access_worker_stop(&w);
    return 0;
}

static const struct principal *make(enum principal_kind kind, const char *name, int64_t expires_ms)
{
    static const struct tidings_str scopes[] = {{"b", 1}, {"a", 1}, {"b", 1}};
    struct principal_spec spec = {.kind = kind,
                                  .name = tidings_str(name),
                                  .scopes = scopes,
                                  .scope_count = 3,
                                  .expires_ms = expires_ms};
    const struct principal *p = NULL;
    assert_int_equal(principal_intern(&w.principals, &spec, &p, NULL), 0);
    return p;
}

static void equal_principals_are_shared(void **state)
{
    (void)state;
    const struct principal *one = make(PRINCIPAL_TOKEN, "ada", 5);
    const struct principal *again = make(PRINCIPAL_TOKEN, "ada", 5);
    assert_ptr_equal(one, again);
    assert_int_equal(one->scope_count, 2);
    assert_true(principal_has_scope(one, STR("a")) && principal_has_scope(one, STR("b")));
    assert_false(principal_has_scope(one, STR("")) || principal_has_scope(one, STR("c")));
    assert_int_equal(w.principals.by_key.count, 1);
    principal_unref(one);
    principal_unref(again);
    assert_int_equal(w.principals.by_key.count, 0);
}

static void newer_token_keeps_its_principal_but_another_kind_does_not(void **state)
{
    (void)state;
    const struct principal *token = make(PRINCIPAL_TOKEN, "uid:1", 5);
    const struct principal *newer = make(PRINCIPAL_TOKEN, "uid:1", 9);
    const struct principal *user = make(PRINCIPAL_USER, "uid:1", 5);
    const struct principal *nobody = make(PRINCIPAL_ANONYMOUS, "", 0);
    assert_ptr_not_equal(token, newer);
    assert_true(principal_is_same(token, newer));
    assert_false(principal_is_same(token, user));
    assert_false(principal_is_same(token, nobody));
    assert_false(principal_is_same(token, NULL) || principal_is_same(NULL, nobody));
    assert_true(principal_is_same(NULL, NULL));
    assert_false(principal_is_expired(token, 4) || principal_is_expired(nobody, 4));
    assert_true(principal_is_expired(token, 5));
    principal_unref(token);
    principal_unref(newer);
    principal_unref(user);
    principal_unref(nobody);
}

static void invalid_names_are_rejected(void **state)
{
    (void)state;
    static char long_name[PRINCIPAL_MAX + 1];
    memset(long_name, 'x', PRINCIPAL_MAX);
    static const struct {
        enum principal_kind kind;
        const char *name;
        int code;
    } rows[] = {
        {PRINCIPAL_TOKEN, "", TIDINGS_E_INVALID},
        {PRINCIPAL_ANONYMOUS, "ada", TIDINGS_E_INVALID},
        {PRINCIPAL_TOKEN, "a\nb", TIDINGS_E_INVALID},
        {PRINCIPAL_TOKEN, long_name, TIDINGS_E_LIMIT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct principal_spec spec = {.kind = rows[i].kind, .name = tidings_str(rows[i].name)};
        const struct principal *p = NULL;
        struct tidings_error err;
        assert_int_equal(principal_intern(&w.principals, &spec, &p, &err), rows[i].code);
        assert_null(p);
    }
    static struct tidings_str many[PRINCIPAL_MAX_SCOPES + 1];
    struct principal_spec spec = {.kind = PRINCIPAL_TOKEN,
                                  .name = STR("ada"),
                                  .scopes = many,
                                  .scope_count = PRINCIPAL_MAX_SCOPES + 1};
    const struct principal *p = NULL;
    assert_int_equal(principal_intern(&w.principals, &spec, &p, NULL), TIDINGS_E_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_principals_are_shared, begin, end),
        cmocka_unit_test_setup_teardown(newer_token_keeps_its_principal_but_another_kind_does_not,
                                        begin, end),
        cmocka_unit_test_setup_teardown(invalid_names_are_rejected, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
