/* SPDX-License-Identifier: MIT
 *
 * Life of a flow, and its HTTP requests: bounded in bytes and time, no redirects.
 */
#include "client/oauth/flow.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/oauth/callback.h"
#include "client/oauth/documents.h"
#include "client/oauth/oauth.h"
#include "formats/http_fields.h"
#include "formats/url.h"

/* -------------------------------------------------------------------------------------------------
 * The state of a flow, and its steps.
 */

/* The response to a request. */
struct flow_answer {
    long status;
    struct tidings_str body;
    const char *challenge, *nonce;
};
typedef void (*flow_answer_fn)(struct flow *f, const struct flow_answer *answer);

struct flow {
    struct flow_host host;
    enum flow_kind kind;
    flow_done_fn done;
    void *user;
    char *server;
    bool is_over; /* reported; freed when no callback is on the stack */
    struct loop_discard discard;

    /* the request under way */
    struct fetch_transfer *transfer; /* NULL: none */
    struct buf body;
    flow_answer_fn on_answer;

    /* Known so far: */
    char *metadata_url;  /* named by the server; NULL: none */
    struct buf wanted;   /* scopes that the server named */
    bool wants_proof;    /* of a key (DPoP) */
    unsigned place;      /* index of the current address of a document */
    struct token before; /* `resource` NULL: none */
    struct resource_metadata resource;
    struct server_metadata issuer;
    struct buf scope; /* to be requested */
    char *client_id, *client_secret;
    unsigned client_auth;    /* enum client_auth */
    struct private_key *key; /* tokens are bound to it; NULL: they are not */
    char nonce[256];
    bool is_nonce_tried;

    /* a person */
    struct loop_timer deadline, next; /* the whole; the next question of a device */
    struct callback *callback;
    char state[RANDOM_TEXT_MAX], verifier[RANDOM_TEXT_MAX];
    char *redirect_uri, *code;
    char *device_code;
    uint64_t interval_ms;
    bool is_exchanging; /* the request uses up a code or a refresh token */
    char *assertion;    /* that an identity provider gave */
};

struct flow_request {
    const char *method, *url;
    struct tidings_str body;
    const char *content_type;          /* NULL: no body */
    const char *authorization, *proof; /* whole lines; NULL: none */
};

/* ---- the steps ------------------------------------------------------------------------------- */

/* ---------------------------------------------------------------------------------------------- */

#define FLOW_ANSWER_MS 20000u

static void flow_free(void *thing)
{
    struct flow *f = thing;
    mem_free(f->server);
    mem_free(f->metadata_url);
    buf_deinit(&f->body);
    buf_deinit(&f->wanted);
    buf_deinit(&f->scope);
    token_deinit(&f->before);
    resource_metadata_deinit(&f->resource);
    server_metadata_deinit(&f->issuer);
    mem_free(f->client_id);
    str_free_secret(f->client_secret);
    private_key_destroy(f->key);
    mem_free(f->redirect_uri);
    str_free_secret(f->code);
    str_free_secret(f->device_code);
    str_free_secret(f->assertion);
    explicit_bzero(f->verifier, sizeof(f->verifier));
    mem_free(f);
}

void flow_cancel(struct flow *f)
{
    if (!f || f->is_over) {
        return;
    }
    f->is_over = true;
    fetch_close(f->transfer);
    f->transfer = NULL;
    callback_close(f->callback);
    f->callback = NULL;
    loop_timer_stop(&f->deadline);
    loop_timer_stop(&f->next);
    loop_discard(f->host.loop, &f->discard, flow_free, f);
}

/* ---- its end --------------------------------------------------------------------------------- */

static void flow_fail(struct flow *f, const struct tidings_error *why)
{
    struct tidings_error reason = *why;
    if (!f->is_over) {
        flow_cancel(f);
        f->done(f->user, NULL, &reason);
    }
}

