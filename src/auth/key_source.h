/* SPDX-License-Identifier: MIT
 *
 * Where the keys of one issuer come from, when it is a URL: fetched at the start, again when they
 * are old, and when a token names one that is not among them. The last is rationed, since anybody
 * can make such a token: three times, and once more for each interval that went by.
 *
 *     IDLE --start, old, asked for--> METADATA (unless the URL is configured) --> KEYS --> IDLE
 *
 * What was fetched stays in effect while fetching fails, until it is stale. All of it belongs to
 * the thread of its `struct fetch_queue`.
 */
#ifndef AUTH_KEY_SOURCE_H
#define AUTH_KEY_SOURCE_H

#include "auth/fetch_queue.h"
#include "auth/pending_token.h"
#include "auth/verifier.h"

struct key_source;

/* Begins to fetch. NULL: out of memory. */
struct key_source *key_source_create(struct fetch_queue *queue, struct verifier *verifier,
                                     const struct issuer *issuer);
void key_source_destroy(struct key_source *s); /* frees the tokens that wait; NULL is fine */

/* Takes the token; it is sent back when there are new keys, or when none can be had. */
void key_source_ask(struct key_source *s, struct pending_token *p);
void key_source_refresh(struct key_source *s); /* whatever the age of the keys */

#endif
