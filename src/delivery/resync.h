/* SPDX-License-Identifier: MIT
 *
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
#ifndef DELIVERY_RESYNC_H
#define DELIVERY_RESYNC_H

#include "dialect/cursor.h"

struct subscriber;
struct subscription;

/* Something, unknown what, from number `seq` on, concerns `sub`: it is told to look again. */
void resync_mark(struct subscription *sub, uint64_t seq);
/* Every subscription that may cover something below `scope`; empty: every one. */
void resync_mark_below(struct subscriber *subscriber, struct tidings_str scope, uint64_t seq);
/* Those that a cursor says have yet to be told (dialect/cursor.h). */
void resync_mark_rest(struct subscriber *subscriber, const struct log_cursor *at);
/* All of them, and all lists: anything may have changed. */
void resync_mark_all(struct subscriber *subscriber);
/* `sub` is not evaluated any more, which its client is told. */
void resync_suspend(struct subscription *sub);

/* Write to those that are marked; false: not all of them yet. */
bool resync_flush(struct subscriber *subscriber);
/* `sub` is about to end: its client is told now, or not at all. */
void resync_write_withdrawn(struct subscription *sub);
/* Has a cursor with its number say who has yet to be told. */
void resync_cursor_mark(const struct subscriber *subscriber, struct log_cursor *at);

#endif
