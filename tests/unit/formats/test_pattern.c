/* SPDX-License-Identifier: MIT
 *
 * Globs: the matches of each wildcard, rejected patterns, agreement with a naive matcher on random
 * input, and linear time for every pattern. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/pattern.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct row {
    const char *pattern, *text;
    bool matches;
};

static void check_rows(const struct row *rows, size_t count,
                       bool (*match)(struct tidings_str, struct tidings_str))
{
    for (size_t i = 0; i < count; i++) {
        bool matches = match(tidings_str(rows[i].pattern), tidings_str(rows[i].text));
        if (matches != rows[i].matches) {
            fail_msg("'%s' on '%s': %d", rows[i].pattern, rows[i].text, matches);
        }
    }
}

static void wildcards_match_as_documented(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"", "", true},
        {"", "a", false},
        {"abc", "abc", true},
        {"abc", "ab", false},
        {"ab", "abc", false},
        {"*", "", true},
        {"*", "abc", true},
        {"*", "a/b", false},
        {"*.log", "x.log", true},
        {"*.log", ".log", true},
        {"*.log", "x.logs", false},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "aXbYbZ", false},
        {"file://logs/*.log", "file://logs/a.log", true},
        {"file://logs/*.log", "file://logs/b/a.log", false},
        {"**", "a/b/c", true},
        {"**", "", true},
        {"a/**", "a/b/c", true},
        {"a/**", "a/", true},
        {"a/**", "a", false},
        {"a/**/b", "a/b", true},
        {"a/**/b", "a/x/b", true},
        {"a/**/b", "a/x/y/b", true},
        {"a/**/b", "a/xb", false},
        {"a/**/b", "ab", false},
        {"**/b", "b", true},
        {"**/b", "x/y/b", true},
        {"**/b", "xb", false},
        {"**/**/**/b", "b", true},
        {"a**b", "a/x/b", true},
        {"a**/b", "a/b", true},
        {"a**/b", "ab", false},
        {"***", "a/b", true},
        {"?", "a", true},
        {"?", "", false},
        {"?", "/", false},
        {"a?c", "abc", true},
        {"?", "\xc3\xa9", true},
        {"??", "\xc3\xa9", false},
        {"??", "\xc3\xff", true},
        {"?", "\xf0\x9d\x84\x9e", true},
        {"[a-c]", "b", true},
        {"[a-c]", "d", false},
        {"[!a-c]", "d", true},
        {"[!a-c]", "b", false},
        {"[^a-c]", "d", true},
        {"[!a]", "/", false},
        {"[/]", "/", false},
        {"[]]", "]", true},
        {"[!]]", "]", false},
        {"[!]]", "a", true},
        {"[a-]", "-", true},
        {"[-a]", "-", true},
        {"[*]", "*", true},
        {"[*]", "a", false},
        {"[[]", "[", true},
        {"[\xc3\xa0-\xc3\xaf]", "\xc3\xa9", true},
        {"[\xc3\xa0-\xc3\xaf]", "\xc3\xb1", false},
        {"app-[0-9].log", "app-7.log", true},
        {"a[b", "a[b", true},
        {"\\*", "\\x", true},
    };
    check_rows(rows, COUNT(rows), glob_matches);
}

static void paths_are_compared_as_in_gitignore(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"*.o", "a.o", true},
        {"*.o", "src/deep/a.o", true},
        {"node_modules", "a/node_modules", true},
        {"node_modules", "a/node_modules/", true},
        {"node_modules", "node_modules/x", false},
        {"node_modules/", "a/node_modules/", true},
        {"node_modules/", "a/node_modules", false},
        {"/a", "a", true},
        {"/a", "/a", true},
        {"/a", "b/a", false},
        {"/*", "a", true},
        {"/*", "a/b", false},
        {"/a/", "a/", true},
        {"a/b", "a/b", true},
        {"a/b", "x/a/b", false},
        {"**/a/b", "x/a/b", true},
        {".git", ".git", true},
        {".*", "x/.hidden", true},
        {".*", "x/shown", false},
        {"", "", false},
        {"/", "/", false},
        {"a", "", false},
    };
    check_rows(rows, COUNT(rows), glob_matches_path);
}

