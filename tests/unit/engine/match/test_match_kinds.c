/* SPDX-License-Identifier: MIT
 *
 * The matches of each kind of subscription, by the index and by definition, and refused patterns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/match/match.h"
#include "formats/uri.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct row {
    enum pattern_kind kind;
    const char *text, *uri;
    bool matches;
};

static void count(void *user, struct match_node *node)
{
    (void)node;
    ++*(unsigned *)user;
}

/* The index and the definition both agree with the row. */
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
            pattern_matches(rows[i].kind, tidings_str(rows[i].text), tidings_str(rows[i].uri));
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
        {PATTERN_GLOB, "file://logs/*.log", "file://logs/a.log", true},
        {PATTERN_GLOB, "file://logs/*.log", "file://logs/.log", true},
        {PATTERN_GLOB, "file://logs/*.log", "file://logs/b/a.log", false},
        {PATTERN_GLOB, "file://logs/*.log", "file://logs/a.logs", false},
        {PATTERN_GLOB, "file:///plain", "file:///plain", true},
        {PATTERN_GLOB, "file:///plain", "file:///plain/", false},
        {PATTERN_GLOB, "x:///a/**", "x:///a/", true},
        {PATTERN_GLOB, "x:///a/**", "x:///a/b/c", true},
        {PATTERN_GLOB, "x:///a/**", "x:///a", false},
        {PATTERN_GLOB, "x:///a/**/b", "x:///a/b", true},
        {PATTERN_GLOB, "x:///a/**/b", "x:///a/c/d/b", true},
        {PATTERN_GLOB, "x:///a/**/b", "x:///a/cb", false},
        {PATTERN_GLOB, "x:///a/**/**/b", "x:///a/b", true},
        {PATTERN_GLOB, "x:///**/a/**", "x:///a/a/a/a", true},
        {PATTERN_GLOB, "x:///**/a/**/a", "x:///a", false},
        {PATTERN_GLOB, "x:///*/b", "x:////b", true},
        {PATTERN_GLOB, "x:///*/", "x:///a/", true},
        {PATTERN_GLOB, "x:///*/", "x:///a", false},
        {PATTERN_GLOB, "x:///a**b", "x:///a/c/b", true},
        {PATTERN_GLOB, "x:///a**b", "x:///a/c", false},
        {PATTERN_GLOB, "urn:**", "urn:a/b", true},
        {PATTERN_GLOB, "x:///ab*ba", "x:///aba", false},
        {PATTERN_GLOB, "x:///ab*ba", "x:///abba", true},
        {PATTERN_GLOB, "x:///*error*", "x:///an-error-log", true},
        {PATTERN_GLOB, "x:///*error*", "x:///errerrorerror", true},
        {PATTERN_GLOB, "x:///*error*", "x:///erro-r", false},
        {PATTERN_GLOB, "x:///*long-error*/*", "x:///a-long-error/1", true},
        {PATTERN_GLOB, "x:///*a*b*", "x:///xaxbx", true},
        {PATTERN_GLOB, "x:///*a*b*", "x:///xbxax", false},
        {PATTERN_GLOB, "x:///app-[0-9].log", "x:///app-7.log", true},
        {PATTERN_GLOB, "x:///app-[0-9].log", "x:///app-x.log", false},
        {PATTERN_GLOB, "x:///[!a-c]*", "x:///d", true},
        {PATTERN_GLOB, "x:///[!a-c]*", "x:///b", false},
        {PATTERN_GLOB, "x:///[%5Ea-c]*", "x:///d", true},
        {PATTERN_GLOB, "x:///[%5Ea-c]*", "x:///b", false},
        {PATTERN_GLOB, "x:///a[%20]b", "x:///a%20b", true},
        {PATTERN_GLOB, "x:///a[!x]b", "x:///a%20b", true},
        {PATTERN_GLOB, "x:///a[*]b", "x:///a*b", true},
        {PATTERN_GLOB, "x:///a[*]b", "x:///a%2Ab", true},
        {PATTERN_GLOB, "x:///a%2Ab*", "x:///a%2Ab", true},
        {PATTERN_GLOB, "x:///*0b", "x:///a%20b", false},
        {PATTERN_GLOB, "x:///a?b", "x:///a?b", true},
        {PATTERN_GLOB, "x:///a?b", "x:///axb", false},
        {PATTERN_GLOB, "x:///a*", "x:///a?q=1", true},
        {PATTERN_GLOB, "x:///a*", "x:///a?q=/1", false},
        {PATTERN_GLOB_Q, "x:///a?b", "x:///axb", true},
        {PATTERN_GLOB_Q, "x:///a?b", "x:///a?b", true},
        {PATTERN_GLOB_Q, "x:///a?b", "x:///a%20b", true},
        {PATTERN_GLOB_Q, "x:///a?b", "x:///a/b", false},
        {PATTERN_GLOB_Q, "x:///a?b", "x:///ab", false},
        {PATTERN_GLOB_Q, "x:///a??", "x:///a%C3%A9", true},
    };
    check_rows(rows, COUNT(rows));
}

