/* SPDX-License-Identifier: MIT
 *
 * Tools for tests of the worker: registered at the hub like in the server, with scripted handlers.
 */
#ifndef SUPPORT_HARNESS_TOOL_H
#define SUPPORT_HARNESS_TOOL_H

#include "engine/protocol/call.h"
#include "support/harness_client.h"
#include "support/harness_core.h"

struct harness_tool {
    const char *name;
    const char *input, *output; /* schemas; NULL: none */
    tidings_call_fn handler;
    void *user;
    uint64_t timeout_ms;
    bool is_blocking;
    enum tidings_task_support task;
    bool begins_task;
    uint64_t task_ttl_ms;
};

void harness_add_tool(struct harness *b, const struct harness_tool *tool);
void harness_remove_tool(struct harness *b, const char *name);
/* May fail. */
int harness_try_tool(struct harness *b, const struct harness_tool *tool);

/* Stops the bench, in which no call may be under way. */
void harness_stop_handled(struct harness *b);

/* A handler that keeps the call in *(struct tidings_call **)user and does nothing. */
void tool_hold(void *user, struct tidings_call *call);
/* A handler that answers with the text "hello". */
void tool_hello(void *user, struct tidings_call *call);

/* {"jsonrpc":…,"method":"tools/call",…} of the modern era with these members added to params and to
 * _meta (each NULL or "\"a\":1,\"b\":2"). */
void client_call(struct client *c, const char *id, const char *name, const char *params,
                 const char *meta);

#endif
