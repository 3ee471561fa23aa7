/* SPDX-License-Identifier: MIT
 *
 * Tool arguments that are also sent as header fields: tools that may declare them, and the encoding
 * of values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "client/tools.h"
#include "support/fake_transport.h"

static void modern(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    (void)fake_modern(f, method, id);
}

/* A client whose transport has header fields. */
static struct tidings_client *client_of(struct fake *f)
{
    static struct transport_ops ops;
    struct tidings_client *c = fake_client(f, modern, NULL, NULL);
    assert_int_equal(tidings_client_connect(c, NULL), 0);
    ops = *f->base.ops;
    ops.has_exchanges = true;
    f->base.ops = &ops;
    return c;
}

static int note(struct tidings_client *c, const char *schema, struct tidings_error *err)
{
    char text[2048];
    struct json *tool = NULL;
    snprintf(text, sizeof(text), "{\"name\":\"t\",\"inputSchema\":%s}", schema);
    assert_int_equal(json_parse_lenient(tidings_str(text), &tool, NULL, NULL), 0);
    int rc = tool_headers_note(c, tool, err);
    jv_unref(tool);
    return rc;
}

#define ARGUMENTS(properties) "{\"type\":\"object\",\"properties\":{" properties "}}"
#define STRING(name) "{\"type\":\"string\",\"x-mcp-header\":\"" name "\"}"

static void tools_with_invalid_header_declarations_are_omitted(void **state)
{
    static const struct {
        const char *schema, *why; /* NULL: nothing is wrong */
    } rows[] = {
        {ARGUMENTS("\"a\":" STRING("Region") ",\"b\":" STRING("Zone")), NULL},
        {ARGUMENTS("\"a\":{\"type\":\"object\",\"properties\":{\"b\":" STRING("Deep") "}}"), NULL},
        {ARGUMENTS("\"x-mcp-header\":{\"type\":\"string\"}"), NULL}, /* an argument of that name */
        {ARGUMENTS("\"a\":" STRING("")), "not a header field name"},
        {ARGUMENTS("\"a\":" STRING("My Region")), "not a header field name"},
        {ARGUMENTS("\"a\":" STRING("a:b")), "not a header field name"},
        {ARGUMENTS("\"a\":" STRING("R\xc3\xa9gion")), "not a header field name"},
        {ARGUMENTS("\"a\":" STRING("R\\r\\nEvil: x")), "not a header field name"},
        {ARGUMENTS("\"a\":" STRING("R\\u0000")), "not a header field name"},
        {ARGUMENTS("\"a\":{\"type\":\"string\",\"x-mcp-header\":7}"), "not a header field name"},
        {ARGUMENTS("\"a\":{\"type\":\"number\",\"x-mcp-header\":\"N\"}"), "other than a string"},
        {ARGUMENTS("\"a\":{\"type\":\"object\",\"x-mcp-header\":\"N\"}"), "other than a string"},
        {ARGUMENTS("\"a\":{\"x-mcp-header\":\"N\"}"), "other than a string"},
        {ARGUMENTS("\"a\":{\"type\":[\"string\"],\"x-mcp-header\":\"N\"}"), "other than a string"},
        {ARGUMENTS("\"a\":" STRING("Field") ",\"b\":" STRING("fIELD")), "duplicated"},
        {"{\"type\":\"string\",\"x-mcp-header\":\"N\"}", "not on an argument"},
        {ARGUMENTS("\"a\":{\"type\":\"array\",\"items\":" STRING("N") "}"), "not on an argument"},
        {"{\"$defs\":{\"a\":" STRING("N") "}}", "not on an argument"},
        {"{\"anyOf\":[" ARGUMENTS("\"a\":" STRING("N")) "]}", "not on an argument"},
    };
    struct fake f;
    (void)state;
    struct tidings_client *c = client_of(&f);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_error err = {0};
        assert_int_equal(note(c, rows[i].schema, &err), rows[i].why ? TIDINGS_E_PARSE : 0);
        assert_int_equal(tool_headers_check(c, STR("t"), NULL), rows[i].why ? TIDINGS_E_PARSE : 0);
        if (rows[i].why) {
            assert_non_null(strstr(err.text, rows[i].why));
        }
    }
    tool_headers_forget(c);
    assert_int_equal(tool_headers_check(c, STR("t"), NULL), 0);
    tidings_client_destroy(c);
}

