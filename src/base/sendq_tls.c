/* SPDX-License-Identifier: MIT
 *
 * Send queues with a TLS session. What is put in waits as it is until the flush; then it is
 * encrypted, one record for as many pieces as fit, no further ahead of the socket than one send is
 * long: a large answer is never in memory twice.
 */
#include "base/sendq_private.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

#define SEAL_AHEAD 65536u /* bytes of records that wait for the kernel; one more record may */

/* Records, also those of the handshake. A failure is told by whoever made the session write. */
static int on_records(void *user, const char *bytes, size_t len)
{
    struct sendq *q = user;
    char *room = q->error ? NULL : sendq_room_in(q, &q->pieces, len);
    if (!room) {
        return TIDINGS_E_NOMEM;
    }
    memcpy(room, bytes, len);
    return 0;
}

int sendq_use_tls(struct sendq *q, struct tls_session *session)
{
    struct sendq_tls *t = mem_zalloc(sizeof *t);
    if (!t) {
        tls_session_destroy(session);
        return TIDINGS_E_NOMEM;
    }
    t->session = session;
    q->tls = t;
    tls_session_set_outlet(session, on_records, q);
    return 0;
}

void sendq_follow_tls(struct sendq *q)
{
    tls_session_set_outlet(q->tls->session, on_records, q);
}

struct tls_session *sendq_tls(const struct sendq *q)
{
    return q->tls ? q->tls->session : NULL;
}

struct tls_session *sendq_detach_tls(struct sendq *q)
{
    struct sendq_tls *t = q->tls;
    if (!t) {
        return NULL;
    }
    struct tls_session *session = t->session;
    sendq_drop(q, &t->plain);
    q->tls = NULL;
    mem_free(t);
    return session;
}

void sendq_close_tls(struct sendq *q)
{
    if (q->pending == 0 && !q->error) {
        tls_seal_end(q->tls->session);
        (void)sendq_flush(q);
    }
    tls_session_destroy(sendq_detach_tls(q));
}

void sendq_end(struct sendq *q)
{
    if (q->tls && !q->error) {
        tls_seal_end(q->tls->session);
        (void)sendq_flush(q);
    }
    (void)shutdown(q->fd, SHUT_WR);
}

/* The next record: straight from a piece that fills it or is the only one, else joined. */
static int seal_some(struct sendq *q)
{
    struct sendq_tls *t = q->tls;
    struct iovec iov[SENDQ_PIECES];
    char joined[TLS_RECORD];
    const char *bytes = joined;
    size_t len, at = 0;
    unsigned count = sendq_gather(t->plain, iov, SENDQ_PIECES, TLS_RECORD, &len);
    if (count == 1) {
        bytes = iov[0].iov_base;
    }
    for (unsigned i = 0; i < count && count > 1; i++) {
        memcpy(joined + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    int rc = tls_seal(t->session, bytes, len);
    if (rc == 0) {
        sendq_consume(q, &t->plain, len);
        t->plain_bytes -= len;
    }
    return rc;
}

bool sendq_seal(struct sendq *q)
{
    struct sendq_tls *t = q->tls;
    while (t->plain && q->pending - t->plain_bytes < SEAL_AHEAD) {
        if (!sendq_make(q, &t->plain)) {
            return false;
        }
        if (sendq_begins_with_source(t->plain)) {
            break; /* it has no bytes yet */
        }
        if (seal_some(q) < 0) {
            (void)sendq_break(q, q->error ? q->error : EPROTO);
            return false;
        }
    }
    return !q->error;
}
