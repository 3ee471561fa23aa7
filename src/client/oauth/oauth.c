/* SPDX-License-Identifier: MIT
 *
 * The credentials of <tidings/oauth.h>: the header lines, the reaction to a refusal, and the calls
 * that wait.
 */
#include "client/oauth/oauth.h"

#include <poll.h>
#include <stdio.h>

#include <tidings/oauth.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/oauth/documents.h"
#include "client/oauth/oauth_internal.h"
#include "formats/http_fields.h"
#include "formats/url.h"

/* -------------------------------------------------------------------------------------------------
 * Checks the options of <tidings/oauth.h> by the grant they are for.
 */

#define LOGIN_MS 300000u

static bool oauth_settings_take(char **at, const char *text)
{
    *at = text ? str_dup(tidings_str(text)) : NULL;
    return !text || *at;
}

/* The required options of each grant. */
static int oauth_settings_check(const struct tidings_oauth_options *o, struct tidings_error *err)
{
    bool has_secret = o->client_secret || o->client_key;
    struct url u;
    switch (o->grant) {
    case TIDINGS_OAUTH_CODE:
    case TIDINGS_OAUTH_DEVICE:
        break;
    case TIDINGS_OAUTH_CLIENT:
        if (!o->client_id || !has_secret) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "a client for itself needs client_id, and client_secret or "
                                "client_key");
        }
        break;
    case TIDINGS_OAUTH_ASSERTION:
        if (!o->client_id || !o->assertion) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "a workload needs client_id and an assertion");
        }
        break;
    case TIDINGS_OAUTH_ENTERPRISE:
        if (!o->client_id || !o->id_token || !o->idp_endpoint || !o->idp_client_id) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "an enterprise's login needs client_id, id_token, idp_endpoint and "
                                "idp_client_id");
        }
        if (!url_read(tidings_str(o->idp_endpoint), &u) || !url_is_safe(&u)) {
            return tidings_fail(err, TIDINGS_E_INVALID, "idp_endpoint is not an https URL");
        }
        break;
    default:
        return tidings_fail(err, TIDINGS_E_INVALID, "no such grant: %d", (int)o->grant);
    }
    return 0;
}

