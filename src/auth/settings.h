/* SPDX-License-Identifier: MIT
 *
 * How tokens are to be verified: options as they are given, checked and copied into settings that
 * never change afterwards.
 */
#ifndef AUTH_SETTINGS_H
#define AUTH_SETTINGS_H

#include "auth/claims.h"

#define AUTH_ISSUERS_MAX 8u
#define AUTH_AUDIENCES_MAX 8u

struct auth_issuer {
    const char *issuer; /* exactly as it stands in `iss` */
    /* Where its keys are: a file, a URL, or NULL: as the issuer's own metadata says (RFC 8414,
     * OpenID Connect Discovery). */
    const char *jwks;
};

/* Texts are copied. URLs must be https, or http to this very machine. */
struct auth_options {
    const struct auth_issuer *issuers;
    size_t issuer_count;
    /* The names of this server of which `aud` must hold one; at least one is needed where there are
     * issuers or introspection. */
    const char *const *audiences;
    size_t audience_count;
    const char *tokens;                    /* file of tokens; NULL: none */
    const char *introspection;             /* URL (RFC 7662); NULL: none */
    const char *introspection_credentials; /* file with one line CLIENT_ID:SECRET; NULL: none */
    const char *ca;                        /* PEM: trusted for those URLs; NULL: the system's */
    uint32_t leeway_ms;                    /* clocks may differ by so much; applied as it stands */
    uint32_t refresh_ms; /* keys are fetched again when they are so old; 0: 10 minutes */
    /* … and when a token names a key that is not among them, but only three times, and once more
     * for each interval that went by. 0: 30 s. */
    uint32_t interval_ms;
    uint32_t stale_ms; /* keys that cannot be fetched again are good for so long; 0: 1 hour */
};

struct issuer {
    char *name;
    char *jwks; /* NULL: as its metadata says */
    bool is_remote;
};

/* The options, owned and with the defaults in place. */
struct auth_settings {
    struct issuer issuers[AUTH_ISSUERS_MAX];
    size_t issuer_count;
    char *audiences[AUTH_AUDIENCES_MAX];
    size_t audience_count;
    char *tokens, *introspection, *credentials, *ca; /* NULL: none */
    int64_t leeway_ms;
    uint64_t refresh_ms, interval_ms, stale_ms;
};

/* `s` is zeroed. TIDINGS_E_INVALID with what is accepted; after a failure too there is something to
 * deinit. */
int auth_settings_init(struct auth_settings *s, const struct auth_options *options,
                       struct tidings_error *err);
void auth_settings_deinit(struct auth_settings *s);

/* The one of that name; NULL: there is none. */
const struct issuer *auth_settings_find_issuer(const struct auth_settings *s,
                                               struct tidings_str name);
/* The rules for claims of a token that needs, or needs no, expiry. */
struct claims_rules auth_settings_rules(const struct auth_settings *s, bool needs_expiry);

/* https, or http to this very machine; without user, query or fragment where they could confuse. */
bool auth_settings_is_safe_url(struct tidings_str url);

#endif
