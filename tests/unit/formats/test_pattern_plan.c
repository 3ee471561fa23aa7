/* SPDX-License-Identifier: MIT
 *
 * Plans: the steps of each pattern, exact plans and refusals; and parts, which are segments with
 * wildcards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/pattern.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A step in letters, wildcards as digits: "run3(x:///) part(1.log)". */
static void put_step(struct buf *out, const struct plan_step *step)
{
    static const char *const names[] = {"run", "part", "loop", "end", "last", "all", "rest"};
    buf_putf(out, "%s%s", out->len ? " " : "", names[step->kind]);
    if (step->kind == PLAN_RUN || step->kind == PLAN_END) {
        buf_putu(out, step->segments);
    }
    buf_putc(out, '(');
    for (size_t i = 0; i < step->text.len; i++) {
        char c = step->text.ptr[i];
        buf_putc(out, segment_is_mark(c) ? (char)('0' + c) : c);
    }
    buf_putc(out, ')');
}

static void patterns_become_steps(void **state)
{
    (void)state;
    static const struct {
        enum pattern_kind kind;
        const char *pattern, *steps;
        bool exact;
    } rows[] = {
        {PATTERN_GLOB, "x:///a/*.log", "run4(x:///a/) last(1.log)", true},
        {PATTERN_GLOB, "x:///a", "end4(x:///a)", true},
        {PATTERN_GLOB, "x:///*/", "run3(x:///) part(1) end1()", true},
        {PATTERN_GLOB, "x:///**/b", "run3(x:///) loop() end1(b)", true},
        {PATTERN_GLOB, "x:///**/**/b", "run3(x:///) loop() end1(b)", true},
        {PATTERN_GLOB, "x:///a/**", "run4(x:///a/) all()", true},
        {PATTERN_GLOB, "x:///a/***", "run4(x:///a/) all()", true},
        {PATTERN_GLOB, "x:///ab**c/d", "run3(x:///) rest(ab)", false},
        {PATTERN_GLOB, "x:///a*b**c", "run3(x:///) rest(a)", false},
        {PATTERN_GLOB, "x:///a?/[a-c]", "run4(x:///a?/) last(5a-c6)", true},
        {PATTERN_GLOB_Q, "x:///a?/b*", "run3(x:///) part(a4) last(b1)", true},
        {PATTERN_GLOB, "urn:*", "last(urn:1)", true},
        {PATTERN_TEMPLATE, "x:///{a}/b", "run3(x:///) part(2) end1(b)", true},
        {PATTERN_TEMPLATE, "x:///{a}.{b}", "run3(x:///) last(2.2)", true},
        {PATTERN_TEMPLATE, "x:///{a,b}", "run3(x:///) last(2,2)", true},
        {PATTERN_TEMPLATE, "x:///f{/a,b}", "run4(x:///f/) part(2) last(2)", true},
        {PATTERN_TEMPLATE, "x:///f{.a,b}", "run3(x:///) last(f.2.2)", true},
        {PATTERN_TEMPLATE, "x:///f?q={q}", "run3(x:///) last(f?q=3)", true},
        {PATTERN_TEMPLATE, "x:///{a*}", "run3(x:///) last(2)", true},
        {PATTERN_TEMPLATE, "x:///{a}/{a}", "run3(x:///) part(2) last(2)", false},
        {PATTERN_TEMPLATE, "x:///{a:3}", "run3(x:///) last(2)", false},
        {PATTERN_TEMPLATE, "x:///{a.b}", "run3(x:///) last(2)", false},
        {PATTERN_TEMPLATE, "x:///f{/a*}", "run4(x:///f/) rest()", false},
        {PATTERN_TEMPLATE, "x:///f{/a.b*}", "run4(x:///f/) rest()", false},
        {PATTERN_TEMPLATE, "x:///f{?q}", "run3(x:///) rest(f)", false},
        {PATTERN_TEMPLATE, "x:///f{+p}/g", "run3(x:///) rest(f)", false},
        {PATTERN_TEMPLATE, "x:///a}b", "end4(x:///a}b)", false},
        {PATTERN_TEMPLATE, "x:///{,}", "run3(x:///) rest()", false},
        {PATTERN_TEMPLATE, "x:///{a", "run3(x:///) last(2)", false},
    };
    static struct pattern_plan plan;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tidings_str pattern = tidings_str(rows[i].pattern);
        int rc = rows[i].kind == PATTERN_TEMPLATE
                     ? plan_template(&plan, pattern, NULL)
                     : plan_glob(&plan, pattern, rows[i].kind == PATTERN_GLOB_Q, NULL);
        assert_int_equal(rc, 0);
        struct buf out;
        buf_init(&out, 1000);
        for (size_t k = 0; k < plan.count; k++) {
            put_step(&out, &plan.steps[k]);
        }
        if (strcmp(out.ptr, rows[i].steps) != 0 || plan.exact != rows[i].exact) {
            fail_msg("'%s': '%s' (%d), expected '%s'", rows[i].pattern, out.ptr, plan.exact,
                     rows[i].steps);
        }
        buf_deinit(&out);
    }
}

