/* SPDX-License-Identifier: MIT
 *
 * Transports: how messages travel between the client and one server. A transport does not know
 * their meaning; the layer above matches answers to requests and knows the subscriptions. Only HTTP
 * asks for the era, because its headers and streams differ.
 *
 *     client                             transport
 *       open ───────────────────────────────>
 *       <────────────────────────────── opened
 *       send (text) ────────────────────────>
 *       <──────────────────────────── received      an answer, a notification, a request
 *       <────────────────────────── unanswered      HTTP: the exchange ended without one
 *       stream ─────────────────────────────>       legacy: hear what the server says by itself
 *       <─────────────────────────── streaming
 *       <──────────────────────────────── lost      HTTP: the stream alone
 *
 * Everything happens inside turns of the client's loop, or inside the call that causes it.
 */
#ifndef CLIENT_TRANSPORT_H
#define CLIENT_TRANSPORT_H

#include <sys/types.h>

#include <tidings/client.h>

#include "base/loop.h"
#include "base/str.h"

struct transport;

/* One message on its way out. */
struct transport_message {
    struct tidings_str text;
    int64_t id;                /* of a request; 0: a notification, or an answer of the client */
    const char *method;        /* NULL: an answer of the client */
    struct tidings_str name;   /* the resource, tool or prompt concerned; may be empty */
    struct tidings_str fields; /* more header lines, each with a line feed; may be empty */
    bool is_stream;            /* its answer has no time limit */
    bool is_tracked;           /* transport_delivered once the server has it */
};

struct transport_ops {
    const char *name; /* tidings_client_info.transport */
    /* Each request is a separate exchange: losing the stream of server messages ends no request,
     * and breaking an exchange off cancels a modern one. */
    bool has_exchanges;
    /* Begins to connect; transport_opened or transport_lost follows, maybe before this returns. */
    int (*open)(struct transport *l, struct tidings_error *err);
    /* Only between transport_opened and transport_lost. */
    int (*send)(struct transport *l, const struct transport_message *m, struct tidings_error *err);
    /* The answer to this request is no longer needed; `is_answered`: because it has come. */
    void (*forget)(struct transport *l, int64_t id, bool is_answered);
    /* Opens the stream; transport_streaming or transport_lost follows, maybe before this returns.
     * NULL: nothing has to be done. */
    int (*stream)(struct transport *l, struct tidings_error *err);
    /* Breaks off that stream, not the session. NULL: likewise. */
    void (*hang_up)(struct transport *l);
    /* Forgets the session: another begins. NULL: there is none but the connection. */
    void (*forget_session)(struct transport *l);
    const char *(*session)(struct transport *l); /* its id; NULL: likewise */
    /* Returns true if there is another way to the same server, which open will try. NULL: there is
     * none. */
    bool (*fall_back)(struct transport *l);
    /* Breaks off at once; open may be called once more. Calls nothing. */
    void (*close)(struct transport *l);
    /* Ends cleanly: begun by the first call; returns true once it is over. */
    bool (*leave)(struct transport *l);
    void (*destroy)(struct transport *l);
};

/* Events from a transport to the client. */
struct transport_events {
    void (*opened)(struct tidings_client *c);
    /* One message. `exchange`: the request whose exchange it came on, 0: none; `status`: of HTTP,
     * 0: none. */
    void (*received)(struct tidings_client *c, struct tidings_str text, int64_t exchange,
                     long status);
    /* The request will get no answer. */
    void (*unanswered)(struct tidings_client *c, int64_t id, long status,
                       const struct tidings_error *why);
    /* The server no longer knows the session, the present or an earlier one; it did not handle the
     * request (0: none). */
    void (*session_lost)(struct tidings_client *c, int64_t id, bool is_present);
    /* The stream is open; `is_seamless`: nothing since the last stream was missed. */
    void (*streaming)(struct tidings_client *c, bool is_seamless);
    void (*delivered)(struct tidings_client *c, const struct tidings_error *why); /* code 0: is */
    /* Bytes came on the exchange of that request, 0: none; `is_beat`: only to keep the connection
     * alive. */
    void (*active)(struct tidings_client *c, int64_t exchange, bool is_beat);
    /* All exchanges that waited for credentials have them. */
    void (*admitted)(struct tidings_client *c);
    void (*lost)(struct tidings_client *c, const struct tidings_error *why);
    /* Each received message before it is handled, and each sent one, as its bytes. NULL: not
     * needed. */
    void (*wire)(struct tidings_client *c, const struct tidings_client_wire *wire);
};

