/* SPDX-License-Identifier: MIT
 *
 * A question: something a server asks of its client while it works. A form for the user to fill in
 * or an address to visit (elicitation), a completion of the client's model (sampling), the folders
 * it works on (roots).
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
 * What a client can be asked is what it has a function for; servers are told that when it connects.
 * The functions are the same in every revision of the protocol: up to 2025-11-25 a question is a
 * request of the server, in 2026-07-28 it is the result `input_required`, and the client asks again
 * with the answers. Either way whoever called tidings_client_call, or asked anything else, gets the
 * result that follows.
 *
 * Answering
 *   A question is answered once, inside its function or later, by one of tidings_question_accept,
 *   _decline, _cancel, _answer and _refuse. It is valid until then, or until on_withdrawn was told
 *   that nobody waits any more. An answer that fails (negative) leaves it open.
 *
 * Threads
 *   Functions are called by tidings_client_run, tidings_client_step, and by whatever function waits
 *   for an answer of the server: the one that the server asks because of. They may call the client,
 *   as its other callbacks may. Answers come from the thread that has the client.
 *
 * Bounds
 *   At most 16 questions are open at a time, and 16 are answered for one request (max_questions);
 *   so many without a request, which servers up to 2025-11-25 can ask at any time, and one more
 * each minute. What a server asks beyond is refused. One that is not answered within timeout_ms is
 * cancelled. While one is open, requests that wait for their answer are not given up. Forms of more
 * than 64 fields, or that are not flat, and addresses that are not http:// or https:// are refused
 *   without asking the program.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_QUESTION_H
#define TIDINGS_QUESTION_H

#include <tidings/client.h>

#ifdef __cplusplus
extern "C" {
/* Functions named like the struct they return: -Wshadow calls that hiding its constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

struct tidings_question;

enum tidings_question_kind {
    TIDINGS_QUESTION_FORM = 0,     /* fields to fill in: tidings_question_fields */
    TIDINGS_QUESTION_URL = 1,      /* an address to visit: tidings_question_url */
    TIDINGS_QUESTION_SAMPLING = 2, /* a completion of the model: tidings_question_params */
    TIDINGS_QUESTION_ROOTS = 3,    /* what the client works on */
};

/* The question is to be answered, now or later; of on_withdrawn: it is not any more. */
typedef void (*tidings_question_fn)(void *user, struct tidings_question *question);

/* Zeroed fields mean the default in parentheses. */
struct tidings_question_handlers {
    tidings_question_fn on_form;     /* (it cannot be asked) */
    tidings_question_fn on_url;      /* (likewise) */
    tidings_question_fn on_sampling; /* (likewise) */
    tidings_question_fn on_roots;    /* (likewise) */
    bool sampling_tools;             /* on_sampling knows what to do with tools */
    /* A question that was told is not to be answered any more: the server withdrew it, the
     * connection ended, time is up. It is gone when the function returns. */
    tidings_question_fn on_withdrawn;
    void *user;             /* has to last as long as the client */
    uint32_t timeout_ms;    /* for one answer (600000) */
    uint32_t max_questions; /* that one request may lead to (16) */
    void *reserved[4];      /* zero */
};

/* Say what the server may ask of a client, and who answers. The struct is copied; NULL, or without
 * functions: nothing, as before the first call. To be called before the client connects: what it
 * can be asked is told then. TIDINGS_E_INVALID: it has connected. */
TIDINGS_API int tidings_client_on_question(struct tidings_client *client,
                                           const struct tidings_question_handlers *handlers,
                                           struct tidings_error *err);

/* Say that the roots of a client have changed: what on_roots would answer. Up to
 * 2025-11-25; later servers ask whenever they need to know, and nothing is sent. */
TIDINGS_API void tidings_client_roots_changed(struct tidings_client *client);

/* ---- what is asked --------------------------------------------------------------------------- */

/* Return what kind of question it is. */
TIDINGS_API enum tidings_question_kind
tidings_question_kind(const struct tidings_question *question);
/* Return the parameters of a question as JSON text. Of sampling they are `messages`, `maxTokens`,
 * perhaps `tools`. From a stranger: what goes to a terminal must not be trusted. Lives as
 * long as the question; empty when there is no memory. */
