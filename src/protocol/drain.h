/* SPDX-License-Identifier: MIT
 *
 * Draining: ending every stream and session of a worker when the server stops.
 *
 * Every client that is ended comes back at once, to this server's successor or its neighbours, so
 * many are not ended together: subscribers go in the order they came, evenly over the time there
 * is. A few are no crowd and go at once. What is held back for a subscriber is told before its end.
 */
#ifndef PROTOCOL_DRAIN_H
#define PROTOCOL_DRAIN_H

#include "worker/worker.h"

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