/* There is something to deinit after a failure, too. */
static int oauth_settings_init(struct oauth_settings *s,
                               const struct tidings_oauth_options *options,
                               struct tidings_error *err)
{
    static const struct tidings_oauth_options none = {0};
    const struct tidings_oauth_options *o = options ? options : &none;
    *s = (struct oauth_settings){
        .grant = o->grant,
        .redirect_port = o->redirect_port,
        .login_ms = o->login_ms > 0 ? o->login_ms : LOGIN_MS,
        .on_open = o->on_open,
        .on_device = o->on_device,
        .user = o->user,
    };
    int rc = RESERVED_CHECK(o, err);
    rc = rc == 0 ? oauth_settings_check(o, err) : rc;
    if (rc == 0 && o->client_key) {
        rc = private_key_read(&s->client_key, tidings_str(o->client_key), err);
    }
    if (rc < 0) {
        return rc;
    }
    bool ok = oauth_settings_take(&s->client_name, o->client_name ? o->client_name : "tidings") &&
              oauth_settings_take(&s->client_id, o->client_id) &&
              oauth_settings_take(&s->client_secret, o->client_secret) &&
              oauth_settings_take(&s->client_url, o->client_url) &&
              oauth_settings_take(&s->issuer, o->issuer) &&
              oauth_settings_take(&s->scope, o->scope) &&
              oauth_settings_take(&s->ca_file, o->ca_file) &&
              oauth_settings_take(&s->assertion, o->assertion) &&
              oauth_settings_take(&s->id_token, o->id_token) &&
              oauth_settings_take(&s->idp_endpoint, o->idp_endpoint) &&
              oauth_settings_take(&s->idp_client_id, o->idp_client_id);
    return ok ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static void oauth_settings_deinit(struct oauth_settings *s)
{
    mem_free(s->client_name);
    mem_free(s->client_id);
    str_free_secret(s->client_secret);
    mem_free(s->client_url);
    mem_free(s->issuer);
    mem_free(s->scope);
    mem_free(s->ca_file);
    str_free_secret(s->assertion);
    str_free_secret(s->id_token);
    mem_free(s->idp_endpoint);
    mem_free(s->idp_client_id);
    private_key_destroy(s->client_key);
    *s = (struct oauth_settings){0};
}

bool oauth_settings_ask_person(const struct oauth_settings *s)
{
    return s->grant == TIDINGS_OAUTH_CODE || s->grant == TIDINGS_OAUTH_DEVICE;
}

/* -------------------------------------------------------------------------------------------------
 * Gets a token for a server and keeps it in the store: from another process, by renewal, or by a
 * login.
 */

#define LOCK_RETRY_MS 50u
#define LOCK_MS 30000u /* a refresh in another process takes less */
#define FINISH_MS 5000u
#define LOGINS_MAX 5u /* that a person is asked for … */
#define LOGINS_MS 600000u

static void oauth_login(struct tidings_oauth *o);

/* ---- the end --------------------------------------------------------------------------------- */

static void oauth_reset(struct tidings_oauth *o)
{
    loop_timer_stop(&o->lock);
    o->on_lock = NULL;
    o->is_early = false;
    token_store_unlock(&o->store);
    token_deinit(&o->fresh);
    mem_free(o->server);
    mem_free(o->challenge);
    str_free_secret(o->shown);
    o->server = o->challenge = o->shown = NULL;
}

/* Adds a waiter; NULL: out of memory. */
static struct oauth_waiter *oauth_wait(struct tidings_oauth *o, tidings_credentials_done_fn done,
                                       void *to)
{
    struct oauth_waiter *w = mem_zalloc(sizeof(*w));
    if (w) {
        w->done = done;
        w->to = to;
        list_append(&o->waiters, &w->link);
    }
    return w;
}

/* Waiters that are not due stay in the list: the callback may remove them, or add itself once
 * more. */
static void oauth_notify(struct tidings_oauth *o, bool (*is_due_now)(const struct oauth_waiter *w),
                         const struct tidings_error *why)
{
    struct oauth_waiter *w = NULL;
    list_each (it, next, &o->waiters) {
        w = list_entry(it, struct oauth_waiter, link);
        w->is_due = is_due_now(w);
    }
    do {
        w = NULL;
        list_each (it, next, &o->waiters) {
            struct oauth_waiter *one = list_entry(it, struct oauth_waiter, link);
            w = !w && one->is_due ? one : w;
        }
        if (w) {
            list_remove(&w->link);
            w->done(w->to, why);
            mem_free(w);
        }
    } while (w);
}

static bool oauth_is_everybody(const struct oauth_waiter *w)
{
    (void)w;
    return true;
}

static void oauth_early_ended(struct tidings_oauth *o, bool is_renewed);

static void oauth_end(struct tidings_oauth *o, const struct tidings_error *why)
{
    bool was_early = o->is_early;
    o->flow = NULL;
    oauth_reset(o);
    if (was_early) {
        oauth_early_ended(o, !why);
    }
    oauth_notify(o, oauth_is_everybody, why);
}

static void oauth_keep(struct tidings_oauth *o);

/* A token was requested and may be on its way, or has come and is not kept yet. */
static bool oauth_is_about_to_come(const struct tidings_oauth *o)
{
    return o->flow ? flow_is_exchanging(o->flow) : o->on_lock == oauth_keep;
}

static void oauth_break_off(struct tidings_oauth *o)
{
    flow_cancel(o->flow);
    o->flow = NULL;
    oauth_reset(o);
}

/* No call waits any longer: cancels the flow, unless a token is about to come. */
static void oauth_give_up(struct tidings_oauth *o)
{
    if (!oauth_is_about_to_come(o)) {
        oauth_break_off(o);
    }
}

/* ---- the lock -------------------------------------------------------------------------------- */

static void oauth_try_lock(struct tidings_oauth *o)
{
    struct tidings_error why = {0};
    void (*fn)(struct tidings_oauth *) = o->on_lock;
    int rc = token_store_lock(&o->store, &why);
    if (rc == 0 && clock_monotonic_ms() >= o->lock_until) {
        rc = tidings_fail(&why, TIDINGS_E_BUSY,
                          "another process holds the tokens for too long: '%.120s.lock'",
                          o->store.path);
    }
    if (rc == 0) {
        loop_timer_start(&o->lock, LOCK_RETRY_MS, 0);
        return;
    }
    o->on_lock = NULL;
    rc = rc < 0 ? rc : token_store_load(&o->store, &why);
    if (rc < 0) {
        oauth_end(o, &why);
    } else {
        fn(o);
    }
}

/* `fn` runs with the lock held and the file read again, in a separate turn. */
static void oauth_with_lock(struct tidings_oauth *o, void (*fn)(struct tidings_oauth *o))
{
    o->on_lock = fn;
    o->lock_until = clock_monotonic_ms() + LOCK_MS;
    loop_timer_start(&o->lock, 1, 0);
}

/* ---- keeping --------------------------------------------------------------------------------- */

static void oauth_keep(struct tidings_oauth *o)
{
    struct tidings_error why = {0};
    int rc = token_store_put(&o->store, &o->fresh, &why);
    if (rc == 0) {
        rc = token_store_save(&o->store, &why);
    }
    oauth_end(o, rc < 0 ? &why : NULL);
}

/* ---- flows ----------------------------------------------------------------------------------- */

static void oauth_on_login(void *user, struct token *token, const struct tidings_error *why)
{
    struct tidings_oauth *o = user;
    o->flow = NULL;
    if (!token) {
        oauth_end(o, why);
        return;
    }
    o->fresh = *token;
    *token = (struct token){0};
    o->was_login = true;
    oauth_with_lock(o, oauth_keep);
}

/* The refresh token is invalid, for other processes too. */
static void oauth_drop_refresh(struct tidings_oauth *o)
{
    struct token *t = token_store_find(&o->store, o->server, NULL);
    if (t) {
        str_free_secret(t->refresh);
        t->refresh = NULL;
        (void)token_store_save(&o->store, NULL);
    }
}

static void oauth_on_refresh(void *user, struct token *token, const struct tidings_error *why)
{
    struct tidings_oauth *o = user;
    o->flow = NULL;
    if (token) {
        o->fresh = *token;
        *token = (struct token){0};
        o->was_login = false;
        oauth_keep(o); /* the lock is held */
    } else if (why->code != TIDINGS_E_DENIED) {
        oauth_end(o, why); /* a later renewal may succeed */
    } else {
        oauth_drop_refresh(o);
        if (o->is_early) {
            oauth_end(o, why); /* no request was refused yet */
            return;
        }
        token_store_unlock(&o->store);
        oauth_login(o);
    }
}

static int oauth_start_flow(struct tidings_oauth *o, enum flow_kind kind, flow_done_fn done,
                            struct tidings_error *err)
{
    struct flow_host host = {&o->settings, o->loop, o->fetch};
    struct flow_order order = {
        .kind = kind,
        .server = o->server,
        .is_probing = o->is_probing && kind == FLOW_LOGIN,
        .challenge = tidings_str(o->challenge),
        .before = token_store_find(&o->store, o->server, NULL),
    };
    return flow_start(&o->flow, &host, &order, done, o, err);
}

/* Limits logins, because a server that refuses every token would have a person agree again and
 * again. */
static int oauth_count_login(struct tidings_oauth *o, struct tidings_error *err)
{
    uint64_t now = clock_monotonic_ms();
    if (!oauth_settings_ask_person(&o->settings)) {
        return 0;
    }
    if (o->logins == 0 || now - o->logins_since > LOGINS_MS) {
        o->logins = 0;
        o->logins_since = now;
    }
    if (o->logins++ >= LOGINS_MAX) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "the server was not content with %u logins in ten minutes", LOGINS_MAX);
    }
    return 0;
}

