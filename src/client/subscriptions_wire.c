/* SPDX-License-Identifier: MIT
 *
 * Subscriptions in the legacy era (… 2025-11-25): `resources/subscribe` per URI. The stream is open
 * before the first of them, so that the client misses none of their updates. While the session
 * lives, accepted subscriptions stay accepted, unless the stream was interrupted and only a cursor
 * can resume it.
 *
 * Requests may overtake one another, so each URI has one at a time; and the answer to a request may
 * overtake messages on the stream. So a cursor on the stream is valid for a URI only when it was
 * accepted a while before, or when the message concerns the URI: earlier messages may not take the
 * URI into account.
 */
#include "base/error.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/client.h"
#include "client/client_internal.h"
#include "client/comparison.h"
#include "client/connection.h"
#include "client/requests.h"
#include "client/subscriptions.h"
#include "formats/json_write.h"

/* -------------------------------------------------------------------------------------------------
 * Subscriptions in the modern era (2026-07-28): one `subscriptions/listen` for everything, whose
 * answer is the stream. When the set changes, the client starts another listen, and ends the
 * previous one once the new one is acknowledged, so that one is always active.
 */

#define MODERN_FADE_MS 2000u

static void open_options(struct jw *j)
{
    jw_key(j, STR("_meta"));
    jw_begin_object(j);
    jw_key(j, STR("dev.tidings/options"));
    jw_begin_object(j);
}

/* The options for all URIs, and for each, if there are any. */
static void modern_put_options(struct jw *j, const struct tidings_client *c)
{
    bool is_open = c->info.has_bookmarks, is_first = true;
    if (is_open) {
        open_options(j);
        jw_put_bool(j, STR("bookmarks"), true);
    }
    list_each (it, next, &c->watches) {
        const struct watch *w = list_entry(it, struct watch, link);
        struct buf options;
        buf_init(&options, c->settings.max_bytes);
        if (!w->is_ending) {
            resume_put_options(w->options, w->was_accepted ? c->resume.cursor : "", false,
                               &options);
        }
        if (options.failed || options.len == 0) {
            buf_deinit(&options);
            continue;
        }
        if (!is_open) {
            open_options(j);
            is_open = true;
        }
        if (is_first) {
            jw_key(j, STR("uris"));
            jw_begin_object(j);
        }
        is_first = false;
        jw_put_raw(j, tidings_str(w->uri), buf_str(&options));
        buf_deinit(&options);
    }
    if (!is_first) {
        jw_end_object(j);
    }
    if (is_open) {
        jw_end_object(j);
        jw_end_object(j);
    }
}

/* How many URIs. */
static size_t modern_put_params(struct buf *out, const struct tidings_client *c)
{
    size_t count = 0;
    struct jw j;
    jw_init(&j, out);
    jw_begin_object(&j);
    jw_key(&j, STR("notifications"));
    jw_begin_object(&j);
    list_each (it, next, &c->watches) {
        const struct watch *w = list_entry(it, struct watch, link);
        if (w->is_ending) {
            continue;
        }
        if (count++ == 0) {
            jw_key(&j, STR("resourceSubscriptions"));
            jw_begin_array(&j);
        }
        jw_string(&j, tidings_str(w->uri));
    }
    if (count > 0) {
        jw_end_array(&j);
    }
    if (c->settings.list_changes) {
        jw_put_bool(&j, STR("resourcesListChanged"), true);
        jw_put_bool(&j, STR("toolsListChanged"), true);
        jw_put_bool(&j, STR("promptsListChanged"), true);
    }
    jw_end_object(&j);
    modern_put_options(&j, c);
    jw_end_object(&j);
    return count;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void modern_drop_listen(struct tidings_client *c, int64_t *listen)
{
    int64_t id = *listen;
    *listen = 0;
    if (id > 0) {
        requests_cancel(c, id);
    }
}

static void drop_fading(struct loop_timer *timer, void *user)
{
    struct tidings_client *c = user;
    (void)timer;
    for (size_t i = 0; i < CLIENT_MAX_FADING; i++) {
        modern_drop_listen(c, &c->fading[i]);
    }
}

/* Removes the listen from the fading ones. Returns true if it was one. */
static bool has_faded(struct tidings_client *c, int64_t id)
{
    for (size_t i = 0; i < CLIENT_MAX_FADING; i++) {
        if (c->fading[i] == id) {
            c->fading[i] = 0;
            return true;
        }
    }
    return false;
}

void modern_lost(struct tidings_client *c)
{
    loop_timer_stop(&c->change);
    loop_timer_stop(&c->patience);
    loop_timer_stop(&c->fade);
    c->is_stale = false;
    modern_drop_listen(c, &c->coming);
    modern_drop_listen(c, &c->listen);
    drop_fading(&c->fade, c);
}

/* It ended cleanly, with a result or a cancellation; otherwise the server or the network failed. */
static void ended(struct tidings_client *c, bool is_in_order)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_CLOSED,
                 is_in_order ? "the server ended the stream" : "the stream broke off");
    connection_lose(c, &why);
}

