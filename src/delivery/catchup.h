/* SPDX-License-Identifier: MIT
 *
 * Catching up: everything in the log that changed since a cursor and concerns one subscriber. While
 * the hub is being asked, live changes are passed over: they were numbered before the answer and
 * are in it.
 */
#ifndef DELIVERY_CATCHUP_H
#define DELIVERY_CATCHUP_H

#include <stdint.h>

struct subscriber;

/* What changed after `since` and concerns this subscriber; then live again. */
void catchup_start(struct subscriber *subscriber, uint64_t since);

#endif
