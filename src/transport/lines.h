/* SPDX-License-Identifier: MIT
 *
 * A connection that carries messages both ways, one per line: the common part of standard input and
 * output and of line-framed sockets. It is both a channel and a sink; answers and notifications
 * share it. It does not handle reading, deadlines and the end: its owner feeds it, flushes it, and
 * reviews it at the end of each turn with an event.
 *
 * A message is handled when it is complete and the number of requests under way permits it
 * (transport/connection.h). Further messages wait in the reader, and nothing more is read.
 */
#ifndef TRANSPORT_LINES_H
#define TRANSPORT_LINES_H

#include "formats/rpc.h"
#include "transport/connection.h"

struct line {
    struct connection base;     /* of standard input and output: channel, sink and queue only */
    struct line_reader *reader; /* NULL: all input was handled */
    /* It may have ended, or can continue: the owner reviews it at the end of the turn. NULL: the
     * owner reviews it in every turn. */
    void (*schedule_review)(struct line *line);
    const char *reason; /* why it is broken, for the log; NULL: it works */
    uint64_t received;  /* bytes, since it began */
    uint32_t max_line;
    bool eof;          /* no more input is read */
    bool finished;     /* … and all received input was handled */
    bool broken;       /* no more output is possible: its owner closes it */
    bool took;         /* a message was handled since the last review */
    bool is_throttled; /* it has used up its turn: the owner pumps it in the next one */
};

/* -------------------------------------------------------------------------------------------------
 * Line-framed sockets: the TCP and Unix connections of one worker, each carrying messages both
 * ways. A connection acts as a session: all its subscriptions end with it.
 *
 * When the client half-closes, requests under way are finished and answered, then the connection is
 * closed. Deadlines end a connection:
 * - `stall_timeout`: the client takes no output.
 * - `body_timeout`: it needs longer for 64 KiB of a message.
 * - `idle_timeout`: it has sent nothing yet.
 * - `header_timeout`: the TLS handshake is unfinished.
 * - `session_timeout`: it has sent something, but has no subscriptions and no requests.
 * Keep-alive probes find TCP peers that have disappeared.
 */

/* Frozen while the server runs. */
struct socket_config {
    size_t max_line;
    uint64_t keepalive_ms, header_timeout_ms, body_timeout_ms, idle_timeout_ms, stall_timeout_ms;
    uint64_t session_timeout_ms;
};

struct socket_worker;

struct socket_worker *socket_worker_create(struct worker *worker,
                                           const struct socket_config *config,
                                           struct tidings_error *err);
/* Closes the remaining connections. Other threads must no longer send to it. NULL is fine. */
void socket_worker_destroy(struct socket_worker *sw);
/* Returns the inbox for connections. */
struct worker_inbox *socket_worker_inbox(struct socket_worker *sw);
/* After drain_begin: a connection ends in its turn, when its requests are answered. Calls `drained`
 * once, when the last one is gone. */
void socket_worker_drain(struct socket_worker *sw, void (*drained)(void *user), void *user);

/* -------------------------------------------------------------------------------------------------
 * Messages over two descriptors, one per line: standard input and output of a program that a host
 * launched. Their flags stay unchanged, because the parent shares them. Input may be a pipe, a
 * socket, a terminal, a file or /dev/null.
 *
 * At the end of input, requests under way are finished and answered, then `ended` is called once.
 */

struct stdio;

struct stdio_options {
    int in, out;
    size_t max_line;
    void (*ended)(void *user);
    void *user;
};

struct stdio *stdio_open(struct worker *worker, const struct stdio_options *options,
                         struct tidings_error *err);
/* After drain_begin: calls `ended` in its turn, when its requests are answered. */
void stdio_drain(struct stdio *s);
void stdio_close(struct stdio *s); /* NULL is fine; closes no descriptor */

/* -------------------------------------------------------------------------------------------------
 * One line-framed connection and its worker.
 */

/*   accept ──TLS──> ┌───────────┐
 *      │            │ HANDSHAKE │
 *      v     done   └───────────┘
 *   ┌───────┐ <──────────┘
 *   │ FRESH │  no input yet
 *   └───────┘
 *      │ first bytes
 *      v
 *   ┌──────┐ <───────> ┌─────────┐
 *   │ OPEN │           │ MIDLINE │  a part of a message has arrived
 *   └──────┘           └─────────┘
 *
 *  HANDSHAKE, FRESH, OPEN, MIDLINE ──end of input, a deadline, or end of the server──> ENDING
 *  HANDSHAKE, FRESH, OPEN, MIDLINE ──TLS fails: an alert──> LINGER
 *  ENDING ──all is answered and written──> LINGER: input is discarded, so that the last answer is
 *  read before the reset
 *  LINGER ──end of input, or a second passes──> GONE
 *  from everywhere ──the socket fails, stalls or ends──> GONE
 */
enum line_state {
    LINE_HANDSHAKE,
    LINE_FRESH,
    LINE_MIDLINE,
    LINE_OPEN,
    LINE_ENDING,
    LINE_LINGER,
    LINE_GONE, /* its memory is freed at the end of the turn */
    LINE_STATES,
};

struct line_conn {
    struct line line;
    struct list review_link;    /* in sw->to_review */
    struct list throttled_link; /* in sw->throttled until the next turn */
    uint32_t partial_bytes;     /* bytes of a partial message since its time last began */
};

struct socket_worker {
    struct connection_worker base;
    struct connections conns;
    const struct socket_config *config;
    struct list to_review, throttled;
};

extern const struct connection_kind line_kind;

#endif
