/* SPDX-License-Identifier: MIT
 *
 * RFC 6570 templates: valid and rejected templates with their messages, and expansion by every
 * operator with every modifier on every type of value. The published cases run in
 * test_template_official.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/uri.h"
#include "formats/uri_template.h"
#include "support/fail_alloc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define S(literal)                                                                                 \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

static const struct tidings_str colours[] = {S("blue"), S("deep red"), S("")};
static const struct tidings_str sizes[] = {S("w"), S("10"), S("h/2"), S("20"), S("e"), S("")};

static const struct template_variable variables[] = {
    {.name = S("name"), .type = TEMPLATE_STRING, .string = S("tide")},
    {.name = S("text"), .type = TEMPLATE_STRING, .string = S("50% off/now?")},
    {.name = S("word"), .type = TEMPLATE_STRING, .string = S("\xc3\xa9t\xc3\xa9 1")},
    {.name = S("done"), .type = TEMPLATE_STRING, .string = S("a%2Fb%zz")},
    {.name = S("none"), .type = TEMPLATE_STRING, .string = S("")},
    {.name = S("a.b_1"), .type = TEMPLATE_STRING, .string = S("dotted")},
    {.name = S("bytes"), .type = TEMPLATE_STRING, .string = S("\xff\x80\x00x")},
    {.name = S("list"), .type = TEMPLATE_LIST, .items = colours, .count = 3},
    {.name = S("keys"), .type = TEMPLATE_PAIRS, .items = sizes, .count = 3},
    {.name = S("nolist"), .type = TEMPLATE_LIST},
    {.name = S("nokeys"), .type = TEMPLATE_PAIRS},
    {.name = S("undef"), .type = TEMPLATE_UNDEFINED},
};

static struct uri_template *compile(const char *text)
{
    struct uri_template *t = NULL;
    struct tidings_error err = {0};
    if (template_create(tidings_str(text), &t, &err) < 0) {
        fail_msg("'%s': %s", text, err.text);
    }
    assert_int_equal(err.code, 0);
    return t;
}

static void every_operator_expands_every_type(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expansion;
    } rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"caf\xc3\xa9/%7e/'{name}'", "caf%C3%A9/%7e/'tide'"},
        /* plain */
        {"{name}", "tide"},
        {"{text}", "50%25%20off%2Fnow%3F"},
        {"{word}", "%C3%A9t%C3%A9%201"},
        {"{done}", "a%252Fb%25zz"},
        {"{bytes}", "%FF%80%00x"},
        {"{a.b_1}", "dotted"},
        {"[{none}]", "[]"},
        {"[{undef}]", "[]"},
        {"[{missing}]", "[]"},
        {"{name,none,undef,text:3}", "tide,,50%25"},
        {"{list}", "blue,deep%20red,"},
        {"{list*}", "blue,deep%20red,"},
        {"{keys}", "w,10,h%2F2,20,e,"},
        {"{keys*}", "w=10,h%2F2=20,e="},
        {"{nolist}{nokeys*}{nolist,name}", "tide"},
        {"{word:1}{word:2}{word:99}", "%C3%A9%C3%A9t%C3%A9t%C3%A9%201"},
        /* reserved */
        {"{+text}", "50%25%20off/now?"},
        {"{+done}", "a%2Fb%25zz"},
        {"{+done:2}", "a%2F"},
        {"{+word:1}", "%C3%A9"},
        {"{+name,text}", "tide,50%25%20off/now?"},
        {"{+list}", "blue,deep%20red,"},
        {"{+keys*}", "w=10,h/2=20,e="},
        {"{+undef,nolist}", ""},
        /* fragment */
        {"{#name,text:2}", "#tide,50"},
        {"{#keys}", "#w,10,h/2,20,e,"},
        {"{#none}", "#"},
        {"{#undef}", ""},
        /* label */
        {"x{.name,a.b_1}", "x.tide.dotted"},
        {"x{.list}", "x.blue,deep%20red,"},
        {"x{.list*}", "x.blue.deep%20red."},
        {"x{.keys*}", "x.w=10.h%2F2=20.e="},
        {"x{.none}", "x."},
        {"x{.undef}{.nokeys}", "x"},
        /* path */
        {"{/name,undef,a.b_1}", "/tide/dotted"},
        {"{/list*}", "/blue/deep%20red/"},
        {"{/keys*}", "/w=10/h%2F2=20/e="},
        {"{/text:4}", "/50%25%20"},
        {"{/list,name}", "/blue,deep%20red,/tide"},
        /* parameters */
        {"{;name,none,undef}", ";name=tide;none"},
        {"{;list}", ";list=blue,deep%20red,"},
        {"{;list*}", ";list=blue;list=deep%20red;list"},
        {"{;keys}", ";keys=w,10,h%2F2,20,e,"},
        {"{;keys*}", ";w=10;h%2F2=20;e"},
        {"{;word:1}", ";word=%C3%A9"},
        /* query */
        {"{?name,none,undef}", "?name=tide&none="},
        {"{?list}", "?list=blue,deep%20red,"},
        {"{?list*}", "?list=blue&list=deep%20red&list="},
        {"{?keys*}", "?w=10&h%2F2=20&e="},
        {"{?undef,nolist*}", ""},
        {"?fixed=1{&name,none}", "?fixed=1&name=tide&none="},
        {"{&keys}", "&keys=w,10,h%2F2,20,e,"},
        {"{&name:2}", "&name=ti"},
        {"{?name}{&name*}", "?name=tide&name=tide"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct uri_template *t = compile(rows[i].text);
        struct tidings_error err = {0};
        struct buf out;
        buf_init(&out, 4096);
        int rc = template_expand(t, variables, COUNT(variables), &out, &err);
        if (rc < 0 || !str_eq(buf_str(&out), tidings_str(rows[i].expansion))) {
            fail_msg("'%s': '%.*s' %s, expected '%s'", rows[i].text, STR_ARG(buf_str(&out)),
                     err.text, rows[i].expansion);
        }
        buf_deinit(&out);
        template_destroy(t);
    }
}

