/* SPDX-License-Identifier: MIT
 *
 * A call: a client's request that a function of the program answers. Tools (<tidings/tool.h>) and
 * prompts (<tidings/prompt.h>) use it.
 *
 *     static void add(void *user, struct tidings_call *call)
 *     {
 *         char text[64];
 *         struct tidings_error err;
 *         snprintf(text, sizeof(text), "%g", tidings_call_number(call, "a", 0) +
 *                                                tidings_call_number(call, "b", 0));
 *         tidings_call_done(call, tidings_call_text(call, tidings_str(text), &err), &err);
 *     }
 *
 * Finishing
 *   The program finishes each call exactly once, with tidings_call_done or tidings_call_refuse: in
 *   the handler or later, from any thread. The call and all its slices are invalid afterwards.
 *
 * Threads
 *   Handlers run on worker threads, several at once, and must not block. A handler that is
 *   registered as blocking runs on a thread pool instead. Only one thread at a time may use a call;
 *   a program may pass it from thread to thread.
 *
 * Deadlines and cancellation
 *   When the deadline passes (`--call-timeout`, or the tool's own), the client receives an error.
 *   If the client cancels or disconnects, it receives no answer. In both cases the call counts as
 *   cancelled: the library accepts and discards all later content, and the program must still
 *   finish the call. The call counts towards `--max-calls` until then.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_CALL_H
#define TIDINGS_CALL_H

#include <tidings/provider.h>
#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tidings_call;

/* Says whether calls of a tool are tasks (extension io.modelcontextprotocol/tasks of revision
 * 2026-07-28). For a task, the client gets a handle at once and requests the result later, over any
 * connection. It may answer questions, cancel, or subscribe to `tidings://tasks/ID`. The handler is
 * the same: all functions of this header work. */
enum tidings_task_support {
    TIDINGS_TASK_NEVER = 0,
    TIDINGS_TASK_OPTIONAL, /* a task if the client declares the extension, else an ordinary call */
    TIDINGS_TASK_REQUIRED, /* the server rejects other clients */
};

/* Answers the call, now or later. Called on a worker thread, several at once; must not block,
 * unless it is registered as blocking and runs on a thread pool. */
typedef void (*tidings_call_fn)(void *user, struct tidings_call *call);

/* ---- the request ----------------------------------------------------------------------------- */

/* Return the name of the called tool or prompt. */
TIDINGS_API struct tidings_str tidings_call_name(const struct tidings_call *call);
/* Return the client's own identifier for a call, for `origin` of changes. It comes from
 * `_meta["dev.tidings/origin"]` of the request, or is empty. If the program sets `origin` of the
 * changes that the call makes, the client can exclude its own changes (`echo: false`). Pass it
 * unmodified: the library appends the authenticated name, so that no client can hide changes from
 * others by imitating them. The slice is valid until the call is finished. */
TIDINGS_API struct tidings_str tidings_call_origin(const struct tidings_call *call);
/* Return the trace of a call, as `traceparent` of W3C Trace Context. It comes from `_meta` of the
 * request or from the HTTP header. It is empty if there is none or it is invalid. Use it for
 * requests that the handler makes, and for `traceparent` of its changes (struct tidings_change).
 * The library creates no span: the parent is the client's span. The slice is valid until the call
 * is finished. */
TIDINGS_API struct tidings_str tidings_call_traceparent(const struct tidings_call *call);
/* Return the `tracestate` of the trace of a call. Pass it on together with
 * tidings_call_traceparent. It is empty if there is none. The slice is valid until the call is
 * finished. */
TIDINGS_API struct tidings_str tidings_call_tracestate(const struct tidings_call *call);
/* Return the authenticated name of the caller, from its token, its certificate or the kernel. It is
 * empty without authentication, and for the program's own standard input. The slice is valid until
 * the call is finished. */
TIDINGS_API struct tidings_str tidings_call_principal(const struct tidings_call *call);
enum tidings_access {
    TIDINGS_ACCESS_LIST,
    TIDINGS_ACCESS_READ,
    TIDINGS_ACCESS_SUBSCRIBE,
    TIDINGS_ACCESS_WRITE,
};
/* Return true if the access rules allow the caller an operation on `uri`. Handlers that show or
 * change resources should check this. Without rules everything is allowed. Subscribing and writing
 * also require READ. The result is false if `uri` is not a URI. Thread-safe, until the call is
 * finished. */
TIDINGS_API bool tidings_call_may(const struct tidings_call *call, enum tidings_access what,
                                  struct tidings_str uri);
/* Return all arguments of a call as a JSON object, "{}" if there are none. They conform to the
 * tool's input schema. The slice is empty only if memory runs out. */
TIDINGS_API struct tidings_str tidings_call_arguments(struct tidings_call *call);

/* Return one argument of a call, or true if there is one. `name` is a member or, if it starts with
 * '/', a JSON pointer ("/filter/0/name"). If the argument is missing or has another type, the
 * result is the fallback or the empty slice. */
