/* SPDX-License-Identifier: MIT
 *
 * The step that gets the token, by whatever grant; and what an identity provider and a revocation
 * endpoint are asked.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "oauth/encoded_form.h"
#include "oauth/flow_private.h"

#define FORM_MAX (128u << 10)
#define SLOWER_MS 5000u
#define SLOWEST_MS 60000u

/* ---- forms ----------------------------------------------------------------------------------- */

void flow_post_form(struct flow *f, const char *url, struct buf *form, flow_answer_fn fn)
{
    struct buf authorization, proof;
    buf_init_secret(&authorization, FORM_MAX);
    buf_init_secret(&proof, FORM_MAX);
    int rc = flow_put_client(f, form, &authorization);
    if (rc == 0 && f->key) {
        struct proof p = {.method = "POST", .url = url, .nonce = f->nonce};
        buf_puts(&proof, STR("DPoP: "));
        rc = proof_put(&proof, f->key, &p);
    }
    rc = rc < 0 ? rc : form->failed;
    if (rc < 0) {
        flow_failf(f, rc, "a request to the authorization server cannot be written: %s",
                   tidings_code_text(rc));
    } else {
        struct flow_request r = {
            .method = "POST",
            .url = url,
            .content_type = "application/x-www-form-urlencoded",
            .body = buf_str(form),
            .authorization = authorization.len > 0 ? authorization.ptr : NULL,
            .proof = proof.len > 0 ? proof.ptr : NULL,
        };
        flow_ask(f, &r, fn);
    }
    buf_deinit(&authorization);
    buf_deinit(&proof);
}

/* ---- the token ------------------------------------------------------------------------------- */

static char *flow_copy(const char *text)
{
    return text ? str_dup(tidings_str(text)) : NULL;
}

/* What was asked for and what was given, the token before filling gaps of a refresh. */
static int flow_make_token(struct flow *f, struct token_answer *a, struct token *t)
{
    struct buf pem;
    const char *refresh = f->kind == FLOW_REFRESH ? f->before.refresh : NULL;
    *t = (struct token){
        .resource = flow_copy(f->resource.resource ? f->resource.resource : f->server),
        .issuer = flow_copy(f->issuer.issuer),
        .token_endpoint = flow_copy(f->issuer.token_endpoint),
        .revocation_endpoint = flow_copy(f->issuer.revocation_endpoint),
        .client_id = flow_copy(f->client_id),
        .client_secret = flow_copy(f->client_secret),
        .client_auth = f->client_auth,
        .access = flow_copy(a->access),
        .refresh = flow_copy(a->refresh ? a->refresh : refresh),
        .expires_ms = a->expires_s >= 0 ? clock_wall_ms() + a->expires_s * 1000 : 0,
        .life_ms = a->expires_s > 0 ? a->expires_s * 1000 : a->expires_s == 0, /* short: known */
        .is_bound = a->is_bound,
    };
    scope_add(&f->scope, tidings_str(a->scope ? a->scope : ""));
    t->scope = str_dup(buf_str(&f->scope));
    buf_init_secret(&pem, 65536);
    int rc = a->is_bound ? private_key_put_pem(f->key, &pem) : 0;
    t->key = a->is_bound && rc == 0 ? buf_detach(&pem, NULL) : NULL;
    buf_deinit(&pem);
    bool is_whole = t->resource && t->issuer && t->token_endpoint && t->client_id && t->access &&
                    t->scope && (!a->is_bound || t->key);
    return is_whole ? 0 : TIDINGS_E_NOMEM;
}

/* True: it goes on. */
static bool flow_try_again(struct flow *f, const struct token_answer *a,
                           const struct flow_answer *answer)
{
    if (strcmp(a->error, "use_dpop_nonce") == 0 && f->key && answer->nonce[0] &&
        !f->is_nonce_tried) {
        f->is_nonce_tried = true;
        memcpy(f->nonce, answer->nonce, strlen(answer->nonce) + 1);
        flow_ask_token(f);
        return true;
    }
    bool is_slow = strcmp(a->error, "slow_down") == 0;
    if (f->device_code && (is_slow || strcmp(a->error, "authorization_pending") == 0)) {
        f->interval_ms += is_slow ? SLOWER_MS : 0;
        f->interval_ms = f->interval_ms < SLOWEST_MS ? f->interval_ms : SLOWEST_MS;
        f->is_nonce_tried = false;
        alarm_set(&f->next, f->interval_ms);
        return true;
    }
    return false;
}

/* Did the authorization server judge the refresh token (RFC 6749 §5.2), or is it something else
 * that answers there? Some send the error with 403. */
static bool flow_is_verdict(const struct token_answer *a, long status)
{
    return status == 200 || status == 400 || status == 401 ||
           strcmp(a->error, "invalid_grant") == 0 || strcmp(a->error, "invalid_client") == 0;
}

