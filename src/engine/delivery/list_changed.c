/* SPDX-License-Identifier: MIT
 *
 * Sends list_changed notifications: to which clients, and when.
 */
#include "engine/delivery/list_changed.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/subscribe.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/dialect.h"
#include "engine/worker.h"
#include "security/access.h"
#include "security/principal.h"
#include "store/change.h"

/* ---------------------------------------------------------------------------------------------- */

#define SCOPE_MAX 1024u /* bytes of a mount's prefix that are compared */

void list_changed_want(struct subscription_group *group, unsigned lists)
{
    if (group->wants_lists == 0 && lists != 0) {
        list_append(&group->subscriber->worker->delivery->list_watchers, &group->list_link);
    }
    group->wants_lists |= (unsigned char)lists;
}

void list_changed_mark(struct subscription_group *group, unsigned lists, uint64_t seq)
{
    struct subscriber *subscriber = group->subscriber;
    unsigned wanted = group->wants_lists & lists;
    if (wanted != 0) {
        group->lists_pending |= (unsigned char)wanted;
        subscriber->has_list_pending = true;
        if (subscriber->lists_from == 0 || seq < subscriber->lists_from) {
            subscriber->lists_from = seq;
        }
        subscriber_mark_dirty(subscriber);
    }
}

void list_changed_enqueue(struct worker *worker, unsigned lists)
{
    list_each (it, next, &worker->delivery->list_watchers) {
        struct subscription_group *group = list_entry(it, struct subscription_group, list_link);
        unsigned seen =
            lists & ~(access_is_full(group->subscriber->principal) ? 0u : LIST_RESOURCES);
        if (group->is_open && group->subscriber->sink && !group->subscriber->catchup) {
            list_changed_mark(group, seen, worker->last_seq);
        }
    }
}

void list_changed_unwatch(struct subscription_group *group)
{
    for (size_t i = 0; group->list_scopes && i < group->list_scopes->count; i++) {
        hub_unwatch(group->subscriber->worker->hub, group->list_scopes->at[i]);
    }
    mem_free(group->list_scopes);
    group->list_scopes = NULL;
}

/* ---- principals with restricted access ------------------------------------------------------- */

/* Includes subscribers without a stream: the log has no row for resources that the program
 * registers. */
static void list_changed_notify_class(struct worker *worker, struct access_class *class,
                                      uint64_t now)
{
    class->list_notified_ms = now;
    class->is_list_pending = false;
    list_each (it, next, &worker->delivery->list_watchers) {
        struct subscription_group *group = list_entry(it, struct subscription_group, list_link);
        if (group->subscriber->principal && group->subscriber->principal->class == class) {
            list_changed_mark(group, LIST_RESOURCES, worker->last_seq);
        }
    }
}

/* A link is visible to principals that may list its target too. */
static bool class_lists(const struct access_class *class, struct tidings_str uri,
                        struct tidings_str target)
{
    return access_class_reaches(class, ACCESS_LIST, uri) &&
           (target.len == 0 || access_class_reaches(class, ACCESS_LIST, target));
}

/* Returns true if something with this prefix may be listed. */
static bool class_lists_below(const struct access_class *class, struct tidings_str scope)
{
    char text[SCOPE_MAX + 4];
    if (scope.len == 0 || scope.len > SCOPE_MAX) {
        return true; /* an unnecessary notification is better than none */
    }
    memcpy(text, scope.ptr, scope.len);
    memcpy(text + scope.len, "{x}", 4); /* a template: anything with this prefix */
    return access_class_reaches(class, ACCESS_LIST, tidings_str(text));
}

static void list_changed_touch_class(struct worker *worker, struct access_class *class)
{
    uint64_t period = hub_list_period(worker->hub), now = loop_now_ms(worker->loop);
    if (class->list_notified_ms == 0 || now >= class->list_notified_ms + period) {
        list_changed_notify_class(worker, class, now);
    } else if (!class->is_list_pending) {
        class->is_list_pending = true;
        if (!loop_timer_is_running(worker->delivery->list_timer)) {
            loop_timer_start(worker->delivery->list_timer, class->list_notified_ms + period - now,
                             0);
        }
    }
}

void list_changed_touch(struct worker *worker, struct tidings_str uri, struct tidings_str target)
{
    list_each (it, next, &worker->principals->classes) {
        struct access_class *class = list_entry(it, struct access_class, link);
        if (!class->is_full && class_lists(class, uri, target)) {
            list_changed_touch_class(worker, class);
        }
    }
}