/* No person can be asked; the error message says what to do. */
static int oauth_say_alone(const struct tidings_oauth *o, struct tidings_error *err)
{
    struct bearer_challenge c;
    char scope[120];
    bool is_scope = bearer_read_challenge(tidings_str(o->challenge), &c) &&
                    str_eq(c.error, STR("insufficient_scope"));
    if (is_scope) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "the token does not allow that: log in again, for the scopes '%s'",
                            document_shown(c.scope, scope, sizeof(scope)));
    }
    return tidings_fail(err, TIDINGS_E_DENIED, "%s",
                        o->shown ? "the token is refused, and cannot be renewed: log in again"
                                 : "the server wants a login, and there is no token for it: log in "
                                   "first");
}

static void oauth_login(struct tidings_oauth *o)
{
    const struct oauth_settings *s = &o->settings;
    struct tidings_error why = {0};
    bool is_alone = (s->grant == TIDINGS_OAUTH_CODE && !s->on_open) ||
                    (s->grant == TIDINGS_OAUTH_DEVICE && !s->on_device);
    int rc = is_alone ? oauth_say_alone(o, &why) : oauth_count_login(o, &why);
    if (rc == 0) {
        rc = oauth_start_flow(o, FLOW_LOGIN, oauth_on_login, &why);
    }
    if (rc < 0) {
        oauth_end(o, &why);
    }
}

