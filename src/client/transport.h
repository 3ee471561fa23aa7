/* SPDX-License-Identifier: MIT
 *
 * How messages travel between the client and one server. A transport knows nothing of what they
 * mean: which answer belongs to which request, who subscribed, is the business of what is above it.
 * HTTP alone asks which era it is, since its headers and streams differ.
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
    int64_t id;                /* of a request; 0: a notification, or an answer of ours */
    const char *method;        /* NULL: an answer of ours */
    struct tidings_str name;   /* the resource, tool or prompt it is about; may be empty */
    struct tidings_str fields; /* more header lines, each with a line feed; may be empty */
    bool is_stream;            /* its answer may take as long as it likes */
    bool is_tracked;           /* transport_delivered once the server has it */
};

struct transport_ops {
    const char *name; /* tidings_client_info.transport */
    /* Requests are exchanges of their own: losing what the server says by itself ends none of them,
     * and breaking one off is how a modern one is cancelled. */
    bool has_exchanges;
    /* Begin to connect; transport_opened or transport_lost follows, perhaps from inside. */
    int (*open)(struct transport *l, struct tidings_error *err);
    /* Only between transport_opened and transport_lost. */
    int (*send)(struct transport *l, const struct transport_message *m, struct tidings_error *err);
    /* No answer to this request is wanted any more; `is_answered`: since it has come. */
    void (*forget)(struct transport *l, int64_t id, bool is_answered);
    /* transport_streaming or transport_lost follows, perhaps from inside. NULL: nothing has to be
     * done. */
    int (*stream)(struct transport *l, struct tidings_error *err);
    /* Break off that stream, not the session. NULL: likewise. */
    void (*hang_up)(struct transport *l);
    /* Forget the session: another begins. NULL: there is none but the connection. */
    void (*forget_session)(struct transport *l);
    const char *(*session)(struct transport *l); /* its id; NULL: likewise */
    /* There may be another way to the same server, to be tried by open: true. NULL: there is not.
     */
    bool (*fall_back)(struct transport *l);
    /* Break off at once; open may be called again. Calls nothing. */
    void (*close)(struct transport *l);
    /* End in order: begun by the first call; true once it is over. */
    bool (*leave)(struct transport *l);
    void (*destroy)(struct transport *l);
};

/* What a transport tells the client. */
struct transport_events {
    void (*opened)(struct tidings_client *c);
    /* One message. `exchange`: the request whose exchange it came on, 0: none; `status`: of HTTP,
     * 0: none. */
    void (*received)(struct tidings_client *c, struct tidings_str text, int64_t exchange,
                     long status);
    /* There will be no answer to this request. */
    void (*unanswered)(struct tidings_client *c, int64_t id, long status,
                       const struct tidings_error *why);
    /* The server does not know the session any more, the present one or one before; the request, 0:
     * none, was not handled. */
    void (*session_lost)(struct tidings_client *c, int64_t id, bool is_present);
    /* The server can be heard; `is_seamless`: nothing since the stream before was missed. */
    void (*streaming)(struct tidings_client *c, bool is_seamless);
    void (*delivered)(struct tidings_client *c, const struct tidings_error *why); /* code 0: is */
    /* Bytes came on the exchange of that request, 0: none; `is_beat`: only to show that the server
     * is there. */
    void (*active)(struct tidings_client *c, int64_t exchange, bool is_beat);
    /* No exchange waits for credentials any more. */
    void (*admitted)(struct tidings_client *c);
    void (*lost)(struct tidings_client *c, const struct tidings_error *why);
    /* Each of these that is or has no message, and each that is sent, before it is acted upon.
     * NULL: nobody listens. */
    void (*wire)(struct tidings_client *c, const struct tidings_client_wire *wire);
};

struct transport {
    const struct transport_ops *ops;
    const struct transport_events *events;
    struct tidings_client *client;
};

/* ops->send, and it is told. */
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

/* The one that an address stands for; NULL with an error. */
struct transport *transport_create(struct tidings_client *c, const char *address,
                                   struct tidings_error *err);

/* `unix_path`: connect there instead of to the host of `url`; NULL: no. */
struct transport *transport_http_create(struct tidings_client *c, const char *url,
                                        const char *unix_path, struct tidings_error *err);
/* `url` is http:// or https:// for what is TCP or TLS. */
struct transport *transport_ws_create(struct tidings_client *c, const char *url,
                                      struct tidings_str host, struct tidings_str path,
                                      struct tidings_error *err);
/* Takes `argv` over, also when it fails. */
struct transport *transport_child_create(struct tidings_client *c, char **argv,
                                         struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Bytes to and from one server, in order: a connection (TCP, TLS, a Unix socket), or the standard
 * input and output of a program that is launched. What frames messages in them is above.
 *
 * Nothing is told after byte_stream_close, which may be called inside what is told. What cannot be
 * sent at once is kept, bounded.
 */

struct tidings_client;

struct byte_stream;

struct byte_stream_events {
    void (*on_open)(void *user);
    void (*on_bytes)(void *user, struct tidings_str bytes);
    void (*on_end)(void *user, const struct tidings_error *why); /* it has to be closed then */
};

struct byte_stream_ops {
    /* Begin to connect; byte_stream_opened or byte_stream_ended follows, perhaps from inside. */
    int (*open)(struct byte_stream *k, struct tidings_error *err);
    /* As of fetch_send and fetch_recv. */
    ssize_t (*send)(struct byte_stream *k, const char *bytes, size_t len);
    ssize_t (*recv)(struct byte_stream *k, char *out, size_t room);
    void (*close)(struct byte_stream *k);
    /* As of struct transport_ops; NULL: there is nothing to wait for. */
    bool (*leave)(struct byte_stream *k);
    /* The other side has closed; NULL: that is the end. True: more will be told. */
    bool (*is_ending)(struct byte_stream *k);
    void (*destroy)(struct byte_stream *k); /* what it has beyond the struct below */
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
