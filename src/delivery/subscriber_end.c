/* SPDX-License-Identifier: MIT
 *
 * Ends a subscriber: its session, or its listens with their results, and its stream; and frees it.
 */
#include "access/allowance.h"
#include "base/mem.h"
#include "delivery/delivery.h"
#include "delivery/hub.h"
#include "delivery/listen.h"
#include "delivery/outbox.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "dialect/dialect.h"
#include "request/request.h"

static void end_listen(struct listen *listen, struct worker *worker)
{
    struct buf result;
    buf_init(&result, 64u * 1024u);
    dialect_put_listen_result(&result, listen_id(listen), worker->self);
    if (!result.failed) { /* else the end of the stream says it */
        subscriber_send(listen->subscriber, &result);
    }
    buf_deinit(&result);
    listen_destroy(listen);
}

/* Its session ends, or its listens with their results; and its stream. `withdraws`: what it has
 * subscribed in the legacy way on a message connection, which stays open, ends too and is told. */
void subscriber_end(struct subscriber *subscriber, bool withdraws)
{
    if (subscriber->ops && subscriber->ops->disconnect) {
        subscriber->ops->disconnect(subscriber);
        return;
    }
    subscriber_flush(subscriber);
    list_each (lit, lnext, &subscriber->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        if (listen->id_len > 0) {
            end_listen(listen, subscriber->worker);
            continue;
        }
        list_each (it, next, &listen->subs) {
            if (withdraws) {
                subscription_withdraw(list_entry(it, struct subscription, link));
            }
        }
    }
    if (subscriber->sink) {
        subscriber->sink->ops->end(subscriber->sink);
    }
}

void subscriber_disconnect(struct subscriber *subscriber)
{
    subscriber_end(subscriber, true);
}

void subscriber_destroy(struct subscriber *subscriber)
{
    if (!subscriber) {
        return;
    }
    list_each (it, next, &subscriber->listens) {
        listen_destroy(list_entry(it, struct listen, link));
    }
    if (subscriber->catchup) {
        subscriber->catchup->user = NULL;
    }
    outbox_deinit(&subscriber->outbox);
    list_remove(&subscriber->dirty_link);
    struct delivery_asked *asked = &subscriber->worker->delivery->asked;
    asked->next = asked->next == &subscriber->link ? subscriber->link.next : asked->next;
    list_remove(&subscriber->link);
    if (subscriber->sink) {
        sink_attach(subscriber->sink, NULL, NULL);
        subscriber->sink = NULL;
    }
    subscriber->worker->stats.subscribers--;
    if (subscriber->ops && subscriber->ops->on_destroy) {
        subscriber->ops->on_destroy(subscriber);
    }
    subscriber_set_principal(subscriber, NULL);
    allowance_release(subscriber->allowance);
    client_info_release(&subscriber->worker->requests->clients, subscriber->client);
    peer_errors_forget(&subscriber->worker->delivery->errors, &subscriber->error);
    loop_discard(subscriber->worker->loop, &subscriber->discard, mem_free, subscriber);
}
