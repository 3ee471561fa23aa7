/* SPDX-License-Identifier: MIT
 *
 * The subscriptions of a program: a watch per URI, a subscription per handler. It also routes
 * updates. For the requests to the server, see subscriptions_wire.c.
 *
 * A subscription that ends inside a callback is only marked: lists are not changed during
 * iteration, but in subscriptions_sweep.
 */
#include "client/subscriptions.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include <tidings/json.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "client/client.h"
#include "client/client_internal.h"
#include "client/comparison.h"
#include "client/connection.h"
#include "client/events.h"
#include "formats/json_write.h"
#include "formats/pattern.h"

/* -------------------------------------------------------------------------------------------------
 * Temporary refusals: the server refuses a subscription because a dependency is unavailable or a
 * rate is reached, and gives a time to retry (retryAfterMs in the data of the refusal). The client
 * retries then. Until then a watch is not judged, so the connection is kept.
 */

#define LATER_MIN_MS 100
#define LATER_MAX_MS 60000

static void subscriptions_on_later(struct loop_timer *timer, void *user)
{
    struct tidings_client *c = user;
    (void)timer;
    if (c->stage != STAGE_READY) {
        return; /* everything is requested when the connection is ready */
    }
    if (c->era == TIDINGS_ERA_MODERN) {
        modern_changed(c);
        return;
    }
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        if (w->is_later) {
            legacy_ask(c, w);
        }
    }
}

void subscriptions_later_init(struct tidings_client *c)
{
    loop_timer_init(&c->later, c->loop, subscriptions_on_later, c);
}

bool subscriptions_put_off(struct tidings_client *c, struct watch *w, struct json *data)
{
    struct json *after = jv_get(data, "retryAfterMs");
    int64_t ms = jv_is(after, JV_INT) ? jv_int(after) : 0;
    w->is_later = ms > 0;
    if (w->is_later && !loop_timer_is_running(&c->later)) {
        ms = ms < LATER_MIN_MS ? LATER_MIN_MS : ms > LATER_MAX_MS ? LATER_MAX_MS : ms;
        loop_timer_start(&c->later, (uint64_t)ms, 0);
    }
    return w->is_later;
}

/* -------------------------------------------------------------------------------------------------
 * Streams that continue with renewed credentials: a server ends a stream when its token expires, so
 * the client opens another one earlier. In the modern era the previous stream is ended when the new
 * one is acknowledged; in the legacy era there is one at a time, which resumes after its last
 * event.
 */

void subscriptions_renewed(struct tidings_client *c)
{
    const struct transport_ops *ops = c->transport->ops;
    struct tidings_error err = {0};
    if (c->stage != STAGE_READY || !ops->has_exchanges) {
        return; /* a connection keeps the credentials it began with */
    }
    if (c->listen > 0 || c->coming > 0) {
        modern_changed(c);
    } else if (c->era == TIDINGS_ERA_LEGACY && c->is_streaming) {
        ops->hang_up(c->transport);
        if (ops->stream(c->transport, &err) < 0) {
            connection_lose(c, &err);
        }
    }
}

/* -------------------------------------------------------------------------------------------------
 * Finds the watch of a URI, and decides whether a watch may cover one.
 */

struct watch *watch_find(struct tidings_client *c, struct tidings_str uri)
{
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        if (str_eq(tidings_str(w->uri), uri)) {
            return w;
        }
    }
    return NULL;
}

bool watch_matches(const struct watch *w, struct tidings_str uri)
{
    struct tidings_str own = tidings_str(w->uri);
    if (strchr(w->uri, '?') || (w->options && strstr(w->options, "\"match\""))) {
        return true;
    }
    return pattern_matches(PATTERN_CONTAINER, own, uri) ||
           (strchr(w->uri, '{') && pattern_matches(PATTERN_TEMPLATE, own, uri)) ||
           (strpbrk(w->uri, "*[") && pattern_matches(PATTERN_GLOB, own, uri));
}

