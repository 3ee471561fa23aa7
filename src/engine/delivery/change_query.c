/* SPDX-License-Identifier: MIT
 *
 * Runs a change query: a subscriber inside the program whose on_update callback is called for each
 * live change, and which then queries the log for everything newer than it has reported.
 */
#include "engine/delivery/change_query.h"

#include "base/mem.h"
#include "base/str.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/filters.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/subscribe.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/request.h"
#include "formats/uri.h"
#include "security/limits.h"
#include "store/change.h"

/* Comparisons of a row with a URI per turn: some ms. */
#define CHANGE_QUERY_STEPS 8192u

struct change_query {
    struct sink sink; /* writes nothing */
    struct subscriber *subscriber;
    struct subscribe_batch *wanted; /* until its URIs are resolved */
    struct hub_catchup *catchup;    /* a log query is under way */
    const struct change_query_ops *ops;
    void *user;
    uint64_t upto;  /* everything up to here was examined */
    uint64_t heard; /* the newest number received */
    bool waits;
    bool wants_existing;
    bool again;     /* something unknown is newer */
    bool has_found; /* a row, or a lost history */
};

static struct worker *worker_of(const struct change_query *query)
{
    return query->subscriber->worker;
}

static void change_query_free(struct change_query *query)
{
    if (query->catchup) {
        query->catchup->user = NULL;
    }
    if (query->subscriber) {
        query->subscriber->ops = NULL;
        subscriber_destroy(query->subscriber);
    }
    mem_free(query);
}

static void change_query_finish(struct change_query *query, const struct log_cursor *cursor,
                                bool more)
{
    const struct change_query_ops *ops = query->ops;
    void *user = query->user;
    change_query_free(query);
    ops->done(user, cursor, more);
}

static void finish_here(struct change_query *query, bool more)
{
    struct log_cursor cursor = delivery_cursor(worker_of(query), query->upto);
    change_query_finish(query, &cursor, more);
}

static struct subscription_group *group_of(const struct change_query *query)
{
    return list_entry(query->subscriber->groups.next, struct subscription_group, link);
}

static void change_query_overflow(struct change_query *query, struct subscription *sub)
{
    query->has_found = true;
    if (!sub->truncated) {
        sub->truncated = true;
        query->ops->lost(query->user, subscription_as_requested(sub));
    }
}

/* Reports a lost history for each subscription that an unknown change below `scope`, with this
 * number, may concern. */
static void lose_all(struct change_query *query, struct tidings_str scope, uint64_t seq)
{
    list_each (it, next, &group_of(query)->subs) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (seq > sub->since && subscription_may_match(sub, scope)) {
            change_query_overflow(query, sub);
        }
    }
}

/* ---- the log --------------------------------------------------------------------------------- */

static enum lookup_answer change_query_matches(struct subscription *sub, struct tidings_str uri)
{
    struct tidings_provider *p = sub->extra ? sub->extra->covers_provider : NULL;
    enum lookup_answer answer = lookup_ask(sub, uri);
    if (answer == LOOKUP_NO && p && uri_is_within(uri, p->prefix)) {
        answer = p->ops->covers(p, subscription_uri(sub), uri) ? LOOKUP_YES : LOOKUP_NO;
    }
    return answer;
}

/* Returns the first subscription that may see the change; NULL: none. */
static const struct subscription *find_sub(struct change_query *query,
                                           const struct changelog_row *row)
{
    const struct change *change = row->change;
    list_each (it, next, &group_of(query)->subs) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (change->seq <= sub->since || !filters_allow(query->subscriber->principal, change)) {
            continue;
        }
        enum lookup_answer answer = change_query_matches(sub, change->uri);
        if (answer == LOOKUP_UNKNOWN) {
            change_query_overflow(query, sub);
        } else if (answer == LOOKUP_YES &&
                   filters_pass(sub, change, row->replaced_seq <= sub->since)) {
            return sub;
        }
    }
    return NULL;
}

/* Returns false if the result is full. */
static bool take_row(struct change_query *query, const struct changelog_row *row)
{
    const struct change *change = row->change;
    const struct subscription *sub =
        change->everything || change->lists ? NULL : find_sub(query, row);
    if (change->everything) {
        lose_all(query, change_scope(change), change->seq);
    }
    if (!sub) {
        return true;
    }
    enum tidings_change_kind kind = change->kind;
    if (kind == TIDINGS_CHANGE_UPDATED && row->created_seq > sub->since) {
        kind = TIDINGS_CHANGE_CREATED;
    }
    if (!query->ops->row(query->user, change, kind)) {
        return false;
    }
    query->has_found = true;
    return true;
}

