/* SPDX-License-Identifier: MIT
 *
 * The way of an accepted connection from the listener's thread to a worker's.
 *
 * A *worker inbox* takes connections of one kind (HTTP, lines) on one worker. A *handover* is a
 * connection on its way there: fresh from accept, or moved from another worker with what it had
 * read. Inboxes are embedded by the transports; the listener knows them only as such.
 */
#ifndef TRANSPORT_WORKER_INBOX_H
#define TRANSPORT_WORKER_INBOX_H

#include "access/quota.h"
#include "base/mailbox.h"
#include "base/str.h"
#include "base/tls.h"

enum listener_kind {
    LISTENER_HTTP,
    LISTENER_LINES, /* one message per line, as on standard input and output */
    LISTENER_KINDS,
};

/* What is spoken on the connections of one listening socket. Frozen while the server runs, but for
 * `tls`. */
struct listener_protocol {
    enum listener_kind kind;
    /* NULL: plain. Looked at by the listener's thread only, which may put another in its place. */
    struct tls_context *tls;
};

struct handover {
    struct letter letter;
    struct tls_session *tls; /* NULL: plain */
    int fd;
    struct buf in;                    /* what was read already */
    struct quota *quota;              /* entered; NULL: nothing limits its client */
    struct allowance *origin;         /* whose share it has; NULL: nobody's */
    const struct worker_inbox *inbox; /* it was sent there last; NULL: nowhere yet */
};
/* Takes fd and session (NULL: plain), also on failure. NULL: out of memory. */
struct handover *handover_create(int fd, struct tls_session *tls);
/* Nobody wants it: closes the connection. Its client gets its place back. */
void handover_destroy(struct handover *handover);

/* What takes connections of one kind on one worker. */
struct worker_inbox {
    struct mailbox *mailbox;
    /* Called with the mailbox's owner and a struct handover's letter, which is then its own. */
    void (*adopt)(struct letter *letter, void *owner);
    size_t count; /* atomic: connections here and on their way */
    struct limit_counters *limit_counters;
};
void worker_inbox_send(struct worker_inbox *inbox, struct handover *handover); /* any thread */
size_t worker_inbox_count(const struct worker_inbox *inbox);                   /* any thread */
/* A connection that was sent is gone, or goes to another worker. */
void worker_inbox_left(struct worker_inbox *inbox);
/* Its client has one connection less. */
void worker_inbox_give_back(const struct worker_inbox *inbox, struct quota *quota,
                            struct allowance *origin);

/* The inboxes of one worker, by kind; NULL: it takes none of that kind. */
struct worker_inboxes {
    struct worker_inbox *by_kind[LISTENER_KINDS];
};

#endif
