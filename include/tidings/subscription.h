/* SPDX-License-Identifier: MIT
 *
 * A subscription: receive updates when resources change, of a server in this program
 * (tidings_server_subscribe) or of any other server (tidings_client_subscribe).
 *
 *     static void on_update(void *user, const struct tidings_update *update) { … }
 *
 *     struct tidings_subscribe_options on = {0};
 *     on.fn = on_update;
 *     struct tidings_subscription *s =
 *         tidings_client_subscribe(client, "file:///docs/", &on, &err);
 *     …
 *     tidings_subscription_end(s);
 *
 * Both have the same handle, options and structs. Only the threads differ. A client's subscription
 * is used, and calls back, only on the thread of that client. A server's subscription is
 * thread-safe, and calls back on a thread of the server, where callbacks must not block.
 *
 * A handle is valid until tidings_subscription_end, or until its server or client is destroyed,
 * even if the subscription ends earlier.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_SUBSCRIPTION_H
#define TIDINGS_SUBSCRIPTION_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tidings_subscription;

/* ---- updates --------------------------------------------------------------------------------- */

/* An update. All members are valid only during the call. Empty or zero members are unknown. */
struct tidings_update {
    struct tidings_subscription *subscription;
    enum tidings_change_kind kind;
    struct tidings_str uri;            /* of the changed resource */
    struct tidings_str subscribed_uri; /* its subscription, as the program spelled it */
    struct tidings_str from;           /* if `kind` is MOVED: the previous URI */
    struct tidings_str metadata;       /* a JSON object about the change */
    struct tidings_str value; /* JSON, if `include` requested it: an array of contents; "patch": see
                                 docs/reference/subscriptions.md */
    unsigned merged;          /* number of merged changes; with `caught_up` a lower bound */
    bool truncated; /* unknown resources changed, and updates may be missing: read again */
    bool initial;   /* not a change, but the state at the time of the subscription */
    /* Only in clients: */
    bool synthetic;             /* the client found the change by comparison */
    int64_t received_ms;        /* Unix time */
    struct tidings_str version; /* of the resource, as the server counts */
    struct tidings_str cursor;  /* position up to which all updates were delivered */
    struct tidings_str params;  /* parameters of the notification, JSON text */
    /* The update comes from the server's log, after an interruption or `since`. The log keeps only
     * the newest change of each resource, so the number of changes is unknown. */
    bool caught_up;
};
typedef void (*tidings_update_fn)(void *user, const struct tidings_update *update);

/* ---- states ---------------------------------------------------------------------------------- */

enum tidings_state {
    TIDINGS_STATE_WATCHING = 0,     /* the server accepted `uri` */
    TIDINGS_STATE_REFUSED = 1,      /* the server rejected it; `reason` says why, if known */
    TIDINGS_STATE_DISCONNECTED = 2, /* client: `reason`; retry after `retry_ms` */
    TIDINGS_STATE_CONNECTED = 3,    /* client: see tidings_client_info */
    TIDINGS_STATE_LOST = 4,         /* `uri` was accepted and is no longer: `reason`. An alert */
    TIDINGS_STATE_GAP = 5,          /* client: changes of `uri` were lost */
    TIDINGS_STATE_ENDED = 6, /* last call for a server's subscription: tidings_subscription_end */
};
/* A change of state. All members are valid only during the call. */
struct tidings_state_event {
    enum tidings_state state;
    struct tidings_subscription *subscription; /* NULL: state of the client */
    struct tidings_str uri;                    /* subscribed URI; empty: DISCONNECTED, CONNECTED */
    struct tidings_str reason; /* REFUSED, DISCONNECTED, LOST, GAP: error message. WATCHING: empty,
                                  or the server's warning that updates may never arrive */
    uint32_t retry_ms;         /* DISCONNECTED */
    bool again; /* WATCHING: after an interruption. Updates for missed changes follow; a GAP reports
                   lost changes */
    struct tidings_str cursor; /* WATCHING, client: start, for `since`; empty: none. Use only the
                                  first: later ones may be ahead of pending updates */
    int code; /* REFUSED, client: TIDINGS_E_INVALID, the options or the pattern are invalid; other
                 codes as for requests. 0: unknown */
};
typedef void (*tidings_state_fn)(void *user, const struct tidings_state_event *event);

/* ---- subscribing ----------------------------------------------------------------------------- */

/* Returns true if the subscription should receive a change. It runs before changes are coalesced.
 * `metadata` is that of the update. */
typedef bool (*tidings_filter_fn)(void *user, struct tidings_str uri, struct tidings_str metadata);

/* Options of a subscription. Strings are copied. */
struct tidings_subscribe_options {
    tidings_update_fn fn; /* required */
    /* Receives the states WATCHING, REFUSED, LOST, GAP, ENDED. NULL: not needed. */
    tidings_state_fn on_state;
    void *user; /* passed to both */
    /* A JSON object such as {"windowMs":0,"baseline":"…"}, called `dev.tidings/options` in
     * docs/reference/subscriptions.md. Other servers ignore it. NULL: none. */
    const char *options;
    /* Only for a server in this program. A client returns TIDINGS_E_UNSUPPORTED; use the option
     * `filter` to filter at the server. NULL: all changes. */
    tidings_filter_fn filter;
    void *filter_user;
    void *reserved[4]; /* zero */
};

/* End a subscription and release its handle. It may be called in the callbacks of the subscription.
 * `subscription` may be NULL.
 *
 * No callback of a client's subscription runs after this function returns. Callbacks of a server's
 * subscription may still run on the server's thread, until `on_state` receives its last call,
 * ENDED, or tidings_server_run returns. After that no callback runs, even without ENDED. */
TIDINGS_API void tidings_subscription_end(struct tidings_subscription *subscription);

/* Return the URI of a subscription, as the program spelled it. It lives as long as the handle. */
TIDINGS_API const char *tidings_subscription_uri(const struct tidings_subscription *subscription);

/* Set the options of a subscription for the next time the client subscribes to its URI, after an
 * interruption. If a program sets a new baseline with each update, it resumes at that baseline. The
 * options belong to the URI: the last ones apply to all subscriptions of the client to that URI.
 * NULL: none.
 *
 * TIDINGS_E_INVALID: the options are not a JSON object. TIDINGS_E_UNSUPPORTED: the subscription
 * belongs to a server in this program, which is never interrupted. */
TIDINGS_API int tidings_subscription_set_options(struct tidings_subscription *subscription,
                                                 const char *options, struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
