/* SPDX-License-Identifier: MIT
 *
 * Who is subscribed to what, while the server runs, and ending that.
 *
 * A *subscriber* is one client that is told of changes: a session of the legacy era, one
 * subscriptions/listen over HTTP, everything on one message connection (stdio, TCP, a Unix socket,
 * a WebSocket), one subscription of the program itself. It has a number that no other subscriber of
 * the server ever has.
 *
 * An answer is put together from the workers. Each worker's part is true at one moment, between two
 * of its turns; the moments of different workers differ. A subscription counts from the moment its
 * client is told that it has it until it ends, and a client that vanished until that is noticed.
 *
 * Threads
 *   These functions wait for every worker, so they are for threads of the program, and for the
 *   callbacks of a server with one worker (`workers` 1, stdio alone, stepped). Otherwise, on a
 *   thread of the library, asking is refused with TIDINGS_E_BUSY, and what changes something is
 *   done a little later: then 0 is returned. They do not disturb the workers for longer than it
 *   takes to copy the rows. While the server does not run there are no subscribers.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_SUBSCRIBERS_H
#define TIDINGS_SUBSCRIBERS_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tidings_server;

/* One subscription. Slices are valid during the call. */
struct tidings_subscriber {
    uint64_t subscriber;
    struct tidings_str session;        /* the id of a legacy session; else empty */
    struct tidings_str stream;         /* what it is told through: "sse", …; empty: nothing now */
    struct tidings_str subscribed_uri; /* as the client wrote it */
    struct tidings_str subscription_id; /* JSON text, of a listen; empty in the legacy era */
    uint32_t period_ms;                 /* between two updates at least */
    bool suspended;                     /* its filter took too long: it is not evaluated any more */
    bool truncated; /* it has yet to be told that something, unknown what, changed */
    /* Who it is: */
    struct tidings_str principal; /* the name it has shown to be its own; empty: none */
    struct tidings_str address;   /* "192.0.2.1:50044", "uid:1000"; empty: not known */
    struct tidings_str client_name, client_version; /* what it calls itself; may be empty */
    struct tidings_str listener; /* "http", "https", "tcp", "tls", "unix", "stdio", "program" */
    bool is_modern;              /* it speaks the modern era */
    int64_t since_ms;            /* it is there; Unix time */
    /* How it fares: */
    uint64_t waiting;   /* notifications that wait for it */
    uint64_t lag_ms;    /* how long the oldest of them has, or its stream takes nothing */
    uint64_t bytes_out; /* that its connection has taken */
    struct tidings_str last_error; /* the sentence it was last refused with; empty: none */
    int64_t last_error_ms;         /* when; Unix time */
};

/* Called on the thread that asked, once all answers are there; may call anything. false: no more.
 */
typedef bool (*tidings_subscriber_fn)(void *user, const struct tidings_subscriber *subscriber);

/* List the subscriptions that cover a URI. That is, those that would hear of a change of it if
 * access and filters allow; an empty `uri`: all. Returns how many there are (at most INT_MAX). `fn`
 * may be NULL. TIDINGS_E_INVALID: not a URI; TIDINGS_E_LIMIT: more than 64 MiB on one worker. */
TIDINGS_API int tidings_server_subscribers(struct tidings_server *server, struct tidings_str uri,
                                           tidings_subscriber_fn fn, void *user,
                                           struct tidings_error *err);
/* List the subscriptions of a subscriber. Returns how many there are; 0 also when there is no such
 * subscriber. `fn` may be NULL. */
TIDINGS_API int tidings_server_subscriptions(struct tidings_server *server, uint64_t subscriber,
                                             tidings_subscriber_fn fn, void *user,
                                             struct tidings_error *err);
/* Say whether a subscriber has a subscription that covers `uri`. 1: it has; 0: it has not, or there
 * is no such subscriber. */
TIDINGS_API int tidings_server_is_subscribed(struct tidings_server *server, uint64_t subscriber,
                                             struct tidings_str uri, struct tidings_error *err);

struct tidings_totals {
    uint64_t subscribers, sessions, subscriptions;
    uint64_t deliveries; /* notifications written since the start */
};
/* Count subscribers, sessions and subscriptions of a server, now. */
TIDINGS_API int tidings_server_totals(struct tidings_server *server, struct tidings_totals *totals,
                                      struct tidings_error *err);

/* End the subscriptions of a subscriber to one URI. `subscribed_uri` is spelled as the client
 * spelled it. A client whose stream takes it is told with one last update, marked
 * `dev.tidings/suspended`. Returns how many there were. TIDINGS_E_INVALID: no subscriber or no URI
 * given. */
TIDINGS_API int tidings_server_unsubscribe(struct tidings_server *server, uint64_t subscriber,
                                           struct tidings_str subscribed_uri,
                                           struct tidings_error *err);
/* End a subscriber with everything it has subscribed. A session ends, a listen gets its result, a
 * message connection stays open but hears of nothing, a subscription of the program ends as if it
 * had asked for it. Returns how many subscriptions it had. TIDINGS_E_INVALID: no subscriber given.
 */
TIDINGS_API int tidings_server_disconnect(struct tidings_server *server, uint64_t subscriber,
                                          struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