TIDINGS_API bool tidings_call_has(const struct tidings_call *call, const char *name);
TIDINGS_API struct tidings_str tidings_call_string(const struct tidings_call *call,
                                                   const char *name);
TIDINGS_API double tidings_call_number(const struct tidings_call *call, const char *name,
                                       double fallback);
TIDINGS_API int64_t tidings_call_integer(const struct tidings_call *call, const char *name,
                                         int64_t fallback);
TIDINGS_API bool tidings_call_boolean(const struct tidings_call *call, const char *name,
                                      bool fallback);
/* Return any argument of a call as JSON text. It is empty if the argument is missing, and valid
 * until the next tidings_call_json. */
TIDINGS_API struct tidings_str tidings_call_json(struct tidings_call *call, const char *name);

/* ---- the answer ------------------------------------------------------------------------------ */

/* Add a block of content to the answer of a call. Everything is copied. Images and sounds are
 * passed as raw bytes and sent as base64.
 *
 * TIDINGS_E_LIMIT: the answer exceeds `--max-read` bytes. */
TIDINGS_API int tidings_call_text(struct tidings_call *call, struct tidings_str text,
                                  struct tidings_error *err);
TIDINGS_API int tidings_call_image(struct tidings_call *call, struct tidings_str bytes,
                                   const char *mime_type, struct tidings_error *err);
TIDINGS_API int tidings_call_audio(struct tidings_call *call, struct tidings_str bytes,
                                   const char *mime_type, struct tidings_error *err);
/* Add a resource with its content to the answer of a call. `about` needs at least `uri` and `name`.
 * Content that is valid UTF-8 is sent as text. */
TIDINGS_API int tidings_call_resource(struct tidings_call *call,
                                      const struct tidings_resource *about,
                                      struct tidings_str content, struct tidings_error *err);
/* Add a link to a resource to the answer of a call. The client can read the resource. */
TIDINGS_API int tidings_call_link(struct tidings_call *call, const struct tidings_resource *about,
                                  struct tidings_error *err);
/* Add a block to the answer of a call as JSON text. Use this for blocks that the other functions
 * cannot express: {"type":"text","text":"…", "annotations":{…}}. Annotations of an embedded
 * resource are sent inside it. */
TIDINGS_API int tidings_call_block(struct tidings_call *call, struct tidings_str json,
                                   struct tidings_error *err);

/* Set the result of a tool as data, a JSON object. It must conform to the tool's output schema; the
 * library validates it when the call is finished. If the call has no other block, the library adds
 * the text of the object as one. A new call replaces the object. */
TIDINGS_API int tidings_call_structured(struct tidings_call *call, struct tidings_str json,
                                        struct tidings_error *err);
/* Mark the answer of a tool as the description of a failure (`isError`). The model reads it. */
TIDINGS_API void tidings_call_mark_error(struct tidings_call *call);

/* Set the author of the following blocks of a prompt: the assistant or, by default, the user. */
TIDINGS_API void tidings_call_set_assistant(struct tidings_call *call, bool is_assistant);

/* Finish a call with its content, or with a failure. With code 0, the client receives the added
 * content. On failure, `err` (may be NULL) explains the cause, and the added content is dropped. A
 * failed tool produces a result with `isError`, so that the model can react. A failed prompt
 * produces a protocol error. */
TIDINGS_API void tidings_call_done(struct tidings_call *call, int code,
                                   const struct tidings_error *err);
/* Finish a call with a protocol error. Use it for an invalid request; the model does not see it. */
TIDINGS_API void tidings_call_refuse(struct tidings_call *call, int code,
                                     const struct tidings_error *err);

/* ---- during the call ------------------------------------------------------------------------- */

/* Return true if a call is cancelled and no client waits for its answer. A long operation should
 * stop, and must still finish the call. */
TIDINGS_API bool tidings_call_cancelled(const struct tidings_call *call);
/* Set a function that is called once when a call is cancelled. It runs on the worker thread, or at
 * once if the call is already cancelled. It must not block, and may finish the call. It neither
 * starts nor is still running after the call is finished. Only the first function counts. */
TIDINGS_API void tidings_call_on_cancel(struct tidings_call *call, tidings_call_fn fn, void *user);

/* Make a call a task from here on: the client gets its handle now. This is for tools registered
 * with `begins_task`, whose handler decides whether the call takes long, or asks a question first.
 * From then on the task's time to live replaces `--call-timeout`, and only cancelling the task
 * cancels the call.
 *
 * Returns 0 if the call is now a task, or already was. TIDINGS_E_UNSUPPORTED: the client did not
 * declare support for tasks, or the tool was not registered with them; continue as before.
 * TIDINGS_E_LIMIT: there are too many tasks (`--max-tasks`, `--max-client-tasks`). */
TIDINGS_API int tidings_call_begin_task(struct tidings_call *call, struct tidings_error *err);
/* Return true if a call is a task. */
TIDINGS_API bool tidings_call_is_task(const struct tidings_call *call);

