/* SPDX-License-Identifier: MIT
 *
 * From a bearer token to an identity: who sent it, what it may be used for, until when.
 *
 * Three kinds of tokens are understood, as far as they are configured, and looked at in this order:
 *
 *     a line of the file of tokens      found by its hash                  auth/token_file.h
 *     a JWT of a known issuer           signature, claims                  auth/jwt.h, auth/jwks.h
 *     anything else                     the authorization server is asked  auth/introspect.h
 *
 * There is one `struct auth` per server: the settings, the keys and the hashes in effect, and the
 * thread that fetches. Each worker asks at a *desk* of its own, which remembers what it verified,
 * so that a request whose token was seen before costs one hash and no signature. Nothing is shared
 * between desks but what stands in a shared map (base/shared_map.h).
 *
 *     struct auth_answer answer;
 *     struct auth_question *question;
 *     if (auth_ask(desk, token, &answer, &question, on_answer, user)) {
 *         ... answer is there ...
 *     } else {
 *         ... on_answer(user, &answer) follows on this loop, unless auth_cancel(question) ...
 *     }
 *
 * Nothing here knows of HTTP statuses, of rules or of principals: who asks translates.
 */
#ifndef AUTH_AUTH_H
#define AUTH_AUTH_H

#include "base/mailbox.h"

#include <tidings/types.h>

#define AUTH_TOKEN_MAX 8192u /* bytes of a token; a longer one is malformed */
#define AUTH_NAME_MAX 255u   /* bytes of a name; a longer one makes its token invalid */
#define AUTH_SCOPES_MAX 64u  /* of one token, each of at most AUTH_SCOPE_MAX bytes, … */
#define AUTH_SCOPE_MAX 255u
#define AUTH_SCOPE_BYTES 2048u /* … and their bytes together */
#define AUTH_ISSUERS_MAX 8u
#define AUTH_AUDIENCES_MAX 8u
/* Tokens but those of the file; then the one not used for the longest time is forgotten. */
#define AUTH_DESK_REMEMBERS 4096u
#define AUTH_DESK_WAITING 256u /* questions; then UNAVAILABLE */

/* ---- settings -------------------------------------------------------------------------------- */

struct auth_issuer {
    const char *issuer; /* exactly as it stands in `iss` */
    /* Where its keys are: a file, a URL, or NULL: as the issuer's own metadata says (RFC 8414,
     * OpenID Connect Discovery). */
    const char *jwks;
};

