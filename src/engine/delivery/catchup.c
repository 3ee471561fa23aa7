/* SPDX-License-Identifier: MIT
 *
 * Replays from the log the changes that one subscriber missed.
 */
#include "engine/delivery/catchup.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/catalog/job.h"
#include "engine/catalog/resource.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/dialect.h"
#include "engine/worker.h"
#include "security/access.h"
#include "security/client_account.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * Marks subscriptions that must read again because their changes cannot be sent one by one. Sends
 * each its `truncated` message, in an order that a cursor can describe.
 */

void resync_flag(struct subscription *sub, uint64_t seq)
{
    struct subscriber *subscriber = sub->subscriber;
    subscriber->worker->stats.truncated += !sub->truncated;
    if (!subscriber->has_truncated) {
        subscriber->outbox.resync_due = lag_due_now();
    }
    sub->truncated = sub->rereads = true;
    subscriber->has_truncated = true;
    if (subscriber->resync_from == 0 || seq < subscriber->resync_from) {
        subscriber->resync_from = seq;
    }
    subscriber_mark_dirty(subscriber);
}

void resync_flag_below(struct subscriber *subscriber, struct tidings_str scope, uint64_t seq)
{
    list_each (lit, lnext, &subscriber->groups) {
        struct subscription_group *group = list_entry(lit, struct subscription_group, link);
        if (group->wants_lists & LIST_EVERYTHING) {
            list_changed_mark(group, LIST_EVERYTHING, seq);
            continue;
        }
        list_each (it, next, &group->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if ((seq == 1 || seq > sub->since) && subscription_may_match(sub, scope)) {
                resync_flag(sub, seq);
            }
        }
    }
}

void resync_flag_rest(struct subscriber *subscriber, const struct log_cursor *at)
{
    list_each (lit, lnext, &subscriber->groups) {
        list_each (it, next, &list_entry(lit, struct subscription_group, link)->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (cursor_has_gap(at, cursor_order(subscription_as_requested(sub)))) {
                resync_flag(sub, 1);
            }
        }
    }
}

void resync_flag_all(struct subscriber *subscriber)
{
    bool is_legacy = false;
    resync_flag_below(subscriber, STR_EMPTY, 1);
    list_each (lit, lnext, &subscriber->groups) {
        struct subscription_group *group = list_entry(lit, struct subscription_group, link);
        is_legacy = is_legacy || group->id_len == 0;
        list_changed_mark(group, group->wants_lists, 1);
    }
    if (is_legacy) { /* modern streams carry no log messages */
        subscriber_warn(subscriber,
                        "history does not reach back to where this stream ended; re-read what you "
                        "subscribed to");
    }
}

void resync_suspend(struct subscription *sub)
{
    struct subscriber *subscriber = sub->subscriber;
    sub->suspended = true;
    resync_flag(sub, subscriber->worker->last_seq);
    if (sub->group->id_len == 0) {
        subscriber_warn(subscriber,
                        "a subscription whose regular expression or filter took too long too often "
                        "is suspended");
    }
}

/* ---- marked subscriptions -------------------------------------------------------------------- */

struct flagged_sub {
    struct subscription *sub;
    uint32_t order;
};

