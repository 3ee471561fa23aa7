/* SPDX-License-Identifier: MIT
 *
 * Writes the rows of tidings://self/stats, /peers and /subscriptions. Subscribers of a worker
 * are in the order of their numbers already.
 */
#include "server/status_rows.h"

#include <stdio.h>

#include "access/failures.h"
#include "access/limit.h"
#include "access/owned_uri.h"
#include "access/share.h"
#include "auth/auth.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "base/str.h"
#include "delivery/listen.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "request/channel.h"
#include "request/request.h"
#include "transport/peer_identity.h"
#include "json/write.h"

#define SESSION_HASH_BYTES 4u
#define SHOWN_ID_DIGITS 8u /* of the id of a task */

bool status_after_parse(struct tidings_str text, struct status_after *ret)
{
    struct tidings_str index;
    bool has_index = false;
    struct tidings_str peer = str_cut(text, '.', &index, &has_index);
    struct status_after after = {.index = UINT64_MAX};
    if (!str_to_u64(peer, &after.peer) || (has_index && !str_to_u64(index, &after.index))) {
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
    uint64_t now_us;
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

static void put_principal(struct jw *w, const struct principal *principal)
{
    if (!principal) {
        jw_put_string(w, STR("by"), STR("program"));
        return;
    }
    if (principal->name.len > 0) {
        jw_put_string(w, STR("principal"), principal->name);
    }
    jw_put_string(w, STR("by"), tidings_str(principal_kind_name(principal->kind)));
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
    const char *dot = memchr(row, '.', n > 0 ? (size_t)n : 0);
    size_t len = n > 0 ? (size_t)n : 0;
    jw_begin_object(&p->w);
    jw_put_string(&p->w, STR("row"), tidings_strn(row, len));
    jw_put_string(&p->w, STR("peer"), tidings_strn(row, dot ? (size_t)(dot - row) : len));
    status_rows_put_count(&p->w, "worker", subscriber->worker->index);
    p->rows++;
}

/* The id of a session is a secret: whoever has it is let in. */
static void put_session(struct jw *w, const struct subscriber *subscriber)
{
    struct tidings_str id = subscriber->ops && subscriber->ops->session_id
                                ? subscriber->ops->session_id(subscriber)
                                : STR_EMPTY;
    unsigned char hash[SHA256_BYTES];
    char text[2 * SESSION_HASH_BYTES + 1];
    if (id.len == 0) {
        return;
    }
    struct sha256 sha;
    sha256_init(&sha);
    sha256_put(&sha, id.ptr, id.len);
    sha256_end(&sha, hash);
    for (size_t i = 0; i < SESSION_HASH_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    }
    jw_put_string(w, STR("session"), tidings_str(text));
}

/* Where it comes from and what it calls itself. */
static void status_rows_put_client(struct jw *w, const struct subscriber *subscriber,
                                   const struct channel_facts *facts)
{
    const struct client_info *client =
        client_info_get(&subscriber->worker->requests->clients, subscriber->client);
    if (facts->address[0]) {
        jw_put_string(w, STR("address"), tidings_str(facts->address));
    }
    if (client) {
        jw_key(w, STR("client"));
        jw_begin_object(w);
        jw_put_string(w, STR("name"), client->name);
        jw_put_string(w, STR("version"), client->version);
        jw_end_object(w);
    }
}

void status_put_who(struct jw *w, const struct subscriber *subscriber)
{
    struct channel_facts facts;
    subscriber_get_facts(subscriber, &facts);
    put_principal(w, subscriber->principal);
    status_rows_put_client(w, subscriber, &facts);
}

/* … and how it comes. */
static void put_origin(struct jw *w, const struct subscriber *subscriber,
                       const struct channel_facts *facts)
{
    status_rows_put_client(w, subscriber, facts);
    jw_put_string(w, STR("listener"),
                  facts->listener ? tidings_str(facts->listener) : STR("program"));
    jw_put_string(w, STR("transport"),
                  subscriber->sink ? tidings_str(subscriber->sink->ops->name) : STR("none"));
    jw_put_string(w, STR("era"), subscriber->is_modern ? STR("modern") : STR("legacy"));
    put_session(w, subscriber);
    jw_put_integer(w, STR("sinceMs"), (int64_t)subscriber->created_s * 1000);
}

static void write_peer(struct page *p, const struct subscriber *subscriber)
{
    struct jw *w = &p->w;
    struct channel_facts facts;
    const struct peer_error *error =
        peer_errors_get(&subscriber->worker->delivery->errors, subscriber->error);
    subscriber_get_facts(subscriber, &facts);
    peer_identity_ask_kernel(facts.fd, &facts);
    uint64_t lag_ms = subscriber_lag_us(subscriber, p->now_us) / 1000;
    status_rows_begin_row(p, subscriber, UINT64_MAX);
    put_principal(w, subscriber->principal);
    put_origin(w, subscriber, &facts);
    status_rows_put_count(w, "listens", subscriber->listen_count);
    status_rows_put_count(w, "subscriptions", subscriber->subscription_count);
    status_rows_put_count(w, "waiting", subscriber->outbox.count);
    status_rows_put_count(w, "held", subscriber->held_count);
    status_rows_put_count(
        w, "unsentBytes",
        facts.kernel_bytes +
            (subscriber->sink ? subscriber->sink->ops->pending(subscriber->sink) : 0));
    status_rows_put_count(w, "lagMs", lag_ms > facts.stalled_ms ? lag_ms : facts.stalled_ms);
    status_rows_put_count(w, "bytesOut", facts.bytes_out);
    uint64_t received = facts.bytes_in > 0 ? facts.bytes_in
                        : facts.fd > 0     ? peer_identity_received(facts.fd)
                                           : 0;
    if (received > 0) { /* a Unix socket with HTTP does not say */
        status_rows_put_count(w, "bytesIn", received);
    }
    if (error) {
        jw_put_string(w, STR("lastError"), tidings_str(error->text));
        jw_put_integer(w, STR("lastErrorCode"), error->code);
        jw_put_integer(w, STR("lastErrorMs"), error->at_ms);
    }
    status_rows_put_count(w, "cursor", subscriber_low_water(subscriber));
    jw_end_object(w);
}

struct tidings_str status_shown_uri(const struct subscription *sub)
{
    const size_t most = sizeof(OWNED_URI_PREFIX) - 1 + SHOWN_ID_DIGITS;
    struct tidings_str uri = subscription_uri(sub);
    return !owned_uri_is(uri) ? subscription_spelled(sub)
           : uri.len > most   ? tidings_strn(uri.ptr, most)
                              : uri;
}

static void write_subscription(struct page *p, const struct subscription *sub, uint64_t index)
{
    struct jw *w = &p->w;
    status_rows_begin_row(p, sub->subscriber, index);
    status_put_who(w, sub->subscriber);
    jw_put_string(w, STR("subscribedUri"), status_shown_uri(sub));
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
    bool is_first = subscriber_id(subscriber) == p->after.peer;
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
        if (subscriber_id(subscriber) < p->after.peer ||
            (!subscriptions && subscriber_id(subscriber) == p->after.peer)) {
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
        if (limit_is_shared(limit)) {
            uint64_t value = counters->values[i];
            status_rows_put_count(w, "share", share_part(counters, value));
            status_rows_put_count(w, "reserve", share_reserve(value));
            status_rows_put_count(w, "shareReached",
                                  __atomic_load_n(&counters->share_hits[i], __ATOMIC_RELAXED));
        }
        status_rows_put_count(w, "reached", __atomic_load_n(&counters->hits[i], __ATOMIC_RELAXED));
        jw_end_object(w);
    }
    jw_end_array(w);
}

bool status_write_rows(struct buf *out, const struct worker *worker, enum status_rows what,
                       const struct status_after *after)
{
    struct page p = {
        .out = out, .before = out->len, .after = *after, .now_us = clock_monotonic_ns() / 1000};
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