/* -------------------------------------------------------------------------------------------------
 * Keeps the cursor of a stream and the versions of received updates. Cursors are opaque to the
 * client.
 */

struct seen {
    struct list link; /* in order */
    struct tidings_str key;
    uint64_t life; /* of the connection that brought it */
    uint8_t version_len;
    bool has_epoch;
    char text[]; /* the key, then the version */
};

void resume_init(struct resume *r)
{
    *r = (struct resume){0};
    map_init(&r->seen);
    list_init(&r->order);
    resume_interrupted(r);
}

static void resume_drop(struct resume *r, struct seen *s)
{
    map_remove(&r->seen, s->key);
    list_remove(&s->link);
    mem_free(s);
}

void resume_deinit(struct resume *r)
{
    list_each (it, next, &r->order) {
        resume_drop(r, list_entry(it, struct seen, link));
    }
    map_deinit(&r->seen);
}

void resume_interrupted(struct resume *r)
{
    r->lives++;
}

bool resume_is_cursor(struct tidings_str text)
{
    return text.len > 0 && text.len < RESUME_MAX_CURSOR && !memchr(text.ptr, '\0', text.len);
}

void resume_take(struct resume *r, struct tidings_str cursor)
{
    if (resume_is_cursor(cursor)) {
        memcpy(r->cursor, cursor.ptr, cursor.len);
        r->cursor[cursor.len] = '\0';
    }
}

/* ---- what was told --------------------------------------------------------------------------- */

/* `epoch.number`; a version of another form counts as missing. */
static struct tidings_str epoch_of(struct tidings_str version, struct tidings_str *ret_number)
{
    bool found;
    struct tidings_str epoch = str_cut(version, '.', ret_number, &found);
    uint64_t n;
    return found && str_to_u64(*ret_number, &n) ? epoch : STR_EMPTY;
}

static bool is_newer(const struct resume *r, const struct seen *last, struct tidings_str version,
                     bool has_epoch)
{
    struct tidings_str told = tidings_strn(last->text + last->key.len, last->version_len), a, b;
    if (last->has_epoch != has_epoch) {
        return true;
    }
    if (has_epoch) {
        struct tidings_str epoch = epoch_of(version, &a);
        bool is_same = epoch.len > 0 && str_eq(epoch, epoch_of(told, &b));
        return !is_same || version_compare(a, b) == VERSION_NEWER;
    }
    enum version_order order = version_compare(version, told);
    return last->life != r->lives || order == VERSION_NEWER || order == VERSION_UNKNOWN;
}

/* Out of memory costs a repetition at worst. */
static void resume_remember(struct resume *r, struct tidings_str key, struct tidings_str version,
                            bool has_epoch)
{
    struct seen *s = mem_alloc(sizeof(*s) + key.len + version.len);
    void *old = NULL;
    if (!s) {
        return;
    }
    char *at = s->text;
    s->key = str_pack(&at, key);
    (void)str_pack(&at, version);
    s->version_len = (uint8_t)version.len;
    s->has_epoch = has_epoch;
    s->life = r->lives;
    if (map_put(&r->seen, s->key, s, &old) < 0) {
        mem_free(s);
        return;
    }
    list_append(&r->order, &s->link);
    if (old) {
        list_remove(&((struct seen *)old)->link);
        mem_free(old);
    } else if (r->seen.count > RESUME_MAX_SEEN) {
        resume_drop(r, list_entry(r->order.next, struct seen, link));
    }
}

bool resume_is_new(struct resume *r, uint64_t watch, struct tidings_str uri,
                   struct tidings_str version, bool has_epoch)
{
    struct buf key;
    if (version.len == 0 || version.len > VERSION_MAX) {
        return true;
    }
    buf_init(&key, uri.len + 24);
    buf_putf(&key, "%" PRIu64 " ", watch);
    buf_puts(&key, uri);
    const struct seen *last = key.failed ? NULL : map_find(&r->seen, buf_str(&key));
    bool is_new = !last || is_newer(r, last, version, has_epoch);
    if (is_new && !key.failed) {
        resume_remember(r, buf_str(&key), version, has_epoch);
    }
    buf_deinit(&key);
    return is_new;
}

