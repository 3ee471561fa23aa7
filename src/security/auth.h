/* SPDX-License-Identifier: MIT
 *
 * Authentication: turns a bearer token into an identity with name, scopes and expiry.
 *
 * Three kinds of tokens are supported if configured, and tried in this order:
 *
 *     a line of the token file     looked up by hash             security/token_file.h
 *     a JWT of a known issuer      signature and claims          security/jwt.h
 *     anything else                introspected by the server    security/remote_auth.h
 *
 * A server has one `struct auth`: the verifier (security/verifier.h) and the thread that sends HTTP
 * requests (security/remote_auth.h). Each worker has its own cache (security/token_cache.h).
 *
 * This module knows no HTTP statuses, rules or principals; the caller translates.
 */
#ifndef SECURITY_AUTH_H
#define SECURITY_AUTH_H

#include "security/remote_auth.h"
#include "security/token_cache.h"
#include "security/verifier.h"

/* -------------------------------------------------------------------------------------------------
 * The files named by the settings (tokens, key sets, credentials), loaded separately from those in
 * use, so that an error in one of them changes nothing.
 */

struct auth_files {
    struct token_file *tokens;           /* NULL: none configured */
    struct jwks *jwks[AUTH_ISSUERS_MAX]; /* NULL: not from a file */
    struct credentials *credentials;
};

/* TIDINGS_E_PARSE with "FILE:LINE: …", or the error of reading a file. */
int auth_files_load(const struct auth_settings *s, struct auth_files **ret,
                    struct tidings_error *err);
void auth_files_destroy(struct auth_files *files); /* NULL is fine */

struct auth;

/* Reads the files. TIDINGS_E_INVALID, TIDINGS_E_PARSE with "FILE:LINE: …", TIDINGS_E_UNSUPPORTED if
 * keys are needed and OpenSSL cannot be loaded. */
int auth_open(struct auth **ret, const struct auth_options *options, struct tidings_error *err);
/* Starts the thread that fetches from the configured URLs; does nothing if there are none. Until it
 * runs and keys have arrived, tokens that need them are UNAVAILABLE. Failed fetches are logged and
 * retried, not returned. TIDINGS_E_UNSUPPORTED: libcurl cannot be loaded. */
int auth_start(struct auth *a, struct tidings_error *err);
/* Stops the thread. All caches must have been destroyed. NULL is fine. */
void auth_close(struct auth *a);

/* One for each worker; see token_cache_create. */
struct token_cache *auth_create_cache(struct auth *a, struct mailbox *mailbox,
                                      auth_release_fn release, struct tidings_error *err);

/* Reloads the files: load without changing those in use, then put (any thread). Every cache then
 * forgets its tokens. Keys from URLs are fetched again. */
int auth_load_files(const struct auth *a, struct auth_files **ret, struct tidings_error *err);
void auth_put_files(struct auth *a, struct auth_files *take);

/* Any thread. Returns true if the key is still in the set of its issuer, or if `proof` is 0. A
 * failed fetch withdraws no key; only a newer set does. */
bool auth_proof_is_valid(const struct auth *a, uint64_t proof);

/* Any thread. Totals over all caches, including destroyed ones. */
void auth_get_counts(const struct auth *a, struct auth_counts *ret);
/* Any thread. Calls `fn` with the number of rejected tokens for each reason (a description of an
 * answer). */
void auth_each_refusal(const struct auth *a, auth_refusal_fn fn, void *user);
void auth_get_fetches(const struct auth *a, struct auth_fetches *ret); /* any thread */

#endif