/* It is over. */
static void flow_failf(struct flow *f, int code, const char *format, ...) TIDINGS_PRINTF(3, 4);
static void flow_failf(struct flow *f, int code, const char *format, ...)
{
    struct tidings_error why = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(why.text, sizeof(why.text), format, args);
    va_end(args);
    flow_fail(f, &why);
}

static void flow_succeed(struct flow *f, struct token *token)
{
    if (!f->is_over) {
        flow_cancel(f);
        f->done(f->user, token, NULL);
    }
}

static void flow_on_deadline(struct loop_timer *timer, void *user)
{
    (void)timer;
    flow_failf(user, TIDINGS_E_TIMEOUT, "login timed out; log in again");
}

/* ---- requests -------------------------------------------------------------------------------- */

static int flow_on_bytes(void *user, struct tidings_str bytes)
{
    struct flow *f = user;
    return buf_puts(&f->body, bytes);
}

/* A gateway between client and server, with its own certificate or page, proves nothing about the
 * token: its renewal did not fail for good, only now. */
static int flow_code(const struct flow *f, int code)
{
    return f->kind == FLOW_REFRESH && code == TIDINGS_E_DENIED ? TIDINGS_E_IO : code;
}

static void flow_on_change(void *user)
{
    struct flow *f = user;
    const struct fetch_status *s = fetch_status(f->transfer);
    if (!s->finished || f->is_over) {
        return;
    }
    struct tidings_error why = s->error;
    if (f->body.failed == TIDINGS_E_LIMIT) {
        tidings_fail(&why, TIDINGS_E_LIMIT,
                     "an answer of the authorization is larger than %u bytes", DOCUMENT_MAX);
    }
    struct flow_answer answer = {.status = s->status, .challenge = s->challenge, .nonce = s->nonce};
    struct fetch_transfer *transfer = f->transfer;
    struct buf body = f->body;
    flow_answer_fn fn = f->on_answer;
    f->transfer = NULL;
    buf_init_secret(&f->body, DOCUMENT_MAX);
    answer.body = buf_str(&body);
    why.code = flow_code(f, why.code);
    if (why.code < 0) {
        flow_fail(f, &why);
    } else if (s->status >= 300 && s->status < 400) {
        flow_failf(f, flow_code(f, TIDINGS_E_DENIED),
                   "an address of the authorization leads elsewhere (HTTP %ld): redirects are not "
                   "followed",
                   s->status);
    } else {
        fn(f, &answer);
    }
    buf_deinit(&body);
    fetch_close(transfer);
}

/* Returns true if the server may lead the client there. Otherwise the flow is over. */
static bool flow_may_ask(struct flow *f, const char *url)
{
    struct url server, next;
    bool may = url_read(tidings_str(f->server), &server) && url_read(tidings_str(url), &next) &&
               url_may_lead(&server, &next);
    if (!may) {
        flow_failf(f, TIDINGS_E_DENIED,
                   "a login needs https, or http between programs on this machine; not '%.100s'",
                   url);
    }
    return may;
}

/* Sends it; the answer, or the failure of the flow, follows. */
static void flow_ask(struct flow *f, const struct flow_request *r, flow_answer_fn fn)
{
    struct tidings_error why = {0};
    char type[64];
    size_t n = 0;
    struct fetch_request q = {
        .method = r->method,
        .url = r->url,
        .ca_file = f->host.settings->ca_file,
        .body = r->body,
        .timeout_ms = FLOW_ANSWER_MS,
        .is_secret = true,
        .on_bytes = flow_on_bytes,
        .on_change = flow_on_change,
        .user = f,
    };
    if (!flow_may_ask(f, r->url)) {
        return;
    }
    q.headers[n++] = "Accept: application/json";
    q.headers[n++] = "Expect:";
    if (r->content_type) {
        snprintf(type, sizeof(type), "Content-Type: %s", r->content_type);
        q.headers[n++] = type;
    }
    if (r->authorization) {
        q.headers[n++] = r->authorization;
    }
    if (r->proof) {
        q.headers[n++] = r->proof;
    }
    f->on_answer = fn;
    buf_clear(&f->body);
    if (fetch_start(f->host.fetch, &q, &f->transfer, &why) < 0) {
        flow_fail(f, &why);
    }
}

