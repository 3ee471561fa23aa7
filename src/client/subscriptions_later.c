/* SPDX-License-Identifier: MIT
 *
 * Subscriptions that a server refuses for the moment, because what it needs is away or a rate is
 * reached, and says when to ask again (retryAfterMs in the data of the refusal). They are asked for
 * again then. Until then a watch is not judged, so the connection is kept.
 */
#include "client/connection.h"
#include "client/state.h"
#include "client/subscriptions_private.h"

#define LATER_MIN_MS 100
#define LATER_MAX_MS 60000

static void subscriptions_on_later(void *user)
{
    struct tidings_client *c = user;
    if (c->stage != STAGE_READY) {
        return; /* everything is asked for when it is again */
    }
    if (c->era == TIDINGS_ERA_MODERN) {
        modern_changed(c);
        return;
    }
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        if (w->is_later) {
            legacy_ask(c, w);
        }
    }
}

void subscriptions_later_init(struct tidings_client *c)
{
    poller_timer_init(&c->later, subscriptions_on_later, c);
}

bool subscriptions_put_off(struct tidings_client *c, struct watch *w, struct json *data)
{
    struct json *after = jv_get(data, "retryAfterMs");
    int64_t ms = jv_is(after, JV_INT) ? jv_int(after) : 0;
    w->is_later = ms > 0;
    if (w->is_later && !poller_is_set(&c->later)) {
        ms = ms < LATER_MIN_MS ? LATER_MIN_MS : ms > LATER_MAX_MS ? LATER_MAX_MS : ms;
        poller_set(&c->poller, &c->later, (uint64_t)ms);
    }
    return w->is_later;
}
