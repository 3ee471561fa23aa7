/* SPDX-License-Identifier: MIT
 *
 * The token cache of a worker: finds the identity behind a request's bearer token. It remembers
 * verified tokens, so that a repeated token costs one hash and no signature. Caches share only the
 * values of a shared map (base/map.h).
 *
 *     struct auth_answer answer;
 *     struct pending_token *pending;
 *     if (token_cache_ask(cache, token, &answer, &pending, on_answer, user)) {
 *         ... use answer ...
 *     } else {
 *         ... on_answer(user, &answer) follows on this loop, unless token_cache_cancel(pending) ...
 *     }
 */
#ifndef SECURITY_TOKEN_CACHE_H
#define SECURITY_TOKEN_CACHE_H

#include "base/thread.h"
#include "security/verifier.h"

/* -------------------------------------------------------------------------------------------------
 * A pending token: a bearer token that a worker's cache could not verify at once: a message to the
 * thread that fetches (security/remote_auth.h), and back. Until it returns, the cache uses only its
 * own fields, and the thread only the others. It is freed after its return (or by the mailbox, if
 * that can no longer deliver it), even if it was cancelled.
 */

struct auth_answer;
struct introspector;
struct token_cache;

typedef void (*auth_answer_fn)(void *user, const struct auth_answer *answer);

struct pending_token {
    struct thread_message message;
    struct mailbox *mailbox; /* of the cache's thread; a reference */
    /* Called on the cache's thread when the token has returned; the token is destroyed after it. */
    void (*on_return)(struct pending_token *p);
    struct verdict verdict; /* needed data; after an introspection, its result */
    unsigned generation;    /* at the time of the request */
    /* Used by the thread. */
    struct list waiting;
    struct introspector *introspector;
    /* Used by the cache. */
    struct token_cache *cache; /* NULL: cancelled */
    struct list link;
    auth_answer_fn fn;
    void *user;
    unsigned char digest[SHA256_BYTES];
    size_t token_len;
    char token[];
};

/* Creates a token and its mailbox to return to; the rest is zero. NULL: out of memory. */
void pending_token_destroy(struct pending_token *p);
/* Sends it back. Call it on the remote thread. */
void pending_token_return(struct pending_token *p);

/* Maximum tokens, except those of the file; beyond that, the least recently used one is evicted. */
#define TOKEN_CACHE_MAX 4096u

struct remote;
struct verifier;

struct auth_answer {
    enum auth_outcome outcome;
    /* AUTH_OK: owned by the cache, and valid until the next call to it. */
    struct auth_identity *identity;
    /* Otherwise: an error message fit for error_description (RFC 6750 §3: ASCII without quotes and
     * backslashes, without any part of the token); static. */
    const char *description;
};

/* State shared by the caches of a server. */
struct token_cache_shared {
    struct verifier *verifier;
    struct remote *remote;     /* NULL: nothing has to be fetched, or not started */
    struct counters *counters; /* atomic: of all caches ever created */
};

typedef void (*auth_release_fn)(void *attached);

/* Creates a cache for the thread of `mailbox`, which uses it and receives later answers. `release`
 * may be NULL. NULL: out of memory. */
struct token_cache *token_cache_create(struct token_cache_shared *shared, struct mailbox *mailbox,
                                       auth_release_fn release, struct tidings_error *err);
/* Call it before the mailbox closes. Cancels pending tokens. NULL is fine. */
void token_cache_destroy(struct token_cache *c);

/* True: *answer is filled. False: not known yet; *pending is set, and `fn` will be called once with
 * the answer, from the mailbox, never from inside this call. */
bool token_cache_ask(struct token_cache *c, struct tidings_str token, struct auth_answer *answer,
                     struct pending_token **pending, auth_answer_fn fn, void *user);
/* Sets a function that is called before a token waits, with the `user` of its request; false: the
 * token is rejected as UNAVAILABLE. Without it any number can wait. */
typedef bool (*auth_may_wait_fn)(void *user);
void token_cache_set_may_wait(struct token_cache *c, auth_may_wait_fn may);
/* Prevents the call of `fn`. Do not call it after `fn` was called. NULL is fine. */
void token_cache_cancel(struct pending_token *pending);

/* Call it periodically (each second or so), never from inside an answer: it passes `fn` the data
 * attached to identities of the token file whose lines were removed or changed. The caller should
 * end the streams of those identities. */
typedef void (*auth_revoked_fn)(void *user, void *attached);
void token_cache_review(struct token_cache *c, auth_revoked_fn fn, void *user);
/* Returns true if files were loaded or keys fetched since the last review. Then also check the
 * proof of every identity still in use. */
bool token_cache_needs_review(const struct token_cache *c);

const struct auth_counts *token_cache_counts(const struct token_cache *c); /* its own */

#endif
