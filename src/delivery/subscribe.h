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

/* resources/subscribe: answers the request with {} or an error. */
void subscribe_one(struct request *request, struct listen *listen, struct tidings_str spelled);
/* resources/unsubscribe: succeeds whether or not there was one. */
void unsubscribe_one(struct request *request, struct listen *listen, struct tidings_str spelled);
/* subscriptions/listen: takes the request; acknowledges on the stream it becomes. */
void subscribe_listen(struct request *request);
/* Let the legacy group hear of list_changed. While it has a stream that is all that is listed, of
 * sources whose lists change: what comes and goes there is watched from now on. Nothing happens
 * when it is already. */
void subscribe_list(struct listen *listen);
/* Nothing is watched for its lists any more. A client that has listed is told when there is a
 * stream again that the list may have changed. */
void subscribe_list_end(struct listen *listen);

/* Has its client subscribed to too much lately? Then the request was answered. */
bool subscribe_is_too_often(struct request *request);

#endif
