/* SPDX-License-Identifier: MIT
 *
 * One line-framed connection and its worker, shared by socket.c (life, reading) and
 * socket_deadlines.c.
 */
#ifndef TRANSPORT_SOCKET_PRIVATE_H
#define TRANSPORT_SOCKET_PRIVATE_H

#include "transport/line.h"
#include "transport/socket.h"

/*     accept --TLS--> SHAKING, until the handshake is done
 *       |                |
 *       | <--------------+
 *     FRESH --first byte--> MIDLINE <--> OPEN         a message has begun; none has
 *       \______________________|_________/
 *               end of input, or of our patience
 *                              |
 *                           ENDING --all written--> LINGER --end of input--> gone
 */
enum line_state {
    LINE_SHAKING,
    LINE_FRESH,
    LINE_MIDLINE,
    LINE_OPEN,
    LINE_ENDING,
    LINE_LINGER,
    LINE_STATES,
};

struct line_conn {
    struct line line;
    struct socket_worker *sw;
    union {
        struct {
            struct list link;      /* in sw->by_state[state], oldest first */
            struct list wait_link; /* in sw->waiting while the kernel takes no more */
            struct list stir_link; /* in sw->stirred */
            struct list rest_link; /* in sw->resting until the next turn */
        };
        struct loop_discard discard; /* once it is gone */
    };
    struct loop_poll poll;
    uint32_t since_ms; /* in this state, or heard of */
    uint32_t wait_since_ms, wait_written;
    uint32_t booked; /* bytes of input (transport/input_budget.h) */
    uint32_t midway; /* bytes of half a message since its time was last counted anew */
    int fd;
    enum line_state state : 8;
    bool waits : 1, gone : 1;
};

struct socket_worker {
    struct worker *worker;
    const struct socket_config *config;
    struct worker_inbox inbox;
    struct list by_state[LINE_STATES];
    struct list waiting, stirred, resting;
    struct loop_timer *tick;
    struct loop_timer *rested; /* runs while some rest */
    struct loop_hook end_hook;
    void (*drained)(void *user);
    void *drained_user;
    bool draining;
    int64_t next_expiry_ms; /* of a principal; 0: never */
    char scratch[65536];
};

/* socket.c */
void line_conn_set_state(struct line_conn *conn, enum line_state state);
/* Something may have ended, or may go on: it is looked at when the turn ends. */
void line_conn_stir(struct line *line);
void line_conn_close(struct line_conn *conn, const char *reason);
/* What is said to it is its last. */
void line_conn_refuse(struct line_conn *conn, int status, const char *text);

/* socket_deadlines.c: four times a second; all that are open are looked at when the turn ends; on
 * this worker, make room when all connections hold too much input (transport/input_budget.h). */
void socket_on_tick(struct loop_timer *timer, void *user);
void socket_start_tick(struct socket_worker *sw); /* somebody comes; it ends by itself */
void socket_stir_open(struct socket_worker *sw);
void socket_make_room(struct socket_worker *sw);
/* It ends when its principal does. */
void line_conn_note_expiry(struct line_conn *conn);

#endif
