/* SPDX-License-Identifier: MIT
 *
 * Reading a JWT, from text to parts. Base64url and JSON are read strictly (one spelling, no member
 * twice), so that nobody else can read another token out of the same bytes.
 */
#include "auth/jwt.h"

#include "auth/identity.h"
#include "auth/jwks.h"

#define DEPTH_MAX 16u

bool jwt_is_likely(struct tidings_str token)
{
    size_t dots = 0;
    for (size_t i = 0; i < token.len; i++) {
        dots += token.ptr[i] == '.';
    }
    return dots == 2;
}

/* An object in base64url, or NULL. */
static struct json *jwt_read_object(struct tidings_str part)
{
    struct buf text;
    struct json *v = NULL;
    buf_init(&text, AUTH_TOKEN_MAX);
    if (base64url_decode(&text, part) < 0 || jv_parse(buf_str(&text), DEPTH_MAX, &v, NULL) < 0) {
        v = NULL;
    }
    buf_deinit(&text);
    if (v && !jv_is(v, JV_OBJECT)) {
        jv_unref(v);
        v = NULL;
    }
    return v;
}

static bool jwt_is_access_token(const struct json *typ)
{
    static const char *const types[] = {"JWT", "at+jwt", "application/at+jwt"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (str_eq_nocase(jv_str(typ), tidings_str(types[i]))) {
            return true;
        }
    }
    return typ == NULL;
}

static const char *read_header(struct jwt *t, const char *type)
{
    const struct json *typ = jv_get(t->header, "typ");
    const struct json *kid = jv_get(t->header, "kid");
    if (!signature_find_algorithm(jv_str(jv_get(t->header, "alg")), &t->algorithm)) {
        return "the algorithm of the token is not accepted";
    }
    if (jv_get(t->header, "crit")) {
        return "the token needs an extension that is not known here";
    }
    if (type ? !str_eq(jv_str(typ), tidings_str(type)) : !jwt_is_access_token(typ)) {
        return "the token is no access token";
    }
    if (kid && (!jv_is(kid, JV_STRING) || jv_str(kid).len > JWKS_KID_MAX)) {
        return "the token names its key in no way that is known here";
    }
    t->kid = kid ? jv_str(kid) : (struct tidings_str){NULL, 0};
    return NULL;
}

const char *jwt_parse(struct jwt *ret, struct tidings_str token)
{
    return jwt_parse_as(ret, token, NULL);
}

const char *jwt_parse_as(struct jwt *ret, struct tidings_str token, const char *type)
{
    struct tidings_str rest, signature;
    struct tidings_str header = str_cut(token, '.', &rest, NULL);
    struct tidings_str claims = str_cut(rest, '.', &signature, NULL);
    const char *why = NULL;
    *ret = (struct jwt){.bytes = tidings_strn(token.ptr, header.len + 1 + claims.len)};
    buf_init(&ret->signature, AUTH_TOKEN_MAX);
    if (!jwt_is_likely(token) || token.len > AUTH_TOKEN_MAX) {
        why = "the token does not have the three parts of a JWT";
    } else if (!(ret->header = jwt_read_object(header)) ||
               !(ret->claims = jwt_read_object(claims)) ||
               base64url_decode(&ret->signature, signature) < 0) {
        why = "a part of the token cannot be read";
    } else {
        why = read_header(ret, type);
        ret->issuer = jv_str(jv_get(ret->claims, "iss"));
    }
    if (why) {
        jwt_deinit(ret);
    }
    return why;
}

void jwt_deinit(struct jwt *t)
{
    jv_unref(t->header);
    jv_unref(t->claims);
    buf_deinit(&t->signature);
    *t = (struct jwt){.header = NULL};
}