static void templates_match_the_uris_they_produce(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {PATTERN_TEMPLATE, "weather://city/{location}", "weather://city/paris", true},
        {PATTERN_TEMPLATE, "weather://city/{location}", "weather://city/", false},
        {PATTERN_TEMPLATE, "weather://city/{location}", "weather://city/a/b", false},
        {PATTERN_TEMPLATE, "weather://city/{location}", "weather://city/a?b", false},
        {PATTERN_TEMPLATE, "weather://{city}/now", "weather://rome/now", true},
        {PATTERN_TEMPLATE, "e:///{type}@{version}/{id}", "e:///order@1/7", true},
        {PATTERN_TEMPLATE, "e:///{type}@{version}/{id}", "e:///order@/7", false},
        {PATTERN_TEMPLATE, "e:///{type}@{version}/{id}", "e:///@@@/7", true},
        {PATTERN_TEMPLATE, "e:///{a}{b}", "e:///x", false},
        {PATTERN_TEMPLATE, "e:///{a}{b}", "e:///xy", true},
        {PATTERN_TEMPLATE, "e:///{a}41", "e:///%E41", false},
        {PATTERN_TEMPLATE, "e:///{a,b}", "e:///x,y", true},
        {PATTERN_TEMPLATE, "e:///{a}/{a}", "e:///x/x", true},
        {PATTERN_TEMPLATE, "e:///{a}/{a}", "e:///x/y", false},
        {PATTERN_TEMPLATE, "e:///{a:2}", "e:///ab", true},
        {PATTERN_TEMPLATE, "e:///{a:2}", "e:///abc", false},
        {PATTERN_TEMPLATE, "e:///f{.ext}", "e:///f.txt", true},
        {PATTERN_TEMPLATE, "e:///f{.ext}", "e:///ftxt", false},
        {PATTERN_TEMPLATE, "e:///f{/a,b}", "e:///f/1/2", true},
        {PATTERN_TEMPLATE, "e:///f{/a,b}", "e:///f/1", false},
        {PATTERN_TEMPLATE, "e:///f{/a*}", "e:///f/1/2/3", true},
        {PATTERN_TEMPLATE, "e:///{+path}", "e:///a/b/c", true},
        {PATTERN_TEMPLATE, "e:///{+path}/end", "e:///a/b/end", true},
        {PATTERN_TEMPLATE, "e:///{+path}/end", "e:///a/b/ends", false},
        {PATTERN_TEMPLATE, "e:///s{?q,l}", "e:///s", true},
        {PATTERN_TEMPLATE, "e:///s{?q,l}", "e:///s?l=1&q=/a/b", true},
        {PATTERN_TEMPLATE, "e:///s{?q,l}", "e:///s?z=1", false},
        {PATTERN_TEMPLATE, "e:///s{?q,l}", "e:///sq", false},
        {PATTERN_TEMPLATE, "e:///s?k=1{&q}", "e:///s?k=1&q=2", true},
        {PATTERN_TEMPLATE, "e:///s?k={k}", "e:///s?k=1", true},
        {PATTERN_TEMPLATE, "e:///s?k={k}", "e:///s?k=1&l=2", false},
        {PATTERN_TEMPLATE, "e:///s{;m}", "e:///s;m=1", true},
        {PATTERN_TEMPLATE, "e:///a*b/{v}", "e:///a*b/1", true},
        {PATTERN_TEMPLATE, "e:///a*b/{v}", "e:///axb/1", false},
        {PATTERN_TEMPLATE, "e:///plain", "e:///plain", true},
    };
    check_rows(rows, COUNT(rows));
}

