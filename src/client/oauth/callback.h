/* SPDX-License-Identifier: MIT
 *
 * The login callback: a listener at 127.0.0.1 to which the browser brings the answer of an
 * authorization server, open while a person logs in (RFC 8252). A request without the state of this
 * login gets an error page and is ignored, because any program on this machine, and any page in the
 * browser, can send one.
 */
#ifndef CLIENT_OAUTH_CALLBACK_H
#define CLIENT_OAUTH_CALLBACK_H

#include "base/loop.h"
#include "base/str.h"

#define CALLBACK_TEXT_MAX 8192u

/* Strings are decoded and untrusted. */
struct callback_answer {
    struct buf code; /* empty: an error instead */
    struct buf error, description;
    struct buf issuer; /* `iss`; empty: not said */
    bool has_issuer;
};

void callback_answer_init(struct callback_answer *a);
void callback_answer_deinit(struct callback_answer *a);
/* From the query of a request. False: it is not the answer to this state, or none at all. */
bool callback_answer_read(struct callback_answer *a, struct tidings_str query, const char *state);

struct callback;
/* Called once; from then on the listener answers no other request, and the callback may close
 * it. */
typedef void (*callback_fn)(void *user, const struct callback_answer *answer);

/* `port` 0: any that is free. `state` is borrowed. */
int callback_open(struct callback **ret, struct loop *loop, uint16_t port, const char *state,
                  callback_fn fn, void *user, struct tidings_error *err);
void callback_close(struct callback *c); /* NULL is fine */
/* "http://127.0.0.1:PORT/callback" */
const char *callback_url(const struct callback *c);

#endif
