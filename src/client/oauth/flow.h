/* SPDX-License-Identifier: MIT
 *
 * A flow gets one token, from nothing but the address of a server and what it answered, or from the
 * token before; or it gives one back.
 *
 *     probe ─> resource ─> server ─┬─> register ─> person ──┐
 *       (what the    (who gives    ├─> register ─> device ──┼─> token ─> over
 *     server says)  tokens, how)   ├─> exchange ────────────┤
 *                                  └────────────────────────┘
 *     refresh ─> token ─> over             revoke ─> over
 *
 * Each step is one HTTP request, or a few addresses one after the other, or a person. Everything
 * happens in turns of the loop. A flow that is over tells so once and is gone.
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
    FLOW_LOGIN,   /* a new one */
    FLOW_REFRESH, /* the one before renewed, without asking anybody */
    FLOW_REVOKE,
};

struct flow_order {
    enum flow_kind kind;
    const char *server;           /* its URL */
    bool is_probing;              /* ask the server first what it wants */
    struct tidings_str challenge; /* WWW-Authenticate of its refusal; empty: none */
    /* The token before; NULL: none. A login asks for what it was good for, too, and at the same
     * issuer if the server still names that. */
    const struct token *before;
};

/* `token` is NULL when `why` says what failed, and of FLOW_REVOKE; the callee may take what is in
 * it. */
typedef void (*flow_done_fn)(void *user, struct token *token, const struct tidings_error *why);

struct flow;
/* Tells nothing before the next turn. */
int flow_start(struct flow **ret, const struct flow_host *host, const struct flow_order *order,
               flow_done_fn done, void *user, struct tidings_error *err);
/* Was a token asked for, in exchange for something that is good for one use, and may be on its way?
 */
bool flow_is_exchanging(const struct flow *f);
/* Nobody wants it any more: nothing is told. NULL is fine. */
void flow_cancel(struct flow *f);

#endif
