/* SPDX-License-Identifier: MIT
 *
 * From which change number on a subscription that comes with a cursor is told: what the cursor
 * stands for at this node, or that nobody knows any more.
 */
#include "delivery/cursor_seal.h"
#include "delivery/delivery.h"
#include "delivery/hub.h"
#include "delivery/subscribe_private.h"
#include "delivery/subscription.h"

/* A cursor of before this epoch began, and the number here that it stands for. */
struct resuming {
    const struct subscribe_item *item;
    const struct log_cursor *cursor;
    uint64_t kept;  /* for what the store keeps */
    bool is_ours;   /* it is of this epoch after all: a number */
    uint64_t since; /* the lowest of all */
};

static bool resume_files(struct resuming *r, const struct tidings_provider *p)
{
    const struct worker *worker = r->item->owner->worker;
    size_t found = 0;
    for (size_t i = 0; i < r->item->scope_count; i++) {
        uint64_t since = 0;
        if (catalog_mount(worker->catalog, r->item->scopes[i]) != p) {
            continue;
        }
        if (!hub_resume_files(worker->hub, r->item->scopes[i], r->cursor, &since)) {
            return false;
        }
        r->since = since < r->since ? since : r->since;
        found++;
    }
    return found > 0;
}

/* What is announced through the store has positions like what is kept; but more is lost of it when
 * the store crashes. */
static bool resume_announced(struct resuming *r)
{
    uint64_t since; /* as `kept`: both are by position */
    return r->is_ours || hub_resume(r->item->owner->worker->hub, r->cursor, false, &since);
}

static bool resume_mount(struct resuming *r, const struct tidings_provider *p)
{
    bool is_kept = p->is_durable || (p->nodes == MOUNT_OWNED && resume_announced(r));
    if (is_kept) {
        r->since = r->kept < r->since ? r->kept : r->since;
    }
    return is_kept || (p->has_history && resume_files(r, p));
}

/* What the program registered: it says what changed, and to every node where several share a store.
 * Of numbers from before this one began nothing is known. */
static bool resume_registered(struct resuming *r)
{
    if (r->is_ours || !hub_is_shared(r->item->owner->worker->hub) || !resume_announced(r)) {
        return false;
    }
    r->since = r->kept < r->since ? r->kept : r->since;
    return true;
}

/* Is of everything that could match known what changed since? Not of what lies in mounts that
 * nothing is kept of. */
static bool subscribe_cursor_resume(struct resuming *r)
{
    const struct catalog *c = r->item->owner->worker->catalog;
    struct tidings_str fixed = pattern_prefix(r->item->kind, r->item->uri);
    const struct tidings_provider *p = catalog_mount(c, fixed);
    bool is_registered = entries_find(&c->resources, fixed) || (!p && c->templates.count > 0);
    if ((is_registered && !resume_registered(r)) || (p && !resume_mount(r, p))) {
        return false;
    }
    if (r->item->kind == PATTERN_LITERAL) {
        return p || is_registered;
    }
    size_t found = p || is_registered;
    for (size_t i = 0; i < c->mount_count; i++) {
        if (c->mounts[i] != p && str_starts(c->mounts[i]->prefix, fixed)) {
            if (!resume_mount(r, c->mounts[i])) {
                return false;
            }
            found++;
        }
    }
    struct entries_position at = entries_after(&c->resources, fixed);
    const struct catalog_entry *next = entries_next(&c->resources, &at);
    bool has_more = next && str_starts(next->about->uri, fixed);
    return has_more ? resume_registered(r) : found > 0;
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

/* Of a run of another node, which may have come further than this one, or begun since. */
void subscribe_batch_await(const struct subscribe_batch *s, struct hub_arm *arm)
{
    for (size_t i = 0; hub_is_shared(arm->hub) && i < s->count; i++) {
        const struct options *o = &s->items[i].options;
        if (s->is_resumed || o->given & OPTION_SINCE) {
            hub_arm_await(arm, &o->since);
        }
    }
    for (size_t i = 0; i < s->await_count; i++) {
        hub_arm_await(arm, &s->await[i]);
    }
}

/* One from before this epoch began says what was told of what is kept, and of files whose history
 * is; and nothing of others. */
uint64_t subscribe_item_since(const struct subscribe_item *w, uint64_t seq)
{
    const struct log_cursor *c = &w->options.since;
    if (cursor_has_lost(c, cursor_order(w->spelled))) {
        return SINCE_UNKNOWN; /* it was not told yet to look again */
    }
    const struct worker *worker = w->owner->worker;
    uint64_t since = c->seq;
    bool is_ours = c->epoch == worker->epoch;
    bool is_known =
        is_ours ? since <= seq : c->has_position && hub_resume(worker->hub, c, true, &since);
    if (is_known && (!is_ours || (since < worker->delivery->marks.first && c->lost == 0))) {
        struct resuming r = {
            .item = w, .cursor = c, .kept = since, .is_ours = is_ours, .since = UINT64_MAX};
        is_known = subscribe_cursor_resume(&r);
        since = r.since;
    }
    return is_known ? since : SINCE_UNKNOWN;
}