static void values_are_encoded_for_header_fields(void **state)
{
    static const struct {
        const char *value, *line; /* "": none is sent */
    } rows[] = {
        {"\"us-west1\"", "Mcp-Param-P: us-west1\n"},
        {"\"us west 1\"", "Mcp-Param-P: us west 1\n"},
        {"\" x\"", "Mcp-Param-P: =?base64?IHg=?=\n"},
        {"\"x \"", "Mcp-Param-P: =?base64?eCA=?=\n"},
        {"\"\"", "Mcp-Param-P: =?base64??"
                 "=\n"},
        {"\"\\tx\"", "Mcp-Param-P: =?base64?CXg=?=\n"},
        {"\"a\\r\\nEvil: 1\"", "Mcp-Param-P: =?base64?YQ0KRXZpbDogMQ==?=\n"},
        {"\"\xe4\xb8\x96\"", "Mcp-Param-P: =?base64?5LiW?=\n"},
        {"\"=?base64?x?=\"", "Mcp-Param-P: =?base64?PT9iYXNlNjQ/eD89?=\n"},
        {"42", "Mcp-Param-P: 42\n"},
        {"-7", "Mcp-Param-P: -7\n"},
        {"42.0", "Mcp-Param-P: 42\n"},
        {"1.5", ""},
        {"9007199254740993", ""},
        {"1e300", ""},
        {"true", "Mcp-Param-P: true\n"},
        {"false", "Mcp-Param-P: false\n"},
        {"null", ""},
        {"{}", ""},
    };
    struct fake f;
    (void)state;
    struct tidings_client *c = client_of(&f);
    assert_int_equal(note(c, ARGUMENTS("\"a/b~\":{\"properties\":{\"c\":" STRING("P") "}}"), NULL),
                     0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256];
        struct json *arguments = NULL;
        struct buf out;
        buf_init(&out, 1024);
        snprintf(text, sizeof(text), "{\"a/b~\":{\"c\":%s},\"c\":\"other\"}", rows[i].value);
        assert_int_equal(jv_parse(tidings_str(text), 8, &arguments, NULL), 0);
        tool_headers_put(c, STR("t"), arguments, &out);
        assert_string_equal(out.len > 0 ? out.ptr : "", rows[i].line);
        buf_clear(&out);
        tool_headers_put(c, STR("another"), arguments, &out);
        tool_headers_put(c, STR("t"), NULL, &out);
        assert_int_equal(out.len, 0);
        buf_deinit(&out);
        jv_unref(arguments);
    }
    tidings_client_destroy(c);
}

/* Argument names are arbitrary strings: a name does not match another by its prefix. */
static void argument_names_with_nul_are_distinct(void **state)
{
    static const char text[] = "{\"a\":\"other\",\"a\\u0000b\":\"it\"}";
    struct json *arguments = NULL;
    struct fake f;
    struct buf out;
    (void)state;
    struct tidings_client *c = client_of(&f);
    assert_int_equal(note(c, ARGUMENTS("\"a\\u0000b\":" STRING("P")), NULL), 0);
    assert_int_equal(json_parse_lenient(tidings_str(text), &arguments, NULL, NULL), 0);
    buf_init(&out, 1024);
    tool_headers_put(c, STR("t"), arguments, &out);
    assert_string_equal(out.ptr, "Mcp-Param-P: it\n");
    buf_deinit(&out);
    jv_unref(arguments);
    tidings_client_destroy(c);
}

/* A transport without header fields accepts any declaration. */
static void other_transports_ignore_header_declarations(void **state)
{
    struct fake f;
    (void)state;
    struct tidings_client *c = fake_client(&f, modern, NULL, NULL);
    assert_int_equal(tidings_client_connect(c, NULL), 0);
    assert_int_equal(note(c, ARGUMENTS("\"a\":" STRING("")), NULL), 0);
    tidings_client_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tools_with_invalid_header_declarations_are_omitted),
        cmocka_unit_test(values_are_encoded_for_header_fields),
        cmocka_unit_test(argument_names_with_nul_are_distinct),
        cmocka_unit_test(other_transports_ignore_header_declarations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
