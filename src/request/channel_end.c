/* SPDX-License-Identifier: MIT
 *
 * The end of a channel: what becomes of the requests under way on it, and of its subscriber.
 */
#include "request/channel.h"
#include "request/request.h"

void channel_deinit(struct channel *channel)
{
    list_each (it, next, &channel->requests) {
        struct request *request = list_entry(it, struct request, link);
        request->channel = NULL;
        request->sink = NULL;
        if (request->is_ready) {
            request_drop(request); /* it is complete */
        } else if (request->session) {
            list_remove(&request->link); /* losing the connection cancels nothing in that era */
        } else {
            request_abandon(request);
        }
    }
    request_batch_detach(channel);
    channel_end_asking(channel);
    if (channel->subscriber) {
        channel->worker->requests->end_subscriber(channel);
    }
    channel_set_principal(channel, NULL);
}
