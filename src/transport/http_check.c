/* SPDX-License-Identifier: MIT
 *
 * Checks of an HTTP request that need only its head, in the order of the specification: path and
 * method, Host and Origin, token, size and type.
 */
#include "transport/http_check.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/protocol/enforce.h"
#include "engine/protocol/inbound.h"
#include "engine/protocol/request.h"
#include "engine/protocol/session_migration.h"
#include "formats/http_fields.h"
#include "formats/websocket.h"
#include "security/client_account.h"
#include "security/dpop.h"
#include "security/limits.h"
#include "transport/connection.h"
#include "transport/http_internal.h"
#include "transport/peer_identity.h"

/* -------------------------------------------------------------------------------------------------
 * Finds the token of a request, has it verified and finds its principal; answers requests without a
 * valid token.
 */

#define CHALLENGE_MAX 8192u
#define RETRY_SECONDS "5"

/* ---- refusing -------------------------------------------------------------------------------- */

static void http_auth_refuse(struct http_conn *conn, int status, const struct bearer_challenge *c,
                             const char *text)
{
    struct buf fields;
    buf_init(&fields, CHALLENGE_MAX);
    char nonce[DPOP_NONCE_TEXT];
    const struct dpop *dpop = http_worker_of(conn)->config->auth->dpop;
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

/* If tokens must be bound to a key, the challenge requests nothing else. */
static bool wants_proofs(const struct http_auth *auth)
{
    return auth->dpop && dpop_is_required(auth->dpop);
}

static void refuse_unknown(struct http_conn *conn)
{
    const struct http_auth *auth = http_worker_of(conn)->config->auth;
    bool is_bound = wants_proofs(auth);
    const struct bearer_challenge c = {.scheme = is_bound ? STR("DPoP") : STR_EMPTY,
                                       .scope = auth->scope,
                                       .metadata = auth->metadata_url,
                                       .algs = is_bound ? STR(DPOP_ALGORITHMS) : STR_EMPTY};
    http_auth_refuse(conn, 401, &c,
                     is_bound ? "a token that is bound to a key is needed"
                              : "a bearer token is needed");
}

/* `error` according to RFC 6750 §3.1. */
static void refuse_token(struct http_conn *conn, int status, struct tidings_str error,
                         const char *text)
{
    const struct http_auth *auth = http_worker_of(conn)->config->auth;
    const struct bearer_challenge c = {.error = error,
                                       .description = tidings_str(text),
                                       .scope = status == 400 ? STR_EMPTY : auth->scope,
                                       .metadata = auth->metadata_url};
    http_auth_refuse(conn, status, &c, text);
}

/* `error` according to RFC 9449 §7.1. */
static void refuse_proof(struct http_conn *conn, struct tidings_str error, const char *text)
{
    const struct http_auth *auth = http_worker_of(conn)->config->auth;
    const struct bearer_challenge c = {.scheme = STR("DPoP"),
                                       .error = error,
                                       .description = tidings_str(text),
                                       .scope = auth->scope,
                                       .metadata = auth->metadata_url,
                                       .algs = STR(DPOP_ALGORITHMS)};
    http_auth_refuse(conn, 401, &c, text);
}

/* All scopes that the operation needs, including those of every token. */
void conn_put_insufficient(struct http_conn *conn, struct buf *head, struct tidings_str scopes)
{
    const struct http_auth *auth = http_worker_of(conn)->config->auth;
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

/* Gets the principal of an identity; the cache keeps it with the token. */
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
    /* The rules may have changed since it was cached. */
    int rc = principal
                 ? principal_renew(conn->base.channel.worker->principals, &principal)
                 : principal_intern(conn->base.channel.worker->principals, &spec, &principal, err);
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

/* A token that is bound to a key must come with a proof by that key, and other tokens must not. */
static bool check_binding(struct http_conn *conn, const struct auth_identity *identity)
{
    const struct http_auth *auth = http_worker_of(conn)->config->auth;
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
        refuse_token(conn, 401, STR("invalid_token"), "the token's subject is too long");
        return false;
    }
    if (!has_scopes(http_worker_of(conn)->config->auth, principal)) {
        refuse_token(conn, 403, STR("insufficient_scope"),
                     "the token lacks a scope that is needed");
        return false;
    }
    channel_set_principal(&conn->base.channel, principal);
    return true;
}

/* Returns true if the request may continue. */
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

/* Takes the share of a waiting token. The client is not known yet, so the connection's share is
 * used. */
static bool http_auth_may_wait(void *user)
{
    struct http_conn *conn = user;
    struct client_account *origin = conn->base.channel.origin;
    struct limit_counters *counters = conn->base.channel.worker->limit_counters;
    const struct share_taker who = {.account = origin,
                                    .is_operator = origin && client_account_is_user(origin)};
    conn->r->token_waits = share_take(counters, LIMIT_TOKENS, counters->values[LIMIT_TOKENS], 1,
                                      &who, &http_worker_of(conn)->token_refusal);
    return conn->r->token_waits;
}

static void http_auth_end_wait(struct http_conn *conn)
{
    conn->r->pending_token = NULL;
    conn_set_work(conn, NULL, NULL);
    if (conn->r->token_waits) {
        conn->r->token_waits = false;
        share_give(conn->base.channel.worker->limit_counters, LIMIT_TOKENS, 1,
                   conn->base.channel.origin);
    }
}

static void conn_forget_pending_token(struct http_conn *conn)
{
    token_cache_cancel(conn->r->pending_token);
    http_auth_end_wait(conn);
}

static void http_auth_on_verdict(void *user, const struct auth_answer *answer)
{
    struct http_conn *conn = user;
    http_auth_end_wait(conn);
    if (http_auth_take_verdict(conn, answer)) {
        connection_set_state(&conn->base, CONN_HEAD);
        conn_go_on(conn);
    }
    conn_set_events(conn);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static struct token_cache *find_token_cache(struct http_worker *hw)
{
    if (!hw->token_cache) {
        hw->token_cache = auth_create_cache(hw->config->auth->auth, hw->base.inbox.mailbox,
                                            release_principal, NULL);
        if (hw->token_cache) {
            token_cache_set_may_wait(hw->token_cache, http_auth_may_wait);
            hw->base.review_ms = REVIEW_MS;
        }
    }
    return hw->token_cache;
}

/* Checks the proof of a key by itself; the binding to the token is checked when the token is
 * known. */
static bool check_proof(struct http_conn *conn, const struct http_request *req,
                        struct tidings_str token)
{
    unsigned count = 0;
    struct dpop_request r = {.proof = http_header(req, "dpop", &count),
                             .method = req->method_name,
                             .path = req->path,
                             .token = token};
    const char *why = count != 1 ? "there must be one field DPoP with a proof"
                                 : dpop_check(http_worker_of(conn)->config->auth->dpop, &r,
                                              clock_wall_ms(), &conn->r->proof);
    if (why) {
        refuse_proof(conn, STR("invalid_dpop_proof"), why);
    }
    return why == NULL;
}

static bool conn_authenticate(struct http_conn *conn, const struct http_request *req)
{
    if (req->method == HTTP_OPTIONS || conn->r->page->is_public) {
        return true; /* a browser sends no token with a preflight, nor when it opens a page */
    }
    struct tidings_str token;
    const char *why = NULL;
    struct auth_answer answer;
    enum bearer_result found = bearer_find(req, &token, &why);
    conn->r->proof.key[0] = '\0';
    if (found == BEARER_BOUND && http_worker_of(conn)->config->auth->dpop) {
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
    struct token_cache *cache = find_token_cache(http_worker_of(conn));
    if (!cache) {
        refuse_for_now(conn, "out of memory");
        return false;
    }
    http_review_tokens(http_worker_of(conn));
    http_worker_of(conn)->token_refusal = (struct refusal){0};
    if (token_cache_ask(cache, token, &answer, &conn->r->pending_token, http_auth_on_verdict,
                        conn)) {
        http_auth_end_wait(conn);
        if (http_worker_of(conn)->token_refusal.retry_ms > 0) {
            conn->r->after = AFTER_REFUSE; /* its body was not read */
            inbound_refuse_limit(&conn->base.channel, &http_worker_of(conn)->token_refusal, NULL);
            return false;
        }
        return http_auth_take_verdict(conn, &answer);
    }
    conn_set_work(conn, conn->r->pending_token, conn_forget_pending_token);
    connection_set_state(&conn->base, CONN_AUTHENTICATING);
    return false;
}

void http_give_up_token(struct connection *c)
{
    conn_forget_pending_token(http_conn_of(c));
    refuse_for_now(http_conn_of(c), "the token could not be verified in time");
}

/* ---- taking back ----------------------------------------------------------------------------- */

static void http_auth_dismiss(struct http_worker *hw, principal_test_fn is_gone, void *user)
{
    access_enforce_revocation(hw->base.worker, is_gone, user);
    connection_worker_dismiss(&hw->base, is_gone, user);
}

static bool is_equal_to(void *user, const struct principal *principal)
{
    return principal_is_equal(user, principal);
}

static void on_revoked(void *user, void *attached)
{
    http_auth_dismiss(user, is_equal_to, attached);
}

/* Its key was revoked. */
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

bool metadata_is_at(const struct http_conn *conn, struct tidings_str path)
{
    const struct http_auth *auth = http_worker_of(conn)->config->auth;
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
    const struct http_auth *auth = http_worker_of(conn)->config->auth;
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

/* -------------------------------------------------------------------------------------------------
 * Imports the session of a request if it may be at another node
 * (engine/protocol/session_migration.h). Only the connection of the request waits for that. Servers
 * without shared sessions never wait.
 */

struct tidings_str conn_session_named(const struct http_page *page, const struct http_request *req)
{
    struct tidings_str query = req->query;
    while (query.len > 0 && page && page->names_session) {
        struct tidings_str value;
        struct tidings_str pair = str_cut(query, '&', &query, NULL);
        if (str_eq(str_cut(pair, '=', &value, NULL), STR("sessionId"))) {
            return value;
        }
    }
    return tidings_strn(NULL, 0);
}

struct tidings_str conn_session_id(const struct http_page *page, const struct http_request *req)
{
    static const struct tidings_str none = {NULL, 0};
    struct tidings_str id = http_header(req, "mcp-session-id", NULL);
    if (ws_is_upgrade(req)) {
        return none; /* a WebSocket does not belong to a session */
    }
    if (!id.ptr) {
        return conn_session_named(page, req);
    }
    struct tidings_str version = http_header(req, "mcp-protocol-version", NULL);
    return version.ptr && dialect_is_modern_version(version) ? none : id;
}

static void conn_go_on_with(struct http_conn *conn, enum http_session session)
{
    conn->r->session = session;
    connection_set_state(&conn->base, CONN_HEAD);
    conn_go_on(conn);
    conn_set_events(conn);
}

static void conn_on_session(struct session_wait *wait, int code)
{
    struct http_conn *conn = wait->user;
    conn_set_work(conn, NULL, NULL);
    mem_free(wait);
    conn_go_on_with(conn, code == TIDINGS_E_CONFLICT ? HTTP_SESSION_UNASKED
                          : code < 0                 ? HTTP_SESSION_UNKNOWN
                                                     : HTTP_SESSION_READY);
}

static void conn_forget_session(struct http_conn *conn)
{
    struct session_wait *wait = conn->r->work;
    session_await_cancel(wait);
    mem_free(wait);
    conn_set_work(conn, NULL, NULL);
}

void http_give_up_session(struct connection *c)
{
    conn_forget_session(http_conn_of(c));
    conn_go_on_with(http_conn_of(c), HTTP_SESSION_UNKNOWN);
}

static void refuse_unknown_session(struct http_conn *conn)
{
    inbound_refuse_later(&conn->base.channel,
                         "the store that keeps sessions cannot say now whether this one is at "
                         "another node; try again");
}

/* A query of the store counts as a separate request. */
static bool ask_for_session(struct http_conn *conn, const struct session_lookup *asked)
{
    struct refusal why;
    struct session_wait *wait = mem_zalloc(sizeof(*wait));
    if (!wait) {
        refuse_unknown_session(conn);
        return true;
    }
    wait->done = conn_on_session;
    wait->user = conn;
    switch (session_await(wait, &conn->base.channel, asked, &why)) {
    case SESSION_AWAITED:
        conn_set_work(conn, wait, conn_forget_session);
        connection_set_state(&conn->base, CONN_ADOPTING);
        return true;
    case SESSION_REFUSED:
        inbound_refuse_limit(&conn->base.channel, &why, NULL);
        break;
    case SESSION_BUSY:
        refuse_unknown_session(conn);
        break;
    case SESSION_READY:
        mem_free(wait);
        return false;
    }
    mem_free(wait);
    return true;
}

bool conn_awaits_session(struct http_conn *conn, const struct http_request *req)
{
    const struct http_page *page = conn->r->page;
    const struct worker *worker = conn->base.channel.worker;
    if (!worker->sessions->movers || req->method == HTTP_OPTIONS || !page->has_sessions) {
        return false;
    }
    const struct session_lookup asked = {
        .id = conn_session_id(page, req),
        .is_stream = req->method == HTTP_GET,
        .last_event_id =
            req->method == HTTP_GET ? http_header(req, "last-event-id", NULL) : STR_EMPTY,
    };
    if (!asked.id.ptr || !session_may_be_elsewhere(worker, &asked)) {
        return false;
    }
    if (conn->r->session == HTTP_SESSION_UNKNOWN) {
        bool is_good = session_has_arrived(worker, asked.id) &&
                       !session_was_elsewhere(&conn->base.channel, &asked);
        if (!is_good) {
            refuse_unknown_session(conn);
        }
        return !is_good;
    }
    /* The result of another request's query may be older than this client's last answer at another
     * node. */
    if (conn->r->session == HTTP_SESSION_READY && !conn->r->doubts_session &&
        (session_was_elsewhere(&conn->base.channel, &asked) ||
         session_is_behind_client(&conn->base.channel, &asked))) {
        conn->r->doubts_session = true;
        return ask_for_session(conn, &asked);
    }
    return conn->r->session == HTTP_SESSION_UNASKED && ask_for_session(conn, &asked);
}

/* -------------------------------------------------------------------------------------------------
 * Compares Host and Origin with the server's names: split strictly, compared exactly, without
 * prefixes, suffixes or other spellings of an address.
 */

/* Extracts the name from "name", "name:80", "[::1]", "[::1]:80". Returns false for anything
 * else. */
static bool split_port(struct tidings_str s, struct tidings_str *name)
{
    size_t end = 0;
    if (s.len > 0 && s.ptr[0] == '[') {
        ptrdiff_t close = str_find(s, ']');
        if (close < 0) {
            return false;
        }
        end = (size_t)close + 1;
    } else {
        ptrdiff_t colon = str_find(s, ':');
        end = colon < 0 ? s.len : (size_t)colon;
    }
    *name = tidings_strn(s.ptr, end);
    struct tidings_str rest = str_skip(s, end);
    if (end == 0) {
        return false;
    }
    if (rest.len == 0) {
        return true;
    }
    uint64_t port = 0;
    return rest.ptr[0] == ':' && rest.len <= 6 && str_to_u64(str_skip(rest, 1), &port) &&
           port > 0 && port <= 65535;
}

static bool is_loopback_name(struct tidings_str name)
{
    return str_eq_nocase(name, STR("localhost")) || str_eq(name, STR("127.0.0.1")) ||
           str_eq(name, STR("[::1]"));
}

bool origin_check_knows_host(const struct origin_check *g, struct tidings_str host)
{
    struct tidings_str name;
    if (!split_port(host, &name)) {
        return false;
    }
    if (is_loopback_name(name)) {
        return true;
    }
    for (size_t i = 0; i < g->host_count; i++) {
        if (str_eq_nocase(name, tidings_str(g->hosts[i])) ||
            str_eq_nocase(host, tidings_str(g->hosts[i]))) {
            return true;
        }
    }
    return false;
}

static void put_v6(const struct in6_addr *a, struct arrival *ret)
{
    char text[INET6_ADDRSTRLEN];
    if (IN6_IS_ADDR_V4MAPPED(a)) { /* it came over IPv4, so it has an IPv4 name */
        inet_ntop(AF_INET, &a->s6_addr[12], ret->address, sizeof(ret->address));
        return;
    }
    inet_ntop(AF_INET6, a, text, sizeof(text));
    snprintf(ret->address, sizeof(ret->address), "[%s]", text);
}

void origin_check_arrival(int fd, struct arrival *ret)
{
    union socket_address to = {0};
    socklen_t len = sizeof(to);
    *ret = (struct arrival){.address = ""};
    if (getsockname(fd, &to.any, &len) < 0) {
        return;
    }
    ret->is_local = socket_address_is_local(&to);
    if (to.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &to.v4.sin_addr, ret->address, sizeof(ret->address));
    } else if (to.any.sa_family == AF_INET6) {
        put_v6(&to.v6.sin6_addr, ret);
    }
}

bool origin_check_own_host(const struct arrival *at, const struct tls_session *tls,
                           struct tidings_str host)
{
    struct tidings_str name;
    if (!split_port(host, &name)) {
        return false;
    }
    return str_eq_nocase(name, tidings_str(at->address)) || (tls && tls_session_is_for(tls, name));
}

bool origin_check_allows(const struct origin_check *g, const struct arrival *at,
                         struct tidings_str origin)
{
    for (size_t i = 0; i < g->origin_count; i++) {
        if (str_eq(origin, tidings_str(g->origins[i]))) {
            return true;
        }
    }
    if (!at->is_local) {
        return false;
    }
    static const struct tidings_str schemes[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < 2; i++) {
        struct tidings_str name;
        if (str_starts(origin, schemes[i]) && split_port(str_skip(origin, schemes[i].len), &name)) {
            return is_loopback_name(name);
        }
    }
    return false;
}

bool origin_check_is_own(struct tidings_str origin, struct tidings_str host, bool is_tls)
{
    /* Without TLS here, a proxy may have terminated TLS: the page may have either scheme. */
    static const struct tidings_str schemes[] = {{"https://", 8}, {"http://", 7}};
    for (size_t i = 0; i < (is_tls ? 1u : 2u); i++) {
        if (str_starts(origin, schemes[i])) {
            return str_eq_nocase(str_skip(origin, schemes[i].len), host);
        }
    }
    return false;
}

/* ---------------------------------------------------------------------------------------------- */

/* ---- path and method ------------------------------------------------------------------------- */

static void refuse_method(struct http_conn *conn, struct tidings_str allowed, const char *text)
{
    const struct response_headers allow = {.allow = allowed, .reason = tidings_str(text)};
    struct buf body;
    buf_init(&body, 4096);
    buf_putf(&body, "%s\n", text);
    conn->r->after = AFTER_CLOSE;
    conn_answer(conn, 405, &allow, STR("text/plain; charset=utf-8"), &body);
    buf_deinit(&body);
}

/* Finds the page; returns false after a rejection. */
static bool check_path(struct http_conn *conn, const struct http_request *req)
{
    struct http_reading *r = conn->r;
    r->page = page_find(conn, str_eq(req->target, STR("*")) ? STR(ENDPOINT_PATH) : req->path);
    r->polls = false;
    if (!r->page) {
        const struct response_headers headers = {
            .reason = conn_is_monitoring(conn)
                          ? STR("here are /metrics, /livez and /readyz")
                          : STR("nothing is here; the endpoint is /mcp, resources are "
                                "at " RESOURCE_PATH "?uri="),
            .path = req->path};
        conn_refuse_with(conn, 404, &headers);
        return false;
    }
    return true;
}

/* Checks that the page has this method. */
static bool check_method(struct http_conn *conn, const struct http_request *req)
{
    const struct http_page *page = conn->r->page;
    unsigned method = 1u << req->method;
    if (page->takes_all || (page->upgrades && ws_is_upgrade(req)) ||
        (page_methods(conn) & method)) {
        return true;
    }
    if ((HTTP_ENDPOINT_METHODS & method) == 0 && !conn_is_monitoring(conn)) {
        refuse_method(conn, page_allows(conn, HTTP_ENDPOINT_METHODS),
                      "use POST (messages), GET (stream of a session) or DELETE (its end)");
    } else {
        refuse_method(conn, page_allows(conn, page_methods(conn)),
                      "this path takes another method");
    }
    return false;
}

/* ---- Host and Origin ------------------------------------------------------------------------- */

/* A browser names the origin of a request. Pages of other sites send an Origin for content that
 * they may read. Embedded content (images, scripts, frames) and links come without one, and would
 * reveal at least whether a resource exists. */
static bool check_site(struct http_conn *conn, const struct http_request *req)
{
    unsigned count = 0;
    struct tidings_str site = http_header(req, "sec-fetch-site", &count);
    if (count == 0 ||
        (count == 1 && (str_eq(site, STR("same-origin")) || str_eq(site, STR("none"))))) {
        return true;
    }
    conn_refuse_for(
        conn, FAILURE_ORIGIN, 403,
        "pages of other sites cannot embed or link to what is here (Sec-Fetch-Site); a page "
        "named by --allow-origin can fetch it with CORS");
    return false;
}

static bool check_guard(struct http_conn *conn, const struct http_request *req)
{
    const struct origin_check *allowed = &http_worker_of(conn)->config->origin_check;
    unsigned count = 0;
    struct tidings_str origin = http_header(req, "origin", &count);
    bool is_known = origin_check_knows_host(allowed, req->host);
    if (is_known && count == 0) {
        return check_site(conn, req); /* most requests: no further check is necessary */
    }
    struct arrival at;
    origin_check_arrival(conn->base.out.fd, &at);
    if (!is_known && !origin_check_own_host(&at, sendq_tls(&conn->base.out), req->host)) {
        conn_refuse_for(
            conn, FAILURE_HOST, 403,
            "this Host is not served here: it is neither the address that was reached nor "
            "a name in the certificate; see --allow-host");
        return false;
    }
    if (count == 0) {
        return check_site(conn, req);
    }
    bool is_own = http_worker_of(conn)->config->console_page.len > 0 &&
                  origin_check_is_own(origin, req->host, sendq_tls(&conn->base.out) != NULL);
    if (count > 1 || (!is_own && !origin_check_allows(allowed, &at, origin))) {
        conn_refuse_for(conn, FAILURE_ORIGIN, 403,
                        "this Origin is not allowed; see --allow-origin");
        return false;
    }
    mem_free(conn->r->origin);
    conn->r->origin = conn_is_monitoring(conn) ? NULL : str_dup(origin); /* never for metrics */
    return true;
}

/* ---- whose it is ----------------------------------------------------------------------------- */

/* If tokens are configured, only they identify a client: a certificate may be a proxy's. */
static bool check_principal(struct http_conn *conn, const struct http_request *req)
{
    if (http_worker_of(conn)->config->auth) {
        return conn_authenticate(conn, req);
    }
    if (peer_identity_apply(&conn->base.channel, conn->base.out.fd, sendq_tls(&conn->base.out)) <
        0) {
        conn_refuse(conn, 503, "out of memory");
        return false;
    }
    if (principal_is_expired(conn->base.channel.principal, clock_wall_ms())) {
        conn_refuse_for(conn, FAILURE_AUTHENTICATION, 403,
                        "the certificate of this connection has expired");
        return false;
    }
    return true;
}

/* Collects the fields for log messages. */
static void note_request(struct http_conn *conn, const struct http_request *req)
{
    static const char *const names[] = {
        [HTTP_OTHER] = "OTHER",   [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",
        [HTTP_POST] = "POST",     [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH",
        [HTTP_DELETE] = "DELETE", [HTTP_OPTIONS] = "OPTIONS",
    };
    struct http_reading *r = conn->r;
    unsigned count = 0;
    struct tidings_str parent = http_header(req, "traceparent", &count);
    struct trace trace;
    r->method = names[req->method];
    r->begun_ns = log_wants_access() ? clock_monotonic_ns() : 0;
    r->context = (struct log_context){.request_id = ""};
    r->traceparent[0] = '\0';
    access_log_number(conn->base.channel.worker, r->context.request_id);
    if (count == 1 && trace_read(parent, STR_EMPTY, &trace)) {
        memcpy(r->traceparent, trace.parent, sizeof(r->traceparent));
        memcpy(r->context.trace_id, trace_id(&trace).ptr, TRACE_ID_LEN);
        memcpy(r->context.span_id, trace_span_id(&trace).ptr, TRACE_SPAN_LEN);
    }
}

bool conn_check_head(struct http_conn *conn, const struct http_request *req)
{
    struct http_reading *r = conn->r;
    note_request(conn, req);
    r->after = req->keep_alive && !conn_is_monitoring(conn) ? AFTER_KEEP : AFTER_CLOSE;
    r->is_http10 = req->minor == 0;
    r->is_head = req->method == HTTP_HEAD;
    return check_path(conn, req) && check_method(conn, req) && check_guard(conn, req) &&
           (!r->page->check_head || r->page->check_head(conn, req)) && check_principal(conn, req);
}

/* ---- size and type --------------------------------------------------------------------------- */

static bool check_post(struct http_conn *conn, const struct http_request *req)
{
    struct tidings_str type = http_header(req, "content-type", NULL);
    struct tidings_str media = str_trim(str_cut(type, ';', &type, NULL), " \t");
    if (!str_eq_nocase(media, STR("application/json"))) {
        conn_refuse(conn, 415, "Content-Type must be application/json");
        return false;
    }
    struct tidings_str coding = http_header(req, "content-encoding", NULL);
    if (coding.ptr && !str_eq_nocase(coding, STR("identity"))) {
        conn_refuse(conn, 415, "send the message without Content-Encoding");
        return false;
    }
    struct tidings_str accept = http_header(req, "accept", NULL);
    conn->r->takes_events = !accept.ptr || http_list_has(accept, "text/event-stream") ||
                            http_list_has(accept, "text/*") || http_list_has(accept, "*/*");
    if (!conn->r->takes_events && !http_list_has(accept, "application/json") &&
        !http_list_has(accept, "application/*")) {
        conn_refuse(conn, 406, "Accept must allow application/json and text/event-stream");
        return false;
    }
    return true;
}

static bool check_get(struct http_conn *conn, const struct http_request *req)
{
    struct tidings_str accept = http_header(req, "accept", NULL);
    if (conn->r->page->polls && accept.ptr && !http_list_has(accept, "text/event-stream") &&
        http_list_has(accept, "application/json")) {
        conn->r->polls = true;
    } else if (accept.ptr && !http_list_has(accept, "text/event-stream") &&
               !http_list_has(accept, "text/*") && !http_list_has(accept, "*/*")) {
        conn_refuse(conn, 406, "Accept must allow text/event-stream");
        return false;
    }
    return true;
}

bool conn_check_types(struct http_conn *conn, const struct http_request *req)
{
    if (req->method == HTTP_POST) {
        return check_post(conn, req);
    }
    return req->method != HTTP_GET || check_get(conn, req);
}

bool conn_check_body(struct http_conn *conn, const struct http_request *req)
{
    const struct http_page *page = conn->r->page;
    if (req->content_length > http_worker_of(conn)->config->max_body) {
        conn_refuse_over(conn, LIMIT_BODY, 413,
                         "the body is larger than this server accepts; see --max-body");
        return false;
    }
    return !page->check_body || page->check_body(conn, req);
}

/* ---- rate ------------------------------------------------------------------------------------ */

bool conn_check_rate(struct http_conn *conn)
{
    struct refusal why;
    uint64_t now = loop_now_ms(conn->base.channel.worker->loop);
    if (quota_take_request(channel_quota(&conn->base.channel), now, &why)) {
        return true;
    }
    inbound_refuse_limit(&conn->base.channel, &why, NULL);
    return false;
}
