/* SPDX-License-Identifier: MIT
 *
 * What each kind of subscription matches, by the index and by definition, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "match/match.h"
#include "uri/uri.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct row {
    enum match_kind kind;
    const char *text, *uri;
    bool matches;
};

static void count(void *user, struct match_node *node)
{
    (void)node;
    ++*(unsigned *)user;
}

/* The index and the definition say the same, which is what the row says. */
static void check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct match m;
        struct match_node node = {0};
        struct tidings_error err = {0};
        unsigned hits = 0;
        match_init(&m);
        if (match_add(&m, &node, rows[i].kind, tidings_str(rows[i].text), &err) < 0) {
            fail_msg("'%s': %s", rows[i].text, err.text);
        }
        match_find(&m, tidings_str(rows[i].uri), count, &hits);
        bool defined =
            match_kind_matches(rows[i].kind, tidings_str(rows[i].text), tidings_str(rows[i].uri));
        if (hits != rows[i].matches || defined != rows[i].matches) {
            fail_msg("'%s' (%d) on '%s': %u times, by definition %d", rows[i].text, rows[i].kind,
                     rows[i].uri, hits, defined);
        }
        match_remove(&m, &node);
        assert_int_equal(match_bytes(&m), 0);
        match_deinit(&m);
    }
}

static void globs_match_within_and_across_segments(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {MATCH_GLOB, "file://logs/*.log", "file://logs/a.log", true},
        {MATCH_GLOB, "file://logs/*.log", "file://logs/.log", true},
        {MATCH_GLOB, "file://logs/*.log", "file://logs/b/a.log", false},
        {MATCH_GLOB, "file://logs/*.log", "file://logs/a.logs", false},
        {MATCH_GLOB, "file:///plain", "file:///plain", true},
        {MATCH_GLOB, "file:///plain", "file:///plain/", false},
        {MATCH_GLOB, "x:///a/**", "x:///a/", true},
        {MATCH_GLOB, "x:///a/**", "x:///a/b/c", true},
        {MATCH_GLOB, "x:///a/**", "x:///a", false},
        {MATCH_GLOB, "x:///a/**/b", "x:///a/b", true},
        {MATCH_GLOB, "x:///a/**/b", "x:///a/c/d/b", true},
        {MATCH_GLOB, "x:///a/**/b", "x:///a/cb", false},
        {MATCH_GLOB, "x:///a/**/**/b", "x:///a/b", true},
        {MATCH_GLOB, "x:///**/a/**", "x:///a/a/a/a", true},
        {MATCH_GLOB, "x:///**/a/**/a", "x:///a", false},
        {MATCH_GLOB, "x:///*/b", "x:////b", true},
        {MATCH_GLOB, "x:///*/", "x:///a/", true},
        {MATCH_GLOB, "x:///*/", "x:///a", false},
        {MATCH_GLOB, "x:///a**b", "x:///a/c/b", true},
        {MATCH_GLOB, "x:///a**b", "x:///a/c", false},
        {MATCH_GLOB, "urn:**", "urn:a/b", true},
        {MATCH_GLOB, "x:///ab*ba", "x:///aba", false},
        {MATCH_GLOB, "x:///ab*ba", "x:///abba", true},
        {MATCH_GLOB, "x:///*error*", "x:///an-error-log", true},
        {MATCH_GLOB, "x:///*error*", "x:///errerrorerror", true},
        {MATCH_GLOB, "x:///*error*", "x:///erro-r", false},
        {MATCH_GLOB, "x:///*long-error*/*", "x:///a-long-error/1", true},
        {MATCH_GLOB, "x:///*a*b*", "x:///xaxbx", true},
        {MATCH_GLOB, "x:///*a*b*", "x:///xbxax", false},
        {MATCH_GLOB, "x:///app-[0-9].log", "x:///app-7.log", true},
        {MATCH_GLOB, "x:///app-[0-9].log", "x:///app-x.log", false},
        {MATCH_GLOB, "x:///[!a-c]*", "x:///d", true},
        {MATCH_GLOB, "x:///[!a-c]*", "x:///b", false},
        {MATCH_GLOB, "x:///[%5Ea-c]*", "x:///d", true},
        {MATCH_GLOB, "x:///[%5Ea-c]*", "x:///b", false},
        {MATCH_GLOB, "x:///a[%20]b", "x:///a%20b", true},
        {MATCH_GLOB, "x:///a[!x]b", "x:///a%20b", true},
        {MATCH_GLOB, "x:///a[*]b", "x:///a*b", true},
        {MATCH_GLOB, "x:///a[*]b", "x:///a%2Ab", true},
        {MATCH_GLOB, "x:///a%2Ab*", "x:///a%2Ab", true},
        {MATCH_GLOB, "x:///*0b", "x:///a%20b", false},
        {MATCH_GLOB, "x:///a?b", "x:///a?b", true},
        {MATCH_GLOB, "x:///a?b", "x:///axb", false},
        {MATCH_GLOB, "x:///a*", "x:///a?q=1", true},
        {MATCH_GLOB, "x:///a*", "x:///a?q=/1", false},
        {MATCH_GLOB_Q, "x:///a?b", "x:///axb", true},
        {MATCH_GLOB_Q, "x:///a?b", "x:///a?b", true},
        {MATCH_GLOB_Q, "x:///a?b", "x:///a%20b", true},
        {MATCH_GLOB_Q, "x:///a?b", "x:///a/b", false},
        {MATCH_GLOB_Q, "x:///a?b", "x:///ab", false},
        {MATCH_GLOB_Q, "x:///a??", "x:///a%C3%A9", true},
    };
    check_rows(rows, COUNT(rows));
}

