/* SPDX-License-Identifier: MIT
 *
 * The subscriptions of a program: a watch per URI, a subscription per handler. Updates are routed
 * in subscriptions_update.c; how a server is asked is in subscriptions_modern.c and
 * subscriptions_legacy.c.
 *
 * A subscription that ends inside a callback is only marked: lists that are being walked stay as
 * they are until subscriptions_sweep.
 */
#include "client/subscriptions.h"

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
    c->refusal.code = 0;
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

void subscriptions_report(struct tidings_client *c, const struct watch *w, enum tidings_state state,
                          const struct tidings_error *why)
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

/* The first reason stands for all; what kind it is only when they agree. */
static void subscriptions_note_refusal(struct tidings_client *c, const struct tidings_error *why)
{
    if (c->refusal.code == 0) {
        c->refusal = *why;
    } else if (c->refusal.code != why->code) {
        c->refusal.code = TIDINGS_E_NOTFOUND;
    }
}

void subscriptions_judge(struct tidings_client *c, struct watch *w, const struct tidings_error *why)
{
    bool is_accepted = !why || why->code == 0;
    bool is_news = !w->is_judged || w->is_accepted != is_accepted;
    w->is_accepted = is_accepted;
    w->is_judged = true;
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

/* None was accepted, and none ever was: a mistake. */
static void subscriptions_give_up(struct tidings_client *c)
{
    struct tidings_error err;
    bool is_mistake = c->refusal.code == TIDINGS_E_INVALID || c->refusal.code == TIDINGS_E_LIMIT;
    tidings_fail(&err, is_mistake ? c->refusal.code : TIDINGS_E_NOTFOUND,
                 "the server accepted none of the URIs: %s", c->refusal.text);
    connection_give_up(c, &err);
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
        c->refusal.code = 0;
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
        subscriptions_give_up(c);
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
