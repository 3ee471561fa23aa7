/* SPDX-License-Identifier: MIT
 *
 * In place of signature.c in a build without OpenSSL: no key can be made, so nothing verifies.
 */
#include "base/signature.h"

int signature_load(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                        "signatures cannot be verified: OpenSSL was left out of this build");
}

int public_key_rsa(struct public_key **ret, struct tidings_str n, struct tidings_str e,
                   struct tidings_error *err)
{
    (void)ret;
    (void)n;
    (void)e;
    return signature_load(err);
}

int public_key_ec(struct public_key **ret, struct tidings_str curve, struct tidings_str x,
                  struct tidings_str y, struct tidings_error *err)
{
    (void)ret;
    (void)curve;
    (void)x;
    (void)y;
    return signature_load(err);
}

int public_key_ed25519(struct public_key **ret, struct tidings_str x, struct tidings_error *err)
{
    (void)ret;
    (void)x;
    return signature_load(err);
}

void public_key_destroy(struct public_key *key)
{
    (void)key;
}

bool public_key_fits(const struct public_key *key, enum signature_algorithm algorithm)
{
    (void)key;
    (void)algorithm;
    return false;
}

bool signature_is_good(const struct public_key *key, enum signature_algorithm algorithm,
                       struct tidings_str bytes, struct tidings_str signature)
{
    (void)key;
    (void)algorithm;
    (void)bytes;
    (void)signature;
    return false;
}
