/* SPDX-License-Identifier: MIT
 *
 * Server errors become our codes, and contain their own code once.
 */
#include "client/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct tidings_error errors_of(const char *text)
{
    struct tidings_error err = {0};
    struct json *error = NULL;
    assert_int_equal(jv_parse(tidings_str(text), 16, &error, NULL), 0);
    int rc = errors_from_response(error, 0, &err);
    assert_int_equal(rc, err.code);
    jv_unref(error);
    return err;
}

static void error_code_appears_once(void **state)
{
    (void)state;
    static const struct {
        const char *error, *text;
    } cases[] = {
        {"{\"code\":-32603,\"message\":\"MCP error -32603: no way\"}", "no way (-32603)"},
        {"{\"code\":-32603,\"message\":\"MCP error -32603: MCP error -32603: x\"}", "x (-32603)"},
        {"{\"code\":-32603,\"message\":\"MCP error -32602: x\"}", "MCP error -32602: x (-32603)"},
        {"{\"code\":-32603,\"message\":\"MCP error -32603: \"}", "MCP error -32603:  (-32603)"},
        {"{\"code\":-1,\"message\":\"\"}", " (-1)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tidings_error err = errors_of(cases[i].error);
        assert_string_equal(err.text, cases[i].text);
    }
}

static void missing_resource_error_becomes_not_found(void **state)
{
    (void)state;
    static const struct {
        const char *error;
        int code;
    } cases[] = {
        {"{\"code\":-32002,\"message\":\"x\"}", TIDINGS_E_NOTFOUND},
        {"{\"code\":-32602,\"message\":\"Resource x not found\"}", TIDINGS_E_NOTFOUND},
        /* FastMCP: */
        {"{\"code\":-32601,\"message\":\"MCP error -32601: Resource not found: 'x'\"}",
         TIDINGS_E_NOTFOUND},
        {"{\"code\":-32601,\"message\":\"MCP error -32601: Unknown tool: x\"}", TIDINGS_E_NOTFOUND},
        {"{\"code\":-32601,\"message\":\"MCP error -32601: Unknown prompt: x\"}",
         TIDINGS_E_NOTFOUND},
        {"{\"code\":-32601,\"message\":\"Method not found\"}", TIDINGS_E_UNSUPPORTED},
        {"{\"code\":-32602,\"message\":\"wrong\"}", TIDINGS_E_INVALID},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(errors_of(cases[i].error).code, cases[i].code);
    }
}

static void rejection_body_is_appended_on_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *body, *text;
    } cases[] = {
        {"this Host is not served here\r\nmore\n", "no: this Host is not served here"},
        {"  a\tb\x1b[2J ", "no: a?b?[2J"},
        {"<html>Forbidden</html>", "no"},
        {"[1]", "no"},
        {"", "no"},
        {"\xff", "no"},
        {"{\"error\":\"denied\"}", "no: denied"},
        {"{\"error\":{\"message\":\"not you\"},\"title\":\"x\"}", "no: not you"},
        {"{\"error_description\":\"no scope\",\"error\":\"x\"}", "no: no scope"},
        {"{\"other\":1}", "no"},
        {"{not JSON", "no"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tidings_error err = {TIDINGS_E_DENIED, "no"};
        errors_add_body(tidings_str(cases[i].body), &err);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(err.code, TIDINGS_E_DENIED);
    }
}

static void long_body_is_cut_between_characters(void **state)
{
    (void)state;
    char body[400] = "";
    struct tidings_error err = {TIDINGS_E_DENIED, "no"};
    for (size_t i = 0; i + 3 < sizeof(body); i += 3) {
        memcpy(body + i, "\xe2\x82\xac", 4);
    }
    errors_add_body(tidings_str(body), &err);
    assert_int_equal(strlen(err.text), 4 + 159);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_code_appears_once),
        cmocka_unit_test(missing_resource_error_becomes_not_found),
        cmocka_unit_test(rejection_body_is_appended_on_one_line),
        cmocka_unit_test(long_body_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
