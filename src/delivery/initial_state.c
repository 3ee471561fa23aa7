/* SPDX-License-Identifier: MIT
 *
 * What a new subscription hears first: the current state, or what it has missed.
 */
#include "delivery/initial_state.h"

#include "access/allowance.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/job.h"
#include "catalog/resource.h"
#include "delivery/delivery.h"
#include "delivery/hub.h"
#include "delivery/listen.h"
#include "delivery/lookup.h"
#include "delivery/resync.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "store/change.h"
#include "worker/worker.h"

#define INITIAL_MAX 100u

/* ---- since ----------------------------------------------------------------------------------- */

/* One question to the log. */
struct since_catchup {
    struct listen_pending pending;
    uint64_t since; /* the lowest asked for */
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
        subscriber_offer_row(sub->listen->subscriber, sub, f->row, sub->since);
    }
}

/* Those that wait for this answer. `everything` or lost history: told to look again. */
static void initial_state_mark_waiting(struct listen *listen, const struct since_catchup *m,
                                       struct tidings_str scope, uint64_t seq)
{
    list_each (it, next, &listen->subs) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (sub->catching_up && sub->catchup == m && seq > sub->since &&
            subscription_may_cover(sub, scope)) {
            resync_mark(sub, sub->since + 1);
        }
    }
}

static void replay_missed(struct listen *listen, const struct since_catchup *m,
                          const struct hub_catchup *c)
{
    struct worker *worker = listen->subscriber->worker;
    for (size_t i = 0; i < c->count; i++) {
        const struct change *change = c->changes[i].change;
        struct finder f = {.missed = m, .row = &c->changes[i]};
        if (change->everything) {
            initial_state_mark_waiting(listen, m, change_scope(change), change->seq);
        } else if (change->lists == 0) {
            static const struct lookup_calls calls = {waits_for_it, offer_missed};
            lookup_find(worker, change, &calls, &f);
            delivery_find_covered(worker, change->uri, offer_missed, &f);
        }
    }
}

static void missed_end(struct since_catchup *m, uint64_t upto)
{
    struct listen *listen = m->pending.listen;
    if (listen) {
        list_each (it, next, &listen->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (sub->catching_up && sub->catchup == m) {
                subscription_caught_up(sub, listen->subscriber->sink ? upto : 0);
            }
        }
        subscriber_mark_dirty(listen->subscriber);
    }
    list_remove(&m->pending.link);
    mem_free(m);
}