/* ---- asking again ---------------------------------------------------------------------------- */

bool resume_has_baseline(const char *options)
{
    return options && strstr(options, "\"baseline\"");
}

void resume_put_options(const char *options, const char *since, bool bookmarks, struct buf *out)
{
    struct json *root = NULL;
    struct tidings_str key;
    struct json *value;
    struct jw w;
    bool has_since = since[0] != '\0' && !resume_has_baseline(options);
    if (!has_since && !bookmarks) {
        buf_puts(out, options ? tidings_str(options) : STR_EMPTY);
        return;
    }
    jw_init(&w, out);
    jw_begin_object(&w);
    if (options && jv_parse(tidings_str(options), JSON_MAX_DEPTH, &root, NULL) == 0) {
        for (void *at = jv_next(root, NULL, &key, &value); at;
             at = jv_next(root, at, &key, &value)) {
            /* The server sent the initial state when it first accepted the subscription. */
            bool is_over = str_eq(key, STR("since")) || str_eq(key, STR("initial"));
            if (!(has_since && is_over) && !(bookmarks && str_eq(key, STR("bookmarks")))) {
                jw_key(&w, key);
                jw_value(&w, value);
            }
        }
        jv_unref(root);
    }
    if (has_since) {
        jw_put_string(&w, STR("since"), tidings_str(since));
    }
    if (bookmarks) {
        jw_put_bool(&w, STR("bookmarks"), true);
    }
    jw_end_object(&w);
}

/* ---------------------------------------------------------------------------------------------- */

void subscriptions_init(struct tidings_client *c)
{
    list_init(&c->watches);
    resume_init(&c->resume);
    comparison_init(c);
    heartbeat_init(c);
    modern_init(c);
}

static void drop_watch(struct tidings_client *c, struct watch *w)
{
    comparison_forget(c, w);
    list_remove(&w->link);
    c->watch_count--;
    mem_free(w->since);
    mem_free(w->uri);
    mem_free(w->options);
    mem_free(w);
}

static void drop_subscription(struct client_subscription *s)
{
    list_remove(&s->link);
    mem_free(s);
}

void subscriptions_deinit(struct tidings_client *c)
{
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        list_each (sub, after, &w->subscriptions) {
            drop_subscription(list_entry(sub, struct client_subscription, link));
        }
        drop_watch(c, w);
    }
    loop_timer_stop(&c->later);
    resume_deinit(&c->resume);
}

bool subscriptions_wants(const struct tidings_client *c)
{
    return c->watch_count > 0 || c->settings.list_changes;
}

/* ---- subscribing ----------------------------------------------------------------------------- */

/* NULL with an error when `options` is not a JSON object. */
static int take_options(struct watch *w, const char *options, struct tidings_error *err)
{
    char *text = options ? tidings_json_get(tidings_str(options), "") : NULL;
    if (options && (!text || text[0] != '{')) {
        mem_free(text);
        return tidings_fail(err, TIDINGS_E_INVALID, "the options of '%.80s' are not a JSON object",
                            w->uri);
    }
    mem_free(w->options);
    w->options = text;
    return 0;
}

