/* SPDX-License-Identifier: MIT
 *
 * Completing paths: one directory at a time, in order, and each suggestion expands to the URI of
 * something that exists.
 */
#include "base/str.h"
#include "formats/uri.h"
#include "formats/uri_template.h"
#include "support/file_fixture.h"

#define TEMPLATE MOUNT "{+path}"

static void make_tree(const struct fixture *f)
{
    static const char *const dirs[] = {"docs", "docs/api", "do it", ".git", "we?rd"};
    static const char *const files[] = {
        "dog.txt",     "docs/a.md", "docs/api/x",    "docs/b.md",  "\xc3\xa9.txt",
        "a\xff",       "50%.txt",   "we?rd/in#side", "st*r",       "do it/a b",
        "line\nbreak", "[x]",       ".git/config",   "q\"uote\\s^"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        make_dir(f, dirs[i]);
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        put(f, files[i], "x");
    }
}

/* The suggestions, one per line. */
static void expect(const struct fixture *f, const char *typed, const char *lines)
{
    struct buf text;
    buf_init(&text, 1u << 16);
    struct host_answer *a = host_complete(f->host, TEMPLATE, "path", typed, 100);
    assert_int_equal(a->code, 0);
    buf_puts(&text, STR_EMPTY);
    for (size_t i = 0; i < a->count; i++) {
        buf_puts(&text, tidings_str(a->rows[i].name));
        buf_putc(&text, '\n');
    }
    if (!str_eq(buf_str(&text), tidings_str(lines))) {
        fail_msg("'%s': '%.*s', expected '%s'", typed, STR_ARG(buf_str(&text)), lines);
    }
    buf_deinit(&text);
    host_answer_free(a);
}

static void names_with_the_prefix_are_suggested_in_order(void **state)
{
    struct fixture *f = *state;
    make_tree(f);
    serve(f, "");
    expect(f, "do", "do it/\ndocs/\ndog.txt\n");
    expect(f, "docs", "docs/\n");
    expect(f, "docs/", "docs/a.md\ndocs/api/\ndocs/b.md\n");
    expect(f, "docs/a", "docs/a.md\ndocs/api/\n");
    expect(f, "docs/api/", "docs/api/x\n");
    expect(f, "do it/", "do it/a b\n");
    expect(f, "do%20it/", "do it/a b\n");
    expect(f, "50", "50%25.txt\n");
    expect(f, "50%", "50%25.txt\n");
    expect(f, "50%25", "50%25.txt\n");
    expect(f, "we", "we%3Frd/\n");
    expect(f, "we?rd/", "we%3Frd/in%23side\n");
    expect(f, "we%3Frd/i", "we%3Frd/in%23side\n");
    expect(f, "\xc3\xa9", "\xc3\xa9.txt\n");
    expect(f, "a", "a%FF\n");
    expect(f, "line", "line%0Abreak\n");
}

static void impossible_paths_give_no_suggestions_and_no_error(void **state)
{
    struct fixture *f = *state;
    make_tree(f);
    serve(f, "");
    static const char *const none[] = {"x",        "/",     "/docs/",       "docs//",   "../",
                                       "docs/../", "./",    "nothing/here", "dog.txt/", ".git/",
                                       "%00",      "%00/a", "docs/\xff\xfe"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        expect(f, none[i], "");
    }
    static char large[20000];
    memset(large, 'a', sizeof large - 1);
    expect(f, large, "");
    large[10000] = '/';
    expect(f, large, "");
}

static void every_suggestion_expands_to_an_existing_uri(void **state)
{
    struct fixture *f = *state;
    make_tree(f);
    serve(f, "");
    struct uri_template *t = NULL;
    assert_int_equal(template_create(STR(TEMPLATE), &t, NULL), 0);
    static const char *const typed[] = {"", "docs/", "do it/", "we?rd/"};
    size_t seen = 0;
    for (size_t i = 0; i < sizeof typed / sizeof typed[0]; i++) {
        struct host_answer *a = host_complete(f->host, TEMPLATE, "path", typed[i], 100);
        for (size_t k = 0; k < a->count; k++, seen++) {
            struct template_variable v = {.name = STR("path"),
                                          .type = TEMPLATE_STRING,
                                          .string = tidings_str(a->rows[k].name)};
            struct buf uri, canonical;
            buf_init(&uri, URI_MAX);
            buf_init(&canonical, URI_MAX);
            assert_int_equal(template_expand(t, &v, 1, &uri, NULL), 0);
            assert_int_equal(uri_canonical(buf_str(&uri), &canonical, NULL), 0);
            struct host_answer *there = host_stat(f->host, canonical.ptr);
            if (there->code < 0 || strcmp(there->rows[0].uri, canonical.ptr) != 0) {
                fail_msg("'%s' gives '%s': %s", a->rows[k].name, canonical.ptr, there->error);
            }
            host_answer_free(there);
            buf_deinit(&uri);
            buf_deinit(&canonical);
        }
        host_answer_free(a);
    }
    assert_int_equal(seen, 16);
    template_destroy(t);
}

static void suggestions_stop_at_the_limit(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 150; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%03d", i);
        put(f, name, "");
    }
    serve(f, "");
    struct host_answer *a = host_complete(f->host, TEMPLATE, "path", "f", 100);
    assert_int_equal(a->count, 100);
    assert_true(a->is_full);
    assert_string_equal(a->rows[99].name, "f099");
    host_answer_free(a);
    a = host_complete(f->host, TEMPLATE, "path", "f1", 100);
    assert_int_equal(a->count, 50);
    assert_false(a->is_full);
    host_answer_free(a);
}

static void unknown_templates_and_variables_are_rejected(void **state)
{
    struct fixture *f = *state;
    serve(f, "");
    static const char *const rows[][2] = {{MOUNT "{path}", "path"},
                                          {TEMPLATE, "name"},
                                          {"file://other/{+path}", "path"},
                                          {MOUNT, ""}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct host_answer *a = host_complete(f->host, rows[i][0], rows[i][1], "", 100);
        assert_int_equal(a->code, TIDINGS_E_INVALID);
        assert_string_equal(a->error, "only 'path' of '" TEMPLATE "' is completed");
        host_answer_free(a);
    }
}

int main(void)
{
#define COMPLETE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        COMPLETE_TEST(names_with_the_prefix_are_suggested_in_order),
        COMPLETE_TEST(impossible_paths_give_no_suggestions_and_no_error),
        COMPLETE_TEST(every_suggestion_expands_to_an_existing_uri),
        COMPLETE_TEST(suggestions_stop_at_the_limit),
        COMPLETE_TEST(unknown_templates_and_variables_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