static int by_order(const void *a, const void *b)
{
    const struct flagged_sub *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* The first and the last marked subscription, in order. */
struct flagged_range {
    uint32_t first, last; /* CURSOR_ALL_NOTIFIED, 0: none */
};

/* Writes those of acknowledged groups to `out` unless it is NULL; and the range of all. */
static size_t find_flagged(const struct subscriber *subscriber, struct flagged_sub *out,
                           struct flagged_range *range)
{
    size_t n = 0;
    *range = (struct flagged_range){.first = CURSOR_ALL_NOTIFIED};
    list_each (lit, lnext, &subscriber->groups) {
        struct subscription_group *group = list_entry(lit, struct subscription_group, link);
        list_each (it, next, &group->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (!sub->truncated) {
                continue;
            }
            uint32_t order = cursor_order(subscription_as_requested(sub));
            range->first = order < range->first ? order : range->first;
            range->last = order > range->last ? order : range->last;
            if (!group->is_open) {
                continue;
            }
            if (out) {
                out[n] = (struct flagged_sub){.sub = sub, .order = order};
            }
            n++;
        }
    }
    return n;
}

/* Numbers below the first of this epoch are from an earlier one. They do not cover resources that
 * are not stored, unless a `truncated` update was sent to all such subscriptions. */
static void put_mark(const struct subscriber *subscriber, const struct flagged_range *range,
                     struct log_cursor *at)
{
    bool is_notified =
        subscriber->was_truncated && at->seq < subscriber->worker->delivery->positions.first;
    bool is_flagged = range->first < CURSOR_ALL_NOTIFIED;
    at->gap = is_flagged ? range->first : is_notified ? CURSOR_ALL_NOTIFIED : 0;
    at->gap_to = is_flagged ? range->last : 0;
}

void resync_put_cursor(const struct subscriber *subscriber, struct log_cursor *at)
{
    struct flagged_range range = {.first = CURSOR_ALL_NOTIFIED};
    if (subscriber->has_truncated) {
        (void)find_flagged(subscriber, NULL, &range);
    }
    put_mark(subscriber, &range, at);
}

/* ---- notifying ------------------------------------------------------------------------------- */

/* A subscriber of a task gets its current state. Returns false when out of memory; the next flush
 * retries. */
static bool resync_offer_task(struct subscription *sub)
{
    const struct worker *worker = sub->subscriber->worker;
    const struct tidings_change now = {.uri = subscription_uri(sub)};
    struct change *change = change_create(&now, worker->epoch, worker->last_seq);
    if (!change) {
        return false;
    }
    sub->truncated = false;
    if (!sub->suspended) {
        subscriber_enqueue_initial(sub->subscriber, sub, change);
    }
    change_unref(change);
    return true;
}

/* `left`: the subscriptions still marked after it. */
static bool write_truncated(struct subscriber *subscriber, struct subscription *sub,
                            const struct flagged_range *left)
{
    if (!subscriber->sink || subscriber_is_blocked(subscriber)) {
        return false;
    }
    if (sub->is_task) {
        return resync_offer_task(sub);
    }
    bool was_truncated = subscriber->was_truncated;
    subscriber->was_truncated = true;
    struct log_cursor cursor = delivery_cursor(subscriber->worker, subscriber_written(subscriber));
    put_mark(subscriber, left, &cursor);
    struct dialect_updated u = {
        .kind = TIDINGS_CHANGE_UPDATED,
        .uri_json = subscription_as_requested_json(sub),
        .subscribed_json = subscription_as_requested_json(sub),
        .listen_id_json = subscription_group_id(sub->group),
        .cursor = cursor,
        .sealed = cursor_seal_make(subscriber->worker, subscriber->principal, &cursor),
        .truncated = !sub->suspended,
        .suspended = sub->suspended,
        .is_slim = sub->is_slim,
        .profile = subscriber->worker->self->profile,
    };
    uint64_t now_us = subscriber->worker->delivery->lag.now_us;
    uint64_t waited =
        subscriber->has_truncated ? lag_since(subscriber->outbox.resync_due, now_us) : 0;
    if (!subscriber_write_update(subscriber, &u, sub, waited)) {
        subscriber->was_truncated = was_truncated;
        return false;
    }
    sub->truncated = false;
    sub->suspension_written = sub->suspended;
    return true;
}

void resync_write_withdrawn(struct subscription *sub)
{
    struct subscriber *subscriber = sub->subscriber;
    if (sub->group->is_open && subscriber->sink) {
        struct flagged_range left;
        sub->suspended = true;
        sub->truncated = false;
        (void)find_flagged(subscriber, NULL, &left);
        /* Skipped on a blocked stream, which would deliver it much later. */
        (void)write_truncated(subscriber, sub, &left);
    }
}

/* Without memory for the order, the cursors do not move until all are notified. */
static bool flush_unordered(struct subscriber *subscriber, const struct flagged_range *range,
                            size_t left)
{
    static const struct flagged_range none = {.first = CURSOR_ALL_NOTIFIED};
    list_each (lit, lnext, &subscriber->groups) {
        struct subscription_group *group = list_entry(lit, struct subscription_group, link);
        list_each (it, next, &group->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (!group->is_open || !sub->truncated) {
                continue;
            }
            if (!write_truncated(subscriber, sub, --left > 0 ? range : &none)) {
                return false;
            }
        }
    }
    return true;
}

static bool flush_in_order(struct subscriber *subscriber, struct flagged_sub *all, size_t n)
{
    qsort(all, n, sizeof(*all), by_order);
    for (size_t i = 0; i < n; i++) {
        const struct flagged_range left = {
            .first = i + 1 < n ? all[i + 1].order : CURSOR_ALL_NOTIFIED,
            .last = i + 1 < n ? all[n - 1].order : 0,
        };
        if (!write_truncated(subscriber, all[i].sub, &left)) {
            return false;
        }
    }
    return true;
}

bool resync_flush(struct subscriber *subscriber)
{
    if (!subscriber->has_truncated) {
        return true;
    }
    struct flagged_range range;
    size_t n = find_flagged(subscriber, NULL, &range);
    struct flagged_sub *all = n > 1 ? mem_alloc(n * sizeof(*all)) : NULL;
    bool good;
    if (all) {
        (void)find_flagged(subscriber, all, &range);
        good = flush_in_order(subscriber, all, n);
    } else {
        good = flush_unordered(subscriber, &range, n);
    }
    mem_free(all);
    if (good) {
        subscriber->has_truncated = false;
        subscriber->resync_from = 0;
    }
    return good;
}

/* -------------------------------------------------------------------------------------------------
 * The first updates of a new subscription: the current state, or the changes it missed.
 */

#define INITIAL_MAX 100u

/* ---- since ----------------------------------------------------------------------------------- */

/* One log query. */
struct since_catchup {
    struct subscription_group_pending pending;
    uint64_t since; /* the lowest number requested */
};

struct finder {
    const struct since_catchup *missed;
    const struct changelog_row *row;
};

static bool waits_for_it(void *user, const struct subscription *sub)
{
    const struct finder *f = user;
    return sub->catching_up && sub->catchup == f->missed;
}

static void offer_missed(void *user, struct match_node *node)
{
    struct finder *f = user;
    struct subscription *sub = list_entry(node, struct subscription, node);
    if (waits_for_it(f, sub)) {
        subscriber_enqueue_row(sub->group->subscriber, sub, f->row, sub->since);
    }
}

/* Anything below `scope` may have changed, up to `seq`: marks the subscriptions there that wait for
 * this answer as truncated. */
static void initial_state_mark_waiting(struct subscription_group *group,
                                       const struct since_catchup *m, struct tidings_str scope,
                                       uint64_t seq)
{
    list_each (it, next, &group->subs) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (sub->catching_up && sub->catchup == m && seq > sub->since &&
            subscription_may_match(sub, scope)) {
            resync_flag(sub, sub->since + 1);
        }
    }
}

