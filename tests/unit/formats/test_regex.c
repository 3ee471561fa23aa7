/* SPDX-License-Identifier: MIT
 *
 * Regexes: matches with and without a table, rejected regexes and their messages, and search steps
 * that grow linearly with the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "formats/regex.h"
#include "support/fail_alloc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_BYTES 1024u

struct row {
    const char *source, *text;
    bool is_found;
};

static void check_rows(const struct row *rows, size_t count, enum regex_units units)
{
    for (size_t i = 0; i < count; i++) {
        struct regex *r = NULL;
        struct tidings_error err = {0};
        if (regex_create(tidings_str(rows[i].source), units, MAX_BYTES, &r, &err) < 0) {
            fail_msg("'%s': %s", rows[i].source, err.text);
        }
        assert_true(regex_bytes(r) > 0);
        struct regex_table *table = regex_table_create(r);
        for (int times = 0; times < 4; times++) {
            uint64_t steps = 100000;
            enum regex_result result =
                regex_search(r, times > 0 ? table : NULL, tidings_str(rows[i].text), &steps);
            if (result != (rows[i].is_found ? REGEX_FOUND : REGEX_ABSENT)) {
                fail_msg("'%s' on '%s', time %d: %d", rows[i].source, rows[i].text, times, result);
            }
        }
        regex_table_destroy(table);
        regex_destroy(r);
    }
}

static void byte_searches_give_expected_results(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"error", "an error", true},
        {"^error", "an error", false},
        {"a.c$", "xabc", true},
        {"", "", true},
        {"^$", "", true},
        {"^$", "a", false},
        {"$", "a", true},
        {"a$", "ab", false},
        {"(a)(b)(c)", "abc", true},
        {"\\xE9", "\xe9", true},
        {"^.$", "\xc3\xa9", false}, /* bytes, not characters */
        {"(a|aa|a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-", false},
        {"a{2,3}b", "ab", false},
        {"a{2,3}b", "xaab", true},
        {"a{,3}", "a{,3}", true},
        {"^(?:ab|cd)*$", "abcdab", true},
        {"^(?:ab|cd)*$", "abcda", false},
        {"(?i)HeLLo", "hEllO", true},
        {"(?i:a)b", "AB", false},
        {"[^a-c]", "abc", false},
        {"[]a]", "]", true},
        {"[[:digit:]_]+x", "1_x", true},
        {"[\\d-]z", "-z", true},
        {"\\Qa.b\\E+c", "a.bbc", true},
        {"\\bcat\\b", "a cat!", true},
        {"\\bcat\\b", "concat", false},
        {"(?<!/)tmp(?=/)", "xtmp/", true},
        {"(?<!/)tmp(?=/)", "/tmp/", false},
        {"^(?!.*secret).*$", "x/secret/y", false},
        {"^(?!.*secret).*$", "x/public/y", true},
        {"(?=(?!b)..)a", "ac", true},
        {"(?s)a.b", "a\nb", true},
        {"a.b", "a\nb", false},
        {"(?m)^b$", "a\nb\nc", true},
        {"()*(a|)+b", "b", true},
        {"(?#note)x(?<name>y)(?P<other>z)", "xyz", true},
    };
    check_rows(rows, COUNT(rows), REGEX_BYTES);
}

static void character_searches_give_expected_results(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"^.$", "\xc3\xa9", true},
        {"^\\u00e9$", "\xc3\xa9", true},
        {"^\\ud83d\\udc32*$", "\xf0\x9f\x90\xb2\xf0\x9f\x90\xb2", true},
        {"^\\u{1F432}$", "\xf0\x9f\x90\xb2", true},
        {"^\\p{Letter}+$", "\xcf\x80x", true},
        {"^\\p{Letter}+$", "\xcf\x80 1", false},
        {"^\\P{L}$", "1", true},
        {"^[^]$", "\n", true},
        {"[]", "a", false},
        {"^\\W$", "\xc3\xa9", true},
        {"(?<=\xc3\xa9)x", "\xc3\xa9x", true},
        {"[\xce\xb1-\xcf\x89]", "a\xce\xb2", true},
        {"x(?=.\xe2\x82\xac)", "xy\xe2\x82\xac", true},
        {"^[[:x]]$", ":]", true},
    };
    check_rows(rows, COUNT(rows), REGEX_CHARACTERS);
}

