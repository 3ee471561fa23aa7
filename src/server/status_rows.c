/* SPDX-License-Identifier: MIT
 *
 * Writes the rows of tidings://self/stats, /subscribers and /subscriptions. Subscribers of a worker
 * are in the order of their numbers already.
 */
#include "server/status_rows.h"

#include <stdio.h>

#include "access/failures.h"
#include "access/limit.h"
#include "auth/auth.h"
#include "base/str.h"
#include "delivery/listen.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "json/write.h"

bool status_after_parse(struct tidings_str text, struct status_after *ret)
{
    struct tidings_str index;
    bool has_index = false;
    struct tidings_str subscriber = str_cut(text, '.', &index, &has_index);
    struct status_after after = {.index = UINT64_MAX};
    if (!str_to_u64(subscriber, &after.subscriber) ||
        (has_index && !str_to_u64(index, &after.index))) {
        return false;
    }
    *ret = after;
    return true;
}

struct page {
    struct jw w;
    struct buf *out;
    size_t rows, before;
    struct status_after after;
};

static bool is_full(const struct page *p)
{
    return p->rows >= STATUS_PAGE_ROWS || p->out->len - p->before >= STATUS_PAGE_BYTES;
}

static void status_rows_put_count(struct jw *w, const char *key, uint64_t n)
{
    jw_put_integer(w, tidings_str(key), (int64_t)n);
}

static void write_stats(struct page *p, const struct worker *worker)
{
    const struct worker_stats *s = &worker->stats;
    struct jw *w = &p->w;
    jw_begin_object(w);
    status_rows_put_count(w, "worker", worker->index);
    status_rows_put_count(w, "requests", s->requests);
    status_rows_put_count(w, "deliveries", s->deliveries);
    status_rows_put_count(w, "coalesced", s->coalesced);
    status_rows_put_count(w, "truncated", s->truncated);
    status_rows_put_count(w, "cut", s->cut);
    status_rows_put_count(w, "subscriptions", s->subscriptions);
    status_rows_put_count(w, "subscribers", s->subscribers);
    status_rows_put_count(w, "sessions", s->sessions);
    status_rows_put_count(w, "lastChange", worker->last_seq);
    status_rows_put_count(w, "indexBytes", match_bytes(&worker->delivery->match));
    status_rows_put_count(w, "filters", worker->delivery->filters.by_text.count);
    status_rows_put_count(w, "filterJudgements", worker->delivery->filters.judged);
    status_rows_put_count(w, "patches", worker->delivery->contents.patches);
    status_rows_put_count(w, "pauses", s->pauses);
    status_rows_put_count(w, "mostPerTurn", s->most_per_turn);
    jw_end_object(w);
}

/* Every row begins with whose it is and how to go on after it. */
static void status_rows_begin_row(struct page *p, const struct subscriber *subscriber,
                                  uint64_t index)
{
    char row[48];
    int n =
        index == UINT64_MAX
            ? snprintf(row, sizeof(row), "%llu", (unsigned long long)subscriber_id(subscriber))
            : snprintf(row, sizeof(row), "%llu.%llu", (unsigned long long)subscriber_id(subscriber),
                       (unsigned long long)index);
    jw_begin_object(&p->w);
    jw_put_string(&p->w, STR("row"), tidings_strn(row, n > 0 ? (size_t)n : 0));
    status_rows_put_count(&p->w, "subscriber", subscriber_id(subscriber));
    status_rows_put_count(&p->w, "worker", subscriber->worker->index);
    p->rows++;
}

static void write_subscriber(struct page *p, const struct subscriber *subscriber)
{
    struct jw *w = &p->w;
    status_rows_begin_row(p, subscriber, UINT64_MAX);
    jw_put_string(w, STR("stream"),
                  subscriber->sink ? tidings_str(subscriber->sink->ops->name) : STR("none"));
    status_rows_put_count(w, "listens", subscriber->listen_count);
    status_rows_put_count(w, "subscriptions", subscriber->subscription_count);
    status_rows_put_count(w, "waiting", subscriber->outbox.count);
    status_rows_put_count(w, "held", subscriber->held_count);
    status_rows_put_count(w, "unsentBytes",
                          subscriber->sink ? subscriber->sink->ops->pending(subscriber->sink) : 0);
    status_rows_put_count(w, "cursor", subscriber_low_water(subscriber));
    jw_end_object(w);
}

