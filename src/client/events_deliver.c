/* SPDX-License-Identifier: MIT
 *
 * Handing events over to the program, in a step of its own.
 */
#include "base/mem.h"
#include "client/events_private.h"
#include "client/json_text.h"
#include "client/state.h"
#include "client/subscriptions.h"
#include "client/watch.h"

bool events_is_update(struct tidings_str method)
{
    static const char *const names[] = {
        "notifications/resources/updated",
        "notifications/resources/deleted",
        "resources/updated", /* what some servers call it */
        "resources/deleted",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (str_eq(method, tidings_str(names[i]))) {
            return true;
        }
    }
    return false;
}

static void deliver_notification(struct tidings_client *c, const struct event *e)
{
    struct tidings_str method = jv_str(jv_get(e->root, "method"));
    struct json *params = jv_get(e->root, "params");
    if (c->on_notification) {
        size_t len = 0;
        char *text = params ? json_text_of(c, params, &len) : NULL;
        c->on_notification(c->notification_user, method,
                           text ? tidings_strn(text, len) : STR("{}"));
        mem_free(text);
    }
    if (events_is_update(method) && !client_is_stopping(c)) {
        subscriptions_updated(c, e->root, e->received_ms, false);
    } else if (str_eq(method, STR("notifications/dev.tidings/bookmark"))) {
        subscriptions_bookmark(c, params);
    }
}

void events_call_progress(tidings_client_progress_fn fn, void *user, struct json *params)
{
    struct json *total = jv_get(params, "total");
    bool has_total = jv_is(total, JV_INT) || jv_is(total, JV_REAL);
    fn(user, jv_real(jv_get(params, "progress")), has_total ? jv_real(total) : -1,
       jv_str(jv_get(params, "message")));
}

/* Not to those who subscribed since: what became of them is told later. */
static void deliver_state(struct tidings_client *c, const struct event *e)
{
    if (e->number != events_watch_number(c, e->state.uri)) {
        return;
    }
    struct watch *w = e->number > 0 ? watch_find(c, e->state.uri) : NULL;
    if (c->on_state) {
        c->on_state(c->state_user, &e->state); /* the watch stays until it is swept */
    }
    if (w) {
        subscriptions_tell_state(c, w, &e->state);
    }
}

static void events_deliver_one(struct tidings_client *c, struct event *e)
{
    struct tidings_str text = tidings_str(e->text ? e->text : "");
    switch (e->kind) {
    case EVENT_STATE:
        deliver_state(c, e);
        break;
    case EVENT_NOTIFICATION:
        deliver_notification(c, e);
        break;
    case EVENT_FOUND:
        subscriptions_updated(c, e->root, e->received_ms, true);
        break;
    case EVENT_ANSWER:
        e->asking.on_answer(e->asking.user, text, e->why.code < 0 ? &e->why : NULL,
                            tidings_str(e->error ? e->error : ""));
        break;
    case EVENT_PROGRESS:
        events_call_progress(e->asking.on_progress, e->asking.user, e->root);
        break;
    case EVENT_STDERR:
        c->settings.on_stderr(c->settings.stderr_user, tidings_strn(e->text, (size_t)e->number));
        break;
    }
}

void events_deliver(struct tidings_client *c)
{
    c->is_delivering = true;
    c->has_gap = false;
    while (!list_empty(&c->events) && !client_is_stopping(c)) {
        struct event *e = list_entry(c->events.next, struct event, link);
        events_remove(c, e);
        events_deliver_one(c, e);
        events_release(e);
    }
    c->is_delivering = false;
}
