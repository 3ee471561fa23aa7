/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a key set: its keys verify only their own signatures.
 */
#include <stdlib.h>

#include "security/jwt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char forged[256];
    memset(forged, 0x11, sizeof(forged)); /* zeros would be valid for an Ed25519 key of low order */
    struct jwks *set = NULL;
    struct tidings_error err;
    if (jwks_parse(&set, STR("https://as"), tidings_strn((const char *)data, size), &err) == 0) {
        static const size_t lengths[] = {[SIGNATURE_RS256] = 256,
                                         [SIGNATURE_ES256] = 64,
                                         [SIGNATURE_ES384] = 96,
                                         [SIGNATURE_EDDSA] = 64};
        for (unsigned i = 0; i <= SIGNATURE_EDDSA; i++) {
            struct tidings_str sig = tidings_strn(forged, lengths[i]);
            uint64_t proof = 0;
            if (jwks_count(set) > JWKS_KEYS_MAX || jwks_has(set, 0) ||
                jwks_verify(set, STR("1"), (enum signature_algorithm)i, STR("x"), sig, &proof) ==
                    JWKS_GOOD) {
                abort();
            }
        }
        shared_value_unref(jwks_value(set));
    }
    return 0;
}
