/* SPDX-License-Identifier: MIT
 *
 * A call: one request of a client that a function of yours answers. Tools (<tidings/tool.h>) and
 * prompts (<tidings/prompt.h>) are handled with it.
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
 *   Each call is finished exactly once with tidings_call_done or tidings_call_refuse: inside the
 *   handler or later, from any thread. The call, and every slice it handed out, is valid until
 *   then and not a moment longer.
 *
 * Threads
 *   A handler is called on a worker's thread and must not block, several at once (unless it was
 *   registered as blocking: then on a pool of threads). One call is used by one thread at a time;
 *   handing it from thread to thread is fine.
 *
 * Deadlines and cancellation
 *   When the deadline passes (`--call-timeout`, or the tool's own) the client gets an answer that
 *   says so; when it cancels, or goes away, it gets none. Either way the call counts as cancelled
 *   from then on: what is still added or finished is accepted and thrown away. It counts towards
 *   `--max-calls` until it is finished.
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

/* Whether calls of a tool are tasks (extension io.modelcontextprotocol/tasks of revision
 * 2026-07-28): the client gets a handle at once and asks for the result later, over whichever
 * connection; it may answer questions, cancel, or subscribe to `tidings://tasks/ID`. The handler is
 * the same: everything here works. */
enum tidings_task_support {
    TIDINGS_TASK_NEVER = 0,
    TIDINGS_TASK_OPTIONAL, /* of clients that declare the extension; of others an ordinary call */
    TIDINGS_TASK_REQUIRED, /* other clients are refused */
};

/* Answer the call, inside the function or later. Called on a worker's thread, several at once, and
 * must not block (unless it was registered as blocking: then on a pool of threads). */
typedef void (*tidings_call_fn)(void *user, struct tidings_call *call);

/* ---- what is asked --------------------------------------------------------------------------- */

/* Return the name of the tool or prompt that is called. */
TIDINGS_API struct tidings_str tidings_call_name(const struct tidings_call *call);
/* Return what the client of a call says it is, for `origin` of changes. It is
 * `_meta["dev.tidings/origin"]` of the request; empty: nothing. Put into `origin` of the changes
 * that the call makes it lets the client leave out its own (`echo: false`). To be passed on as it
 * is: behind what the client wrote it holds who it proved to be, so that nobody can make others
 * miss a change by calling itself as they do. Valid until the call is done. */
TIDINGS_API struct tidings_str tidings_call_origin(const struct tidings_call *call);
/* Return the trace that a call belongs to, as `traceparent` of W3C Trace Context. From `_meta` of
 * the request or the HTTP header that came with it; one that is not valid counts as none. Empty:
 * none. For requests that the handler makes, and for `traceparent` of the changes it makes (struct
 * tidings_change). The library makes no span of its own: its parent is that of the client. Valid
 * until the call is done. */
TIDINGS_API struct tidings_str tidings_call_traceparent(const struct tidings_call *call);
/* Return the `tracestate` that came with the trace of a call. To be passed on beside
 * tidings_call_traceparent; empty: none. Valid until the call is done. */
TIDINGS_API struct tidings_str tidings_call_tracestate(const struct tidings_call *call);
/* Return who calls, as its token, its certificate or the kernel says. Empty: that was not asked, or
 * it is the program's own standard input. Valid until the call is done. */
TIDINGS_API struct tidings_str tidings_call_principal(const struct tidings_call *call);
enum tidings_access {
    TIDINGS_ACCESS_LIST,
    TIDINGS_ACCESS_READ,
    TIDINGS_ACCESS_SUBSCRIBE,
    TIDINGS_ACCESS_WRITE,
};
/* Say whether the access rules let the caller do something with `uri`. A handler that shows or
 * changes resources asks; without rules everybody may. Subscribing and writing need READ as well.
 * false of what is no URI. Any thread, until the call is done. */
TIDINGS_API bool tidings_call_may(const struct tidings_call *call, enum tidings_access what,
                                  struct tidings_str uri);
/* Return all arguments of a call, a JSON object. "{}" when none were given. They obey the tool's
 * input schema. Empty only when out of memory. */
TIDINGS_API struct tidings_str tidings_call_arguments(struct tidings_call *call);

/* Return one argument of a call, or say whether there is one. `name` is that of a member, or, when
 * it begins with '/', a JSON pointer ("/filter/0/name"). What is absent or of another type gives
 * the fallback (the empty slice). */
TIDINGS_API bool tidings_call_has(const struct tidings_call *call, const char *name);
TIDINGS_API struct tidings_str tidings_call_string(const struct tidings_call *call,
                                                   const char *name);
TIDINGS_API double tidings_call_number(const struct tidings_call *call, const char *name,
                                       double fallback);
