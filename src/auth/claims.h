/* SPDX-License-Identifier: MIT
 *
 * The claims of a token, whether they stand in a JWT (RFC 7519, RFC 9068) or in the answer to an
 * introspection (RFC 7662): audience, validity, subject, scopes.
 */
#ifndef AUTH_CLAIMS_H
#define AUTH_CLAIMS_H

#include "auth/dpop.h"
#include "auth/identity.h"
#include "json/json.h"

struct claims_rules {
    char *const *audiences; /* `aud` must hold one of them */
    size_t audience_count;
    int64_t leeway_ms;
    bool needs_expiry;
};

struct claims {
    struct tidings_str name; /* borrowed, as the scopes are */
    struct scope_list scopes;
    int64_t expires_ms;      /* leeway included; 0: none */
    char key[DPOP_KEY_TEXT]; /* that it is bound to; "": none */
};

/* NULL: they are good now, and *ret is filled. Otherwise a static sentence that says what is not
 * (auth_answer.description). */
const char *claims_check(const struct json *claims, const struct claims_rules *rules,
                         int64_t now_ms, struct claims *ret);

#endif
