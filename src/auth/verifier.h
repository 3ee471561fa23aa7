/* SPDX-License-Identifier: MIT
 *
 * What tokens are verified with: the settings, and the file of tokens, the key sets and the
 * credentials in effect; and verifying one token with them, without waiting.
 *
 * There is one for a server, and all its threads use it. Settings are frozen. What may change later
 * are immutable values in the shared map; whoever replaces one that may have made a token good
 * advances the generation, and caches that see another one forget what they remember.
 */
#ifndef AUTH_VERIFIER_H
#define AUTH_VERIFIER_H

#include "auth/settings.h"
#include "auth/verdict.h"
#include "base/shared_map.h"

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
