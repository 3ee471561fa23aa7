/* SPDX-License-Identifier: MIT
 *
 * A worker's worker: begin, end, and the road of a change from the hub to the outboxes.
 */
#include "delivery/core.h"

#include <poll.h>

#include "access/allowance.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "delivery/hub.h"
#include "delivery/lookup.h"
#include "delivery/subscriber.h"
#include "protocol/session.h"
#include "request/request.h"
#include "store/change.h"
#include "uri/uri.h"

#define TICK_MIN_MS 100u /* between two looks at what has been there too long */
#define WALL_MS 60000    /* the clock on the wall may be set: it is asked again */
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
    worker->window_due_ms = 0;
    while ((window = windows_due(&worker->windows, now)) != NULL) {
        subscriber_release_held(list_entry(window, struct subscription, window));
    }
}

static void set_window_timer(struct worker *worker)
{
    uint64_t next = windows_next(&worker->windows);
    if (next == UINT64_MAX || (worker->window_due_ms != 0 && worker->window_due_ms <= next)) {
        return;
    }
    uint64_t now = loop_now_ms(worker->loop);
    worker->window_due_ms = next;
    loop_timer_start(worker->window_timer, next > now ? next - now : 0, 0);
}

/* When something will have been there long enough to be looked at; UINT64_MAX: nothing will. */
static uint64_t next_tick(const struct worker *worker, uint64_t now)
{
    const struct worker_limits *limits = worker->limits;
    uint64_t due = UINT64_MAX, at = 0;
    if (!list_empty(&worker->session_list)) {
        at = list_entry(worker->session_list.next, struct session, link)->active_ms;
        due = at + limits->session_timeout_ms;
    }
    if (!list_empty(&worker->resting)) {
        at = list_entry(worker->resting.next, struct session, rest_link)->rest_ms;
        due = at + limits->list_linger_ms < due ? at + limits->list_linger_ms : due;
    }
    if (!list_empty(&worker->asked) && limits->call_timeout_ms > 0) {
        at = list_entry(worker->asked.next, struct request, asked_link)->asked_ms;
        due = at + limits->call_timeout_ms < due ? at + limits->call_timeout_ms : due;
    }
    if (worker->principals.next_expiry_ms > 0 && !list_empty(&worker->subscribers)) {
        int64_t left = worker->principals.next_expiry_ms - clock_wall_ms();
        uint64_t wait = left < 0 ? 0 : left < WALL_MS ? (uint64_t)left : WALL_MS;
        due = now + wait < due ? now + wait : due;
    }
    return due;
}

/* Only when it is needed: a server that nobody uses sleeps. */
static void set_tick(struct worker *worker)
{
    uint64_t now = loop_now_ms(worker->loop), next = next_tick(worker, now);
    if (next == UINT64_MAX || (worker->tick_due_ms != 0 && worker->tick_due_ms <= next)) {
        return;
    }
    next = next < now + TICK_MIN_MS ? now + TICK_MIN_MS : next;
    if (worker->tick_due_ms == 0 || next < worker->tick_due_ms) {
        worker->tick_due_ms = next;
        loop_timer_start(worker->tick, next - now, 0);
    }
}

/* The end of a turn: encode what waits into the send buffers. */
static void flush_dirty(void *user)
{
    struct worker *worker = user;
    struct list now;
    unsigned together = sendq_batch_gathers(&worker->batch) ? FLUSH_GATHERED : FLUSH_PLAIN;
    list_init(&now);
    list_splice(&now, &worker->dirty);
    for (unsigned n = 1; !list_empty(&now); n++) {
        struct subscriber *subscriber = list_entry(now.next, struct subscriber, dirty_link);
        list_remove(&subscriber->dirty_link);
        subscriber_flush(subscriber);
        if (n % together == 0) {
            sendq_batch_flush(&worker->batch);
        }
    }
    cursor_seal_end_turn(worker->shown);
    set_window_timer(worker);
    set_tick(worker);
}

static void on_tick(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct worker *worker = user;
    worker->tick_due_ms = 0;
    session_sweep(worker);
    requests_expire(worker);
    worker_expire_principals(worker);
}

static void on_trim(struct loop_timer *timer, void *user)
{
    (void)timer;
    (void)user;
    mem_trim();
}