static void write_subscription(struct page *p, const struct subscription *sub, uint64_t index)
{
    struct jw *w = &p->w;
    status_rows_begin_row(p, sub->subscriber, index);
    jw_put_string(w, STR("subscribedUri"), subscription_spelled(sub));
    if (sub->listen->id_len > 0) {
        jw_put_raw(w, STR("subscriptionId"), listen_id(sub->listen));
    }
    status_rows_put_count(w, "periodMs", sub->window.period_ms);
    status_rows_put_count(w, "waiting", sub->queued);
    jw_put_bool(w, STR("suspended"), sub->suspended);
    jw_end_object(w);
}

static bool write_subscriptions(struct page *p, const struct subscriber *subscriber)
{
    uint64_t index = 0;
    bool is_first = subscriber_id(subscriber) == p->after.subscriber;
    list_each (lit, lnext, &subscriber->listens) {
        const struct listen *listen = list_entry(lit, struct listen, link);
        list_each (it, next, &listen->subs) {
            index++;
            if (is_first && index <= p->after.index) {
                continue;
            }
            if (is_full(p)) {
                return false;
            }
            write_subscription(p, list_entry(it, struct subscription, link), index);
        }
    }
    return true;
}

static bool write_subscribers(struct page *p, const struct worker *worker, bool subscriptions)
{
    list_each (it, next, &worker->delivery->subscribers) {
        const struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (subscriber_id(subscriber) < p->after.subscriber ||
            (!subscriptions && subscriber_id(subscriber) == p->after.subscriber)) {
            continue;
        }
        if (subscriptions ? !write_subscriptions(p, subscriber) : is_full(p)) {
            return false;
        }
        if (!subscriptions) {
            write_subscriber(p, subscriber);
        }
    }
    return true;
}

void status_write_limits(struct jw *w, const struct limit_counters *counters)
{
    jw_begin_array(w);
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        enum limit limit = (enum limit)i;
        jw_begin_object(w);
        jw_put_string(w, STR("limit"), tidings_str(limit_name(limit)));
        jw_put_string(w, STR("about"), tidings_str(limit_text(limit)));
        status_rows_put_count(w, "value", counters->values[i]);
        if (limit_is_counted(limit)) {
            status_rows_put_count(w, "inUse", limit_in_use(counters, limit));
        }
        status_rows_put_count(w, "reached", __atomic_load_n(&counters->hits[i], __ATOMIC_RELAXED));
        jw_end_object(w);
    }
    jw_end_array(w);
}

bool status_write_rows(struct buf *out, const struct worker *worker, enum status_rows what,
                       const struct status_after *after)
{
    struct page p = {.out = out, .before = out->len, .after = *after};
    bool all = true;
    jw_init(&p.w, out);
    jw_begin_array(&p.w);
    if (what == STATUS_ROWS_STATS) {
        write_stats(&p, worker);
    } else if (what == STATUS_ROWS_FAILURES) {
        failures_write(worker->failures, worker->index, &p.w);
    } else {
        all = write_subscribers(&p, worker, what == STATUS_ROWS_SUBSCRIPTIONS);
    }
    jw_end_array(&p.w);
    return all;
}

static void status_rows_put_refusal(void *user, const char *why, uint64_t count)
{
    struct jw *w = user;
    jw_begin_object(w);
    jw_put_string(w, STR("reason"), tidings_str(why));
    status_rows_put_count(w, "count", count);
    jw_end_object(w);
}

void status_write_tokens(struct jw *w, const struct auth *auth)
{
    struct auth_counts c = {0};
    struct auth_fetches f = {0};
    if (auth) {
        auth_get_counts(auth, &c);
        auth_get_fetches(auth, &f);
    }
    jw_begin_object(w);
    status_rows_put_count(w, "verified", c.verified);
    status_rows_put_count(w, "remembered", c.remembered);
    status_rows_put_count(w, "waiting", c.waiting);
    status_rows_put_count(w, "malformed", c.malformed);
    status_rows_put_count(w, "invalid", c.invalid);
    status_rows_put_count(w, "unavailable", c.unavailable);
    jw_key(w, STR("refused"));
    jw_begin_array(w);
    if (auth) {
        auth_each_refusal(auth, status_rows_put_refusal, w);
    }
    jw_end_array(w);
    status_rows_put_count(w, "keyFetches", f.keys);
    status_rows_put_count(w, "introspections", f.introspections);
    status_rows_put_count(w, "failedFetches", f.failures);
    jw_end_object(w);
}
