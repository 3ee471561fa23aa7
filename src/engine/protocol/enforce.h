/* SPDX-License-Identifier: MIT
 *
 * Access enforcement: applies changed access to open streams when the rules are replaced, a
 * principal expires, or its token is revoked.
 *
 * Subscriptions are narrowed to the remaining rights. A subscription to a forbidden resource ends,
 * and its client gets the usual notice; a pattern stays and covers less; queued updates are checked
 * again. The streams of principals without any rights, and of revoked ones, end. A session stays:
 * its client can resume with a valid token.
 *
 * Requests under way are answered by the rules at their start.
 */
#ifndef ENGINE_PROTOCOL_ENFORCE_H
#define ENGINE_PROTOCOL_ENFORCE_H

#include "engine/worker.h"
#include "security/principal.h"

struct access_rules;

/* Replaces the access rules; NULL: all clients may do everything. Takes the reference. */
void access_enforce_rules(struct worker *worker, struct access_rules *rules);
/* Ends the streams of expired principals. */
void access_enforce_expiry(struct worker *worker);
/* Ends the streams of principals whose credentials were revoked. */
void access_enforce_revocation(struct worker *worker, principal_test_fn is_gone, void *user);

/* Calls access_enforce_rules on all workers of a hub, or with TIDINGS_E_NOMEM on none. On the hub's
 * thread; the caller keeps its reference. */
int access_enforce_everywhere(struct hub *hub, struct access_rules *rules,
                              struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Draining: ending every stream and session of a worker when the server stops.
 *
 * Ended clients reconnect at once, to this server's successor or its neighbours, so the server does
 * not end many together: it ends subscribers in the order of their arrival, evenly over the
 * available time. A few are ended at once. Queued updates are sent before the end.
 */

struct channel;

struct drain {
    struct loop_timer *timer; /* NULL: at once */
    uint64_t begun_ms, over_ms;
    size_t total, ended;
    uint32_t ended_upto; /* number of a subscriber: those up to it were notified */
};

/* Listens get their result and end, and sessions end their streams, one after the other, evenly
 * over this time; new ones are refused. 0: all at once, including those that an earlier call has
 * left. */
void drain_begin(struct worker *worker, uint64_t over_ms);
/* During a drain: returns true if nothing is under way on this channel, and its turn to end has
 * come. */
bool drain_is_done_with(const struct worker *worker, const struct channel *channel);
void drain_deinit(struct worker *worker);

#endif
