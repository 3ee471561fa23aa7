/* SPDX-License-Identifier: MIT
 *
 * The verifier: the settings, token file, key sets and credentials in use, and verification of one
 * token with them, without blocking.
 *
 * A server has one, used by all its threads. Settings never change. The rest are immutable values
 * in the shared map; replacing one that may have made a token valid advances the generation, and
 * caches that see another generation forget their tokens.
 */
#ifndef SECURITY_VERIFIER_H
#define SECURITY_VERIFIER_H

#include "base/map.h"
#include "security/jwt.h"
#include "security/principal.h"

/* -------------------------------------------------------------------------------------------------
 * The result of verifying a token: an identity, a reason for rejecting it, or the data that must be
 * fetched first.
 */

enum auth_outcome {
    AUTH_OK,
    AUTH_MALFORMED,   /* does not have the syntax of a token (RFC 6750: invalid_request) */
    AUTH_INVALID,     /* expired, forged, for another audience, unknown (invalid_token) */
    AUTH_UNAVAILABLE, /* cannot be verified now; retry later */
};

enum verdict_need { VERDICT_FINAL, VERDICT_NEEDS_KEYS, VERDICT_NEEDS_INTROSPECTION };

struct verdict {
    enum auth_outcome outcome; /* provisional: the result if nothing more can be fetched */
    const char *why;           /* as auth_answer.description */
    struct identity *identity; /* AUTH_OK: owned by the receiver */
    enum verdict_need need;
    size_t issuer; /* the issuer whose keys are needed */
};

/* -------------------------------------------------------------------------------------------------
 * How often tokens were verified, found in a cache and rejected. Each cache writes its own
 * counters, without a lock; any thread can read them all. They exist until their auth closes, so
 * that sums never decrease when a cache is destroyed.
 */

#define COUNTERS_REASONS 48u /* more than there are messages; further ones would not be counted */

struct auth_counts {
    uint64_t verified;   /* verified and valid */
    uint64_t remembered; /* found in the cache */
    uint64_t malformed, invalid, unavailable;
    uint64_t waiting; /* pending now */
};

struct counters {
    struct auth_counts counts;
    struct {
        const char *why; /* the static message itself; NULL: free from here on */
        uint64_t count;
    } refused[COUNTERS_REASONS];
    struct counters *next;
};

/* Adds counters to the list at `*head`. NULL: out of memory. */
struct counters *counters_create(struct counters **head);
void counters_destroy_all(struct counters *head);

/* Called by the cache they belong to. */
void counters_add(uint64_t *count, int64_t n);
void counters_refuse(struct counters *c, enum auth_outcome outcome, const char *why);

/* Any thread. The sums over the list. */
void counters_sum(struct counters *const *head, struct auth_counts *ret);
/* Any thread. Calls `fn` with the number of rejected tokens for each reason (a description of an
 * answer). */
typedef void (*auth_refusal_fn)(void *user, const char *why, uint64_t count);
void counters_each_refusal(struct counters *const *head, auth_refusal_fn fn, void *user);

/* -------------------------------------------------------------------------------------------------
 * How tokens are verified: the caller's options, checked and copied into settings that never change
 * afterwards.
 */

#define AUTH_ISSUERS_MAX 8u
#define AUTH_AUDIENCES_MAX 8u

struct auth_issuer {
    const char *issuer; /* exactly as in `iss` */
    /* Where its keys are: a file, a URL, or NULL: as in the issuer's own metadata (RFC 8414, OpenID
     * Connect Discovery). */
    const char *jwks;
};

/* Strings are copied. URLs must be https, or http to this machine. */
struct auth_options {
    const struct auth_issuer *issuers;
    size_t issuer_count;
    /* The names of this server, one of which `aud` must contain; at least one is required with
     * issuers or introspection. */
    const char *const *audiences;
    size_t audience_count;
    const char *tokens;                    /* file of tokens; NULL: none */
    const char *introspection;             /* URL (RFC 7662); NULL: none */
    const char *introspection_credentials; /* file with one line CLIENT_ID:SECRET; NULL: none */
    /* PEM: CA certificates for those URLs; NULL: the system's */
    const char *ca;
    uint32_t leeway_ms;  /* maximum clock difference; 0 means 0, not a default */
    uint32_t refresh_ms; /* age at which keys are fetched again; 0: 10 minutes */
    /* … and when a token names an unknown key, but only three times, and once more for each
     * interval that passed. 0: 30 s. */
    uint32_t interval_ms;
    uint32_t stale_ms; /* how long keys stay valid if they cannot be fetched again; 0: 1 hour */
};

struct issuer {
    char *name;
    char *jwks; /* NULL: as in its metadata */
    bool is_remote;
};

/* The options, owned and with defaults applied. */
struct auth_settings {
    struct issuer issuers[AUTH_ISSUERS_MAX];
    size_t issuer_count;
    char *audiences[AUTH_AUDIENCES_MAX];
    size_t audience_count;
    char *tokens, *introspection, *credentials, *ca; /* NULL: none */
    int64_t leeway_ms;
    uint64_t refresh_ms, interval_ms, stale_ms;
};

/* `s` is zeroed. TIDINGS_E_INVALID with the accepted values; call deinit even after a failure. */
int auth_settings_init(struct auth_settings *s, const struct auth_options *options,
                       struct tidings_error *err);
void auth_settings_deinit(struct auth_settings *s);

/* Returns the issuer with that name; NULL: none. */
const struct issuer *auth_settings_find_issuer(const struct auth_settings *s,
                                               struct tidings_str name);
/* The claims rules for a token, with or without a required expiry. */
struct claims_rules auth_settings_rules(const struct auth_settings *s, bool needs_expiry);

/* Returns true if the URL is https, or http to this machine, without user, query or fragment where
 * these could mislead. */
bool auth_settings_is_safe_url(struct tidings_str url);

struct auth_files;
struct jwks;

struct verifier {
    struct auth_settings settings;
    struct shared_map *shared;
    unsigned generation; /* atomic */
};

/* `v` is zeroed. Call deinit even after a failure. */
int verifier_init(struct verifier *v, const struct auth_options *options,
                  struct tidings_error *err);
void verifier_deinit(struct verifier *v);

/* Any thread. Puts the files into use. Fails only without memory, if there was nothing before. */
int verifier_put_files(struct verifier *v, const struct auth_files *files);
/* Any thread. Replaces the keys of an issuer; the caller keeps its reference. TIDINGS_E_NOMEM if
 * there were none and there is no room. */
int verifier_put_keys(struct verifier *v, struct jwks *keys);
void verifier_remove_keys(struct verifier *v, const struct issuer *issuer);

/* Any thread. How often something was put or removed. */
unsigned verifier_generation(const struct verifier *v);

/* The verdict on a well-formed token, without blocking. `now_ms` is Unix time. */
void verifier_check(struct verifier *v, struct tidings_str token,
                    const unsigned char digest[SHA256_BYTES], int64_t now_ms, struct verdict *ret);
/* Any thread. See auth_proof_is_valid. */
bool verifier_proof_is_valid(const struct verifier *v, uint64_t proof);

#endif
