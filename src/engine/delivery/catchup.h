/* SPDX-License-Identifier: MIT
 *
 * Catching up: delivers every change in the log since a cursor that concerns one subscriber. While
 * the hub's answer is under way, the subscriber skips live changes: they were numbered before the
 * answer and are in it.
 */
#ifndef ENGINE_DELIVERY_CATCHUP_H
#define ENGINE_DELIVERY_CATCHUP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/protocol/cursor.h"

struct subscriber;

/* Delivers the changes after `since` that concern this subscriber; live delivery follows. */
void catchup_start(struct subscriber *subscriber, uint64_t since);

/* -------------------------------------------------------------------------------------------------
 * The first updates of a new subscription, on request. Initial state: one update per existing
 * resource, marked as initial, at most INITIAL_MAX for patterns; states that cannot be determined
 * are covered by a `truncated` update. Since: the log is queried once for all waiting subscriptions
 * of a group; until the answer arrives they skip live changes, which are in it.
 */

struct subscription_group;
struct subscriber;

/* For the new subscriptions of a group. Needs a stream; without one it runs when the next stream
 * opens. */
void initial_state_begin(struct subscription_group *group);
/* Looks up the states of a subscriber that has no log query under way. Missed changes precede
 * states, so that the order does not show how long a search took. */
void initial_state_flush(struct subscriber *subscriber);

/* -------------------------------------------------------------------------------------------------
 * Resyncing subscriptions: notifying a client that something unknown changed, so that it reads
 * again. This happens where changes cannot be sent one by one, because the log does not reach back
 * or too many waited. Each subscription gets one message, marked as `truncated`.
 *
 * The messages are sent in an order that follows from the client's names for the subscriptions
 * (cursor_order), and the cursor of each message records the progress. A client that is
 * disconnected in between resumes there, and the server needs nothing but its cursor. Resync
 * messages precede all pending changes, whose cursors do not record which subscriptions are still
 * to be resynced.
 */

struct subscription;

/* Something unknown, from number `seq` on, concerns `sub`: it must send a `truncated` update. */
void resync_flag(struct subscription *sub, uint64_t seq);
/* The same for every subscription that may cover something below `scope`; empty: all
 * subscriptions. */
void resync_flag_below(struct subscriber *subscriber, struct tidings_str scope, uint64_t seq);
/* The same for the subscriptions that a cursor lists as still to be resynced
 * (engine/protocol/cursor.h). */
void resync_flag_rest(struct subscriber *subscriber, const struct log_cursor *at);
/* The same for all subscriptions and all lists: anything may have changed. */
void resync_flag_all(struct subscriber *subscriber);
/* Stops evaluating the filter of `sub` and notifies its client. */
void resync_suspend(struct subscription *sub);

/* Writes to the marked subscriptions. Returns false if some are still marked. */
bool resync_flush(struct subscriber *subscriber);
/* `sub` is about to end: notifies its client now, or never. */
void resync_write_withdrawn(struct subscription *sub);
/* Lists the subscriptions still to be resynced in a cursor that has its number. */
void resync_put_cursor(const struct subscriber *subscriber, struct log_cursor *at);

/* -------------------------------------------------------------------------------------------------
 * Bookmarks: the newest cursor, sent periodically (as often as keep-alives) to clients that
 * requested it, even if nothing changed for them. Without bookmarks, the cursor of a client whose
 * resources seldom change would age until other changes push its position out of the log, and the
 * client would have to read everything when it resumes.
 *
 * One timer serves all of a worker's clients and runs while at least one requested bookmarks. If
 * the number has not moved, no bookmark is sent. Principals with restricted access would learn from
 * the gap that nothing changed, so they get a bookmark each time.
 */

struct loop_timer;

/* Sends bookmarks to the client of `sub` until `sub` is destroyed. Returns false when out of
 * memory. */
bool bookmark_want(struct subscription *sub);
void bookmark_leave(struct subscription *sub); /* allowed without bookmark_want */
void bookmark_on_period(struct loop_timer *timer, void *user);

#endif