static void flow_on_token(struct flow *f, const struct flow_answer *answer)
{
    struct token_answer a = {0};
    struct token token = {0};
    struct tidings_error why = {0};
    int rc = token_answer_read(answer->status, answer->body, false, &a, &why);
    if (rc < 0 && flow_try_again(f, &a, answer)) {
        return;
    }
    if (f->kind == FLOW_REFRESH && rc == TIDINGS_E_DENIED && !flow_is_verdict(&a, answer->status)) {
        why.code = TIDINGS_E_BUSY; /* the token stays, for another time */
    }
    if (rc == 0 && a.is_bound && !f->key) {
        rc = tidings_fail(&why, TIDINGS_E_PARSE, "a token came that is bound to a key of nobody");
    }
    if (rc == 0 && f->key && !a.is_bound) {
        rc = tidings_fail(&why, TIDINGS_E_DENIED,
                          "the token is not bound to our key, as the server wants it");
    }
    if (rc == 0 && (rc = flow_make_token(f, &a, &token)) < 0) {
        tidings_fail(&why, rc, "out of memory");
    }
    token_answer_deinit(&a);
    if (rc < 0) {
        flow_fail(f, &why);
    } else {
        flow_succeed(f, &token);
    }
    token_deinit(&token);
}

static void flow_put_grant(const struct flow *f, struct buf *form)
{
    const struct oauth_settings *s = f->host.settings;
    const char *scope = f->scope.len > 0 ? f->scope.ptr : NULL;
    if (f->kind == FLOW_REFRESH) {
        encoded_form_put(form, "grant_type", "refresh_token");
        encoded_form_put(form, "refresh_token", f->before.refresh);
        return;
    }
    switch (s->grant) {
    case TIDINGS_OAUTH_CLIENT:
        encoded_form_put(form, "grant_type", "client_credentials");
        encoded_form_put(form, "scope", scope);
        break;
    case TIDINGS_OAUTH_ASSERTION:
    case TIDINGS_OAUTH_ENTERPRISE:
        encoded_form_put(form, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
        encoded_form_put(form, "assertion", f->assertion ? f->assertion : s->assertion);
        encoded_form_put(form, "scope", scope);
        break;
    case TIDINGS_OAUTH_DEVICE:
        encoded_form_put(form, "grant_type", "urn:ietf:params:oauth:grant-type:device_code");
        encoded_form_put(form, "device_code", f->device_code);
        break;
    case TIDINGS_OAUTH_CODE:
        encoded_form_put(form, "grant_type", "authorization_code");
        encoded_form_put(form, "code", f->code);
        encoded_form_put(form, "redirect_uri", f->redirect_uri);
        encoded_form_put(form, "code_verifier", f->verifier);
        break;
    }
}

bool flow_is_exchanging(const struct flow *f)
{
    return f->is_exchanging;
}

void flow_ask_token(struct flow *f)
{
    struct buf form;
    f->is_exchanging = f->kind == FLOW_REFRESH || f->host.settings->grant == TIDINGS_OAUTH_CODE;
    buf_init_secret(&form, FORM_MAX);
    flow_put_grant(f, &form);
    encoded_form_put(&form, "resource", f->resource.resource ? f->resource.resource : f->server);
    flow_post_form(f, f->issuer.token_endpoint, &form, flow_on_token);
    buf_deinit(&form);
}

/* ---- the identity provider ------------------------------------------------------------------- */

static void flow_on_assertion(struct flow *f, const struct flow_answer *answer)
{
    struct token_answer a = {0};
    struct tidings_error why = {0};
    int rc = token_answer_read(answer->status, answer->body, true, &a, &why);
    if (rc < 0) {
        error_wrap(&why, rc, "the identity provider");
        flow_fail(f, &why);
    } else {
        f->assertion = a.access;
        a.access = NULL;
        flow_ask_token(f);
    }
    token_answer_deinit(&a);
}

void flow_ask_assertion(struct flow *f)
{
    const struct oauth_settings *s = f->host.settings;
    struct buf form;
    buf_init_secret(&form, FORM_MAX);
    encoded_form_put(&form, "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
    encoded_form_put(&form, "requested_token_type", "urn:ietf:params:oauth:token-type:id-jag");
    encoded_form_put(&form, "audience", f->issuer.issuer);
    encoded_form_put(&form, "resource", f->resource.resource ? f->resource.resource : f->server);
    encoded_form_put(&form, "subject_token", s->id_token);
    encoded_form_put(&form, "subject_token_type", "urn:ietf:params:oauth:token-type:id_token");
    encoded_form_put(&form, "client_id", s->idp_client_id);
    encoded_form_put(&form, "scope", f->scope.len > 0 ? f->scope.ptr : NULL);
    struct flow_request r = {.method = "POST",
                             .url = s->idp_endpoint,
                             .content_type = "application/x-www-form-urlencoded",
                             .body = buf_str(&form)};
    if (form.failed) {
        flow_failf(f, form.failed, "the id token is too long");
    } else {
        flow_ask(f, &r, flow_on_assertion);
    }
    buf_deinit(&form);
}

/* ---- giving it back -------------------------------------------------------------------------- */

static void flow_on_revoked(struct flow *f, const struct flow_answer *answer)
{
    if (answer->status == 200) {
        flow_succeed(f, NULL);
    } else {
        flow_failf(f, TIDINGS_E_DENIED, "the authorization server revoked nothing (HTTP %ld)",
                   answer->status);
    }
}

void flow_revoke(struct flow *f)
{
    struct buf form;
    const struct token *t = &f->before;
    if (!t->revocation_endpoint) {
        flow_failf(f, TIDINGS_E_UNSUPPORTED, "the authorization server offers no revocation");
        return;
    }
    buf_init_secret(&form, FORM_MAX);
    encoded_form_put(&form, "token", t->refresh ? t->refresh : t->access);
    encoded_form_put(&form, "token_type_hint", t->refresh ? "refresh_token" : "access_token");
    flow_post_form(f, t->revocation_endpoint, &form, flow_on_revoked);
    buf_deinit(&form);
}
