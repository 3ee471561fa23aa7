/* SPDX-License-Identifier: MIT
 *
 * Registers the tools `changes_since` and `wait_for_change`, with their descriptions and schemas.
 * The texts are read by models: what a tool does, what to give it, what to do with the answer, and
 * nothing else.
 */
#include "server/change_tools.h"

#include <tidings/tool.h>

#include "base/str.h"
#include "server/change_call.h"
#include "server/own_subscriptions_call.h"

#define TEXT_OF(x) #x
#define NUMBER(x) TEXT_OF(x)
#define LIMIT_MAX 1000
#define URIS_MAX 100
/* Its deadline proper is the caller's; this is for the case that a provider never answers. */
#define OWN_TIMEOUT_MS (CHANGE_WAIT_MAX_MS + 60000u)

#define URIS                                                                                       \
    "\"uris\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":" NUMBER(                            \
        URIS_MAX) ",\"uniqueItems\":true,\"items\":{\"type\":\"string\",\"minLength\":1},"         \
                  "\"description\":\"resources: file:///docs/a.md, everything below "              \
                  "file:///docs/, a pattern such as file:///logs/*.log or file:///logs/**, or "    \
                  "paths of files; everything when absent\"}"
#define CURSOR                                                                                     \
    "\"cursor\":{\"type\":\"string\",\"minLength\":1,\"description\":\"the cursor of the "         \
    "previous answer about the same uris; absent: begin now\"}"
#define LIMIT                                                                                      \
    "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":" NUMBER(                           \
        LIMIT_MAX) ",\"default\":100}"
#define CONTENT                                                                                    \
    "\"includeContent\":{\"type\":\"boolean\",\"description\":\"also return the current content "  \
    "of "                                                                                          \
    "small resources, as further blocks of the result\"}"
#define TIMEOUT                                                                                    \
    "\"timeoutMs\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":600000,\"default\":25000,"      \
    "\"description\":\"how long to wait\"}"
#define INPUT(properties)                                                                          \
    "{\"type\":\"object\",\"properties\":{" properties "},\"additionalProperties\":false}"

#define CHANGE                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"uri\":{\"type\":\"string\"},"                          \
    "\"change\":{\"enum\":[\"exists\",\"created\",\"updated\",\"deleted\",\"moved\"]},"            \
    "\"at\":{\"type\":\"string\",\"description\":\"when\"},\"etag\":{\"type\":\"string\"},"        \
    "\"from\":{\"type\":\"string\",\"description\":\"its URI before it was moved\"},"              \
    "\"metadata\":{\"type\":\"object\"},\"blocks\":{\"type\":\"array\",\"items\":{\"type\":"       \
    "\"integer\"},\"description\":\"which blocks of this result hold its content; this text is "   \
    "block 0\"}},"                                                                                 \
    "\"required\":[\"uri\",\"change\"]}"
#define ANSWER(more)                                                                               \
    "{\"type\":\"object\",\"properties\":{\"cursor\":{\"type\":\"string\",\"description\":"        \
    "\"give it to the next call\"},\"changes\":{\"type\":\"array\",\"items\":" CHANGE              \
    ",\"description\":\"the latest change of each resource, oldest first\"},"                      \
    "\"more\":{\"type\":\"boolean\",\"description\":\"there are more: call again with the "        \
    "cursor\"}," more "\"gap\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},"               \
    "\"description\":\"history does not reach back to the cursor for these: anything they cover "  \
    "may have changed, read it again\"},\"refused\":{\"type\":\"array\",\"items\":{\"type\":"      \
    "\"object\",\"properties\":{\"uri\":{\"type\":\"string\"},\"reason\":{\"type\":\"string\"}},"  \
    "\"required\":[\"uri\",\"reason\"]},\"description\":\"of the uris, those that cannot be "      \
    "watched\"},\"warnings\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"  \
    "\"uri\":{\"type\":\"string\"},\"reason\":{\"type\":\"string\"}},\"required\":[\"uri\","       \
    "\"reason\"]},\"description\":\"of the uris, those that match nothing the server has: "        \
    "waiting "                                                                                     \
    "for them is useless\"}},\"required\":[\"cursor\",\"changes\",\"more\"]}"