void worker_trim_later(struct worker *worker, size_t bytes)
{
    if (bytes >= CORE_TRIM_BYTES && !loop_timer_is_running(worker->trim)) {
        loop_timer_start(worker->trim, CORE_TRIM_MS, 0);
    }
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

int worker_init(struct worker *worker, struct loop *loop, struct hub *hub, unsigned index,
                struct tidings_error *err)
{
    worker->loop = loop;
    worker->hub = hub;
    worker->book = hub_book(hub);
    worker->index = index;
    sealer_init(&worker->sealer, hub_seal(hub));
    worker->epoch = hub_epoch(hub);
    worker->last_seq = hub_last(hub);
    worker->catalog = hub_catalog(hub);
    for (unsigned i = 0; i < FEATURE_KINDS; i++) {
        worker->features[i] = hub_features(hub, (enum feature_kind)i);
    }
    principals_init(&worker->principals);
    match_init(&worker->match);
    worker->match.take_loose = take_loose;
    worker->match.give_loose = give_loose;
    map_init(&worker->sessions);
    list_init(&worker->session_list);
    list_init(&worker->resting);
    list_init(&worker->subscribers);
    list_init(&worker->dirty);
    list_init(&worker->list_watchers);
    list_init(&worker->covering);
    list_init(&worker->bookmarked);
    list_init(&worker->asked);
    sendq_batch_init(&worker->batch);
    struct tidings_error why;
    if (worker->limits->io_uring && sendq_batch_use_uring(&worker->batch, &why) < 0) {
        log_debug("plain writes", "reason=\"%s\"", why.text);
    }
    windows_init(&worker->windows);
    change_content_init(&worker->values, worker);
    filters_init(&worker->filters);
    map_init(&worker->rates);
    worker->window_timer = loop_timer_open(loop, on_window, worker);
    loop_hook_add(loop, &worker->flush_hook, flush_dirty, worker);
    worker->mailbox = mailbox_create(loop, worker, err);
    worker->tick = loop_timer_open(loop, on_tick, worker);
    worker->trim = loop_timer_open(loop, on_trim, worker);
    worker->list_timer = loop_timer_open(loop, list_changed_on_period, worker);
    worker->bookmark_timer = loop_timer_open(loop, bookmarks_on_period, worker);
    bool has_handlings = handler_calls_open(worker);
    bool has_marks = !hub_is_durable(hub) || cursor_marks_init(&worker->marks, hub_first(hub));
    if (!worker->mailbox || !worker->tick || !worker->trim || !worker->window_timer ||
        !worker->list_timer || !worker->bookmark_timer || !has_handlings || !has_marks ||
        hub_attach(hub, worker) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return 0;
}

/* ---- subjects and rates ---------------------------------------------------------------------- */

struct json *worker_make_subject(const struct worker *worker, const struct change *change,
                                 bool hides_from)
{
    struct json *subject = NULL;
    struct buf text;
    buf_init(&text, change->uri_json.len + change->metadata_json.len + 64);
    buf_puts(&text, STR("{\"uri\":"));
    buf_puts(&text, change->uri_json);
    buf_puts(&text, STR(",\"metadata\":{"));
    /* With rules a filter must not tell what its subscriber is not shown. Never empty. */
    buf_puts(&text,
             worker->access ? change_metadata_without_version(change) : change->metadata_json);
    buf_putf(&text, ",\"change_type\":\"%s\"}}",
             hides_from ? change_kind_name(change->kind) : change_type_name(change, change->kind));
    if (!text.failed) {
        (void)jv_parse(buf_str(&text), worker->limits->max_depth + 2, &subject, NULL);
    }
    buf_deinit(&text);
    return subject;
}

struct json *worker_subject(struct worker *worker, const struct change *change)
{
    if (worker->parsed != change) {
        change_unref(worker->parsed);
        jv_unref(worker->subject);
        worker->parsed = change_ref(change);
        worker->subject = worker_make_subject(worker, change, false);
    }
    return worker->subject;
}

struct worker_rate {
    uint64_t ms;
    size_t len;
    char uri[];
};

static void clear_rates(struct worker *worker)
{
    size_t pos = 0;
    void *rate;
    while ((rate = map_next(&worker->rates, &pos)) != NULL) {
        mem_free(rate);
    }
    map_deinit(&worker->rates);
}

uint64_t worker_rate(const struct worker *worker, const struct subscription *sub)
{
    uint64_t longest = 0;
    size_t pos = 0;
    const struct worker_rate *rate;
    while ((rate = map_next(&worker->rates, &pos)) != NULL) {
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

void worker_set_rate(struct worker *worker, struct tidings_str uri, uint64_t ms)
{
    mem_free(map_remove(&worker->rates, uri));
    struct worker_rate *rate =
        ms > 0 && worker->rates.count < RATES_MAX ? mem_zalloc(sizeof(*rate) + uri.len) : NULL;
    if (rate) {
        rate->ms = ms;
        rate->len = uri.len;
        memcpy(rate->uri, uri.ptr, uri.len);
        if (map_put(&worker->rates, tidings_strn(rate->uri, rate->len), rate, NULL) < 0) {
            mem_free(rate);
        }
    }
    match_find(&worker->match, uri, apply_rate, &ms);
}

void worker_set_rules(struct worker *worker, struct option_rules *rules)
{
    option_rules_unref(worker->rules);
    worker->rules = rules;
}

bool worker_settle(struct worker *worker, uint64_t timeout_ms)
{
    uint64_t deadline = clock_monotonic_ms() + timeout_ms;
    handler_calls_cancel(worker);
    while (worker->outstanding > 0 && clock_monotonic_ms() < deadline) {
        struct pollfd fd = {.fd = loop_fd(worker->loop), .events = POLLIN};
        (void)poll(&fd, 1, 10);
        loop_turn(worker->loop);
    }
    return worker->outstanding == 0;
}

void worker_deinit(struct worker *worker)
{
    list_each (it, next, &worker->session_list) {
        session_destroy(list_entry(it, struct session, link));
    }
    list_each (pit, pnext, &worker->subscribers) {
        subscriber_destroy(list_entry(pit, struct subscriber, link));
    }
    loop_hook_remove(&worker->flush_hook);
    sendq_batch_deinit(&worker->batch);
    loop_timer_close(worker->tick);
    loop_timer_close(worker->trim);
    loop_timer_close(worker->list_timer);
    loop_timer_close(worker->bookmark_timer);
    loop_timer_close(worker->window_timer);
    loop_timer_close(worker->stop.timer);
    handler_calls_close(worker);
    cursor_marks_deinit(&worker->marks);
    cursor_seal_free(worker->shown);
    sealer_deinit(&worker->sealer);
    windows_deinit(&worker->windows);
    change_content_deinit(&worker->values);
    clear_rates(worker);
    change_unref(worker->parsed);
    jv_unref(worker->subject);
    if (worker->mailbox) {
        mailbox_close(worker->mailbox);
        mailbox_unref(worker->mailbox);
    }
    filters_deinit(&worker->filters);
    option_rules_unref(worker->rules);
    map_deinit(&worker->sessions);
    principals_deinit(&worker->principals);
    access_rules_unref(worker->access);
    match_deinit(&worker->match);
    catalog_unref(worker->catalog);
    for (unsigned i = 0; i < FEATURE_KINDS; i++) {
        feature_list_unref(worker->features[i]);
    }
}

void worker_set_features(struct worker *worker, enum feature_kind kind, struct feature_list *list)
{
    feature_list_unref(worker->features[kind]);
    worker->features[kind] = list;
}

/* Is there anybody to complete anything? */
static bool completes(const struct worker *worker)
{
    const struct feature_list *registered = worker->features[FEATURE_COMPLETION];
    bool any = registered && registered->count > 0;
    for (size_t i = 0; i < worker->catalog->mount_count && !any; i++) {
        any = worker->catalog->mounts[i]->ops->complete != NULL;
    }
    return any;
}

unsigned worker_offers(const struct worker *worker)
{
    const struct feature_list *tools = worker->features[FEATURE_TOOL];
    const struct feature_list *prompts = worker->features[FEATURE_PROMPT];
    return (worker->self->has_tools || (tools && tools->count > 0) ? LIST_TOOLS : 0u) |
           (worker->self->has_prompts || (prompts && prompts->count > 0) ? LIST_PROMPTS : 0u) |
           (completes(worker) ? OFFER_COMPLETIONS : 0u) |
           (worker->self->no_subscriptions ? 0u : OFFER_SUBSCRIPTIONS);
}

void worker_set_catalog(struct worker *worker, struct catalog *catalog)
{
    catalog_unref(worker->catalog);
    worker->catalog = catalog;
}

void worker_find_covered(struct worker *worker, struct tidings_str uri, match_fn fn, void *user)
{
    list_each (it, next, &worker->covering) {
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
    list_each (pit, pnext, &worker->subscribers) {
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
    list_each (it, next, &worker->subscribers) {
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
    __atomic_store_n(&worker->is_lost, false,
                     __ATOMIC_SEQ_CST); /* what is lost from now on counts */
    worker->is_resynced = true;
    resync_all(worker);
}

static void lost_drop(struct letter *letter)
{
    (void)letter; /* lies in the worker */
}

void worker_lose(struct worker *worker)
{
    if (!__atomic_exchange_n(&worker->is_lost, true, __ATOMIC_SEQ_CST)) {
        worker->lost = (struct letter){.deliver = lost_deliver, .drop = lost_drop};
        mailbox_send(worker->mailbox, &worker->lost);
    }
}

struct log_cursor worker_cursor(const struct worker *worker, uint64_t seq)
{
    struct log_cursor c = {
        .epoch = worker->epoch, .seq = seq, .has_position = worker->marks.ring != NULL};
    if (c.has_position) {
        c.position = cursor_marks_find(&worker->marks, seq);
    }
    return c;
}

void worker_on_change(struct worker *worker, const struct change *change)
{
    bool gap = change->seq != worker->last_seq + 1 && !worker->is_resynced;
    worker->is_resynced = false;
    worker->last_seq = change->seq;
    if (change->position > 0) {
        cursor_marks_add(&worker->marks, change->seq, change->position);
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
        worker_find_covered(worker, change->uri, offer, shared);
        if (worker->access && change->kind != TIDINGS_CHANGE_UPDATED) {
            list_changed_touch(worker, change->uri, change->target);
        }
    }
}
