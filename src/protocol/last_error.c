/* SPDX-License-Identifier: MIT
 *
 * Finds the subscriber of the client that an error was answered to, and keeps the error there.
 */
#include "protocol/last_error.h"

#include "protocol/session.h"
#include "request/request.h"

void last_error_note(const struct request *request, const struct dialect_error *e)
{
    struct subscriber *subscriber = request->session ? request->session->subscriber
                                    : request->channel && !request->channel->ops->is_http
                                        ? request->channel->subscriber
                                        : NULL;
    if (subscriber) {
        subscriber_note_error(subscriber, e->code, e->message);
    }
}
