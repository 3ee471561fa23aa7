/* SPDX-License-Identifier: MIT
 *
 * Writes what the log says of subscriptions and slow readers.
 */
#include "delivery/delivery_log.h"

#include <stdio.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/sha256.h"
#include "base/str.h"
#include "delivery/delivery.h"
#include "delivery/listen.h"
#include "delivery/outbox.h"
#include "delivery/subscriber.h"
#include "request/access_log.h"
#include "request/channel.h"
#include "request/request.h"
#include "store/change.h"

#define EACH_MS 1000u

static const struct token_bucket_rule lines_rule = {
    .count = DELIVERY_LOG_RATE, .burst = DELIVERY_LOG_BURST, .period_ms = 1000};
static const struct token_bucket_rule changes_rule = {
    .count = DELIVERY_LOG_CHANGES, .burst = DELIVERY_LOG_CHANGES, .period_ms = 1000};

static const struct token_bucket_rule *rule_of(enum delivery_log_kind kind)
{
    return kind == DELIVERY_LOG_CHANGE ? &changes_rule : &lines_rule;
}

static enum tidings_log_level level_of(enum delivery_log_kind kind)
{
    return kind == DELIVERY_LOG_CHANGE                             ? TIDINGS_LOG_DEBUG
           : kind == DELIVERY_LOG_FULL || kind == DELIVERY_LOG_CUT ? TIDINGS_LOG_WARNING
                                                                   : TIDINGS_LOG_INFO;
}

/* Begin and end are lines of requests where these are wanted. */
static bool is_access(enum delivery_log_kind kind)
{
    return level_of(kind) == TIDINGS_LOG_INFO && log_wants_access();
}

/* Is a line due? Then *others were left out before it. */
static bool delivery_log_take(struct worker *worker, enum delivery_log_kind kind, uint64_t *others)
{
    struct delivery_log *log = &worker->delivery->log;
    uint64_t now = loop_now_ms(worker->loop);
    if (!is_access(kind)) {
        if (!log_wants(level_of(kind), LOG_DELIVERY)) {
            return false;
        }
        if (token_bucket_take(&log->lines[kind], rule_of(kind), now) > 0) {
            log->left_out[kind]++;
            log->due_ms = log->due_ms > 0 ? log->due_ms : now + EACH_MS;
            return false;
        }
    }
    *others = log->left_out[kind];
    log->left_out[kind] = 0;
    return true;
}

#define HASHED 9u

/* The id of a session is a credential: what is said of it tells sessions apart, and is good for
 * nothing else. */
static const char *session_hash(const struct subscriber *subscriber, char out[HASHED])
{
    if (!subscriber->ops || !subscriber->ops->session_id) {
        return NULL;
    }
    struct tidings_str id = subscriber->ops->session_id(subscriber);
    unsigned char digest[SHA256_BYTES];
    struct sha256 hash;
    sha256_init(&hash);
    sha256_put(&hash, id.ptr, id.len);
    sha256_end(&hash, digest);
    snprintf(out, HASHED, "%02x%02x%02x%02x", digest[0], digest[1], digest[2], digest[3]);
    return out;
}

/* What it calls itself; NULL: nothing. */
static const struct client_info *delivery_log_client(const struct subscriber *subscriber)
{
    return client_info_get(&subscriber->worker->requests->clients, subscriber->client);
}

/* Of the connection that it goes with, or that it has. */
static struct channel_facts delivery_log_facts(const struct subscriber *subscriber)
{
    struct channel_facts facts = {.listener = NULL};
    if (subscriber->worker->ending_facts) {
        return *subscriber->worker->ending_facts;
    }
    subscriber_get_facts(subscriber, &facts);
    return facts;
}

static struct tidings_str text_or_nothing(const char *text)
{
    return text && text[0] ? tidings_str(text) : ACCESS_LOG_NOTHING;
}

static size_t count_subscriptions(const struct listen *listen)
{
    size_t count = 0;
    list_each (it, next, &listen->subs) {
        count++;
    }
    return count;
}