struct transport {
    const struct transport_ops *ops;
    const struct transport_events *events;
    struct tidings_client *client;
};

/* Calls ops->send, and the `wire` event. */
int transport_send(struct transport *t, const struct transport_message *m,
                   struct tidings_error *err);

/* ---- telling, as struct transport_events says ------------------------------------------------ */

void transport_opened(struct transport *t);
void transport_received(struct transport *t, struct tidings_str text, int64_t exchange,
                        long status);
void transport_unanswered(struct transport *t, int64_t id, long status,
                          const struct tidings_error *why);
void transport_session_lost(struct transport *t, int64_t id, bool is_present);
void transport_streaming(struct transport *t, bool is_seamless);
void transport_delivered(struct transport *t, const struct tidings_error *why);
void transport_active(struct transport *t, int64_t exchange, bool is_beat);
void transport_admitted(struct transport *t);
void transport_lost(struct transport *t, const struct tidings_error *why);

/* ---- kinds ----------------------------------------------------------------------------------- */

/* The transport for an address; NULL with an error. */
struct transport *transport_create(struct tidings_client *c, const char *address,
                                   struct tidings_error *err);

/* `unix_path`: connect there instead of to the host of `url`; NULL: no. */
struct transport *transport_http_create(struct tidings_client *c, const char *url,
                                        const char *unix_path, struct tidings_error *err);
/* `url` is http:// or https:// for what is TCP or TLS. */
struct transport *transport_ws_create(struct tidings_client *c, const char *url,
                                      struct tidings_str host, struct tidings_str path,
                                      struct tidings_error *err);
/* Takes `argv`, even on failure. */
struct transport *transport_child_create(struct tidings_client *c, char **argv,
                                         struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Byte streams: bytes to and from one server, in order. A byte stream is a connection (TCP, TLS, a
 * Unix socket), or the standard input and output of a launched program. The layer above frames
 * messages in them.
 *
 * No event comes after byte_stream_close, which event callbacks may call. Bytes that cannot be sent
 * at once are queued, bounded.
 */

struct tidings_client;

struct byte_stream;

struct byte_stream_events {
    void (*on_open)(void *user);
    void (*on_bytes)(void *user, struct tidings_str bytes);
    void (*on_end)(void *user, const struct tidings_error *why); /* it has to be closed then */
};

struct byte_stream_ops {
    /* Begins to connect; byte_stream_opened or byte_stream_ended follows, maybe before this
     * returns. */
    int (*open)(struct byte_stream *k, struct tidings_error *err);
    /* Like fetch_send and fetch_recv. */
    ssize_t (*send)(struct byte_stream *k, const char *bytes, size_t len);
    ssize_t (*recv)(struct byte_stream *k, char *out, size_t room);
    void (*close)(struct byte_stream *k);
    /* Like those of struct transport_ops; NULL: nothing to wait for. */
    bool (*leave)(struct byte_stream *k);
    /* The other side has closed; NULL: that is the end. Returns true if a later event will report
     * the end. */
    bool (*is_ending)(struct byte_stream *k);
    void (*destroy)(struct byte_stream *k); /* frees its members beyond the struct below */
};

struct byte_stream {
    const struct byte_stream_ops *ops;
    struct tidings_client *client;
    const struct byte_stream_events *events;
    void *user;
    struct loop_poll in, out; /* a socket is only `in` */
    struct buf pending;       /* to be sent */
    bool is_open;
};

/* Where to connect to. */
struct byte_stream_address {
    const char *url;       /* http(s)://HOST:PORT */
    const char *unix_path; /* instead of host and port; NULL: none */
    bool no_proxy;
};
struct byte_stream *byte_stream_socket_create(struct tidings_client *c,
                                              const struct byte_stream_address *address,
                                              struct tidings_error *err);

int byte_stream_open(struct byte_stream *k, struct tidings_error *err);
int byte_stream_send(struct byte_stream *k, struct tidings_str bytes, struct tidings_error *err);
void byte_stream_close(struct byte_stream *k);
void byte_stream_destroy(struct byte_stream *k); /* NULL is fine */

/* ---- for the kinds --------------------------------------------------------------------------- */

#endif
