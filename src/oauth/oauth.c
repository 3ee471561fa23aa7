/* SPDX-License-Identifier: MIT
 *
 * The credentials of <tidings/oauth.h>: what is shown, what follows from a refusal, and the calls
 * that wait.
 */
#include <tidings/oauth.h>

#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "oauth/assertion.h"
#include "oauth/document.h"
#include "oauth/oauth_private.h"
#include "oauth/scope.h"
#include "oauth/url.h"
#include "wire/bearer.h"

#define OAUTH_REFUSALS 3u /* of one request, before it is left */
#define OAUTH_LINE_MAX 65536u

/* ---- showing --------------------------------------------------------------------------------- */

const char *oauth_server(const char *server, const char *url)
{
    return server ? server : url;
}

static int oauth_show(void *user, const struct tidings_credentials_request *request,
                      tidings_credentials_put_fn put, void *to)
{
    struct tidings_oauth *o = user;
    const struct token *t =
        token_store_find(&o->store, oauth_server(request->server, request->url), NULL);
    struct private_key *key = NULL;
    struct buf line;
    if (!t) {
        return 0;
    }
    buf_init_secret(&line, OAUTH_LINE_MAX);
    buf_putf(&line, "Authorization: %s %s", t->is_bound ? "DPoP" : "Bearer", t->access);
    int rc = line.failed ? line.failed : put(to, line.ptr);
    if (rc == 0 && t->is_bound) {
        struct proof p = {
            .method = request->method, .url = request->url, .token = t->access, .nonce = o->nonce};
        buf_clear(&line);
        buf_puts(&line, STR("DPoP: "));
        rc = private_key_read(&key, tidings_str(t->key), NULL);
        rc = rc == 0 ? proof_put(&line, key, &p) : rc;
        rc = rc == 0 ? put(to, line.ptr) : rc;
    }
    if (rc == 0) {
        oauth_early_shown(o, oauth_server(request->server, request->url), t);
    }
    private_key_destroy(key);
    buf_deinit(&line);
    return rc;
}

/* ---- a refusal ------------------------------------------------------------------------------- */

/* "Authorization: Bearer TOKEN" */
static struct tidings_str oauth_token_of(struct tidings_str line)
{
    struct tidings_str rest;
    (void)str_cut(line, ' ', &rest, NULL);
    (void)str_cut(rest, ' ', &rest, NULL);
    return rest;
}

/* 403: what the token lacks can be asked for, unless it has been; or there is another one already.
 */
static int oauth_check_step_up(struct tidings_oauth *o,
                               const struct tidings_credentials_refusal *refusal,
                               const struct bearer_challenge *c, struct tidings_error *err)
{
    const struct token *t =
        token_store_find(&o->store, oauth_server(refusal->server, refusal->url), NULL);
    bool is_scope = str_eq(c->error, STR("insufficient_scope"));
    bool is_another = t && !str_eq(oauth_token_of(refusal->shown), tidings_str(t->access));
    bool is_more = is_scope && c->scope.len > 0 && t &&
                   (is_another || !scope_has(tidings_str(t->scope), c->scope));
    return is_more ? 0 : bearer_refused(refusal->status, refusal->challenge, err);
}

/* May anything else be tried? */
static int oauth_judge(struct tidings_oauth *o, const struct tidings_credentials_refusal *refusal,
                       const struct bearer_challenge *c, struct tidings_error *err)
{
    bool is_useless = refusal->attempt >= OAUTH_REFUSALS ||
                      (refusal->status == 401 && refusal->attempt > 0 && o->was_login);
    if (refusal->status == 403) {
        return refusal->attempt < OAUTH_REFUSALS
                   ? oauth_check_step_up(o, refusal, c, err)
                   : bearer_refused(refusal->status, refusal->challenge, err);
    }
    return is_useless ? bearer_refused(refusal->status, refusal->challenge, err) : 0;
}

