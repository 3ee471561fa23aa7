/* SPDX-License-Identifier: MIT
 *
 * The decision of the rules for a principal and a URI. engine/test_access.c tests its effect on
 * answers and streams. */
#include "security/access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/access_worker.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static struct access_worker w;

static int begin(void **state)
{
    (void)state;
    access_worker_start(&w);
    return 0;
}

/* A rule for a name ("*": every principal, "": anonymous) and a glob, container or URI ("": all
 * URIs). */
struct row {
    const char *name, *scope, *uri;
    unsigned ops;
};

static void destroy_nothing(struct access_rules *rules)
{
    (void)rules;
}

/* These rules apply to all principals from now on; no principal may be held. */
static void set_rules(const struct row *rows, size_t count)
{
    static struct access_rule at[8];
    static struct access_rules rules;
    assert_true(count <= COUNT(at));
    for (size_t i = 0; i < count; i++) {
        const char *name = rows[i].name, *uri = rows[i].uri;
        size_t len = strlen(uri);
        at[i] = (struct access_rule){
            .whom = strcmp(name, "*") == 0 ? ACCESS_ANYBODY
                    : name[0] == '\0'      ? ACCESS_ANONYMOUS
                                           : ACCESS_NAMED,
            .name = tidings_str(name),
            .kinds = ~0u,
            .scope = tidings_str(rows[i].scope),
            .kind = strchr(uri, '*')                 ? PATTERN_GLOB
                    : len > 0 && uri[len - 1] == '/' ? PATTERN_CONTAINER
                                                     : PATTERN_LITERAL,
            .uri = tidings_str(uri),
            .ops = rows[i].ops,
        };
    }
    rules = (struct access_rules){.at = at, .count = count, .destroy = destroy_nothing, .refs = 1};
    w.principals.rules = &rules;
    principals_forget(&w.principals);
}

static int end(void **state)
{
    (void)state;
    access_worker_stop(&w);
    return 0;
}

#define SEE (1u << ACCESS_LIST | 1u << ACCESS_READ | 1u << ACCESS_SUBSCRIBE)

/* ada may read what is open, bob everything, all others nothing. */
static void set_usual(void)
{
    static const struct row rows[] = {
        {"ada", "", "mem://x/open/**", SEE},
        {"ada", "", "mem://x/a", SEE},
        {"bob", "", "", SEE | 1u << ACCESS_WRITE},
        {"cleo", "res:read", "mem://x/open/**", SEE},
        {"cleo", "res:write", "mem://x/open/**", 1u << ACCESS_WRITE},
    };
    set_rules(rows, COUNT(rows));
}

/* A reference to a principal with this name and these scopes. */
static const struct principal *make(enum principal_kind kind, const char *name, const char *scope,
                                    int64_t expires_ms)
{
    struct tidings_str scopes = tidings_str(scope);
    struct principal_spec spec = {.kind = kind,
                                  .name = tidings_str(name),
                                  .scopes = &scopes,
                                  .scope_count = scope[0] != '\0',
                                  .expires_ms = expires_ms};
    const struct principal *p = NULL;
    assert_int_equal(principal_intern(&w.principals, &spec, &p, NULL), 0);
    return p;
}

static bool may(const char *name, enum principal_kind kind, const char *scope, enum access_op op,
                const char *uri)
{
    const struct principal *p = make(kind, name, scope, 0);
    bool yes = access_allows(p, op, tidings_str(uri));
    principal_unref(p);
    return yes;
}

