/* SPDX-License-Identifier: MIT
 *
 * Subscribers of a running server: list their subscriptions, and end them.
 *
 * A *subscriber* receives the updates of one client: a session of the legacy era, one
 * subscriptions/listen over HTTP, one message connection (stdio, TCP, a Unix socket, a WebSocket),
 * or one subscription of the program itself. Its number is unique for the life of the server.
 *
 * The functions combine the answers of all workers. Each worker's part is consistent at one moment
 * between two of its turns; the moments differ between workers. A subscription counts from its
 * confirmation to the client until it ends. If a client disappears, its subscriptions count until
 * the server notices.
 *
 * Threads
 *   These functions wait for every worker. Call them on threads of the program, or in callbacks of
 *   a server with one worker (`workers` 1, only stdio, or run in turns). On other threads of the
 *   library, queries fail with TIDINGS_E_BUSY, and functions that change something return 0 and do
 *   it a little later. The workers are interrupted only while they copy the rows. While the server
 *   does not run, there are no subscribers.
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

/* A subscription. Slices are valid only during the call. */
struct tidings_subscriber {
    uint64_t subscriber;
    struct tidings_str session; /* id of a legacy session; else empty */
    struct tidings_str stream;  /* stream that carries updates: "sse", …; empty: none now */
    struct tidings_str subscribed_uri;  /* as the client wrote it */
    struct tidings_str subscription_id; /* JSON text, for a listen; empty in the legacy era */
    uint32_t period_ms;                 /* minimum interval between two updates */
    bool suspended;                     /* its filter took too long and is no longer evaluated */
    bool truncated;                     /* a `truncated` update is pending */
    /* The client: */
    struct tidings_str principal; /* authenticated name; empty: none */
    struct tidings_str address;   /* "192.0.2.1:50044", "uid:1000"; empty: unknown */
    struct tidings_str client_name, client_version; /* as the client reports them; may be empty */
    struct tidings_str listener; /* "http", "https", "tcp", "tls", "unix", "stdio", "program" */
    bool is_modern;              /* it uses the modern era */
    int64_t since_ms;            /* start time; Unix time */
    /* Delivery: */
    uint64_t waiting;   /* queued notifications */
    uint64_t lag_ms;    /* age of the oldest queued one, or time since the stream stalled */
    uint64_t bytes_out; /* bytes that its connection has accepted */
    struct tidings_str last_error; /* its last error message; empty: none */
    int64_t last_error_ms;         /* its time; Unix time */
};

/* Receives one subscription, on the calling thread, after all workers have answered. May call any
 * function. Returns false to stop. */
typedef bool (*tidings_subscriber_fn)(void *user, const struct tidings_subscriber *subscriber);

/* List the subscriptions that cover a URI. They receive changes of the URI if access and filters
 * allow it. An empty `uri` lists all subscriptions. `fn` may be NULL.
 *
 * Returns the number of subscriptions (at most INT_MAX). TIDINGS_E_INVALID: `uri` is not a URI.
 * TIDINGS_E_LIMIT: a worker's part exceeds 64 MiB. */
TIDINGS_API int tidings_server_subscribers(struct tidings_server *server, struct tidings_str uri,
                                           tidings_subscriber_fn fn, void *user,
                                           struct tidings_error *err);
/* List the subscriptions of a subscriber. `fn` may be NULL.
 *
 * Returns the number of subscriptions, or 0 for an unknown subscriber. */
TIDINGS_API int tidings_server_subscriptions(struct tidings_server *server, uint64_t subscriber,
                                             tidings_subscriber_fn fn, void *user,
                                             struct tidings_error *err);
/* Return 1 if a subscriber has a subscription that covers `uri`, else 0.
 *
 * Returns 0 for an unknown subscriber. */
TIDINGS_API int tidings_server_is_subscribed(struct tidings_server *server, uint64_t subscriber,
                                             struct tidings_str uri, struct tidings_error *err);

struct tidings_totals {
    uint64_t subscribers, sessions, subscriptions;
    uint64_t deliveries; /* notifications written since the start */
};
/* Count the current subscribers, sessions and subscriptions of a server. */
TIDINGS_API int tidings_server_totals(struct tidings_server *server, struct tidings_totals *totals,
                                      struct tidings_error *err);

/* End the subscriptions of a subscriber to one URI. `subscribed_uri` must have the client's
 * spelling. If the client's stream supports it, the client receives a last update marked
 * `dev.tidings/suspended`.
 *
 * Returns the number of ended subscriptions. TIDINGS_E_INVALID: the subscriber or the URI is
 * missing. */
TIDINGS_API int tidings_server_unsubscribe(struct tidings_server *server, uint64_t subscriber,
                                           struct tidings_str subscribed_uri,
                                           struct tidings_error *err);
/* End a subscriber with all its subscriptions. A session ends, a listen gets its result, a message
 * connection stays open without subscriptions, and a subscription of the program ends as if the
 * program had ended it.
 *
 * Returns the number of its subscriptions. TIDINGS_E_INVALID: the subscriber is missing. */
TIDINGS_API int tidings_server_disconnect(struct tidings_server *server, uint64_t subscriber,
                                          struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
