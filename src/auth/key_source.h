/* SPDX-License-Identifier: MIT
 *
 * Where the keys of one issuer come from, when it is a URL: fetched at the start, again when they
 * are old, and when a token names one that is not among them. The last is rationed, since anybody
 * can make such a token: three times, and once more for each interval that went by.
 *
 *     IDLE --start, old, asked for--> (where?) METADATA --> KEYS --> IDLE
 *
 * What was fetched stays in effect while fetching fails, until it is stale. All of it belongs to
 * the thread of a `struct remote`.
 */
#ifndef AUTH_KEY_SOURCE_H
#define AUTH_KEY_SOURCE_H

#include "auth/remote.h"

struct key_source;

/* Begins to fetch. NULL: out of memory. */
struct key_source *key_source_create(struct remote *r, struct auth *a, const struct issuer *issuer);
void key_source_destroy(struct key_source *s); /* frees who waits; NULL is fine */

/* Takes the question; it goes home when there are new keys, or when there is no hope for any. */
void key_source_ask(struct key_source *s, struct auth_question *q);
void key_source_refresh(struct key_source *s);

#endif