/* ---- its beginning --------------------------------------------------------------------------- */

static void flow_take_challenge(struct flow *f, struct tidings_str field)
{
    struct bearer_challenge c;
    struct url named, server;
    f->wants_proof =
        !bearer_read_scheme(field, STR("Bearer"), &c) && bearer_read_scheme(field, STR("DPoP"), &c);
    buf_clear(&f->wanted);
    scope_add(&f->wanted, c.scope);
    /* A server may only name its own document, because another one would describe another
     * server. */
    bool is_own = url_read(c.metadata, &named) && url_read(tidings_str(f->server), &server) &&
                  url_is_same_origin(&named, &server);
    mem_free(f->metadata_url);
    f->metadata_url = is_own ? str_dup(c.metadata) : NULL;
}

static void flow_discover(struct flow *f);

static void flow_on_probe(struct flow *f, const struct flow_answer *answer)
{
    if (answer->status == 401 || answer->status == 403) {
        flow_take_challenge(f, tidings_str(answer->challenge));
    }
    flow_discover(f);
}

static void flow_probe(struct flow *f)
{
    static const char body[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
    struct flow_request r = {
        .method = "POST",
        .url = f->server,
        .content_type = "application/json",
        .body = {body, sizeof(body) - 1},
    };
    flow_ask(f, &r, flow_on_probe);
}

static void flow_ask_token(struct flow *f);

static void flow_revoke(struct flow *f);

static void flow_begin(struct loop_timer *timer, void *user)
{
    struct flow *f = user;
    (void)timer;
    if (f->kind == FLOW_REVOKE) {
        flow_revoke(f);
    } else if (f->kind == FLOW_REFRESH) {
        flow_ask_token(f);
    } else {
        flow_discover(f);
    }
}

static void flow_begin_probe(struct loop_timer *timer, void *user)
{
    (void)timer;
    flow_probe(user);
}

/* Takes over the facts in an earlier token, instead of discovering them. */
static int flow_take_before(struct flow *f, const struct token *t, struct tidings_error *err)
{
    int rc = token_copy(&f->before, t);
    if (rc == 0 && f->kind != FLOW_LOGIN) {
        f->client_id = str_dup(tidings_str(t->client_id));
        f->client_secret = t->client_secret ? str_dup(tidings_str(t->client_secret)) : NULL;
        f->client_auth = t->client_auth;
        f->issuer.token_endpoint = str_dup(tidings_str(t->token_endpoint));
        f->issuer.issuer = str_dup(tidings_str(t->issuer));
        f->resource.resource = str_dup(tidings_str(t->resource));
        f->issuer.revocation_endpoint =
            t->revocation_endpoint ? str_dup(tidings_str(t->revocation_endpoint)) : NULL;
        scope_add(&f->scope, tidings_str(t->scope));
        rc =
            !f->client_id || !f->issuer.token_endpoint || !f->issuer.issuer || !f->resource.resource
                ? TIDINGS_E_NOMEM
                : 0;
    }
    if (rc == 0 && f->kind != FLOW_LOGIN && t->key) {
        return private_key_read(&f->key, tidings_str(t->key), err);
    }
    return rc < 0 ? tidings_fail(err, rc, "out of memory") : 0;
}

int flow_start(struct flow **ret, const struct flow_host *host, const struct flow_order *order,
               flow_done_fn done, void *user, struct tidings_error *err)
{
    struct flow *f = mem_zalloc(sizeof(*f));
    if (!f) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *f = (struct flow){.host = *host, .kind = order->kind, .done = done, .user = user};
    loop_timer_init(&f->deadline, host->loop, flow_on_deadline, f);
    loop_timer_init(&f->next, host->loop, order->is_probing ? flow_begin_probe : flow_begin, f);
    buf_init_secret(&f->body, DOCUMENT_MAX);
    buf_init(&f->wanted, SCOPE_MAX);
    buf_init(&f->scope, SCOPE_MAX);
    f->server = str_dup(tidings_str(order->server));
    int rc = f->server ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == 0) {
        flow_take_challenge(f, order->challenge);
        rc = order->before ? flow_take_before(f, order->before, err) : 0;
    }
    if (rc < 0) {
        flow_cancel(f);
        return rc;
    }
    loop_timer_start(&f->next, 1, 0); /* in a separate turn */
    *ret = f;
    return 0;
}

