/* SPDX-License-Identifier: MIT
 *
 * Receives the bytes of an HTTP connection, plain or through TLS, and refuses clients whose
 * handshake or session fails.
 */
#include <errno.h>

#include "base/log.h"
#include "transport/http_private.h"

/* It speaks HTTP, and would not understand an alert. */
static void conn_refuse_plain(struct http_conn *conn)
{
    tls_session_destroy(sendq_detach_tls(&conn->out));
    conn_refuse(conn, 400, "this port speaks TLS; use https://");
}

/* There may be an alert for it, which is read only when we do not close in its face. */
static void conn_refuse_tls(struct http_conn *conn)
{
    log_debug(LOG_TRANSPORT, "TLS failed", KV("reason", tls_session_reason(sendq_tls(&conn->out))),
              KV("worker", conn->hw->worker->index));
    if (conn->out.pending == 0) {
        conn_close(conn, "TLS failed");
        return;
    }
    conn_set_state(conn, CONN_REFUSED);
}

ssize_t conn_receive(struct http_conn *conn)
{
    struct http_worker *hw = conn->hw;
    struct tls_session *tls = sendq_tls(&conn->out);
    if (tls && tls_session_reason(tls)[0] != '\0') {
        tls = NULL; /* it failed: what still comes is of no interest */
    }
    bool ended = false;
    ssize_t n = tls_recv(tls, conn->out.fd, hw->scratch, sizeof(hw->scratch), &ended);
    conn->eof = conn->eof || ended;
    if (n == -EPROTOTYPE) {
        conn_refuse_plain(conn);
    } else if (n < 0 && tls && tls_session_reason(tls)[0] != '\0') {
        conn_refuse_tls(conn);
    } else if (n < 0) {
        conn_close(conn, "reset");
    } else if (conn->state == CONN_HANDSHAKE && tls_session_is_ready(tls)) {
        conn_set_state(conn, CONN_IDLE); /* all it has to say may have come at once */
    } else if (conn->state == CONN_HANDSHAKE && ended) {
        conn_close(conn, "closed by the client");
        return -1;
    }
    hw->worker->stats.bytes_in += n > 0 ? (size_t)n : 0;
    return n < 0 ? -1 : n;
}
