/* SPDX-License-Identifier: MIT
 *
 * Doors, and the way of a connection from one to a worker.
 *
 * A *door* is what is spoken behind a listening socket. A *receiver* takes connections of one kind
 * on one worker. A *handover* is a connection on its way: fresh from accept, or moved from another
 * worker with what it had read. Receivers are embedded by the transports; the listener knows them
 * only as such.
 */
#ifndef TRANSPORT_DOOR_H
#define TRANSPORT_DOOR_H

#include "base/mailbox.h"
#include "base/str.h"
#include "base/tls.h"
#include "core/quota.h"

enum door_kind {
    DOOR_HTTP,
    DOOR_LINES, /* one message per line, as on standard input and output */
    DOOR_KINDS,
};

/* Frozen while the server runs, but for `tls`. */
struct door {
    enum door_kind kind;
    /* NULL: plain. Looked at by the listener's thread only, which may put another in its place. */
    struct tls_context *tls;
};

struct handover {
    struct letter letter;
    const struct door *door; /* it came through; NULL: from another worker, not from a door */
    struct tls_session *tls; /* NULL: plain */
    int fd;
    struct buf in;       /* what was read already */
    struct quota *quota; /* entered; NULL: nothing limits its client */
};
/* Takes fd and session, also on failure. `door` must outlive the handover. */
struct handover *handover_create(int fd, const struct door *door, struct tls_session *tls);
/* Nobody wants it: closes the connection. */
void handover_destroy(struct handover *handover);

/* What takes connections of one kind on one worker. */
struct receiver {
    struct mailbox *mailbox;
    /* Called with the mailbox's owner and a struct handover's letter, which is then its own. */
    void (*adopt)(struct letter *letter, void *owner);
    size_t count; /* atomic: connections here and on their way */
    struct limit_book *book;
};
void receiver_send(struct receiver *receiver, struct handover *handover); /* any thread */
size_t receiver_count(const struct receiver *receiver);                   /* any thread */
/* A connection that was sent is gone. */
void receiver_left(struct receiver *receiver);

/* Where one worker takes connections, by kind; NULL: it takes none of that kind. */
struct entrance {
    struct receiver *by_kind[DOOR_KINDS];
};

#endif
