/* SPDX-License-Identifier: MIT
 *
 * Watches what may change the list of resources, for a legacy client that hears of it.
 */
#include "delivery/list_changed.h"
#include "delivery/listen.h"
#include "delivery/subscribe.h"
#include "delivery/subscriber.h"
#include "dialect/dialect.h"
#include "store/change.h"
#include "worker/worker.h"

void list_changed_watch(struct listen *listen)
{
    if (!listen->subscriber->worker->self->list_changed) {
        return;
    }
    list_changed_want(listen, LIST_RESOURCES); /* registrations are announced without arming */
    bool needless = !listen->subscriber->sink || listen->list_scopes || listen->is_arming_lists;
    struct subscribe_batch *s = needless ? NULL : subscribe_batch_create(listen, 0);
    if (s) {
        listen->is_arming_lists = s->wants_list = true;
        subscribe_batch_resolve(s);
    }
}
