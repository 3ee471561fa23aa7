/* SPDX-License-Identifier: MIT
 *
 * Delivery on one worker begins and ends; between them, the end of each turn flushes what waits.
 */
#include "access/allowance.h"
#include "base/clock.h"
#include "base/loop.h"
#include "delivery/at_least.h"
#include "delivery/bookmark.h"
#include "delivery/cursor_seal.h"
#include "delivery/delivery.h"
#include "delivery/hub.h"
#include "delivery/list_changed.h"
#include "delivery/options.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "handler/handlers.h"
#include "request/request.h"
#include "store/change.h"

/* Streams that are written to before the next are encoded, so few that their buffers stay in the
 * cache: per gathered write, and where each is a system call of its own. */
#define FLUSH_GATHERED 256u
#define FLUSH_PLAIN 32u

/* Periods that ended: what was held goes to the outboxes. */
static void on_window(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct worker *worker = user;
    uint64_t now = loop_now_ms(worker->loop);
    uint32_t due = lag_due_now();
    struct window *window;
    worker->delivery->window_due_ms = 0;
    while ((window = windows_due(&worker->delivery->windows, now)) != NULL) {
        subscriber_release_held(list_entry(window, struct subscription, window), due);
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

/* The hook at the end of this turn does it. */
static void on_flush_again(void *user)
{
    (void)user;
}

/* A regex without text that could be looked for, because of one client. */
static bool take_unindexed(void *owner)
{
    return allowance_take(owner, ALLOWANCE_UNINDEXED_REGEXES);
}

static void give_back_unindexed(void *owner)
{
    allowance_give_back(owner, ALLOWANCE_UNINDEXED_REGEXES);
}

static bool delivery_is_stale(const struct worker *worker)
{
    return hub_is_store_unreachable(worker->hub);
}

void delivery_use_hub(struct worker *worker, struct hub *hub)
{
    worker->hub = hub;
    worker->limit_counters = hub_limit_counters(hub);
    worker->quotas = hub_quotas(hub);
    worker->allowances = hub_allowances(hub);
    worker->epoch = hub_epoch(hub);
    worker->last_seq = hub_last(hub);
    worker->catalog = hub_catalog(hub);
    worker->handlers->pool = hub_handlers(hub);
    worker->handlers->tasks = hub_tasks(hub);
    worker->handlers->hooks = hub_call_hooks(hub);
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
    list_init(&d->covers_subs);
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
    worker->at_least = at_least_await;
    worker->is_stale = delivery_is_stale;
    worker->requests->end_subscriber = subscriber_end_of_channel;
    bool has_marks =
        !hub_is_durable(worker->hub) || cursor_marks_init(&d->marks, hub_first(worker->hub));
    if (!d->window_timer || !d->list_timer || !d->bookmark_timer || !has_marks ||
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
    cursor_marks_deinit(&d->marks);
    cursor_seal_free(d->seals);
    windows_deinit(&d->windows);
    change_content_deinit(&d->contents);
    delivery_clear_rates(worker);
    change_unref(d->subject_of);
    jv_unref(d->subject);
    filters_deinit(&d->filters);
    option_rules_unref(d->rules);
    peer_errors_deinit(&d->errors);
    match_deinit(&d->match);
}
