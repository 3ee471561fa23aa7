/* SPDX-License-Identifier: MIT
 *
 * The step that settles who we are at the authorization server, and which scopes are asked for: an
 * id that was given, the URL of a document, or a registration. Ids belong to one issuer.
 */
#include "base/error.h"
#include "base/mem.h"
#include "oauth/document.h"
#include "oauth/encoded_form.h"
#include "oauth/flow_private.h"
#include "oauth/registration.h"

/* ---- showing it ------------------------------------------------------------------------------ */

/* Which of the ways that the server knows a client with this secret or key shows itself. */
static unsigned flow_choose_auth(const struct flow *f, bool has_secret)
{
    unsigned known = f->issuer.auth_methods;
    if (f->host.settings->client_key && f->host.settings->client_id) {
        return CLIENT_AUTH_KEY;
    }
    if (!has_secret) {
        return CLIENT_AUTH_NONE;
    }
    return known == 0 || known & CLIENT_AUTH_BASIC ? CLIENT_AUTH_BASIC
           : known & CLIENT_AUTH_POST              ? CLIENT_AUTH_POST
                                                   : CLIENT_AUTH_NONE;
}

/* RFC 6749 §2.3.1: both are encoded as in forms first. */
static int flow_put_basic(const struct flow *f, struct buf *authorization)
{
    struct buf pair;
    buf_init_secret(&pair, 8 * TOKEN_TEXT_MAX);
    encoded_form_put_value(&pair, tidings_str(f->client_id));
    buf_putc(&pair, ':');
    encoded_form_put_value(&pair, tidings_str(f->client_secret ? f->client_secret : ""));
    buf_puts(authorization, STR("Authorization: Basic "));
    int rc = pair.failed ? pair.failed : base64_put(authorization, buf_str(&pair));
    buf_deinit(&pair);
    return rc;
}

