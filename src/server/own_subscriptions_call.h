/* SPDX-License-Identifier: MIT
 *
 * A call of the tool `my_subscriptions`: what its client is subscribed to
 * (protocol/own_subscriptions.h).
 */
#ifndef SERVER_OWN_SUBSCRIPTIONS_CALL_H
#define SERVER_OWN_SUBSCRIPTIONS_CALL_H

struct tidings_call;

/* `user` is not used. */
void own_subscriptions_call(void *user, struct tidings_call *call);

#endif