static struct watch *subscriptions_add_watch(struct tidings_client *c, const char *uri,
                                             struct tidings_error *err)
{
    if (c->watch_count >= CLIENT_MAX_WATCHES) {
        tidings_fail(err, TIDINGS_E_LIMIT, "%u URIs are watched already", CLIENT_MAX_WATCHES);
        return NULL;
    }
    struct watch *w = mem_zalloc(sizeof(*w));
    if (!w || !(w->uri = str_dup(tidings_str(uri)))) {
        mem_free(w);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    list_init(&w->subscriptions);
    w->number = ++c->last_watch;
    list_append(&c->watches, &w->link);
    c->watch_count++;
    return w;
}

/* A repeated subscription gets a new answer, and no earlier updates. */
static void begin_anew(struct tidings_client *c, struct watch *w)
{
    comparison_forget(c, w);
    mem_free(w->since);
    w->since = NULL;
    w->accepted_at = 0;
    w->number = ++c->last_watch;
    w->is_ending = w->is_decided = w->is_accepted = w->was_accepted = w->is_interrupted = false;
}

/* Requests the subscription, if connected. */
static void ask_for(struct tidings_client *c, struct watch *w)
{
    if (c->stage != STAGE_READY) {
        return;
    }
    if (c->era == TIDINGS_ERA_MODERN) {
        modern_changed(c);
    } else if (c->is_streaming) {
        legacy_ask(c, w);
    } else {
        subscriptions_ready(c);
    }
}

static enum tidings_state subscriptions_state(const struct watch *w)
{
    return !w->is_decided    ? TIDINGS_STATE_DISCONNECTED
           : w->is_accepted  ? TIDINGS_STATE_WATCHING
           : w->was_accepted ? TIDINGS_STATE_LOST
                             : TIDINGS_STATE_REFUSED;
}

size_t tidings_client_subscriptions(struct tidings_client *c, tidings_client_subscription_fn fn,
                                    void *user)
{
    size_t count = 0;
    if (!c) {
        return 0;
    }
    bool is_inside = c->is_delivering;
    c->is_delivering = true; /* subscriptions that end during the loop are only marked */
    list_each (it, next, &c->watches) {
        const struct watch *w = list_entry(it, struct watch, link);
        list_each (sub, after, &w->subscriptions) {
            struct client_subscription *s = list_entry(sub, struct client_subscription, link);
            if (s->is_ended) {
                continue;
            }
            count++;
            struct tidings_client_subscription about = {.subscription = &s->base,
                                                        .uri = tidings_str(w->uri),
                                                        .options = tidings_str(w->options),
                                                        .state = subscriptions_state(w)};
            if (fn && !fn(user, &about)) {
                fn = NULL;
            }
        }
    }
    c->is_delivering = is_inside;
    if (!is_inside) {
        subscriptions_sweep(c);
    }
    return count;
}

static bool subscriptions_is_used(const struct watch *w)
{
    list_each (it, next, &w->subscriptions) {
        if (!list_entry(it, struct client_subscription, link)->is_ended) {
            return true;
        }
    }
    return false;
}

void subscriptions_sweep(struct tidings_client *c)
{
    if (!c->has_ended || c->is_delivering) {
        return;
    }
    c->has_ended = false;
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        list_each (sub, after, &w->subscriptions) {
            struct client_subscription *s = list_entry(sub, struct client_subscription, link);
            if (s->is_ended) {
                drop_subscription(s);
            }
        }
        if (list_empty(&w->subscriptions) && !w->is_leaving) {
            drop_watch(c, w);
        }
    }
}

/* ---- the handle ------------------------------------------------------------------------------ */

static struct client_subscription *client_subscription(struct tidings_subscription *base)
{
    return list_entry(base, struct client_subscription, base);
}

static const char *client_subscription_uri(const struct tidings_subscription *base)
{
    return watch_of(base)->uri;
}

static int client_subscription_set_options(struct tidings_subscription *base, const char *options,
                                           struct tidings_error *err)
{
    return take_options(watch_of(base), options, err);
}

static void client_subscription_end(struct tidings_subscription *base)
{
    struct client_subscription *s = client_subscription(base);
    if (s->is_ended) {
        return;
    }
    struct tidings_client *c = s->client;
    struct watch *w = s->watch;
    s->is_ended = true;
    c->has_ended = true;
    if (!subscriptions_is_used(w) && !w->is_ending) {
        w->is_ending = true;
        w->is_leaving = w->is_named;
        comparison_forget(c, w);
        if (c->stage == STAGE_READY && c->era == TIDINGS_ERA_MODERN) {
            modern_changed(c);
        } else if (c->stage == STAGE_READY) {
            legacy_ended(c, w);
        }
    }
    subscriptions_sweep(c);
}