static void templates_match_what_they_could_have_made(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {MATCH_TEMPLATE, "weather://city/{location}", "weather://city/paris", true},
        {MATCH_TEMPLATE, "weather://city/{location}", "weather://city/", false},
        {MATCH_TEMPLATE, "weather://city/{location}", "weather://city/a/b", false},
        {MATCH_TEMPLATE, "weather://city/{location}", "weather://city/a?b", false},
        {MATCH_TEMPLATE, "weather://{city}/now", "weather://rome/now", true},
        {MATCH_TEMPLATE, "e:///{type}@{version}/{id}", "e:///order@1/7", true},
        {MATCH_TEMPLATE, "e:///{type}@{version}/{id}", "e:///order@/7", false},
        {MATCH_TEMPLATE, "e:///{type}@{version}/{id}", "e:///@@@/7", true},
        {MATCH_TEMPLATE, "e:///{a}{b}", "e:///x", false},
        {MATCH_TEMPLATE, "e:///{a}{b}", "e:///xy", true},
        {MATCH_TEMPLATE, "e:///{a}41", "e:///%E41", false},
        {MATCH_TEMPLATE, "e:///{a,b}", "e:///x,y", true},
        {MATCH_TEMPLATE, "e:///{a}/{a}", "e:///x/x", true},
        {MATCH_TEMPLATE, "e:///{a}/{a}", "e:///x/y", false},
        {MATCH_TEMPLATE, "e:///{a:2}", "e:///ab", true},
        {MATCH_TEMPLATE, "e:///{a:2}", "e:///abc", false},
        {MATCH_TEMPLATE, "e:///f{.ext}", "e:///f.txt", true},
        {MATCH_TEMPLATE, "e:///f{.ext}", "e:///ftxt", false},
        {MATCH_TEMPLATE, "e:///f{/a,b}", "e:///f/1/2", true},
        {MATCH_TEMPLATE, "e:///f{/a,b}", "e:///f/1", false},
        {MATCH_TEMPLATE, "e:///f{/a*}", "e:///f/1/2/3", true},
        {MATCH_TEMPLATE, "e:///{+path}", "e:///a/b/c", true},
        {MATCH_TEMPLATE, "e:///{+path}/end", "e:///a/b/end", true},
        {MATCH_TEMPLATE, "e:///{+path}/end", "e:///a/b/ends", false},
        {MATCH_TEMPLATE, "e:///s{?q,l}", "e:///s", true},
        {MATCH_TEMPLATE, "e:///s{?q,l}", "e:///s?l=1&q=/a/b", true},
        {MATCH_TEMPLATE, "e:///s{?q,l}", "e:///s?z=1", false},
        {MATCH_TEMPLATE, "e:///s{?q,l}", "e:///sq", false},
        {MATCH_TEMPLATE, "e:///s?k=1{&q}", "e:///s?k=1&q=2", true},
        {MATCH_TEMPLATE, "e:///s?k={k}", "e:///s?k=1", true},
        {MATCH_TEMPLATE, "e:///s?k={k}", "e:///s?k=1&l=2", false},
        {MATCH_TEMPLATE, "e:///s{;m}", "e:///s;m=1", true},
        {MATCH_TEMPLATE, "e:///a*b/{v}", "e:///a*b/1", true},
        {MATCH_TEMPLATE, "e:///a*b/{v}", "e:///axb/1", false},
        {MATCH_TEMPLATE, "e:///plain", "e:///plain", true},
    };
    check_rows(rows, COUNT(rows));
}