static void replay_missed(struct subscription_group *group, const struct since_catchup *m,
                          const struct hub_catchup *c)
{
    struct worker *worker = group->subscriber->worker;
    for (size_t i = 0; i < c->count; i++) {
        const struct change *change = c->changes[i].change;
        struct finder f = {.missed = m, .row = &c->changes[i]};
        if (change->everything) {
            initial_state_mark_waiting(group, m, change_scope(change), change->seq);
        } else if (change->lists == 0) {
            static const struct lookup_calls calls = {waits_for_it, offer_missed};
            lookup_find(worker, change, &calls, &f);
            delivery_find_matching(worker, change->uri, offer_missed, &f);
        }
    }
}

static void missed_end(struct since_catchup *m, uint64_t upto)
{
    struct subscription_group *group = m->pending.group;
    if (group) {
        list_each (it, next, &group->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (sub->catching_up && sub->catchup == m) {
                subscription_caught_up(sub, group->subscriber->sink ? upto : 0);
            }
        }
        subscriber_mark_dirty(group->subscriber);
    }
    list_remove(&m->pending.link);
    mem_free(m);
}

static void missed_arrived(struct hub_catchup *c, struct worker *worker)
{
    (void)worker;
    struct since_catchup *m = c->user;
    struct subscription_group *group = m->pending.group;
    if (group && c->truncated) {
        initial_state_mark_waiting(group, m, STR_EMPTY, UINT64_MAX);
    } else if (group) {
        replay_missed(group, m, c);
    }
    missed_end(m, c->seq);
    hub_catchup_free(c);
}

