/* SPDX-License-Identifier: MIT
 *
 * Rejecting connections for which there is no room: each is accepted only to get a refusal in the
 * protocol of its listener, and then nothing more is said. It stays open for a moment, in which
 * what it has sent is thrown away, because closing a socket with unread input would take the answer
 * back before it is read. Only so many wait like that; when another comes, the oldest is closed.
 * One descriptor is kept back for the time when there are no others, so that even then nobody is
 * left to wait for nothing.
 */
#ifndef TRANSPORT_REJECT_H
#define TRANSPORT_REJECT_H

#include "base/loop.h"
#include "transport/worker_inbox.h"

#define REJECT_MAX 32u /* descriptors */

struct reject_list;

/* NULL: out of memory. */
struct reject_list *reject_list_create(struct loop *loop);
void reject_list_destroy(struct reject_list *r); /* NULL is fine */
/* Takes the descriptor. `kind` LISTENER_KINDS: it speaks TLS and gets an alert, because for more
 * there would have to be a handshake, which costs more than letting it in. `url` of the listener is
 * for the log, which has one line a second. */
void reject_connection(struct reject_list *r, int fd, enum listener_kind kind,
                       const struct refusal *why, const char *url);
/* Out of descriptors: one is given back, the one that is kept for this or that of the oldest that
 * waits, so that one more connection can be accepted and told. false: there is none. */
bool reject_free_descriptor(struct reject_list *r);
/* Try to have that one again. */
void reject_keep_descriptor(struct reject_list *r);
/* Say in the log that a connection was not let in. One line a second. */
void reject_log(struct reject_list *r, const char *reason, const char *url);

#endif
