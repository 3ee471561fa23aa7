/* SPDX-License-Identifier: MIT
 *
 * JSON-RPC envelopes: the kind of each message, and the member that a refusal names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/rpc.h"

#define V "{\"jsonrpc\":\"2.0\","

static struct json *parse(const char *text)
{
    struct json *v = NULL;
    assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &v, NULL), 0);
    return v;
}

static void valid_messages_are_classified(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum rpc_kind kind;
        const char *method;
        enum jv_type id; /* JV_NULL: none */
        bool params;
    } rows[] = {
        {V "\"id\":1,\"method\":\"ping\"}", RPC_REQUEST, "ping", JV_INT, false},
        {V "\"id\":\"a\",\"method\":\"x/y\",\"params\":{}}", RPC_REQUEST, "x/y", JV_STRING, true},
        {V "\"id\":\"\",\"method\":\"m\"}", RPC_REQUEST, "m", JV_STRING, false},
        {V "\"id\":-9223372036854775808,\"method\":\"m\"}", RPC_REQUEST, "m", JV_INT, false},
        {V "\"method\":\"n\",\"params\":{\"a\":1}}", RPC_NOTIFICATION, "n", JV_NULL, true},
        {V "\"method\":\"n\",\"extra\":[1]}", RPC_NOTIFICATION, "n", JV_NULL, false},
        {V "\"id\":1,\"result\":{}}", RPC_RESPONSE, "", JV_INT, false},
        {V "\"id\":1,\"result\":null}", RPC_RESPONSE, "", JV_INT, false},
        {V "\"id\":\"s\",\"error\":{\"code\":1,\"message\":\"m\"}}", RPC_RESPONSE, "", JV_STRING,
         false},
        {V "\"id\":null,\"error\":{\"code\":1}}", RPC_RESPONSE, "", JV_NULL, false},
        {V "\"error\":{\"code\":1}}", RPC_RESPONSE, "", JV_NULL, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json *v = parse(rows[i].text);
        struct rpc_message m;
        struct tidings_error err = {0};
        if (rpc_read(v, &m, &err) < 0) {
            fail_msg("%s: %s", rows[i].text, err.text);
        }
        assert_int_equal(m.kind, rows[i].kind);
        assert_true(str_eq(m.method, tidings_str(rows[i].method)));
        assert_int_equal(jv_type(m.id), rows[i].id);
        assert_int_equal(m.id != NULL, rows[i].id != JV_NULL);
        assert_int_equal(m.params != NULL, rows[i].params);
        assert_int_equal(err.code, 0);
        jv_unref(v);
    }
}

static void refusals_name_the_member_and_keep_a_valid_id(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
        bool id; /* true if the refusal can be answered */
    } rows[] = {
        {"[]", "a message must be a JSON object", false},
        {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}]", "a message must be a JSON object",
         false},
        {"1", "a message must be a JSON object", false},
        {"{}", "'jsonrpc' must be \"2.0\"", false},
        {"{\"id\":1,\"method\":\"m\"}", "'jsonrpc' must be \"2.0\"", true},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}", "'jsonrpc' must be \"2.0\"", true},
        {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"m\"}", "'jsonrpc' must be \"2.0\"", true},
        {"{\"jsonrpc\":\"2.0 \",\"method\":\"m\"}", "'jsonrpc' must be \"2.0\"", false},
        {"{\"jsonrpc\":\"2.0\\u0000\",\"method\":\"m\"}", "'jsonrpc' must be \"2.0\"", false},
        {V "\"id\":null,\"method\":\"m\"}", "'id' must be a string or an integer", false},
        {V "\"id\":1.5,\"method\":\"m\"}", "'id' must be a string or an integer", false},
        {V "\"id\":1.0,\"method\":\"m\"}", "'id' must be a string or an integer", false},
        {V "\"id\":{},\"method\":\"m\"}", "'id' must be a string or an integer", false},
        {V "\"id\":[1],\"method\":\"m\"}", "'id' must be a string or an integer", false},
        {V "\"id\":true,\"method\":\"m\"}", "'id' must be a string or an integer", false},
        {V "\"id\":1}", "'method' is missing", true},
        {V "\"x\":1}", "'method' is missing", false},
        {V "\"id\":1,\"method\":\"\"}", "'method' must be a string that is not empty", true},
        {V "\"id\":1,\"method\":7}", "'method' must be a string that is not empty", true},
        {V "\"id\":1,\"method\":null}", "'method' must be a string that is not empty", true},
        {V "\"id\":1,\"method\":\"m\",\"params\":[]}", "'params' must be an object", true},
        {V "\"id\":1,\"method\":\"m\",\"params\":null}", "'params' must be an object", true},
        {V "\"id\":1,\"method\":\"m\",\"params\":\"x\"}", "'params' must be an object", true},
        {V "\"id\":1,\"method\":\"m\",\"result\":1}",
         "a message with 'method' must not hold 'result' or 'error'", true},
        {V "\"id\":1,\"method\":\"m\",\"error\":{}}",
         "a message with 'method' must not hold 'result' or 'error'", true},
        {V "\"id\":1,\"result\":1,\"error\":{}}", "a response holds 'result' or 'error', not both",
         true},
        {V "\"id\":1,\"error\":\"x\"}", "'error' must be an object", true},
        {V "\"id\":1,\"error\":null}", "'error' must be an object", true},
        {V "\"result\":1}", "'id' is missing", false},
        {V "\"id\":null,\"result\":1}", "'id' must be a string or an integer", false},
        {V "\"id\":1.5,\"error\":{}}", "'id' must be a string or an integer", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json *v = parse(rows[i].text);
        struct rpc_message m;
        struct tidings_error err = {0};
        assert_int_equal(rpc_read(v, &m, &err), TIDINGS_E_PARSE);
        assert_string_equal(err.text, rows[i].sentence);
        assert_int_equal(m.id != NULL, rows[i].id);
        assert_int_equal(rpc_read(v, &m, NULL), TIDINGS_E_PARSE);
        jv_unref(v);
    }
}

static void ids_and_methods_have_a_maximum(void **state)
{
    (void)state;
    static const struct {
        size_t id, method;
        const char *sentence; /* NULL: accepted */
    } rows[] = {
        {RPC_MAX_ID, RPC_MAX_METHOD, NULL},
        {RPC_MAX_ID + 1, 1, "'id' must be at most 1024 bytes long"},
        {1, RPC_MAX_METHOD + 1, "'method' must be at most 256 bytes long"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b;
        buf_init(&b, 4096);
        buf_puts(&b, STR(V "\"id\":\""));
        for (size_t n = 0; n < rows[i].id; n++) {
            buf_putc(&b, 'i');
        }
        buf_puts(&b, STR("\",\"method\":\""));
        for (size_t n = 0; n < rows[i].method; n++) {
            buf_putc(&b, 'm');
        }
        buf_puts(&b, STR("\"}"));
        struct json *v = parse(b.ptr);
        struct rpc_message m;
        struct tidings_error err = {0};
        assert_int_equal(rpc_read(v, &m, &err), rows[i].sentence ? TIDINGS_E_PARSE : 0);
        assert_string_equal(err.text, rows[i].sentence ? rows[i].sentence : "");
        jv_unref(v);
        buf_deinit(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_messages_are_classified),
        cmocka_unit_test(refusals_name_the_member_and_keep_a_valid_id),
        cmocka_unit_test(ids_and_methods_have_a_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
