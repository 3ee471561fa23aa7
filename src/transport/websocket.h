/* SPDX-License-Identifier: MIT
 *
 * WebSockets: the connections of one worker that were upgraded from HTTP, one JSON-RPC message per
 * text message either way. Answers and notifications share a connection, as on standard input and
 * output; what a client negotiated and subscribed to ends with it.
 *
 * A WebSocket begins where its HTTP connection ends (transport/http_pages.c): it takes the
 * socket, what still waits to be written, whoever was identified, and the bytes that followed the
 * request. The HTTP worker owns the worker of its WebSockets, lends it its timer and is told of
 * what concerns both (struct websocket_owner).
 */
#ifndef TRANSPORT_WEBSOCKET_H
#define TRANSPORT_WEBSOCKET_H

#include "base/net/sendq.h"
#include "engine/delivery/delivery.h"
#include "engine/protocol/channel.h"
#include "formats/websocket.h"
#include "security/principal.h"
#include "transport/connection.h"
#include "transport/listener.h"

struct websocket;
struct websocket_worker;

/* Frozen while the server runs. */
struct websocket_config {
    size_t max_message;
    uint64_t keepalive_ms;       /* of silence, after which it is asked whether it is there */
    uint64_t message_timeout_ms; /* for 64 KiB of a message */
    uint64_t stall_timeout_ms;   /* without taking or answering anything */
};

struct websocket_owner {
    void *user;
    struct worker *worker;
    struct worker_inbox *inbox;  /* counts connections */
    struct deadlines *deadlines; /* the lists of WebSockets are among them */
    char *scratch;               /* to read into; nobody else's while it is being read from */
    size_t scratch_size;
    void (*review)(void *user);    /* a message is about to be handled: tokens may be taken back */
    void (*make_room)(void *user); /* one holds input: is there too much of it on this worker? */
    void (*left)(void *user);      /* one is gone */
};

/* NULL: out of memory. */
struct websocket_worker *websocket_worker_create(const struct websocket_config *config,
                                                 const struct websocket_owner *owner);
/* Closes what is left; NULL is fine. */
void websocket_worker_destroy(struct websocket_worker *ww);

/* Can messages be read? TIDINGS_E_UNSUPPORTED: the library is left out or not there;
 * TIDINGS_E_NOMEM. */
int websocket_check_reader(struct websocket_worker *ww, struct tidings_error *err);

/* What an HTTP connection leaves to its WebSocket. */
struct websocket_start {
    struct sendq *out; /* emptied (sendq_move); its socket must not be polled any more */
    const struct principal *principal; /* it takes a reference of its own; may be NULL */
    struct quota *quota;               /* entered; may be NULL */
    struct allowance *origin;          /* whose share it has; may be NULL */
    struct tidings_str input;          /* what followed the request: the first of the frames */
    bool eof;                          /* … and the last of them */
};
/* The memory for one, before the client is told that there will be one; NULL: out of memory. */
struct websocket *websocket_create(struct websocket_worker *ww);
/* Takes everything in `start`; the connection is closed when that fails. */
void websocket_open(struct websocket *ws, const struct websocket_start *start);

/* What may be due besides deadlines: input while there is too much of it, principals that expire,
 * and what drains; and when it is to be looked at next, by the loop's time (UINT64_MAX: not). */
void websocket_check_due(struct websocket_worker *ww);
uint64_t websocket_next_check(const struct websocket_worker *ww);
/* One connection handles so many messages in a turn. Are there any that wait for another turn? This
 * is one. */
bool websocket_has_yielded(const struct websocket_worker *ww);
void websocket_resume(struct websocket_worker *ww);

/* Of those in the middle of a message: since when had the one without progress for longest none?
 * false: there is none. Say why, forget what it sent, and end it. */
bool websocket_find_slowest(const struct websocket_worker *ww, uint32_t *since_ms);
void websocket_cut_slowest(struct websocket_worker *ww);

/* End those whose principals are gone; after drain_begin, those that wait for no answer, now and
 * whenever websocket_check_due is called. */
void websocket_dismiss(struct websocket_worker *ww, principal_test_fn is_gone, void *user);
void websocket_drain(struct websocket_worker *ww);

/* -------------------------------------------------------------------------------------------------
 * One WebSocket and its worker.
 */

/*          upgrade                    ┌────────┐  whole messages wait for the next turn
 *             │               ┌──────>│YIELDED │
 *             v               │<──────└────────┘
 *   ┌──> ┌────────┐           │
 *   │    │  OPEN  │<──────────┤
 *   │    └────────┘           │        ┌────────┐  a part of a message has come
 *   │ heard   │ silence       ├───────>│ MIDWAY │
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
    WEBSOCKET_MIDWAY,
    WEBSOCKET_YIELDED,
    WEBSOCKET_CLOSING,
    WEBSOCKET_LEAVING,
    WEBSOCKET_REFUSED,
    WEBSOCKET_AWAITING_CLOSE,
    WEBSOCKET_LINGER,
    WEBSOCKET_GONE, /* its memory goes at the end of the turn */
    WEBSOCKET_STATES,
};

/* The lists they are in: one for each state, and one for open ones whose ping was put off by what
 * they said. */
#define WEBSOCKET_PUT_OFF WEBSOCKET_STATES
#define WEBSOCKET_LISTS (WEBSOCKET_STATES + 1)

struct websocket {
    struct channel channel;
    struct websocket_worker *ww;
    struct loop_poll poll;
    struct ws_reader *reader; /* while a message is half read, else NULL */
    /* From here on what every notification touches, close together. */
    struct sink sink;
    struct sendq out;       /* also says its descriptor: out.fd */
    uint32_t input_counted; /* bytes of input (transport/connection.h) */
    enum websocket_state state : 8;
    bool eof : 1;            /* the client will send nothing more */
    bool has_long : 1;       /* a long answer may wait */
    bool has_rest : 1;       /* messages that were read wait for room */
    bool was_enveloped : 1;  /* the last message was: so are answers */
    bool uses_envelopes : 1; /* some message was: so are notifications */
    union {
        struct {
            struct deadline stall;    /* in ww->stalled while the kernel takes no more */
            struct deadline deadline; /* in ww->lists[state]; noted: when it was heard of */
        };
        struct loop_discard discard; /* once it is gone */
    };
};
/* One of the four blocks of an idle listen (unit/server/test_idle.c): malloc has no size between
 * this and 16 bytes more. */
_Static_assert(sizeof(void *) != 8 || sizeof(struct websocket) <= 312, "an idle stream grows");

struct websocket_worker {
    struct worker *worker; /* owner.worker */
    struct websocket_config config;
    struct websocket_owner owner;
    struct deadline_list lists[WEBSOCKET_LISTS];
    struct deadline_list stalled;
    struct ws_reader *spare_reader; /* an idle one; NULL: none */
    int64_t next_expiry_ms;         /* of a principal; 0: never */
    bool draining;
};

static inline struct websocket *websocket_of_deadline(struct deadline *deadline)
{
    return list_entry(deadline, struct websocket, deadline);
}

/* May messages come and go? */
static inline bool websocket_is_open(const struct websocket *ws)
{
    return ws->state <= WEBSOCKET_YIELDED;
}

extern const struct channel_ops websocket_channel_ops;
extern const struct sink_ops websocket_sink_ops;

/* websocket.c. The one function that changes the state. A move that is not in the drawing is our
 * mistake: it is asserted, and without assertions the connection is closed. */
bool websocket_may_move(enum websocket_state from, enum websocket_state to);

#endif