static int oauth_refused(void *user, const struct tidings_credentials_refusal *refusal,
                         tidings_credentials_done_fn done, void *to, struct tidings_error *err)
{
    struct tidings_oauth *o = user;
    struct bearer_challenge c;
    bool is_read = bearer_read_scheme(refusal->challenge, STR("DPoP"), &c);
    if (is_read && str_eq(c.error, STR("use_dpop_nonce")) && refusal->nonce.len > 0 &&
        refusal->nonce.len < sizeof(o->nonce) && refusal->attempt < OAUTH_REFUSALS &&
        !str_eq(refusal->nonce, tidings_str(o->nonce))) {
        memcpy(o->nonce, refusal->nonce.ptr, refusal->nonce.len);
        o->nonce[refusal->nonce.len] = '\0';
        return 0;
    }
    if (!is_read || c.error.len == 0) {
        (void)bearer_read_challenge(refusal->challenge, &c);
    }
    int rc = oauth_judge(o, refusal, &c, err);
    if (rc < 0) {
        return rc;
    }
    struct oauth_wish wish = {
        .server = oauth_server(refusal->server, refusal->url),
        .challenge = refusal->challenge,
        .shown = oauth_token_of(refusal->shown),
        .need = refusal->status == 401 ? OAUTH_RENEW : OAUTH_STEP_UP,
    };
    rc = oauth_obtain(o, &wish, err);
    if (rc == 0 && !oauth_wait(o, done, to)) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return rc < 0 ? rc : 1;
}

/* Does anybody wait for what is under way? Those who are only being told do not. */
static bool oauth_is_awaited(const struct tidings_oauth *o)
{
    list_each (it, next, &o->waiters) {
        if (!list_entry(it, struct oauth_waiter, link)->is_due) {
            return true;
        }
    }
    return false;
}

static void oauth_forget(void *user, void *to)
{
    struct tidings_oauth *o = user;
    bool was_awaited = oauth_is_awaited(o);
    list_each (it, next, &o->waiters) {
        struct oauth_waiter *w = list_entry(it, struct oauth_waiter, link);
        if (w->to == to) {
            list_remove(it);
            mem_free(w);
        }
    }
    if (was_awaited && !oauth_is_awaited(o) && !o->is_early) {
        oauth_give_up(o);
    }
}

static int oauth_fd(void *user)
{
    return loop_fd(((struct tidings_oauth *)user)->loop);
}

static void oauth_step(void *user)
{
    loop_turn(((struct tidings_oauth *)user)->loop);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void oauth_on_fetch(struct loop_poll *poll, int events, void *user)
{
    struct tidings_oauth *o = user;
    (void)poll;
    (void)events;
    (void)fetch_step(o->fetch, 0, NULL);
}

static int oauth_set_up(struct tidings_oauth *o, const struct tidings_oauth_options *options,
                        struct tidings_error *err)
{
    int rc = oauth_settings_init(&o->settings, options, err);
    if (rc == 0 && token_store_init(&o->store, options ? options->token_file : NULL) < 0) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        rc = token_store_load(&o->store, err);
    }
    if (rc == 0) {
        o->loop = loop_create(err);
        rc = o->loop ? fetch_create(-1, DOCUMENT_MAX, &o->fetch, err) : TIDINGS_E_NOMEM;
    }
    if (rc == 0) {
        o->fetch_poll = loop_poll_open(o->loop, fetch_fd(o->fetch), oauth_on_fetch, o, err);
        rc = o->fetch_poll ? loop_poll_want(o->fetch_poll, LOOP_READ) : TIDINGS_E_NOMEM;
    }
    rc = rc == 0 ? oauth_early_init(o, err) : rc;
    return rc == 0 ? oauth_obtain_init(o, err) : rc;
}

struct tidings_oauth *tidings_oauth_create(const struct tidings_oauth_options *options,
                                           struct tidings_error *err)
{
    struct tidings_oauth *o = mem_zalloc(sizeof(*o));
    if (!o) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    list_init(&o->waiters);
    o->store.lock = o->lock.fd = o->early.fd = -1;
    o->credentials = (struct tidings_credentials){
        .user = o,
        .show = oauth_show,
        .refused = oauth_refused,
        .forget = oauth_forget,
        .fd = oauth_fd,
        .step = oauth_step,
        .prepare = oauth_prepare,
        .renewals = oauth_renewals,
    };
    if (oauth_set_up(o, options, err) < 0) {
        tidings_oauth_destroy(o);
        return NULL;
    }
    return o;
}

void tidings_oauth_destroy(struct tidings_oauth *o)
{
    if (!o) {
        return;
    }
    oauth_obtain_deinit(o);
    oauth_early_deinit(o);
    loop_poll_close(o->fetch_poll);
    if (o->loop) {
        loop_destroy(o->loop);
    }
    fetch_destroy(o->fetch);
    token_store_deinit(&o->store);
    oauth_settings_deinit(&o->settings);
    mem_free(o);
}

