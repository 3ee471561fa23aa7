/* SPDX-License-Identifier: MIT
 *
 * Enforces changed access on streams that are open: the rules were replaced, the time a principal
 * had is over, or its token was revoked.
 *
 * Subscriptions are narrowed to what is left: one that names a resource it may not hear of any more
 * ends, which its client is told as of any that ends; a pattern stays and covers less; what waits
 * to be told is looked through again. Who may nothing at all, or is nobody any more, has its
 * streams ended. A session stays: whoever comes back with a good token finds it.
 *
 * Requests under way are answered by the rules they began with.
 */
#ifndef ENGINE_PROTOCOL_ENFORCE_H
#define ENGINE_PROTOCOL_ENFORCE_H

#include "engine/worker.h"
#include "security/principal.h"

struct access_rules;

/* From now on these say who may do what; NULL: everybody everything. Takes the reference. */
void access_enforce_rules(struct worker *worker, struct access_rules *rules);
/* End the streams of those whose time is over. */
void access_enforce_expiry(struct worker *worker);
/* End the streams of those who are nobody any more: what made them somebody was taken back. */
void access_enforce_revocation(struct worker *worker, principal_test_fn is_gone, void *user);

/* The first on all workers of a hub, or with TIDINGS_E_NOMEM on none. On the hub's thread; the
 * reference stays the caller's. */
int access_enforce_everywhere(struct hub *hub, struct access_rules *rules,
                              struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Draining: ending every stream and session of a worker when the server stops.
 *
 * Every client that is ended comes back at once, to this server's successor or its neighbours, so
 * many are not ended together: subscribers go in the order they came, evenly over the time there
 * is. A few are no crowd and go at once. What is held back for a subscriber is told before its end.
 */

struct channel;

struct drain {
    struct loop_timer *timer; /* NULL: at once */
    uint64_t begun_ms, over_ms;
    size_t total, ended;
    uint32_t ended_upto; /* number of a subscriber: those up to it have been told */
};

/* Listens get their result and end, sessions end their streams, one after the other, evenly over
 * this time; new ones are refused. 0: all at once, also those that an earlier call has left. */
void drain_begin(struct worker *worker, uint64_t over_ms);
/* While it goes on: is nothing under way on this channel, and its turn to end has come? */
bool drain_is_done_with(const struct worker *worker, const struct channel *channel);
void drain_deinit(struct worker *worker);

#endif