static void regexes_match_anywhere(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {PATTERN_REGEX, "error", "x:///an-error-log", true},
        {PATTERN_REGEX, "^x:///logs/.*\\.(log|txt)$", "x:///logs/a/b.txt", true},
        {PATTERN_REGEX, "^x:///logs/.*\\.(log|txt)$", "x:///logs/a/b.txt2", false},
        {PATTERN_REGEX, "app-[0-9]+", "x:///app-12", true},
        {PATTERN_REGEX, "app-[0-9]+", "x:///app-x", false},
        {PATTERN_REGEX, "abcde?f", "x:///abcdf", true},
        {PATTERN_REGEX, "abcd{0,2}e", "x:///abce", true},
        {PATTERN_REGEX, "aaaa|bbbb", "x:///bbbb", true},
        {PATTERN_REGEX, "(?i)ERROR", "x:///error", true},
        {PATTERN_REGEX, "(ab(cd|ef)*)?long-text", "x:///long-text", true},
        {PATTERN_REGEX, "[]x]+long", "x:///]x]long", true},
        {PATTERN_REGEX, "[[:alpha:]]-name", "x:///a-name", true},
        {PATTERN_REGEX, "\\.md$", "x:///a.md", true},
        {PATTERN_REGEX, "", "x:///a", true},
    };
    check_rows(rows, COUNT(rows));
}

static void malformed_pattern_is_refused_with_reason_and_place(void **state)
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
        enum pattern_kind kind;
        struct tidings_str text;
        int code;
        const char *sentence;
    } rows[] = {
        {PATTERN_LITERAL, STR(""), TIDINGS_E_INVALID, "between 1 and 4096"},
        {PATTERN_CONTAINER, {bytes, sizeof(bytes)}, TIDINGS_E_INVALID, "URI of 4097 bytes refused"},
        {PATTERN_GLOB, {bytes, sizeof(bytes)}, TIDINGS_E_INVALID, "glob of 4097 bytes refused"},
        {PATTERN_GLOB, STR("x:///a[bc"), TIDINGS_E_INVALID, "'[' at byte 7 is never closed"},
        {PATTERN_GLOB, STR("x:///a[b/c]"), TIDINGS_E_INVALID, "'[' at byte 7 is never closed"},
        {PATTERN_GLOB, STR("x:///[b-a]"), TIDINGS_E_INVALID, "the range before byte 10 runs backw"},
        {PATTERN_GLOB, STR("x:///\001*"), TIDINGS_E_INVALID, "control character at byte 6"},
        {PATTERN_GLOB, {loops, 2 + 5 * 9}, TIDINGS_E_INVALID, "'**' more than 8 times"},
        {PATTERN_TEMPLATE, STR("x:///{a"), TIDINGS_E_INVALID, "'{' that is never closed at byte 6"},
        {PATTERN_TEMPLATE, STR("x:///a}"), TIDINGS_E_INVALID, "'}' without '{' at byte 7"},
        {PATTERN_TEMPLATE, STR("x:///{a,,}"), TIDINGS_E_INVALID, "variable name at byte 9"},
        {PATTERN_TEMPLATE, STR("x:///{=a}"), TIDINGS_E_INVALID, "operator"},
        {PATTERN_REGEX, STR("a(b"), TIDINGS_E_INVALID, "missing closing parenthesis at byte 2"},
        {PATTERN_REGEX, STR("(*UTF)a"), TIDINGS_E_INVALID, "regex '(*UTF)a' refused"},
        {PATTERN_REGEX, {regex, sizeof(regex)}, TIDINGS_E_LIMIT, "regex of 1025 bytes refused"},
        {PATTERN_REGEX, STR("((a{1,80}b){1,80}c){1,12}"), TIDINGS_E_LIMIT, "too large"},
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
        cmocka_unit_test(templates_match_the_uris_they_produce),
        cmocka_unit_test(regexes_match_anywhere),
        cmocka_unit_test(malformed_pattern_is_refused_with_reason_and_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