static const struct subscription_handle_ops client_subscription_ops = {
    .end = client_subscription_end,
    .uri = client_subscription_uri,
    .set_options = client_subscription_set_options,
};

struct tidings_subscription *tidings_client_subscribe(struct tidings_client *c, const char *uri,
                                                      const struct tidings_subscribe_options *about,
                                                      struct tidings_error *err)
{
    if (!uri || !uri[0] || strlen(uri) > 8192 || !about || !about->fn) {
        tidings_fail(err, TIDINGS_E_INVALID,
                     "a subscription needs a URI of at most 8192 bytes and a function");
        return NULL;
    }
    if (client_check(c, err) < 0 || RESERVED_CHECK(about, err) < 0) {
        return NULL;
    }
    if (about->filter) {
        tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                     "a client has no filter function: give the server a filter among the options");
        return NULL;
    }
    struct watch *w = watch_find(c, tidings_str(uri));
    bool is_new = !w;
    if (is_new) {
        w = subscriptions_add_watch(c, uri, err);
    }
    struct client_subscription *s = w ? mem_zalloc(sizeof(*s)) : NULL;
    int rc = !w ? TIDINGS_E_LIMIT : !s ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
    if (rc == 0 && (is_new || about->options)) {
        rc = take_options(w, about->options, err);
    }
    if (rc < 0) {
        mem_free(s);
        if (w && is_new) {
            drop_watch(c, w);
        }
        return NULL;
    }
    *s = (struct client_subscription){
        .base = {.ops = &client_subscription_ops},
        .client = c,
        .watch = w,
        .fn = about->fn,
        .on_state = about->on_state,
        .user = about->user,
    };
    list_append(&w->subscriptions, &s->link);
    if (is_new || w->is_ending) {
        begin_anew(c, w);
        ask_for(c, w);
        events_nudge(c); /* an idle client connects */
    }
    return &s->base;
}

/* ---- connected, lost ------------------------------------------------------------------------- */

void subscriptions_ready(struct tidings_client *c)
{
    struct tidings_error err = {0};
    if (!subscriptions_wants(c)) {
        return;
    }
    if (!c->can_subscribe && c->watch_count > 0) {
        tidings_fail(&err, TIDINGS_E_UNSUPPORTED, "the server offers no subscriptions");
        connection_give_up(c, &err);
    } else if (c->era == TIDINGS_ERA_MODERN) {
        modern_changed(c);
    } else if (!c->transport->ops->stream) {
        subscriptions_streaming(c, false);
    } else if (c->transport->ops->stream(c->transport, &err) < 0) {
        connection_lose(c, &err);
    }
}

void subscriptions_streaming(struct tidings_client *c, bool is_seamless)
{
    c->is_streaming = true;
    heartbeat_received(c, false); /* the first message does not count as a beat */
    list_each (it, next, &c->watches) {
        if (!is_seamless) {
            legacy_interrupted(c, list_entry(it, struct watch, link));
        }
    }
    if (c->stage == STAGE_READY) {
        legacy_subscribe_all(c);
    }
}

void subscriptions_lost(struct tidings_client *c)
{
    c->is_streaming = false;
    c->refusal.code = 0;
    modern_lost(c);
    resume_interrupted(&c->resume);
    comparison_lost(c);
    heartbeat_end(c);
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        w->is_decided = false;
        if (c->has_session) {
            continue; /* it continues when the stream is open again */
        }
        if (c->era == TIDINGS_ERA_LEGACY) {
            legacy_lost(c, w);
        }
        w->asked = 0;
        w->is_accepted = false;
        w->is_interrupted = w->was_accepted;
    }
}

/* Queue a state event for the subscriptions of a watch. */
static void subscriptions_report(struct tidings_client *c, const struct watch *w,
                                 enum tidings_state state, const struct tidings_error *why)
{
    struct tidings_state_event e = {
        .state = state,
        .uri = tidings_str(w->uri),
        .reason = tidings_str(why ? why->text : ""),
        .again = state == TIDINGS_STATE_WATCHING && w->is_interrupted,
        .code = why ? why->code : 0,
    };
    if (state == TIDINGS_STATE_WATCHING) {
        bool is_modern = c->era == TIDINGS_ERA_MODERN;
        e.cursor = tidings_str(is_modern ? c->resume.cursor : w->since ? w->since : "");
    }
    events_put_state(c, &e);
}

