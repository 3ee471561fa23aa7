/* SPDX-License-Identifier: MIT
 *
 * A flow gets one token, from only the address of a server and its refusal, or from the previous
 * token; or it revokes one.
 *
 *     probe ─> resource ─> server ─┬─> register ─> person ──┐
 *       (what the    (who gives    ├─> register ─> device ──┼─> token ─> over
 *     server says)  tokens, how)   ├─> exchange ────────────┤
 *                                  └────────────────────────┘
 *     refresh ─> token ─> over             revoke ─> over
 *
 * Each step is one HTTP request, or a few addresses one after the other, or a person. Everything
 * happens in turns of the loop. A flow reports its end once and is gone.
 */
#ifndef CLIENT_OAUTH_FLOW_H
#define CLIENT_OAUTH_FLOW_H

#include "base/loop.h"
#include "base/net/fetch.h"
#include "client/oauth/documents.h"
#include "client/oauth/oauth.h"

struct flow_host {
    const struct oauth_settings *settings;
    struct loop *loop;
    struct fetch *fetch;
};

enum flow_kind {
    FLOW_LOGIN,   /* a new token */
    FLOW_REFRESH, /* renews the previous token, without asking a person */
    FLOW_REVOKE,
};

struct flow_order {
    enum flow_kind kind;
    const char *server;           /* its URL */
    bool is_probing;              /* ask the server first which scopes it wants */
    struct tidings_str challenge; /* WWW-Authenticate of its refusal; empty: none */
    /* The previous token; NULL: none. A login also asks for its scopes, at the same issuer if the
     * server still names that. */
    const struct token *before;
};

/* `token` is NULL when `why` has the failure, and for FLOW_REVOKE; the callee may take the members
 * of `token`. */
typedef void (*flow_done_fn)(void *user, struct token *token, const struct tidings_error *why);

struct flow;
/* Calls nothing before the next turn. */
int flow_start(struct flow **ret, const struct flow_host *host, const struct flow_order *order,
               flow_done_fn done, void *user, struct tidings_error *err);
/* Returns true if the flow has sent a code or refresh token that is valid for one use, so that a
 * token may be on its way. */
bool flow_is_exchanging(const struct flow *f);
/* The token is no longer needed: `done` is not called. NULL is fine. */
void flow_cancel(struct flow *f);

#endif
