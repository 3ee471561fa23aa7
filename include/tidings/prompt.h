/* SPDX-License-Identifier: MIT
 *
 * Prompts: messages a user chooses to begin a conversation with, and the completion of their
 * arguments and of the variables of templates.
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
 * Each block a handler adds is one message, said by the user or, after tidings_call_set_assistant,
 * by the assistant. A handler is called when every required argument is there and all are strings;
 * it may answer later, from any thread (<tidings/call.h>).
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

/* What is said of a prompt when it is offered: zeroed fields mean "none". Texts are copied. */
struct tidings_prompt {
    struct tidings_str name; /* required: 1 to 128 of A-Z a-z 0-9 _ - . */
    struct tidings_str title;
    struct tidings_str description; /* also in every result */
    const struct tidings_argument *arguments;
    size_t argument_count;    /* at most 64 */
    struct tidings_str icons; /* JSON array text */
    struct tidings_str meta;  /* JSON object text, sent as `_meta`; keys may not have a prefix
                                 reserved by the protocol */
    uint64_t timeout_ms;      /* 0: the server's --call-timeout */
    bool is_blocking;         /* the handler may block: it runs on a pool of threads */
    void *reserved[4];        /* zero */
};

/* Offer a prompt to clients. They are told that the list changed. `handler` answers requests for it
 * (<tidings/call.h>); `user` must live until the server is destroyed. Any thread, before or while
 * the server runs. TIDINGS_E_EXISTS when the name is taken, TIDINGS_E_INVALID with what is wrong.
 */
TIDINGS_API int tidings_server_add_prompt(struct tidings_server *server,
                                          const struct tidings_prompt *about,
                                          tidings_call_fn handler, void *user,
                                          struct tidings_error *err);
/* Withdraw a prompt by its name. Any thread. TIDINGS_E_NOTFOUND when there is none. Calls under way
 * finish normally, and a worker may still begin one while this returns: `user` must live until the
 * server is destroyed. */
TIDINGS_API int tidings_server_remove_prompt(struct tidings_server *server, struct tidings_str name,
                                             struct tidings_error *err);

/* ---- completion ------------------------------------------------------------------------------ */

/* Complete the arguments of a prompt, or the variables of a registered template. A prompt is named,
 * a template given by its text. Either may come before or after what it belongs to, from any
 * thread, and stays when that is removed. TIDINGS_E_EXISTS when there is one already; NULL for `fn`
 * removes it. Without one nothing is suggested. */
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
