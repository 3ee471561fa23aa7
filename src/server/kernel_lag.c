/* SPDX-License-Identifier: MIT
 *
 * Goes round the subscribers of a worker, a part of the way each time.
 */
#include "server/kernel_lag.h"

#include "delivery/delivery.h"
#include "delivery/subscriber.h"
#include "request/channel.h"
#include "transport/peer_identity.h"

static uint64_t kernel_lag_of(const struct subscriber *subscriber)
{
    struct channel_facts facts;
    subscriber_get_facts(subscriber, &facts);
    peer_identity_ask_kernel(facts.fd, &facts);
    return facts.stalled_ms * 1000;
}

uint64_t kernel_lag_us(struct worker *worker)
{
    struct delivery *d = worker->delivery;
    struct delivery_asked *asked = &d->asked;
    for (unsigned n = 0; n < KERNEL_LAG_ASKED; n++) {
        struct list *at = asked->next ? asked->next : d->subscribers.next;
        if (at == &d->subscribers) { /* once round */
            asked->before_us = asked->longest_us;
            asked->longest_us = 0;
            asked->next = NULL;
            break;
        }
        uint64_t lag_us = kernel_lag_of(list_entry(at, struct subscriber, link));
        asked->longest_us = lag_us > asked->longest_us ? lag_us : asked->longest_us;
        asked->next = at->next;
    }
    return asked->longest_us > asked->before_us ? asked->longest_us : asked->before_us;
}