enum rows_taken {
    TAKEN_ALL,
    TAKEN_SOME, /* the limit of one turn */
    TAKEN_FULL, /* the result is full */
};

static enum rows_taken take_rows(struct change_query *query, const struct hub_catchup *c)
{
    size_t steps = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (steps > CHANGE_QUERY_STEPS) {
            return TAKEN_SOME;
        }
        if (!take_row(query, &c->changes[i])) {
            return TAKEN_FULL;
        }
        steps += query->subscriber->subscription_count;
        query->upto = c->changes[i].change->seq;
    }
    query->upto = c->seq;
    return TAKEN_ALL;
}

static void change_query_on_log(struct hub_catchup *c, struct worker *worker);

static void change_query_ask_log(struct change_query *query)
{
    query->again = false;
    query->catchup = hub_catchup(worker_of(query), query->upto, change_query_on_log, query);
}

/* When everything received has been examined: finishes, or waits for more. */
static void change_query_decide(struct change_query *query)
{
    bool waits =
        query->waits && query->subscriber->subscription_count > 0; /* they may have been revoked */
    bool is_behind = query->again || query->heard > query->upto;
    if (query->has_found || (!waits && !is_behind)) {
        finish_here(query, false);
    } else if (is_behind) {
        change_query_ask_log(query); /* out of memory: the next update, or the end, retries */
        if (!query->catchup && !waits) {
            finish_here(query, false);
        }
    }
}

static void change_query_on_log(struct hub_catchup *c, struct worker *worker)
{
    (void)worker;
    struct change_query *query = c->user;
    enum rows_taken taken = TAKEN_ALL;
    if (query) {
        query->catchup = NULL;
        if (c->truncated) {
            lose_all(query, STR_EMPTY, UINT64_MAX);
            query->upto = c->seq;
        } else {
            taken = take_rows(query, c);
        }
    }
    hub_catchup_free(c);
    if (query && taken == TAKEN_FULL) {
        finish_here(query, true);
    } else if (query && taken == TAKEN_SOME) {
        change_query_ask_log(query);
        if (!query->catchup) {
            finish_here(query, true);
        }
    } else if (query) {
        change_query_decide(query);
    }
}

/* ---- live updates ---------------------------------------------------------------------------- */

static void change_query_on_update(struct subscriber *subscriber, const struct dialect_updated *u,
                                   const struct subscription *sub)
{
    (void)sub;
    struct change_query *query = subscriber->owner;
    if (!u->change) {
        query->again = true;
    } else if (u->change->seq > query->heard) {
        query->heard = u->change->seq;
    }
    if (!query->wanted && !query->catchup && (query->again || query->heard > query->upto)) {
        change_query_ask_log(query);
    }
}

/* The server stops, or the application ends it: one last log query. */
static void change_query_disconnect(struct subscriber *subscriber)
{
    struct change_query *query = subscriber->owner;
    query->waits = false;
    if (!query->wanted && !query->catchup) {
        change_query_ask_log(query); /* otherwise the deadline of the request ends it */
    }
}

static void change_query_on_destroy(struct subscriber *subscriber)
{
    struct change_query *query = subscriber->owner;
    query->subscriber = NULL;
}

static const struct subscriber_ops change_query_subscriber_ops = {
    .on_update = change_query_on_update,
    .disconnect = change_query_disconnect,
    .on_destroy = change_query_on_destroy,
};

/* ---- start and end --------------------------------------------------------------------------- */

/* Server rules may add first updates and content to a subscription. A query does not use them. */
static void drop_rule_extras(struct subscription *sub)
{
    sub->since_pending = sub->initial_pending = false;
    sub->wants_content = false;
}