static void on_listen_ended(void *user, const struct response *a)
{
    struct tidings_client *c = user;
    bool is_coming = a->id == c->coming;
    if (has_faded(c, a->id)) {
        return;
    }
    if ((!is_coming && a->id != c->listen) || c->stage != STAGE_READY) {
        return;
    }
    if (is_coming) {
        c->coming = 0;
        loop_timer_stop(&c->patience);
    } else {
        c->listen = 0;
    }
    if (is_coming && a->error && a->why.code == TIDINGS_E_UNSUPPORTED && c->listen == 0) {
        connection_fall_back(c);
    } else if (a->result || a->why.code == TIDINGS_E_CLOSED) {
        ended(c, a->result != NULL);
    } else {
        connection_lose(c, &a->why);
    }
}

void subscriptions_cancelled(struct tidings_client *c, int64_t id)
{
    if (id > 0 && (id == c->listen || id == c->coming) && c->stage == STAGE_READY) {
        ended(c, true);
    }
}

static void on_patience(struct loop_timer *timer, void *user)
{
    struct tidings_client *c = user;
    struct tidings_error why;
    (void)timer;
    if (c->held > 0) { /* a person is logging in */
        loop_timer_start(&c->patience, c->settings.timeout_ms, 0);
        return;
    }
    tidings_fail(&why, TIDINGS_E_TIMEOUT, "the server did not acknowledge within %u ms",
                 c->settings.timeout_ms);
    connection_lose(c, &why);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static void modern_begin(struct loop_timer *timer, void *user)
{
    struct tidings_client *c = user;
    struct tidings_error err = {0};
    struct buf params;
    (void)timer;
    if (c->stage != STAGE_READY || c->era != TIDINGS_ERA_MODERN) {
        return;
    }
    if (c->coming > 0) {
        c->is_stale = true; /* one after the other */
        return;
    }
    buf_init(&params, c->settings.max_bytes);
    if (modern_put_params(&params, c) == 0 && !c->settings.list_changes) {
        buf_deinit(&params);
        modern_drop_listen(c, &c->listen);
        return;
    }
    struct request_options a = {.method = "subscriptions/listen",
                                .params = buf_str(&params),
                                .fn = on_listen_ended,
                                .user = c,
                                .is_stream = true};
    int64_t id = params.failed ? tidings_fail(&err, params.failed, "too many URIs to watch")
                               : requests_start(c, &a, &err);
    buf_deinit(&params);
    if (id < 0) {
        connection_lose(c, &err);
        return;
    }
    c->coming = id;
    c->is_stale = false;
    loop_timer_start(&c->patience, c->settings.timeout_ms, 0);
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        w->asked = w->is_ending ? 0 : id;
    }
}

/* Replaces the listen by `coming`. With a cursor the new one starts where the old one was;
 * otherwise the old one stays open for a while for the updates it still holds back. */
