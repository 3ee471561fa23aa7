/* SPDX-License-Identifier: MIT
 *
 * A connection that carries messages both ways, one per line: what standard input and output and
 * line-framed sockets have in common. It is a channel and a sink at once; answers and notifications
 * share it. It knows nothing of reading, deadlines or its end: its owner feeds it, flushes it and
 * looks at it again at the end of each turn in which something happened to it.
 *
 * A message is handled when it is complete and not too much is under way
 * (transport/connection.h). What comes beyond waits in the reader, and nothing more is read.
 */
#ifndef TRANSPORT_LINES_H
#define TRANSPORT_LINES_H

#include "formats/rpc.h"
#include "transport/connection.h"

struct line {
    struct connection base;     /* of standard input and output: channel, sink and queue only */
    struct line_reader *reader; /* NULL: nothing came that is not handled yet */
    /* Something may have ended, or may go on: the owner looks at it at the end of the turn. NULL:
     * it does so in every turn anyway. */
    void (*schedule_review)(struct line *line);
    const char *reason; /* why it is broken, for the log; NULL: it is not */
    uint64_t received;  /* bytes, since it began */
    uint32_t max_line;
    bool eof;          /* nothing more will be read */
    bool finished;     /* … and nothing of what came is left */
    bool broken;       /* nothing more will go: its owner closes it */
    bool took;         /* a message was handled since the owner looked */
    bool is_throttled; /* it has used up its turn: the owner wakes it in the next, and pumps it */
};

/* -------------------------------------------------------------------------------------------------
 * Line-framed sockets: the TCP and Unix connections of one worker, each carrying messages both ways
 * (transport/lines.h). A connection is what a session is elsewhere: everything it has subscribed
 * ends with it.
 *
 * When the client half-closes, what is under way is finished and written, then the connection is
 * closed. A client that takes nothing for `stall_timeout`, or needs more than `body_timeout` for
 * 64 KiB of a message, is cut off; one that never says anything after `idle_timeout`, TLS
 * handshakes after `header_timeout`; one that said something but has nothing subscribed and asks
 * nothing, after `session_timeout`. TCP peers that are gone without a word are found by keep-alive
 * probes.
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
/* Closes what is left. Other threads must not send to it any more. NULL is fine. */
void socket_worker_destroy(struct socket_worker *sw);
/* What connections are sent to. */
struct worker_inbox *socket_worker_inbox(struct socket_worker *sw);
/* After drain_begin: a connection ends when its turn has come and what is under way is answered;
 * calls `drained` once the last one is gone. */
void socket_worker_drain(struct socket_worker *sw, void (*drained)(void *user), void *user);

/* -------------------------------------------------------------------------------------------------
 * Messages over two descriptors, one per line: standard input and output of a program that a host
 * launched. Their flags stay as they are, since the parent shares them. Input may be a pipe, a
 * socket, a terminal, a file or /dev/null.
 *
 * At the end of input what is under way is finished and written, then `ended` is called once.
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
/* After drain_begin: when its turn has come and what is under way is answered, `ended`. */
void stdio_drain(struct stdio *s);
void stdio_close(struct stdio *s); /* NULL is fine; closes no descriptor */

/* -------------------------------------------------------------------------------------------------
 * One line-framed connection and its worker.
 */

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
    struct list review_link;    /* in sw->to_review */
    struct list throttled_link; /* in sw->throttled until the next turn */
    uint32_t partial_bytes;     /* bytes of half a message since its time last began */
};

struct socket_worker {
    struct connection_worker base;
    struct connections conns;
    const struct socket_config *config;
    struct list to_review, throttled;
};

extern const struct connection_kind line_kind;

#endif