/* Report the progress of a call to clients that requested it. `progress` must increase with each
 * report; other reports are dropped. A `total` <= 0 means unknown, and `message` may be empty. The
 * library sends at most about 50 reports a second, and always the one that reaches `total`. For a
 * task, `message` becomes its status message, and nothing is sent. */
TIDINGS_API void tidings_call_progress(struct tidings_call *call, double progress, double total,
                                       struct tidings_str message);

/* Send a log message to the client of a call. The client receives only the levels that it requested
 * (revision 2026-07-28: none unless the request asks for it). `logger` may be NULL. Do not log
 * secrets. A client that does not read loses messages. */
TIDINGS_API void tidings_call_log(struct tidings_call *call, enum tidings_log_level level,
                                  const char *logger, struct tidings_str text);

/* ---- questions to the client ----------------------------------------------------------------- */

/* A handler may need input from the client: from its user ("elicitation/create"), a completion of
 * its model ("sampling/createMessage"), or its roots ("roots/list"). The handler asks, finishes
 * with tidings_call_done(call, 0, NULL), and runs again, with a new call, when the client has
 * answered. Only the bytes of tidings_call_keep survive in between. This works in every revision.
 * In 2026-07-28 the client receives `input_required` and repeats the call; earlier clients receive
 * requests while their call waits (`--ask-timeout`). A task has the status `input_required` until
 * all questions are answered. */

/* Return true if the client of a call supports a method. */
TIDINGS_API bool tidings_call_can_ask(const struct tidings_call *call, const char *method);
/* Ask the client of a call a question, under a name that the program chooses. `params` is a JSON
 * object. A call can ask at most 16 questions, each with a unique name.
 *
 * TIDINGS_E_UNSUPPORTED: the client did not declare support (for forms, URLs, sampling, sampling
 * with tools, or roots). Finish with this code to tell the client which capability is missing. */
TIDINGS_API int tidings_call_ask(struct tidings_call *call, const char *key, const char *method,
                                 struct tidings_str params, struct tidings_error *err);
/* Return the client's answer to tidings_call_ask, a JSON object. It is empty if there is no answer
 * under that name; then ask again. Up to revision 2025-11-25 answers are validated, and form values
 * conform to the `requestedSchema`. In 2026-07-28 the client can send anything. The slice is valid
 * until the next tidings_call_answer. */
TIDINGS_API struct tidings_str tidings_call_answer(struct tidings_call *call, const char *key);
/* Keep bytes until the client's answers arrive. At most 64 KiB. In revision 2026-07-28 the client
 * carries them, encrypted and authenticated. They are bound to the tool or prompt, its arguments
 * and the caller, and valid for ten minutes, until the server restarts. If nodes share a store,
 * they are valid on all nodes, even after a restart. In earlier revisions the bytes stay in the
 * server.
 *
 * TIDINGS_E_UNSUPPORTED: OpenSSL 3 is required but not installed. */
TIDINGS_API int tidings_call_keep(struct tidings_call *call, struct tidings_str state,
                                  struct tidings_error *err);
/* Return the bytes of tidings_call_keep. They are empty in the first round. */
TIDINGS_API struct tidings_str tidings_call_state(const struct tidings_call *call);

/* ---- hooks around tool calls ----------------------------------------------------------------- */

/* The outcome of a tool call. */
enum tidings_call_outcome {
    TIDINGS_CALL_OK = 0,
    TIDINGS_CALL_ERROR,   /* the result has `isError`, or the handler failed */
    TIDINGS_CALL_REFUSED, /* a protocol error: by the handler, a limit, or `begin` */
    TIDINGS_CALL_TIMEOUT, /* the deadline passed */
    TIDINGS_CALL_CANCELLED,
};

/* A finished call. */
struct tidings_call_report {
    struct tidings_str tool;
    struct tidings_str principal; /* as of tidings_call_principal */
    enum tidings_call_outcome outcome;
    uint64_t duration_us; /* since `begin`, including questions to the client */
    void *reserved[3];    /* zero */
};

/* Functions of the program that run around every tool call, including the server's own tools. Both
 * run on worker threads, several at once, and must not block. */
struct tidings_call_hooks {
    /* Runs before the handler, after the arguments were validated. Returns 0 to continue. With a
     * negative code and `err`, the handler does not run, and the client receives that error, as
     * from tidings_call_refuse. May call the functions of "the request"; must not finish the call.
     * NULL: all calls continue. */
    int (*begin)(void *user, struct tidings_call *call, struct tidings_error *err);
    /* Runs once for each call with a `begin`, when the client has its answer or will get none. A
     * handler may still be running. NULL: not called. */
    void (*end)(void *user, const struct tidings_call_report *report);
    void *user;        /* must live until the server is destroyed */
    void *reserved[2]; /* zero */
};

#ifdef __cplusplus
}
#endif

#endif