/* The first reason is used for all; the code only if all codes agree. */
static void subscriptions_note_refusal(struct tidings_client *c, const struct tidings_error *why)
{
    if (c->refusal.code == 0) {
        c->refusal = *why;
    } else if (c->refusal.code != why->code) {
        c->refusal.code = TIDINGS_E_NOTFOUND;
    }
}

void subscriptions_decide(struct tidings_client *c, struct watch *w,
                          const struct tidings_error *why)
{
    bool is_accepted = !why || why->code == 0;
    bool is_news = !w->is_decided || w->is_accepted != is_accepted;
    w->is_accepted = is_accepted;
    w->is_decided = true;
    if (!is_accepted) {
        subscriptions_note_refusal(c, why);
    }
    if (is_news) {
        subscriptions_report(c, w,
                             is_accepted       ? TIDINGS_STATE_WATCHING
                             : w->was_accepted ? TIDINGS_STATE_LOST
                                               : TIDINGS_STATE_REFUSED,
                             why);
    }
    w->was_accepted = w->was_accepted || is_accepted;
}

/* None was accepted, now or earlier: probably a wrong URI. */
static void subscriptions_give_up(struct tidings_client *c)
{
    struct tidings_error err;
    bool is_mistake = c->refusal.code == TIDINGS_E_INVALID || c->refusal.code == TIDINGS_E_LIMIT;
    tidings_fail(&err, is_mistake ? c->refusal.code : TIDINGS_E_NOTFOUND,
                 "the server accepted none of the URIs: %s", c->refusal.text);
    connection_give_up(c, &err);
}

void subscriptions_decided(struct tidings_client *c)
{
    struct tidings_error err;
    size_t accepted = 0, open = 0, live = 0;
    bool is_patient = false;
    list_each (it, next, &c->watches) {
        const struct watch *w = list_entry(it, struct watch, link);
        live += !w->is_ending;
        accepted += w->is_accepted && !w->is_ending;
        open += !w->is_decided && !w->is_ending;
        is_patient = is_patient || w->is_patient;
    }
    if (accepted == 0 && open > 0) {
        return; /* they were not part of what was asked */
    }
    if (accepted > 0 || live == 0 || is_patient) {
        c->has_watched = c->has_watched || accepted > 0;
        c->refusal.code = 0;
        comparison_decided(c);
        heartbeat_begin(c);
        c->failures = 0;
        return;
    }
    /* Resources that existed once may return, so the client retries; otherwise the URIs are
     * wrong. */
    if (c->has_watched) {
        tidings_fail(&err, TIDINGS_E_BUSY, "the server accepted none of the URIs");
        connection_lose(c, &err);
    } else {
        subscriptions_give_up(c);
    }
}

void subscriptions_notify_state(struct tidings_client *c, struct watch *w,
                                const struct tidings_state_event *e)
{
    list_each (it, next, &w->subscriptions) {
        struct client_subscription *s = list_entry(it, struct client_subscription, link);
        if (s->on_state && !s->is_ended && !client_is_stopping(c)) {
            struct tidings_state_event own = *e;
            own.subscription = &s->base;
            s->on_state(s->user, &own);
        }
    }
}

/* -------------------------------------------------------------------------------------------------
 * Reads an update and routes it to the subscriptions it concerns.
 *
 * An update without `uri` reports a change without naming the resource: profile `gateway` sends one
 * when anything may have changed. It becomes an update of each subscription it may concern, for the
 * URI subscribed to and `truncated`, so that the program reads again.
 */

/* ---- routing --------------------------------------------------------------------------------- */

/* The version that decides whether an update is new. */
enum guard {
    GUARD_NONE,    /* every update is delivered */
    GUARD_EPOCH,   /* `epoch.number` */
    GUARD_VERSION, /* in natural order */
};

