/* SPDX-License-Identifier: MIT
 *
 * Introspection (RFC 7662): the authorization server is asked what a token is. What it says is
 * believed for INTROSPECT_REMEMBER_MS, so that a token taken back is good for no longer than that.
 */
#ifndef AUTH_INTROSPECT_H
#define AUTH_INTROSPECT_H

#include "auth/fetch_queue.h"
#include "auth/pending_token.h"
#include "auth/verifier.h"

#define INTROSPECT_REMEMBER_MS 30000

/* Belongs to the thread of the queue. */
struct introspector {
    struct verifier *verifier;
    struct fetch_queue *queue;
    bool is_failing;
};

/* Ask about the token of `p` and send it back with a verdict (pending_token_return). */
void introspect(struct introspector *i, struct pending_token *p);

/* The verdict on an answer with status 200. Pure. */
void introspect_read(const struct auth_settings *s, struct tidings_str body, int64_t now_ms,
                     struct verdict *ret);

#endif
