/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a token, and any bytes as its claims: accepted input stays within the limits.
 */
#include <stdlib.h>

#include "security/jwt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_claims(const struct json *v)
{
    static char audience[] = "a", *audiences[] = {audience};
    const struct claims_rules rules = {.audiences = audiences, .audience_count = 1};
    struct claims claims;
    if (!claims_check(v, &rules, 1000, &claims)) {
        check(claims.name.len > 0 && claims.name.len <= AUTH_NAME_MAX);
        check(claims.scopes.count <= AUTH_SCOPES_MAX && claims.scopes.bytes <= AUTH_SCOPE_BYTES);
        check(claims.expires_ms == 0 || claims.expires_ms > 1000);
        struct identity *i = identity_create(STR("https://as"), claims.name, &claims.scopes,
                                             claims.expires_ms, AUTH_BY_JWT);
        check(i && i->is.name.len == claims.name.len + 11);
        identity_destroy(i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str in = tidings_strn((const char *)data, size);
    struct json *v = NULL;
    struct jwt t;
    if (!jwt_parse(&t, in)) {
        check(t.bytes.len < size && t.signature.len <= AUTH_TOKEN_MAX);
        check_claims(t.claims);
        jwt_deinit(&t);
    }
    if (jv_parse(in, 16, &v, NULL) == 0) {
        check_claims(v);
        jv_unref(v);
    }
    return 0;
}
