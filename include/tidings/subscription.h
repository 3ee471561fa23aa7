/* SPDX-License-Identifier: MIT
 *
 * A subscription: be told when resources change, of a server in this program
 * (tidings_server_subscribe) or of any other (tidings_client_subscribe).
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
 * Either way it is the same handle, with the same options, told by the same structs. What differs
 * is the thread: a subscription of a client is used, and called back, on the thread of that client
 * alone; one of a server from any thread, and it is called on a thread of the server's, where it
 * must not block.
 *
 * A handle is good until tidings_subscription_end, or until its server or client is destroyed,
 * whatever becomes of the subscription meanwhile.
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

/* ---- what changed ---------------------------------------------------------------------------- */

/* One update. Everything is borrowed for the call; what is empty or 0 was not said. */
struct tidings_update {
    struct tidings_subscription *subscription;
    enum tidings_change_kind kind;
    struct tidings_str uri;            /* of what changed */
    struct tidings_str subscribed_uri; /* the subscription it belongs to, as it was given */
    struct tidings_str from;           /* `kind` is MOVED: the URI it had before */
    struct tidings_str metadata;       /* a JSON object with what is known of the change */
    struct tidings_str value;          /* JSON, where `include` asked for it: an array of contents;
                                        * "patch": see docs/reference/subscriptions.md */
    unsigned merged; /* how many changes this one stands for; with `caught_up` at least so many */
    bool truncated;  /* something it covers changed, not known what: there may have been more */
    bool initial;    /* nothing changed: the state when it was subscribed */
    /* Of clients alone: */
    bool synthetic;             /* the server did not say it: the client found it by comparing */
    int64_t received_ms;        /* Unix time */
    struct tidings_str version; /* of the resource, as the server counts */
    struct tidings_str cursor;  /* everything up to here was told */
    struct tidings_str params;  /* the parameters of the notification, JSON text */
    /* It was told from the server's log, after an interruption or `since`: the log keeps the newest
     * change of each resource, so that how many there were is not known. */
    bool caught_up;
};
typedef void (*tidings_update_fn)(void *user, const struct tidings_update *update);

/* ---- how it stands --------------------------------------------------------------------------- */

enum tidings_state {
    TIDINGS_STATE_WATCHING = 0,     /* the server accepted `uri` */
    TIDINGS_STATE_REFUSED = 1,      /* it did not; `reason` says why as far as known */
    TIDINGS_STATE_DISCONNECTED = 2, /* a client: `reason`; the next attempt is `retry_ms` away */
    TIDINGS_STATE_CONNECTED = 3,    /* a client: see tidings_client_info */
    TIDINGS_STATE_LOST = 4,  /* `uri` was accepted once and is not any more: `reason`. An alert */
    TIDINGS_STATE_GAP = 5,   /* a client: changes of `uri` were missed that cannot be known */
    TIDINGS_STATE_ENDED = 6, /* of a server in this program: the last call of all, see
                              * tidings_subscription_end */
};
/* Everything is borrowed for the call. */
struct tidings_state_event {
    enum tidings_state state;
    struct tidings_subscription
        *subscription;         /* NULL: told of a client (tidings_client_on_state) */
    struct tidings_str uri;    /* what was subscribed to; empty: DISCONNECTED, CONNECTED */
    struct tidings_str reason; /* REFUSED, DISCONNECTED, LOST, GAP: a sentence. WATCHING: empty, or
                                * the server's warning that it may never be notified */
    uint32_t retry_ms;         /* DISCONNECTED */
    bool again; /* WATCHING: after an interruption. Updates follow for what changed in between; what
                 * cannot be known is a GAP */
    struct tidings_str cursor; /* WATCHING, a client: where it begins, for `since`; empty: the
                                * server names none. Of the first one that counts: later ones may
                                * be ahead of updates that are still to come */
    int code; /* REFUSED, a client: TIDINGS_E_INVALID, the options or the pattern are wrong; other
               * codes as of requests. 0: not known */
};
typedef void (*tidings_state_fn)(void *user, const struct tidings_state_event *event);

/* ---- subscribing ----------------------------------------------------------------------------- */

/* May this subscription hear of a change? Before anything is coalesced. `metadata` as above. */
typedef bool (*tidings_filter_fn)(void *user, struct tidings_str uri, struct tidings_str metadata);

/* May be gone after the call: texts are copied. */
struct tidings_subscribe_options {
    tidings_update_fn fn; /* required */
    /* What becomes of it: WATCHING, REFUSED, LOST, GAP, ENDED. NULL: not needed. */
    tidings_state_fn on_state;
    void *user; /* of both */
    /* A JSON object such as {"windowMs":0,"baseline":"…"}: docs/reference/subscriptions.md calls it
     * `dev.tidings/options`; servers that know none pass over them. NULL: none. */
    const char *options;
    /* Of a server in this program alone (a client: TIDINGS_E_UNSUPPORTED; let the server filter, by
     * the option `filter`). NULL: everything. */
    tidings_filter_fn filter;
    void *filter_user;
    void *reserved[4]; /* zero */
};

/* End a subscription and release its handle. Also in its own callbacks. NULL is fine.
 *
 * One of a client is not called any more when this returns. One of a server may be, as before, on
 * the server's thread, until `on_state` has had its last call, ENDED; or until tidings_server_run
 * has returned: then nothing more is called, and ENDED need not have come. */
TIDINGS_API void tidings_subscription_end(struct tidings_subscription *subscription);

/* Return the URI of a subscription, as it was given. Lives as long as the handle. */
TIDINGS_API const char *tidings_subscription_uri(const struct tidings_subscription *subscription);

/* Set the options that a subscription has after the next interruption. The server hears them the
 * next time the URI is subscribed to: a program that sets a new baseline with each update goes on
 * where it was. They belong to the URI, so the last ones set are those of all subscriptions of the
 * client to it. NULL: none. TIDINGS_E_INVALID: not a JSON object. TIDINGS_E_UNSUPPORTED: it is one
 * of a server in this program, which is never interrupted. */
TIDINGS_API int tidings_subscription_set_options(struct tidings_subscription *subscription,
                                                 const char *options, struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
