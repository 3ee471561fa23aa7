/* SPDX-License-Identifier: MIT
 *
 * From a bearer token to an identity: who sent it, what it may be used for, until when.
 *
 * Three kinds of tokens are understood, as far as they are configured, and looked at in this order:
 *
 *     a line of the file of tokens      found by its hash                  security/token_file.h
 *     a JWT of a known issuer           signature, claims                  security/jwt.h,
 * security/jwt.h anything else                     the authorization server is asked
 * security/remote_auth.h
 *
 * There is one `struct auth` per server: what tokens are verified with (security/verifier.h), and
 * the thread that fetches (security/remote_auth.h). Each worker asks a cache of its own
 * (security/token_cache.h).
 *
 * Nothing here knows of HTTP statuses, of rules or of principals: who asks translates.
 */
#ifndef SECURITY_AUTH_H
#define SECURITY_AUTH_H

#include "security/remote_auth.h"
#include "security/token_cache.h"
#include "security/verifier.h"

/* -------------------------------------------------------------------------------------------------
 * The files that settings name (tokens, key sets, credentials), loaded beside what is in effect, so
 * that a mistake in one of them changes nothing.
 */

struct auth_files {
    struct token_file *tokens;           /* NULL: none configured */
    struct jwks *jwks[AUTH_ISSUERS_MAX]; /* NULL: not from a file */
    struct credentials *credentials;
};

/* TIDINGS_E_PARSE with "FILE:LINE: …", and what reading a file fails with. */
int auth_files_load(const struct auth_settings *s, struct auth_files **ret,
                    struct tidings_error *err);
void auth_files_destroy(struct auth_files *files); /* NULL is fine */

struct auth;

/* Reads the files. TIDINGS_E_INVALID, TIDINGS_E_PARSE with "FILE:LINE: …", TIDINGS_E_UNSUPPORTED
 * when keys are needed and OpenSSL cannot be loaded. */
int auth_open(struct auth **ret, const struct auth_options *options, struct tidings_error *err);
/* Begin to fetch, when there is a URL to fetch from, on a thread of its own; without one: nothing.
 * Until then, and as long as no keys have come, tokens that need them are UNAVAILABLE. Failures to
 * fetch are no failures here; they are logged and tried again. TIDINGS_E_UNSUPPORTED: libcurl
 * cannot be loaded. */
int auth_start(struct auth *a, struct tidings_error *err);
/* Stops the thread. No cache may be left. NULL is fine. */
void auth_close(struct auth *a);

/* One for each worker; see token_cache_create. */
struct token_cache *auth_create_cache(struct auth *a, struct mailbox *mailbox,
                                      auth_release_fn release, struct tidings_error *err);

/* The files once more: load without touching what is in effect, then put (any thread). Whatever was
 * remembered of tokens is forgotten with it, in every cache. Keys of URLs are fetched again. */
int auth_load_files(const struct auth *a, struct auth_files **ret, struct tidings_error *err);
void auth_put_files(struct auth *a, struct auth_files *take);

/* Any thread: is the key still among those of its issuer? What cannot be fetched is not withdrawn:
 * only a set that has come says so. 0 stands always. */
bool auth_proof_is_valid(const struct auth *a, uint64_t proof);

/* Any thread: of all caches, those that are gone too. */
void auth_get_counts(const struct auth *a, struct auth_counts *ret);
/* Any thread: how often tokens were refused, for each reason (a description of an answer). */
void auth_each_refusal(const struct auth *a, auth_refusal_fn fn, void *user);
void auth_get_fetches(const struct auth *a, struct auth_fetches *ret); /* any thread */

#endif
