/* SPDX-License-Identifier: MIT
 *
 * The subscriptions of a program: a watch per URI, a subscription per handler. Updates are routed
 * here; how a server is asked is in subscriptions_modern.c and subscriptions_legacy.c.
 *
 * A subscription that ends inside a callback is only marked: lists that are being walked stay as
 * they are until subscriptions_sweep.
 */
#include "client/subscriptions.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include <tidings/json.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "client/comparison.h"
#include "client/connection.h"
#include "client/events.h"
#include "client/heartbeat.h"
#include "client/state.h"
#include "client/subscriptions_private.h"
#include "json/write.h"

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
    resume_deinit(&c->resume);
}

bool subscriptions_wants(const struct tidings_client *c)
{
    return c->watch_count > 0 || c->settings.list_changes;
}

/* ---- subscribing ----------------------------------------------------------------------------- */

/* NULL with an error when `options` is no JSON object. */
static int take_options(struct watch *w, const char *options, struct tidings_error *err)
{
    char *text = options ? tidings_json_get(tidings_str(options), "") : NULL;
    if (options && (!text || text[0] != '{')) {
        mem_free(text);
        return tidings_fail(err, TIDINGS_E_INVALID, "the options of '%.80s' are no JSON object",
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

/* Whoever asks again is answered again, and told nothing of what was before. */
static void begin_anew(struct tidings_client *c, struct watch *w)
{
    comparison_forget(c, w);
    mem_free(w->since);
    w->since = NULL;
    w->accepted_at = 0;
    w->number = ++c->last_watch;
    w->is_ending = w->is_judged = w->is_accepted = w->was_accepted = w->is_interrupted = false;
}

/* The server hears of it, if it is there. */
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
    return !w->is_judged     ? TIDINGS_STATE_DISCONNECTED
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
    c->is_delivering = true; /* what ends meanwhile is only marked */
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
    heartbeat_heard(c, false); /* what it begins with is no sign of a rhythm */
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
    modern_lost(c);
    resume_interrupted(&c->resume);
    comparison_lost(c);
    heartbeat_end(c);
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        w->is_judged = false;
        if (c->has_session) {
            continue; /* it goes on when the stream is heard again */
        }
        if (c->era == TIDINGS_ERA_LEGACY) {
            legacy_lost(c, w);
        }
        w->asked = 0;
        w->is_accepted = false;
        w->is_interrupted = w->was_accepted;
    }
}

static void subscriptions_report(struct tidings_client *c, const struct watch *w,
                                 enum tidings_state state, struct tidings_str reason)
{
    struct tidings_state_event e = {
        .state = state,
        .uri = tidings_str(w->uri),
        .reason = reason,
        .again = state == TIDINGS_STATE_WATCHING && w->is_interrupted,
    };
    if (state == TIDINGS_STATE_WATCHING) {
        bool is_modern = c->era == TIDINGS_ERA_MODERN;
        e.cursor = tidings_str(is_modern ? c->resume.cursor : w->since ? w->since : "");
    }
    events_put_state(c, &e);
}

void subscriptions_judge(struct tidings_client *c, struct watch *w, bool is_accepted,
                         struct tidings_str reason)
{
    bool is_news = !w->is_judged || w->is_accepted != is_accepted;
    w->is_accepted = is_accepted;
    w->is_judged = true;
    if (is_news) {
        subscriptions_report(c, w,
                             is_accepted       ? TIDINGS_STATE_WATCHING
                             : w->was_accepted ? TIDINGS_STATE_LOST
                                               : TIDINGS_STATE_REFUSED,
                             reason);
    }
    w->was_accepted = w->was_accepted || is_accepted;
}

void subscriptions_judged(struct tidings_client *c)
{
    struct tidings_error err;
    size_t accepted = 0, open = 0, live = 0;
    bool is_patient = false;
    list_each (it, next, &c->watches) {
        const struct watch *w = list_entry(it, struct watch, link);
        live += !w->is_ending;
        accepted += w->is_accepted && !w->is_ending;
        open += !w->is_judged && !w->is_ending;
        is_patient = is_patient || w->is_patient;
    }
    if (accepted == 0 && open > 0) {
        return; /* they were not part of what was asked */
    }
    if (accepted > 0 || live == 0 || is_patient) {
        c->has_watched = c->has_watched || accepted > 0;
        comparison_judged(c);
        heartbeat_begin(c);
        c->failures = 0;
        return;
    }
    /* What was there once may be on its way back; what never was is a mistake. */
    if (c->has_watched) {
        tidings_fail(&err, TIDINGS_E_BUSY, "the server accepted none of the URIs");
        connection_lose(c, &err);
    } else {
        tidings_fail(&err, TIDINGS_E_NOTFOUND, "the server accepted none of the URIs");
        connection_give_up(c, &err);
    }
}

void subscriptions_tell_state(struct tidings_client *c, struct watch *w,
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

/* ---- routing --------------------------------------------------------------------------------- */

/* By which version an update is judged to be new. */
enum guard {
    GUARD_NONE,    /* it is told in any case */
    GUARD_EPOCH,   /* `epoch.number` */
    GUARD_VERSION, /* as people write it */
};

/* What the server told before is not told again (ER-28). */
static void subscriptions_tell(struct tidings_client *c, struct watch *w, struct tidings_update *u,
                               enum guard guard)
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

/* Those it names; else that very URI; else whoever may cover it. */
static void route(struct tidings_client *c, struct tidings_update *u, enum guard guard)
{
    struct watch *w =
        u->subscribed_uri.len > 0 ? watch_find(c, u->subscribed_uri) : watch_find(c, u->uri);
    if (w && !w->is_ending) {
        subscriptions_tell(c, w, u, guard);
        legacy_on_update(c, w, u->cursor);
    } else if (u->subscribed_uri.len == 0) {
        list_each (it, next, &c->watches) {
            w = list_entry(it, struct watch, link);
            if (watch_covers(w, u->uri)) {
                subscriptions_tell(c, w, u, guard);
            }
        }
    }
}

static struct tidings_str first_of(struct tidings_str a, struct tidings_str b)
{
    return a.len > 0 ? a : b;
}

/* A text, or a number as some servers count. */
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

/* What the server calls it; a word that is not known is a change like others. */
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

/* Two streams are heard while one replaces the other: only the one that stays says how far. */
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
    if (u.uri.len == 0) {
        return;
    }
    struct buf text, about, value;
    u.params = subscriptions_text(c, params, &text);
    u.params = u.params.len > 0 ? u.params : STR("{}");
    u.metadata =
        subscriptions_text(c, metadata ? metadata : jv_get(meta, "dev.tidings/metadata"), &about);
    u.value = subscriptions_text(c, jv_get(meta, "dev.tidings/data"), &value);
    bool is_suspended = jv_is_true(jv_get(meta, "dev.tidings/suspended"));
    route(c, &u, is_suspended || u.initial || u.truncated ? GUARD_NONE : guard);
    subscriptions_take_cursor(c, meta);
    struct watch *over = is_suspended ? watch_find(c, first_of(u.subscribed_uri, u.uri)) : NULL;
    if (over && over->is_accepted) {
        over->is_accepted = false;
        subscriptions_report(c, over, TIDINGS_STATE_LOST, STR("the server ended the subscription"));
    }
    buf_deinit(&text);
    buf_deinit(&about);
    buf_deinit(&value);
}