static void regexes_are_found_anywhere(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {MATCH_REGEX, "error", "x:///an-error-log", true},
        {MATCH_REGEX, "^x:///logs/.*\\.(log|txt)$", "x:///logs/a/b.txt", true},
        {MATCH_REGEX, "^x:///logs/.*\\.(log|txt)$", "x:///logs/a/b.txt2", false},
        {MATCH_REGEX, "app-[0-9]+", "x:///app-12", true},
        {MATCH_REGEX, "app-[0-9]+", "x:///app-x", false},
        {MATCH_REGEX, "abcde?f", "x:///abcdf", true},
        {MATCH_REGEX, "abcd{0,2}e", "x:///abce", true},
        {MATCH_REGEX, "aaaa|bbbb", "x:///bbbb", true},
        {MATCH_REGEX, "(?i)ERROR", "x:///error", true},
        {MATCH_REGEX, "(ab(cd|ef)*)?long-text", "x:///long-text", true},
        {MATCH_REGEX, "[]x]+long", "x:///]x]long", true},
        {MATCH_REGEX, "[[:alpha:]]-name", "x:///a-name", true},
        {MATCH_REGEX, "\\.md$", "x:///a.md", true},
        {MATCH_REGEX, "", "x:///a", true},
    };
    check_rows(rows, COUNT(rows));
}

static void what_is_not_well_formed_is_refused_with_reason_and_place(void **state)
{
    (void)state;
    static char bytes[URI_MAX + 1], loops[64], regex[REGEX_MAX_BYTES + 1];
    memset(bytes, 'a', sizeof(bytes));
    memset(regex, 'a', sizeof(regex));
    memcpy(loops, "x:", 2);
    for (size_t i = 2; i + 5 <= 2 + 5 * 9; i += 5) {
        memcpy(loops + i, "/**/a", 5);
    }
    const struct {
        enum match_kind kind;
        struct tidings_str text;
        int code;
        const char *sentence;
    } rows[] = {
        {MATCH_LITERAL, STR(""), TIDINGS_E_INVALID, "between 1 and 4096"},
        {MATCH_CONTAINER, {bytes, sizeof(bytes)}, TIDINGS_E_INVALID, "URI of 4097 bytes refused"},
        {MATCH_GLOB, {bytes, sizeof(bytes)}, TIDINGS_E_INVALID, "glob of 4097 bytes refused"},
        {MATCH_GLOB, STR("x:///a[bc"), TIDINGS_E_INVALID, "'[' at byte 7 is never closed"},
        {MATCH_GLOB, STR("x:///a[b/c]"), TIDINGS_E_INVALID, "'[' at byte 7 is never closed"},
        {MATCH_GLOB, STR("x:///[b-a]"), TIDINGS_E_INVALID, "the range before byte 10 runs backw"},
        {MATCH_GLOB, STR("x:///\001*"), TIDINGS_E_INVALID, "control character at byte 6"},
        {MATCH_GLOB, {loops, 2 + 5 * 9}, TIDINGS_E_INVALID, "'**' more than 8 times"},
        {MATCH_TEMPLATE, STR("x:///{a"), TIDINGS_E_INVALID, "'{' that is never closed at byte 6"},
        {MATCH_TEMPLATE, STR("x:///a}"), TIDINGS_E_INVALID, "'}' without '{' at byte 7"},
        {MATCH_TEMPLATE, STR("x:///{a,,}"), TIDINGS_E_INVALID, "variable name at byte 9"},
        {MATCH_TEMPLATE, STR("x:///{=a}"), TIDINGS_E_INVALID, "operator"},
        {MATCH_REGEX, STR("a(b"), TIDINGS_E_INVALID, "missing closing parenthesis at byte 2"},
        {MATCH_REGEX, STR("(*UTF)a"), TIDINGS_E_INVALID, "regex '(*UTF)a' refused"},
        {MATCH_REGEX, {regex, sizeof(regex)}, TIDINGS_E_LIMIT, "regex of 1025 bytes refused"},
        {MATCH_REGEX, STR("((a{1,80}b){1,80}c){1,12}"), TIDINGS_E_LIMIT, "too large"},
    };
    struct match m;
    match_init(&m);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct match_node node = {0};
        struct tidings_error err = {0};
        int rc = match_add(&m, &node, rows[i].kind, rows[i].text, &err);
        if (rc != rows[i].code || !strstr(err.text, rows[i].sentence)) {
            fail_msg("row %zu: %d '%s', expected '%s'", i, rc, err.text, rows[i].sentence);
        }
        assert_null(node.entry);
        assert_int_equal(match_bytes(&m), 0);
    }
    match_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(globs_match_within_and_across_segments),
        cmocka_unit_test(templates_match_what_they_could_have_made),
        cmocka_unit_test(regexes_are_found_anywhere),
        cmocka_unit_test(what_is_not_well_formed_is_refused_with_reason_and_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
