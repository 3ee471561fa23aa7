/* SPDX-License-Identifier: MIT
 *
 * What the parts of auth share with each other and show to nobody else.
 *
 * Settings are frozen after auth_open. What may change later (keys, hashes of tokens, credentials)
 * are immutable values in the shared map; whoever replaces one that may have made a token good
 * advances the generation, and desks that see another one forget what they remember.
 */
#ifndef AUTH_AUTH_PRIVATE_H
#define AUTH_AUTH_PRIVATE_H

#include "auth/auth.h"
#include "auth/claims.h"
#include "auth/identity.h"
#include "auth/ledger.h"
#include "base/shared_map.h"
#include "base/str.h"

struct remote;

struct issuer {
    char *name;
    char *jwks; /* NULL: as its metadata says */
    bool is_remote;
};

struct auth {
    struct issuer issuers[AUTH_ISSUERS_MAX];
    size_t issuer_count;
    char *audiences[AUTH_AUDIENCES_MAX];
    size_t audience_count;
    char *tokens, *introspection, *credentials, *ca; /* NULL: none */
    int64_t leeway_ms;
    uint64_t refresh_ms, interval_ms, stale_ms;
    struct shared_map *shared;
    struct remote *remote;       /* NULL: nothing has to be fetched, or not started */
    unsigned generation;         /* atomic */
    struct auth_fetches fetches; /* atomic, each of them */
    struct ledger *ledgers;      /* atomic: of all desks there were */
    bool is_failing;             /* atomic: introspection does */
};

/* Put a value in the shared map in the place of the one with its key. The caller's reference stays
 * the caller's. TIDINGS_E_NOMEM when there was none and there is no room. */
int auth_share(struct auth *a, struct shared_value *value);
/* Which key of which issuer. */
uint64_t auth_make_proof(size_t issuer, uint64_t key);
/* Desks forget what they remember before they are asked the next time. */
void auth_advance(struct auth *a);
/* The rules for claims of a token that needs, or needs no, expiry. */
struct claims_rules auth_rules(const struct auth *a, bool needs_expiry);

/* What has to be fetched before there is a verdict. */
enum verdict_need { VERDICT_FINAL, VERDICT_NEEDS_KEYS, VERDICT_NEEDS_INTROSPECTION };

struct verdict {
    enum auth_outcome outcome; /* not final: what it is when nothing more can be learnt */
    const char *why;           /* as auth_answer.description */
    struct identity *identity; /* AUTH_OK: the receiver's */
    enum verdict_need need;
    size_t issuer; /* whose keys */
};

/* What can be said of a well-formed token without waiting. `now_ms` is Unix time. */
void verdict_find(struct auth *a, struct tidings_str token,
                  const unsigned char digest[SHA256_BYTES], int64_t now_ms, struct verdict *ret);

#endif
