/* SPDX-License-Identifier: MIT
 *
 * One line-framed connection and its worker, shared by socket.c (life, reading), socket_states.c
 * and socket_deadlines.c.
 */
#ifndef TRANSPORT_SOCKET_PRIVATE_H
#define TRANSPORT_SOCKET_PRIVATE_H

#include "transport/deadlines.h"
#include "transport/line.h"
#include "transport/socket.h"

/*   accept ──TLS──> ┌───────────┐
 *      │            │ HANDSHAKE │
 *      v     done   └───────────┘
 *   ┌───────┐ <──────────┘
 *   │ FRESH │  nothing was said yet
 *   └───────┘
 *      │ first bytes
 *      v
 *   ┌──────┐ <───────> ┌─────────┐
 *   │ OPEN │           │ MIDLINE │  a part of a message has come
 *   └──────┘           └─────────┘
 *
 *  HANDSHAKE, FRESH, OPEN, MIDLINE ──end of input, of our patience, or of the server──> ENDING
 *  HANDSHAKE, FRESH, OPEN, MIDLINE ──TLS fails: an alert──> LINGER
 *  ENDING ──all is answered and written──> LINGER: input is discarded, so that the last answer is
 *  read before the reset
 *  LINGER ──end of input, or a second went by──> GONE
 *  from everywhere ──the socket fails, stalls or ends──> GONE
 */
enum line_state {
    LINE_HANDSHAKE,
    LINE_FRESH,
    LINE_MIDLINE,
    LINE_OPEN,
    LINE_ENDING,
    LINE_LINGER,
    LINE_GONE, /* its memory goes at the end of the turn */
    LINE_STATES,
};

struct line_conn {
    struct line line;
    struct socket_worker *sw;
    union {
        struct {
            struct deadline deadline; /* in sw->lists[state] */
            struct deadline stall;    /* in sw->stalled while the kernel takes no more */
            struct list review_link;  /* in sw->to_review */
            struct list yield_link;   /* in sw->yielded until the next turn */
        };
        struct loop_discard discard; /* once it is gone */
    };
    struct loop_poll poll;
    uint32_t input_counted; /* bytes of input (transport/input_budget.h) */
    uint32_t midway;        /* bytes of half a message since its time was last counted anew */
    int fd;
    enum line_state state : 8;
};

struct socket_worker {
    struct worker *worker;
    const struct socket_config *config;
    struct worker_inbox inbox;
    struct deadlines deadlines;
    struct deadline_list lists[LINE_STATES];
    struct deadline_list stalled;
    struct list to_review, yielded;
    struct loop_timer *next_turn; /* runs while some have yielded */
    struct loop_hook end_hook;
    void (*drained)(void *user);
    void *drained_user;
    bool draining;
    int64_t next_expiry_ms; /* of a principal; 0: never */
    char scratch[65536];
};

static inline struct line_conn *line_conn_of_deadline(struct deadline *deadline)
{
    return list_entry(deadline, struct line_conn, deadline);
}

/* socket_states.c. The one function that changes the state. A move that is not in the drawing is
 * our mistake: it is asserted, and without assertions the connection is closed. */
void line_conn_set_state(struct line_conn *conn, enum line_state state);
void line_conn_start_state(struct line_conn *conn, enum line_state first); /* HANDSHAKE or FRESH */
bool line_conn_may_move(enum line_state from, enum line_state to);

/* socket.c */
/* Something may have ended, or may go on: it is looked at when the turn ends. */
void line_conn_schedule_review(struct line *line);
void line_conn_close(struct line_conn *conn, const char *reason);
/* What is said to it is its last. */
void line_conn_refuse(struct line_conn *conn, int status, const char *text);

/* socket_deadlines.c: the lists of connections, and what is due when (-1: out of memory); all that
 * are open are looked at when the turn ends; on this worker, make room when all connections hold
 * too much input (transport/input_budget.h). */
int socket_deadlines_init(struct socket_worker *sw);
void socket_schedule_reviews(struct socket_worker *sw);
void line_conn_make_room(struct line_conn *conn); /* it holds input: is that too much? */
/* It ends when its principal does. */
void line_conn_note_expiry(struct line_conn *conn);

#endif
