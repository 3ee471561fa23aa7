/* SPDX-License-Identifier: MIT
 *
 * Finds the token of a request, has it verified and makes a principal of it; and answers requests
 * without a good one.
 */
#include "transport/http_auth.h"

#include "access/allowance.h"
#include "access/share.h"
#include "auth/dpop.h"
#include "base/clock.h"
#include "protocol/access_enforce.h"
#include "protocol/inbound.h"
#include "transport/http_private.h"
#include "wire/bearer.h"

#define CHALLENGE_MAX 8192u
#define RETRY_SECONDS "5"

/* ---- refusing -------------------------------------------------------------------------------- */

static void http_auth_refuse(struct http_conn *conn, int status, const struct bearer_challenge *c,
                             const char *text)
{
    struct buf fields;
    buf_init(&fields, CHALLENGE_MAX);
    char nonce[DPOP_NONCE_TEXT];
    const struct dpop *dpop = conn->hw->config->auth->dpop;
    if (c && c->scheme.len > 0 && dpop_put_nonce(dpop, clock_wall_ms(), nonce)) {
        http_put_header(&fields, "DPoP-Nonce", tidings_str(nonce));
    }
    if (c) {
        bearer_put_challenge(&fields, c);
    } else {
        buf_puts(&fields, STR("Retry-After: " RETRY_SECONDS "\r\n"));
    }
    const struct response_headers headers = {
        .extra = buf_str(&fields),
        .reason = tidings_str(text),
        .cause = status == 503 ? FAILURE_ORDINARY : FAILURE_AUTHENTICATION,
    };
    conn_refuse_with(conn, status, &headers);
    buf_deinit(&fields);
}

/* Where tokens must be bound to a key, nothing else is asked for. */
static bool wants_proofs(const struct http_auth *auth)
{
    return auth->dpop && dpop_is_required(auth->dpop);
}

static void refuse_unknown(struct http_conn *conn)
{
    const struct http_auth *auth = conn->hw->config->auth;
    bool is_bound = wants_proofs(auth);
    const struct bearer_challenge c = {.scheme = is_bound ? STR("DPoP") : STR_EMPTY,
                                       .scope = auth->scope,
                                       .metadata = auth->metadata_url,
                                       .algs = is_bound ? STR(DPOP_ALGORITHMS) : STR_EMPTY};
    http_auth_refuse(conn, 401, &c,
                     is_bound ? "a token that is bound to a key is needed"
                              : "a bearer token is needed");
}

/* `error` as RFC 6750 §3.1 has it. */
static void refuse_token(struct http_conn *conn, int status, struct tidings_str error,
                         const char *text)
{
    const struct http_auth *auth = conn->hw->config->auth;
    const struct bearer_challenge c = {.error = error,
                                       .description = tidings_str(text),
                                       .scope = status == 400 ? STR_EMPTY : auth->scope,
                                       .metadata = auth->metadata_url};
    http_auth_refuse(conn, status, &c, text);
}

/* `error` as RFC 9449 §7.1 has it. */
static void refuse_proof(struct http_conn *conn, struct tidings_str error, const char *text)
{
    const struct http_auth *auth = conn->hw->config->auth;
    const struct bearer_challenge c = {.scheme = STR("DPoP"),
                                       .error = error,
                                       .description = tidings_str(text),
                                       .scope = auth->scope,
                                       .metadata = auth->metadata_url,
                                       .algs = STR(DPOP_ALGORITHMS)};
    http_auth_refuse(conn, 401, &c, text);
}

