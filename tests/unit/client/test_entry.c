/* SPDX-License-Identifier: MIT
 *
 * Servers as host files describe them: the client applies an entry and reports its errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/client.h>

#include "base/str.h"

/* A legacy server: see test_launch.c. */
#define SCRIPT                                                                                     \
    "read -r line; echo '{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":2,\\\"error\\\":{"                \
    "\\\"code\\\":-32601,\\\"message\\\":\\\"x\\\"}}'\\n"                                          \
    "read -r line; echo '{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":3,\\\"result\\\":{"               \
    "\\\"protocolVersion\\\":\\\"2025-06-18\\\",\\\"capabilities\\\":{},\\\"serverInfo\\\":{"      \
    "\\\"name\\\":\\\"sh\\\",\\\"version\\\":\\\"1\\\"}}}'\\n"                                     \
    "read -r line; read -r line\\n"                                                                \
    "echo '{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\\\"result\\\":{\\\"is\\\":\\\"'"             \
    "$1 $OWN $GIVEN $KEPT in $PWD'\\\"}}'"

static void command_receives_arguments_variables_and_directory(void **state)
{
    static const char entry[] =
        "{\"type\":\"stdio\",\"command\":\"sh\",\"args\":[\"-c\",\"" SCRIPT
        "\",\"sh\",\"word\"],\"env\":{\"OWN\":\"a=b\",\"GIVEN\":\"its\"},\"cwd\":\"/\"}";
    struct tidings_error err = {0};
    (void)state;
    setenv("GIVEN", "ours", 1);
    setenv("KEPT", "kept", 1);
    struct tidings_client *c = tidings_client_create_entry(tidings_str(entry), NULL, &err);
    assert_non_null(c);
    char *text = tidings_client_request(c, "q", NULL, &err);
    assert_string_equal(text, "{\"is\":\"word a=b its kept in /\"}");
    tidings_free(text);
    tidings_client_destroy(c);
}

static void address_accepts_header_fields(void **state)
{
    struct tidings_error err = {0};
    (void)state;
    struct tidings_client *c = tidings_client_create_entry(
        TIDINGS_STR("{\"type\":\"http\",\"url\":\"http://127.0.0.1:9/mcp\","
                    "\"headers\":{\"X-Key\":\"1\"}}"),
        NULL, &err);
    assert_non_null(c);
    tidings_client_destroy(c);
}

static void invalid_entry_error_names_the_member(void **state)
{
    static const struct {
        const char *entry;
        int code;
        const char *says;
    } rows[] = {
        {"{", TIDINGS_E_PARSE, "line 1"},
        {"[]", TIDINGS_E_INVALID, "either 'url' or 'command'"},
        {"{}", TIDINGS_E_INVALID, "either 'url' or 'command'"},
        {"{\"url\":\"http://x\",\"command\":\"x\"}", TIDINGS_E_INVALID, "either"},
        {"{\"url\":7}", TIDINGS_E_INVALID, "'url' is not a string"},
        {"{\"command\":\"\"}", TIDINGS_E_INVALID, "'command' is not a string"},
        {"{\"command\":\"a\\u0000b\"}", TIDINGS_E_INVALID, "'command' is not a string"},
        {"{\"command\":\"x\",\"args\":\"y\"}", TIDINGS_E_INVALID, "'args' is not an array"},
        {"{\"command\":\"x\",\"args\":[1]}", TIDINGS_E_INVALID, "'args' has something else"},
        {"{\"command\":\"x\",\"env\":[]}", TIDINGS_E_INVALID, "'env' is not an object"},
        {"{\"command\":\"x\",\"env\":{\"A\":1}}", TIDINGS_E_INVALID, "'env' has an invalid name"},
        {"{\"command\":\"x\",\"env\":{\"A=B\":\"\"}}", TIDINGS_E_INVALID,
         "'env' has an invalid name"},
        {"{\"command\":\"x\",\"env\":{\"\":\"\"}}", TIDINGS_E_INVALID, "'env' has an invalid name"},
        {"{\"command\":\"x\",\"cwd\":1}", TIDINGS_E_INVALID, "'cwd' is not a path"},
        {"{\"url\":\"ftp://x\"}", TIDINGS_E_INVALID, ""},
        {"{\"url\":\"http://x\",\"headers\":{\"A\":\"b\\r\\nC: d\"}}", TIDINGS_E_INVALID, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_error err = {0};
        struct tidings_client *c =
            tidings_client_create_entry(tidings_str(rows[i].entry), NULL, &err);
        if (c || err.code != rows[i].code || !strstr(err.text, rows[i].says)) {
            fail_msg("%s: %d %s", rows[i].entry, err.code, err.text);
        }
    }
}

static void entry_rejects_too_many_values(void **state)
{
    struct tidings_error err = {0};
    struct buf text;
    (void)state;
    buf_init(&text, 8192);
    buf_puts(&text, STR("{\"command\":\"x\",\"args\":[\"\""));
    for (int i = 0; i < 256; i++) {
        buf_puts(&text, STR(",\"\""));
    }
    buf_puts(&text, STR("]}"));
    assert_int_equal(text.failed, 0);
    assert_null(tidings_client_create_entry(buf_str(&text), NULL, &err));
    assert_int_equal(err.code, TIDINGS_E_LIMIT);
    assert_non_null(strstr(err.text, "'args' has more than 256"));
    buf_deinit(&text);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(command_receives_arguments_variables_and_directory),
        cmocka_unit_test(address_accepts_header_fields),
        cmocka_unit_test(invalid_entry_error_names_the_member),
        cmocka_unit_test(entry_rejects_too_many_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
