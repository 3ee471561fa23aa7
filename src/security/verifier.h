/* SPDX-License-Identifier: MIT
 *
 * What tokens are verified with: the settings, and the file of tokens, the key sets and the
 * credentials in effect; and verifying one token with them, without waiting.
 *
 * There is one for a server, and all its threads use it. Settings are frozen. What may change later
 * are immutable values in the shared map; whoever replaces one that may have made a token good
 * advances the generation, and caches that see another one forget what they remember.
 */
#ifndef SECURITY_VERIFIER_H
#define SECURITY_VERIFIER_H

#include "base/map.h"
#include "security/jwt.h"
#include "security/principal.h"

/* -------------------------------------------------------------------------------------------------
 * The result of verifying a token: an identity, or why there is none, or what has to be fetched
 * before that can be said.
 */

enum auth_outcome {
    AUTH_OK,
    AUTH_MALFORMED,   /* not of the form of a token at all (RFC 6750: invalid_request) */
    AUTH_INVALID,     /* expired, forged, for somebody else, unknown (invalid_token) */
    AUTH_UNAVAILABLE, /* cannot be found out now; ask again later */
};

enum verdict_need { VERDICT_FINAL, VERDICT_NEEDS_KEYS, VERDICT_NEEDS_INTROSPECTION };

struct verdict {
    enum auth_outcome outcome; /* not final: what it is when nothing more can be learnt */
    const char *why;           /* as auth_answer.description */
    struct identity *identity; /* AUTH_OK: the receiver's */
    enum verdict_need need;
    size_t issuer; /* whose keys */
};

/* -------------------------------------------------------------------------------------------------
 * How often tokens were verified, remembered and refused. Each cache writes counters of its own,
 * without a lock; anybody may read them all. They stay until the auth they belong to closes, so
 * that sums never go back when a cache goes.
 */

#define COUNTERS_REASONS 48u /* there are fewer sentences; one more would not be counted */

struct auth_counts {
    uint64_t verified;   /* tokens looked at and found good */
    uint64_t remembered; /* known from before */
    uint64_t malformed, invalid, unavailable;
    uint64_t waiting; /* now */
};

struct counters {
    struct auth_counts counts;
    struct {
        const char *why; /* the static sentence itself; NULL: free from here on */
        uint64_t count;
    } refused[COUNTERS_REASONS];
    struct counters *next;
};

/* New ones in the list at `*head`. NULL: out of memory. */
struct counters *counters_create(struct counters **head);
void counters_destroy_all(struct counters *head);

/* By the cache they belong to. */
void counters_add(uint64_t *count, int64_t n);
void counters_refuse(struct counters *c, enum auth_outcome outcome, const char *why);

/* Any thread: of all in the list. */
void counters_sum(struct counters *const *head, struct auth_counts *ret);
/* Any thread: how often tokens were refused, for each reason (a description of an answer). */
typedef void (*auth_refusal_fn)(void *user, const char *why, uint64_t count);
void counters_each_refusal(struct counters *const *head, auth_refusal_fn fn, void *user);

/* -------------------------------------------------------------------------------------------------
 * How tokens are to be verified: options as they are given, checked and copied into settings that
 * never change afterwards.
 */

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

struct auth_files;
struct jwks;

struct verifier {
    struct auth_settings settings;
    struct shared_map *shared;
    unsigned generation; /* atomic */
};

/* `v` is zeroed. After a failure too there is something to deinit. */
int verifier_init(struct verifier *v, const struct auth_options *options,
                  struct tidings_error *err);
void verifier_deinit(struct verifier *v);

/* Any thread: they are in effect from now on. Fails only for want of memory, when there was nothing
 * before. */
int verifier_put_files(struct verifier *v, const struct auth_files *files);
/* Any thread: the keys of an issuer, in the place of those before; the caller's reference stays the
 * caller's. TIDINGS_E_NOMEM when there were none and there is no room. */
int verifier_put_keys(struct verifier *v, struct jwks *keys);
void verifier_remove_keys(struct verifier *v, const struct issuer *issuer);

/* Any thread: how often something was put or removed. */
unsigned verifier_generation(const struct verifier *v);

/* What can be said of a well-formed token without waiting. `now_ms` is Unix time. */
void verifier_check(struct verifier *v, struct tidings_str token,
                    const unsigned char digest[SHA256_BYTES], int64_t now_ms, struct verdict *ret);
/* Any thread: see auth_proof_is_valid. */
bool verifier_proof_is_valid(const struct verifier *v, uint64_t proof);

#endif
