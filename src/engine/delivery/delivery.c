/* SPDX-License-Identifier: MIT
 *
 * Delivery state of a whole worker: the current option rules, cursors made from change numbers, and
 * the JSON document of a change that filters evaluate.
 */
#include "engine/delivery/delivery.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/time.h"
#include "engine/catalog/provider.h"
#include "engine/delivery/catchup.h"
#include "engine/delivery/filters.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/options.h"
#include "engine/delivery/outbox.h"
#include "engine/delivery/subscribe.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "engine/match/match.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/request.h"
#include "formats/json.h"
#include "formats/uri.h"
#include "security/access.h"
#include "security/client_account.h"
#include "security/limits.h"
#include "security/principal.h"
#include "security/seal.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * Writes the log lines about subscriptions and slow readers.
 */

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

/* Start and end are access log lines if the access log is on. */
static bool is_access(enum delivery_log_kind kind)
{
    return level_of(kind) == TIDINGS_LOG_INFO && log_wants_access();
}

/* Returns true if a line may be written; *others is then the number of lines suppressed before
 * it. */
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

/* A session id is a credential: the hash in the log tells sessions apart and has no other use. */
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

/* The client's name; NULL: none. */
static const struct client_info *delivery_log_client(const struct subscriber *subscriber)
{
    return client_info_get(&subscriber->worker->requests->clients, subscriber->client);
}

/* Describes the connection that is ending with it, or its current connection. */
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

static size_t count_subscriptions(const struct subscription_group *group)
{
    size_t count = 0;
    list_each (it, next, &group->subs) {
        count++;
    }
    return count;
}

/* Subscriptions of the program itself are not logged. */
static bool is_own_program(const struct subscriber *subscriber)
{
    return subscriber->ops && subscriber->ops->on_update;
}

static void delivery_log_group(struct subscription_group *group, const char *event, uint64_t others,
                               bool has_ended)
{
    const struct subscriber *subscriber = group->subscriber;
    const struct worker *worker = subscriber->worker;
    const struct client_info *client = delivery_log_client(subscriber);
    const struct subscription_group_counts *counts = subscription_group_counts(group);
    const struct channel_facts facts = delivery_log_facts(subscriber);
    uint64_t ticks = loop_now_ms(worker->loop) / GROUP_TICK_MS + 1 - counts->begun;
    char session[HASHED];
    struct log_field fields[20] = {
        KV("peer", subscriber_id(subscriber)),
        KV("session", session_hash(subscriber, session)),
        KV("subscriptions", count_subscriptions(group)),
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
        fields[n++] = KV("duration_ms", ticks * GROUP_TICK_MS);
        fields[n++] = KV("deliveries", counts->deliveries);
        fields[n++] = KV("bytes_out", facts.bytes_out);
    }
    fields[n] = KV("others", others); /* the rest is zero: end marker */
    if (log_wants_access()) {
        log_write_access(event, fields);
    } else {
        log_write(TIDINGS_LOG_INFO, LOG_DELIVERY, event, fields);
    }
}

void delivery_log_begun(struct subscription_group *group)
{
    struct subscriber *subscriber = group->subscriber;
    struct worker *worker = subscriber->worker;
    struct subscription_group_counts *counts = subscription_group_counts(group);
    uint64_t others = 0;
    if (counts->begun > 0 || is_own_program(subscriber)) {
        return;
    }
    counts->begun = (uint32_t)(loop_now_ms(worker->loop) / GROUP_TICK_MS + 1);
    if (delivery_log_take(worker, DELIVERY_LOG_BEGUN, &others)) {
        delivery_log_group(group, "listening began", others, false);
    }
}

void delivery_log_ended(struct subscription_group *group)
{
    uint64_t others = 0;
    if (subscription_group_counts(group)->begun > 0 &&
        delivery_log_take(group->subscriber->worker, DELIVERY_LOG_ENDED, &others)) {
        delivery_log_group(group, "listening ended", others, true);
    }
}

