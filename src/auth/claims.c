/* SPDX-License-Identifier: MIT
 *
 * Checking the claims of a token one by one. Whatever has a wrong type is refused, not passed over:
 * a claim that cannot be understood cannot be obeyed.
 */
#include "auth/claims.h"

#include "base/str.h"

#define SECONDS_MAX (1LL << 43) /* so that milliseconds, and a leeway more, fit */
#define AUDIENCES_MAX 64u       /* in one token */

/* RFC 7519 §2 NumericDate: seconds, perhaps with a fraction. False: no such number. */
static bool read_date(const struct json *v, int64_t *ret_ms)
{
    if (jv_is(v, JV_INT)) {
        int64_t seconds = jv_int(v);
        if (seconds < 0 || seconds > SECONDS_MAX) {
            return false;
        }
        *ret_ms = seconds * 1000;
        return true;
    }
    double seconds = jv_is(v, JV_REAL) ? jv_real(v) : -1;
    if (!(seconds >= 0 && seconds <= (double)SECONDS_MAX)) {
        return false;
    }
    *ret_ms = (int64_t)(seconds * 1000);
    return true;
}

static const char *check_time(const struct json *claims, const struct claims_rules *rules,
                              int64_t now_ms, int64_t *ret_expires_ms)
{
    const struct json *exp = jv_get(claims, "exp"), *nbf = jv_get(claims, "nbf");
    const struct json *iat = jv_get(claims, "iat");
    int64_t at = 0;
    if (!exp && rules->needs_expiry) {
        return "the token has no expiry";
    }
    *ret_expires_ms = 0;
    if (exp) {
        if (!read_date(exp, &at)) {
            return "the expiry of the token is no date";
        }
        *ret_expires_ms = at + rules->leeway_ms;
        if (*ret_expires_ms <= now_ms) {
            return "the token has expired";
        }
    }
    if (nbf && (!read_date(nbf, &at) || at > now_ms + rules->leeway_ms)) {
        return "the token is not valid yet";
    }
    if (iat && (!read_date(iat, &at) || at > now_ms + rules->leeway_ms)) {
        return "the token was issued in the future";
    }
    return NULL;
}

_Static_assert(AUTH_KEY_TEXT == DPOP_KEY_TEXT, "an identity has room for the name of a key");

static bool claims_is_ours(const struct json *audience, const struct claims_rules *rules)
{
    for (size_t i = 0; jv_is(audience, JV_STRING) && i < rules->audience_count; i++) {
        if (str_eq(jv_str(audience), tidings_str(rules->audiences[i]))) {
            return true;
        }
    }
    return false;
}

static const char *check_audience(const struct json *claims, const struct claims_rules *rules)
{
    const struct json *aud = jv_get(claims, "aud");
    bool found = claims_is_ours(aud, rules);
    if (jv_is(aud, JV_ARRAY) && jv_count(aud) <= AUDIENCES_MAX) {
        for (size_t i = 0; i < jv_count(aud) && !found; i++) {
            found = claims_is_ours(jv_at(aud, i), rules);
        }
    }
    return found ? NULL : "the token is for another audience";
}

/* A text with blanks (RFC 8693 §4.2, RFC 7662), or an array of texts as some servers have it. */
static bool claims_gather_scopes(const struct json *v, struct scope_list *scopes)
{
    if (!v || jv_is(v, JV_STRING)) {
        return scope_list_add_all(scopes, jv_str(v));
    }
    bool ok = jv_is(v, JV_ARRAY);
    for (size_t i = 0; i < jv_count(v) && ok; i++) {
        ok = scope_list_add(scopes, jv_str(jv_at(v, i)));
    }
    return ok;
}

const char *claims_check(const struct json *claims, const struct claims_rules *rules,
                         int64_t now_ms, struct claims *ret)
{
    const struct json *subject = jv_get(claims, "sub");
    *ret = (struct claims){.expires_ms = 0};
    const char *why = check_time(claims, rules, now_ms, &ret->expires_ms);
    if (!why) {
        why = check_audience(claims, rules);
    }
    if (why) {
        return why;
    }
    if ((why = dpop_read_binding(claims, ret->key)) != NULL) {
        return why;
    }
    ret->name = jv_str(subject ? subject : jv_get(claims, "client_id"));
    if (!identity_is_name(ret->name, AUTH_NAME_MAX)) {
        return "the token names nobody";
    }
    if (!claims_gather_scopes(jv_get(claims, "scope"), &ret->scopes) ||
        !claims_gather_scopes(jv_get(claims, "scp"), &ret->scopes)) {
        return "the scopes of the token are malformed or too many";
    }
    return NULL;
}
