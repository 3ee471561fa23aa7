/* SPDX-License-Identifier: MIT
 *
 * A transport without a server: messages of the client go to a function, and its replies arrive in
 * the next turn. No sockets, no threads, no time.
 */
#ifndef SUPPORT_FAKE_LINK_H
#define SUPPORT_FAKE_LINK_H

#include "client/client_internal.h"
#include "client/json_api.h"

struct fake;
/* One message the client sent: its method ("" for an answer), its id (0: none), all of it. */
typedef void (*fake_fn)(struct fake *f, const char *method, int64_t id, struct json *message);

struct fake_said {
    struct list link;
    char *text; /* NULL: the connection ends */
};

struct fake {
    struct transport base;
    fake_fn fn;
    void *user;
    struct list said; /* to be delivered */
    struct loop_timer turn;
    char log[8192]; /* a line per message: its method, and its id */
    unsigned opened;
};

/* A client of it; `options` may be NULL. Destroyed with tidings_client_destroy. NULL: no memory. */
struct tidings_client *fake_client(struct fake *f, fake_fn fn, void *user,
                                   const struct tidings_client_options *options);
/* The same on a loop of the test (client/client.h). */
struct tidings_client *fake_client_on(const struct client_host *host, struct fake *f, fake_fn fn,
                                      void *user, const struct tidings_client_options *options);
/* The server says this; NULL: it ends the connection. */
void fake_say(struct fake *f, const char *text);
void fake_sayf(struct fake *f, const char *fmt, ...) TIDINGS_PRINTF(2, 3);
/* It answers a request so; `result` is JSON. */
void fake_result(struct fake *f, int64_t id, const char *result);
void fake_error(struct fake *f, int64_t id, int code, const char *message);
/* It acknowledges all that the listen `m` asks for; `more` are further members of `_meta`, each
 * with a comma before it. */
void fake_acknowledge(struct fake *f, int64_t id, struct json *m, const char *more);
/* Answers what connecting asks, as a server of that era that can be subscribed to; false: it was
 * something else. */
bool fake_modern(struct fake *f, const char *method, int64_t id);
bool fake_legacy(struct fake *f, const char *method, int64_t id);

#endif