TIDINGS_API int64_t tidings_call_integer(const struct tidings_call *call, const char *name,
                                         int64_t fallback);
TIDINGS_API bool tidings_call_boolean(const struct tidings_call *call, const char *name,
                                      bool fallback);
/* Return any argument of a call as JSON text. Empty when absent. Valid until the next
 * tidings_call_json. */
TIDINGS_API struct tidings_str tidings_call_json(struct tidings_call *call, const char *name);

/* ---- the answer ------------------------------------------------------------------------------ */

/* Add a block of content to the answer of a call. Everything is copied. TIDINGS_E_LIMIT beyond
 * `--max-read` bytes in all. Bytes of images and sounds are raw; they are sent as base64. */
TIDINGS_API int tidings_call_text(struct tidings_call *call, struct tidings_str text,
                                  struct tidings_error *err);
TIDINGS_API int tidings_call_image(struct tidings_call *call, struct tidings_str bytes,
                                   const char *mime_type, struct tidings_error *err);
TIDINGS_API int tidings_call_audio(struct tidings_call *call, struct tidings_str bytes,
                                   const char *mime_type, struct tidings_error *err);
/* Add a resource with its content to the answer of a call. `about` has `uri` and `name` at least;
 * the content is text when it is valid UTF-8. */
TIDINGS_API int tidings_call_resource(struct tidings_call *call,
                                      const struct tidings_resource *about,
                                      struct tidings_str content, struct tidings_error *err);
/* Add a link to a resource to the answer of a call: one that the client may read. */
TIDINGS_API int tidings_call_link(struct tidings_call *call, const struct tidings_resource *about,
                                  struct tidings_error *err);
/* Add a block to the answer of a call as JSON text. For what the other functions cannot say:
 * {"type":"text","text":"…", "annotations":{…}}. Annotations beside an embedded resource are sent
 * inside it. */
TIDINGS_API int tidings_call_block(struct tidings_call *call, struct tidings_str json,
                                   struct tidings_error *err);

/* Set the result of a tool as data, a JSON object. It must obey the tool's output schema, which it
 * is checked against at the end; when no block was added, its text is. Replaces an earlier one. */
TIDINGS_API int tidings_call_structured(struct tidings_call *call, struct tidings_str json,
                                        struct tidings_error *err);
/* Mark the answer of a tool as the description of a failure (`isError`). The model is meant to read
 * it. */
TIDINGS_API void tidings_call_mark_error(struct tidings_call *call);

/* Set who says the blocks of a prompt that follow: the assistant, or (the default) the user. */
TIDINGS_API void tidings_call_set_assistant(struct tidings_call *call, bool is_assistant);

/* Finish a call, with what was added to it or with a failure. Code 0: with what was added. A
 * failure: `err` (may be NULL) says why, what was added is dropped. The failure of a tool is a
 * result with `isError`, so that the model can react; that of a prompt is an error of the protocol.
 */
TIDINGS_API void tidings_call_done(struct tidings_call *call, int code,
                                   const struct tidings_error *err);
/* Finish a call with an error of the protocol. For a request that makes no sense here; the model
 * does not see it. */
TIDINGS_API void tidings_call_refuse(struct tidings_call *call, int code,
                                     const struct tidings_error *err);

/* ---- while it runs --------------------------------------------------------------------------- */

/* Say whether nobody waits for the answer of a call any more. Long work should stop (and still
 * finishes the call). */
TIDINGS_API bool tidings_call_cancelled(const struct tidings_call *call);
/* Call a function once when nobody waits for the answer of a call any more. It is called on the
 * worker's thread, or at once when that has happened already. It must not block, and may finish the
 * call. After the call was finished it is not called, and does not run any more. The first function
 * given stays. */
TIDINGS_API void tidings_call_on_cancel(struct tidings_call *call, tidings_call_fn fn, void *user);

/* Make a call a task from here on: the client gets its handle now. For tools that were registered
 * with `begins_task`, whose handler knows whether it takes long, or has something to ask first. 0:
 * it is one, also when it was before. TIDINGS_E_UNSUPPORTED: the client did not declare that it can
 * follow tasks, or the tool that it has any; go on as before. TIDINGS_E_LIMIT: there are too many
 * (`--max-tasks`, `--max-client-tasks`). From then on `--call-timeout` does not count, but the time
 * to live of the task; nobody waits any more when the task is cancelled. */
TIDINGS_API int tidings_call_begin_task(struct tidings_call *call, struct tidings_error *err);
/* Say whether a call is a task. */
TIDINGS_API bool tidings_call_is_task(const struct tidings_call *call);