static void change_query_on_subscribed(struct subscribe_batch *s, const struct log_cursor *at)
{
    (void)at;
    if (!s->pending.group) {
        return; /* it was cancelled */
    }
    struct change_query *query = s->user;
    query->wanted = NULL;
    query->upto = UINT64_MAX;
    bool can_change = false;
    for (size_t i = 0; i < s->count; i++) {
        const struct subscribe_item *w = &s->items[i];
        if (!w->sub) {
            query->ops->refused(query->user, w->as_requested, &w->stat.base.err);
            continue;
        }
        drop_rule_extras(w->sub);
        query->ops->accepted(query->user, w->as_requested, w->warning);
        can_change = can_change || w->warning.len == 0;
        if (w->sub->since == SINCE_UNKNOWN) {
            w->sub->since = s->worker->last_seq;
            change_query_overflow(query, w->sub);
        } else if (query->wants_existing && w->is_leaf) {
            query->has_found = true;
            query->ops->exists(query->user, w->uri, w->modified_ms);
        }
        query->upto = w->sub->since < query->upto ? w->sub->since : query->upto;
    }
    if (query->subscriber->subscription_count == 0) {
        change_query_finish(query, NULL, false);
        return;
    }
    query->waits = query->waits && can_change;
    if (query->upto < s->worker->last_seq) {
        change_query_ask_log(query);
    }
    if (!query->catchup) {
        query->again = query->upto < s->worker->last_seq; /* out of memory: query later */
        change_query_decide(query);
    }
}

static int copy_uris(struct subscribe_batch *s, const struct change_query_terms *terms,
                     struct tidings_error *err)
{
    struct tidings_str since = terms->since;
    struct tidings_str sealed = arena_dup(&s->arena, cursor_is_sealed(since) ? since : STR_EMPTY);
    struct log_cursor cursor = {0};
    if (since.len > 0 && sealed.len == 0 && !cursor_parse(since, &cursor)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'cursor' must be one that an earlier answer gave; leave it out to "
                            "begin now");
    }
    bool is_copied = sealed.ptr != NULL;
    for (size_t i = 0; i < s->count; i++) {
        struct subscribe_item *w = &s->items[i];
        w->as_requested = arena_dup(&s->arena, terms->uris ? terms->uris[i] : STR("**"));
        is_copied = is_copied && w->as_requested.ptr;
        options_init(&w->options);
        w->options.given = OPTION_WINDOW | (since.len > 0 ? OPTION_SINCE : 0u);
        w->options.window_ms = 0; /* updates arrive at once */
        w->options.since = cursor;
        w->options.sealed = sealed;
    }
    return is_copied ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static int check_rate(struct request *request, struct tidings_error *err)
{
    struct refusal why;
    char text[REFUSAL_SENTENCE];
    if (quota_take_subscribe(channel_quota(request->channel), loop_now_ms(request->worker->loop),
                             &why)) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_LIMIT, "%s", refusal_sentence(&why, text));
}

/* The subscriber with its one group, or NULL. */
static struct subscriber *create_subscriber(struct request *request, size_t count,
                                            struct subscribe_batch **ret)
{
    struct subscriber *subscriber = subscriber_create(request->worker, request->principal);
    struct subscription_group *group =
        subscriber ? subscription_group_create(subscriber, STR("0")) : NULL;
    *ret = group ? subscribe_batch_create(group, count) : NULL;
    if (!*ret || !subscribe_batch_set_channel(*ret, request->channel)) {
        if (*ret) {
            subscribe_batch_free(*ret);
        }
        subscriber_destroy(subscriber);
        return NULL;
    }
    group->is_open = true;
    return subscriber;
}

struct change_query *change_query_create(struct request *request,
                                         const struct change_query_terms *terms,
                                         struct tidings_error *err)
{
    if (check_rate(request, err) < 0) {
        return NULL;
    }
    struct change_query *query = mem_zalloc(sizeof(*query));
    if (query) {
        query->subscriber =
            create_subscriber(request, terms->uris ? terms->count : 1, &query->wanted);
    }
    if (!query || !query->subscriber) {
        mem_free(query);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    struct subscribe_batch *s = query->wanted;
    struct subscriber *subscriber = query->subscriber;
    query->waits = terms->waits && !request->worker->stopping;
    query->wants_existing = terms->wants_existing && terms->since.len == 0;
    query->sink.ops = &sink_nowhere;
    subscriber->owner = query;
    subscriber->ops = &change_query_subscriber_ops;
    subscriber_set_sink(subscriber, &query->sink);
    s->done = change_query_on_subscribed;
    s->user = query;
    if (copy_uris(s, terms, err) < 0) {
        subscribe_batch_free(s);
        change_query_free(query);
        return NULL;
    }
    return query;
}

void change_query_start(struct change_query *query, const struct change_query_ops *ops, void *user)
{
    query->ops = ops;
    query->user = user;
    subscribe_batch_resolve(query->wanted);
}

void change_query_hurry(struct change_query *query)
{
    query->waits = false;
    if (!query->wanted && !query->catchup) {
        change_query_decide(query);
    }
}

void change_query_cancel(struct change_query *query)
{
    if (query) {
        change_query_free(query);
    }
}
