/* SPDX-License-Identifier: MIT
 *
 * Subscriptions in the legacy era (… 2025-11-25): `resources/subscribe` per URI. The stream is
 * heard before the first of them, so that nothing they cause is missed; while the session lives,
 * what it accepted stays accepted, unless the stream was interrupted and only a cursor says where
 * to go on.
 *
 * Requests may overtake one another, so about one URI there is one at a time; and the answer to one
 * may overtake what is told on the stream. So a cursor that is told there holds for a URI only when
 * it was accepted a while before, or is what the message is about: what was told earlier may not
 * take it into account.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "client/comparison.h"
#include "client/connection.h"
#include "client/requests.h"
#include "client/state.h"
#include "client/subscriptions_private.h"
#include "json/write.h"

static bool is_pending(struct tidings_client *c)
{
    list_each (it, next, &c->watches) {
        const struct watch *w = list_entry(it, struct watch, link);
        if (!w->is_judged && !w->is_ending && !w->is_later) {
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
    if (text) { /* else the one before is good enough: something is told twice */
        mem_free(w->since);
        w->since = text;
    }
}

void legacy_on_update(struct tidings_client *c, struct watch *w, struct tidings_str cursor)
{
    bool is_early = clock_monotonic_ms() < w->accepted_at + COMPARISON_NOTICE_MS;
    if (c->era == TIDINGS_ERA_LEGACY && w->accepted_at > 0 && is_early && !w->is_doubtful) {
        keep_cursor(w, cursor);
    }
}

/* It is not accepted any more. */
static void legacy_unaccept(struct tidings_client *c, struct watch *w)
{
    if (w->accepted_at > 0 && c->cursor_at >= w->accepted_at + COMPARISON_NOTICE_MS) {
        keep_cursor(w, tidings_str(c->resume.cursor));
    }
    w->accepted_at = 0;
    w->is_accepted = false;
}

void legacy_interrupted(struct tidings_client *c, struct watch *w)
{
    if (w->asked > 0 && !w->is_leaving) { /* what it caused may have been told before the gap */
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
    if (id < 0 && !w->is_leaving) { /* leaving is tried again when the stream is heard again */
        subscriptions_judge(c, w, &err);
    }
}

/* Where a URI that was accepted begins. */
static void legacy_take_cursor(struct watch *w, const struct response *a)
{
    if (a->result && !w->since) {
        keep_cursor(w, jv_str(jv_get(jv_get(a->result, "_meta"), "dev.tidings/cursor")));
    }
}

/* The server has it now, or not. */
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
    if (!c->is_streaming) { /* told when the stream is back */
        legacy_take_answer(w, a);
        c->has_watched = c->has_watched || w->is_accepted;
        return;
    }
    if (a->why.code < 0 && !a->error) {
        connection_lose(c, &a->why); /* not a word about the URI */
        return;
    }
    bool is_accepted = a->result != NULL;
    legacy_take_cursor(w, a); /* is told with it */
    struct json *warnings = jv_get(jv_get(a->result, "_meta"), "dev.tidings/warnings");
    if (!subscriptions_put_off(c, w, jv_get(a->error, "data"))) {
        struct tidings_error why = a->why;
        if (is_accepted) {
            tidings_fail(&why, 0, "%.*s", STR_ARG(subscriptions_reason(warnings, w->uri)));
        }
        subscriptions_judge(c, w, &why);
    }
    legacy_take_answer(w, a);
    if (!is_pending(c)) {
        subscriptions_judged(c);
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
        subscriptions_judge(c, w, &why);
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
    if (!w->is_judged && c->is_streaming && !is_pending(c)) {
        subscriptions_judged(c); /* it was the last that others waited for */
    }
}

void legacy_subscribe_all(struct tidings_client *c)
{
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        if (w->is_accepted && !w->is_ending && !w->is_leaving) {
            subscriptions_judge(c, w, NULL);
        } else {
            legacy_ask(c, w); /* what was refused may be there by now */
        }
    }
    if (c->stage == STAGE_READY && !is_pending(c)) {
        subscriptions_judged(c);
    }
}