/* Report how far a call is, to clients that asked to know. `progress` must rise from report to
 * report (others are dropped), `total` <= 0 means not known, `message` may be empty. At most about
 * 50 a second are sent, the one that reaches `total` always. Of a task `message` becomes what its
 * status says, and nothing is sent. */
TIDINGS_API void tidings_call_progress(struct tidings_call *call, double progress, double total,
                                       struct tidings_str message);

/* Send a log message to the client of a call. It gets messages of the levels it wants (revision
 * 2026-07-28: if the request asked for any). `logger` may be NULL. Never put secrets here. A client
 * that does not read loses messages. */
TIDINGS_API void tidings_call_log(struct tidings_call *call, enum tidings_log_level level,
                                  const char *logger, struct tidings_str text);

/* ---- asking the client back ------------------------------------------------------------------ */

/* A handler may need something only the client has: a word from its user ("elicitation/create"), a
 * completion of its model ("sampling/createMessage"), its roots ("roots/list"). It asks, finishes
 * with tidings_call_done(call, 0, NULL), and is called again, as a new call, when the client has
 * the answers. Nothing is remembered in between but what tidings_call_keep was given. That is so in
 * every revision: in 2026-07-28 the client gets `input_required` and calls again, before that it is
 * sent requests while its call waits (`--ask-timeout`); of a task its status is `input_required`
 * until everything is answered. */

/* Say whether the client of a call can be asked a method. */
TIDINGS_API bool tidings_call_can_ask(const struct tidings_call *call, const char *method);
/* Ask the client of a call for something, under a name of your choice. `params` is a JSON object.
 * At most 16 at a time, each under a name of its own. TIDINGS_E_UNSUPPORTED when the client did not
 * declare that it can (a form, a visit to a URL, sampling, sampling with tools, roots); finishing
 * with that code tells it what is missing. */
TIDINGS_API int tidings_call_ask(struct tidings_call *call, const char *key, const char *method,
                                 struct tidings_str params, struct tidings_error *err);
/* Return what the client answered to tidings_call_ask, a JSON object. Empty: there is no answer
 * under that name (ask again). Up to revision 2025-11-25 it was checked, and what was filled into a
 * form obeys its `requestedSchema`; in 2026-07-28 it is whatever the client says. Valid until the
 * next tidings_call_answer. */
TIDINGS_API struct tidings_str tidings_call_answer(struct tidings_call *call, const char *key);
/* Keep bytes that come back with the client's answers. In revision 2026-07-28 the client carries
 * them, encrypted and authenticated, bound to the tool or prompt, its arguments and who calls it,
 * good for ten minutes and until the server restarts (of nodes that share a store: at each of them,
 * restarted or not); before that they stay here. At most 64 KiB.
 * TIDINGS_E_UNSUPPORTED when OpenSSL 3 is needed and not installed. */
TIDINGS_API int tidings_call_keep(struct tidings_call *call, struct tidings_str state,
                                  struct tidings_error *err);
/* Return what tidings_call_keep was given. Empty in the first round. */
TIDINGS_API struct tidings_str tidings_call_state(const struct tidings_call *call);

/* ---- around calls of tools ------------------------------------------------------------------ */

/* How a call of a tool ended. */
enum tidings_call_outcome {
    TIDINGS_CALL_OK = 0,
    TIDINGS_CALL_ERROR,   /* the result says that the tool failed, or its handler did */
    TIDINGS_CALL_REFUSED, /* an error of the protocol: by the handler, a limit, or `begin` */
    TIDINGS_CALL_TIMEOUT, /* the deadline passed */
    TIDINGS_CALL_CANCELLED,
};

/* A call that ended. */
struct tidings_call_report {
    struct tidings_str tool;
    struct tidings_str principal; /* as tidings_call_principal has it */
    enum tidings_call_outcome outcome;
    uint64_t duration_us; /* since `begin`, with the time of questions to the client */
    void *reserved[3];    /* zero */
};

/* Functions of the program around every call of a tool, the server's own tools included. Both are
 * called on a worker's thread, those of several workers at once. They must not block. */
struct tidings_call_hooks {
    /* Before the handler is called, once the arguments were judged. 0: go on. A negative code, with
     * `err` filled: the handler is not called, and the client gets that error, as from
     * tidings_call_refuse. May use what <tidings/call.h> says is asked; must not finish the call.
     * NULL: all calls go on. */
    int (*begin)(void *user, struct tidings_call *call, struct tidings_error *err);
    /* Once for each call that `begin` was called for, when the client has its answer or will get
     * none. A handler may still run then. NULL: not called. */
    void (*end)(void *user, const struct tidings_call_report *report);
    void *user;        /* must live until the server is destroyed */
    void *reserved[2]; /* zero */
};

#ifdef __cplusplus
}
#endif

#endif
