/* SPDX-License-Identifier: MIT
 *
 * File names from URIs: a URI below the root maps to the path it shows, and no URI maps anywhere
 * else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/folder.h"

#define BASE "file:///data/"

static const char *name_of(struct tidings_str uri, char out[LOCAL_NAME_MAX])
{
    memset(out, '#', LOCAL_NAME_MAX);
    return local_name(tidings_str(BASE), uri, out);
}

static void expect(const char *uri, const char *path)
{
    char out[LOCAL_NAME_MAX];
    assert_null(name_of(tidings_str(uri), out));
    assert_string_equal(out, path);
}

static void refuse(const char *uri)
{
    char out[LOCAL_NAME_MAX];
    if (!name_of(tidings_str(uri), out)) {
        fail_msg("'%s' became '%s'", uri, out);
    }
}

static void uri_below_root_maps_to_path(void **state)
{
    (void)state;
    expect(BASE "a.txt", "a.txt");
    expect(BASE "a/b/c", "a/b/c");
    expect(BASE "dir/", "dir");
    expect(BASE "with%20space%25", "with space%");
    expect(BASE "%ff%0a", "\xff\n");
    expect(BASE "...", "...");
    expect(BASE ".hidden/..b/b..", ".hidden/..b/b..");
    expect(BASE "a/.tidings-sync", "a/.tidings-sync");
    expect(BASE "back\\slash:*", "back\\slash:*");
}

static void paths_cannot_escape_root(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        BASE,
        "file:///data",
        "file:///other/a",
        "/etc/passwd",
        BASE "/",
        BASE "//",
        BASE "/etc",
        BASE "a//b",
        BASE "..",
        BASE "../x",
        BASE "a/../b",
        BASE "a/..",
        BASE "./a",
        BASE "a/.",
        BASE "%2e%2e",
        BASE "%2E./x",
        BASE "a/%2e%2E/b",
        BASE "a/%2e",
        BASE "a%2fb",
        BASE "%2F",
        BASE "a%00",
        BASE "a%",
        BASE "a%2",
        BASE "a%zz",
        BASE "a?b",
        BASE "a#b",
        BASE ".tidings-sync",
        BASE ".tidings-tmp",
        BASE "%2etidings-x/y",
        NULL,
    };
    for (size_t i = 0; bad[i]; i++) {
        refuse(bad[i]);
    }
    char out[LOCAL_NAME_MAX];
    assert_non_null(name_of(tidings_strn(BASE "a\0b", sizeof(BASE) + 2), out));
}

static void long_or_deep_path_is_rejected(void **state)
{
    (void)state;
    char uri[2 * LOCAL_NAME_MAX], out[LOCAL_NAME_MAX];
    int n = snprintf(uri, sizeof(uri), "%s%0255d", BASE, 7);
    assert_null(name_of(tidings_strn(uri, (size_t)n), out));
    assert_int_equal(strlen(out), LOCAL_SEGMENT_MAX);
    snprintf(uri, sizeof(uri), "%s%0256d", BASE, 7);
    refuse(uri);
    n = snprintf(uri, sizeof(uri), "%s", BASE);
    for (size_t i = 0; i < LOCAL_DEPTH_MAX; i++) {
        n += snprintf(uri + n, sizeof(uri) - (size_t)n, "d/");
    }
    assert_null(name_of(tidings_strn(uri, (size_t)n), out));
    snprintf(uri + n, sizeof(uri) - (size_t)n, "d");
    refuse(uri);
    n = snprintf(uri, sizeof(uri), "%s", BASE);
    for (int i = 0; i < 20; i++) {
        n += snprintf(uri + n, sizeof(uri) - (size_t)n, "%0250d/", 7);
    }
    refuse(uri);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uri_below_root_maps_to_path),
        cmocka_unit_test(paths_cannot_escape_root),
        cmocka_unit_test(long_or_deep_path_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