static void failed_expansion_leaves_the_buffer_unchanged(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    struct buf out;
    buf_init(&out, 8);
    buf_puts(&out, STR("kept"));
    struct uri_template *t = compile("a{list:3}");
    assert_int_equal(template_expand(t, variables, COUNT(variables), &out, &err),
                     TIDINGS_E_INVALID);
    assert_string_equal(err.text, "variable 'list' is not a string and has no prefix of 3");
    template_destroy(t);
    t = compile("a{keys:3}");
    assert_int_equal(template_expand(t, variables, COUNT(variables), &out, NULL),
                     TIDINGS_E_INVALID);
    assert_true(str_eq(buf_str(&out), STR("kept")));
    template_destroy(t);
    t = compile("a{text}");
    assert_int_equal(template_expand(t, variables, COUNT(variables), &out, &err), TIDINGS_E_LIMIT);
    assert_true(str_eq(buf_str(&out), STR("kept")));
    template_destroy(t);
    buf_deinit(&out);
}

static void malformed_templates_are_rejected_with_place_and_reason(void **state)
{
    (void)state;
    static const struct {
        struct tidings_str text;
        const char *sentence;
    } rows[] = {
        {S("a{b"), "template 'a{b' refused: '{' that is never closed at byte 2"},
        {S("a}"), "'}' without '{' at byte 2"},
        {S("{}"), "missing or malformed variable name at byte 2"},
        {S("{a,}"), "missing or malformed variable name at byte 4"},
        {S("{,a}"), "operator that RFC 6570 reserves at byte 2"},
        {S("{=a}"), "operator that RFC 6570 reserves at byte 2"},
        {S("{!a}"), "operator that RFC 6570 reserves"},
        {S("{@a}"), "operator that RFC 6570 reserves"},
        {S("{|a}"), "operator that RFC 6570 reserves"},
        {S("{a b}"), "character not allowed in an expression at byte 3"},
        {S("{a-b}"), "character not allowed in an expression at byte 3"},
        {S("{+/a}"), "missing or malformed variable name at byte 3"},
        {S("{.a.}"), "missing or malformed variable name at byte 5"},
        {S("{a..b}"), "missing or malformed variable name at byte 4"},
        {S("{%4x}"), "missing or malformed variable name at byte 2"},
        {S("{a:}"), "prefix length that is not 1 to 9999 at byte 4"},
        {S("{a:0}"), "prefix length that is not 1 to 9999"},
        {S("{a:01}"), "prefix length that is not 1 to 9999"},
        {S("{a:10000}"), "character not allowed in an expression at byte 8"},
        {S("{a:2*}"), "character not allowed in an expression at byte 5"},
        {S("{a*:2}"), "character not allowed in an expression at byte 4"},
        {S("{a{b}}"), "character not allowed in an expression at byte 3"},
        {S("a b"), "character that must be percent-encoded at byte 2"},
        {S("a\"b"), "character that must be percent-encoded at byte 2"},
        {S("a\\b"), "character that must be percent-encoded at byte 2"},
        {S("a\0b"), "character that must be percent-encoded at byte 2"},
        {S("a%4"), "'%' not followed by two hexadecimal digits at byte 2"},
        {S("\xff"), "UTF-8 of at most 4096 bytes accepted"},
        {S("{a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p}{q}"), "more than 16 variables at byte 35"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct uri_template *t = NULL;
        struct tidings_error err = {0};
        int rc = template_create(rows[i].text, &t, &err);
        if (rc != TIDINGS_E_INVALID || !strstr(err.text, rows[i].sentence)) {
            fail_msg("'%.*s': %d '%s', expected '%s'", STR_ARG(rows[i].text), rc, err.text,
                     rows[i].sentence);
        }
        assert_null(t);
    }
    static char text[URI_MAX + 1];
    memset(text, 'a', sizeof(text));
    struct uri_template *t = NULL;
    assert_int_equal(template_create(tidings_strn(text, sizeof(text)), &t, NULL),
                     TIDINGS_E_INVALID);
    assert_int_equal(template_create(tidings_strn(text, URI_MAX), &t, NULL), 0);
    template_destroy(t);
    template_destroy(NULL);
}

static void template_lists_its_text_and_variables(void **state)
{
    (void)state;
    struct uri_template *t = compile("X:///{b,a}/{b:3}{?c.d*}");
    assert_true(str_eq(template_text(t), STR("X:///{b,a}/{b:3}{?c.d*}")));
    assert_int_equal(template_variable_count(t), 3);
    assert_true(str_eq(template_variable(t, 0), STR("b")));
    assert_true(str_eq(template_variable(t, 1), STR("a")));
    assert_true(str_eq(template_variable(t, 2), STR("c.d")));
    assert_int_equal(template_variable(t, 3).len, 0);
    template_destroy(t);
    t = compile("{a,b,c,d,e,f,g,h}x{i}x{j}x{k}x{l}x{#m}x{#n}x{#o}x{#p}");
    assert_int_equal(template_variable_count(t), TEMPLATE_MAX_VARIABLES);
    template_destroy(t);
}

static void template_reports_any_failed_allocation(void **state)
{
    (void)state;
    static const char *const texts[] = {"x:///{a}/b{?c}", "{+a}/\xc3\xa9", "/../{a}"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        for (long n = 1;; n++) {
            struct uri_template *t = NULL;
            struct tidings_error err = {0};
            fail_alloc_start(n);
            int rc = template_create(tidings_str(texts[i]), &t, &err);
            bool reached = fail_alloc_stop();
            assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
            template_destroy(t);
            assert_int_equal(fail_alloc_live(), 0);
            if (!reached) {
                break;
            }
        }
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_expands_every_type),
        cmocka_unit_test(failed_expansion_leaves_the_buffer_unchanged),
        cmocka_unit_test(malformed_templates_are_rejected_with_place_and_reason),
        cmocka_unit_test(template_lists_its_text_and_variables),
        cmocka_unit_test(template_reports_any_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
