/* SPDX-License-Identifier: MIT
 *
 * The thread that asks authorization servers: it fetches the keys of issuers and introspects tokens
 * over HTTP.
 * Everything below it (security/remote_auth.h, security/remote_auth.h, security/remote_auth.h)
 * belongs to that thread.
 */
#ifndef SECURITY_REMOTE_AUTH_H
#define SECURITY_REMOTE_AUTH_H

#include "base/loop.h"
#include "base/str.h"
#include "security/token_cache.h"
#include "security/verifier.h"

/* -------------------------------------------------------------------------------------------------
 * HTTP requests of one thread, a bounded number at a time; the others wait for their turn.
 *
 * Answers are small and whole: a status, a body of at most FETCH_QUEUE_BODY_MAX bytes, 10 seconds
 * for all of it. Redirects are not followed: an address that moved is the operator's to change.
 */

#define FETCH_QUEUE_BODY_MAX (256u << 10)
#define FETCH_QUEUE_TIMEOUT_MS 10000u
#define FETCH_QUEUE_AT_ONCE 16u /* under way */

struct fetch_queue;

/* What was fetched for tokens; counted by those who ask for it. */
struct auth_fetches {
    uint64_t keys, introspections, failures;
};

struct queued_request {
    const char *url;
    const char *authorization; /* "Authorization: …"; NULL: none */
    struct tidings_str form;   /* POSTed as a form; empty: GET */
};

/* `status` 0: there was no answer, and `err` says why. */
typedef void (*fetch_done_fn)(void *user, long status, struct tidings_str body,
                              const struct tidings_error *err);

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

/* -------------------------------------------------------------------------------------------------
 * Introspection (RFC 7662): the authorization server is asked what a token is. What it says is
 * believed for INTROSPECT_REMEMBER_MS, so that a token taken back is good for no longer than that.
 */

#define INTROSPECT_REMEMBER_MS 30000

/* Belongs to the thread of the queue. */
struct introspector {
    struct verifier *verifier;
    struct fetch_queue *queue;
    bool is_failing;
};

/* The verdict on an answer with status 200. Pure. */
void introspect_read(const struct auth_settings *s, struct tidings_str body, int64_t now_ms,
                     struct verdict *ret);

#endif
