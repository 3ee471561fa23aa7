/* SPDX-License-Identifier: MIT
 *
 * Identities as the verifiers make them, and scopes on their way into one.
 */
#ifndef AUTH_IDENTITY_H
#define AUTH_IDENTITY_H

#include "auth/auth.h"
#include "base/list.h"
#include "base/sha256.h"

/* Scopes gathered from wherever they stand; borrowed texts, bounded as auth.h says. */
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

struct identity {
    struct auth_identity is;
    /* The desk's. */
    struct list link;
    int64_t until_ms; /* remembered no longer; 0: as long as it is good */
    unsigned char digest[SHA256_BYTES];
};

/* `issuer` empty: the name alone. Everything is copied. NULL: out of memory. */
struct identity *identity_create(struct tidings_str issuer, struct tidings_str name,
                                 const struct scope_list *scopes, int64_t expires_ms,
                                 enum auth_kind kind);
void identity_destroy(struct identity *i); /* NULL is fine; what is attached is the desk's affair */

#endif
