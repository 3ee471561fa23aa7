/* SPDX-License-Identifier: MIT
 *
 * Line-framed sockets: the TCP and Unix connections of one worker, each carrying messages both ways
 * (transport/line.h). A connection is what a session is elsewhere: everything it has subscribed
 * ends with it.
 *
 * When the client half-closes, what is under way is finished and written, then the connection is
 * closed. A client that takes nothing for `stall_timeout`, or needs more than `body_timeout` for
 * 64 KiB of a message, is cut off; one that never says anything after `idle_timeout`, TLS
 * handshakes after `header_timeout`; one that said something but has nothing subscribed and asks
 * nothing, after `session_timeout`. TCP peers that are gone without a word are found by keep-alive
 * probes.
 */
#ifndef TRANSPORT_SOCKET_H
#define TRANSPORT_SOCKET_H

#include "delivery/delivery.h"
#include "transport/worker_inbox.h"

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

#endif
