/* SPDX-License-Identifier: MIT
 *
 * What the parts of auth share with each other and show to nobody else.
 *
 * Settings are frozen after auth_open. What may change later (keys, hashes of tokens, credentials)
 * are immutable values on the shelf; whoever replaces one that may have made a token good advances
 * the generation, and desks that see another one forget what they remember.
 */
#ifndef AUTH_AUTH_PRIVATE_H
#define AUTH_AUTH_PRIVATE_H

#include "auth/auth.h"
#include "auth/identity.h"
#include "base/shelf.h"
#include "base/str.h"

struct auth {
    char *tokens;
    struct shelf *shelf;
    unsigned generation;         /* atomic */
    struct auth_fetches fetches; /* atomic, each of them */
};

/* Put a value on the shelf in the place of the one with its key. The caller's reference stays the
 * caller's. TIDINGS_E_NOMEM when there was none and there is no room. */
int auth_shelve(struct auth *a, struct shelf_value *value);

enum verdict_need { VERDICT_IS_FINAL };

struct verdict {
    enum auth_outcome outcome;
    const char *why;           /* as auth_answer.description */
    struct identity *identity; /* AUTH_OK: the receiver's */
    enum verdict_need need;    /* not final: what has to be fetched before one can be given */
};

/* What can be said of a well-formed token without waiting. `now_ms` is Unix time. */
void verdict_find(struct auth *a, struct tidings_str token,
                  const unsigned char digest[SHA256_BYTES], int64_t now_ms, struct verdict *ret);

#endif
