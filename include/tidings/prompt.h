/* SPDX-License-Identifier: MIT
 *
 * Prompts: messages that a user chooses to start a conversation, and the completion of their
 * arguments and of template variables.
 *
 *     static const struct tidings_argument arguments[] = {
 *         {"code", NULL, "What to review", true},
 *     };
 *     struct tidings_prompt about = {0};
 *     about.name = tidings_str("review");
 *     about.description = tidings_str("Asks for a review");
 *     about.arguments = arguments;
 *     about.argument_count = 1;
 *     tidings_server_add_prompt(server, &about, review, NULL, &err);
 *
 *     static void review(void *user, struct tidings_call *call)
 *     {
 *         struct tidings_error err;
 *         int rc = tidings_call_text(call, tidings_str("Please review:"), &err);
 *         if (rc == 0) {
 *             rc = tidings_call_text(call, tidings_call_string(call, "code"), &err);
 *         }
 *         tidings_call_done(call, rc, &err);
 *     }
 *
 * Each block that a handler adds is one message of the user or, after tidings_call_set_assistant,
 * of the assistant. The server calls a handler only if all required arguments are present and all
 * arguments are strings. The handler may answer later, from any thread (<tidings/call.h>).
 *
 * Since 0.1.
 */
#ifndef TIDINGS_PROMPT_H
#define TIDINGS_PROMPT_H

#include <tidings/call.h>
#include <tidings/provider.h>
#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tidings_server;

struct tidings_argument {
    const char *name;        /* required, 1 to 128 bytes */
    const char *title;       /* NULL: none */
    const char *description; /* NULL: none */
    bool is_required;
};

/* Describes a prompt. Zeroed fields mean "none". Strings are copied. */
struct tidings_prompt {
    struct tidings_str name; /* required: 1 to 128 of A-Z a-z 0-9 _ - . */
    struct tidings_str title;
    struct tidings_str description; /* also sent with every result */
    const struct tidings_argument *arguments;
    size_t argument_count;    /* at most 64 */
    struct tidings_str icons; /* JSON array text */
    struct tidings_str meta;  /* JSON object text, sent as `_meta`; keys may not have a prefix
                                 reserved by the protocol */
    uint64_t timeout_ms;      /* 0: the server's --call-timeout */
    bool is_blocking;         /* the handler may block, and runs on a thread pool */
    void *reserved[4];        /* zero */
};

/* Add a prompt that clients can list and get. The server notifies clients that the list changed.
 * `handler` answers requests (<tidings/call.h>); `user` must live until the server is destroyed.
 * Thread-safe, before and while the server runs.
 *
 * TIDINGS_E_EXISTS: the name is taken. TIDINGS_E_INVALID: `err` names the invalid field. */
TIDINGS_API int tidings_server_add_prompt(struct tidings_server *server,
                                          const struct tidings_prompt *about,
                                          tidings_call_fn handler, void *user,
                                          struct tidings_error *err);
/* Remove a prompt by its name. Running calls finish normally, and a worker may still start a call
 * during this function; `user` must live until the server is destroyed. Thread-safe.
 *
 * TIDINGS_E_NOTFOUND: there is no such prompt. */
TIDINGS_API int tidings_server_remove_prompt(struct tidings_server *server, struct tidings_str name,
                                             struct tidings_error *err);

/* ---- completion ------------------------------------------------------------------------------ */

/* Complete the arguments of a prompt, or the variables of a registered template, with a function.
 * `prompt` is a name, `uri_template` the string of the template. Either may be set before or after
 * the prompt or template is added, and stays when it is removed. If `fn` is NULL, the server
 * removes the function. Without a function the server suggests nothing. Thread-safe.
 *
 * TIDINGS_E_EXISTS: there is a function already. */
TIDINGS_API int tidings_server_complete_prompt(struct tidings_server *server,
                                               struct tidings_str prompt, tidings_complete_fn fn,
                                               void *user, struct tidings_error *err);
TIDINGS_API int tidings_server_complete_template(struct tidings_server *server,
                                                 struct tidings_str uri_template,
                                                 tidings_complete_fn fn, void *user,
                                                 struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
