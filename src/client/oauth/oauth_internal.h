/* SPDX-License-Identifier: MIT
 *
 * The state behind <tidings/oauth.h>: one flow at a time, the requests that wait for it, and the
 * tokens.
 *
 * Changes to the tokens need the lock of their file. When another process has it, a timer retries a
 * little later: nothing here blocks.
 *
 *     refused ───> (lock) ─> read again ─┬─> another one is there ──────────────> done
 *                                        ├─> flow: refresh ─┬─> write, unlock ──> done
 *                                        │                  └ refused, unlock ┐
 *     login ───> flow: login <───────────┴────────────────────────────────────┘
 *                      └─> (lock) ─> read again, write, unlock ────────────────> done
 *
 * A token close to its expiry is renewed by the same code before a server refuses it, with no
 * request waiting or with those that begin at that moment; this never asks a person to log in. When
 * a request is cancelled while the authorization server is about to issue a token, the token is
 * still received and kept: a refresh token is valid for one use, so a client that breaks off then
 * would have none.
 */
#ifndef CLIENT_OAUTH_OAUTH_INTERNAL_H
#define CLIENT_OAUTH_OAUTH_INTERNAL_H

#include "base/list.h"
#include "base/loop.h"
#include "client/oauth/flow.h"
#include "client/oauth/oauth.h"
#include "client/oauth/token_store.h"

struct tidings_oauth {
    struct tidings_credentials credentials;
    struct oauth_settings settings;
    struct loop *loop;
    struct fetch *fetch;
    struct token_store store;
    struct flow *flow; /* NULL: none is under way */
    struct list waiters;
    char *server;    /* the server of the flow; NULL: none */
    char *challenge; /* … and how it refused */
    char *shown;     /* the refused token; NULL: none was shown */
    bool is_probing;
    bool is_early;          /* nothing was refused: a token is renewed before its end */
    bool was_login;         /* the last that succeeded was a login, no refresh */
    struct token fresh;     /* a token to keep, when the lock is held */
    struct loop_timer lock; /* retries it */
    uint64_t lock_until;    /* clock_monotonic_ms */
    void (*on_lock)(struct tidings_oauth *o);
    char nonce[256];         /* the server's, for proofs */
    struct loop_timer early; /* the last used token is near its end, or the waiting requests are
                                patient no longer */
    char *early_server;      /* … at which it was shown; NULL: none yet */
    uint64_t early_since;    /* clock_monotonic_ms: a renewal before the end is under way */
    uint64_t early_after;    /* clock_monotonic_ms: not before, for it failed */
    uint64_t renewals;       /* of tokens that no server had refused */
    unsigned logins;         /* that asked a person, since … */
    uint64_t logins_since;   /* clock_monotonic_ms */
};

struct oauth_waiter {
    struct list link;
    tidings_credentials_done_fn done;
    void *to;
    bool is_due;       /* it is over, and the waiters before it are being notified */
    uint64_t patience; /* clock_monotonic_ms: then continues with the token at hand; 0: waits for
                          the end */
};

/* ---- oauth.c: getting a token --------------------------------------------------------- */

enum oauth_need {
    OAUTH_LOGIN,       /* a new token, in any case */
    OAUTH_RENEW,       /* another token than `shown`: of another process, renewed, or new */
    OAUTH_RENEW_EARLY, /* the same, except a new one */
    OAUTH_STEP_UP,     /* one with more scopes: of another process, or new */
};

struct oauth_wish {
    const char *server;
    struct tidings_str challenge, shown; /* a token, not a line */
    enum oauth_need need;
    bool is_probing;
};

/* ---- oauth.c: renewing before the end -------------------------------------------------- */

#endif