static void checker_explains_each_refusal(void **state)
{
    (void)state;
    static char stars[2 * 65], lone[GLOB_MAX_BYTES + 1];
    for (size_t i = 0; i < sizeof(stars); i += 2) {
        memcpy(stars + i, "*a", 2);
    }
    memset(lone, 'a', sizeof(lone));
    const struct {
        struct tidings_str pattern;
        const char *sentence; /* NULL: accepted */
    } rows[] = {
        {STR("a/**/*.[ch]"), NULL},
        {STR("[]-a]"), NULL},
        {STR("[!]]"), NULL},
        {{stars, 128}, NULL},
        {{lone, GLOB_MAX_BYTES}, NULL},
        {STR(""), "glob of 0 bytes refused: between 1 and 4096 accepted"},
        {{lone, sizeof(lone)}, "glob of 4097 bytes refused"},
        {{stars, 130}, "65 wildcards, at most 64 accepted"},
        {STR("a["), "glob 'a[' refused: '[' at byte 2 is never closed"},
        {STR("[]"), "'[' at byte 1 is never closed"},
        {STR("[!]"), "'[' at byte 1 is never closed"},
        {STR("x[a-cz-y]"), "the range before byte 9 runs backwards"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tidings_error err = {0};
        int rc = glob_check(rows[i].pattern, &err);
        assert_int_equal(rc, rows[i].sentence ? TIDINGS_E_INVALID : 0);
        if (rows[i].sentence && !strstr(err.text, rows[i].sentence)) {
            fail_msg("'%s', expected '%s'", err.text, rows[i].sentence);
        }
    }
    assert_false(glob_matches(tidings_strn(lone, sizeof(lone)), tidings_strn(lone, sizeof(lone))));
}

/* The definition by brute force: stars, '?', letters and '/' only. */
static bool naive(const char *whole, const char *p, const char *t)
{
    if (!*p) {
        return !*t;
    }
    if (p[0] == '*') {
        const char *after = p;
        while (*after == '*') {
            after++;
        }
        bool cross = after - p > 1;
        if (cross && (p == whole || p[-1] == '/') && *after == '/' && naive(whole, after + 1, t)) {
            return true;
        }
        for (;; t++) {
            if (naive(whole, after, t)) {
                return true;
            }
            if (!*t || (*t == '/' && !cross)) {
                return false;
            }
        }
    }
    if (!*t || (*p == '?' ? *t == '/' : *p != *t)) {
        return false;
    }
    return naive(whole, p + 1, t + 1);
}

static void random_patterns_match_the_definition(void **state)
{
    (void)state;
    uint64_t random = 2463534242u;
    unsigned matched = 0;
    for (int i = 0; i < 20000; i++) {
        char pattern[9] = {0}, text[9] = {0};
        for (size_t k = 0; k < 16; k++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            size_t at = k / 2;
            if (k % 2) {
                text[at] = "aab/"[random >> 40 & 3];
            } else {
                pattern[at] = "**/?a*ba"[random >> 40 & 7];
            }
        }
        pattern[(random >> 20) % 9] = '\0';
        text[(random >> 30) % 9] = '\0';
        bool expected = naive(pattern, pattern, text);
        matched += expected;
        if (glob_matches(tidings_str(pattern), tidings_str(text)) != expected) {
            fail_msg("'%s' on '%s': expected %d", pattern, text, expected);
        }
    }
    assert_in_range(matched, 1000, 19000);
}

/* Exponential for a backtracking matcher; this one ends quickly, or the test never ends. */
static void hostile_patterns_end(void **state)
{
    (void)state;
    static char text[4096], pattern[192];
    memset(text, 'a', sizeof(text));
    for (size_t i = 0; i < sizeof(pattern); i += 3) {
        memcpy(pattern + i, "**a", 3);
    }
    struct tidings_str long_text = tidings_strn(text, sizeof(text));
    assert_true(glob_matches(tidings_strn(pattern, sizeof(pattern)), long_text));
    pattern[sizeof(pattern) - 1] = 'b';
    assert_false(glob_matches(tidings_strn(pattern, sizeof(pattern)), long_text));
    static char many[GLOB_MAX_BYTES];
    for (size_t i = 0; i < sizeof(many); i++) {
        many[i] = "**/"[i % 3];
    }
    assert_true(glob_matches(tidings_strn(many, sizeof(many)), tidings_strn(text, 256)));
    many[sizeof(many) - 1] = 'b';
    assert_false(glob_matches(tidings_strn(many, sizeof(many)), tidings_strn(text, 256)));
}

static void patterns_with_a_common_match_overlap(void **state)
{
    (void)state;
    static const struct {
        enum pattern_kind kind;
        const char *text, *uri_template;
        bool meets;
    } rows[] = {
        {PATTERN_GLOB, "weather://city/*", "weather://city/{location}", true},
        {PATTERN_GLOB, "weather://city/r*", "weather://city/{location}", true},
        {PATTERN_GLOB, "weather://sea/*", "weather://city/{location}", false},
        {PATTERN_GLOB, "weather://*", "weather://city/{location}", false},
        {PATTERN_GLOB, "weather://**", "weather://city/{location}", true},
        {PATTERN_GLOB, "weather://city/*/x", "weather://city/{location}", false},
        {PATTERN_GLOB, "weather://city/*/x", "weather://city/{+location}", true},
        {PATTERN_GLOB, "weather://city/**/x", "weather://city/{location}", true},
        {PATTERN_GLOB, "user://*", "user://{id}", true},
        {PATTERN_GLOB, "user://a*", "user://b{id}", false},
        {PATTERN_GLOB, "file:///*.txt", "file:///srv/{+rest}", false},
        {PATTERN_GLOB, "file:///*/*.txt", "file:///srv/{+rest}", true},
        {PATTERN_GLOB, "file:///s[qr]v/a", "file:///srv/{+rest}", true},
        {PATTERN_GLOB, "file:///s[qp]v/a", "file:///srv/{+rest}", false},
        {PATTERN_GLOB, "file://**/*.txt", "file:///srv/{+rest}", true},
        {PATTERN_GLOB, "**", "file:///srv/{+rest}", true},
        {PATTERN_GLOB, "file:///srv?/a", "file:///srvx/{+rest}", false},
        {PATTERN_GLOB_Q, "file:///srv?/a", "file:///srvx/{+rest}", true},
        {PATTERN_TEMPLATE, "file:///{d}/a", "file:///srv/{+rest}", true},
        {PATTERN_TEMPLATE, "file:///x{d}/a", "file:///srv/{+rest}", false},
        {PATTERN_TEMPLATE, "file:///{name}", "file:///srv/{+rest}", false},
        {PATTERN_TEMPLATE, "file:///{+name}", "file:///srv/{+rest}", true},
        {PATTERN_TEMPLATE, "a:///x{/more}", "a:///x/{id}", true},
        {PATTERN_TEMPLATE, "weather://city/{x}", "weather://city/{location}", true},
        {PATTERN_CONTAINER, "weather://city/", "weather://city/{location}", true},
        {PATTERN_CONTAINER, "weather://", "weather://city/{location}", true},
        {PATTERN_CONTAINER, "weather://sea/", "weather://city/{location}", false},
        {PATTERN_CONTAINER, "file:///", "file:///srv/{+rest}", true},
        {PATTERN_CONTAINER, "file:///srv/a/b/", "file:///srv/{+rest}", true},
        {PATTERN_CONTAINER, "file:///other/", "file:///srv/{+rest}", false},
        {PATTERN_CONTAINER, "file:///srv", "file:///srv/{+rest}", true},
        {PATTERN_LITERAL, "a:b", "a:b", true},
        {PATTERN_LITERAL, "a:b", "a:{c}", true},
        {PATTERN_REGEX, "^x$", "a:{c}", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (pattern_meets(rows[i].kind, tidings_str(rows[i].text),
                          tidings_str(rows[i].uri_template)) != rows[i].meets) {
            fail_msg("'%s' and '%s': not %d", rows[i].text, rows[i].uri_template, rows[i].meets);
        }
    }
}

/* One URI that both match proves an overlap. */
static void random_patterns_never_miss_an_overlap(void **state)
{
    (void)state;
    static const char *const ends[] = {"/{+r}", "/{x}", "{x}/a", "", "/{x}b{y}", "{/z}"};
    static const enum pattern_kind kinds[] = {PATTERN_GLOB, PATTERN_GLOB_Q, PATTERN_CONTAINER,
                                              PATTERN_TEMPLATE};
    uint64_t random = 4711;
    size_t met = 0;
    for (unsigned round = 0; round < 60000; round++) {
        char pattern[32], uri_template[32], uri[8] = "x:", marks[4], literals[2];
        for (size_t k = 0; k < 4; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            marks[k] = "a/**a*/?"[random >> 33 & 7];
            uri[2 + k] = "aa/aa/ba"[random >> 40 & 7];
            literals[k & 1] = "aa/a"[random >> 50 & 3];
        }
        enum pattern_kind kind = kinds[random >> 44 & 3];
        bool is_template = kind == PATTERN_TEMPLATE;
        snprintf(pattern, sizeof(pattern), "x:%.*s%s", is_template ? 2 : 4, marks,
                 is_template ? ends[(random >> 58) % COUNT(ends)] : "");
        snprintf(uri_template, sizeof(uri_template), "x:%.2s%s", literals,
                 ends[(random >> 55) % COUNT(ends)]);
        if (pattern_matches(kind, tidings_str(pattern), tidings_str(uri)) &&
            pattern_matches(PATTERN_TEMPLATE, tidings_str(uri_template), tidings_str(uri))) {
            met++;
            if (!pattern_meets(kind, tidings_str(pattern), tidings_str(uri_template))) {
                fail_msg("'%s' (%d) and '%s' both match '%s'", pattern, kind, uri_template, uri);
            }
        }
    }
    assert_in_range(met, 50, 60000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wildcards_match_as_documented),
        cmocka_unit_test(paths_are_compared_as_in_gitignore),
        cmocka_unit_test(checker_explains_each_refusal),
        cmocka_unit_test(random_patterns_match_the_definition),
        cmocka_unit_test(hostile_patterns_end),
        cmocka_unit_test(patterns_with_a_common_match_overlap),
        cmocka_unit_test(random_patterns_never_miss_an_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