void delivery_log_full(const struct subscriber *subscriber)
{
    uint64_t others = 0;
    if (delivery_log_take(subscriber->worker, DELIVERY_LOG_FULL, &others)) {
        const struct channel_facts facts = delivery_log_facts(subscriber);
        log_warn(LOG_DELIVERY, "slow reader: pending updates are merged",
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

static void delivery_log_change_begin(struct worker *worker)
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

static void delivery_log_change_end(struct worker *worker, const struct change *change)
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
            KV("held", t->counts[DELIVERY_DEFERRED]), KV("filtered", t->counts[DELIVERY_FILTERED]),
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
        [DELIVERY_LOG_FULL] = "slow readers: pending updates are merged",
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

/* -------------------------------------------------------------------------------------------------
 * Asks the match index which subscriptions a change concerns, and charges regex searches to the
 * clients that use the regexes.
 */

struct paid_lookup {
    struct worker *worker;
    const struct change *change;
    const struct lookup_calls *calls;
    void *user;
};

static void lookup_on_found(void *user, struct match_node *node)
{
    struct paid_lookup *l = user;
    l->calls->found(l->user, node);
}

/* Access is checked before any steps are spent. */
static bool is_concerned(const struct paid_lookup *l, const struct subscription *sub)
{
    return l->calls->concerns(l->user, sub) && filters_allow(sub->subscriber->principal, l->change);
}

static bool may_pay(void *user, struct match_node *node, uint64_t *ret_steps)
{
    struct paid_lookup *l = user;
    const struct subscription *sub = list_entry(node, struct subscription, node);
    if (!is_concerned(l, sub)) {
        return false;
    }
    *ret_steps = client_account_steps_left(sub->subscriber->account, loop_now_ms(l->worker->loop));
    return true;
}

static void lookup_on_paid(void *user, struct match_node *node, uint64_t steps)
{
    struct paid_lookup *l = user;
    const struct subscription *sub = list_entry(node, struct subscription, node);
    client_account_spend(sub->subscriber->account, steps, loop_now_ms(l->worker->loop));
}

static void lookup_on_unpaid(void *user, struct match_node *node)
{
    struct paid_lookup *l = user;
    struct subscription *sub = list_entry(node, struct subscription, node);
    if (is_concerned(l, sub)) {
        limit_hit(l->worker->limit_counters, LIMIT_PATTERN_STEPS);
        resync_flag(sub, l->change->seq);
    }
}

void lookup_find(struct worker *worker, const struct change *change,
                 const struct lookup_calls *calls, void *user)
{
    static const struct match_calls with_price = {lookup_on_found, may_pay, lookup_on_paid,
                                                  lookup_on_unpaid};
    struct paid_lookup l = {worker, change, calls, user};
    match_find_paid(&worker->delivery->match, change->uri, &with_price, &l);
}

enum lookup_answer lookup_ask(struct subscription *sub, struct tidings_str uri)
{
    struct worker *worker = sub->subscriber->worker;
    if (sub->kind != PATTERN_REGEX) {
        return pattern_matches(sub->kind, subscription_uri(sub), uri) ? LOOKUP_YES : LOOKUP_NO;
    }
    uint64_t now = loop_now_ms(worker->loop),
             left = client_account_steps_left(sub->subscriber->account, now);
    uint64_t steps = left;
    enum regex_result result = match_search(&sub->node, uri, &steps);
    client_account_spend(sub->subscriber->account, left - steps, now);
    if (result == REGEX_FOUND || result == REGEX_ABSENT) {
        return result == REGEX_FOUND ? LOOKUP_YES : LOOKUP_NO;
    }
    limit_hit(worker->limit_counters, LIMIT_PATTERN_STEPS);
    return LOOKUP_UNKNOWN;
}

/* -------------------------------------------------------------------------------------------------
 * The path of a change on one worker: from the hub's message to the outboxes of its subscribers.
 */

void delivery_find_matching(struct worker *worker, struct tidings_str uri, match_fn fn, void *user)
{
    list_each (it, next, &worker->delivery->matched_by_provider) {
        struct subscription_extra *x = list_entry(it, struct subscription_extra, matched_link);
        struct tidings_provider *p = x->covers_provider;
        struct subscription *sub = x->sub;
        if (uri_is_within(uri, p->prefix) &&
            !pattern_matches(sub->kind, subscription_uri(sub), uri) &&
            p->ops->covers(p, subscription_uri(sub), uri)) {
            fn(user, &sub->node);
        }
    }
}

static bool is_listening(void *user, const struct subscription *sub)
{
    const struct change *change = user;
    const struct subscriber *subscriber = sub->subscriber;
    return !subscriber->catchup && !sub->catching_up &&
           subscription_group_is_open_for(sub, change->seq);
}

static void delivery_change_enqueue(void *user, struct match_node *node)
{
    const struct change *change = user;
    struct subscription *sub = list_entry(node, struct subscription, node);
    struct subscriber *subscriber = sub->subscriber;
    if (!subscriber->catchup && !sub->catching_up) {
        subscriber_enqueue_change(subscriber, sub, change, change->kind);
    } else if (subscriber->worker->delivery->trace.is_on) {
        delivery_log_fate(subscriber, DELIVERY_AWAY);
    }
}

/* Anything below `scope` may have changed: each subscription there sends a `truncated` update. */
static void offer_everything(struct worker *worker, struct tidings_str scope)
{
    list_each (pit, pnext, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(pit, struct subscriber, link);
        if (subscriber->sink && !subscriber->catchup) {
            resync_flag_below(subscriber, scope, worker->last_seq);
        }
    }
}

/* A message was lost because room or memory ran out; its content is unknown. */
static void resync_all(struct worker *worker)
{
    log_warn(LOG_DELIVERY, "changes lost", KV("reason", "no room or no memory"),
             KV("worker", worker->index));
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (subscriber->sink) {
            resync_flag_all(subscriber);
        }
    }
}

static void delivery_overflow_deliver(struct thread_message *message, void *owner)
{
    (void)message;
    struct worker *worker = owner;
    __atomic_store_n(&worker->delivery->has_overflowed, false,
                     __ATOMIC_SEQ_CST); /* a message lost from now on needs another resync */
    worker->delivery->is_resynced = true;
    resync_all(worker);
}

static void delivery_overflow_drop(struct thread_message *message)
{
    (void)message; /* part of the worker */
}

void delivery_overflow(struct worker *worker)
{
    if (!__atomic_exchange_n(&worker->delivery->has_overflowed, true, __ATOMIC_SEQ_CST)) {
        worker->delivery->overflow = (struct thread_message){.deliver = delivery_overflow_deliver,
                                                             .drop = delivery_overflow_drop};
        mailbox_send(worker->mailbox, &worker->delivery->overflow);
    }
}

void delivery_on_change(struct worker *worker, const struct change *change)
{
    bool gap = change->seq != worker->last_seq + 1 && !worker->delivery->is_resynced;
    worker->delivery->is_resynced = false;
    worker->last_seq = change->seq;
    worker->stats.changes++;
    if (change->position > 0) {
        position_map_add(&worker->delivery->positions, change->seq, change->position);
    }
    if (gap) {
        resync_all(worker);
    }
    if (change->lists != 0) {
        list_changed_enqueue(worker, change->lists);
    } else if (change->everything) {
        offer_everything(worker, change_scope(change));
        if (worker->principals->rules) {
            list_changed_touch_below(worker, change_scope(change));
        }
    } else {
        struct change *shared = (struct change *)(uintptr_t)change;
        static const struct lookup_calls calls = {is_listening, delivery_change_enqueue};
        if (!change->is_mute) {
            delivery_log_change_begin(worker);
            lookup_find(worker, change, &calls, shared);
            delivery_find_matching(worker, change->uri, delivery_change_enqueue, shared);
            delivery_log_change_end(worker, change);
        }
        if (worker->principals->rules && change->kind != TIDINGS_CHANGE_UPDATED) {
            list_changed_touch(worker, change->uri, change->target);
        }
    }
}

/* -------------------------------------------------------------------------------------------------
 * Seals cursors for clients with restricted access, and keeps the seals of this turn of the loop.
 */

_Static_assert(CURSOR_TEXT >= 58 + CURSOR_GAP_TEXT, "the longest is 72 bytes");

#define PURPOSE STR("cursor")
/* Fixed size of the sealed text: otherwise its length would reveal the length of the numbers. */
#define PADDED 72u
/* In base64url, without padding. */
_Static_assert((SEAL_SALT + SEAL_NONCE + PADDED + SEAL_TAG + 2) / 3 * 4 <= CURSOR_SEALED,
               "bytes of a seal");
#define NONE STR("-") /* the seal failed: a client that resumes with this reads again */

#define PLACES 256u /* for consecutive numbers: those that one stream is sent in a turn */

struct cursor_seals {
    struct buf sealed; /* the latest seal, while it is being made */
    unsigned turn;
    struct {
        unsigned turn; /* turn of the seal */
        struct log_cursor cursor;
        size_t len;
        char text[CURSOR_SEALED];
    } at[PLACES];
};

static void cursor_seal_free(struct cursor_seals *all)
{
    if (all) {
        buf_deinit(&all->sealed);
        mem_free(all);
    }
}

/* Accepts NULL, here … */
static void cursor_seal_end_turn(struct cursor_seals *all)
{
    if (all) {
        all->turn++;
    }
}

static bool is_equal(const struct log_cursor *a, const struct log_cursor *b)
{
    return a->epoch == b->epoch && a->seq == b->seq && a->has_position == b->has_position &&
           a->position == b->position && a->gap == b->gap && a->gap_to == b->gap_to;
}

/* Writes to `out` and returns the length; 0: no randomness or memory. */
static size_t seal(struct worker *worker, const struct log_cursor *cursor, char out[CURSOR_SEALED])
{
    char plain[CURSOR_TEXT];
    struct tidings_str text = cursor_print(cursor, plain);
    memset(plain + text.len, ' ', PADDED - text.len);
    struct buf *sealed = &worker->delivery->seals->sealed;
    buf_clear(sealed);
    if (seal_put(&worker->sealer, sealed, PURPOSE, tidings_strn(plain, PADDED)) < 0) {
        return 0;
    }
    memcpy(out, sealed->ptr, sealed->len);
    return sealed->len;
}

struct tidings_str cursor_seal_make(struct worker *worker, const struct principal *principal,
                                    const struct log_cursor *cursor)
{
    if (access_is_full(principal)) {
        return STR_EMPTY;
    }
    if (!worker->delivery->seals) {
        worker->delivery->seals = mem_zalloc(sizeof(*worker->delivery->seals));
        if (worker->delivery->seals) {
            buf_init(&worker->delivery->seals->sealed, CURSOR_SEALED);
            cursor_seal_end_turn(worker->delivery->seals); /* no entry is from this turn */
        }
    }
    struct cursor_seals *all = worker->delivery->seals;
    if (!all) {
        return NONE;
    }
    size_t i = cursor->seq % PLACES;
    if (all->at[i].turn != all->turn || !is_equal(&all->at[i].cursor, cursor)) {
        all->at[i].len = seal(worker, cursor, all->at[i].text);
        all->at[i].cursor = *cursor;
        all->at[i].turn = all->turn;
    }
    return all->at[i].len > 0 ? tidings_strn(all->at[i].text, all->at[i].len) : NONE;
}

struct tidings_str cursor_seal_put(struct worker *worker, const struct principal *principal,
                                   const struct log_cursor *cursor, char out[CURSOR_TEXT])
{
    struct tidings_str sealed = cursor_seal_make(worker, principal, cursor);
    return sealed.len > 0 ? sealed : cursor_print(cursor, out);
}

bool cursor_seal_open(struct worker *worker, const struct principal *principal,
                      struct tidings_str text, struct log_cursor *ret)
{
    if (cursor_parse(text, ret)) {
        return access_is_full(principal);
    }
    struct buf plain;
    buf_init(&plain, CURSOR_SEALED);
    bool good = text.len <= CURSOR_SEALED &&
                seal_open(&worker->sealer, &plain, PURPOSE, text) == 0 &&
                cursor_parse(str_trim(buf_str(&plain), " "), ret);
    buf_deinit(&plain);
    return good;
}

/* -------------------------------------------------------------------------------------------------
 * The histogram of waiting times: all since the start, and the last two periods.
 */

void lag_counts_add(struct lag_counts *to, const struct lag_counts *from)
{
    durations_add(&to->waited, &from->waited);
    to->max_us = from->max_us > to->max_us ? from->max_us : to->max_us;
}

uint64_t lag_counts_quantile(const struct lag_counts *c, unsigned per_mille)
{
    uint64_t all = durations_total(&c->waited), below = 0;
    uint64_t wanted = (all * per_mille + 999) / 1000;
    for (size_t i = 0; i < DURATIONS_BUCKETS; i++) {
        uint64_t n = c->waited.buckets[i], low = i > 0 ? durations_bounds_us[i - 1] : 0;
        uint64_t high = i < DURATIONS_BUCKETS - 1 ? durations_bounds_us[i] : c->max_us;
        high = high > c->max_us ? c->max_us : high;
        if (n > 0 && below + n >= wanted) {
            return high > low ? low + (high - low) * (wanted - below) / n : high;
        }
        below += n;
    }
    return 0;
}

uint32_t lag_due_now(void)
{
    return lag_due(clock_monotonic_ns() / 1000);
}

void lag_begin_flush(struct lag *lag, uint64_t now_us)
{
    lag->now_us = now_us;
    if (now_us - lag->period_us >= LAG_RECENT_US) {
        bool is_old = now_us - lag->period_us >= 2ull * LAG_RECENT_US;
        lag_counts_add(&lag->before, &lag->recent[1]);
        if (is_old) {
            lag_counts_add(&lag->before, &lag->recent[0]);
        }
        lag->recent[1] = is_old ? (struct lag_counts){0} : lag->recent[0];
        lag->recent[0] = (struct lag_counts){0};
        lag->period_us = now_us;
    }
}

void lag_count(struct lag *lag, uint64_t waited_us)
{
    struct lag_counts *c = &lag->recent[0];
    durations_count(&c->waited, waited_us);
    c->max_us = waited_us > c->max_us ? waited_us : c->max_us;
}

void lag_total(const struct lag *lag, struct lag_counts *ret)
{
    *ret = lag->before;
    lag_counts_add(ret, &lag->recent[0]);
    lag_counts_add(ret, &lag->recent[1]);
}

void lag_recent(const struct lag *lag, uint64_t now_us, struct lag_counts *ret)
{
    uint64_t age = now_us - lag->period_us;
    *ret = (struct lag_counts){0};
    if (age < 2ull * LAG_RECENT_US) {
        lag_counts_add(ret, &lag->recent[0]);
    }
    if (age < LAG_RECENT_US) {
        lag_counts_add(ret, &lag->recent[1]);
    }
}

/* -------------------------------------------------------------------------------------------------
 * The table of last errors: freed slots are reused first.
 */

#define CLIENT_ERROR_FIRST 8u

static void client_errors_deinit(struct client_errors *all)
{
    mem_free(all->at);
    *all = (struct client_errors){0};
}

/* Returns 0 if the table is full. */
static uint32_t client_errors_take_slot(struct client_errors *all)
{
    if (all->free > 0) {
        uint32_t slot = all->free;
        all->free = all->at[slot - 1].next_free;
        return slot;
    }
    if (all->count == all->cap) {
        uint32_t cap = all->cap ? all->cap * 2 : CLIENT_ERROR_FIRST;
        struct client_error *at =
            cap <= CLIENT_ERROR_MAX ? mem_realloc(all->at, cap * sizeof(*at)) : NULL;
        if (!at) {
            return 0;
        }
        all->at = at;
        all->cap = cap;
    }
    return ++all->count;
}

void client_errors_note(struct client_errors *all, uint32_t *slot, int code,
                        struct tidings_str text)
{
    if (*slot == 0) {
        *slot = client_errors_take_slot(all);
    }
    if (*slot == 0) {
        return;
    }
    struct client_error *e = &all->at[*slot - 1];
    size_t len = text.len < CLIENT_ERROR_TEXT ? text.len : CLIENT_ERROR_TEXT - 1;
    while (len > 0 && len < text.len && ((unsigned char)text.ptr[len] & 0xc0u) == 0x80u) {
        len--;
    }
    e->at_ms = clock_wall_coarse_ms();
    e->code = code;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        e->text[i] = c < 0x20 || c == 0x7f ? ' ' : text.ptr[i];
    }
    e->text[len] = '\0';
}

void client_errors_forget(struct client_errors *all, uint32_t *slot)
{
    if (*slot > 0) {
        all->at[*slot - 1].next_free = all->free;
        all->free = *slot;
        *slot = 0;
    }
}

const struct client_error *client_errors_get(const struct client_errors *all, uint32_t slot)
{
    return slot > 0 ? &all->at[slot - 1] : NULL;
}

/* -------------------------------------------------------------------------------------------------
 * Rate limits of notifications, set by the program at run time for resources that match a URI.
 */

#define RATES_MAX 10000u /* limits kept for future subscriptions */

struct delivery_rate {
    uint64_t ms;
    size_t len;
    char uri[];
};

static void delivery_clear_rates(struct worker *worker)
{
    size_t pos = 0;
    void *rate;
    while ((rate = map_next(&worker->delivery->rates, &pos)) != NULL) {
        mem_free(rate);
    }
    map_deinit(&worker->delivery->rates);
}

uint64_t delivery_rate(const struct worker *worker, const struct subscription *sub)
{
    uint64_t longest = 0;
    size_t pos = 0;
    const struct delivery_rate *rate;
    while ((rate = map_next(&worker->delivery->rates, &pos)) != NULL) {
        if (rate->ms > longest &&
            pattern_matches(sub->kind, subscription_uri(sub), tidings_strn(rate->uri, rate->len))) {
            longest = rate->ms;
        }
    }
    return longest;
}

static void apply_rate(void *user, struct match_node *node)
{
    struct subscription *sub = list_entry(node, struct subscription, node);
    subscription_set_rate(sub, *(uint64_t *)user);
}

void delivery_set_rate(struct worker *worker, struct tidings_str uri, uint64_t ms)
{
    mem_free(map_remove(&worker->delivery->rates, uri));
    struct delivery_rate *rate = ms > 0 && worker->delivery->rates.count < RATES_MAX
                                     ? mem_zalloc(sizeof(*rate) + uri.len)
                                     : NULL;
    if (rate) {
        rate->ms = ms;
        rate->len = uri.len;
        memcpy(rate->uri, uri.ptr, uri.len);
        if (map_put(&worker->delivery->rates, tidings_strn(rate->uri, rate->len), rate, NULL) < 0) {
            mem_free(rate);
        }
    }
    match_find(&worker->delivery->match, uri, apply_rate, &ms);
}

/* -------------------------------------------------------------------------------------------------
 * Starts and stops delivery on one worker; the end of each turn flushes pending notifications.
 */

/* Streams written before the next ones are encoded. Few enough that their buffers stay in the
 * cache: per gathered write, and without io_uring, where each write is a separate system call. */
#define FLUSH_GATHERED 256u
#define FLUSH_PLAIN 32u

/* Periods ended: held changes move to the outboxes. */
static void on_window(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct worker *worker = user;
    uint64_t now = loop_now_ms(worker->loop);
    uint32_t due = lag_due_now();
    struct window *window;
    worker->delivery->window_due_ms = 0;
    while ((window = windows_due(&worker->delivery->windows, now)) != NULL) {
        subscriber_release_deferred(list_entry(window, struct subscription, window), due);
    }
}

static void set_window_timer(struct worker *worker)
{
    uint64_t next = windows_next(&worker->delivery->windows);
    if (next == UINT64_MAX ||
        (worker->delivery->window_due_ms != 0 && worker->delivery->window_due_ms <= next)) {
        return;
    }
    uint64_t now = loop_now_ms(worker->loop);
    worker->delivery->window_due_ms = next;
    loop_timer_start(worker->delivery->window_timer, next > now ? next - now : 0, 0);
}

/* The end of a turn: encodes pending notifications into the send buffers. */
static void flush_dirty(void *user)
{
    struct worker *worker = user;
    struct list now;
    unsigned together = sendq_batch_gathers(&worker->batch) ? FLUSH_GATHERED : FLUSH_PLAIN;
    list_init(&now);
    list_splice(&now, &worker->delivery->dirty);
    if (!list_empty(&now)) {
        lag_begin_flush(&worker->delivery->lag, clock_monotonic_ns() / 1000);
    }
    for (unsigned n = 1; !list_empty(&now); n++) {
        struct subscriber *subscriber = list_entry(now.next, struct subscriber, dirty_link);
        list_remove(&subscriber->dirty_link);
        subscriber_flush(subscriber);
        subscriber_note_behind(subscriber);
        if (n % together == 0) {
            sendq_batch_flush(&worker->batch);
            worker->delivery->lag.now_us = clock_monotonic_ns() / 1000;
        }
    }
    cursor_seal_end_turn(worker->delivery->seals);
    set_window_timer(worker);
    requests_send_ready(worker);
}

bool delivery_drained(struct channel *channel)
{
    bool has_next = !list_empty(&channel->requests) && request_next_ready(channel);
    if (has_next) {
        loop_wakeup_send(&channel->worker->delivery->flush_again);
    }
    return has_next;
}

/* The hook at the end of this turn flushes. */
static void on_flush_again(void *user)
{
    (void)user;
}

/* Counts one client's regex that has no text to index it by. */
static bool take_unindexed(void *owner)
{
    return client_account_take(owner, CLIENT_ACCOUNT_UNINDEXED_REGEXES);
}

static void give_back_unindexed(void *owner)
{
    client_account_give_back(owner, CLIENT_ACCOUNT_UNINDEXED_REGEXES);
}

void delivery_use_hub(struct worker *worker, struct hub *hub)
{
    worker->hub = hub;
    worker->epoch = hub_epoch(hub);
    worker->last_seq = hub_last(hub);
    worker->catalog = hub_catalog(hub);
    for (unsigned i = 0; i < FEATURE_KINDS; i++) {
        worker->handlers->features[i] = hub_features(hub, (enum feature_kind)i);
    }
}

int delivery_init(struct worker *worker, struct tidings_error *err)
{
    struct delivery *d = worker->delivery;
    struct loop *loop = worker->loop;
    match_init(&d->match);
    d->match.take_unindexed = take_unindexed;
    d->match.give_back_unindexed = give_back_unindexed;
    list_init(&d->subscribers);
    list_init(&d->dirty);
    list_init(&d->behind);
    list_init(&d->list_watchers);
    list_init(&d->matched_by_provider);
    list_init(&d->bookmarked);
    windows_init(&d->windows);
    change_content_init(&d->contents, worker);
    filters_init(&d->filters);
    map_init(&d->rates);
    d->window_timer = loop_timer_open(loop, on_window, worker);
    d->list_timer = loop_timer_open(loop, list_changed_on_period, worker);
    d->bookmark_timer = loop_timer_open(loop, bookmark_on_period, worker);
    loop_hook_add(loop, &d->flush_hook, flush_dirty, worker);
    loop_wakeup_init(&d->flush_again, loop, on_flush_again, NULL);
    worker->requests->end_subscriber = subscriber_end_of_channel;
    bool has_positions =
        !hub_is_durable(worker->hub) || position_map_init(&d->positions, hub_first(worker->hub));
    if (!d->window_timer || !d->list_timer || !d->bookmark_timer || !has_positions ||
        hub_attach(worker->hub, worker) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return 0;
}

void delivery_end_subscribers(struct worker *worker)
{
    list_each (it, next, &worker->delivery->subscribers) {
        subscriber_destroy(list_entry(it, struct subscriber, link));
    }
    loop_hook_remove(&worker->delivery->flush_hook);
    loop_wakeup_deinit(&worker->delivery->flush_again);
}

void delivery_deinit(struct worker *worker)
{
    struct delivery *d = worker->delivery;
    loop_timer_close(d->list_timer);
    loop_timer_close(d->bookmark_timer);
    loop_timer_close(d->window_timer);
    position_map_deinit(&d->positions);
    cursor_seal_free(d->seals);
    windows_deinit(&d->windows);
    change_content_deinit(&d->contents);
    delivery_clear_rates(worker);
    change_unref(d->subject_of);
    jv_unref(d->subject);
    filters_deinit(&d->filters);
    option_rules_unref(d->rules);
    client_errors_deinit(&d->errors);
    match_deinit(&d->match);
}

/* ---------------------------------------------------------------------------------------------- */

void delivery_set_rules(struct worker *worker, struct option_rules *rules)
{
    option_rules_unref(worker->delivery->rules);
    worker->delivery->rules = rules;
}

struct log_cursor delivery_cursor(const struct worker *worker, uint64_t seq)
{
    struct log_cursor c = {.epoch = worker->epoch,
                           .seq = seq,
                           .has_position = worker->delivery->positions.ring != NULL};
    if (c.has_position) {
        c.position = position_map_find(&worker->delivery->positions, seq);
    }
    return c;
}

struct json *delivery_make_subject(const struct worker *worker, const struct change *change,
                                   bool hides_from)
{
    struct json *subject = NULL;
    struct buf text;
    bool leads = change_names_destination(change, change->kind, hides_from);
    struct tidings_str uri = leads ? change->to_json : change->uri_json;
    buf_init(&text, uri.len + change->metadata_json.len + 64);
    buf_puts(&text, STR("{\"uri\":"));
    buf_puts(&text, uri);
    buf_puts(&text, STR(",\"metadata\":{"));
    /* With access rules, a filter must not reveal metadata that its subscriber may not see. Never
     * empty. */
    buf_puts(&text, worker->principals->rules ? change_metadata_without_version(change)
                                              : change->metadata_json);
    buf_putf(&text, ",\"change_type\":\"%s\"}}",
             hides_from ? tidings_change_name(change->kind)
                        : change_type_name(change, change->kind));
    if (!text.failed) {
        (void)jv_parse(buf_str(&text), worker->limits->max_depth + 2, &subject, NULL);
    }
    buf_deinit(&text);
    return subject;
}

struct json *delivery_subject(struct worker *worker, const struct change *change)
{
    if (worker->delivery->subject_of != change) {
        change_unref(worker->delivery->subject_of);
        jv_unref(worker->delivery->subject);
        worker->delivery->subject_of = change_ref(change);
        worker->delivery->subject = delivery_make_subject(worker, change, false);
    }
    return worker->delivery->subject;
}