/* -------------------------------------------------------------------------------------------------
 * The step that finds out which authorization server issues tokens for a server: reads the metadata
 * of the resource, then that of its authorization server, each at one of a few addresses. A server
 * without metadata is its own authorization server, as in revision 2025-03-26.
 */

static void flow_ask_resource(struct flow *f);
static void flow_ask_server(struct flow *f);

/* No document at that address, which is not a failure. */
static bool flow_is_missing(long status)
{
    return status >= 400 && status < 500 && status != 429;
}

static void flow_get(struct flow *f, const char *url, flow_answer_fn fn)
{
    struct flow_request r = {.method = "GET", .url = url};
    flow_ask(f, &r, fn);
}

/* The document at an address made of `url`; `is_root`: that of the whole host. */
static void flow_get_well_known(struct flow *f, const char *url, const char *name, bool is_behind,
                                bool is_root, flow_answer_fn fn)
{
    struct buf address;
    struct url u;
    buf_init(&address, 2 * URL_MAX);
    if (!url_read(tidings_str(url), &u)) {
        flow_failf(f, TIDINGS_E_INVALID, "'%.120s' is not an http address", url);
        return;
    }
    if (is_root) {
        u.path = u.query = STR_EMPTY;
    }
    if (url_put_well_known(&address, &u, name, is_behind) < 0) {
        flow_failf(f, TIDINGS_E_LIMIT, "the address of a document is too long");
    } else {
        flow_get(f, address.ptr, fn);
    }
    buf_deinit(&address);
}

static bool flow_has_path(const char *url)
{
    struct url u;
    return url_read(tidings_str(url), &u) && u.path.len > 1;
}

static void flow_discovered(struct flow *f);

/* ---- the authorization server ---------------------------------------------------------------- */

static void flow_on_server(struct flow *f, const struct flow_answer *answer)
{
    struct tidings_error why = {0};
    if (answer->status == 200) {
        int rc = server_metadata_read(answer->body, f->resource.issuer, &f->issuer, &why);
        if (rc < 0) {
            flow_fail(f, &why);
        } else {
            flow_discovered(f);
        }
    } else if (flow_is_missing(answer->status)) {
        f->place++;
        flow_ask_server(f);
    } else {
        flow_failf(f, TIDINGS_E_BUSY, "the authorization server cannot answer now (HTTP %ld)",
                   answer->status);
    }
}

static void flow_guess_server(struct flow *f)
{
    struct tidings_error why = {0};
    if (f->resource.resource) {
        flow_failf(f, TIDINGS_E_NOTFOUND,
                   "the authorization server '%.120s' has no metadata; ask its operator",
                   f->resource.issuer);
    } else if (server_metadata_guess(tidings_str(f->resource.issuer), &f->issuer, &why) < 0) {
        flow_fail(f, &why);
    } else {
        flow_discovered(f);
    }
}

static void flow_ask_server(struct flow *f)
{
    static const struct {
        const char *name;
        bool is_behind;
    } places[] = {
        {"oauth-authorization-server", false},
        {"openid-configuration", false},
        {"openid-configuration", true}, /* the same without a path */
    };
    unsigned count = flow_has_path(f->resource.issuer) ? 3 : 2;
    if (f->place < count) {
        flow_get_well_known(f, f->resource.issuer, places[f->place].name,
                            places[f->place].is_behind, false, flow_on_server);
    } else {
        flow_guess_server(f);
    }
}

