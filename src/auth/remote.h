/* SPDX-License-Identifier: MIT
 *
 * The thread that asks authorization servers: it fetches the keys of issuers and introspects tokens
 * over HTTP.
 * Everything below it (auth/fetch_queue.h, auth/key_source.h, auth/introspect.h) belongs to that
 * thread.
 */
#ifndef AUTH_REMOTE_H
#define AUTH_REMOTE_H

#include "auth/fetch_queue.h"
#include "auth/pending_token.h"
#include "auth/verifier.h"

struct remote;

/* Loads libcurl and starts the thread. TIDINGS_E_UNSUPPORTED. */
int remote_start(struct remote **ret, struct verifier *v, struct tidings_error *err);
/* Breaks off what is under way. Tokens that were not sent back are freed: no cache waits for them
 * any more. NULL is fine. */
void remote_stop(struct remote *r);

/* Any thread: it is sent back (pending_token_return) when there is more to say. */
void remote_ask(struct remote *r, struct pending_token *p);
/* Any thread: keys are fetched again, whatever their age. */
void remote_refresh(struct remote *r);
void remote_get_fetches(struct remote *r, struct auth_fetches *ret); /* any thread */

#endif
