/* SPDX-License-Identifier: MIT
 *
 * Tools on the bench.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/harness_tool.h"

#include "base/str.h"

static struct json_schema *compile(const char *text)
{
    struct json *root = NULL;
    struct json_schema *schema = NULL;
    struct tidings_error err;
    if (!text) {
        return NULL;
    }
    assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &root, &err), 0);
    assert_int_equal(schema_compile(root, NULL, &schema, &err), 0);
    jv_unref(root);
    return schema;
}

int harness_try_tool(struct harness *b, const struct harness_tool *tool)
{
    char row[256];
    snprintf(row, sizeof(row), "{\"name\":\"%s\",\"inputSchema\":{\"type\":\"object\"}}",
             tool->name);
    struct feature *f = feature_create(FEATURE_TOOL, tidings_str(tool->name), tidings_str(row));
    if (!f) {
        return TIDINGS_E_NOMEM;
    }
    f->input = compile(tool->input);
    f->output = compile(tool->output);
    f->handler = tool->handler;
    f->user = tool->user;
    f->timeout_ms = tool->timeout_ms;
    f->is_blocking = tool->is_blocking;
    f->task = tool->task;
    f->begins_task = tool->begins_task;
    f->task_ttl_ms = tool->task_ttl_ms;
    return hub_add_feature(b->hub, f, NULL);
}

void harness_add_tool(struct harness *b, const struct harness_tool *tool)
{
    assert_int_equal(harness_try_tool(b, tool), 0);
}

void harness_remove_tool(struct harness *b, const char *name)
{
    assert_int_equal(hub_remove_feature(b->hub, FEATURE_TOOL, tidings_str(name), NULL), 0);
}

void harness_stop_handled(struct harness *b)
{
    harness_run_until_idle(b);
    assert_int_equal(b->worker[0]->jobs, 0);
    assert_true(list_empty(&b->worker[0]->handlers->calls));
    harness_stop(b);
}

void tool_hold(void *user, struct tidings_call *call)
{
    *(struct tidings_call **)user = call;
}

void tool_hello(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    tidings_call_done(call, tidings_call_text(call, STR("hello"), &err), &err);
}

void client_call(struct client *c, const char *id, const char *name, const char *params,
                 const char *meta)
{
    size_t size = 1024 + strlen(name) + (params ? strlen(params) : 0) + (meta ? strlen(meta) : 0);
    char *text = malloc(size);
    assert_non_null(text);
    snprintf(text, size,
             "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\""
             "%s%s,\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"%s%s%s}}}",
             id, name, params ? "," : "", params ? params : "",
             meta && strstr(meta, "clientCapabilities")
                 ? ""
                 : ",\"io.modelcontextprotocol/clientCapabilities\":{}",
             meta ? "," : "", meta ? meta : "");
    struct dialect_headers headers = {
        .protocol_version = STR("2026-07-28"),
        .method = STR("tools/call"),
        .name = tidings_str(name),
    };
    client_say(c, c->channel.ops->is_http ? &headers : NULL, text);
    free(text);
}
