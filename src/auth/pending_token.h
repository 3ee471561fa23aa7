/* SPDX-License-Identifier: MIT
 *
 * A bearer token that a worker's cache could not verify at once: a letter to the thread that
 * fetches (auth/remote.h), and back. Until it has come back, the cache touches only its own fields,
 * and the thread only the others. It is freed when it has come back (or with the mailbox, when that
 * cannot deliver it any more), also when it was cancelled meanwhile.
 */
#ifndef AUTH_PENDING_TOKEN_H
#define AUTH_PENDING_TOKEN_H

#include "auth/verdict.h"
#include "base/mailbox.h"

struct auth_answer;
struct introspector;
struct token_cache;

typedef void (*auth_answer_fn)(void *user, const struct auth_answer *answer);

struct pending_token {
    struct letter letter;
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
struct pending_token *pending_token_create(struct mailbox *mailbox, struct tidings_str token);
void pending_token_destroy(struct pending_token *p);
/* On the thread that fetches: send it back. */
void pending_token_return(struct pending_token *p);

#endif
