/* SPDX-License-Identifier: MIT
 *
 * Asks a worker's match index which subscriptions a URI concerns, and writes a row for each.
 */
#include "server/status_covers.h"

#include <stdio.h>

#include "access/access.h"
#include "delivery/delivery.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "server/status_rows.h"
#include "json/write.h"

struct covers {
    struct jw w;
    struct tidings_str uri;
    size_t rows;
};

static void covers_put(struct covers *c, const struct subscription *sub, bool is_regex)
{
    char peer[24];
    const struct subscriber *subscriber = sub->subscriber;
    if (c->rows >= STATUS_PAGE_ROWS || sub->suspended ||
        !access_subscribes(subscriber->principal, c->uri)) {
        return;
    }
    c->rows++;
    snprintf(peer, sizeof(peer), "%llu", (unsigned long long)subscriber_id(subscriber));
    jw_begin_object(&c->w);
    jw_put_string(&c->w, STR("peer"), tidings_str(peer));
    jw_put_integer(&c->w, STR("worker"), (int64_t)subscriber->worker->index);
    status_put_who(&c->w, subscriber);
    jw_put_string(&c->w, STR("subscribedUri"), status_shown_uri(sub));
    jw_put_integer(&c->w, STR("periodMs"), (int64_t)sub->window.period_ms);
    jw_put_integer(&c->w, STR("waiting"), (int64_t)sub->queued);
    if (is_regex) {
        jw_put_bool(&c->w, STR("regex"), true);
    }
    jw_end_object(&c->w);
}

static void covers_found(void *user, struct match_node *node)
{
    covers_put(user, list_entry(node, struct subscription, node), false);
}

static void covers_unsure(void *user, struct match_node *node)
{
    covers_put(user, list_entry(node, struct subscription, node), true);
}

static bool covers_may_pay(void *user, struct match_node *node, uint64_t *ret_steps)
{
    (void)user;
    (void)node;
    *ret_steps = 0; /* nobody: so it stays unknown */
    return true;
}

static void covers_paid(void *user, struct match_node *node, uint64_t steps)
{
    (void)user;
    (void)node;
    (void)steps;
}

void status_write_covers(struct buf *out, struct worker *worker, struct tidings_str uri)
{
    static const struct match_calls calls = {covers_found, covers_may_pay, covers_paid,
                                             covers_unsure};
    struct covers c = {.uri = uri};
    jw_init(&c.w, out);
    jw_begin_array(&c.w);
    match_find_paid(&worker->delivery->match, uri, &calls, &c);
    jw_end_array(&c.w);
}