static void modern_replace_listen(struct tidings_client *c)
{
    const size_t last = CLIENT_MAX_FADING - 1;
    if (c->resume.cursor[0] == '\0' && c->listen > 0) {
        modern_drop_listen(c, &c->fading[last]);
        memmove(&c->fading[1], &c->fading[0], last * sizeof(c->fading[0]));
        c->fading[0] = c->listen;
        loop_timer_start(&c->fade, MODERN_FADE_MS, 0);
    } else {
        modern_drop_listen(c, &c->listen);
    }
    c->listen = c->cursor_listen = c->coming;
    c->coming = 0;
}

void modern_init(struct tidings_client *c)
{
    loop_timer_init(&c->fade, c->loop, drop_fading, c);
    loop_timer_init(&c->change, c->loop, modern_begin, c);
    loop_timer_init(&c->patience, c->loop, on_patience, c);
}

/* Programs may add many in a row: they share one listen. */
void modern_changed(struct tidings_client *c)
{
    if (!loop_timer_is_running(&c->change)) {
        loop_timer_start(&c->change, 0, 0);
    }
}

/* ---- acknowledged ---------------------------------------------------------------------------- */

/* The entry of `uri`: `{"<uri>": "why"}`, `{"<uri>": {"reason": "why"}}` or `[{"uri": …, "reason":
 * …}]`. */
static struct json *entry_of(struct json *given, const char *uri)
{
    struct json *entry = jv_get(given, uri);
    for (size_t i = 0; !entry && jv_is(given, JV_ARRAY) && i < jv_count(given); i++) {
        struct json *e = jv_at(given, i);
        entry = str_eq(jv_str(jv_get(e, "uri")), tidings_str(uri)) ? e : NULL;
    }
    return entry;
}

/* The reason given for `uri` among refusals or warnings; empty: none. */
static struct tidings_str subscriptions_reason(struct json *given, const char *uri)
{
    struct json *entry = entry_of(given, uri);
    struct tidings_str reason =
        jv_is(entry, JV_STRING) ? jv_str(entry) : jv_str(jv_get(entry, "reason"));
    return reason.len > 0 ? reason : jv_str(jv_get(entry, "message"));
}

/* `data` has the form of an error's data. */
static void refusal(struct json *refused, const char *uri, struct tidings_error *ret)
{
    struct tidings_str reason = subscriptions_reason(refused, uri);
    reason = reason.len > 0 ? reason : STR("the server does not offer it for watching");
    int code = errors_from_reason(jv_get(entry_of(refused, uri), "data"));
    tidings_fail(ret, code < 0 ? code : TIDINGS_E_NOTFOUND, "%.*s", STR_ARG(reason));
}

static bool has_uri(struct json *list, const char *uri)
{
    for (size_t k = 0; k < jv_count(list); k++) {
        if (str_eq(jv_str(jv_at(list, k)), tidings_str(uri))) {
            return true;
        }
    }
    return false;
}

void subscriptions_acknowledged(struct tidings_client *c, struct json *params, int64_t exchange)
{
    struct json *meta = jv_get(params, "_meta");
    struct json *list = jv_get(jv_get(params, "notifications"), "resourceSubscriptions");
    struct json *warnings = jv_get(meta, "dev.tidings/warnings");
    struct json *named = jv_get(meta, "io.modelcontextprotocol/subscriptionId");
    int64_t id = jv_is(named, JV_INT) ? jv_int(named) : exchange;
    if (c->coming == 0 || id != c->coming || c->stage != STAGE_READY) {
        return;
    }
    loop_timer_stop(&c->patience);
    modern_replace_listen(c);
    resume_take(&c->resume, jv_str(jv_get(meta, "dev.tidings/cursor")));
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        if (w->asked == id && !w->is_ending) {
            struct json *refused = jv_get(meta, "dev.tidings/refused");
            bool is_accepted = has_uri(list, w->uri);
            struct tidings_error why;
            if (is_accepted) {
                tidings_fail(&why, 0, "%.*s", STR_ARG(subscriptions_reason(warnings, w->uri)));
            } else {
                refusal(refused, w->uri, &why);
            }
            struct json *data = jv_get(entry_of(refused, w->uri), "data");
            if (is_accepted || !subscriptions_put_off(c, w, data)) {
                subscriptions_decide(c, w, &why);
            }
        }
    }
    if (c->is_stale) {
        modern_changed(c);
    }
    subscriptions_decided(c);
}

