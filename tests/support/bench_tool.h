/* SPDX-License-Identifier: MIT
 *
 * Tools for tests of the worker: registered at the hub as the server does it, with handlers that do
 * as they are told.
 */
#ifndef SUPPORT_BENCH_TOOL_H
#define SUPPORT_BENCH_TOOL_H

#include "handler/call.h"
#include "support/bench_client.h"
#include "support/bench_core.h"

struct bench_tool {
    const char *name;
    const char *input, *output; /* schemas; NULL: none */
    tidings_call_fn handler;
    void *user;
    uint64_t timeout_ms;
    bool is_blocking;
};

void bench_add_tool(struct bench *b, const struct bench_tool *tool);
void bench_remove_tool(struct bench *b, const char *name);
/* May fail. */
int bench_try_tool(struct bench *b, const struct bench_tool *tool);

/* Stops the bench, in which no call may be under way. */
void bench_stop_handled(struct bench *b);

/* A handler that keeps the call in *(struct tidings_call **)user and does nothing. */
void tool_hold(void *user, struct tidings_call *call);
/* A handler that answers with the text "hello". */
void tool_hello(void *user, struct tidings_call *call);

/* {"jsonrpc":…,"method":"tools/call",…} of the modern era with these members added to params and to
 * _meta (each NULL or "\"a\":1,\"b\":2"). */
void client_call(struct client *c, const char *id, const char *name, const char *params,
                 const char *meta);

#endif