const struct tidings_credentials *tidings_oauth_credentials(struct tidings_oauth *o)
{
    return &o->credentials;
}

/* ---- calls that wait ------------------------------------------------------------------------- */

struct oauth_waiting {
    bool is_over;
    struct tidings_error why;
};

static void oauth_on_waited(void *to, const struct tidings_error *why)
{
    struct oauth_waiting *w = to;
    w->is_over = true;
    if (why) {
        w->why = *why;
    }
}

int tidings_oauth_login(struct tidings_oauth *o, const char *server, struct tidings_error *err)
{
    struct oauth_waiting waiting = {0};
    struct oauth_wish wish = {.server = server, .is_probing = true};
    struct url u;
    if (!url_read(tidings_str(server), &u)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.120s' is no address to log in to (accepted: https://…, and http:// "
                            "on this machine)",
                            server);
    }
    int rc = oauth_obtain(o, &wish, err);
    if (rc == 0 && !oauth_wait(o, oauth_on_waited, &waiting)) {
        oauth_give_up(o);
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc < 0) {
        return rc;
    }
    while (!waiting.is_over) {
        oauth_turn(o);
    }
    return waiting.why.code < 0 ? tidings_fail(err, waiting.why.code, "%s", waiting.why.text) : 0;
}

static void oauth_on_revoked(void *user, struct token *token, const struct tidings_error *why)
{
    (void)token;
    oauth_on_waited(user, why);
}

/* A refusal is no failure: what we have is forgotten all the same. */
static void oauth_revoke(struct tidings_oauth *o, const char *server, const struct token *t,
                         struct tidings_error *why)
{
    struct oauth_waiting waiting = {0};
    struct flow_host host = {&o->settings, o->loop, o->fetch};
    struct flow_order order = {.kind = FLOW_REVOKE, .server = server, .before = t};
    struct flow *flow = NULL;
    if (flow_start(&flow, &host, &order, oauth_on_revoked, &waiting, why) < 0) {
        return;
    }
    while (!waiting.is_over) {
        oauth_turn(o);
    }
    *why = waiting.why;
}

int tidings_oauth_logout(struct tidings_oauth *o, const char *server, struct tidings_error *err)
{
    struct tidings_error why = {0};
    uint64_t until = clock_monotonic_ms() + 30000;
    int rc = 0;
    if (o->server) { /* it holds the lock, or will, and changes the tokens while we wait */
        return tidings_fail(err, TIDINGS_E_BUSY, "a login is under way: log out after it");
    }
    alarm_set(&o->early, 0); /* nothing is renewed meanwhile */
    while ((rc = token_store_lock(&o->store, err)) == 0 && clock_monotonic_ms() < until) {
        (void)poll(NULL, 0, 50);
    }
    if (rc <= 0) {
        return rc < 0 ? rc : tidings_fail(err, TIDINGS_E_BUSY, "another process holds the tokens");
    }
    rc = token_store_load(&o->store, err);
    struct token *t = rc == 0 ? token_store_find(&o->store, server, NULL) : NULL;
    if (rc == 0 && !t) {
        rc = tidings_fail(err, TIDINGS_E_NOTFOUND, "there is no token for '%.160s'", server);
    }
    for (; t; t = token_store_find(&o->store, server, NULL)) { /* of each issuer */
        oauth_revoke(o, server, t, &why);
        token_store_remove(&o->store, t);
    }
    rc = rc == 0 ? token_store_save(&o->store, err) : rc;
    token_store_unlock(&o->store);
    if (rc == 0 && why.code < 0) {
        tidings_fail(err, why.code, "forgotten here, but not revoked: %s", why.text);
        err->code = 0;
    }
    return rc;
}

int tidings_oauth_tokens(struct tidings_oauth *o, tidings_oauth_token_fn fn, void *user,
                         struct tidings_error *err)
{
    int rc = token_store_load(&o->store, err);
    for (size_t i = 0; rc == 0 && fn && i < o->store.count; i++) {
        const struct token *t = &o->store.tokens[i];
        struct tidings_oauth_token shown = {
            .resource = t->resource,
            .issuer = t->issuer,
            .client_id = t->client_id,
            .scope = t->scope,
            .expires_ms = t->expires_ms,
            .is_renewable = t->refresh != NULL,
            .is_bound = t->is_bound,
        };
        fn(user, &shown);
    }
    return rc < 0 ? rc : (int)o->store.count;
}
