/* SPDX-License-Identifier: MIT
 *
 * What a cursor that a client comes back with is worth to one of its subscriptions.
 */
#include "delivery/cursor_seal.h"
#include "delivery/delivery.h"
#include "delivery/hub.h"
#include "delivery/subscribe_private.h"
#include "delivery/subscription.h"

/* Is everything that could match kept in the store? Not what the program registered, nor what lies
 * in other mounts. */
static bool is_durable(const struct catalog *c, enum match_kind kind, struct tidings_str text)
{
    struct tidings_str fixed = match_kind_prefix(kind, text);
    const struct tidings_provider *p = catalog_mount(c, fixed);
    if (!p || !p->is_durable || entries_find(&c->resources, fixed)) {
        return false;
    }
    if (kind == MATCH_LITERAL) {
        return true;
    }
    for (size_t i = 0; i < c->mount_count; i++) {
        if (str_starts(c->mounts[i]->prefix, fixed) && !c->mounts[i]->is_durable) {
            return false;
        }
    }
    struct entries_position at = entries_after(&c->resources, fixed);
    const struct catalog_entry *next = entries_next(&c->resources, &at);
    return !next || !str_starts(next->about->uri, fixed);
}

void subscribe_item_open_since(struct subscribe_item *w, const struct principal *principal)
{
    static const struct log_cursor unknown = {.seq = UINT64_MAX};
    struct options *o = &w->options;
    bool is_sealed = o->sealed.len > 0;
    if ((o->given & OPTION_SINCE) &&
        (is_sealed ? !cursor_seal_open(w->owner->worker, principal, o->sealed, &o->since)
                   : !access_is_full(principal))) {
        o->since = unknown;
    }
}

/* One from before this epoch began says what was told of durable resources, and nothing of others.
 */
uint64_t subscribe_item_since(const struct subscribe_item *w, uint64_t seq)
{
    const struct log_cursor *c = &w->options.since;
    if (c->lost > 0 && cursor_order(w->spelled) >= c->lost) {
        return SINCE_UNKNOWN; /* it was not told yet to look again */
    }
    const struct worker *worker = w->owner->worker;
    uint64_t since = c->seq;
    bool is_ours = c->epoch == worker->epoch;
    bool is_known = is_ours ? since <= seq : c->has_position && hub_resume(worker->hub, c, &since);
    if (is_known && (!is_ours || (since < worker->delivery->marks.first && c->lost == 0))) {
        is_known = is_durable(worker->catalog, w->kind, w->uri);
    }
    return is_known ? since : SINCE_UNKNOWN;
}
