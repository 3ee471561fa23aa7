/* SPDX-License-Identifier: MIT
 *
 * A question: a server's request to its client. The server may ask for a form or a visit to a URL
 * (elicitation), a completion of the client's model (sampling), or the folders that the client
 * works on (roots).
 *
 *     static void on_form(void *user, struct tidings_question *question)
 *     {
 *         struct tidings_error err;
 *         if (tidings_question_accept(question, TIDINGS_STR("{\"name\":\"Ann\"}"), &err) < 0) {
 *             tidings_question_cancel(question);
 *         }
 *     }
 *
 *     struct tidings_question_handlers on = {.on_form = on_form};
 *     tidings_client_on_question(client, &on, &err);      // before it connects
 *
 * The client declares the kinds of questions for which it has a handler when it connects. The
 * functions are the same in every protocol revision. Up to 2025-11-25 a question is a request of
 * the server. In 2026-07-28 it is the result `input_required`, and the client repeats its request
 * with the answers. In both cases the caller of tidings_client_call, or of another request,
 * receives the final result.
 *
 * Answering
 *   The program answers a question once, in its handler or later, with tidings_question_accept,
 *   _decline, _cancel, _answer or _refuse. The question is valid until then, or until on_withdrawn
 *   runs. If an answer fails (negative result), the question stays open.
 *
 * Threads
 *   Handlers run in tidings_client_run, in tidings_client_step, and in the function whose request
 *   the question belongs to. They may call the client, like its other callbacks. Answer on the
 *   thread that uses the client.
 *
 * Limits
 *   At most 16 questions are open at a time, and one request may lead to 16 (max_questions).
 *   Servers up to 2025-11-25 can also ask without a request: 16 questions, plus one each minute.
 *   The client rejects all others. It cancels a question that is not answered within timeout_ms.
 *   Requests do not time out while a question is open. The client itself rejects forms that have
 *   more than 64 fields or are not flat, and URLs that are not http:// or https://.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_QUESTION_H
#define TIDINGS_QUESTION_H

#include <tidings/client.h>

#ifdef __cplusplus
extern "C" {
/* These functions share the name of a struct; -Wshadow reports a hidden constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

struct tidings_question;

enum tidings_question_kind {
    TIDINGS_QUESTION_FORM = 0,     /* fill in fields: tidings_question_fields */
    TIDINGS_QUESTION_URL = 1,      /* visit an address: tidings_question_url */
    TIDINGS_QUESTION_SAMPLING = 2, /* completion by the model: tidings_question_params */
    TIDINGS_QUESTION_ROOTS = 3,    /* the client's folders */
};

/* Receives a question to answer, now or later. on_withdrawn receives one that needs no answer. */
typedef void (*tidings_question_fn)(void *user, struct tidings_question *question);

/* Question handlers of a client. Zero selects the default in parentheses. */
struct tidings_question_handlers {
    tidings_question_fn on_form;     /* (not supported) */
    tidings_question_fn on_url;      /* (not supported) */
    tidings_question_fn on_sampling; /* (not supported) */
    tidings_question_fn on_roots;    /* (not supported) */
    bool sampling_tools;             /* on_sampling supports tools */
    /* Called when a question needs no answer: the server withdrew it, the connection ended, or the
     * time is up. The question is invalid when the function returns. */
    tidings_question_fn on_withdrawn;
    void *user;             /* must live as long as the client */
    uint32_t timeout_ms;    /* per answer (600000) */
    uint32_t max_questions; /* per request (16) */
    void *reserved[4];      /* zero */
};

/* Set the functions that answer questions of the server. `handlers` is copied. If it is NULL or has
 * no functions, the server cannot ask anything, which is the default. Call this before the client
 * connects, because it then declares what it supports.
 *
 * TIDINGS_E_INVALID: the client has connected. */
TIDINGS_API int tidings_client_on_question(struct tidings_client *client,
                                           const struct tidings_question_handlers *handlers,
                                           struct tidings_error *err);

/* Report to the server that the answer of on_roots has changed. This works up to 2025-11-25. Later
 * servers query the roots when they need them, and the client sends nothing. */
TIDINGS_API void tidings_client_roots_changed(struct tidings_client *client);

/* ---- the question ---------------------------------------------------------------------------- */

