/* SPDX-License-Identifier: MIT
 *
 * Whom a token stands for: the name, the scopes, until when. Verifiers make identities, a cache
 * (auth/token_cache.h) keeps them.
 */
#ifndef AUTH_IDENTITY_H
#define AUTH_IDENTITY_H

#include "base/list.h"
#include "base/sha256.h"

#include <tidings/types.h>

#define AUTH_TOKEN_MAX 8192u /* bytes of a token; a longer one is malformed */
#define AUTH_KEY_TEXT 44u    /* the name of a key (RFC 7638), and a NUL */
#define AUTH_NAME_MAX 255u   /* bytes of a name; a longer one makes its token invalid */
#define AUTH_SCOPES_MAX 64u  /* of one token, each of at most AUTH_SCOPE_MAX bytes, … */
#define AUTH_SCOPE_MAX 255u
#define AUTH_SCOPE_BYTES 2048u /* … and their bytes together */

enum auth_kind { AUTH_BY_FILE, AUTH_BY_JWT, AUTH_BY_INTROSPECTION };

/* What others see of one. */
struct auth_identity {
    /* `sub`, else `client_id`; of a file, the name there. UTF-8 without control characters, never
     * empty. With more than one issuer: the issuer, a blank, and that. */
    struct tidings_str name;
    const struct tidings_str *scopes; /* in the order of the token */
    size_t scope_count;
    int64_t expires_ms; /* Unix time from which it is not good any more, leeway included; 0: none */
    enum auth_kind kind;
    /* What it was verified with may be withdrawn (auth_proof_is_valid); 0: nothing of that kind. */
    uint64_t proof;
    /* It is good only with a proof by this key (auth/dpop.h); "": it is bound to none. */
    char key[AUTH_KEY_TEXT];
    /* The asker's own, NULL at first: what it made of this identity. Released with it (the cache
     * was told how), so that a token seen again costs no second making. */
    void *attached;
};

struct identity {
    struct auth_identity is;
    /* The cache's. */
    struct list link;
    int64_t until_ms; /* remembered no longer; 0: as long as it is good */
    unsigned char digest[SHA256_BYTES];
};

/* Scopes gathered from wherever they stand; borrowed texts, bounded as above. */
struct scope_list {
    struct tidings_str items[AUTH_SCOPES_MAX];
    size_t count, bytes;
};

/* False: not of the form of a scope (RFC 6749 §3.3), or one too many. Repetitions are left out. */
bool scope_list_add(struct scope_list *l, struct tidings_str scope);
/* Several, with blanks between them. */
bool scope_list_add_all(struct scope_list *l, struct tidings_str scopes);

/* UTF-8, no control characters, not empty, and not longer than `max`. */
bool identity_is_name(struct tidings_str name, size_t max);

/* Is the whole name short enough? */
bool identity_fits(struct tidings_str issuer, struct tidings_str name);

/* `issuer` empty: the name alone. Everything is copied. NULL: out of memory. */
struct identity *identity_create(struct tidings_str issuer, struct tidings_str name,
                                 const struct scope_list *scopes, int64_t expires_ms,
                                 enum auth_kind kind);
void identity_destroy(struct identity *i); /* NULL is fine; what is attached is the cache's */

#endif
