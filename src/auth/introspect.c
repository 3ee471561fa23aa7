/* SPDX-License-Identifier: MIT
 *
 * Asking the authorization server about one token, and reading what it says of it.
 */
#include "auth/introspect.h"

#include "auth/credentials.h"
#include "base/clock.h"
#include "base/log.h"
#include "json/json.h"

#define DEPTH_MAX 16u

/* ---- reading --------------------------------------------------------------------------------- */

static const struct verdict unavailable = {
    .outcome = AUTH_UNAVAILABLE,
    .why = "the authorization server cannot be asked at the moment",
};

static bool introspect_is_trusted(const struct auth_settings *s, struct tidings_str issuer)
{
    return s->issuer_count == 0 || auth_settings_find_issuer(s, issuer) != NULL;
}

/* Some servers say so of a refresh token, which is active too. */
static bool introspect_is_access_token(const struct json *use)
{
    return !use || str_eq(jv_str(use), STR("access_token")) || str_eq(jv_str(use), STR("access"));
}

static const char *read_active(const struct auth_settings *s, const struct json *root,
                               int64_t now_ms, struct identity **ret)
{
    const struct json *issuer = jv_get(root, "iss");
    struct claims_rules rules = auth_settings_rules(s, false);
    struct claims claims;
    if (issuer && !introspect_is_trusted(s, jv_str(issuer))) {
        return "the issuer of the token is not trusted here";
    }
    if (!introspect_is_access_token(jv_get(root, "token_use"))) {
        return "the token is no access token";
    }
    const char *why = claims_check(root, &rules, now_ms, &claims);
    if (why) {
        return why;
    }
    struct tidings_str prefix = s->issuer_count < 2 ? STR_EMPTY
                                : issuer            ? jv_str(issuer)
                                                    : tidings_str(s->introspection);
    if (!identity_fits(prefix, claims.name)) {
        return "the name in the token is too long";
    }
    *ret = identity_create(prefix, claims.name, &claims.scopes, claims.expires_ms,
                           AUTH_BY_INTROSPECTION);
    if (*ret) {
        memcpy((*ret)->is.key, claims.key, sizeof(claims.key));
    }
    return NULL;
}

void introspect_read(const struct auth_settings *s, struct tidings_str body, int64_t now_ms,
                     struct verdict *ret)
{
    struct json *root = NULL;
    *ret = unavailable;
    if (jv_parse(body, DEPTH_MAX, &root, NULL) < 0) {
        return;
    }
    const struct json *active = jv_get(root, "active");
    if (jv_is(active, JV_FALSE)) {
        *ret = (struct verdict){.outcome = AUTH_INVALID, .why = "the token is not active"};
    } else if (jv_is_true(active)) {
        struct identity *i = NULL;
        const char *why = read_active(s, root, now_ms, &i);
        if (why) {
            *ret = (struct verdict){.outcome = AUTH_INVALID, .why = why};
        } else if (i) {
            i->until_ms = now_ms + INTROSPECT_REMEMBER_MS;
            *ret = (struct verdict){.outcome = AUTH_OK, .identity = i};
        }
    }
    jv_unref(root);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Said when it begins and when it is over, not for every request. */
static void introspect_note(struct introspector *i, bool failed, long status, const char *why)
{
    const char *url = i->verifier->settings.introspection;
    bool before = i->is_failing;
    i->is_failing = failed;
    if (failed) {
        fetch_queue_count(&fetch_queue_counts(i->queue)->failures);
    }
    if (failed && !before) {
        log_warn(LOG_AUTH, "tokens cannot be introspected", KV("url", url), KV("status", status),
                 KV("reason", why));
    } else if (!failed && before) {
        log_info(LOG_AUTH, "tokens can be introspected again", KV("url", url));
    }
}

static void introspect_on_answer(void *user, long status, struct tidings_str body,
                                 const struct tidings_error *err)
{
    struct pending_token *p = user;
    p->verdict = unavailable;
    if (status == 200) {
        introspect_read(&p->introspector->verifier->settings, body, clock_wall_ms(), &p->verdict);
    }
    introspect_note(p->introspector, p->verdict.outcome == AUTH_UNAVAILABLE, status,
                    status == 0 ? err->text : "an answer with 'active' is expected");
    pending_token_return(p);
}

void introspect(struct introspector *i, struct pending_token *p)
{
    struct buf form;
    struct credentials *c = credentials_of(shared_map_find(i->verifier->shared, CREDENTIALS_KEY));
    buf_init_secret(&form, 4 * AUTH_TOKEN_MAX);
    buf_puts(&form, STR("token_type_hint=access_token&token="));
    credentials_put_encoded(&form, tidings_strn(p->token, p->token_len));
    const struct queued_request request = {
        .url = i->verifier->settings.introspection,
        .authorization = c ? credentials_header(c) : NULL,
        .form = buf_str(&form),
    };
    p->introspector = i;
    fetch_queue_count(&fetch_queue_counts(i->queue)->introspections);
    if (form.failed || fetch_queue_add(i->queue, &request, introspect_on_answer, p) < 0) {
        p->verdict = unavailable;
        pending_token_return(p);
    }
    buf_deinit(&form);
    shared_value_unref(c ? credentials_value(c) : NULL);
}