/* With the lock: returns true if another process has stored another token. */
static bool oauth_has_another(struct tidings_oauth *o)
{
    const struct token *t = token_store_find(&o->store, o->server, NULL);
    if (!t || (o->shown && strcmp(t->access, o->shown) == 0)) {
        return false;
    }
    o->was_login = false;
    oauth_end(o, NULL);
    return true;
}

static void oauth_login_unlocked(struct tidings_oauth *o)
{
    token_store_unlock(&o->store);
    oauth_login(o);
}

static void oauth_step_up(struct tidings_oauth *o)
{
    if (!oauth_has_another(o)) {
        oauth_login_unlocked(o);
    }
}

static void oauth_renew(struct tidings_oauth *o)
{
    struct tidings_error why = {0};
    if (oauth_has_another(o)) {
        return;
    }
    const struct token *t = token_store_find(&o->store, o->server, NULL);
    int rc = 0;
    if (t && t->refresh) {
        rc = oauth_start_flow(o, FLOW_REFRESH, oauth_on_refresh, &why);
    } else if (o->is_early) {
        rc = tidings_fail(&why, TIDINGS_E_NOTFOUND, "the token can no longer be renewed");
    } else {
        oauth_login_unlocked(o);
    }
    if (rc < 0) {
        oauth_end(o, &why);
    }
}

/* A flow for that server is under way already. After a refusal, a renewal that may not ask a person
 * is not enough. */
static int oauth_join(struct tidings_oauth *o, const struct oauth_wish *wish,
                      struct tidings_error *err)
{
    if (strcmp(o->server, wish->server) != 0) {
        return tidings_fail(err, TIDINGS_E_BUSY, "a login to another server is under way");
    }
    if (o->is_early && wish->need != OAUTH_RENEW_EARLY) {
        char *challenge = str_dup(wish->challenge);
        if (!challenge) {
            return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        mem_free(o->challenge);
        o->challenge = challenge;
        o->is_early = false;
    }
    return 0;
}

/* Starts a flow; all `waiters` get its result. TIDINGS_E_BUSY: there is one for another server. */
static int oauth_obtain(struct tidings_oauth *o, const struct oauth_wish *wish,
                        struct tidings_error *err)
{
    if (o->server) {
        return oauth_join(o, wish, err);
    }
    o->server = str_dup(tidings_str(wish->server));
    o->challenge = str_dup(wish->challenge);
    o->shown = wish->shown.len > 0 ? str_dup(wish->shown) : NULL;
    o->is_probing = wish->is_probing;
    if (!o->server || !o->challenge || (wish->shown.len > 0 && !o->shown)) {
        oauth_reset(o);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    o->is_early = wish->need == OAUTH_RENEW_EARLY;
    if (wish->need == OAUTH_LOGIN) {
        loop_timer_start(&o->lock, 1, 0);
    } else {
        oauth_with_lock(o, wish->need == OAUTH_STEP_UP ? oauth_step_up : oauth_renew);
    }
    return 0;
}

/* Retries the lock, or begins a login in a separate turn. */
static void oauth_on_timer(struct loop_timer *timer, void *user)
{
    struct tidings_oauth *o = user;
    (void)timer;
    if (o->on_lock) {
        oauth_try_lock(o);
    } else if (o->server && !o->flow) {
        oauth_login(o);
    }
}

/* Waits a few seconds for a token that is about to come. */
static void oauth_obtain_deinit(struct tidings_oauth *o)
{
    uint64_t until = clock_monotonic_ms() + FINISH_MS;
    list_each (it, next, &o->waiters) {
        list_remove(it);
        mem_free(list_entry(it, struct oauth_waiter, link));
    }
    while (oauth_is_about_to_come(o) && clock_monotonic_ms() < until) {
        loop_turn_for(o->loop, 100);
    }
    oauth_break_off(o);
}

/* ---------------------------------------------------------------------------------------------- */

#define OAUTH_REFUSALS 3u /* of one request, before it is left */
#define OAUTH_LINE_MAX 65536u

/* ---- showing --------------------------------------------------------------------------------- */

static const char *oauth_server(const char *server, const char *url)
{
    return server ? server : url;
}

static void oauth_early_shown(struct tidings_oauth *o, const char *server, const struct token *t);

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

/* 403: returns 0 if a login can add the missing scopes that were not requested yet, or if there is
 * another token already. */
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

/* Decides whether another attempt can help. */
static int oauth_decide(struct tidings_oauth *o, const struct tidings_credentials_refusal *refusal,
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
    int rc = oauth_decide(o, refusal, &c, err);
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

/* Returns true if any call waits for the flow. Waiters that are being notified do not count. */
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

static void oauth_early_on_timer(struct loop_timer *timer, void *user);

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
        rc = o->loop ? loop_show_timers(o->loop, err) : TIDINGS_E_NOMEM; /* clients wait for it */
    }
    loop_timer_init(&o->lock, o->loop, oauth_on_timer, o);
    loop_timer_init(&o->early, o->loop, oauth_early_on_timer, o);
    return rc == 0 ? fetch_create(o->loop, DOCUMENT_MAX, &o->fetch, err) : rc;
}

static uint64_t oauth_renewals(void *user);

static int oauth_prepare(void *user, const struct tidings_credentials_request *request,
                         tidings_credentials_done_fn done, void *to);

struct tidings_oauth *tidings_oauth_create(const struct tidings_oauth_options *options,
                                           struct tidings_error *err)
{
    struct tidings_oauth *o = mem_zalloc(sizeof(*o));
    if (!o) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    list_init(&o->waiters);
    o->store.lock = -1;
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

static void oauth_early_deinit(struct tidings_oauth *o);

void tidings_oauth_destroy(struct tidings_oauth *o)
{
    if (!o) {
        return;
    }
    oauth_obtain_deinit(o);
    oauth_early_deinit(o);
    fetch_destroy(o->fetch);
    loop_destroy(o->loop);
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
        return tidings_fail(
            err, TIDINGS_E_INVALID,
            "'%.120s' is not an address for a login (accepted: https://…, and http:// "
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
        loop_turn_for(o->loop, 100);
    }
    return waiting.why.code < 0 ? tidings_fail(err, waiting.why.code, "%s", waiting.why.text) : 0;
}

static void oauth_on_revoked(void *user, struct token *token, const struct tidings_error *why)
{
    (void)token;
    oauth_on_waited(user, why);
}

/* A refusal is not a failure: the token is removed anyway. */
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
        loop_turn_for(o->loop, 100);
    }
    *why = waiting.why;
}