/* ---- the resource ---------------------------------------------------------------------------- */

static void flow_on_resource(struct flow *f, const struct flow_answer *answer)
{
    struct tidings_error why = {0};
    struct issuer_choice choice = {f->host.settings->issuer, f->before.issuer};
    if (answer->status == 200) {
        int rc = resource_metadata_read(answer->body, f->server, &choice, &f->resource, &why);
        if (rc < 0) {
            flow_fail(f, &why);
            return;
        }
        f->wants_proof = f->wants_proof || f->resource.wants_proof;
        f->place = 0;
        flow_ask_server(f);
    } else if (flow_is_missing(answer->status)) {
        f->place++;
        flow_ask_resource(f);
    } else {
        flow_failf(f, TIDINGS_E_BUSY, "the server cannot say now who gives tokens (HTTP %ld)",
                   answer->status);
    }
}

/* Without any: the server's own host. */
static void flow_guess_resource(struct flow *f)
{
    struct url u;
    if (!url_read(tidings_str(f->server), &u) || !(f->resource.issuer = str_dup(u.origin))) {
        flow_failf(f, TIDINGS_E_NOMEM, "out of memory");
        return;
    }
    f->place = 0;
    flow_ask_server(f);
}

static void flow_ask_resource(struct flow *f)
{
    static const char name[] = "oauth-protected-resource";
    /* The one that was named, the one of the path, the one of the host. */
    unsigned place = f->place + (f->metadata_url ? 0 : 1);
    if (place == 0) {
        flow_get(f, f->metadata_url, flow_on_resource);
    } else if (place == 1) {
        flow_get_well_known(f, f->server, name, false, false, flow_on_resource);
    } else if (place == 2 && flow_has_path(f->server)) {
        flow_get_well_known(f, f->server, name, false, true, flow_on_resource);
    } else {
        flow_guess_resource(f);
    }
}

/* Flow_discover.c: resource, server */
static void flow_discover(struct flow *f)
{
    f->place = 0;
    flow_ask_resource(f);
}

/* -------------------------------------------------------------------------------------------------
 * The steps in which a person agrees: in a browser on this machine, or anywhere with a code
 * (RFC 8628).
 */

#define INTERVAL_MS 5000u
#define INTERVAL_MAX_MS 60000u
#define EXPIRES_MAX_S 3600

static const char *flow_scope(const struct flow *f)
{
    return f->scope.len > 0 ? f->scope.ptr : NULL;
}

/* ---- a browser ------------------------------------------------------------------------------- */

static void flow_put_address(struct flow *f, struct buf *out)
{
    struct buf challenge;
    const char *endpoint = f->issuer.authorization_endpoint;
    const char *scope = flow_scope(f);
    bool is_offline = scope && scope_has(tidings_str(scope), STR("offline_access"));
    buf_init(&challenge, 64);
    pkce_put_challenge(&challenge, f->verifier);
    buf_puts(out, tidings_str(endpoint));
    if (!strchr(endpoint, '?')) {
        buf_putc(out, '?');
    }
    encoded_form_put(out, "response_type", "code");
    encoded_form_put(out, "client_id", f->client_id);
    encoded_form_put(out, "redirect_uri", f->redirect_uri);
    encoded_form_put(out, "state", f->state);
    encoded_form_put(out, "code_challenge", challenge.ptr);
    encoded_form_put(out, "code_challenge_method", "S256");
    encoded_form_put(out, "resource", f->resource.resource ? f->resource.resource : f->server);
    encoded_form_put(out, "scope", scope);
    encoded_form_put(out, "prompt", is_offline ? "consent" : NULL); /* OpenID Connect Core §11 */
    buf_deinit(&challenge);
}

static void flow_ask_person(struct flow *f)
{
    const struct oauth_settings *s = f->host.settings;
    struct buf address;
    if (!flow_may_ask(f, f->issuer.authorization_endpoint)) {
        return;
    }
    buf_init(&address, 65536);
    flow_put_address(f, &address);
    loop_timer_start(&f->deadline, s->login_ms, 0);
    int rc = address.failed ? address.failed : s->on_open(s->user, address.ptr);
    buf_deinit(&address);
    if (rc != 0) {
        flow_failf(f, rc < 0 ? rc : TIDINGS_E_DENIED, "the address of the login cannot be shown");
    }
}