static void access_is_denied_if_no_rule_allows_it(void **state)
{
    (void)state;
    assert_true(may("x", PRINCIPAL_TOKEN, "", ACCESS_READ, "mem://x/a")); /* no rules */
    set_usual();
    assert_true(may("ada", PRINCIPAL_TOKEN, "", ACCESS_READ, "mem://x/open/d"));
    assert_false(may("ada", PRINCIPAL_TOKEN, "", ACCESS_WRITE, "mem://x/open/d"));
    assert_false(may("ada", PRINCIPAL_TOKEN, "", ACCESS_READ, "mem://x/hidden/b"));
    assert_true(may("bob", PRINCIPAL_TOKEN, "", ACCESS_WRITE, "other://y"));
    assert_false(may("eve", PRINCIPAL_TOKEN, "", ACCESS_LIST, "mem://x/a"));
    assert_false(may("", PRINCIPAL_ANONYMOUS, "", ACCESS_LIST, "mem://x/a"));
    assert_false(may("cleo", PRINCIPAL_TOKEN, "", ACCESS_READ, "mem://x/open/d"));
    assert_false(may("cleo", PRINCIPAL_TOKEN, "res:write", ACCESS_READ, "mem://x/open/d"));
    assert_true(may("cleo", PRINCIPAL_TOKEN, "res:read", ACCESS_READ, "mem://x/open/d"));
    assert_true(access_allows(NULL, ACCESS_WRITE, STR("mem://x/hidden/b"))); /* the program */
    static const struct row mixed[] = {{"", "", "mem://x/open/", 1u << ACCESS_READ},
                                       {"*", "", "mem://x/a", 1u << ACCESS_LIST}};
    set_rules(mixed, COUNT(mixed));
    assert_true(may("", PRINCIPAL_ANONYMOUS, "", ACCESS_READ, "mem://x/open/d"));
    assert_false(may("ada", PRINCIPAL_TOKEN, "", ACCESS_READ, "mem://x/open/d"));
    assert_true(may("ada", PRINCIPAL_TOKEN, "", ACCESS_LIST, "mem://x/a"));
    set_rules(NULL, 0);
    assert_false(may("bob", PRINCIPAL_TOKEN, "", ACCESS_LIST, "mem://x/a"));
}

static void assert_missing(const struct principal *principal, unsigned ops, struct tidings_str uri,
                           const char *expected)
{
    struct buf out;
    buf_init(&out, 256);
    assert_int_equal(access_put_missing(principal, ops, uri, &out), 0);
    assert_true(str_eq(buf_str(&out), tidings_str(expected)));
    buf_deinit(&out);
}

static void missing_scope_is_named(void **state)
{
    (void)state;
    set_usual();
    const struct principal *principal = make(PRINCIPAL_TOKEN, "cleo", "res:read", 0);
    struct tidings_str uri = STR("mem://x/open/nothing is there");
    assert_missing(principal, 1u << ACCESS_WRITE, uri, "res:write");
    assert_missing(principal, 1u << ACCESS_READ | 1u << ACCESS_WRITE, uri, "res:write");
    assert_missing(principal, 1u << ACCESS_READ, uri, ""); /* it has that scope */
    assert_missing(principal, 1u << ACCESS_READ, STR("mem://x/hidden/b"), "");
    assert_missing(NULL, 1u << ACCESS_READ, uri, "");
    principal_unref(principal);
}

static void principals_with_the_same_rules_share_a_class(void **state)
{
    (void)state;
    set_usual();
    const struct principal *one = make(PRINCIPAL_TOKEN, "ada", "", 0);
    const struct principal *two = make(PRINCIPAL_TOKEN, "ada", "more", 7);
    const struct principal *other = make(PRINCIPAL_TOKEN, "bob", "", 0);
    assert_ptr_not_equal(one, two);
    assert_ptr_equal(one->class, two->class);
    assert_ptr_not_equal(one->class, other->class);
    assert_false(access_is_full(one));
    assert_true(access_is_full(other));
    principal_unref(one);
    principal_unref(two);
    principal_unref(other);
    assert_true(list_empty(&w.principals.classes)); /* no principal is left */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(access_is_denied_if_no_rule_allows_it),
        TEST(missing_scope_is_named),
        TEST(principals_with_the_same_rules_share_a_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