/* The largest valid patterns fit the plan. */
static void plan_holds_every_accepted_pattern(void **state)
{
    (void)state;
    static struct pattern_plan plan;
    static char text[URI_MAX];
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = "a/"[i % 2];
    }
    assert_int_equal(plan_glob(&plan, tidings_strn(text, sizeof(text)), false, NULL), 0);
    assert_int_equal(plan.count, URI_MAX / 2 / PLAN_MAX_RUN + 1);
    for (size_t i = 0; i < GLOB_MAX_WILDCARDS; i++) {
        text[i * 64] = '*';
    }
    assert_int_equal(plan_glob(&plan, tidings_strn(text, sizeof(text)), false, NULL), 0);
    assert_true(plan.count <= PLAN_MAX_STEPS);
    memset(text, ',', sizeof(text));
    text[0] = '{';
    assert_int_equal(plan_template(&plan, tidings_strn(text, sizeof(text)), NULL), 0);
    memset(text, 'a', sizeof(text));
    text[9] = '*';
    struct tidings_error err;
    assert_int_equal(plan_glob(&plan, tidings_strn(text, 2000), false, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "segment with wildcards of 2000 bytes, at most 1024"));
}

static void segments_have_their_literals(void **state)
{
    (void)state;
    static const struct {
        const char *part;
        size_t head, tail;
        const char *inner;
    } rows[] = {
        {"ab\1cde", 2, 3, ""},        {"\1", 0, 0, ""},
        {"\1abc\1ab\1", 0, 0, "abc"}, {"a\5x-z\6bcd\1e", 1, 1, "bcd"},
        {"\5abcdef\6g\2", 0, 0, "g"}, {"x\4y", 1, 1, ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tidings_str part = tidings_str(rows[i].part);
        assert_int_equal(segment_head(part), rows[i].head);
        assert_int_equal(segment_tail(part), rows[i].tail);
        assert_true(str_eq(segment_inner(part), tidings_str(rows[i].inner)));
    }
}

/* The definition of a part by brute force: letters, '*' as 1, values as 2, any as 4. */
static bool naive(const char *p, const char *t)
{
    if (!*p) {
        return !*t;
    }
    if (*p == SEGMENT_STAR) {
        return naive(p + 1, t) || (*t && naive(p, t + 1));
    }
    if (*p == SEGMENT_VALUE) {
        return *t && *t != '?' && (naive(p + 1, t + 1) || naive(p, t + 1));
    }
    return *t && (*p == SEGMENT_ANY || *p == *t) && naive(p + 1, t + 1);
}

static void random_segments_match_definition(void **state)
{
    (void)state;
    uint64_t random = 2463534242u;
    unsigned matched = 0;
    for (int i = 0; i < 60000; i++) {
        const char *messages = i % 2 ? "\1\1ab\1ba\4" : "\2\2ab?ba\2";
        char part[9] = {0}, text[9] = {0};
        for (size_t k = 0; k < 16; k++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if (k % 2) {
                text[k / 2] = "aab?"[random >> 40 & 3];
            } else {
                part[k / 2] = messages[random >> 40 & 7];
            }
        }
        part[(random >> 20) % 9] = '\0';
        text[(random >> 30) % 9] = '\0';
        bool expected = naive(part, text);
        matched += expected;
        if (segment_matches(tidings_str(part), tidings_str(text)) != expected) {
            fail_msg("part %d on '%s': expected %d", i, text, expected);
        }
    }
    assert_in_range(matched, 1000, 59000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_become_steps),
        cmocka_unit_test(plan_holds_every_accepted_pattern),
        cmocka_unit_test(segments_have_their_literals),
        cmocka_unit_test(random_segments_match_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