static void missed_arrived(struct hub_catchup *c, struct worker *worker)
{
    (void)worker;
    struct since_catchup *m = c->user;
    struct listen *listen = m->pending.listen;
    if (listen && c->truncated) {
        initial_state_mark_waiting(listen, m, STR_EMPTY, UINT64_MAX);
    } else if (listen) {
        replay_missed(listen, m, c);
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

static void initial_state_ask_log(struct listen *listen)
{
    struct subscriber *subscriber = listen->subscriber;
    struct since_catchup *m = mem_zalloc(sizeof(*m));
    uint64_t since = UINT64_MAX;
    list_each (it, next, &listen->subs) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (!sub->since_pending) {
            continue;
        }
        sub->since_pending = false;
        if (!m || sub->since == SINCE_UNKNOWN) {
            sub->since = subscriber->worker->last_seq;
            initial_state_rewind(subscriber, SINCE_UNKNOWN);
            resync_mark(sub, 1);
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
    m->pending.listen = listen;
    list_append(&listen->pending, &m->pending.link);
    if (since == UINT64_MAX) {
        missed_end(m, 0);
    } else if (!hub_catchup(subscriber->worker, since, missed_arrived, m)) {
        initial_state_mark_waiting(listen, m, STR_EMPTY, UINT64_MAX);
        missed_end(m, 0);
    }
}

/* ---- initial --------------------------------------------------------------------------------- */

static void offer_state(struct subscription *sub, const struct tidings_resource *about)
{
    struct worker *worker = sub->listen->subscriber->worker;
    struct tidings_change now = {
        .uri = about->uri,
        .etag = about->etag,
        .size = about->size,
        .has_size = about->has_size,
        .modified_ms = about->modified_ms,
    };
    struct change *change = change_create(&now, worker->epoch, worker->last_seq);
    if (change) {
        subscriber_offer_initial(sub->listen->subscriber, sub, change);
        change_unref(change);
    } else {
        resync_mark(sub, worker->last_seq);
    }
}

/* Walks the mounts a pattern reaches; may outlive the subscription. */
struct walk {
    struct tidings_list list;
    struct listen_pending pending;
    struct worker *worker;
    const struct principal *principal; /* a reference */
    struct catalog *catalog;           /* a reference */
    enum pattern_kind kind;
    struct regex *regex; /* of a subscription to one */
    uint64_t steps;      /* set aside to search with it, and left */
    bool is_over;        /* they were not enough */
    size_t mount, found;
    bool is_lost;                               /* something that is there was not found out */
    struct tidings_resource *rows[INITIAL_MAX]; /* copies */
    struct tidings_str spelled, text;
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
    struct listen *listen = k->pending.listen;
    for (struct list *it = listen ? listen->subs.next : NULL; listen && it != &listen->subs;
         it = it->next) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (str_eq(subscription_spelled(sub), k->spelled)) {
            return sub;
        }
    }
    return NULL;
}

/* On whichever thread lists: keep the rows that match. */
static int walk_row(struct tidings_list *list, const struct tidings_resource *row)
{
    struct walk *k = list_entry(list, struct walk, list);
    bool matches;
    if (row->not_subscribable || !access_subscribes(k->principal, row->uri)) {
        return 1; /* asked first: what is not seen costs nothing */
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

/* May the pattern match anything there? */
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
        allowance_refund(sub->subscriber->allowance, k->steps);
    }
    if (sub && k->is_over) {
        limit_hit(k->worker->limit_counters, LIMIT_PATTERN_STEPS);
        resync_mark(sub, k->worker->last_seq);
    }
    for (size_t i = 0; sub && !sub->rereads && i < k->found; i++) {
        offer_state(sub, k->rows[i]);
    }
    if (sub && k->is_lost) {
        resync_mark(sub, k->worker->last_seq);
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
        !k->pending.listen) {
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
        k->list.after = k->text; /* what is below begins right after it */
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

/* What the search for a regex may cost here: others of the same client begin at the same time. */
static void set_aside(struct walk *k, const struct subscription *sub)
{
    struct allowance *client = sub->subscriber->allowance;
    uint64_t now = loop_now_ms(k->worker->loop);
    if (k->kind == PATTERN_REGEX) {
        uint64_t cost = 0;
        k->is_over =
            allowance_left(client, now) == 0 ||
            regex_create_counted(k->text, REGEX_BYTES, k->text.len, &cost, &k->regex, NULL) < 0;
        allowance_spend(client, cost, now);
        k->steps = allowance_left(client, now) / 4;
        allowance_spend(client, k->steps, now);
    }
}

static void show_matching(struct subscription *sub)
{
    struct listen *listen = sub->listen;
    struct walk *k =
        mem_zalloc(sizeof(*k) + subscription_spelled(sub).len + subscription_uri(sub).len);
    if (!k) {
        resync_mark(sub, listen->subscriber->worker->last_seq);
        return;
    }
    char *at = k->memory;
    k->worker = listen->subscriber->worker;
    k->principal = principal_ref(listen->subscriber->principal);
    k->catalog = catalog_ref(k->worker->catalog);
    k->kind = sub->kind;
    k->spelled = str_pack(&at, subscription_spelled(sub));
    k->text = str_pack(&at, subscription_uri(sub));
    set_aside(k, sub);
    k->pending.listen = listen;
    sub->rereads = sub->truncated;
    list_append(&listen->pending, &k->pending.link);
    walk_registered(k);
    walk_next(k);
}

static void show_state(struct listen *listen)
{
    list_each (it, next, &listen->subs) {
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
        } /* conditions are about changes: of what is there nobody knows whether it holds */
    }
}

void initial_state_begin(struct listen *listen)
{
    if (!listen->subscriber->sink) {
        return; /* the next stream comes back here */
    }
    bool since = false, initial = false;
    list_each (it, next, &listen->subs) {
        const struct subscription *sub = list_entry(it, struct subscription, link);
        since = since || sub->since_pending;
        initial = initial || sub->initial_pending;
    }
    if (initial) {
        show_state(listen);
    }
    if (since) {
        initial_state_ask_log(listen);
    }
}
