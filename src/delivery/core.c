/* SPDX-License-Identifier: MIT
 *
 * A worker's core: begin, end, and the road of a change from the hub to the outboxes.
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
    struct core *core = user;
    uint64_t now = loop_now_ms(core->loop);
    struct window *window;
    core->window_due_ms = 0;
    while ((window = windows_due(&core->windows, now)) != NULL) {
        peer_release_held(list_entry(window, struct sub, window));
    }
}

static void set_window_timer(struct core *core)
{
    uint64_t next = windows_next(&core->windows);
    if (next == UINT64_MAX || (core->window_due_ms != 0 && core->window_due_ms <= next)) {
        return;
    }
    uint64_t now = loop_now_ms(core->loop);
    core->window_due_ms = next;
    loop_timer_start(core->window_timer, next > now ? next - now : 0, 0);
}

/* When something will have been there long enough to be looked at; UINT64_MAX: nothing will. */
static uint64_t next_tick(const struct core *core, uint64_t now)
{
    const struct core_limits *limits = core->limits;
    uint64_t due = UINT64_MAX, at = 0;
    if (!list_empty(&core->session_list)) {
        at = list_entry(core->session_list.next, struct session, link)->active_ms;
        due = at + limits->session_timeout_ms;
    }
    if (!list_empty(&core->resting)) {
        at = list_entry(core->resting.next, struct session, rest_link)->rest_ms;
        due = at + limits->list_linger_ms < due ? at + limits->list_linger_ms : due;
    }
    if (!list_empty(&core->asked) && limits->call_timeout_ms > 0) {
        at = list_entry(core->asked.next, struct call, asked_link)->asked_ms;
        due = at + limits->call_timeout_ms < due ? at + limits->call_timeout_ms : due;
    }
    if (core->principals.next_expiry_ms > 0 && !list_empty(&core->peers)) {
        int64_t left = core->principals.next_expiry_ms - clock_wall_ms();
        uint64_t wait = left < 0 ? 0 : left < WALL_MS ? (uint64_t)left : WALL_MS;
        due = now + wait < due ? now + wait : due;
    }
    return due;
}

/* Only when it is needed: a server that nobody uses sleeps. */
static void set_tick(struct core *core)
{
    uint64_t now = loop_now_ms(core->loop), next = next_tick(core, now);
    if (next == UINT64_MAX || (core->tick_due_ms != 0 && core->tick_due_ms <= next)) {
        return;
    }
    next = next < now + TICK_MIN_MS ? now + TICK_MIN_MS : next;
    if (core->tick_due_ms == 0 || next < core->tick_due_ms) {
        core->tick_due_ms = next;
        loop_timer_start(core->tick, next - now, 0);
    }
}

/* The end of a turn: encode what waits into the send buffers. */
static void flush_dirty(void *user)
{
    struct core *core = user;
    struct list now;
    unsigned together = sendq_batch_gathers(&core->batch) ? FLUSH_GATHERED : FLUSH_PLAIN;
    list_init(&now);
    list_splice(&now, &core->dirty);
    for (unsigned n = 1; !list_empty(&now); n++) {
        struct peer *peer = list_entry(now.next, struct peer, dirty_link);
        list_remove(&peer->dirty_link);
        peer_flush(peer);
        if (n % together == 0) {
            sendq_batch_flush(&core->batch);
        }
    }
    shown_end_turn(core->shown);
    set_window_timer(core);
    set_tick(core);
}

static void on_tick(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct core *core = user;
    core->tick_due_ms = 0;
    session_sweep(core);
    calls_expire(core);
    core_expire_principals(core);
}

static void on_trim(struct loop_timer *timer, void *user)
{
    (void)timer;
    (void)user;
    mem_trim();
}

