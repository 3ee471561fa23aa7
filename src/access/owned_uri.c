/* SPDX-License-Identifier: MIT
 *
 * Makes ids with a digest of the principal they belong to, and checks them.
 */
#include "access/owned_uri.h"

#include "access/principal.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "base/str.h"

#define RANDOM_BYTES 16u
#define RANDOM_DIGITS (2 * RANDOM_BYTES)
#define DIGEST_BYTES 8u
_Static_assert(OWNED_ID_LEN == RANDOM_DIGITS + 2 * DIGEST_BYTES, "both parts");

static void owned_put_hex(const unsigned char *bytes, size_t count, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

/* The digits behind the random ones. */
static void owned_put_digest(const char *random, const struct principal *p, char *out)
{
    struct sha256 s;
    unsigned char digest[SHA256_BYTES];
    const char by = p ? (char)('0' + p->kind) : 'p';
    sha256_init(&s);
    sha256_put(&s, random, RANDOM_DIGITS);
    sha256_put(&s, &by, 1);
    if (p && p->name.len > 0) {
        sha256_put(&s, p->name.ptr, p->name.len);
    }
    sha256_end(&s, digest);
    owned_put_hex(digest, DIGEST_BYTES, out);
}

int owned_id_create(const struct principal *p, char ret[OWNED_ID_LEN + 1])
{
    unsigned char random[RANDOM_BYTES];
    int rc = random_bytes(random, sizeof(random));
    if (rc < 0) {
        return rc;
    }
    owned_put_hex(random, RANDOM_BYTES, ret);
    owned_put_digest(ret, p, ret + RANDOM_DIGITS);
    ret[OWNED_ID_LEN] = '\0';
    return 0;
}

bool owned_id_is_of(struct tidings_str id, const struct principal *p)
{
    char digest[2 * DIGEST_BYTES];
    if (!p) {
        return true;
    }
    if (id.len != OWNED_ID_LEN) {
        return false;
    }
    owned_put_digest(id.ptr, p, digest);
    return memcmp(digest, id.ptr + RANDOM_DIGITS, sizeof(digest)) == 0;
}

bool owned_uri_is(struct tidings_str uri)
{
    return str_starts(uri, STR(OWNED_URI_PREFIX));
}

bool owned_uri_is_of(struct tidings_str uri, const struct principal *p)
{
    return owned_uri_is(uri) && owned_id_is_of(str_skip(uri, sizeof(OWNED_URI_PREFIX) - 1), p);
}
