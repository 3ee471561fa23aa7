/* SPDX-License-Identifier: MIT
 *
 * Questions of the server (<tidings/question.h>) that are open. One is a request of the legacy era,
 * or part of a round of the modern one (client/requests.h); it is told to the program outside the
 * turn in which it came, by whoever waits.
 */
#ifndef CLIENT_QUESTIONS_H
#define CLIENT_QUESTIONS_H

#include <tidings/question.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/str.h"
#include "formats/json.h"
#include "formats/json_write.h"

#define QUESTIONS_OPEN 16u       /* at a time; beyond: refused */
#define QUESTIONS_OF_REQUEST 16u /* by default */

struct input_round;

enum question_state {
    QUESTION_NEW,       /* the program does not know of it */
    QUESTION_TOLD,      /* … and has to answer */
    QUESTION_WITHDRAWN, /* … and has to be told that it need not */
    QUESTION_LEAVING,   /* … which happens just now */
};

struct tidings_question {
    struct list link; /* in client->questions */
    struct tidings_client *client;
    enum tidings_question_kind kind;
    enum question_state state;
    struct json *params;       /* a reference; NULL: none */
    char *text;                /* of them; NULL: not asked for */
    struct json *id;           /* legacy: the request's, a reference; NULL: it is of a round, … */
    struct input_round *round; /* … of this one; neither: it was answered by us */
    size_t index;
    struct loop_timer deadline;
};

void question_init(struct tidings_client *c);
void question_deinit(struct tidings_client *c); /* nothing is told */

/* ---- what can be asked ----------------------------------------------------------------------- */

bool question_is_offered(const struct tidings_client *c); /* anything */
/* The capabilities of the client, an object. */
void question_put_capabilities(const struct tidings_client *c, struct jw *w);

/* ---- coming ---------------------------------------------------------------------------------- */

/* A request of the server that came on the exchange of `exchange` (0: none). It is answered. */
void question_asked(struct tidings_client *c, struct tidings_str method, struct json *id,
                    struct json *params, int64_t exchange);
/* One of a round. TIDINGS_E_UNSUPPORTED: that was not offered; TIDINGS_E_PARSE: it is none;
 * TIDINGS_E_LIMIT: too many are open. */
int question_add(struct input_round *round, size_t index, struct tidings_str method,
                 struct json *params, struct tidings_error *err);

/* ---- going ----------------------------------------------------------------------------------- */

/* Nobody waits for its questions any more: the program hears of it. */
void question_withdraw_input_round(struct tidings_client *c, const struct input_round *round);
/* The server withdrew the request of that id. */
void question_cancelled(struct tidings_client *c, const struct json *id);
void question_connection_lost(struct tidings_client *c);

/* ---- telling --------------------------------------------------------------------------------- */

bool question_has_news(const struct tidings_client *c);
void question_deliver(struct tidings_client *c); /* calls the program */

/* ---- the stream of the legacy era on which they may come --------------------------------------
 */

/* Hear what the server asks by itself, if there is anything it may ask: true, and
 * connection_streaming or connection_lost follows. */
bool question_listen(struct tidings_client *c);
/* That stream ended, and nobody else needs it: it is opened again later. */
void question_stream_lost(struct tidings_client *c, const struct tidings_error *why);

/* -------------------------------------------------------------------------------------------------
 * The forms that servers ask to have filled in (`requestedSchema` of elicitation/create): a JSON
 * Schema of an object whose members are flat. Both the schema and what is filled in are checked; a
 * schema comes from a stranger, and what it may cost is bounded.
 */

#define FORM_MAX_FIELDS 64u
#define FORM_MAX_CHOICES 256u /* of one field */

/* Is it a form that a person can be shown? TIDINGS_E_PARSE, TIDINGS_E_LIMIT: why not. */
int form_check(struct json *schema, struct tidings_error *err);
/* Each field in order: 0, or what `fn` returned. */
int form_each(struct json *schema, tidings_field_fn fn, void *user);
/* Write what was filled in, a JSON object, with presets where nothing was (SEP-1034), and without
 * what is null. TIDINGS_E_INVALID: it is not what the form asks for. */
int form_complete(struct json *schema, struct tidings_str content, struct buf *out,
                  struct tidings_error *err);

#endif