static void initial_state_rewind(struct subscriber *subscriber, uint64_t since)
{
    if (subscriber->ops && subscriber->ops->on_rewind) {
        subscriber->ops->on_rewind(subscriber, since);
    }
}

static void initial_state_ask_log(struct subscription_group *group)
{
    struct subscriber *subscriber = group->subscriber;
    struct since_catchup *m = mem_zalloc(sizeof(*m));
    uint64_t since = UINT64_MAX;
    list_each (it, next, &group->subs) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (!sub->since_pending) {
            continue;
        }
        sub->since_pending = false;
        if (!m || sub->since == SINCE_UNKNOWN) {
            sub->since = subscriber->worker->last_seq;
            initial_state_rewind(subscriber, SINCE_UNKNOWN);
            resync_flag(sub, 1);
            continue;
        }
        subscription_catch_up(sub, m);
        since = sub->since < since ? sub->since : since;
    }
    if (!m) {
        return;
    }
    if (since != UINT64_MAX) {
        initial_state_rewind(subscriber, since);
    }
    m->since = since;
    m->pending.group = group;
    list_append(&group->pending, &m->pending.link);
    if (since == UINT64_MAX) {
        missed_end(m, 0);
    } else if (!hub_catchup(subscriber->worker, since, missed_arrived, m)) {
        initial_state_mark_waiting(group, m, STR_EMPTY, UINT64_MAX);
        missed_end(m, 0);
    }
}

/* ---- initial --------------------------------------------------------------------------------- */

static void offer_state(struct subscription *sub, const struct tidings_resource *about)
{
    struct worker *worker = sub->group->subscriber->worker;
    struct tidings_change now = {
        .uri = about->uri,
        .etag = about->etag,
        .size = about->size,
        .has_size = about->has_size,
        .modified_ms = about->modified_ms,
    };
    struct change *change = change_create(&now, worker->epoch, worker->last_seq);
    if (change) {
        subscriber_enqueue_initial(sub->group->subscriber, sub, change);
        change_unref(change);
    } else {
        resync_flag(sub, worker->last_seq);
    }
}

/* Walks the mounts that a pattern covers; may outlive the subscription. */
struct walk {
    struct tidings_list list;
    struct subscription_group_pending pending;
    struct worker *worker;
    const struct principal *principal; /* a reference */
    struct catalog *catalog;           /* a reference */
    enum pattern_kind kind;
    struct regex *regex; /* of a regex subscription */
    uint64_t steps;      /* left of the steps reserved for its searches */
    bool is_over;        /* they were not enough */
    size_t mount, found;
    bool is_lost;                               /* the state of an existing resource is unknown */
    struct tidings_resource *rows[INITIAL_MAX]; /* copies */
    struct tidings_str as_requested, text;
    char memory[];
};

static void walk_free(struct walk *k)
{
    for (size_t i = 0; i < k->found; i++) {
        mem_free(k->rows[i]);
    }
    list_remove(&k->pending.link);
    catalog_unref(k->catalog);
    principal_unref(k->principal);
    regex_destroy(k->regex);
    mem_free(k);
}

static struct subscription *walk_sub(struct walk *k)
{
    struct subscription_group *group = k->pending.group;
    for (struct list *it = group ? group->subs.next : NULL; group && it != &group->subs;
         it = it->next) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (str_eq(subscription_as_requested(sub), k->as_requested)) {
            return sub;
        }
    }
    return NULL;
}

