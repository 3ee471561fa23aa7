/* SPDX-License-Identifier: MIT
 *
 * Entities in a server: whose the tools are, and who hears of a write.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/served.h"

static struct tidings_error err;
static struct ears ears;

static void no_call(void *user, struct tidings_call *call)
{
    (void)user;
    tidings_call_done(call, 0, NULL);
}

static void call(const char *tool, const char *arguments, const char *says)
{
    char head[512], body[1024];
    snprintf(head, sizeof(head),
             "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n"
             "Accept: application/json, text/event-stream\r\n"
             "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s",
             tool);
    snprintf(body, sizeof(body),
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
             "\"arguments\":{%s},\"_meta\":{"
             "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
             "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
             tool, arguments);
    const char *answer = served_http(head, body);
    if (!strstr(answer, says)) {
        fail_msg("%s does not say '%s'", answer, says);
    }
}

static void a_tool_of_the_program_is_neither_replaced_nor_withdrawn(void **state)
{
    (void)state;
    struct tidings_tool tool = {.name = tidings_str("transact")};
    served_set("entities", ":memory:");
    assert_int_equal(tidings_server_add_tool(served(), &tool, no_call, NULL, &err), 0);
    for (int i = 0; i < 2; i++) { /* nothing was left behind */
        assert_int_equal(tidings_server_run(served(), &err), TIDINGS_E_EXISTS);
        assert_non_null(strstr(err.text, "entities: "));
        assert_non_null(strstr(err.text, "'transact'"));
    }
    assert_int_equal(tidings_server_remove_tool(served(), tool.name, &err), 0);
    served_run();
    assert_non_null(strstr(served_modern("tools/list", ""), "\"transact\""));
}

static void a_file_that_cannot_be_is_said_at_the_start(void **state)
{
    (void)state;
    served_set("entities", "/nowhere/at/all.db");
    assert_true(tidings_server_run(served(), &err) < 0);
    assert_non_null(strstr(err.text, "/nowhere/at/all.db"));
    assert_non_null(strstr(err.text, "make it first"));
}

static void own_writes_can_be_left_out_and_others_carry_the_value(void **state)
{
    (void)state;
    ears_init(&ears);
    served_set("entities", ":memory:");
    served_run();
    call("add-entity-type", "\"name\":\"T\",\"version\":1,\"jsonSchema\":{\"type\":\"object\"}",
         "\"success\":true");
    call("upsert-entity", "\"uri\":\"/entity/T@1/a\",\"value\":{\"n\":0}", "\"changed\":true");
    assert_true(served_subscribe("/entity/T@1/a",
                                 "{\"origin\":\"me\",\"echo\":false,\"initial\":true}", &ears) > 0);
    struct told t = ears_await(&ears, 0);
    assert_true(t.initial);
    call("upsert-entity", "\"uri\":\"/entity/T@1/a\",\"value\":{\"n\":1},\"origin\":\"me\"",
         "\"changed\":true");
    call("upsert-entity", "\"uri\":\"entity:///T@1/a\",\"value\":{\"n\":2}", "\"changed\":true");
    t = ears_await(&ears, 1);
    assert_string_equal(t.uri, "entity:///T@1/a");
    assert_string_equal(t.subscribed, "/entity/T@1/a");
    assert_non_null(strstr(t.metadata, "\"entityTypeName\":\"T\""));
    assert_non_null(strstr(t.value, "\\\"n\\\": 2"));
}

int main(void)
{
#define WITH(name) cmocka_unit_test_setup_teardown(name, served_begin, served_end)
    const struct CMUnitTest tests[] = {
        WITH(a_tool_of_the_program_is_neither_replaced_nor_withdrawn),
        WITH(a_file_that_cannot_be_is_said_at_the_start),
        WITH(own_writes_can_be_left_out_and_others_carry_the_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
