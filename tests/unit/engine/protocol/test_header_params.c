/* SPDX-License-Identifier: MIT
 *
 * Arguments repeated in headers: schemas that may require them, and requests that comply.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/feature.h"

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    if (jv_parse(tidings_str(text), JSON_MAX_DEPTH, &root, &err) < 0) {
        fail_msg("%s: %s", err.text, text);
    }
    return root;
}

static int create(const char *text, struct header_params **m, struct tidings_error *err)
{
    struct json *schema = parse(text);
    *m = NULL;
    int rc = header_params_create(schema, m, err);
    jv_unref(schema);
    return rc;
}

static void invalid_schemas_are_refused_with_the_place(void **state)
{
    (void)state;
#define PROPERTY(p) "{\"type\":\"object\",\"properties\":{\"a\":" p "}}"
#define NAMED(n) PROPERTY("{\"type\":\"string\",\"x-mcp-header\":" n "}")
    static const struct {
        const char *schema, *says;
    } rows[] = {
        {NAMED("\"\""), "/a: "},
        {NAMED("7"), "/a: "},
        {NAMED("\"two words\""), "a header name"},
        {NAMED("\"a:b\""), "a header name"},
        {NAMED("\"\\u00e4\""), "a header name"},
        {PROPERTY("{\"type\":\"number\",\"x-mcp-header\":\"A\"}"), "string, integer or boolean"},
        {PROPERTY("{\"x-mcp-header\":\"A\"}"), "string, integer or boolean"},
        {PROPERTY("{\"type\":\"object\",\"x-mcp-header\":\"A\"}"), "string, integer or boolean"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"},"
         "\"b\":{\"type\":\"string\",\"x-mcp-header\":\"a\"}}}",
         "/b: x-mcp-header names a header that is taken"},
        {"{\"type\":\"object\",\"x-mcp-header\":\"A\"}", "chain of 'properties'"},
        {PROPERTY("{\"type\":\"array\",\"items\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}"),
         "chain of 'properties'"},
        {"{\"$defs\":{\"d\":{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}}"
         "}",
         "chain of 'properties'"},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}]}",
         "chain of 'properties'"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header_params *m = NULL;
        struct tidings_error err = {0};
        assert_int_equal(create(rows[i].schema, &m, &err), TIDINGS_E_INVALID);
        assert_null(m);
        if (!strstr(err.text, rows[i].says)) {
            fail_msg("'%s' does not say '%s'", err.text, rows[i].says);
        }
    }
}

static void schema_without_header_params_needs_no_header(void **state)
{
    (void)state;
    struct header_params *m = NULL;
    assert_int_equal(
        create("{\"type\":\"object\",\"default\":{\"x-mcp-header\":7},\"properties\":{\"a\":{}}}",
               &m, NULL),
        0);
    assert_null(m);
    assert_true(header_params_holds(NULL, NULL, NULL, NULL));
}

static void header_must_equal_the_argument(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        const char *header[3]; /* Region, Count, Deep; NULL: absent */
        bool holds;
    } rows[] = {
        {"{}", {NULL, NULL, NULL}, true},
        {"{\"r\":\"eu\"}", {"eu", NULL, NULL}, true},
        {"{\"r\":\"eu\"}", {"us", NULL, NULL}, false},
        {"{\"r\":\"eu\"}", {"EU", NULL, NULL}, false},
        {"{\"r\":\"eu\"}", {NULL, NULL, NULL}, false},
        {"{\"r\":null}", {NULL, NULL, NULL}, true},
        {"{}", {"eu", NULL, NULL}, false},
        {"{\"r\":\"Hello\"}", {"=?base64?SGVsbG8=?=", NULL, NULL}, true},
        {"{\"r\":\"Hello\"}", {"=?base64?SGVsbG8?=", NULL, NULL}, false},
        {"{\"r\":\"Hello\"}", {"=?base64?SGVs!!!bG8=?=", NULL, NULL}, false},
        {"{\"r\":\"SGVsbG8=\"}", {"SGVsbG8=", NULL, NULL}, true},
        {"{\"r\":\"=?base64?SGVsbG8=\"}", {"=?base64?SGVsbG8=", NULL, NULL}, true},
        {"{\"n\":42}", {NULL, "42", NULL}, true},
        {"{\"n\":42.0}", {NULL, "42", NULL}, true},
        {"{\"n\":42}", {NULL, "43", NULL}, false},
        {"{\"n\":42}", {NULL, "x", NULL}, false},
        {"{\"o\":{\"b/c\":true}}", {NULL, NULL, "true"}, true},
        {"{\"o\":{\"b/c\":true}}", {NULL, NULL, "false"}, false},
        {"{\"o\":{\"b/c\":false}}", {NULL, NULL, "false"}, true},
        {"{\"o\":{\"b/c\":\"x\"}}", {NULL, NULL, "x"}, true}, /* the schema judges types */
    };
    static const char *const names[] = {"Mcp-Param-Region", "mcp-param-count", "MCP-PARAM-DEEP"};
    struct header_params *m = NULL;
    assert_int_equal(
        create("{\"properties\":{\"r\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"},\"n\":{"
               "\"type\":\"integer\",\"x-mcp-header\":\"Count\"},\"o\":{\"properties\":{\"b/c\":{"
               "\"type\":\"boolean\",\"x-mcp-header\":\"Deep\"}}}}}",
               &m, NULL),
        0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http_request req;
        memset(&req, 0, sizeof(req));
        for (size_t k = 0; k < 3; k++) {
            if (rows[i].header[k]) {
                req.headers[req.header_count].name = tidings_str(names[k]);
                req.headers[req.header_count++].value = tidings_str(rows[i].header[k]);
            }
        }
        struct json *arguments = parse(rows[i].arguments);
        struct tidings_error err = {0};
        if (header_params_holds(m, arguments, &req, &err) != rows[i].holds) {
            fail_msg("row %zu: %s %s", i, rows[i].arguments, err.text);
        }
        jv_unref(arguments);
    }
    struct http_request twice;
    memset(&twice, 0, sizeof(twice));
    twice.header_count = 2;
    for (size_t k = 0; k < 2; k++) {
        twice.headers[k].name = tidings_str(names[0]);
        twice.headers[k].value = STR("eu");
    }
    struct json *arguments = parse("{\"r\":\"eu\"}");
    assert_false(header_params_holds(m, arguments, &twice, NULL));
    jv_unref(arguments);
    header_params_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_schemas_are_refused_with_the_place),
        cmocka_unit_test(schema_without_header_params_needs_no_header),
        cmocka_unit_test(header_must_equal_the_argument),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
