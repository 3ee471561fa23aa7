/* SPDX-License-Identifier: MIT
 *
 * Connections that are not let in: each is told why in the words of its door, and then nothing more
 * is said. It stays open for a moment, in which what it has sent is thrown away, because closing a
 * socket with unread input would take the answer back before it is read. Only so many wait like
 * that; when another comes, the oldest is closed. One descriptor is kept back for the time when
 * there are no others, so that even then nobody is left to wait for nothing.
 */
#ifndef TRANSPORT_TURNAWAY_H
#define TRANSPORT_TURNAWAY_H

#include "base/loop.h"
#include "transport/door.h"

#define TURNAWAY_MAX 32u /* descriptors */

struct turnaway;

/* NULL: out of memory. */
struct turnaway *turnaway_create(struct loop *loop);
void turnaway_destroy(struct turnaway *t); /* NULL is fine */
/* Takes the descriptor. `kind` DOOR_KINDS: it speaks TLS and gets an alert, because for more there
 * would have to be a handshake, which costs more than letting it in. `door` is for the log, which
 * has one line a second. */
void turnaway_say(struct turnaway *t, int fd, enum door_kind kind, const struct refusal *why,
                  const char *door);
/* Out of descriptors: one is given back, the one that is kept for this or that of the oldest that
 * waits, so that one more connection can be accepted and told. false: there is none. */
bool turnaway_make_room(struct turnaway *t);
/* Try to have that one again. */
void turnaway_keep(struct turnaway *t);
/* Say in the log that a connection was not let in. One line a second. */
void turnaway_log(struct turnaway *t, const char *reason, const char *door);

#endif
