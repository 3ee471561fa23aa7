/* SPDX-License-Identifier: MIT
 *
 * Whom a bearer token stands for, asked on the worker of a request. Each worker has a cache of its
 * own, which remembers what it verified, so that a request whose token was seen before costs one
 * hash and no signature. Caches share nothing but what stands in a shared map (base/map.h).
 *
 *     struct auth_answer answer;
 *     struct pending_token *pending;
 *     if (token_cache_ask(cache, token, &answer, &pending, on_answer, user)) {
 *         ... answer is there ...
 *     } else {
 *         ... on_answer(user, &answer) follows on this loop, unless token_cache_cancel(pending) ...
 *     }
 */
#ifndef SECURITY_TOKEN_CACHE_H
#define SECURITY_TOKEN_CACHE_H

#include "base/thread.h"
#include "security/verifier.h"

/* -------------------------------------------------------------------------------------------------
 * A bearer token that a worker's cache could not verify at once: a message to the thread that
 * fetches (security/remote_auth.h), and back. Until it has come back, the cache touches only its
 * own fields, and the thread only the others. It is freed when it has come back (or with the
 * mailbox, when that cannot deliver it any more), also when it was cancelled meanwhile.
 */

struct auth_answer;
struct introspector;
struct token_cache;

typedef void (*auth_answer_fn)(void *user, const struct auth_answer *answer);

struct pending_token {
    struct thread_message message;
    struct mailbox *mailbox; /* of the cache's thread; a reference */
    /* On the cache's thread, once it has come back; the token is destroyed after it. */
    void (*on_return)(struct pending_token *p);
    struct verdict verdict; /* what is needed; of an introspection, what came of it */
    unsigned generation;    /* when it was asked */
    /* The thread's. */
    struct list waiting;
    struct introspector *introspector;
    /* The cache's. */
    struct token_cache *cache; /* NULL: cancelled */
    struct list link;
    auth_answer_fn fn;
    void *user;
    unsigned char digest[SHA256_BYTES];
    size_t token_len;
    char token[];
};

/* A token and the mailbox it comes back to; the rest is zero. NULL: out of memory. */
void pending_token_destroy(struct pending_token *p);
/* On the thread that fetches: send it back. */
void pending_token_return(struct pending_token *p);

/* Tokens, but for those of the file; beyond, the one not used for the longest time is forgotten. */
#define TOKEN_CACHE_MAX 4096u

struct remote;
struct verifier;

struct auth_answer {
    enum auth_outcome outcome;
    /* AUTH_OK: belongs to the cache, and is good until the next call to it. */
    struct auth_identity *identity;
    /* Otherwise: a sentence fit for error_description (RFC 6750 §3: ASCII without quotes and
     * backslashes, nothing of the token in it); static. */
    const char *description;
};

/* What the caches of a server have in common. */
struct token_cache_shared {
    struct verifier *verifier;
    struct remote *remote;     /* NULL: nothing has to be fetched, or not started */
    struct counters *counters; /* atomic: of all caches there were */
};

typedef void (*auth_release_fn)(void *attached);

/* For the thread of `mailbox`, on which it is used and to which later answers come. `release` may
 * be NULL. NULL: out of memory. */
struct token_cache *token_cache_create(struct token_cache_shared *shared, struct mailbox *mailbox,
                                       auth_release_fn release, struct tidings_error *err);
/* Before the mailbox closes. Tokens that wait are cancelled. NULL is fine. */
void token_cache_destroy(struct token_cache *c);

/* True: *answer is filled. False: it is not known yet; *pending is set, and `fn` will be called
 * once with the answer, from the mailbox, never from inside this call. */
bool token_cache_ask(struct token_cache *c, struct tidings_str token, struct auth_answer *answer,
                     struct pending_token **pending, auth_answer_fn fn, void *user);
/* Asks `may` before a token waits, with the `user` of its question; false: it is refused as
 * UNAVAILABLE. Without it any number may wait. */
typedef bool (*auth_may_wait_fn)(void *user);
void token_cache_set_may_wait(struct token_cache *c, auth_may_wait_fn may);
/* `fn` will not be called. Not after it was. NULL is fine. */
void token_cache_cancel(struct pending_token *pending);

/* Call it now and again (each second or so), never from inside an answer: `fn` is told what was
 * attached to identities of the file of tokens whose lines are gone, or say something else now.
 * What those had begun should end. */
typedef void (*auth_revoked_fn)(void *user, void *attached);
void token_cache_review(struct token_cache *c, auth_revoked_fn fn, void *user);
/* Have files been loaded or keys been fetched since the last review? Then also ask of every
 * identity that is still in use whether its proof stands. */
bool token_cache_needs_review(const struct token_cache *c);

const struct auth_counts *token_cache_counts(const struct token_cache *c); /* its own */

#endif
