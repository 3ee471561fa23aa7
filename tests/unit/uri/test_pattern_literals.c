/* SPDX-License-Identifier: MIT
 *
 * The literals a regex cannot do without, which are never too many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "uri/pattern_literals.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Runs as they were written, with a bar between them. */
static void the_literals_of_a_regex_are_those_it_cannot_do_without(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_literals_of_a_regex_are_those_it_cannot_do_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
