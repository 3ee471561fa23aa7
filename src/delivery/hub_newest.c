/* SPDX-License-Identifier: MIT
 *
 * Asks the store that nodes share for its newest position, on behalf of reads that must see at
 * least what their client was told (delivery/at_least.h). One question at a time: later reads
 * wait for the next question, because the answer on its way may be older than they are.
 */
#include "base/error.h"
#include "delivery/hub_private.h"

void hub_newest_ask(struct hub *hub)
{
    hub_ask_newest_fn ask = __atomic_load_n(&hub->ask_newest, __ATOMIC_ACQUIRE);
    if (ask && !hub->is_asking && !list_empty(&hub->asking)) {
        hub->is_asking = true;
        list_splice(&hub->asked, &hub->asking);
        ask(hub->ask_newest_user);
    }
}

static void hub_newest_deliver(struct letter *letter, void *owner)
{
    struct hub *hub = owner;
    struct list asked;
    (void)letter;
    list_init(&asked);
    list_splice(&asked, &hub->asked);
    hub->is_asking = false;
    while (!list_empty(&asked)) {
        struct hub_arm *arm = list_entry(asked.next, struct hub_arm, await_link);
        list_remove(&arm->await_link);
        arm->newest_code = hub->newest_code;
        arm->newest_err = hub->newest_err;
        if (hub->newest_code < 0) {
            hub_watch_return(arm);
            continue;
        }
        arm->await = hub->newest_position > arm->await ? hub->newest_position : arm->await;
        hub_watch_countdown(arm);
    }
    hub_newest_ask(hub);
}

void hub_newest_end(struct hub *hub)
{
    list_splice(&hub->asked, &hub->asking);
    while (!list_empty(&hub->asked)) {
        struct hub_arm *arm = list_entry(hub->asked.next, struct hub_arm, await_link);
        list_remove(&arm->await_link);
        arm->newest_code = tidings_fail(&arm->newest_err, TIDINGS_E_CLOSED, "the server is ending");
        hub_watch_return(arm);
    }
}

static void hub_newest_drop(struct letter *letter)
{
    (void)letter; /* lies in the hub */
}

void hub_newest(struct hub *hub, int code, uint64_t position, const struct tidings_error *err)
{
    hub->newest_code = code;
    hub->newest_position = position;
    hub->newest_err = code < 0 ? *err : (struct tidings_error){0};
    hub->newest.deliver = hub_newest_deliver;
    hub->newest.drop = hub_newest_drop;
    mailbox_send(hub->mailbox, &hub->newest);
}

void hub_on_ask_newest(struct hub *hub, hub_ask_newest_fn fn, void *user)
{
    if (fn) {
        hub->ask_newest_user = user;
    }
    __atomic_store_n(&hub->ask_newest, fn, __ATOMIC_RELEASE);
}
