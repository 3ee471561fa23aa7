/* SPDX-License-Identifier: MIT
 *
 * WebSockets: the connections of one worker that were upgraded from HTTP, with one JSON-RPC message
 * per text message in both directions. Answers and notifications share a connection, as on standard
 * input and output. The client's negotiated state and subscriptions end with it.
 *
 * A WebSocket begins when its HTTP connection ends (transport/http_pages.c): it takes the socket,
 * the pending output, the principal, and the bytes after the request. WebSockets are one kind of
 * the connections of an HTTP worker, which owns their worker.
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
    uint64_t keepalive_ms;       /* of silence, before a ping is sent */
    uint64_t message_timeout_ms; /* for 64 KiB of a message */
    uint64_t stall_timeout_ms;   /* without taking or answering anything */
};

/* NULL: out of memory. */
struct websocket_worker *websocket_worker_create(struct connection_worker *cw,
                                                 const struct websocket_config *config);
/* After connection_worker_deinit; NULL is fine. */
void websocket_worker_destroy(struct websocket_worker *ww);

/* Checks that messages can be read. TIDINGS_E_UNSUPPORTED: the library is disabled or missing;
 * TIDINGS_E_NOMEM. */
int websocket_check_reader(struct websocket_worker *ww, struct tidings_error *err);

/* The state that an HTTP connection passes to its WebSocket. */
struct websocket_start {
    struct sendq *out; /* emptied (sendq_move); its socket must no longer be polled */
    const struct principal *principal; /* it takes another reference; may be NULL */
    struct quota *quota;               /* entered; may be NULL */
    struct client_account *origin;     /* whose share it has; may be NULL */
    struct tidings_str input;          /* the bytes after the request: the first frames */
    bool eof;                          /* … and the last of them */
};
/* Allocates one, before the client receives the acceptance; NULL: out of memory. */
struct websocket *websocket_create(struct websocket_worker *ww);
/* Takes everything in `start`; closes the connection if that fails. */
void websocket_open(struct websocket *ws, const struct websocket_start *start);

/* After drain_begin: ends connections that wait for no answer. Called repeatedly. */
void websocket_drain(struct websocket_worker *ww);

/* -------------------------------------------------------------------------------------------------
 * One WebSocket and its worker.
 */

/*          upgrade                    ┌─────────┐  whole messages wait for the next turn
 *             │               ┌──────>│THROTTLED│
 *             v               │<──────└─────────┘
 *   ┌──> ┌────────┐           │
 *   │    │  OPEN  │<──────────┤
 *   │    └────────┘           │        ┌────────┐  a part of a message has arrived
 *   │ input   │ silence       ├───────>│PARTIAL │
 *   │         v               │<───────└────────┘
 *   │    ┌────────┐           │
 *   └────│ PINGED │───────────┘
 *        └────────┘
 *             │ from any of these, when …
 *     ┌───────┴────────────┬───────────────────────────┐
 *     │ the client         │ the server ends it        │ protocol error, or a deadline
 *     │ sent close         v                           v
 *     │               ┌─────────┐                 ┌─────────┐
 *     │               │ LEAVING │                 │ REFUSED │<──┐ TLS fails
 *     v               └─────────┘                 └─────────┘   │
 * ┌─────────┐              │ close frame is written    │        │
 * │ CLOSING │              v                           v        │
 * └─────────┘      ┌────────────────┐             ┌─────────┐   │
 *     │ written    │ AWAITING_CLOSE │────────────>│ LINGER  │───┘ input is discarded
 *     │            └────────────────┘ (REFUSED)   └─────────┘
 *     │                    │ it sent close             │ it closes, or a second passes
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
    WEBSOCKET_GONE, /* its memory is freed at the end of the turn */
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
