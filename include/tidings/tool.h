/* SPDX-License-Identifier: MIT
 *
 * Tools: functions of the program that a model may call.
 *
 *     struct tidings_tool about = {0};
 *     about.name = tidings_str("add");
 *     about.description = tidings_str("Adds two numbers");
 *     about.input_schema = tidings_str(schema); // <tidings/schema.h> makes one
 *     tidings_server_add_tool(server, &about, add, NULL, &err);
 *
 * Arguments are judged by the input schema before the handler is called: a handler never sees what
 * its schema forbids, and the model is told which rule was broken where. How a call is answered is
 * in <tidings/call.h>.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_TOOL_H
#define TIDINGS_TOOL_H

#include <tidings/call.h>
#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tidings_server;

/* What is said of a tool when it is offered: zeroed fields mean "none". Texts are copied. */
struct tidings_tool {
    struct tidings_str name; /* required: 1 to 128 of A-Z a-z 0-9 _ - . */
    struct tidings_str title;
    struct tidings_str description;
    struct tidings_str input_schema;  /* JSON Schema 2020-12 text with "type":"object"; none: any
                                         object is accepted */
    struct tidings_str output_schema; /* likewise, for tidings_call_structured; none: no checks */
    struct tidings_str annotations;   /* JSON object text: {"readOnlyHint":true,…} */
    struct tidings_str icons;         /* JSON array text */
    struct tidings_str meta;          /* JSON object text, sent as `_meta`; keys may not have a
                                         prefix reserved by the protocol */
    uint64_t timeout_ms;              /* 0: the server's --call-timeout */
    bool is_blocking;                 /* the handler may block: it runs on a pool of threads */
    bool begins_task;                 /* it is an ordinary call until the handler says
                                         tidings_call_begin_task */
    enum tidings_task_support task;
    uint64_t task_ttl_ms; /* for how long a task is kept, from its beginning; one that runs longer
                             fails. 0: the server's --task-ttl */
    void *reserved[3];    /* zero */
};

/* Offer a tool to clients. They are told that the list changed. `handler` answers calls of it
 * (<tidings/call.h>); `user` must live until the server is destroyed. Any thread, before or while
 * the server runs. TIDINGS_E_EXISTS when the name is taken; TIDINGS_E_INVALID (and others of the
 * schema compiler) with the place in a schema that is no good. */
TIDINGS_API int tidings_server_add_tool(struct tidings_server *server,
                                        const struct tidings_tool *about, tidings_call_fn handler,
                                        void *user, struct tidings_error *err);
/* Call these functions around every call of a tool. Copied. Before the server runs, once or again:
 * the last counts. `hooks` NULL: none. Any thread. TIDINGS_E_INVALID: it runs, or `reserved` is not
 * zero. Calls are counted without this: `tidings://self/tools` and `/metrics`. */
TIDINGS_API int tidings_server_set_call_hooks(struct tidings_server *server,
                                              const struct tidings_call_hooks *hooks,
                                              struct tidings_error *err);
/* Withdraw a tool by its name. Any thread. TIDINGS_E_NOTFOUND when there is none. Calls under way
 * finish normally, and a worker may still begin one while this returns: `user` must live until the
 * server is destroyed. */
TIDINGS_API int tidings_server_remove_tool(struct tidings_server *server, struct tidings_str name,
                                           struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
