/* SPDX-License-Identifier: MIT
 *
 * Media types by name: the built-in table, a table written for the test, the system's table.
 */
#include "sources/mime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"

static const char globs[] = "# comment\n"
                            "80:text/x-heavy:*.foo\n"
                            "50:text/x-light:*.foo\n"
                            "50:text/x-light:*.bar\n"
                            "70:text/x-heavier-bar:*.bar\n"
                            "50:text/x-long:*.long.foo2\n"
                            "50:text/x-short:*.foo2\n"
                            "50:text/x-exact:Special\n"
                            "50:text/x-exact:special\n"
                            "50:text/x-plusplus:*.CX:cs\n"
                            "50:text/x-numbered:*.so.[0-9]*\n"
                            "50:text/x-version:*,v\n"
                            "99:video/mp2t:*.ts\n"
                            "nonsense\n"
                            "50:\n"
                            "50:text/x-nothing:\n"
                            "99999:text/x-weight:*.w\n";

struct row {
    const char *name;
    const char *type;
};

static void check_rows(const char *path, const struct row *rows, size_t count)
{
    struct mime_table *m = mime_load(path);
    assert_non_null(m);
    for (size_t i = 0; i < count; i++) {
        struct tidings_str type = mime_find(m, tidings_str(rows[i].name));
        char text[300];
        (void)snprintf(text, sizeof text, "%s -> %.*s", rows[i].name, STR_ARG(type));
        char wanted[300];
        (void)snprintf(wanted, sizeof wanted, "%s -> %s", rows[i].name, rows[i].type);
        assert_string_equal(text, wanted);
    }
    mime_destroy(m);
}

#define CHECK(path, rows) check_rows(path, rows, sizeof(rows) / sizeof((rows)[0]))

static void common_names_have_a_type_without_the_system_table(void **state)
{
    static const struct row rows[] = {
        {"a.ts", "text/typescript"},
        {"a.tsx", "text/typescript"},
        {"a.md", "text/markdown"},
        {"a.json", "application/json"},
        {"a.log", "text/plain"},
        {"a.yaml", "application/yaml"},
        {"a.yml", "application/yaml"},
        {"a.txt", "text/plain"},
        {"a.avif", "image/avif"}, /* first and last of the table, which is sorted */
        {"a.zst", "application/zstd"},
        {"README", "text/plain"},
        {"LICENCE", "text/plain"},
        {"LICENSE", "text/plain"},
        {"Makefile", "text/x-makefile"},
        {".gitignore", "text/plain"},
        {".dockerignore", "text/plain"}, /* first of the names */
        {"go.mod", "text/plain"},
        {"makefile.c", "text/x-csrc"},
        {"version", "text/plain"},
        {"PHOTO.JPG", "image/jpeg"},
        {"archive.tar.gz", "application/gzip"},
        {"unknown.xyzzy", ""},
        {"noextension", ""},
        {"trailing.", ""},
        {"", ""},
    };
    (void)state;
    CHECK("/nonexistent/globs2", rows);
}

static void system_table_is_searched_by_weight_length_and_lower_case(void **state)
{
    static const struct row rows[] = {
        {"a.foo", "text/x-heavy"},
        {"a.bar", "text/x-heavier-bar"},
        {"a.long.foo2", "text/x-long"},
        {"a.foo2", "text/x-short"},
        {"Special", "text/x-exact"},
        {"SPECIAL", "text/x-exact"},
        {"A.FOO", "text/x-heavy"},
        {"a.CX", "text/x-plusplus"},
        {"a.cx", ""}, /* the glob is case-sensitive */
        {"libx.so.12", "text/x-numbered"},
        {"file,v", "text/x-version"},
        {"a.ts", "text/typescript"}, /* the built-in table has precedence */
        {"a.w", ""},
    };
    char path[] = "/tmp/tidings-globs-XXXXXX";
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, globs, sizeof globs - 1), (ssize_t)(sizeof globs - 1));
    close(fd);
    CHECK(path, rows);
    unlink(path);
}

static void overlong_name_has_no_type(void **state)
{
    char name[400];
    (void)state;
    memset(name, 'a', sizeof name);
    memcpy(name + sizeof name - 4, ".txt", 4);
    struct mime_table *m = mime_load(MIME_GLOBS_PATH);
    assert_non_null(m);
    assert_int_equal(mime_find(m, tidings_strn(name, sizeof name)).len, 0);
    assert_true(mime_find(m, tidings_strn(name + 200, 200)).len > 0);
    mime_destroy(m);
}

static void system_table_loads_quickly(void **state)
{
    uint64_t best = UINT64_MAX;
    (void)state;
    for (int i = 0; i < 5; i++) {
        uint64_t start = clock_monotonic_ns();
        struct mime_table *m = mime_load(MIME_GLOBS_PATH);
        uint64_t took = clock_monotonic_ns() - start;
        best = took < best ? took : best;
        mime_destroy(m);
    }
    print_message("loading " MIME_GLOBS_PATH ": %llu us\n", (unsigned long long)(best / 1000));
    assert_true(best < 20000000u); /* 20 ms: enough even under sanitizers on a busy machine */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(common_names_have_a_type_without_the_system_table),
        cmocka_unit_test(system_table_is_searched_by_weight_length_and_lower_case),
        cmocka_unit_test(overlong_name_has_no_type),
        cmocka_unit_test(system_table_loads_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
