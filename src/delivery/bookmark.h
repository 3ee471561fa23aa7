/* SPDX-License-Identifier: MIT
 *
 * Bookmarks: who listens to what seldom changes gets the newest cursor from time to time (as often
 * as streams are kept alive), if it asked for that. Else its cursor would grow old while others'
 * changes push what it stands for out of the log, and coming back would mean to read again.
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
