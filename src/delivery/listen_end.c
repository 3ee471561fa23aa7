/* SPDX-License-Identifier: MIT
 *
 * Ends a group of subscriptions with all that is in it.
 */
#include "base/map.h"
#include "base/mem.h"
#include "delivery/delivery_log.h"
#include "delivery/list_changed.h"
#include "delivery/listen.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"

void listen_destroy(struct listen *listen)
{
    if (!listen) {
        return;
    }
    delivery_log_ended(listen);
    list_each (it, next, &listen->pending) {
        list_entry(it, struct listen_pending, link)->listen = NULL;
        list_remove(it);
    }
    list_each (it, next, &listen->subs) {
        subscription_destroy(list_entry(it, struct subscription, link));
    }
    list_changed_unwatch(listen);
    if (listen->id_len == 0) {
        map_deinit(&listen->legacy->by_spelling);
        mem_free(listen->legacy);
    }
    list_remove(&listen->list_link);
    list_remove(&listen->link);
    listen->subscriber->listen_count--;
    mem_free(listen);
}
