/* SPDX-License-Identifier: MIT
 *
 * Calls a tool, and holds its result against what the server says of the tool. That is known from
 * lists of tools: of the program, or one that is asked for here. Where arguments may have to travel
 * as header fields the client lists before the first call; elsewhere when the first result with
 * structured content comes. It is forgotten with the connection and when the server says that its
 * tools changed; a result that breaks what was known is judged once more by a fresh list. So is a
 * call whose header fields the server refuses.
 */
#include "base/str.h"
#include <string.h>

#include <tidings/json.h>

#include "base/mem.h"
#include "client/ask.h"
#include "client/list.h"
#include "client/state.h"
#include "client/tool_headers.h"
#include "client/tool_schemas.h"

#define MAX_PAGES 100u /* of a list that is asked for here */

static int call_on_tool(void *user, struct json *tool)
{
    (void)list_takes_tool(user, tool);
    return 0;
}

/* All there are, as far as they go. */
static void call_list_tools(struct tidings_client *c)
{
    struct list_budget budget = {.left = MAX_PAGES};
    struct tidings_error err;
    tool_schemas_forget(c);
    tool_headers_forget(c);
    (void)list_all_tools(c, call_on_tool, c, &budget, &err);
    tool_schemas_complete(c);
    ask_forget_error(c);
}

/* Learn which header fields a call needs; TIDINGS_E_PARSE: the tool must not be called. */
static int call_prepare(struct tidings_client *c, struct tidings_str tool,
                        struct tidings_error *err)
{
    int rc = 0;
    if (tool.len == 0) { /* ask_tool refuses it, without a connection */
        return 0;
    }
    if (c->transport->ops->has_exchanges && !tool_schemas_is_complete(c)) {
        ask_forget_error(c);
        rc = tidings_client_connect(c, err); /* which era it is */
    }
    if (rc == 0 && tool_headers_matter(c) && !tool_schemas_is_complete(c)) {
        call_list_tools(c);
    }
    return rc < 0 ? rc : tool_headers_check(c, tool, err);
}

static int call_check(struct tidings_client *c, struct tidings_str tool, struct json *result,
                      struct tidings_error *err)
{
    struct json *content = jv_get(result, "structuredContent");
    bool is_fresh = content && !tool_schemas_is_complete(c);
    struct schema_error e = {.text = ""};
    if (jv_is_true(jv_get(result, "isError"))) {
        return 0;
    }
    if (is_fresh) {
        call_list_tools(c);
    }
    enum schema_verdict verdict = tool_schemas_judge(c, tool, content, &e);
    if (verdict == SCHEMA_NOT_VALID && !is_fresh) {
        call_list_tools(c);
        verdict = tool_schemas_judge(c, tool, content, &e);
    }
    if (verdict != SCHEMA_NOT_VALID) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_PARSE,
                        "the result of '%.*s' breaks its outputSchema: %s%s%s (schema: %s)",
                        STR_ARG_MAX(tool, 64), e.instance_path, e.instance_path[0] ? ": " : "",
                        e.text, e.schema_path[0] ? e.schema_path : "/");
}

/* Did the server miss header fields, or get wrong ones? What is known of the tool is old then. */
static bool call_lacked_fields(struct tidings_client *c)
{
    const char *error = tidings_client_last_error(c);
    char *code = error ? tidings_json_get(tidings_str(error), "/code") : NULL;
    bool is_it = code && strcmp(code, "-32020") == 0;
    mem_free(code);
    return is_it;
}

char *tidings_client_call(struct tidings_client *c, const char *tool, const char *arguments,
                          tidings_client_progress_fn on_progress, void *user,
                          struct tidings_error *err)
{
    struct tidings_str name = tidings_str(tool);
    if (client_check(c, err) < 0 || call_prepare(c, name, err) < 0) {
        return NULL;
    }
    struct json *result = ask_tool(c, tool, arguments, on_progress, user, err);
    if (!result && call_lacked_fields(c)) {
        call_list_tools(c);
        result = tool_headers_check(c, name, err) == 0
                     ? ask_tool(c, tool, arguments, on_progress, user, err)
                     : NULL;
    }
    if (result && call_check(c, tidings_str(tool), result, err) < 0) {
        jv_unref(result);
        result = NULL;
    }
    return ask_give_text(c, result, result, err);
}