/* On the thread that lists: keeps the rows that match. */
static int walk_row(struct tidings_list *list, const struct tidings_resource *row)
{
    struct walk *k = list_entry(list, struct walk, list);
    bool matches;
    if (row->not_subscribable || !access_subscribes(k->principal, row->uri)) {
        return 1; /* checked first: hidden rows cost nothing */
    }
    if (k->kind == PATTERN_REGEX) {
        enum regex_result result = regex_search(k->regex, NULL, row->uri, &k->steps);
        k->is_over = result != REGEX_FOUND && result != REGEX_ABSENT;
        matches = result == REGEX_FOUND;
    } else {
        matches = pattern_matches(k->kind, k->text, row->uri);
    }
    if (!matches) {
        return !k->is_over;
    }
    struct tidings_resource *copy = resource_dup(row);
    if (copy) {
        k->rows[k->found++] = copy;
    }
    k->is_lost = k->is_lost || !copy;
    return k->found < INITIAL_MAX;
}

/* Returns true if the pattern may match something there. */
static bool walk_reaches(const struct walk *k, struct tidings_str prefix)
{
    struct tidings_str text = pattern_prefix(k->kind, k->text);
    return str_starts(text, prefix) || str_starts(prefix, text);
}

static void walk_next(struct walk *k);

static void initial_state_on_walked(struct job *job)
{
    struct walk *k = job->user;
    k->is_lost = k->is_lost || job->code < 0;
    k->mount++;
    walk_next(k);
}

static void walk_end(struct walk *k)
{
    struct subscription *sub = walk_sub(k);
    if (sub) {
        client_account_refund(sub->subscriber->account, k->steps);
    }
    if (sub && k->is_over) {
        limit_hit(k->worker->limit_counters, LIMIT_PATTERN_STEPS);
        resync_flag(sub, k->worker->last_seq);
    }
    for (size_t i = 0; sub && !sub->rereads && i < k->found; i++) {
        offer_state(sub, k->rows[i]);
    }
    if (sub && k->is_lost) {
        resync_flag(sub, k->worker->last_seq);
    }
    walk_free(k);
}

static void walk_next(struct walk *k)
{
    while (k->mount < k->catalog->mount_count &&
           !walk_reaches(k, k->catalog->mounts[k->mount]->prefix)) {
        k->mount++;
    }
    if (k->found == INITIAL_MAX || k->is_over || k->mount >= k->catalog->mount_count ||
        !k->pending.group) {
        walk_end(k);
        return;
    }
    job_init(&k->list.base, k->worker, initial_state_on_walked, k, STR_EMPTY);
    k->list.on_row = walk_row;
    k->list.principal = k->principal;
    k->list.subscribes = true;
    k->list.after = STR_EMPTY;
    k->list.full = false;
    struct tidings_provider *p = k->catalog->mounts[k->mount];
    if (k->kind == PATTERN_CONTAINER && str_starts(k->text, p->prefix)) {
        k->list.after = k->text; /* its contents follow directly after it */
    }
    job_list(&k->list, p);
}

static void walk_registered(struct walk *k)
{
    struct entries_position at = {0};
    struct catalog_entry *e;
    while (k->found < INITIAL_MAX && !k->is_over &&
           (e = entries_next(&k->catalog->resources, &at)) != NULL) {
        walk_row(&k->list, e->about);
    }
}

/* Reserves the steps for the regex search: other searches of the same client start at the same
 * time. */
static void set_aside(struct walk *k, const struct subscription *sub)
{
    struct client_account *client = sub->subscriber->account;
    uint64_t now = loop_now_ms(k->worker->loop);
    if (k->kind == PATTERN_REGEX) {
        uint64_t cost = 0;
        k->is_over =
            client_account_steps_left(client, now) == 0 ||
            regex_create_counted(k->text, REGEX_BYTES, k->text.len, &cost, &k->regex, NULL) < 0;
        client_account_spend(client, cost, now);
        k->steps = client_account_steps_left(client, now) / 4;
        client_account_spend(client, k->steps, now);
    }
}

