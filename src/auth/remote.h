/* SPDX-License-Identifier: MIT
 *
 * The thread that asks others: it fetches keys and introspects tokens over HTTP, several at a time.
 * Everything in this header but the first part belongs to that thread.
 *
 * Answers are small and whole: a status, a body of at most REMOTE_BODY_MAX bytes, 10 seconds for
 * all of it. Redirects are not followed: an address that moved is the operator's to change.
 */
#ifndef AUTH_REMOTE_H
#define AUTH_REMOTE_H

#include "auth/question.h"
#include "base/loop.h"

#define REMOTE_BODY_MAX (256u << 10)
#define REMOTE_TIMEOUT_MS 10000u
#define REMOTE_AT_ONCE 16u /* exchanges under way; the others wait for their turn */

struct remote;

/* Loads libcurl and starts the thread. TIDINGS_E_UNSUPPORTED. */
int remote_start(struct remote **ret, struct auth *a, struct tidings_error *err);
/* Breaks off what is under way. Questions that did not get home are freed: no desk waits for them
 * any more. NULL is fine. */
void remote_stop(struct remote *r);

/* Any thread: it comes home (question_return) when there is more to say. */
void remote_ask(struct remote *r, struct auth_question *q);
/* Any thread: keys are fetched again, whatever their age. */
void remote_refresh(struct remote *r);

/* ---- on the thread --------------------------------------------------------------------------- */

struct loop *remote_loop(struct remote *r);

struct remote_request {
    const char *url;
    const char *authorization; /* "Authorization: …"; NULL: none */
    struct tidings_str form;   /* POSTed as a form; empty: GET */
};

/* `status` 0: there was no answer, and `err` says why. */
typedef void (*remote_done_fn)(void *user, long status, struct tidings_str body,
                               const struct tidings_error *err);

/* What is asked for is copied. `done` is called exactly once, later, unless the thread stops.
 * TIDINGS_E_NOMEM, TIDINGS_E_CLOSED: it is not. */
int remote_fetch(struct remote *r, const struct remote_request *request, remote_done_fn done,
                 void *user);

#endif