void list_changed_touch_below(struct worker *worker, struct tidings_str scope)
{
    list_each (it, next, &worker->principals->classes) {
        struct access_class *class = list_entry(it, struct access_class, link);
        if (!class->is_full && class_lists_below(class, scope)) {
            list_changed_touch_class(worker, class);
        }
    }
}

void list_changed_on_period(struct loop_timer *timer, void *user)
{
    struct worker *worker = user;
    uint64_t period = hub_list_period(worker->hub), now = loop_now_ms(worker->loop), wait = 0;
    list_each (it, next, &worker->principals->classes) {
        struct access_class *class = list_entry(it, struct access_class, link);
        uint64_t due = class->list_notified_ms + period;
        if (class->is_list_pending && due <= now) {
            list_changed_notify_class(worker, class, now);
        } else if (class->is_list_pending && (wait == 0 || due - now < wait)) {
            wait = due - now;
        }
    }
    if (wait > 0) {
        loop_timer_start(timer, wait, 0);
    }
}

void list_changed_replay(struct subscriber *subscriber, const struct changelog_row *row,
                         uint64_t since)
{
    const struct change *change = row->change;
    if (change->seq <= subscriber->lists_upto) {
        return;
    }
    bool is_row = change->lists == 0 && !change->everything &&
                  (change->kind != TIDINGS_CHANGE_UPDATED || row->created_seq > since);
    unsigned lists = change->lists;
    if (!access_is_full(subscriber->principal)) {
        const struct access_class *class = subscriber->principal->class;
        bool may = (is_row && class_lists(class, change->uri, change->target)) ||
                   (change->everything && class_lists_below(class, change_scope(change)));
        lists = (lists & ~(unsigned)LIST_RESOURCES) | (may ? LIST_RESOURCES : 0u);
    }
    list_each (it, next, &subscriber->groups) {
        list_changed_mark(list_entry(it, struct subscription_group, link), lists, change->seq);
    }
}

/* ---- notifying ------------------------------------------------------------------------------- */

/* Returns true if another group after this one has an unwritten list_changed. */
static bool has_pending_after(struct subscriber *subscriber, struct subscription_group *after)
{
    for (struct list *it = after->link.next; it != &subscriber->groups; it = it->next) {
        const struct subscription_group *group = list_entry(it, struct subscription_group, link);
        if (group->lists_pending != 0 && group->is_open) {
            return true;
        }
    }
    return false;
}

/* Writes all pending list_changed of one group. */
static bool flush_one(struct subscriber *subscriber, struct subscription_group *group,
                      struct buf *message)
{
    bool good = true;
    for (unsigned list = 1; good && list <= LIST_EVERYTHING; list <<= 1) {
        if (!(group->lists_pending & list)) {
            continue;
        }
        group->lists_pending &= (unsigned char)~list;
        if (group->lists_pending == 0 && !has_pending_after(subscriber, group)) {
            subscriber->lists_from = 0; /* with this one, all are notified */
        }
        buf_clear(message);
        dialect_put_list_changed(message, list, subscription_group_id(group));
        good = subscriber_send(subscriber, message);
    }
    return good;
}

bool list_changed_flush(struct subscriber *subscriber)
{
    if (!subscriber->has_list_pending) {
        return true;
    }
    if (!subscriber->sink || subscriber_is_blocked(subscriber)) {
        return false;
    }
    subscriber->has_list_pending = false;
    struct buf message;
    buf_init(&message, 16u * 1024u); /* an id of one kilobyte may become six by escaping */
    bool good = true;
    list_each (it, next, &subscriber->groups) {
        struct subscription_group *group = list_entry(it, struct subscription_group, link);
        if (good && group->is_open) {
            good = flush_one(subscriber, group, &message);
        }
    }
    buf_deinit(&message);
    if (good && subscriber->ops && subscriber->ops->on_lists_written) {
        subscriber->ops->on_lists_written(subscriber);
    }
    return good;
}

/* -------------------------------------------------------------------------------------------------
 * Watches sources that may change the list of resources, for a legacy client that receives
 * list_changed.
 */

void list_changed_watch(struct subscription_group *group)
{
    if (!group->subscriber->worker->self->list_changed) {
        return;
    }
    list_changed_want(group, LIST_RESOURCES); /* registrations are announced without a watch */
    bool needless = !group->subscriber->sink || group->list_scopes || group->is_watching_lists;
    struct subscribe_batch *s = needless ? NULL : subscribe_batch_create(group, 0);
    if (s) {
        group->is_watching_lists = s->wants_list = true;
        subscribe_batch_resolve(s);
    }
}
