/* SPDX-License-Identifier: MIT
 *
 * WebSockets: the connections of one worker that were upgraded from HTTP, one JSON-RPC message per
 * text message either way. Answers and notifications share a connection, as on standard input and
 * output; what a client negotiated and subscribed to ends with it.
 *
 * A WebSocket begins where its HTTP connection ends (transport/http_pages.c): it takes the
 * socket, what still waits to be written, whoever was identified, and the bytes that followed the
 * request. WebSockets are one kind of the connections of an HTTP worker, which owns their worker.
 */
#ifndef TRANSPORT_WEBSOCKET_H
#define TRANSPORT_WEBSOCKET_H

#include "formats/websocket.h"
#include "transport/connection.h"

struct websocket;
struct websocket_worker;

/* Frozen while the server runs. */
struct websocket_config {
    size_t max_message;
    uint64_t keepalive_ms;       /* of silence, after which it is asked whether it is there */
    uint64_t message_timeout_ms; /* for 64 KiB of a message */
    uint64_t stall_timeout_ms;   /* without taking or answering anything */
};

/* NULL: out of memory. */
struct websocket_worker *websocket_worker_create(struct connection_worker *cw,
                                                 const struct websocket_config *config);
/* After connection_worker_deinit; NULL is fine. */
void websocket_worker_destroy(struct websocket_worker *ww);

/* Can messages be read? TIDINGS_E_UNSUPPORTED: the library is left out or not there;
 * TIDINGS_E_NOMEM. */
int websocket_check_reader(struct websocket_worker *ww, struct tidings_error *err);

/* What an HTTP connection leaves to its WebSocket. */
struct websocket_start {
    struct sendq *out; /* emptied (sendq_move); its socket must not be polled any more */
    const struct principal *principal; /* it takes a reference of its own; may be NULL */
    struct quota *quota;               /* entered; may be NULL */
    struct client_account *origin;     /* whose share it has; may be NULL */
    struct tidings_str input;          /* what followed the request: the first of the frames */
    bool eof;                          /* … and the last of them */
};
/* The memory for one, before the client is told that there will be one; NULL: out of memory. */
struct websocket *websocket_create(struct websocket_worker *ww);
/* Takes everything in `start`; the connection is closed when that fails. */
void websocket_open(struct websocket *ws, const struct websocket_start *start);

/* After drain_begin: ends those that wait for no answer. Called again and again. */
void websocket_drain(struct websocket_worker *ww);

/* -------------------------------------------------------------------------------------------------
 * One WebSocket and its worker.
 */

/*          upgrade                    ┌─────────┐  whole messages wait for the next turn
 *             │               ┌──────>│THROTTLED│
 *             v               │<──────└─────────┘
 *   ┌──> ┌────────┐           │
 *   │    │  OPEN  │<──────────┤
 *   │    └────────┘           │        ┌────────┐  a part of a message has come
 *   │ heard   │ silence       ├───────>│PARTIAL │
 *   │         v               │<───────└────────┘
 *   │    ┌────────┐           │
 *   └────│ PINGED │───────────┘
 *        └────────┘
 *             │ from any of these, when …
 *     ┌───────┴────────────┬───────────────────────────┐
 *     │ the client         │ we end it                 │ it broke a rule, or took too long
 *     │ said close         v                           v
 *     │               ┌─────────┐                 ┌─────────┐
 *     │               │ LEAVING │                 │ REFUSED │<──┐ TLS fails
 *     v               └─────────┘                 └─────────┘   │
 * ┌─────────┐              │ our close is written      │        │
 * │ CLOSING │              v                           v        │
 * └─────────┘      ┌────────────────┐             ┌─────────┐   │
 *     │ written    │ AWAITING_CLOSE │────────────>│ LINGER  │───┘ what comes is thrown away
 *     │            └────────────────┘ (REFUSED)   └─────────┘
 *     │                    │ it said close             │ it is done, or a second went by
 *     v                    v                           v
 *    GONE <────────────────┴───────────────────────────┘   and from everywhere, when the socket
 *                                                          fails, stalls or ends
 */
enum websocket_state {
    WEBSOCKET_OPEN,
    WEBSOCKET_PINGED,
    WEBSOCKET_PARTIAL,
    WEBSOCKET_THROTTLED,
    WEBSOCKET_CLOSING,
    WEBSOCKET_LEAVING,
    WEBSOCKET_REFUSED,
    WEBSOCKET_AWAITING_CLOSE,
    WEBSOCKET_LINGER,
    WEBSOCKET_GONE, /* its memory goes at the end of the turn */
    WEBSOCKET_STATES,
};

struct websocket {
    struct connection base;
    struct ws_reader *reader; /* while a message is half read, else NULL */
};
_Static_assert(sizeof(void *) != 8 || sizeof(struct websocket) <= 312, "an idle stream grows");

struct websocket_worker {
    struct connections conns;
    struct websocket_config config;
    struct ws_reader *spare_reader; /* an idle one; NULL: none */
};

extern const struct connection_kind websocket_kind;

#endif
