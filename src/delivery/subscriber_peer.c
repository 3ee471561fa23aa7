/* SPDX-License-Identifier: MIT
 *
 * A subscriber as whoever looks after the server sees it: what it calls itself, where it comes
 * from, how far it is behind, and what it was last refused.
 */
#include "base/clock.h"
#include "base/str.h"
#include "delivery/delivery.h"
#include "delivery/subscriber.h"
#include "request/channel.h"
#include "request/request.h"
#include "store/change.h"
#include "json/json.h"

void subscriber_set_client(struct subscriber *subscriber, const struct json *info)
{
    struct client_infos *all = &subscriber->worker->requests->clients;
    uint16_t number = info ? client_info_intern(all, info) : 0;
    if (number > 0) {
        client_info_release(all, subscriber->client);
        subscriber->client = number;
    }
}

void subscriber_note_error(struct subscriber *subscriber, int code, struct tidings_str text)
{
    peer_errors_note(&subscriber->worker->delivery->errors, &subscriber->error, code, text);
}

void subscriber_get_facts(const struct subscriber *subscriber, struct channel_facts *ret)
{
    const struct sink *sink = subscriber->sink;
    *ret = (struct channel_facts){0};
    if (sink && sink->ops->channel) {
        channel_get_facts(sink->ops->channel(sink), ret);
    } else if (subscriber->ops && subscriber->ops->facts) {
        subscriber->ops->facts(subscriber, ret);
    }
}

uint64_t subscriber_lag_us(const struct subscriber *subscriber, uint64_t now_us)
{
    struct outbox *outbox = (struct outbox *)(uintptr_t)&subscriber->outbox;
    const struct outbox_item *first = outbox_first(outbox);
    uint64_t lag = subscriber->has_truncated ? lag_since(outbox->resync_due, now_us) : 0;
    uint64_t waited = first ? outbox_waited(first, now_us) : 0;
    return waited > lag ? waited : lag;
}