static void refusals_give_reason_and_place(void **state)
{
    (void)state;
    static const struct {
        const char *source, *why;
        int code;
    } rows[] = {
        {"(a", "missing closing parenthesis at byte 1", TIDINGS_E_INVALID},
        {"a(?", "missing closing parenthesis at byte 3", TIDINGS_E_INVALID},
        {"a(?i", "missing closing parenthesis at byte 4", TIDINGS_E_INVALID},
        {"a(?<", "a name of a group expected", TIDINGS_E_INVALID},
        {"a(?<n", "a name of a group expected", TIDINGS_E_INVALID},
        {"a(?#x", "a name of a group expected", TIDINGS_E_INVALID},
        {"\\p", "a general category", TIDINGS_E_INVALID},
        {"\\p{L", "a general category", TIDINGS_E_INVALID},
        {"\\x{1", "between braces", TIDINGS_E_INVALID},
        {"[a-", "missing closing bracket", TIDINGS_E_INVALID},
        {"[\\", "a backslash at the end", TIDINGS_E_INVALID},
        {"a)", "unmatched closing parenthesis at byte 2", TIDINGS_E_INVALID},
        {"[a", "missing closing bracket at byte 1", TIDINGS_E_INVALID},
        {"*a", "nothing that could be repeated at byte 1", TIDINGS_E_INVALID},
        {"^*", "nothing that could be repeated at byte 2", TIDINGS_E_INVALID},
        {"a{3,2}", "out of order", TIDINGS_E_INVALID},
        {"[z-a]", "out of order", TIDINGS_E_INVALID},
        {"a\\", "a backslash at the end", TIDINGS_E_INVALID},
        {"(a)\\1", "backreferences are not supported at byte 4", TIDINGS_E_INVALID},
        {"(?<n>a)\\k<n>", "backreferences are not supported", TIDINGS_E_INVALID},
        {"(?>a)", "atomic groups are not supported", TIDINGS_E_INVALID},
        {"a++", "possessive quantifiers are not supported", TIDINGS_E_INVALID},
        {"(?R)", "an invalid group", TIDINGS_E_INVALID},
        {"(*ACCEPT)", "verbs are not supported", TIDINGS_E_INVALID},
        {"\\p{Klingon}", "a general category", TIDINGS_E_INVALID},
        {"\\y", "mean nothing here", TIDINGS_E_INVALID},
        {"\\x{110000}", "there is no such character", TIDINGS_E_INVALID},
        {"a{70000}", "too big", TIDINGS_E_INVALID},
        {"(a{100}){100}", "too large", TIDINGS_E_LIMIT},
        {"((((){1000}){1000}){1000}){1000}", "too large", TIDINGS_E_LIMIT},
        {"(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)(?=a)",
         "too large", TIDINGS_E_LIMIT},
    };
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        struct regex *r = NULL;
        struct tidings_error err = {0};
        enum regex_units units = i % 2 ? REGEX_BYTES : REGEX_CHARACTERS;
        const char *source = rows[i / 2].source;
        assert_int_equal(regex_create(tidings_str(source), units, MAX_BYTES, &r, &err),
                         rows[i / 2].code);
        if (!strstr(err.text, rows[i / 2].why)) {
            fail_msg("'%s': %s", source, err.text);
        }
    }
    char nested[2 * REGEX_MAX_DEPTH + 4];
    memset(nested, '(', REGEX_MAX_DEPTH + 1);
    memset(nested + REGEX_MAX_DEPTH + 1, ')', REGEX_MAX_DEPTH + 1);
    nested[2 * REGEX_MAX_DEPTH + 2] = '\0';
    struct regex *r = NULL;
    assert_int_equal(regex_create(tidings_str(nested), REGEX_BYTES, MAX_BYTES, &r, NULL),
                     TIDINGS_E_INVALID);
    assert_int_equal(regex_create(STR("abc"), REGEX_BYTES, 2, &r, NULL), TIDINGS_E_LIMIT);
}

