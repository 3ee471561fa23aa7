/* SPDX-License-Identifier: MIT
 *
 * The writers of rows. Peers of a worker are in the order of their numbers already.
 */
#include "server/self_rows.h"

#include <stdio.h>

#include "access/limit.h"
#include "auth/auth.h"
#include "base/str.h"
#include "delivery/subscriber.h"
#include "json/write.h"

bool self_after_parse(struct tidings_str text, struct self_after *ret)
{
    struct tidings_str place;
    bool has_place = false;
    struct tidings_str subscriber = str_cut(text, '.', &place, &has_place);
    struct self_after after = {.place = UINT64_MAX};
    if (!str_to_u64(subscriber, &after.subscriber) ||
        (has_place && !str_to_u64(place, &after.place))) {
        return false;
    }
    *ret = after;
    return true;
}

struct page {
    struct jw w;
    struct buf *out;
    size_t rows, before;
    struct self_after after;
};

static bool is_full(const struct page *p)
{
    return p->rows >= SELF_PAGE_ROWS || p->out->len - p->before >= SELF_PAGE_BYTES;
}

static void put_count(struct jw *w, const char *key, uint64_t n)
{
    jw_put_integer(w, tidings_str(key), (int64_t)n);
}

static void write_stats(struct page *p, const struct worker *worker)
{
    const struct worker_stats *s = &worker->stats;
    struct jw *w = &p->w;
    jw_begin_object(w);
    put_count(w, "worker", worker->index);
    put_count(w, "requests", s->requests);
    put_count(w, "deliveries", s->deliveries);
    put_count(w, "coalesced", s->coalesced);
    put_count(w, "truncated", s->truncated);
    put_count(w, "cut", s->cut);
    put_count(w, "subscriptions", s->subscriptions);
    put_count(w, "peers", s->subscribers);
    put_count(w, "sessions", s->sessions);
    put_count(w, "lastChange", worker->last_seq);
    put_count(w, "indexBytes", match_bytes(&worker->delivery->match));
    put_count(w, "filters", worker->delivery->filters.by_text.count);
    put_count(w, "filterJudgements", worker->delivery->filters.judged);
    put_count(w, "patches", worker->delivery->contents.patches);
    put_count(w, "pauses", s->pauses);
    put_count(w, "mostPerTurn", s->most_per_turn);
    jw_end_object(w);
}

/* Every row begins with whose it is and how to go on after it. */
static void begin_row(struct page *p, const struct subscriber *subscriber, uint64_t place)
{
    char row[48];
    int n =
        place == UINT64_MAX
            ? snprintf(row, sizeof(row), "%llu", (unsigned long long)subscriber_id(subscriber))
            : snprintf(row, sizeof(row), "%llu.%llu", (unsigned long long)subscriber_id(subscriber),
                       (unsigned long long)place);
    jw_begin_object(&p->w);
    jw_put_string(&p->w, STR("row"), tidings_strn(row, n > 0 ? (size_t)n : 0));
    put_count(&p->w, "peer", subscriber_id(subscriber));
    put_count(&p->w, "worker", subscriber->worker->index);
    p->rows++;
}

static void write_peer(struct page *p, const struct subscriber *subscriber)
{
    struct jw *w = &p->w;
    begin_row(p, subscriber, UINT64_MAX);
    jw_put_string(w, STR("stream"),
                  subscriber->sink ? tidings_str(subscriber->sink->ops->name) : STR("none"));
    put_count(w, "listens", subscriber->listen_count);
    put_count(w, "subscriptions", subscriber->subscription_count);
    put_count(w, "waiting", subscriber->outbox.count);
    put_count(w, "held", subscriber->held_count);
    put_count(w, "unsentBytes",
              subscriber->sink ? subscriber->sink->ops->pending(subscriber->sink) : 0);
    put_count(w, "cursor", subscriber_cursor(subscriber));
    jw_end_object(w);
}

static void write_subscription(struct page *p, const struct subscription *sub, uint64_t place)
{
    struct jw *w = &p->w;
    begin_row(p, sub->subscriber, place);
    jw_put_string(w, STR("subscribedUri"), subscription_spelled(sub));
    if (sub->listen->id_len > 0) {
        jw_put_raw(w, STR("subscriptionId"), listen_id(sub->listen));
    }
    put_count(w, "periodMs", sub->window.period_ms);
    put_count(w, "waiting", sub->queued);
    jw_put_bool(w, STR("suspended"), sub->suspended);
    jw_end_object(w);
}

static bool write_subscriptions(struct page *p, const struct subscriber *subscriber)
{
    uint64_t place = 0;
    bool is_first = subscriber_id(subscriber) == p->after.subscriber;
    list_each (lit, lnext, &subscriber->listens) {
        const struct listen *listen = list_entry(lit, struct listen, link);
        list_each (it, next, &listen->subs) {
            place++;
            if (is_first && place <= p->after.place) {
                continue;
            }
            if (is_full(p)) {
                return false;
            }
            write_subscription(p, list_entry(it, struct subscription, link), place);
        }
    }
    return true;
}

static bool write_peers(struct page *p, const struct worker *worker, bool subscriptions)
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
            write_peer(p, subscriber);
        }
    }
    return true;
}

void self_write_limits(struct jw *w, const struct limit_book *book)
{
    jw_begin_array(w);
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        enum limit limit = (enum limit)i;
        jw_begin_object(w);
        jw_put_string(w, STR("limit"), tidings_str(limit_name(limit)));
        jw_put_string(w, STR("about"), tidings_str(limit_text(limit)));
        put_count(w, "value", book->values[i]);
        if (limit_is_counted(limit)) {
            put_count(w, "inUse", limit_in_use(book, limit));
        }
        put_count(w, "reached", __atomic_load_n(&book->hits[i], __ATOMIC_RELAXED));
        jw_end_object(w);
    }
    jw_end_array(w);
}

bool self_write_rows(struct buf *out, const struct worker *worker, enum self_rows what,
                     const struct self_after *after)
{
    struct page p = {.out = out, .before = out->len, .after = *after};
    bool all = true;
    jw_init(&p.w, out);
    jw_begin_array(&p.w);
    if (what == SELF_ROWS_STATS) {
        write_stats(&p, worker);
    } else {
        all = write_peers(&p, worker, what == SELF_ROWS_SUBSCRIPTIONS);
    }
    jw_end_array(&p.w);
    return all;
}

static void put_refusal(void *user, const char *why, uint64_t count)
{
    struct jw *w = user;
    jw_begin_object(w);
    jw_put_string(w, STR("reason"), tidings_str(why));
    put_count(w, "count", count);
    jw_end_object(w);
}

void self_write_tokens(struct jw *w, const struct auth *auth)
{
    struct auth_counts c = {0};
    struct auth_fetches f = {0};
    if (auth) {
        auth_get_counts(auth, &c);
        auth_get_fetches(auth, &f);
    }
    jw_begin_object(w);
    put_count(w, "verified", c.verified);
    put_count(w, "remembered", c.remembered);
    put_count(w, "waiting", c.waiting);
    put_count(w, "malformed", c.malformed);
    put_count(w, "invalid", c.invalid);
    put_count(w, "unavailable", c.unavailable);
    jw_key(w, STR("refused"));
    jw_begin_array(w);
    if (auth) {
        auth_each_refusal(auth, put_refusal, w);
    }
    jw_end_array(w);
    put_count(w, "keyFetches", f.keys);
    put_count(w, "introspections", f.introspections);
    put_count(w, "failedFetches", f.failures);
    jw_end_object(w);
}
