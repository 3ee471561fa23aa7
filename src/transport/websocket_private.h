/* SPDX-License-Identifier: MIT
 *
 * One WebSocket and its worker, shared by websocket.c (life, socket), websocket_messages.c (frames
 * and messages) and websocket_deadlines.c.
 */
#ifndef TRANSPORT_WEBSOCKET_PRIVATE_H
#define TRANSPORT_WEBSOCKET_PRIVATE_H

#include "request/channel.h"
#include "transport/websocket.h"
#include "wire/ws.h"

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
    uint32_t input_counted; /* bytes of input (transport/input_budget.h) */
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
void websocket_set_state(struct websocket *ws, enum websocket_state state);
bool websocket_may_move(enum websocket_state from, enum websocket_state to);
void websocket_close(struct websocket *ws, const char *reason);
/* Ask the loop for what it waits for now. */
void websocket_want(struct websocket *ws);
/* Read what has come, as far as there is room for it. */
void websocket_read(struct websocket *ws);
/* Count the input it holds. */
void websocket_book_input(struct websocket *ws);
/* Cut it if its client holds more input than its share. */
void websocket_cut_unfair(struct websocket *ws);

/* websocket_messages.c */
void websocket_put_control(struct websocket *ws, enum ws_opcode opcode, struct tidings_str payload);
/* Say a last word, after which nothing is said and nothing under way matters. `next`: CLOSING,
 * LEAVING or REFUSED. */
void websocket_say_close(struct websocket *ws, unsigned code, struct tidings_str reason,
                         enum websocket_state next);
/* Bytes were read. */
void websocket_receive(struct websocket *ws, const char *bytes, size_t len);
/* Is there room for what it may send? When there is again, go on with what waits. */
bool websocket_has_room(const struct websocket *ws);
void websocket_go_on(struct websocket *ws);
/* It keeps the token or certificate it began with; when that is over, so is it. */
bool websocket_end_if_expired(struct websocket *ws, int64_t now_ms);
void websocket_free_reader(struct websocket *ws);

/* websocket_deadlines.c */
void websocket_deadlines_init(struct websocket_worker *ww);

#endif