/* All that the operation needs: what every token does, too. */
void conn_put_insufficient(struct http_conn *conn, struct buf *head, struct tidings_str scopes)
{
    const struct http_auth *auth = conn->hw->config->auth;
    if (!auth) {
        return;
    }
    struct buf all;
    buf_init(&all, CHALLENGE_MAX);
    buf_puts(&all, auth->scope);
    buf_puts(&all, auth->scope.len > 0 ? STR(" ") : STR_EMPTY);
    buf_puts(&all, scopes);
    const struct bearer_challenge c = {.scheme = conn->r->proof.key[0] ? STR("DPoP") : STR_EMPTY,
                                       .error = STR("insufficient_scope"),
                                       .description = STR("the token lacks a scope for this"),
                                       .scope = buf_str(&all),
                                       .metadata = auth->metadata_url};
    bearer_put_challenge(head, &c);
    buf_deinit(&all);
}

static void refuse_for_now(struct http_conn *conn, const char *text)
{
    http_auth_refuse(conn, 503, NULL, text);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The principal of an identity; the cache keeps it with what it remembers of the token. */
static int find_principal(struct http_conn *conn, struct auth_identity *identity,
                          const struct principal **ret, struct tidings_error *err)
{
    const struct principal_spec spec = {
        .kind = PRINCIPAL_TOKEN,
        .name = identity->name,
        .scopes = identity->scopes,
        .scope_count = identity->scope_count,
        .expires_ms = identity->expires_ms,
        .proof = identity->proof,
    };
    const struct principal *principal = identity->attached;
    /* The rules may have changed since it was remembered. */
    int rc = principal ? principal_renew(conn->hw->worker->principals, &principal)
                       : principal_intern(conn->hw->worker->principals, &spec, &principal, err);
    if (rc == 0) {
        identity->attached = (void *)(uintptr_t)principal;
        *ret = principal;
    }
    return rc;
}

static void release_principal(void *attached)
{
    principal_unref(attached);
}

static bool has_scopes(const struct http_auth *auth, const struct principal *principal)
{
    for (size_t i = 0; i < auth->scope_count; i++) {
        if (!principal_has_scope(principal, auth->scopes[i])) {
            return false;
        }
    }
    return true;
}

/* A token that is bound to a key is shown with a proof by that key, and no other is. */
static bool check_binding(struct http_conn *conn, const struct auth_identity *identity)
{
    const struct http_auth *auth = conn->hw->config->auth;
    const struct dpop_proof *proof = &conn->r->proof;
    if (strcmp(identity->key, proof->key) != 0) {
        refuse_proof(conn, STR("invalid_token"),
                     !proof->key[0] ? "the token is bound to a key: show it as DPoP, with a proof"
                     : !identity->key[0] ? "the token is bound to no key"
                                         : "the token is bound to another key");
    } else if (!proof->key[0] && wants_proofs(auth)) {
        refuse_proof(conn, STR("invalid_token"), "the token must be bound to a key");
    } else if (!proof->key[0]) {
        return true;
    } else if (proof->wants_nonce) {
        refuse_proof(conn, STR("use_dpop_nonce"), "the proof must hold the nonce given here");
    } else {
        enum dpop_use use = dpop_use(auth->dpop, proof, identity->name, clock_wall_ms());
        if (use == DPOP_USED) {
            refuse_proof(conn, STR("invalid_dpop_proof"), "the proof was used before");
        } else if (use == DPOP_FULL) {
            refuse_for_now(conn, "too many proofs within a minute");
        }
        return use == DPOP_FRESH;
    }
    return false;
}

static bool conn_set_identity(struct http_conn *conn, struct auth_identity *identity)
{
    const struct principal *principal = NULL;
    if (!check_binding(conn, identity)) {
        return false;
    }
    int rc = find_principal(conn, identity, &principal, NULL);
    if (rc == TIDINGS_E_NOMEM) {
        refuse_for_now(conn, "out of memory");
        return false;
    }
    if (rc < 0) {
        refuse_token(conn, 401, STR("invalid_token"),
                     "the token names somebody by too long a name");
        return false;
    }
    if (!has_scopes(conn->hw->config->auth, principal)) {
        refuse_token(conn, 403, STR("insufficient_scope"),
                     "the token lacks a scope that is needed");
        return false;
    }
    channel_set_principal(&conn->channel, principal);
    return true;
}

/* true: it may go on. */
static bool http_auth_take_verdict(struct http_conn *conn, const struct auth_answer *answer)
{
    switch (answer->outcome) {
    case AUTH_OK:
        return conn_set_identity(conn, answer->identity);
    case AUTH_MALFORMED:
        refuse_token(conn, 400, STR("invalid_request"), answer->description);
        break;
    case AUTH_INVALID:
        refuse_token(conn, 401, STR("invalid_token"), answer->description);
        break;
    case AUTH_UNAVAILABLE:
        refuse_for_now(conn, answer->description);
        break;
    }
    return false;
}

/* Takes the share of a token that waits. It is not known yet whose it is: its connection's. */
static bool http_auth_may_wait(void *user)
{
    struct http_conn *conn = user;
    struct allowance *origin = conn->channel.origin;
    struct limit_counters *counters = conn->hw->worker->limit_counters;
    const struct share_taker who = {.account = origin,
                                    .is_operator = origin && allowance_is_user(origin)};
    conn->r->token_waits = share_take(counters, LIMIT_TOKENS, counters->values[LIMIT_TOKENS], 1,
                                      &who, &conn->hw->token_refusal);
    return conn->r->token_waits;
}

static void http_auth_end_wait(struct http_conn *conn)
{
    conn->r->pending_token = NULL;
    if (conn->r->token_waits) {
        conn->r->token_waits = false;
        share_give(conn->hw->worker->limit_counters, LIMIT_TOKENS, 1, conn->channel.origin);
    }
}

static void http_auth_on_verdict(void *user, const struct auth_answer *answer)
{
    struct http_conn *conn = user;
    http_auth_end_wait(conn);
    if (http_auth_take_verdict(conn, answer)) {
        conn_set_state(conn, CONN_HEAD);
        conn_go_on(conn);
    }
    conn_want(conn);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static struct token_cache *find_token_cache(struct http_worker *hw)
{
    if (!hw->token_cache) {
        hw->token_cache =
            auth_create_cache(hw->config->auth->auth, hw->inbox.mailbox, release_principal, NULL);
        if (hw->token_cache) {
            token_cache_set_may_wait(hw->token_cache, http_auth_may_wait);
        }
    }
    return hw->token_cache;
}

/* What the proof of a key says by itself; whether it is the token's is seen when that is known. */
static bool check_proof(struct http_conn *conn, const struct http_request *req,
                        struct tidings_str token)
{
    unsigned count = 0;
    struct dpop_request r = {.proof = http_header(req, "dpop", &count),
                             .method = req->method_name,
                             .path = req->path,
                             .token = token};
    const char *why =
        count != 1 ? "there must be one field DPoP with a proof"
                   : dpop_check(conn->hw->config->auth->dpop, &r, clock_wall_ms(), &conn->r->proof);
    if (why) {
        refuse_proof(conn, STR("invalid_dpop_proof"), why);
    }
    return why == NULL;
}

bool conn_authenticate(struct http_conn *conn, const struct http_request *req)
{
    if (req->method == HTTP_OPTIONS || conn->r->path == PATH_METADATA ||
        conn->r->path == PATH_CONSOLE || conn->r->path == PATH_HEALTH) {
        return true; /* a browser sends no token with a preflight, nor when it opens a page */
    }
    struct tidings_str token;
    const char *why = NULL;
    struct auth_answer answer;
    enum bearer_result found = bearer_find(req, &token, &why);
    conn->r->proof.key[0] = '\0';
    if (found == BEARER_BOUND && conn->hw->config->auth->dpop) {
        if (!check_proof(conn, req, token)) {
            return false;
        }
    } else if (found != BEARER_TOKEN) {
        if (found == BEARER_NONE || found == BEARER_BOUND) {
            refuse_unknown(conn);
        } else {
            refuse_token(conn, 400, STR("invalid_request"), why);
        }
        return false;
    }
    struct token_cache *cache = find_token_cache(conn->hw);
    if (!cache) {
        refuse_for_now(conn, "out of memory");
        return false;
    }
    http_review_tokens(conn->hw);
    conn->hw->token_refusal = (struct refusal){0};
    if (token_cache_ask(cache, token, &answer, &conn->r->pending_token, http_auth_on_verdict,
                        conn)) {
        http_auth_end_wait(conn);
        if (conn->hw->token_refusal.retry_ms > 0) {
            conn->r->after = AFTER_REFUSE; /* its body was not read */
            inbound_refuse_limit(&conn->channel, &conn->hw->token_refusal, NULL);
            return false;
        }
        return http_auth_take_verdict(conn, &answer);
    }
    conn_set_state(conn, CONN_AUTHENTICATING);
    return false;
}

void conn_forget_pending_token(struct http_conn *conn)
{
    token_cache_cancel(conn->r->pending_token);
    http_auth_end_wait(conn);
}

void conn_give_up_pending_token(struct http_conn *conn)
{
    conn_forget_pending_token(conn);
    refuse_for_now(conn, "the token could not be verified in time");
}

/* ---- taking back ----------------------------------------------------------------------------- */

static void http_auth_dismiss(struct http_worker *hw, principal_test_fn is_gone, void *user)
{
    access_enforce_revocation(hw->worker, is_gone, user);
    websocket_dismiss(hw->websockets, is_gone, user);
    legacy_sse_dismiss(hw, is_gone, user);
}

static bool is_equal_to(void *user, const struct principal *principal)
{
    return principal_is_equal(user, principal);
}

static void on_revoked(void *user, void *attached)
{
    http_auth_dismiss(user, is_equal_to, attached);
}

/* Its key was withdrawn. */
static bool is_unproven(void *user, const struct principal *principal)
{
    return !auth_proof_is_valid(user, principal->proof);
}

void http_review_tokens(struct http_worker *hw)
{
    if (hw->token_cache && token_cache_needs_review(hw->token_cache)) {
        token_cache_review(hw->token_cache, on_revoked, hw);
        http_auth_dismiss(hw, is_unproven, hw->config->auth->auth);
    }
}

/* ---- metadata -------------------------------------------------------------------------------- */

bool metadata_is_at(const struct http_auth *auth, struct tidings_str path)
{
    if (!auth || auth->metadata.len == 0) {
        return false;
    }
    if (str_eq(path, STR(AUTH_SERVER_PATH))) {
        return true;
    }
    static const struct tidings_str known = {AUTH_METADATA_PATH, sizeof(AUTH_METADATA_PATH) - 1};
    struct tidings_str rest = str_skip(path, known.len);
    return str_starts(path, known) &&
           (rest.len == 0 || str_eq(rest, STR("/mcp")) || str_eq(rest, auth->resource_path));
}

void conn_run_metadata(struct http_conn *conn, const struct http_request *req)
{
    const struct http_auth *auth = conn->hw->config->auth;
    bool leads_on = str_eq(req->path, STR(AUTH_SERVER_PATH));
    struct buf fields, text;
    buf_init(&fields, CHALLENGE_MAX);
    buf_init(&text, auth->metadata.len + 1);
    buf_puts(&fields, STR("Cache-Control: max-age=300\r\n"));
    if (leads_on) {
        http_put_header(&fields, "Location", auth->server_url);
    } else {
        buf_puts(&text, auth->metadata);
    }
    const struct response_headers headers = {.extra = buf_str(&fields)};
    int status = text.failed || fields.failed ? 503 : leads_on ? 307 : 200;
    conn_answer(conn, status, &headers, STR("application/json"), &text);
    buf_deinit(&text);
    buf_deinit(&fields);
}