/* Repeated updates are not delivered (ER-28). */
static void subscriptions_notify(struct tidings_client *c, struct watch *w,
                                 struct tidings_update *u, enum guard guard)
{
    if (guard != GUARD_NONE &&
        !resume_is_new(&c->resume, w->number, u->uri, u->version, guard == GUARD_EPOCH)) {
        return;
    }
    if (!u->synthetic) {
        comparison_on_update(c, w, u->uri, u->kind == TIDINGS_CHANGE_DELETED);
    }
    list_each (it, next, &w->subscriptions) {
        struct client_subscription *s = list_entry(it, struct client_subscription, link);
        if (!s->is_ended && !client_is_stopping(c)) {
            u->subscription = &s->base;
            s->fn(s->user, u);
        }
    }
}

/* Routes to the watch that the update names; else to the watch of its URI; else to all watches that
 * may cover it. */
static void route(struct tidings_client *c, struct tidings_update *u, enum guard guard)
{
    struct watch *w =
        u->subscribed_uri.len > 0 ? watch_find(c, u->subscribed_uri) : watch_find(c, u->uri);
    if (w && !w->is_ending) {
        subscriptions_notify(c, w, u, guard);
        legacy_on_update(c, w, u->cursor);
    } else if (u->subscribed_uri.len == 0) {
        list_each (it, next, &c->watches) {
            w = list_entry(it, struct watch, link);
            if (watch_matches(w, u->uri)) {
                subscriptions_notify(c, w, u, guard);
            }
        }
    }
}

/* Routes to the watch that the update names; else to every subscription that the server
 * accepted. */
static void route_without_uri(struct tidings_client *c, const struct tidings_update *about)
{
    struct watch *named =
        about->subscribed_uri.len > 0 ? watch_find(c, about->subscribed_uri) : NULL;
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        bool is_meant = named ? w == named : w->is_accepted;
        if (is_meant && !w->is_ending && (named || about->subscribed_uri.len == 0)) {
            struct tidings_update u = *about;
            u.uri = u.subscribed_uri = tidings_str(w->uri);
            u.kind = TIDINGS_CHANGE_UPDATED;
            u.version = STR_EMPTY;
            u.truncated = true;
            subscriptions_notify(c, w, &u, GUARD_NONE);
            legacy_on_update(c, w, u.cursor);
        }
    }
}

static struct tidings_str first_of(struct tidings_str a, struct tidings_str b)
{
    return a.len > 0 ? a : b;
}

/* Reads a version: a string, or a number as some servers send. */
static struct tidings_str version_of(struct json *meta, struct json *metadata, char number[24],
                                     enum guard *ret_guard)
{
    struct tidings_str ours = jv_str(jv_get(meta, "dev.tidings/version"));
    struct json *plain = jv_get(metadata, "version");
    bool is_number = jv_is(plain, JV_INT);
    *ret_guard = ours.len > 0 && !is_number ? GUARD_EPOCH : GUARD_VERSION;
    if (is_number) {
        snprintf(number, 24, "%" PRId64, jv_int(plain));
        return tidings_str(number);
    }
    return first_of(ours, jv_str(plain));
}

/* The kind of change that the server names; an unknown word means an ordinary change. */
static enum tidings_change_kind subscriptions_kind_of(struct tidings_str method,
                                                      struct tidings_str word)
{
    static const enum tidings_change_kind kinds[] = {TIDINGS_CHANGE_CREATED, TIDINGS_CHANGE_DELETED,
                                                     TIDINGS_CHANGE_MOVED};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (str_eq(word, tidings_str(tidings_change_name(kinds[i])))) {
            return kinds[i];
        }
    }
    bool is_deleted = word.len == 0 && str_ends(method, STR("deleted"));
    return is_deleted ? TIDINGS_CHANGE_DELETED : TIDINGS_CHANGE_UPDATED;
}