static int flow_put_assertion(const struct flow *f, struct buf *form)
{
    struct buf jwt;
    buf_init_secret(&jwt, TOKEN_TEXT_MAX);
    int rc = assertion_put(&jwt, f->host.settings->client_key, f->client_id, f->issuer.issuer);
    if (rc == 0) {
        encoded_form_put(form, "client_assertion_type",
                         "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        encoded_form_put(form, "client_assertion", jwt.ptr);
    }
    buf_deinit(&jwt);
    return rc;
}

int flow_put_client(struct flow *f, struct buf *form, struct buf *authorization)
{
    switch (f->client_auth) {
    case CLIENT_AUTH_BASIC:
        return flow_put_basic(f, authorization);
    case CLIENT_AUTH_KEY:
        encoded_form_put(form, "client_id", f->client_id);
        return f->host.settings->client_key ? flow_put_assertion(f, form) : TIDINGS_E_INVALID;
    case CLIENT_AUTH_POST:
        encoded_form_put(form, "client_id", f->client_id);
        encoded_form_put(form, "client_secret", f->client_secret);
        return form->failed;
    default:
        encoded_form_put(form, "client_id", f->client_id);
        return form->failed;
    }
}

/* ---- settling it ----------------------------------------------------------------------------- */

/* What is asked for: the person's wish, or what the server named, or all that it knows; and what
 * the token before had, and that it can be renewed. */
static void flow_choose_scope(struct flow *f)
{
    const struct oauth_settings *s = f->host.settings;
    const char *all = f->resource.scopes;
    buf_clear(&f->scope);
    struct tidings_str before =
        tidings_str(f->before.scope && f->wanted.len > 0 ? f->before.scope : "");
    while (before.len > 0) {
        struct tidings_str word = str_cut(before, ' ', &before, NULL);
        scope_add(&f->scope, str_eq(word, STR("offline_access")) ? STR_EMPTY : word);
    }
    if (s->scope) {
        scope_add(&f->scope, tidings_str(s->scope));
    }
    if (!s->scope || f->before.scope) {
        scope_add(&f->scope, buf_str(&f->wanted));
    }
    if (!s->scope && f->wanted.len == 0 && all) {
        scope_add(&f->scope, tidings_str(all));
    }
    bool is_offered =
        f->issuer.scopes && scope_has(tidings_str(f->issuer.scopes), STR("offline_access"));
    if (is_offered && oauth_settings_ask_person(s)) {
        scope_add(&f->scope, STR("offline_access"));
    }
}

/* False: out of memory, and told. */
static bool flow_take_client(struct flow *f, const char *id, const char *secret, unsigned auth)
{
    mem_free(f->client_id);
    str_free_secret(f->client_secret);
    f->client_id = str_dup(tidings_str(id));
    f->client_secret = secret ? str_dup(tidings_str(secret)) : NULL;
    f->client_auth = auth ? auth : flow_choose_auth(f, secret != NULL);
    if (!f->client_id || (secret && !f->client_secret)) {
        flow_failf(f, TIDINGS_E_NOMEM, "out of memory");
        return false;
    }
    return true;
}

static void flow_on_registered(struct flow *f, const struct flow_answer *answer)
{
    struct tidings_error why = {0};
    struct registration r = {0};
    if (registration_read(answer->status, answer->body, &r, &why) < 0) {
        flow_fail(f, &why);
        return;
    }
    unsigned said = r.method & ~(unsigned)CLIENT_AUTH_KEY;
    if (flow_take_client(f, r.client_id, r.client_secret, said)) {
        flow_identified(f);
    }
    registration_deinit(&r);
}

static void flow_register(struct flow *f)
{
    bool is_device = f->host.settings->grant == TIDINGS_OAUTH_DEVICE;
    unsigned known = f->issuer.auth_methods;
    struct registration_request q = {
        .client_name = f->host.settings->client_name,
        .redirect_uri = f->redirect_uri,
        .method = known & CLIENT_AUTH_NONE                  ? CLIENT_AUTH_NONE
                  : known == 0 || known & CLIENT_AUTH_BASIC ? CLIENT_AUTH_BASIC
                                                            : CLIENT_AUTH_POST,
        .grant = is_device ? "urn:ietf:params:oauth:grant-type:device_code" : "authorization_code",
    };
    struct buf body;
    buf_init(&body, 65536);
    registration_put(&body, &q);
    struct flow_request r = {.method = "POST",
                             .url = f->issuer.registration_endpoint,
                             .content_type = "application/json",
                             .body = buf_str(&body)};
    if (body.failed) {
        flow_failf(f, body.failed, "the registration is too long");
    } else {
        flow_ask(f, &r, flow_on_registered);
    }
    buf_deinit(&body);
}

/* A secret was given at one issuer; a server that names another since must not have it brought
 * there. */
static bool flow_has_moved(const struct flow *f)
{
    const struct oauth_settings *s = f->host.settings;
    const struct token *t = &f->before;
    return s->client_id && (s->client_secret || s->assertion) && !s->issuer && t->issuer &&
           strcmp(t->client_id, s->client_id) == 0 && strcmp(t->issuer, f->issuer.issuer) != 0;
}

/* Before anything is sent to an authorization server that cannot help. */
static bool flow_is_possible(struct flow *f)
{
    const struct oauth_settings *s = f->host.settings;
    const char *issuer = f->issuer.issuer;
    bool is_code = s->grant == TIDINGS_OAUTH_CODE;
    if (s->issuer && strcmp(s->issuer, issuer) != 0) {
        flow_failf(f, TIDINGS_E_DENIED,
                   "the server wants tokens of '%.100s', and the client id is for '%.100s': it is "
                   "not shown there",
                   issuer, s->issuer);
    } else if (flow_has_moved(f)) {
        flow_failf(f, TIDINGS_E_DENIED,
                   "the server wants tokens of '%.90s' now, and the client's secret was shown to "
                   "'%.90s': it is not shown there; log out first if that is meant",
                   issuer, f->before.issuer);
    } else if (is_code && !f->issuer.authorization_endpoint) {
        flow_failf(f, TIDINGS_E_UNSUPPORTED, "'%.120s' has no authorization endpoint", issuer);
    } else if (is_code && !f->issuer.has_s256) {
        flow_failf(f, TIDINGS_E_UNSUPPORTED,
                   "'%.120s' does not say that it knows PKCE with S256, without which a login can "
                   "be stolen: it is not used",
                   issuer);
    } else if (s->grant == TIDINGS_OAUTH_DEVICE && !f->issuer.device_endpoint) {
        flow_failf(f, TIDINGS_E_UNSUPPORTED,
                   "'%.120s' offers no login with a code on another device", issuer);
    } else if (f->wants_proof && !f->issuer.takes_proofs) {
        flow_failf(f, TIDINGS_E_UNSUPPORTED,
                   "the server wants tokens that are bound to a key, '%.120s' gives none for ES256",
                   issuer);
    } else {
        return true;
    }
    return false;
}

static bool flow_make_key(struct flow *f)
{
    struct tidings_error why = {0};
    if (f->wants_proof && private_key_generate(&f->key, &why) < 0) {
        flow_fail(f, &why);
        return false;
    }
    return true;
}

/* It has given us tokens: whoever got us an id then did so once. */
static bool flow_was_known(const struct flow *f)
{
    const struct token *t = &f->before;
    return t->issuer && strcmp(t->issuer, f->issuer.issuer) == 0 &&
           t->client_auth != CLIENT_AUTH_KEY;
}

/* The listener must be there before its address is registered. */
static bool flow_open_callback(struct flow *f);

void flow_discovered(struct flow *f)
{
    const struct oauth_settings *s = f->host.settings;
    if (!flow_is_possible(f) || !flow_make_key(f)) {
        return;
    }
    flow_choose_scope(f);
    if (s->grant == TIDINGS_OAUTH_CODE && !flow_open_callback(f)) {
        return;
    }
    if (s->client_id) {
        if (flow_take_client(f, s->client_id, s->client_secret, 0)) {
            flow_identified(f);
        }
    } else if (s->client_url && f->issuer.takes_client_urls) {
        if (flow_take_client(f, s->client_url, NULL, CLIENT_AUTH_NONE)) {
            flow_identified(f);
        }
    } else if (f->issuer.registration_endpoint) {
        flow_register(f);
    } else if (flow_was_known(f)) {
        const struct token *t = &f->before;
        if (flow_take_client(f, t->client_id, t->client_secret, t->client_auth)) {
            flow_identified(f);
        }
    } else {
        flow_failf(f, TIDINGS_E_UNSUPPORTED,
                   "'%.120s' registers no clients by itself: get a client id from whoever runs it",
                   f->issuer.issuer);
    }
}

/* ---- the listener ---------------------------------------------------------------------------- */

/* RFC 9207: whoever answers must be whom we asked, to the letter. */
static bool flow_is_from_issuer(const struct flow *f, const struct callback_answer *a)
{
    return a->has_issuer ? str_eq(buf_str(&a->issuer), tidings_str(f->issuer.issuer))
                         : !f->issuer.sends_issuer;
}

static void flow_on_callback(void *user, const struct callback_answer *a)
{
    struct flow *f = user;
    char code[64], why[160];
    if (!flow_is_from_issuer(f, a)) {
        flow_failf(
            f, TIDINGS_E_DENIED,
            "the answer in the browser is not from '%.120s', which was asked: it is not used",
            f->issuer.issuer);
        return;
    }
    if (a->code.len == 0) {
        flow_failf(f, TIDINGS_E_DENIED, "the authorization server says no (%s%s%s)",
                   document_shown(buf_str(&a->error), code, sizeof(code)),
                   a->description.len > 0 ? ": " : "",
                   document_shown(buf_str(&a->description), why, sizeof(why)));
        return;
    }
    f->code = str_dup(buf_str(&a->code));
    alarm_set(&f->deadline, 0);
    flow_ask_token(f);
}

static bool flow_open_callback(struct flow *f)
{
    struct tidings_error why = {0};
    const struct oauth_settings *s = f->host.settings;
    int rc = s->on_open
                 ? 0
                 : tidings_fail(&why, TIDINGS_E_DENIED, "nobody is there to log in: log in first");
    rc = rc == 0 && (random_text(f->state) < 0 || random_text(f->verifier) < 0)
             ? tidings_fail(&why, TIDINGS_E_IO, "there is no randomness")
             : rc;
    if (rc == 0) {
        rc = callback_open(&f->callback, f->host.loop, s->redirect_port, f->state, flow_on_callback,
                           f, &why);
    }
    if (rc == 0 && !(f->redirect_uri = str_dup(tidings_str(callback_url(f->callback))))) {
        rc = tidings_fail(&why, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc < 0) {
        flow_fail(f, &why);
    }
    return rc == 0;
}
