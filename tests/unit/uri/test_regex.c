/* SPDX-License-Identifier: MIT
 *
 * Regexes: found or not, before and after the translation to machine code; bounds; and the literals
 * that must be there, which are never too many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/fail_alloc.h"
#include "uri/pattern_literals.h"
#include "uri/regex.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void a_search_says_the_same_however_often_it_is_asked(void **state)
{
    (void)state;
    static const struct {
        const char *source, *text;
        enum regex_result result;
    } rows[] = {
        {"error", "an error", REGEX_FOUND},
        {"^error", "an error", REGEX_ABSENT},
        {"a.c$", "xabc", REGEX_FOUND},
        {"", "", REGEX_FOUND},
        {"(a)(b)(c)", "abc", REGEX_FOUND},
        {"\\xE9", "\xe9", REGEX_FOUND},
        {"^.$", "\xc3\xa9", REGEX_ABSENT}, /* bytes, not characters */
        {"(a|aa|a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-", REGEX_GAVE_UP},
    };
    struct regex_engine *engine;
    assert_int_equal(regex_engine_create(&engine, NULL), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct regex r;
        assert_int_equal(regex_init(&r, engine, tidings_str(rows[i].source), NULL), 0);
        assert_true(regex_bytes(&r) > 0);
        for (int times = 0; times < 6; times++) {
            if (regex_search(&r, engine, tidings_str(rows[i].text)) != rows[i].result) {
                fail_msg("'%s' on '%s', time %d", rows[i].source, rows[i].text, times);
            }
        }
        assert_true(r.is_settled);
        regex_deinit(&r);
    }
    regex_engine_destroy(engine);
}

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

static void a_failed_allocation_is_reported_and_leaves_nothing(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct regex_engine *engine = NULL;
        struct regex r;
        struct tidings_error err = {0};
        fail_alloc_start(n);
        int rc = regex_engine_create(&engine, &err);
        bool made = rc == 0;
        if (made) {
            rc = regex_init(&r, engine, STR("a(b|c)d{2,3}"), &err);
        }
        bool reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        assert_int_equal(err.code, rc);
        if (rc == 0) {
            regex_deinit(&r);
        }
        if (made) {
            regex_engine_destroy(engine);
        }
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
        cmocka_unit_test(a_search_says_the_same_however_often_it_is_asked),
        cmocka_unit_test(the_literals_of_a_regex_are_those_it_cannot_do_without),
        cmocka_unit_test(a_failed_allocation_is_reported_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