/* Even for regexes that are hostile to a backtracking matcher. */
static void steps_grow_linearly_with_the_text(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "(a|aa|a+)+$",
        "(x+x+)+y",
        "(?:a?){12}a{12}[bc]",
        "(?:a|b|ab){0,12}[cd]",
        "(a*)*b",
        "[a-z]*[0-9]!",
        ".*.*.*=;",
        "(?=(a+)+$)b",
        "(?<=(a|aa)*)b|c",
        "(.|a|\\w)*\\d",
        "^(([a-z])+.)+[A-Z]$",
    };
    enum { SHORT = 1000, LONG = 8 * SHORT };
    static char text[LONG];
    memset(text, 'a', sizeof(text));
    for (size_t i = 0; i < 2 * COUNT(sources); i++) {
        struct regex *r = NULL;
        assert_int_equal(
            regex_create(tidings_str(sources[i / 2]), REGEX_BYTES, MAX_BYTES, &r, NULL), 0);
        struct regex_table *table = i % 2 ? regex_table_create(r) : NULL;
        uint64_t spent[2];
        for (size_t k = 0; k < 2; k++) {
            uint64_t steps = UINT64_MAX;
            size_t len = k ? LONG : SHORT;
            text[len - 1] = '-';
            assert_int_equal(regex_search(r, table, tidings_strn(text, len), &steps), REGEX_ABSENT);
            text[len - 1] = 'a';
            spent[k] = UINT64_MAX - steps;
            if (spent[k] > len * 200) {
                fail_msg("'%s' takes %llu steps for %zu bytes", sources[i / 2],
                         (unsigned long long)spent[k], len);
            }
        }
        assert_true(spent[1] <= spent[0] * (LONG / SHORT + 1));
        regex_table_destroy(table);
        regex_destroy(r);
    }
}

static void search_stops_if_its_steps_run_out(void **state)
{
    (void)state;
    struct regex *r = NULL;
    const struct tidings_str text = STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab");
    assert_int_equal(regex_create(STR("a+b$"), REGEX_BYTES, MAX_BYTES, &r, NULL), 0);
    struct regex_table *table = regex_table_create(r);
    for (int i = 0; i < 3; i++) {
        uint64_t steps = i == 0 ? 30 : 20;
        assert_int_equal(regex_search(r, i ? table : NULL, text, &steps), REGEX_OUT_OF_STEPS);
        assert_int_equal(steps, 0);
        steps = 0;
        assert_int_equal(regex_search(r, i ? table : NULL, text, &steps), REGEX_OUT_OF_STEPS);
        steps = 1000;
        assert_int_equal(regex_search(r, i ? table : NULL, text, &steps), REGEX_FOUND);
        assert_true(steps > 0 && steps < 1000);
    }
    regex_table_destroy(table);
    regex_destroy(r);
}

/* A table without space for another state gives the same result. */
static void full_table_gives_the_same_results(void **state)
{
    (void)state;
    struct regex *r = NULL;
    static char text[4096];
    assert_int_equal(regex_create(STR("a[ab]{12}c"), REGEX_BYTES, MAX_BYTES, &r, NULL), 0);
    struct regex_table *table = regex_table_create(r);
    assert_non_null(table);
    uint64_t random = 88172645463325252u;
    for (size_t i = 0; i < sizeof(text) - 14; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        text[i] = random & 64 ? 'a' : 'b';
    }
    memcpy(text + sizeof(text) - 14, "abbbbbbbbbbbbc", 14);
    for (int i = 0; i < 3; i++) {
        uint64_t steps = UINT64_MAX;
        assert_int_equal(regex_search(r, table, tidings_strn(text, sizeof(text) - 1), &steps),
                         REGEX_ABSENT);
        assert_int_equal(regex_search(r, table, tidings_strn(text, sizeof(text)), &steps),
                         REGEX_FOUND);
    }
    regex_table_destroy(table);
    regex_destroy(r);
}

static void failed_allocation_is_reported_without_leaks(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct regex *r = NULL;
        struct regex_table *table = NULL;
        struct tidings_error err = {0};
        enum regex_result result = REGEX_NOMEM;
        fail_alloc_start(n);
        int rc = regex_create(STR("a(b|c)d{2,3}(?=e)"), REGEX_BYTES, MAX_BYTES, &r, &err);
        uint64_t steps = 1000;
        if (rc == 0) {
            result = regex_search(r, NULL, STR("abdde"), &steps);
        }
        bool reached = fail_alloc_stop();
        assert_true(reached ? rc < 0 || result == REGEX_NOMEM : result == REGEX_FOUND);
        regex_table_destroy(table);
        regex_destroy(r);
        assert_int_equal(fail_alloc_live(), 0);
        if (!reached) {
            break;
        }
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_searches_give_expected_results),
        cmocka_unit_test(character_searches_give_expected_results),
        cmocka_unit_test(refusals_give_reason_and_place),
        cmocka_unit_test(steps_grow_linearly_with_the_text),
        cmocka_unit_test(search_stops_if_its_steps_run_out),
        cmocka_unit_test(full_table_gives_the_same_results),
        cmocka_unit_test(failed_allocation_is_reported_without_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
