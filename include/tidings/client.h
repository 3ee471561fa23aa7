/* SPDX-License-Identifier: MIT
 *
 * A client: watch and read resources of an MCP server over Streamable HTTP.
 *
 *     struct tidings_client *c = tidings_client_create("http://127.0.0.1:7777/mcp", NULL, &err);
 *     tidings_client_watch(c, uris, 1, on_update, NULL, &err);
 *     tidings_client_run(c, &err);             // until tidings_client_stop
 *     tidings_client_destroy(c);
 *
 * Both eras of the protocol are spoken: the client asks `server/discover` first and falls back to
 * `initialize`. A connection that is lost is made again, with growing pauses, and everything is
 * subscribed to again; changes in between may be missed unless the server keeps them, and the state
 * callback says so.
 *
 * One client belongs to one thread; only tidings_client_stop may be called from elsewhere.
 * Callbacks come on the thread of tidings_client_run; inside them tidings_client_read,
 * tidings_client_set_options and tidings_client_stop are allowed. <tidings/json.h> takes apart what
 * they are told. libcurl is loaded when the first client is created and not
 * before.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_CLIENT_H
#define TIDINGS_CLIENT_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tidings_client;

/* Zeroed fields mean the default in parentheses. */
struct tidings_client_options {
    const char *name;      /* what the client calls itself ("tidings") */
    uint32_t timeout_ms;   /* for one answer (30000) */
    uint32_t retry_min_ms; /* first pause before connecting again (1000) */
    uint32_t retry_max_ms; /* longest pause (30000) */
    size_t max_bytes;      /* largest message that is accepted (16 MiB) */
    /* PEM files for https: */
    const char *ca_file;   /* CAs that the server's certificate may come from (the system's) */
    const char *cert_file; /* the client's own certificate (none) */
    const char *key_file;  /* … and its key (in cert_file) */
};

/* `url` is the endpoint, http or https. `options` may be NULL. Nothing is sent yet. NULL on
 * failure; TIDINGS_E_UNSUPPORTED when libcurl cannot be loaded. */
TIDINGS_API struct tidings_client *
tidings_client_create(const char *url, const struct tidings_client_options *options,
                      struct tidings_error *err);
/* Not from a callback. NULL is fine. */
TIDINGS_API void tidings_client_destroy(struct tidings_client *client);

/* One change. Everything is borrowed for the call. */
struct tidings_client_update {
    struct tidings_str uri;
    struct tidings_str subscribed_uri; /* which subscription it belongs to; empty: not said */
    struct tidings_str change;         /* "updated", "created", "deleted" */
    struct tidings_str params;         /* the notification's parameters, JSON text */
    int64_t received_ms;               /* Unix time */
};
typedef void (*tidings_client_update_fn)(void *user, const struct tidings_client_update *update);

/* Watch these URIs, from the start of tidings_client_run on. Replaces an earlier list. */
TIDINGS_API int tidings_client_watch(struct tidings_client *client, const char *const *uris,
                                     size_t count, tidings_client_update_fn fn, void *user,
                                     struct tidings_error *err);

/* Options of one of the watched URIs, a JSON object such as {"windowMs":0,"baseline":"…"}: what the
 * server's documentation calls `dev.tidings/options`; servers that know none pass over them. Sent
 * whenever the URI is subscribed to, after an interruption too, so that a program that sets a new
 * baseline with each update goes on where it was. Replaces the earlier ones; NULL: none. Allowed in
 * callbacks. TIDINGS_E_NOTFOUND: the URI is not watched. */
TIDINGS_API int tidings_client_set_options(struct tidings_client *client, const char *uri,
                                           const char *options, struct tidings_error *err);

enum tidings_client_state {
    TIDINGS_CLIENT_WATCHING = 0,     /* the server accepted `uri` */
    TIDINGS_CLIENT_REFUSED = 1,      /* it did not; `reason` says why as far as known */
    TIDINGS_CLIENT_DISCONNECTED = 2, /* `reason`; the next attempt is `retry_ms` away */
};
/* Everything is borrowed for the call. */
struct tidings_client_event {
    enum tidings_client_state state;
    struct tidings_str uri;    /* WATCHING, REFUSED: which of those asked for */
    struct tidings_str reason; /* REFUSED, DISCONNECTED: a sentence */
    uint32_t retry_ms;         /* DISCONNECTED */
    bool again; /* WATCHING: after an interruption; changes in between may have been missed */
};
typedef void (*tidings_client_state_fn)(void *user, const struct tidings_client_event *event);
/* Hear how it stands; before tidings_client_run. NULL: no more. */
TIDINGS_API void tidings_client_on_state(struct tidings_client *client, tidings_client_state_fn fn,
                                         void *user);

/* Watch until stopped: 0. Fails when trying again would not help: not an MCP server, access denied,
 * no subscriptions offered, every URI refused at the first attempt. */
TIDINGS_API int tidings_client_run(struct tidings_client *client, struct tidings_error *err);
/* End tidings_client_run soon. From any thread and from signal handlers. */
TIDINGS_API void tidings_client_stop(struct tidings_client *client);

/* Read a resource: the JSON text of the result, `{"contents":[…]}`. Free it with tidings_free. NULL
 * on failure; TIDINGS_E_NOTFOUND and TIDINGS_E_GONE (it was deleted) where the server says so. */
TIDINGS_API char *tidings_client_read(struct tidings_client *client, const char *uri,
                                      struct tidings_error *err);

/* What the client is built on, as "libcurl/7.88.1 OpenSSL/3.0.11"; loads it. Free the text with
 * tidings_free. NULL when it cannot be loaded. */
TIDINGS_API char *tidings_client_library(void);

#ifdef __cplusplus
}
#endif

#endif
