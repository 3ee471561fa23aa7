/* SPDX-License-Identifier: MIT
 *
 * The names of the algorithms, with and without OpenSSL.
 */
#include "base/signature.h"

bool signature_find_algorithm(struct tidings_str name, enum signature_algorithm *ret)
{
    static const char *const names[] = {
        [SIGNATURE_RS256] = "RS256", [SIGNATURE_RS384] = "RS384", [SIGNATURE_RS512] = "RS512",
        [SIGNATURE_PS256] = "PS256", [SIGNATURE_PS384] = "PS384", [SIGNATURE_PS512] = "PS512",
        [SIGNATURE_ES256] = "ES256", [SIGNATURE_ES384] = "ES384", [SIGNATURE_EDDSA] = "EdDSA",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (tidings_str_eq(name, tidings_str(names[i]))) {
            *ret = (enum signature_algorithm)i;
            return true;
        }
    }
    return false;
}