void core_trim_later(struct core *core, size_t bytes)
{
    if (bytes >= CORE_TRIM_BYTES && !loop_timer_is_running(core->trim)) {
        loop_timer_start(core->trim, CORE_TRIM_MS, 0);
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

int core_init(struct core *core, struct loop *loop, struct hub *hub, unsigned index,
              struct tidings_error *err)
{
    core->loop = loop;
    core->hub = hub;
    core->book = hub_book(hub);
    core->index = index;
    sealer_init(&core->sealer, hub_seal(hub));
    core->epoch = hub_epoch(hub);
    core->last_seq = hub_last(hub);
    core->catalog = hub_catalog(hub);
    for (unsigned i = 0; i < FEATURE_KINDS; i++) {
        core->features[i] = hub_features(hub, (enum feature_kind)i);
    }
    principals_init(&core->principals);
    match_init(&core->match);
    core->match.take_loose = take_loose;
    core->match.give_loose = give_loose;
    map_init(&core->sessions);
    list_init(&core->session_list);
    list_init(&core->resting);
    list_init(&core->peers);
    list_init(&core->dirty);
    list_init(&core->list_watchers);
    list_init(&core->covering);
    list_init(&core->bookmarked);
    list_init(&core->asked);
    sendq_batch_init(&core->batch);
    struct tidings_error why;
    if (core->limits->io_uring && sendq_batch_use_uring(&core->batch, &why) < 0) {
        log_debug("plain writes", "reason=\"%s\"", why.text);
    }
    windows_init(&core->windows);
    values_init(&core->values, core);
    filters_init(&core->filters);
    map_init(&core->rates);
    core->window_timer = loop_timer_open(loop, on_window, core);
    loop_hook_add(loop, &core->flush_hook, flush_dirty, core);
    core->mailbox = mailbox_create(loop, core, err);
    core->tick = loop_timer_open(loop, on_tick, core);
    core->trim = loop_timer_open(loop, on_trim, core);
    core->list_timer = loop_timer_open(loop, lists_on_period, core);
    core->bookmark_timer = loop_timer_open(loop, bookmarks_on_period, core);
    bool has_handlings = handlings_open(core);
    bool has_marks = !hub_is_durable(hub) || cursor_marks_init(&core->marks, hub_first(hub));
    if (!core->mailbox || !core->tick || !core->trim || !core->window_timer || !core->list_timer ||
        !core->bookmark_timer || !has_handlings || !has_marks || hub_attach(hub, core) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return 0;
}

/* ---- subjects and rates ---------------------------------------------------------------------- */

struct json *core_make_subject(const struct core *core, const struct change *change,
                               bool hides_from)
{
    struct json *subject = NULL;
    struct buf text;
    buf_init(&text, change->uri_json.len + change->metadata_json.len + 64);
    buf_puts(&text, STR("{\"uri\":"));
    buf_puts(&text, change->uri_json);
    buf_puts(&text, STR(",\"metadata\":{"));
    /* With rules a filter must not tell what its subscriber is not shown. Never empty. */
    buf_puts(&text, core->access ? change_metadata_without_version(change) : change->metadata_json);
    buf_putf(&text, ",\"change_type\":\"%s\"}}",
             hides_from ? change_kind_name(change->kind) : change_type_name(change, change->kind));
    if (!text.failed) {
        (void)jv_parse(buf_str(&text), core->limits->max_depth + 2, &subject, NULL);
    }
    buf_deinit(&text);
    return subject;
}

struct json *core_subject(struct core *core, const struct change *change)
{
    if (core->parsed != change) {
        change_unref(core->parsed);
        jv_unref(core->subject);
        core->parsed = change_ref(change);
        core->subject = core_make_subject(core, change, false);
    }
    return core->subject;
}

struct core_rate {
    uint64_t ms;
    size_t len;
    char uri[];
};

static void clear_rates(struct core *core)
{
    size_t pos = 0;
    void *rate;
    while ((rate = map_next(&core->rates, &pos)) != NULL) {
        mem_free(rate);
    }
    map_deinit(&core->rates);
}

uint64_t core_rate(const struct core *core, const struct sub *sub)
{
    uint64_t longest = 0;
    size_t pos = 0;
    const struct core_rate *rate;
    while ((rate = map_next(&core->rates, &pos)) != NULL) {
        if (rate->ms > longest &&
            match_kind_matches(sub->kind, sub_uri(sub), tidings_strn(rate->uri, rate->len))) {
            longest = rate->ms;
        }
    }
    return longest;
}

static void apply_rate(void *user, struct match_node *node)
{
    struct sub *sub = list_entry(node, struct sub, node);
    sub_set_rate(sub, *(uint64_t *)user);
}

void core_set_rate(struct core *core, struct tidings_str uri, uint64_t ms)
{
    mem_free(map_remove(&core->rates, uri));
    struct core_rate *rate =
        ms > 0 && core->rates.count < RATES_MAX ? mem_zalloc(sizeof(*rate) + uri.len) : NULL;
    if (rate) {
        rate->ms = ms;
        rate->len = uri.len;
        memcpy(rate->uri, uri.ptr, uri.len);
        if (map_put(&core->rates, tidings_strn(rate->uri, rate->len), rate, NULL) < 0) {
            mem_free(rate);
        }
    }
    match_find(&core->match, uri, apply_rate, &ms);
}

void core_set_rules(struct core *core, struct option_rules *rules)
{
    option_rules_unref(core->rules);
    core->rules = rules;
}

bool core_settle(struct core *core, uint64_t timeout_ms)
{
    uint64_t deadline = clock_monotonic_ms() + timeout_ms;
    handlings_cancel(core);
    while (core->outstanding > 0 && clock_monotonic_ms() < deadline) {
        struct pollfd fd = {.fd = loop_fd(core->loop), .events = POLLIN};
        (void)poll(&fd, 1, 10);
        loop_turn(core->loop);
    }
    return core->outstanding == 0;
}

void core_deinit(struct core *core)
{
    list_each (it, next, &core->session_list) {
        session_destroy(list_entry(it, struct session, link));
    }
    list_each (pit, pnext, &core->peers) {
        peer_destroy(list_entry(pit, struct peer, link));
    }
    loop_hook_remove(&core->flush_hook);
    sendq_batch_deinit(&core->batch);
    loop_timer_close(core->tick);
    loop_timer_close(core->trim);
    loop_timer_close(core->list_timer);
    loop_timer_close(core->bookmark_timer);
    loop_timer_close(core->window_timer);
    loop_timer_close(core->stop.timer);
    handlings_close(core);
    cursor_marks_deinit(&core->marks);
    shown_free(core->shown);
    sealer_deinit(&core->sealer);
    windows_deinit(&core->windows);
    values_deinit(&core->values);
    clear_rates(core);
    change_unref(core->parsed);
    jv_unref(core->subject);
    if (core->mailbox) {
        mailbox_close(core->mailbox);
        mailbox_unref(core->mailbox);
    }
    filters_deinit(&core->filters);
    option_rules_unref(core->rules);
    map_deinit(&core->sessions);
    principals_deinit(&core->principals);
    access_rules_unref(core->access);
    match_deinit(&core->match);
    catalog_unref(core->catalog);
    for (unsigned i = 0; i < FEATURE_KINDS; i++) {
        feature_list_unref(core->features[i]);
    }
}

void core_set_features(struct core *core, enum feature_kind kind, struct feature_list *list)
{
    feature_list_unref(core->features[kind]);
    core->features[kind] = list;
}

/* Is there anybody to complete anything? */
static bool completes(const struct core *core)
{
    const struct feature_list *registered = core->features[FEATURE_COMPLETION];
    bool any = registered && registered->count > 0;
    for (size_t i = 0; i < core->catalog->mount_count && !any; i++) {
        any = core->catalog->mounts[i]->ops->complete != NULL;
    }
    return any;
}

unsigned core_offers(const struct core *core)
{
    const struct feature_list *tools = core->features[FEATURE_TOOL];
    const struct feature_list *prompts = core->features[FEATURE_PROMPT];
    return (core->self->has_tools || (tools && tools->count > 0) ? LIST_TOOLS : 0u) |
           (core->self->has_prompts || (prompts && prompts->count > 0) ? LIST_PROMPTS : 0u) |
           (completes(core) ? OFFER_COMPLETIONS : 0u) |
           (core->self->no_subscriptions ? 0u : OFFER_SUBSCRIPTIONS);
}

void core_set_catalog(struct core *core, struct catalog *catalog)
{
    catalog_unref(core->catalog);
    core->catalog = catalog;
}

void core_find_covered(struct core *core, struct tidings_str uri, match_fn fn, void *user)
{
    list_each (it, next, &core->covering) {
        struct sub_extra *x = list_entry(it, struct sub_extra, covers_link);
        struct tidings_provider *p = x->covering;
        struct sub *sub = x->sub;
        if (uri_is_within(uri, p->prefix) && !match_kind_matches(sub->kind, sub_uri(sub), uri) &&
            p->ops->covers(p, sub_uri(sub), uri)) {
            fn(user, &sub->node);
        }
    }
}

static bool is_listening(void *user, const struct sub *sub)
{
    const struct change *change = user;
    const struct peer *peer = sub->peer;
    return !peer->catchup && !sub->catching_up && sub_hears_live(sub, change->seq);
}

static void offer(void *user, struct match_node *node)
{
    const struct change *change = user;
    struct sub *sub = list_entry(node, struct sub, node);
    struct peer *peer = sub->peer;
    if (!peer->catchup && !sub->catching_up) {
        peer_offer(peer, sub, change, change->kind);
    }
}

/* Anything below `scope` may have changed: each subscription there is told to look again. */
static void offer_everything(struct core *core, struct tidings_str scope)
{
    list_each (pit, pnext, &core->peers) {
        struct peer *peer = list_entry(pit, struct peer, link);
        if (peer->sink && !peer->catchup) {
            peer_owe_all(peer, scope, core->last_seq);
        }
    }
}

/* A letter was lost for want of room or memory. Nobody knows what it said. */
static void resync_all(struct core *core)
{
    log_warn("changes lost", "reason=\"no room or no memory\" worker=%u", core->index);
    list_each (it, next, &core->peers) {
        struct peer *peer = list_entry(it, struct peer, link);
        if (peer->sink) {
            peer_resync(peer);
        }
    }
}

static void lost_deliver(struct letter *letter, void *owner)
{
    (void)letter;
    struct core *core = owner;
    __atomic_store_n(&core->is_lost, false, __ATOMIC_SEQ_CST); /* what is lost from now on counts */
    core->is_resynced = true;
    resync_all(core);
}

static void lost_drop(struct letter *letter)
{
    (void)letter; /* lies in the core */
}

void core_lose(struct core *core)
{
    if (!__atomic_exchange_n(&core->is_lost, true, __ATOMIC_SEQ_CST)) {
        core->lost = (struct letter){.deliver = lost_deliver, .drop = lost_drop};
        mailbox_send(core->mailbox, &core->lost);
    }
}

struct log_cursor core_cursor(const struct core *core, uint64_t seq)
{
    struct log_cursor c = {
        .epoch = core->epoch, .seq = seq, .has_position = core->marks.ring != NULL};
    if (c.has_position) {
        c.position = cursor_marks_find(&core->marks, seq);
    }
    return c;
}

void core_on_change(struct core *core, const struct change *change)
{
    bool gap = change->seq != core->last_seq + 1 && !core->is_resynced;
    core->is_resynced = false;
    core->last_seq = change->seq;
    if (change->position > 0) {
        cursor_marks_add(&core->marks, change->seq, change->position);
    }
    if (gap) {
        resync_all(core);
    }
    if (change->lists != 0) {
        lists_offer(core, change->lists);
    } else if (change->everything) {
        offer_everything(core, change_scope(change));
    } else {
        struct change *shared = (struct change *)(uintptr_t)change;
        static const struct lookup_calls calls = {is_listening, offer};
        lookup_find(core, change, &calls, shared);
        core_find_covered(core, change->uri, offer, shared);
        if (core->access && change->kind != TIDINGS_CHANGE_UPDATED) {
            lists_touch(core, change->uri, change->target);
        }
    }
}