static void show_matching(struct subscription *sub)
{
    struct subscription_group *group = sub->group;
    struct walk *k =
        mem_zalloc(sizeof(*k) + subscription_as_requested(sub).len + subscription_uri(sub).len);
    if (!k) {
        resync_flag(sub, group->subscriber->worker->last_seq);
        return;
    }
    char *at = k->memory;
    k->worker = group->subscriber->worker;
    k->principal = principal_ref(group->subscriber->principal);
    k->catalog = catalog_ref(k->worker->catalog);
    k->kind = sub->kind;
    k->as_requested = str_pack(&at, subscription_as_requested(sub));
    k->text = str_pack(&at, subscription_uri(sub));
    set_aside(k, sub);
    k->pending.group = group;
    sub->rereads = sub->truncated;
    list_append(&group->pending, &k->pending.link);
    walk_registered(k);
    walk_next(k);
}

static void show_state(struct subscription_group *group)
{
    list_each (it, next, &group->subs) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (!sub->initial_pending) {
            continue;
        }
        sub->initial_pending = false;
        if (sub->kind == PATTERN_LITERAL) {
            struct tidings_resource about = {0};
            about.uri = subscription_uri(sub);
            offer_state(sub, &about);
        } else if (!sub->extra || sub->extra->condition_count == 0) {
            show_matching(sub);
        } /* conditions apply to changes: for existing resources they are undefined */
    }
}

void initial_state_begin(struct subscription_group *group)
{
    if (!group->subscriber->sink) {
        return; /* runs when the next stream opens */
    }
    bool since = false, initial = false;
    list_each (it, next, &group->subs) {
        const struct subscription *sub = list_entry(it, struct subscription, link);
        since = since || sub->since_pending;
        initial = initial || sub->initial_pending;
    }
    if (initial) {
        group->subscriber->has_initial = true;
        subscriber_mark_dirty(group->subscriber);
    }
    if (since) {
        initial_state_ask_log(group);
    }
}

void initial_state_flush(struct subscriber *subscriber)
{
    if (!subscriber->has_initial || subscriber->catching_count > 0) {
        return;
    }
    subscriber->has_initial = false;
    list_each (it, next, &subscriber->groups) {
        show_state(list_entry(it, struct subscription_group, link));
    }
}

/* -------------------------------------------------------------------------------------------------
 * Sends bookmarks: a worker's timer and its groups with bookmarks.
 */

/* Exists while subscriptions of a group have bookmarks. */
struct subscription_group_bookmarks {
    struct list link; /* in worker->delivery->bookmarked */
    struct subscription_group *group;
    uint64_t seq;   /* the newest number sent as a bookmark */
    uint32_t count; /* number of its subscriptions with bookmarks */
};

static void bookmark_send(struct subscription_group_bookmarks *b, struct buf *message)
{
    struct subscription_group *group = b->group;
    struct subscriber *subscriber = group->subscriber;
    bool is_called =
        subscriber->ops && subscriber->ops->on_update; /* the program itself, without a stream */
    if (!subscriber->sink || !group->is_open || is_called || subscriber_is_blocked(subscriber)) {
        return;
    }
    char text[CURSOR_TEXT];
    struct log_cursor at = subscriber_cursor(subscriber);
    if (access_is_full(subscriber->principal) && at.seq == b->seq) {
        return;
    }
    buf_clear(message);
    dialect_put_bookmark(message,
                         cursor_seal_put(subscriber->worker, subscriber->principal, &at, text),
                         subscription_group_id(group));
    if (subscriber_send(subscriber, message)) {
        b->seq = at.seq;
    }
}

void bookmark_on_period(struct loop_timer *timer, void *user)
{
    struct worker *worker = user;
    struct buf message;
    buf_init(&message, 16u * 1024u); /* an id of one kilobyte may become six by escaping */
    list_each (it, next, &worker->delivery->bookmarked) {
        bookmark_send(list_entry(it, struct subscription_group_bookmarks, link), &message);
    }
    buf_deinit(&message);
    if (!list_empty(&worker->delivery->bookmarked)) {
        loop_timer_start(timer, worker->limits->bookmark_ms, 0);
    }
}

