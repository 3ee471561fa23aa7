/* SPDX-License-Identifier: MIT
 *
 * Read options in untrusted requests.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/catalog/read_options.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct json *parse(const char *text)
{
    struct json *v = NULL;
    assert_int_equal(jv_parse(tidings_str(text), 16, &v, NULL), 0);
    return v;
}

static void ranges_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct tidings_range range;
    } rows[] = {
        {"{}", {TIDINGS_UNIT_BYTES, 0, -1, 0}},
        {"{\"from\":0,\"to\":0}", {TIDINGS_UNIT_BYTES, 0, 0, 0}},
        {"{\"unit\":\"bytes\",\"from\":7}", {TIDINGS_UNIT_BYTES, 7, -1, 0}},
        {"{\"unit\":\"lines\",\"to\":9}", {TIDINGS_UNIT_LINES, 0, 9, 0}},
        {"{\"unit\":\"lines\",\"last\":1}", {TIDINGS_UNIT_LINES, 0, -1, 1}},
        {"{\"from\":9223372036854775807}", {TIDINGS_UNIT_BYTES, INT64_MAX, -1, 0}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[200];
        snprintf(text, sizeof(text), "{\"dev.tidings/range\":%s,\"other\":1}", rows[i].text);
        struct json *meta = parse(text);
        struct read_options o;
        assert_int_equal(read_options_parse(&o, meta, NULL), 0);
        assert_true(o.has_range);
        assert_int_equal(o.range.unit, rows[i].range.unit);
        assert_int_equal(o.range.from, rows[i].range.from);
        assert_int_equal(o.range.to, rows[i].range.to);
        assert_int_equal(o.range.last, rows[i].range.last);
        jv_unref(meta);
    }
}

static void invalid_option_is_refused_with_accepted_values(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"{\"dev.tidings/range\":7}", "must be an object"},
        {"{\"dev.tidings/range\":{\"unit\":\"words\"}}", "\"bytes\" or \"lines\""},
        {"{\"dev.tidings/range\":{\"unit\":1}}", "\"bytes\" or \"lines\""},
        {"{\"dev.tidings/range\":{\"from\":-1}}", "'from'"},
        {"{\"dev.tidings/range\":{\"from\":1.5}}", "whole number"},
        {"{\"dev.tidings/range\":{\"to\":\"3\"}}", "'to'"},
        {"{\"dev.tidings/range\":{\"last\":0}}", "from 1 on"},
        {"{\"dev.tidings/range\":{\"last\":1,\"from\":0}}", "not both"},
        {"{\"dev.tidings/range\":{\"last\":1,\"to\":3}}", "not both"},
        {"{\"dev.tidings/range\":{\"from\":4,\"to\":3}}", "before it begins"},
        {"{\"dev.tidings/range\":{\"length\":3}}", "known are unit, from, to, last"},
        {"{\"dev.tidings/ifNoneMatch\":\"\"}", "'dev.tidings/ifNoneMatch'"},
        {"{\"dev.tidings/ifNoneMatch\":[]}", "1 to 128"},
        {"{\"dev.tidings/ifNoneMatch\":[\"a\",7]}", "string"},
        {"{\"dev.tidings/ifNoneMatch\":{}}", "string"},
        {"{\"dev.tidings/accept\":true}", "'dev.tidings/accept'"},
        {"{\"dev.tidings/accept\":\"html\"}", "media types"},
        {"{\"dev.tidings/accept\":[\"text/html\",\"/\"]}", "media types"},
        {"{\"dev.tidings/accept\":[\"a/1\",\"a/2\",\"a/3\",\"a/4\",\"a/5\",\"a/6\",\"a/7\","
         "\"a/8\",\"a/9\"]}",
         "1 to 8"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct json *meta = parse(rows[i].text);
        struct read_options o;
        struct tidings_error err = {0};
        assert_int_equal(read_options_parse(&o, meta, &err), TIDINGS_E_INVALID);
        if (!strstr(err.text, rows[i].part)) {
            fail_msg("%s: %s", rows[i].text, err.text);
        }
        jv_unref(meta);
    }
    char etag[258] = "", long_etag[400];
    memset(etag, 'x', sizeof(etag) - 1);
    snprintf(long_etag, sizeof(long_etag), "{\"dev.tidings/ifNoneMatch\":\"%s\"}", etag);
    struct json *meta = parse(long_etag);
    struct read_options o;
    assert_int_equal(read_options_parse(&o, meta, NULL), TIDINGS_E_INVALID);
    jv_unref(meta);
    assert_int_equal(read_options_parse(&o, NULL, NULL), 0);
    assert_false(o.has_range);
}

static void formats_are_ranked_without_case_and_parameters(void **state)
{
    (void)state;
    struct json *meta =
        parse("{\"dev.tidings/accept\":[\"text/HTML\",\"application/*\",\"*/*; q=0.1\"]}");
    struct read_options o;
    assert_int_equal(read_options_parse(&o, meta, NULL), 0);
    assert_int_equal(read_options_rank(&o, STR("text/html; charset=utf-8")), 0);
    assert_int_equal(read_options_rank(&o, STR("application/json")), 1);
    assert_int_equal(read_options_rank(&o, STR("image/png")), 2);
    assert_int_equal(read_options_rank(&o, STR("")), 2);
    jv_unref(meta);
    meta = parse("{\"dev.tidings/accept\":\"text/*\"}");
    assert_int_equal(read_options_parse(&o, meta, NULL), 0);
    assert_int_equal(read_options_rank(&o, STR("text/css")), 0);
    assert_int_equal(read_options_rank(&o, STR("textile/css")), 1);
    assert_int_equal(read_options_rank(&o, STR("text")), 1);
    assert_int_equal(read_options_rank(&o, STR("")), 1);
    jv_unref(meta);
}

static void weak_etag_never_matches(void **state)
{
    (void)state;
    struct json *meta = parse("{\"dev.tidings/ifNoneMatch\":[\"a\",\"W/b\"]}");
    struct read_options o;
    struct tidings_str own = STR_EMPTY;
    assert_int_equal(read_options_parse(&o, meta, NULL), 0);
    assert_true(read_options_holds(&o, STR("a"), &own));
    assert_true(str_eq(own, STR("a")));
    assert_false(read_options_holds(&o, STR("b"), NULL));
    assert_false(read_options_holds(&o, STR("W/b"), NULL));
    assert_false(read_options_holds(&o, STR(""), NULL));
    jv_unref(meta);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_read),
        cmocka_unit_test(invalid_option_is_refused_with_accepted_values),
        cmocka_unit_test(formats_are_ranked_without_case_and_parameters),
        cmocka_unit_test(weak_etag_never_matches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