TIDINGS_API struct tidings_str tidings_question_params(struct tidings_question *question);
/* Return what the user is to be told with a form or an address. It is whatever the server says.
 * Lives as long as the question. */
TIDINGS_API struct tidings_str tidings_question_message(const struct tidings_question *question);
/* Return the address that the user is to visit. http:// or https://, printable ASCII; else empty.
 * It must not be opened unless the user has seen it and agrees. Lives as long as the question. */
TIDINGS_API struct tidings_str tidings_question_url(const struct tidings_question *question);

/* ---- the fields of a form -------------------------------------------------------------------- */

enum tidings_field_type {
    TIDINGS_FIELD_TEXT = 0,
    TIDINGS_FIELD_NUMBER = 1,
    TIDINGS_FIELD_INTEGER = 2,
    TIDINGS_FIELD_BOOLEAN = 3,
    TIDINGS_FIELD_CHOICE = 4,  /* one of `choices` */
    TIDINGS_FIELD_CHOICES = 5, /* any of them */
};
struct tidings_field_choice {
    struct tidings_str value;
    struct tidings_str title; /* that of `value` where the server says nothing */
};
/* A field. Everything is borrowed for the call, and was written by the server. */
struct tidings_field {
    struct tidings_str name;
    struct tidings_str title; /* the name where the server says nothing */
    struct tidings_str description;
    enum tidings_field_type type;
    struct tidings_str format; /* of text: "email", "uri", "date", "date-time"; empty: any */
    bool is_required;
    struct tidings_str preset; /* what it is unless it is filled in: JSON; empty: nothing */
    const struct tidings_field_choice *choices;
    size_t choice_count;
    struct tidings_str schema; /* its JSON Schema */
};
/* 0: the next one, please. */
typedef int (*tidings_field_fn)(void *user, const struct tidings_field *field);
/* Call a function for each field of a form, in their order. Returns 0, or what `fn` returned when
 * that was not 0; TIDINGS_E_INVALID: it is no form. */
TIDINGS_API int tidings_question_fields(struct tidings_question *question, tidings_field_fn fn,
                                        void *user);
/* Read what a person typed into a field. Returns the value as JSON, to be released with
 * tidings_free: yes and no, or true and false, for a boolean; the number (from 1), value or title
 * of a choice, several with commas between them. NULL: it does not fit, and `err` says what would.
 */
TIDINGS_API TIDINGS_MUST_CHECK char *tidings_field_read(const struct tidings_field *field,
                                                        struct tidings_str text,
                                                        struct tidings_error *err);

/* ---- the answer ------------------------------------------------------------------------------ */

/* Answer that the user agrees. `content`: what was filled into a form, a JSON object; fields that
 * are not in it get their preset, and a member that is null is left out. Empty for an address: the
 * user goes there. TIDINGS_E_INVALID: it does not obey the form's schema, `err` says where, or it
 * is no such question. */
TIDINGS_API int tidings_question_accept(struct tidings_question *question,
                                        struct tidings_str content, struct tidings_error *err);
/* Answer that the user says no. To sampling and roots it is tidings_question_refuse. */
TIDINGS_API void tidings_question_decline(struct tidings_question *question);
/* Answer that the user did neither. To sampling and roots it is tidings_question_refuse. */
TIDINGS_API void tidings_question_cancel(struct tidings_question *question);
/* Answer with a result as the protocol has it, a JSON object. For sampling: `role`, `content`,
 * `model`; for roots: `roots`, an array of objects with `uri` (file://…) and perhaps `name`.
 * TIDINGS_E_INVALID: it is none. */
TIDINGS_API int tidings_question_answer(struct tidings_question *question,
                                        struct tidings_str result, struct tidings_error *err);
/* Answer with an error. `reason` is told to the server; in 2026-07-28, where nothing but answers
 * can be sent, what was asked by this client fails with it: TIDINGS_E_CANCELLED. */
TIDINGS_API void tidings_question_refuse(struct tidings_question *question, const char *reason);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
