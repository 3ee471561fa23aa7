/* SPDX-License-Identifier: MIT
 *
 * A listener: an open listening socket. It hands its connections, one by one, to the least loaded
 * worker. A connection beyond the limit of all listeners, or of one client, is rejected. If
 * descriptors run out, accepting pauses.
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
 * A listening socket, created at a numeric address or a path, or inherited. Addresses are never
 * shared: the error for an address in use explains what to do.
 *
 * A path is taken over only from a server that has ended (connections are refused there). Its file
 * gets its permissions before clients can connect, and is removed when the endpoint is closed,
 * unless another server has replaced it.
 */

#define ENDPOINT_PATH_MAX 107u /* bytes of a path, the kernel's limit */

struct endpoint_address {
    const char *option; /* for errors: its option, "--http ADDR:PORT" */
    const char *host;   /* numeric; or … */
    const char *path;   /* … of a Unix socket; or … */
    int fd;             /* … a listening socket, which it has duplicated (both NULL) */
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
    dev_t device; /* of the path, to recognize it later */
    ino_t inode;
};

/* On failure it leaves nothing. TIDINGS_E_EXISTS: in use; TIDINGS_E_NOTFOUND, TIDINGS_E_DENIED,
 * TIDINGS_E_INVALID. */
int endpoint_open(struct endpoint *e, const struct endpoint_address *at, struct tidings_error *err);
/* Checks that it is a listening stream socket, and makes it non-blocking and close-on-exec. */
int endpoint_check_passed(int fd, struct tidings_error *err);
void endpoint_close(struct endpoint *e); /* an unopened endpoint must have fd -1 */
/* Returns true if only this machine can reach it. */
bool endpoint_is_local(const struct endpoint *e);

/* -------------------------------------------------------------------------------------------------
 * The way of an accepted connection from the listener's thread to a worker's.
 *
 * A *worker inbox* takes connections of one kind (HTTP, lines) on one worker. A *handover* is a
 * connection on its way there: fresh from accept, or moved from another worker with its input.
 * Transports embed inboxes in their structs; the listener sees only the inbox.
 */

enum listener_kind {
    LISTENER_HTTP,
    LISTENER_LINES, /* one message per line, as on standard input and output */
    LISTENER_KINDS,
};

/* The protocol of the connections of one listening socket. Frozen while the server runs, except
 * `tls`. */
struct listener_protocol {
    enum listener_kind kind;
    /* NULL: plain. Only the listener's thread reads it, and may replace it. */
    struct tls_context *tls;
};

struct handover {
    struct thread_message message;
    struct tls_session *tls; /* NULL: plain */
    int fd;
    struct buf in;                    /* input that was already read */
    struct quota *quota;              /* entered; NULL: its client has no limit */
    struct client_account *origin;    /* whose share it has; NULL: none */
    const struct worker_inbox *inbox; /* its last destination; NULL: none yet */
};
/* Takes fd and session (NULL: plain), even on failure. NULL: out of memory. */
struct handover *handover_create(int fd, struct tls_session *tls);
/* Closes a connection that was not adopted, and releases the place of its client. */
void handover_destroy(struct handover *handover);

/* Takes connections of one kind on one worker. */
struct worker_inbox {
    struct mailbox *mailbox;
    /* Called with the mailbox's owner and the message of a struct handover, which it takes. */
    void (*adopt)(struct thread_message *message, void *owner);
    size_t count; /* atomic: connections here and on their way */
    struct limit_counters *limit_counters;
};
void worker_inbox_send(struct worker_inbox *inbox, struct handover *handover); /* any thread */
size_t worker_inbox_count(const struct worker_inbox *inbox);                   /* any thread */
/* A connection that was sent has ended, or moves to another worker. */
void worker_inbox_left(struct worker_inbox *inbox);
/* Its client has one connection less. */
void worker_inbox_give_back(const struct worker_inbox *inbox, struct quota *quota,
                            struct client_account *origin);

/* The inboxes of one worker, by kind; NULL: it takes none of that kind. */
struct worker_inboxes {
    struct worker_inbox *by_kind[LISTENER_KINDS];
};

/* -------------------------------------------------------------------------------------------------
 * Rejects connections that exceed a limit: each is accepted only to send a rejection in the
 * protocol of its listener. It stays open for a moment, in which its input is discarded, because
 * closing a socket with unread input would destroy the answer before the client reads it. The
 * number of such connections is limited; the oldest is closed for a new one. One descriptor is
 * reserved for the case that no others are left, so that even then clients get an answer.
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
/* Returns the URL for clients: "http://127.0.0.1:7777/mcp", "tcp://[::1]:7778",
 * "unix:/run/x.sock". */
const char *listener_url(const struct listener *listener);
const struct endpoint *listener_endpoint(const struct listener *listener);

#endif