/* ---- another device -------------------------------------------------------------------------- */

static uint64_t flow_interval(const struct json *document)
{
    int64_t seconds = jv_int(jv_get(document, "interval"));
    uint64_t ms = seconds > 0 && seconds < INT32_MAX ? (uint64_t)seconds * 1000 : INTERVAL_MS;
    return ms < INTERVAL_MAX_MS ? ms : INTERVAL_MAX_MS;
}

static void flow_on_next(struct loop_timer *timer, void *user)
{
    (void)timer;
    flow_ask_token(user);
}

static void flow_show_code(struct flow *f, const struct json *document)
{
    const struct oauth_settings *s = f->host.settings;
    char *url = NULL, *code = NULL;
    struct tidings_error why = {0};
    int64_t expires = jv_int(jv_get(document, "expires_in"));
    uint64_t limit =
        expires > 0 && expires < EXPIRES_MAX_S ? (uint64_t)expires * 1000 : s->login_ms;
    int rc = document_url(document, "verification_uri", &url, &why);
    if (rc == 0) {
        rc = document_text(document, "user_code", 64, &code, &why);
    }
    if (rc == 0) {
        rc = document_text(document, "device_code", TOKEN_TEXT_MAX, &f->device_code, &why);
    }
    if (rc == 0 && (!url || !code || !f->device_code)) {
        rc = tidings_fail(&why, TIDINGS_E_PARSE,
                          "the authorization server gave no code for a device");
    }
    if (rc == 0 && s->on_device(s->user, url, code) != 0) {
        rc = tidings_fail(&why, TIDINGS_E_DENIED, "the code of the login cannot be shown");
    }
    mem_free(url);
    mem_free(code);
    if (rc < 0) {
        flow_fail(f, &why);
        return;
    }
    f->interval_ms = flow_interval(document);
    loop_timer_init(&f->next, f->host.loop, flow_on_next, f);
    loop_timer_start(&f->deadline, limit < s->login_ms ? limit : s->login_ms, 0);
    loop_timer_start(&f->next, f->interval_ms, 0);
}

static void flow_on_device(struct flow *f, const struct flow_answer *answer)
{
    struct json *root = NULL;
    struct tidings_error why = {0};
    char shown[120];
    int rc = document_read(answer->body, "the answer for a device", &root, &why);
    if (answer->status != 200) {
        flow_failf(f, TIDINGS_E_DENIED,
                   "the authorization server gives no code for a device (HTTP %ld, %s)",
                   answer->status,
                   document_shown(jv_str(jv_get(root, "error")), shown, sizeof(shown)));
    } else if (rc < 0) {
        flow_fail(f, &why);
    } else {
        flow_show_code(f, root);
    }
    jv_unref_secret(root);
}

static void flow_post_form(struct flow *f, const char *url, struct buf *form, flow_answer_fn fn);

static void flow_ask_device(struct flow *f)
{
    struct buf form;
    if (!f->host.settings->on_device) {
        flow_failf(f, TIDINGS_E_DENIED, "a login needs a user: run 'tidings login' first");
        return;
    }
    buf_init(&form, 65536);
    encoded_form_put(&form, "scope", flow_scope(f));
    encoded_form_put(&form, "resource", f->resource.resource ? f->resource.resource : f->server);
    flow_post_form(f, f->issuer.device_endpoint, &form, flow_on_device);
    buf_deinit(&form);
}

static void flow_ask_assertion(struct flow *f);

/* ---- by the grant ---------------------------------------------------------------------------- */