/* Return the kind of a question. */
TIDINGS_API enum tidings_question_kind
tidings_question_kind(const struct tidings_question *question);
/* Return the parameters of a question as JSON text. For sampling they are `messages`, `maxTokens`
 * and optionally `tools`. They are untrusted: sanitize them before you print them to a terminal.
 * The text lives as long as the question; it is empty if memory runs out. */
TIDINGS_API struct tidings_str tidings_question_params(struct tidings_question *question);
/* Return the message to the user in a form or URL question. The server chose it. The text lives as
 * long as the question. */
TIDINGS_API struct tidings_str tidings_question_message(const struct tidings_question *question);
/* Return the URL that the user is to visit. It starts with http:// or https:// and is printable
 * ASCII; else it is empty. Do not open it before the user has seen it and agrees. The text lives as
 * long as the question. */
TIDINGS_API struct tidings_str tidings_question_url(const struct tidings_question *question);

/* ---- the fields of a form -------------------------------------------------------------------- */

enum tidings_field_type {
    TIDINGS_FIELD_TEXT = 0,
    TIDINGS_FIELD_NUMBER = 1,
    TIDINGS_FIELD_INTEGER = 2,
    TIDINGS_FIELD_BOOLEAN = 3,
    TIDINGS_FIELD_CHOICE = 4,  /* one of `choices` */
    TIDINGS_FIELD_CHOICES = 5, /* any number of them */
};
struct tidings_field_choice {
    struct tidings_str value;
    struct tidings_str title; /* `value` if the server gives no title */
};
/* A field of a form. All members are valid only during the call; the server chose them. */
struct tidings_field {
    struct tidings_str name;
    struct tidings_str title; /* the name if the server gives no title */
    struct tidings_str description;
    enum tidings_field_type type;
    struct tidings_str format; /* for TEXT: "email", "uri", "date", "date-time"; empty: any */
    bool is_required;
    struct tidings_str preset; /* default value, as JSON; empty: none */
    const struct tidings_field_choice *choices;
    size_t choice_count;
    struct tidings_str schema; /* its JSON Schema */
};
/* Receives one field. Returns 0 to continue. */
typedef int (*tidings_field_fn)(void *user, const struct tidings_field *field);
/* Call a function for each field of a form, in order.
 *
 * Returns 0, or the first result of `fn` that is not 0. TIDINGS_E_INVALID: the question is not a
 * form. */
TIDINGS_API int tidings_question_fields(struct tidings_question *question, tidings_field_fn fn,
                                        void *user);
/* Read a value that a person typed into a field. For a boolean, the person types yes or no, or true
 * or false; for a choice its number (from 1), value or title, and for several choices a
 * comma-separated list.
 *
 * Returns the value as JSON, which the caller releases with tidings_free, or NULL if it is invalid;
 * `err` then says what is accepted. */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_field_read(const struct tidings_field *field,
                                                        struct tidings_str text,
                                                        struct tidings_error *err);

/* ---- the answer ------------------------------------------------------------------------------ */

/* Answer that the user agrees. `content` is a JSON object with the values of a form. Missing fields
 * get their default, and null members are left out. For a URL, `content` is empty: the user visits
 * it.
 *
 * TIDINGS_E_INVALID: `content` violates the form's schema (`err` says where), or the question is
 * neither a form nor a URL. */
TIDINGS_API int tidings_question_accept(struct tidings_question *question,
                                        struct tidings_str content, struct tidings_error *err);
/* Answer that the user declines. For sampling and roots this is tidings_question_refuse. */
TIDINGS_API void tidings_question_decline(struct tidings_question *question);
/* Answer that the user neither agrees nor declines. For sampling and roots this is
 * tidings_question_refuse. */
TIDINGS_API void tidings_question_cancel(struct tidings_question *question);
/* Answer with a result in the format of the protocol, a JSON object. For sampling: `role`,
 * `content`, `model`. For roots: `roots`, an array of objects with `uri` (file://…) and optionally
 * `name`.
 *
 * TIDINGS_E_INVALID: the object is not such a result. */
TIDINGS_API int tidings_question_answer(struct tidings_question *question,
                                        struct tidings_str result, struct tidings_error *err);
/* Answer with an error. The server receives `reason`. In 2026-07-28 a client can only send answers,
 * so its own request fails with `reason` and TIDINGS_E_CANCELLED. */
TIDINGS_API void tidings_question_refuse(struct tidings_question *question, const char *reason);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
