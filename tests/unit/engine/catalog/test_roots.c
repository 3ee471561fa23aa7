/* SPDX-License-Identifier: MIT
 *
 * The roots of a server and the URIs of paths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/catalog/roots.h"

static struct tidings_provider docs = {.prefix = {"file:///docs/", 13}};
static struct tidings_provider logs = {.prefix = {"file:///logs/", 13}};
static struct tidings_provider published = {.prefix = {"published:///", 13}};
static struct tidings_provider self = {.prefix = {"tidings://self/", 15}};

static struct tidings_provider *one[] = {&docs, &published, &self};
static struct tidings_provider *two[] = {&docs, &logs, &self};
static const struct catalog one_root = {.mounts = one, .mount_count = 3};
static const struct catalog two_roots = {.mounts = two, .mount_count = 3};

static void roots_are_mounts_except_the_server_itself(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 256);
    assert_int_equal(roots_put(&one_root, NULL, NULL, 100, &out), 2);
    assert_string_equal(out.ptr, "file:///docs/, published:///");
    buf_clear(&out);
    assert_int_equal(roots_put(&one_root, NULL, ROOTS_FILES, 100, &out), 1);
    assert_string_equal(out.ptr, "file:///docs/");
    buf_clear(&out);
    assert_int_equal(roots_put(&two_roots, NULL, NULL, 20, &out), 2);
    assert_string_equal(out.ptr, "file:///docs/ and more");
    buf_deinit(&out);
}

static void paths_become_uris(void **state)
{
    (void)state;
    static const struct {
        const struct catalog *catalog;
        const char *given;
        int code;
        const char *expected; /* URI, or part of the message */
    } cases[] = {
        {&one_root, "a.md", 1, "file:///docs/a.md"},
        {&one_root, "./a//b c.md", 1, "file:///docs/a/b%20c.md"},
        {&one_root, "logs/", 1, "file:///docs/logs/"},
        {&one_root, "*.log", 1, "file:///docs/*.log"},
        {&one_root, "app-[0-9]/**", 1, "file:///docs/app-[0-9]/**"},
        {&one_root, "50%?#{x}", 1, "file:///docs/50%25%3F%23%7Bx%7D"},
        {&one_root, "/docs/a.md", 1, "file:///docs/a.md"},
        {&two_roots, "/logs/a.md", 1, "file:///logs/a.md"},
        {&two_roots, "a.md", TIDINGS_E_INVALID,
         "'a.md' is a relative path: the roots are file:///docs/, file:///logs/"},
        {&one_root, "/etc/passwd", TIDINGS_E_NOTFOUND,
         "'/etc/passwd' is outside all roots: the roots are file:///docs/"},
        {&one_root, "/docsx/a", TIDINGS_E_NOTFOUND, "outside all roots"},
        {&one_root, "file:///docs/a.md", 0, ""},
        {&one_root, "urn:x", 0, ""},
        {&one_root, "**", 0, ""},
        {&one_root, "", 0, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tidings_error err = {0, ""};
        struct buf out;
        buf_init(&out, 64);
        int rc = roots_resolve(cases[i].catalog, NULL, tidings_str(cases[i].given), &out, &err);
        assert_int_equal(rc, cases[i].code);
        if (rc > 0) {
            assert_string_equal(out.ptr, cases[i].expected);
        } else if (rc < 0) {
            assert_non_null(strstr(err.text, cases[i].expected));
        } else {
            assert_int_equal(out.len, 0);
        }
        buf_deinit(&out);
    }
}

static void long_paths_are_refused(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct buf out;
    buf_init(&out, 16);
    assert_true(roots_resolve(&one_root, NULL, STR("a-rather-long-name.txt"), &out, &err) < 0);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roots_are_mounts_except_the_server_itself),
        cmocka_unit_test(paths_become_uris),
        cmocka_unit_test(long_paths_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
