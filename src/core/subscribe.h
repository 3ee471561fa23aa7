/* SPDX-License-Identifier: MIT
 *
 * From a request to a subscription: settle what each URI means, arm its watch, put it into the
 * index, and only then tell the client that it has it.
 *
 * What a URI means is decided here, once: a URI that names an existing resource is literal, and if
 * that resource has children it covers everything below; a URI that ends in '/' covers everything
 * below whether it exists or not; anything else must be producible by a registered template.
 */
#ifndef CORE_SUBSCRIBE_H
#define CORE_SUBSCRIBE_H

#include "core/call.h"
#include "core/peer.h"

/* resources/subscribe: answers the call with {} or an error. */
void subscribe_one(struct call *call, struct listen *listen, struct tidings_str spelled);
/* resources/unsubscribe: succeeds whether or not there was one. */
void unsubscribe_one(struct call *call, struct listen *listen, struct tidings_str spelled);
/* subscriptions/listen: takes the call; acknowledges on the stream it becomes. */
void subscribe_listen(struct call *call);
/* Let the legacy group hear of list_changed; nothing happens when it does already. `call` (may be
 * NULL) is an exchange that is accepted once every change from then on will be noticed. */
void subscribe_list(struct listen *listen, struct call *call);

/* Has its client subscribed to too much lately? Then the call was answered. */
bool subscribe_is_too_often(struct call *call);

#endif
