/* SPDX-License-Identifier: MIT
 *
 * The literals that every match of a regex contains, its literal prefix, and the limit on their
 * number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/pattern.h"
#include "formats/regex.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Literals as written, separated by bars. */
static void literals_are_those_that_every_match_contains(void **state)
{
    (void)state;
    static const struct {
        const char *source, *literals;
    } rows[] = {
        {"abc", "abc"},
        {"^x:///a/.*\\.log$", "x:///a/|.log"},
        {"ab?c", "a|c"},
        {"ab*c", "a|c"},
        {"ab+c", "ab|c"},
        {"ab+?c", "ab|c"},
        {"ab{2}c", "a|c"},
        {"ab{0,3}c", "a|c"},
        {"abc(d|e)fg", "abc|fg"},
        {"abc(d(e|f)g)?hi", "abc|hi"},
        {"abc[d]ef", "abc|ef"},
        {"abc[]d]ef", "abc|ef"},
        {"abc[^]d]ef", "abc|ef"},
        {"abc[[:alpha:]d]ef", "abc|ef"},
        {"abc[\\]d]ef", "abc|ef"},
        {"a\\.b\\/c", "a.b/c"},
        {"a\\d+b", "a|b"},
        {"(?:abc)+de", "de"},
        {"a(\\))b", "a|b"},
        {"a([)])b", "a|b"},
        {"ab|cd", ""},
        {"(?i)abc", ""},
        {"(?<n>a)bcd", ""},
        {"a(?i:b)c", ""},
        {"(*ACCEPT)abc", ""},
        {"abc(*ACCEPT)def", ""},
        {"\\Qab?\\E", ""},
        {"\\x41bc", ""},
        {"(a)\\1bc", ""},
        {"abc\\Kdef", ""},
        {"a{,2}bc", "bc"},
        {"ab{x}", ""},
        {"[[:x]a]bc", ""},
        {"", ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char out[2 * REGEX_MAX_BYTES + 1];
        size_t len = regex_literals(tidings_str(rows[i].source), out);
        for (size_t k = 0; k < len; k++) {
            out[k] = out[k] ? out[k] : '|';
        }
        out[len > 0 ? len - 1 : 0] = '\0';
        if (strcmp(out, rows[i].literals) != 0) {
            fail_msg("'%s': '%s', expected '%s'", rows[i].source, out, rows[i].literals);
        }
    }
}

static void prefix_is_the_start_of_every_match(void **state)
{
    (void)state;
    static const struct {
        const char *source, *prefix;
    } rows[] = {
        {"^x:///a/", "x:///a/"},
        {"^x:\\/\\/a\\.log$", "x://a.log"},
        {"^x:///a/.*z", "x:///a/"},
        {"^x:///a/(b|c)", "x:///a/"},
        {"^x:///[ab]", "x:///"},
        {"^x:///a?b", "x:///"},
        {"^x:///a*?b", "x:///"},
        {"^x:///a{0,1}b", "x:///"},
        {"^x:///a+b", "x:///a"},
        {"^x:///a$|b", ""},
        {"^x:///a|y:///b", ""},
        {"^(x|y)z", ""},
        {"^(?:x:///a)", ""},
        {"^x?y", ""},
        {"^x*", ""},
        {"^[x]y", ""},
        {"^.x", ""},
        {"^*x", ""},
        {"^?x", ""},
        {"^{0}x", ""},
        {"^^x", ""},
        {"^\\x78", ""},
        {"^x\\Qa|b\\E", ""},
        {"(?i)^x", ""},
        {"^x(?i)y", ""},
        {"x^y", ""},
        {"x:///a", ""},
        {"\\^x", ""},
        {"^", ""},
        {"^$", ""},
        {"", ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char out[2 * REGEX_MAX_BYTES];
        size_t len = regex_prefix(tidings_str(rows[i].source), out);
        if (!str_eq(tidings_strn(out, len), tidings_str(rows[i].prefix))) {
            fail_msg("'%s': '%.*s', expected '%s'", rows[i].source, (int)len, out, rows[i].prefix);
        }
    }
}

static void every_match_contains_the_prefix(void **state)
{
    (void)state;
    uint64_t random = 4711;
    size_t found = 0;
    for (unsigned round = 0; round < 200000; round++) {
        char source[12] = "^", text[6], out[2 * REGEX_MAX_BYTES];
        for (size_t k = 0; k < 10; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            source[1 + k] = "ab^$.|*+?()[]{}0,-\\ababababab"[(random >> 33) % 29];
            text[k % 5] = "ab"[random >> 50 & 1];
        }
        size_t length = 2 + (random >> 20) % 9;
        struct tidings_str all = tidings_strn(source, length), uri = tidings_strn(text, 5);
        size_t len = regex_prefix(all, out);
        struct regex *r = NULL;
        uint64_t steps = 1u << 20;
        if (len > 0 && regex_create(all, REGEX_BYTES, REGEX_MAX_BYTES, &r, NULL) == 0 &&
            regex_search(r, NULL, uri, &steps) == REGEX_FOUND) {
            found++;
            if (!str_starts(uri, tidings_strn(out, len))) {
                fail_msg("'%.*s' is found in '%.*s'", STR_ARG(all), STR_ARG(uri));
            }
        }
        regex_destroy(r);
    }
    assert_in_range(found, 50, 200000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_are_those_that_every_match_contains),
        cmocka_unit_test(prefix_is_the_start_of_every_match),
        cmocka_unit_test(every_match_contains_the_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