int tidings_oauth_logout(struct tidings_oauth *o, const char *server, struct tidings_error *err)
{
    struct tidings_error why = {0};
    uint64_t until = clock_monotonic_ms() + 30000;
    int rc = 0;
    if (o->server) { /* the flow holds the lock, or will, and changes the tokens during the wait */
        return tidings_fail(err, TIDINGS_E_BUSY, "a login is under way: log out after it");
    }
    loop_timer_stop(&o->early); /* no renewal during the logout */
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

/* -------------------------------------------------------------------------------------------------
 * Renews tokens before they expire, if they have a known lifetime and a refresh token: 30 seconds
 * before, or a tenth of their lifetime if that is less, but at least 1.5 seconds, since lifetimes
 * are in whole seconds. A request that begins in that time waits briefly for the new one while the
 * old one is valid; and a timer renews tokens of streams without further requests. Tokens with a
 * lifetime of less than four seconds are renewed when they are refused, as are tokens whose renewal
 * has just failed.
 */

#define EARLY_MS 30000
#define EARLY_MIN_MS 1500
#define EARLY_LIFE_MIN_MS 4000
#define EARLY_PATIENCE_MS 2000u /* of a request whose token is still valid */
#define EARLY_FAILED_MS 10000u  /* before it is tried again */
#define EARLY_BUSY_MS 500u      /* while something else is under way */
#define EARLY_SLEEP_MAX_MS 300000

/* clock_wall_ms: the time of its renewal; 0: not before it is refused. */
static int64_t oauth_early_time(const struct token *t)
{
    bool is_known = t->expires_ms > 0 && t->refresh;
    if (!is_known || (t->life_ms > 0 && t->life_ms < EARLY_LIFE_MIN_MS)) {
        return 0;
    }
    int64_t before = t->life_ms > 0 && t->life_ms / 10 < EARLY_MS ? t->life_ms / 10 : EARLY_MS;
    before = before < EARLY_MIN_MS ? EARLY_MIN_MS : before;
    return t->expires_ms > before ? t->expires_ms - before : 1;
}

static bool oauth_early_is_due(const struct tidings_oauth *o, const struct token *t)
{
    int64_t from = oauth_early_time(t);
    return from > 0 && clock_wall_ms() >= from && clock_monotonic_ms() >= o->early_after;
}

/* False: something else is under way, or out of memory. */
static bool oauth_early_begin(struct tidings_oauth *o, const char *server, const struct token *t)
{
    struct oauth_wish wish = {
        .server = server, .shown = tidings_str(t->access), .need = OAUTH_RENEW_EARLY};
    bool is_free = !o->server || o->is_early; /* a person who logs in may take minutes */
    return is_free && oauth_obtain(o, &wish, NULL) == 0;
}

static bool oauth_early_has_patient(const struct tidings_oauth *o)
{
    list_each (it, next, &o->waiters) {
        if (list_entry(it, struct oauth_waiter, link)->patience > 0) {
            return true;
        }
    }
    return false;
}

static int oauth_prepare(void *user, const struct tidings_credentials_request *request,
                         tidings_credentials_done_fn done, void *to)
{
    struct tidings_oauth *o = user;
    const char *server = oauth_server(request->server, request->url);
    const struct token *t = token_store_find(&o->store, server, NULL);
    uint64_t now = clock_monotonic_ms();
    if (!t || !oauth_early_is_due(o, t)) {
        return 0;
    }
    bool is_good = clock_wall_ms() < t->expires_ms;
    bool is_first = !o->is_early;
    if (!oauth_early_begin(o, server, t)) {
        return 0;
    }
    o->early_since = is_first ? now : o->early_since;
    if (is_good && now - o->early_since >= EARLY_PATIENCE_MS) {
        return 0; /* others have waited long enough */
    }
    bool has_timer = oauth_early_has_patient(o);
    struct oauth_waiter *w = oauth_wait(o, done, to);
    if (w && is_good) {
        w->patience = now + EARLY_PATIENCE_MS;
        if (!has_timer) {
            loop_timer_start(&o->early, EARLY_PATIENCE_MS, 0);
        }
    }
    return w != NULL;
}

/* Implements struct tidings_credentials. */
static uint64_t oauth_renewals(void *user)
{
    return ((struct tidings_oauth *)user)->renewals;
}

/* ---- the timer ------------------------------------------------------------------------------- */

static void oauth_early_set(struct tidings_oauth *o, const struct token *t)
{
    int64_t from = oauth_early_time(t), left = from - clock_wall_ms();
    uint64_t now = clock_monotonic_ms();
    if (from <= 0) {
        return;
    }
    left = left < 1 ? 1 : left < EARLY_SLEEP_MAX_MS ? left : EARLY_SLEEP_MAX_MS;
    if (o->early_after > now && (int64_t)(o->early_after - now) > left) {
        left = (int64_t)(o->early_after - now);
    }
    loop_timer_start(&o->early, (uint64_t)left, 0);
}

/* This token is in use at that server: it will be renewed in time. */
static void oauth_early_shown(struct tidings_oauth *o, const char *server, const struct token *t)
{
    if (!o->early_server || strcmp(o->early_server, server) != 0) {
        mem_free(o->early_server);
        o->early_server = str_dup(tidings_str(server));
    }
    if (o->early_server && !o->is_early) {
        oauth_early_set(o, t);
    }
}

static void oauth_early_ended(struct tidings_oauth *o, bool is_renewed)
{
    const struct token *t =
        o->early_server ? token_store_find(&o->store, o->early_server, NULL) : NULL;
    o->renewals += is_renewed;
    o->early_after = is_renewed ? 0 : clock_monotonic_ms() + EARLY_FAILED_MS;
    loop_timer_stop(&o->early);
    if (t) {
        oauth_early_set(o, t);
    }
}

static bool oauth_early_is_impatient(const struct oauth_waiter *w)
{
    return w->patience > 0 && clock_monotonic_ms() >= w->patience;
}

static void oauth_early_on_timer(struct loop_timer *timer, void *user)
{
    struct tidings_oauth *o = user;
    (void)timer;
    /* Requests with a valid token continue with it, even while a flow is under way. */
    oauth_notify(o, oauth_early_is_impatient, NULL);
    const struct token *t =
        o->early_server ? token_store_find(&o->store, o->early_server, NULL) : NULL;
    if (o->server) {
        loop_timer_start(&o->early, EARLY_BUSY_MS, 0);
    } else if (t && !oauth_early_is_due(o, t)) {
        oauth_early_set(o, t);
    } else if (t && oauth_early_begin(o, o->early_server, t)) {
        o->early_since = clock_monotonic_ms();
    }
}

/* A renewal before the end is over. */
static void oauth_early_deinit(struct tidings_oauth *o)
{
    loop_timer_stop(&o->early);
    mem_free(o->early_server);
    o->early_server = NULL;
}
