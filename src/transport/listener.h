/* SPDX-License-Identifier: MIT
 *
 * A listener: a listening socket that is open. Its connections are handed, one by one, to the least
 * loaded worker. One that is beyond what all listeners together, or one client, may have is
 * rejected (transport/listener.h); when descriptors run out, accepting pauses.
 */
#ifndef TRANSPORT_LISTENER_H
#define TRANSPORT_LISTENER_H

#include <sys/types.h>

#include <tidings/types.h>

#include "base/loop.h"
#include "base/net/tls.h"
#include "base/str.h"
#include "base/thread.h"
#include "security/limits.h"

/* -------------------------------------------------------------------------------------------------
 * A listening socket: made at a numeric address or a path, or passed to us. Addresses are never
 * shared: one that is in use is an error that says what to do.
 *
 * A path is taken over from a server that is gone (nobody answers there) and from nobody else. Its
 * file gets its permissions before anybody can connect, and goes when the endpoint is closed,
 * unless it is another's by then.
 */

#define ENDPOINT_PATH_MAX 107u /* bytes of a path, what the kernel takes */

struct endpoint_address {
    const char *option; /* for errors: what chooses it, "--http ADDR:PORT" */
    const char *host;   /* numeric; or … */
    const char *path;   /* … of a Unix socket; or … */
    int fd;             /* … a listening socket, of which it has a copy (both NULL) */
    uint16_t port;      /* 0: any free one */
    unsigned mode;      /* permissions of the path */
};

struct endpoint {
    int fd;
    bool is_unix;
    uint16_t port;
    char host[46];                    /* numeric; IPv6 without brackets */
    char path[ENDPOINT_PATH_MAX + 1]; /* of a Unix socket; empty: it has none */
    bool owns_path;
    dev_t device; /* of the path, to know it again */
    ino_t inode;
};

/* On failure nothing is left behind. TIDINGS_E_EXISTS: in use; TIDINGS_E_NOTFOUND,
 * TIDINGS_E_DENIED, TIDINGS_E_INVALID. */
int endpoint_open(struct endpoint *e, const struct endpoint_address *at, struct tidings_error *err);
/* Is it a stream socket that listens? Makes it fit for us: neither blocking nor inherited. */
int endpoint_check_passed(int fd, struct tidings_error *err);
void endpoint_close(struct endpoint *e); /* one that was never opened must have fd -1 */
/* Can only this machine reach it? */
bool endpoint_is_local(const struct endpoint *e);

/* -------------------------------------------------------------------------------------------------
 * The way of an accepted connection from the listener's thread to a worker's.
 *
 * A *worker inbox* takes connections of one kind (HTTP, lines) on one worker. A *handover* is a
 * connection on its way there: fresh from accept, or moved from another worker with what it had
 * read. Inboxes are embedded by the transports; the listener knows them only as such.
 */

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
    struct thread_message message;
    struct tls_session *tls; /* NULL: plain */
    int fd;
    struct buf in;                    /* what was read already */
    struct quota *quota;              /* entered; NULL: nothing limits its client */
    struct client_account *origin;    /* whose share it has; NULL: nobody's */
    const struct worker_inbox *inbox; /* it was sent there last; NULL: nowhere yet */
};
/* Takes fd and session (NULL: plain), also on failure. NULL: out of memory. */
struct handover *handover_create(int fd, struct tls_session *tls);
/* Nobody wants it: closes the connection. Its client gets its place back. */
void handover_destroy(struct handover *handover);

/* What takes connections of one kind on one worker. */
struct worker_inbox {
    struct mailbox *mailbox;
    /* Called with the mailbox's owner and a struct handover's message, which is then its own. */
    void (*adopt)(struct thread_message *message, void *owner);
    size_t count; /* atomic: connections here and on their way */
    struct limit_counters *limit_counters;
};
void worker_inbox_send(struct worker_inbox *inbox, struct handover *handover); /* any thread */
size_t worker_inbox_count(const struct worker_inbox *inbox);                   /* any thread */
/* A connection that was sent is gone, or goes to another worker. */
void worker_inbox_left(struct worker_inbox *inbox);
/* Its client has one connection less. */
void worker_inbox_give_back(const struct worker_inbox *inbox, struct quota *quota,
                            struct client_account *origin);

/* The inboxes of one worker, by kind; NULL: it takes none of that kind. */
struct worker_inboxes {
    struct worker_inbox *by_kind[LISTENER_KINDS];
};

/* -------------------------------------------------------------------------------------------------
 * Rejecting connections for which there is no room: each is accepted only to get a refusal in the
 * protocol of its listener, and then nothing more is said. It stays open for a moment, in which
 * what it has sent is thrown away, because closing a socket with unread input would take the answer
 * back before it is read. Only so many wait like that; when another comes, the oldest is closed.
 * One descriptor is kept back for the time when there are no others, so that even then nobody is
 * left to wait for nothing.
 */

#define REJECT_MAX 32u /* descriptors */

struct reject_list;

/* NULL: out of memory. */
struct reject_list *reject_list_create(struct loop *loop);
void reject_list_destroy(struct reject_list *r); /* NULL is fine */

struct listener;

struct listener_options {
    const struct listener_protocol *protocol; /* outlives the listener */
    struct endpoint_address at;
    const char *path;                     /* of its URL; NULL: of the endpoint, "/mcp" */
    size_t max_connections;               /* of all listeners */
    const struct worker_inboxes *inboxes; /* of the workers; outlive the listener */
    size_t worker_count;
    struct quotas *quotas;
    struct client_accounts *client_accounts;
    struct reject_list *rejects;
};

struct listener *listener_open(struct loop *loop, const struct listener_options *options,
                               struct tidings_error *err);
void listener_close(struct listener *listener); /* NULL is fine */
/* What clients connect to: "http://127.0.0.1:7777/mcp", "tcp://[::1]:7778", "unix:/run/x.sock". */
const char *listener_url(const struct listener *listener);
const struct endpoint *listener_endpoint(const struct listener *listener);

#endif
