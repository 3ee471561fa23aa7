/* SPDX-License-Identifier: MIT
 *
 * Where the browser brings the answer of an authorization server: a listener at 127.0.0.1, as long
 * as a person is waited for (RFC 8252). Whoever comes without the state of this login is told so
 * and passed over: any program of this machine, and any page in the browser, can come.
 */
#ifndef CLIENT_OAUTH_CALLBACK_H
#define CLIENT_OAUTH_CALLBACK_H

#include "base/loop.h"
#include "base/str.h"

#define CALLBACK_TEXT_MAX 8192u

/* Texts are decoded; whatever is in them a stranger may have written. */
struct callback_answer {
    struct buf code; /* empty: there is none, but an error */
    struct buf error, description;
    struct buf issuer; /* `iss`; empty: not said */
    bool has_issuer;
};

void callback_answer_init(struct callback_answer *a);
void callback_answer_deinit(struct callback_answer *a);
/* From the query of a request. False: it is not the answer to this state, or none at all. */
bool callback_answer_read(struct callback_answer *a, struct tidings_str query, const char *state);

struct callback;
/* Once; the listener answers nobody else from then on, and may be closed inside. */
typedef void (*callback_fn)(void *user, const struct callback_answer *answer);

/* `port` 0: any that is free. `state` is borrowed. */
int callback_open(struct callback **ret, struct loop *loop, uint16_t port, const char *state,
                  callback_fn fn, void *user, struct tidings_error *err);
void callback_close(struct callback *c); /* NULL is fine */
/* "http://127.0.0.1:PORT/callback" */
const char *callback_url(const struct callback *c);

#endif