/* What the program itself has subscribed is nobody's affair. */
static bool is_own_program(const struct subscriber *subscriber)
{
    return subscriber->ops && subscriber->ops->on_update;
}

static void delivery_log_listen(struct listen *listen, const char *event, uint64_t others,
                                bool has_ended)
{
    const struct subscriber *subscriber = listen->subscriber;
    const struct worker *worker = subscriber->worker;
    const struct client_info *client = delivery_log_client(subscriber);
    const struct listen_counts *counts = listen_counts(listen);
    const struct channel_facts facts = delivery_log_facts(subscriber);
    uint64_t ticks = loop_now_ms(worker->loop) / LISTEN_TICK_MS + 1 - counts->begun;
    char session[HASHED];
    struct log_field fields[20] = {
        KV("peer", subscriber_id(subscriber)),
        KV("session", session_hash(subscriber, session)),
        KV("subscriptions", count_subscriptions(listen)),
        KV("principal", access_log_name(subscriber->principal)),
        KV("by", principal_by(subscriber->principal)),
        KV("address", text_or_nothing(facts.address)),
        KV("listener", facts.listener),
        KV("client", client ? client->name : ACCESS_LOG_NOTHING),
        KV("client_version", client ? client->version : ACCESS_LOG_NOTHING),
    };
    size_t n = 9;
    if (has_ended) {
        fields[n++] = KV("reason", worker->ending ? worker->ending : "the client has gone");
        fields[n++] = KV("duration_ms", ticks * LISTEN_TICK_MS);
        fields[n++] = KV("deliveries", counts->deliveries);
        fields[n++] = KV("bytes_out", facts.bytes_out);
    }
    fields[n] = KV("others", others); /* the rest is zero: the end */
    if (log_wants_access()) {
        log_write_access(event, fields);
    } else {
        log_write(TIDINGS_LOG_INFO, LOG_DELIVERY, event, fields);
    }
}

void delivery_log_begun(struct listen *listen)
{
    struct subscriber *subscriber = listen->subscriber;
    struct worker *worker = subscriber->worker;
    struct listen_counts *counts = listen_counts(listen);
    uint64_t others = 0;
    if (counts->begun > 0 || is_own_program(subscriber)) {
        return;
    }
    counts->begun = (uint32_t)(loop_now_ms(worker->loop) / LISTEN_TICK_MS + 1);
    if (delivery_log_take(worker, DELIVERY_LOG_BEGUN, &others)) {
        delivery_log_listen(listen, "listening began", others, false);
    }
}

void delivery_log_ended(struct listen *listen)
{
    uint64_t others = 0;
    if (listen_counts(listen)->begun > 0 &&
        delivery_log_take(listen->subscriber->worker, DELIVERY_LOG_ENDED, &others)) {
        delivery_log_listen(listen, "listening ended", others, true);
    }
}

void delivery_log_full(const struct subscriber *subscriber)
{
    uint64_t others = 0;
    if (delivery_log_take(subscriber->worker, DELIVERY_LOG_FULL, &others)) {
        const struct channel_facts facts = delivery_log_facts(subscriber);
        log_warn(LOG_DELIVERY, "slow reader: what waits for it is merged",
                 KV("peer", subscriber_id(subscriber)),
                 KV("waiting", (uint64_t)subscriber->outbox.count),
                 KV("principal", access_log_name(subscriber->principal)),
                 KV("by", principal_by(subscriber->principal)),
                 KV("address", text_or_nothing(facts.address)), KV("others", others));
    }
}

