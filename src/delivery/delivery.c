/* SPDX-License-Identifier: MIT
 *
 * Delivery on one worker: begin, end, and the road of a change from the hub to the outboxes.
 */
#include "delivery/delivery.h"

#include "access/allowance.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "delivery/cursor_seal.h"
#include "delivery/hub.h"
#include "delivery/lookup.h"
#include "delivery/options.h"
#include "delivery/subscriber.h"
#include "store/change.h"
#include "uri/uri.h"

/* Streams that are written to before the next are encoded, so few that their buffers stay in the
 * cache: per gathered write, and where each is a system call of its own. */
#define FLUSH_GATHERED 256u
#define FLUSH_PLAIN 32u
#define RATES_MAX 10000u /* limits remembered for subscriptions to come */

/* Periods that ended: what was held goes to the outboxes. */
static void on_window(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct worker *worker = user;
    uint64_t now = loop_now_ms(worker->loop);
    struct window *window;
    worker->delivery->window_due_ms = 0;
    while ((window = windows_due(&worker->delivery->windows, now)) != NULL) {
        subscriber_release_held(list_entry(window, struct subscription, window));
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

/* The end of a turn: encode what waits into the send buffers. */
static void flush_dirty(void *user)
{
    struct worker *worker = user;
    struct list now;
    unsigned together = sendq_batch_gathers(&worker->batch) ? FLUSH_GATHERED : FLUSH_PLAIN;
    list_init(&now);
    list_splice(&now, &worker->delivery->dirty);
    for (unsigned n = 1; !list_empty(&now); n++) {
        struct subscriber *subscriber = list_entry(now.next, struct subscriber, dirty_link);
        list_remove(&subscriber->dirty_link);
        subscriber_flush(subscriber);
        if (n % together == 0) {
            sendq_batch_flush(&worker->batch);
        }
    }
    cursor_seal_end_turn(worker->delivery->seals);
    set_window_timer(worker);
}

/* A regex without text that could be looked for, because of one client. */
static bool take_loose(void *owner)
{
    return allowance_take(owner, ALLOWANCE_LOOSE_REGEXES);
}

static void give_loose(void *owner)
{
    allowance_give_back(owner, ALLOWANCE_LOOSE_REGEXES);
}

int delivery_init(struct worker *worker, struct tidings_error *err)
{
    struct delivery *d = worker->delivery;
    struct loop *loop = worker->loop;
    match_init(&d->match);
    d->match.take_loose = take_loose;
    d->match.give_loose = give_loose;
    list_init(&d->subscribers);
    list_init(&d->dirty);
    list_init(&d->list_watchers);
    list_init(&d->covering);
    list_init(&d->bookmarked);
    windows_init(&d->windows);
    change_content_init(&d->contents, worker);
    filters_init(&d->filters);
    map_init(&d->rates);
    d->window_timer = loop_timer_open(loop, on_window, worker);
    d->list_timer = loop_timer_open(loop, list_changed_on_period, worker);
    d->bookmark_timer = loop_timer_open(loop, bookmarks_on_period, worker);
    loop_hook_add(loop, &d->flush_hook, flush_dirty, worker);
    bool has_marks =
        !hub_is_durable(worker->hub) || cursor_marks_init(&d->marks, hub_first(worker->hub));
    if (!d->window_timer || !d->list_timer || !d->bookmark_timer || !has_marks ||
        hub_attach(worker->hub, worker) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return 0;
}

/* ---- subjects and rates ---------------------------------------------------------------------- */

struct json *delivery_make_subject(const struct worker *worker, const struct change *change,
                                   bool hides_from)
{
    struct json *subject = NULL;
    struct buf text;
    buf_init(&text, change->uri_json.len + change->metadata_json.len + 64);
    buf_puts(&text, STR("{\"uri\":"));
    buf_puts(&text, change->uri_json);
    buf_puts(&text, STR(",\"metadata\":{"));
    /* With rules a filter must not tell what its subscriber is not shown. Never empty. */
    buf_puts(&text, worker->principals->rules ? change_metadata_without_version(change)
                                              : change->metadata_json);
    buf_putf(&text, ",\"change_type\":\"%s\"}}",
             hides_from ? change_kind_name(change->kind) : change_type_name(change, change->kind));
    if (!text.failed) {
        (void)jv_parse(buf_str(&text), worker->limits->max_depth + 2, &subject, NULL);
    }
    buf_deinit(&text);
    return subject;
}

struct json *delivery_subject(struct worker *worker, const struct change *change)
{
    if (worker->delivery->parsed != change) {
        change_unref(worker->delivery->parsed);
        jv_unref(worker->delivery->subject);
        worker->delivery->parsed = change_ref(change);
        worker->delivery->subject = delivery_make_subject(worker, change, false);
    }
    return worker->delivery->subject;
}

struct delivery_rate {
    uint64_t ms;
    size_t len;
    char uri[];
};

static void clear_rates(struct worker *worker)
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
        if (rate->ms > longest && match_kind_matches(sub->kind, subscription_uri(sub),
                                                     tidings_strn(rate->uri, rate->len))) {
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

void delivery_set_rules(struct worker *worker, struct option_rules *rules)
{
    option_rules_unref(worker->delivery->rules);
    worker->delivery->rules = rules;
}

void delivery_end_subscribers(struct worker *worker)
{
    list_each (it, next, &worker->delivery->subscribers) {
        subscriber_destroy(list_entry(it, struct subscriber, link));
    }
    loop_hook_remove(&worker->delivery->flush_hook);
}

void delivery_deinit(struct worker *worker)
{
    struct delivery *d = worker->delivery;
    loop_timer_close(d->list_timer);
    loop_timer_close(d->bookmark_timer);
    loop_timer_close(d->window_timer);
    cursor_marks_deinit(&d->marks);
    cursor_seal_free(d->seals);
    windows_deinit(&d->windows);
    change_content_deinit(&d->contents);
    clear_rates(worker);
    change_unref(d->parsed);
    jv_unref(d->subject);
    filters_deinit(&d->filters);
    option_rules_unref(d->rules);
    match_deinit(&d->match);
}

void delivery_find_covered(struct worker *worker, struct tidings_str uri, match_fn fn, void *user)
{
    list_each (it, next, &worker->delivery->covering) {
        struct subscription_extra *x = list_entry(it, struct subscription_extra, covers_link);
        struct tidings_provider *p = x->covering;
        struct subscription *sub = x->sub;
        if (uri_is_within(uri, p->prefix) &&
            !match_kind_matches(sub->kind, subscription_uri(sub), uri) &&
            p->ops->covers(p, subscription_uri(sub), uri)) {
            fn(user, &sub->node);
        }
    }
}

static bool is_listening(void *user, const struct subscription *sub)
{
    const struct change *change = user;
    const struct subscriber *subscriber = sub->subscriber;
    return !subscriber->catchup && !sub->catching_up && subscription_hears_live(sub, change->seq);
}

static void offer(void *user, struct match_node *node)
{
    const struct change *change = user;
    struct subscription *sub = list_entry(node, struct subscription, node);
    struct subscriber *subscriber = sub->subscriber;
    if (!subscriber->catchup && !sub->catching_up) {
        subscriber_offer(subscriber, sub, change, change->kind);
    }
}

/* Anything below `scope` may have changed: each subscription there is told to look again. */
static void offer_everything(struct worker *worker, struct tidings_str scope)
{
    list_each (pit, pnext, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(pit, struct subscriber, link);
        if (subscriber->sink && !subscriber->catchup) {
            subscriber_owe_all(subscriber, scope, worker->last_seq);
        }
    }
}

/* A letter was lost for want of room or memory. Nobody knows what it said. */
static void resync_all(struct worker *worker)
{
    log_warn("changes lost", "reason=\"no room or no memory\" worker=%u", worker->index);
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (subscriber->sink) {
            subscriber_resync(subscriber);
        }
    }
}

static void lost_deliver(struct letter *letter, void *owner)
{
    (void)letter;
    struct worker *worker = owner;
    __atomic_store_n(&worker->delivery->is_lost, false,
                     __ATOMIC_SEQ_CST); /* what is lost from now on counts */
    worker->delivery->is_resynced = true;
    resync_all(worker);
}

static void lost_drop(struct letter *letter)
{
    (void)letter; /* lies in the worker */
}

void delivery_lose(struct worker *worker)
{
    if (!__atomic_exchange_n(&worker->delivery->is_lost, true, __ATOMIC_SEQ_CST)) {
        worker->delivery->lost = (struct letter){.deliver = lost_deliver, .drop = lost_drop};
        mailbox_send(worker->mailbox, &worker->delivery->lost);
    }
}

struct log_cursor delivery_cursor(const struct worker *worker, uint64_t seq)
{
    struct log_cursor c = {
        .epoch = worker->epoch, .seq = seq, .has_position = worker->delivery->marks.ring != NULL};
    if (c.has_position) {
        c.position = cursor_marks_find(&worker->delivery->marks, seq);
    }
    return c;
}

void delivery_on_change(struct worker *worker, const struct change *change)
{
    bool gap = change->seq != worker->last_seq + 1 && !worker->delivery->is_resynced;
    worker->delivery->is_resynced = false;
    worker->last_seq = change->seq;
    if (change->position > 0) {
        cursor_marks_add(&worker->delivery->marks, change->seq, change->position);
    }
    if (gap) {
        resync_all(worker);
    }
    if (change->lists != 0) {
        list_changed_offer(worker, change->lists);
    } else if (change->everything) {
        offer_everything(worker, change_scope(change));
    } else {
        struct change *shared = (struct change *)(uintptr_t)change;
        static const struct lookup_calls calls = {is_listening, offer};
        lookup_find(worker, change, &calls, shared);
        delivery_find_covered(worker, change->uri, offer, shared);
        if (worker->principals->rules && change->kind != TIDINGS_CHANGE_UPDATED) {
            list_changed_touch(worker, change->uri, change->target);
        }
    }
}
