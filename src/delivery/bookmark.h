/* SPDX-License-Identifier: MIT
 *
 * Bookmarks: the newest cursor is sent from time to time (as often as streams are kept alive) to
 * clients that asked for it, though nothing changed for them. Without it the cursor of a client
 * whose resources seldom change would grow old while other changes push what it stands for out of
 * the log, and coming back would mean to read everything again.
 *
 * One timer for all of a worker, which runs while somebody asked. Nothing is told where the number
 * has not moved; but who may not see everything would learn from that, so it gets one each time.
 */
#ifndef DELIVERY_BOOKMARK_H
#define DELIVERY_BOOKMARK_H

#include <stdbool.h>

struct loop_timer;
struct subscription;

/* The client of `sub` gets bookmarks until it is destroyed. false: out of memory. */
bool bookmark_want(struct subscription *sub);
void bookmark_leave(struct subscription *sub); /* also when it wanted none */
void bookmark_on_period(struct loop_timer *timer, void *user);

#endif