static unsigned merged_of(const struct json *merged)
{
    int64_t count = jv_is(merged, JV_INT) ? jv_int(merged) : 1;
    return count > 0 && count <= UINT_MAX ? (unsigned)count : 1;
}

/* Empty: there is none, or no memory. */
static struct tidings_str subscriptions_text(const struct tidings_client *c,
                                             const struct json *value, struct buf *out)
{
    struct jw w;
    buf_init(out, 2 * c->settings.max_bytes);
    if (value) {
        jw_init(&w, out);
        jw_value(&w, value);
    }
    return value && !out->failed ? buf_str(out) : STR_EMPTY;
}

/* Two streams are open while one replaces the other: only the new one gives the position. */
static bool is_of_current_listen(const struct tidings_client *c, struct json *meta)
{
    struct json *named = jv_get(meta, "io.modelcontextprotocol/subscriptionId");
    return !jv_is(named, JV_INT) || jv_int(named) == c->cursor_listen;
}

static void subscriptions_take_cursor(struct tidings_client *c, struct json *meta)
{
    struct tidings_str cursor = jv_str(jv_get(meta, "dev.tidings/cursor"));
    if (is_of_current_listen(c, meta) && resume_is_cursor(cursor)) {
        resume_take(&c->resume, cursor);
        c->cursor_at = clock_monotonic_ms();
    }
}

void subscriptions_bookmark(struct tidings_client *c, struct json *params)
{
    subscriptions_take_cursor(c, jv_get(params, "_meta"));
}

void subscriptions_updated(struct tidings_client *c, struct json *message, int64_t received_ms,
                           bool is_synthetic)
{
    char number[24];
    enum guard guard = GUARD_NONE;
    struct json *params = jv_get(message, "params");
    struct json *meta = jv_get(params, "_meta");
    struct json *metadata = jv_get(params, "metadata");
    struct tidings_update u = {
        .uri = jv_str(jv_get(params, "uri")),
        .subscribed_uri = first_of(jv_str(jv_get(params, "subscribedUri")),
                                   jv_str(jv_get(meta, "dev.tidings/subscribedUri"))),
        .kind = subscriptions_kind_of(jv_str(jv_get(message, "method")),
                                      jv_str(jv_get(meta, "dev.tidings/change"))),
        .from = jv_str(jv_get(meta, "dev.tidings/from")),
        .merged = merged_of(jv_get(meta, "dev.tidings/merged")),
        .caught_up = jv_is_true(jv_get(meta, "dev.tidings/caughtUp")),
        .initial = jv_is_true(jv_get(meta, "dev.tidings/initial")),
        .version = version_of(meta, metadata, number, &guard),
        .cursor = jv_str(jv_get(meta, "dev.tidings/cursor")),
        .truncated = jv_is_true(jv_get(meta, "dev.tidings/truncated")),
        .received_ms = received_ms,
        .synthetic = is_synthetic,
    };
    struct buf text, about, value;
    u.params = subscriptions_text(c, params, &text);
    u.params = u.params.len > 0 ? u.params : STR("{}");
    u.metadata =
        subscriptions_text(c, metadata ? metadata : jv_get(meta, "dev.tidings/metadata"), &about);
    u.value = subscriptions_text(c, jv_get(meta, "dev.tidings/data"), &value);
    bool is_suspended = jv_is_true(jv_get(meta, "dev.tidings/suspended"));
    if (u.uri.len > 0) {
        route(c, &u, is_suspended || u.initial || u.truncated ? GUARD_NONE : guard);
    } else {
        route_without_uri(c, &u);
    }
    subscriptions_take_cursor(c, meta);
    struct watch *over = is_suspended ? watch_find(c, first_of(u.subscribed_uri, u.uri)) : NULL;
    if (over && over->is_accepted) {
        over->is_accepted = false;
        const struct tidings_error why = {TIDINGS_E_CLOSED, "the server ended the subscription"};
        subscriptions_report(c, over, TIDINGS_STATE_LOST, &why);
    }
    buf_deinit(&text);
    buf_deinit(&about);
    buf_deinit(&value);
}
