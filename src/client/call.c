/* SPDX-License-Identifier: MIT
 *
 * Calls a tool, and holds its result against what the server says of the tool. That is known from
 * lists of tools: of the program, or one that is asked for when the first result with structured
 * content comes. It is forgotten with the connection and when the server says that its tools
 * changed; a result that breaks what was known is judged once more by a fresh list.
 */
#include "base/str.h"
#include "client/ask.h"
#include "client/list.h"
#include "client/tool_schemas.h"

#define MAX_PAGES 100u /* of a list that is asked for here */

static int call_on_tool(void *user, struct json *tool)
{
    tool_schemas_note(user, tool);
    return 0;
}

/* All there are, as far as they go. */
static void call_list_tools(struct tidings_client *c)
{
    struct list_budget budget = {.left = MAX_PAGES};
    struct tidings_error err;
    tool_schemas_forget(c);
    (void)list_all_tools(c, call_on_tool, c, &budget, &err);
    tool_schemas_complete(c);
    ask_forget_error(c);
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

char *tidings_client_call(struct tidings_client *c, const char *tool, const char *arguments,
                          tidings_client_progress_fn on_progress, void *user,
                          struct tidings_error *err)
{
    struct json *result = ask_tool(c, tool, arguments, on_progress, user, err);
    if (result && call_check(c, tidings_str(tool), result, err) < 0) {
        jv_unref(result);
        result = NULL;
    }
    return ask_give_text(c, result, result, err);
}