/* ---------------------------------------------------------------------------------------------- */

static bool is_pending(struct tidings_client *c)
{
    list_each (it, next, &c->watches) {
        const struct watch *w = list_entry(it, struct watch, link);
        if (!w->is_decided && !w->is_ending && !w->is_later) {
            return true;
        }
    }
    return false;
}

static struct watch *find_asked(struct tidings_client *c, int64_t id)
{
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        if (w->asked == id) {
            return w;
        }
    }
    return NULL;
}

/* ---- where to go on -------------------------------------------------------------------------- */

static void keep_cursor(struct watch *w, struct tidings_str cursor)
{
    char *text = resume_is_cursor(cursor) ? str_dup(cursor) : NULL;
    if (text) { /* else the previous cursor is sufficient: some updates are repeated */
        mem_free(w->since);
        w->since = text;
    }
}

void legacy_on_update(struct tidings_client *c, struct watch *w, struct tidings_str cursor)
{
    bool is_early = clock_monotonic_ms() < w->accepted_at + COMPARISON_NOTIFY_MS;
    if (c->era == TIDINGS_ERA_LEGACY && w->accepted_at > 0 && is_early && !w->is_doubtful) {
        keep_cursor(w, cursor);
    }
}

/* The watch is no longer accepted. */
static void legacy_unaccept(struct tidings_client *c, struct watch *w)
{
    if (w->accepted_at > 0 && c->cursor_at >= w->accepted_at + COMPARISON_NOTIFY_MS) {
        keep_cursor(w, tidings_str(c->resume.cursor));
    }
    w->accepted_at = 0;
    w->is_accepted = false;
}

void legacy_interrupted(struct tidings_client *c, struct watch *w)
{
    if (w->asked > 0 && !w->is_leaving) { /* its updates may have come before the gap */
        requests_forget(c, w->asked);
        w->asked = 0;
    }
    if (!w->is_accepted) {
        return;
    }
    w->is_interrupted = w->was_accepted;
    if (w->since) {
        legacy_unaccept(c, w);
    }
}

