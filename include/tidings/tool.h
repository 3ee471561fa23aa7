/* SPDX-License-Identifier: MIT
 *
 * Tools: functions of the program that a model can call.
 *
 *     struct tidings_tool about = {0};
 *     about.name = tidings_str("add");
 *     about.description = tidings_str("Adds two numbers");
 *     about.input_schema = tidings_str(schema); // <tidings/schema.h> makes one
 *     tidings_server_add_tool(server, &about, add, NULL, &err);
 *
 * The server validates arguments against the input schema before it calls the handler. If they are
 * invalid, the model receives the violated rule and its position. For answers to calls, see
 * <tidings/call.h>.
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

/* Describes a tool. Zeroed fields mean "none". Strings are copied. */
struct tidings_tool {
    struct tidings_str name; /* required: 1 to 128 of A-Z a-z 0-9 _ - . */
    struct tidings_str title;
    struct tidings_str description;
    struct tidings_str input_schema;  /* JSON Schema 2020-12 text with "type":"object"; none: any
                                         object is accepted */
    struct tidings_str output_schema; /* for tidings_call_structured; none: no validation */
    struct tidings_str annotations;   /* JSON object text: {"readOnlyHint":true,…} */
    struct tidings_str icons;         /* JSON array text */
    struct tidings_str meta;          /* JSON object text, sent as `_meta`; keys may not have a
                                         prefix reserved by the protocol */
    uint64_t timeout_ms;              /* 0: the server's --call-timeout */
    bool is_blocking;                 /* the handler may block, and runs on a thread pool */
    bool begins_task; /* an ordinary call until the handler calls tidings_call_begin_task */
    enum tidings_task_support task;
    uint64_t task_ttl_ms; /* lifetime of a task from its start; if it runs longer, it fails. 0: the
                             server's --task-ttl */
    void *reserved[3];    /* zero */
};

/* Add a tool that clients can list and call. The server notifies clients that the list changed.
 * `handler` answers calls (<tidings/call.h>); `user` must live until the server is destroyed.
 * Thread-safe, before and while the server runs.
 *
 * TIDINGS_E_EXISTS: the name is taken. TIDINGS_E_INVALID and others of the schema compiler: a
 * schema is invalid; `err` gives the position. */
TIDINGS_API int tidings_server_add_tool(struct tidings_server *server,
                                        const struct tidings_tool *about, tidings_call_fn handler,
                                        void *user, struct tidings_error *err);
/* Set functions that run around every tool call. `hooks` is copied. Call this before the server
 * runs; a new call replaces the functions, and NULL removes them. Thread-safe. For counts of calls
 * you do not need hooks: see `tidings://self/tools` and `/metrics`.
 *
 * TIDINGS_E_INVALID: the server runs, or `reserved` is not zero. */
TIDINGS_API int tidings_server_set_call_hooks(struct tidings_server *server,
                                              const struct tidings_call_hooks *hooks,
                                              struct tidings_error *err);
/* Remove a tool by its name. Running calls finish normally, and a worker may still start a call
 * during this function; `user` must live until the server is destroyed. Thread-safe.
 *
 * TIDINGS_E_NOTFOUND: there is no such tool. */
TIDINGS_API int tidings_server_remove_tool(struct tidings_server *server, struct tidings_str name,
                                           struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