static void flow_identified(struct flow *f)
{
    switch (f->host.settings->grant) {
    case TIDINGS_OAUTH_CODE:
        flow_ask_person(f);
        break;
    case TIDINGS_OAUTH_DEVICE:
        flow_ask_device(f);
        break;
    case TIDINGS_OAUTH_ENTERPRISE:
        flow_ask_assertion(f);
        break;
    case TIDINGS_OAUTH_CLIENT:
    case TIDINGS_OAUTH_ASSERTION:
        flow_ask_token(f);
        break;
    }
}

/* -------------------------------------------------------------------------------------------------
 * The step that decides the client's identity at the authorization server, and the requested
 * scopes: a configured id, the URL of a document, or a registration. Ids belong to one issuer.
 */

/* ---- showing it ------------------------------------------------------------------------------ */

/* The authentication method for this secret or key that the server supports. */
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

/* Adds the client's identity to the form, or as a header line: `authorization` stays empty
 * otherwise. */
static int flow_put_client(struct flow *f, struct buf *form, struct buf *authorization)
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

/* Chooses the scopes: the person's wish, or those that the server named, or all that it knows; and
 * those of the previous token, and the one that permits renewal. */
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

/* Returns false when out of memory, after ending the flow. */
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

/* The secret belongs to one issuer; if the server names another now, the client must not send the
 * secret there. */
static bool flow_has_moved(const struct flow *f)
{
    const struct oauth_settings *s = f->host.settings;
    const struct token *t = &f->before;
    return s->client_id && (s->client_secret || s->assertion) && !s->issuer && t->issuer &&
           strcmp(t->client_id, s->client_id) == 0 && strcmp(t->issuer, f->issuer.issuer) != 0;
}

/* Fails early if the authorization server lacks a needed feature. */
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

/* The issuer has issued tokens to this client before, so its id is still known there. */
static bool flow_was_known(const struct flow *f)
{
    const struct token *t = &f->before;
    return t->issuer && strcmp(t->issuer, f->issuer.issuer) == 0 &&
           t->client_auth != CLIENT_AUTH_KEY;
}

/* The listener must be open before its address is registered. */
static bool flow_open_callback(struct flow *f);

/* Flow_client.c: the client's identity there; register */
static void flow_discovered(struct flow *f)
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
                   "'%.120s' does not register clients; get a client id from its operator",
                   f->issuer.issuer);
    }
}

/* ---- the listener ---------------------------------------------------------------------------- */

/* RFC 9207: the issuer of the answer must be exactly the expected one. */
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
    loop_timer_stop(&f->deadline);
    flow_ask_token(f);
}

static bool flow_open_callback(struct flow *f)
{
    struct tidings_error why = {0};
    const struct oauth_settings *s = f->host.settings;
    int rc = s->on_open ? 0
                        : tidings_fail(&why, TIDINGS_E_DENIED,
                                       "a login needs a user: run 'tidings login' first");
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

/* -------------------------------------------------------------------------------------------------
 * The step that gets the token, by any grant; and the requests to an identity provider and a
 * revocation endpoint.
 */

#define FORM_MAX (128u << 10)
#define SLOWER_MS 5000u
#define SLOWEST_MS 60000u

/* ---- forms ----------------------------------------------------------------------------------- */

static void flow_post_form(struct flow *f, const char *url, struct buf *form, flow_answer_fn fn)
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

/* Makes the token from the request and the answer; a refresh takes missing members from the
 * previous token. */
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

/* Returns true if the flow continues. */
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
        loop_timer_start(&f->next, f->interval_ms, 0);
        return true;
    }
    return false;
}

/* Returns true if the authorization server judged the refresh token (RFC 6749 §5.2), false if the
 * answer came from another system. Some servers send the error with 403. */
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
        rc = tidings_fail(&why, TIDINGS_E_PARSE,
                          "the server issued a token bound to an unknown key");
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

/* By the grant, or the refresh token */
static void flow_ask_token(struct flow *f)
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

/* Requests an assertion from the identity provider. */
static void flow_ask_assertion(struct flow *f)
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

/* By the grant */
static void flow_revoke(struct flow *f)
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