void legacy_lost(struct tidings_client *c, struct watch *w)
{
    if (w->asked > 0) {
        requests_forget(c, w->asked);
    }
    legacy_unaccept(c, w);
    c->has_ended = c->has_ended || w->is_leaving;
    w->is_named = w->is_leaving = false;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void legacy_send(struct tidings_client *c, struct watch *w, const char *method,
                        response_fn fn, struct tidings_str options)
{
    struct buf params;
    struct jw j;
    struct tidings_error err = {0};
    buf_init(&params, c->settings.max_bytes);
    jw_init(&j, &params);
    jw_begin_object(&j);
    if (options.len > 0) {
        jw_key(&j, STR("_meta"));
        jw_begin_object(&j);
        jw_put_raw(&j, STR("dev.tidings/options"), options);
        jw_end_object(&j);
    }
    jw_put_string(&j, STR("uri"), tidings_str(w->uri));
    jw_end_object(&j);
    struct request_options a = {.method = method, .params = buf_str(&params), .fn = fn, .user = c};
    int64_t id = params.failed ? tidings_fail(&err, params.failed, "the options are too long")
                               : requests_start(c, &a, &err);
    buf_deinit(&params);
    w->asked = id > 0 ? id : 0;
    if (id < 0 && !w->is_leaving) { /* the client retries to leave when the stream is open again */
        subscriptions_decide(c, w, &err);
    }
}

/* Takes the start position of an accepted URI. */
static void legacy_take_cursor(struct watch *w, const struct response *a)
{
    if (a->result && !w->since) {
        keep_cursor(w, jv_str(jv_get(jv_get(a->result, "_meta"), "dev.tidings/cursor")));
    }
}

/* Notes whether the server has the subscription now. */
static void legacy_take_answer(struct watch *w, const struct response *a)
{
    w->is_accepted = a->result != NULL;
    w->accepted_at = w->is_accepted ? clock_monotonic_ms() : 0;
    legacy_take_cursor(w, a);
}

static void on_subscribed(void *user, const struct response *a)
{
    struct tidings_client *c = user;
    struct watch *w = find_asked(c, a->id);
    if (!w) {
        return;
    }
    w->asked = 0;
    if (w->is_leaving) {
        legacy_ask(c, w);
        return;
    }
    if (!c->is_streaming) { /* reported when the stream is back */
        legacy_take_answer(w, a);
        c->has_watched = c->has_watched || w->is_accepted;
        return;
    }
    if (a->why.code < 0 && !a->error) {
        connection_lose(c, &a->why); /* the answer does not concern the URI */
        return;
    }
    bool is_accepted = a->result != NULL;
    legacy_take_cursor(w, a); /* the state event contains it */
    struct json *warnings = jv_get(jv_get(a->result, "_meta"), "dev.tidings/warnings");
    if (!subscriptions_put_off(c, w, jv_get(a->error, "data"))) {
        struct tidings_error why = a->why;
        if (is_accepted) {
            tidings_fail(&why, 0, "%.*s", STR_ARG(subscriptions_reason(warnings, w->uri)));
        }
        subscriptions_decide(c, w, &why);
    }
    legacy_take_answer(w, a);
    if (!is_pending(c)) {
        subscriptions_decided(c);
    }
}

static void on_unsubscribed(void *user, const struct response *a)
{
    struct tidings_client *c = user;
    struct watch *w = find_asked(c, a->id);
    if (!w) {
        return;
    }
    w->asked = 0;
    if (!a->result && !a->error) {
        connection_lose(c, &a->why); /* it may be subscribed to, or not */
        return;
    }
    w->is_named = w->is_leaving = false;
    c->has_ended = true;
    legacy_ask(c, w);
}

static void legacy_subscribe(struct tidings_client *c, struct watch *w)
{
    struct buf options;
    buf_init(&options, c->settings.max_bytes);
    resume_put_options(w->options, w->was_accepted && w->since ? w->since : "",
                       c->info.has_bookmarks, &options);
    if (options.failed) {
        const struct tidings_error why = {TIDINGS_E_LIMIT, "the options are too long"};
        subscriptions_decide(c, w, &why);
    } else {
        w->is_doubtful = w->is_named;
        w->is_named = true;
        legacy_send(c, w, "resources/subscribe", on_subscribed, buf_str(&options));
    }
    buf_deinit(&options);
}

void legacy_ask(struct tidings_client *c, struct watch *w)
{
    if (w->asked > 0 || c->stage != STAGE_READY) {
        return;
    }
    if (w->is_leaving) {
        legacy_send(c, w, "resources/unsubscribe", on_unsubscribed, STR_EMPTY);
    } else if (!w->is_ending && !w->is_accepted && c->is_streaming) {
        legacy_subscribe(c, w);
    }
}

void legacy_ended(struct tidings_client *c, struct watch *w)
{
    legacy_ask(c, w);
    if (!w->is_decided && c->is_streaming && !is_pending(c)) {
        subscriptions_decided(c); /* it was the last one that others waited for */
    }
}

void legacy_subscribe_all(struct tidings_client *c)
{
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        if (w->is_accepted && !w->is_ending && !w->is_leaving) {
            subscriptions_decide(c, w, NULL);
        } else {
            legacy_ask(c, w); /* a resource that was refused may exist by now */
        }
    }
    if (c->stage == STAGE_READY && !is_pending(c)) {
        subscriptions_decided(c);
    }
}
