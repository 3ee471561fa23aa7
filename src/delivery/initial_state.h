/* SPDX-License-Identifier: MIT
 *
 * What a new subscription hears first, when it asked. Initial state: one update per resource that
 * exists now, marked as initial, at most INITIAL_MAX for patterns; what cannot be found out is told
 * as truncated. Since: the log is asked once for all subscriptions of a listen that wait for it;
 * until its answer comes live changes pass them over, being in it.
 */
#ifndef DELIVERY_INITIAL_STATE_H
#define DELIVERY_INITIAL_STATE_H

struct listen;

/* For the new subscriptions of a listen; needs a stream, else it is done with the next one. */
void initial_state_begin(struct listen *listen);

#endif