static const char since_input[] = INPUT(CURSOR "," URIS "," LIMIT "," CONTENT);
static const char since_output[] = ANSWER("");
static const char wait_input[] = INPUT(URIS "," CURSOR "," TIMEOUT "," LIMIT "," CONTENT);
static const char wait_output[] =
    ANSWER("\"timedOut\":{\"type\":\"boolean\",\"description\":\"nothing changed in that time\"},");

static const char own_input[] = INPUT(
    "\"cursor\":{\"type\":\"string\",\"minLength\":1,\"description\":\"nextCursor of the previous "
    "page\"}");
static const char own_output[] =
    "{\"type\":\"object\",\"properties\":{\"subscriptions\":{\"type\":\"array\",\"items\":{"
    "\"type\":"
    "\"object\",\"properties\":{\"uri\":{\"type\":\"string\"},\"state\":{\"enum\":[\"active\","
    "\"opening\",\"suspended\"]},\"cursor\":{\"type\":\"string\"},\"options\":{\"type\":"
    "\"object\"}},\"required\":[\"uri\",\"state\"]}},\"nextCursor\":{\"type\":\"string\","
    "\"description\":\"there are more: call again with it\"}},\"required\":[\"subscriptions\"]}";

static const char hints[] =
    "{\"readOnlyHint\":true,\"idempotentHint\":true,\"openWorldHint\":false}";

int change_tools_add(struct tidings_server *s, struct tidings_error *err)
{
    struct tidings_tool since = {
        .name = STR("changes_since"),
        .title = STR("What changed"),
        .description =
            STR("Lists the resources that changed since a cursor. The first time, call it without "
                "a cursor to get one; later, with the newest cursor, to learn what changed "
                "meanwhile. Returns at once."),
        .input_schema = tidings_str(since_input),
        .output_schema = tidings_str(since_output),
        .annotations = tidings_str(hints),
    };
    struct tidings_tool wait = {
        .name = STR("wait_for_change"),
        .title = STR("Wait for a change"),
        .description = STR(
            "Waits until one of the resources changes, and returns what changed. After timeoutMs "
            "it returns with timedOut: call it again. You can wait for a file that does not exist "
            "yet. Without a cursor it returns at once for a resource that already exists, with "
            "change 'exists' and its modification time in 'at'. If all uris are in 'warnings' it "
            "returns at once: do not repeat the call. Pass the cursor of the previous "
            "answer, so that you miss nothing between two calls."),
        .input_schema = tidings_str(wait_input),
        .output_schema = tidings_str(wait_output),
        .annotations = tidings_str(hints),
        .timeout_ms = OWN_TIMEOUT_MS,
    };
    struct tidings_tool own = {
        .name = STR("my_subscriptions"),
        .title = STR("What is subscribed to"),
        .description =
            STR("Lists what this client is subscribed to, with its options and whether it is "
                "still told of changes. Of a client that the server cannot tell from others it "
                "fails."),
        .input_schema = tidings_str(own_input),
        .output_schema = tidings_str(own_output),
        .annotations = tidings_str(hints),
    };
    const struct {
        const struct tidings_tool *about;
        tidings_call_fn fn;
    } tools[] = {
        {&since, change_call_since}, {&wait, change_call_wait}, {&own, own_subscriptions_call}};
    int rc = 0;
    size_t count = 0;
    while (rc == 0 && count < sizeof(tools) / sizeof(tools[0])) {
        rc = tidings_server_add_tool(s, tools[count].about, tools[count].fn, NULL, err);
        count += rc == 0;
    }
    while (rc < 0 && count > 0) { /* of that name may be one of the program's: ours go */
        (void)tidings_server_remove_tool(s, tools[--count].about->name, NULL);
    }
    return rc;
}

void change_tools_remove(struct tidings_server *s)
{
    (void)tidings_server_remove_tool(s, STR("changes_since"), NULL);
    (void)tidings_server_remove_tool(s, STR("wait_for_change"), NULL);
    (void)tidings_server_remove_tool(s, STR("my_subscriptions"), NULL);
}