bool bookmark_want(struct subscription *sub)
{
    struct worker *worker = sub->subscriber->worker;
    struct subscription_group_bookmarks *b = sub->group->bookmarks;
    if (!b) {
        b = mem_zalloc(sizeof(*b));
        if (!b) {
            return false;
        }
        b->group = sub->group;
        b->seq = worker->last_seq; /* the number that its client receives now */
        list_append(&worker->delivery->bookmarked, &b->link);
        sub->group->bookmarks = b;
    }
    b->count++;
    sub->bookmarks = true;
    if (!loop_timer_is_running(worker->delivery->bookmark_timer)) {
        loop_timer_start(worker->delivery->bookmark_timer, worker->limits->bookmark_ms, 0);
    }
    return true;
}

void bookmark_leave(struct subscription *sub)
{
    struct subscription_group_bookmarks *b = sub->group->bookmarks;
    if (sub->bookmarks && --b->count == 0) {
        list_remove(&b->link);
        mem_free(b);
        sub->group->bookmarks = NULL;
    }
}

/* ---------------------------------------------------------------------------------------------- */

struct change_finder {
    struct subscriber *subscriber;
    const struct changelog_row *row;
    uint64_t since;
};

static bool is_ours(void *user, const struct subscription *sub)
{
    const struct change_finder *f = user;
    return sub->group->subscriber == f->subscriber && !sub->catching_up &&
           f->row->change->seq > sub->replayed_to;
}

static void offer_if_ours(void *user, struct match_node *node)
{
    struct change_finder *f = user;
    struct subscription *sub = list_entry(node, struct subscription, node);
    if (is_ours(f, sub)) {
        subscriber_enqueue_row(f->subscriber, sub, f->row, f->since);
    }
}

static bool went_elsewhere(const struct subscriber *subscriber, uint64_t seq)
{
    const struct subscriber_skips *skips =
        subscriber->ops && subscriber->ops->skips ? subscriber->ops->skips(subscriber) : NULL;
    for (unsigned i = 0; skips && i < skips->count; i++) {
        if (seq > skips->at[i].from && seq <= skips->at[i].to) {
            return true;
        }
    }
    return false;
}

static void catchup_replay(struct subscriber *subscriber, const struct hub_catchup *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct change *change = c->changes[i].change;
        if (went_elsewhere(subscriber, change->seq)) {
            continue;
        }
        list_changed_replay(subscriber, &c->changes[i], c->since);
        if (change->lists != 0) {
            continue;
        }
        if (change->everything) {
            resync_flag_below(subscriber, change_scope(change), change->seq);
            continue;
        }
        struct change_finder f = {
            .subscriber = subscriber, .row = &c->changes[i], .since = c->since};
        static const struct lookup_calls calls = {is_ours, offer_if_ours};
        lookup_find(subscriber->worker, change, &calls, &f);
        delivery_find_matching(subscriber->worker, change->uri, offer_if_ours, &f);
    }
}

static void caught_up(struct hub_catchup *c, struct worker *worker)
{
    (void)worker;
    struct subscriber *subscriber = c->user;
    if (subscriber) {
        subscriber->catchup = NULL;
        if (subscriber->sink && c->truncated) {
            resync_flag_all(subscriber);
        } else if (subscriber->sink) { /* otherwise it ended, and the next one queries again */
            catchup_replay(subscriber, c);
        }
        subscriber_mark_dirty(subscriber);
    }
    hub_catchup_free(c);
}

void catchup_start(struct subscriber *subscriber, uint64_t since)
{
    if (subscriber->catchup) { /* another stream's query is under way */
        subscriber->catchup->user = NULL;
        subscriber->catchup = NULL;
    }
    subscriber->cursor = since;
    if (since == subscriber->worker->last_seq) {
        return; /* changes on their way from the hub arrive as live changes */
    }
    subscriber->catchup = hub_catchup(subscriber->worker, since, caught_up, subscriber);
    if (!subscriber->catchup) {
        resync_flag_all(subscriber);
    }
}
