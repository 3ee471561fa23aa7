/* SPDX-License-Identifier: MIT
 *
 * From a request to a subscription: settle what each URI means, arm its watch, put it into the
 * index, and only then tell the client that it has it.
 *
 * What a URI means is decided here, once: a URI that names an existing resource is literal, and if
 * that resource has children it covers everything below; a URI that ends in '/' covers everything
 * below whether it exists or not; anything else must be producible by a registered template.
 */
#ifndef DELIVERY_SUBSCRIBE_H
#define DELIVERY_SUBSCRIBE_H

#include "delivery/subscriber.h"
#include "request/request.h"

struct listen;

/* resources/subscribe: answers the request with {} or an error. */
void subscribe_one(struct request *request, struct listen *listen, struct tidings_str spelled);
/* resources/unsubscribe: succeeds whether or not there was one. */
void unsubscribe_one(struct request *request, struct listen *listen, struct tidings_str spelled);
/* subscriptions/listen: takes the request; acknowledges on the stream it becomes. */
void subscribe_listen(struct request *request);
/* Has its client subscribed to too much lately? Then the request was answered. */
bool subscribe_is_too_often(struct request *request);

#endif
