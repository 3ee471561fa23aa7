/* SPDX-License-Identifier: MIT
 *
 * JSON Web Tokens (RFC 7519) as access tokens, in the compact form of a signed one (RFC 7515), with
 * the advice of RFC 8725: the algorithm is one of our list and never `none` or one with a shared
 * secret, what the header says about where keys are is not looked at, extensions that must be
 * understood (`crit`) are refused, and so is a type other than `JWT` and `at+jwt` (RFC 9068).
 */
#ifndef AUTH_JWT_H
#define AUTH_JWT_H

#include "base/signature.h"
#include "base/str.h"
#include "json/json.h"

struct jwt {
    enum signature_algorithm algorithm;
    struct tidings_str kid;    /* NULL pointer: none; in `header` */
    struct tidings_str issuer; /* as claimed; in `claims` */
    struct tidings_str bytes;  /* what is signed: borrowed from the token */
    struct buf signature;
    struct json *header, *claims;
};

/* Three parts with dots between them? */
bool jwt_is_likely(struct tidings_str token);

/* NULL: *ret is filled; nothing in it is verified yet. Otherwise a static sentence, and nothing to
 * release. Borrows `token`. */
const char *jwt_parse(struct jwt *ret, struct tidings_str token);
/* The same for one of another type than an access token: that is its `typ`, exactly. */
const char *jwt_parse_as(struct jwt *ret, struct tidings_str token, const char *type);
void jwt_deinit(struct jwt *t);

#endif
