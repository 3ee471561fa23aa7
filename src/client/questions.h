/* SPDX-License-Identifier: MIT
 *
 * The server's open questions (<tidings/question.h>). A question is a request of the legacy era, or
 * part of an input round of the modern one (client/requests.h). The client passes it to the program
 * after the turn in which it came, in a step or a synchronous call.
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
    QUESTION_NEW,       /* the program has not received it */
    QUESTION_TOLD,      /* … and has to answer */
    QUESTION_WITHDRAWN, /* … and will be notified that it need not */
    QUESTION_LEAVING,   /* … which happens now */
};

struct tidings_question {
    struct list link; /* in client->questions */
    struct tidings_client *client;
    enum tidings_question_kind kind;
    enum question_state state;
    struct json *params;       /* a reference; NULL: none */
    char *text;                /* their JSON text; NULL: not requested yet */
    struct json *id;           /* legacy: the request's, a reference; NULL: it is of a round, … */
    struct input_round *round; /* … of this one; neither: the client answered it */
    size_t index;
    struct loop_timer deadline;
};

void question_init(struct tidings_client *c);
void question_deinit(struct tidings_client *c); /* makes no callbacks */

/* ---- what can be asked ----------------------------------------------------------------------- */

bool question_is_offered(const struct tidings_client *c); /* anything */
/* The capabilities of the client, an object. */
void question_put_capabilities(const struct tidings_client *c, struct jw *w);

/* ---- coming ---------------------------------------------------------------------------------- */

/* A request of the server came on the exchange of `exchange` (0: none). Responds to it. */
void question_asked(struct tidings_client *c, struct tidings_str method, struct json *id,
                    struct json *params, int64_t exchange);
/* Adds a question of a round. TIDINGS_E_UNSUPPORTED: the client did not offer it; TIDINGS_E_PARSE:
 * it is malformed; TIDINGS_E_LIMIT: too many are open. */
int question_add(struct input_round *round, size_t index, struct tidings_str method,
                 struct json *params, struct tidings_error *err);

/* ---- going ----------------------------------------------------------------------------------- */

/* The round's questions are no longer needed: notifies the program. */
void question_withdraw_input_round(struct tidings_client *c, const struct input_round *round);
/* The server withdrew the request of that id. */
void question_cancelled(struct tidings_client *c, const struct json *id);
void question_connection_lost(struct tidings_client *c);

/* ---- telling --------------------------------------------------------------------------------- */

bool question_has_news(const struct tidings_client *c);
void question_deliver(struct tidings_client *c); /* calls the program */

/* ---- the stream of the legacy era on which they may come --------------------------------------
 */

/* Opens a stream for questions outside of requests, if the server may ask any. Returns true if
 * connection_streaming or connection_lost follows. */
bool question_listen(struct tidings_client *c);
/* That stream ended, and only questions need it: it is reopened later. */
void question_stream_lost(struct tidings_client *c, const struct tidings_error *why);

/* -------------------------------------------------------------------------------------------------
 * The forms of elicitation/create (`requestedSchema`): a JSON Schema of an object whose members are
 * flat. Both the schema and the values are checked; a schema is untrusted, and its cost is bounded.
 */

#define FORM_MAX_FIELDS 64u
#define FORM_MAX_CHOICES 256u /* of one field */

/* Checks that a person can fill in the form. TIDINGS_E_PARSE, TIDINGS_E_LIMIT: the reason why
 * not. */
int form_check(struct json *schema, struct tidings_error *err);
/* Each field in order: 0, or what `fn` returned. */
int form_each(struct json *schema, tidings_field_fn fn, void *user);
/* Writes the values, a JSON object, with presets for missing ones (SEP-1034), and without nulls.
 * TIDINGS_E_INVALID: the values do not match the form. */
int form_complete(struct json *schema, struct tidings_str content, struct buf *out,
                  struct tidings_error *err);

#endif
