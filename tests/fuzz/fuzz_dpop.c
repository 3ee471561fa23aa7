/* SPDX-License-Identifier: MIT
 *
 * Untrusted key proofs: a valid signature cannot be guessed, so none is accepted; and the fields
 * read before the signature check stay within their limits.
 */
#include <stdlib.h>

#include "formats/json.h"
#include "security/dpop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dpop *d;
    struct tidings_str s = tidings_strn((const char *)data, size);
    struct dpop_request r = {
        .proof = s, .method = STR("POST"), .path = STR("/mcp"), .token = STR("the-token")};
    struct dpop_proof proof;
    struct json *claims = NULL;
    char key[DPOP_KEY_TEXT];
    if (!d && dpop_create(&d, STR("https://host"), STR("/mcp"), DPOP_NONCE, NULL) < 0) {
        return 0;
    }
    require(dpop_check(d, &r, INT64_C(1800000000000), &proof) != NULL);
    require(proof.key[0] == '\0');
    /* The same as claims, and as a header's key, without the base64 around them. */
    if (size <= DPOP_PROOF_MAX && jv_parse(s, 16, &claims, NULL) == 0) {
        const char *why = dpop_read_binding(claims, key);
        require(why ? key[0] == '\0' : key[0] == '\0' || strlen(key) == DPOP_KEY_TEXT - 1);
        jv_unref(claims);
    }
    return 0;
}
