/* SPDX-License-Identifier: MIT
 *
 * Life of a flow, and its HTTP requests: bounded in bytes and time, no redirects.
 */
#include "oauth/flow.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "oauth/document.h"
#include "oauth/flow_private.h"
#include "wire/bearer.h"

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
    alarm_deinit(&f->deadline);
    alarm_deinit(&f->next);
    loop_discard(f->host.loop, &f->discard, flow_free, f);
}

/* ---- its end --------------------------------------------------------------------------------- */

void flow_fail(struct flow *f, const struct tidings_error *why)
{
    struct tidings_error reason = *why;
    if (!f->is_over) {
        flow_cancel(f);
        f->done(f->user, NULL, &reason);
    }
}

void flow_failf(struct flow *f, int code, const char *format, ...)
{
    struct tidings_error why = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(why.text, sizeof(why.text), format, args);
    va_end(args);
    flow_fail(f, &why);
}

void flow_succeed(struct flow *f, struct token *token)
{
    if (!f->is_over) {
        flow_cancel(f);
        f->done(f->user, token, NULL);
    }
}

static void flow_on_deadline(void *user)
{
    flow_failf(user, TIDINGS_E_TIMEOUT, "nobody agreed in time: log in again");
}

/* ---- requests -------------------------------------------------------------------------------- */

static int flow_on_bytes(void *user, struct tidings_str bytes)
{
    struct flow *f = user;
    return buf_puts(&f->body, bytes);
}

/* Who stands in between, with a certificate of his own or a page of his own, says nothing of the
 * token that was to be renewed: that is not refused, only not renewed now. */
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

bool flow_may_ask(struct flow *f, const char *url)
{
    struct url server, next;
    bool may = url_read(tidings_str(f->server), &server) && url_read(tidings_str(url), &next) &&
               url_may_lead(&server, &next);
    if (!may) {
        flow_failf(f, TIDINGS_E_DENIED,
                   "only https is used for a login, http on this very machine by a server that is "
                   "there too: not '%.100s'",
                   url);
    }
    return may;
}

void flow_ask(struct flow *f, const struct flow_request *r, flow_answer_fn fn)
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
    /* A server names its own document; that of another would be about another. */
    bool is_own = url_read(c.metadata, &named) && url_read(tidings_str(f->server), &server) &&
                  url_is_same_origin(&named, &server);
    mem_free(f->metadata_url);
    f->metadata_url = is_own ? str_dup(c.metadata) : NULL;
}

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

static void flow_begin(void *user)
{
    struct flow *f = user;
    if (f->kind == FLOW_REVOKE) {
        flow_revoke(f);
    } else if (f->kind == FLOW_REFRESH) {
        flow_ask_token(f);
    } else {
        flow_discover(f);
    }
}

static void flow_begin_probe(void *user)
{
    flow_probe(user);
}

/* What a token before says, as if it had been found out. */
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
    f->deadline.fd = f->next.fd = -1;
    buf_init_secret(&f->body, DOCUMENT_MAX);
    buf_init(&f->wanted, SCOPE_MAX);
    buf_init(&f->scope, SCOPE_MAX);
    f->server = str_dup(tidings_str(order->server));
    int rc = f->server ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == 0) {
        flow_take_challenge(f, order->challenge);
        rc = order->before ? flow_take_before(f, order->before, err) : 0;
    }
    if (rc == 0) {
        rc = alarm_init(&f->deadline, host->loop, flow_on_deadline, f, err);
    }
    if (rc == 0) {
        rc = alarm_init(&f->next, host->loop, order->is_probing ? flow_begin_probe : flow_begin, f,
                        err);
    }
    if (rc < 0) {
        flow_cancel(f);
        return rc;
    }
    alarm_set(&f->next, 1); /* in a turn of its own */
    *ret = f;
    return 0;
}
