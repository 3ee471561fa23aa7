/* SPDX-License-Identifier: MIT
 *
 * The thread that contacts authorization servers: it fetches the keys of issuers and introspects
 * tokens over HTTP. Everything in this file belongs to that thread unless noted otherwise.
 */
#ifndef SECURITY_REMOTE_AUTH_H
#define SECURITY_REMOTE_AUTH_H

#include "base/loop.h"
#include "base/str.h"
#include "security/token_cache.h"
#include "security/verifier.h"

/* -------------------------------------------------------------------------------------------------
 * HTTP requests of one thread: a bounded number runs at a time; the others are queued.
 *
 * Responses are small and complete: a status, a body of at most FETCH_QUEUE_BODY_MAX bytes, 10
 * seconds for all of it. Redirects are not followed: the operator must configure the new address.
 */

#define FETCH_QUEUE_BODY_MAX (256u << 10)
#define FETCH_QUEUE_TIMEOUT_MS 10000u
#define FETCH_QUEUE_AT_ONCE 16u /* running */

struct fetch_queue;

/* Number of requests for tokens; their initiators count them. */
struct auth_fetches {
    uint64_t keys, introspections, failures;
};

struct queued_request {
    const char *url;
    const char *authorization; /* "Authorization: …"; NULL: none */
    struct tidings_str form;   /* POSTed as a form; empty: GET */
};

/* `status` 0: no response, and `err` gives the reason. */
typedef void (*fetch_done_fn)(void *user, long status, struct tidings_str body,
                              const struct tidings_error *err);

struct remote;

/* Loads libcurl and starts the thread. TIDINGS_E_UNSUPPORTED. */
int remote_start(struct remote **ret, struct verifier *v, struct tidings_error *err);
/* Aborts running requests. Tokens that were not returned are freed: no cache waits for them any
 * longer. NULL is fine. */
void remote_stop(struct remote *r);

/* Any thread. The token is returned (pending_token_return) when more is known. */
void remote_ask(struct remote *r, struct pending_token *p);
/* Any thread. Fetches all keys again, whatever their age. */
void remote_refresh(struct remote *r);
void remote_get_fetches(struct remote *r, struct auth_fetches *ret); /* any thread */

/* -------------------------------------------------------------------------------------------------
 * Introspection (RFC 7662): the authorization server reports the state of a token. Its response is
 * trusted for INTROSPECT_REMEMBER_MS, so a revoked token stays valid no longer than that.
 */

#define INTROSPECT_REMEMBER_MS 30000

/* Belongs to the thread of the queue. */
struct introspector {
    struct verifier *verifier;
    struct fetch_queue *queue;
    bool is_failing;
};

/* The verdict for a response with status 200. Pure. */
void introspect_read(const struct auth_settings *s, struct tidings_str body, int64_t now_ms,
                     struct verdict *ret);

#endif
