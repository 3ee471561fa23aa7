/* SPDX-License-Identifier: MIT
 *
 * Catching up: everything in the log that changed since a cursor and concerns one subscriber. While
 * the hub is being asked, live changes are passed over: they were numbered before the answer and
 * are in it.
 */
#ifndef ENGINE_DELIVERY_CATCHUP_H
#define ENGINE_DELIVERY_CATCHUP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/protocol/cursor.h"

struct subscriber;

/* What changed after `since` and concerns this subscriber; then live again. */
void catchup_start(struct subscriber *subscriber, uint64_t since);

/* -------------------------------------------------------------------------------------------------
 * What a new subscription hears first, when it asked. Initial state: one update per resource that
 * exists now, marked as initial, at most INITIAL_MAX for patterns; what cannot be found out is told
 * as truncated. Since: the log is asked once for all subscriptions of a group that wait for it;
 * until its answer comes live changes pass them over, being in it.
 */

struct subscription_group;
struct subscriber;

/* For the new subscriptions of a group; needs a stream, else it is done with the next one. */
void initial_state_begin(struct subscription_group *group);
/* Look up the states of a subscriber that waits for no part of the log: missed changes precede
 * states, so that the order does not show how long a search took. */
void initial_state_flush(struct subscriber *subscriber);

/* -------------------------------------------------------------------------------------------------
 * Resyncing subscriptions: telling a client that something changed, unknown what, so that it reads
 * again ("look again" in the comments of this folder). That happens where changes cannot be told
 * one by one, because history does not reach back or too much waited. Each subscription gets one
 * message, marked as `truncated`.
 *
 * They are told in an order that follows from what the client calls them (cursor_order), and the
 * cursor of each message says how far that came. So a client that is cut in between goes on where
 * it was: nothing else but its cursor needs to be remembered. They come before all changes that
 * wait, whose cursors say nothing of who has yet to be told.
 */

struct subscription;

/* Something, unknown what, from number `seq` on, concerns `sub`: it is told to look again. */
void resync_flag(struct subscription *sub, uint64_t seq);
/* Every subscription that may cover something below `scope`; empty: every one. */
void resync_flag_below(struct subscriber *subscriber, struct tidings_str scope, uint64_t seq);
/* Those that a cursor says have yet to be told (engine/protocol/cursor.h). */
void resync_flag_rest(struct subscriber *subscriber, const struct log_cursor *at);
/* All of them, and all lists: anything may have changed. */
void resync_flag_all(struct subscriber *subscriber);
/* `sub` is not evaluated any more, which its client is told. */
void resync_suspend(struct subscription *sub);

/* Write to those that are marked; false: not all of them yet. */
bool resync_flush(struct subscriber *subscriber);
/* `sub` is about to end: its client is told now, or not at all. */
void resync_write_withdrawn(struct subscription *sub);
/* Has a cursor with its number say who has yet to be told. */
void resync_put_cursor(const struct subscriber *subscriber, struct log_cursor *at);

/* -------------------------------------------------------------------------------------------------
 * Bookmarks: the newest cursor is sent from time to time (as often as streams are kept alive) to
 * clients that asked for it, though nothing changed for them. Without it the cursor of a client
 * whose resources seldom change would grow old while other changes push what it stands for out of
 * the log, and coming back would mean to read everything again.
 *
 * One timer for all of a worker, which runs while somebody asked. Nothing is told where the number
 * has not moved; but who may not see everything would learn from that, so it gets one each time.
 */

struct loop_timer;

/* The client of `sub` gets bookmarks until it is destroyed. false: out of memory. */
bool bookmark_want(struct subscription *sub);
void bookmark_leave(struct subscription *sub); /* also when it wanted none */
void bookmark_on_period(struct loop_timer *timer, void *user);

#endif
