/* SPDX-License-Identifier: MIT
 *
 * The state behind <tidings/oauth.h>: one flow at a time, those who wait for it, and the tokens.
 *
 * Whatever changes the tokens holds the lock of their file. When another process has it, it is
 * asked for again a little later, by an alarm: nothing here blocks.
 *
 *     refused ─┬─> (lock) ─> read again ─┬─> another one is there ──────────────> done
 *              │                         └─> flow: refresh ─┬─> write, unlock ──> done
 *              │                                            └ refused, unlock ┐
 *              └─> flow: login <────────────────────────────────────────────┘
 *                      └─> (lock) ─> read again, write, unlock ────────────────> done
 */
#ifndef OAUTH_OAUTH_PRIVATE_H
#define OAUTH_OAUTH_PRIVATE_H

#include "base/list.h"
#include "oauth/alarm.h"
#include "oauth/flow.h"
#include "oauth/settings.h"
#include "oauth/token_store.h"

struct tidings_oauth {
    struct tidings_credentials credentials;
    struct oauth_settings settings;
    struct loop *loop;
    struct fetch *fetch;
    struct loop_poll *fetch_poll;
    struct token_store store;
    struct flow *flow; /* NULL: none is under way */
    struct list waiters;
    char *server;    /* that the flow is for; NULL: none */
    char *challenge; /* … and how it refused */
    char *shown;     /* the token that it refused; NULL: none was shown */
    bool is_probing;
    bool was_login;      /* the last that succeeded was a login, no refresh */
    struct token fresh;  /* to be kept, when the lock is held */
    struct alarm lock;   /* asks for it again */
    uint64_t lock_until; /* clock_monotonic_ms */
    void (*on_lock)(struct tidings_oauth *o);
    char nonce[256];       /* the server's, for proofs */
    unsigned logins;       /* that asked a person, since … */
    uint64_t logins_since; /* clock_monotonic_ms */
};

struct oauth_waiter {
    struct list link;
    tidings_credentials_done_fn done;
    void *to;
    bool is_due; /* it is over, and those before are being told */
};

/* ---- oauth_obtain.c: getting a token --------------------------------------------------------- */

struct oauth_wish {
    const char *server;
    struct tidings_str challenge, shown; /* a token, not a line */
    bool is_probing, is_renewing;
};
/* Begin; everybody in `waiters` hears how it ends. TIDINGS_E_BUSY: there is one for another server.
 */
int oauth_obtain(struct tidings_oauth *o, const struct oauth_wish *wish, struct tidings_error *err);
/* Nobody waits any more. */
void oauth_give_up(struct tidings_oauth *o);
int oauth_obtain_init(struct tidings_oauth *o, struct tidings_error *err);
void oauth_obtain_deinit(struct tidings_oauth *o);

#endif