void delivery_log_cut(const struct channel *channel, size_t unsent_bytes, uint64_t lag_ms,
                      const char *reason)
{
    uint64_t others = 0;
    if (delivery_log_take(channel->worker, DELIVERY_LOG_CUT, &others)) {
        struct channel_facts facts;
        channel_get_facts(channel, &facts);
        log_warn(LOG_DELIVERY, "slow reader cut", KV("reason", reason),
                 KV("unsent_bytes", unsent_bytes),
                 KV("lag_ms", facts.stalled_ms > lag_ms ? facts.stalled_ms : lag_ms),
                 KV("principal", access_log_name(channel->principal)),
                 KV("by", principal_by(channel->principal)),
                 KV("address", text_or_nothing(facts.address)), KV("transport", channel->ops->name),
                 KV("others", others));
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

void delivery_log_change_begin(struct worker *worker)
{
    struct delivery_trace *t = &worker->delivery->trace;
    t->is_on = log_wants(TIDINGS_LOG_DEBUG, LOG_DELIVERY);
    if (t->is_on) {
        memset(t->counts, 0, sizeof(t->counts));
        t->text_len = 0;
        t->text[0] = '\0';
    }
}

static const char *const fate_names[DELIVERY_FATES] = {"sent",    "held", "filtered", "hidden",
                                                       "rereads", "away", "once"};

void delivery_log_fate(const struct subscriber *subscriber, enum delivery_fate fate)
{
    struct delivery_trace *t = &subscriber->worker->delivery->trace;
    t->counts[fate]++;
    if (fate != DELIVERY_SENT && t->text_len + 40 < sizeof(t->text)) {
        int n = snprintf(t->text + t->text_len, sizeof(t->text) - t->text_len, "%s%llu %s",
                         t->text_len > 0 ? ", " : "", (unsigned long long)subscriber_id(subscriber),
                         fate_names[fate]);
        t->text_len += n > 0 ? (uint32_t)n : 0;
    }
}

void delivery_log_change_end(struct worker *worker, const struct change *change)
{
    struct delivery_trace *t = &worker->delivery->trace;
    uint64_t others = 0, matched = 0;
    for (unsigned i = 0; t->is_on && i < DELIVERY_FATES; i++) {
        matched += t->counts[i];
    }
    bool is_said = t->is_on && (matched > 0 || worker->index == 0);
    t->is_on = false;
    if (is_said && delivery_log_take(worker, DELIVERY_LOG_CHANGE, &others)) {
        log_debug(
            LOG_DELIVERY, "change", KV("uri", change->uri), KV("number", change->seq),
            KV("kind", change_type_name(change, change->kind)), KV("worker", worker->index),
            KV("matched", matched), KV("sent", t->counts[DELIVERY_SENT]),
            KV("held", t->counts[DELIVERY_HELD]), KV("filtered", t->counts[DELIVERY_FILTERED]),
            KV("hidden", t->counts[DELIVERY_HIDDEN]), KV("rereads", t->counts[DELIVERY_REREADS]),
            KV("away", t->counts[DELIVERY_AWAY]), KV("once", t->counts[DELIVERY_ONCE]),
            KV("not_sent_to",
               t->text_len > 0 ? tidings_strn(t->text, t->text_len) : ACCESS_LOG_NOTHING),
            KV("others", others));
    }
}

void delivery_log_left_out(struct worker *worker, uint64_t now_ms)
{
    static const char *const events[] = {
        [DELIVERY_LOG_BEGUN] = "listening began",
        [DELIVERY_LOG_ENDED] = "listening ended",
        [DELIVERY_LOG_FULL] = "slow readers: what waits for them is merged",
        [DELIVERY_LOG_CUT] = "slow readers cut",
        [DELIVERY_LOG_CHANGE] = "changes",
    };
    struct delivery_log *log = &worker->delivery->log;
    log->due_ms = 0;
    for (unsigned i = 0; i < DELIVERY_LOG_KINDS; i++) {
        if (log->left_out[i] == 0) {
            continue;
        }
        if (token_bucket_take(&log->lines[i], rule_of((enum delivery_log_kind)i), now_ms) > 0) {
            log->due_ms = now_ms + EACH_MS;
            continue;
        }
        log_at(level_of((enum delivery_log_kind)i), LOG_DELIVERY, events[i],
               KV("others", log->left_out[i]));
        log->left_out[i] = 0;
    }
}