/* Texts are copied. URLs must be https, or http to this very machine. */
struct auth_settings {
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

struct auth;

/* Reads the files. TIDINGS_E_INVALID, TIDINGS_E_PARSE with "FILE:LINE: …", TIDINGS_E_UNSUPPORTED
 * when keys are needed and OpenSSL, or URLs are and libcurl, cannot be loaded. */
int auth_open(struct auth **ret, const struct auth_settings *settings, struct tidings_error *err);
/* Begin to fetch, when there is a URL to fetch from, on a thread of its own; without one: nothing.
 * Until then, and as long as no keys have come, tokens that need them are UNAVAILABLE. Failures to
 * fetch are no failures here; they are logged and tried again. */
int auth_start(struct auth *a, struct tidings_error *err);
/* Stops the thread. No desk may be left. NULL is fine. */
void auth_close(struct auth *a);

/* Is there anything to verify tokens with? */
bool auth_is_configured(const struct auth_settings *settings);

/* ---- the files again ------------------------------------------------------------------------- */

/* Load without touching what is in effect, then put: for server/reload.c. Whatever was remembered
 * of tokens is forgotten with it, at every desk. Keys of URLs are fetched again. */
struct auth_files;
int auth_files_load(const struct auth *a, struct auth_files **ret, struct tidings_error *err);
void auth_files_put(struct auth *a, struct auth_files *take); /* any thread */
void auth_files_destroy(struct auth_files *files);            /* NULL is fine */

/* ---- asking ---------------------------------------------------------------------------------- */

enum auth_outcome {
    AUTH_OK,
    AUTH_MALFORMED,   /* not of the form of a token at all (RFC 6750: invalid_request) */
    AUTH_INVALID,     /* expired, forged, for somebody else, unknown (invalid_token) */
    AUTH_UNAVAILABLE, /* cannot be found out now; ask again later */
};

enum auth_kind { AUTH_BY_FILE, AUTH_BY_JWT, AUTH_BY_INTROSPECTION };

struct auth_identity {
    /* `sub`, else `client_id`; of a file, the name there. UTF-8 without control characters, never
     * empty. With more than one issuer: the issuer, a blank, and that. */
    struct tidings_str name;
    const struct tidings_str *scopes; /* in the order of the token */
    size_t scope_count;
    int64_t expires_ms; /* Unix time from which it is not good any more, leeway included; 0: none */
    enum auth_kind kind;
    /* What it was verified with may be withdrawn (auth_stands); 0: nothing of that kind. */
    uint64_t proof;
    /* The asker's own, NULL at first: what it made of this identity. Released with it (the desk
     * was told how), so that a token seen again costs no second making. */
    void *attached;
};

struct auth_answer {
    enum auth_outcome outcome;
    /* AUTH_OK: belongs to the desk, and is good until the next call to it. */
    struct auth_identity *identity;
    /* Otherwise: a sentence fit for error_description (RFC 6750 §3: ASCII without quotes and
     * backslashes, nothing of the token in it); static. */
    const char *description;
};

struct auth_desk;
struct auth_question; /* one that waits for its answer */

typedef void (*auth_release_fn)(void *attached);
typedef void (*auth_answer_fn)(void *user, const struct auth_answer *answer);

/* For the thread of `mailbox`, on which it is used and to which later answers come. `release` may
 * be NULL. NULL: out of memory. */
struct auth_desk *auth_desk_create(struct auth *a, struct mailbox *mailbox, auth_release_fn release,
                                   struct tidings_error *err);
/* Before the mailbox closes. Questions that wait are cancelled. NULL is fine. */
void auth_desk_destroy(struct auth_desk *d);

/* True: *answer is filled. False: it is not known yet; *question is set, and `fn` will be called
 * once with the answer, from the mailbox, never from inside this call. */
bool auth_ask(struct auth_desk *d, struct tidings_str token, struct auth_answer *answer,
              struct auth_question **question, auth_answer_fn fn, void *user);
/* `fn` will not be called. Not after it was. NULL is fine. */
void auth_cancel(struct auth_question *question);

/* Call it now and again (each second or so), never from inside an answer: `fn` is told what was
 * attached to identities of the file of tokens whose lines are gone, or say something else now.
 * What those had begun should end. */
typedef void (*auth_revoked_fn)(void *user, void *attached);
void auth_desk_review(struct auth_desk *d, auth_revoked_fn fn, void *user);
/* Has anything been loaded or fetched since the last review? Then also ask of every identity that
 * is still in use whether its proof stands. */
bool auth_desk_has_news(const struct auth_desk *d);
/* Any thread: is the key still among those of its issuer? What cannot be fetched is not withdrawn:
 * only a set that has come says so. 0 stands always. */
bool auth_stands(const struct auth *a, uint64_t proof);

/* ---- counters -------------------------------------------------------------------------------- */

struct auth_counts {
    uint64_t verified;   /* tokens looked at and found good */
    uint64_t remembered; /* known from before */
    uint64_t malformed, invalid, unavailable;
    uint64_t waiting; /* now */
};
const struct auth_counts *auth_desk_counts(const struct auth_desk *d); /* of that desk */

/* Any thread: of all desks, those that are gone too. */
void auth_get_counts(const struct auth *a, struct auth_counts *ret);
/* Any thread: how often tokens were refused, for each reason (a description of an answer). */
typedef void (*auth_refusal_fn)(void *user, const char *why, uint64_t count);
void auth_each_refusal(const struct auth *a, auth_refusal_fn fn, void *user);

struct auth_fetches {
    uint64_t keys, introspections, failures;
};
void auth_get_fetches(const struct auth *a, struct auth_fetches *ret); /* any thread */

#endif
